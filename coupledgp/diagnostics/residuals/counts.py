"""Whether targets are counts that a law of counts of the same means predicts better."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, xlogy

from coupledgp.diagnostics.scoring.scores import paired_difference
from coupledgp.random import FloatArray

# Folds of points, fewest points, and nats and standard errors by which a law of counts is better.
FOLDS, FEWEST, MATTERS, CLEAR = 5, 30, 0.01, 2.0
# Excess variances over the squared mean; zero is Poisson's law. Least mean that is taken.
EXCESSES = np.concatenate([[0.0], np.geomspace(0.01, 10.0, 25)])
LEAST_MEAN = 0.05


@dataclass(frozen=True)
class CountLaw:
    """A negative binomial law of the stated means beside a normal law of any scale.

    Attributes
    ----------
    excess : float
        a of the variance `m + a m^2` of the likeliest law of means m; zero for Poisson's.
    gain : float
        Nats per point that it gains over the stated law.
    lead, lead_error : float, float or None
        What it gains over the normal law of the best factor on the scale, and its standard error.
        Factor and excess are learned on other folds.
    """

    excess: float
    gain: float
    lead: float
    lead_error: float | None

    @property
    def is_better(self) -> bool:
        """Whether both gains matter, and the lead is beyond chance."""
        least = max(MATTERS, CLEAR * (self.lead_error or np.inf))
        return min(self.gain, self.lead) > least

    @property
    def name(self) -> str:
        """Name of the likelihood."""
        return "poisson" if self.excess == 0.0 else "negative-binomial"

    @classmethod
    def of(cls, y: FloatArray, mean: FloatArray, std: FloatArray) -> CountLaw | None:
        """The law of targets (p,) with normal laws; None where they are few or no counts."""
        if len(y) < FEWEST or y.min() < 0 or (y != np.round(y)).any() or not np.ptp(y) > 0:
            return None
        folds = np.random.default_rng(31).permutation(len(y)) % FOLDS
        half = 0.5 * np.log(2 * np.pi)
        squares = np.square((y - mean) / std)
        plain = 0.5 * squares + np.log(std) + half
        grid = np.stack([_losses(a, y, mean) for a in EXCESSES.tolist()])
        normal, counted = np.empty_like(plain), np.empty_like(plain)
        for fold in range(FOLDS):
            own = folds == fold
            scale = np.sqrt(max(float(squares[~own].mean()), 1e-300))
            normal[own] = 0.5 * squares[own] / scale**2 + np.log(scale * std[own]) + half
            counted[own] = grid[grid[:, ~own].sum(axis=1).argmin(), own]
        lead = paired_difference(normal, counted)
        excess = float(EXCESSES[grid.sum(axis=1).argmin()])
        return cls(excess, float((plain - counted).mean()), lead.mean, lead.standard_error)


def _losses(excess: float, y: FloatArray, mean: FloatArray) -> FloatArray:
    """Minus log probability of counts of means m and variances `m + a m^2`."""
    m = np.maximum(mean, LEAST_MEAN)
    if excess == 0.0:
        return np.asarray(m - xlogy(y, m) + gammaln(y + 1))
    size = 1.0 / excess
    return np.asarray(
        gammaln(size) + gammaln(y + 1) - gammaln(y + size)
        + (y + size) * np.log1p(excess * m) - xlogy(y, excess * m)
    )  # fmt: skip
