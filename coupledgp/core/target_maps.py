"""Maps from values z to targets `y = g^-1(z)`, and laws of targets each alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coupledgp.core.process import Marginals, PredictiveLaw
from coupledgp.core.transforms import TargetTransform
from coupledgp.ground.codec import stored
from coupledgp.ground.validation import varies
from coupledgp.likelihoods import hermite
from coupledgp.random import FloatArray

# Ranges of the training targets, beyond these, to which targets are clipped where a law has no sane
# moments. A standard deviation is not sane above the largest of a law between these ends.
CLIP_RANGES = 3.0


@dataclass(frozen=True, eq=False)
class ToTargets:
    """The maps from values z to targets y of all outputs, for laws of rows that are left out.

    Attributes
    ----------
    transforms : tuple of TargetTransform
        The transform g of each of the k outputs.
    span : Span or None
        Where observations are, beyond which moments are clipped.
    """

    transforms: tuple[TargetTransform, ...]
    span: Span | None

    def inside(self, targets: FloatArray) -> FloatArray:
        """Values (m, k, ...) of targets, infinite beyond the ends of their domain."""
        found = np.empty_like(targets)
        for k, transform in enumerate(self.transforms):
            own = targets[:, k]
            there = np.asarray(transform.contains(own))
            found[:, k] = np.where(own <= transform.domain[0], -np.inf, np.inf)
            found[:, k][there] = transform.forward(own[there])
        return found

    def contains(self, targets: FloatArray) -> bool:
        """Whether targets (m, k) all lie in their domain."""
        columns = [t.contains(targets[:, k]).all() for k, t in enumerate(self.transforms)]
        return all(columns)

    def outside(self, values: FloatArray) -> FloatArray:
        """Targets (m, k, ...) of values (m, k, ...)."""
        mapped = [mapped_back(t, values[:, k]) for k, t in enumerate(self.transforms)]
        return np.stack(mapped, axis=1)

    def log_slope(self, targets: FloatArray) -> FloatArray:
        """Sums (m,) of `log g'(y)` of targets (m, k) in their domain."""
        columns = [t.log_slope(targets[:, k]) for k, t in enumerate(self.transforms)]
        return np.asarray(np.sum(columns, axis=0))

    def moments(self, mean: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Means and variances (m, k) of y, by Hermite expansions."""
        law = back_transformed(PredictiveLaw(mean, variance), self.transforms, self.span).law
        assert law.spread is not None
        return law.mean, law.spread


class MappedMarginals(NamedTuple):
    """Laws of y at p points, each alone, from those of z.

    Attributes
    ----------
    inner : Marginals
        Laws of z.
    to_targets : ToTargets
        The maps to y.
    """

    inner: Marginals
    to_targets: ToTargets

    def cdf(self, values: FloatArray) -> FloatArray:
        """Chances (p, k, q) of observations of at most values (p, k, q)."""
        return self.inner.cdf(self.to_targets.inside(values))

    def quantiles(self, probabilities: FloatArray) -> FloatArray:
        """Quantiles (p, k, q) at probabilities (q,)."""
        return self.to_targets.outside(self.inner.quantiles(probabilities))


@stored
@dataclass(frozen=True, eq=False)
class Span:
    """Least and greatest training target of each output.

    Attributes
    ----------
    low, high : FloatArray (k,)
        Least and greatest target of each output.
    """

    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, targets: FloatArray) -> Span:
        """The span of targets (n, k)."""
        return cls(targets.min(axis=0), targets.max(axis=0))

    def joined(self, other: Span) -> Span:
        """The span of the targets of both spans."""
        return Span(np.minimum(self.low, other.low), np.maximum(self.high, other.high))

    @property
    def ends(self) -> tuple[FloatArray, FloatArray]:
        """Ends (k,) beyond which no mean of targets is sane; infinite if targets do not vary."""
        span = self.high - self.low
        room = np.where(varies(self.low, self.high), CLIP_RANGES * span, np.inf)
        return self.low - room, self.high + room


class BackTransformed(NamedTuple):
    """Moments of y at p points, and at which of them (p,) targets were clipped to the span."""

    law: PredictiveLaw
    clipped: NDArray[np.bool_]


def back_transformed(
    law: PredictiveLaw, transforms: Sequence[TargetTransform], span: Span | None = None
) -> BackTransformed:
    """Mean (p, k) and variance (p, k) or covariance (p, p, k) of y, from the moments of z.

    A law of z with a large variance may give y a mean, or a deviation, that no target is near, or
    none: an exponential of a normal variable of deviation 10 has the mean `exp(50)` times its
    median. Where a mean leaves the ends of the span, or a deviation is larger than any between
    them, both are those of y clipped to these ends.

    Parameters
    ----------
    law
        Moments of the normal law of z.
    transforms
        The transform of each of the k outputs.
    span
        Where training targets are; None for no clipping.
    """
    mean, spread = law
    assert spread is not None
    clipped = np.zeros(len(mean), dtype=bool)
    pairs = []
    for k, transform in enumerate(transforms):
        own, std = mean[:, k], _deviations(spread[..., k])
        expansion = _expansion(transform, own, std)
        if span is not None:
            low, high = (float(end[k]) for end in span.ends)
            rows = ~_are_sane(expansion, low, high)
            if rows.any():
                expansion = np.pad(expansion, ((0, 0), (0, 1)))
                expansion[rows] = _clipped(transform, own[rows], std[rows], low, high)
                clipped |= rows
        pairs.append(_moments(expansion, std, spread[..., k]))
    found = (np.stack(parts, axis=-1) for parts in zip(*pairs, strict=True))
    return BackTransformed(PredictiveLaw(*found), clipped)


def mapped_moments(
    transform: TargetTransform, mean: FloatArray, spread: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Mean (p,) and variance (p,) or covariance (p, p) of `g^-1(z)` for a normal z."""
    std = _deviations(spread)
    return _moments(_expansion(transform, mean, std), std, spread)


def _deviations(spread: FloatArray) -> FloatArray:
    return np.sqrt(spread if spread.ndim == 1 else np.diagonal(spread))


def _expansion(transform: TargetTransform, mean: FloatArray, std: FloatArray) -> FloatArray:
    """Hermite coefficients of the targets of normal values z of moments (p,)."""
    with np.errstate(invalid="ignore", over="ignore"):  # of values that are beyond all numbers
        return hermite.coefficients(lambda z: mapped_back(transform, z), mean, std)


def _clipped(
    transform: TargetTransform, mean: FloatArray, std: FloatArray, low: float, high: float
) -> FloatArray:
    """Hermite coefficients (p, N_TERMS + 1) of targets that are clipped to two ends."""

    def clipped(z: FloatArray) -> FloatArray:
        return np.clip(mapped_back(transform, z), low, high)

    return hermite.bounded_coefficients(clipped, mean, std)


def _are_sane(expansion: FloatArray, low: float, high: float) -> NDArray[np.bool_]:
    """Whether some law between two ends has this mean and deviation (p,); false for NaN."""
    with np.errstate(invalid="ignore", over="ignore"):
        mean, variance = expansion[:, 0], hermite.variance_of(expansion)
        inside = (low <= mean) & (mean <= high)
        return np.asarray(inside & (variance <= (0.5 * (high - low)) ** 2))


def _moments(
    expansion: FloatArray, std: FloatArray, spread: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Mean (p,) and variance (p,) or covariance (p, p) of expanded variables."""
    if spread.ndim == 1:
        return expansion[:, 0], hermite.variance_of(expansion)
    safe = np.where(std > 0, std, 1.0)
    correlation = np.clip(spread / np.multiply.outer(safe, safe), -1.0, 1.0)
    return expansion[:, 0], hermite.covariance_of(expansion, correlation)


def mapped_back(transform: TargetTransform, values: FloatArray) -> FloatArray:
    """`g^-1(z)` of values z of any shape; values outside the image are moved to its nearest end."""
    with np.errstate(over="ignore"):  # of an exponential: infinity is the answer
        return transform.inverse(np.clip(values, *transform.image))


# Cells whose moments are expanded at once.
AT_ONCE = 2**16


def moments_back(
    transform: TargetTransform, mean: FloatArray, std: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Means and variances of values of normal transformed ones, NaN where these are NaN."""
    found = np.full((2, mean.size), np.nan)
    there = np.flatnonzero(~np.isnan(mean.reshape(-1)))
    flat_mean, flat_std = mean.reshape(-1), np.broadcast_to(std, mean.shape).reshape(-1)
    for part in np.array_split(there, max(1, there.size // AT_ONCE)):
        found[:, part] = mapped_moments(transform, flat_mean[part], flat_std[part] ** 2)
    return found[0].reshape(mean.shape), found[1].reshape(mean.shape)
