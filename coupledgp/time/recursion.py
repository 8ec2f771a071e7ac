"""A vector autoregression of sensors with own, neighbours' and all sensors' lags.

    x_t = sum_g A_g h_tg + e_t ,   h_tg = mean of x_(t-l) over the lags l of the group g ,
    A_g = diag(a_g) + diag(b_g) W + C_g ,   e_t ~ N(0, Q) ,

with the groups {1}, {2, 3}, {4..6}, {7..12} of lags (Corsi 2009) and W the mean over neighbours.
The eight numbers (a, b) are pooled over sensors by least squares, those of each sensor are drawn to
them by a ridge, and `C = (H'H + lam I)^-1 (H'X - H'H S)`, S the former. lam is the largest one
whose errors 1, 3, 6 and 12 steps ahead, in blocks of time that come after those of its fit, are
within one standard error of the best.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from coupledgp.ground.codec import stored
from coupledgp.ground.progress import tell
from coupledgp.random import FloatArray, IntArray

BoolArray = NDArray[np.bool_]
# Lags of the groups, and the longest of them.
GROUPS: tuple[tuple[int, ...], ...] = ((1,), (2, 3), (4, 5, 6), (7, 8, 9, 10, 11, 12))
N_GROUPS, LONGEST_LAG = len(GROUPS), 12
# Blocks of time that are left out, and steps ahead at which their errors are looked at.
N_BLOCKS = 5
HORIZONS = (1, 3, 6, 12)
# Steps of a level that moves, and shares of it; every so many far forecasts are looked at.
SHARES, FAR, FAR_EVERY = (0.0, 0.5, 1.0), 48, 4
# Ridge of a sensor's own numbers to the pooled ones; ridges of all sensors' lags for so many rows.
OWN_RIDGE = 100.0
RIDGES, ROWS = (3e3, 1e4, 3e4, 1e5, np.inf), 1100.0
# Most sensors with lags of all others; blocks of their errors beyond; and the part of coefficients
# below which they are kept as a sparse matrix.
MOST_DENSE, FEW_BLOCKS, SPARSE = 600, 2, 0.1
# Growth of a step from which a recursion counts as unstable, and the steps that tell.
UNSTABLE, N_STEPS, N_STARTS = 0.999, 300, 8
# Values below which a sensor has the pooled numbers and no others.
LEAST_VALUES = 100
# Shares of the target in the correlations of innovations.
SHRINKAGE = (0.1, 0.2, 0.35, 0.5, 0.65, 0.8)


def padded(X: FloatArray) -> FloatArray:
    """Series (p, n + 12) that had their first values (p,) before the first step, too."""
    return np.concatenate([np.repeat(X[:, :1], LONGEST_LAG, axis=1), X], axis=1)


def group_means(long: FloatArray) -> FloatArray:
    """Means (4, p, n) over the lags of each group, of series (p, n + 12) with their past."""
    n = long.shape[1] - LONGEST_LAG
    out = np.zeros((N_GROUPS, len(long), n))
    for g, lags in enumerate(GROUPS):
        for lag in lags:
            out[g] += long[:, LONGEST_LAG - lag : LONGEST_LAG - lag + n]
        out[g] /= len(lags)
    return out


def adjoint_means(V: FloatArray) -> FloatArray:
    """The transpose of `group_means`: series (p, n + 12) of V (4, p, n)."""
    n = V.shape[2]
    out = np.zeros((V.shape[1], n + LONGEST_LAG))
    for g, lags in enumerate(GROUPS):
        for lag in lags:
            out[:, LONGEST_LAG - lag : LONGEST_LAG - lag + n] += V[g] / len(lags)
    return out


@stored
@dataclass(frozen=True, eq=False)
class Recursion:
    """Coefficients A (4, p, p) of the groups of lags."""

    coefficients: FloatArray

    @property
    def n_sensors(self) -> int:
        """Number p of series."""
        return self.coefficients.shape[1]

    @cached_property
    def flat(self) -> Any:
        """Coefficients (p, 4 p), side by side; sparse where few of them are not zero."""
        found = self.coefficients.transpose(1, 0, 2).reshape(self.n_sensors, -1)
        return sparse.csr_array(found) if (found != 0).mean() < SPARSE else found

    def next(self, last: FloatArray) -> FloatArray:
        """`sum_g A_g h_g` (m, p) for the last 12 steps (m, 12, p), the newest one last."""
        means = [last[:, [-lag for lag in lags]].mean(axis=1) for lags in GROUPS]
        return np.asarray((self.flat @ np.concatenate(means, axis=1).T).T)

    def errors(self, long: FloatArray) -> FloatArray:
        """Errors (p, n) one step ahead of series (p, n + 12) with their past."""
        H = group_means(long)
        return np.asarray(long[:, LONGEST_LAG:] - self.flat @ H.reshape(-1, H.shape[2]))

    def growth(self) -> float:
        """Factor of a step in which a disturbance grows or dies out, far ahead."""
        last = np.random.default_rng(0).standard_normal((N_STARTS, LONGEST_LAG, self.n_sensors))
        sizes = []
        for _ in range(N_STEPS):
            last = np.concatenate([last[:, 1:], self.next(last)[:, None]], axis=1)
            size = float(np.sqrt((last**2).sum()))
            sizes.append(np.log(size) if size > 0 else -np.inf)
            last /= size if size > 0 else 1.0
        return float(np.exp(np.mean(sizes[N_STEPS // 2 :])))


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over `n_rows` rows: own lags O'O (p, 8, 8) and O'x (p, 8), H'H and H'X or None."""

    n_rows: float
    own: FloatArray
    right: FloatArray
    lags: FloatArray | None
    both: FloatArray | None

    @classmethod
    def of(cls, H: FloatArray, X: FloatArray, W: sparse.csr_array, dense: bool) -> Sums:
        """Sums over rows of lags H (4, p, n) and targets X (p, n)."""
        own_lags = np.concatenate([H, np.stack([W @ part for part in H])])
        own = np.einsum("gin,hin->igh", own_lags, own_lags, optimize=True)
        right = np.einsum("gin,in->ig", own_lags, X, optimize=True)
        flat = H.reshape(-1, H.shape[2])
        both = (flat @ flat.T, flat @ X.T) if dense else (None, None)
        return cls(float(H.shape[2]), own, right, *both)

    def plus(self, other: Sums, sign: float = 1.0) -> Sums:
        """Sums of the rows of both, or of those that the other has not."""

        def joined(a: FloatArray | None, b: FloatArray | None) -> FloatArray | None:
            return None if a is None or b is None else a + sign * b

        return Sums(
            self.n_rows + sign * other.n_rows, self.own + sign * other.own,
            self.right + sign * other.right, joined(self.lags, other.lags),
            joined(self.both, other.both),
        )  # fmt: skip

    def fitted(self, ridge: float, W: sparse.csr_array, scarce: BoolArray) -> Recursion:
        """The recursion; `ridge` is for so many rows, scarce sensors (p,) have pooled numbers."""
        p = len(self.right)
        rich = ~scarce if not scarce.all() else np.ones(p, dtype=bool)
        eye = np.eye(2 * N_GROUPS)
        total = self.own[rich].sum(axis=0)
        pooled = np.linalg.lstsq(total, self.right[rich].sum(axis=0), rcond=1e-10)[0]
        own = np.linalg.solve(
            self.own + OWN_RIDGE * eye, (self.right + OWN_RIDGE * pooled)[:, :, None]
        )[:, :, 0]
        own[scarce] = pooled
        A = np.zeros((N_GROUPS, p, p))
        near = W.toarray()
        for g in range(N_GROUPS):
            A[g] = own[:, N_GROUPS + g, None] * near
            A[g][np.diag_indices(p)] += own[:, g]
        if np.isfinite(ridge) and self.lags is not None and self.both is not None:
            S = A.transpose(0, 2, 1).reshape(-1, p)
            factor = linalg.cho_factor(self.lags + ridge * np.eye(len(self.lags)), lower=True)
            C = linalg.cho_solve(factor, self.both - self.lags @ S)
            C = C.reshape(N_GROUPS, p, p).transpose(0, 2, 1)
            C[:, scarce] = 0.0
            C[:, :, scarce] = 0.0
            A += C
        return Recursion(A)


class Block(NamedTuple):
    """Steps `first` to `last` of a block of time, and the recursion of all other rows."""

    first: int
    last: int
    model: Recursion


class AheadErrors(NamedTuple):
    """Errors and forecasts (h, p, n) of the step t, made h steps before, left out; NaN: none."""

    errors: FloatArray
    forecasts: FloatArray


def errors_ahead(
    X: FloatArray, observed: BoolArray, blocks: Sequence[Block], share: float = 0.0
) -> AheadErrors:
    """Errors some steps ahead of series X (p, n) in blocks of time, by the recursion of the others.

    The forecasts of all origins are made together, as windows of their last twelve steps, about
    levels of a share of the mean of the last `FAR` steps.
    """
    errors = np.full((len(HORIZONS), *X.shape), np.nan)
    forecasts = np.full((len(HORIZONS), *X.shape), np.nan)
    levels = share * recent_means(X)
    for first, last, model in blocks:
        windows = np.lib.stride_tricks.sliding_window_view(
            X[:, first - LONGEST_LAG : last - 1], LONGEST_LAG, axis=1
        )
        level = levels[:, first - 1 : last - 1].T
        recent = np.ascontiguousarray(windows.transpose(1, 2, 0)) - level[:, None]
        for h in range(1, max(HORIZONS) + 1):
            new = model.next(recent)
            recent = np.concatenate([recent[:, 1:], new[:, None]], axis=1)
            steps = np.arange(first + h - 1, last)
            if h in HORIZONS and steps.size:
                k = HORIZONS.index(h)
                made = (new + level)[: steps.size].T
                forecasts[k][:, steps] = made
                errors[k][:, steps] = np.where(observed[:, steps], X[:, steps] - made, np.nan)
    return AheadErrors(errors, forecasts)


def recent_means(X: FloatArray) -> FloatArray:
    """Means (p, n) of the last `FAR` steps of series up to each, of fewer at first."""
    total = np.cumsum(X, axis=1)
    total[:, FAR:] -= total[:, :-FAR].copy()
    return np.asarray(total / np.minimum(np.arange(1, X.shape[1] + 1), FAR))


def far_squares(
    X: FloatArray, observed: BoolArray, blocks: Sequence[Block], share: float
) -> FloatArray | None:
    """Mean squared errors (p,) `FAR` steps ahead, left out; None where blocks are too short.

    They are those of every fourth origin in the last three blocks, about the means of the steps
    before a block and a share of what recent ones differ, as those of forecasts beyond the sample.
    """
    local, total, count = recent_means(X), np.zeros(len(X)), np.zeros(len(X))
    for first, last, model in blocks[-3:]:
        steps = np.arange(first + FAR - 1, last, FAR_EVERY)
        if steps.size < FAR // FAR_EVERY:
            continue
        at = steps - FAR + 1  # the step after each origin
        known = observed[:, :first]
        mean = np.where(known, X[:, :first], 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
        level = mean + share * (local[:, at - 1].T - mean)
        recent = np.stack([X[:, t - LONGEST_LAG : t].T for t in at]) - level[:, None]
        for _ in range(FAR):
            recent = np.concatenate([recent[:, 1:], model.next(recent)[:, None]], axis=1)
        there = observed[:, steps]
        error = X[:, steps] - (level + recent[:, -1]).T
        total += (np.where(there, error, 0.0) ** 2).sum(axis=1)
        count += there.sum(axis=1)
    return total / count if count.min() > 0 else None


def few_values(n_steps: int) -> int:
    """Values below which a sensor is not judged alone."""
    return min(LEAST_VALUES, n_steps // 2)


@dataclass(frozen=True, eq=False)
class FittedRecursion:
    """A recursion, those of blocks of time that are left out, and their errors.

    Attributes
    ----------
    model : Recursion
    ridge : float
        lam for 1100 rows; infinite without lags of all sensors.
    blocks : tuple of Block
    ahead : AheadErrors
        Errors at `HORIZONS`.
    is_stable : bool
        Whether disturbances die out.
    """

    model: Recursion
    ridge: float
    blocks: tuple[Block, ...] = field(repr=False)
    ahead: AheadErrors = field(repr=False)
    is_stable: bool = True


def fitted_recursion(
    X: FloatArray,
    observed: BoolArray,
    W: sparse.csr_array,
    kept: float | None = None,
) -> FittedRecursion:
    """The recursion of standardised series X (p, n), gaps filled, with means W over neighbours.

    A ridge that is `kept` is not searched for.
    """
    p, n = X.shape
    scarce = observed.sum(axis=1) < few_values(n)
    H, T = group_means(X), X[:, LONGEST_LAG:]
    ridges = RIDGES if p <= MOST_DENSE else RIDGES[-1:]
    edges = np.linspace(0, T.shape[1], N_BLOCKS + 1).astype(int)
    parts = [
        Sums.of(H[:, :, a:b], T[:, a:b], W, p <= MOST_DENSE) for a, b in itertools.pairwise(edges)
    ]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.plus(part)

    def blocks_at(ridge: float, forward: bool = False) -> tuple[Block, ...]:
        found, past = [], parts[0]
        for k in range(2 if forward else 0, N_BLOCKS):
            a, b = edges[k : k + 2]
            past = past.plus(parts[k - 1]) if forward else past
            rest = past if forward else whole.plus(parts[k], -1.0)
            model = rest.fitted(ridge * rest.n_rows / ROWS, W, scarce)
            found.append(Block(int(a) + LONGEST_LAG, int(b) + LONGEST_LAG, model))
        return tuple(found)

    if kept is not None:
        ridges = (kept,) if p <= MOST_DENSE else (np.inf,)
    place = 0
    if len(ridges) > 1:
        tell("dynamics: ridge")
        later = [blocks_at(ridge, forward=True) for ridge in ridges]
        place = least_of([
            [log_squares(errors_ahead(X, observed, [block]), block) for block in blocks]
            for blocks in later
        ])  # fmt: skip
    for ridge in ridges[place:]:
        model = whole.fitted(ridge * whole.n_rows / ROWS, W, scarce)
        is_stable = model.growth() < UNSTABLE
        if is_stable:
            break
    tell("dynamics: errors left out")
    blocks = blocks_at(ridge)
    ahead = errors_ahead(X, observed, blocks)
    return FittedRecursion(model, float(ridge), blocks, ahead, is_stable)


def log_squares(ahead: AheadErrors, block: Block) -> float:
    """Mean over sensors and horizons of the logarithm of the mean squared error of a block."""
    part = ahead.errors[:, :, block.first : block.last]
    there = ~np.isnan(part)
    count = there.sum(axis=2)
    squares = (np.where(there, part, 0.0) ** 2).sum(axis=2)
    some = count > 0
    return float(np.log(np.maximum(squares[some] / count[some], 1e-12)).mean())


def least_of(scores: list[list[float]]) -> int:
    """The last choice whose mean score over blocks is within a standard error of the best one."""
    table = np.array(scores)
    best = int(np.argmin(table.mean(axis=1)))
    apart = table - table[best]
    errors = apart.std(axis=1, ddof=1) / np.sqrt(table.shape[1])
    return int(np.flatnonzero(apart.mean(axis=1) <= errors)[-1])


class Shrunk(NamedTuple):
    """A covariance, the mean log density of an error, the share a and the target T."""

    covariance: FloatArray
    density: float
    share: float
    target: FloatArray


def shrunk_covariance(
    errors: FloatArray, edges: Sequence[tuple[int, int]], graph: FloatArray
) -> Shrunk:
    """Covariance of errors (p, n), its correlations shrunk.

    `S^1/2 ((1 - a) R + a T) S^1/2`, T the identity or half of it and half the correlations (p, p)
    of the graph; a and T have the greatest density in blocks of time that are left out. Errors that
    are not known, NaN, are taken as zero, and R is divided by the counts of both.
    """
    there = ~np.isnan(errors)
    known = np.where(there, errors, 0.0)
    counts = there.sum(axis=1)
    variances = np.maximum((known**2).sum(axis=1) / np.maximum(counts, 1), 1e-10)
    Z = known / np.sqrt(variances)[:, None]
    products = [Z[:, a:b] @ Z[:, a:b].T for a, b in edges]
    n_known = [there[:, a:b].sum(axis=1) for a, b in edges]
    p, whole, total = len(Z), sum(products), max(int(counts.sum()), 1)
    if p > MOST_DENSE:
        products, n_known = products[:FEW_BLOCKS], n_known[:FEW_BLOCKS]
    eye = np.eye(p)
    targets = (eye, 0.5 * eye + 0.5 * graph)
    shares = np.array(SHRINKAGE)
    loss = np.zeros((2, shares.size))
    for k, target in enumerate(targets):
        # With L the root of T, all shares have the eigenvectors of L^-1 R L^-T.
        root = np.linalg.cholesky(target)
        half = eye if k == 0 else linalg.solve_triangular(root, eye, lower=True)
        log_target = 2.0 * float(np.log(root.diagonal()).sum())
        for product, count in zip(products, n_known, strict=True):
            R = correlations(whole - product, counts - count)
            values, vectors = np.linalg.eigh(half @ R @ half.T)
            turned = vectors.T @ half
            squares = ((turned @ product) * turned).sum(axis=1)
            mixed = (1 - shares)[:, None] * np.maximum(values, 0.0) + shares[:, None]
            logs = np.log(mixed).sum(axis=1) + log_target
            loss[k] += 0.5 * (float(count.sum()) / p * logs + (squares / mixed).sum(axis=1))
    k, at = divmod(int(np.argmin(loss)), shares.size)
    R = (1 - shares[at]) * correlations(whole, counts) + shares[at] * targets[k]
    roots = np.sqrt(variances)
    density = -loss[k, at] / max(sum(int(count.sum()) for count in n_known), 1)
    density -= 0.5 * float(counts @ np.log(2 * np.pi * variances)) / total
    covariance = np.asarray(R * np.outer(roots, roots))
    return Shrunk(covariance, float(density), float(shares[at]), targets[k])


def alone_residuals(
    errors: FloatArray, edges: Sequence[tuple[int, int]], shrunk: Shrunk
) -> FloatArray:
    """Errors (m,) of sensors given all others at a step over the deviations of that law, left out.

    In a block of time (`edges`) the correlations are those of the other blocks, and each value is
    left out of the mean and the variance of its sensor.
    """
    there = ~np.isnan(errors)
    known, counts = np.where(there, errors, 0.0), there.sum(axis=1)
    Z, found = known / np.sqrt(shrunk.covariance.diagonal())[:, None], []
    whole, n = Z @ Z.T, np.maximum(counts, 2)[:, None]
    more = n / (n - 1.0)
    for a, b in edges:
        part, inside = Z[:, a:b], there[:, a:b]
        R = correlations(whole - part @ part.T, counts - inside.sum(axis=1))
        P = np.linalg.inv((1 - shrunk.share) * R + shrunk.share * shrunk.target)
        others = part - (P @ part) / P.diagonal()[:, None]
        own = part * more / np.sqrt(np.maximum((n - part**2 * more) / (n - 1.0), 1e-3))
        found.append((np.sqrt(P.diagonal())[:, None] * (own - others))[inside])
    return np.concatenate(found)


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
