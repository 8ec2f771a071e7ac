"""Forecasts of the cost of posteriors on graphs, before they are computed."""

from __future__ import annotations

import numpy as np

from coupledgp.gp.node_priors import SPECTRAL_LIMIT
from coupledgp.gp.nodes import DENSE_POSTERIOR_LIMIT, MOST_BLOCK, STEPS, NodeSettings
from coupledgp.graphs import Graph
from coupledgp.graphs.eigenpairs import leading_work
from coupledgp.inference.nodes.exact_evidence import tolerance_for
from coupledgp.inference.nodes.forecast import (
    BLOCK_RATE,
    DENSE_RATE,
    Forecast,
    eigen_forecast,
)
from coupledgp.inference.nodes.hidden_posterior import block_works
from coupledgp.inference.nodes.leading_evidence import pairs_needed
from coupledgp.inference.nodes.moments import leading_count
from coupledgp.inference.nodes.priors import GraphPrior, WalkPrior
from coupledgp.inference.nodes.rational import diagonal_seconds
from coupledgp.inference.nodes.routes import precision_costs
from coupledgp.kernels import GraphKernel
from coupledgp.kernels.graph.exact import series_degree

# Steps of walks a second.
STEP_RATE = 2.2e7


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
    pairs = leading_costs(graph, kernel, ratio)
    product = product_seconds(graph, kernel, ratio)
    columns = settings.n_variance_samples
    sampled = Forecast(STEPS * columns * product, 48.0 * columns * n_nodes)
    block = _block_forecast(graph, kernel, ratio, n)
    if settings.is_dense(n, n_nodes, DENSE_POSTERIOR_LIMIT):
        options = [block]
    else:
        options = [sampled, block] if settings.solver == "auto" else [sampled]
    if pairs is not None:
        options.append(pairs)
    return min(options)


def walk_forecast(prior: GraphPrior, n: int) -> Forecast:
    """Cost of walks from n observations and from all nodes; nothing for other priors."""
    if not isinstance(prior, WalkPrior) or prior.max_length is None:
        return Forecast(0.0)
    steps = float(np.mean(prior.n_walks)) * float(prior.law.survival(prior.max_length).sum())
    return Forecast((n + prior.graph.n_nodes) * steps / STEP_RATE)


def _block_forecast(graph: Graph, kernel: GraphKernel, ratio: float, n: int) -> Forecast:
    """Cost by a block of n observed nodes, or of hidden ones, with the variances of the prior."""
    tolerance = tolerance_for(ratio)
    works = block_works(graph, kernel, n, ratio, tolerance, MOST_BLOCK)
    seconds = min(works) / (2 * BLOCK_RATE) + diagonal_seconds(graph, kernel.spectral, tolerance)
    return Forecast(seconds, 24.0 * min(n, graph.n_nodes - n) ** 2)


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


def leading_costs(graph: Graph, kernel: GraphKernel, ratio: float) -> Forecast | None:
    """Cost of the leading eigenpairs; None where the kernel needs more than the usual number."""
    n_pairs = leading_count(graph)
    if pairs_needed(graph, kernel, ratio) > n_pairs:
        return None
    work = leading_work(graph, n_pairs)
    return Forecast(work.flops / DENSE_RATE, work.bytes)
