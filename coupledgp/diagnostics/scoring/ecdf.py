"""Empirical distributions of transforms and ranks, with envelopes that hold at all places at once.

The empirical distribution of n uniform values has counts `R(z) ~ Bin(n, z)` at each place z. An
envelope of pointwise intervals of the chance `1 - gamma` holds all of `R(z_1), ..., R(z_K)` with a
chance of its own, and gamma is such that this is the level that is asked for (Säilynoja, Bürkner
and Vehtari, 2022, Statistics and Computing 32). For independent values it is computed exactly:
given `R(z_i)`, `R(z_{i+1}) - R(z_i)` is binomial, so that chances go on from place to place. For
values that go together it is taken from draws of their joint law.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy
from scipy.stats import binom

from coupledgp.random import FloatArray, IntArray

# Places of an envelope at most, its level, and halvings of gamma.
N_PLACES, LEVEL, HALVINGS = 50, 0.95, 18


@dataclass(frozen=True)
class EcdfEnvelope:
    """An empirical distribution on the unit interval and its simultaneous envelope.

    Attributes
    ----------
    places : tuple of float (K,)
        Places z between 0 and 1.
    shares : tuple of float (K,)
        Shares of the values that are at most z.
    low, high : tuple of float (K,)
        Limits of the shares of uniform values.
    level : float
        Chance that all shares of uniform values are within the limits.
    """

    places: tuple[float, ...]
    shares: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    level: float = LEVEL

    @property
    def is_inside(self) -> bool:
        """Whether all shares are within the limits, rounding aside."""
        return not self._outside().any()

    @property
    def answer(self) -> str:
        """Whether shares are within the limits, and how often those of a right law are not."""
        if self.is_inside:
            return "inside everywhere"
        return f"outside, as {100 * (1 - self.level):.0f} % of right laws are"

    @property
    def text(self) -> str:
        """Where shares leave the limits, in a sentence."""
        outside = self._outside()
        if not outside.any():
            return f"The distribution is within its {100 * self.level:.0f} % envelope everywhere."
        gaps = np.abs(np.subtract(self.shares, self.places))
        worst = int(np.where(outside, gaps, -1.0).argmax())
        return (
            f"The distribution leaves its {100 * self.level:.0f} % envelope at {outside.sum()} of "
            f"{len(self.places)} places, furthest at {self.places[worst]:.2g}, below which "
            f"{self.shares[worst]:.1%} of the values lie; "
            f"{100 * (1 - self.level):.0f} % of right laws leave it."
        )

    def _outside(self) -> NDArray[np.bool_]:
        shares = np.array(self.shares)
        low, high = np.array(self.low) - 1e-9, np.array(self.high) + 1e-9
        found: NDArray[np.bool_] = (shares < low) | (shares > high)
        return found

    @classmethod
    def of(
        cls, values: FloatArray, draws: FloatArray | None = None, level: float = LEVEL
    ) -> EcdfEnvelope:
        """The distribution of values (n,) on the unit interval beside uniform ones.

        `draws` (N, n) are values of a right law where these go together; None: independent ones.
        """
        n = values.size
        places = np.arange(1, min(N_PLACES, n) + 1) / (min(N_PLACES, n) + 1)
        if draws is None:
            low, high = envelope(n, len(places), level)
        else:
            low, high = envelope_of_draws(counts_below(draws, places), level)
        shares = counts_below(values[None], places)[0] / n
        limits = tuple((low / n).tolist()), tuple((high / n).tolist())
        return cls(tuple(places.tolist()), tuple(shares.tolist()), *limits, level)


def counts_below(values: FloatArray, places: FloatArray) -> IntArray:
    """Numbers (N, K) of the values (N, n) of each row that are at most each place (K,)."""
    ordered = np.sort(values, axis=1)
    found: IntArray = np.stack([np.searchsorted(row, places, side="right") for row in ordered])
    return found


@lru_cache(maxsize=64)
def envelope(n: int, n_places: int, level: float = LEVEL) -> tuple[IntArray, IntArray]:
    """Limits (K,) of the counts of n independent uniform values at places `k / (K + 1)`.

    The chance of all counts within them is at least `level`, by as little as counts allow.
    """
    places = np.arange(1, n_places + 1) / (n_places + 1)
    inner, outer = 0.0, 1.0 - level
    for _ in range(HALVINGS):
        gamma = 0.5 * (inner + outer)
        if chance_inside(n, places, *_pointwise(n, places, gamma)) >= level:
            inner = gamma
        else:
            outer = gamma
    return _pointwise(n, places, inner)


def chance_inside(n: int, places: FloatArray, low: IntArray, high: IntArray) -> float:
    """Chance that the counts of n uniform values are within limits (K,) at all places (K,)."""
    log_factorial = gammaln(np.arange(n + 1) + 1.0)
    start, before = np.array([0]), 0.0
    chances = np.ones(1)
    for place, least, most in zip(places.tolist(), low.tolist(), high.tolist(), strict=True):
        share = (place - before) / (1.0 - before)
        ends = np.arange(least, most + 1)
        steps, left = ends[None] - start[:, None], (n - start)[:, None]
        possible = steps >= 0
        k = np.where(possible, steps, 0)
        logs = log_factorial[left] - log_factorial[k] - log_factorial[left - k]
        logs = logs + xlogy(k, share) + xlogy(left - k, 1.0 - share)
        chances = chances @ np.where(possible, np.exp(logs), 0.0)
        start, before = ends, place
    return float(chances.sum())


def envelope_of_draws(counts: IntArray, level: float = LEVEL) -> tuple[IntArray, IntArray]:
    """Limits (K,) of counts such that a share `level` of draws (N, K) is within all of them."""
    ordered = np.sort(counts, axis=0)
    n_draws = len(counts)
    # The rank from either end of the place where a draw is furthest out.
    below = np.stack([np.searchsorted(ordered[:, k], counts[:, k], side="right")
                      for k in range(counts.shape[1])], axis=1)  # fmt: skip
    above = np.stack([n_draws - np.searchsorted(ordered[:, k], counts[:, k], side="left")
                      for k in range(counts.shape[1])], axis=1)  # fmt: skip
    depth = np.minimum(below, above).min(axis=1)
    rank = max(int(np.quantile(depth, 1.0 - level, method="lower")), 1)
    return ordered[rank - 1], ordered[n_draws - rank]


def _pointwise(n: int, places: FloatArray, gamma: float) -> tuple[IntArray, IntArray]:
    """Central intervals of the chance `1 - gamma` of counts at each place."""
    low = binom.ppf(gamma / 2, n, places) if gamma > 0 else np.zeros(len(places))
    high = binom.ppf(1 - gamma / 2, n, places) if gamma > 0 else np.full(len(places), float(n))
    return np.maximum(low, 0).astype(np.int64), high.astype(np.int64)
