"""A vector autoregression of sensors with own, neighbours' and all sensors' lags.

    x_t = c + sum_g A_g h_tg + e_t ,   h_tg = mean of x_(t-l) over the lags l of the group g ,
    A_g = diag(a_g) + diag(b_g) W + C_g ,   e_t ~ N(0, Q) ,

with the groups {1}, {2, 3}, {4..6}, {7..12} of lags (Corsi 2009), W the mean over neighbours, and a
ridge: `lam |C|^2 + 10 (|a|^2 + |b|^2)`. There may be several W, such as means over neighbours
upstream and downstream, each with coefficients b of its own. With `R = H'H + lam I`, `E_i` (4p, 8)
the columns that choose own and neighbours' lags of a sensor i, `w = R^-1 H'x_i` and
`d_i = (a, b)_i`, elimination of C gives

    (10 I + lam E_i'(I - lam R^-1) E_i) d_i = lam E_i'w ,    row i of A = w + lam R^-1 E_i d_i ,

so that one inverse serves all sensors. Errors left out are those of blocks of time whose products
are subtracted from all.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coupledgp.linalg.matrices import positive_inverse
from coupledgp.random import FloatArray, IntArray

BoolArray = NDArray[np.bool_]
# Lags of the groups, and the longest of them.
GROUPS: tuple[tuple[int, ...], ...] = ((1,), (2, 3), (4, 5, 6), (7, 8, 9, 10, 11, 12))
N_GROUPS, LONGEST_LAG = len(GROUPS), 12
# Blocks of time that are left out.
N_BLOCKS = 5
# Ridge of own and neighbours' lags; ridges of all sensors' lags for rows of unit variance, as many
# as are given, and the one at which the search begins.
OWN_RIDGE = 10.0
RIDGES, ROWS, FIRST_RIDGE = (1e3, 3e3, 1e4, 3e4, 1e5, 3e5), 1100.0, 3
# Logarithm of squared errors that a larger ridge may lose.
SLACK = 0.003
# Growth of a step from which a recursion counts as unstable, and the steps that tell.
UNSTABLE, N_STEPS, N_STARTS = 0.999, 300, 8
# Values below which a sensor has own lags only.
LEAST_VALUES = 100
# Shares of the target in the correlations of innovations.
SHRINKAGE = (0.1, 0.2, 0.35, 0.5, 0.65, 0.8)


def padded(X: FloatArray) -> FloatArray:
    """Series (p, n + 12) that had their first values (p,) before the first step, too."""
    return np.concatenate([np.repeat(X[:, :1], LONGEST_LAG, axis=1), X], axis=1)


def group_means(long: FloatArray) -> FloatArray:
    """Means (n, 4 p) over the lags of each group, of series (p, n + 12) with their past."""
    n = long.shape[1] - LONGEST_LAG
    parts = []
    for lags in GROUPS:
        total = np.zeros((len(long), n))
        for lag in lags:
            total += long[:, LONGEST_LAG - lag : LONGEST_LAG - lag + n]
        parts.append(total / len(lags))
    return np.concatenate(parts).T


def adjoint_means(V: FloatArray) -> FloatArray:
    """The transpose of `group_means`: series (p, n + 12) of rows V (n, 4 p)."""
    n, p = len(V), V.shape[1] // N_GROUPS
    out = np.zeros((p, n + LONGEST_LAG))
    for g, lags in enumerate(GROUPS):
        part = V[:, g * p : (g + 1) * p].T / len(lags)
        for lag in lags:
            out[:, LONGEST_LAG - lag : LONGEST_LAG - lag + n] += part
    return out


@dataclass(frozen=True, eq=False)
class Autoregression:
    """Coefficients of the recursion.

    Attributes
    ----------
    coefficients : FloatArray (4, p, p)
        A of each group of lags.
    constant : FloatArray (p,)
        c.
    """

    coefficients: FloatArray
    constant: FloatArray

    @property
    def n_sensors(self) -> int:
        """Number p of series."""
        return self.constant.size

    @property
    def stacked(self) -> FloatArray:
        """Coefficients (4 p, p) by which rows of group means are multiplied."""
        return np.ascontiguousarray(self.coefficients.transpose(0, 2, 1)).reshape(
            -1, self.n_sensors
        )

    def next(self, last: FloatArray) -> FloatArray:
        """Mean (m, p) of the next step, for the last 12 steps (m, 12, p), the newest one last."""
        return self.moved(last) + self.constant

    def moved(self, last: FloatArray) -> FloatArray:
        """`sum_g A_g h_g` (m, p) for the last 12 steps (m, 12, p)."""
        means = [last[:, [-lag for lag in lags]].mean(axis=1) for lags in GROUPS]
        return np.concatenate(means, axis=1) @ self.stacked

    def errors(self, long: FloatArray) -> FloatArray:
        """Errors (p, n) one step ahead of series (p, n + 12) with their past."""
        predicted = group_means(long) @ self.stacked
        return long[:, LONGEST_LAG:] - predicted.T - self.constant[:, None]

    def growth(self) -> float:
        """Factor of a step in which a disturbance grows or dies out, far ahead.

        It is that of the largest eigenvalue of the companion matrix, by repeated products.
        """
        rng = np.random.default_rng(0)
        last = rng.standard_normal((N_STARTS, LONGEST_LAG, self.n_sensors))
        sizes = []
        stacked = self.stacked
        for _ in range(N_STEPS):
            means = [last[:, [-lag for lag in lags]].mean(axis=1) for lags in GROUPS]
            new = np.concatenate(means, axis=1) @ stacked
            last = np.concatenate([last[:, 1:], new[:, None]], axis=1)
            size = float(np.sqrt((last**2).sum()))
            sizes.append(np.log(size) if size > 0 else -np.inf)
            last /= size if size > 0 else 1.0
        tail = sizes[N_STEPS // 2 :]
        return float(np.exp(np.mean(tail)))


@dataclass(frozen=True, eq=False)
class LagMoments:
    """Sums over rows of lags H (N, 4 p) and targets X (N, p).

    Attributes
    ----------
    count : float
        N.
    of_lags : FloatArray (4p,)
    of_targets : FloatArray (p,)
        Sums of rows.
    lags : FloatArray (4p, 4p)
        H'H.
    both : FloatArray (4p, p)
        H'X.
    """

    count: float
    of_lags: FloatArray
    of_targets: FloatArray
    lags: FloatArray
    both: FloatArray

    @classmethod
    def of(cls, H: FloatArray, X: FloatArray) -> LagMoments:
        """Sums over rows."""
        return cls(float(len(H)), H.sum(axis=0), X.sum(axis=0), H.T @ H, H.T @ X)

    def less(self, other: LagMoments) -> LagMoments:
        """Sums over the rows that are not among those of `other`."""
        return LagMoments(
            self.count - other.count, self.of_lags - other.of_lags,
            self.of_targets - other.of_targets, self.lags - other.lags, self.both - other.both,
        )  # fmt: skip

    def fitted(self, ridge: float, neighbours: FloatArray, scarce: BoolArray) -> Autoregression:
        """The recursion of least squares with ridges.

        Neighbours' weights are one W (p, p), or several (k, p, p).
        Scarce sensors (p,) have the mean own coefficients of the others, and no part in theirs.
        """
        p = self.of_targets.size
        center = self.of_lags / self.count
        G = self.lags - self.count * np.outer(center, center)
        B = self.both - np.outer(center, self.of_targets)
        inverse, _ = positive_inverse(G + ridge * np.eye(len(G)), "dynamics: the products of lags")
        W = inverse @ B
        blocks = [slice(g * p, (g + 1) * p) for g in range(N_GROUPS)]
        means = [np.eye(p), *neighbours.reshape(-1, p, p)]  # of own values, then of neighbours'
        places = [(M, block) for M in means for block in blocks]
        U = np.stack([inverse[:, block] @ M.T for M, block in places])  # R^-1 E: (4 (1 + k), 4p, p)
        size = len(places)
        inner, right = np.empty((p, size, size)), np.empty((p, size))
        for row, (M, block) in enumerate(places):
            for k in range(size):
                inner[:, row, k] = -ridge * (M * U[k, block].T).sum(axis=1)
            for k, other in enumerate(means):
                inner[:, row, k * N_GROUPS + row % N_GROUPS] += (M * other).sum(axis=1)
            right[:, row] = (M * W[block].T).sum(axis=1)
        system = ridge * inner + OWN_RIDGE * np.eye(size)
        own = np.linalg.solve(system, ridge * right[:, :, None])[:, :, 0]
        A = W + ridge * np.einsum("jri,ij->ri", U, own, optimize=True)
        coefficients = A.reshape(N_GROUPS, p, p).transpose(0, 2, 1).copy()
        if scarce.any():
            diagonal = np.diagonal(coefficients, axis1=1, axis2=2)
            usual = diagonal[:, ~scarce].mean(axis=1) if not scarce.all() else np.zeros(N_GROUPS)
            coefficients[:, scarce] = 0.0
            coefficients[:, :, scarce] = 0.0
            rows = np.flatnonzero(scarce)
            coefficients[:, rows, rows] = usual[:, None]
        flat = coefficients.transpose(0, 2, 1).reshape(-1, p)
        constant = self.of_targets / self.count - center @ flat
        constant[scarce] = 0.0
        return Autoregression(coefficients, constant)


class Block(NamedTuple):
    """Steps `first` to `last` of a block of time, and the recursion of all other rows."""

    first: int
    last: int
    model: Autoregression


@dataclass(frozen=True, eq=False)
class FittedAutoregression:
    """A recursion, its ridge, and the recursions of blocks of time that are left out.

    Attributes
    ----------
    model : Autoregression
    ridge : float
        lam, for rows of unit variance and the number of rows at hand.
    blocks : tuple of Block
    errors : FloatArray (p, n)
        Errors one step ahead, left out; NaN in the first steps, and where nothing was observed.
    is_stable : bool
        Whether disturbances die out.
    """

    model: Autoregression
    ridge: float
    blocks: tuple[Block, ...] = field(repr=False)
    errors: FloatArray = field(repr=False)
    is_stable: bool = True


def fitted_autoregression(
    X: FloatArray,
    observed: BoolArray,
    neighbours: FloatArray,
    report: Callable[[str], None] = lambda _: None,
    kept: float | None = None,
) -> FittedAutoregression:
    """The recursion of standardised series X (p, n), gaps filled.

    The ridge is the largest one whose mean, over sensors, of the logarithm of the squared error one
    step ahead, left out, is that of the best one but for `SLACK`: many steps ahead errors of
    coefficients add up. It is searched from `FIRST_RIDGE` on to both sides, and raised where the
    recursion is not stable. A ridge that is `kept`, for these rows, is not searched for.
    """
    p, n = X.shape
    scarce = observed.sum(axis=1) < min(LEAST_VALUES, n // 2)
    long = X
    H, T = group_means(long), X[:, LONGEST_LAG:].T
    edges = np.linspace(0, len(H), N_BLOCKS + 1).astype(int)
    parts = [LagMoments.of(H[a:b], T[a:b]) for a, b in itertools.pairwise(edges)]
    whole = parts[0]
    for part in parts[1:]:
        whole = LagMoments(*(getattr(whole, f) + getattr(part, f) for f in vars(whole)))
    there = observed[:, LONGEST_LAG:]
    tried: dict[int, tuple[float, tuple[Block, ...], FloatArray]] = {}

    def left_out(k: int) -> float:
        if k not in tried:
            report(f"dynamics, ridge {RIDGES[k]:g}")
            blocks, errors = [], np.full((p, n), np.nan)
            for (a, b), part in zip(itertools.pairwise(edges), parts, strict=True):
                rest = whole.less(part)
                model = rest.fitted(RIDGES[k] * rest.count / ROWS, neighbours, scarce)
                first, last = int(a) + LONGEST_LAG, int(b) + LONGEST_LAG
                errors[:, first:last] = model.errors(long[:, first - LONGEST_LAG : last])
                blocks.append(Block(first, last, model))
            errors[:, LONGEST_LAG:][~there] = np.nan
            tried[k] = score_of(errors), tuple(blocks), errors
        return tried[k][0]

    if kept is None:
        best = least_beside(left_out, FIRST_RIDGE, len(RIDGES))
        least = left_out(best)
        while best + 1 < len(RIDGES) and left_out(best + 1) <= least + SLACK:
            best += 1
    else:
        ratios = np.log(np.array(RIDGES) * whole.count / (ROWS * kept))
        best = int(np.argmin(np.abs(ratios)))
        left_out(best)
    _, blocks, errors = tried[best]
    for k in range(best, len(RIDGES)):
        ridge = RIDGES[k] * whole.count / ROWS
        model = whole.fitted(ridge, neighbours, scarce)
        is_stable = model.growth() < UNSTABLE
        if is_stable:
            break
    return FittedAutoregression(model, ridge, blocks, errors, is_stable)


def score_of(errors: FloatArray) -> float:
    """Mean over sensors of the logarithm of the mean squared error (p, n), NaN left out."""
    return float(_log_squares(errors).mean())


def _log_squares(errors: FloatArray) -> FloatArray:
    """Logarithms of the mean squared errors (p, n) of the sensors that have any."""
    there = ~np.isnan(errors)
    count = there.sum(axis=1)
    squares = np.where(there, errors, 0.0) ** 2
    mean = squares.sum(axis=1)[count > 0] / count[count > 0]
    return np.asarray(np.log(np.maximum(mean, 1e-12)))


def gain_of(fit: FittedAutoregression, other: FittedAutoregression) -> tuple[float, float]:
    """Fall of the logarithm of squared errors left out from one recursion to another.

    The mean over sensors, and its standard error.
    """
    gains = _log_squares(fit.errors) - _log_squares(other.errors)
    return float(gains.mean()), float(gains.std(ddof=1) / np.sqrt(gains.size))


def least_beside(loss: Callable[[int], float], start: int, count: int) -> int:
    """Number of a least loss, walking downhill from a start to one side and then the other."""
    best = start
    for step in (-1, 1):
        k = best + step
        while 0 <= k < count and loss(k) < loss(best):
            best = k
            k += step
        if best != start:
            break
    loss(best)
    return best


@dataclass(frozen=True, eq=False)
class Innovations:
    """Covariance of the errors one step ahead.

    Attributes
    ----------
    covariance : FloatArray (p, p)
        Q.
    shrinkage : float
        Share of the target in its correlations.
    towards_graph : bool
        Whether the target is half the graph's correlation; else it is the identity.
    density : float
        Mean log density of a left-out error of a sensor, nats.
    """

    covariance: FloatArray
    shrinkage: float
    towards_graph: bool
    density: float


def fitted_innovations(
    errors: FloatArray, edges: list[tuple[int, int]], graph: FloatArray
) -> Innovations:
    """Covariance of left-out errors (p, n), its correlations shrunk.

    `Q = S^1/2 ((1 - a) R + a T) S^1/2`, T the identity or half of it and half the correlations of
    the graph's kernel (p, p); a and T have the greatest density of blocks of time that are left
    out. Errors that are not known are taken as zero, and R is divided by the counts of both.
    """
    there = ~np.isnan(errors)
    known = np.where(there, errors, 0.0)
    variances = (known**2).sum(axis=1) / np.maximum(there.sum(axis=1), 1)
    variances = np.maximum(variances, 1e-10)
    Z = known / np.sqrt(variances)[:, None]
    counts = there.sum(axis=1)
    products = [Z[:, a:b] @ Z[:, a:b].T for a, b in edges]
    n_known = [there[:, a:b].sum(axis=1) for a, b in edges]
    p = len(Z)
    targets = {False: np.eye(p), True: 0.5 * np.eye(p) + 0.5 * graph}
    whole = np.sum(products, axis=0)
    best = (-np.inf, SHRINKAGE[-1], False)
    total = max(int(counts.sum()), 1)
    for towards, target in targets.items():
        for a in SHRINKAGE:
            loss = 0.0
            for product, count in zip(products, n_known, strict=True):
                R = correlations(whole - product, counts - count)
                mixed = (1 - a) * R + a * target
                factor = np.linalg.cholesky(mixed)
                half = np.linalg.inv(factor)
                n_rows = float(count.sum()) / p
                logs = 2.0 * float(np.log(factor.diagonal()).sum())
                loss += 0.5 * (n_rows * logs + float((half @ product * half).sum()))
            density = -loss / total
            if density > best[0]:
                best = (density, a, towards)
    density, a, towards = best
    R = (1 - a) * correlations(whole, counts) + a * targets[towards]
    roots = np.sqrt(variances)
    density -= 0.5 * float(counts @ np.log(2 * np.pi * variances)) / total
    return Innovations(R * np.outer(roots, roots), a, towards, density)


def correlations(products: FloatArray, counts: IntArray) -> FloatArray:
    """Correlations (p, p) of sums of products, one on the diagonal."""
    roots = np.sqrt(np.maximum(products.diagonal(), 1e-12))
    found = products / np.outer(roots, roots)
    found[counts == 0] = 0.0
    found[:, counts == 0] = 0.0
    np.fill_diagonal(found, 1.0)
    return np.asarray(found)


def neighbour_means(adjacency: FloatArray) -> FloatArray:
    """W (p, p): rows of weights of sum one, zero for sensors without a neighbour."""
    weights = np.array(adjacency, dtype=np.float64)
    np.fill_diagonal(weights, 0.0)
    total = weights.sum(axis=1, keepdims=True)
    return np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
