"""Terms of a process on nodes times time, and checks of eigenvalues and observed times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import check_choice, check_positive, check_vector
from coupledgp.kernels.time import TimeKernel
from coupledgp.random import FloatArray

BoolArray = NDArray[np.bool_]
# Negative eigenvalues of this size beside the largest one are rounding.
ROUNDING = 1e-8


@dataclass(frozen=True)
class Term:
    """A part of the process: `variance * B (x) kernel`, B the kernel of nodes or the identity.

    Parameters
    ----------
    where
        `"graph"`: B is the kernel of nodes; `"node"`: B = I, what a sensor has for itself.
    kernel
        Kernel of time.
    variance
        v >= 0.

    Raises
    ------
    InvalidInputError
        `where` is no such word, or the variance is negative or not finite.
    """

    where: Literal["graph", "node"]
    kernel: TimeKernel
    variance: float

    def __post_init__(self) -> None:
        check_choice(self.where, ("graph", "node"), "where")
        if not isinstance(self.kernel, TimeKernel):
            raise InvalidInputError(f"kernel: expected a TimeKernel, got {self.kernel!r}")
        if self.variance != 0.0:
            object.__setattr__(self, "variance", check_positive(self.variance, "variance"))


def checked_eigenvalues(eigenvalues: FloatArray) -> FloatArray:
    """Return eigenvalues (q,) clipped at zero; those below zero beyond rounding are refused."""
    found = check_vector(eigenvalues, "eigenvalues")
    if found.min() < -ROUNDING * max(found.max(), 0.0):
        raise InvalidInputError(f"eigenvalues: expected numbers >= 0, got {found.min():g}")
    return np.maximum(found, 0.0)


def checked_seen(seen: BoolArray | None, n: int) -> BoolArray:
    """Return at which of n times (n,) anything is observed; at all of them if None."""
    if seen is None:
        return np.ones(n, dtype=bool)
    found = np.asarray(seen)
    if found.dtype != bool or found.shape != (n,):
        raise InvalidInputError(
            f"seen: expected {n} truth values, got shape {found.shape} of {found.dtype}"
        )
    if not found.any():
        raise InvalidInputError("seen: expected an observation at one time or more, got none")
    return found
