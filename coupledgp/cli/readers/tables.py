"""Tables in CSV and Parquet: columns by name, numbers checked, errors that name the place."""

from __future__ import annotations

import csv
import difflib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from coupledgp.cli.readers.files import SMALL, on_disk
from coupledgp.cli.readers.text import read_text_table
from coupledgp.errors import InvalidInputError
from coupledgp.ground.memory import check_memory
from coupledgp.ground.validation import json_values
from coupledgp.random import FloatArray

PARQUET, JSON = (".parquet", ".pq"), ".json"
DELIMITERS = {".csv": ",", ".tsv": "\t"}
PARQUET_MARK = b"PAR1"
# Files of points, whose coordinates become columns.
POINTS = (".gpkg", ".geojson", ".shp", ".fgb")
# Most characters of another library's message on a file.
LONGEST_MESSAGE = 300


def read_table(
    path: Path,
    text_columns: bool = False,
    as_text: Sequence[str] = (),
    missing_text: bool = False,
) -> pa.Table:
    """Read a Parquet file or one of points (by its extension), or a CSV file, compressed or not.

    Parameters
    ----------
    path
        CSV with a header line, delimiter comma, semicolon or tab, see `read_text_table`; or
        Parquet; or a layer of points, whose coordinates are the first columns.
    text_columns
        Read every column of a CSV file as text, as it stands.
    as_text
        Columns of a CSV file that are read as text.
    missing_text
        In a CSV file, read empty cells of text, and NA, N/A, NaN and null, as missing, as they are
        among numbers, and yes and no as Booleans.

    Raises
    ------
    InvalidInputError
        The content is no table, or its columns have no or equal names.
    OSError
        The file cannot be read.
    """
    source = on_disk(path)
    parquet = holds_parquet(path, source)
    try:
        if path.suffix.lower() in POINTS:
            return _read_points(source)
        if parquet:
            table = _read_parquet(source)
        else:
            table = read_text_table(source, None if text_columns else as_text, missing_text)
    except (pa.ArrowException, UnicodeError, csv.Error, NotImplementedError) as error:
        kind = "a Parquet file" if parquet else "a CSV file with a header line"
        kind += " in UTF-8" if isinstance(error, UnicodeError) else ""
        raise InvalidInputError(f"{path}: expected {kind}: {_one_line(error, source)}") from error
    except OSError as error:
        if error.filename is not None:
            raise
        raise InvalidInputError(f"{path}: expected a table: {_one_line(error, source)}") from error
    except InvalidInputError as error:
        raise InvalidInputError(f"{path}: {error}") from None
    for name, count in Counter(table.column_names).items():
        if count > 1:
            raise InvalidInputError(
                f"{path}: column {name!r} appears more than once; expected a line of names first. "
                "A matrix of weights is no table: give its edges as columns source, target, weight"
                if is_number(name)
                else f"{path}: column {name!r} appears more than once"
            )
    return table


def _read_points(source: Path) -> pa.Table:
    """Longitude and latitude of points in degrees, else x and y, and their other columns."""
    from coupledgp.formats.road_lines import read_layer
    from coupledgp.graphs.forms import with_coordinates

    found, _ = with_coordinates(read_layer(source, None, "Point"), None, "geometry")
    return pa.Table.from_pandas(found, preserve_index=False)


def check_table_path(path: Path, name: str, others: Iterable[str] = ()) -> None:
    """Refuse a path of an output file whose extension names no format of tables.

    The caller takes `others`, which the message names.
    """
    if path.suffix.lower() not in (*DELIMITERS, JSON, *PARQUET):
        known = ", ".join((*others, ".csv", ".tsv", ".json"))
        raise InvalidInputError(
            f"{name}: expected a path ending in {known} or .parquet, got {str(path)!r}"
        )


def write_table(table: pa.Table, path: Path, like: Path) -> None:
    """Write a table to `path` in the format that the extension of `like` names."""
    with table_writer(path, like) as write:
        write(table)


@contextmanager
def table_writer(path: Path, like: Path) -> Iterator[Callable[[pa.Table], None]]:
    """A function that adds tables of the same columns to a file, see `write_table`."""
    kind = like.suffix.lower()
    if is_parquet(like):
        with path.open("wb") as file, ExitStack() as stack:
            writers: list[Any] = []

            def add(table: pa.Table) -> None:
                if not writers:
                    new = pa.parquet.ParquetWriter(file, table.schema)
                    writers.append(stack.enter_context(new))
                writers[0].write_table(table)

            yield add
        return
    with path.open("w", newline="", encoding="utf-8") as text:
        started: list[bool] = []
        # pyarrow's own writer puts quotes around every text and every name.
        writer = csv.writer(text, delimiter=DELIMITERS.get(kind, ","), lineterminator="\n")

        def write(table: pa.Table) -> None:
            if not started and kind != JSON:
                writer.writerow(table.column_names)
            for batch in table.to_batches(max_chunksize=8192):
                if kind != JSON:
                    columns = (column.to_pylist() for column in batch.columns)
                    writer.writerows(zip(*columns, strict=True))
                    continue
                for row in batch.to_pylist():
                    text.write(",\n" if started else "[\n")
                    text.write(json.dumps(json_values(row), default=str))
                    started.append(True)
            if kind != JSON:
                started.append(True)

        yield write
        if kind == JSON:
            text.write("\n]\n" if started else "[]\n")


def check_columns(table: pa.Table, names: Iterable[str], source: str) -> None:
    """Refuse names that are not columns of the table; the error suggests the nearest column."""
    known = set(table.column_names)
    missing = [name for name in names if name not in known]
    if not missing:
        return
    near = difflib.get_close_matches(missing[0], table.column_names, n=1, cutoff=0.5)
    near = near or [c for c in table.column_names if c.strip().lower() == missing[0].lower()]
    hint = f" (did you mean {near[0]!r}?)" if near and len(missing) == 1 else ""
    label = "column" if len(missing) == 1 else "columns"
    wanted = ", ".join(map(repr, missing[:12]))
    raise InvalidInputError(
        f"{source}: expected {label} {wanted}, got columns {listed(table.column_names)}{hint}"
    )


def numeric(table: pa.Table, names: Sequence[str], source: str, hint: str = "") -> pa.Table:
    """Return some columns as float64, without missing values.

    Parameters
    ----------
    table
        Table that has all the columns.
    names
        Columns in the order wanted.
    source
        Name of the table in messages.
    hint
        Text after the message that a column does not hold numbers; `{}` stands for its name.

    Raises
    ------
    InvalidInputError
        A column holds no numbers, or a value is missing or infinite; row and column are named.
    """
    columns = [
        numbers(table.column(name), f"{source}: column {name!r}", hint.format(name))
        for name in names
    ]
    return pa.table(dict(zip(names, columns, strict=True)))


def is_parquet(path: Path) -> bool:
    """Whether a path has an extension of Parquet."""
    return path.suffix.lower() in PARQUET


def holds_parquet(path: Path, source: Path) -> bool:
    """Whether a file is Parquet, by its extension; without one, by its content at `source`."""
    if path.suffix:
        return is_parquet(path)
    with source.open("rb") as file:
        return file.read(len(PARQUET_MARK)) == PARQUET_MARK


def _read_parquet(path: Path) -> pa.Table:
    # Not parquet.read_table: its threads may outlive it, and abort a process that ends soon after.
    with pa.parquet.ParquetFile(path) as file:
        size = sum(file.metadata.row_group(k).total_byte_size for k in range(file.num_row_groups))
        if size > SMALL:
            check_memory(size, "its columns", "give a part of the file")
        return file.read()


def numbers(
    column: pa.ChunkedArray, where: str, hint: str = "", missing: bool = False
) -> FloatArray:
    """Return a column as float64 (n,); `where` names it in errors.

    Raises
    ------
    InvalidInputError
        A value is no number, or infinite, or missing unless `missing` allows it, which makes it
        NaN.
    """
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    known = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)
    if pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    elif not any(is_known(kind) for is_known in known):
        raise InvalidInputError(f"{where}{_first_text(column)}{hint}")
    if column.null_count and not missing:
        row = pc.index(pc.is_null(column), True).as_py() + 1
        raise InvalidInputError(f"{where}, data row {row}: expected a number, got a missing value")
    values: FloatArray = column.cast(pa.float64(), safe=False).to_numpy()
    bad = np.flatnonzero(np.isinf(values) if missing else ~np.isfinite(values))
    if bad.size:
        found = "a missing value" if np.isnan(values[bad[0]]) else values[bad[0]]
        raise InvalidInputError(
            f"{where}, data row {bad[0] + 1}: expected a finite number, got {found}"
        )
    return values


def _first_text(column: pa.ChunkedArray) -> str:
    """Text that names the first value of a column that is not a number, and its row."""
    for row, value in enumerate(column, start=1):
        if value.is_valid and not is_number(value.as_py()):
            shown = repr(value.as_py()) if isinstance(value.as_py(), str) else str(value)
            wanted = "text in UTF-8" if isinstance(value.as_py(), bytes) else "a number"
            return f", data row {row}: expected {wanted}, got {shown:.60}"
    return f": expected numbers, got the type {column.type}"


def is_number(value: Any) -> bool:
    """Whether a value, such as a text, is a number."""
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def listed(names: Sequence[str]) -> str:
    """The first names of a list, and how many more there are."""
    shown = ", ".join(map(repr, names[:12]))
    return shown if len(names) <= 12 else f"{shown} and {len(names) - 12} more"


def _one_line(error: Exception, source: Path) -> str:
    """The text of an error on one line and of bearable length, without the path of a copy."""
    text = " ".join(str(error).replace(f"'{source}'", "the file").split())
    return text if len(text) <= LONGEST_MESSAGE else f"{text[:LONGEST_MESSAGE]} ..."
