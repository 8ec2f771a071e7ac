"""The z-tests of means, and formulas against which the theory module is checked."""

import numpy as np
from scipy import special

from coupledgp.theory import distance_mse


def orthogonal_moment(sign: float, dim: int, t: float) -> float:
    """`rho` (sign 1) or `zeta` (sign -1) of orthogonal frequencies with independent norms.

    `Gamma(d/2) / Gamma(d) sum_k (+-t^2/2)^k Gamma(k+d) / (k! Gamma(k+d/2))`.
    """
    k = np.arange(200)
    logs = special.gammaln(k + dim) - special.gammaln(k + 1) - special.gammaln(k + dim / 2)
    terms = (sign * t**2 / 2) ** k * np.exp(logs)
    return float(np.exp(special.gammaln(dim / 2) - special.gammaln(dim)) * terms.sum())


def conformity(coupling: str, m: int, dim: int, t: float) -> float:
    """The papers' mean of `E[0F1(; d/2; t^2 |w_i + w_j|^2 / 4)]` over pairs, from the error."""
    alone = np.exp(2 * t**2) - np.exp(t**2)
    mse = distance_mse("laplace", coupling, m, dim, t)
    return float(np.exp(t**2) + (m * mse - alone) / (m - 1))


def orthogonality_gap(features: str, coupling: str, m: int, dim: int, t: float) -> float:
    """Reduction of the mean squared error by a coupling, against independent frequencies."""
    return distance_mse(features, "iid", m, dim, t) - distance_mse(features, coupling, m, dim, t)


def small_distance_coefficient(
    m: int, dim: int, block_variance: float | None = None, mean_variance: float | None = None
) -> float:
    """Coefficient a of `a t^4 / 4`, the Fourier error of orthogonal blocks at small distances.

    B blocks of n frequencies have `V_b`, the variance of the mean squared norm of one, and V, that
    of all: `a = [2 / n - 2 / (d + 2) - 2 V_b / (d^2 (d + 2))] / B + V / d^2`. None: independent.
    """
    size, blocks = min(m, dim), max(1, m // dim)
    within = 2 * dim / size if block_variance is None else block_variance
    overall = within / blocks if mean_variance is None else mean_variance
    directions = 2 / size - 2 / (dim + 2) - 2 * within / (dim**2 * (dim + 2))
    return directions / blocks + overall / dim**2


def z_score(samples: np.ndarray, expected: np.ndarray | float) -> np.ndarray:
    """Distance of the mean of draws (n, ...) from its expectation, in standard errors."""
    samples = np.asarray(samples, dtype=np.float64)
    error = samples.std(axis=0, ddof=1) / np.sqrt(len(samples))
    difference = samples.mean(axis=0) - expected
    # Samples that are all equal have no error to measure by: rounding is all that is allowed.
    error = np.maximum(error, 1e-14 * np.maximum(1.0, np.abs(expected)))
    return difference / error


# Probability 6e-7 for a normal mean; the whole suite makes about a thousand such tests.
MAX_Z = 5.0


def assert_mean(samples: np.ndarray, expected: np.ndarray | float) -> None:
    """Require the mean of draws (n, ...) to be as expected, within its standard error."""
    z = z_score(samples, expected)
    worst = float(np.max(np.abs(z)))
    assert worst < MAX_Z, f"mean is {worst:.1f} standard errors from {expected}"
