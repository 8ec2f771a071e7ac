"""Which predictions are extrapolations, in one warning that names rows and columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coupledgp.errors import ExtrapolationWarning
from coupledgp.features.sklearn import Columns
from coupledgp.gp.seen import DISTANT, FAR_RANGES, MOST_DISTANT, Seen
from coupledgp.ground.validation import MOST_NAMED
from coupledgp.ground.warned import warn
from coupledgp.random import FloatArray


@dataclass(frozen=True, eq=False)
class Extrapolations:
    """Distances of predicted rows from the training rows, and the rows that a warning names.

    Attributes
    ----------
    distance : FloatArray (p,)
        Distance of each row in lengthscales, see `Seen.distances`.
    n_far : int
        Number of rows that are extrapolations: of a distance above `DISTANT`, or of a mean that is
        further than three ranges of y from the training range.
    named : tuple of (int, str)
        Number from zero, and words, of the first of these rows.
    """

    distance: FloatArray
    n_far: int = 0
    named: tuple[tuple[int, str], ...] = ()

    @classmethod
    def of(
        cls,
        seen: Seen,
        columns: Columns,
        lengthscale: FloatArray,
        points: FloatArray,
        mean: FloatArray | None = None,
    ) -> Extrapolations:
        """Judge encoded rows (p, d) with means (p, k), or by their distances alone."""
        scale = seen.scale(lengthscale, columns.n_features)
        distance = seen.distances(points, scale)
        distant = distance > DISTANT
        far = np.zeros(len(points), dtype=bool) if mean is None else seen.is_far(mean)
        rows = np.flatnonzero(distant | far)
        first = rows[:MOST_NAMED]
        words = []
        for row, column in zip(first, seen.furthest(points[first], scale), strict=True):
            text = f"{columns.part_of(int(column))!r} {_distance(distance[row])}"
            if far[row] and mean is not None:
                text += f", mean {', '.join(f'{value:.4g}' for value in mean[row])}"
            words.append((int(row), text))
        return cls(distance, rows.size, tuple(words))

    def followed_by(self, other: Extrapolations) -> Extrapolations:
        """The extrapolations of these rows and of others after them."""
        shift = len(self.distance)
        named = (*self.named, *((row + shift, text) for row, text in other.named))[:MOST_NAMED]
        distance = np.concatenate([self.distance, other.distance])
        return Extrapolations(distance, self.n_far + other.n_far, named)

    def warn(self) -> None:
        """Warn once, if any row is an extrapolation."""
        if not self.n_far:
            return
        rows = "; ".join(f"row {row + 1}: {text}" for row, text in self.named)
        more = "" if self.n_far == len(self.named) else "; ..."
        warn(
            f"X: {self.n_far} of {len(self.distance)} rows are extrapolations, more than "
            f"{DISTANT:g} lengthscales from the training rows in a column, or with a mean more "
            f"than {FAR_RANGES:g} ranges of y from the training targets ({rows}{more}); their laws "
            "rest on assumptions of the model, not on data",
            ExtrapolationWarning,
        )


def _distance(value: float) -> str:
    """A distance in words."""
    return "never varied" if value >= MOST_DISTANT else f"{value:.3g} lengthscales away"
