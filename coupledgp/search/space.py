"""Hyperparameters, and the space in which they are searched for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from coupledgp.inference.evidence.problem import EvidenceAtLengthscale
from coupledgp.random import FloatArray, IntArray
from coupledgp.search.minimise import Minimiser, lbfgs
from coupledgp.search.profile import ScaleBounds, profile_scales


@dataclass(frozen=True)
class SearchSpace:
    """Free hyperparameters, the starts and the optimiser of their search, and its bounds.

    Parameters
    ----------
    base
        Data-driven lengthscales (d,), the unit in which lengthscales are searched.
    ard
        One free lengthscale for each dimension; otherwise one factor on `base`.
    lengthscale
        Given lengthscales (d,): the only start, or kept if not free.
    outputscale, noise
        Variances that are kept if not free; otherwise ignored: the best are found without a start.
    free
        Names among lengthscale, outputscale, noise that are optimised.
    bounds
        Box of the variances.
    log_range
        Least and greatest log of a lengthscale over its base.
    minimise
        The optimiser of the lengthscales.
    groups
        Number (d,) of the group of each dimension, from 0 up: the dimensions of a group share one
        free lengthscale, and stand beside each other in `base` with one value. None: each dimension
        is a group.
    """

    base: FloatArray
    ard: bool
    lengthscale: FloatArray | None = None
    outputscale: float = 1.0
    noise: float = 0.1
    free: frozenset[str] = frozenset({"lengthscale", "outputscale", "noise"})
    bounds: ScaleBounds = field(default_factory=ScaleBounds)
    log_range: tuple[float, float] = (np.log(1e-3), np.log(1e4))
    minimise: Minimiser = lbfgs
    groups: IntArray | None = None

    @property
    def n_lengthscales(self) -> int:
        """Number q of free lengthscales."""
        if not self.ard:
            return 1
        return self.base.size if self.groups is None else int(self.groups[-1]) + 1

    @property
    def given_outputscale(self) -> float | None:
        """Value of the outputscale if it is given, None if it is searched for."""
        return None if "outputscale" in self.free else self.outputscale

    @property
    def given_noise(self) -> float | None:
        """Value of the noise if it is given, None if it is searched for."""
        return None if "noise" in self.free else self.noise

    def scales(self, here: EvidenceAtLengthscale) -> tuple[float, float]:
        """The best (outputscale, noise) at fixed lengthscales; a given one does not change."""
        kept = self.given_outputscale, self.given_noise
        if kept[0] is not None and kept[1] is not None:
            return kept[0], kept[1]
        return profile_scales(here.spectral(), self.bounds, *kept)

    def lengthscales(self, theta: FloatArray) -> FloatArray:
        """Lengthscales (d,) from the free logarithms theta (q,) over their base."""
        factors: FloatArray = self.of_dimensions(np.exp(theta))
        return self.base * factors

    def of_dimensions(self, values: Any) -> Any:
        """Values of the free lengthscales (q,), array or tensor, repeated for dimensions (d,).

        The shape is (d,), or (1,) for one lengthscale.
        """
        return values if self.groups is None or not self.ard else values[self.groups]

    def logarithms(self, lengthscale: FloatArray) -> FloatArray:
        """Free logarithms theta (q,) of lengthscales (d,)."""
        logs: FloatArray = np.log(lengthscale / self.base)
        if not self.ard:
            return logs[:1]
        return logs if self.groups is None else logs[first_places(self.groups)]

    def gradient(self, by_log_lengthscale: FloatArray) -> FloatArray:
        """Gradient (q,) in theta from the gradient (d,) in log lengthscales."""
        if not self.ard:
            return by_log_lengthscale.sum(keepdims=True)
        if self.groups is None:
            return by_log_lengthscale
        return np.add.reduceat(by_log_lengthscale, first_places(self.groups))

    def given_starts(self, n_restarts: int, rng: np.random.Generator) -> list[FloatArray]:
        """Starting points theta (q,): the given lengthscales, and `n_restarts` random ones.

        Without given lengthscales there are none.
        """
        if self.lengthscale is None:
            return []
        size, first = self.n_lengthscales, self.logarithms(self.lengthscale)
        return [first] + [rng.normal(0.0, 1.0, size) for _ in range(n_restarts)]


def first_places(groups: IntArray) -> IntArray:
    """Place (q,) of the first dimension of each group, from the numbers (d,) of the groups."""
    return np.flatnonzero(np.diff(groups, prepend=-1))
