"""Recipes that turn a graph kernel into a prior over nodes: walks behind hops, or exact."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from coupledgp.core.budget import BLOCK_RATE, eigen_forecast
from coupledgp.couplings import LengthLaw, MatchedLaw, WalkerCoupling, parse_walker_coupling
from coupledgp.couplings.walkers.lengths import LENGTH_LIMIT
from coupledgp.couplings.walkers.registry import (
    LengthLawLike,
    check_length_law,
    length_law_text,
    parse_length_law,
)
from coupledgp.errors import InvalidInputError, NumericalError
from coupledgp.features import HopPlan, plan_hops, walked_series
from coupledgp.graphs import Graph
from coupledgp.graphs.evidence import Scales, tolerance_for
from coupledgp.graphs.hops import (
    AFFORDABLE_COST,
    HOP_TOLERANCE,
    MIN_AFFORDABLE_HOPS,
    HopNodes,
    series_at_scales,
)
from coupledgp.graphs.laplacian_power import SolveChoice, SolvePrior, choose_solve
from coupledgp.graphs.priors import GraphPrior, SeriesPrior, SpectralPrior, WalkPrior, scaled
from coupledgp.graphs.spectral import lanczos_density, series_degree
from coupledgp.graphs.walk_lengths import WALKS_LIMIT
from coupledgp.ground.codec import check_range, named, stored
from coupledgp.ground.devices import CPU
from coupledgp.ground.tensors import torch
from coupledgp.ground.validation import SMALLEST
from coupledgp.kernels import GraphKernel

# Largest numbers of nodes for which all eigenvectors are computed: in about a second, and where a
# series costs more.
SPECTRAL_NODES, MOST_SPECTRAL = 1200, 4096
# Relative error at which the walked series is cut: far below the error of the walks.
WALK_TOLERANCE = 1e-6
# Multiples of the kernel's scale over which the matched law of lengths is a mean. One round of a
# fit moves the scale by up to a factor of two, and walks that are too short cost more accuracy than
# walks that are too long.
REDRAWN_FACTORS = (0.5, 1.0, 2.0)
# Share of the noise's standard deviation below which the error of the walks is hidden by the noise,
# so that more hops would not show.
HIDDEN_BY_NOISE = 0.01
# Share of a kernel's root beyond the longest series with which walks are still of use.
LONG_TAIL = 0.4
# Most hops. They take a few milliseconds, where walkers behind a wide kernel make thousands of
# steps each. The product of r hops is as small as 2^-r, which for more hops nears the least float.
MAX_HOPS = 960

Method = Literal["auto", "spectral", "series", "cholesky"]
WalkMethod = Literal["auto", "walks"]


class ChosenPrior(NamedTuple):
    """A prior, the name of its method, and the reason for the method in words."""

    prior: GraphPrior
    method: str
    reason: str


class NodePriorRecipe(ABC):
    """Settings that turn a kernel into a prior.

    Attributes
    ----------
    graph : Graph
        The graph as it was given; priors live on `graph.closed`.
    device : torch.device
        Where products with exact kernels are computed.
    """

    graph: Graph
    device: torch.device

    @property
    @abstractmethod
    def is_exact(self) -> bool:
        """Whether priors are of exact kernels, by whatever way costs least."""

    @abstractmethod
    def make(self, kernel: GraphKernel, scales: Scales | None = None) -> ChosenPrior:
        """Make the prior of a kernel, as accurate as the scales need if they are known."""

    @abstractmethod
    def follows_exact(self, kernel: GraphKernel, scales: Scales) -> bool:
        """Whether the evidence under the prior equals that under the exact kernel to its error."""

    @abstractmethod
    def redrawn(self, coupling: Any, size: int, seed: int) -> NodePriorRecipe:
        """The same settings with another coupling, number of walkers and seed."""


@stored
@dataclass(frozen=True, eq=False)
class WalkRecipe(NodePriorRecipe):
    """Random walks behind exact hops; attributes are the parameters of `GraphGPRegressor`.

    With the method `"auto"` nothing is walked on graphs of more than `SPECTRAL_NODES` nodes: exact
    ways to the same law cost less there. A device computes their products; none computes walks.
    """

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
    method: WalkMethod = "walks"
    device: torch.device = field(default=CPU, metadata={"stored": False})

    def as_stored(self) -> WalkRecipe:
        """The recipe, with the name of a law of lengths that a function makes."""
        law = self.length_law
        if isinstance(law, (str, LengthLaw)):
            return self
        return replace(self, length_law=named(length_law_text(law), "length_law", law))

    def read_back(self) -> WalkRecipe:
        """The recipe of a file; settings of walks that no fit takes are refused."""
        check_range(self, 1, WALKS_LIMIT, "n_walks")
        check_range(self, SMALLEST, 1.0, "p_halt")
        check_range(self, 0, LENGTH_LIMIT, "max_length", "max_hops")
        check_range(self, 0, 2**63, "seed")
        if self.exact_hops != "auto":
            check_range(self, 0, LENGTH_LIMIT, "exact_hops")
        check_length_law(self.length_law)
        return self

    @property
    def is_exact(self) -> bool:
        return self.method == "auto" and self.graph.n_nodes > SPECTRAL_NODES

    def make(self, kernel: GraphKernel, scales: Scales | None = None) -> ChosenPrior:
        if self.is_exact:
            return self.exact.make(kernel, scales)
        self._refuse_long(kernel)
        plan = self.plan(kernel, scales)
        return ChosenPrior(self.behind(kernel, plan), "walks", plan.reason)

    @property
    def exact(self) -> ExactRecipe:
        """The recipe of the exact kernel."""
        return ExactRecipe(self.graph, device=self.device)

    def follows_exact(self, kernel: GraphKernel, scales: Scales) -> bool:
        return self.is_exact or self.plan(kernel, scales).predicted_error <= HOP_TOLERANCE

    def redrawn(self, coupling: Any, size: int, seed: int) -> WalkRecipe:
        parsed = parse_walker_coupling(coupling)
        return replace(self, coupling=parsed, n_walks=size, seed=seed, method="walks")

    def plan(self, kernel: GraphKernel, scales: Scales | None) -> HopPlan:
        """Plan hops so that the noise hides the error of the walked rest.

        An error e, relative to the standard deviation of f, adds e^2 times the variance of f.
        """
        tolerance = HOP_TOLERANCE
        if scales is not None:
            density = lanczos_density(self.graph.closed)
            mean = float(density.weights @ kernel.spectral(density.eigenvalues))
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

    def _refuse_long(self, kernel: GraphKernel) -> None:
        """Refuse a kernel whose power series is cut where it has hardly begun.

        That happens on irregular triangulations, where a diffusion takes millions of steps.
        """
        if self.graph.time_unit == 1.0:
            return
        top = float(kernel.root(np.ones(1))[0])
        if kernel.tail(kernel.max_terms) > LONG_TAIL * top:
            raise NumericalError(
                f"kernel: expected walks of fewer than {kernel.max_terms} steps, {kernel!r} on "
                f"{self.graph!r} takes more; ExactGraphGPRegressor factorises instead, best with a "
                "kernel 'regularized-laplacian' or 'matern' of a whole exponent"
            )

    def _most_hops(self) -> int:
        """Largest number of hops of which a product takes some milliseconds at most."""
        affordable = AFFORDABLE_COST // max(self.graph.indices.size, 1)
        return max(MIN_AFFORDABLE_HOPS, min(affordable, MAX_HOPS))

    def behind(self, kernel: GraphKernel, plan: HopPlan) -> WalkPrior:
        """Make the prior of walkers behind given hops."""
        law = self._length_law(kernel, plan)
        series = walked_series(kernel, plan, WALK_TOLERANCE)
        longest = self.max_length
        if longest is None:
            natural = law.natural_length()
            longest = natural if isinstance(law, MatchedLaw) else max(series.size - 1, 0)
        longest = min(longest, LENGTH_LIMIT)  # as walks are cut when they are sampled
        padded = np.zeros(longest + 1)
        padded[: min(series.size, longest + 1)] = series[: longest + 1]
        lengths = self.coupling.lengths.prepare(law, padded, longest)
        coupling = WalkerCoupling(lengths, self.coupling.steps)
        return WalkPrior(
            self.graph.closed, kernel, plan, self.n_walks,
            coupling, law, longest, self.seed,
        )  # fmt: skip

    def _length_law(self, kernel: GraphKernel, plan: HopPlan) -> LengthLaw:
        """Make the law of lengths; a matched one is the mean over neighbouring scales."""
        series = partial(series_at_scales, kernel, plan, REDRAWN_FACTORS)
        return parse_length_law(self.length_law, self.p_halt, series)


@stored
@dataclass(frozen=True, eq=False)
class ExactRecipe(NodePriorRecipe):
    """The exact kernel by the cheapest method; attributes as in `ExactGraphGPRegressor`.

    On another device than the CPU that is the series, the only method whose products it has.
    """

    graph: Graph
    method: Method = "auto"
    tolerance: float = 1e-8
    device: torch.device = field(default=CPU, metadata={"stored": False})

    def read_back(self) -> ExactRecipe:
        """The recipe of a file."""
        check_range(self, 1e-15, 1.0, "tolerance")
        return self

    @property
    def is_exact(self) -> bool:
        return self.method == "auto"

    def make(self, kernel: GraphKernel, scales: Scales | None = None) -> ChosenPrior:
        prior, method, reason = self._unscaled(kernel, scales)
        return ChosenPrior(scaled(prior), method, reason)

    def _unscaled(self, kernel: GraphKernel, scales: Scales | None) -> ChosenPrior:
        """The prior without the scales of the nodes."""
        graph = self.graph.closed
        if self.device != CPU:
            return self._series(kernel, scales)
        if self.method == "spectral" or (
            self.method == "auto" and self.graph.n_nodes <= SPECTRAL_NODES
        ):
            return ChosenPrior(
                SpectralPrior(graph, kernel), "spectral", f"{self.graph.n_nodes} nodes"
            )
        tolerance = self._tolerance(scales)
        if self.method in ("cholesky", "series"):
            choice = SolveChoice(self.method == "cholesky", "as asked")
        else:
            choice = choose_solve(graph, kernel, tolerance)
        if choice.factorise:
            return ChosenPrior(SolvePrior(graph, kernel), "cholesky", choice.reason)
        if self.method == "auto" and eigenvectors_pay(graph, kernel, tolerance):
            reason = f"a series of {series_degree(kernel.spectral, tolerance)} terms costs more"
            return ChosenPrior(SpectralPrior(graph, kernel), "spectral", reason)
        return ChosenPrior(SeriesPrior(graph, kernel, tolerance), "series", choice.reason)

    def _tolerance(self, scales: Scales | None) -> float:
        """The tolerance of the series: only errors that the noise does not hide matter."""
        if scales is None:
            return self.tolerance
        return min(self.tolerance, tolerance_for(scales.noise / scales.outputscale))

    def _series(self, kernel: GraphKernel, scales: Scales | None) -> ChosenPrior:
        """The prior by a series on a device."""
        prior = SeriesPrior(self.graph.closed, kernel, self._tolerance(scales), self.device)
        return ChosenPrior(prior, "series", f"products on {self.device}")

    def follows_exact(self, kernel: GraphKernel, scales: Scales) -> bool:
        return True

    def redrawn(self, coupling: Any, size: int, seed: int) -> NodePriorRecipe:
        """Refuse, since an exact prior draws nothing."""
        raise InvalidInputError(
            "model: expected one with frequencies or walkers to draw again, got an exact GP"
        )


def eigenvectors_pay(graph: Graph, kernel: GraphKernel, tolerance: float) -> bool:
    """Whether all eigenvectors cost less than a column of the kernel's series for each node."""
    if graph.n_nodes > MOST_SPECTRAL:
        return False
    work = float(graph.n_nodes + graph.indices.size) * graph.n_nodes
    series = series_degree(kernel.spectral, tolerance) * work / BLOCK_RATE
    return eigen_forecast(graph.n_nodes).seconds < series
