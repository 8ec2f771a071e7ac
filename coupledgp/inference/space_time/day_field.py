"""The usual day at sites without a sensor: a regression on that of the sensors.

Deviations m (p,) of the usual day from the levels of the sensors at a time are taken as a draw of
`N(0, s^2 (K + c 11' + r I))`, K the kernel of sites, c of a day that all sites share, and s^2 that
of the time. With P the inverse of that matrix the mean at a site x is `k' P m`, its variance
`s^2 (K_xx + c + r - k' P k)`, k the covariances `K(S, x) + c`. That of a sensor from the others is
`m - (P m)_i / P_ii`, of variance `s^2 / P_ii`. r and c are those of a few of least squared error of
sensors from the others: where a shared day tells more than neighbours do, r is large.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from coupledgp.inference.space_time.sites import Sites
from coupledgp.random import FloatArray, IntArray

# Ratios r and shared parts c of which a pair is chosen.
RATIOS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
SHARED = (0.0, 30.0)


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
    shared : float
        c.
    """

    sites: Sites
    sensors: IntArray
    ratio: float
    shared: float = 0.0

    @classmethod
    def of(cls, sites: Sites, sensors: IntArray, deviations: FloatArray) -> DayField:
        """The field of deviations (p, n), its ratio and shared part found."""
        gram = sites.gram(sensors)
        losses = {}
        for shared in SHARED:
            values, vectors = np.linalg.eigh(gram + shared)
            rotated = vectors.T @ deviations
            for ratio in RATIOS:
                inverse = 1.0 / (np.maximum(values, 0.0) + ratio)
                diagonal = (vectors**2) @ inverse
                errors = (vectors @ (inverse[:, None] * rotated)) / diagonal[:, None]
                losses[ratio, shared] = float((errors**2).mean())
        ratio, shared = min(losses, key=losses.__getitem__)
        return cls(sites, sensors, ratio, shared)

    @cached_property
    def precision(self) -> FloatArray:
        """P (p, p)."""
        K = self.sites.gram(self.sensors) + self.shared
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
        mean = mean + self.shared * solved.sum(axis=0)
        cross = self.sites.cross(sites, self.sensors) + self.shared
        left = self.sites.diagonal(sites) + self.shared + self.ratio
        left = left - ((cross @ self.precision) * cross).sum(axis=1)
        return mean, np.maximum(left, 0.0)[:, None] * self._level(solved)

    def _level(self, solved: FloatArray) -> FloatArray:
        """s^2 (b,): the mean of squared errors of sensors over their variances."""
        return np.asarray((solved**2 / self.precision.diagonal()[:, None]).mean(axis=0))
