"""Groups of observations that are left out, and their laws given all others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy import integrate, special

from coupledgp.core.posterior_form import (
    mixture_log_density,
    precision_weighted_mean,
)
from coupledgp.core.units import NORMAL, Tail
from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import wrong
from coupledgp.random import FloatArray, IntArray

# Most groups that are left out by conditioning anew.
MOST_CONDITIONED = 64
# Halvings of an interval that holds a quantile, after which only rounding errors are left.
BISECTIONS = 60
# Points of each half of an integral over the law of an observation.
QUADRATURE_POINTS = 801


def rows_of_groups(groups: IntArray) -> list[IntArray]:
    """Rows of each group, ascending, from the number of the group of each row (n,)."""
    order = np.argsort(groups, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of observations that are left out together, and observations whose law is wanted.

    Attributes
    ----------
    rows : IntArray (m,)
        Numbers of the observations whose law is wanted.
    members : list of IntArray
        All observations of each group that holds a wanted one.
    n_rows, n_groups : int
        Numbers of all observations, and of all groups.
    """

    rows: IntArray
    members: list[IntArray]
    n_rows: int
    n_groups: int

    @classmethod
    def of(cls, groups: ArrayLike, n_rows: int, rows: ArrayLike | None) -> Groups:
        """Groups by the number or name of the group of each observation (n,).

        Raises
        ------
        InvalidInputError
            There are not as many groups as observations, all observations are in one group, or a
            wanted observation does not exist.
        """
        labels = np.asarray(groups)
        if labels.shape != (n_rows,):
            raise InvalidInputError(
                f"groups: expected the group of each of {n_rows} observations, got shape "
                f"{labels.shape}"
            )
        _, numbers = np.unique(labels, return_inverse=True)
        numbers = numbers.reshape(-1)
        n_groups = int(numbers.max(initial=-1)) + 1
        if n_groups < 2:
            raise InvalidInputError(
                "groups: expected two groups at least, since the law of one is given by the others"
            )
        wanted = np.arange(n_rows) if rows is None else _row_numbers(rows, n_rows)
        members = rows_of_groups(numbers)
        if rows is not None:
            members = [members[number] for number in np.unique(numbers[wanted])]
        return cls(wanted, members, n_rows, n_groups)


def _row_numbers(rows: ArrayLike, n_rows: int) -> IntArray:
    found = np.asarray(rows)
    if found.ndim != 1 or not found.size or not np.issubdtype(found.dtype, np.integer):
        raise wrong("rows", "numbers of observations", rows)
    if found.min() < 0 or found.max() >= n_rows:
        raise InvalidInputError(f"rows: expected numbers from 0 to {n_rows - 1}")
    return found.astype(np.int64)


class PartMap(Protocol):
    """The increasing map from the values that a part has a normal law of to targets."""

    def inside(self, targets: FloatArray) -> FloatArray:
        """Values (m, k, ...) of targets (m, k, ...), infinite beyond the ends of their domain."""

    def outside(self, values: FloatArray) -> FloatArray:
        """Targets (m, k, ...) of values (m, k, ...)."""

    def log_slope(self, targets: FloatArray) -> FloatArray:
        """Sums (m,) over outputs of the logs of slopes at targets (m, k) in their domain."""

    def moments(self, mean: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Means and variances (m, k) of targets, from those of normal values."""


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Laws of single observations given the observations of other groups, mixtures of q Gaussians.

    Parts with heavy tails are laws of Student, each with the same degrees of freedom.

    Attributes
    ----------
    means, variances : FloatArray (q, m, k)
        Moments of the parts, noise included; of heavy tails, the squares of their scales.
    shares : FloatArray (q,)
        Weights of the parts, of sum one.
    maps : tuple of PartMap or None
        For each part the map to targets, None where the part is of the targets themselves; empty
        where all are.
    tail : Tail
        Law of the residual of a part over its scale.
    """

    means: FloatArray
    variances: FloatArray
    shares: FloatArray
    maps: tuple[PartMap | None, ...] = ()
    tail: Tail = NORMAL

    def mapped(self, to_targets: PartMap) -> LeftOut:
        """The laws of targets of which these are the laws of values."""
        return replace(self, maps=(to_targets,) * len(self.shares))

    def scaled(self, factor: FloatArray, tail: Tail) -> LeftOut:
        """The laws whose parts have variances times factors (m, k), and other tails."""
        return replace(self, variances=self.variances * factor, tail=tail)

    @property
    def _maps(self) -> tuple[PartMap | None, ...]:
        return self.maps or (None,) * len(self.shares)

    @property
    def _moments(self) -> tuple[FloatArray, FloatArray]:
        """Means and variances (q, m, k) of the targets under each part.

        Those of a part with a map are of a normal law of the same variance, since targets of
        values with heavy tails may have no moments.
        """
        spreads = self.variances * self.tail.variance
        if not self.maps:
            return self.means, spreads
        parts = [
            (mean, variance) if own is None else own.moments(mean, variance)
            for own, mean, variance in zip(self.maps, self.means, spreads, strict=True)
        ]
        return np.array([mean for mean, _ in parts]), np.array([spread for _, spread in parts])

    def cdf(self, targets: FloatArray) -> FloatArray:
        """Chances (m, k, l) of at most targets (m, k, l)."""
        std, found = np.sqrt(self.variances)[..., None], np.zeros_like(targets)
        for own, share, mean, one in zip(self._maps, self.shares, self.means, std, strict=True):
            values = targets if own is None else own.inside(targets)
            found += share * self.tail.cdf((values - mean[..., None]) / one)
        return found

    @classmethod
    def single(cls, mean: FloatArray, variance: FloatArray) -> LeftOut:
        """Gaussian laws of means and variances (m, k), as mixtures of one part."""
        return cls(mean[None], variance[None], np.ones(1))

    @classmethod
    def mixed(cls, laws: list[LeftOut], weights: FloatArray) -> LeftOut:
        """The mixture of several laws of the same observations, by weights."""
        return cls(
            np.concatenate([law.means for law in laws]),
            np.concatenate([law.variances for law in laws]),
            np.concatenate([w * law.shares for w, law in zip(weights, laws, strict=True)]),
            sum((law._maps for law in laws), ()) if any(law.maps for law in laws) else (),
            laws[0].tail,
        )

    @classmethod
    def side_by_side(cls, laws: list[LeftOut]) -> LeftOut:
        """Laws of several sets of observations, one set after another, as one object.

        Shares that differ are cut at the sums of all of them, so that each law stays the same.
        """
        if any(law.maps for law in laws):
            raise InvalidInputError("laws: expected those of targets, got laws of transforms")
        sums = [np.cumsum(law.shares)[:-1] for law in laws]
        cuts = np.unique(np.concatenate([[0.0], *sums, [1.0]]))
        middles = 0.5 * (cuts[1:] + cuts[:-1])
        part = [np.searchsorted(own, middles) for own in sums]
        pairs = list(zip(laws, part, strict=True))
        return cls(
            np.concatenate([law.means[at] for law, at in pairs], axis=1),
            np.concatenate([law.variances[at] for law, at in pairs], axis=1),
            np.diff(cuts),
        )

    def quantiles(self, chances: FloatArray, halvings: int = BISECTIONS) -> FloatArray:
        """Quantiles (m, k, l) at chances (l,) in (0, 1), or at chances (m, k, l) of their own.

        The distribution function is inverted by bisection between the least and the greatest of
        the parts' quantiles, with so many halvings of the interval.
        """
        std = np.sqrt(self.variances)[..., None]
        each = self.means[..., None] + std * self.tail.quantiles(chances)
        for part, own in enumerate(self.maps):
            each[part] = each[part] if own is None else own.outside(each[part])
        low, high = each.min(axis=0), each.max(axis=0)
        if len(each) == 1:
            return low
        for _ in range(halvings):
            middle = 0.5 * (low + high)
            is_low = self.cdf(middle) < chances
            low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
        return 0.5 * (low + high)

    def interval_widths(self, levels: Sequence[float]) -> FloatArray:
        """Widths (m, k, l) of the central intervals of l nominal levels."""
        tails = 0.5 - 0.5 * np.array(levels)
        below, above = np.split(self.quantiles(np.concatenate([tails, 1 - tails])), 2, axis=-1)
        widths: FloatArray = above - below
        return widths

    def crps(self, targets: FloatArray) -> FloatArray:
        """Continuous ranked probability scores (m, k) of targets (m, k), in units of y.

        With `A(m, v) = E|z|` of a normal z of mean m and variance v, and shares w, it is
        `sum_i w_i A(y - m_i, v_i) - sum_ij w_i w_j A(m_i - m_j, v_i + v_j) / 2` (Grimit et al.,
        2006). With maps or heavy tails it is `int (F(t) - 1[t >= y])^2 dt`, by the trapezoidal rule
        between quantiles beyond which the tails have chances of 1e-7.
        """
        if self.maps or not self.tail.is_normal:
            return self._crps_by_quadrature(targets)
        found = np.einsum("q,qmk->mk", self.shares, _mean_size(targets - self.means,
                                                               self.variances))  # fmt: skip
        for share, mean, variance in zip(self.shares, self.means, self.variances, strict=True):
            apart = _mean_size(mean - self.means, variance + self.variances)
            found -= 0.5 * share * np.einsum("q,qmk->mk", self.shares, apart)
        return found

    def _crps_by_quadrature(self, targets: FloatArray) -> FloatArray:
        std = np.sqrt(self.variances)
        ends = []
        for z in self.tail.ends:
            each = self.means + z * std
            parts = [
                value if own is None else own.outside(value)
                for own, value in zip(self._maps, each, strict=True)
            ]
            ends.append(np.array(parts))
        low = np.minimum(ends[0].min(axis=0), targets)
        high = np.maximum(ends[1].max(axis=0), targets)
        found = np.zeros_like(targets)
        steps = self.tail.steps(QUADRATURE_POINTS)
        for end, above in ((low, 0.0), (high, 1.0)):
            places = targets[..., None] + (end - targets)[..., None] * steps
            squares = np.square(self.cdf(places) - above)
            found += np.abs(integrate.trapezoid(squares, places, axis=-1))
        return found

    def take(self, places: IntArray) -> LeftOut:
        """The laws of the observations at places (m,)."""
        return replace(self, means=self.means[:, places], variances=self.variances[:, places])

    @property
    def mean(self) -> FloatArray:
        """The precision-weighted mean (m, k) of the parts' means, as of `MixtureGP`."""
        return precision_weighted_mean(*self._moments, self.shares)

    @property
    def variance(self) -> FloatArray:
        """Second moments (m, k) of the mixture about its mean."""
        means, variances = self._moments
        found: FloatArray = np.einsum(
            "q,qmk->mk", self.shares, variances + np.square(means - self.mean)
        )
        return found

    def log_density(self, targets: FloatArray) -> FloatArray:
        """Log density (m,) of targets (m, k), outputs jointly."""
        densities = []
        for own, mean, variance in zip(self._maps, self.means, self.variances, strict=True):
            if own is None:
                densities.append(self.tail.log_density(targets, mean, variance))
                continue
            values = own.inside(targets)
            known = np.isfinite(values).all(axis=1)
            density = np.full(len(targets), -np.inf)
            density[known] = self.tail.log_density(values[known], mean[known], variance[known])
            density[known] += own.log_slope(targets[known])
            densities.append(density)
        return mixture_log_density(np.array(densities), self.shares)

    def transforms(self, targets: FloatArray) -> FloatArray:
        """Probability integral transforms `F(y)` (m, k) of targets (m, k)."""
        return self.cdf(targets[..., None])[..., 0]


def _mean_size(mean: FloatArray, variance: FloatArray) -> FloatArray:
    """Mean absolute value of normal variables of these means and variances, of any shape."""
    std = np.sqrt(variance)
    z = mean / std
    density = np.exp(-0.5 * np.square(z)) / np.sqrt(2 * np.pi)
    found: FloatArray = 2 * std * density + mean * (2 * special.ndtr(z) - 1)
    return found


def own_noise(noise: float, weights: Any) -> tuple[FloatArray | float, FloatArray | float]:
    """Noise variances (n,) of single observations, and of rows as they enter the covariance.

    A row that counts c times enters with the c-th part of its noise variance; its law is that of
    one observation.
    """
    if weights is None:
        return noise, noise
    return noise * weights.noise, noise * weights.relative_noise


def correlation_of(covariance: FloatArray) -> FloatArray:
    """Correlations (m, m) of a covariance (m, m)."""
    std = np.sqrt(covariance.diagonal())
    found: FloatArray = covariance / np.multiply.outer(std, std)
    return 0.5 * (found + found.T)
