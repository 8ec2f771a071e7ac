"""Gram matrices of features as operators: sums and products of kernels stay of low rank."""

from __future__ import annotations

from typing import Any

import numpy as np
from linear_operator.operators import (
    DiagLinearOperator,
    LinearOperator,
    LowRankRootLinearOperator,
    RootLinearOperator,
)

from coupledgp.ground.tensors import Tensor, torch


class FeatureGram(LowRankRootLinearOperator):
    """`Phi Phi'` of features `Phi` (..., n, M).

    The features of a sum of two are theirs side by side, those of a product are all pairwise
    products. So with fewer columns than rows sums and products are solved through their columns
    too, where the base classes would factorise matrices of n rows.
    """

    @property
    def is_low_rank(self) -> bool:
        """Whether there are fewer features than rows."""
        return self.root.shape[-1] < self.root.shape[-2]

    def add_diagonal(self, diag: Tensor) -> LinearOperator:
        """`Phi Phi' + diag(d)` for d (..., n)."""
        base = LowRankRootLinearOperator if self.is_low_rank else RootLinearOperator
        return base.add_diagonal(self, diag)

    def __add__(self, other: Any) -> LinearOperator:
        """Sum with another operator."""
        if isinstance(other, RootLinearOperator):
            pair = _broadcast(self.root.to_dense(), other.root.to_dense())
            return FeatureGram(torch.cat(pair, dim=-1))
        if isinstance(other, DiagLinearOperator) and not self.is_low_rank:
            return RootLinearOperator.__add__(self, other)
        return super().__add__(other)

    def _mul_matrix(self, other: LinearOperator) -> LinearOperator:
        if isinstance(other, RootLinearOperator):
            left, right = _broadcast(self.root.to_dense(), other.root.to_dense())
            if left.shape[-1] * right.shape[-1] < left.shape[-2]:
                return FeatureGram((left[..., :, None] * right[..., None, :]).flatten(-2))
        return super()._mul_matrix(other)

    def _sum_batch(self, dim: int) -> LinearOperator:
        root = self.root.to_dense()
        return FeatureGram(root.movedim(dim, -2).flatten(-2))


def _broadcast(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Features (..., n, M) of two operators with one batch shape."""
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    return left.expand(*batch, *left.shape[-2:]), right.expand(*batch, *right.shape[-2:])
