"""A low-rank part plus noise: the preconditioner of systems of a kernel, and a bound from below.

`L = F F' + s I` with `F F' <= K`, hence `L <= K + s I` and `R' (K + s I)^-1 R <= R' L^-1 R`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from coupledgp.random import FloatArray

Columns = Callable[[NDArray[np.int64]], Tensor]
BLOCK = 128


def partial_cholesky(
    diagonal: FloatArray, columns: Columns, rank: int, rng: np.random.Generator, floor: float
) -> Tensor:
    """Factor F (n, r) of a Nystrom approximation, by randomly pivoted Cholesky in blocks.

    Pivots are drawn in proportion to what is left of the diagonal (Chen, Epperly, Tropp and
    Webber, 2023), up to `BLOCK` at a time: O(n rank^2).

    Parameters
    ----------
    diagonal
        Diagonal of K (n,).
    columns
        `indices -> K[:, indices]`, (n, b).
    rank
        Most columns of F.
    rng
        Of the pivots.
    floor
        What is left of the trace, per row, that ends the search.
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
        # Pivots that the others of their block explain add nothing but rounding.
        kept = values > 1e-10 * values[-1]
        root = vectors[:, kept] / values[kept].sqrt()
        new = gap @ root
        factor[:, size : size + new.shape[1]] = new
        size += new.shape[1]
        left = (left - new.square().sum(1)).clamp_min_(0.0)
        left[pivots] = 0.0
    return factor[:, :size]


class LowRankPlusNoise:
    """`L = U diag(l) U' + s I` with orthonormal U (n, r).

    Parameters
    ----------
    factor
        F (n, r), whose singular vectors and values give U and l.
    noise
        s.
    """

    def __init__(self, factor: Tensor, noise: float) -> None:
        values, vectors = torch.linalg.eigh(factor.T @ factor)
        kept = (
            values > max(1e-12 * float(values.max()), 1e-3 * noise) if len(values) else values > 0
        )
        self.values = values[kept]
        self.basis = factor @ (vectors[:, kept] / self.values.sqrt())
        self.noise = noise
        self._copies = {self.basis.dtype: self.basis}

    @property
    def rank(self) -> int:
        """Columns of U."""
        return self.basis.shape[1]

    def solve(self, B: Tensor) -> Tensor:
        """`L^-1 B`, in the dtype of B."""
        if B.dtype not in self._copies:
            self._copies[B.dtype] = self.basis.to(B.dtype)
        basis = self._copies[B.dtype]
        shrink = (1 / (self.values + self.noise) - 1 / self.noise).to(B.dtype)
        return torch.addmm(B / self.noise, basis, shrink[:, None] * (basis.T @ B))
