"""Ways to the exact evidence of all observations on a graph, and forecasts of their cost.

Forecasts of the cost of posteriors on graphs, before they are computed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf
from typing import NamedTuple

import numpy as np

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
from coupledgp.graphs.evidence import (
    SPECTRAL_LIMIT,
    ExactKernelEvidence,
    ObservedEvidence,
    PrecisionEvidence,
    tolerance_for,
)
from coupledgp.graphs.laplacian_power import power_and_scale, precision_work
from coupledgp.graphs.priors import GraphPrior, WalkPrior
from coupledgp.graphs.process import DENSE_POSTERIOR_LIMIT, VARIANCE_SECONDS, NodeSettings
from coupledgp.graphs.recipes import SPECTRAL_NODES, eigenvectors_pay
from coupledgp.graphs.spectral import (
    DEGREE_LIMIT,
    MOMENT_BYTES,
    ChebyshevMoments,
    SpectralMoments,
    series_degree,
)
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
    data: NodeObservations, kernel: GraphKernel, ratio: float, n_evaluations: int
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
    found = [dense_route(data), precision_route(data, kernel), moments_route(data, kernel, ratio)]
    routes = [route for route in found if route is not None]
    return min(routes, key=lambda route: route.forecast(n_evaluations).seconds, default=None)


# Steps of walks a second, and steps of conjugate gradients that a sample takes.
STEP_RATE, STEPS = 2.2e7, 50


def posterior_forecast(
    graph: Graph, kernel: GraphKernel, ratio: float, n: int, settings: NodeSettings
) -> Forecast:
    """Cost of the posterior mean and standard deviations of all nodes, by the cheapest way.

    Parameters
    ----------
    graph, kernel
        The graph and the kernel.
    ratio
        Noise variance over output scale.
    n
        Number of observations.
    settings
        Settings of the posterior.
    """
    n_nodes, tolerance = graph.n_nodes, tolerance_for(ratio)
    if n_nodes <= SPECTRAL_NODES:
        return eigen_forecast(n_nodes)
    costs = precision_costs(graph, kernel)
    if costs is not None:
        return costs.setup.plus(costs.each)
    work = float(n**3 / 3 + n**2 * n_nodes) / DENSE_RATE
    dense = Forecast(work, 24.0 * float(n) * n_nodes)
    if eigenvectors_pay(graph, kernel, tolerance):
        return eigen_forecast(n_nodes).plus(dense)
    product = product_seconds(graph, kernel, ratio)
    sampled = Forecast(
        STEPS * settings.n_variance_samples * product, 48.0 * settings.n_variance_samples * n_nodes
    )
    if not settings.is_dense(n, n_nodes, DENSE_POSTERIOR_LIMIT):
        return sampled
    variances = min(0.5 * n_nodes * product, VARIANCE_SECONDS)
    return dense.plus(Forecast(n * product + variances))


def walk_forecast(prior: GraphPrior, n: int) -> Forecast:
    """Cost of walks from n observations and from all nodes; nothing for other priors."""
    if not isinstance(prior, WalkPrior) or prior.max_length is None:
        return Forecast(0.0)
    steps = float(np.mean(prior.n_walks)) * float(prior.law.survival(prior.max_length).sum())
    return Forecast((n + prior.graph.n_nodes) * steps / STEP_RATE)


def probes_forecast(
    graph: Graph, kernel: GraphKernel, ratio: float, settings: NodeSettings
) -> Forecast:
    """Cost of the evidence by random probes."""
    columns = settings.n_probes + 1
    seconds = STEPS * columns * product_seconds(graph, kernel, ratio)
    return Forecast(seconds, 8.0 * STEPS * columns * graph.n_nodes)


def product_seconds(graph: Graph, kernel: GraphKernel, ratio: float) -> float:
    """Seconds of a product of one column among many with a kernel, by its Chebyshev series."""
    work = float(graph.n_nodes + graph.indices.size)
    return series_degree(kernel.spectral, tolerance_for(ratio)) * work / BLOCK_RATE
