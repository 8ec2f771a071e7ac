"""Observations at nodes and places."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import check_magnitude, forward_array, plain_array, real_array
from coupledgp.random import FloatArray


def check_node_targets(y: ArrayLike, n_rows: int) -> FloatArray:
    """Return finite observations, (n,) or (n, k), as float64."""
    try:
        array = forward_array(real_array(plain_array(y, "y"), "y"))
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"y: expected numbers, got {error}") from None
    if array.ndim not in (1, 2) or array.size == 0:
        raise InvalidInputError(
            f"y: expected a non-empty array, (n,) or (n, n_outputs), got shape {array.shape}"
        )
    if not np.isfinite(array).all():
        raise InvalidInputError("y: expected finite values, got NaN or inf")
    check_magnitude(array, "y")
    if len(array) != n_rows:
        raise InvalidInputError(f"y: expected {n_rows} values to match nodes, got {len(array)}")
    return array
