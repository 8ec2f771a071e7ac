"""Evidence of complete space-time data on any time axis, by filters.

With Z (p, n) complete and `D^-1/2 K D^-1/2 = U diag(l) U'` the rows of `U' D^-1/2 Z` are
independent series of covariances `A_i`, and

    -log L = 1/2 sum_i (log|A_i| + z_i' A_i^-1 z_i) + n/2 log|D| ,

exactly. Where steps differ no transform makes frequencies independent, as `whittle` has them.
"""

from __future__ import annotations

import numpy as np

from coupledgp.inference.space_time.basis import Basis
from coupledgp.inference.space_time.filters import SeriesFilter
from coupledgp.inference.space_time.whittle import RIDGE, Gram, SpaceTimeParameters
from coupledgp.random import FloatArray

# Step in logarithms of parameters for differences.
STEP = 1e-5


class FilterEvidence:
    """The evidence of complete data, and its gradient, as a function of the variables.

    Parameters
    ----------
    Z
        Complete data (m, p, n): m imputations, over which the evidence is averaged.
    times
        Rising times (n,).
    gram
        Covariance of the sensors by theta.
    start
        Parameters at which the search begins; its variables pull weakly.
    """

    def __init__(
        self, Z: FloatArray, times: FloatArray, gram: Gram, start: SpaceTimeParameters
    ) -> None:
        self.Z, self.times, self.gram, self.start = Z, times, gram, start

    def value(self, variables: FloatArray) -> float:
        """Minus the evidence with its pull, nats."""
        at = self.start.at(variables)
        basis = Basis.of(self.gram(at.theta), at.roots, most=self.Z.shape[1])
        series = SeriesFilter(at.terms, at.noise, basis.eigenvalues, self.times)
        rotated = basis.rotated(self.Z)
        quad = float((rotated * series.solve(rotated)).sum()) / len(self.Z)
        scales = 2.0 * self.times.size * float(np.log(at.roots).sum())
        away = variables - self.start.variables
        total = float(series.log_determinants.sum()) + quad + scales
        return 0.5 * total + RIDGE * float(away @ away)

    def loss(self, variables: FloatArray) -> tuple[float, FloatArray]:
        """The value, and its gradient by forward differences."""
        value = self.value(variables)
        steps = STEP * np.eye(variables.size)
        return value, np.array([(self.value(variables + step) - value) / STEP for step in steps])
