"""Student's t laws of variance one, by the inverse tau of their degrees of freedom; 0 is normal.

log p(z) = log G((nu + 1) / 2) - log G(nu / 2) - log(pi (nu - 2)) / 2
           - (nu + 1) / 2 log(1 + z^2 / (nu - 2)) ,   nu = 1 / tau > 2
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize, minimize_scalar
from scipy.special import gammaln, ndtr, ndtri, stdtr, stdtrit

from coupledgp.random import FloatArray

# Greatest tau of a fit, the least that is not taken as zero, and the most values of a fit.
HEAVIEST, LIGHTEST, MOST_VALUES = 0.4, 1.0 / 30.0, 50_000
# Tau below which the normal law is taken.
NORMAL = 1e-6


def student_log_density(z: FloatArray, tau: ArrayLike) -> FloatArray:
    """Log densities at z, nats."""
    z, tau = np.broadcast_arrays(z, tau)
    found = np.array(-0.5 * (z**2 + np.log(2 * np.pi)))
    heavy = tau > NORMAL
    t = tau[heavy]
    ratio = t / (1.0 - 2.0 * t)  # 1 / (nu - 2)
    half = 0.5 / t
    found[heavy] = (
        gammaln(half + 0.5) - gammaln(half) + 0.5 * np.log(ratio / np.pi)
        - (half + 0.5) * np.log1p(z[heavy] ** 2 * ratio)
    )  # fmt: skip
    return found


def student_cdf(z: FloatArray, tau: ArrayLike) -> FloatArray:
    """Chances of at most z."""
    z, tau = np.broadcast_arrays(z, tau)
    found, heavy = np.array(ndtr(z)), tau > NORMAL
    t = tau[heavy]
    found[heavy] = stdtr(1.0 / t, z[heavy] / np.sqrt(1.0 - 2.0 * t))
    return found


def student_quantiles(p: FloatArray, tau: ArrayLike) -> FloatArray:
    """Quantiles at probabilities p."""
    p, tau = np.broadcast_arrays(p, tau)
    found, heavy = np.array(ndtri(p)), tau > NORMAL
    t = tau[heavy]
    found[heavy] = stdtrit(1.0 / t, p[heavy]) * np.sqrt(1.0 - 2.0 * t)
    return found


def fitted_scale(z: FloatArray) -> tuple[float, float]:
    """The variance and the tau of greatest likelihood of residuals (m,); one and zero of none."""
    some = z[:: -(-z.size // MOST_VALUES)] if z.size else z
    if not some.any():
        return 1.0, 0.0
    best = minimize(
        lambda at: at[0] / 2 - float(student_log_density(some * np.exp(-at[0] / 2), at[1]).mean()),
        (np.log((some**2).mean()), 0.2), method="Nelder-Mead",
        bounds=[(None, None), (0.0, HEAVIEST)], options={"xatol": 1e-3, "fatol": 1e-6},
    )  # fmt: skip
    tail = float(best.x[1])
    return float(np.exp(best.x[0])), tail if tail > LIGHTEST else 0.0


def fitted_tail(z: FloatArray) -> float:
    """The tau of greatest likelihood of residuals (m,) over their standard deviations."""
    some = z[:: -(-z.size // MOST_VALUES)] if z.size else z
    if not some.size:
        return 0.0
    best = minimize_scalar(
        lambda tau: -float(student_log_density(some, tau).mean()), bounds=(0.0, HEAVIEST),
        method="bounded", options={"xatol": 1e-4},
    )  # fmt: skip
    return float(best.x) if best.x > LIGHTEST else 0.0
