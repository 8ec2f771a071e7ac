"""Readings of a small road, and a dense space-time GP as a stand-in for the package's model."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

import coupledgp as cgp
from coupledgp.diagnostics.space_time.splits import SensorReadings
from coupledgp.graphs.spectral import dense_kernel
from coupledgp.kernels import GraphMaternKernel

NOISE = 0.05


def road(n_nodes: int = 12) -> cgp.Graph:
    """A path whose pieces differ in weight."""
    nodes = np.arange(n_nodes - 1)
    return cgp.Graph.from_edges(nodes, nodes + 1, 1.0 + 0.1 * nodes)


def readings(n_times: int = 60, seed: int = 0, gaps: float = 0.1, **given: Any) -> SensorReadings:
    """Draws from the kernel of `DenseSpaceTime` on the road, with gaps."""
    rng, graph = np.random.default_rng(seed), road()
    times = np.arange(n_times, dtype=np.float64)
    space = np.linalg.cholesky(dense_kernel(graph, GraphMaternKernel(4.0)))
    lags = np.abs(np.subtract.outer(times, times))
    f = space @ rng.standard_normal((12, n_times)) @ np.linalg.cholesky(np.exp(-lags / 8)).T
    values = 50 + 10 * (f + np.sqrt(NOISE) * rng.standard_normal(f.shape))
    values[rng.random(f.shape) < gaps] = np.nan
    sites = np.arange(12)
    return SensorReadings(values, times, sites, graph, None, sites.tolist(), times, **given)


class DenseSpaceTime(BaseEstimator):
    """`K_g (x) exp(-|t - u| / 8)` with the law that `readings` draws from, by Cholesky."""

    def __init__(self, graph: Any = None, lengthscale: float = 8.0) -> None:
        self.graph = graph
        self.lengthscale = lengthscale

    def fit(self, nodes: Any, times: Any, values: Any) -> DenseSpaceTime:
        self.nodes_, self.y_, self.times_ = self.graph.index(nodes), values, np.asarray(times)
        return self

    def predict(self, nodes: Any, times: Any, return_std: bool = False) -> Any:
        seen = np.isfinite(self.y_)
        mean, scale = 50.0, 10.0
        own = self._covariance(self.nodes_, self.times_, self.nodes_, self.times_)
        own = own[np.ix_(seen.ravel(), seen.ravel())] + NOISE * np.eye(seen.sum())
        across = self._covariance(self.graph.index(nodes), times, self.nodes_, self.times_)
        weights = np.linalg.solve(own, across[:, seen.ravel()].T).T
        shape = len(nodes), len(times)
        prior = np.repeat(np.diagonal(self._kernel)[self.graph.index(nodes)], len(times))
        variance = prior - (weights * across[:, seen.ravel()]).sum(axis=1) + NOISE
        means = mean + weights @ (self.y_[seen] - mean)
        return means.reshape(shape), scale * np.sqrt(variance).reshape(shape)

    @property
    def _kernel(self) -> Any:
        return dense_kernel(self.graph, GraphMaternKernel(4.0))

    def _covariance(self, a: Any, t: Any, b: Any, u: Any) -> Any:
        lags = np.abs(np.subtract.outer(np.asarray(t), np.asarray(u)))
        return np.kron(self._kernel[np.ix_(a, b)], np.exp(-lags / self.lengthscale))
