"""The data of a report: columns along which residuals are looked at, and faults of the rows.

| fault | sign |
|---|---|
| duplicates | test rows whose inputs and targets are those of training rows, but for rounding |
| reach | test rows beyond the box of the training rows by a tenth of its side |
| a column equals y | but for rounding |
| a column carries y in training only | half of the variance there, half the correlation at test |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from coupledgp.core.digests import RowDigests
from coupledgp.core.process import GaussianProcess
from coupledgp.diagnostics.laws import Chances, Draws, Normal
from coupledgp.diagnostics.predictions import Law, Predictions
from coupledgp.diagnostics.render.tables import number
from coupledgp.diagnostics.rivals.rows import table_kind
from coupledgp.diagnostics.scores import MeanOverPoints, paired_difference
from coupledgp.diagnostics.sources import Source
from coupledgp.diagnostics.tables import (
    AMBER,
    BETTER,
    GREEN,
    GREY,
    MATTERS,
    RED,
    SERIOUS,
    Check,
    Overlap,
    Tables,
)
from coupledgp.errors import CoupledGPError, InvalidInputError
from coupledgp.random import FloatArray, IntArray

# Where the values of a column come from.
INPUT, UNSEEN, ORDER, PREDICTED = "input", "unseen", "order", "predicted"
ROW_ORDER = "row order"
# Most whole numbers, and least rows for each, of a column that is taken for groups.
MOST_LEVELS, ROWS_A_LEVEL = 30, 4
# Fewest rows of a group whose mean is looked at, most groups, and most inputs, the first ones.
LEAST_GROUP, MOST_GROUPS, MOST_INPUTS = 2, 400, 30


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
        """A column of numbers, times or labels; None where it is constant or all different labels.

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
            return cls(name, seconds, origin, None, True) if np.ptp(seconds) > 0 else None
        if array.dtype.kind in "iuf":
            return cls._of_numbers(name, array.astype(np.float64), origin)
        if array.dtype.kind not in "bOUST":
            raise InvalidInputError(
                f"columns: expected numbers, times or labels for {name!r}, got {array.dtype}"
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
        return cls(name, np.where(known, values, np.median(levels)), origin)

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
        return self.values.astype(np.int64)

    @cached_property
    def order(self) -> IntArray:
        """Numbers (p,) of the points in the order of the values."""
        return np.argsort(self.values, kind="stable")

    @cached_property
    def ranks(self) -> FloatArray:
        """Ranks (p,) of the values between 0 and 1, equal ones with their mean."""
        _, number, counts = np.unique(self.values, return_inverse=True, return_counts=True)
        ends = np.cumsum(counts)
        found: FloatArray = ((ends - 0.5 * counts) / self.values.size)[number.reshape(-1)]
        return found

    @property
    def text(self) -> str:
        """The column in a sentence."""
        the = self.origin in (ORDER, PREDICTED)
        return f"the {self.name}" if the else f"column `{self.name}`"


def columns_of(p: Predictions) -> list[Column]:
    """Columns that vary along which residuals are looked at; of equal ones the first.

    Those that the model does not see, groups first, the order of the rows, inputs, the prediction
    and its standard deviation. Rows that were chosen among others have a column "row order".
    """
    unseen = {
        str(name): frame[name].to_numpy()
        for frame in (p.groups, p.columns)
        if frame is not None
        for name in frame.columns
    }
    unseen = {ROW_ORDER: np.arange(len(p))} | unseen
    unseen[ROW_ORDER] = unseen.pop(ROW_ORDER)  # after the others
    found = [
        Column.of(name, values, ORDER if name == ROW_ORDER else UNSEEN)
        for name, values in unseen.items()
    ]
    if p.inputs is not None:
        shown = p.inputs.columns[:MOST_INPUTS]
        found += [Column.of(str(one), p.inputs[one].to_numpy(), INPUT) for one in shown]
    kept: list[Column] = []
    for one in found:
        if one is not None and not any(_same(one, other) for other in kept):
            kept.append(one)
    return [*kept, *_predicted(p)]


def _same(one: Column, other: Column) -> bool:
    return one.is_groups == other.is_groups and bool(np.array_equal(one.ranks, other.ranks))


def _predicted(p: Predictions) -> Iterator[Column]:
    """The prediction and its standard deviation as columns, where they vary.

    Those of draws are of draws and targets together: points whose few draws happen to be near each
    other hold too few targets otherwise, even where the law is right.
    """
    mean, std = p.law.mean, p.law.std
    if isinstance(p.law, Draws) and p.y is not None:
        mean, std = p.law.pooled_moments(p.y)
    named = {"prediction": mean.mean(axis=1), "stated standard deviation": std.mean(axis=1)}
    for name, values in named.items():
        if np.ptp(values) > 0.05 * np.abs(values).mean():
            column = Column.of(name, values, PREDICTED)
            if column is not None:
                yield column


def taken(columns: Iterable[Column], rows: IntArray) -> list[Column]:
    """Columns at some points, those that vary there."""
    return [one for one in (column.take(rows) for column in columns) if one is not None]


# Share of a column's range by which a row lies beyond it, rows for each one beyond from which they
# are many, and ratio of the RMSE beyond to that inside from which they are what is wrong.
MARGIN, MANY, WORSE = 0.1, 20, 1.5


class Reach(NamedTuple):
    """How many test rows lie beyond the box of the training rows.

    `column` is that in which most of them do; errors are root mean squares in units of y, None of
    no rows; `gain` is the decrease of the mean loss if rows beyond were predicted as others are.
    """

    n_beyond: int
    n_points: int
    column: str
    rmse_beyond: float | None
    rmse_inside: float | None
    gain: float

    @classmethod
    def of(
        cls,
        known: FloatArray,
        points: FloatArray,
        errors: FloatArray,
        names: Sequence[str],
        losses: FloatArray | None = None,
    ) -> Reach:
        """Reach of test rows (p, d) with errors (p, k) and losses (p,) from rows (n, d)."""
        low, high = known.min(axis=0), known.max(axis=0)
        margin = MARGIN * (high - low)
        outside = (points < low - margin) | (points > high + margin)
        beyond = outside.any(axis=1)
        name = names[int(outside.sum(axis=0).argmax())] if points.shape[1] else ""
        far, near = (
            float(np.sqrt(np.mean(np.square(errors[one])))) if one.any() else None
            for one in (beyond, ~beyond)
        )
        gain = 0.0
        if losses is not None and beyond.any() and not beyond.all():
            gain = float(losses.mean() - losses[~beyond].mean())
        return cls(int(beyond.sum()), len(points), name, far, near, gain)

    @property
    def is_far(self) -> bool:
        """Whether more than one in twenty rows lies beyond."""
        return MANY * self.n_beyond > self.n_points

    @property
    def is_fault(self) -> bool:
        """Whether rows beyond are many, and predicted much worse than the others."""
        beyond, inside = self.rmse_beyond, self.rmse_inside
        return self.is_far and inside is not None and (beyond or 0.0) > WORSE * inside


# Distance of a test row from a training row, over the median one between nearest training rows, and
# difference of their targets, over the deviation of these, below which they are the same row;
# training rows whose nearest ones are measured.
NEAR, MEASURED = 1e-3, 500


def near_duplicates(
    known: FloatArray, targets: FloatArray, points: FloatArray, y: FloatArray
) -> NDArray[np.bool_]:
    """Which test rows (p, d), targets (p, k), are training rows (n, d), targets (n, k).

    Distances are in units of the columns' deviations. A row counts whose nearest training row is a
    thousand times nearer than training rows are to each other, with a target as near.
    """
    scale, spread = known.std(axis=0), targets.std(axis=0)
    varies = scale > 0
    if len(known) < 3 or not varies.any() or not (spread > 0).all():
        return np.zeros(len(points), dtype=bool)
    rows, queries = (one[:, varies] / scale[varies] for one in (known, points))
    tree = cKDTree(rows)
    some = rows[np.random.default_rng(0).permutation(len(rows))[:MEASURED]]
    between = tree.query(some, k=2)[0][:, 1]
    between = between[between > 0]
    if not between.size:
        return np.zeros(len(points), dtype=bool)
    distance, place = tree.query(queries, distance_upper_bound=NEAR * float(np.median(between)))
    near = np.isfinite(distance)
    gaps = np.abs(y[near] - targets[place[near]]) <= NEAR * spread
    near[near] = gaps.all(axis=1)
    return np.asarray(near)


# Fewest rows, groups of equal size within which targets are averaged, and digits of rounding.
FEWEST, N_GROUPS, DIGITS = 20, 10, range(-12, 13)
# Share of the variance of the training targets that a column explains by itself at least; share of
# the correlation that is left at test rows at most; least growth of the squared error, and least
# squared error over the variance of the training targets.
EXPLAINED, LEFT, GROWTH, LARGE = 0.5, 0.5, 2.5, 0.5


class Carried(NamedTuple):
    """A column, by its number, that is related to y in training and not at test.

    `trained` and `tested` are correlations of the targets with what the column by itself says.
    """

    column: int
    trained: float
    tested: float


def carried(
    known: FloatArray, targets: FloatArray, points: FloatArray, y: FloatArray
) -> Carried | None:
    """The clearest one of the columns of training rows (n, d) with targets (n,), or None.

    Targets are averaged within tenths of the training rows by the column, and interpolated at the
    test rows (p, d) within its range. The relation is lost if it explained half of the variance,
    the correlation with the test targets (p,) is at most half of that in training, and the errors
    about their mean have grown 2.5 times and to half of the targets' variance.
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
            found.append(Carried(k, trained, tested))
    return max(found, key=lambda one: one.trained - one.tested, default=None)


def _correlation(a: FloatArray, b: FloatArray) -> float:
    if not (np.ptp(a) > 0 and np.ptp(b) > 0):
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])


def equal_columns(points: FloatArray, y: FloatArray) -> list[int]:
    """Numbers of the columns of rows (p, d) that equal targets (p,) but for rounding."""
    if len(y) < FEWEST or not np.ptp(y) > 0:
        return []
    return [k for k, x in enumerate(points.T) if _equals(x, y)]


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


def overlap_of(source: Source, y: FloatArray | None) -> tuple[Overlap, NDArray[np.bool_]]:
    """How many test rows of a source, with targets (p, k), are training rows, and which (p,)."""
    process, points, n = source.process, source.points, len(source)
    known, targets = source.train_X, source.train_y
    digests = None
    if process is not None:
        digests, points = _digests(source.model, process), process.row_keys(points)
    elif known is not None and targets is not None:
        digests = RowDigests.of(known, targets)
    if digests is None:
        return Overlap(n, None, None), np.zeros(n, dtype=bool)
    inputs, rows = digests.found(points, y)
    near = np.zeros(n, dtype=bool)
    is_table = known is not None and targets is not None and source.classes is None
    if is_table and y is not None and source.X is not None:
        assert known is not None
        assert targets is not None
        near = near_duplicates(known, targets, source.X, y) & ~rows
    same, close = int(rows.sum()), int(near.sum())
    found = Overlap(n, same + close, int(inputs.sum()) - same, n_near=close)
    return found, rows | near


def _digests(model: Any, process: GaussianProcess) -> RowDigests | None:
    """Digests of the training rows of a model; None where it does not know them."""
    try:
        data = process.data
    except CoupledGPError:
        return getattr(getattr(model, "fitted_", None), "digests", None)
    return RowDigests.of(process.row_keys(data.points), data.targets)


# Checks of the data.


def data_checks(tables: Tables) -> list[Check]:
    """Columns that carry the targets, and rows beyond the training rows."""
    p, source = tables.predictions, tables.source
    found: list[Check] = []
    if p.y is None or source is None or tables.left_out is not None:
        pass
    else:
        found = [*_reach(p, source), *_carried(p, source)]
    return [*found, *_equal(p)]


def _equal(p: Predictions) -> Iterator[Check]:
    if p.y is None or p.inputs is None or p.y.shape[1] > 1 or isinstance(p.law, Chances):
        return
    points = p.inputs.to_numpy()
    if points.dtype.kind != "f":
        return
    for k in equal_columns(points, p.y[:, 0]):
        name = str(p.inputs.columns[k])
        remedy = f"Leave column `{name}` out if new rows do not have it."
        yield Check(
            BETTER, "equal column", GREY, f"Column `{name}` equals y but for rounding.", True, name,
            remedy=remedy,
        )  # fmt: skip


def _reach(p: Predictions, source: Source) -> Iterator[Check]:
    known, points = source.train_X, source.X
    is_plain = points is not None and known is not None and not isinstance(p.law, Chances)
    if not is_plain or source.likelihood is not None:
        return
    assert known is not None
    assert points is not None
    assert p.y is not None
    losses = -p.law.log_density(p.y) / p.y.shape[1] if p.law.has_density else None
    found = Reach.of(known, points, p.y - p.law.mean, source.columns, losses)
    n, all_rows = found.n_beyond, found.n_points
    sentence = f"{n} of {all_rows} test rows lie beyond the training rows"
    remedy = ""
    if n and found.rmse_beyond is not None:
        inside = found.rmse_inside
        beside = "" if inside is None else f", {number(inside)} at the others"
        sentence += (
            f", most in column `{found.column}`: there the kernel alone decides, and the RMSE is "
            f"{number(found.rmse_beyond)}{beside}"
        )
        if found.is_fault:
            remedy = (
                f"{n} of {all_rows} test rows lie beyond the training rows in column "
                f"`{found.column}`, where the RMSE is {number(found.rmse_beyond)} in place of "
                f"{number(inside or 0.0)}: take training rows from there, or predict within them "
                "alone."
            )
    yield Check(
        BETTER, "reach", GREY if found.is_far else GREEN, f"{sentence}.",
        found.is_far, found.column, n / all_rows, 0.0, limit=1 / MANY,
        gain=found.gain if remedy else np.nan, basis="measured", remedy=remedy,
    )  # fmt: skip


def _carried(p: Predictions, source: Source) -> Iterator[Check]:
    known, targets, points = source.train_X, source.train_y, source.X
    if known is None or targets is None or points is None or targets.shape[1] > 1:
        return
    if source.classes is not None or source.likelihood is not None or p.y is None:
        return
    found = carried(known, targets[:, 0], points, p.y[:, 0])
    if found is None:
        return
    gain = _gain_without(found.column, known, targets, points, p.law, p.y)
    if gain is None:
        return
    name = source.columns[found.column]
    sentence = (
        f"Column `{name}` is related to y in training, not at test: what it says of y correlates "
        f"with y by {found.trained:.2g} there and by {found.tested:.2g} here"
    )
    fired = gain.mean > MATTERS
    yield Check(
        BETTER, "carried", (RED if gain.mean > SERIOUS else AMBER) if fired else GREEN,
        f"{sentence}.", fired, name, found.tested, found.trained, limit=LEFT,
        gain=gain.mean, gain_error=gain.standard_error, basis="measured",
        remedy=f"{sentence}. Leave the column out, or look how it was made.",
    )  # fmt: skip


def _gain_without(
    column: int, known: FloatArray, targets: FloatArray, points: FloatArray, law: Law, y: FloatArray
) -> MeanOverPoints | None:
    """Nats per point that the best rival without a column gains over a law."""
    if not law.has_density:
        return None
    rows, queries = (np.delete(one, column, axis=1) for one in (known, points))
    kind, found = table_kind(rows, targets), []
    laws = [kind.observations.predicted_by_mean(len(queries))]
    for make in kind.makers.values():
        fitted = make()
        if not isinstance(fitted, str):
            laws.append(fitted.predict(queries))
    own = -law.log_density(y)
    for one in laws:
        if one.std is not None:
            theirs = -Normal(one.mean, np.broadcast_to(one.std, one.mean.shape)).log_density(y)
            found.append(paired_difference(own, theirs))
    return max(found, key=lambda one: one.mean, default=None)
