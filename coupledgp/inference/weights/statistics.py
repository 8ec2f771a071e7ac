"""Sufficient statistics of a linear-Gaussian model, added up over chunks (MATH section 6)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from coupledgp.inference.search.problem import cholesky, log_evidence
from coupledgp.inference.weights.stream import FeatureStream, add_gram, fill_lower
from coupledgp.random import FloatArray


@dataclass
class Moments:
    """`Phi' Phi`, `Phi' y`, `Phi' 1`, `1' y`, `y' y` and n: all that a fixed feature map needs.

    Targets enter minus a fixed `offset`, which keeps the sums accurate when their mean is large;
    they can be re-centred and re-scaled afterwards (`normalized`), so that a table given in
    several batches ends in the same posterior as the table given at once.

    Attributes
    ----------
    gram : Tensor (M, M)
    cross : Tensor (M, k)
    feature_sum : Tensor (M,)
    target_sum, target_square : Tensor (k,)
    n_rows : int
    offset : Tensor (k,)
    rounding : float
        Relative rounding error of `gram`; zero in double precision, where it does not matter.
    """

    gram: Tensor
    cross: Tensor
    feature_sum: Tensor
    target_sum: Tensor
    target_square: Tensor
    n_rows: int
    offset: Tensor
    rounding: float = 0.0

    @classmethod
    def zeros(cls, n_features: int, offset: Tensor) -> Moments:
        """Moments of no rows."""
        k, new = offset.shape[0], offset.new_zeros
        return cls(
            new(n_features, n_features), new(n_features, k), new(n_features), new(k), new(k), 0,
            offset,
        )  # fmt: skip

    def add(self, features: Tensor, targets: Tensor) -> None:
        """Add rows: features (b, M) of any float dtype and targets (b, k) in float64."""
        centred = targets - self.offset
        add_gram(self.gram, features)
        if features.dtype != self.gram.dtype:
            self.rounding = torch.finfo(features.dtype).eps
        # The sum of the features rides along: one pass over them instead of two.
        columns = torch.cat([centred, torch.ones_like(centred[:, :1])], dim=1)
        sums = features.T @ columns.to(features.dtype)
        self.cross += sums[:, :-1]
        self.feature_sum += sums[:, -1]
        self.target_sum += centred.sum(0)
        self.target_square += centred.square().sum(0)
        self.n_rows += features.shape[0]

    def normalized(self, mean: Tensor, scale: Tensor) -> NormalEquations:
        """Normal equations of the targets `(y - mean) / scale`."""
        shift = mean - self.offset
        cross = (self.cross - torch.outer(self.feature_sum, shift)) / scale
        square = self.target_square - 2 * shift * self.target_sum + self.n_rows * shift.square()
        gram = fill_lower(self.gram)
        if self.rounding:
            # Keeps the sum of single-precision products positive semidefinite.
            gram.diagonal().add_(self.rounding * gram.norm())
        return NormalEquations(gram, cross, square / scale.square(), self.n_rows)


@dataclass(frozen=True)
class NormalEquations:
    """`gram` (M, M), `cross = Phi' y` (M, k), `square = y' y` (k,) and the number of rows."""

    gram: Tensor
    cross: Tensor
    square: Tensor
    n_rows: int


def stream_moments(stream: FeatureStream, targets: FloatArray, offset: Tensor) -> Moments:
    """Moments of a table: one pass, memory independent of its length."""
    moments = Moments.zeros(stream.feature_map.n_features, offset)
    for rows, _, features in stream:
        moments.add(features, torch.as_tensor(targets[rows]).to(offset))
    return moments


def solve_ridge(
    equations: NormalEquations, outputscale: float, noise: float
) -> tuple[Tensor, Tensor, float]:
    """Return the Cholesky factor of A, the mean `A^-1 Phi' y`, and the log evidence."""
    lam = noise / outputscale
    size, n_outputs = equations.cross.shape
    ridge = equations.gram.clone()
    ridge.diagonal().add_(lam)
    factor = cholesky(ridge, "Phi'Phi + (noise / outputscale) I")
    mean = torch.cholesky_solve(equations.cross, factor)
    quad = float(equations.square.sum() - (equations.cross * mean).sum()) / lam
    unreached = equations.n_rows - size
    logdet = 2 * float(factor.diagonal().log().sum()) + unreached * math.log(lam)
    value = log_evidence(quad, logdet, outputscale, equations.n_rows, n_outputs)
    return factor, mean, value
