"""Chances of classes at points, and what labels say of them.

Scores of a label y at a point with chances p (K,) of the K classes:

    log loss  -log p_y ,        Brier score  sum_c (p_c - [y = c])^2 .

Laws of single observations under a likelihood, with their scores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from coupledgp.diagnostics.scoring.laws import PointLaws
from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import real_array, wrong
from coupledgp.likelihoods.base import Likelihood
from coupledgp.random import FloatArray, IntArray

# Least chance of a label in a log loss: a label without any costs 35 nats.
LEAST_CHANCE = 1e-15
# Largest difference of the sum of stated chances from one.
SUM_TOLERANCE = 1e-3


@dataclass(frozen=True, eq=False)
class ClassLaws:
    """Chances of classes at p points.

    Attributes
    ----------
    chances : FloatArray (p, K)
        Chances of each class; rows sum to one.
    classes : NDArray (K,)
        Labels of the classes.
    """

    chances: FloatArray
    classes: NDArray[Any]

    @classmethod
    def of(cls, chances: Any, classes: Any, n_points: int, name: str = "predict") -> Self:
        """Chances as somebody states them.

        Parameters
        ----------
        chances
            Chances (p, K), or (p,) of the second of two classes.
        classes
            Labels (K,).
        n_points
            Number p of points.
        name
            Name of the argument in messages.

        Raises
        ------
        InvalidInputError
            Shapes do not fit, or numbers are no chances.
        """
        found, labels = real_array(chances, name), np.asarray(classes)
        if found.ndim == 1 and len(labels) == 2:
            found = np.column_stack([1 - found, found])
        if found.shape != (n_points, len(labels)):
            raise InvalidInputError(
                f"{name}: expected chances ({n_points}, {len(labels)}) of the classes "
                f"{labels.tolist()}, got shape {found.shape}"
            )
        sums = found.sum(axis=1)
        if not (found >= -SUM_TOLERANCE).all() or np.abs(sums - 1).max() > SUM_TOLERANCE:
            raise InvalidInputError(
                f"{name}: expected chances that are not negative and sum to one, got a row of sum "
                f"{sums[np.abs(sums - 1).argmax()]:.4g} and a least chance of {found.min():.3g}"
            )
        found = np.maximum(found, 0.0)
        return cls(found / found.sum(axis=1, keepdims=True), labels)

    def codes(self, labels: Any, name: str = "y_test") -> IntArray:
        """Places (p,) of labels among the classes.

        Raises
        ------
        InvalidInputError
            There is not one label a point, or one that is none of the classes.
        """
        given = np.asarray(labels).reshape(-1)
        if len(given) != len(self.chances):
            raise wrong(name, f"{len(self.chances)} labels, one a point", len(given))
        order = np.argsort(self.classes)
        try:
            places = order[
                np.searchsorted(self.classes, given, sorter=order).clip(max=len(order) - 1)
            ]
            strange = self.classes[places] != given
        except TypeError:
            raise wrong(name, f"labels like {self.classes.tolist()}", given[:3].tolist()) from None
        if np.any(strange):
            known, other = self.classes.tolist(), given[strange].tolist()[0]
            raise wrong(name, f"labels {known}", other)
        return np.asarray(places)

    @property
    def log_chances(self) -> FloatArray:
        """Logarithms (p, K) of the chances, nats."""
        return np.log(np.maximum(self.chances, LEAST_CHANCE))

    def log_losses(self, codes: IntArray) -> FloatArray:
        """Minus log chances (p,) of labels of places (p,), nats."""
        return -self.log_chances[np.arange(len(codes)), codes]

    def brier_losses(self, codes: IntArray) -> FloatArray:
        """Brier scores (p,) of labels of places (p,)."""
        squares = np.square(self.chances)
        own = self.chances[np.arange(len(codes)), codes]
        return np.asarray(squares.sum(axis=1) - 2 * own + 1)

    @property
    def predicted(self) -> IntArray:
        """Places (p,) of the most probable classes."""
        return self.chances.argmax(axis=1)

    def event(self) -> tuple[FloatArray, IntArray]:
        """Chance (p,) and place (p,) of the class whose calibration is looked at.

        It is the second one of two classes, and the most probable one of more.
        """
        if len(self.classes) == 2:
            return self.chances[:, 1], np.ones(len(self.chances), dtype=int)
        top = self.predicted
        return self.chances[np.arange(len(top)), top], top

    def confusion(self, codes: IntArray) -> IntArray:
        """Numbers (K, K) of points of each class (row) by the most probable one (column)."""
        k = len(self.classes)
        return np.bincount(codes * k + self.predicted, minlength=k * k).reshape(k, k)

    def drawn(self, n_draws: int, rng: np.random.Generator) -> IntArray:
        """Places (n_draws, p) of labels, points taken as independent."""
        return drawn_labels(np.broadcast_to(self.chances, (n_draws, *self.chances.shape)), rng)

    def take(self, rows: IntArray) -> ClassLaws:
        """The chances at some of the points."""
        return ClassLaws(self.chances[rows], self.classes)


def drawn_labels(chances: FloatArray, rng: np.random.Generator) -> IntArray:
    """A place for each row (..., K) of chances."""
    ends = np.cumsum(chances[..., :-1], axis=-1)
    return np.asarray((rng.random(chances.shape[:-1])[..., None] > ends).sum(axis=-1))


# Chance beyond each end of the grid that a ranked probability score is summed over, and points of
# the grid.
TAIL, GRID = 1e-3, 100


@dataclass(frozen=True, eq=False)
class ObservedLaws:
    """Laws of observations at p points, k outputs; see `OwnLaws`.

    Attributes
    ----------
    likelihood : Likelihood
    mean, variance : FloatArray (p, k)
        Moments of the functions, with the logarithms of exposures.
    seed : int
        Seed of the uniform numbers of randomised transforms.
    """

    likelihood: Likelihood
    mean: FloatArray
    variance: FloatArray
    seed: int = 0
    _found: dict[bytes, FloatArray] = field(default_factory=dict, repr=False)

    @property
    def laws(self) -> PointLaws:
        """The laws with their moments."""
        mean, variance = self.likelihood.marginal_moments(self.mean, self.variance)
        return PointLaws(mean, np.sqrt(variance), self)

    def log_density(self, targets: FloatArray) -> FloatArray:
        """Log densities (p,), chances of discrete laws, outputs jointly."""
        found = self.likelihood.marginal_log_density(targets, self.mean, self.variance)
        return np.asarray(found.sum(axis=1))

    def transforms(self, targets: FloatArray) -> FloatArray:
        """Transforms `F(y)` (p, k), randomised for discrete laws."""
        rng = np.random.default_rng(self.seed)
        found = self.likelihood.pit(targets, self.mean, self.variance, rng)
        return np.clip(found, 0.0, 1.0)

    def interval_widths(self, levels: Sequence[float]) -> FloatArray:
        """Widths (p, k, l) of the central intervals of l nominal levels."""
        tails = 0.5 - 0.5 * np.array(levels)
        below, above = np.split(self._quantiles(np.concatenate([tails, 1 - tails])), 2, axis=-1)
        return np.asarray(above - below)

    def crps(self, targets: FloatArray) -> FloatArray:
        """Ranked probability scores (p, k): `sum_z (F(z) - [y <= z])^2`, an integral over z.

        The sum is over whole numbers for discrete laws, over each m-th of them where there are more
        than `GRID`; the integral is by the middles of equal steps on each side of y. They are kept,
        since several scores ask for them.
        """
        key = targets.tobytes()
        if key not in self._found:
            self._found[key] = self._ranked(targets)
        return self._found[key]

    def _ranked(self, targets: FloatArray) -> FloatArray:
        """The scores of `crps`."""
        ends = self._quantiles(np.array([TAIL, 1 - TAIL]))
        low, high = np.minimum(ends[..., 0], targets), np.maximum(ends[..., 1], targets)
        if self.likelihood.is_discrete:
            width = max(1.0, float(np.ceil((high - low).max() / (GRID - 1))))
            count = int(np.ceil((high - low).max() / width)) + 1
            grid = low[..., None] + width * np.arange(count)
            middle = grid + np.floor(0.5 * (width - 1))
            cumulated = self.likelihood.marginal_cdf(middle, self.mean, self.variance)
            found = np.square(cumulated - (targets[..., None] <= middle)).sum(axis=-1) * width
            return np.asarray(found)
        below = self._squares(low, targets, lambda cumulated: cumulated)
        return below + self._squares(targets, high, lambda cumulated: 1 - cumulated)

    def _squares(
        self, low: FloatArray, high: FloatArray, part: Callable[[FloatArray], FloatArray]
    ) -> FloatArray:
        """Integrals (p, k) of squares of F or of `1 - F` between ends (p, k)."""
        width = (high - low)[..., None] / GRID
        grid = low[..., None] + width * (np.arange(GRID) + 0.5)
        cumulated = self.likelihood.marginal_cdf(grid, self.mean, self.variance)
        return np.asarray((np.square(part(cumulated)) * width).sum(axis=-1))

    def _quantiles(self, chances: FloatArray) -> FloatArray:
        return self.likelihood.marginal_quantiles(chances, self.mean, self.variance)
