"""Normal priors of the function at n points, in the forms in which sites are conditioned on."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import ClassVar, TypeAlias

import numpy as np

from coupledgp.ground.tensors import Tensor, torch
from coupledgp.linalg.matrices import batch_cholesky
from coupledgp.random import FloatArray


class SitePrior(ABC):
    """A prior `f ~ N(0, K)` at n points, which k outputs share.

    Attributes
    ----------
    value_error : float
        Fall of the objective of sites that may be an error of arithmetic, over one plus its size.
    """

    value_error: ClassVar[float] = 1e-13

    @abstractmethod
    def posterior(
        self, precision: Tensor, shift: Tensor, want_variance: bool
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """Means and variances (k, n) given sites, and `log |I + W^1/2 K W^1/2|` (k,).

        Parameters
        ----------
        precision
            Diagonals W (k, n) of the sites' precisions, above zero.
        shift
            b (k, n), precision times pseudo-observation of each site.
        want_variance
            Whether variances are computed; else they are None.

        Raises
        ------
        NumericalError
            A matrix is not positive definite to working precision.
        """


class DifferentiableSites(SitePrior):
    """A prior by arrays at hand, so that evidence is differentiable in what they were made of."""

    def conditioned(self, precision: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
        """Posterior means `(K^-1 + W)^-1 b` (k, n) and `log |I + W^1/2 K W^1/2|` (k,).

        Both are differentiable in what K was made of, and in the arguments, those of `posterior`.
        """
        mean, _, log_determinant = self.posterior(precision, shift, False)
        return mean, log_determinant

    @abstractmethod
    def moved(self, curvature: Tensor, shift: Tensor) -> Tensor:
        """`(K^-1 + H)^-1 b` (k, n) for curvatures H (k, n) of any sign; differentiable likewise."""


class DenseSites(DifferentiableSites):
    """A prior by its covariance: O(n^3) time an output.

    Parameters
    ----------
    covariance
        K (n, n).
    """

    def __init__(self, covariance: Tensor) -> None:
        self.covariance = covariance

    def posterior(
        self, precision: Tensor, shift: Tensor, want_variance: bool
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """Posterior means `K (b - W^1/2 B^-1 W^1/2 K b)` and `log |B|`, `B = I + W^1/2 K W^1/2`.

        Variances are `diag(K) - diag(K W^1/2 B^-1 W^1/2 K)` (Rasmussen and Williams 2006,
        algorithm 3.1).
        """
        root, covariance = precision.sqrt(), self.covariance
        matrix = root[:, :, None] * covariance * root[:, None, :]
        factor = batch_cholesky(_with_one(matrix), "I + W^1/2 K W^1/2")
        solved = _solved(factor, root * (shift @ covariance))
        mean, variance = (shift - root * solved) @ covariance, None
        if want_variance:
            part = torch.linalg.solve_triangular(factor, root[:, :, None] * covariance, upper=False)
            variance = (covariance.diagonal() - part.square().sum(1)).clamp_min(0)
        return mean, variance, _log_determinants(factor)

    def moved(self, curvature: Tensor, shift: Tensor) -> Tensor:
        """`(K^-1 + H)^-1 b = K (I + H K)^-1 b` (k, n), for curvatures H (k, n)."""
        matrix = _with_one(curvature[:, :, None] * self.covariance)
        return torch.linalg.solve(matrix, shift[..., None])[..., 0] @ self.covariance


class FeatureSites(DifferentiableSites):
    """A prior by features, `K = s Phi Phi'`: O(n M^2) time an output, no matrix (n, n).

    Parameters
    ----------
    chunks
        Makes the rows of Phi (n, M), some at a time; it is called more than once. One chunk holds
        all features in memory, a stream none of them.
    scale
        s, the outputscale.
    """

    def __init__(self, chunks: Callable[[], Iterable[Tensor]], scale: float = 1.0) -> None:
        self.chunks, self.root = chunks, math.sqrt(scale)

    def posterior(
        self, precision: Tensor, shift: Tensor, want_variance: bool
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """Means `Phi A^-1 Phi' b` and `log |A|` (k,), `A = I + Phi' W Phi`, in two passes.

        Variances are `phi' A^-1 phi` of each row phi of Phi.
        """
        matrices, right = self._sums(precision, shift)
        factor = batch_cholesky(matrices, "I + Phi' W Phi")
        weights, means, variances = _solved(factor, right), [], []
        for _, features in self._parts():
            means.append(weights @ features.T)
            if want_variance:
                part = torch.linalg.solve_triangular(factor, features.T, upper=False)
                variances.append(part.square().sum(1))
        variance = torch.cat(variances, dim=1) if want_variance else None
        return torch.cat(means, dim=1), variance, _log_determinants(factor)

    def moved(self, curvature: Tensor, shift: Tensor) -> Tensor:
        matrices, right = self._sums(curvature, shift)
        weights = torch.linalg.solve(matrices, right[..., None])[..., 0]
        return torch.cat([weights @ features.T for _, features in self._parts()], dim=1)

    def _parts(self) -> Iterable[tuple[slice, Tensor]]:
        """Places of rows, and their features in double precision and units of the prior."""
        start = 0
        for chunk in self.chunks():
            yield slice(start, start + len(chunk)), chunk.double() * self.root
            start += len(chunk)

    def _sums(self, curvature: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
        """`I + Phi' H Phi` (k, M, M), and `Phi' b` (k, M)."""
        matrices = right = torch.zeros(())
        for rows, features in self._parts():
            own, shifts = curvature[:, rows], shift[:, rows]
            matrices = matrices + torch.stack([(features * h[:, None]).T @ features for h in own])
            right = right + shifts @ features
        return _with_one(matrices), right


# Mean and variance (n,) of f at the observations, and the log evidence.
GivenMoments: TypeAlias = tuple[FloatArray, FloatArray, float]


class GivenSites(SitePrior):
    """The prior of a process, of one output, by what the process says given pseudo-observations.

    Parameters
    ----------
    given
        From pseudo-observations z (n,) of f less its prior mean and their precisions W (n,) to mean
        and variance (n,) of f at their points, and the log evidence `log N(z; 0, K + W^-1)`.
    """

    def __init__(
        self,
        given: Callable[[FloatArray, FloatArray], GivenMoments],
    ) -> None:
        self.given = given

    def posterior(
        self, precision: Tensor, shift: Tensor, want_variance: bool
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """Moments of the process, and `log |B|` by its evidence.

        `log |B| = -2 log N(z; 0, K + W^-1) - z' W (z - m) + log |W| - n log(2 pi)`, m the mean.
        """
        targets = shift / precision
        found = [self.given(*pair) for pair in zip(targets.numpy(), precision.numpy(), strict=True)]
        mean, variance = (
            torch.as_tensor(np.stack([each[part] for each in found])) for part in (0, 1)
        )
        evidence = torch.tensor([each[2] for each in found], dtype=torch.float64)
        quadratic = (shift * (targets - mean)).sum(1)
        constant = (precision / (2 * math.pi)).log().sum(1)
        return mean, variance, constant - 2 * evidence - quadratic


def _with_one(matrices: Tensor) -> Tensor:
    size = matrices.shape[-1]
    return matrices + torch.eye(size, dtype=matrices.dtype, device=matrices.device)


def _solved(factors: Tensor, right: Tensor) -> Tensor:
    """Solutions (k, m) of equations with lower Cholesky factors (k, m, m), right sides (k, m)."""
    return torch.cholesky_solve(right[..., None], factors)[..., 0]


def _log_determinants(factors: Tensor) -> Tensor:
    return 2 * factors.diagonal(dim1=-2, dim2=-1).log().sum(-1)
