"""Columns of a file as numbers, Booleans, categories and dates: their kinds and values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from coupledgp.cli.readers.tables import numbers, read_table
from coupledgp.cli.readers.text import FALSE, TRUE
from coupledgp.columns.arrow import BOOLEAN, CATEGORY, DATE, DURATION, NUMBER, is_text, kind_of
from coupledgp.columns.codes import CategoryCode
from coupledgp.errors import InvalidInputError

# Columns (n,) by name that a model does not see, such as `metadata` of reports takes them.
Beside = dict[str, NDArray[np.generic]]
HINT = '; --drop "{}" leaves the column out'


def forced_kinds(
    categorical: list[str], numeric: list[str], date: list[str], target: str
) -> dict[str, str]:
    """Kinds of columns by name, as the options ask for them."""
    kinds: dict[str, str] = {}
    for kind, names in ((CATEGORY, categorical), (NUMBER, numeric), (DATE, date)):
        for name in names:
            if kinds.setdefault(name, kind) != kind:
                raise InvalidInputError(
                    f"--categorical, --numeric, --date: expected one kind a column, got "
                    f"{kinds[name]} and {kind} for {name!r}"
                )
    if target in kinds and kinds[target] != NUMBER:
        raise InvalidInputError(f"--target: expected numbers, got {target!r} as {kinds[target]}")
    return kinds


def read_inputs(path: Path, kinds: Mapping[str, str]) -> pa.Table:
    """Read a table, whose categories and dates are given by name and not guessed."""
    as_text = [name for name, kind in kinds.items() if kind in (CATEGORY, DATE)]
    return read_table(path, as_text=as_text, missing_text=True)


def kinds_of_model(model: Any, names: Sequence[str] | None = None) -> dict[str, str]:
    """Kinds of the columns of a fitted model by name.

    `names` (d,) are those of the file where the model has none; without them it has no kinds.
    Categories of numbers are left out: their values are those of the file.
    """
    names = getattr(model, "feature_names_in_", names)
    if names is None:
        return {}
    encoding = getattr(model, "encoding_", None)
    if encoding is None:
        return dict.fromkeys(names, NUMBER)
    return {
        name: code.kind
        for name, code in zip(names, encoding.codes, strict=True)
        if not isinstance(code, CategoryCode) or code.of_text
    }


def model_inputs(model: Any, table: pa.Table, names: list[str], source: str) -> pa.Table:
    """Return the columns of a fitted model, of the kinds of its fit; see `typed`.

    `names` are the columns in the order of the fit.
    """
    encoding = getattr(model, "encoding_", None)
    missing = encoding is not None and encoding.missing != "raise"
    return typed(table, names, kinds_of_model(model, names), source, missing=missing)


def without_names(table: pa.Table) -> Any:
    """Columns of numbers as a matrix, and other tables as rows of objects, without their names.

    scikit-learn warns of names where the fit had none.
    """
    columns = table.columns
    if all(pa.types.is_floating(column.type) for column in columns):
        return np.column_stack([column.to_numpy() for column in columns])
    rows = np.empty((table.num_rows, len(columns)), dtype=object)
    for j, column in enumerate(columns):
        rows[:, j] = column.to_pylist()
    return rows


def typed(
    table: pa.Table,
    names: list[str],
    kinds: Mapping[str, str],
    source: str,
    *,
    missing: bool,
    hint: str = "",
) -> pa.Table:
    """Return some columns as float64, Boolean, text and timestamps.

    Parameters
    ----------
    table
        Table that has all the columns.
    names
        Columns in the order wanted.
    kinds
        Kinds by name; the kind of another column is that of its values.
    source
        Name of the table in messages.
    missing
        Allow missing values.
    hint
        Text after the message that a column does not hold numbers; `{}` stands for its name.

    Raises
    ------
    InvalidInputError
        A value is not of the column's kind, or missing and may not be; row and column are named.
    """
    columns = {}
    plain = _plain_numbers(table, names, kinds)
    for name in names:
        if name in plain:
            columns[name] = table.column(name)
            continue
        where, column = f"{source}: column {name!r}", table.column(name)
        # Bytes that are no text are refused as numbers, by row.
        binary = pa.types.is_binary(column.type)
        kind = kinds.get(name) or (NUMBER if binary else kind_of(column, where))
        if kind == CATEGORY:
            columns[name] = _category(column, where, missing)
        elif kind == DATE:
            columns[name] = _dates(column, where, missing)
        elif kind == DURATION:
            columns[name] = column
        elif kind == BOOLEAN:
            columns[name] = _booleans(column, where, hint.format(name), missing)
        else:
            columns[name] = _numbers(column, where, hint.format(name), missing)
    return pa.table(columns)


def _plain_numbers(table: pa.Table, names: list[str], kinds: Mapping[str, str]) -> set[str]:
    """Names of columns of finite float64 that remain numbers and need no check."""
    floats = {field.name for field in table.schema if field.type == pa.float64()}
    found = [name for name in names if name in floats and kinds.get(name, NUMBER) == NUMBER]
    if not found or not table.num_rows:
        return set()
    finite = np.isfinite(np.asarray(table.select(found))).all(axis=0)
    return set(compress(found, finite))


def _numbers(column: pa.ChunkedArray, where: str, hint: str, missing: bool) -> pa.Array:
    return pa.array(numbers(column, where, hint, missing), from_pandas=True)


def _booleans(column: pa.ChunkedArray, where: str, hint: str, missing: bool) -> Any:
    """Booleans as they are, of text, or as numbers."""
    _check_missing(column, where, missing)
    if pa.types.is_boolean(column.type):
        return column
    if not is_text(column.type):
        return _numbers(column, where, hint, missing)
    values = column.to_pylist()
    for row, value in enumerate(values, start=1):
        if value not in (None, *TRUE, *FALSE):
            raise InvalidInputError(
                f"{where}, data row {row}: expected true or false, or yes or no, got {value!r:.60}"
            )
    return pa.array([None if value is None else value in TRUE for value in values])


def _category(column: pa.ChunkedArray, where: str, missing: bool) -> pa.ChunkedArray:
    _check_missing(column, where, missing)
    if pa.types.is_dictionary(column.type):
        return column
    return column.cast(pa.string())


def _dates(column: pa.ChunkedArray, where: str, missing: bool) -> pa.ChunkedArray:
    """Dates as they are, or of text in ISO 8601; with a time zone, in UTC."""
    _check_missing(column, where, missing)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_integer(column.type):
        column = column.cast(pa.string())
    if not is_text(column.type):
        if kind_of(column, where) != DATE and column.null_count < len(column):
            raise InvalidInputError(f"{where}: expected dates, got values of {column.type}")
        return column
    for wanted in (pa.timestamp("us"), pa.timestamp("us", tz="UTC")):
        try:
            return column.cast(wanted)
        except pa.ArrowInvalid:
            continue
    row, value = next((j, v) for j, v in enumerate(column.to_pylist()) if not _is_date(v, column))
    raise InvalidInputError(
        f"{where}, data row {row + 1}: expected a date such as 2024-05-31 or 2024-05-31 14:00, all "
        f"with a time zone or none, got {value!r:.60}"
    )


def _is_date(value: str | None, column: pa.ChunkedArray) -> bool:
    """Whether a text is a date, with a time zone if the first of the column has one."""
    first = next(text for text in column.to_pylist() if text is not None)
    zoned = not _casts(first, pa.timestamp("us")) and _casts(first, pa.timestamp("us", tz="UTC"))
    return value is None or _casts(value, pa.timestamp("us", tz="UTC" if zoned else None))


def _casts(value: str, wanted: pa.DataType) -> bool:
    try:
        pa.scalar(value).cast(wanted)
    except pa.ArrowInvalid:
        return False
    return True


def _check_missing(column: pa.ChunkedArray, where: str, missing: bool) -> None:
    if column.null_count and not missing:
        row = int(np.flatnonzero(pc.is_null(column).to_numpy())[0])
        raise InvalidInputError(f"{where}, data row {row + 1}: expected a value, got a missing one")


def columns_beside(table: pa.Table, names: Iterable[str]) -> Beside:
    """Some columns of a table as numbers, times or labels; those of other types are left out."""
    found = {}
    for name in names:
        values = _beside(table.column(name))
        if values is not None:
            found[name] = values
    return found


def _beside(column: pa.ChunkedArray) -> NDArray[np.generic] | None:
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _beside(column.cast(kind.value_type))
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        times = column.cast(pa.timestamp("us"), safe=False).to_numpy()
        return None if np.isnat(times).any() else times
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_boolean(kind):
        return np.array(["" if one is None else str(one) for one in column.to_pylist()])
    return None
