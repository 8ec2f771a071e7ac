"""Matern covariances between the sensors of a graph or an operator, for the rivals."""

from __future__ import annotations

import numpy as np

from coupledgp.diagnostics.space_time.readings import SensorReadings
from coupledgp.geometry.operator import LaplaceOperator
from coupledgp.graphs import Graph
from coupledgp.kernels.graph.exact import SeriesOperator, dense_kernel
from coupledgp.kernels.graph.families import GraphMaternKernel
from coupledgp.random import FloatArray

# Largest number of nodes whose kernel comes from all eigenvectors, and error of series beyond.
MOST_DENSE, TOLERANCE = 2000, 1e-6


def graph_of(domain: Graph | LaplaceOperator) -> Graph:
    """The graph on whose nodes kernels live; isolated nodes have a self-loop."""
    return (domain.as_graph() if isinstance(domain, LaplaceOperator) else domain).closed


def scanned_kernels(domain: Graph | LaplaceOperator) -> list[GraphMaternKernel]:
    """Matern kernels from local to wide."""
    return GraphMaternKernel().scan_on(graph_of(domain))


def sensor_covariance(readings: SensorReadings, kernel: GraphMaternKernel) -> FloatArray:
    """Kernel matrix (p, p) of the sensors' nodes, of mean diagonal one."""
    graph, sites = graph_of(readings.domain), readings.sites
    if graph.n_nodes <= MOST_DENSE:
        K = dense_kernel(graph, kernel)[np.ix_(sites, sites)]
    else:
        columns = np.zeros((graph.n_nodes, sites.size))
        columns[sites, np.arange(sites.size)] = 1.0
        scale = np.ones(graph.n_nodes) if graph.node_scale is None else graph.node_scale
        series = SeriesOperator(graph, kernel.spectral, TOLERANCE)
        K = scale[sites, None] * (series @ (columns * scale[sites]))[sites]
        K = 0.5 * (K + K.T)
    found: FloatArray = K / np.diagonal(K).mean()
    return found
