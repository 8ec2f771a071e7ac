"""Diagonals of Schur complements, updated for requested members only."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from coupledgp.errors import NumericalError
from coupledgp.random import FloatArray, IntArray


class Downdated:
    """Diagonal of `M + D - M[:, A] (M + D)[A, A]^-1 M[A, :]` as members are added to A.

    For a covariance M of f and noise variances D it is the variance of a new observation given the
    observations at A, at places of A too. For a precision M, with `D = 0`, it is the precision when
    A is left out. A pivoted Cholesky factor is stored by rows. A row is extended when its entry is
    requested, by `O(|A|)` operations for each member added since, so that entries which a greedy
    search with bounds skips cost nothing. A member takes one column of M.

    Parameters
    ----------
    diagonal
        Diagonal of `M + D` (p,), positive; it may be an estimate, which then ranks members only.
    column
        Function of a number from 0 to p - 1: that column of M, (p,).
    n_most
        Largest number of members of A.
    noise
        D, (p,) or one number.
    """

    def __init__(
        self,
        diagonal: FloatArray,
        column: Callable[[int], FloatArray],
        n_most: int,
        noise: FloatArray | float = 0.0,
    ) -> None:
        self._noise = np.broadcast_to(noise, diagonal.shape)
        self._given = diagonal
        self._diagonal, self._column = diagonal.copy(), column
        self._rows = np.zeros((diagonal.size, n_most))
        self._done = np.zeros(diagonal.size, dtype=np.int64)
        self._members: list[int] = []
        self._columns: list[FloatArray] = []
        self._roots: list[float] = []

    def values(self, which: IntArray) -> FloatArray:
        """The diagonal at numbers (m,)."""
        self._extend(which)
        return self._diagonal[which]

    def add(self, member: int) -> None:
        """Add a member to A.

        Raises
        ------
        NumericalError
            Its entry is not positive: the members of A determine it to rounding.
        """
        self._extend(np.array([member]))
        column = self._column(member)
        # The column's own entry, since a diagonal may have been given as an estimate.
        known = self._rows[member, : len(self._members)]
        entry = float(column[member] + self._noise[member] - known @ known)
        if not entry > 0:
            raise NumericalError(
                f"noise: expected one that keeps covariances positive definite, got a variance of "
                f"{entry:.2g} at a place given {len(self._members)} others"
            )
        self._roots.append(float(np.sqrt(entry)))
        self._columns.append(column)
        self._members.append(member)

    @property
    def pivots(self) -> FloatArray:
        """Pivot of each member: its diagonal entry given the members before it, (|A|,)."""
        return np.array(self._roots) ** 2

    def along(self, which: IntArray) -> FloatArray:
        """The diagonal at numbers (m,) before the first and after each member, (|A| + 1, m)."""
        self._extend(which)
        steps = self._rows[which, : len(self._members)].T ** 2
        return self._given[which] - np.vstack([np.zeros(which.size), np.cumsum(steps, axis=0)])

    def _extend(self, which: IntArray) -> None:
        """Bring rows up to the last member of A."""
        done = self._done[which]
        for step in range(int(done.min(initial=len(self._members))), len(self._members)):
            rows = which[done <= step]
            known = self._rows[rows, :step] @ self._rows[self._members[step], :step]
            entries = (self._columns[step][rows] - known) / self._roots[step]
            self._rows[rows, step] = entries
            self._diagonal[rows] -= entries**2
        self._done[which] = len(self._members)
