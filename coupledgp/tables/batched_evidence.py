"""Evidence of a table that is larger than memory, and the process given all of its rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from coupledgp.core.ladder import FIRST_ROWS, GIVEN_ROWS, GROWTH, MAX_HELD_OUT
from coupledgp.core.problem import (
    EvidenceGradient,
    LadderProblem,
    PredictiveEvidence,
    SpectralEvidence,
)
from coupledgp.core.process import Data
from coupledgp.core.starts import first_rows
from coupledgp.core.statistics import DataStatistics, Moments
from coupledgp.core.units import Units
from coupledgp.core.weights_evidence import ColumnsAtLengthscale, FeatureEvidence
from coupledgp.core.weights_posterior import FeatureStream
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.ground.validation import wrong
from coupledgp.random import FloatArray, IntArray
from coupledgp.tables.table_passes import Solved, TablePasses
from coupledgp.tables.weight_space import FeaturePrior, WeightSpaceGP

# Bytes of random rows in memory at once.
SAMPLE_BYTES = 2**27
# Rows in memory for the whole search: held-out rows, and rows that a comparison is given.
KEPT_ROWS = MAX_HELD_OUT + GIVEN_ROWS


def largest_sample(n_columns: int) -> int:
    """Rows of the largest rung whose rows are held in memory."""
    size = FIRST_ROWS
    while GROWTH * size <= max(SAMPLE_BYTES // (8 * n_columns), GIVEN_ROWS):
        size *= GROWTH
    return size


class BatchedEvidence(LadderProblem):
    """Evidence of a table, of which some random rows are in memory and the rest is read in passes.

    Parameters
    ----------
    passes
        The table, of at least as many rows as there are features.
    stream
        Feature map and centre, without rows; its lengthscale is replaced in each evaluation.
    units
        Units of the targets.
    regular
        See `FeatureEvidence`.
    """

    def __init__(
        self, passes: TablePasses, stream: FeatureStream, units: Units, regular: bool = True
    ) -> None:
        self.passes, self.stream, self.units, self.regular = passes, stream, units, regular
        summary = passes.summary
        self.n_rows, self.n_outputs = summary.n_rows, units.n_outputs
        n_features = stream.feature_map.n_features
        if self.n_rows < n_features:
            raise wrong(
                "n_frequencies", f"at most as many features as rows, {self.n_rows}", n_features
            )
        self._sample: tuple[IntArray, Data] | None = None
        self._last: tuple[FloatArray, DataStatistics] | None = None

    @property
    def n_counted(self) -> float:
        return self.passes.summary.targets.n_counted

    @property
    def most_rows(self) -> int:
        return min(largest_sample(self.stream.X.shape[1] + self.n_outputs), self.n_rows)

    def row_order(self, rng: np.random.Generator, size: int) -> IntArray:
        """The first numbers (size,) of the rows in random order; the first rows are stored."""
        order = first_rows(rng, self.n_rows, size)
        rows = np.sort(order[:KEPT_ROWS])
        self._sample = rows, self.passes.take(rows)
        return order

    def at(self, lengthscale: FloatArray) -> BatchedAtLengthscale:
        """Return the evidence at lengthscales (d,), by one pass over the table at its first use."""
        return BatchedAtLengthscale(self, lengthscale)

    def statistics(self, lengthscale: FloatArray) -> DataStatistics:
        """Statistics of all rows at lengthscales (d,), targets normalised; the last are cached."""
        if self._last is None or not np.array_equal(self._last[0], lengthscale):
            self._last = None
            stream = replace(self.stream, lengthscale=lengthscale)
            self._last = lengthscale, self.passes.statistics(stream, self.units)
        return self._last[1]

    def subset(self, rows: NDArray[np.intp]) -> FeatureEvidence:
        """Return the problem of some rows (b,); rows that are not in memory take another pass."""
        data = self._rows(rows)
        stream = replace(self.stream, X=data.points)
        targets = self.units.normalized(data.targets)
        return FeatureEvidence(stream, targets, data.weights, self.regular)

    def _rows(self, rows: IntArray) -> Data:
        if self._sample is not None:
            numbers, data = self._sample
            places = np.minimum(np.searchsorted(numbers, rows), numbers.size - 1)
            if (numbers[places] == rows).all():
                return data.take(places)
        return self.passes.take(rows)

    def single_precision(self) -> BatchedEvidence | None:
        none = FeatureEvidence(self.stream, np.empty((0, self.n_outputs))).single_precision()
        if none is None:
            return None
        return BatchedEvidence(self.passes, none.stream, self.units, regular=False)

    def given(self, prior: FeaturePrior, normalize: bool) -> WeightSpaceGP:
        """The process given all rows, none of which it keeps; one pass, or none after the search.

        Parameters
        ----------
        prior
            Prior with the feature map of this problem.
        normalize
            Whether the units follow the data when rows are added.
        """
        statistics = self.statistics(prior.hyperparameters.lengthscale)
        in_y = in_units(statistics, self.units)
        return WeightSpaceGP.of(prior, in_y, self.units, normalize, None)


class BatchedAtLengthscale(PredictiveEvidence):
    """Evidence of the table at fixed lengthscales: one pass, and another for the gradient.

    Parameters
    ----------
    problem
        The evidence.
    lengthscale
        Lengthscales (d,).
    """

    def __init__(self, problem: BatchedEvidence, lengthscale: FloatArray) -> None:
        self.problem, self.lengthscale = problem, lengthscale

    @cached_property
    def _solved(self) -> ColumnsInPasses:
        own = self.problem
        moments = own.statistics(self.lengthscale).moments
        assert moments is not None  # there are more rows than features
        if not own.regular:
            moments = replace(moments, rounding=0.0)
        zero = torch.zeros_like(moments.offset)
        equations = moments.normalized(zero, torch.ones_like(zero))
        stream = replace(own.stream, lengthscale=self.lengthscale)
        none = np.empty((0, own.n_outputs))
        return ColumnsInPasses(stream, none, equations, own.passes, own.units)

    def spectral(self) -> SpectralEvidence:
        return self._solved.spectral()

    def value(self, outputscale: float, noise: float) -> float:
        return self._solved.value(outputscale, noise)

    def evaluate(self, outputscale: float, noise: float) -> EvidenceGradient:
        return self._solved.evaluate(outputscale, noise)

    def log_density(self, others: LadderProblem, outputscale: float, noise: float) -> FloatArray:
        return self._solved.log_density(others, outputscale, noise)


@dataclass(frozen=True)
class ColumnsInPasses(ColumnsAtLengthscale):
    """Evidence from the Gram matrix of the features of rows that are not in memory.

    Attributes
    ----------
    passes : TablePasses
        The table.
    units : Units
        Units of the targets.
    """

    passes: TablePasses
    units: Units

    def _lengthscale_gradient(self, weights: Tensor, inverse: Tensor, noise: float) -> FloatArray:
        solved = Solved(weights, inverse, noise)
        return self.passes.lengthscale_gradient(self.stream, self.units, solved)


def in_units(statistics: DataStatistics, units: Units) -> DataStatistics:
    """Statistics of targets in units of y, from statistics of normalised targets."""
    moments = statistics.moments
    assert moments is not None
    scale = torch.as_tensor(units.scale, device=statistics.offset.device)
    offset = torch.as_tensor(units.offset, device=scale.device) + scale * statistics.offset
    weighted = moments.weighted
    if weighted is not None:
        weighted = replace(
            weighted,
            target_sum=weighted.target_sum * scale,
            target_square=weighted.target_square * scale.square(),
        )
    found = Moments(
        moments.gram,
        moments.cross * scale,
        moments.feature_sum,
        moments.target_sum * scale,
        moments.target_square * scale.square(),
        moments.n_rows,
        offset,
        moments.rounding,
        weighted,
    )
    return replace(statistics, offset=offset, moments=found)
