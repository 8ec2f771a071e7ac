"""Local models of tables on a cluster: near rows are found where they lie, only these move."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from coupledgp.batches import TableBatch
from coupledgp.batches.passes import Pass
from coupledgp.dask.cells import CellTable, local_table
from coupledgp.dask.cluster import Cluster
from coupledgp.dask.neighbours import CandidatesPass, Queries, RankedPass, RankedRows, near_rows
from coupledgp.dask.passes import DaskPasses, Partitions
from coupledgp.errors import CoupledGPError, InvalidInputError
from coupledgp.gp.local import LocalGP
from coupledgp.gp.local_prior import LocalHyperparameters, LocalPrior
from coupledgp.gp.local_table import Table, random_order
from coupledgp.gp.normalized_process import NormalizedProcess
from coupledgp.gp.protocol import Data, GaussianProcess, Points, Want
from coupledgp.gp.units import Units, are_constant
from coupledgp.ground.progress import Progress, reporter, silent
from coupledgp.ground.tensors import torch
from coupledgp.inference.neighbours.evidence import BatchEvidence, OrderedRows
from coupledgp.inference.neighbours.nearest import Places, earlier_by_trees, first_block
from coupledgp.inference.neighbours.parameters import Structure
from coupledgp.inference.neighbours.whitening import Neighbours, WhitenedPosterior, WhitenedSums
from coupledgp.likelihoods.base import Likelihood
from coupledgp.models.local import LocalGPRegressor, column_groups, split_kernel
from coupledgp.models.table_parts import Reading
from coupledgp.random import FloatArray
from coupledgp.search.tables.batched_evidence import KEPT_ROWS
from coupledgp.search.tables.local import LocalFitter, searched_order
from coupledgp.search.tables.local_problem import MOMENT_ROWS, LocalProblem


@dataclass(frozen=True, eq=False)
class RankedParts:
    """The rows of a table on a cluster, in an order.

    Attributes
    ----------
    cluster : Cluster
        The workers.
    parts : tuple of Future
        `RankedRows` of each partition.
    """

    cluster: Cluster
    parts: tuple[Any, ...]

    @classmethod
    def of(
        cls, passes: DaskPasses, order: Places, problem: LocalProblem, offset: FloatArray
    ) -> RankedParts:
        """The rows in an order (n,) of their numbers, standardised as a problem says."""
        ranks = np.empty_like(order)
        ranks[order] = np.arange(order.size)
        given = problem.center, problem.spread, offset
        own = np.split(ranks, passes.ends[:-1])
        parts = passes.partitions.map(_ranked, passes.everywhere, own, passes.cluster.shared(given))
        return cls(passes.cluster, tuple(parts))

    def among(self, ranks: Places) -> RankedRows:
        """Rows by their ranks, ascending ones."""
        rows: RankedRows = self._total(RankedPass(ranks))
        return rows

    def _total(self, sums: Pass[Any]) -> Any:
        return self.cluster.result(self.cluster.total(sums, self.parts))

    @cached_property
    def _first(self) -> dict[int, RankedRows]:
        return {}

    def first(self, count: int) -> RankedRows:
        """The first rows of the order."""
        if count not in self._first:
            self._first[count] = self.among(np.arange(count))
        return self._first[count]

    def near(self, wanted: Places, scale: FloatArray, k: int) -> Places:
        """Ranks (w, k) of near rows before wanted ones, see `nearest.nearest_earlier`."""
        early = self.first(first_block(k))
        n_first = int(np.searchsorted(wanted, len(early.ranks)))
        found = earlier_by_trees(early.inputs / scale, wanted[:n_first], k)
        if n_first == wanted.size:
            return found
        late = self.among(wanted[n_first:])
        queries = Queries(late.ranks, late.inputs / scale, k)
        return np.concatenate([found, self._total(CandidatesPass(scale, queries))])


@dataclass(frozen=True, eq=False, kw_only=True)
class ShardedFitter(LocalFitter):
    """`search.tables.local.LocalFitter` whose rows lie on a cluster; batches of them come here.

    Attributes
    ----------
    rows : OrderedRows
        No rows.
    seed, report, varies, shared
        See the base class.
    table : RankedParts
        The rows.
    n_table : int
        Number of rows.
    units : Units
        Units of the targets.
    offset : FloatArray (k,)
        What was subtracted from the targets of the table.
    """

    table: RankedParts
    n_table: int
    units: Units
    offset: FloatArray

    @property
    def n_rows(self) -> int:
        return self.n_table

    def among(self, places: NDArray[np.int64]) -> OrderedRows:
        rows = self.table.among(places)
        return OrderedRows.of(rows.inputs, self._targets(rows))

    def near(self, places: NDArray[np.int64], scale: FloatArray, k: int) -> NDArray[np.int64]:
        return self.table.near(places, scale, k)

    def _targets(self, rows: RankedRows) -> FloatArray:
        """Targets (n, k) of rows, normalised."""
        return self.units.normalized(rows.columns[:, :-1] + self.offset)

    def evidence(
        self, structure: Structure, batch: NDArray[np.int64], vector: FloatArray
    ) -> BatchEvidence:
        near = np.empty((batch.size, 0), dtype=np.int64)
        if structure.spectrum is not None:
            scale = self.lengthscale(structure, vector)
            near = self.table.near(batch, scale, structure.n_neighbours)
        rows = self.table.among(np.union1d(batch, near))
        neighbours = Neighbours.of(rows.places(batch), rows.places(near))
        inputs = torch.as_tensor(rows.inputs)
        return BatchEvidence(
            structure, neighbours, inputs, torch.as_tensor(self._targets(rows)),
            torch.ones(len(rows.ranks), dtype=torch.float64), structure.of_columns(inputs),
            float(batch.size), float(self.n_table),
        )  # fmt: skip


def fit_local(model: LocalGPRegressor, partitions: Partitions) -> None:
    """Fit a model to all rows of partitions; the model's fit is replaced by one assignment.

    Raises
    ------
    InvalidInputError
        Targets are transformed, rows have weights, or the data are invalid.
    """
    if model.target_transform is not None:
        raise InvalidInputError(
            f"target_transform: expected None on a cluster, got {model.target_transform!r}"
        )
    model.check_parameters()
    with reporter("fit", model.progress) as report:
        passes = DaskPasses(model, partitions, model.missing, report)
        if passes.summary.n_rows <= KEPT_ROWS:
            found = model.fit_data(passes.all_rows(), passes.summary.columns)
        else:
            found = _fitted(model, passes, report)
    model.holding(passes.fitted(*found))


def _fitted(
    model: LocalGPRegressor, passes: DaskPasses, report: Any
) -> tuple[GaussianProcess, dict[str, Any]]:
    """The process of a table that stays on the workers, and further results."""
    if split_kernel(model.kernel)[1] is not None:
        raise InvalidInputError(
            f"kernel: expected one without additive terms for the {passes.summary.n_rows} rows of "
            f"a cluster, got {str(model.kernel)!r}"
        )
    summary = passes.summary
    n_rows, offset = summary.n_rows, summary.targets.mean
    units = summary.units(model.normalize_y)
    seed = int(model._rng().integers(2**31))
    data = passes.take(np.arange(0, n_rows, max(1, n_rows // MOMENT_ROWS)))
    problem = LocalProblem.of(data, units, column_groups(data, summary.columns), seed)
    ends = np.stack([summary.targets.low, summary.targets.high])
    table = RankedParts.of(passes, searched_order(seed, n_rows), problem, offset)
    none = OrderedRows.of(data.points[:0], data.targets[:0])
    fitter = ShardedFitter(
        rows=none, seed=seed, report=report, table=table, n_table=n_rows,
        varies=not are_constant(ends, units.offset), units=units, offset=offset,
    )  # fmt: skip
    found = model._search(problem, fitter)
    del table, fitter  # whose rows on the workers go before those in cells come
    report("posterior")
    prior = problem.prior(found.structure, found.vector)
    process = conditioned(prior, passes, problem, units, model.normalize_y)
    return process, {"n_evaluations_": found.n_evaluations, "converged_": found.converged}


def conditioned(
    prior: LocalPrior, passes: DaskPasses, problem: LocalProblem, units: Units, normalize: bool
) -> ShardedLocalGP:
    """A prior given all rows."""
    n_rows, offset = passes.summary.n_rows, passes.summary.targets.mean
    parts = RankedParts.of(passes, random_order(0, n_rows), problem, offset)
    scale = prior.local_lengthscale
    cells = CellTable.of(passes.cluster, list(parts.parts), scale, prior.structure.n_neighbours)
    sums = cells.sums(prior)
    first = cells.early.take(np.arange(1))
    table = local_table(first, prior, offset, cells.box)
    change = table.normalizer(units)
    normalized = sums._replace(cross=sums.cross @ change, squares=change.T @ sums.squares @ change)
    posterior = WhitenedPosterior.of(normalized)
    return ShardedLocalGP(prior, units, normalize, n_rows, table, sums, posterior, cells)


def _ranked(batch: TableBatch, reading: Reading, ranks: Places, given: Any) -> RankedRows:
    """The rows of a partition, standardised, in the order of their ranks."""
    center, spread, offset = given
    data = reading.data(batch)
    if data is None:
        return RankedRows(ranks, np.empty((0, center.size)), np.empty((0, offset.size + 1)))
    if data.weights is not None:
        raise InvalidInputError("sample_weight: expected None for a local model on a cluster")
    columns = np.hstack([data.targets - offset, np.ones((len(data), 1))])
    return RankedRows.of(ranks, (data.points - center) / spread, columns)


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
