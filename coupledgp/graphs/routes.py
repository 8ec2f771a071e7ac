"""Ways to the exact evidence of all observations on a graph, and forecasts of their cost."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf
from typing import NamedTuple

from coupledgp.core.budget import (
    BLOCK_RATE,
    DENSE_RATE,
    ENTRY_SECONDS,
    SPARSE_RATE,
    Forecast,
    eigen_forecast,
    factor_seconds,
)
from coupledgp.errors import InvalidInputError
from coupledgp.graphs import Graph
from coupledgp.graphs.cholesky_prior import power_and_scale
from coupledgp.graphs.exact_evidence import (
    SPECTRAL_LIMIT,
    ExactKernelEvidence,
    ObservedEvidence,
    tolerance_for,
)
from coupledgp.graphs.kernel_exact import DEGREE_LIMIT, series_degree
from coupledgp.graphs.moments import MOMENT_BYTES, ChebyshevMoments, SpectralMoments
from coupledgp.graphs.precision import precision_work
from coupledgp.graphs.precision_evidence import PrecisionEvidence
from coupledgp.kernels import GraphKernel
from coupledgp.random import FloatArray, IntArray

# Factor between the degree of a series at the start of a search and the largest one of the search.
GROWTH = 1.5
# Bytes of moments that are read a second.
READ_RATE = 4e9


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
        Seed of the parts on which families are compared.
    """

    graph: Graph
    nodes: IntArray
    targets: FloatArray
    seed: int

    @property
    def work(self) -> float:
        """Multiply-adds of a product of one column with `W~`."""
        return float(self.graph.n_nodes + self.graph.indices.size)


def dense_route(data: NodeObservations) -> EvidenceRoute | None:
    """The route by all eigenvectors, on graphs of up to `SPECTRAL_LIMIT` nodes."""
    n_nodes, n = data.graph.n_nodes, float(data.nodes.size)
    if n_nodes > SPECTRAL_LIMIT:
        return None
    each = (3 * n_nodes * n**2 + 2 * n**3) / DENSE_RATE
    return EvidenceRoute(
        "dense", f"all eigenvectors of {n_nodes} nodes", eigen_forecast(n_nodes),
        Forecast(each, 40 * n**2),
        partial(ObservedEvidence, data.graph, data.nodes, data.targets, SpectralMoments),
    )  # fmt: skip


def moments_route(
    data: NodeObservations, kernel: GraphKernel, ratio: float
) -> EvidenceRoute | None:
    """The route by Chebyshev moments between the observed nodes."""
    n = float(data.nodes.size)
    degree = GROWTH * series_degree(kernel.spectral, tolerance_for(ratio))
    size = 4.0 * degree * n**2  # bytes: half of a symmetric block for each moment
    if degree > DEGREE_LIMIT or size > MOMENT_BYTES:
        return None
    setup = degree * data.work * n / BLOCK_RATE
    each = 3 * size / READ_RATE + 3 * n**3 / DENSE_RATE
    bytes_ = size + 24.0 * data.graph.n_nodes * n + 40 * n**2
    moments = partial(ChebyshevMoments, max_bytes=int(max(size, 2**20)))
    make = partial(ObservedEvidence, data.graph, data.nodes, data.targets, moments)
    reason = f"{degree:.0f} Chebyshev moments of {n:.0f} nodes"
    return EvidenceRoute("moments", reason, Forecast(setup, bytes_), Forecast(each, bytes_), make)


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


def cheapest_route(
    data: NodeObservations,
    kernel: GraphKernel,
    ratio: float,
    n_evaluations: int,
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
    """
    found = [
        dense_route(data),
        precision_route(data, kernel),
        moments_route(data, kernel, ratio),
    ]
    routes = [route for route in found if route is not None]
    return min(routes, key=lambda route: route.forecast(n_evaluations).seconds, default=None)
