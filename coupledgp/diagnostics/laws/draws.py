"""Predictive distributions that are known by draws, such as ensembles and posterior draws.

With m draws x_j of a right law and its target y, all m + 1 are exchangeable. So the rank of y among
the draws, ties at random, has the uniform law on 0 to m however few the draws are, and

    F(y) = (#{x_j < y} + u (1 + #{x_j = y})) / (m + 1),    u uniform on (0, 1),

is uniform, too (Hamill, 2001, Monthly Weather Review 129). Scores are fair: their mean over draws
is that of the law itself (Ferro, 2014, QJRMS 140).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

from coupledgp.errors import InvalidInputError
from coupledgp.random import FloatArray, IntArray

# Seed of the uniform numbers that break ties of ranks.
TIES = 17
# Draws at most whose distances from each other make an energy score.
MOST_PAIRED = 500
# Least standard deviation of the draws of a point, in units of the largest.
LEAST_SPREAD = 1e-6


@dataclass(frozen=True, eq=False)
class Draws:
    """Laws of observations at p points, k outputs, by m draws.

    Attributes
    ----------
    draws : FloatArray (m, p, k)
        Draws of observations, noise included, m two or more.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import Draws
    >>> law = Draws(np.array([0.0, 1.0, 2.0])[:, None, None])
    >>> float(law.mean[0, 0]), law.has_density
    (1.0, False)
    """

    draws: FloatArray

    has_density: ClassVar[bool] = False
    has_moments: ClassVar[bool] = True

    @property
    def mean(self) -> FloatArray:
        """Means (p, k) of the draws."""
        found: FloatArray = self.draws.mean(axis=0)
        return found

    @property
    def std(self) -> FloatArray:
        """Standard deviations (p, k), a millionth of the largest at least.

        Where observations have atoms, as dry days, all draws of a point may be equal.
        """
        found = np.sqrt(self.variance)
        return np.maximum(found, LEAST_SPREAD * found.max())

    @property
    def variance(self) -> FloatArray:
        """Unbiased variances (p, k) of the draws."""
        found: FloatArray = self.draws.var(axis=0, ddof=1)
        return found

    def take(self, rows: IntArray) -> Draws:
        """The laws at some of the points."""
        return Draws(self.draws[:, rows])

    def log_density(self, y: FloatArray) -> FloatArray:
        raise InvalidInputError("model: expected a density, draws alone have none")

    def cdf(self, y: FloatArray) -> FloatArray:
        """Randomised transforms (p, k) of y (p, k), from their ranks among the draws."""
        below = (self.draws < y).sum(axis=0)
        equal = (self.draws == y).sum(axis=0)
        u = np.random.default_rng(TIES).uniform(size=y.shape)
        found: FloatArray = (below + u * (1 + equal)) / (1 + len(self.draws))
        return found

    def ppf(self, chances: FloatArray) -> FloatArray:
        """Order statistics (p, k, l) of the ranks `chance (m + 1)`, with lines between."""
        return np.moveaxis(np.quantile(self.draws, chances, axis=0, method="weibull"), 0, -1)

    def crps(self, y: FloatArray) -> FloatArray:
        """Fair continuous ranked probability scores (p, k), in units of y.

        They are `mean_j |x_j - y| - sum_(i < j) |x_i - x_j| / (m (m - 1))`.
        """
        m = len(self.draws)
        ordered = np.sort(self.draws, axis=0)
        weights = 2.0 * np.arange(m) - (m - 1)
        apart = np.tensordot(weights, ordered, axes=(0, 0)) / (m * (m - 1))
        found: FloatArray = np.abs(self.draws - y).mean(axis=0) - apart
        return found

    def squared_error(self, y: FloatArray) -> FloatArray:
        """Fair squared errors (p, k) of the law's mean: the draws' less their variance over m."""
        found: FloatArray = np.square(y - self.mean) - self.variance / len(self.draws)
        return found

    def energy(self, y: FloatArray) -> float:
        """Fair energy score of all y (p, k) jointly, over the root of their number.

        It is `mean_j |x_j - y| - sum_(i < j) |x_i - x_j| / (m (m - 1))` with Euclidean norms of all
        points together (Gneiting and Raftery, 2007). The second sum is over 500 draws at most.
        """
        flat = self.draws.reshape(len(self.draws), -1)
        near = np.linalg.norm(flat - y.reshape(-1), axis=1).mean()
        some = flat[np.linspace(0, len(flat) - 1, min(len(flat), MOST_PAIRED)).astype(int)]
        squares = np.square(some).sum(axis=1)
        apart = np.sqrt(np.maximum(squares[:, None] + squares - 2 * some @ some.T, 0.0))
        np.fill_diagonal(apart, 0.0)
        n = len(some)
        return float((near - 0.5 * apart.sum() / (n * (n - 1))) / np.sqrt(y.size))

    def shuffled(self) -> Draws:
        """The same draws of each point in an order of its own, so that points are independent."""
        rng = np.random.default_rng(TIES)
        return Draws(rng.permuted(self.draws, axis=0))

    def pooled_moments(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Means and standard deviations (p, k) of draws and y together.

        They do not change when the target and a draw are exchanged. So ranks among points that are
        chosen by them stay uniform, which those chosen by the moments of few draws do not.
        """
        both = np.concatenate([self.draws, y[None]])
        return both.mean(axis=0), both.std(axis=0)

    def scores_with(self, y: FloatArray) -> FloatArray:
        """Normal scores (m + 1, p, k) of y, first, and draws by their ranks among all.

        Ties are broken at random. For a right law the rows are exchangeable.
        """
        both = np.concatenate([y[None], self.draws])
        u = np.random.default_rng(TIES).uniform(size=both.shape)
        order = np.lexsort((u, both), axis=0)
        ranks = np.empty(both.shape)
        places = np.arange(1, len(both) + 1, dtype=np.float64).reshape(-1, 1, 1)
        np.put_along_axis(ranks, order, np.broadcast_to(places, both.shape), axis=0)
        found: FloatArray = ndtri((ranks - 0.5) / len(both))
        return found

    def correlation(self) -> FloatArray:
        """Correlations (p, p, k) of the points, shrunk towards zero as far as draws are few.

        They are those of `(1 - g) S + g I`, S the sample correlation of the draws' normal scores,
        and g the share that has the least expected squared error (Ledoit and Wolf, 2004).
        """
        parts = [_shrunk(_normal_scores(one)) for one in np.moveaxis(self.draws, -1, 0)]
        return np.stack(parts, axis=-1)


def _normal_scores(draws: FloatArray) -> FloatArray:
    """Normal scores (m, p) of draws (m, p) by their ranks at each point, of variance one."""
    scores = ndtri((rankdata(draws, axis=0) - 0.5) / len(draws))
    size = np.sqrt(np.square(scores).mean(axis=0))
    found: FloatArray = np.divide(scores, size, out=np.zeros_like(scores), where=size > 0)
    return found


def _shrunk(scores: FloatArray) -> FloatArray:
    """Shrunk correlations (p, p) of scores (m, p) of mean zero and variance one."""
    m, p = scores.shape
    sample = scores.T @ scores / m
    np.fill_diagonal(sample, 1.0)
    spread = float(np.square(sample).sum() - p)
    norms = np.square(np.square(scores).sum(axis=1)).sum()
    noise = float(norms / m - np.square(sample).sum()) / m
    share = min(max(noise / spread, 1 / m), 1.0) if spread > 0 else 1.0
    found = (1 - share) * sample
    np.fill_diagonal(found, 1.0)
    return found
