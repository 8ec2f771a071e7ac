"""Observations of small components of a graph or a surface, which do not enter the evidence.

A kernel makes components independent, and its variance in a component falls with the size: at a
node alone it is `g(0)`, in a large component the mean of g over all eigenvalues. Hyperparameters
are shared, so that a few values of small components would mislead those of all others.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from coupledgp.ground.visible import warn
from coupledgp.random import IntArray

BoolArray: TypeAlias = NDArray[np.bool_]

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
