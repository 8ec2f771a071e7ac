"""Columns along which residuals are looked at: those a model saw, and those that it did not.

Columns that carry the targets: those that equal them, and those that do so in training only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import wrong
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
        raise wrong("metadata", "a data frame or a mapping of names to columns", type(metadata))
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


# Fewest rows, groups of equal size within which targets are averaged, and digits of rounding.
FEWEST, N_GROUPS, DIGITS = 20, 10, range(-12, 13)
# Share of the variance of the training targets that a column explains by itself at least; share of
# the correlation that is left at test rows at most; least growth of the squared error, and least
# squared error over the variance of the training targets.
EXPLAINED, LEFT, GROWTH, LARGE = 0.5, 0.5, 2.5, 0.5


@dataclass(frozen=True)
class Carried:
    """A column that is related to y in training, and not at test.

    Attributes
    ----------
    number : int
        Number of the column.
    column : str
        Its name.
    trained, tested : float
        Correlation of the targets with what the column by itself says of them, at the training
        rows and at the test rows.
    gain : float
        Nats per point that the best rival without the column gains over the model.
    standard_error : float or None
        Its standard error.
    """

    number: int
    column: str
    trained: float
    tested: float
    gain: float = 0.0
    standard_error: float | None = None

    @classmethod
    def of(
        cls,
        known: FloatArray,
        targets: FloatArray,
        points: FloatArray,
        y: FloatArray,
        names: tuple[str, ...] = (),
    ) -> Carried | None:
        """The clearest one of the columns of training rows (n, d) with targets (n,), or None.

        Targets are averaged within tenths of the training rows by the column, and interpolated at
        the test rows (p, d) within its range. The relation is lost if it explained half of the
        variance, the correlation with the test targets (p,) is at most half of that in training,
        and the errors about their mean have grown 2.5 times and to half of the targets' variance.
        """
        spread = float(targets.var())
        if min(len(targets), len(y)) < FEWEST or not spread > 0:
            return None
        found: list[Carried] = []
        for k in range(known.shape[1]):
            x, own = known[:, k], points[:, k]
            inside = (own >= x.min()) & (own <= x.max())
            if inside.sum() < FEWEST or not np.ptp(x) > 0:
                continue
            parts = np.array_split(np.argsort(x, kind="stable"), N_GROUPS)
            places, means = (np.array([v[part].mean() for part in parts]) for v in (x, targets))
            there, here = (np.interp(v, places, means) for v in (x, own[inside]))
            left = float((targets - there).var()) / spread
            lost = float((y[inside] - here).var()) / spread
            trained, tested = _correlation(there, targets), _correlation(here, y[inside])
            grown = lost >= max(LARGE, GROWTH * left)
            if left <= 1 - EXPLAINED and grown and tested <= LEFT * trained:
                name = names[k] if len(names) == known.shape[1] else f"input {k + 1}"
                found.append(cls(k, name, trained, tested))
        return max(found, key=lambda one: one.trained - one.tested, default=None)

    def text(self) -> str:
        """The relation in a sentence, without its full stop."""
        return (
            f"Column `{self.column}` is related to y in training, not at test: what it says of y "
            f"correlates with y by {self.trained:.2g} there and by {self.tested:.2g} here"
        )


def equal_columns(
    points: FloatArray, y: FloatArray, names: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Names of the columns of rows (p, d) that equal targets (p,) but for rounding."""
    if len(y) < FEWEST or not np.ptp(y) > 0:
        return ()
    known = names if len(names) == points.shape[1] else tuple(
        f"input {k + 1}" for k in range(points.shape[1])
    )  # fmt: skip
    return tuple(name for name, x in zip(known, points.T, strict=True) if _equals(x, y))


def _equals(x: FloatArray, y: FloatArray) -> bool:
    """Whether one of two columns is the other, rounded to some digit or to single precision."""
    rounding = 1e-6 * float(np.abs(y).max())
    gap = float(np.abs(x - y).max())
    if gap <= rounding:
        return True
    if gap > 0.5 * float(y.std()):
        return False
    return any(
        float(np.abs(np.round(a, digit) - b).max()) <= rounding and 10.0**-digit < y.std()
        for digit in DIGITS
        for a, b in ((x, y), (y, x))
    )


def _correlation(a: FloatArray, b: FloatArray) -> float:
    """Correlation of two columns; zero where one is constant."""
    if not (np.ptp(a) > 0 and np.ptp(b) > 0):
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])
