"""Modulation coefficients: the series `F(W~) = sum_t f_t W~^t` whose square is the kernel."""

from __future__ import annotations

from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import check_vector
from coupledgp.random import FloatArray

SERIES_TOLERANCE = 1e-6


@runtime_checkable
class HasModulation(Protocol):
    """An object with modulation coefficients, such as a graph kernel.

    Attributes
    ----------
    max_terms : int
        Largest number of terms that are summed.
    """

    max_terms: int

    def modulation(self, n_terms: int) -> FloatArray:
        """`f_0, ..., f_(n_terms-1)` with `K = (sum_t f_t W~^t)^2`, shape (n_terms,)."""

    def tail(self, n_terms: int) -> float:
        """A bound of `sum_{t >= n_terms} |f_t|`."""


ModulationLike: TypeAlias = ArrayLike | HasModulation


def n_terms_for(modulation: ModulationLike, tolerance: float = SERIES_TOLERANCE) -> int:
    """The least number n of terms with `tail(n) <= tolerance * tail(0)`, at most `max_terms`.

    For an array (n_terms,) it is the number of all coefficients. `tail_of` bounds the part that is
    neglected.
    """
    if not isinstance(modulation, HasModulation):
        return check_vector(modulation, "modulation").size
    goal = tolerance * modulation.tail(0)
    high = 1
    while high < modulation.max_terms and modulation.tail(high) > goal:
        high *= 2
    low, high = high // 2, min(high, modulation.max_terms)
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if modulation.tail(middle) <= goal else (middle, high)
    return high


def coefficients(modulation: ModulationLike, n_terms: int) -> FloatArray:
    """The first coefficients (n_terms,), with zeros after the last one of an array."""
    if isinstance(modulation, HasModulation):
        return modulation.modulation(n_terms)
    given = check_vector(modulation, "modulation")
    f = np.zeros(n_terms)
    size = min(n_terms, given.size)
    f[:size] = given[:size]
    return f


def tail_of(modulation: ModulationLike, n_terms: int) -> float:
    """`sum_{t >= n_terms} |f_t|`, a bound of the part of a series beyond `n_terms` terms."""
    if isinstance(modulation, HasModulation):
        return modulation.tail(n_terms)
    return float(np.abs(check_vector(modulation, "modulation")[n_terms:]).sum())


def check_modulation(modulation: object) -> ModulationLike:
    """Return a kernel with modulation coefficients, or an array (n_terms,) of coefficients."""
    if isinstance(modulation, HasModulation):
        return modulation
    if isinstance(modulation, str):
        raise InvalidInputError(
            f"modulation: expected coefficients or a graph kernel, got the text {modulation!r}"
        )
    return check_vector(modulation, "modulation")  # type: ignore[arg-type]
