"""Fits on few nodes: a mixture over the posterior of the hyperparameters of a graph's kernel."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from coupledgp.core.averaging import HyperparameterPrior
from coupledgp.core.budget import Forecast, Step, current_budget
from coupledgp.core.mixture import MixtureGP
from coupledgp.errors import InvalidInputError
from coupledgp.graphs.costs import posterior_forecast
from coupledgp.graphs.evidence import Scales
from coupledgp.graphs.exact_evidence import ObservedEvidence, tolerance_for
from coupledgp.graphs.fitter import NodeFitter, NodeSearch
from coupledgp.graphs.moments import ChebyshevMoments, SpectralMoments
from coupledgp.graphs.objectives import FixedHyperparameters
from coupledgp.graphs.prior_recipes import NodePriorRecipe, WalkRecipe
from coupledgp.graphs.process import NodeGP
from coupledgp.graphs.quadrature import (
    COARSE,
    FINE,
    KernelAverage,
    KernelDraw,
    KernelPosterior,
    distinguishable_range,
    has_grid,
)
from coupledgp.graphs.routes import NodeObservations, dense_route, moments_route
from coupledgp.ground.progress import tell
from coupledgp.kernels import GraphKernel
from coupledgp.random import FloatArray

# Seconds, by forecast, and nodes of a graph, that averaging may take where it was not asked for.
PATIENCE, MOST_NODES = 8.0, 50_000
# Cost of a kernel of the grid, as a share of that of an evaluation of the evidence of the widest
# one: there are no slopes, and most series are shorter.
GRID_SHARE = 0.15
# Least noise ratio for which a series of the covariance is accurate.
LEAST_RATIO = 1e-4


@dataclass(frozen=True)
class Averaging:
    """How hyperparameters are averaged.

    Attributes
    ----------
    n_draws : int
        Number of draws, of which equal ones are one member.
    prior : HyperparameterPrior
        Laws of the variances of function and noise, in units of the variance of the targets.
    is_asked_for : bool
        Whether it is to be done at any cost, or refused, or else only where it costs little.
    walks : bool
        Whether the members walk; else their kernels are exact, whatever the recipe says.
    """

    n_draws: int
    prior: HyperparameterPrior
    is_asked_for: bool
    walks: bool


@dataclass(frozen=True, eq=False)
class NodeAverage:
    """A mixture of processes on a graph, and how it came about.

    Attributes
    ----------
    process : MixtureGP or NodeGP
        The mixture; a single process where one draw has all the weight.
    search : NodeSearch
        Record of the work.
    n_effective : float
        Effective number of draws.
    """

    process: MixtureGP | NodeGP
    search: NodeSearch
    n_effective: float


def fit_average(fitter: NodeFitter, averaging: Averaging) -> NodeAverage | None:
    """Average the hyperparameters of a fit over their posterior and condition every draw.

    None where it is not asked for and its forecast is above `PATIENCE` or the budget of the fit,
    the graph has more than `MOST_NODES`, or a kernel has several free parameters.

    Raises
    ------
    InvalidInputError
        It is asked for, but a kernel has several free parameters, or the covariance of the
        observations takes too much memory.
    """
    start = time.perf_counter()
    kept = FixedHyperparameters(
        not fitter.searches or "kernel" in fitter.fixed,
        fitter.outputscale if "outputscale" in fitter.fixed else None,
        fitter.noise if "noise" in fitter.fixed else None,
    )
    has_grids = kept.kernel or all(map(has_grid, fitter.kernels))
    if not averaging.is_asked_for and (fitter.graph.n_nodes > MOST_NODES or not has_grids):
        return None
    route = _route(fitter, kept)
    if route is None:
        if not averaging.is_asked_for:
            return None
        raise InvalidInputError(
            f"hyperparameters: expected 'maximum' on {fitter.graph.n_nodes} nodes with these "
            f"kernels, since covariances of {len(fitter.data)} observations at many of them take "
            "too much memory, got 'averaged'"
        )
    if not _is_resolved(fitter, kept):
        if not averaging.is_asked_for:
            return None
        raise InvalidInputError(
            f"hyperparameters: expected 'maximum' on {fitter.graph.n_nodes} nodes where a noise "
            f"below {LEAST_RATIO:g} of the targets' variance is kept, or a function of more than "
            f"{1 / LEAST_RATIO:g} times it, got 'averaged'"
        )
    covariance, forecast = route
    forecast = forecast.plus(_posteriors(fitter, averaging))
    if averaging.is_asked_for:
        current_budget().check(forecast, "averaging over hyperparameters", "use fewer draws")
    elif forecast.seconds > PATIENCE or not current_budget().allows(forecast):
        return None
    posterior = KernelPosterior(
        fitter.graph, covariance(), fitter.targets, fitter.kernels, kept, averaging.prior
    )
    found = posterior.average(averaging.n_draws)
    words = (
        f"{len(found.draws)} draws of the hyperparameters from a grid of {found.n_evaluations} "
        f"kernels; {_families(fitter, found)}"
    )
    step = Step("average", words, forecast.seconds, time.perf_counter() - start)
    search = NodeSearch(1, found.n_evaluations, True, (step,))
    return NodeAverage(_mixed(fitter, averaging, found), search, found.n_effective)


def _is_resolved(fitter: NodeFitter, kept: FixedHyperparameters) -> bool:
    """Whether the covariance is accurate enough for the noise ratios that are looked at."""
    if dense_route(_observations(fitter)) is not None or None not in (kept.noise, kept.outputscale):
        return True
    unit = max(float(fitter.targets.var(axis=0).mean()), np.finfo(float).tiny)
    noise = unit if kept.noise is None else kept.noise
    outputscale = unit if kept.outputscale is None else kept.outputscale
    return noise >= LEAST_RATIO * outputscale


def _families(fitter: NodeFitter, found: KernelAverage) -> str:
    """Posterior probabilities of the families in words."""
    pairs = zip(fitter.kernels, found.families, strict=True)
    return ", ".join(f"{type(kernel).__name__} {share:.2f}" for kernel, share in pairs)


def _mixed(fitter: NodeFitter, averaging: Averaging, found: KernelAverage) -> MixtureGP | NodeGP:
    """The draws given the data."""
    members = []
    for number, draw in enumerate(found.draws):
        tell(f"member {number + 1} of {len(found.draws)}")
        members.append(_member(fitter, averaging, draw))
    if len(members) == 1:
        return members[0]
    return MixtureGP.of(members, found.weights, fitter.data, "hyperparameters")


def _member(fitter: NodeFitter, averaging: Averaging, draw: KernelDraw) -> NodeGP:
    scales = Scales(draw.outputscale, draw.noise, np.nan)
    recipe: NodePriorRecipe = fitter.recipe
    if not averaging.walks and isinstance(recipe, WalkRecipe):
        recipe = recipe.exact
    chosen = recipe.make(draw.kernel, scales)
    return NodeGP.given(
        fitter.recipe, chosen, fitter.settings, scales, fitter.data, fitter.units,
        fitter.normalize,
    )  # fmt: skip


def _posteriors(fitter: NodeFitter, averaging: Averaging) -> Forecast:
    """Cost of the members at a kernel in the middle; a small graph's eigenvectors come once."""
    kernel = fitter.kernels[0]
    if kernel.theta.size and has_grid(kernel):
        kernel = kernel.with_theta(np.array([np.mean(distinguishable_range(fitter.graph, kernel))]))
    one = posterior_forecast(fitter.graph, kernel, 0.1, len(fitter.data), fitter.settings)
    count = 1 if dense_route(_observations(fitter)) is not None else averaging.n_draws
    return Forecast(count * one.seconds, one.bytes)


def _observations(fitter: NodeFitter) -> NodeObservations:
    return NodeObservations(fitter.graph, fitter.data.points, fitter.targets, fitter.settings.seed)


def _route(
    fitter: NodeFitter, kept: FixedHyperparameters
) -> tuple[Callable[[], Callable[[GraphKernel], FloatArray]], Forecast] | None:
    """A maker of the covariance of the observations as a function of the kernel, and its cost."""
    data = _observations(fitter)
    count = len(fitter.kernels) * (COARSE[0] + FINE[0])
    dense = dense_route(data)
    if dense is not None:
        return lambda: _covariance(data, SpectralMoments), dense.forecast(count)
    widest = []
    for kernel in fitter.kernels:
        if not kept.kernel and kernel.theta.size:
            kernel = kernel.with_theta(np.array([distinguishable_range(data.graph, kernel)[1]]))
        widest.append(moments_route(data, kernel, LEAST_RATIO))
    found = [route for route in widest if route is not None]
    if len(found) < len(widest):
        return None
    costs = [
        Forecast(route.setup.seconds + GRID_SHARE * count * route.each.seconds, route.setup.bytes)
        for route in found
    ]
    return (
        lambda: _covariance(data, ChebyshevMoments),
        max(costs),
    )


def _covariance(
    data: NodeObservations, moments: type[SpectralMoments] | type[ChebyshevMoments]
) -> Callable[[GraphKernel], FloatArray]:
    """Covariance of the observations as a function of the kernel."""
    evidence = ObservedEvidence(data.graph, data.nodes, data.targets, moments)
    tolerance = tolerance_for(LEAST_RATIO)
    return lambda kernel: evidence.covariance(kernel, tolerance)
