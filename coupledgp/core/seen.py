"""Ranges of a table's rows, distances of other points, and distances of means from the targets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coupledgp.core.column_moments import ColumnMoments
from coupledgp.errors import ModelFileError
from coupledgp.ground.codec import stored
from coupledgp.ground.validation import ROUNDING, SMALLEST, varies
from coupledgp.random import FloatArray, IntArray

# Share of a column's range that a gap between its values has to exceed to be kept, and most columns
# of which gaps are kept: a table has at most eight gaps a column.
LEAST_GAP, MOST_COLUMNS = 0.125, 1000
# A lengthscale counts as at most this share of the range of its column, times the root of the
# number of columns: distances of rows, and lengthscales with them, grow with that root.
WIDEST = 0.5
# Ranges of a column of two values to a lengthscale: no value between them is far.
OF_TWO = 3.0
# Columns of a table up to which a value counts as far that a column had not where it never varied.
# Ordinary rows of more columns have such values, as words have that are in no other text.
MOST_CONSTANT = 100
# Lengthscales from the nearest value beyond which a point is an extrapolation: values of a function
# at this distance have a correlation of .14 under the Gaussian kernel and Matern-1/2 alike.
DISTANT = 2.0
# Ranges of the targets beyond the training range from which a warning names a mean.
FAR_RANGES = 3.0
# Largest distance that is reported; columns that never varied have no other.
MOST_DISTANT = 1000.0
# Points whose distances are found at once.
CHUNK_ENTRIES = 2**20


@stored
@dataclass(frozen=True, eq=False)
class Seen:
    """Ranges of the columns and targets of training rows, and wide gaps of columns without rows.

    Attributes
    ----------
    low, high : FloatArray (d,)
        Least and greatest value of each column.
    gaps : FloatArray (g, 2)
        Ends of each gap, which are values of the column.
    columns : IntArray (g,)
        Numbers of the columns that the gaps are in, ascending.
    y_low, y_high : FloatArray (k,)
        Least and greatest target of each output.
    """

    low: FloatArray
    high: FloatArray
    gaps: FloatArray
    columns: IntArray
    y_low: FloatArray
    y_high: FloatArray

    @classmethod
    def of(cls, points: FloatArray, targets: FloatArray) -> Seen:
        """Ranges and gaps of rows (n, d) and ranges of targets (n, k), n > 0."""
        low, high = points.min(axis=0), points.max(axis=0)
        found: list[FloatArray] = []
        if len(low) <= MOST_COLUMNS:
            found = [_gaps(values, values) for values in (np.sort(column) for column in points.T)]
        return cls(low, high, *_stacked(found), targets.min(axis=0), targets.max(axis=0))

    @classmethod
    def of_moments(cls, inputs: ColumnMoments, targets: ColumnMoments) -> Seen:
        """Ranges from the moments of columns and targets; gaps are not known from moments."""
        return cls(inputs.low, inputs.high, *_stacked([]), targets.low, targets.high)

    def joined(self, other: Seen) -> Seen:
        """Ranges and gaps of the rows of both."""
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        found: list[FloatArray] = []
        if len(low) <= MOST_COLUMNS:
            found = [_united(self._intervals(c), other._intervals(c)) for c in range(len(low))]
        ends = np.minimum(self.y_low, other.y_low), np.maximum(self.y_high, other.y_high)
        return Seen(low, high, *_stacked(found), *ends)

    def _intervals(self, column: int) -> FloatArray:
        """Intervals (m, 2) between the gaps of a column, in rising order."""
        own = self.gaps[self.columns == column]
        ends = np.concatenate([[self.low[column]], own.ravel(), [self.high[column]]])
        return ends.reshape(-1, 2)

    def distances(self, points: FloatArray, scale: FloatArray) -> FloatArray:
        """Distances (p,) of points (p, d) from the values of the rows, in scales (d,).

        The distance is the largest over the columns, each by itself.
        """
        step = max(1, CHUNK_ENTRIES // max(len(self.low), 1))
        parts = [
            self._beyond(points[start : start + step], scale).max(axis=1)
            for start in range(0, len(points), step)
        ]
        return np.minimum(np.concatenate([np.zeros(0), *parts]), MOST_DISTANT)

    def furthest(self, points: FloatArray, scale: FloatArray) -> IntArray:
        """Number (p,) of the column of greatest distance at each point (p, d).

        Where all values are among those of the rows, it is that furthest from its middle.
        """
        beyond = self._beyond(points, scale)
        middle = np.abs(points - 0.5 * (self.low + self.high)) / scale
        within = (beyond <= 0).all(axis=1, keepdims=True)
        found: IntArray = np.where(within, middle, beyond).argmax(axis=1)
        return found

    def scale(self, lengthscale: FloatArray, n_columns: int) -> FloatArray:
        """Scales (d,) of distances for lengthscales (d,), in a table of so many columns.

        A lengthscale counts as at most `sqrt(d) / 2` ranges of its column. In tables of up to
        `MOST_CONSTANT` columns it counts as at most a third of the range of a column of two values,
        such as 0 and 1. A column that never varied has no scale there: every other value is at the
        distance `MOST_DISTANT`.
        """
        d, span = len(self.low), self.high - self.low
        scale = np.minimum(lengthscale, WIDEST * np.sqrt(d) * span)
        if n_columns <= MOST_CONSTANT:
            ends = np.stack([self.low, self.high], axis=1)[self.columns]
            two = self.columns[(self.gaps == ends).all(axis=1)]
            scale[two] = np.minimum(scale[two], span[two] / OF_TWO)
            rounding = ROUNDING * np.maximum(np.abs(self.low), np.abs(self.high))
            lengthscale = np.maximum(rounding, SMALLEST)
        return np.where(varies(self.low, self.high), scale, lengthscale)

    def _beyond(self, points: FloatArray, scale: FloatArray) -> FloatArray:
        """Distances (p, d) of each column from its nearest value, in scales."""
        beyond = np.maximum(self.low - points, points - self.high)
        np.maximum(beyond, 0.0, out=beyond)
        for (low, high), column in zip(self.gaps, self.columns, strict=True):
            values, own = points[:, column], beyond[:, column]
            np.maximum(own, np.minimum(values - low, high - values), out=own)
        beyond /= scale
        return beyond

    def is_far(self, mean: FloatArray) -> NDArray[np.bool_]:
        """Whether means (p, k) are further than three ranges of y from the training range; (p,)."""
        largest = np.maximum(np.abs(self.y_low), np.abs(self.y_high))
        # Means of constant targets are these, to rounding of sums.
        least = 1e-6 * np.where(largest > 0, largest, 1.0)
        span = self.y_high - self.y_low
        room = np.where(varies(self.y_low, self.y_high), FAR_RANGES * span, least)
        outside = (mean < self.y_low - room) | (mean > self.y_high + room)
        return np.asarray(outside.any(axis=1))

    def read_back(self) -> Seen:
        """The ranges of a file, of columns and targets that these have.

        Raises
        ------
        ModelFileError
            Ranges or gaps are of another shape, or do not lie within each other.
        """
        sizes = [a.ndim == 1 and a.size for a in (self.low, self.high, self.y_low, self.y_high)]
        gaps = self.gaps.shape == (self.columns.size, 2)
        if sizes[0] != sizes[1] or sizes[2] != sizes[3] or not gaps:
            raise ModelFileError("seen: expected ranges of the columns and targets, got others")
        if (self.low > self.high).any() or (self.y_low > self.y_high).any():
            raise ModelFileError("seen.low: expected at most seen.high, got more")
        if self.columns.size and not 0 <= self.columns.min() <= self.columns.max() < self.low.size:
            raise ModelFileError("seen.columns: expected columns of the table, got others")
        ends = [self.low[self.columns], *self.gaps.T, self.high[self.columns]]
        if (np.diff(ends, axis=0) < 0).any() or (np.diff(self.columns) < 0).any():
            raise ModelFileError("seen.gaps: expected gaps within the columns, got others")
        return self


def _gaps(low: FloatArray, high: FloatArray) -> FloatArray:
    """Wide gaps (g, 2) between intervals (m,) of a column that start in rising order."""
    reach = np.maximum.accumulate(high)
    least = LEAST_GAP * (reach[-1] - low[0])
    wide = low[1:] - reach[:-1] > least
    return np.column_stack([reach[:-1][wide], low[1:][wide]])


def _united(one: FloatArray, other: FloatArray) -> FloatArray:
    """Wide gaps (g, 2) that neither of two sets of intervals (m, 2) covers."""
    both = np.concatenate([one, other])
    return _gaps(*both[np.argsort(both[:, 0], kind="stable")].T)


def _stacked(gaps: list[FloatArray]) -> tuple[FloatArray, IntArray]:
    """Gaps (g, 2) of all columns, and the number (g,) of the column of each."""
    counts = [len(own) for own in gaps]
    if not sum(counts):
        return np.zeros((0, 2)), np.zeros(0, dtype=np.int64)
    return np.concatenate(gaps), np.repeat(np.arange(len(gaps)), counts)
