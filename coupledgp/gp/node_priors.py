"""How a prior over the nodes of a graph is made for a kernel: walks behind hops, or exact."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from coupledgp.couplings import LengthLaw, MatchedLaw, WalkerCoupling, parse_walker_coupling
from coupledgp.couplings.walkers.registry import LengthLawLike, parse_length_law
from coupledgp.errors import InvalidInputError
from coupledgp.features import HopPlan, plan_hops, walked_series
from coupledgp.features.walks.hops import (
    AFFORDABLE_COST,
    HOP_TOLERANCE,
    MIN_AFFORDABLE_HOPS,
    HopNodes,
    series_at_scales,
)
from coupledgp.graphs import Graph
from coupledgp.graphs.spectrum import lanczos_density
from coupledgp.inference.nodes.cholesky_prior import SolveChoice, SolvePrior, choose_solve
from coupledgp.inference.nodes.evidence import Scales
from coupledgp.inference.nodes.exact_evidence import tolerance_for
from coupledgp.inference.nodes.leading import LeadingPrior, is_leading
from coupledgp.inference.nodes.priors import GraphPrior, SeriesPrior, SpectralPrior, WalkPrior
from coupledgp.kernels import GraphKernel

# Nodes up to which all eigenvectors are computed: they take about a second.
SPECTRAL_LIMIT = 1200
# Relative error at which the walked series ends.
WALK_TOLERANCE = 1e-6
# Multiples of the kernel's scale that the matched law of lengths is a mean over: too long a law is
# cheap, too short a one is not, and one round of a fit moves the scale by a factor of two.
REDRAWN_FACTORS = (0.5, 1.0, 2.0)
# Hops end where what they leave to the walkers is this share of the root of the noise.
HIDDEN_BY_NOISE = 0.01
# Walkers behind a wide kernel make thousands of steps each, hops are a few milliseconds. The
# product of r hops is as small as 2^-r: beyond this the least float is near.
MAX_HOPS = 960

Method = Literal["auto", "spectral", "series", "cholesky"]


class ChosenPrior(NamedTuple):
    """A prior, the name of the method behind it, and why it was chosen."""

    prior: GraphPrior
    method: str
    reason: str


class NodePriorRecipe(ABC):
    """Settings that turn a kernel into a prior.

    Attributes
    ----------
    graph : Graph
        The graph as it was given; priors live on `graph.closed`.
    """

    graph: Graph

    @abstractmethod
    def make(self, kernel: GraphKernel, scales: Scales | None = None) -> ChosenPrior:
        """The prior for a kernel, accurate enough for the scales if they are known."""

    @abstractmethod
    def follows_exact(self, kernel: GraphKernel, scales: Scales) -> bool:
        """Whether the prior is the exact one as far as the evidence can tell."""

    @abstractmethod
    def redrawn(self, coupling: Any, size: int, seed: int) -> NodePriorRecipe:
        """The same settings with another coupling, number of walkers and seed."""


@dataclass(frozen=True, eq=False)
class WalkRecipe(NodePriorRecipe):
    """Random walks behind exact hops; attributes are the parameters of `GraphGPRegressor`."""

    graph: Graph
    n_walks: int
    coupling: WalkerCoupling
    length_law: LengthLawLike
    p_halt: float
    exact_hops: int | Literal["auto"]
    max_length: int | None
    hop_nodes: HopNodes
    max_hops: int | None
    seed: int

    def make(self, kernel: GraphKernel, scales: Scales | None = None) -> ChosenPrior:
        """See the base class."""
        plan = self.plan(kernel, scales)
        return ChosenPrior(self.behind(kernel, plan), "walks", plan.reason)

    def follows_exact(self, kernel: GraphKernel, scales: Scales) -> bool:
        """See the base class."""
        return self.plan(kernel, scales).predicted_error <= HOP_TOLERANCE

    def redrawn(self, coupling: Any, size: int, seed: int) -> WalkRecipe:
        """See the base class."""
        parsed = parse_walker_coupling(coupling)
        return replace(self, coupling=parsed, n_walks=size, seed=seed)

    def plan(self, kernel: GraphKernel, scales: Scales | None) -> HopPlan:
        """Hops whose walked rest the noise hides: an error e adds e^2 of the variance of f."""
        tolerance = HOP_TOLERANCE
        if scales is not None:
            density = lanczos_density(self.graph.closed)
            mean = float(density.weights @ kernel.spectral(density.nodes))
            share = scales.noise / max(scales.outputscale * mean, np.finfo(float).tiny)
            tolerance = min(tolerance, HIDDEN_BY_NOISE * float(np.sqrt(share)))
        return plan_hops(
            self.graph.closed,
            kernel,
            self.n_walks,
            self.exact_hops,
            self.hop_nodes,
            self._most_hops() if self.max_hops is None else self.max_hops,
            tolerance,
        )

    def _most_hops(self) -> int:
        """As many as cost some milliseconds a product; `plan_hops` stops earlier by itself."""
        affordable = AFFORDABLE_COST // max(self.graph.indices.size, 1)
        return max(MIN_AFFORDABLE_HOPS, min(affordable, MAX_HOPS))

    def behind(self, kernel: GraphKernel, plan: HopPlan) -> WalkPrior:
        """The prior of walkers behind given hops."""
        law = self._length_law(kernel, plan)
        series = walked_series(kernel, plan, WALK_TOLERANCE)
        longest = self.max_length
        if longest is None:
            natural = law.natural_length()
            longest = natural if isinstance(law, MatchedLaw) else max(series.size - 1, 0)
        padded = np.zeros(longest + 1)
        padded[: min(series.size, longest + 1)] = series[: longest + 1]
        lengths = self.coupling.lengths.prepare(law, padded, longest)
        coupling = WalkerCoupling(lengths, self.coupling.steps)
        return WalkPrior(
            self.graph.closed, kernel, plan, self.n_walks, coupling, law, longest, self.seed
        )

    def _length_law(self, kernel: GraphKernel, plan: HopPlan) -> LengthLaw:
        """The length law; a matched one is the mean over neighbouring scales."""
        series = partial(series_at_scales, kernel, plan, REDRAWN_FACTORS)
        return parse_length_law(self.length_law, self.p_halt, series)


@dataclass(frozen=True, eq=False)
class ExactRecipe(NodePriorRecipe):
    """The exact kernel by the cheapest method; attributes as in `ExactGraphGPRegressor`."""

    graph: Graph
    method: Method = "auto"
    tolerance: float = 1e-8

    def make(self, kernel: GraphKernel, scales: Scales | None = None) -> ChosenPrior:
        """See the base class."""
        graph = self.graph.closed
        if self.method == "spectral" or (
            self.method == "auto" and self.graph.n_nodes <= SPECTRAL_LIMIT
        ):
            return ChosenPrior(
                SpectralPrior(graph, kernel), "spectral", f"{self.graph.n_nodes} nodes"
            )
        tolerance = self.tolerance
        if scales is not None:  # what the noise does not hide counts
            tolerance = min(tolerance, tolerance_for(scales.noise / scales.outputscale))
        if self.method == "auto" and is_leading(graph, kernel, tolerance):
            prior = LeadingPrior(graph, kernel, tolerance)
            reason = f"{prior.rank} eigenpairs are all of it, to {tolerance:.2g}"
            return ChosenPrior(prior, "leading", reason)
        choice, order = SolveChoice(self.method == "cholesky", "as asked"), None
        if self.method == "auto":
            choice, order = choose_solve(graph, kernel, tolerance)
        if choice.factorise:
            return ChosenPrior(SolvePrior(graph, kernel, order), "cholesky", choice.reason)
        return ChosenPrior(SeriesPrior(graph, kernel, tolerance), "series", choice.reason)

    def follows_exact(self, kernel: GraphKernel, scales: Scales) -> bool:
        """See the base class."""
        return True

    def redrawn(self, coupling: Any, size: int, seed: int) -> NodePriorRecipe:
        """Refuse: nothing is drawn."""
        raise InvalidInputError(
            "model: expected one with frequencies or walkers to draw again, got an exact GP"
        )
