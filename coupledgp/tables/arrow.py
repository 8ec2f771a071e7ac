"""Tables of pandas, polars and Arrow as columns of Arrow, and the kinds of these columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache
from hashlib import blake2b
from numbers import Real
from typing import Any, TypeAlias

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.ground.extras import named_extras
from coupledgp.random import FloatArray

# A column of Arrow (`pyarrow.ChunkedArray`), or numbers (n,) of float64 with NaN where missing.
Column: TypeAlias = Any
NUMBER, BOOLEAN, DURATION = "number", "boolean", "duration"
CATEGORY, DATE = "category", "date"
# Kinds that are one number a row.
NUMBERS = (NUMBER, BOOLEAN, DURATION)
MICROSECONDS_A_DAY = 86_400_000_000


def label(name: str | None, place: int) -> str:
    """Name of a column of X in messages; `place` counts from zero."""
    return f"X: column {place + 1}" if name is None else f"X: column {name!r}"


def special_columns(X: Any) -> list[Column] | None:
    """Columns of a table that is not of plain numbers and Booleans; None for everything else.

    Raises
    ------
    InvalidInputError
        A column holds values of several types, or of a type that has no encoding.
    """
    kind = type(X)  # of which an attribute is not computed: a list of 10^5 columns takes time
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        kinds = [getattr(dtype, "kind", "") for dtype in X.dtypes]
        if all(kind in "biuf" and kind for kind in kinds):
            return None
    elif not (hasattr(kind, "__arrow_c_stream__") and hasattr(kind, "columns")):
        return None
    if not hasattr(X, "iloc"):
        X = X if isinstance(X, _arrow().Table) else _arrow().table(X)
        _refuse_repeated(X.column_names)
        if all(_kind_of_type(found) in (NUMBER, BOOLEAN) for found in set(X.schema.types)):
            return None
    columns = arrow_columns(X)
    _refuse_repeated([str(name) for name, _ in columns])
    known = [kind_of(column, label(name, j)) for j, (name, column) in enumerate(columns)]
    return None if set(known) <= {NUMBER, BOOLEAN} else [column for _, column in columns]


def _arrow() -> Any:
    with named_extras():
        import pyarrow as pa
    return pa


def _refuse_repeated(names: Sequence[str]) -> None:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise InvalidInputError(f"{label(repeated[0], 0)} appears more than once")


def arrow_columns(X: Any) -> list[tuple[str | None, Column]]:
    """Names and columns of a table, or columns without a name of rows of Python objects."""
    pa = _arrow()
    if hasattr(X, "iloc"):
        names = [str(name) for name in X.columns]
        series = (X.iloc[:, j] for j in range(len(names)))
        return [(name, _from_values(s, label(name, 0))) for name, s in zip(names, series)]  # noqa: B905
    if hasattr(X, "__arrow_c_stream__"):
        table = X if isinstance(X, pa.Table) else pa.table(X)
        return list(zip(table.column_names, table.columns, strict=True))
    rows = np.asarray(X, dtype=object)
    if rows.ndim != 2:
        raise InvalidInputError(f"X: expected rows and columns, got shape {rows.shape}")
    return [(None, _from_values(rows[:, j], label(None, j))) for j in range(rows.shape[1])]


def _from_values(values: Any, where: str) -> Column:
    """Column of a pandas series or an array of objects."""
    import pyarrow as pa

    try:
        return pa.chunked_array([pa.array(values, from_pandas=True)])
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        if all(isinstance(value, (Real, Decimal, type(None))) for value in values):
            return np.array([np.nan if v is None else v for v in values], dtype=np.float64)
        kinds = sorted({type(value).__name__ for value in values if value is not None})
        if len(kinds) > 1:
            text = f"{where}: expected values of one type, got {', '.join(kinds)}"
        else:
            text = f"{where}: expected numbers, Booleans, text or dates, got {' '.join(kinds)}"
        raise InvalidInputError(f"{text} ({error})") from None


def kind_of(column: Column, where: str) -> str:
    """Kind of a column: number, boolean, duration, category or date.

    Raises
    ------
    InvalidInputError
        Its type is none of them.
    """
    if isinstance(column, np.ndarray):
        return NUMBER
    kind = _kind_of_type(column.type)
    if kind is not None:
        return kind
    raise InvalidInputError(
        f"{where}: expected numbers, Booleans, text, categories or dates, got values of the type "
        f"{column.type}; convert the column or leave it out"
    )


@lru_cache(maxsize=64)
def _kind_of_type(arrow_type: Any) -> str | None:
    """Kind of the columns of a type of Arrow; None where it has no encoding."""
    from pyarrow import types

    if types.is_boolean(arrow_type):
        return BOOLEAN
    if types.is_integer(arrow_type) or types.is_floating(arrow_type):
        return NUMBER
    if types.is_decimal(arrow_type) or types.is_null(arrow_type):
        return NUMBER
    if types.is_dictionary(arrow_type) or is_text(arrow_type):
        return CATEGORY
    if types.is_timestamp(arrow_type) or types.is_date(arrow_type):
        return DATE
    return DURATION if types.is_duration(arrow_type) else None


def refuse_special(X: Any) -> None:
    """Refuse a table with a column of text or dates, by its name, where the fit had numbers."""
    if special_columns(X) is None:
        return
    for j, (name, column) in enumerate(arrow_columns(X)):
        kind = kind_of(column, label(name, j))
        if kind not in (NUMBER, BOOLEAN):
            raise InvalidInputError(
                f"{label(name, j)}: expected numbers as in the fit, got {held(kind)}"
            )


def held(kind: str) -> str:
    """Values of a kind, in words."""
    words = {CATEGORY: "text or categories", DATE: "dates", DURATION: "durations"}
    return words.get(kind, "numbers")


def is_text(arrow_type: Any) -> bool:
    """Whether a type of Arrow is one of its types of text."""
    from pyarrow import types

    if types.is_string(arrow_type) or types.is_large_string(arrow_type):
        return True
    return hasattr(types, "is_string_view") and bool(types.is_string_view(arrow_type))


def numbers_of(column: Column) -> FloatArray:
    """Values (n,) of a column of the kinds `NUMBERS`, NaN where missing; durations in days."""
    import pyarrow as pa

    if isinstance(column, np.ndarray):
        return column
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    if pa.types.is_duration(column.type):
        return _microseconds(column.cast(pa.duration("us"), safe=False)) / MICROSECONDS_A_DAY
    values: FloatArray = column.cast(pa.float64(), safe=False).to_numpy()
    return values


def days_of(column: Column, zone: str | None) -> tuple[FloatArray, FloatArray]:
    """Days (n,) since 1970 of dates, in UTC, and on the clocks of a time zone; NaN where missing.

    Without a zone both are the days as they stand.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    zoned = column.cast(pa.timestamp("us", tz=zone), safe=False)
    days = _microseconds(zoned) / MICROSECONDS_A_DAY
    if zone is None:
        return days, days
    return days, _microseconds(pc.local_timestamp(zoned)) / MICROSECONDS_A_DAY


def zone_of(column: Column) -> str | None:
    """Time zone of dates, None if they have none."""
    zone: str | None = getattr(column.type, "tz", None)
    return zone


def _microseconds(column: Column) -> FloatArray:
    import pyarrow as pa

    # Exact as float64 up to the year 2255.
    values: FloatArray = column.cast(pa.int64()).cast(pa.float64(), safe=False).to_numpy()
    return values


def levels_of(column: Column) -> tuple[FloatArray, list[Any]]:
    """Place (n,) of each value in a list of different values, -1 where missing, and this list.

    Values are text, ints, floats or Booleans; others are given by their text.
    """
    import pyarrow as pa

    if isinstance(column, np.ndarray):
        column = pa.chunked_array([pa.array(column, from_pandas=True)])
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    whole = column.unify_dictionaries().combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # of no chunk, which has no dictionary
        return np.zeros(0, dtype=np.int64), []
    listed = [plain_level(value) for value in whole.dictionary.to_pylist()]
    places = whole.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    missing = np.array([value is None for value in listed] + [True])
    return np.where(missing[places], -1, places), listed


def table_values(X: Any) -> FloatArray:
    """Numbers (n, d), NaN where missing, that are equal for equal values of a table of any kind."""
    if not hasattr(X, "iloc") and not hasattr(type(X), "__arrow_c_stream__"):
        return np.asarray(X, dtype=np.float64)
    return np.column_stack([_values_of(column) for _, column in arrow_columns(X)])


def _values_of(column: Column) -> FloatArray:
    """Numbers (n,) for the values of a column; levels of a category become hashes."""
    kind = kind_of(column, "X")
    if kind in NUMBERS:
        return numbers_of(column)
    if kind == DATE:
        return days_of(column, zone_of(column))[0]
    places, listed = levels_of(column)
    hashes = [blake2b(repr(level).encode(), digest_size=6).digest() for level in listed]
    return np.array([*(float(int.from_bytes(found)) for found in hashes), np.nan])[places]


def plain_level(value: Any) -> Any:
    """A level as JSON can hold it: text, int, float, Boolean, or None for NaN."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return None if np.isnan(value) else value
    return str(value)


def text_of_place(names: Sequence[str] | None, place: int) -> str:
    """Name of the column at a place, `x0`, `x1`, ... without names."""
    return f"x{place}" if names is None else str(names[place])
