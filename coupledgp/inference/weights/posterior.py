"""Posterior of the weights of a linear-Gaussian model (MATH section 6)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from coupledgp.errors import NumericalError
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.inference.weights.normal_equations import NormalEquations, solve_ridge
from coupledgp.inference.weights.rounding import FeatureRounding, error_of_rows, error_of_sums
from coupledgp.inference.weights.square_root import SquareRoot
from coupledgp.linalg.rounding import LIMIT

DOUBLE = FeatureRounding()


@dataclass(frozen=True)
class WeightPosterior:
    """Law of `f = Phi u`, `u` the weights of features of unit outputscale, given the data.

    With `A = Phi' Phi + lam I = L L'`, `lam = s / v`: mean `A^-1 Phi' y`, covariance `s A^-1`. With
    fewer rows than features, `Phi' = Q R`: the data speak of the span of `Q` only, where the
    posterior is that of the features `R'`, and outside it the prior stays.

    Attributes
    ----------
    mean : Tensor (M, k)
        Posterior mean of the weights, normalised targets.
    factor : Tensor (r, r)
        Lower Cholesky factor L, r = min(n, M).
    basis : Tensor (M, r) or None
        Q, or None when r = M.
    outputscale, noise : float
        v and s, in units of the normalised targets.
    log_evidence : float
        Log evidence of the normalised targets, in nats.
    error : float
        Estimated error by rounding, at any inputs: of the mean in predictive standard deviations,
        or of these as a share, whichever is more.
    """

    mean: Tensor
    factor: Tensor
    basis: Tensor | None
    outputscale: float
    noise: float
    log_evidence: float
    error: float = 0.0

    @classmethod
    def from_moments(
        cls,
        equations: NormalEquations,
        outputscale: float,
        noise: float,
        rounding: FeatureRounding = DOUBLE,
    ) -> WeightPosterior:
        """Posterior from the normal equations of M features; `rounding` states their errors.

        Raises
        ------
        NumericalError
            The matrix A is not positive definite to rounding.
        """
        factor, mean, evidence = solve_ridge(equations, outputscale, noise)
        error = error_of_sums(equations, factor, mean, noise, rounding)
        return cls(mean, factor, None, outputscale, noise, evidence, error)

    @classmethod
    def from_rows(
        cls,
        features: Tensor,
        targets: Tensor,
        outputscale: float,
        noise: float,
        n_rows: float | None = None,
        log_noise: float = 0.0,
        rounding: FeatureRounding = DOUBLE,
    ) -> WeightPosterior:
        """Posterior from fewer rows (n, M) than features, with normalised targets (n, k).

        Both have the factors `RowWeights.root` already; `n_rows`, the number of rows where they
        count otherwise than once, and `log_noise` are those of `NormalEquations`.
        """
        basis, upper = torch.linalg.qr(features.T)
        counted = len(targets) if n_rows is None else n_rows
        equations = NormalEquations(
            upper @ upper.T, upper @ targets, targets.square().sum(0), counted, log_noise
        )
        try:
            found = cls.from_moments(equations, outputscale, noise, rounding)
        except NumericalError:
            if not bool(torch.isfinite(equations.gram).all()):
                raise
            found = None
        if found is None or found.error > LIMIT:
            root = SquareRoot.of([(upper.T, targets)], noise / outputscale)
            found = cls.from_root(root, outputscale, noise, counted, log_noise, rounding)
        return replace(found, mean=basis @ found.mean, basis=basis)

    @classmethod
    def from_root(
        cls,
        root: SquareRoot,
        outputscale: float,
        noise: float,
        n_rows: float,
        log_noise: float = 0.0,
        rounding: FeatureRounding = DOUBLE,
    ) -> WeightPosterior:
        """Posterior from the orthogonal factor of n rows, whose ridge is `noise / outputscale`."""
        mean = root.weights()
        residual = (root.quadratic - root.lam * mean.square().sum(0)).clamp_min(0.0).sqrt()
        error = error_of_rows(root.factor, mean, residual, root.square, n_rows, noise, rounding)
        evidence = root.log_evidence(outputscale, n_rows, log_noise)
        return cls(mean, root.factor, None, outputscale, noise, evidence, error)

    def predict(self, features: Tensor) -> Tensor:
        """Posterior mean (b, k) at features (b, M) of unit outputscale."""
        return features.to(self.mean.dtype) @ self.mean

    def root(self, features: Tensor) -> Tensor:
        """Rows `V` (b, r), or (b, r + M), at features (b, M), with latent covariance `V V'`.

        A variance is thus the squared norm of a row: a sum of squares, which cannot turn negative
        by rounding.
        """
        features = features.to(self.mean.dtype)
        root = math.sqrt(self.noise) * self.whitened(features)
        if self.basis is None:
            return root
        outside = features - features @ self.basis @ self.basis.T
        return torch.cat([root, math.sqrt(self.outputscale) * outside], dim=1)

    def whitened(self, features: Tensor) -> Tensor:
        """Rows `L^-1 Q' phi` (b, r) of features (b, M), Q the identity when r = M."""
        features = features.to(self.mean.dtype)
        inside = features if self.basis is None else features @ self.basis
        return torch.linalg.solve_triangular(self.factor, inside.T, upper=False).T

    @property
    def n_innovations(self) -> int:
        """Number of standard normal draws that one sample of the weights takes."""
        return len(self.factor) + (0 if self.basis is None else len(self.mean))

    def sample(self, innovations: Tensor) -> Tensor:
        """Weights minus their mean, (M, j), from standard normal draws (n_innovations, j)."""
        r = len(self.factor)
        inside = torch.linalg.solve_triangular(self.factor.T, innovations[:r], upper=True)
        inside = math.sqrt(self.noise) * inside
        if self.basis is None:
            return inside
        outside = innovations[r:] - self.basis @ (self.basis.T @ innovations[r:])
        return self.basis @ inside + math.sqrt(self.outputscale) * outside
