"""The process of a local model whose rows lie on a cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from coupledgp.dask.cells import CellTable, local_table
from coupledgp.dask.neighbours import RankedRows, near_rows
from coupledgp.errors import CoupledGPError
from coupledgp.gp.local import LocalGP
from coupledgp.gp.local_prior import LocalHyperparameters, LocalPrior
from coupledgp.gp.local_table import Table
from coupledgp.gp.normalized_process import NormalizedProcess
from coupledgp.gp.protocol import Data, Points, Want
from coupledgp.gp.units import Units
from coupledgp.ground.progress import Progress, silent
from coupledgp.inference.neighbours.whitening import WhitenedPosterior, WhitenedSums
from coupledgp.likelihoods.base import Likelihood
from coupledgp.random import FloatArray


def _refusing(what: str) -> Callable[..., NoReturn]:
    """A method that refuses what would need all rows on one machine."""

    def method(self: ShardedLocalGP, *arguments: Any, **options: Any) -> NoReturn:
        """See the base class; refused."""
        raise self._refused(what)

    return method


@dataclass(frozen=True, eq=False, repr=False)
class ShardedLocalGP(NormalizedProcess):
    """`gp.local.LocalGP` with its rows in cells on the workers, which are asked for near ones.

    Attributes
    ----------
    local_prior : LocalPrior
        Parts and hyperparameters.
    units : Units
        Units of y.
    normalize : bool
        Whether the units would follow further rows.
    n_rows : int
        Number of rows.
    first_row : Table
        The first row alone, with the range of all.
    sums : WhitenedSums
        Sums over whitened rows.
    posterior : WhitenedPosterior
        Posterior of the weights.
    cells : CellTable or None
        All rows; None in tasks, which have near rows only.
    """

    local_prior: LocalPrior
    units: Units
    normalize: bool
    n_rows: int
    first_row: Table
    sums: WhitenedSums
    posterior: WhitenedPosterior
    cells: CellTable | None

    def near(self, points: Points) -> LocalGP:
        """A process of one machine, of the rows near points (p, d): there both have one law."""
        if self.local_prior.structure.spectrum is None or not len(points):
            return self.given_rows()
        cells, k = self.rows_in_cells, self.local_prior.structure.n_neighbours
        cluster, inputs = cells.cluster, self.local_prior.standardised(points)
        scale = self.local_prior.local_lengthscale
        return self.given_rows(
            cluster.result(near_rows(cluster.submit, cells.cells, scale, inputs, k))
        )

    def given_rows(self, rows: RankedRows | None = None) -> LocalGP:
        """The process of one machine that knows some of the rows; None: the first one."""
        prior, first = self.local_prior, self.first_row
        table = first if rows is None else local_table(rows, prior, first.offset, first.box)
        return LocalGP(
            prior, self.units, self.normalize, Data(()), table, self.sums, self.posterior
        )

    @property
    def rows_in_cells(self) -> CellTable:
        """All rows.

        Raises
        ------
        CoupledGPError
            This is the process of a task.
        """
        if self.cells is None:
            raise CoupledGPError("model: its rows are on a cluster, where coupledgp.dask predicts")
        return self.cells

    @property
    def data(self) -> Data:
        """See the base class; refused, for the rows are on the workers."""
        raise self._refused("its training rows")

    @property
    def hyperparameters(self) -> LocalHyperparameters:
        return self.local_prior.hyperparameters

    @property
    def noise(self) -> Likelihood:
        return self.local_prior.likelihood(self.local_prior.noise)

    @property
    def log_evidence(self) -> float:
        return float(self.posterior.log_evidence) - self.units.log_jacobian(self.n_rows)

    def summary(self) -> dict[str, Any]:
        return self.given_rows().summary()

    def latent_law(
        self, points: Points, want: Want, report: Progress = silent
    ) -> tuple[FloatArray, FloatArray | None]:
        return self.near(points).latent_law(points, want, report)

    def latent_samples(
        self, points: Points, n_samples: int, rng: np.random.Generator, report: Progress = silent
    ) -> FloatArray:
        return self.near(points).latent_samples(points, n_samples, rng, report)

    def latent_prior(self, points: Points) -> FloatArray:
        return self.given_rows().latent_prior(points)

    def without_cells(self) -> ShardedLocalGP:
        """The process for tasks, to which near rows are given."""
        return replace(self, cells=None)

    def conditioned(self, data: Data, *, renormalize: bool = False) -> LocalGP:
        """See the base class; the data are on this machine."""
        units = Units.of(data.targets, self.normalize, data.counts) if renormalize else self.units
        return LocalGP.given(self.local_prior, data, units, self.normalize)

    def _refused(self, what: str) -> CoupledGPError:
        return CoupledGPError(
            f"model: {what} would need all {self.n_rows} rows on this machine, and they are on the "
            "workers of a cluster; fit some of the rows with model.fit"
        )

    exact = exact_problem = _refusing("its exact twin")
    updated = _refusing("further rows")
    redrawn = _refusing("another draw")
    state = _refusing("a file of it")
