"""The exact process of a kernel that is a sum of parts, dense or by iterative solves."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from coupledgp.gp.exact import ExactGP, StationaryPrior
from coupledgp.gp.local_prior import LocalPrior, prior_from_state, prior_state
from coupledgp.gp.protocol import Arrays, Data, Header, Points
from coupledgp.gp.state import data_arrays, data_from
from coupledgp.gp.units import Units
from coupledgp.inference.linalg.conjugate_gradients import solve_refined
from coupledgp.inference.linalg.low_rank import LowRankPlusNoise, partial_cholesky
from coupledgp.inference.linalg.system import LinearSystem, Solution, SystemOptions
from coupledgp.progress import Progress
from coupledgp.random import FloatArray
from coupledgp.spectra import GaussianSpectrum

# Entries of the covariance that are formed at once: 64 MiB, and a few temporaries of the size.
BLOCK_ENTRIES = 2**23


@dataclass(frozen=True, eq=False)
class AdditivePrior(StationaryPrior):
    """The prior of a local model with the kernel that its features estimate.

    Attributes
    ----------
    local_prior : LocalPrior or None
        The parts of the sum.
    """

    local_prior: LocalPrior | None = None

    @classmethod
    def of(cls, prior: LocalPrior) -> AdditivePrior:
        """The exact counterpart of a prior."""
        spectrum = prior.structure.spectrum or GaussianSpectrum()
        hyperparameters = prior.hyperparameters
        return cls(spectrum, hyperparameters, prior.likelihood, prior)  # type: ignore[arg-type]

    @property
    def parts(self) -> LocalPrior:
        """The parts of the sum."""
        assert self.local_prior is not None
        return self.local_prior

    def covariance(self, a: Points, b: Points) -> FloatArray:
        """Prior covariance (n, p) of f between rows a (n, d) and b (p, d), normalised units."""
        return self.parts.covariance(a, b)

    def problem(self, data: Data, units: Units) -> AdditiveProblem:  # type: ignore[override]
        """State prior and data as a problem, also where its law is too large to compute."""
        targets = units.normalized(data.targets)
        return AdditiveProblem(self.parts, data, targets, units.offset, units.scale)

    def given(self, data: Data, units: Units, normalize: bool) -> ExactAdditiveGP:
        """Condition on data; see the base class."""
        process = super().given(data, units, normalize)
        return ExactAdditiveGP(**{f.name: getattr(process, f.name) for f in fields(process)})


@dataclass(frozen=True, eq=False, repr=False)
class ExactAdditiveGP(ExactGP):
    """A sum of parts given data, by one Cholesky factor of its covariance."""

    @property
    def _additive(self) -> AdditivePrior:
        prior = self.stationary_prior
        assert isinstance(prior, AdditivePrior)
        return prior

    def prior_variance(self, points: Points) -> FloatArray:
        """Prior variance (p,) of f at points, normalised units."""
        return self._additive.parts.variance(points)

    def state(self) -> tuple[Header, Arrays]:
        """See the base class."""
        header, arrays = prior_state(self._additive.parts)
        arrays |= {"factor": self.factor, "alpha": self.alpha}
        arrays |= {"y_mean": self.units.offset, "y_scale": self.units.scale}
        arrays |= data_arrays(self.rows)
        header["scalars"] = {"log_marginal_likelihood_value_": self.evidence}
        header |= {"normalize": self.normalize, "process": type(self).__name__}
        return header, arrays

    @classmethod
    def from_state(cls, header: Header, arrays: Arrays) -> ExactAdditiveGP:
        """Put the process of `state` together again."""
        return cls(
            AdditivePrior.of(prior_from_state(header, arrays)),
            Units(arrays["y_mean"].numpy(), arrays["y_scale"].numpy()),
            header["normalize"],
            data_from(arrays),
            arrays["factor"],
            arrays["alpha"],
            header["scalars"]["log_marginal_likelihood_value_"],
        )


@dataclass(frozen=True, eq=False)
class AdditiveProblem:
    """Data and exact prior of a sum of parts.

    Attributes
    ----------
    prior : LocalPrior
        The parts.
    data : Data
        Observations.
    targets : FloatArray (n, k)
        Normalised targets.
    offset, scale : FloatArray (k,)
        Units of the targets, `y = offset + scale * target`.
    """

    prior: LocalPrior
    data: Data
    targets: FloatArray
    offset: FloatArray
    scale: FloatArray

    def system(self, options: SystemOptions) -> AdditiveSystem:
        """Return the equations in the covariance of the data."""
        return AdditiveSystem(self, options)


class AdditiveSystem(LinearSystem):
    """`A = K + s diag(r)` with K a sum of kernels, formed anew in blocks for each product.

    It is solved for as `r^-1/2 A r^-1/2`, whose noise is s alike for all rows, by conjugate
    gradients with a randomly pivoted Nystrom preconditioner, in double precision.

    Parameters
    ----------
    problem
        Data and prior.
    options
        Preconditioner; the precision is always double.
    """

    def __init__(self, problem: AdditiveProblem, options: SystemOptions) -> None:
        self.problem, self.options = problem, options
        self.targets, self.noise = problem.targets, problem.prior.noise
        relative = problem.data.relative_noise
        root = np.ones(self.n_rows) if relative is None else relative**-0.5
        self._root = torch.as_tensor(root)[:, None]

    @property
    def _points(self) -> Points:
        return self.problem.data.points

    def prior(self, points: Points) -> FloatArray:
        return self.problem.prior.covariance(points, points)

    def cross(self, points: Points) -> FloatArray:
        return self.problem.prior.covariance(self._points, points)

    def product(self, V: Tensor) -> Tensor:
        """`r^-1/2 A r^-1/2 V` for V (n, k); blocks of rows of A exist one at a time."""
        out, weighted = self.noise * V, self._root * V
        step = max(BLOCK_ENTRIES // self.n_rows, 16)
        for start in range(0, self.n_rows, step):
            rows = self._points[start : start + step]
            block = torch.as_tensor(self.problem.prior.covariance(rows, self._points))
            out[start : start + step] += self._root[start : start + step] * (block @ weighted)
        return out

    @cached_property
    def preconditioner(self) -> LowRankPlusNoise:
        """A lower bound of `r^-1/2 A r^-1/2`: a matrix of low rank plus noise."""
        prior, points = self.problem.prior, self._points

        def columns(pivots: NDArray[np.int64]) -> Tensor:
            kernel = torch.as_tensor(prior.covariance(points, points[pivots]))
            return self._root * kernel * self._root[pivots].T

        rng = np.random.default_rng(self.options.seed)
        diagonal = prior.variance(points) * self._root.square()[:, 0].numpy()
        factor = partial_cholesky(diagonal, columns, self.options.rank, rng, 1e-3 * self.noise)
        return LowRankPlusNoise(factor, self.noise)

    def inverse_bound(self, R: FloatArray) -> FloatArray:
        residuals = self._root * torch.as_tensor(R)
        bound = (residuals.T @ self.preconditioner.solve(residuals)).numpy()
        return 0.5 * (bound + bound.T)

    def bytes_needed(self, n_columns: int) -> float:
        rank = min(self.options.rank, self.n_rows)
        blocks = 4 * 8 * max(BLOCK_ENTRIES, 16 * self.n_rows)
        return self.n_rows * 8 * (12 * n_columns + 4 * rank) + blocks

    def solve(self, B: FloatArray, tolerance: float, report: Progress) -> Solution:
        report(f"preconditioner of rank {min(self.options.rank, self.n_rows)}")
        right = self._root * torch.as_tensor(B)
        solved = solve_refined(
            self.product, self.preconditioner.solve, right, tolerance, torch.float64, report
        )
        root = self._root.numpy()
        return Solution(solved.values * root, solved.residuals / root, solved.n_iterations)
