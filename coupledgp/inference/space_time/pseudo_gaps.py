"""Weights of other sensors inside gaps, and how sure to be there, from gaps of known values.

The pattern of the gaps is laid over other sensors and times. These pseudo-gaps are filled by the
recursion of other blocks of time, `z` with variance v, and by each sensor's regression on the
others at the same time, `-sum_(j != i) O_ij / O_ii x_j`, `O = (Z Z' + lam I)^-1`, also of other
blocks. The law in a gap is then

    mean = z + w(r) (peers - z) ,    variance = v exp(b(r) + F phi) ,

with w and b linear in log r between knots. The depth r of a gap is v over the variance that a
single gap would have there, 1 / Lam_it,it: one in single gaps, and the larger the longer a gap is.
w is the least-squares weight and the exponent a gamma regression of squared errors (`spread`), both
with a pull to values found on other data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coupledgp.inference.space_time.autoregression import LONGEST_LAG, Block
from coupledgp.inference.space_time.markov import Markov
from coupledgp.inference.space_time.precision import filled_series
from coupledgp.inference.space_time.spread import (
    FACTORS,
    columns,
    gamma_coefficients,
    log_volatility,
    own_volatility,
)
from coupledgp.random import FloatArray

BoolArray = NDArray[np.bool_]
# Depths of the knots, and weights of peers there to which the fit is pulled by as many values.
KNOTS = np.array([1.0, 1.25, 1.6, 2.5, 5.0])
USUAL_WEIGHTS, PULL = np.array([0.0, 0.2, 0.4, 0.4, 0.4]), 500.0
# Penalties of regressions on peers.
PEER_RIDGES = (30.0, 100.0, 300.0, 1000.0)
# Least share of the cells in pseudo-gaps, most patterns that are laid over each other, and steps
# around a block that help to fill it.
LEAST_SHARE, MOST_PATTERNS, CONTEXT = 0.03, 6, 2 * LONGEST_LAG
# Ridges of the coefficients of the variance: of the knots, and of the others.
KNOT_RIDGE, RIDGE = 300.0, 30.0


def hats(depths: FloatArray) -> FloatArray:
    """Weights (m, 5) of the knots at depths (m,), of sum one, linear in their logarithms."""
    at = np.log(np.clip(depths, KNOTS[0], KNOTS[-1]))
    return np.stack([np.interp(at, np.log(KNOTS), row) for row in np.eye(KNOTS.size)], axis=1)


def peers(X: FloatArray, products: FloatArray, ridge: float) -> FloatArray:
    """Regressions (p, n) of each series on the others, by products (p, p) of other times."""
    inverse = np.linalg.inv(products + ridge * np.eye(len(products)))
    return np.asarray(X - (inverse @ X) / inverse.diagonal()[:, None])


def chosen_peer_ridge(X: FloatArray, observed: BoolArray, blocks: Sequence[Block]) -> float:
    """The penalty of least mean, over sensors, of the log squared error in blocks left out."""
    whole = X @ X.T
    errors = np.zeros((len(PEER_RIDGES), len(X)))
    for first, last, _ in blocks:
        part, there = X[:, first:last], observed[:, first:last]
        rest = whole - part @ part.T
        for k, ridge in enumerate(PEER_RIDGES):
            error = np.where(there, part - peers(part, rest, ridge), 0.0)
            errors[k] += (error**2).sum(axis=1)
    losses = np.log(np.maximum(errors, 1e-12)).mean(axis=1)
    return PEER_RIDGES[int(np.argmin(losses))]


def laid_patterns(observed: BoolArray, seen: BoolArray, rng: np.random.Generator) -> BoolArray:
    """Observed cells (p, n) that gaps would hide if they were at other sensors and times."""
    gaps = ~observed & seen
    p, n = gaps.shape
    out = np.zeros(gaps.shape, dtype=bool)
    if not gaps.any():
        return out
    for _ in range(MOST_PATTERNS):
        moved = np.roll(gaps[rng.permutation(p)], int(rng.integers(n)), axis=1)
        out |= moved & observed
        if out.mean() >= LEAST_SHARE:
            break
    return out


@dataclass(frozen=True, eq=False)
class GapLaw:
    """What the recursion lacks inside gaps.

    Attributes
    ----------
    weights : FloatArray (5,)
        w at the knots.
    coefficients : FloatArray (10,)
        b at the knots, and phi without its constant.
    ridge : float
        Penalty lam of the regressions on peers.
    n_values : int
        Pseudo-gaps from which they are.
    """

    weights: FloatArray
    coefficients: FloatArray
    ridge: float
    n_values: int

    def means(self, z: FloatArray, peer: FloatArray, depths: FloatArray) -> FloatArray:
        """Means (m,) of gaps of depths (m,) at means z (m,), and regressions on peers (m,)."""
        return np.asarray(z + (hats(depths) @ self.weights) * (peer - z))

    def factors(
        self, level: FloatArray, mean: FloatArray, volatility: FloatArray, depths: FloatArray
    ) -> FloatArray:
        """Factors (m,) of the variances of gaps of depths (m,)."""
        F = gap_columns(level, mean, volatility, depths)
        return np.exp(np.clip(F @ self.coefficients, *FACTORS))


def gap_columns(
    level: FloatArray, mean: FloatArray, volatility: FloatArray, depths: FloatArray
) -> FloatArray:
    """F (m, 10): the hats of the knots, and the columns of the spread without the constant."""
    return np.concatenate([hats(depths), columns(level, mean, volatility)[:, 1:]], axis=1)


def volatility_around(
    errors: FloatArray, variances: FloatArray, neighbours: FloatArray
) -> FloatArray:
    """Log volatility (p, n) at each step, from errors of the steps before and after it."""
    ones = np.ones(len(errors))
    before = own_volatility(errors, variances, ones)
    after = own_volatility(errors[:, ::-1], variances, ones)[:, ::-1]
    return log_volatility(0.5 * (before + after), neighbours)


def fitted_gap_law(
    X: FloatArray, observed: BoolArray, law: Markov, blocks: Sequence[Block], errors: FloatArray,
    variances: FloatArray, neighbours: FloatArray, base: FloatArray, gain: FloatArray, seed: int,
) -> GapLaw:  # fmt: skip
    """The law in gaps of series X (p, n), gaps filled, from pseudo-gaps.

    `errors` (p, n) are those one step ahead, left out, of variances (p,); levels are those of
    `fitted_spread`.
    """
    rng = np.random.default_rng([seed, 5])
    hidden = laid_patterns(observed, np.asarray(observed.any(axis=0)), rng)
    hidden[:, : blocks[0].first] = False
    ridge = chosen_peer_ridge(X, observed, blocks)
    whole = X @ X.T
    found: list[list[FloatArray]] = []
    known = np.where(hidden, np.nan, errors)
    volatility = volatility_around(known, variances, neighbours)
    for first, last, model in blocks:
        here = slice(max(first - CONTEXT, 0), min(last + CONTEXT, X.shape[1]))
        mask = np.zeros_like(hidden)
        mask[:, first:last] = hidden[:, first:last]
        if not mask.any():
            continue
        filled = filled_series(
            Markov(model, law.innovations, law.first), X[:, here], (observed & ~mask)[:, here]
        )
        part = X[:, first:last]
        peer = peers(filled.values, whole - part @ part.T, ridge)
        cells = mask[:, here]
        levels = base[:, here] + gain[:, None] * filled.values
        alone = np.broadcast_to(law.interior[0].diagonal()[:, None], cells.shape)
        found.append([
            alone[cells], filled.values[cells], filled.variances[cells], peer[cells],
            X[:, here][cells], levels[cells], volatility[:, here][cells],
        ])  # fmt: skip
    if not found:
        return GapLaw(USUAL_WEIGHTS, np.zeros(10), ridge, 0)
    columns_of = (np.concatenate(column) for column in zip(*found, strict=True))
    alone, z, v, peer, truth, level, calm = columns_of
    H = hats(alone * v)
    weights = fitted_weights(H, peer - z, truth - z)
    mean = z + (H @ weights) * (peer - z)
    F = gap_columns(level, mean, calm, alone * v)
    coefficients = _variance_coefficients(F, (truth - mean) ** 2 / v)
    return GapLaw(weights, coefficients, ridge, z.size)


def fitted_weights(H: FloatArray, difference: FloatArray, error: FloatArray) -> FloatArray:
    """Weights (5,) in 0 to 1 of differences of peers (m,) in errors (m,), by hats H (m, 5)."""
    D = H * difference[:, None]
    # The pull is that of so many values with the mean squared difference at each knot.
    size = (D**2).sum(axis=0) / np.maximum((H**2).sum(axis=0), 1e-12)
    size = np.where(size > 0, size, 1.0)
    gram = D.T @ D + np.diag(PULL * size)
    right = D.T @ error + PULL * size * USUAL_WEIGHTS
    return np.clip(np.linalg.solve(gram, right), 0.0, 1.0)


def _variance_coefficients(F: FloatArray, ratios: FloatArray) -> FloatArray:
    """Coefficients (10,) of the gamma regression; the hats stand for a constant and a shape."""
    k = KNOTS.size
    constant = np.concatenate([np.ones((len(F), 1)), F], axis=1)
    ridges = np.array([0.0] + k * [KNOT_RIDGE] + (F.shape[1] - k) * [RIDGE])
    found = gamma_coefficients(constant, ratios, ridges)
    return np.concatenate([found[0] + found[1 : k + 1], found[k + 1 :]])
