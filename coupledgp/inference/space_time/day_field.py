"""The usual day at sites without a sensor: a regression on that of the sensors.

Deviations m (p,) of the usual day from the levels of the sensors at a time are taken as a draw of
`N(0, s^2 (K + r I))`, K the kernel of sites and s^2 that of the time. With `P = (K + r I)^-1` the
mean at a site x is `k' P m`, its variance `s^2 (K_xx + r - k' P k)`; that of a sensor from the
others is `m - (P m)_i / P_ii`, of variance `s^2 / P_ii`. r is the one of a few of least squared
error of sensors from the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from coupledgp.inference.space_time.sites import Sites
from coupledgp.random import FloatArray, IntArray

# Ratios r of which one is chosen.
RATIOS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


@dataclass(frozen=True, eq=False)
class DayField:
    """Regressions of the usual day between sites.

    Attributes
    ----------
    sites : Sites
        Kernel of the sites.
    sensors : IntArray (p,)
        Sites of the sensors.
    ratio : float
        r.
    """

    sites: Sites
    sensors: IntArray
    ratio: float

    @classmethod
    def of(cls, sites: Sites, sensors: IntArray, deviations: FloatArray) -> DayField:
        """The field of deviations (p, n), its ratio found."""
        values, vectors = np.linalg.eigh(sites.gram(sensors))
        rotated = vectors.T @ deviations
        losses = []
        for ratio in RATIOS:
            inverse = 1.0 / (np.maximum(values, 0.0) + ratio)
            diagonal = (vectors**2) @ inverse
            losses.append(float(((vectors @ (inverse[:, None] * rotated)) ** 2
                                 / diagonal[:, None] ** 2).mean()))  # fmt: skip
        return cls(sites, sensors, RATIOS[int(np.argmin(losses))])

    @cached_property
    def precision(self) -> FloatArray:
        """P (p, p)."""
        K = self.sites.gram(self.sensors)
        return np.asarray(np.linalg.inv(K + self.ratio * np.eye(len(K))))

    def others(self, deviations: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Means and variances (p, b) of each sensor's deviations from those (p, b) of others."""
        solved = self.precision @ deviations
        diagonal = self.precision.diagonal()[:, None]
        return deviations - solved / diagonal, self._level(solved) / diagonal

    def at(self, sites: IntArray, deviations: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Means and variances (a, b) at sites, for the sensors' deviations (p, b)."""
        solved = self.precision @ deviations
        mean = self.sites.product(sites, self.sensors, solved)
        cross = self.sites.cross(sites, self.sensors)
        left = self.sites.diagonal(sites) + self.ratio
        left = left - ((cross @ self.precision) * cross).sum(axis=1)
        return mean, np.maximum(left, 0.0)[:, None] * self._level(solved)

    def _level(self, solved: FloatArray) -> FloatArray:
        """s^2 (b,): the mean of squared errors of sensors over their variances."""
        return np.asarray((solved**2 / self.precision.diagonal()[:, None]).mean(axis=0))
