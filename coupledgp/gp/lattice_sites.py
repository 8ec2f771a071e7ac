"""The prior of a lattice at rows whose observations follow a likelihood."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from coupledgp.gp.lattice_parts import TrendColumns
from coupledgp.gp.protocol import Data, Points
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.inference.lattice.evidence import LatticePrior
from coupledgp.inference.lattice.posterior import LatticePosterior, values_at
from coupledgp.inference.lattice.system import LatticeSystem
from coupledgp.inference.sites.priors import SitePrior
from coupledgp.random import FloatArray

# Draws and probes by which variances and determinants are known on many waves.
SITE_DRAWS, SITE_PROBES = 32, 8


class LatticeSites(SitePrior):
    """The waves of a lattice as the prior of f at n rows.

    Given sites of precisions W, sums over rows with weights W make the equations `A = D T D + I` of
    the whitened weights, and `log |I + W^1/2 K W^1/2| = log |A|`. Each posterior is one pass over
    the rows, then solves that do not depend on n. Waves beyond the lattice are left out: their
    variance is below that of the mean site by the lattice's own rule. Random numbers are the same
    for all sites, so that values can be compared.

    Parameters
    ----------
    prior
        Kernel, hyperparameters and lattice of the rows.
    trend
        Places and trend columns.
    points
        Rows (n, D).
    seed
        Of draws and probes.
    """

    # Variances and determinants come from different draws, which agree up to this.
    value_error: ClassVar[float] = 1e-5

    def __init__(self, prior: LatticePrior, trend: TrendColumns, points: Points, seed: int) -> None:
        self.prior, self.trend, self.points, self.seed = prior, trend, points, seed
        self._places = prior.lattice.relative(points[:, trend.places])
        self._columns = trend.standardised(points)

    def posterior(
        self, precision: Tensor, shift: Tensor, want_variance: bool
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        targets = (shift / precision).numpy()
        found = [self._of_output(*pair) for pair in zip(precision.numpy(), targets, strict=True)]
        mean = torch.as_tensor(np.stack([each[0] for each in found]))
        variance = torch.as_tensor(np.stack([each[1] for each in found]))
        determinant = torch.tensor([each[2] for each in found], dtype=torch.float64)
        return mean, variance if want_variance else None, determinant

    def _of_output(
        self, precision: FloatArray, targets: FloatArray
    ) -> tuple[FloatArray, FloatArray, float]:
        """Means and variances (n,) of f at the rows, and the log determinant."""
        prior, lattice = self.prior, self.prior.lattice
        data = Data.of(self.points, targets[:, None], 1.0 / precision)
        sums = self.trend.sums(lattice, data, np.zeros(1))
        system = LatticeSystem.of(lattice, sums, 1, prior.loadings, 1.0)
        draws, probes = (np.random.default_rng([self.seed, k]) for k in (5, 6))
        found = LatticePosterior.of(system, SITE_DRAWS, draws)
        weights = prior.loadings[:, None] * found.mean
        mean = values_at(lattice, weights, self._places, self._columns)[:, 0]
        variance = found.variances(lattice, self._places, self._columns)
        return mean, np.maximum(variance, 0.0), system.log_determinant(SITE_PROBES, probes)[0]
