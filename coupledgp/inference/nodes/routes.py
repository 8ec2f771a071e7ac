"""Ways to the exact evidence of all observations on a graph, and forecasts of their cost."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf
from typing import NamedTuple

import numpy as np

from coupledgp.errors import InvalidInputError, NumericalError
from coupledgp.graphs import Graph
from coupledgp.graphs.eigenpairs import leading_eigenpairs, leading_work
from coupledgp.inference.nodes.cholesky_prior import power_and_scale
from coupledgp.inference.nodes.exact_evidence import (
    SPECTRAL_LIMIT,
    EvidenceTerms,
    ExactKernelEvidence,
    HiddenEvidence,
    ObservedEvidence,
    inverse_of,
    tolerance_for,
)
from coupledgp.inference.nodes.forecast import (
    BLOCK_RATE,
    DENSE_RATE,
    ENTRY_SECONDS,
    SPARSE_RATE,
    Forecast,
    eigen_forecast,
    factor_seconds,
)
from coupledgp.inference.nodes.leading_evidence import LeadingEvidence, pairs_needed
from coupledgp.inference.nodes.moments import (
    LEADING_ENTRIES,
    MOMENT_BYTES,
    BlockColumns,
    ChebyshevMoments,
    GraphMoments,
    SpectralMoments,
    leading_count,
    leading_of,
)
from coupledgp.inference.nodes.precision import precision_work
from coupledgp.inference.nodes.precision_evidence import PrecisionEvidence
from coupledgp.kernels import GraphKernel
from coupledgp.kernels.graph.exact import DEGREE_LIMIT, series_degree
from coupledgp.random import FloatArray, IntArray

# Factor between the degree of a series at the start of a search and the largest one of the search.
GROWTH = 1.5
# Bytes of moments that are read a second.
READ_RATE = 4e9
# Part of a kernel beyond its eigenpairs, as a share of the noise, that a search does not see: the
# evidence changes by less than a nat.
UNSEEN = 1e-4
# Number of eigenpairs, as a multiple of the number that a kernel needs at first, and its limit.
MORE_PAIRS, MOST_PAIRS = 1.3, 1500


class EvidenceRoute(NamedTuple):
    """A way to the evidence.

    Attributes
    ----------
    name, reason : str
        Short name, and the matrices that it works on.
    setup, each : Forecast
        Cost of the preparations, and of one evaluation with its gradient.
    make : function
        Makes the evidence.
    """

    name: str
    reason: str
    setup: Forecast
    each: Forecast
    make: Callable[[], ExactKernelEvidence]

    def forecast(self, n_evaluations: int) -> Forecast:
        """Cost of a search."""
        seconds = self.setup.seconds + n_evaluations * self.each.seconds
        return Forecast(seconds, max(self.setup.bytes, self.each.bytes))


class NodeObservations(NamedTuple):
    """Data of a fit on a graph.

    Attributes
    ----------
    graph : Graph
    nodes : IntArray (n,)
        Observed node numbers.
    targets : FloatArray (n, k)
        Normalised targets.
    seed : int
        Seed of the probes of traces.
    """

    graph: Graph
    nodes: IntArray
    targets: FloatArray
    seed: int

    @property
    def uses_hidden(self) -> bool:
        """Whether fewer nodes are hidden than observed, and their block may be taken."""
        if self.graph.node_scale is not None:
            return False
        n = self.nodes.size
        return self.graph.n_nodes < 2 * n and np.unique(self.nodes).size == n

    @property
    def block(self) -> int:
        """Number of nodes of the block whose moments are taken."""
        n = self.nodes.size
        return self.graph.n_nodes - n if self.uses_hidden else n

    @property
    def work(self) -> float:
        """Multiply-adds of a product of one column with `W~`."""
        return float(self.graph.n_nodes + self.graph.indices.size)


def dense_route(data: NodeObservations) -> EvidenceRoute | None:
    """The route by all eigenvectors, on graphs of up to `SPECTRAL_LIMIT` nodes."""
    n_nodes, m = data.graph.n_nodes, float(data.block)
    if n_nodes > SPECTRAL_LIMIT:
        return None
    each = (3 * n_nodes * m**2 + 2 * m**3) / DENSE_RATE
    reason = f"all eigenvectors of {n_nodes} nodes"
    return EvidenceRoute(
        "dense", reason, eigen_forecast(n_nodes), Forecast(each, 40 * m**2),
        partial(block_evidence, data, SpectralMoments),
    )  # fmt: skip


def moments_route(
    data: NodeObservations, kernel: GraphKernel, ratio: float
) -> EvidenceRoute | None:
    """The route by Chebyshev moments between the observed nodes, or between the hidden ones."""
    tolerance, m = tolerance_for(ratio), float(data.block)
    degree = GROWTH * series_degree(kernel.spectral, tolerance)
    if data.uses_hidden:
        degree = max(degree, GROWTH * series_degree(partial(inverse_of, kernel, ratio), tolerance))
    size = 4.0 * degree * m**2  # bytes: half of a symmetric block for each moment
    if degree > DEGREE_LIMIT or size > MOMENT_BYTES:
        return None
    setup = degree * data.work * (m + 64) / BLOCK_RATE
    each = 3 * size / READ_RATE + 3 * m**3 / DENSE_RATE
    kind = "hidden" if data.uses_hidden else "observed"
    reason = f"{degree:.0f} Chebyshev moments of {m:.0f} {kind} nodes"
    bytes_ = size + 24.0 * data.graph.n_nodes * (m + 64) + 40 * m**2
    return EvidenceRoute(
        "moments", reason, Forecast(setup, bytes_), Forecast(each, bytes_),
        partial(
            block_evidence, data,
            partial(ChebyshevMoments, seed=data.seed, max_bytes=int(max(size, 2**20))),
        ),
    )  # fmt: skip


def precision_route(data: NodeObservations, kernel: GraphKernel) -> EvidenceRoute | None:
    """The route by sparse precisions, for whole powers of the Laplacian with thin factors."""
    costs = precision_costs(data.graph, kernel)
    if costs is None:
        return None
    power, _ = power_and_scale(kernel)
    return EvidenceRoute(
        "precision", costs.reason, costs.setup, costs.each,
        partial(PrecisionEvidence, data.graph, power, data.nodes, data.targets),
    )  # fmt: skip


class PrecisionCosts(NamedTuple):
    """Costs of the route by sparse precisions; attributes as in `EvidenceRoute`."""

    reason: str
    setup: Forecast
    each: Forecast


def precision_costs(graph: Graph, kernel: GraphKernel) -> PrecisionCosts | None:
    """Costs of a factor and of all its variances; None for kernels and graphs without one."""
    try:
        power, _ = power_and_scale(kernel)
    except InvalidInputError:
        return None
    work = precision_work(graph, power)
    if work.bytes == inf:
        return None
    # The factors of the precision given observations, and of `I + s L~` where that is another one.
    root = precision_work(graph, 1)
    products = float(graph.n_nodes + graph.indices.size) / SPARSE_RATE
    factors = factor_seconds(work.flops) + factor_seconds(root.flops)
    each = Forecast(factors + products, work.bytes)
    return PrecisionCosts(work.reason, Forecast(ENTRY_SECONDS * work.entries, work.bytes), each)


class CoveredEvidence(LeadingEvidence):
    """Evidence from eigenpairs, which refuses kernels that need more eigenpairs."""

    def terms(self, kernel: GraphKernel, ratio: float) -> EvidenceTerms:
        """Terms of the evidence, for kernels that are constant beyond the pairs.

        Raises
        ------
        NumericalError
            The kernel is not constant beyond the pairs, or the covariance has no factor.
        """
        if not self.covers(kernel, ratio, UNSEEN * ratio):
            raise NumericalError(f"kernel: {kernel!r} needs more than {self.n_pairs} eigenpairs")
        return super().terms(kernel, ratio)


def leading_route(
    data: NodeObservations, kernel: GraphKernel, ratio: float
) -> EvidenceRoute | None:
    """The route by leading eigenpairs, for kernels that are constant beyond some hundreds."""
    graph, usual = data.graph, leading_count(data.graph)
    needed = pairs_needed(graph, kernel, ratio, UNSEEN * ratio)
    n_pairs = max(int(MORE_PAIRS * needed), usual)
    if n_pairs > min(MOST_PAIRS, graph.n_nodes // 4, LEADING_ENTRIES * 2 // graph.n_nodes):
        return None
    work = leading_work(graph, n_pairs)
    size = float(n_pairs)
    preparation = work.flops / DENSE_RATE + data.nodes.size * size**2 / DENSE_RATE
    bytes_ = work.bytes + 16.0 * data.nodes.size * size
    each = Forecast(6 * size**3 / DENSE_RATE, 40 * size**2)

    def make() -> ExactKernelEvidence:
        pairs = leading_of(graph) if n_pairs == usual else leading_eigenpairs(graph, n_pairs)
        return CoveredEvidence(graph, data.nodes, data.targets, pairs)

    reason = f"{n_pairs} leading eigenpairs"
    return EvidenceRoute("leading", reason, Forecast(preparation, bytes_), each, make)


def block_evidence(
    data: NodeObservations, make_moments: Callable[[BlockColumns], GraphMoments]
) -> ExactKernelEvidence:
    """Evidence from the block of the hidden nodes or of the observed ones."""
    make = HiddenEvidence if data.uses_hidden else ObservedEvidence
    return make(data.graph, data.nodes, data.targets, make_moments)


def cheapest_route(
    data: NodeObservations,
    kernel: GraphKernel,
    ratio: float,
    n_evaluations: int,
    without: str | None = None,
) -> EvidenceRoute | None:
    """The way whose search costs least from a kernel and noise ratio on; None if there is none.

    Parameters
    ----------
    data
        Data of the fit.
    kernel, ratio
        Where the search begins.
    n_evaluations
        Number of evaluations that are expected.
    without
        Name of a way that is left out.
    """
    found = [
        dense_route(data),
        precision_route(data, kernel),
        leading_route(data, kernel, ratio),
        moments_route(data, kernel, ratio),
    ]
    routes = [route for route in found if route is not None and route.name != without]
    return min(routes, key=lambda route: route.forecast(n_evaluations).seconds, default=None)
