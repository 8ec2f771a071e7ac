"""Gaps of a vector autoregression, by its precision matrix in order of time.

The series x (p, n) are a Gaussian Markov process: `x_0 ~ N(0, V)`, and for t >= 1 `e_t = x_t - c -
sum_g A_g h_tg ~ N(0, Q)`, where values before the first step are x_0. So `e_t = sum_u M_tu x_u - c`
with `M_tu = sum_g w_tug A_g`, A_0 = I and numbers w that depend on t only near the first step, and

    Lam[u, u'] = sum_t M_tu' Q^-1 M_tu' = sum_gh (sum_t w_tug w_tu'h) A_g' Q^-1 A_h .

Gaps are unknowns z of `Lam_QQ z = -(B'Q^-1 (B y0 - c))_Q`, `cov z = Lam_QQ^-1`, y0 zero in gaps. In
chunks of 12 steps, counted from the last one, the system is block tridiagonal: one Cholesky pass
gives means, variances, draws and log-determinant, all exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack, solve_triangular

from coupledgp.errors import NumericalError
from coupledgp.ground.memory import check_memory
from coupledgp.inference.space_time.autoregression import (
    GROUPS,
    LONGEST_LAG,
    N_GROUPS,
    Autoregression,
    adjoint_means,
    padded,
)
from coupledgp.random import FloatArray, IntArray

BoolArray = NDArray[np.bool_]


def step_weights(n: int) -> FloatArray:
    """Numbers w (n, 13, 5): that of A_g in the block of `e_t` at `x_(t - j)`; zero at t = 0.

    Weights of lags beyond the first step are those of x_0.
    """
    w = np.zeros((n, LONGEST_LAG + 1, N_GROUPS + 1))
    w[1:, 0, 0] = 1.0
    for g, lags in enumerate(GROUPS):
        for lag in lags:
            for t in range(1, min(lag, n)):
                w[t, t, g + 1] -= 1.0 / len(lags)
            w[max(lag, 1) :, lag, g + 1] -= 1.0 / len(lags)
    return w


def pair_weights(w: FloatArray, u: int, lag: int) -> FloatArray:
    """Numbers (5, 5) of the products of A_g and A_h in `Lam[u, u + lag]`."""
    last = min(LONGEST_LAG, len(w) - 1 - u)
    j = np.arange(lag, last + 1)
    return np.asarray(np.einsum("tg,th->gh", w[u + j, j], w[u + j, j - lag]))


@dataclass(frozen=True, eq=False)
class Markov:
    """The law of the series.

    Attributes
    ----------
    model : Autoregression
        A and c.
    innovations : FloatArray (p, p)
        Q.
    first : FloatArray (p, p)
        V, the covariance of the first step.
    """

    model: Autoregression
    innovations: FloatArray
    first: FloatArray

    @property
    def n_sensors(self) -> int:
        """Number p of series."""
        return self.model.n_sensors

    @cached_property
    def root(self) -> FloatArray:
        """Lower Cholesky factor (p, p) of Q."""
        return np.linalg.cholesky(self.innovations)

    @cached_property
    def inverse(self) -> FloatArray:
        """Inverse of Q."""
        half = np.linalg.inv(self.root)
        return np.asarray(half.T @ half)

    @cached_property
    def inverse_first(self) -> FloatArray:
        """Inverse of V."""
        return np.asarray(np.linalg.inv(self.first))

    @cached_property
    def products(self) -> FloatArray:
        """`A_g' Q^-1 A_h` (5, 5, p, p)."""
        p = self.n_sensors
        A = np.concatenate([np.eye(p)[None], self.model.coefficients])
        half = np.linalg.inv(self.root)
        scaled = np.matmul(half, A)
        out = np.empty((N_GROUPS + 1, N_GROUPS + 1, p, p))
        for g in range(N_GROUPS + 1):
            for h in range(g, N_GROUPS + 1):
                out[g, h] = scaled[g].T @ scaled[h]
                out[h, g] = out[g, h].T
        return out

    @cached_property
    def interior(self) -> FloatArray:
        """`Lam[u, u + lag]` (13, p, p) far from both ends."""
        w = step_weights(4 * LONGEST_LAG)
        place = LONGEST_LAG + 1
        return np.array([
            np.tensordot(pair_weights(w, place, lag), self.products, axes=2)
            for lag in range(LONGEST_LAG + 1)
        ])  # fmt: skip

    def errors(self, X: FloatArray) -> FloatArray:
        """`e_t` (p, n) of series (p, n); at the first step the values themselves."""
        found = self.model.errors(padded(X))
        found[:, 0] = X[:, 0]
        return found

    def gradient(self, X: FloatArray) -> FloatArray:
        """`Lam x - B'Q^-1 c` (p, n): minus the slope of the log density at series (p, n)."""
        E = self.errors(X)
        v = self.inverse @ E
        first = self.inverse_first @ E[:, 0]
        v[:, 0] = 0.0
        long = -adjoint_means(v.T @ self._flat)
        out = long[:, LONGEST_LAG:] + v
        out[:, 0] += long[:, :LONGEST_LAG].sum(axis=1) + first
        return out

    @cached_property
    def _flat(self) -> FloatArray:
        """Coefficients (p, 4 p), side by side."""
        return np.ascontiguousarray(np.concatenate(list(self.model.coefficients), axis=1))

    def log_density(self, X: FloatArray) -> float:
        """Log density of whole series (p, n), nats."""
        E = self.errors(X)
        p, n = X.shape
        rest = solve_triangular(self.root, E[:, 1:], lower=True)
        quad = float((rest**2).sum()) + float(E[:, 0] @ self.inverse_first @ E[:, 0])
        return -0.5 * (quad + p * n * np.log(2 * np.pi)) + 0.5 * self.log_determinant(n)

    def log_determinant(self, n: int) -> float:
        """log|Lam| of n steps."""
        of_step = 2.0 * float(np.log(self.root.diagonal()).sum())
        return -(n - 1) * of_step - float(np.linalg.slogdet(self.first)[1])

    def diagonal(self, n: int) -> FloatArray:
        """Diagonal (p, n) of Lam: inverse variances of values given all others."""
        w = step_weights(n)
        diagonals = np.diagonal(self.products, axis1=2, axis2=3)
        out = np.empty((self.n_sensors, n))
        inner = self.interior[0].diagonal()
        for u in range(n):
            if is_inside(u, n):
                out[:, u] = inner
            else:
                out[:, u] = np.tensordot(pair_weights(w, u, 0), diagonals, axes=2)
        out[:, 0] += self.inverse_first.diagonal()
        return out

    def responses(self, n_steps: int) -> FloatArray:
        """`Psi_h` (n_steps, p, p): what an innovation has become after h steps."""
        p = self.n_sensors
        last = np.zeros((p, LONGEST_LAG, p))
        last[:, -1] = np.eye(p)
        out = np.empty((n_steps, p, p))
        for h in range(n_steps):
            out[h] = last[:, -1].T
            last = np.concatenate([last[:, 1:], self.model.moved(last)[:, None]], axis=1)
        return out


def is_inside(u: int, n: int) -> bool:
    """Whether the rows of Lam at step u are those far from both ends of n steps."""
    return LONGEST_LAG < u < n - LONGEST_LAG


class GapChunks:
    """Unknown cells of a series, in chunks of 12 steps that end with the last step.

    Parameters
    ----------
    law
        Law of the series.
    unknown
        Mask (p, n) of the cells.
    """

    def __init__(self, law: Markov, unknown: BoolArray) -> None:
        self.law, self.unknown = law, unknown
        self.p, self.n = unknown.shape
        first = self.n % LONGEST_LAG
        self.edges = [0, *range(first, self.n + 1, LONGEST_LAG)] if first else [
            *range(0, self.n + 1, LONGEST_LAG)
        ]  # fmt: skip
        self.weights = step_weights(self.n)
        self.rows: list[IntArray] = [np.flatnonzero(unknown[:, t]) for t in range(self.n)]

    @property
    def sizes(self) -> IntArray:
        """Number of unknown cells of each chunk."""
        counts = np.array([rows.size for rows in self.rows])
        return np.add.reduceat(counts, self.edges[:-1])

    def cells(self, c: int) -> tuple[IntArray, IntArray]:
        """Sensors and steps (k,) of the cells of a chunk, step by step."""
        steps = range(self.edges[c], self.edges[c + 1])
        sensors = [self.rows[t] for t in steps]
        times = [np.full(self.rows[t].size, t) for t in steps]
        return np.concatenate(sensors), np.concatenate(times)

    def block(self, c: int, other: int) -> FloatArray:
        """Lam between the cells of a chunk and those of it or of the next one."""
        first, second = (range(self.edges[k], self.edges[k + 1]) for k in (c, other))
        of_first = np.concatenate([[0], np.cumsum([self.rows[t].size for t in first])])
        of_second = np.concatenate([[0], np.cumsum([self.rows[t].size for t in second])])
        out = np.zeros((of_first[-1], of_second[-1]))
        for a, t in enumerate(first):
            if not self.rows[t].size:
                continue
            for b, s in enumerate(second):
                if self.rows[s].size and 0 <= s - t <= LONGEST_LAG:
                    part = self.pair(t, s - t)
                    out[of_first[a] : of_first[a + 1], of_second[b] : of_second[b + 1]] = part
        if c == other:
            upper = np.triu(out)
            out = upper + np.triu(out, 1).T
        return out

    def pair(self, t: int, lag: int) -> FloatArray:
        """Lam between unknown cells of step t and of step t + lag."""
        rows, columns = self.rows[t], self.rows[t + lag]
        place = np.ix_(rows, columns)
        if is_inside(t, self.n):
            return np.asarray(self.law.interior[lag][place])
        numbers = pair_weights(self.weights, t, lag)
        found = np.zeros((rows.size, columns.size))
        for g, h in zip(*np.nonzero(numbers), strict=True):
            found += numbers[g, h] * self.law.products[g, h][place]
        if t == 0 and lag == 0:
            found += self.law.inverse_first[place]
        return found


@dataclass(frozen=True, eq=False)
class Factor:
    """Cholesky factors of the chunks: `L_c L_c' = Lam_cc - O_c'O_c`, `O_c = L_(c-1)^-1 Lam`.

    Attributes
    ----------
    chunks : GapChunks
    lower : list of FloatArray
        L of each chunk.
    couplings : list of FloatArray
        O of each chunk, (size of the chunk before, size).
    """

    chunks: GapChunks
    lower: list[FloatArray]
    couplings: list[FloatArray]

    @classmethod
    def of(cls, chunks: GapChunks) -> Factor:
        """The factors, chunk by chunk in order of time."""
        sizes = chunks.sizes.astype(np.float64)
        beside = np.concatenate([[0.0], sizes[:-1]])
        check_memory(
            8.0 * float((sizes * (sizes + beside)).sum() + 4 * (sizes**2).max(initial=0.0)),
            f"gaps: factors of {int(sizes.sum())} missing cells",
            "fit to fewer sensors or times, or set dynamics=False",
        )
        lower: list[FloatArray] = []
        couplings: list[FloatArray] = []
        for c in range(sizes.size):
            S = chunks.block(c, c)
            size = len(S)
            O = np.zeros((len(lower[-1]) if lower else 0, size))
            if O.size:
                coupling = chunks.block(c - 1, c)
                O = solve_triangular(lower[-1], coupling, lower=True, check_finite=False)
                S -= O.T @ O
            L = S
            if size:
                L, info = lapack.dpotrf(S, lower=1)
                if info != 0:
                    raise NumericalError(
                        "dynamics: the precision of the gaps is not positive definite to working "
                        "precision; set dynamics=False"
                    )
            lower.append(L)
            couplings.append(O)
        return cls(chunks, lower, couplings)

    @property
    def log_determinant(self) -> float:
        """log|Lam_QQ|."""
        return 2.0 * sum(float(np.log(L.diagonal()).sum()) for L in self.lower)

    def scattered(self, parts: list[FloatArray]) -> FloatArray:
        """Values (m, p, n) of parts (size, m) of the chunks, zero elsewhere."""
        m = parts[0].shape[1] if parts else 0
        out = np.zeros((m, *self.chunks.unknown.shape))
        for c, part in enumerate(parts):
            if len(part):
                sensors, steps = self.chunks.cells(c)
                out[:, sensors, steps] = part.T
        return out

    def solve(self, right: FloatArray) -> FloatArray:
        """`Lam_QQ^-1 r` (m, p, n) for right sides (m, p, n) in the unknown cells."""
        forward: list[FloatArray] = []
        for c, (L, O) in enumerate(zip(self.lower, self.couplings, strict=True)):
            sensors, steps = self.chunks.cells(c)
            part = right[:, sensors, steps].T
            if O.size:
                part = part - O.T @ forward[-1]
            forward.append(_triangular(L, part))
        return self.backward(forward)

    def backward(self, forward: list[FloatArray]) -> FloatArray:
        """`L^-T f` (m, p, n) of parts f (size, m) of the chunks; of white noise it is a draw."""
        found: list[FloatArray] = [np.empty(0)] * len(self.lower)
        for c in range(len(self.lower) - 1, -1, -1):
            part = forward[c]
            if c + 1 < len(self.lower) and self.couplings[c + 1].size:
                part = part - self.couplings[c + 1] @ found[c + 1]
            found[c] = _triangular(self.lower[c], part, transposed=True)
        return self.scattered(found)

    def draws(self, m: int, rng: np.random.Generator) -> FloatArray:
        """Draws (m, p, n) of `N(0, Lam_QQ^-1)`."""
        return self.backward([rng.standard_normal((len(L), m)) for L in self.lower])

    def covariances(self) -> Iterator[tuple[int, FloatArray]]:
        """Number of each chunk from the last one on, and the covariance of its cells."""
        after = np.empty((0, 0))
        for c in range(len(self.lower) - 1, -1, -1):
            L = self.lower[c]
            if not len(L):
                after = np.empty((0, 0))
                yield c, after
                continue
            half = lapack.dtrtri(L, lower=1)[0]
            half = np.tril(half)
            S = half.T @ half
            if c + 1 < len(self.lower) and self.couplings[c + 1].size:
                K = half.T @ self.couplings[c + 1]
                S += K @ after @ K.T
            after = S
            yield c, S

    def variances(self) -> tuple[FloatArray, FloatArray]:
        """Variances (p, n) of the unknown cells, zero elsewhere; covariance of the last chunk."""
        out = np.zeros(self.chunks.unknown.shape)
        last = np.empty((0, 0))
        for c, S in self.covariances():
            sensors, steps = self.chunks.cells(c)
            out[sensors, steps] = S.diagonal()
            if c == len(self.lower) - 1:
                last = S
        return out, last


def _triangular(L: FloatArray, right: FloatArray, *, transposed: bool = False) -> FloatArray:
    if not len(L):
        return np.zeros((0, right.shape[1]))
    return np.asarray(blas.dtrsm(1.0, L, right, lower=1, trans_a=int(transposed)))


@dataclass(frozen=True, eq=False)
class FilledSeries:
    """Series with their gaps filled.

    Attributes
    ----------
    values : FloatArray (p, n)
        Observations, and conditional means in gaps.
    variances : FloatArray (p, n)
        Variances of the gaps; zero where a value was observed.
    last : FloatArray (u, u)
        Covariance of the gaps of the last 12 steps, step by step.
    log_evidence : float
        Log density of the observed values.
    """

    values: FloatArray
    variances: FloatArray
    last: FloatArray
    log_evidence: float


def filled_series(law: Markov, X: FloatArray, observed: BoolArray) -> FilledSeries:
    """Conditional law of the gaps of series X (p, n)."""
    known = np.where(observed, X, 0.0)
    n_gaps = int((~observed).sum())
    if not n_gaps:
        return FilledSeries(
            known, np.zeros(known.shape), np.empty((0, 0)), law.log_density(known)
        )  # fmt: skip
    factor = Factor.of(GapChunks(law, ~observed))
    values = known - factor.solve(law.gradient(known)[None])[0]
    values[observed] = known[observed]
    variances, last = factor.variances()
    evidence = law.log_density(values) - 0.5 * factor.log_determinant
    evidence += 0.5 * n_gaps * np.log(2 * np.pi)
    return FilledSeries(values, variances, last, evidence)


@dataclass(frozen=True, eq=False)
class Ahead:
    """Forecasts of series.

    Attributes
    ----------
    mean : FloatArray (p, h)
    variance : FloatArray (p, h)
    """

    mean: FloatArray
    variance: FloatArray


def ahead(law: Markov, filled: FilledSeries, observed: BoolArray, n_steps: int) -> Ahead:
    """Law of the next steps: the recursion, with the covariance of what is missing at the end."""
    p = law.n_sensors
    recent = padded(filled.values[:, -LONGEST_LAG:])[:, -LONGEST_LAG:]
    missing = np.zeros((p, LONGEST_LAG), dtype=bool)
    seen = observed[:, -LONGEST_LAG:]
    missing[:, LONGEST_LAG - seen.shape[1] :] = ~seen
    steps, sensors = np.nonzero(missing.T)
    u = steps.size
    last = recent.T[None].copy()
    carried = np.zeros((u, LONGEST_LAG, p))
    carried[np.arange(u), steps, sensors] = 1.0
    response = np.zeros((p, LONGEST_LAG, p))
    response[:, -1] = np.eye(p)
    mean, variance = np.empty((p, n_steps)), np.empty((p, n_steps))
    total = np.zeros(p)
    root = law.root
    for h in range(n_steps):
        new = law.model.next(last)
        last = np.concatenate([last[:, 1:], new[:, None]], axis=1)
        mean[:, h] = new[0]
        # Column k of `response` is what a unit innovation of sensor k has become.
        total = total + ((root.T @ response[:, -1]) ** 2).sum(axis=0)
        variance[:, h] = total
        if u:
            moved = law.model.moved(carried)
            carried = np.concatenate([carried[:, 1:], moved[:, None]], axis=1)
            variance[:, h] += ((filled.last @ moved) * moved).sum(axis=0)
        if h + 1 < n_steps:
            response = np.concatenate([response[:, 1:], law.model.moved(response)[:, None]], axis=1)
    return Ahead(mean, variance)
