"""A low-rank part plus noise: preconditioner and lower bound of systems of a kernel.

`L = F F' + s I` with `F F' <= K`, hence `L <= K + s I` and `R' (K + s I)^-1 R <= R' L^-1 R`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from coupledgp.ground.tensors import Tensor, torch
from coupledgp.random import FloatArray

Columns = Callable[[NDArray[np.int64]], Tensor]
# Pivots drawn at once: enough for matrix products at full speed, few enough to be good ones.
BLOCK = 128
# Eigenvalues of the pivots' block below this share of the largest are rounding: such pivots are
# explained by the others of their block.
LEAST_EIGENVALUE = 1e-10
# Eigenvalues of `F F'` below this share of the largest are rounding, and beside the noise s those
# below `LEAST_SHARE` of it change next to nothing.
ROUNDING = 1e-12
LEAST_SHARE = 1e-3


def partial_cholesky(
    diagonal: FloatArray, columns: Columns, rank: int, rng: np.random.Generator, floor: float
) -> Tensor:
    """Factor F (n, r) of a Nystrom approximation, by randomly pivoted Cholesky in blocks.

    Pivots are drawn with probabilities in proportion to the diagonal of the residual `K - F F'`
    (Chen, Epperly, Tropp and Webber, 2023), up to `BLOCK` at a time: O(n rank^2).

    Parameters
    ----------
    diagonal
        Diagonal of K (n,).
    columns
        Function `indices -> K[:, indices]`, (b,) -> (n, b).
    rank
        Largest number of columns of F.
    rng
        Source of the pivots.
    floor
        Mean diagonal of the residual at which F is good enough.
    """
    left = torch.tensor(diagonal)
    n, size = len(left), 0
    factor = left.new_empty(n, min(rank, n))
    while size < factor.shape[1] and float(left.mean()) > floor:
        weights = (left / left.sum()).numpy()
        wanted = min(BLOCK, factor.shape[1] - size, int(np.count_nonzero(weights)))
        pivots = np.sort(rng.choice(n, wanted, replace=False, p=weights))
        done = factor[:, :size]
        gap = columns(pivots).double().addmm_(done, done[pivots].T, alpha=-1)
        values, vectors = torch.linalg.eigh(gap[pivots])
        kept = values > LEAST_EIGENVALUE * values[-1]
        root = vectors[:, kept] / values[kept].sqrt()
        new = gap @ root
        factor[:, size : size + new.shape[1]] = new
        size += new.shape[1]
        left = (left - new.square().sum(1)).clamp_min_(0.0)
        left[pivots] = 0.0
    return factor[:, :size]


class LowRankPlusNoise:
    """`L = U diag(l) U' + s I` with orthonormal U (n, r), and solves with it in O(n r).

    Parameters
    ----------
    factor
        F (n, r') with `F F' = U diag(l) U'`, apart from eigenvalues that do not matter beside s.
    noise
        Noise variance s.
    """

    def __init__(self, factor: Tensor, noise: float) -> None:
        values, vectors = torch.linalg.eigh(factor.T @ factor)
        largest = float(values.max()) if len(values) else 0.0
        kept = values > max(ROUNDING * largest, LEAST_SHARE * noise)
        self.values = values[kept]
        self.basis = factor @ (vectors[:, kept] / self.values.sqrt())
        self.noise = noise
        self._copies = {self.basis.dtype: self.basis}

    @property
    def rank(self) -> int:
        """Number r of columns of U."""
        return self.basis.shape[1]

    def solve(self, B: Tensor) -> Tensor:
        """`L^-1 B` for B (n, k), in the dtype of B."""
        if B.dtype not in self._copies:
            self._copies[B.dtype] = self.basis.to(B.dtype)
        basis = self._copies[B.dtype]
        shrink = (1 / (self.values + self.noise) - 1 / self.noise).to(B.dtype)
        return torch.addmm(B / self.noise, basis, shrink[:, None] * (basis.T @ B))

    def inverse_root(self, B: Tensor) -> Tensor:
        """`L^-1/2 B` for B (n, k), in float64."""
        least = self.noise**-0.5
        shrink = (self.values + self.noise).rsqrt() - least
        return torch.addmm(B * least, self.basis, shrink[:, None] * (self.basis.T @ B))

    def log_determinant(self, n_rows: int) -> float:
        """`log det L` for L (n, n)."""
        shared = (n_rows - self.rank) * np.log(self.noise)
        return float((self.values + self.noise).log().sum() + shared)
