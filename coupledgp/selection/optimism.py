"""What log densities of left-out rows gain since hyperparameters have seen these rows.

Hyperparameters `t` of greatest posterior are those of all rows. Without row i the log posterior
lacks `l_i = log p(y_i | y_-i, t)`. One Newton step from t leads to `t - H^-1 grad l_i`, where
H is the Hessian of minus the log posterior. The log density of the row then falls by

    grad l_i' H^-1 grad l_i

to first order (the infinitesimal jackknife; Giordano and others, 2019).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from coupledgp.inference.evidence.objective import VectorObjective
from coupledgp.random import FloatArray
from coupledgp.search.averaging import inverse_hessian_root

# Step of the differences of log densities, in log units: their error is of second order.
STEP = 1e-3


def optimism(
    log_densities: Callable[[FloatArray], FloatArray],
    posterior: VectorObjective,
    mode: FloatArray,
) -> FloatArray:
    """What the log density of each row (n,) falls by without the row's part in hyperparameters.

    Parameters
    ----------
    log_densities
        Log densities (n,) of rows, each given all others, at hyperparameters (q,).
    posterior
        Minus the log posterior of the hyperparameters.
    mode
        Hyperparameters (q,) of greatest posterior.
    """
    steps = STEP * np.eye(mode.size)
    slopes = [(log_densities(mode + step) - log_densities(mode - step)) / (2 * STEP)
              for step in steps]  # fmt: skip
    return np.asarray(np.square(inverse_hessian_root(posterior, mode) @ np.array(slopes)).sum(0))
