"""Sums over a table of more rows than fit into memory, and some of its rows.

What is added up is a `Pass` over encoded rows (`coupledgp.core.passes`): a new sum over tables
is one class of it. A `TablePasses` goes through the rows: one process batch by batch, or many
workers each with a part. It runs any pass.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from coupledgp.core.column_moments import ColumnMoments
from coupledgp.core.passes import PartwisePass, rows_of_batch
from coupledgp.core.passes import Pass as Pass
from coupledgp.core.process import Batch, Data
from coupledgp.core.seen import Seen
from coupledgp.core.statistics import DataStatistics
from coupledgp.core.units import Units
from coupledgp.core.weights_evidence import feature_gradients, weighted_rows
from coupledgp.core.weights_posterior import FeatureStream
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.random import FloatArray, IntArray
from coupledgp.tables.samplers import Columns
from coupledgp.tables.weight_space import batch_chunks

T = TypeVar("T")
# Rows that features are made of between two looks at the clock.
BLOCK_ROWS = 65536


@dataclass(frozen=True, eq=False)
class TableSummary:
    """A table in numbers.

    Attributes
    ----------
    columns : Columns
        Its columns and their encoding.
    ndim : int
        Number of dimensions of y, 1 or 2.
    inputs, targets : ColumnMoments (D,), (k,)
        Moments of the encoded inputs and of the targets.
    level : float or None
        Mean of the known noise variances of the rows, where they are known.
    """

    columns: Columns
    ndim: int
    inputs: ColumnMoments
    targets: ColumnMoments
    level: float | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows n, without those of weight zero."""
        return self.inputs.n_rows

    @property
    def seen(self) -> Seen:
        """Where the table has rows."""
        return Seen.of_moments(self.inputs, self.targets)

    def units(self, normalize: bool) -> Units:
        """Units of the targets."""
        return Units.of_moments(self.targets, normalize)


class Solved(NamedTuple):
    """The equations of the weights solved, on which the gradient in the features depends.

    Attributes
    ----------
    weights : Tensor (M, k)
        Posterior mean of the weights.
    inverse : Tensor (M, M)
        Inverse of `Phi' Phi + (s / v) I`.
    noise : float
        Noise variance s in normalised units.
    """

    weights: Tensor
    inverse: Tensor
    noise: float


class BlockedPass(Pass[T]):
    """A pass to which rows come in blocks of a size of its own, whatever that of batches.

    Attributes
    ----------
    block_rows : int
        Rows of each block but the last.
    """

    @property
    @abstractmethod
    def block_rows(self) -> int:
        """Rows of each block but the last."""


class FeaturePass(BlockedPass[T]):
    """A pass that makes features of the rows.

    Parameters
    ----------
    stream
        Feature map, centre and lengthscales; its rows are not used.
    units
        Units of the targets.
    """

    def __init__(self, stream: FeatureStream, units: Units) -> None:
        self.stream, self.units = stream, units

    @property
    def block_rows(self) -> int:
        """A multiple of the rows of a chunk of features, fewer for wide tables."""
        n_columns = self.stream.feature_map.dim
        rows = replace(self.stream, X=np.broadcast_to(0.0, (BLOCK_ROWS, n_columns)))
        chunk = rows.chunk_rows
        return -(-min(BLOCK_ROWS, rows_of_batch(n_columns)) // chunk) * chunk


class StatisticsPass(FeaturePass[DataStatistics]):
    """Sufficient statistics of targets in normalised units.

    Parameters
    ----------
    stream, units
        As of a `FeaturePass`.
    mean
        Mean (k,) of the targets, whose normalised value is the offset of the statistics.
    """

    name = "posterior"

    def __init__(self, stream: FeatureStream, units: Units, mean: FloatArray) -> None:
        super().__init__(stream, units)
        self.mean = mean

    def start(self) -> DataStatistics:
        own = self.stream.feature_map
        offset = torch.as_tensor(self.units.normalized(self.mean), device=own.device)
        return DataStatistics(own.n_features, offset)

    def add(self, found: DataStatistics, part: Data) -> DataStatistics:
        return found.updated(
            chunk
            for batch in normalized_batches(part, self.units)
            for chunk in batch_chunks(replace(self.stream, X=batch.points), batch)
        )

    @staticmethod
    def merge(one: DataStatistics, other: DataStatistics) -> DataStatistics:
        return one.merge(other)


class GradientPass(FeaturePass[FloatArray]):
    """Gradient (d,) of the log evidence in the log lengthscales.

    Parameters
    ----------
    stream, units
        As of a `FeaturePass`.
    solved
        The equations of the weights, solved for all rows.
    """

    name = "gradient"

    def __init__(self, stream: FeatureStream, units: Units, solved: Solved) -> None:
        super().__init__(stream, units)
        self.solved = solved

    def start(self) -> FloatArray:
        return np.zeros(self.stream.feature_map.dim)

    def add(self, found: FloatArray, part: Data) -> FloatArray:
        own = self.stream.feature_map
        gradient = torch.zeros(own.dim, dtype=torch.float64, device=own.device)
        for batch in normalized_batches(part, self.units):
            stream = replace(self.stream, X=batch.points)
            rows, targets = weighted_rows(stream, batch.targets, batch.weights)
            for inputs, features, upstream in feature_gradients(rows, targets, *self.solved):
                by_input = own.pullback(inputs, features, upstream)
                gradient -= (inputs * by_input).sum(0).double()
        return found + np.asarray(gradient.cpu().numpy())

    @staticmethod
    def merge(one: FloatArray, other: FloatArray) -> FloatArray:
        return one + other


class MomentsPass(PartwisePass[ColumnMoments]):
    """Moments of the encoded inputs; None of no rows."""

    name = "moments"

    def of(self, part: Data) -> ColumnMoments:
        return ColumnMoments.of(part.points, part.counts)


class TablePasses(ABC):
    """The passes over a table that a fit makes.

    Attributes
    ----------
    summary : TableSummary
        What the first passes found. Rows are numbered from zero, in one order in all passes,
        without those of weight zero.
    seconds_a_pass : float
        Seconds that a pass takes for reading the rows alone; zero where it is not known.
    """

    summary: TableSummary
    seconds_a_pass: float = 0.0

    @abstractmethod
    def take(self, rows: IntArray) -> Data:
        """Return rows by their numbers (m,), which ascend, as one batch of encoded data."""

    @abstractmethod
    def total(self, sums: Pass[Any]) -> Any:
        """Return the finished result of a pass over all rows."""

    def statistics(self, stream: FeatureStream, units: Units) -> DataStatistics:
        """Return the statistics of all rows, of targets in normalised units."""
        found: DataStatistics = self.total(StatisticsPass(stream, units, self.summary.targets.mean))
        return found

    def lengthscale_gradient(
        self, stream: FeatureStream, units: Units, solved: Solved
    ) -> FloatArray:
        """Return the gradient (d,) of the log evidence in the log lengthscales."""
        gradient: FloatArray = self.total(GradientPass(stream, units, solved))
        return gradient


def normalized_batches(data: Data, units: Units) -> Iterable[Batch]:
    """Batches of data with targets in normalised units."""
    return (batch._replace(targets=units.normalized(batch.targets)) for batch in data.batches)
