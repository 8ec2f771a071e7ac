"""Joint predictive laws by solves alone, with computable bounds of what the solver left undone.

`y ~ N(0, A)`, `A = K + s I`, all in units of normalised targets. Of n rows only products with A
are needed, never the matrix.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from coupledgp.memory import check_memory
from coupledgp.progress import Progress
from coupledgp.random import FloatArray


@dataclass(frozen=True)
class SystemOptions:
    """How systems of a Euclidean kernel are solved.

    Attributes
    ----------
    dtype : torch.dtype
        Of the products within the solver; residuals are in float64 anyhow.
    rank : int
        Of the preconditioner.
    seed : int
        Of its pivots.
    """

    dtype: torch.dtype = torch.float32
    rank: int = 1500
    seed: int = 0


class Solution(NamedTuple):
    """Approximate solutions X (n, k) of `A X = B`, their residuals `B - A X`, and the work."""

    values: FloatArray
    residuals: FloatArray
    n_iterations: int


class LinearSystem(ABC):
    """The covariance A of n observations, as something to solve with.

    Attributes
    ----------
    targets : FloatArray (n, k)
        Normalised targets.
    noise : float
        Noise variance s, normalised.
    """

    targets: FloatArray
    noise: float

    @property
    def n_rows(self) -> int:
        """Observations n."""
        return len(self.targets)

    @abstractmethod
    def cross(self, points: Any) -> FloatArray:
        """Prior covariance `K[rows, points]`, shape (n, p)."""

    @abstractmethod
    def prior(self, points: Any) -> FloatArray:
        """Prior covariance `K[points, points]`, shape (p, p)."""

    @abstractmethod
    def solve(self, B: FloatArray, tolerance: float, report: Progress) -> Solution:
        """Solve `A X = B`, (n, k), to a relative residual; the residuals returned are true ones."""

    @abstractmethod
    def inverse_bound(self, R: FloatArray) -> FloatArray:
        """A matrix (k, k) not below `R' A^-1 R`."""

    @abstractmethod
    def bytes_needed(self, n_columns: int) -> float:
        """Bytes alive at once while n_columns right-hand sides are solved."""


@dataclass(frozen=True)
class BoundedLaw:
    """A joint law of observations that is known up to bounds.

    The true covariance lies between `cov - cov_error` and `cov` in the positive semidefinite
    order, and the error e of the k-th mean has `e e' <= mean_error_k^2 cov_error`.

    Attributes
    ----------
    mean : FloatArray (p, k)
    cov, cov_error, prior : FloatArray (p, p)
        Of observations, its error, and the prior covariance of f.
    mean_error : FloatArray (k,)
    noise : float
        Noise variance; all in units of normalised targets.
    n_iterations : int
        Steps of conjugate gradients.
    """

    mean: FloatArray
    cov: FloatArray
    cov_error: FloatArray
    mean_error: FloatArray
    prior: FloatArray
    noise: float
    n_iterations: int


def predictive_law(
    system: LinearSystem, points: Any, tolerance: float, report: Progress
) -> BoundedLaw:
    """Joint law of observations at points, one solve a point and one a target.

    With `X ~ A^-1 C`, `C` the cross covariance, and the true residual `R = C - A X`,

        C' A^-1 C = X' C + X' R + R' A^-1 R,

    so what is left out is quadratic in the residual and bounded by `LinearSystem.inverse_bound`;
    the mean `C' A^-1 y = C' a + X' r + R' A^-1 r` alike, `a` and `r` those of the targets.
    """
    n_points = len(points)
    check_memory(
        system.bytes_needed(n_points + system.targets.shape[1]) + 6 * 8 * n_points**2,
        f"X_test: {n_points} points compared jointly given {system.n_rows} rows",
        "compare fewer points at a time",
    )
    cross = system.cross(points)
    solved = system.solve(np.hstack([cross, system.targets]), tolerance, report)
    X, weights = np.split(solved.values, [n_points], axis=1)
    R, rest = np.split(solved.residuals, [n_points], axis=1)
    prior = system.prior(points)
    cov = prior - X.T @ (cross + R)
    cov = 0.5 * (cov + cov.T)
    cov[np.diag_indices_from(cov)] += system.noise
    return BoundedLaw(
        mean=cross.T @ weights + X.T @ rest,
        cov=cov,
        cov_error=system.inverse_bound(R),
        mean_error=np.sqrt(np.diagonal(system.inverse_bound(rest))),
        prior=prior,
        noise=system.noise,
        n_iterations=solved.n_iterations,
    )
