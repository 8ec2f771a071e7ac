"""Fits of a graph kernel and its scales by maximum evidence, which return a fitted process.

Fits on graphs with small components, whose observations do not enter the evidence.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from coupledgp.core.budget import Forecast, Step, current_budget
from coupledgp.core.minimise import Minimiser, lbfgs
from coupledgp.core.mixture import MixtureGP
from coupledgp.core.process import Data
from coupledgp.core.units import Units
from coupledgp.graphs import Graph
from coupledgp.graphs.evidence import LEAST_RATIO, Scales
from coupledgp.graphs.observations import BoolArray, warn_of_small
from coupledgp.graphs.pieces import piece_of
from coupledgp.graphs.posterior import IterativePosterior
from coupledgp.graphs.priors import WalkPrior
from coupledgp.graphs.process import (
    DENSE_EVIDENCE_LIMIT,
    DENSE_POSTERIOR_LIMIT,
    NodeEvidence,
    NodeGP,
    NodeSettings,
    NodesGP,
    posterior_class,
)
from coupledgp.graphs.recipes import ChosenPrior, NodePriorRecipe, WalkRecipe
from coupledgp.graphs.routes import (
    NodeObservations,
    posterior_forecast,
    probes_forecast,
    walk_forecast,
)
from coupledgp.graphs.search import (
    PATIENCE,
    FixedHyperparameters,
    FoundKernel,
    NodeSearcher,
    fit_kernel,
)
from coupledgp.ground.progress import tell
from coupledgp.ground.visible import warn
from coupledgp.kernels import GraphKernel
from coupledgp.random import FloatArray

# Least noise that is searched for, over the greatest eigenvalue of the function's covariance, where
# conjugate gradients solve: their steps grow with the root of its inverse.
LEAST_HELD = 1e-6


class NodeSearch(NamedTuple):
    """Record of a search.

    Attributes
    ----------
    n_rounds : int
        Number of rounds of redrawn walks.
    n_evaluations : int
        Number of evaluations of the evidence.
    converged : bool
        Whether the last round left the hyperparameters where they were.
    steps : tuple of Step
        Steps of the fit, with forecasts and seconds.
    """

    n_rounds: int = 0
    n_evaluations: int = 0
    converged: bool = True
    steps: tuple[Step, ...] = ()

    def beyond(self, limit: float | None) -> str | None:
        """How a budget of seconds ended the search, or the fit took longer; None where neither."""
        words = []
        if limit is not None and not self.converged:
            words.append(
                f"the search for hyperparameters ended after {self.n_evaluations} evaluations, "
                "the best so far are used"
            )
        spent = sum(step.seconds for step in self.steps)
        if limit is not None and spent > limit:
            words.append(f"the fit took {spent:.2g} s")
        return f"budget of {limit:.3g} s: {'; '.join(words)}" if words else None


class FittedKernel(NamedTuple):
    """A fitted kernel, the exact search's result if that sufficed, and the record of the search."""

    kernel: GraphKernel
    found: FoundKernel | None = None
    search: NodeSearch = NodeSearch()


@dataclass(frozen=True, eq=False)
class NodeFitter:
    """Data, settings and methods of a fit on nodes.

    Attributes
    ----------
    recipe : NodePriorRecipe
        Settings that turn a kernel into a prior.
    settings : NodeSettings
        Settings of the computation of evidence and posterior.
    kernels : tuple of GraphKernel
        A kernel of each family that is compared.
    searches : bool
        Whether anything is optimised.
    fixed : frozenset of str
        Names among kernel, outputscale and noise that are not optimised.
    outputscale, noise : float
        Variances in normalised units, used where they are not optimised.
    data : Data
        Node numbers (n,) and targets (n, k).
    units : Units
        Units of y.
    normalize : bool
        Whether the units follow the data when observations are added.
    minimise : Minimiser
        The optimiser of kernel parameters.
    stand_ins : tuple of GraphKernel
        Kernels of sparse precision that take the place of one whose posterior costs too much.
    """

    recipe: NodePriorRecipe
    settings: NodeSettings
    kernels: tuple[GraphKernel, ...]
    searches: bool
    fixed: frozenset[str]
    outputscale: float
    noise: float
    data: Data
    units: Units
    normalize: bool
    minimise: Minimiser = lbfgs
    stand_ins: tuple[GraphKernel, ...] = ()

    def fit(self) -> tuple[NodeGP, NodeSearch]:
        """Search for the kernel and the scales, then condition on the data.

        A noise that is kept below `10 LEAST_RATIO` of the targets' mean square, which bounds the
        variance of the function, is warned of.
        """
        self._warn_of_small_noise()
        found = FittedKernel(self.kernels[0])
        if self.searches and not self._is_fixed:
            found = self._search()
        start = time.perf_counter()
        process, forecast = self._condition(found)
        step = Step(
            "condition", process.chosen.reason, forecast.seconds, time.perf_counter() - start
        )
        return process, found.search._replace(steps=(*found.search.steps, step))

    @property
    def graph(self) -> Graph:
        """The graph that priors live on."""
        return self.recipe.graph.closed

    @property
    def targets(self) -> FloatArray:
        """Normalised targets (n, k)."""
        return self.units.normalized(self.data.targets)

    @property
    def _is_dense(self) -> bool:
        n_nodes = self.recipe.graph.n_nodes
        return self.settings.is_dense(len(self.data), n_nodes, DENSE_EVIDENCE_LIMIT)

    @property
    def _fixes_kernel(self) -> bool:
        return not self.searches or "kernel" in self.fixed

    @property
    def _is_fixed(self) -> bool:
        """Whether kernel and scales are all given, so that there is nothing to search for."""
        scales = self._given_scale("outputscale"), self._given_scale("noise")
        return self._fixes_kernel and None not in scales

    def _warn_of_small_noise(self) -> None:
        noise, unit = self._given_scale("noise"), float(np.mean(self.targets**2))
        if noise is None or self._given_scale("outputscale") is not None:
            return
        if noise < 10.0 * LEAST_RATIO * unit:
            own = float(np.mean(self.units.scale**2))
            warn(
                f"noise: expected at least {10.0 * LEAST_RATIO:g} times the mean square of the "
                f"targets, {unit * own:.3g}, where it is kept and the outputscale is searched for, "
                f"got {noise * own:.3g}; the outputscale is limited by it, and intervals may be "
                "too narrow: give a larger noise, or the outputscale too"
            )

    def _given_scale(self, name: str) -> float | None:
        """Value of a given scale; None for one that is optimised."""
        if self.searches and name not in self.fixed:
            return None
        value: float = getattr(self, name)
        return value

    def _search(self) -> FittedKernel:
        """Search by the evidence of the exact kernel, then of redrawn walks where that differs."""
        kernels = list(self.kernels)
        families, scan = range(len(kernels)), True
        if self.settings.solver != "iterative":
            searcher = self._searcher()
            found = searcher.search()
            kernel = found.point.kernel
            if self.recipe.follows_exact(kernel, found.point.scales):
                effort = found.n_rounds, found.n_evaluations, found.converged
                return FittedKernel(kernel, found, NodeSearch(*effort, tuple(searcher.steps)))
            assert found.family is not None  # only kernels of exact priors are replaced
            kernels[found.family] = kernel
            families, scan = range(found.family, found.family + 1), found.is_whole
        if self._fixes_kernel:
            return FittedKernel(kernels[families[0]])
        return self._in_rounds(kernels, families, scan)

    def _searcher(self) -> NodeSearcher:
        """The search by the evidence of exact kernels."""
        kept = FixedHyperparameters(
            self._fixes_kernel,
            self._given_scale("outputscale"),
            self._given_scale("noise"),
            float(np.mean(self.targets**2)),
        )
        data = NodeObservations(self.graph, self.data.points, self.targets, self.settings.seed)
        return NodeSearcher(
            data, self.kernels, self.stand_ins, kept, self._posterior_forecast,
            self.minimise,
        )  # fmt: skip

    def _posterior_forecast(self, kernel: GraphKernel, ratio: float) -> Forecast:
        return posterior_forecast(self.graph, kernel, ratio, len(self.data), self.settings)

    def _in_rounds(self, kernels: list[GraphKernel], families: range, scan: bool) -> FittedKernel:
        """Find the best kernel of some families by rounds of redrawn walks, family by family."""
        nodes, targets = self.data.points, self.targets
        found = [
            fit_kernel(
                kernels[family],
                lambda kernel: self.recipe.make(kernel).prior,
                lambda prior: self.settings.evidence(prior, nodes, targets),
                self._given_scale("outputscale"),
                self._given_scale("noise"),
                scan_starts=scan,
                graph=self.graph,
                minimise=self.minimise,
            )
            for family in families
        ]
        states = [state for _, state in found]
        kernel, _ = min(found, key=lambda one: one[1].value)
        search = NodeSearch(
            sum(state.n_rounds for state in states),
            sum(state.n_evaluations for state in states),
            all(state.settled for state in states),
        )
        return FittedKernel(kernel, None, search)

    def _condition(self, found: FittedKernel) -> tuple[NodeGP, Forecast]:
        """Condition on the data at the fitted kernel; return the process and its forecast cost."""
        known = self._known_scales(found)
        if known is not None:
            ratio = known.noise / known.outputscale
            forecast = self._posterior_forecast(found.kernel, ratio)
            advice = "choose a kernel whose exponent is a whole number, or a larger budget"
            current_budget().check(forecast, "the posterior", advice)
            tell(f"posterior and its deviations, forecast {forecast.seconds:.2g} s")
        chosen = self.recipe.make(found.kernel, known)
        scales, error = self._scales(found, chosen)
        if known is None:
            # The prior is made again, since its accuracy depends on the scales, known only now.
            forecast = self._posterior_forecast(found.kernel, scales.noise / scales.outputscale)
            chosen = self.recipe.make(found.kernel, scales)
            scales, error = self._scales(found, chosen)
        scales = self._held(found.kernel, chosen, scales)
        forecast = forecast.plus(walk_forecast(chosen.prior, len(self.data)))
        evidence = None
        if np.isfinite(scales.log_evidence):
            value = scales.log_evidence - self.units.log_jacobian(len(self.data))
            evidence = NodeEvidence(value, error)
        process = NodeGP.given(
            self.recipe, chosen, self.settings, scales, self.data, self.units, self.normalize,
            evidence,
        )  # fmt: skip
        return process, forecast

    def _held(self, kernel: GraphKernel, chosen: ChosenPrior, scales: Scales) -> Scales:
        """Scales with a searched noise that is large enough for conjugate gradients."""
        n, n_nodes = len(self.data), self.recipe.graph.n_nodes
        dense = self.settings.is_dense(n, n_nodes, DENSE_POSTERIOR_LIMIT)
        solver = posterior_class(chosen.prior, self.settings.solver, dense)
        sizes = self.graph.node_scale
        top = float(kernel.spectral(np.ones(1))[0]) * (1.0 if sizes is None else sizes.max() ** 2)
        least = LEAST_HELD * scales.outputscale * top
        searched = self._given_scale("noise") is None
        if not searched or scales.noise >= least or solver is not IterativePosterior:
            return scales
        own = float(np.mean(self.units.scale**2))
        warn(
            f"noise: {scales.noise * own:.2g} of greatest evidence is less than conjugate "
            f"gradients resolve beside the outputscale, {least * own:.2g} is used; "
            "solver='dense' keeps it",
            ConvergenceWarning,
        )
        return replace(scales, noise=least, log_evidence=np.nan)

    def _scales(self, found: FittedKernel, chosen: ChosenPrior) -> tuple[Scales, float]:
        """Scales of maximum evidence under a prior, and the standard error of the log evidence.

        The log evidence is NaN where it was not computed: it is when somebody asks for it.
        """
        exact, measured = found.found, chosen.method == "walks" and self._is_dense
        outputscale, noise = self._given_scale("outputscale"), self._given_scale("noise")
        if exact is not None and exact.is_whole and not measured:
            return exact.point.scales, 0.0
        if outputscale is not None and noise is not None and not measured:
            return Scales(outputscale, noise, np.nan), 0.0
        if exact is not None and not exact.is_whole and not self._may_measure(exact):
            return replace(exact.point.scales, log_evidence=np.nan), 0.0
        measures = self.settings.evidence(chosen.prior, self.data.points, self.targets).measures
        scales = measures.profile(outputscale, noise)
        return scales, measures.log_evidence_error(scales.outputscale, scales.noise)

    def _may_measure(self, found: FoundKernel) -> bool:
        """Whether the scales may be set by the evidence of all observations at a kernel."""
        if self._is_dense:
            return True
        forecast = probes_forecast(self.graph, found.point.kernel, found.ratio, self.settings)
        limit = current_budget().seconds
        return forecast.seconds <= (PATIENCE if limit is None else 0.1 * limit)

    def _known_scales(self, found: FittedKernel) -> Scales | None:
        """Scales that set the accuracy of the prior: the found scales, or else the given ones."""
        if found.found is not None:
            return found.found.point.scales
        outputscale, noise = self._given_scale("outputscale"), self._given_scale("noise")
        if outputscale is None or noise is None:
            return None
        return Scales(outputscale, noise, np.nan)


# A fit: the process, its search, and the effective number of draws of its hyperparameters.
Fitted: TypeAlias = tuple[NodesGP, NodeSearch, float | None]


def fit_components(
    fitter: NodeFitter, usable: BoolArray, fit: Callable[[NodeFitter], Fitted]
) -> Fitted:
    """Search on the components of the usable observations (n,), and condition on all of them.

    The search is the one on the graph of these components alone. With `optimizer=None` nothing is
    searched for, and all observations count.
    """
    if usable.all() or not fitter.searches:
        return fit(fitter)
    graph, points = fitter.recipe.graph.closed, fitter.data.points
    member = graph.components()[1]
    warn_of_small(usable, member[points], "graph")
    nodes = np.flatnonzero(np.isin(member, member[points[usable]]))
    place = np.full(graph.n_nodes, -1)
    place[nodes] = np.arange(nodes.size)
    data = Data.of(place[points[usable]], fitter.data.targets[usable])
    recipe = replace(fitter.recipe, graph=piece_of(graph, nodes).graph)  # type: ignore[type-var]
    process, search, n_effective = fit(replace(fitter, recipe=recipe, data=data))
    if isinstance(process, NodeGP):
        return _given_all(process, fitter), search, n_effective
    members = [_given_all(m, fitter) for m in process.members if isinstance(m, NodeGP)]
    whole = MixtureGP.of(members, process.weights, fitter.data, process.purpose)
    return whole, search, n_effective


def _given_all(part: NodeGP, fitter: NodeFitter) -> NodeGP:
    """The process of fitted hyperparameters on the whole graph, given all observations."""
    found, recipe = part.hyperparameters, fitter.recipe
    scales = Scales(found.outputscale, found.noise, np.nan)
    walks = isinstance(part.chosen.prior, WalkPrior)
    maker = recipe.exact if isinstance(recipe, WalkRecipe) and not walks else recipe
    return NodeGP.given(
        recipe, maker.make(found.kernel, scales), part.settings, scales, fitter.data, fitter.units,
        part.normalize,
    )  # fmt: skip
