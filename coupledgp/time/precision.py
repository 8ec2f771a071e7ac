"""The law of a vector autoregression, its precision matrix, and gaps that it fills.

Series x (p, n) are a Gaussian Markov process: `x_0 ~ N(0, P0)`, and for t >= 1
`e_t = x_t - sum_g A_g h_tg ~ N(0, Q)`, where values before the first step are x_0. So
`e_t = sum_u M_tu x_u` with `M_tu = sum_g w_tug A_g`, A_0 = I and numbers w, and

    Lam[u, u'] = sum_t M_tu' Q^-1 M_tu' = sum_gh (sum_t w_tug w_tu'h) A_g' Q^-1 A_h .

Gaps U have `Lam_UU z = -(Lam x0)_U`, x0 zero in gaps, and the covariance `Lam_UU^-1`. In chunks of
12 steps the system is block tridiagonal: one Cholesky pass gives means, variances and the
log-determinant, exactly. Steps that are added change the last two chunks only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import blas, lapack, solve_triangular

from coupledgp.errors import NumericalError
from coupledgp.ground.codec import stored
from coupledgp.ground.memory import check_memory
from coupledgp.random import FloatArray, IntArray
from coupledgp.time.recursion import (
    GROUPS,
    LONGEST_LAG,
    N_GROUPS,
    Recursion,
    adjoint_means,
    padded,
)

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


def is_inside(u: int, n: int) -> bool:
    """Whether the rows of Lam at step u are those far from both ends of n steps."""
    return LONGEST_LAG < u < n - LONGEST_LAG


@stored
@dataclass(frozen=True, eq=False)
class Markov:
    """The law of the series.

    Attributes
    ----------
    model : Recursion
    innovations : FloatArray (p, p)
        Q.
    first : FloatArray (p, p)
        P0, the covariance of the first step.
    """

    model: Recursion
    innovations: FloatArray
    first: FloatArray

    @property
    def n_sensors(self) -> int:
        """Number p of series."""
        return self.model.n_sensors

    @cached_property
    def root(self) -> FloatArray:
        """Lower Cholesky factor (p, p) of Q."""
        return np.asarray(np.linalg.cholesky(self.innovations), dtype=np.float64)

    @cached_property
    def _half(self) -> FloatArray:
        return np.asarray(lapack.dtrtri(self.root, lower=1)[0])

    @cached_property
    def inverse(self) -> FloatArray:
        """Inverse of Q."""
        return np.asarray(self._half.T @ self._half)

    @cached_property
    def inverse_first(self) -> FloatArray:
        """Inverse of P0."""
        return np.asarray(np.linalg.inv(self.first))

    @cached_property
    def products(self) -> list[list[FloatArray]]:
        """`A_g' Q^-1 A_h` (p, p) of the groups, the first of which is the step itself."""
        A: list[Any] = [np.eye(self.n_sensors), *self.model.coefficients]
        used = [bool(part.any()) for part in A]
        if sparse.issparse(self.model.flat):
            A = [sparse.csr_array(part) for part in A]
        out: list[list[FloatArray]] = [[np.zeros((0, 0))] * len(A) for _ in A]
        for h, right in enumerate(A):
            inner = (right.T @ self.inverse).T if used[h] else None
            for g in range(h, len(A)):
                if inner is not None and used[g]:
                    out[g][h] = np.asarray(A[g].T @ inner)
                    out[h][g] = out[g][h].T
        return out

    def summed(self, weights: FloatArray, place: tuple[IntArray, ...] | None = None) -> FloatArray:
        """`sum_gh w_gh A_g' Q^-1 A_h`, or its rows and columns at a place."""
        p = self.n_sensors
        shape = (p, p) if place is None else (place[0].size, place[1].size)
        out = np.zeros(shape)
        for g, h in zip(*np.nonzero(weights), strict=True):
            part = self.products[g][h]
            if part.size:
                out += weights[g, h] * (part if place is None else part[place])
        return out

    @cached_property
    def interior(self) -> FloatArray:
        """`Lam[u, u + lag]` (13, p, p) far from both ends."""
        w = step_weights(4 * LONGEST_LAG)
        place = LONGEST_LAG + 1
        return np.stack([self.summed(pair_weights(w, place, j)) for j in range(LONGEST_LAG + 1)])

    @cached_property
    def reach(self) -> int:
        """Most steps apart of two values that Lam couples: one, where there is one lag."""
        return max(max(lags) for lags, A in zip(GROUPS, self.model.coefficients, strict=True)
                   if A.any() or lags == GROUPS[0])  # fmt: skip

    @property
    def alone(self) -> FloatArray:
        """Inverse variances (p,) of a value given all others, far from both ends."""
        return np.asarray(self.interior[0].diagonal())

    def errors(self, X: FloatArray) -> FloatArray:
        """`e_t` (p, n) of series (p, n); at the first step the values themselves."""
        found = self.model.errors(padded(X))
        found[:, 0] = X[:, 0]
        return found

    def gradient(self, X: FloatArray) -> FloatArray:
        """`Lam x` (p, n): minus the slope of the log density at series (p, n)."""
        E = self.errors(X)
        v = self.inverse @ E
        first = self.inverse_first @ E[:, 0]
        v[:, 0] = 0.0
        long = -adjoint_means((self.model.flat.T @ v).reshape(N_GROUPS, *X.shape))
        out = long[:, LONGEST_LAG:] + v
        out[:, 0] += long[:, :LONGEST_LAG].sum(axis=1) + first
        return out

    def log_density(self, X: FloatArray) -> float:
        """Log density of whole series (p, n), nats."""
        E = self.errors(X)
        p, n = X.shape
        rest = solve_triangular(self.root, E[:, 1:], lower=True)
        quad = float((rest**2).sum()) + float(E[:, 0] @ self.inverse_first @ E[:, 0])
        of_step = 2.0 * float(np.log(self.root.diagonal()).sum())
        logs = (n - 1) * of_step + float(np.linalg.slogdet(self.first)[1])
        return -0.5 * (quad + p * n * np.log(2 * np.pi) + logs)

    def diagonal(self, n: int) -> FloatArray:
        """Diagonal (p, n) of Lam: inverse variances of values given all others."""
        w = step_weights(n)
        out = np.repeat(self.alone[:, None], n, axis=1)
        rows = np.arange(self.n_sensors)
        for u in range(n):
            if not is_inside(u, n):
                weights = pair_weights(w, u, 0)
                out[:, u] = 0.0
                for g, h in zip(*np.nonzero(weights), strict=True):
                    part = self.products[g][h]
                    out[:, u] += weights[g, h] * part[rows, rows] if part.size else 0.0
        out[:, 0] += self.inverse_first.diagonal()
        return out

    def responses(self, n_steps: int) -> Iterator[FloatArray]:
        """Psi_h (p, p) of steps h = 0, 1, ...: what an innovation has become after h steps."""
        p = self.n_sensors
        last = np.zeros((p, LONGEST_LAG, p))
        last[:, -1] = np.eye(p)
        for _ in range(n_steps):
            yield last[:, -1].T
            last = np.concatenate([last[:, 1:], self.model.next(last)[:, None]], axis=1)


class GapFactor:
    """Cholesky factors of gaps, chunk by chunk in order of time, and what they solve for.

    `L_c L_c' = Lam_cc - O_c'O_c`, `O_c = L_(c-1)^-1 Lam_(c-1)c`, `f_c = L_c^-1 (r_c - O_c'f_(c-1))`
    for the right side r of the means.

    Parameters
    ----------
    law
        Law of the series.
    X
        Series (p, n); what stands in gaps does not matter.
    observed
        Mask (p, n) of known cells.
    before
        Factors of the first steps of these series, of which all but the last chunks are kept.
    """

    def __init__(
        self, law: Markov, X: FloatArray, observed: BoolArray, before: GapFactor | None = None
    ) -> None:
        self.law, self.observed = law, observed
        self.known = np.where(observed, X, 0.0)
        self.n = X.shape[1]
        self.edges = [*range(0, self.n, LONGEST_LAG), self.n]
        self.rows: list[IntArray] = [np.flatnonzero(~observed[:, t]) for t in range(self.n)]
        counts = np.array([rows.size for rows in self.rows])
        self.sizes = np.add.reduceat(counts, self.edges[:-1])
        self._weights = step_weights(self.n)
        self.lower: list[FloatArray] = []
        self.couplings: list[FloatArray] = []
        self.forward: list[FloatArray] = []
        if before is not None:
            # Rows of Lam of the last twelve steps, and their right sides, change.
            kept = max(before.n - LONGEST_LAG, 0) // LONGEST_LAG
            self.lower = before.lower[:kept]
            self.couplings = before.couplings[:kept]
            self.forward = before.forward[:kept]
        self._factorised()

    def _factorised(self) -> None:
        sizes = self.sizes.astype(np.float64)
        beside = np.concatenate([[0.0], sizes[:-1]])
        check_memory(
            8.0 * float((sizes * (sizes + beside)).sum() + 4 * (sizes**2).max(initial=0.0)),
            f"gaps: factors of {int(sizes.sum())} missing cells",
            "fit to fewer sensors or times",
        )
        start = len(self.lower)
        first = max(self.edges[start] - 2 * LONGEST_LAG, 0)
        right = np.zeros_like(self.known)
        if first:
            # Far enough before, what the series were at first does not matter.
            right[:, first:] = self.law.gradient(self.known[:, first:])
        else:
            right = self.law.gradient(self.known)
        for c in range(start, self.sizes.size):
            S = self.block(c, c)
            part = -right[self.cells(c)][:, None]
            link = np.zeros((len(self.lower[-1]) if self.lower else 0, len(S)))
            if link.size:
                link = triangular(self.lower[-1], self.block(c - 1, c))
                S -= link.T @ link
                part = part - link.T @ self.forward[-1]
            L = S
            if len(S):
                L, info = lapack.dpotrf(S, lower=1)
                if info != 0:
                    raise NumericalError(
                        "times: the precision of the gaps is not positive definite to working "
                        "precision; fit to fewer times or sensors"
                    )
            self.lower.append(L)
            self.couplings.append(link)
            self.forward.append(triangular(L, part))

    def cells(self, c: int) -> tuple[IntArray, IntArray]:
        """Sensors and steps (k,) of the gaps of a chunk, step by step."""
        steps = range(self.edges[c], self.edges[c + 1])
        counts = [self.rows[t].size for t in steps]
        return np.concatenate([self.rows[t] for t in steps]), np.repeat(np.array(steps), counts)

    def block(self, c: int, other: int) -> FloatArray:
        """Lam between the gaps of a chunk and those of it or of the next one."""
        first, second = (range(self.edges[k], self.edges[k + 1]) for k in (c, other))
        of_first = np.concatenate([[0], np.cumsum([self.rows[t].size for t in first])])
        of_second = np.concatenate([[0], np.cumsum([self.rows[t].size for t in second])])
        out = np.zeros((of_first[-1], of_second[-1]))
        for a, t in enumerate(first):
            for b, s in enumerate(second):
                if self.rows[t].size and self.rows[s].size and 0 <= s - t <= self.law.reach:
                    part = self.pair(t, s - t)
                    out[of_first[a] : of_first[a + 1], of_second[b] : of_second[b + 1]] = part
        return out if c != other else np.triu(out) + np.triu(out, 1).T

    def pair(self, t: int, lag: int) -> FloatArray:
        """Lam between the gaps of step t and of step t + lag."""
        place = np.ix_(self.rows[t], self.rows[t + lag])
        if is_inside(t, self.n):
            return np.asarray(self.law.interior[lag][place])
        flat = tuple(np.broadcast_arrays(*place))
        found = np.zeros(flat[0].shape)
        weights = pair_weights(self._weights, t, lag)
        for g, h in zip(*np.nonzero(weights), strict=True):
            part = self.law.products[g][h]
            if part.size:
                found += weights[g, h] * part[place]
        if t == 0 and lag == 0:
            found += self.law.inverse_first[place]
        return found

    @property
    def log_determinant(self) -> float:
        """log|Lam_UU|."""
        return 2.0 * sum(float(np.log(L.diagonal()).sum()) for L in self.lower)

    def backward(self, forward: Sequence[FloatArray], first: int = 0) -> list[FloatArray]:
        """`L^-T f` of parts f (size, m) of the chunks, from the chunk `first` on."""
        found: list[FloatArray] = [np.empty((0, 0))] * len(self.lower)
        for c in range(len(self.lower) - 1, first - 1, -1):
            part = forward[c]
            if c + 1 < len(self.lower) and self.couplings[c + 1].size:
                part = part - self.couplings[c + 1] @ found[c + 1]
            found[c] = triangular(self.lower[c], part, transposed=True)
        return found

    def filled(self, first: int = 0) -> FloatArray:
        """Series (p, n) with means in gaps, from the step `first` on; zero in gaps before."""
        out = self.known.copy()
        chunk = first // LONGEST_LAG
        parts = self.backward(self.forward, chunk)
        for c in range(chunk, len(parts)):
            out[self.cells(c)] = parts[c][:, 0]
        return out

    def covariances(self, first: int = 0) -> Iterator[tuple[int, FloatArray]]:
        """Numbers of chunks from the last one down to `first`, and covariances of their gaps."""
        after = np.empty((0, 0))
        for c in range(len(self.lower) - 1, first - 1, -1):
            L = self.lower[c]
            if not len(L):
                after = np.empty((0, 0))
                yield c, after
                continue
            half = np.tril(lapack.dtrtri(L, lower=1)[0])
            S = half.T @ half
            if c + 1 < len(self.lower) and self.couplings[c + 1].size:
                K = half.T @ self.couplings[c + 1]
                S += K @ after @ K.T
            after = S
            yield c, S

    def covariance(self, rows: IntArray, steps: IntArray) -> FloatArray:
        """Covariance (m, m) of gaps by their sensors and steps (m,)."""
        place = np.full(self.known.shape, -1, dtype=np.int64)
        for c in range(self.sizes.size):
            place[self.cells(c)] = np.arange(self.sizes[c])
        chunks = steps // LONGEST_LAG
        out = np.empty((rows.size, rows.size))
        for start in range(0, rows.size, 256):
            part = np.arange(start, min(start + 256, rows.size))
            forward: list[FloatArray] = []
            for c, (L, link) in enumerate(zip(self.lower, self.couplings, strict=True)):
                right = np.zeros((len(L), part.size))
                mine = np.flatnonzero(chunks[part] == c)
                right[place[rows[part[mine]], steps[part[mine]]], mine] = 1.0
                if link.size:
                    right -= link.T @ forward[-1]
                forward.append(triangular(L, right))
            solved = self.backward(forward)
            for c in np.unique(chunks):
                mine = np.flatnonzero(chunks == c)
                out[np.ix_(mine, part)] = solved[c][place[rows[mine], steps[mine]]]
        return np.asarray((out + out.T) / 2)


def triangular(L: FloatArray, right: FloatArray, *, transposed: bool = False) -> FloatArray:
    """`L^-1 r`, or `L^-T r`, of a lower triangle and right sides (k, m)."""
    if not len(L):
        return np.zeros((0, right.shape[1]))
    return np.asarray(blas.dtrsm(1.0, L, right, lower=1, trans_a=int(transposed)))
