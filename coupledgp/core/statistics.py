"""Sufficient statistics of a linear-Gaussian model that add up over chunks (MATH section 6).

Statistics never change: `updated` and `merge` return new ones, so that an exception in the middle
of the data leaves the old ones whole. Statistics of parts of a table may be made anywhere and
merged in any order. Chunks in double precision that are merged one after the other from the left
give, bit for bit, the statistics of one pass over them; any other order or grouping gives the same
to rounding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain

from coupledgp.core.normal_equations import (
    FeatureRounding,
    NormalEquations,
    WeightedSums,
    row_factors,
)
from coupledgp.core.weights_posterior import (
    FeatureStream,
    WeightPosterior,
    add_gram,
    fill_lower,
)
from coupledgp.errors import InvalidInputError
from coupledgp.ground.codec import stored
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.ground.validation import SMALLEST, wrong
from coupledgp.random import FloatArray

# Features (b, M) and targets (b, k) of b rows; a third tensor (b, 2) holds the relative noise r and
# the count c of each row, see `RowWeights`, where rows differ in them.
Chunk = tuple[Tensor, ...]


@stored
@dataclass(frozen=True, eq=False)
class Moments:
    """Sums over rows, from which a posterior under a fixed feature map follows.

    Targets enter minus a fixed `offset`, which keeps the sums accurate when their mean is large;
    they can be re-centred and re-scaled afterwards (`normalized`), so that a table given in
    several batches ends in the same posterior as the table given at once. Rows with weights enter
    all sums with the factor `sqrt(c / r)`; `P` is the diagonal matrix of its squares, else I.

    Attributes
    ----------
    gram : Tensor (M, M)
        Upper triangle of `Phi' P Phi`; `normalized` completes it.
    cross : Tensor (M, k)
        `Phi' P (y - offset)`.
    feature_sum : Tensor (M,)
        `Phi' P 1`.
    target_sum, target_square : Tensor (k,)
        Sums of `P (y - offset)` and of `P (y - offset)^2`.
    n_rows : int
        Number n of rows.
    offset : Tensor (k,)
        Shift of the targets.
    rounding : float
        Relative rounding error of `gram` where products were single; zero where they were double.
    weighted : WeightedSums or None
        Further sums where any row has weights.
    """

    gram: Tensor
    cross: Tensor
    feature_sum: Tensor
    target_sum: Tensor
    target_square: Tensor
    n_rows: int
    offset: Tensor
    rounding: float = 0.0
    weighted: WeightedSums | None = None

    @classmethod
    def of(cls, chunks: Iterable[Chunk], n_features: int, offset: Tensor) -> Moments:
        """Moments of chunks: features (b, M) of any float dtype, all else in float64."""
        k, new = offset.shape[0], offset.new_zeros
        sums = new(n_features, n_features), new(n_features, k), new(n_features), new(k), new(k)
        return cls(*sums, 0, offset)._added(chunks)

    def updated(self, chunks: Iterable[Chunk]) -> Moments:
        """New moments of the rows so far and of the chunks; this object does not change."""
        copies = {
            name: getattr(self, name).clone()
            for name in ("gram", "cross", "feature_sum", "target_sum", "target_square")
        }
        return replace(self, **copies)._added(chunks)

    def merge(self, other: Moments) -> Moments:
        """Moments of the rows of both.

        Raises
        ------
        InvalidInputError
            The numbers of features, the offsets or the devices differ.
        """
        _check_alike(len(self.gram), self.offset, len(other.gram), other.offset)
        return Moments(
            self.gram + other.gram,
            self.cross + other.cross,
            self.feature_sum + other.feature_sum,
            self.target_sum + other.target_sum,
            self.target_square + other.target_square,
            self.n_rows + other.n_rows,
            self.offset,
            max(self.rounding, other.rounding),
            self.counted().merge(other.counted()) if self.weighted or other.weighted else None,
        )

    def counted(self) -> WeightedSums:
        """The sums over weighted rows, also where no row has weights."""
        n = float(self.n_rows)
        return self.weighted or WeightedSums(n, n, 0.0, self.target_sum, self.target_square)

    def _added(self, chunks: Iterable[Chunk]) -> Moments:
        """Add chunks to the tensors of these moments, which nobody else may hold yet."""
        n_rows, rounding, weighted = self.n_rows, self.rounding, self.weighted
        for features, targets, *weights in chunks:
            centred = targets - self.offset
            ones = torch.ones_like(centred[:, :1])
            if weights or weighted:
                # The sums so far are copied: they go on to change in place.
                weighted = weighted or replace(self, n_rows=n_rows).counted().copied()
                rows = weights[0] if weights else ones.expand(-1, 2)
                weighted = weighted.added(rows, centred)
                ones = row_factors(rows)
                features, centred = features * ones.to(features.dtype), centred * ones
            add_gram(self.gram, features)
            if features.dtype != self.gram.dtype:
                rounding = torch.finfo(features.dtype).eps
            sums = _row_sums(features, torch.cat([centred, ones], dim=1))
            self.cross.add_(sums[:-1].T)
            self.feature_sum.add_(sums[-1])
            self.target_sum.add_((centred * ones).sum(0))
            self.target_square.add_(centred.square().sum(0))
            n_rows += features.shape[0]
        return replace(self, n_rows=n_rows, rounding=rounding, weighted=weighted)

    def normalized(self, mean: Tensor, scale: Tensor) -> NormalEquations:
        """Normal equations of the targets `(y - mean) / scale`, both of shape (k,)."""
        shift = mean - self.offset
        cross = (self.cross - torch.outer(self.feature_sum, shift)) / scale
        sums = self.counted()
        square = self.target_square - 2 * shift * self.target_sum + sums.precision * shift.square()
        gram = fill_lower(self.gram)
        if self.rounding:
            # Keeps the sum of single-precision products positive semidefinite.
            gram.diagonal().add_(self.rounding * gram.norm())
        cancelled = (self.cross.norm(dim=0) + self.feature_sum.norm() * shift.abs()) / scale
        return NormalEquations(
            gram, cross, square / scale.square(), sums.count, sums.log_noise,
            max(self.rounding, torch.finfo(gram.dtype).eps), cancelled,
        )  # fmt: skip


def _row_sums(features: Tensor, columns: Tensor) -> Tensor:
    """`columns' Phi` (j, M) in float64, for columns (b, j) beside features (b, M)."""
    if features.dtype == columns.dtype:
        # As rows the columns are multiplied four times faster.
        return columns.T.contiguous() @ features
    # A power of two changes no bit but keeps any unit of targets in single precision.
    unit = torch.exp2(columns.abs().amax(0).clamp_min(SMALLEST).log2().round())
    lying = (columns / unit).to(features.dtype).T.contiguous()
    return (lying @ features).to(unit) * unit[:, None]


def stream_moments(
    stream: FeatureStream, targets: FloatArray, offset: Tensor, in_double: bool = False
) -> Moments:
    """Moments of a table with targets (n, k), by one pass; memory does not grow with n.

    Parameters
    ----------
    stream
        Features of the table.
    targets
        Targets (n, k) in the memory of the CPU; each chunk moves to the offset's device.
    offset
        Shift of the targets (k,), see `Moments`.
    in_double
        Whether products of features in single precision are in double precision.
    """
    dtype, device = offset.dtype, offset.device
    chunks = (
        (
            features.double() if in_double else features,
            torch.as_tensor(targets[rows], dtype=dtype, device=device),
        )
        for rows, _, features in stream
    )
    return Moments.of(chunks, stream.feature_map.n_features, offset)


@stored
@dataclass(frozen=True, eq=False)
class DataStatistics:
    """Sufficient statistics of the data: all rows while fewer than M, then their moments.

    Memory is O(M^2) whatever the number of rows. Made without rows it is the neutral element of
    `merge`.

    Attributes
    ----------
    n_features : int
        Number of features M.
    offset : Tensor (k,)
        Fixed shift of the targets, see `Moments`.
    rows : tuple of (Tensor (b, M), Tensor (b, k)), or with a third Tensor (b, 2)
        Chunks of features, in float64, targets, and weights where rows have any; empty once there
        are moments.
    moments : Moments or None
        Sums over the rows, from the M-th row on.
    dtype : torch.dtype or None
        Data type of the features that were added; None while it is not known. Their products are
        in double precision.
    """

    n_features: int
    offset: Tensor
    rows: tuple[Chunk, ...] = ()
    moments: Moments | None = None
    dtype: torch.dtype | None = field(default=None, metadata={"stored": False})

    @property
    def n_rows(self) -> int:
        """Number of rows n."""
        if self.moments is not None:
            return self.moments.n_rows
        return sum(len(chunk[0]) for chunk in self.rows)

    @property
    def n_counted(self) -> float:
        """Number of rows, each as often as it counts."""
        if self.moments is not None:
            return self.moments.counted().count
        weights = self.stacked_weights()
        return self.n_rows if weights is None else float(weights[:, 1].sum())

    def updated(self, chunks: Iterable[Chunk]) -> DataStatistics:
        """New statistics of the rows so far and of the chunks; this object does not change.

        Parameters
        ----------
        chunks
            Features (b, M), targets (b, k), and weights (b, 2) where rows have any; their memory
            may be reused from one to the next.

        Raises
        ------
        InvalidInputError
            A chunk has another number of features or outputs, or another dtype.
        """
        chunks = iter(chunks)
        first = next(chunks, None)
        if first is None:
            return self
        dtype = self.dtype or first[0].dtype
        return replace(self, dtype=dtype)._with(
            self._checked(chunk, dtype) for chunk in chain([first], chunks)
        )

    def _with(self, chunks: Iterator[Chunk]) -> DataStatistics:
        if self.moments is not None:
            return replace(self, moments=self.moments.updated(chunks))
        kept, n_rows = list(self.rows), self.n_rows
        for chunk in chunks:
            features, *others = chunk
            n_rows += len(features)
            if n_rows >= self.n_features:
                everything = chain(kept, [chunk], chunks)
                moments = Moments.of(everything, self.n_features, self.offset)
                return replace(self, rows=(), moments=moments)
            if len(features):
                kept.append((features.double().clone(), *(other.clone() for other in others)))
        return replace(self, rows=tuple(kept))

    def _checked(self, chunk: Chunk, dtype: torch.dtype) -> Chunk:
        features, targets = chunk[:2]
        expected = (len(features), self.n_features), (len(features), len(self.offset))
        if (tuple(features.shape), tuple(targets.shape)) != expected:
            raise InvalidInputError(
                f"statistics: expected features (b, {self.n_features}) and targets "
                f"(b, {len(self.offset)}), got {tuple(features.shape)} and {tuple(targets.shape)}"
            )
        if features.dtype != dtype:
            raise InvalidInputError(
                f"statistics: expected features of {dtype} as before, got {features.dtype}"
            )
        # Products in single precision would lose what small noise needs.
        return features.double(), *chunk[1:]

    def merge(self, other: DataStatistics) -> DataStatistics:
        """Statistics of the rows of both, these ones' first; both stay as they are.

        Raises
        ------
        InvalidInputError
            The two differ in the number or dtype of the features, in the offset or the device.
        """
        _check_alike(self.n_features, self.offset, other.n_features, other.offset)
        if self.dtype and other.dtype and self.dtype != other.dtype:
            raise InvalidInputError(
                f"statistics: expected features of {self.dtype} to merge with, got {other.dtype}"
            )
        if not (self.n_rows and other.n_rows):
            return self if self.n_rows else other
        both = replace(self, dtype=self.dtype or other.dtype)
        if other.moments is None:
            return both._with(iter(other.rows))
        moments = self.moments or Moments.of(self.rows, self.n_features, self.offset)
        return replace(both, rows=(), moments=moments.merge(other.moments))

    @property
    def is_finite(self) -> bool:
        """Whether no feature and no target is NaN or infinite."""
        kept = [part for chunk in self.rows for part in chunk]
        if self.moments is not None:
            kept = [self.moments.gram, self.moments.cross, self.moments.target_square]
        return all(bool(torch.isfinite(part).all()) for part in kept)

    def stacked(self) -> Chunk:
        """All rows kept: features (n, M) in float64 and targets (n, k)."""
        return torch.cat([c[0] for c in self.rows]), torch.cat([c[1] for c in self.rows])

    def stacked_weights(self) -> Tensor | None:
        """Weights (n, 2) of all rows kept, ones where a row has none; None if no row has any."""
        if all(len(chunk) == 2 for chunk in self.rows):
            return None
        ones = self.offset.new_ones
        parts = [chunk[2] if len(chunk) == 3 else ones(len(chunk[0]), 2) for chunk in self.rows]
        return torch.cat(parts)

    def target_mean_and_std(self) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation (k,) of the targets, each row as often as it counts."""
        if self.moments is None:
            targets, weights = self.stacked()[1], self.stacked_weights()
            if weights is None:
                return targets.mean(0), targets.std(0, correction=0)
            shares = weights[:, 1] / weights[:, 1].sum()
            mean = shares @ targets
            return mean, (shares @ (targets - mean).square()).sqrt()
        sums = self.moments.counted()
        shift = sums.target_sum / sums.count
        variance = sums.target_square / sums.count - shift.square()
        return self.offset + shift, variance.clamp_min(0.0).sqrt()

    def posterior(
        self, mean: Tensor, scale: Tensor, outputscale: float, noise: float, phase: float = 1.0
    ) -> WeightPosterior:
        """Posterior given the targets `(y - mean) / scale`, both of shape (k,).

        `phase` is that of `FeatureRounding`, by which the error is estimated.
        """
        rounding = self.rounding(phase)
        if self.moments is None:
            features, targets = self.stacked()
            targets, weights = (targets - mean) / scale, self.stacked_weights()
            n_rows, log_noise = self.n_counted, 0.0
            if weights is not None:
                factors = row_factors(weights)
                features, targets = features * factors, targets * factors
                log_noise = float(weights[:, 1] @ weights[:, 0].log())
            return WeightPosterior.from_rows(
                features, targets, outputscale, noise, n_rows, log_noise, rounding
            )
        equations = self.moments.normalized(mean, scale)
        return WeightPosterior.from_moments(equations, outputscale, noise, rounding)

    def rounding(self, phase: float) -> FeatureRounding:
        """Rounding of the features that were added."""
        return FeatureRounding(torch.finfo(self.dtype or torch.float64).eps, phase)


def _check_alike(n_features: int, offset: Tensor, n_others: int, other: Tensor) -> None:
    """Refuse to merge sums over other features, or of targets with another offset."""
    if n_features != n_others:
        raise wrong("statistics", f"{n_features} features to merge with", n_others)
    if offset.device != other.device:
        raise InvalidInputError(
            f"statistics: expected sums on {offset.device} to merge with, got {other.device}"
        )
    if offset.shape != other.shape or not bool((offset == other).all()):
        raise wrong(
            "statistics", f"the target offset {offset.tolist()} to merge with", other.tolist()
        )
