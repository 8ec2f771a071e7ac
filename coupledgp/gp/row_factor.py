"""The Cholesky factor of the covariance of observed rows, and products with its inverse."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
import torch
from scipy.linalg import blas, lapack
from torch import Tensor

from coupledgp.ground.devices import CPU
from coupledgp.random import FloatArray

# Least reciprocal condition number of a factor whose inverse keeps ten digits.
LEAST_RECIPROCAL = 1e-5


class RowFactor:
    """Lower Cholesky factor L (n, n), computed at its first use.

    Parameters
    ----------
    make
        Computes the factor.
    """

    def __init__(self, make: Callable[[], Tensor]) -> None:
        self._make = make

    @cached_property
    def lower(self) -> Tensor:
        """L itself."""
        return self._make()

    @cached_property
    def inverse(self) -> FloatArray | None:
        """`L^-1` (n, n) on the CPU; None where L is near singular.

        A product with it takes half the time of a solve, and loses digits where L is near singular.
        """
        if self.lower.device != CPU:
            return None
        factor = np.asfortranarray(self.lower.numpy())
        reciprocal, _ = lapack.dtrcon(factor, uplo="L")
        if reciprocal < LEAST_RECIPROCAL:
            return None
        inverse, info = lapack.dtrtri(factor, lower=1)
        return inverse if info == 0 else None

    def whitened(self, cross: Tensor) -> Tensor:
        """`C L^-T` (p, n) of covariances C (p, n), which it may overwrite."""
        inverse = self.inverse
        if inverse is None:
            return torch.linalg.solve_triangular(self.lower, cross.T, upper=False).T
        columns = np.ascontiguousarray(cross.numpy()).T
        return torch.as_tensor(blas.dtrmm(1.0, inverse, columns, lower=1, overwrite_b=1).T)

    def solved(self, right: FloatArray) -> FloatArray:
        """`(L L')^-1 B` (n, j) for B (n, j)."""
        sides = torch.as_tensor(right, device=self.lower.device)
        found: FloatArray = torch.cholesky_solve(sides, self.lower).cpu().numpy()
        return found
