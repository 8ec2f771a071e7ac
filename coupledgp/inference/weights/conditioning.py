"""Batches of further observations, given on top of one posterior (MATH section 6).

Given the data so far, `f(x) = mean(x) + V(x) e` with `e ~ N(0, I_r)` and `V` the rows of
`WeightPosterior.root`. Observations `y = f(X) + noise` at q further inputs change the law of `e`
only: with `V = V(X)` (q, r) and `L L' = V V' + s I`, its mean becomes `V' (L L')^-1 (y - mean(X))`
and its covariance `R R'`, `R = I - V' L^-T (L + sqrt(s) I)^-1 V`. No matrix is larger than q x q.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from coupledgp.ground.tensors import Tensor, torch
from coupledgp.linalg.matrices import batch_cholesky


@dataclass(frozen=True)
class Conditioning:
    """Law of `e` given further observations; leading dimensions are a batch and broadcast.

    Attributes
    ----------
    root : Tensor (..., q, r)
        Rows `V` of the posterior's root at the observed inputs.
    reduction : Tensor (..., q, q)
        `L^-T (L + sqrt(s) I)^-1`.
    shift : Tensor (..., r, k)
        Mean of `e`, one column for each output.
    """

    root: Tensor
    reduction: Tensor
    shift: Tensor

    @classmethod
    def on(cls, root: Tensor, residual: Tensor, noise: float) -> Conditioning:
        """Condition on residuals `y - mean` (..., q, k) at inputs with root rows (..., q, r).

        Raises
        ------
        NumericalError
            A covariance is not positive definite to rounding.
        """
        eye = torch.eye(root.shape[-2], dtype=root.dtype, device=root.device)
        name = "Cov(f) + noise I of the further observations"
        factor = batch_cholesky(root @ root.mT + noise * eye, name)
        solved = torch.cholesky_solve(residual, factor)
        # Andrews (1968): a factor of the smaller covariance without a difference of squares.
        inner = torch.linalg.solve_triangular(factor + math.sqrt(noise) * eye, eye, upper=False)
        reduction = torch.linalg.solve_triangular(factor.mT, inner, upper=True)
        return cls(root, reduction, root.mT @ solved)

    def mean(self, root: Tensor) -> Tensor:
        """Change of the mean (..., p, k) at inputs with root rows (..., p, r)."""
        return root @ self.shift

    def reduce(self, root: Tensor) -> Tensor:
        """Rows (..., p, r) whose products are the covariance given the observations too."""
        return root - (root @ self.root.mT) @ self.reduction @ self.root
