"""The z-tests of means, and a series against which the theory module is checked."""

import numpy as np
from scipy import special


def orthogonal_moment(sign: float, dim: int, t: float) -> float:
    """`rho` (sign 1) or `zeta` (sign -1) of orthogonal frequencies with independent norms.

    `Gamma(d/2) / Gamma(d) sum_k (+-t^2/2)^k Gamma(k+d) / (k! Gamma(k+d/2))`.
    """
    k = np.arange(200)
    logs = special.gammaln(k + dim) - special.gammaln(k + 1) - special.gammaln(k + dim / 2)
    terms = (sign * t**2 / 2) ** k * np.exp(logs)
    return float(np.exp(special.gammaln(dim / 2) - special.gammaln(dim)) * terms.sum())


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
