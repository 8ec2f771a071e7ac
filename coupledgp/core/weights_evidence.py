"""Log evidence of a sparse-spectrum GP and its gradient (MATH section 6).

With features `Phi` (n, M) of unit outputscale and `A = Phi' Phi + lam I`, `w = A^-1 Phi' y`,
`alpha = (y - Phi w) / s`: `d log p / d Phi = alpha w' - k Phi A^-1`. With more rows than features
everything goes through `Phi' Phi` (M, M), in two passes over chunks; with fewer, through
`Phi Phi'` (n, n).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from coupledgp.core.normal_equations import (
    NormalEquations,
    error_of_evidence,
    solve_ridge,
)
from coupledgp.core.problem import (
    EvidenceGradient,
    GramAtLengthscale,
    LadderProblem,
    PredictiveEvidence,
    RowWeights,
    SpectralEvidence,
)
from coupledgp.core.statistics import stream_moments
from coupledgp.core.weights_posterior import FeatureStream, WeightPosterior
from coupledgp.features import FourierFeatures, LaplaceFeatures
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.random import FloatArray

# Rows whose products are summed in single precision before the sum goes on in double: few enough to
# stay in the processor's cache and for a quarter of the error of sixteen times as many.
SINGLE_CHUNK_ROWS = 1024


class FeatureEvidence(LadderProblem):
    """Evidence of one table under one feature map.

    Parameters
    ----------
    stream
        Features of the inputs; its lengthscale is replaced in each evaluation.
    targets
        Normalised targets (n, k).
    weights
        Relative noise and counts of the rows; None for rows that are all alike.
    regular
        Whether the sum of products in single precision is kept positive semidefinite by a multiple
        of its rounding error on its diagonal, which shifts the evidence by more than the rounding
        itself does.
    double
        Whether products of features in single precision are in double precision, as those of the
        posterior.
    """

    def __init__(
        self,
        stream: FeatureStream,
        targets: FloatArray,
        weights: RowWeights | None = None,
        regular: bool = True,
        double: bool = False,
    ) -> None:
        self.stream = stream
        self.targets = targets
        self.weights = weights
        self.regular, self.double = regular, double
        self.n_rows, self.n_outputs = targets.shape

    @property
    def inputs(self) -> FloatArray:
        rows = self.stream.rows
        return self.stream.X if rows is None else self.stream.X[rows]

    def at(self, lengthscale: FloatArray) -> PredictiveEvidence:
        """Return the evidence at lengthscales (d,), from the smaller of the two Gram matrices."""
        stream = replace(self.stream, lengthscale=lengthscale)
        device = stream.feature_map.device
        if self.n_rows < stream.feature_map.n_features:
            rows = torch.as_tensor(self.targets, device=device)
            return RowsAtLengthscale(stream, rows, self.weights)
        stream, targets = weighted_rows(stream, self.targets, self.weights)
        options = self.weights, self.regular, self.double
        return ColumnsAtLengthscale(stream, targets, normal_equations(stream, targets, *options))

    def subset(self, rows: NDArray[np.intp]) -> FeatureEvidence:
        """Return the problem of some rows, given by their numbers (b,); X is not copied."""
        weights = None if self.weights is None else self.weights.take(rows)
        return FeatureEvidence(self.stream.subset(rows), self.targets[rows], weights, self.regular)

    def in_double(self) -> FeatureEvidence:
        return FeatureEvidence(self.stream, self.targets, self.weights, double=True)

    def single_precision(self) -> FeatureEvidence | None:
        """The problem with features and their products in single precision, sums in double.

        Features that are so already, or are neither Fourier nor Laplace features, have no such
        form.
        """
        made = self.stream.feature_map
        known = isinstance(made, (FourierFeatures, LaplaceFeatures))
        if not known or made.dtype != torch.float64:
            return None
        single = made.to(dtype=torch.float32)
        stream = replace(self.stream, feature_map=single, most_rows=SINGLE_CHUNK_ROWS)
        return FeatureEvidence(stream, self.targets, self.weights, regular=False)


def weighted_rows(
    stream: FeatureStream, targets: FloatArray, weights: RowWeights | None
) -> tuple[FeatureStream, FloatArray]:
    """Features and normalised targets (n, k), both with the factors of the rows."""
    if weights is None:
        return stream, targets
    return replace(stream, root=weights.root), targets * weights.root[:, None]


def normal_equations(
    stream: FeatureStream,
    targets: FloatArray,
    weights: RowWeights | None,
    regular: bool = True,
    double: bool = False,
) -> NormalEquations:
    """Normal equations of a table that has the factors of its rows already.

    Without `regular` they carry no ridge for the rounding of single precision; with `double` there
    is none.
    """
    device = stream.feature_map.device
    zero = torch.zeros(targets.shape[1], dtype=torch.float64, device=device)
    moments = stream_moments(stream, targets, zero, double)
    if not regular:
        moments = replace(moments, rounding=0.0)
    equations = moments.normalized(zero, torch.ones_like(zero))
    if weights is None:
        return equations
    return replace(equations, n_rows=weights.n_counted, log_noise=weights.log_noise)


@dataclass(frozen=True)
class ColumnsAtLengthscale(PredictiveEvidence):
    """Evidence from the Gram matrix `Phi' Phi` (M, M) of the features, for n >= M.

    Attributes
    ----------
    stream : FeatureStream
        Features with the factors of the rows.
    targets : FloatArray (n, k)
        Normalised targets, with the factors of the rows.
    equations : NormalEquations
        Normal equations of features and normalised targets.
    """

    stream: FeatureStream
    targets: FloatArray
    equations: NormalEquations

    @cached_property
    def _eigen(self) -> tuple[Tensor, Tensor]:
        """Eigenvalues (M,) and eigenvectors (M, M) of `Phi' Phi`."""
        return torch.linalg.eigh(self.equations.gram)

    def spectral(self) -> SpectralEvidence:
        eigenvalues, vectors = self._eigen
        rotated = (vectors.T @ self.equations.cross).square().sum(1)
        # Directions that the features do not reach carry rounding errors only.
        reached = eigenvalues > torch.finfo(torch.float64).eps * len(eigenvalues) * eigenvalues[-1]
        safe = torch.where(reached, eigenvalues, 1.0)
        energy = torch.where(reached, rotated / safe, 0.0)
        # Division by small eigenvalues blows rounding errors up. The energies cannot exceed those
        # of the targets: what is in excess is taken from the smallest eigenvalues, where it came
        # from. Where eigenvalues are far below lam, only the sum of their energies counts.
        whole = self.equations.square.sum()
        excess = (energy.flip(0).cumsum(0) - whole).clamp_min(0.0)
        energy = (energy - excess.diff(prepend=excess.new_zeros(1)).flip(0)).clamp_min(0.0)
        remainder = float(whole - energy.sum())
        return SpectralEvidence(
            eigenvalues.clamp_min(0.0).cpu().numpy(), energy.cpu().numpy(), max(remainder, 0.0),
            self.equations.n_rows, self.equations.cross.shape[1], self.equations.log_noise,
        )  # fmt: skip

    def value(self, outputscale: float, noise: float) -> float:
        return solve_ridge(self.equations, outputscale, noise)[2]

    def error(self, outputscale: float, noise: float) -> float:
        factor, weights, _ = solve_ridge(self.equations, outputscale, noise)
        return error_of_evidence(self.equations, factor, weights, noise)

    def log_density(self, others: LadderProblem, outputscale: float, noise: float) -> FloatArray:
        posterior = WeightPosterior.from_moments(self.equations, outputscale, noise)
        return _log_density(posterior, self.stream.lengthscale, others)

    def evaluate(self, outputscale: float, noise: float) -> EvidenceGradient:
        n, (size, n_outputs) = self.equations.n_rows, self.equations.cross.shape
        lam = noise / outputscale
        if "_eigen" in self.__dict__:  # after a profile of the variances: no factor is needed
            value = float(self.spectral().value(outputscale, noise))
            eigenvalues, vectors = self._eigen
            root = vectors / (eigenvalues.clamp_min(0.0) + lam).sqrt()
            inverse = root @ root.T
            weights = root @ (root.T @ self.equations.cross)
        else:
            factor, weights, value = solve_ridge(self.equations, outputscale, noise)
            inverse = torch.cholesky_inverse(factor)
        square, trace = float(weights.square().sum()), float(inverse.diagonal().sum())
        by_outputscale = 0.5 * (square / outputscale - n_outputs * (size - lam * trace))
        explained = float((self.equations.cross * weights).sum())
        quad = (float(self.equations.square.sum()) - explained) / lam
        # Scaling v and s together leaves lam alone, and the derivative along that is known.
        by_both = 0.5 * (quad / outputscale - n_outputs * n)
        by_lengthscale = self._lengthscale_gradient(weights, inverse, noise)
        return EvidenceGradient(value, by_lengthscale, by_outputscale, by_both - by_outputscale)

    def _lengthscale_gradient(self, weights: Tensor, inverse: Tensor, noise: float) -> FloatArray:
        """Gradient (d,): pull `alpha w' - k Phi A^-1` back to the inputs in a second pass."""
        feature_map = self.stream.feature_map
        gradient = torch.zeros(feature_map.dim, dtype=torch.float64, device=weights.device)
        chunks = feature_gradients(self.stream, self.targets, weights, inverse, noise)
        for inputs, features, upstream in chunks:
            # Inputs are x / l, so d/d log l = -input d/d input.
            by_input = feature_map.pullback(inputs, features, upstream)
            gradient -= (inputs * by_input).sum(0).double()
        return gradient.cpu().numpy()


def feature_gradients(
    stream: FeatureStream, targets: FloatArray, weights: Tensor, inverse: Tensor, noise: float
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield inputs, features and `d log p / d Phi = alpha w' - k Phi A^-1`, chunk by chunk.

    Parameters
    ----------
    stream
        Features of the table.
    targets
        Normalised targets (n, k), with the factors of the rows.
    weights
        Posterior mean w (M, k) of the weights.
    inverse
        `A^-1` (M, M).
    noise
        Noise variance s.

    Yields
    ------
    (Tensor, Tensor, Tensor)
        Scaled inputs (b, d), features (b, M) and `d log p / d Phi` (b, M), both without the
        factors of the rows. The memory of the last two is used again for the next chunk.
    """
    dtype, n_features = stream.feature_map.dtype, stream.feature_map.n_features
    scaled = (-weights.shape[1] * inverse).to(dtype)
    w = weights.to(dtype)
    upstream = w.new_empty(stream.chunk_rows, n_features)
    for rows, inputs, features in stream:
        y = torch.as_tensor(targets[rows], dtype=w.dtype, device=w.device)
        alpha = (y - features @ w) / noise
        chunk = torch.mm(features, scaled, out=upstream[: len(features)])
        chunk.addmm_(alpha, w.T)
        if stream.root is not None:
            factors = stream.factors(rows)
            features, chunk = features / factors, chunk * factors
        yield inputs, features, chunk


class RowsAtLengthscale(GramAtLengthscale, PredictiveEvidence):
    """Evidence from the Gram matrix `Phi Phi'` (n, n) of the rows, for n < M.

    Parameters
    ----------
    stream
        Features of the table.
    targets
        Normalised targets (n, k), on the device of the features.
    weights
        Relative noise and counts of the rows; None for rows that are all alike.
    """

    def __init__(
        self, stream: FeatureStream, targets: Tensor, weights: RowWeights | None = None
    ) -> None:
        self.stream = stream
        self.features = stream.dense()
        super().__init__(self.features @ self.features.T, targets, weights)

    def _lengthscale_gradient(self, cotangent: Tensor) -> Tensor:
        inputs = self.stream.inputs(slice(None))
        upstream = (2 * cotangent @ self.features).to(inputs.dtype)
        features = self.features.to(inputs.dtype)
        by_input = self.stream.feature_map.pullback(inputs, features, upstream)
        return -(inputs * by_input).sum(0).double()

    def log_density(self, others: LadderProblem, outputscale: float, noise: float) -> FloatArray:
        features = self.features if self._root is None else self.features * self._root
        posterior = WeightPosterior.from_rows(features, self.targets, outputscale, noise)
        return _log_density(posterior, self.stream.lengthscale, others)


def _log_density(
    posterior: WeightPosterior, lengthscale: FloatArray, others: LadderProblem
) -> FloatArray:
    """Log densities (q,) of the targets of other rows under a posterior at lengthscales (d,)."""
    assert isinstance(others, FeatureEvidence)
    weights = others.weights or RowWeights.ones(others.n_rows)
    found = np.empty(others.n_rows)
    for rows, _, features in replace(others.stream, lengthscale=lengthscale):
        own = torch.as_tensor(posterior.noise * weights.noise[rows], device=features.device)
        variance = posterior.root(features).square().sum(1) + own
        mean = posterior.predict(features)
        gaps = torch.as_tensor(others.targets[rows], device=mean.device) - mean
        logs = -0.5 * (gaps.square() / variance[:, None]).sum(1)
        logs -= 0.5 * others.n_outputs * (2 * math.pi * variance).log()
        found[rows] = logs.cpu().numpy()
    return found * weights.counts / weights.counts.mean()
