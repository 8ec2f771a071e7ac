"""Divergences by random probes, between a law p known by products and a law q with its covariance.

With `Sigma_q = L L'` and the eigenvalues x of `B = L^-1 Sigma_p L^-T`,

    KL(p || q) = 1/2 sum (x - 1 - log x) + 1/2 |L^-1 d|^2,
    KL(q || p) = 1/2 sum (1/x - 1 + log x) + 1/2 (L^-1 d)' B^-1 L^-1 d.

Every term of either sum is non-negative and zero where the laws agree, so that the variance of
`z' h(B) z` over probes z vanishes with the divergence itself. The quadratic forms are computed by
Lanczos quadrature (Golub and Meurant, 2010).

Comparison at any size: exact laws by iterative solves, without the kernel's matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from coupledgp.core.process import Points, Problem
from coupledgp.diagnostics.scoring.laws import Law, in_units, law_of
from coupledgp.diagnostics.scoring.subject import Subject
from coupledgp.errors import InvalidInputError, NumericalError
from coupledgp.ground.progress import tell
from coupledgp.ground.validation import check_choice, check_positive, check_positive_int
from coupledgp.linalg.lanczos import Lanczos, gauss, widened_error, with_node
from coupledgp.linalg.system import LinearSystem, SystemOptions, predictive_law
from coupledgp.random import FloatArray

# Largest number of Lanczos steps: each stores one more basis vector for each probe.
MAX_STEPS = 100
# The quadrature stops where the gap between its two bounds is below this share of the probes'
# standard error, which then dominates, or below the floor, in nats per point, which nobody reports.
GAP_SHARE = 0.2
GAP_FLOOR = 1e-6
# Factor on the tolerance of the solves of a check product, whose own error is then negligible
# beside the error that it measures.
CHECK_FACTOR = 0.03


class RelativeCovariance:
    """Products with `B = L^-1 Sigma_p L^-T`, by one solve with the system of p for each column.

    Parameters
    ----------
    system
        System of equations of the exact law p, with n rows.
    cross, prior
        Prior covariances `K[rows, points]` (n, p) and `K[points, points]` (p, p) of the law p.
    root
        Lower Cholesky factor L (p, p) of the covariance of q, in the units of the system.
    tolerance
        Relative residual of the solves.

    Attributes
    ----------
    floor : float
        Lower bound of the eigenvalues of B.
    """

    def __init__(
        self,
        system: LinearSystem,
        cross: FloatArray,
        prior: FloatArray,
        root: FloatArray,
        tolerance: float,
    ) -> None:
        self.system, self.cross, self.prior, self.root = system, cross, prior, root
        self.tolerance = tolerance
        self.n_iterations = 0
        # Sigma_p is not below its noise.
        self.floor = float(system.noise / np.linalg.norm(root, 2) ** 2)

    def product(self, V: FloatArray) -> FloatArray:
        """Return `B V` (p, k) of columns V (p, k)."""
        return self._product(V, self.tolerance)

    def product_error(self, V: FloatArray) -> float:
        """Largest error of a column of `B V`, relative to the norm of the column of V (p, k).

        It is measured, by products that are solved to a smaller tolerance.
        """
        gap = self._product(V, self.tolerance) - self._product(V, CHECK_FACTOR * self.tolerance)
        return float((np.linalg.norm(gap, axis=0) / np.linalg.norm(V, axis=0)).max())

    def _product(self, V: FloatArray, tolerance: float) -> FloatArray:
        U = solve_triangular(self.root, V, lower=True, trans="T")
        solved = self.system.solve(self.cross @ U, tolerance)
        self.n_iterations += solved.n_iterations
        W = self.prior @ U + self.system.noise * U - self.cross.T @ solved.values
        return solve_triangular(self.root, W, lower=True)


class QuadraticForms(NamedTuple):
    """Quadratic forms `z' h(B) z` of k starting vectors z, each array of shape (k,).

    Attributes
    ----------
    trace : FloatArray
        h(x) = x.
    log, log_other : FloatArray
        h(x) = log x: by the Gauss rule, an upper bound, and by the Gauss-Radau rule, a lower one.
    inverse, inverse_other : FloatArray
        h(x) = 1/x: by the Gauss rule, a lower bound, and by the Gauss-Radau rule, an upper one.
    """

    trace: FloatArray
    log: FloatArray
    log_other: FloatArray
    inverse: FloatArray
    inverse_other: FloatArray


def quadratic_forms(lanczos: Lanczos, lower: float) -> QuadraticForms:
    """Return the forms by Gauss rules, and by Gauss-Radau rules with a node at `lower` < min x."""
    parts = np.zeros((5, len(lanczos.norms)))
    for k in np.flatnonzero(lanczos.norms):
        d, e = lanczos.jacobi(int(k))
        nodes, weights = gauss(d, e[:-1])
        radau, others = gauss(*with_node(d, e, lower)) if e[-1] > 0 else (nodes, weights)
        square = lanczos.norms[k] ** 2
        parts[:, k] = [
            square * float(w @ values)
            for w, values in (
                (weights, nodes), (weights, np.log(nodes)), (others, np.log(radau)),
                (weights, 1 / nodes), (others, 1 / radau),
            )
        ]  # fmt: skip
    return QuadraticForms(*parts)


def spectral_range(lanczos: Lanczos) -> tuple[float, float]:
    """Return the least and the largest Ritz value of all starting vectors."""
    rules = [lanczos.jacobi(int(k)) for k in np.flatnonzero(lanczos.norms)]
    nodes = np.concatenate([gauss(d, e[:-1])[0] for d, e in rules])
    return float(nodes.min()), float(nodes.max())


class ProbeEstimate(NamedTuple):
    """A figure per point, the standard error of its probes, and bounds of its error each way."""

    value: float
    standard_error: float
    below: float
    above: float


class ProbeTerms(NamedTuple):
    """Terms of both divergences per point, at one step of the quadrature.

    Attributes
    ----------
    forward, backward : FloatArray (n_probes,)
        Terms of `KL(p || q)` and of `KL(q || p)`, one for each probe.
    forward_gap, backward_gap : float
        Distances between the two bounds that the quadrature gives of each divergence.
    """

    forward: FloatArray
    backward: FloatArray
    forward_gap: float
    backward_gap: float

    @classmethod
    def of(cls, forms: QuadraticForms, n_points: int, n_probes: int) -> ProbeTerms:
        """Return the terms of forms that start from the probes, the shift, and further vectors."""
        forward = 0.5 * (forms.trace - n_points - forms.log)[:n_probes] / n_points
        backward = 0.5 * (forms.inverse - n_points + forms.log)[:n_probes] / n_points
        log_gap = 0.5 * float((forms.log - forms.log_other)[:n_probes].mean()) / n_points
        inverse_gap = 0.5 * (forms.inverse_other - forms.inverse) / n_points
        return cls(
            forward, backward, log_gap, float(inverse_gap[:n_probes].mean() + inverse_gap[n_probes])
        )

    def excess(self) -> float:
        """Largest gap as a multiple of the gap at which the quadrature may stop."""
        pairs = ((self.forward_gap, self.forward), (self.backward_gap, self.backward))
        return max(gap / max(GAP_SHARE * standard_error(terms), GAP_FLOOR) for gap, terms in pairs)


def divergences(
    relative: RelativeCovariance,
    shift: FloatArray,
    others: FloatArray,
    n_probes: int,
    rng: np.random.Generator,
) -> tuple[ProbeEstimate, ProbeEstimate, ProbeEstimate, list[ProbeEstimate]]:
    """Both divergences, `logdet B`, and `u' B^-1 u` of each further vector u, all per point.

    Parameters
    ----------
    relative
        Products with B (p, p).
    shift
        Whitened difference of the means `L^-1 d` (p,).
    others
        Further whitened vectors u (p, k).
    n_probes
        Number of random sign vectors.
    rng
        Generator that the probes are drawn from.

    Raises
    ------
    NumericalError
        The products are too coarse for the least eigenvalue, as where there is next to no noise.
    """
    p = len(shift)
    probes = rng.choice([-1.0, 1.0], (p, n_probes))
    # Two probes suffice to measure the error of a product.
    error = relative.product_error(probes[:, :2])
    lanczos = Lanczos(relative.product, np.column_stack([probes, shift, others]))
    forms, terms = _quadrature(relative, lanczos, p, n_probes)
    forward, backward, logdet = _solver_errors(lanczos, error)
    least, _ = spectral_range(lanczos)
    gap = terms.forward_gap
    logs = forms.log[:n_probes] / p
    return (
        ProbeEstimate(
            float(terms.forward.mean()) + 0.5 * float(shift @ shift) / p,
            float(widened_error(terms.forward)), forward, forward + gap,
        ),
        ProbeEstimate(
            float(terms.backward.mean()) + 0.5 * float(forms.inverse[n_probes]) / p,
            float(widened_error(terms.backward)), backward + gap, backward + terms.backward_gap,
        ),
        ProbeEstimate(
            float(logs.mean()), float(widened_error(logs)), 2 * (logdet + gap), 2 * logdet
        ),
        _inverse_forms(forms, n_probes + 1, p, error * np.sqrt(lanczos.n_steps) / least),
    )  # fmt: skip


def _inverse_forms(
    forms: QuadraticForms, start: int, n_points: int, relative_error: float
) -> list[ProbeEstimate]:
    """Forms `u' B^-1 u` per point of the vectors from number `start` on.

    An error E of the products moves a form by `u' B^-1 E B^-1 u`, at most `|E| / min x` times the
    form itself: `relative_error`.
    """
    found = []
    for k in range(start, len(forms.inverse)):
        value, most = forms.inverse[k] / n_points, forms.inverse_other[k] / n_points
        error = relative_error * most
        found.append(ProbeEstimate(float(value), 0.0, float(error), float(most - value + error)))
    return found


def _quadrature(
    relative: RelativeCovariance, lanczos: Lanczos, n_points: int, n_probes: int
) -> tuple[QuadraticForms, ProbeTerms]:
    """Step until the gaps of the quadrature are small beside the standard error of the probes."""
    lower = 0.5 * relative.floor
    while True:
        lanczos.step()
        least, _ = spectral_range(lanczos)
        if least < lower:
            raise _too_coarse(least, relative.floor, relative.tolerance)
        forms = quadratic_forms(lanczos, lower)
        terms = ProbeTerms.of(forms, n_points, n_probes)
        excess = terms.excess()
        tell(f"Lanczos step {lanczos.n_steps}, {excess:.1e} of the wanted gap")
        if excess <= 1 or lanczos.n_steps >= min(MAX_STEPS, n_points):
            return forms, terms


def _solver_errors(lanczos: Lanczos, product_error: float) -> tuple[float, float, float]:
    """Errors per point that inexact products leave in both divergences and in half the logdet.

    Each is a bound of the slope of its function over the spectrum times the error of an eigenvalue;
    the squares of the errors of the steps, which are independent, add up.
    """
    least, largest = spectral_range(lanczos)
    error = 0.5 * product_error * np.sqrt(lanczos.n_steps)
    forward = max(abs(1 - 1 / least), abs(1 - 1 / largest))
    backward = max(1 / least**2, 1 / largest)
    return forward * error, backward * error, error / least


def _too_coarse(found: float, least: float, tolerance: float) -> NumericalError:
    """Error of products whose own error exceeds the least eigenvalue, which the noise bounds."""
    return NumericalError(
        "options.tolerance: the exact covariance, relative to the model's, has no eigenvalue below "
        f"{least:.1e}, and {found:.1e} was found: its products, solved to a residual of "
        f"{tolerance:.0e}, are too coarse for so little noise. Take a smaller tolerance, or at "
        "most options.n_columns test points, which are solved for one by one"
    )


def standard_error(values: FloatArray) -> float:
    """Standard error of the mean of values (n,), which are independent."""
    return float(values.std(ddof=1) / np.sqrt(values.size))


# Precisions of the solver's steps.
DTYPES = ("float32", "float64")

# Least number of random vectors.
MIN_PROBES = 8


@dataclass(frozen=True)
class StochasticOptions:
    """Tolerances and sizes of `compare(method="stochastic")`.

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
    >>> from coupledgp.diagnostics import StochasticOptions, compare
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    >>> model = cgp.SparseSpectrumGPRegressor(
    ...     n_frequencies=32, optimizer=None, lengthscale=1.5, noise=0.02, random_state=0
    ... )
    >>> options = StochasticOptions(tolerance=1e-4, dtype="float64")
    >>> report = compare(model.fit(X, y), X[::2], method="stochastic", options=options)
    >>> sum(report.accuracy.bounds["kl_per_point"]) < 1e-6  # width of the bounds
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


def solved_law(problem: Problem, points: Points, options: StochasticOptions) -> tuple[Law, int]:
    """Law that follows from a problem's data and prior, and the solver's steps.

    One solve for each test point; nothing is random but the solver's preconditioner.
    """
    system = problem.system(options.system_options())
    law = predictive_law(system, points, options.tolerance)
    return in_units(law, problem.offset, problem.scale), law.n_iterations


def own_law(subject: Subject, options: StochasticOptions) -> tuple[Law, int]:
    """Law of a model: by solves where its own posterior needs some, as on large graphs."""
    problem = None if subject.process is None else subject.process.own_problem()
    if problem is not None:
        return solved_law(problem, subject.points, options)
    return law_of(subject, "model"), 0
