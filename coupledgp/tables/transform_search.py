"""Transforms of targets by the evidence of y: the evidence of z times the transform's slopes.

A transform is chosen on at most `ROWS` rows, by an exact GP of the model's kernel, for each output
alone. At fixed lengthscales one eigendecomposition gives the evidence for every shape of the
transform, outputscale and noise; lengthscales and shape are improved in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from coupledgp.core.column_moments import spread_lengthscale
from coupledgp.core.dense_evidence import ExactEvidence
from coupledgp.core.minimise import along_line
from coupledgp.core.optimize import maximise_evidence
from coupledgp.core.problem import SpectralEvidence
from coupledgp.core.process import Data, PredictiveLaw
from coupledgp.core.profile import ScaleBounds, profile_scales
from coupledgp.core.starts import SearchSpace
from coupledgp.core.target_maps import Span, back_transformed
from coupledgp.core.transforms import BoxCox, Identity, Log, Logit, TargetTransform, YeoJohnson
from coupledgp.core.units import Units, are_constant
from coupledgp.ground.progress import prefixed
from coupledgp.random import FloatArray, IntArray
from coupledgp.spectra import Spectrum, parse_spectrum

# Rows on which a transform is chosen: an evaluation of the evidence of 500 takes about 50 ms.
ROWS = 500
# Rounds in which lengthscales and shape are improved in turn, and iterations for the lengthscales.
ROUNDS, ITERATIONS = 2, 30
# Shapes on a grid, the best of which is polished to `SHAPE_TOLERANCE`.
N_SHAPES, SHAPE_TOLERANCE = 16, 1e-3
# Nats by which the evidence of a transform must exceed that of none to be chosen by "auto", besides
# log(n) / 2 for a fitted shape (Schwarz, 1978): with equal prior odds five nats are odds of 150.
MARGIN = 5.0
# Standard deviations of positive targets from zero to their mean from which zero does not matter.
FAR = 4.0


@dataclass(frozen=True)
class ScoredTransform:
    """A transform on the rows of the choice.

    Attributes
    ----------
    transform : TargetTransform
    log_evidence : float
        Log evidence of y, nats.
    lengthscale : FloatArray (d,)
        Lengthscales of greatest evidence.
    errors : FloatArray (n,)
        Squared errors of the mean of each y given the others, in units of y squared.
    """

    transform: TargetTransform
    log_evidence: float
    lengthscale: FloatArray
    errors: FloatArray

    def misses_more_than(self, other: ScoredTransform, counts: FloatArray | None) -> bool:
        """Whether its mean squared error exceeds another's by more than a standard error."""
        gaps = self.errors - other.errors
        mean = np.average(gaps, weights=counts)
        return bool(mean > np.std(gaps) / np.sqrt(len(gaps)))


class TransformProblem:
    """Evidence of one output under transforms, with an exact GP.

    Parameters
    ----------
    data
        Observations with one output, of which at most `ROWS` are used.
    spectrum
        The kernel.
    ard
        Whether each column has a lengthscale of its own.
    rng
        Source of the choice of rows.
    groups
        Numbers (d,) of the groups of columns that share a lengthscale; None for none.
    """

    def __init__(
        self,
        data: Data,
        spectrum: Spectrum,
        ard: bool,
        rng: np.random.Generator,
        groups: IntArray | None = None,
    ) -> None:
        if len(data) > ROWS:
            data = data.take(np.sort(rng.choice(len(data), ROWS, replace=False)))
        self.data, self.spectrum, self.rng = data, spectrum, rng
        base = spread_lengthscale(data.points, ard, groups, data.counts)
        self.space = SearchSpace(base, ard, groups=groups)
        self.n_counted = len(data) if data.counts is None else float(data.counts.sum())

    def best(
        self, transform: TargetTransform, lengthscale: FloatArray | None = None
    ) -> ScoredTransform:
        """The transform with the shape of greatest evidence, if it has one, and its evidence.

        The search for lengthscales starts from `lengthscale` (d,), those of another transform.
        """
        adapted = transform.adapted(self.data.targets[:, 0], self.data.counts)
        if are_constant(self.data.targets):
            shaped = adapted.with_shape(1.0)  # constant targets say nothing about a shape
            return ScoredTransform(shaped, 0.0, self.space.base, np.zeros(len(self.data)))
        start = self.space.base if lengthscale is None else lengthscale
        shaped = self._shaped(adapted, start)
        for _ in range(ROUNDS if adapted.is_free else 1):
            start = self._lengthscale(shaped, start)
            shaped = self._shaped(adapted, start)
        profile = self._profile(start)
        return ScoredTransform(shaped, profile.log_evidence(shaped), start, profile.errors(shaped))

    def screened(self, targets: FloatArray) -> TargetTransform:
        """The transform of greatest evidence at the lengthscales of the targets (n, 1) themselves.

        It is the identity where none exceeds its evidence by enough, as for `chosen`.
        """
        plain = self.best(Identity())
        if are_constant(self.data.targets):
            return plain.transform
        penalty = 0.5 * np.log(self.n_counted)
        profile = self._profile(plain.lengthscale)
        found, least = plain.transform, plain.log_evidence + MARGIN
        for transform in candidates(targets):
            adapted = transform.adapted(self.data.targets[:, 0], self.data.counts)
            shaped = adapted
            if adapted.is_free and adapted.shape_bounds is not None:
                shaped = adapted.with_shape(profile.best_shape(adapted, adapted.shape_bounds))
            value = profile.log_evidence(shaped) - (penalty if transform.is_free else 0.0)
            if value > least:
                found, least = shaped, value
        return found

    def _lengthscale(self, transform: TargetTransform, start: FloatArray) -> FloatArray:
        """Lengthscales (d,) of greatest evidence for one transform."""
        values, units, _ = self.transformed(transform)
        problem = ExactEvidence(
            self.spectrum, self.data.points, units.normalized(values), self.data.weights
        )
        space = replace(self.space, lengthscale=start)
        with prefixed(f"target transform {transform}: "):
            found = maximise_evidence(
                problem, space, n_restarts=0, max_iterations=ITERATIONS, rng=self.rng
            )
        return found.hyperparameters.lengthscale

    def _shaped(self, transform: TargetTransform, lengthscale: FloatArray) -> TargetTransform:
        """The shape of greatest evidence at lengthscales (d,), by a grid and Brent's method."""
        if not transform.is_free or transform.shape_bounds is None:
            return transform
        shape = self._profile(lengthscale).best_shape(transform, transform.shape_bounds)
        return transform.with_shape(shape)

    def transformed(self, transform: TargetTransform) -> tuple[FloatArray, Units, float]:
        """Values z (n, 1), their units, and the sum of the logs of the slopes."""
        targets = transform.check(self.data.targets)
        counts, slopes = self.data.counts, transform.log_slope(targets)[:, 0]
        values = transform.forward(targets)
        units = Units.of(values, True, counts)
        return values, units, float(slopes.sum() if counts is None else counts @ slopes)

    def _profile(self, lengthscale: FloatArray) -> _Profile:
        gram = ExactEvidence(
            self.spectrum, self.data.points, np.zeros((len(self.data), 1)), self.data.weights
        ).at(lengthscale).gram  # fmt: skip
        eigenvalues, vectors = np.linalg.eigh(gram)
        return _Profile(self, np.maximum(eigenvalues, 0.0), vectors)


@dataclass(frozen=True)
class _Profile:
    """Evidence at fixed lengthscales, from the eigendecomposition of the Gram matrix."""

    problem: TransformProblem
    eigenvalues: FloatArray
    vectors: FloatArray

    def log_evidence(self, transform: TargetTransform) -> float:
        """Log evidence of y, nats, at the best outputscale and noise."""
        values, units, slopes = self.problem.transformed(transform)
        evidence, _ = self._evidence(units.normalized(values))
        best = profile_scales(evidence, ScaleBounds())
        n = self.problem.n_counted
        return float(evidence.value(*best)) - units.log_jacobian(n) + slopes

    def best_shape(self, transform: TargetTransform, bounds: tuple[float, float]) -> float:
        """The shape of greatest evidence between bounds, by a grid and Brent's method."""

        def loss(shape: float) -> float:
            return -self.log_evidence(transform.with_shape(shape))

        return along_line(loss, bounds, N_SHAPES, SHAPE_TOLERANCE)

    def errors(self, transform: TargetTransform) -> FloatArray:
        """Squared errors (n,) of each y's mean given all other targets, at the same scales.

        Errors of z follow from the inverse covariance P: the residual of row i is `(P z)_i / P_ii`,
        and its variance `1 / P_ii` (Rasmussen and Williams, 2006, section 5.4.2).
        """
        values, units, _ = self.problem.transformed(transform)
        evidence, rotated = self._evidence(units.normalized(values))
        outputscale, noise = profile_scales(evidence, ScaleBounds())
        inverse = 1 / (outputscale * self.eigenvalues + noise)
        variance = 1 / (np.square(self.vectors) @ inverse)
        residual = (self.vectors @ (inverse * rotated)) * variance
        weights = self.problem.data.weights
        root = np.ones_like(residual) if weights is None else weights.root
        mean = values[:, 0] - units.scale * residual / root
        spread = units.scale**2 * variance / np.square(root)
        targets = self.problem.data.targets
        law = PredictiveLaw(mean[:, None], spread[:, None])
        found = back_transformed(law, [transform], Span.of(targets)).law.mean
        errors: FloatArray = np.square(found - targets)[:, 0]
        return errors

    def _evidence(self, targets: FloatArray) -> tuple[SpectralEvidence, FloatArray]:
        """Evidence of normalised targets (n, 1), and these in the eigenvectors (n,)."""
        weights = self.problem.data.weights
        if weights is not None:
            targets = targets * weights.root[:, None]
        rotated = (self.vectors.T @ targets)[:, 0]
        log_noise = 0.0 if weights is None else weights.log_noise
        n = self.problem.n_counted
        return SpectralEvidence(self.eigenvalues, rotated**2, 0.0, n, 1, log_noise), rotated


def screened_transforms(
    data: Data, rng: np.random.Generator, groups: IntArray | None = None
) -> tuple[TargetTransform, ...]:
    """The transform of greatest evidence for each of the k outputs of data, at few lengthscales.

    Lengthscales are those of the targets as they are, under a Matern-3/2 kernel, so that one
    eigendecomposition serves all transforms. Where none exceeds the evidence without a transform by
    five nats, it is the identity.

    Parameters
    ----------
    data
        Observations, of which at most `ROWS` are used.
    rng
        Source of the choice of rows.
    groups
        Numbers (d,) of the groups of columns that share a lengthscale; None for none.
    """
    spectrum, found = parse_spectrum("matern-3/2"), []
    for k in range(data.targets.shape[1]):
        column = Data.of(data.points, data.targets[:, [k]], weights=data.weights)
        problem = TransformProblem(column, spectrum, True, rng, groups)
        found.append(problem.screened(column.targets))
    return tuple(found)


def fit_transforms(
    given: TargetTransform | None,
    data: Data,
    spectrum: Spectrum,
    ard: bool,
    rng: np.random.Generator,
    groups: IntArray | None = None,
) -> tuple[TargetTransform, ...]:
    """A transform for each of the k outputs of data.

    Parameters
    ----------
    given
        Transform of every output, its shape fitted where it is free; None: the one of greatest
        evidence, see `chosen`.
    data
        Observations.
    spectrum, ard, groups
        Kernel of the model, whether each column has a lengthscale of its own, and the numbers (d,)
        of the groups of columns that share one, or None.
    rng
        Source of the choice of rows.

    Raises
    ------
    InvalidInputError
        A target is not in the domain of the transform.
    """
    found: list[TargetTransform] = []
    for k in range(data.targets.shape[1]):
        column = Data.of(data.points, data.targets[:, [k]], weights=data.weights)
        if given is not None:
            given.check(column.targets)
        if given is not None and not given.is_free:
            found.append(given.adapted(column.targets[:, 0], column.counts))
            continue
        problem = TransformProblem(column, spectrum, ard, rng, groups)
        if given is None:
            found.append(chosen(problem, column.targets))
        else:
            found.append(problem.best(given).transform)
    return tuple(found)


def candidates(targets: FloatArray) -> Sequence[TargetTransform]:
    """Transforms that "auto" compares with no transform: all whose domain has all targets (n, 1).

    The transform of Yeo and Johnson has no lower end and is left out for positive targets near
    zero.
    """
    every: list[TargetTransform] = [Log(), BoxCox(), Logit()]
    if targets.min() <= 0 or targets.mean() > FAR * targets.std():
        every.append(YeoJohnson())
    return [transform for transform in every if np.all(transform.contains(targets))]


def chosen(problem: TransformProblem, targets: FloatArray) -> TargetTransform:
    """The transform of targets (n, 1) of greatest evidence, if it exceeds no transform's by enough.

    Means of y in its own units are what many score: one that misses more by them is passed over.
    """
    plain = problem.best(Identity())
    penalty = 0.5 * np.log(problem.n_counted)
    best, least = plain, plain.log_evidence + MARGIN
    for transform in candidates(targets):
        found = problem.best(transform, plain.lengthscale)
        value = found.log_evidence - (penalty if transform.is_free else 0.0)
        if value > least and not found.misses_more_than(plain, problem.data.counts):
            best, least = found, value
    return best.transform
