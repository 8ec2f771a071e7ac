"""What a fit asks of a table of more rows than fit into memory: sums over all rows, some rows.

Whoever goes through the rows, one process after one file or many workers each with a part, makes a
`TablePasses`: the sums of parts merge.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from coupledgp.features.sklearn import Columns
from coupledgp.gp.column_moments import ColumnMoments
from coupledgp.gp.protocol import Batch, Data
from coupledgp.gp.seen import Seen
from coupledgp.gp.units import Units
from coupledgp.gp.weight_space import batch_chunks
from coupledgp.inference.weights.evidence import feature_gradients, weighted_rows
from coupledgp.inference.weights.statistics import DataStatistics
from coupledgp.inference.weights.stream import FeatureStream
from coupledgp.random import FloatArray, IntArray


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


class TablePasses(ABC):
    """The passes over a table that a fit makes.

    Attributes
    ----------
    summary : TableSummary
        What the first passes found. Rows are numbered from zero, in one order in all passes,
        without those of weight zero.
    seconds_a_pass : float
        Seconds that a pass over the rows takes by itself; zero where it is not known.
    """

    summary: TableSummary
    seconds_a_pass: float = 0.0

    @abstractmethod
    def take(self, rows: IntArray) -> Data:
        """Return rows by their numbers (m,), which ascend, as one batch of encoded data."""

    @abstractmethod
    def statistics(self, stream: FeatureStream, units: Units) -> DataStatistics:
        """Return the sum of `part_statistics` over all rows."""

    @abstractmethod
    def lengthscale_gradient(
        self, stream: FeatureStream, units: Units, solved: Solved
    ) -> FloatArray:
        """Return the sum (d,) of `part_gradient` over all rows."""

    def evaluated(self, key: tuple[Any, ...], find: Callable[[], Any]) -> Any:
        """Return an evaluation of the evidence of the whole table: what `find` returns.

        Passes that go on after an interruption return what was found before under the same key, of
        texts, numbers and arrays.
        """
        return find()

    def searched(self, find: Callable[[], Any]) -> Any:
        """Return the result of the search, what `find` returns or what was found before."""
        return find()


def normalized_batches(data: Data, units: Units) -> Iterable[Batch]:
    """Batches of data with targets in normalised units."""
    return (batch._replace(targets=units.normalized(batch.targets)) for batch in data.batches)


def no_statistics(stream: FeatureStream, units: Units, mean: FloatArray) -> DataStatistics:
    """Statistics of no rows, to which those of parts are added.

    `mean` (k,) of the targets is their offset in normalised units; zero where these follow them.
    """
    offset = torch.as_tensor(units.normalized(mean), device=stream.feature_map.device)
    return DataStatistics(stream.feature_map.n_features, offset)


def part_statistics(
    statistics: DataStatistics, stream: FeatureStream, units: Units, data: Data
) -> DataStatistics:
    """Statistics of some rows more, targets in normalised units.

    Parameters
    ----------
    statistics
        Those so far, see `no_statistics`.
    stream
        Feature map, centre and lengthscales; its rows are not used.
    units
        Units of the targets.
    data
        Rows.
    """
    return statistics.updated(
        chunk
        for batch in normalized_batches(data, units)
        for chunk in batch_chunks(replace(stream, X=batch.points), batch)
    )


def part_gradient(stream: FeatureStream, units: Units, solved: Solved, data: Data) -> FloatArray:
    """Gradient (d,) of the log evidence in the log lengthscales, as far as it is of these rows."""
    own = stream.feature_map
    gradient = torch.zeros(own.dim, dtype=torch.float64, device=own.device)
    for batch in normalized_batches(data, units):
        rows, targets = weighted_rows(replace(stream, X=batch.points), batch.targets, batch.weights)
        for inputs, features, upstream in feature_gradients(rows, targets, *solved):
            by_input = own.pullback(inputs, features, upstream)
            gradient -= (inputs * by_input).sum(0).double()
    found: FloatArray = gradient.cpu().numpy()
    return found
