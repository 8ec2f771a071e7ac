"""A Gaussian process in time for each sensor alone, by a Kalman smoother over all sensors at once.

`y_t = m + f_t + e_t`, `cov(f_t, f_u) = v exp(-|t - u| / l)`, `e_t ~ N(0, s)`. Each sensor has its
own mean m and standard deviation; v, s (in units of its variance) and l are shared and maximise the
evidence of all sensors together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from coupledgp.diagnostics.space_time.splits import BoolArray, SensorReadings
from coupledgp.random import FloatArray

# Sensors and times from which the hyperparameters are fitted, at most.
MOST_SENSORS, MOST_TIMES = 200, 3000


class OrnsteinUhlenbeck(NamedTuple):
    """Hyperparameters: variances v and s, lengthscale l in units of time."""

    variance: float
    noise: float
    lengthscale: float


class Filtered(NamedTuple):
    """Laws of f given the readings so far: means, variances (p, n), and log evidence."""

    mean: FloatArray
    variance: FloatArray
    log_evidence: float


def gp_in_time(readings: SensorReadings) -> tuple[FloatArray, FloatArray]:
    """Means and standard deviations (p, n) of observations; NaN for sensors without readings."""
    center, scale = _units(readings)
    z = (readings.values - center) / scale
    kernel = fitted(z, readings.times)
    mean, variance = smoothed(z, readings.times, kernel)
    std = np.sqrt(variance + kernel.noise)
    return center + scale * mean, scale * std


def _units(readings: SensorReadings) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation (p, 1) of each sensor; that of all for constant ones."""
    count = readings.seen.sum(axis=1, keepdims=True)
    total = np.where(readings.seen, readings.values, 0.0).sum(axis=1, keepdims=True)
    center = np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
    squares = np.where(readings.seen, np.square(readings.values - center), 0.0)
    pooled = float(squares.sum() / max(readings.seen.sum(), 1)) or 1.0
    own = squares.sum(axis=1, keepdims=True) / np.maximum(count, 1)
    return center, np.sqrt(np.where((count > 2) & (own > 1e-6 * pooled), own, pooled))


def fitted(z: FloatArray, times: FloatArray) -> OrnsteinUhlenbeck:
    """Hyperparameters of greatest evidence of standardised readings (p, n)."""
    seen = np.isfinite(z).any(axis=1)
    rows = np.flatnonzero(seen)
    rows = rows[:: max(1, -(-rows.size // MOST_SENSORS))]
    part, ts = z[rows][:, -MOST_TIMES:], times[-MOST_TIMES:]
    step = float(np.median(np.diff(ts))) if ts.size > 1 else 1.0
    span = max(float(ts[-1] - ts[0]), step)

    def loss(theta: FloatArray) -> float:
        found = filtered(part, ts, OrnsteinUhlenbeck(*np.exp(theta)))
        return -found.log_evidence / max(np.isfinite(part).sum(), 1)

    bounds = [(-5.0, 3.0), (-12.0, 2.0), (np.log(step / 10), np.log(10 * span))]
    start = np.log([0.8, 0.2, min(12 * step, span)])
    best = minimize(loss, start, bounds=bounds, method="L-BFGS-B", options={"maxiter": 40})
    return OrnsteinUhlenbeck(*(float(x) for x in np.exp(best.x)))


def filtered(z: FloatArray, times: FloatArray, kernel: OrnsteinUhlenbeck) -> Filtered:
    """Kalman filter of standardised readings (p, n), NaN where there is none."""
    seen: BoolArray = np.isfinite(z)
    values = np.where(seen, z, 0.0)
    decay = np.exp(-np.diff(times, prepend=times[:1]) / kernel.lengthscale)
    mean, variance = np.zeros(len(z)), np.full(len(z), kernel.variance)
    means, variances = np.empty_like(values), np.empty_like(values)
    log_evidence = 0.0
    for t, a in enumerate(decay):
        mean = a * mean
        variance = kernel.variance + a * a * (variance - kernel.variance)
        total = variance + kernel.noise
        gain = np.where(seen[:, t], variance / total, 0.0)
        error = values[:, t] - mean
        terms = np.log(2 * np.pi * total) + error**2 / total
        log_evidence -= 0.5 * float(terms[seen[:, t]].sum())
        mean, variance = mean + gain * error, variance * (1 - gain)
        means[:, t], variances[:, t] = mean, variance
    return Filtered(means, variances, log_evidence)


def smoothed(
    z: FloatArray, times: FloatArray, kernel: OrnsteinUhlenbeck
) -> tuple[FloatArray, FloatArray]:
    """Means and variances (p, n) of f given all readings (Rauch, Tung and Striebel 1965)."""
    mean, variance, _ = filtered(z, times, kernel)
    decay = np.exp(-np.diff(times) / kernel.lengthscale)
    for t in range(times.size - 2, -1, -1):
        a = decay[t]
        ahead = kernel.variance + a * a * (variance[:, t] - kernel.variance)
        gain = a * variance[:, t] / ahead
        mean[:, t] += gain * (mean[:, t + 1] - a * mean[:, t])
        variance[:, t] += gain**2 * (variance[:, t + 1] - ahead)
    return mean, np.maximum(variance, 0.0)
