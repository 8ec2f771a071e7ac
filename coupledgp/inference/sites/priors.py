"""Normal priors of the function at n points, in the forms in which sites are conditioned on."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from coupledgp.linalg.cholesky import batch_cholesky


class SitePrior(ABC):
    """A prior `f ~ N(0, K)` at n points, which k outputs share."""

    @abstractmethod
    def conditioned(self, precision: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
        """Posterior means `(K^-1 + W)^-1 b` (k, n) and `log |I + W^1/2 K W^1/2|` (k,).

        Both are differentiable in what K was made of, and in the arguments.

        Parameters
        ----------
        precision
            Diagonals W (k, n) of the sites' precisions, above zero.
        shift
            b (k, n), precision times pseudo-observation of each site.

        Raises
        ------
        NumericalError
            A matrix is not positive definite to working precision.
        """

    @abstractmethod
    def moved(self, curvature: Tensor, shift: Tensor) -> Tensor:
        """`(K^-1 + H)^-1 b` (k, n) for curvatures H (k, n) of any sign; differentiable likewise."""


class DenseSites(SitePrior):
    """A prior by its covariance: O(n^3) time an output.

    Parameters
    ----------
    covariance
        K (n, n).
    """

    def __init__(self, covariance: Tensor) -> None:
        self.covariance = covariance

    def conditioned(self, precision: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
        """Posterior means `K (b - W^1/2 B^-1 W^1/2 K b)` and `log |B|`, `B = I + W^1/2 K W^1/2`.

        (Rasmussen and Williams 2006, algorithm 3.1.)
        """
        root = precision.sqrt()
        matrix = root[:, :, None] * self.covariance * root[:, None, :]
        factor = batch_cholesky(_with_one(matrix), "I + W^1/2 K W^1/2")
        solved = _solved(factor, root * (shift @ self.covariance))
        return (shift - root * solved) @ self.covariance, _log_determinants(factor)

    def moved(self, curvature: Tensor, shift: Tensor) -> Tensor:
        """`(K^-1 + H)^-1 b = K (I + H K)^-1 b` (k, n), for curvatures H (k, n)."""
        matrix = _with_one(curvature[:, :, None] * self.covariance)
        return torch.linalg.solve(matrix, shift[..., None])[..., 0] @ self.covariance


class FeatureSites(SitePrior):
    """A prior by features, `K = Phi Phi'`: O(n M^2) time an output, no matrix (n, n).

    Parameters
    ----------
    features
        Phi (n, M).
    """

    def __init__(self, features: Tensor) -> None:
        self.features = features

    def conditioned(self, precision: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
        """Posterior means `Phi A^-1 Phi' b` (k, n) and `log |A|` (k,), `A = I + Phi' W Phi`."""
        factor = batch_cholesky(self._matrices(precision), "I + Phi' W Phi")
        weights = _solved(factor, shift @ self.features)
        return weights @ self.features.T, _log_determinants(factor)

    def moved(self, curvature: Tensor, shift: Tensor) -> Tensor:
        right = (shift @ self.features)[..., None]
        weights = torch.linalg.solve(self._matrices(curvature), right)[..., 0]
        return weights @ self.features.T

    def _matrices(self, curvature: Tensor) -> Tensor:
        """`I + Phi' H Phi` (k, M, M)."""
        features = self.features
        return _with_one(torch.stack([(features * own[:, None]).T @ features for own in curvature]))


def _with_one(matrices: Tensor) -> Tensor:
    size = matrices.shape[-1]
    return matrices + torch.eye(size, dtype=matrices.dtype, device=matrices.device)


def _solved(factors: Tensor, right: Tensor) -> Tensor:
    """Solutions (k, m) of equations with lower Cholesky factors (k, m, m), right sides (k, m)."""
    return torch.cholesky_solve(right[..., None], factors)[..., 0]


def _log_determinants(factors: Tensor) -> Tensor:
    return 2 * factors.diagonal(dim1=-2, dim2=-1).log().sum(-1)
