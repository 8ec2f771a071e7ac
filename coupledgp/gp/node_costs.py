"""What posteriors on graphs cost, before they are computed."""

from __future__ import annotations

from coupledgp.gp.node_priors import SPECTRAL_LIMIT
from coupledgp.gp.nodes import DENSE_POSTERIOR_LIMIT, NodeSettings
from coupledgp.graphs import Graph
from coupledgp.inference.nodes.exact_evidence import tolerance_for
from coupledgp.inference.nodes.forecast import DENSE_RATE, SPARSE_RATE, Forecast, eigen_forecast
from coupledgp.inference.nodes.routes import precision_costs
from coupledgp.kernels import GraphKernel
from coupledgp.kernels.graph.exact import series_degree

# Steps of conjugate gradients, and of Lanczos' method, that are expected.
STEPS = 50


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
    n_nodes = graph.n_nodes
    if n_nodes <= SPECTRAL_LIMIT:
        return eigen_forecast(n_nodes)
    costs = precision_costs(graph, kernel)
    if costs is not None:
        return costs.setup.plus(costs.each)
    product = product_seconds(graph, kernel, ratio)
    if settings.is_dense(n, n_nodes, DENSE_POSTERIOR_LIMIT):
        dense = float(n) ** 2 * (n + 2 * n_nodes) / DENSE_RATE
        return Forecast(n * product + dense, 8.0 * (2 * float(n) ** 2 + n * n_nodes))
    columns = settings.n_variance_samples
    return Forecast(STEPS * columns * product, 48.0 * columns * n_nodes)


def probes_forecast(
    graph: Graph, kernel: GraphKernel, ratio: float, settings: NodeSettings
) -> Forecast:
    """Cost of the evidence by random probes."""
    columns = settings.n_probes + 1
    seconds = STEPS * columns * product_seconds(graph, kernel, ratio)
    return Forecast(seconds, 8.0 * STEPS * columns * graph.n_nodes)


def product_seconds(graph: Graph, kernel: GraphKernel, ratio: float) -> float:
    """Seconds of a product of one column with a kernel, by its Chebyshev series."""
    work = float(graph.n_nodes + graph.indices.size)
    return series_degree(kernel.spectral, tolerance_for(ratio)) * work / SPARSE_RATE
