"""Comparison at more points than can be solved for one by one: the joint laws by random probes."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from coupledgp.core.process import GaussianProcess
from coupledgp.diagnostics.probes import (
    ProbeEstimate,
    RelativeCovariance,
    StochasticOptions,
    divergences,
)
from coupledgp.diagnostics.score_errors import (
    SolverErrors,
    add_score_errors,
    subset_error,
    subset_errors,
)
from coupledgp.diagnostics.scoring.divergences import covariance_root
from coupledgp.diagnostics.scoring.figures import Accuracy, Figures, OwnScores, Predictions
from coupledgp.diagnostics.scoring.laws import (
    Law,
    PointLaws,
    check_shapes,
    check_targets,
    in_units,
    law_of,
    mixture_of,
)
from coupledgp.diagnostics.scoring.measures import (
    beside_scores,
    over_outputs,
    prior_figures,
)
from coupledgp.diagnostics.scoring.score_table import PREFIXES, OwnLaws, paired_scores
from coupledgp.diagnostics.scoring.subject import Subject
from coupledgp.diagnostics.sections.posterior import PosteriorReport
from coupledgp.diagnostics.verdicts.gathering import gathered, with_cost
from coupledgp.ground.memory import check_memory
from coupledgp.linalg.system import LinearSystem, predictive_law
from coupledgp.random import FloatArray

# Factors on the tolerance of the solves: the errors of covariances are of second order in the
# residuals, those of means and of products with probes of first order, so these are solved further.
MEAN_FACTOR, PRODUCT_FACTOR = 1e-3, 1e-2


def compare_jointly(
    subject: Subject,
    source: GaussianProcess,
    reference: str,
    y_test: Any,
    options: StochasticOptions,
) -> PosteriorReport:
    """Report on a model beside the exact GP that `source` states.

    Divergences of the laws at all points are computed by `options.n_probes` probes; scores, which
    need the exact variance of each point, at `options.n_columns` of the points, drawn at random.

    Parameters
    ----------
    subject
        The model at p test points.
    source
        Process that states its exact kernel.
    reference
        Text of the exact GP.
    y_test
        Targets (p,) or (p, k), or None.
    options
        Tolerances and sizes.

    Raises
    ------
    InvalidInputError
        Shapes do not fit, or memory does not suffice.
    NumericalError
        A solver does not reach its tolerance, or the tolerance is too large for so little noise.
    """
    start = time.perf_counter()
    problem, points = source.exact_problem(), subject.points
    system = problem.system(options.system_options())
    _check_size(system, len(points), options)
    law = law_of(subject, "model")
    check_shapes(law.mean.shape, (len(points), system.targets.shape[1]))
    y = None if y_test is None else check_targets(y_test, law.mean.shape)
    rng = np.random.default_rng(options.seed)
    exact = _ExactLaw(system, points, problem.offset, problem.scale, options)
    figures, accuracy = _joint_figures(law, exact, y, options, rng)
    figures |= prior_figures(law, exact.prior_law())
    chosen = np.sort(rng.choice(len(points), options.n_columns, replace=False))
    columns = in_units(
        predictive_law(system, points[chosen], options.tolerance),
        problem.offset, problem.scale,
    )  # fmt: skip
    predictions = Predictions(
        law.mean[chosen], law.std[chosen], columns.mean, columns.std,
        None if y is None else y[chosen],
    )  # fmt: skip
    evidence = None
    if y is not None:
        mixture = mixture_of(subject.take(chosen))
        if mixture is not None:
            predictions = replace(predictions, own=OwnScores.of(mixture, y[chosen]))
        own = law.take(chosen).single(mixture)
        figures |= beside_scores(y[chosen], own, columns.single())
        _add_errors(accuracy, predictions, columns, len(points), mixture)
        evidence = gathered(subject.take(chosen), y[chosen], law.take(chosen), mixture)
    accuracy.settings.update(
        asdict(options),
        reference_iterations=exact.n_iterations,
        seconds=time.perf_counter() - start,
    )
    size = {"n_test": len(points), "n_outputs": law.mean.shape[1], "n_scored": len(chosen)}
    made = Figures(**size, **figures)
    if evidence is not None:
        evidence = with_cost(evidence, columns, law.take(chosen), made, accuracy)
        evidence = replace(evidence, beside_a_member=subject.is_mixture)
    return PosteriorReport(
        made, predictions, repr(subject.model), reference, accuracy, remarks=subject.remarks,
        gather=evidence,
    )  # fmt: skip


def _add_errors(
    accuracy: Accuracy, p: Predictions, columns: Law, n_points: int, mixture: OwnLaws | None
) -> None:
    """Add bounds of the solves at the scored points, and the errors of scoring no others."""
    assert p.y is not None
    found = SolverErrors(accuracy.bounds, accuracy.unbounded)
    add_score_errors(found, {"reference_": columns}, p.y, joint=False)
    laws = PointLaws(p.mean, p.std, mixture), columns.single()
    errors: dict[str, float | None] = {}
    for prefix, law in zip(PREFIXES, laws, strict=True):
        own = subset_errors(p.y, law, n_points)
        errors |= {prefix + name: error for name, error in own.items()}
    for score in paired_scores():
        means = [over_outputs(law.losses(score, p.y)) for law in laws]
        gap = means[0] - means[1]
        errors[f"differences.{score.difference_name}"] = subset_error(gap[:, None, None], n_points)
    for name, error in errors.items():
        if error is not None:
            accuracy.standard_errors[name] = error
        elif name not in accuracy.unbounded:
            accuracy.unbounded.append(name)


def _check_size(system: LinearSystem, n_points: int, options: StochasticOptions) -> None:
    """Refuse comparisons that need more memory than there is."""
    at_once = options.n_columns + options.n_probes + 3 * system.targets.shape[1]
    check_memory(
        system.bytes_needed(at_once) + 8 * (n_points * system.n_rows + 8 * n_points**2),
        f"X_test: {n_points} points compared jointly given {system.n_rows} rows",
        "compare fewer points",
    )


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

    def prior_law(self) -> Law:
        """Law before the data, for the figures that compare priors."""
        square = np.square(self.scale)
        prior = np.multiply.outer(self.prior, square)
        return Law(self.mean, prior, prior, self.system.noise * square)

    def relative_to(self, root: FloatArray) -> RelativeCovariance:
        """Covariance relative to `root root'`, root (p, p), in normalised units."""
        return RelativeCovariance(
            self.system, self.cross, self.prior, root,
            PRODUCT_FACTOR * self.options.tolerance,
        )  # fmt: skip


def _joint_figures(
    law: Law,
    exact: _ExactLaw,
    y: FloatArray | None,
    options: StochasticOptions,
    rng: np.random.Generator,
) -> tuple[dict[str, Any], Accuracy]:
    """Both divergences and the joint densities, means over outputs, and their errors."""
    named: dict[str, list[ProbeEstimate]] = {}
    for k in range(law.mean.shape[1]):
        for name, estimate in _output_figures(law, exact, y, k, options, rng).items():
            named.setdefault(name, []).append(estimate)
    figures: dict[str, Any] = {}
    accuracy = Accuracy("stochastic")
    for name, parts in named.items():
        count = len(parts)
        figures[name] = sum(part.value for part in parts) / count
        squares = sum(part.standard_error**2 for part in parts)
        below, above = (sum(getattr(part, side) for part in parts) for side in ("below", "above"))
        if squares:
            accuracy.standard_errors[name] = float(np.sqrt(squares)) / count
        if below or above:
            accuracy.bounds[name] = (below / count, above / count)
    return figures, accuracy


def _output_figures(
    law: Law,
    exact: _ExactLaw,
    y: FloatArray | None,
    k: int,
    options: StochasticOptions,
    rng: np.random.Generator,
) -> dict[str, ProbeEstimate]:
    """Divergences and joint densities of output k, for laws at p points and targets (p, k)."""
    p, scale = len(law.mean), exact.scale[k]
    root = covariance_root(law.cov[..., k] / scale**2, "cov_q")

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
        "kl_per_point": widened(kl, more),
        "reverse_kl_per_point": widened(reverse, more),
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
    named["reference_nlpd_joint"] = widened(mixture, float(length * error + 0.5 * error**2))
    return named


def _mean_error(exact: _ExactLaw, root: FloatArray, k: int) -> float:
    """Bound h of the error of the exact mean of output k in the norm of `root root'`, (p, p)."""
    half = solve_triangular(root, exact.prior, lower=True)
    share = np.linalg.norm(solve_triangular(root, half.T, lower=True), 2)
    return float(exact.radius[k] * np.sqrt(share))


def widened(estimate: ProbeEstimate, more: float) -> ProbeEstimate:
    """Return the estimate with both bounds moved outwards by `more`."""
    return estimate._replace(below=estimate.below + more, above=estimate.above + more)
