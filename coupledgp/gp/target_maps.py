"""Maps from values z to targets `y = g^-1(z)`, and laws of targets each alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from coupledgp.gp.back_transformed import Span, back_transformed, mapped_back
from coupledgp.gp.protocol import Marginals, PredictiveLaw
from coupledgp.gp.transforms import TargetTransform
from coupledgp.random import FloatArray


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
