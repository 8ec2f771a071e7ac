"""Laws of a walker's length, as survival functions `S_t = P(length >= t)` (MATH 9)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import check_vector
from coupledgp.random import FloatArray, IntArray

LENGTH_TOLERANCE = 1e-6  # chance of a longer walk than `natural_length`
LENGTH_LIMIT = 2**16 - 1  # longest walk: its steps are streams of random numbers below 2^16


class LengthLaw(ABC):
    """The law of the length of one walker.

    Under a law of survival S, the load of a walker is multiplied by `S_{t-1} / S_t` at step t, so
    that the expected load after t steps is `W~^t` whatever the law.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.couplings import LengthLaw
    >>> class Uniform(LengthLaw):  # zero to three steps, equally likely
    ...     def survival(self, max_length):
    ...         return np.maximum(1 - np.arange(max_length + 1) / 4, 0.0)
    ...     def natural_length(self):
    ...         return 3
    >>> Uniform().lengths(np.array([0.1, 0.3, 0.6, 0.9]), 10).tolist()
    [0, 1, 2, 3]
    >>> Uniform().hazards(4).round(3).tolist()
    [0.25, 0.333, 0.5, 1.0]
    """

    @abstractmethod
    def survival(self, max_length: int) -> FloatArray:
        """Survival `S_0 = 1, S_1, ..., S_max_length`, not increasing, shape (max_length + 1,)."""

    @abstractmethod
    def natural_length(self) -> int:
        """Number of steps that a walker exceeds with a chance of `LENGTH_TOLERANCE`."""

    def lengths(self, u: FloatArray, max_length: int) -> IntArray:
        """Lengths at quantiles of the law, cut at `max_length`.

        The length at quantile u is the number of steps t with `u >= 1 - S_t`.

        Parameters
        ----------
        u
            Quantiles in (0, 1), of any shape.
        max_length
            Longest length.

        Returns
        -------
        IntArray
            Lengths, in the shape of `u`.
        """
        cdf = 1.0 - self.survival(max_length)[1:]
        return np.searchsorted(cdf, u.ravel(), side="right").reshape(u.shape).astype(np.int64)

    def hazards(self, max_length: int) -> FloatArray:
        """Chance to halt before each step t = 1..max_length, shape (max_length,).

        It is `P(length = t - 1 | length >= t - 1)`.
        """
        s = self.survival(max_length)
        alive = np.divide(s[1:], s[:-1], out=np.zeros(max_length), where=s[:-1] > 0)
        return 1.0 - alive


@dataclass(frozen=True)
class GeometricLaw(LengthLaw):
    """The papers' law: a walker halts with chance p before each step, so that `S_t = (1-p)^t`.

    Examples
    --------
    >>> from coupledgp.couplings import GeometricLaw
    >>> law = GeometricLaw(p_halt=0.5)
    >>> law.survival(3).tolist()
    [1.0, 0.5, 0.25, 0.125]
    >>> law.hazards(3).tolist()
    [0.5, 0.5, 0.5]
    >>> law.natural_length()  # a longer walk has a chance of 1e-6
    20
    """

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
    """Law with survival in proportion to a series' tail: `S_t ~ sqrt(sum_{k>=t} f_k^2)`.

    Not in the papers (MATH 9, "Beyond the papers", 3). Loads stay bounded, where under geometric
    lengths they grow like `(1-p)^-t`. With several rows the law is the mean of the laws that match
    each row. A law that matches too short a series gives very large errors for a longer one, while
    a law for too long a series costs little; so match several times the diffusion time.

    Parameters
    ----------
    modulations
        Modulation coefficients `f_0, f_1, ...`, shape (n_terms,), or several rows of them,
        shape (n_laws, n_terms).

    Examples
    --------
    >>> from coupledgp.couplings import MatchedLaw
    >>> law = MatchedLaw([0.8, 0.6])  # a series with two terms
    >>> law.survival(3).round(6).tolist()
    [1.0, 0.6, 0.0, 0.0]
    >>> law.natural_length()
    1
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
    """Survival (n_terms,) in proportion to `sqrt(sum_{k>=t} f_k^2)` for coefficients f (n_terms,).

    It is one at t = 0. If f is zero, all walkers halt at once.
    """
    f = check_vector(modulation, "modulation")
    largest = np.abs(f).max()
    if largest == 0:
        return (np.arange(f.size) == 0).astype(np.float64)
    left: FloatArray = np.sqrt(np.cumsum((f / largest)[::-1] ** 2)[::-1])
    return left / left[0]
