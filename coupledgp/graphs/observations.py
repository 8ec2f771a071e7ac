"""Observations at nodes and places.

Observations of small components of a graph or a surface, which do not enter the evidence.

A kernel makes components independent, and its variance in a component falls with the size: at a
node alone it is `g(0)`, in a large component the mean of g over all eigenvalues. Hyperparameters
are shared, so that a few values of small components would mislead those of all others.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coupledgp.core.process import Data, Points
from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import (
    check_magnitude,
    forward_array,
    plain_array,
    real_array,
    wrong,
)
from coupledgp.ground.visible import warn
from coupledgp.random import FloatArray, IntArray

BoolArray = NDArray[np.bool_]
# Value of `missing` by which observations without a value are left out.
OMIT = "omit"


def node_data(points: Points, y: ArrayLike, missing: str) -> tuple[Data, int]:
    """Points with targets (n, k), and the number of dimensions of y; NaN as `missing` says."""
    kept = reporting_rows(y, missing)
    if kept is not None and len(kept) == len(points) and not kept.all():
        points, y = points[kept], np.asarray(y, dtype=np.float64)[kept]
    targets = check_node_targets(y, len(points))
    return Data.of(points, targets.reshape(len(points), -1)), targets.ndim


def check_node_targets(y: ArrayLike, n_rows: int) -> FloatArray:
    """Return finite observations, (n,) or (n, k), as float64."""
    try:
        array = forward_array(real_array(plain_array(y, "y"), "y"))
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"y: expected numbers, got {error}; names of classes are classification: use "
            "GPClassifier or GraphGPClassifier"
        ) from None
    if array.ndim not in (1, 2) or array.size == 0:
        raise InvalidInputError(
            f"y: expected a non-empty array, (n,) or (n, n_outputs), got shape {array.shape}"
        )
    if not np.isfinite(array).all():
        silent = int(np.isnan(array.reshape(len(array), -1)).all(axis=1).sum())
        advice = f"; missing='omit' leaves {silent} rows of NaN out" if silent else ""
        raise InvalidInputError(f"y: expected finite values, got NaN or inf{advice}")
    check_magnitude(array, "y")
    if len(array) != n_rows:
        raise wrong("y", f"{n_rows} values to match nodes", len(array))
    return array


def reporting_rows(y: ArrayLike, missing: str) -> BoolArray | None:
    """Which rows (n,) of y have a value, where those without are left out; None: all of them.

    Rows of several outputs have one if any output has.
    """
    if missing != OMIT:
        return None
    try:
        values = np.asarray(plain_array(y, "y"), dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return None  # `check_node_targets` says what is wrong
    if values.ndim not in (1, 2) or not values.size:
        return None
    reporting = np.asarray((~np.isnan(values.reshape(len(values), -1))).any(axis=1))
    if not reporting.any():
        raise InvalidInputError(f"y: expected a value, got {len(values)} rows of NaN")
    return reporting


# Observed places from which on a component enters the hyperparameters.
LEAST_OWN = 8


def informative_rows(member: IntArray, places: IntArray) -> BoolArray:
    """Mask (n,) of observations in components with `LEAST_OWN` places; all if there are none.

    Parameters
    ----------
    member, places
        Numbers (n,) of the component, and of the place, of each observation. Components with fewer
        than `LEAST_OWN` observed places determine a kernel badly, and mislead the fit where their
        values differ from those of other components.
    """
    _, first = np.unique(places, return_index=True)
    usable = np.asarray((np.bincount(member[first]) >= LEAST_OWN)[member])
    return usable if usable.any() else np.ones(member.size, dtype=bool)


def warn_of_small(usable: BoolArray, member: IntArray, name: str) -> None:
    """Warn of components whose observations (n,) do not enter the hyperparameters."""
    if not usable.all():
        warn(
            f"{name}: {np.unique(member[~usable]).size} components have fewer than {LEAST_OWN} "
            f"observed places each, {np.count_nonzero(~usable)} of {usable.size} in all; kernel, "
            "mean and scale there are those of the others, with which they share nothing"
        )
