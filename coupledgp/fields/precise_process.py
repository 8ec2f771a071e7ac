"""The Gaussian process of a field given many observations, by its sparse precision."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from coupledgp.core.inverse_covariance import InverseCovariance
from coupledgp.core.normalized_process import NormalizedProcess
from coupledgp.core.problem import log_evidence
from coupledgp.core.process import Data, Points, Want
from coupledgp.core.units import Units
from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.features.registry import make_features
from coupledgp.fields.locations import canonical, location_rows
from coupledgp.fields.precise_prior import PrecisePrior, check_factor_size
from coupledgp.fields.precision_posterior import PrecisionPosterior
from coupledgp.fields.process import (
    FieldGP,
    FieldHyperparameters,
    FieldPrior,
    check_places,
)
from coupledgp.ground.codec import check_shapes, stored
from coupledgp.ground.memory import check_memory
from coupledgp.random import FloatArray, IntArray
from coupledgp.tables.dense_prior import DenseProblem

# Places, and draws at all vertices, that are computed at once.
BLOCK_ROWS, BLOCK_DRAWS = 4096, 64


class FieldInverse(InverseCovariance):
    """The inverse covariance of observations of a field with features, by solves where needed.

    Parameters
    ----------
    posterior
        Posterior of the field and the weights, in units of the output scale.
    residuals
        `C^-1 y` (n, k).
    outputscale
        Output scale.
    """

    def __init__(
        self, posterior: PrecisionPosterior, residuals: FloatArray, outputscale: float
    ) -> None:
        self.posterior, self.residuals, self.outputscale = posterior, residuals, outputscale

    def diagonal(self, rows: IntArray) -> FloatArray:
        """Diagonal entries (m,) of `C^-1`, from entries of the selected inverse."""
        return self.posterior.inverse_diagonal(rows) / self.outputscale

    def blocks(self, groups: list[IntArray]) -> Iterator[FloatArray]:
        """Blocks `(C^-1)_GG` of groups; observations at different places take a solve each."""
        for block in self.posterior.inverse_blocks(groups):
            yield block / self.outputscale


@stored
@dataclass(frozen=True, eq=False, repr=False)
class PreciseFieldGP(NormalizedProcess):
    """A field with features of position and a constant mean, given observations.

    One sparse factorisation serves any number of observations; exact but for the features. Points
    are locations (p, 2 (dimension + 1)), see `coupledgp.geometry.Locations`.

    Attributes
    ----------
    prior_parts : PrecisePrior
        Parts and hyperparameters.
    units : Units
        Units of y.
    normalize : bool
        Whether the units follow the data when observations are added.
    rows : Data
        Observations.
    """

    prior_parts: PrecisePrior
    units: Units
    normalize: bool
    rows: Data

    @classmethod
    def given(
        cls, prior: PrecisePrior, data: Data, units: Units, normalize: bool
    ) -> PreciseFieldGP:
        """Condition a prior on data.

        Raises
        ------
        MemoryLimitError
            The factor does not fit in memory.
        NumericalError
            The posterior precision is not positive definite to working precision.
        """
        process = cls(prior.serving(data.points), units, normalize, data)
        _ = process.posterior
        return process

    @cached_property
    def posterior(self) -> PrecisionPosterior:
        """Posterior of field and weights, in units of the output scale.

        A process that was read from a file computes it at its first use.
        """
        prior, data = self.prior_parts, self.rows
        columns = prior.columns(data.points)
        check_factor_size(prior.precision, columns.shape[1])
        hyper, relative = prior.hyperparameters, data.relative_noise
        noise = hyper.noise / hyper.outputscale * np.ones(len(data))
        return PrecisionPosterior(
            prior.precision.pattern, prior.field_precision, self._rows_of(data.points),
            noise if relative is None else noise * relative, columns,
            prior.penalties(columns.shape[1]),
        )  # fmt: skip

    @property
    def field_prior(self) -> FieldPrior:
        """The prior of the mean and the field whose kernel of position is exact."""
        return self.prior_parts.field_prior

    def row_keys(self, points: Points) -> Points:
        """Rows (p, m) of numbers that are equal for equal places, whatever their elements."""
        return canonical(points)

    @property
    def hyperparameters(self) -> FieldHyperparameters:
        return self.prior_parts.hyperparameters

    @cached_property
    def _targets(self) -> FloatArray:
        """Normalised targets (n, k)."""
        return self.units.normalized(self.rows.targets)

    @cached_property
    def _weights(self) -> FloatArray:
        """Posterior mean (q, k) of the weights of features and mean."""
        return self.posterior.coefficients(self._targets)

    @cached_property
    def _field(self) -> FloatArray:
        """Posterior mean (n_vertices, k) of the part of the surface."""
        return self.posterior.field(self._targets, self._weights)

    @cached_property
    def _residuals(self) -> FloatArray:
        """`(C / v)^-1 y` (n, k) with the covariance C of the observations and output scale v."""
        return self.posterior.residuals(self._targets, self._weights, self._field)

    @cached_property
    def log_evidence(self) -> float:
        hyper, weights = self.hyperparameters, self.rows.weights
        squares = float((self._targets * self._residuals).sum())
        value = log_evidence(
            squares, self.posterior.log_determinant, hyper.outputscale, *self._targets.shape
        )
        n_rows: float = len(self.rows)
        if weights is not None:
            value += self.units.n_outputs * weights.log_repetition(hyper.noise)
            n_rows = weights.n_counted
        return value - self.units.log_jacobian(n_rows)

    def latent_law(self, points: Points, want: Want) -> tuple[FloatArray, FloatArray | None]:
        """Mean (p, k) of f, and its variance (p,) or covariance (p, p), by one factorisation."""
        if want == "covariance":
            return self._joint_law(points)
        means, variances = [], []
        for block in self._blocks(points):
            rows, columns = self._rows_of(block), self.prior_parts.columns(block)
            means.append(rows @ self._field + columns @ self._weights)
            if want == "variance":
                root = self.posterior.gap_root(rows, columns)
                own, far = self.posterior.field_variances(rows), self._far(block)
                if far.size:
                    own[far] = self.prior_parts.field_variance(block[far])
                variances.append(own + np.square(root).sum(axis=1))
        mean = np.concatenate(means)
        if want == "mean":
            return mean, None
        return mean, self.hyperparameters.outputscale * np.concatenate(variances)

    def _joint_law(self, points: Points) -> tuple[FloatArray, FloatArray]:
        n_vertices, n_columns = self.posterior.spread.shape
        check_memory(
            8.0 * (len(points) * (4 * len(points) + 3 * n_columns) + 200 * n_vertices),
            f"places: the joint law of {len(points)} places",
            "ask for fewer places, for return_std, or for sample_y",
        )
        rows, columns = self._rows_of(points), self.prior_parts.columns(points)
        root = self.posterior.gap_root(rows, columns)
        covariance, far = self.posterior.field_covariance(rows), self._far(points)
        if far.size:
            covariance[np.ix_(far, far)] = self.prior_parts.field_covariance(points[far])
        covariance += root @ root.T
        mean = rows @ self._field + columns @ self._weights
        return mean, self.hyperparameters.outputscale * covariance

    def _far(self, points: Points) -> IntArray:
        """Numbers (m,) of places on components without observations, which have the prior's law."""
        return np.flatnonzero(~self.prior_parts.is_observed(points))

    def _rows_of(self, points: Points) -> Any:
        return location_rows(points, self.prior_parts.operator.n_vertices)

    def _blocks(self, points: Points) -> Iterator[Points]:
        for start in range(0, len(points), BLOCK_ROWS):
            yield points[start : start + BLOCK_ROWS]

    def latent_samples(
        self, points: Points, n_samples: int, rng: np.random.Generator
    ) -> FloatArray:
        """Draws (p, k, n_samples) of f from draws at all vertices; features are approximate."""
        rows, n_outputs = self._rows_of(points), self.units.n_outputs
        columns, posterior = self.prior_parts.columns(points), self.posterior
        far = self._far(points)
        drawn = np.empty((len(points), n_outputs * n_samples))
        for start in range(0, drawn.shape[1], BLOCK_DRAWS):
            count = min(BLOCK_DRAWS, drawn.shape[1] - start)
            weights = posterior.sample_weights(count, rng)
            noise = self.prior_parts.noise_of_precision(count, rng)
            field = posterior.sample_field(noise, weights, rng)
            own = rows @ field
            if far.size:
                own[far] = rows[far] @ self.prior_parts.field_samples(count, rng)
            drawn[:, start : start + count] = own + columns @ weights
        mean = rows @ self._field + columns @ self._weights
        drawn *= np.sqrt(self.hyperparameters.outputscale)
        return mean[:, :, None] + drawn.reshape(len(points), n_outputs, n_samples)

    def latent_prior(self, points: Points) -> FloatArray:
        return self.prior_parts.covariance(points)

    def inverse_covariance(self) -> FieldInverse:
        outputscale = self.hyperparameters.outputscale
        return FieldInverse(self.posterior, self._residuals / outputscale, outputscale)

    def exact(self) -> PreciseFieldGP | FieldGP:
        """Return the process with the kernel that the features estimate, by a dense covariance.

        Without features the process is exact and is returned itself.

        Raises
        ------
        MemoryLimitError
            The covariance of the observations does not fit in memory.
        """
        if self.prior_parts.feature_map is None:
            return self
        process = FieldGP.given(self.field_prior, self.rows, self.units, self.normalize)
        assert isinstance(process, FieldGP)
        return process

    def exact_problem(self) -> DenseProblem:
        return self.field_prior.problem(self.rows, self.units)

    def conditioned(self, data: Data, *, renormalize: bool = False) -> PreciseFieldGP:
        units = Units.of(data.targets, self.normalize, data.counts) if renormalize else self.units
        return PreciseFieldGP.given(self.prior_parts, data, units, self.normalize)

    def redrawn(self, coupling: Any, size: int, seed: int) -> PreciseFieldGP:
        """Return the process with `size` sampled frequencies of another draw, given its data.

        Raises
        ------
        InvalidInputError
            The process has no features.
        """
        own = self.prior_parts.feature_map
        if own is None:
            raise InvalidInputError(
                "model: expected one with frequencies to draw again, got a field without features "
                "of position"
            )
        drawn = make_features(
            "fourier", own.dim, size, coupling, own.spectrum, np.random.default_rng(seed)
        )
        prior = replace(self.prior_parts, feature_map=drawn)
        return PreciseFieldGP.given(prior, self.rows, self.units, self.normalize)

    def read_back(self) -> PreciseFieldGP:
        """The process of a file.

        Raises
        ------
        ModelFileError
            Rows are no places of the operator, or features are none of its kernel.
        """
        prior, kernel, n = self.prior_parts, self.hyperparameters.kernel, len(self.rows)
        features = prior.feature_map
        if kernel.surface is None or (kernel.position is None) != (features is None):
            raise ModelFileError("features: expected those of a kernel with a part of position")
        if features is not None and features.dim != prior.center.size:
            raise ModelFileError(f"features: expected {prior.center.size} columns, got others")
        check_places(self.rows.points, prior.operator)
        check_shapes(self.rows, targets=(n, self.units.n_outputs))
        return self
