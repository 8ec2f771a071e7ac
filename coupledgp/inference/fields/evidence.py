"""Evidence of a field's kernel at many noise ratios, from one eigendecomposition of its matrix.

The model is `y = m + f + e` with a constant m of flat prior, `f ~ N(0, v K)` and
`e ~ N(0, v g I)`. With `K = Q diag(w) Q'`, `a = Q'y`, `b = Q'1` and `d = w + g`

    m = sum(a b / d) / sum(b^2 / d)
    v = sum((a - m b)^2 / d) / (n - 1)
    log evidence = -1/2 [ sum log d + log sum(b^2 / d) + (n - 1) log v ]

up to a constant: the restricted likelihood at the amplitude v that maximises it. Of several
outputs, which share v in units of their own variance, the sums of squares are averaged.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from coupledgp.random import FloatArray

# Rounding of an eigenvalue relative to the greatest: lesser ones are zero or negative by rounding.
ROUNDING = 1e-13
# Degrees of freedom below which the variance of Student's law is not followed.
LEAST_DEGREES = 5


class RatioEvidence(NamedTuple):
    """Evidence at noise ratios (r,).

    Attributes
    ----------
    log_evidence : FloatArray (r,)
        Restricted log likelihood up to a constant that depends on the data's size alone, nats.
    amplitude : FloatArray (r,)
        Variance v of the field that maximises it.
    """

    log_evidence: FloatArray
    amplitude: FloatArray


def evidence_at_ratios(K: FloatArray, y: FloatArray, ratios: FloatArray) -> RatioEvidence:
    """Evidence of a kernel matrix K (n, n) for targets y (n, k) at noise ratios g (r,).

    Parameters
    ----------
    K
        Covariance of the field at the observations, of unit amplitude.
    y
        Targets, normalised; not all equal.
    ratios
        Noise variances over the amplitude, positive.
    """
    n, k = y.shape
    values, vectors = np.linalg.eigh(K)
    values = np.maximum(values, ROUNDING * values[-1])
    a, b = vectors.T @ y, vectors.sum(axis=0)
    d = values + ratios[:, None]
    ones = (b**2 / d).sum(axis=1)
    mean = (b / d) @ a / ones[:, None]
    gaps = a - mean[:, None, :] * b[:, None]
    squares = (gaps**2 / d[:, :, None]).sum(axis=(1, 2))
    # Targets that one kernel explains to the last bit have no finite evidence.
    amplitude = np.maximum(squares / (k * (n - 1)), np.finfo(float).tiny)
    log_evidence = -0.5 * k * (np.log(d).sum(axis=1) + np.log(ones) + (n - 1) * np.log(amplitude))
    return RatioEvidence(log_evidence, amplitude)


def integrated_amplitude(n_observations: int, n_outputs: int = 1) -> float:
    """Factor by which the unknown amplitude widens predictive variances.

    With a flat prior of `log v` the predictive law is Student's with `nu = k (n - 1)` degrees of
    freedom about the same mean, whose variance is `nu / (nu - 2)` of that at the v of greatest
    evidence. Below five degrees, where it is large or infinite, it is taken as that of five.
    """
    degrees = max(n_outputs * (n_observations - 1), LEAST_DEGREES)
    return degrees / (degrees - 2)
