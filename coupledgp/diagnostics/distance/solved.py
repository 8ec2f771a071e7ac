"""Exact predictive distributions by iterative solves, without the kernel's matrix."""

from __future__ import annotations

from dataclasses import dataclass

from coupledgp.core.process import GaussianProcess, Points, Problem
from coupledgp.diagnostics.distance.divergences import kl_bounds_per_point, kl_per_point
from coupledgp.diagnostics.laws.normal import Normal
from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import check_choice, check_positive, check_positive_int
from coupledgp.linalg.system import SystemOptions, predictive_law

# Precisions of the solver's steps.
DTYPES = ("float32", "float64")

# Least number of random vectors.
MIN_PROBES = 8


@dataclass(frozen=True)
class StochasticOptions:
    """Tolerances and sizes of iterative solves, `report(exact=StochasticOptions(...))`.

    Attributes
    ----------
    tolerance : float
        Relative residual of the conjugate gradients, to whose square the error of a covariance is
        proportional. On graphs, and for products with random probes, a hundredth of it is used.
    dtype : str
        `"float32"`: steps of the solver in single precision, residuals in double precision.
        `"float64"`: all in double precision.
    rank : int
        Rank of the Nystrom preconditioner of Euclidean kernels, which takes O(n rank) memory and
        O(n rank^2) time.
    n_columns : int
        Largest number of test points that each have a solve of their own; of more test points,
        this many are scored.
    n_probes : int
        Number of random vectors for the joint law of more test points than `n_columns`, 8 or more.
    seed : int
        Seed for the pivots, the probes and the choice of scored points.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> from coupledgp.diagnostics import StochasticOptions, report
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    >>> model = cgp.SparseSpectrumGPRegressor(
    ...     n_frequencies=32, optimizer=None, lengthscale=1.5, noise=0.02, random_state=0
    ... )
    >>> options = StochasticOptions(tolerance=1e-4, dtype="float64")
    >>> found = report(model.fit(X, y), X[::2], exact=options, depth="scores")
    >>> kl = found.tables.distance.set_index("metric").loc["kl"]
    >>> bool(kl["below"] + kl["above"] < 1e-6)  # width of the bounds
    True
    """

    tolerance: float = 1e-3
    dtype: str = "float32"
    rank: int = 1500
    n_columns: int = 1024
    n_probes: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        if check_positive(self.tolerance, "tolerance") >= 1:
            raise InvalidInputError(f"tolerance: expected a number below 1, got {self.tolerance}")
        check_choice(self.dtype, DTYPES, "dtype")
        check_positive_int(self.rank, "rank")
        check_positive_int(self.n_columns, "n_columns")
        check_positive_int(self.n_probes, "n_probes", minimum=MIN_PROBES)
        check_positive_int(self.seed, "seed", minimum=0)

    def system_options(self) -> SystemOptions:
        """Return the settings of the systems of equations."""
        return SystemOptions(self.dtype, self.rank, self.seed)


def solved_law(problem: Problem, points: Points, options: StochasticOptions) -> tuple[Normal, int]:
    """Distribution that follows from a problem's data and prior, and the solver's steps.

    One solve for each test point; nothing is random but the solver's preconditioner.
    """
    system = problem.system(options.system_options())
    law = predictive_law(system, points, options.tolerance)
    return Normal.within(law, problem.offset, problem.scale), law.n_iterations


def own_law(process: GaussianProcess, points: Points, options: StochasticOptions) -> Normal:
    """Distribution of a process: by solves where its own posterior needs some, as on graphs."""
    problem = process.own_problem()
    if problem is None:
        return Normal.of_process(process, points)
    return solved_law(problem, points, options)[0]


def kl_from_exact(
    process: GaussianProcess, points: Points, options: StochasticOptions | None = None
) -> tuple[float, float]:
    """KL per point of a process from its exact one, and a bound of the error above it.

    By dense algebra; with options by iterative solves, one for each point.
    """
    if options is None:
        exact, own = Normal.of_process(process.exact(), points), Normal.of_process(process, points)
        return kl_per_point(exact, own), 0.0
    exact, _ = solved_law(process.exact_problem(), points, options)
    own = own_law(process, points, options)
    return kl_per_point(exact, own), kl_bounds_per_point(exact, own)[1]
