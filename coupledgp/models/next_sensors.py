"""Where to measure next."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import check_positive_int
from coupledgp.random import FloatArray, IntArray

# Gains that are equal to so many digits are ties, of which the first candidate is taken.
TIED = 1e-9


class NextSensors(NamedTuple):
    """Places for further measurements, in the order of their choice.

    Attributes
    ----------
    rows : IntArray (k,)
        Numbers of rows of the candidates, or of nodes or vertices where these were left out.
    variance : FloatArray (k + 1,)
        Mean posterior variance of f at all candidates, in units of y squared, before the first and
        after each measurement.
    """

    rows: IntArray
    variance: FloatArray


def next_sensors(model: Any, k: int, candidates: Any = None) -> NextSensors:
    """Choose places whose measurements leave the least variance, one after another.

    With the posterior covariance C of f at the candidates and the noise variance s each step takes
    the place j of largest `sum_i C_ij^2 / (C_jj + s)`, the fall of the total variance, and replaces
    C by `C - C_j C_j' / (C_jj + s)` (Cohn, 1996). Values do not matter. Time O(m^3 + k m^2) and
    memory O(m^2) for m candidates.

    Parameters
    ----------
    model
        A fitted Gaussian regressor of one output.
    k
        Number of places.
    candidates
        Places (m, ...) that may be measured and whose values matter, as `model.predict` takes
        them; None: all nodes of a graph, all given vertices of a field.

    Raises
    ------
    InvalidInputError
        There are fewer candidates than k, or several outputs.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> path = cgp.Graph.from_edges(np.arange(8), np.arange(1, 9))
    >>> model = cgp.ExactGraphGPRegressor(path, "matern", optimizer=None).fit([0, 1], [0.1, 0.2])
    >>> cgp.next_sensors(model, 2).rows.tolist()
    [7, 4]
    """
    check_positive_int(k, "k")
    covariance = model.predict(candidates, return_cov=True, latent=True)[1]
    if covariance.ndim != 2 or len(covariance) < k:
        raise InvalidInputError(
            f"candidates: expected {k} or more, and one output, got a covariance of shape "
            f"{covariance.shape}"
        )
    noise = model.predict(candidates, return_std=True)[1] ** 2 - covariance.diagonal()
    rows: list[int] = []
    variance = [float(covariance.diagonal().mean())]
    for _ in range(k):
        gain = np.square(covariance).sum(axis=0) / (covariance.diagonal() + noise)
        gain[rows] = 0.0
        best = int(np.argmax(gain >= (1 - TIED) * gain.max()))
        column = covariance[:, best] / np.sqrt(covariance[best, best] + noise[best])
        covariance = covariance - np.outer(column, column)
        rows.append(best)
        variance.append(float(covariance.diagonal().mean()))
    return NextSensors(np.array(rows), np.array(variance))
