"""A graph GP for each time alone: what the package's models of nodes do with a column a time.

At each time `y_i = m + f_i + e_i`, `f ~ N(0, v K)`, `e_i ~ N(0, s)`, m the mean of the readings at
the time and K a Matern kernel on the nodes. The times share v, s and the lengthscale, which
maximise the evidence of some of them together.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve
from scipy.optimize import minimize_scalar

from coupledgp.diagnostics.space_time.splits import SensorReadings
from coupledgp.fields.operator import LaplaceOperator
from coupledgp.graphs import Graph
from coupledgp.graphs.spectral import SeriesOperator, dense_kernel
from coupledgp.kernels.graph_families import GraphMaternKernel
from coupledgp.random import FloatArray, IntArray

# Largest number of nodes whose kernel comes from all eigenvectors, and error of series beyond.
MOST_DENSE, TOLERANCE = 2000, 1e-6
# Floating point operations of one evidence, which bound the number of times it is taken of.
EVIDENCE_WORK, MOST_STEPS = 2e8, 24
# Bounds of the logarithm of noise over signal.
LOG_RATIOS = (-9.0, 3.0)


class StepModel(NamedTuple):
    """Covariance (p, p) of f between sensors, and the variance of the noise."""

    covariance: FloatArray
    noise: float


def graph_gp_per_step(readings: SensorReadings) -> tuple[FloatArray, FloatArray]:
    """Means and standard deviations (p, n) of observations; NaN at times without a reading."""
    model = fitted(readings)
    mean = np.full(readings.values.shape, np.nan)
    std = np.full(readings.values.shape, np.nan)
    patterns: dict[bytes, list[int]] = {}
    for t in np.flatnonzero(readings.seen.any(axis=0)).tolist():
        patterns.setdefault(readings.seen[:, t].tobytes(), []).append(t)
    for columns in patterns.values():  # times at which the same sensors report share a factor
        seen = np.flatnonzero(readings.seen[:, columns[0]])
        means, deviations = _conditioned(model, seen, readings.values[seen][:, columns])
        mean[:, columns], std[:, columns] = means, deviations[:, None]
    return mean, std


def _conditioned(
    model: StepModel, seen: IntArray, values: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Means (p, k) and standard deviations (p,) given values (q, k) of the sensors `seen`."""
    own = model.covariance[np.ix_(seen, seen)] + model.noise * np.eye(seen.size)
    across = model.covariance[:, seen]
    factor = np.linalg.cholesky(own)
    center = values.mean(axis=0)
    weights = cho_solve((factor, True), across.T)
    explained = np.einsum("ij,ji->i", across, weights)
    variance = np.maximum(np.diagonal(model.covariance) - explained, 0.0) + model.noise
    return center + weights.T @ (values - center), np.sqrt(variance)


def fitted(readings: SensorReadings) -> StepModel:
    """The lengthscale of a scan, then refined, with the variances of greatest evidence."""
    columns = _sample(readings)
    kernels = scanned_kernels(readings.domain)
    models = [_best_variances(readings, columns, sensor_covariance(readings, k)) for k in kernels]
    best = int(np.argmax([value for value, _ in models]))
    log_scales = np.log([kernel.lengthscale for kernel in kernels])

    def tried(log_scale: float) -> tuple[float, StepModel]:
        kernel = replace(kernels[best], lengthscale=float(np.exp(log_scale)))
        return _best_variances(readings, columns, sensor_covariance(readings, kernel))

    between = (log_scales[max(best - 1, 0)], log_scales[min(best + 1, len(kernels) - 1)])
    found = minimize_scalar(
        lambda x: -tried(x)[0], bounds=between, method="bounded", options={"maxiter": 6}
    )
    refined = tried(float(found.x))
    return max(refined, models[best], key=lambda pair: pair[0])[1]


def _sample(readings: SensorReadings) -> list[int]:
    """Evenly spread times with readings, fewer for many sensors."""
    columns = np.flatnonzero(readings.seen.sum(axis=0) > 1)
    affordable = int(np.clip(EVIDENCE_WORK / len(readings.values) ** 3, 3, MOST_STEPS))
    places = np.linspace(0, columns.size - 1, min(affordable, columns.size)).round()
    return [int(c) for c in columns[places.astype(np.int64)]]


def _best_variances(
    readings: SensorReadings, columns: list[int], K: FloatArray
) -> tuple[float, StepModel]:
    """Greatest evidence of a kernel matrix (p, p) over both variances."""
    found = minimize_scalar(
        lambda x: -_evidence(readings, columns, K, x)[0],
        bounds=LOG_RATIOS, method="bounded", options={"xatol": 0.05},
    )  # fmt: skip
    value, variance = _evidence(readings, columns, K, float(found.x))
    return value, StepModel(variance * K, variance * float(np.exp(found.x)))


def _evidence(
    readings: SensorReadings, columns: list[int], K: FloatArray, log_ratio: float
) -> tuple[float, float]:
    """Log evidence at the best v for noise `exp(log_ratio) v`, up to a constant; and that v."""
    squares, log_determinant, count = 0.0, 0.0, 0
    for t in columns:
        seen = np.flatnonzero(readings.seen[:, t])
        y = readings.values[seen, t]
        factor = np.linalg.cholesky(K[np.ix_(seen, seen)] + np.exp(log_ratio) * np.eye(seen.size))
        residual = y - y.mean()
        squares += float(residual @ cho_solve((factor, True), residual))
        log_determinant += 2 * float(np.log(np.diagonal(factor)).sum())
        count += seen.size
    variance = max(squares / max(count, 1), 1e-300)
    return -0.5 * (count * np.log(variance) + log_determinant), variance


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
