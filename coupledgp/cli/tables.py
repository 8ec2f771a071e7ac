"""Tables by pandas: CSV in its usual forms, Parquet, JSON, Excel and points; columns by name."""

from __future__ import annotations

import csv
import difflib
import io
import json
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from coupledgp.cli.shared import DASH, notice, on_disk
from coupledgp.errors import InvalidInputError, MissingLibraryError
from coupledgp.ground.extras import library
from coupledgp.ground.validation import json_values
from coupledgp.random import FloatArray

PARQUET, EXCEL = (".parquet", ".pq"), (".xlsx", ".xls", ".ods")
# Formats of tables that are written, and files of points, whose coordinates become columns.
WRITTEN = (".csv", ".tsv", ".json", *PARQUET)
POINTS = (".gpkg", ".geojson", ".shp", ".fgb")
MISSING = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "#N/A"]
TRUE, FALSE = (
    ["true", "True", "TRUE", "yes", "Yes", "YES"],
    ["false", "False", "FALSE", "no", "No", "NO"],
)
MARKS = ((b"\xff\xfe\x00\x00", "utf-32"), (b"\x00\x00\xfe\xff", "utf-32"), (b"\xff\xfe", "utf-16"),
         (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig"))  # fmt: skip
DATE = re.compile(r"\d{4}-\d\d-\d\d")
# A unit at the end of a name, such as X_mm, x (m) or depth [km].
UNIT = re.compile(r"[\s_.-]*[\[(\s_](mm|cm|m|km|in|ft|px|deg|degrees)[\])]?$", re.IGNORECASE)
DEGREES = (("longitude", "lon", "lng", "long"), ("latitude", "lat"))
X, Y, Z = ((k, f"p{k}", f"pos{k}", f"{k}pos", f"coord{k}", f"{k}coord") for k in "xyz")
XY, XYZ = (X, Y), (X, Y, Z)
METRES = (("east", "easting"), ("north", "northing"))
NODES = (("node", "nodeid", "sensor", "sensorid", "station", "stationid", "detector", "id"),)
TIMES = (("time", "timestamp", "datetime", "date", "t", "hour", "day"),)
ENDS = (("source", "from", "u", "fromnode"), ("target", "to", "v", "tonode"))


def read_table(path: Path, as_text: Sequence[str] | None = ()) -> pd.DataFrame:
    """Read a table by the ending of its path; a pipe by its content.

    CSV has a header, delimiter comma, semicolon or tab, and is compressed or not; between
    semicolons or tabs decimals may stand behind a comma. Text that is all dates by ISO 8601 is
    dates, and all true/false or yes/no is Booleans.

    Parameters
    ----------
    path
        The file, or `-`.
    as_text
        Columns that are read as text, as they stand; None: all.

    Raises
    ------
    InvalidInputError
        The content is no table, or its columns have no or equal names.
    """
    source = on_disk(path)
    kind = path.suffix.lower() if source == path else _kind(source, path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # it drops cells
            frame = _read(source, kind, as_text)
    except ImportError as error:
        raise MissingLibraryError(f"{path}: {error}") from error
    except (ValueError, OSError, RuntimeError, TypeError, KeyError, EOFError, csv.Error,
            pd.errors.ParserWarning, InvalidInputError) as error:  # fmt: skip
        if isinstance(error, OSError) and error.errno is not None and error.filename is not None:
            raise
        text = " ".join(str(error).split()).replace(str(source), "the file")
        raise InvalidInputError(f"{path}: expected a table: {text:.300}") from error
    names = [str(name) for name in frame.columns]
    for name, count in Counter(names).items():
        if count > 1:
            raise InvalidInputError(f"{path}: column {name!r} appears more than once")
    return frame.set_axis(names, axis=1)


def _kind(source: Path, path: Path) -> str:
    """The format of a pipe: by its name, else by its first bytes."""
    if path.suffix and str(path) != DASH:
        return path.suffix.lower()
    with source.open("rb") as file:
        start = file.read(64).lstrip()
    return ".parquet" if start.startswith(b"PAR1") else ".json" if start[:1] in b"[{" else ".csv"


def _read(source: Path, kind: str, as_text: Sequence[str] | None) -> pd.DataFrame:
    if kind in PARQUET:
        return pd.read_parquet(source)
    if kind in EXCEL:
        return pd.read_excel(source)
    if kind in POINTS:
        from coupledgp.fields.road_files import read_layer
        from coupledgp.ground.forms import with_coordinates

        library("geopandas", "reading points")
        return pd.DataFrame(
            with_coordinates(read_layer(source, None, "Point"), None, "geometry")[0]
        )
    if kind in (".json", ".jsonl"):
        return _as_read(_records(source.read_text("utf-8")), as_text)
    with pd.io.common.get_handle(source, "rb", compression="infer", is_text=False) as handle:
        content: bytes = handle.handle.read()
    mark = next((name for start, name in MARKS if content.startswith(start)), "utf-8")
    text = content.decode(mark).lstrip("\r\n ")
    if "\0" in text:
        raise InvalidInputError("a CSV file with a header line has no null characters")
    header = re.split(r"[\r\n]", text, maxsplit=1)[0]
    if not header.strip():
        raise InvalidInputError("a CSV file with a header line; it is empty")
    delimiter = max(",;\t", key=re.sub(r'"[^"]*"', "", header).count)
    names = next(csv.reader([header], delimiter=delimiter))
    if len(set(names)) < len(names):
        again = next(name for name, count in Counter(names).items() if count > 1)
        raise InvalidInputError(f"column {again!r} appears more than once")
    if as_text is None:
        return pd.read_csv(io.StringIO(text), sep=delimiter, dtype=str, keep_default_na=False,
                           index_col=False)  # fmt: skip
    frame = pd.read_csv(
        io.StringIO(text), sep=delimiter, decimal=_decimal(text, delimiter), index_col=False,
        dtype=dict.fromkeys([name for name in as_text if name in names], str), low_memory=False,
        keep_default_na=False, na_values=MISSING,
    )  # fmt: skip
    return _as_read(frame, as_text)


def _records(text: str) -> pd.DataFrame:
    """JSON: an array of objects, a row each, or one object a line."""
    try:
        rows = json.loads(text)
    except ValueError:
        rows = [json.loads(line) for line in text.splitlines() if line.strip()]
    rows = rows if isinstance(rows, list) else [rows]
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise InvalidInputError("JSON of a table is an array of objects, a row each")
    return pd.DataFrame(rows)


def _decimal(text: str, delimiter: str) -> str:
    """A comma where fields have one before decimals, and none of them a point."""
    field = r'(?:^|[;\t"\r\n])[-+]?\d+%s\d+(?:[eE][-+]?\d+)?(?=[;\t"\r\n]|$)'
    if delimiter == "," or re.search(field % r"\.", text) or not re.search(field % ",", text):
        return "."
    return ","


def _as_read(frame: pd.DataFrame, as_text: Sequence[str] | None) -> pd.DataFrame:
    """Text that is all dates as dates, and text that is all yes or no as Booleans."""
    for name in frame.columns:
        column = frame[name]
        if name in (as_text or ()) or not is_text(column):
            continue
        there = column.dropna()
        if not len(there) or not all(isinstance(value, str) for value in there):
            continue
        if set(there) <= {*TRUE, *FALSE}:
            values = [None if pd.isna(one) else one in TRUE for one in column]
            frame[name] = pd.Series(values, column.index, bool if None not in values else object)
        elif DATE.match(there.iloc[0]):
            with suppress(ValueError):
                frame[name] = pd.to_datetime(column, format="ISO8601")
    return frame


def is_text(column: pd.Series) -> bool:
    """Whether a column holds texts or objects."""
    return bool(pd.api.types.is_string_dtype(column) or pd.api.types.is_object_dtype(column))


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """Write a table in the format that the ending of its path names."""
    kind = path.suffix.lower()
    if kind in PARQUET:
        frame.to_parquet(path, index=False)
    elif kind == ".json":
        rows = json_values(frame.astype(object).where(frame.notna(), None).to_dict("records"))
        lines = ",\n".join(json.dumps(row, default=str) for row in rows)
        path.write_text(f"[\n{lines}\n]\n", "utf-8")
    else:
        frame.to_csv(path, index=False, sep="\t" if kind == ".tsv" else ",")


def check_columns(frame: pd.DataFrame, names: Iterable[str], source: object) -> None:
    """Refuse names that are not columns of the table; the error suggests the nearest column."""
    known = [str(name) for name in frame.columns]
    lacking = [name for name in names if name not in known]
    if lacking:
        near = difflib.get_close_matches(lacking[0], known, n=1, cutoff=0.5)
        near = near or [name for name in known if name.strip().lower() == lacking[0].lower()]
        hint = f" (did you mean {near[0]!r}?)" if near and len(lacking) == 1 else ""
        label = "column" if len(lacking) == 1 else "columns"
        raise InvalidInputError(
            f"{source}: expected {label} {listed(lacking)}, got columns {listed(known)}{hint}"
        )


def listed(names: Sequence[str]) -> str:
    """The first names of a list, and how many more there are."""
    shown = ", ".join(map(repr, names[:12]))
    return shown if len(names) <= 12 else f"{shown} and {len(names) - 12} more"


def numbers(frame: pd.DataFrame, name: str, source: object, missing: bool = False) -> FloatArray:
    """A column as float64 (n,), NaN where a value is missing.

    Raises
    ------
    InvalidInputError
        A value is no number, or infinite, or missing where it may not be; the row is named.
    """
    column, where = frame[name], f"{source}: column {name!r}"
    if pd.api.types.is_datetime64_any_dtype(column):
        raise InvalidInputError(f"{where}: expected numbers, got dates")
    values = pd.to_numeric(column, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    lost = np.flatnonzero(np.isnan(values) & column.notna().to_numpy())
    if is_text(column):
        lost = lost[[str(column.iloc[k]).strip() not in (*MISSING, "-") for k in lost]]
    bad = lost if missing else np.flatnonzero(np.isnan(values))
    bad = np.sort(np.concatenate([bad, np.flatnonzero(np.isinf(values))]))
    if bad.size:
        value = column.iloc[bad[0]]
        got = (
            "a missing value"
            if pd.isna(value)
            else repr(value)
            if isinstance(value, str)
            else value
        )
        raise InvalidInputError(
            f"{where}, data row {bad[0] + 1}: expected a number, got {got!s:.60}"
        )
    return values


def texts(frame: pd.DataFrame, name: str, source: object, what: str = "a node") -> list[str]:
    """A column as texts; a missing one is refused."""
    column = frame[name]
    found = ["" if pd.isna(value) else str(value).strip() for value in column]
    if "" in found:
        row = found.index("") + 1
        raise InvalidInputError(
            f"{source}: column {name!r}, data row {row}: expected {what}, got none"
        )
    return found


def dates(frame: pd.DataFrame, name: str, source: object, form: str | None, hint: str) -> Any:
    """A column as times: numbers as they are, texts by ISO 8601 or by a format.

    `hint` names the option of the format. With a time zone times are in UTC.
    """
    column, where = frame[name], f"{source}: column {name!r}"
    if column.isna().any():
        row = int(np.flatnonzero(column.isna())[0]) + 1
        raise InvalidInputError(f"{where}, data row {row}: expected a time, got a missing value")
    if form is None and (not is_text(column) or not all(isinstance(one, str) for one in column)):
        return column
    if form is None:
        with suppress(ValueError):
            return pd.to_numeric(column)
    for zoned in (False, True):
        with suppress(ValueError, OverflowError):
            return pd.to_datetime(column, format=form or "ISO8601", utc=zoned)
    found = pd.to_datetime(column, format=form or "ISO8601", utc=True, errors="coerce").isna()
    row = int(np.flatnonzero(found)[0]) if found.any() else 0
    iso = form in (None, "ISO8601")
    wanted = "a time by ISO 8601, such as 2024-05-31 14:00" if iso else f"a time like {form}"
    raise InvalidInputError(f"{where}, data row {row + 1}: expected {wanted}, got "
                            f"{str(column.iloc[row])!r:.60}; {hint}")  # fmt: skip


def plain(name: str) -> str:
    """A name in small letters, without its unit and without marks."""
    return re.sub(r"[\W_]+", "", UNIT.sub("", name.strip())).lower()


def guessed(
    path: Path, names: Sequence[str], words: Sequence[Sequence[str]], what: str, option: str
) -> list[str] | None:
    """One column for each list of words, said in a notice; None where one has none or several."""
    exact = [[name for name in names if name == own[0]] for own in words]
    found = [
        one or [n for n in names if plain(n) in own] for one, own in zip(exact, words, strict=True)
    ]
    if not all(len(own) == 1 for own in found):
        return None
    columns = [own[0] for own in found]
    if columns != [own[0] for own in words]:
        notice(f"{path}: {what} are {listed(columns)} ({option} names others)")
    return columns


def value_column(path: Path, frame: pd.DataFrame, taken: Sequence[str], given: str | None) -> str:
    """The column of values: the given one, `value`, or the only one of numbers beside others."""
    names = [str(name) for name in frame.columns]
    if given is not None:
        check_columns(frame, [given], f"--target: {path}")
        return given
    others = [name for name in names if name not in taken]
    if len(others) == 1 or "value" in others:
        return "value" if "value" in others else others[0]
    left = [name for name in others if not _is_name(name)]
    for kept in (left, [name for name in left if not is_text(frame[name])]):
        if len(kept) == 1:
            notice(f"{path}: values are {kept[0]!r} (--target names another)")
            return kept[0]
    raise InvalidInputError(
        f"--target: {path}: expected one column of values, got {listed(left or others)}"
    )


def _is_name(name: str) -> bool:
    """Whether a column names a row rather than holding a value."""
    text = plain(name)
    named = text.endswith(("id", "name")) or text.startswith(("index", "unnamed"))
    return named or text in ("", "label", *NODES[0])


def node_column(path: Path, frame: pd.DataFrame, given: str | None) -> str:
    """The column of nodes: the given one, `node`, or one of a similar name."""
    if given is None:
        found = guessed(path, list(frame.columns), NODES, "nodes", "--node-column")
        if found is not None:
            return found[0]
    check_columns(frame, [given or "node"], f"--node-column: {path}")
    return given or "node"
