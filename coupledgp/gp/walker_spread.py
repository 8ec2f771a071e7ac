"""Walkers spread over the nodes of a graph as its posterior needs them, at the same budget."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.gp.components import ComponentsGP
from coupledgp.gp.node_priors import ExactRecipe, WalkRecipe
from coupledgp.gp.nodes import NodeGP
from coupledgp.gp.protocol import GaussianProcess
from coupledgp.ground.memory import check_memory
from coupledgp.ground.notebook import ExplainedChoice
from coupledgp.inference.nodes.evidence import Scales
from coupledgp.inference.nodes.priors import WalkPrior
from coupledgp.inference.nodes.walker_form import (
    WalkerForm,
    crossed_cost,
    exact_form,
    sampled_costs,
    sketched_form,
    spread_walkers,
)
from coupledgp.random import IntArray

# Most nodes for which the pilot is dense, and random columns that stand for more of them.
DENSE_PILOT, SKETCH_COLUMNS = 2000, 64
# Draws of walkers in a pilot.
PILOT_DRAWS = 32
# Share of the expected KL of equal numbers above which a spread is not worth it: on graphs whose
# nodes are alike it would only add the error of the pilot.
LEAST_GAIN = 0.95
# Separates the seeds of a pilot from others of the same number.
PILOT_STREAM = 0x57A1


@dataclass(frozen=True, eq=False)
class WalkerSpread(ExplainedChoice):
    """How the walkers of a model are spread, and what that is expected to gain.

    Attributes
    ----------
    n_walks : IntArray (n_nodes,)
        Number of walkers of each node.
    equal_kl, spread_kl : float
        Expected KL of the exact posterior to that of the walks, nats per node without an
        observation, to second order: with equal numbers, and with these.
    n_columns : int or None
        Random columns by which the costs of the nodes were estimated; None: dense algebra.
    """

    n_walks: IntArray
    equal_kl: float
    spread_kl: float
    n_columns: int | None

    @property
    def pays(self) -> bool:
        """Whether the spread is expected to gain a twentieth; equal numbers are kept if not."""
        return self.spread_kl <= LEAST_GAIN * self.equal_kl

    def explain(self) -> str:
        """The numbers of walkers and the expected gain in words."""
        m, how = self.n_walks, "dense algebra"
        if self.n_columns is not None:
            how = f"{self.n_columns} random columns"
        if not self.pays:
            return (
                f"walkers: equal numbers kept, expected KL {self.equal_kl:.2g} nats a node, "
                f"{self.spread_kl:.2g} if they were spread (pilot by {how})"
            )
        return (
            f"walkers spread for the posterior: {m.min()} to {m.max()} a node, {m.mean():.3g} in "
            f"the mean; expected KL {self.spread_kl:.2g} nats a node, {self.equal_kl:.2g} with "
            f"equal numbers (pilot by {how})"
        )


def spread_for_posterior(
    process: GaussianProcess,
) -> tuple[NodeGP | ComponentsGP, tuple[WalkerSpread, ...]]:
    """The process with its walkers spread over nodes, and how, for each of its components.

    Costs `q_i` of one walker come from a pilot (`inference.nodes.walker_form`), and numbers of
    walkers are in proportion to their roots. They stay equal where that is expected to gain less
    than a twentieth. Queries are the nodes without an observation; all nodes where there are none.
    Kernel, scales, data and the number of walkers in all are kept.

    Raises
    ------
    InvalidInputError
        The process is no single one with walks.
    MemoryLimitError
        The pilot does not fit into memory.
    """
    if isinstance(process, ComponentsGP):
        found = [
            _spread(part, np.flatnonzero(process.part_of == number))
            for number, part in enumerate(process.parts)
        ]
        parts, spreads = zip(*found, strict=True)
        return replace(process, parts=parts), spreads
    made, spread = _spread(process, None)
    return made, (spread,)


def _spread(process: GaussianProcess, own: IntArray | None) -> tuple[NodeGP, WalkerSpread]:
    """The process with walkers spread over its own nodes, all if None."""
    if not isinstance(process, NodeGP) or not isinstance(process.recipe, WalkRecipe):
        raise InvalidInputError("walkers: expected a single process with walks, got another one")
    recipe, prior = process.recipe, process.chosen.prior
    assert isinstance(prior, WalkPrior)
    every = np.arange(process.graph.n_nodes) if own is None else own
    observed = process.rows.points[np.isin(process.rows.points, every)]
    hidden = np.setdiff1d(every, observed)
    queries = hidden if hidden.size else every
    form, n_columns = _form(process, observed, queries, recipe.seed)
    stream, m = PILOT_STREAM ^ recipe.seed, recipe.n_walks
    (draws,) = sampled_costs((form,), prior, m, PILOT_DRAWS, stream)
    costs, budget = draws.mean(axis=0), m * form.nodes.size
    numbers = np.full(process.graph.n_nodes, m)
    numbers[form.nodes] = spread_walkers(costs, budget)
    spread = WalkerSpread(
        numbers,
        float(costs.sum()) / m / queries.size,
        crossed_cost(draws, budget)[0] / queries.size,
        n_columns,
    )
    if not spread.pays:
        return process, replace(spread, n_walks=np.full_like(numbers, m))
    return process.remade(replace(recipe, walkers=numbers), process.settings), spread


def _form(
    process: NodeGP, observed: IntArray, queries: IntArray, seed: int
) -> tuple[WalkerForm, int | None]:
    """The form of a process, and the number of random columns in it."""
    hyper, graph = process.hyperparameters, process.graph
    scales = Scales(hyper.outputscale, hyper.noise, np.nan)
    prior = ExactRecipe(graph).make(hyper.kernel, scales).prior
    given = prior, observed, queries, hyper.outputscale, hyper.noise
    n_rows = observed.size + queries.size
    if n_rows <= DENSE_PILOT:
        return exact_form(*given), None
    check_memory(
        8.0 * SKETCH_COLUMNS * (6 * n_rows + 6 * graph.n_nodes),
        f"walkers: the pilot of {n_rows} nodes",
        "use walkers='equal'",
    )
    return sketched_form(*given, SKETCH_COLUMNS, PILOT_STREAM ^ seed), SKETCH_COLUMNS
