"""Columns along which residuals are looked at: those a model saw, and those that it did not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coupledgp.errors import InvalidInputError
from coupledgp.random import FloatArray, IntArray

# Where the values of a column come from.
INPUT, UNSEEN, ORDER, PREDICTED = "input", "unseen", "order", "predicted"
# Most different whole numbers, and least rows for each, of a column that is taken for groups.
MOST_LEVELS, ROWS_A_LEVEL = 30, 4
# Fewest rows of a group whose mean is looked at, and most groups.
LEAST_GROUP, MOST_GROUPS = 2, 400
# Most inputs that are looked at: the first ones.
MOST_INPUTS = 30
ROW_ORDER = "row order"


@dataclass(frozen=True, eq=False)
class Column:
    """Values of a column at p points.

    Attributes
    ----------
    name : str
    values : FloatArray (p,)
        Numbers; times in seconds; numbers of the groups.
    origin : str
        `"input"`: the model saw it; `"unseen"`; `"order"`: the order of the rows; `"predicted"`:
        the prediction or its standard deviation.
    labels : NDArray (g,) or None
        Names of the groups; None where values are numbers.
    is_time : bool
        Whether values are seconds.
    """

    name: str
    values: FloatArray
    origin: str
    labels: NDArray[Any] | None = None
    is_time: bool = False

    @classmethod
    def of(cls, name: str, values: Any, origin: str) -> Column | None:
        """A column of numbers, times, or labels; None where it is constant or all different labels.

        Raises
        ------
        InvalidInputError
            Values are neither numbers nor times nor labels.
        """
        array = np.asarray(values)
        if array.dtype.kind == "m":
            array = array / np.timedelta64(1, "s")
        if array.dtype.kind == "M":
            known = array.astype("datetime64[us]")
            seconds = (known - known.min()) / np.timedelta64(1, "s")
            return None if not np.ptp(seconds) > 0 else cls(name, seconds, origin, None, True)
        if array.dtype.kind in "iuf":
            return cls._of_numbers(name, array.astype(np.float64), origin)
        if array.dtype.kind not in "bOUST":
            raise InvalidInputError(
                f"metadata: expected numbers, times or labels for {name!r}, got {array.dtype}"
            )
        return cls._of_labels(name, array.astype(str), origin)

    @classmethod
    def _of_numbers(cls, name: str, values: FloatArray, origin: str) -> Column | None:
        known = np.isfinite(values)
        levels = np.unique(values[known])
        if levels.size < 2:
            return None
        whole = bool((levels == np.round(levels)).all())
        few = levels.size <= min(MOST_LEVELS, values.size // ROWS_A_LEVEL)
        if origin == UNSEEN and whole and few:
            return cls._of_labels(name, np.where(known, values, np.nan).astype(str), origin)
        filled = np.where(known, values, np.median(levels))
        return cls(name, filled, origin)

    @classmethod
    def _of_labels(cls, name: str, texts: NDArray[Any], origin: str) -> Column | None:
        labels, number, counts = np.unique(texts, return_inverse=True, return_counts=True)
        if not 1 < labels.size <= MOST_GROUPS or counts.max() < LEAST_GROUP:
            return None
        return cls(name, number.reshape(-1).astype(np.float64), origin, labels)

    def take(self, rows: IntArray) -> Column | None:
        """The column at some points, by their numbers; None where it is constant there."""
        values = self.values[rows]
        if not np.ptp(values) > 0:
            return None
        if self.labels is None:
            return replace(self, values=values)
        return Column._of_labels(self.name, self.labels[values.astype(np.int64)], self.origin)

    @property
    def is_groups(self) -> bool:
        """Whether values are numbers of groups."""
        return self.labels is not None

    @cached_property
    def groups(self) -> IntArray:
        """Number (p,) of the group of each point."""
        found: IntArray = self.values.astype(np.int64)
        return found

    @cached_property
    def order(self) -> IntArray:
        """Numbers (p,) of the points in the order of the values."""
        found: IntArray = np.argsort(self.values, kind="stable")
        return found

    @cached_property
    def ranks(self) -> FloatArray:
        """Ranks (p,) of the values between 0 and 1, equal ones with their mean."""
        _, number, counts = np.unique(self.values, return_inverse=True, return_counts=True)
        ends = np.cumsum(counts)
        found: FloatArray = ((ends - 0.5 * counts) / self.values.size)[number.reshape(-1)]
        return found

    def text(self) -> str:
        """The column in a sentence."""
        if self.origin in (ORDER, PREDICTED):
            return f"the {self.name}"
        return f"column `{self.name}`"


def columns_of(
    metadata: Mapping[str, Any], inputs: FloatArray | None, names: tuple[str, ...] = ()
) -> tuple[Column, ...]:
    """Columns of metadata, the order of the rows and inputs (p, d), those that vary.

    `metadata` may have the numbers of the rows under the name "row order".
    """
    found = [
        Column.of(name, values, ORDER if name == ROW_ORDER else UNSEEN)
        for name, values in metadata.items()
    ]
    if inputs is not None and inputs.ndim == 2 and inputs.dtype.kind == "f":
        if len(names) != inputs.shape[1]:
            names = tuple(f"input {k + 1}" for k in range(inputs.shape[1]))
        shown = names[:MOST_INPUTS]
        found += [Column.of(name, inputs[:, k], INPUT) for k, name in enumerate(shown)]
    # The same values under two names are looked at once, under the first.
    kept: list[Column] = []
    for one in found:
        if one is not None and not any(_same(one, other) for other in kept):
            kept.append(one)
    return tuple(kept)


def _same(one: Column, other: Column) -> bool:
    """Whether two columns order the points alike."""
    alike = one.is_groups == other.is_groups
    return alike and bool(np.array_equal(one.ranks, other.ranks))


def checked_metadata(metadata: Any, n_points: int) -> dict[str, NDArray[Any]]:
    """Columns (p,) of p points by name, of a mapping or a data frame.

    Raises
    ------
    InvalidInputError
        It is neither, or a column has another length.
    """
    if metadata is None:
        return {}
    if not (isinstance(metadata, Mapping) or hasattr(metadata, "columns")):
        raise InvalidInputError(
            "metadata: expected a data frame or a mapping of names to columns, got "
            f"{type(metadata).__name__}"
        )
    names = list(metadata) if isinstance(metadata, Mapping) else list(metadata.columns)
    found = {}
    for name in names:
        values = np.asarray(metadata[name])
        if values.shape != (n_points,):
            raise InvalidInputError(
                f"metadata: expected {n_points} values of {name!r}, one for each scored row, got "
                f"shape {values.shape}"
            )
        found[str(name)] = values
    return found


def with_row_order(metadata: Any, n_points: int) -> dict[str, NDArray[Any]]:
    """Columns (p,) of p points by name, as `checked_metadata` takes them, and the row numbers."""
    return checked_metadata(metadata, n_points) | {ROW_ORDER: np.arange(n_points)}


def kept_columns(columns: Mapping[str, NDArray[Any]], rows: Any) -> dict[str, NDArray[Any]]:
    """Some rows of columns (p,)."""
    return {name: values[rows] for name, values in columns.items()}
