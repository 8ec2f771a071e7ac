"""Processes of the components of a graph, each with hyperparameters and units of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.gp.latent import LatentGP
from coupledgp.gp.left_out import Groups, LeftOut
from coupledgp.gp.mixture import MixtureGP, restored_process
from coupledgp.gp.node_priors import NodePriorRecipe
from coupledgp.gp.node_state import GRAPH, NODE_ARRAYS, graph_from, graph_state
from coupledgp.gp.nodes import NodeGP, NodeHyperparameters, NodeSettings
from coupledgp.gp.protocol import (
    Arrays,
    Data,
    GaussianProcess,
    Header,
    Points,
    PredictiveLaw,
    Problem,
    Want,
)
from coupledgp.gp.schema import Entries, require_type
from coupledgp.gp.units import Units
from coupledgp.graphs import Graph
from coupledgp.graphs.assembly import Csr
from coupledgp.ground.memory import check_memory
from coupledgp.ground.progress import Progress, silent
from coupledgp.ground.tensors import torch
from coupledgp.likelihoods.base import Likelihood
from coupledgp.random import FloatArray, IntArray

PartGP: TypeAlias = NodeGP | MixtureGP
# Most parts that a file may ask for.
MOST_PARTS = 64


def rescaled(graph: Graph, scale: FloatArray) -> Graph:
    """The graph with the scales of its nodes multiplied by numbers (n_nodes,)."""
    if (scale == 1.0).all():
        return graph
    own = 1.0 if graph.node_scale is None else graph.node_scale
    csr = Csr(graph.indptr, graph.indices, graph.weights)
    return Graph(csr, graph.labels, node_scale=own * scale, time_unit=graph.time_unit)


def _prior_of(part: PartGP, data: Data, units: Units) -> PartGP:
    """The prior of a part given other data, in other units."""
    if isinstance(part, NodeGP):
        return part.given_data(data, units)
    members = [m.given_data(data, units) for m in part.members if isinstance(m, NodeGP)]
    return MixtureGP.of(members, part.weights, data, part.purpose)


@dataclass(frozen=True, eq=False, repr=False)
class ComponentsGP(GaussianProcess):
    """Independent processes of groups of components of a graph, each given its own observations.

    Attributes
    ----------
    graph : Graph
        The graph as it was given.
    scale : FloatArray (n_nodes,)
        Scales of the nodes of components that take the hyperparameters of other ones.
    parts : tuple of NodeGP or MixtureGP
        Processes on the graph with these scales. A part without an observation is given those of
        the others, on which its law does not depend.
    part_of : IntArray (n_nodes,)
        Number of the part of each node.
    borrows : IntArray (n_nodes,)
        One at nodes that also take the units of the first part, and do not enter them; else zero.
    rows : Data
        All observations.
    """

    graph: Graph
    scale: FloatArray
    parts: tuple[PartGP, ...]
    part_of: IntArray
    borrows: IntArray
    rows: Data

    @property
    def units(self) -> Units:  # type: ignore[override]
        """Units of the first part, which has most observed nodes."""
        return self.parts[0].units

    @property
    def first(self) -> GaussianProcess:
        return self.parts[0].first

    @property
    def noise(self) -> Likelihood:
        """Law of observations given f, of the first part."""
        return self.parts[0].noise

    @property
    def hyperparameters(self) -> NodeHyperparameters:
        """Hyperparameters of the first part."""
        found = self.parts[0].hyperparameters
        assert isinstance(found, NodeHyperparameters)
        return found

    def summary(self) -> dict[str, Any]:
        """Hyperparameters of the first part by name."""
        return self.parts[0].summary()

    @property
    def log_evidence(self) -> float:
        """Log evidence of y, nats: the sum over the parts."""
        return float(sum(part.log_evidence for part in self.parts))

    @property
    def is_gaussian(self) -> bool:
        return all(part.is_gaussian for part in self.parts)

    @property
    def remarks(self) -> tuple[str, ...]:
        return (
            f"Components of the graph are independent: {len(self.parts)} models, each of some of "
            "them. Hyperparameters are those of the one with most observed nodes.",
            *self.parts[0].remarks,
        )

    def _split(self, points: Points) -> Iterator[tuple[PartGP, IntArray]]:
        """Each part that has some of the points (p,), and their places."""
        owner = self.part_of[points]
        for number, part in enumerate(self.parts):
            places = np.flatnonzero(owner == number)
            if places.size:
                yield part, places

    def _gathered(
        self, points: Points, shape: tuple[int, ...], of: Callable[[PartGP, IntArray], FloatArray]
    ) -> FloatArray:
        """Values (p, *shape) of the parts of the points, put together."""
        found = np.empty((len(points), *shape))
        for part, places in self._split(points):
            found[places] = of(part, places)
        return found

    def _blocks(self, points: Points, of: Callable[[PartGP, IntArray], FloatArray]) -> FloatArray:
        """Covariance (p, p, k) of blocks of the parts."""
        p, k = len(points), self.units.n_outputs
        check_memory(
            8.0 * k * p**2, f"nodes: the joint law of {p} nodes", "ask for fewer, or return_std"
        )
        found = np.zeros((p, p, k))
        for part, places in self._split(points):
            found[np.ix_(places, places)] = of(part, places)
        return found

    def law(
        self, points: Points, want: Want, *, latent: bool = False, report: Progress = silent
    ) -> PredictiveLaw:
        laws = {
            id(part): part.law(points[places], want, latent=latent, report=report)
            for part, places in self._split(points)
        }
        k = (self.units.n_outputs,)
        mean = self._gathered(points, k, lambda part, _: laws[id(part)].mean)
        if want == "mean":
            return PredictiveLaw(mean, None)

        def spread(part: PartGP, _: IntArray) -> FloatArray:
            own = laws[id(part)].spread
            assert own is not None
            return own

        if want == "covariance":
            return PredictiveLaw(mean, self._blocks(points, spread))
        return PredictiveLaw(mean, self._gathered(points, k, spread))

    def sample(
        self,
        points: Points,
        n_samples: int,
        rng: np.random.Generator,
        *,
        latent: bool = False,
        report: Progress = silent,
    ) -> FloatArray:
        """Draws (p, k, n_samples) of observations, or of f, with a generator for each part."""
        own = dict(zip(map(id, self.parts), rng.spawn(len(self.parts)), strict=True))

        def drawn(part: PartGP, places: IntArray) -> FloatArray:
            return part.sample(
                points[places], n_samples, own[id(part)], latent=latent, report=report
            )

        return self._gathered(points, (self.units.n_outputs, n_samples), drawn)

    def log_density(
        self, points: Points, targets: FloatArray, *, report: Progress = silent
    ) -> FloatArray:
        return self._gathered(
            points, (), lambda part, at: part.log_density(points[at], targets[at], report=report)
        )

    def quantiles(
        self, points: Points, probabilities: FloatArray, *, report: Progress = silent
    ) -> FloatArray:
        shape = (self.units.n_outputs, len(probabilities))
        return self._gathered(
            points, shape, lambda part, at: part.quantiles(points[at], probabilities, report=report)
        )

    def cdf(self, points: Points, targets: FloatArray, *, report: Progress = silent) -> FloatArray:
        shape = (self.units.n_outputs,)
        return self._gathered(
            points, shape, lambda part, at: part.cdf(points[at], targets[at], report=report)
        )

    def parts_of_law(self, points: Points) -> LeftOut | None:
        """Laws of observations at points (p, ...), each by the part that the point belongs to."""
        split = list(self._split(points))
        parts = [part.parts_of_law(points[at]) for part, at in split]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        return LeftOut.side_by_side(known).take(np.argsort(np.concatenate([at for _, at in split])))

    def prior(self, points: Points) -> FloatArray:
        """Prior covariance (p, p, k) of f, zero between different parts."""
        return self._blocks(points, lambda part, at: part.prior(points[at]))

    def left_out(self, groups: ArrayLike, rows: ArrayLike | None = None) -> LeftOut:
        """Laws of observations given the observations of the same part in other groups."""
        wanted, labels = Groups.of(groups, len(self.rows), rows), np.asarray(groups)
        is_wanted = np.zeros(len(self.rows), dtype=bool)
        is_wanted[wanted.rows] = True
        every, places, laws = np.arange(len(self.rows)), [], []
        for part, own in self._split(self.rows.points):
            asked = np.flatnonzero(is_wanted[own])
            if not asked.size:
                continue
            places.append(own[asked])
            if np.unique(labels[own]).size > 1:
                laws.append(part.left_out(labels[own], asked))
                continue
            # Nothing is left of this part: its prior law, which other components do not change.
            bare = part.conditioned(self.rows.take(np.setdiff1d(every, own)))
            law = bare.law(self.rows.points[own[asked]], "variance")
            assert law.spread is not None
            laws.append(LeftOut.single(law.mean, law.spread))
        joined = LeftOut.side_by_side(laws)
        order = np.empty(len(self.rows), dtype=np.int64)
        order[np.concatenate(places)] = np.arange(sum(map(len, places)))
        return joined.take(order[wanted.rows])

    def left_out_correlation(self, groups: ArrayLike, rows: ArrayLike) -> FloatArray | None:
        """Correlations (m, m) of residuals, zero between different parts."""
        wanted, labels = Groups.of(groups, len(self.rows), rows), np.asarray(groups)
        number = np.empty(len(self.rows), dtype=np.int64)
        found = np.eye(wanted.rows.size)
        for part, own in self._split(self.rows.points):
            number[own] = np.arange(own.size)
            at = np.flatnonzero(np.isin(wanted.rows, own))
            if not at.size or np.unique(labels[own]).size < 2:
                continue
            block = part.left_out_correlation(labels[own], number[wanted.rows[at]])
            if block is None:
                return None
            found[np.ix_(at, at)] = block
        return found

    def exact(self) -> ComponentsGP:
        return replace(self, parts=tuple(part.exact() for part in self.parts))  # type: ignore[misc]

    def exact_problem(self) -> Problem:
        """Refuse, since the parts have no single kernel to solve with.

        Raises
        ------
        InvalidInputError
            Always.
        """
        raise InvalidInputError(
            "method: a model whose components have hyperparameters of their own has no single "
            "kernel to solve with; use method='dense', or compare a part (process_.parts[0])"
        )

    def conditioned(self, data: Data, *, renormalize: bool = False) -> ComponentsGP:
        """Return the same priors given other data; a part without data keeps its units."""
        owner, parts = self.part_of[data.points], []
        for number, part in enumerate(self.parts):
            own = np.flatnonzero(owner == number)
            fitted = own[self.borrows[data.points[own]] == 0]
            units, first = part.units, part.first
            if renormalize and fitted.size and isinstance(first, NodeGP):
                units = Units.of(data.targets[fitted], first.normalize)
            parts.append(_prior_of(part, data.take(own) if own.size else data, units))
        return replace(self, parts=tuple(parts), rows=data)

    def redrawn(self, coupling: Any, size: int, seed: int) -> ComponentsGP:
        """Return the process with another draw of `size` walkers per node, given its data."""
        parts = [part.redrawn(coupling, size, seed) for part in self.parts]
        return replace(self, parts=tuple(parts))  # type: ignore[arg-type]

    def remade(self, recipe: NodePriorRecipe, settings: NodeSettings) -> ComponentsGP:
        """Return the process with priors made by another recipe."""
        own = replace(recipe, graph=rescaled(self.graph, self.scale))  # type: ignore[type-var]
        parts = [part.remade(own, settings) for part in self.parts if isinstance(part, NodeGP)]
        return replace(self, parts=tuple(parts))

    def on(self, device: torch.device) -> ComponentsGP:
        return replace(self, parts=tuple(part.on(device) for part in self.parts))

    def state(self) -> tuple[Header, Arrays]:
        """Values and arrays of a file; names of the arrays of part K start with `part.K.`."""
        labels, arrays = graph_state(self.graph)
        arrays |= {
            "nodes": self.rows.points, "y": self.rows.targets,
            "part_of": self.part_of, "component_scale": self.scale, "borrows": self.borrows,
        }  # fmt: skip
        header: Header = {"process": type(self).__name__, "labels": labels, "parts": []}
        for number, part in enumerate(self.parts):
            own, more = part.state()
            own["labels"] = None
            own.setdefault("process", type(part.first).__name__)
            header["parts"].append(own)
            for name, value in more.items():
                if name.split(".")[-1] not in (*NODE_ARRAYS, "y"):
                    arrays[f"part.{number}.{name}"] = value
        return header, arrays

    @classmethod
    def from_state(cls, header: Header, arrays: Arrays) -> ComponentsGP:
        """Put the process of `state` together again."""
        entries = Entries(header, arrays)
        graph = graph_from(entries)
        headers = require_type(entries.value("parts"), list, "parts")
        if not 1 <= len(headers) <= MOST_PARTS:
            raise ModelFileError(f"parts: expected 1 to {MOST_PARTS}, got {len(headers)}")
        size = graph.n_nodes
        part_of = entries.integers("part_of", size, low=0, high=len(headers) - 1)
        scale = entries.scales("component_scale", size)
        borrows = entries.integers("borrows", size, low=0, high=1)
        nodes = entries.integers("nodes", "n", low=0, high=size - 1)
        targets = entries.floats("y", "n", "k")
        if not len(nodes):
            raise ModelFileError("nodes: expected at least one, got none")
        owner, inner = part_of[nodes], rescaled(graph, scale)
        parts: list[Any] = []
        for number, own in enumerate(headers):
            here = np.flatnonzero(owner == number)
            rows = here if here.size else np.arange(len(nodes))
            prefix = f"part.{number}."
            more = {n.removeprefix(prefix): v for n, v in arrays.items() if n.startswith(prefix)}
            more |= {GRAPH: inner, "nodes": nodes[rows], "y": targets[rows]}
            part = restored_process(require_type(own, dict, f"parts.{number}"), more)
            if not isinstance(part.first, NodeGP):
                raise ModelFileError("parts: expected processes on a graph, got others")
            parts.append(part)
        rows_of_all = Data.of(nodes, targets)
        return cls(graph, scale, tuple(parts), part_of, borrows, rows_of_all)


def restored_on_graph(
    header: Header, arrays: Arrays
) -> tuple[PartGP | ComponentsGP | LatentGP, Graph]:
    """The process of a graph's file, and the graph of all its nodes.

    Raises
    ------
    ModelFileError
        The process is none on a graph.
    """
    if header.get("process") == ComponentsGP.__name__:
        whole = ComponentsGP.from_state(header, arrays)
        return whole, whole.graph
    process: Any = restored_process({"process": "NodeGP", **header}, arrays)
    first = process.first
    if isinstance(process, LatentGP):
        first = process.functions[0]
    if not isinstance(process, NodeGP | MixtureGP | LatentGP) or not isinstance(first, NodeGP):
        raise ModelFileError("process: expected one on a graph, got another process")
    return process, first.graph
