"""Divergences by random probes, between a law p known by products and a law q with its covariance.

With `Sigma_q = L L'` and the eigenvalues x of `B = L^-1 Sigma_p L^-T`,

    KL(p || q) = 1/2 sum (x - 1 - log x) + 1/2 |L^-1 d|^2,
    KL(q || p) = 1/2 sum (1/x - 1 + log x) + 1/2 (L^-1 d)' B^-1 L^-1 d.

Every term of either sum is non-negative and zero where the laws agree, so that the variance of
`z' h(B) z` over probes z vanishes with the divergence itself. The quadratic forms are computed by
Lanczos quadrature (Golub and Meurant, 2010).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from coupledgp.core.process import Problem
from coupledgp.diagnostics.distance.divergences import prior_figures, root_of
from coupledgp.diagnostics.distance.solved import StochasticOptions
from coupledgp.diagnostics.laws.normal import Normal
from coupledgp.errors import NumericalError
from coupledgp.ground.memory import check_memory
from coupledgp.ground.progress import tell
from coupledgp.linalg.lanczos import Lanczos, gauss, widened_error, with_node
from coupledgp.linalg.system import LinearSystem
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


# Factors on the tolerance of the solves: the errors of covariances are of second order in the
# residuals, those of means and of products with probes of first order, so these are solved further.
MEAN_FACTOR, PRODUCT_FACTOR = 1e-3, 1e-2


def distance_by_probes(
    law: Normal, problem: Problem, points: Any, y: FloatArray | None, options: StochasticOptions
) -> dict[str, ProbeEstimate]:
    """Divergences and joint densities of a law at p points and the exact one of a problem.

    They are means over outputs, by `options.n_probes` probes; targets (p, k) or None.

    Raises
    ------
    MemoryLimitError
        Memory does not suffice.
    NumericalError
        A solver does not reach its tolerance, or the tolerance is too large for so little noise.
    """
    system = problem.system(options.system_options())
    at_once = options.n_columns + options.n_probes + 3 * system.targets.shape[1]
    check_memory(
        system.bytes_needed(at_once) + 8 * (len(points) * system.n_rows + 8 * len(points) ** 2),
        f"X: {len(points)} points compared jointly given {system.n_rows} rows",
        "compare fewer points",
    )
    rng = np.random.default_rng(options.seed)
    exact = _ExactLaw(system, points, problem.offset, problem.scale, options)
    named: dict[str, list[ProbeEstimate]] = {}
    for k in range(law.mean.shape[1]):
        for name, estimate in _output_figures(law, exact, y, k, options, rng).items():
            named.setdefault(name, []).append(estimate)
    found = {
        name: ProbeEstimate(
            float(np.mean([one.value for one in parts])),
            float(np.sqrt(sum(one.standard_error**2 for one in parts))) / len(parts),
            float(np.mean([one.below for one in parts])),
            float(np.mean([one.above for one in parts])),
        )
        for name, parts in named.items()
    }
    priors = prior_figures(law, exact.prior_law())
    return found | {name: ProbeEstimate(one, 0.0, 0.0, 0.0) for name, one in priors.items()}


class _ExactLaw:
    """The exact law at the test points: its mean, and products with its covariance."""

    def __init__(
        self,
        system: LinearSystem,
        points: Any,
        offset: FloatArray,
        scale: FloatArray,
        options: StochasticOptions,
    ) -> None:
        self.system, self.scale, self.options = system, scale, options
        self.cross, self.prior = system.cross(points), system.prior(points)
        solved = system.solve(system.targets, MEAN_FACTOR * options.tolerance)
        self.mean = offset + scale * (self.cross.T @ solved.values)
        # Bound of the error e of a mean, in normalised units: e e' <= radius^2 prior.
        self.radius = np.sqrt(np.diagonal(system.inverse_bound(solved.residuals)))
        self.n_iterations = solved.n_iterations

    def prior_law(self) -> Normal:
        """Law before the data, for the figures that compare priors."""
        square = np.square(self.scale)
        prior = np.multiply.outer(self.prior, square)
        return Normal.joint(self.mean, prior, prior=prior, noise=self.system.noise * square)

    def relative_to(self, root: FloatArray) -> RelativeCovariance:
        """Covariance relative to `root root'`, root (p, p), in normalised units."""
        return RelativeCovariance(
            self.system, self.cross, self.prior, root,
            PRODUCT_FACTOR * self.options.tolerance,
        )  # fmt: skip


def _output_figures(
    law: Normal,
    exact: _ExactLaw,
    y: FloatArray | None,
    k: int,
    options: StochasticOptions,
    rng: np.random.Generator,
) -> dict[str, ProbeEstimate]:
    """Divergences and joint densities of output k, for laws at p points and targets (p, k)."""
    p, scale = len(law.mean), exact.scale[k]
    assert law.cov is not None
    root = root_of(law.cov[..., k] / scale**2, "cov_q")

    def white(v: FloatArray) -> FloatArray:
        return solve_triangular(root, v / scale, lower=True)

    shift = white(exact.mean[:, k] - law.mean[:, k])
    gaps = np.empty((p, 0)) if y is None else white(y[:, k] - exact.mean[:, k])[:, None]
    relative = exact.relative_to(root)
    kl, reverse, logdet, forms = divergences(relative, shift, gaps, options.n_probes, rng)
    exact.n_iterations += relative.n_iterations
    h = _mean_error(exact, root, k)
    more = (h * float(np.linalg.norm(shift)) + 0.5 * h**2) / p
    named = {
        "kl": widened(kl, more),
        "reverse_kl": widened(reverse, more),
    }
    if y is None:
        return named
    constant = 2 * float(np.log(np.diagonal(root) * scale).sum()) / p + np.log(2 * np.pi)
    own, form = white(y[:, k] - law.mean[:, k]), forms[0]
    named["nlpd_joint"] = ProbeEstimate(0.5 * (constant + float(own @ own) / p), 0.0, 0.0, 0.0)
    mixture = ProbeEstimate(
        0.5 * (constant + logdet.value + form.value),
        0.5 * logdet.standard_error,
        0.5 * (logdet.below + form.below),
        0.5 * (logdet.above + form.above),
    )
    # In the norm of the exact covariance, which is not below floor times that of the model.
    length, error = np.sqrt(form.value + form.above), h / np.sqrt(p * relative.floor)
    named["exact_nlpd_joint"] = widened(mixture, float(length * error + 0.5 * error**2))
    return named


def _mean_error(exact: _ExactLaw, root: FloatArray, k: int) -> float:
    """Bound h of the error of the exact mean of output k in the norm of `root root'`, (p, p)."""
    half = solve_triangular(root, exact.prior, lower=True)
    share = np.linalg.norm(solve_triangular(root, half.T, lower=True), 2)
    return float(exact.radius[k] * np.sqrt(share))


def widened(estimate: ProbeEstimate, more: float) -> ProbeEstimate:
    """Return the estimate with both bounds moved outwards by `more`."""
    return estimate._replace(below=estimate.below + more, above=estimate.above + more)
