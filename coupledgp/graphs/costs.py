"""Forecasts of the cost of posteriors on graphs, before they are computed."""

from __future__ import annotations

import numpy as np

from coupledgp.core.budget import (
    BLOCK_RATE,
    DENSE_RATE,
    Forecast,
    eigen_forecast,
)
from coupledgp.graphs import Graph
from coupledgp.graphs.exact_evidence import tolerance_for
from coupledgp.graphs.kernel_exact import series_degree
from coupledgp.graphs.prior_recipes import SPECTRAL_LIMIT, eigenvectors_pay
from coupledgp.graphs.priors import GraphPrior, WalkPrior
from coupledgp.graphs.process import DENSE_POSTERIOR_LIMIT, VARIANCE_SECONDS, NodeSettings
from coupledgp.graphs.routes import precision_costs
from coupledgp.kernels import GraphKernel

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
    if n_nodes <= SPECTRAL_LIMIT:
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
