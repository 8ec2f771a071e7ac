"""Parts of a process on a lattice: trend columns, its dense prior, averages over boxes, units.

The prior of a lattice at rows whose observations follow a likelihood.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from coupledgp.core.column_moments import ColumnMoments, column_moments
from coupledgp.core.process import Data, Points
from coupledgp.core.sites import Moments, RowsPrior
from coupledgp.core.units import Units, safe_scale
from coupledgp.ground.codec import stored
from coupledgp.kernels.expressions import parse_kernel
from coupledgp.kernels.row_covariance import RowColumns
from coupledgp.linalg.low_rank import PROBES, warn_if_imprecise
from coupledgp.random import FloatArray
from coupledgp.tables.dense_prior import DensePrior, KernelPrior
from coupledgp.tables.exact_process import StationaryPrior
from coupledgp.tables.lattice import Lattice
from coupledgp.tables.lattice_evidence import TREND_VARIANCE, LatticePrior
from coupledgp.tables.lattice_posterior import LatticePosterior, values_at
from coupledgp.tables.lattice_sums import LatticeSums
from coupledgp.tables.lattice_system import LatticeSystem

# Error of an entry of the sums over rows by their transform, as it shows in means beside those of
# dense algebra in extended precision, on 200 to 20 000 rows.
SUM_ERROR = 1.5e-12


def dense_prior(prior: LatticePrior, trend: TrendColumns) -> DensePrior:
    """The prior by covariances: the kernel itself, and the trend's."""
    own = prior.hyperparameters
    if not len(trend.columns):
        return StationaryPrior(prior.spectrum, own)
    names = [f"x{j}" for j in range(len(trend.center))]
    on = ", ".join(f'"{names[j]}"' for j in trend.places)
    linear = ", ".join(f'"{names[j]}"' for j in trend.columns)
    kernel = parse_kernel(f"{prior.spectrum}[{on}] + linear[{linear}]")
    columns = RowColumns.plain(names)
    lengthscale = own.lengthscale / trend.scale[trend.places]
    vector = np.log(np.concatenate([[own.noise, own.outputscale], lengthscale, [TREND_VARIANCE]]))
    return KernelPrior(kernel, vector, columns, trend.center, trend.scale)


def averaged_over(process: Any, sides: FloatArray) -> Any:
    """The process with waves averaged over boxes of sides (d,): the same weights, shrunk."""
    lattice, n = process.lattice, process.n_waves
    at_pairs = np.prod(np.sinc(lattice.pairs * (sides * lattice.steps)), axis=1)
    loadings = process.lattice_prior.loadings.copy()
    loadings[:n] *= lattice.of_pairs(at_pairs, np.array(1.0))
    posterior = process.posterior.loaded(process.system, loadings)
    own = process.lattice_prior.hyperparameters
    # The average's own prior variance; waves beyond the lattice average out.
    held = float(np.square(loadings[:n]).sum())
    prior = replace(process.lattice_prior, hyperparameters=replace(own, outputscale=held))
    prior.__dict__["loadings"] = loadings
    return replace(process, lattice_prior=prior, posterior=posterior)


def rounding_error(prior: LatticePrior, system: LatticeSystem, mean: FloatArray) -> float:
    """Estimated error of means by rounding of the sums, in predictive standard deviations.

    With an error e of each entry of the sums, the equations `A w = D g` have the residual `r = D z`
    with entries of z of size `e (|D w|^2 + mean(y^2))^1/2`. Means `phi' D w` move by at most
    `(r' A^-1 r / s)^1/2` standard deviations, which is averaged over random signs of z. Where A is
    too large its preconditioner stands for it.

    Parameters
    ----------
    prior, system
        Prior, and equations of the whitened weights.
    mean
        Posterior mean (M + p, k) of these.
    """
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(system.n_weights, PROBES))
    residual = prior.loadings[:, None] * signs
    moved = float((residual * system.precondition(residual)).sum(axis=0).mean()) / prior.noise
    squares = np.diag(system.sums.products)[: system.n_outputs] / system.count
    squares = squares + np.square(prior.loadings[:, None] * mean).sum(axis=0)
    return SUM_ERROR * float(np.sqrt(squares.max() * moved))


def warn_of_rounding(prior: LatticePrior, system: LatticeSystem, mean: FloatArray) -> None:
    """Warn where sums over the rows lose the noise in their rounding."""
    error = rounding_error(prior, system, mean)
    warn_if_imprecise(error, f"noise: {prior.noise:.1g} of the variance of y", "raise the noise")


def units_of(sums: LatticeSums, offset: FloatArray) -> Units:
    """Units of all targets, from sums of targets less an offset (k,)."""
    mean, std = sums.moments(len(offset))
    return Units(
        offset + mean, safe_scale(std, offset + mean - std, offset + mean + std, sums.n_counted)
    )


@stored
@dataclass(frozen=True, eq=False)
class TrendColumns:
    """Which columns are places, and which enter by a linear trend.

    Attributes
    ----------
    places : NDArray[np.int64] (d,)
        Numbers of the columns that are places.
    is_linear : bool
        Whether places have a linear trend, too.
    center, scale : FloatArray (D,)
        Means and standard deviations of all columns.
    """

    places: NDArray[np.int64]
    is_linear: bool
    center: FloatArray
    scale: FloatArray

    @classmethod
    def of(
        cls,
        places: NDArray[np.int64],
        is_linear: bool,
        points: FloatArray,
        counts: FloatArray | None = None,
    ) -> Self:
        """Columns standardised by rows (n, D), which count as often as `counts` (n,) says."""
        return cls._of(places, is_linear, *column_moments(points, counts))

    @classmethod
    def of_moments(cls, places: NDArray[np.int64], is_linear: bool, inputs: ColumnMoments) -> Self:
        """Columns standardised by their moments."""
        return cls._of(places, is_linear, inputs.mean, inputs.variance)

    @classmethod
    def _of(
        cls, places: NDArray[np.int64], is_linear: bool, mean: FloatArray, variance: FloatArray
    ) -> Self:
        scale = np.sqrt(variance)
        return cls(places, is_linear, mean, np.where(scale > 0, scale, 1.0))

    @property
    def columns(self) -> NDArray[np.int64]:
        """Numbers (p,) of the columns with a linear trend."""
        every = np.arange(len(self.center))
        return every if self.is_linear else np.setdiff1d(every, self.places)

    def standardised(self, points: FloatArray) -> FloatArray:
        """Standardised trend columns (n, p) of rows (n, D)."""
        own = self.columns
        found: FloatArray = (points[:, own] - self.center[own]) / self.scale[own]
        return found

    def sums(self, lattice: Lattice, data: Data, offset: FloatArray) -> LatticeSums:
        """Sums on a lattice over observations, of targets less an offset (k,)."""
        places, columns = data.points[:, self.places], self.standardised(data.points)
        return LatticeSums.of(lattice, places, data.targets - offset, columns, data.weights)


# Draws and probes by which variances and determinants are known on many waves.
SITE_DRAWS, SITE_PROBES = 32, 8


class LatticeRows(RowsPrior):
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

    def posterior(self, precision: FloatArray, shift: FloatArray) -> Moments:
        prior, lattice = self.prior, self.prior.lattice
        data = Data.of(self.points, (shift / precision)[:, None], 1.0 / precision)
        sums = self.trend.sums(lattice, data, np.zeros(1))
        system = LatticeSystem.of(lattice, sums, 1, prior.loadings, 1.0)
        draws, probes = (np.random.default_rng([self.seed, k]) for k in (5, 6))
        found = LatticePosterior.of(system, SITE_DRAWS, draws)
        weights = prior.loadings[:, None] * found.mean
        mean = values_at(lattice, weights, self._places, self._columns)[:, 0]
        variance = found.variances(lattice, self._places, self._columns)
        determinant, _ = system.log_determinant(SITE_PROBES, probes)
        return Moments(mean, np.maximum(variance, 0.0), determinant)
