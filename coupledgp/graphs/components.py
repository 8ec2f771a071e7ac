"""Fits on graphs with small components, whose observations do not enter the evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from coupledgp.core.mixture import MixtureGP, NodesGP
from coupledgp.core.process import Data
from coupledgp.graphs.evidence import Scales
from coupledgp.graphs.fitter import NodeFitter, NodeSearch
from coupledgp.graphs.groups import BoolArray, warn_of_small
from coupledgp.graphs.pieces import piece_of
from coupledgp.graphs.prior_recipes import WalkRecipe
from coupledgp.graphs.priors import WalkPrior
from coupledgp.graphs.process import NodeGP

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
