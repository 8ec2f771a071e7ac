"""What was measured to help: new fits, transforms, more features, more inducing points.

A rival that is fitted gains from the fit as well as from what it is. Beside the model's own kernel,
fitted to the same rows, what is left is the gain of the rival alone.

With m inducing points Z, `Q = K_xz K_zz^-1 K_zx` and noise s the best variational law has the bound

    log N(y; mu, Q + s I) - tr(K - Q) / (2 s)                     (Titsias, 2009, AISTATS)

on the log evidence, and a law at test rows in closed form. The points of a model are kept, and more
are added from the training rows, twice as many for as long as that gains. For each number the bound
is maximised over a factor on the lengthscales, the variance and the noise.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from coupledgp.core.budget import seconds_of
from coupledgp.core.column_moments import spread_lengthscale
from coupledgp.core.dense_evidence import ExactEvidence
from coupledgp.core.optimize import maximise_evidence
from coupledgp.core.posterior_draw import LEAST_DRAWN_ROWS, LEAST_PER_DIMENSION
from coupledgp.core.process import Data, GaussianProcess
from coupledgp.core.starts import SearchSpace
from coupledgp.core.transformed import transformed_data
from coupledgp.core.transforms import Identity
from coupledgp.core.units import Units
from coupledgp.couplings.frequencies.registry import PosteriorLaw, describe_coupling
from coupledgp.diagnostics.checks.kernels import problem_of
from coupledgp.diagnostics.checks.shapes import cures_of
from coupledgp.diagnostics.distance.divergences import joint_of, kl_per_point
from coupledgp.diagnostics.laws import Mapped, Normal
from coupledgp.diagnostics.scores import MeanOverPoints, paired_difference
from coupledgp.diagnostics.sources import gpytorch
from coupledgp.diagnostics.sources.own import process_of, some_rows
from coupledgp.diagnostics.tables import (
    AMBER,
    BETTER,
    CLOSE,
    GREEN,
    LOST,
    MATTERS,
    RED,
    SERIOUS,
    Check,
    Rule,
    Tables,
)
from coupledgp.errors import CoupledGPError, HeavyTailWarning
from coupledgp.features import FourierFeatures
from coupledgp.linalg.matrices import solve_lower
from coupledgp.random import FloatArray
from coupledgp.spectra import Spectrum
from coupledgp.tables.dense_prior import DenseProblem
from coupledgp.tables.exact_process import ExactGP, StationaryPrior
from coupledgp.tables.transform_search import fit_transforms

# Rows that a kernel is fitted to, of more a random subset, and steps of the search.
MOST_ROWS, STEPS = 400, 40
# Factor on the number of features or walkers that is tried, and multiplications of a draw: seconds.
LARGER, MOST_WORK = 4, 1e11
# Training rows of a refit with inducing points, most of these, and evaluations of a bound; jitter
# of their covariance over the variance, and largest log of a factor.
INDUCED_ROWS, MOST_POINTS, MOST_EVALUATIONS, JITTER, FURTHEST = 2000, 256, 60, 1e-6, 4.0


def same_kernel(source: Any) -> Normal | None:
    """The law of a model's own kernel, all hyperparameters fitted anew; None: it has no such."""
    problem = _stationary(source)
    if problem is None:
        return None
    process = _fitted(_spectrum(problem), _rows(problem))
    mean, variance = process.law(source.points, "variance")
    assert variance is not None
    return Normal(mean, np.sqrt(variance))


def transform(tables: Tables) -> list[Check]:
    """What a transform of the targets gains where errors have a shape that it may give.

    Transform and hyperparameters are chosen on the training rows.
    """
    p, problem = tables.predictions, _stationary(tables.source)
    if p.y is None or problem is None or tables.left_out is not None or not _may_be_skewed(tables):
        return []
    data, spectrum = _rows(problem), _spectrum(problem)
    try:
        (chosen,) = fit_transforms(None, data, spectrum, True, np.random.default_rng(5))
        if chosen == Identity() or not np.all(chosen.contains(p.y)):
            return []
        process = _fitted(spectrum, transformed_data(data, (chosen,)))
    except CoupledGPError:
        return []
    mean, variance = process.law(tables.source.points, "variance")
    assert variance is not None
    law = Mapped(chosen, mean, np.sqrt(variance), mean, np.sqrt(variance))
    gain = paired_difference(-p.law.log_density(p.y), -law.log_density(p.y))
    return [
        _measured(
            "transform", gain, f"With the targets transformed by {chosen} a new fit gains",
            "Its errors are skewed: transform the targets, target_transform='auto'.",
        )
    ]  # fmt: skip


def _may_be_skewed(tables: Tables) -> bool:
    """Whether the shape is off, tails are heavy, or residuals go along the prediction."""
    found = cures_of(tables)
    if found is None:
        return False
    checks = tables.checks
    along = checks[checks["fired"].astype(bool) & checks["column"].isin(
        ["prediction", "stated standard deviation"])]  # fmt: skip
    off = tables.calibration is not None and tables.calibration.pit_p <= 0.001
    return bool(off or found.is_heavy or len(along))


def refit(tables: Tables) -> list[Check]:
    """A sparse variational process fitted anew with more inducing points; its best number."""
    p, source = tables.predictions, tables.source
    if p.y is None or source is None or source.kernel is None or source.train_X is None:
        return []
    Z, stated = gpytorch.inducing_points(source.model), source.kernel
    if Z is None or not isinstance(stated.prior, StationaryPrior):
        return []
    known = some_rows(len(source.train_X), INDUCED_ROWS, [0, 43])
    X, points = stated.inputs(source.train_X[known]), stated.inputs(source.points)
    y, targets = source.train_y[known, 0] - stated.mean, p.y[:, 0] - stated.mean
    order = np.random.default_rng([0, 47]).permutation(len(X))
    own = -p.law.log_density(p.y)
    best: tuple[int, MeanOverPoints] | None = None
    n = 2 * len(Z)
    while n <= min(MOST_POINTS, len(X) + len(Z)):
        inducing = np.vstack([Z, X[order[: n - len(Z)]]])
        prior = _of_greatest_bound(stated.prior, inducing, X, y)
        try:
            mean, variance = InducingLaw.of(prior, inducing, X, y).at(prior, inducing, points)
        except np.linalg.LinAlgError:
            break
        law = Normal(mean[:, None], np.sqrt(variance)[:, None])
        gain = paired_difference(own, -law.log_density(targets[:, None]))
        if best is not None and gain.mean < best[1].mean + MATTERS:
            break
        best, n = (n, gain), 2 * n
    if best is None:
        return []
    n, gain = best
    return [
        _measured(
            "refit", gain, f"The same with {n} inducing points gains",
            f"Take {n} inducing points in place of {len(Z)}, and fit it again.",
        )
    ]  # fmt: skip


def closer(tables: Tables) -> list[Check]:
    """More features or walkers, and the default coupling, where the posterior is not close."""
    p, exact, source = tables.predictions, tables.exact, tables.source
    kl = tables.figure("distance", metric="kl")
    if exact is None or kl is None or source is None or source.process is None:
        return []
    far = kl.value + kl.above + 2 * np.nan_to_num(kl.error) >= MATTERS
    paired = tables.gain(exact.name)
    if not far and (paired is None or not paired.gain > max(LOST * paired.error, MATTERS)):
        return []
    try:
        reference, candidates = joint_of(exact.law), list(_draws(source.model, source.process))
    except CoupledGPError:  # the observations were not kept
        return []
    own = None if p.y is None else -p.law.log_density(p.y)
    found = []
    for (name, before), coupling, size in candidates:
        try:
            with warnings.catch_warnings():  # of a trial, whose law nobody is given
                warnings.simplefilter("ignore", HeavyTailWarning)
                law = Normal.of_process(source.process.redrawn(coupling, size, 0), source.points)
        except CoupledGPError:
            continue
        distance = kl_per_point(reference, law)
        gain = MeanOverPoints(np.nan, np.nan)
        if own is not None and p.y is not None:
            gain = paired_difference(own, -law.log_density(p.y))
        helps = distance < kl.value and gain.mean > 0
        found.append(
            Check(
                CLOSE, "closer", GREEN, f"With {name} the KL is {distance:.2g} nats per point.",
                helps, name, distance, kl.value, gain=gain.mean, gain_error=gain.standard_error,
                basis="measured",
                remedy=f"Take {name} instead of {before}. Its KL from the exact process is "
                f"{distance:.2g}." if helps else "",
            )
        )  # fmt: skip
    return found


RULES: tuple[Rule, ...] = (
    Rule(BETTER, "transform", transform, "full"),
    Rule(BETTER, "refit", refit, "full"),
    Rule(CLOSE, "closer", closer, "full"),
)


def tried(tables: Tables, budget: str | float = "60s") -> list[Check]:
    """What remedies gain, one after the other until some seconds have passed."""
    start, limit, found = time.perf_counter(), seconds_of(budget), list[Check]()
    for rule in RULES:
        if time.perf_counter() - start < limit:
            found += rule.test(tables)
    return found


def _measured(rule: str, gain: MeanOverPoints, what: str, remedy: str) -> Check:
    error = gain.standard_error
    fired = bool(np.isfinite(error)) and gain.mean > max(LOST * error, MATTERS)
    colour = (RED if gain.mean > SERIOUS else AMBER) if fired else GREEN
    return Check(
        BETTER, rule, colour, f"{what} {gain.mean:.2g} nats per point.", fired,
        statistic=gain.mean / error if error else np.nan, expected=0.0, limit=LOST,
        gain=gain.mean, gain_error=error, basis="paired", remedy=remedy if fired else "",
    )  # fmt: skip


# New fits of a stationary kernel.


def _stationary(source: Any) -> DenseProblem | None:
    problem = problem_of(getattr(source, "process", None))
    if problem is None or not isinstance(problem.prior, StationaryPrior):
        return None
    return problem


def _spectrum(problem: DenseProblem) -> Spectrum:
    assert isinstance(problem.prior, StationaryPrior)
    return problem.prior.spectrum


def _rows(problem: DenseProblem) -> Data:
    own = problem.data.take(some_rows(len(problem.data), MOST_ROWS, [0, 41]))
    return Data.of(own.points, own.targets, own.relative_noise)


def _fitted(spectrum: Spectrum, data: Data) -> ExactGP:
    units = Units.of(data.targets, True, data.counts)
    evidence = ExactEvidence(spectrum, data.points, units.normalized(data.targets), data.weights)
    found = maximise_evidence(
        evidence, SearchSpace(spread_lengthscale(data.points, True), True), n_restarts=1,
        max_iterations=STEPS, rng=np.random.default_rng(0),
    )  # fmt: skip
    return ExactGP.given(StationaryPrior(spectrum, found.hyperparameters), data, units, False)


# Other draws of an approximation.


def _draws(model: Any, process: GaussianProcess) -> Iterator[tuple[tuple[str, str], Any, int]]:
    """Texts of the new and the own value, couplings and sizes to try."""
    name = getattr(model, "size_parameter", None)
    if name is None or process_of(model) is not process:
        return
    size, coupling = getattr(model, f"{name}_", None), _coupling(model, process)
    if not isinstance(size, int | np.integer) or coupling is None:
        return
    n_rows, size = len(process.data), int(size)
    if n_rows * (2.0 * LARGER * size) ** 2 <= MOST_WORK:
        larger = f"{name}={LARGER * size}{_frequencies(model, coupling)}"
        yield (larger, f"{size}"), coupling, LARGER * size
    if isinstance(coupling, PosteriorLaw) or n_rows * (2.0 * size) ** 2 > MOST_WORK:
        return
    if _may_be_drawn(process, size):
        drawn, own = "frequencies='posterior'", describe_coupling(coupling)
        if model.coupling is not None:
            drawn += ", coupling=None"
        yield (drawn, f"frequencies sampled by {own}"), PosteriorLaw(), size
    default = getattr(type(model), "coupling", None)
    if default is not None and default != coupling:
        yield (f"coupling={default!r}", f"{coupling!r}"), default, size


def _frequencies(model: Any, coupling: Any) -> str:
    """What else to ask a model for, so that its frequencies are those that were tried."""
    asked = getattr(model, "frequencies", None)
    law = "posterior" if isinstance(coupling, PosteriorLaw) else "sampled"
    known = asked in (None, law) or (asked == "auto" and model.coupling is not None)
    return "" if known else f", frequencies={law!r}"


def _may_be_drawn(process: GaussianProcess, size: int) -> bool:
    """Whether the frequencies are of the kernel's law, and a draw for the posterior may gain."""
    prior = getattr(process, "feature_prior", None)
    if prior is None or prior.is_fitted:
        return False
    own, n_rows = prior.feature_map, len(process.data)
    enough = size >= LEAST_PER_DIMENSION * own.dim and n_rows >= LEAST_DRAWN_ROWS
    return enough and own.maker is FourierFeatures


def _coupling(model: Any, process: GaussianProcess) -> Any:
    """The law that the features of a model were drawn from."""
    prior = getattr(process, "feature_prior", None)
    if prior is not None:
        return prior.feature_map.coupling
    chosen = getattr(model, "coupling_", None)
    return getattr(model, "coupling", None) if chosen is None else chosen


# Inducing points.


class InducingLaw(NamedTuple):
    """The best variational law of some inducing points.

    Attributes
    ----------
    bound : float
        Lower bound on the log evidence, nats.
    below : FloatArray (m, m)
        Cholesky factor of `K_zz`, with jitter.
    inner : FloatArray (m, m)
        Cholesky factor of `I + A A' / s` with `A = below^-1 K_zx`.
    weights : FloatArray (m,)
        `inner^-1 A (y - mu) / s`.
    """

    bound: float
    below: FloatArray
    inner: FloatArray
    weights: FloatArray

    @classmethod
    def of(cls, prior: StationaryPrior, Z: FloatArray, X: FloatArray, y: FloatArray) -> InducingLaw:
        """The law of rows (n, d) and targets (n,), less their mean, given points (m, d).

        Raises
        ------
        numpy.linalg.LinAlgError
            A covariance is not positive definite.
        """
        s, v = prior.noise, prior.hyperparameters.outputscale
        below = _root(prior.covariance(Z, Z) + JITTER * v * np.eye(len(Z)))
        A = solve_lower(below, prior.covariance(Z, X))
        inner = _root(np.eye(len(Z)) + A @ A.T / s)
        weights = solve_lower(inner, A @ y) / s
        n = len(y)
        bound = -0.5 * (n * np.log(2 * np.pi * s) + float(y @ y) / s)
        bound += 0.5 * float(weights @ weights)
        bound -= float(np.log(inner.diagonal()).sum())
        bound -= 0.5 * (n * v - float(np.square(A).sum())) / s
        return cls(float(bound), below, inner, weights)

    def at(
        self, prior: StationaryPrior, Z: FloatArray, points: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Means, less that of y, and variances of observations (p,) at rows (p, d)."""
        cross = solve_lower(self.below, prior.covariance(Z, points))
        known = solve_lower(self.inner, cross)
        variance = prior.variance(points) - np.square(cross).sum(axis=0)
        return known.T @ self.weights, variance + np.square(known).sum(axis=0) + prior.noise


def _of_greatest_bound(
    prior: StationaryPrior, Z: FloatArray, X: FloatArray, y: FloatArray
) -> StationaryPrior:
    """The prior of the greatest bound, by factors on lengthscales, variance and noise."""
    hyper = prior.hyperparameters

    def changed(logs: FloatArray) -> StationaryPrior:
        length, variance, noise = np.exp(logs)
        other = replace(
            hyper, lengthscale=length * hyper.lengthscale, noise=noise * hyper.noise,
            outputscale=variance * hyper.outputscale,
        )  # fmt: skip
        return replace(prior, hyperparameters=other)

    def loss(logs: FloatArray) -> float:
        try:
            return -InducingLaw.of(changed(logs), Z, X, y).bound
        except np.linalg.LinAlgError:
            return 1e300

    found = minimize(
        loss, np.zeros(3), method="L-BFGS-B", bounds=[(-FURTHEST, FURTHEST)] * 3,
        options={"maxfun": MOST_EVALUATIONS},
    )  # fmt: skip
    return changed(np.asarray(found.x))


def _root(matrix: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)
