"""The law of a vector autoregression from its first step on, and its precision matrix.

The series x (p, n) are a Gaussian Markov process: `x_0 ~ N(0, V)`, and for t >= 1 `e_t = x_t - c -
sum_g A_g h_tg ~ N(0, Q)`, where values before the first step are x_0. So `e_t = sum_u M_tu x_u - c`
with `M_tu = sum_g w_tug A_g`, A_0 = I and numbers w that depend on t only near the first step, and

    Lam[u, u'] = sum_t M_tu' Q^-1 M_tu' = sum_gh (sum_t w_tug w_tu'h) A_g' Q^-1 A_h .
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import solve_triangular

from coupledgp.inference.space_time.autoregression import (
    GROUPS,
    LONGEST_LAG,
    N_GROUPS,
    Autoregression,
    adjoint_means,
    padded,
)
from coupledgp.random import FloatArray


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
        return np.asarray(np.linalg.cholesky(self.innovations), dtype=np.float64)

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
