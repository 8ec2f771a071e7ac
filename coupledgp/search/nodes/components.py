"""Fits on graphs whose observations lie in several components."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

from coupledgp.gp.components import ComponentsGP, PartGP, rescaled
from coupledgp.gp.mixture import MixtureGP
from coupledgp.gp.node_priors import NodePriorRecipe, WalkRecipe
from coupledgp.gp.nodes import NodeGP, NodeHyperparameters
from coupledgp.gp.protocol import Data
from coupledgp.gp.units import Units, are_constant
from coupledgp.graphs import Graph
from coupledgp.graphs.spectrum import lanczos_density
from coupledgp.ground.warned import warn
from coupledgp.inference.nodes.evidence import Scales
from coupledgp.inference.nodes.forecast import Step
from coupledgp.inference.nodes.groups import ComponentGroups, component_groups
from coupledgp.inference.nodes.pieces import piece_of
from coupledgp.inference.nodes.priors import WalkPrior
from coupledgp.kernels import GraphKernel
from coupledgp.random import FloatArray, IntArray
from coupledgp.search.nodes.fitter import NodeFitter, NodeSearch

# Nodes up to which all eigenvalues are used for the mean variance of components.
ALL_EIGENVALUES = 600

# A fit of some components: the process, and the effective number of draws of its hyperparameters.
PartFit: TypeAlias = Callable[[NodeFitter], tuple[PartGP, NodeSearch, float | None]]


def fit_components(
    fitter: NodeFitter, fit: PartFit
) -> tuple[ComponentsGP, NodeSearch, float | None] | None:
    """Fit groups of components on their own; None where one group has all observations.

    The hyperparameters of a group are found from its observations alone, on the graph of its
    observed components. Groups that tell nothing of a kernel take those of the group with most
    observed nodes, with the same mean prior variance: in units of their own where they have enough
    observations, else in its units. See `component_groups`.
    """
    if not fitter.searches:
        return None
    groups = component_groups(fitter.graph, fitter.data.points)
    if groups is None:
        return None
    if type(fitter.recipe.graph) is not Graph:  # it computes elsewhere, as a whole
        warn(
            "graph: observations lie in several components, which are fitted as one on a cluster: "
            "nodes of small ones may harm the laws of others; fit on one machine, or without them"
        )
        return None
    begin, found = time.perf_counter(), []
    for number, nodes in enumerate(groups.fitted):
        left = fitter.budget.seconds
        if left is not None:
            left = max(left - (time.perf_counter() - begin), 1e-3)
        own = _part_fitter(fitter, nodes, fitter.checkpoint if number == 0 else None)
        found.append(fit(replace(own, budget=replace(fitter.budget, seconds=left))))
    scale = _scales(fitter.graph, groups, found[0][0])
    graph = fitter.recipe.graph
    recipe = replace(fitter.recipe, graph=rescaled(graph, scale))  # type: ignore[type-var]
    parts = _parts(fitter, groups, recipe, [process for process, _, _ in found])
    borrows = np.zeros(graph.n_nodes, dtype=np.int64)
    for nodes in groups.others:
        borrows[nodes] = groups.group_of[nodes] == 0
    process = ComponentsGP(graph, scale, tuple(parts), groups.group_of, borrows, fitter.data)
    words = describe(groups, fitter.graph, fitter.data.points)
    if len(groups.fitted) < groups.n_groups or groups.others:
        warn(f"graph: {words}")
    searches = [search for _, search, _ in found]
    steps = (Step("components", words, 0.0, 0.0), *(s for found in searches for s in found.steps))
    search = NodeSearch(
        sum(s.n_rounds for s in searches), sum(s.n_evaluations for s in searches),
        all(s.converged for s in searches), steps,
    )  # fmt: skip
    return process, search, found[0][2]


def describe(groups: ComponentGroups, graph: Graph, observed: IntArray) -> str:
    """Which components have a model of their own, in words."""
    _, member = graph.components()
    seen = np.unique(observed)
    n_fitted = [np.unique(member[nodes]).size for nodes in groups.fitted]
    inside = np.isin(seen, np.concatenate(groups.fitted))
    words = (
        f"observations lie in {np.unique(member[seen]).size} components, which are independent; "
        f"models fitted: {len(n_fitted)}, to {np.count_nonzero(inside)} observed nodes of "
        f"{sum(n_fitted)} component{'s' if sum(n_fitted) > 1 else ''}"
    )
    rest = int(np.count_nonzero(~inside))
    if rest:
        words += (
            f"; the other {rest} observed nodes tell too little of a kernel, and take the one of "
            "the largest, with a mean and a scale of their own where they are many"
        )
    return words


def _part_fitter(fitter: NodeFitter, nodes: IntArray, checkpoint: Path | None) -> NodeFitter:
    """The fit of the components of some nodes, ascending, as if there were no others."""
    place = np.full(fitter.graph.n_nodes, -1)
    place[nodes] = np.arange(nodes.size)
    number = place[fitter.data.points]
    here = np.flatnonzero(number >= 0)
    data = Data.of(number[here], fitter.data.targets[here])
    units = _units(fitter, data)
    searches = not are_constant(data.targets, units.offset)
    recipe = replace(fitter.recipe, graph=piece_of(fitter.recipe.graph.closed, nodes).graph)  # type: ignore[type-var]
    return replace(
        fitter, recipe=recipe, data=data, units=units, checkpoint=checkpoint, searches=searches
    )


def _units(fitter: NodeFitter, data: Data) -> Units:
    """Units of a group's observations; those of all observations where a scale is given."""
    if fitter.fixed & {"outputscale", "noise"}:
        return fitter.units
    return Units.of(data.targets, fitter.normalize)


def _scales(graph: Graph, groups: ComponentGroups, first: PartGP) -> FloatArray:
    """Scales (n_nodes,) that give all components the mean variance of the first group."""
    assert isinstance(first.hyperparameters, NodeHyperparameters)
    kernel, scale = first.hyperparameters.kernel, np.ones(graph.n_nodes)
    usual = _mean_variance(graph, groups.fitted[0], kernel)
    for nodes in groups.others:
        scale[nodes] = np.sqrt(usual / _mean_variance(graph, nodes, kernel))
    return scale


def _mean_variance(graph: Graph, nodes: IntArray, kernel: GraphKernel) -> float:
    """Mean over the nodes of some components of a kernel's variance."""
    part = piece_of(graph, nodes).graph
    if part.indices.size == nodes.size:  # nodes alone
        return float(kernel.spectral(np.ones(1))[0])
    if nodes.size <= ALL_EIGENVALUES:
        return float(
            kernel.spectral(np.linalg.eigvalsh(part.normalized_adjacency.toarray())).mean()
        )
    density = lanczos_density(part)
    return float(density.weights @ kernel.spectral(density.eigenvalues))


def _parts(
    fitter: NodeFitter, groups: ComponentGroups, recipe: NodePriorRecipe, fitted: list[PartGP]
) -> list[PartGP]:
    """The processes of the groups on the whole graph, each given its observations."""
    owner, parts = groups.group_of[fitter.data.points], []
    for number in range(groups.n_groups):
        data = fitter.data.take(np.flatnonzero(owner == number))
        if number < len(fitted):  # units of the components that were fitted
            parts.append(_moved(fitted[number], recipe, data, fitted[number].units, True))
        else:
            parts.append(_moved(fitted[0], recipe, data, _units(fitter, data), False))
    return parts


def _moved(part: PartGP, recipe: NodePriorRecipe, data: Data, units: Units, is_own: bool) -> PartGP:
    """The process of fitted hyperparameters on another graph, given other data."""
    if isinstance(part, MixtureGP):
        members = [
            _moved_node(m, recipe, data, units, is_own)
            for m in part.members
            if isinstance(m, NodeGP)
        ]
        return MixtureGP.of(members, part.weights, data, part.purpose)
    return _moved_node(part, recipe, data, units, is_own)


def _moved_node(
    part: NodeGP, recipe: NodePriorRecipe, data: Data, units: Units, is_own: bool
) -> NodeGP:
    posterior, kernel = part.posterior, part.hyperparameters.kernel
    scales = Scales(posterior.outputscale, posterior.noise, np.nan)
    walks = isinstance(part.chosen.prior, WalkPrior)
    maker = recipe.exact if isinstance(recipe, WalkRecipe) and not walks else recipe
    known = part.known_evidence if is_own and len(data) == len(part.rows) else None
    return NodeGP.given(
        recipe, maker.make(kernel, scales), part.settings, scales, data, units, part.normalize,
        known,
    )  # fmt: skip
