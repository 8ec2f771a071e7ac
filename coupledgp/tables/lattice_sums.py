"""Sums over the rows of a table, from which every posterior on a lattice follows.

With relative noise variances `r_i`, counts `c_i`, weights `p_i = c_i / r_i`, trend columns t and
targets y less an offset:

    T_t = sum_i p_i exp(-2 pi i h t.(x_i - c)) ,  |t_a| <= 2 m_a        differences of frequencies
    b_j = sum_i p_i y_i exp(-2 pi i h j.(x_i - c)) ,  |j_a| <= m_a      and the same of each t
    yy = sum_i p_i y_i^2 ,  t'Py ,  t'Pt ,  n = sum_i c_i ,  sum_i c_i log r_i

They do not depend on a hyperparameter, and sums of parts of a table add up.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

import numpy as np

from coupledgp.core.problem import RowWeights
from coupledgp.errors import InvalidInputError
from coupledgp.ground.codec import stored
from coupledgp.random import FloatArray
from coupledgp.tables.lattice import Complex, Lattice


@stored
@dataclass(frozen=True, eq=False)
class LatticeSums:
    """Sums over rows.

    Attributes
    ----------
    waves : Complex (4 m_1 + 1, ..., 2 m_d + 1)
        T, of differences of two frequencies; half of the last axis.
    cross : Complex (k + p, 2 m_1 + 1, ..., m_d + 1)
        b of the k targets, and of the p trend columns.
    products : FloatArray (k + p, k + p)
        Weighted products of targets and trend columns.
    n_counted, log_noise : float
        `sum c` and `sum c log r`.
    """

    waves: Complex
    cross: Complex
    products: FloatArray
    n_counted: float
    log_noise: float

    @classmethod
    def of(
        cls,
        lattice: Lattice,
        points: FloatArray,
        targets: FloatArray,
        trend: FloatArray,
        weights: RowWeights | None = None,
    ) -> Self:
        """Sums over rows (n, d) with targets (n, k) less their offset, and trend columns (n, p)."""
        relative = lattice.relative(points)
        own = np.ones(len(points)) if weights is None else weights.counts / weights.noise
        values = np.hstack([targets, trend])
        weighted = own[:, None] * values
        n_counted = float(len(points)) if weights is None else weights.n_counted
        return cls(
            lattice.differences.adjoint(relative, own[:, None])[0],
            lattice.waves.adjoint(relative, weighted),
            values.T @ weighted,
            n_counted,
            0.0 if weights is None else weights.log_noise,
        )

    def merge(self, other: LatticeSums) -> LatticeSums:
        """Sums over the rows of both; they are those of one lattice, offset and trend.

        Raises
        ------
        InvalidInputError
            The sums are of different lattices.
        """
        if self.waves.shape != other.waves.shape or self.cross.shape != other.cross.shape:
            raise InvalidInputError(
                f"other: expected sums of {self.waves.shape} waves and {len(self.cross)} columns, "
                f"got {other.waves.shape} and {len(other.cross)}"
            )
        return LatticeSums(
            *(getattr(self, each.name) + getattr(other, each.name) for each in fields(self))
        )

    def shifted(self, change: FloatArray, factor: FloatArray) -> LatticeSums:
        """Sums of `(y - change) * factor` in place of targets y, change and factor (k,).

        The sums over rows alone, of T at the lattice's own frequencies, are those of a target that
        is one everywhere; trend columns follow them.
        """
        k = len(change)
        ones = self._ones
        cross = self.cross.copy()
        cross[:k] = (self.cross[:k] - np.multiply.outer(change, ones)) * _along(factor, ones.ndim)
        middle = tuple(n // 2 for n in ones.shape[:-1])
        totals = self.cross[(slice(None), *middle, 0)].real
        count = float(ones[(*middle, 0)].real)
        whole = np.concatenate([change, np.zeros(len(self.products) - k)])
        products = (
            self.products - np.outer(whole, totals) - np.outer(totals, whole)
            + count * np.outer(whole, whole)
        )  # fmt: skip
        scale = np.concatenate([factor, np.ones(len(whole) - k)])
        return LatticeSums(
            self.waves, cross, products * np.outer(scale, scale), self.n_counted, self.log_noise
        )

    def moments(self, n_targets: int) -> tuple[FloatArray, FloatArray]:
        """Weighted means and standard deviations (k,) of the targets, less their offset."""
        ones = self._ones
        middle = tuple(n // 2 for n in ones.shape[:-1])
        count = float(ones[(*middle, 0)].real)
        mean = self.cross[(slice(n_targets), *middle, 0)].real / count
        square = np.diag(self.products)[:n_targets] / count - np.square(mean)
        return mean, np.sqrt(np.maximum(square, 0.0))

    @property
    def _ones(self) -> Complex:
        """T at the lattice's own frequencies, (2 m_1 + 1, ..., m_d + 1)."""
        own = self.cross.shape[1:]
        parts = [
            slice((whole - n) // 2, (whole + n) // 2)
            for whole, n in zip(self.waves.shape[:-1], own[:-1], strict=True)
        ]
        return self.waves[(*parts, slice(own[-1]))]


def _along(factor: FloatArray, n_axes: int) -> FloatArray:
    return factor.reshape(-1, *(1,) * n_axes)
