"""Standard errors of means over few random vectors."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, stdtrit

from coupledgp.random import FloatArray


def widened_error(values: FloatArray) -> FloatArray:
    """Standard errors (...) of the means of independent values (..., n), widened for small n.

    The standard deviation of few values is uncertain itself. With the quantile of Student's law of
    n - 1 degrees of freedom over that of the normal law as a factor, two standard errors hold the
    mean as often as they do for many values, 95.4 %: 1.21 for 8 values, 1.09 for 16.
    """
    n = values.shape[-1]
    factor = float(stdtrit(n - 1, ndtr(2.0))) / 2.0
    return np.asarray(factor * values.std(axis=-1, ddof=1) / np.sqrt(n))
