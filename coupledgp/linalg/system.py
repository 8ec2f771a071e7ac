"""Joint predictive laws by solves alone, with computable bounds of the error of the solver.

The model is `y ~ N(0, A)`, `A = K + s I`, all in units of normalised targets. The covariance A of
the n observations, an n x n matrix, is never formed: products with it are enough.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from coupledgp.ground.codec import check_range, stored
from coupledgp.ground.memory import check_memory
from coupledgp.ground.validation import SMALLEST, check_choice
from coupledgp.random import FloatArray


@stored
@dataclass(frozen=True)
class SystemOptions:
    """Options of the solver of systems of a Euclidean kernel.

    Attributes
    ----------
    dtype : str
        `"float32"` or `"float64"`: precision of the products within the solver.
        Residuals are computed in float64 anyhow.
    rank : int
        Number of columns of the preconditioner's low-rank part.
    seed : int
        Seed for the choice of its pivots.
    tolerance : float
        Largest relative residual of the solves of a process that is solved for by iteration.
    """

    dtype: str = "float32"
    rank: int = 1500
    seed: int = 0
    tolerance: float = 1e-6

    def read_back(self) -> SystemOptions:
        """The options of a file."""
        check_choice(self.dtype, ("float32", "float64"), "dtype")
        check_range(self, 1, 10**6, "rank")
        check_range(self, 0, 2**63, "seed")
        check_range(self, SMALLEST, 1.0, "tolerance")
        return self


class Solution(NamedTuple):
    """Approximate solutions X (n, k) of `A X = B`, residuals `B - A X` (n, k), number of steps."""

    values: FloatArray
    residuals: FloatArray
    n_iterations: int


class LinearSystem(ABC):
    """Linear equations in the covariance A (n, n) of n observations.

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
        """Number n of observations."""
        return len(self.targets)

    @abstractmethod
    def cross(self, points: Any) -> FloatArray:
        """Prior covariance `K[rows, points]`, shape (n, p)."""

    @abstractmethod
    def prior(self, points: Any) -> FloatArray:
        """Prior covariance `K[points, points]`, shape (p, p)."""

    @abstractmethod
    def solve(self, B: FloatArray, tolerance: float) -> Solution:
        """Solve `A X = B` for B (n, k); every column's relative residual is at most `tolerance`.

        The residuals that are returned are computed from the solutions, not by a recurrence.
        """

    @abstractmethod
    def inverse_bound(self, R: FloatArray) -> FloatArray:
        """Upper bound (k, k), in the semidefinite order, of `R' A^-1 R` for R (n, k)."""

    @abstractmethod
    def bytes_needed(self, n_columns: int) -> float:
        """Bytes alive at once while `n_columns` right-hand sides are solved for."""


@dataclass(frozen=True)
class BoundedLaw:
    """Joint law of k outputs observed at p points, known up to bounds.

    The true covariance lies between `cov - cov_error` and `cov` in the positive semidefinite
    order, and the error e of the k-th mean has `e e' <= mean_error_k^2 cov_error`.

    Attributes
    ----------
    mean : FloatArray (p, k)
        Means of the observations, in units of normalised targets, as everything below.
    cov : FloatArray (p, p)
        Upper bound of the covariance of the observations.
    cov_error : FloatArray (p, p)
        Upper bound of `cov` minus the true covariance.
    mean_error : FloatArray (k,)
        Bounds of the errors of the means, see above.
    prior : FloatArray (p, p)
        Prior covariance of f.
    noise : float
        Noise variance.
    n_iterations : int
        Number of steps of conjugate gradients.
    """

    mean: FloatArray
    cov: FloatArray
    cov_error: FloatArray
    mean_error: FloatArray
    prior: FloatArray
    noise: float
    n_iterations: int


def predictive_law(system: LinearSystem, points: Any, tolerance: float) -> BoundedLaw:
    """Joint law of observations at p points, by p solves and one more for each output.

    With `X ~ A^-1 C`, C (n, p) the cross covariance, and the true residual `R = C - A X`,

        C' A^-1 C = X' C + X' R + R' A^-1 R.

    The last term is left out; it is quadratic in the residual and bounded by
    `LinearSystem.inverse_bound`. So is that of the mean, `C' A^-1 y = C' a + X' r + R' A^-1 r`,
    where `a ~ A^-1 y` with residual r.

    Parameters
    ----------
    system
        The equations of the observations.
    points
        The p points, as the system takes them.
    tolerance
        Largest relative residual of the solves.

    Raises
    ------
    MemoryLimitError
        The law would not fit in memory.
    NumericalError
        The tolerance is out of reach.
    """
    n_points = len(points)
    check_memory(
        system.bytes_needed(n_points + system.targets.shape[1]) + 6 * 8 * n_points**2,
        f"X_test: {n_points} points compared jointly given {system.n_rows} rows",
        "compare fewer points at a time",
    )
    cross = system.cross(points)
    solved = system.solve(np.hstack([cross, system.targets]), tolerance)
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
