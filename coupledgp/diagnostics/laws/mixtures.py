"""Predictive distributions that are mixtures, of processes and of likelihoods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.core.left_out import LeftOut
from coupledgp.core.process import GaussianProcess, Points
from coupledgp.diagnostics.laws.normal import Normal
from coupledgp.likelihoods.base import Likelihood
from coupledgp.random import FloatArray, IntArray

# Quantiles that the ranked probability score of a process is summed over.
QUANTILES = 400
# Chance beyond each end of the grid that a ranked probability score of a likelihood is summed over,
# and points of the grid.
TAIL, GRID = 1e-3, 100


@dataclass(frozen=True, eq=False)
class Mixture:
    """Mixtures of q Gaussian or Student's distributions at p points, k outputs.

    Attributes
    ----------
    parts : LeftOut
        Means and variances (q, p, k) of the parts, and their weights (q,).
    mean, std : FloatArray (p, k)
    joint : Normal or None
        The normal distribution of the joint moments, where they are known.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import Mixture
    >>> law = Mixture.of(np.array([-1.0, 1.0])[:, None, None], np.ones((2, 1, 1)), [0.5, 0.5])
    >>> round(float(law.std[0, 0] ** 2), 9)  # one of the parts, one between their means
    2.0
    """

    parts: LeftOut
    mean: FloatArray
    std: FloatArray
    joint: Normal | None = None

    has_density: ClassVar[bool] = True
    has_moments: ClassVar[bool] = True

    @classmethod
    def of(cls, means: FloatArray, stds: FloatArray, weights: ArrayLike) -> Mixture:
        """The mixture of means and standard deviations (q, p, k) with weights (q,) of sum one."""
        weights = np.asarray(weights)
        mean = np.einsum("q,qpk->pk", weights, means)
        variance = np.einsum("q,qpk->pk", weights, np.square(stds) + np.square(means - mean))
        return cls(LeftOut(means, np.square(stds), weights), mean, np.sqrt(variance))

    @classmethod
    def left_out(cls, parts: LeftOut) -> Mixture:
        """Distributions of rows that are left out; their mean is that which the model predicts."""
        return cls(parts, parts.mean, np.sqrt(parts.variance))

    def log_density(self, y: FloatArray) -> FloatArray:
        return self.parts.log_density(y)

    def cdf(self, y: FloatArray) -> FloatArray:
        return self.parts.transforms(y)

    def ppf(self, chances: FloatArray) -> FloatArray:
        return self.parts.quantiles(chances)

    def crps(self, y: FloatArray) -> FloatArray:
        """Closed form of Grimit et al. (2006) for Gaussian parts, else by quadrature."""
        return self.parts.crps(y)

    def take(self, rows: IntArray) -> Mixture:
        joint = None if self.joint is None else self.joint.take(rows)
        return Mixture(self.parts.take(rows), self.mean[rows], self.std[rows], joint)


@dataclass(frozen=True, eq=False)
class OfProcess:
    """Distributions of single observations of a process that are not normal.

    Attributes
    ----------
    process : GaussianProcess
    points : Points (p, ...)
    joint : Normal
        The normal distribution of the joint moments.
    """

    process: GaussianProcess
    points: Points
    joint: Normal

    has_density: ClassVar[bool] = True
    has_moments: ClassVar[bool] = True

    @property
    def mean(self) -> FloatArray:
        return self.joint.mean

    @property
    def std(self) -> FloatArray:
        return self.joint.std

    def log_density(self, y: FloatArray) -> FloatArray:
        return self.process.log_density(self.points, y)

    def cdf(self, y: FloatArray) -> FloatArray:
        return self.process.cdf(self.points, y)

    def ppf(self, chances: FloatArray) -> FloatArray:
        return self.process.quantiles(self.points, chances)

    def crps(self, y: FloatArray) -> FloatArray:
        """`2 int (1[y < q(u)] - u) (q(u) - y) du` by the middles of 400 steps of u."""
        chances = (np.arange(QUANTILES) + 0.5) / QUANTILES
        gaps = self.ppf(chances) - y[..., None]
        return np.asarray(2 * (((gaps > 0) - chances) * gaps).mean(axis=-1))

    def take(self, rows: IntArray) -> OfProcess:
        return OfProcess(self.process, self.points[rows], self.joint.take(rows))


@dataclass(frozen=True, eq=False)
class Observed:
    """Distributions of observations under a likelihood, of functions with normal ones.

    Attributes
    ----------
    likelihood : Likelihood
    center, variance : FloatArray (p, k)
        Moments of the functions, with the logarithms of exposures.
    seed : int
        Seed of the uniform numbers of randomised transforms.
    """

    likelihood: Likelihood
    center: FloatArray
    variance: FloatArray
    seed: int = 0

    has_density: ClassVar[bool] = True
    has_moments: ClassVar[bool] = True

    @cached_property
    def _moments(self) -> tuple[FloatArray, FloatArray]:
        return self.likelihood.marginal_moments(self.center, self.variance)

    @property
    def mean(self) -> FloatArray:
        return self._moments[0]

    @property
    def std(self) -> FloatArray:
        return np.sqrt(self._moments[1])

    def log_density(self, y: FloatArray) -> FloatArray:
        """Log densities (p,), log chances of discrete observations, outputs jointly."""
        found = self.likelihood.marginal_log_density(y, self.center, self.variance)
        return np.asarray(found.sum(axis=1))

    def cdf(self, y: FloatArray) -> FloatArray:
        rng = np.random.default_rng(self.seed)
        return np.clip(self.likelihood.pit(y, self.center, self.variance, rng), 0.0, 1.0)

    def ppf(self, chances: FloatArray) -> FloatArray:
        return self.likelihood.marginal_quantiles(chances, self.center, self.variance)

    def crps(self, y: FloatArray) -> FloatArray:
        """`sum_z (F(z) - [y <= z])^2` (p, k), an integral over z where it is continuous.

        The sum is over whole numbers, over each m-th of them where there are more than 100; the
        integral is by the middles of equal steps on each side of y.
        """
        ends = self.ppf(np.array([TAIL, 1 - TAIL]))
        low, high = np.minimum(ends[..., 0], y), np.maximum(ends[..., 1], y)
        if not self.likelihood.is_discrete:
            below = self._squares(low, y, lambda cumulated: cumulated)
            return below + self._squares(y, high, lambda cumulated: 1 - cumulated)
        width = max(1.0, float(np.ceil((high - low).max() / (GRID - 1))))
        count = int(np.ceil((high - low).max() / width)) + 1
        middle = low[..., None] + width * np.arange(count) + np.floor(0.5 * (width - 1))
        cumulated = self.likelihood.marginal_cdf(middle, self.center, self.variance)
        return np.asarray(np.square(cumulated - (y[..., None] <= middle)).sum(axis=-1) * width)

    def _squares(
        self, low: FloatArray, high: FloatArray, part: Callable[[FloatArray], FloatArray]
    ) -> FloatArray:
        """Integrals (p, k) of squares of F or of `1 - F` between ends (p, k)."""
        width = (high - low)[..., None] / GRID
        grid = low[..., None] + width * (np.arange(GRID) + 0.5)
        cumulated = self.likelihood.marginal_cdf(grid, self.center, self.variance)
        return np.asarray((np.square(part(cumulated)) * width).sum(axis=-1))

    def take(self, rows: IntArray) -> Observed:
        return Observed(self.likelihood, self.center[rows], self.variance[rows], self.seed)


def law_of_process(process: GaussianProcess, points: Points) -> Normal | Mixture | OfProcess:
    """The distribution of observations of a process at points, with its joint moments."""
    joint = Normal.of_process(process, points)
    if process.is_gaussian:
        return joint
    parts = process.parts_of_law(points)
    if parts is None:
        return OfProcess(process, points, joint)
    return Mixture(parts, joint.mean, joint.std, joint)
