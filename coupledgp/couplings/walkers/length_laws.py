"""Laws of a walker's length, as survival functions `S_t = P(length >= t)` (MATH 9)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.counter import IntArray
from coupledgp.errors import InvalidInputError
from coupledgp.random import FloatArray
from coupledgp.validation import check_vector

LENGTH_TOLERANCE = 1e-6
LENGTH_LIMIT = 2**16 - 1


class LengthLaw(ABC):
    """The law of one walker's length.

    A walker of survival S carries load factor `S_{t-1} / S_t` at step t, so that the expected
    load after t steps is `W~^t` whatever the law.
    """

    @abstractmethod
    def survival(self, max_length: int) -> FloatArray:
        """`S_0 = 1, S_1, ..., S_max_length`, not increasing, shape (max_length + 1,)."""

    @abstractmethod
    def natural_length(self) -> int:
        """The step beyond which hardly any walker goes (chance `LENGTH_TOLERANCE`)."""

    def lengths(self, u: FloatArray, max_length: int) -> IntArray:
        """Lengths as quantiles: the number of steps t with `u >= 1 - S_t`, cut at max_length."""
        cdf = 1.0 - self.survival(max_length)[1:]
        return np.searchsorted(cdf, u.ravel(), side="right").reshape(u.shape).astype(np.int64)

    def hazards(self, max_length: int) -> FloatArray:
        """`P(length = t - 1 | length >= t - 1)` for t = 1..max_length: chance to halt before t."""
        s = self.survival(max_length)
        alive = np.divide(s[1:], s[:-1], out=np.zeros(max_length), where=s[:-1] > 0)
        return 1.0 - alive


@dataclass(frozen=True)
class GeometricLaw(LengthLaw):
    """Halting with probability p before each step: `S_t = (1-p)^t`, the papers' law."""

    p_halt: float = 0.1

    def __post_init__(self) -> None:
        if not (isinstance(self.p_halt, (int, float, np.number)) and 0 < self.p_halt < 1):
            raise InvalidInputError(f"p_halt: expected a number in (0, 1), got {self.p_halt!r}")

    def survival(self, max_length: int) -> FloatArray:
        return (1.0 - self.p_halt) ** np.arange(max_length + 1, dtype=np.float64)

    def natural_length(self) -> int:
        return int(np.ceil(np.log(LENGTH_TOLERANCE) / np.log1p(-self.p_halt)))

    def __str__(self) -> str:
        return f"geometric({self.p_halt:g})"


class MatchedLaw(LengthLaw):
    """Survival in proportion to what is left of the series: `S_t ~ sqrt(sum_{k>=t} f_k^2)`.

    Not in the papers (MATH 9, "Beyond the papers", 3): loads stay bounded where geometric
    lengths let them grow like `(1-p)^-t`. With several rows the law is the mean of the laws
    matched to each. A law built for too short a series is catastrophic for a longer one, one
    built for too long a series costs little: so build it for several times the diffusion time.

    Parameters
    ----------
    modulations
        Modulation coefficients `f_0, f_1, ...`, shape (n_terms,), or several rows of them,
        shape (n_laws, n_terms).
    """

    def __init__(self, modulations: ArrayLike) -> None:
        rows = np.atleast_2d(np.asarray(modulations, dtype=np.float64))
        if rows.ndim != 2 or rows.shape[1] == 0 or not np.isfinite(rows).all():
            raise InvalidInputError(
                f"modulations: expected finite coefficients of shape (n_laws, n_terms), "
                f"got shape {rows.shape}"
            )
        self._survival = np.mean([matched_survival(row) for row in rows], axis=0)
        self._survival.flags.writeable = False

    def survival(self, max_length: int) -> FloatArray:
        table = np.zeros(max_length + 1)
        size = min(table.size, self._survival.size)
        table[:size] = self._survival[:size]
        return table

    def natural_length(self) -> int:
        return int(np.flatnonzero(self._survival > LENGTH_TOLERANCE).max())

    def __str__(self) -> str:
        return f"matched(mean length {self._survival[1:].sum():.3g})"


def matched_survival(modulation: ArrayLike) -> FloatArray:
    """`sqrt(sum_{k>=t} f_k^2)`, scaled to one at t = 0; all halt at once if f is zero."""
    f = check_vector(modulation, "modulation")
    largest = np.abs(f).max()
    if largest == 0:
        return (np.arange(f.size) == 0).astype(np.float64)
    left: FloatArray = np.sqrt(np.cumsum((f / largest)[::-1] ** 2)[::-1])
    return left / left[0]
