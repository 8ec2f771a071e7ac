"""Columns of covariates: what a regression on them has coefficients of."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from coupledgp.random import FloatArray, IntArray
from coupledgp.series import TimeAxis
from coupledgp.series.covariates import NODES, Covariate

# Fewest distinct values of a number with a smooth part, and the degrees of its polynomials.
LEAST_DISTINCT, DEGREES = 8, (2, 3)


@dataclass(frozen=True, eq=False)
class EffectColumns:
    """Columns of a covariate: the number or its kinds, then a smooth part of numbers.

    A number is a column of unit standard deviation; if it has many values there are Legendre
    polynomials of degrees 2 and 3 on its range, too, constant beyond it. A kind is a column of
    ones and zeros. All have the mean zero over the data.

    Attributes
    ----------
    covariate : Covariate
        Known values.
    ends : tuple of float
        Least and greatest number in the data.
    center, scale : FloatArray (k,)
        What is taken from each column, and by which it is divided then.
    """

    covariate: Covariate
    ends: tuple[float, float]
    center: FloatArray = field(repr=False)
    scale: FloatArray = field(repr=False)

    @classmethod
    def of(
        cls, covariate: Covariate, axis: TimeAxis, sensors: IntArray, times: FloatArray
    ) -> EffectColumns:
        """The columns of a covariate at the sensors (p,) and times (n,) of the data."""
        values = covariate.at(axis, sensors, times)
        ends = float(values.min()), float(values.max())
        is_smooth = not covariate.kinds and np.unique(values).size >= LEAST_DISTINCT
        k = len(covariate.kinds) or 1 + len(DEGREES) * is_smooth
        plain = cls(covariate, ends, np.zeros(k), np.ones(k))
        raw = plain.of_values(values).reshape(k, -1)
        spread = raw.std(axis=1)
        scale = np.where(spread > 0, spread, 1.0)
        return cls(covariate, ends, raw.mean(axis=1), np.ones(k) if covariate.kinds else scale)

    @property
    def name(self) -> str:
        """Name of the covariate."""
        return self.covariate.name

    @property
    def is_static(self) -> bool:
        """Whether it is known of nodes, and the same at all times."""
        return self.covariate.over == NODES

    @property
    def n_columns(self) -> int:
        """Number k of the columns."""
        return self.center.size

    @property
    def n_plain(self) -> int:
        """Number of the columns before those of the smooth part."""
        return len(self.covariate.kinds) or 1

    def at(self, axis: TimeAxis, sites: IntArray, times: FloatArray) -> FloatArray:
        """Columns (k, a or 1, b or 1) at sites (a,) and times (b,)."""
        return self.of_values(self.covariate.at(axis, sites, times))

    def of_values(self, values: FloatArray) -> FloatArray:
        """Columns (k, a, b) of values (a, b)."""
        if self.covariate.kinds:
            found = [values == code for code in range(self.n_columns)]
        else:
            low, high = self.ends
            half = (high - low) / 2 if high > low else 1.0
            u = np.clip((values - low) / half - 1.0, -1.0, 1.0)
            smooth = [np.polynomial.legendre.legval(u, np.eye(d + 1)[d]) for d in DEGREES]
            found = [values, *smooth[: self.n_columns - 1]]
        raw = np.stack(found).astype(np.float64)
        return np.asarray((raw - self.center[:, None, None]) / self.scale[:, None, None])
