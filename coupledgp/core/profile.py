"""Closed-form maximisation of the evidence over outputscale and noise (MATH section 6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from coupledgp.core.problem import SpectralEvidence
from coupledgp.random import FloatArray

# Rounding error of a Gram matrix that was summed over many rows, as a multiple of the rounding
# error of one operation on each of its columns.
ROUNDINGS = 16
# Number of peaks of a grid that are polished: the evidence rarely has more than two.
_MAX_PEAKS = 3


@dataclass(frozen=True)
class ScaleBounds:
    """Lower and upper bounds of the two variances, in units of the normalised targets' variance."""

    outputscale: tuple[float, float] = (1e-4, 1e4)
    noise: tuple[float, float] = (1e-6, 10.0)


def profile_scales(
    evidence: SpectralEvidence,
    bounds: ScaleBounds,
    outputscale: float | None = None,
    noise: float | None = None,
    *,
    polish: bool = True,
) -> tuple[float, float]:
    """Return the (outputscale, noise) of greatest evidence in the box.

    The problem has one dimension: at fixed `lam = s / v` the evidence has one maximum in v, which
    is known in closed form, and the best v of the box is the point of the box nearest to it. The
    search is global on a grid of `lam`, whose peaks are polished by Brent's method. Ratios below
    the rounding error of the largest eigenvalue are left out: there the matrix is no longer
    definite.

    Parameters
    ----------
    evidence
        The evidence at fixed lengthscales.
    bounds
        The box.
    outputscale, noise
        A value that is kept; None for one that is searched for.
    polish
        Whether the peaks are polished; otherwise the best point of the grid is returned.
    """
    if outputscale is not None and noise is not None:
        return outputscale, noise
    largest = float(evidence.eigenvalues.max())
    least_ratio = ROUNDINGS * evidence.eigenvalues.size * np.finfo(np.float64).eps * largest
    if noise is not None:
        low, high = bounds.outputscale
        high = max(min(high, noise / max(least_ratio, np.finfo(float).tiny)), low)
        return _maximise(lambda v: evidence.value(v, noise), (low, high), polish), noise
    if outputscale is not None:
        low, high = bounds.noise
        low = min(max(low, least_ratio * outputscale), high)
        return outputscale, _maximise(lambda s: evidence.value(outputscale, s), (low, high), polish)

    def best_in_box(lam: FloatArray | float) -> FloatArray:
        low = np.maximum(bounds.outputscale[0], bounds.noise[0] / lam)
        high = np.minimum(bounds.outputscale[1], bounds.noise[1] / lam)
        return np.clip(evidence.best_outputscale(lam), low, high)

    def along_ratio(lam: FloatArray) -> FloatArray:
        v = best_in_box(lam)
        return evidence.value(v, lam * v)

    ratio_bounds = (
        max(bounds.noise[0] / bounds.outputscale[1], least_ratio),
        bounds.noise[1] / bounds.outputscale[0],
    )
    # At the ratios of the other two corners two bounds meet: the maximum may be a cusp there.
    corners = (bounds.noise[0] / bounds.outputscale[0], bounds.noise[1] / bounds.outputscale[1])
    lam = _maximise(along_ratio, ratio_bounds, polish, corners)
    v = float(best_in_box(lam))
    return v, float(np.clip(lam * v, *bounds.noise))


def _maximise(
    function: Callable[[FloatArray], FloatArray],
    interval: tuple[float, float],
    polish: bool,
    cusps: tuple[float, ...] = (),
    n_grid: int = 65,
) -> float:
    """Return the positive number of an interval at which a vectorised function is greatest.

    The function is evaluated on a logarithmic grid, to which the `cusps` in the interval are added,
    and with `polish` the highest peaks of the grid are polished by Brent's method.
    """
    inner = [cusp for cusp in cusps if interval[0] < cusp < interval[1]]
    grid = np.sort(np.log([*np.geomspace(*interval, n_grid), *inner]))
    values = function(np.exp(grid))
    if not polish:
        return float(np.exp(grid[np.argmax(values)]))
    fence = np.pad(values, 1, constant_values=-np.inf)
    peaks = np.flatnonzero((values >= fence[:-2]) & (values >= fence[2:]))
    points = []
    for peak in peaks[np.argsort(-values[peaks])][:_MAX_PEAKS]:
        result = minimize_scalar(
            lambda t: -float(function(np.exp(t))),
            bounds=(grid[max(peak - 1, 0)], grid[min(peak + 1, grid.size - 1)]),
            method="bounded",
            options={"xatol": 1e-10},
        )
        # Brent's bounded method never evaluates the ends themselves.
        points += [grid[peak], result.x]
    candidates = np.exp(points)
    return float(candidates[np.argmax(function(candidates))])
