"""Closed-form maximisation of the evidence over outputscale and noise (MATH section 6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from coupledgp.inference.evidence import SpectralEvidence
from coupledgp.random import FloatArray


@dataclass(frozen=True)
class ScaleBounds:
    """Box of the two variances, in units of the normalised targets' variance."""

    outputscale: tuple[float, float] = (1e-4, 1e4)
    noise: tuple[float, float] = (1e-6, 10.0)


def profile_scales(
    evidence: SpectralEvidence,
    bounds: ScaleBounds,
    outputscale: float | None = None,
    noise: float | None = None,
) -> tuple[float, float]:
    """Return the (outputscale, noise) of greatest evidence in the box.

    A value given for one of them keeps it there and maximises over the other. Free in both, the
    problem is one-dimensional: at fixed `lam = s / v` the best v is known. The search is global on
    a grid of `lam`, then polished by Brent's method. If that optimum leaves the box, the optimum
    lies on an edge of it and the four edges are searched likewise.
    """
    if outputscale is not None and noise is not None:
        return outputscale, noise
    if noise is not None:
        return _maximise(lambda v: evidence.value(v, noise), bounds.outputscale), noise
    if outputscale is not None:
        return outputscale, _maximise(lambda s: evidence.value(outputscale, s), bounds.noise)

    def along_ratio(lam: FloatArray) -> FloatArray:
        v = evidence.best_outputscale(lam)
        return evidence.value(v, lam * v)

    # Below a few roundings of the largest eigenvalue the matrix is no longer definite.
    resolution = 4 * np.finfo(np.float64).eps * float(evidence.eigenvalues.max())
    ratio_bounds = (
        max(bounds.noise[0] / bounds.outputscale[1], resolution),
        bounds.noise[1] / bounds.outputscale[0],
    )
    lam = _maximise(along_ratio, ratio_bounds)
    v = float(evidence.best_outputscale(lam))
    if _inside(v, bounds.outputscale) and _inside(lam * v, bounds.noise):
        return v, lam * v
    edges = [(v, None) for v in bounds.outputscale] + [(None, s) for s in bounds.noise]
    candidates = [profile_scales(evidence, bounds, v_edge, s_edge) for v_edge, s_edge in edges]
    return max(candidates, key=lambda pair: float(evidence.value(*pair)))


def _inside(value: float, interval: tuple[float, float]) -> bool:
    return interval[0] <= value <= interval[1]


def _maximise(
    function: Callable[[FloatArray], FloatArray], interval: tuple[float, float], n_grid: int = 65
) -> float:
    """Maximise a vectorised function of a positive number over an interval, in its logarithm."""
    grid = np.linspace(np.log(interval[0]), np.log(interval[1]), n_grid)
    best = int(np.argmax(function(np.exp(grid))))
    lower, upper = grid[max(best - 1, 0)], grid[min(best + 1, n_grid - 1)]
    result = minimize_scalar(
        lambda t: -float(function(np.exp(t))),
        bounds=(lower, upper),
        method="bounded",
        options={"xatol": 1e-10},
    )
    # Brent's bounded method never evaluates the ends themselves.
    points = np.array([grid[best], result.x])
    return float(np.exp(points[np.argmax(function(np.exp(points)))]))
