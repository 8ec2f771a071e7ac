"""The Gaussian process of a field on a surface or a network, given observations at locations.

The prior of a field by its sparse precision, with features of position and a constant mean.

The Gaussian process of a field given many observations, by its sparse precision.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from coupledgp.core.inverse_covariance import InverseCovariance
from coupledgp.core.normalized_process import NormalizedProcess
from coupledgp.core.problem import log_evidence
from coupledgp.core.process import Data, Points, Want
from coupledgp.core.units import Units
from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.features import FeatureMap
from coupledgp.features.registry import make_features
from coupledgp.fields import LaplaceOperator
from coupledgp.fields.covariance import FieldCovariance, check_kernel
from coupledgp.fields.evidence import PrecisionPosterior
from coupledgp.fields.locations import canonical, location_rows
from coupledgp.fields.precision import BoolArray, FieldPrecision, PriorPrecision, flat_variance
from coupledgp.ground.codec import check_range, check_shapes, stored
from coupledgp.ground.memory import check_memory
from coupledgp.ground.tensors import torch
from coupledgp.ground.validation import LARGEST_PRODUCT, SMALLEST_PRODUCT
from coupledgp.kernels.fields import FieldKernel, WhittleMatern
from coupledgp.linalg.matrices import cholesky_solve
from coupledgp.random import FloatArray, IntArray
from coupledgp.tables.dense_prior import DensePrior, DenseProblem
from coupledgp.tables.exact_process import ExactGP

# Prior variance of the constant mean over the mean square of the normalised targets: as good as
# unknown.
MEAN_VARIANCE = 100.0
# Where targets say nothing of a kernel: range and lengthscale over the diameter, and the variances
# of the field and the noise in normalised units.
DEFAULT_LENGTH, DEFAULT_OUTPUTSCALE, DEFAULT_NOISE = 0.4, 1.0, 0.1
# Number of places beyond which draws are made by Matheron's rule, and number of frequencies of the
# part of position in them.
DENSE_SAMPLES, N_FREQUENCIES = 1500, 2048
# Largest absolute difference from one of weights that add up to one.
ROUNDING = 1e-6


@stored
@dataclass(frozen=True)
class FieldHyperparameters:
    """Fitted kernel and variances, in normalised units.

    Attributes
    ----------
    kernel : FieldKernel
        Kernel of the field, of unit amplitude.
    outputscale : float
        Variance of the field, averaged over the surface.
    noise : float
        Variance of the noise.
    mean_variance : float
        Prior variance of the constant mean.
    """

    kernel: FieldKernel
    outputscale: float
    noise: float
    mean_variance: float


@stored
@dataclass(frozen=True, eq=False)
class FieldPrior(DensePrior):
    """`m + f` with a constant `m ~ N(0, b)` and a field `f ~ N(0, v K)`.

    Attributes
    ----------
    fields : FieldCovariance
        Covariances K on the operator.
    hyperparameters : FieldHyperparameters
        Kernel, v, b and the noise variance.
    """

    fields: FieldCovariance
    hyperparameters: FieldHyperparameters

    def read_back(self) -> FieldPrior:
        """The prior of a file.

        Raises
        ------
        ModelFileError
            Its kernel is none of the operator, or has free parameters.
        """
        hyper = self.hyperparameters
        check_kernel(hyper.kernel, self.operator)
        surface, position = hyper.kernel.surface, hyper.kernel.position
        if surface is not None and (surface.range_ is None or surface.alpha is None):
            raise ModelFileError("kernel: expected a range and an alpha, got none")
        if position is not None and (position.lengthscale is None or position.columns is None):
            raise ModelFileError("kernel: expected a lengthscale, got none")
        check_range(
            hyper, SMALLEST_PRODUCT, LARGEST_PRODUCT, "outputscale", "noise", "mean_variance"
        )  # fmt: skip
        return self

    def check_points(self, points: Points) -> None:
        check_places(points, self.operator)

    @property
    def operator(self) -> LaplaceOperator:
        """The surface or network."""
        return self.fields.operator

    def covariance(self, a: Points, b: Points) -> FloatArray:
        """Prior covariance (n, p) of f between locations a (n, ...) and b (p, ...)."""
        hyper = self.hyperparameters
        if a is b:
            gram = self.fields.gram(hyper.kernel, a)
        # The columns of the covariance are solved for from the side with fewer locations, which
        # for predictions are the observations: their columns are kept.
        elif len(a) < len(b):
            gram = self.fields.cross(hyper.kernel, b, a).T
        else:
            gram = self.fields.cross(hyper.kernel, a, b)
        return hyper.outputscale * gram + hyper.mean_variance

    def variance(self, points: Points) -> FloatArray:
        hyper = self.hyperparameters
        return hyper.outputscale * self.fields.variance(hyper.kernel, points) + hyper.mean_variance

    def sample(self, points: Points, n_samples: int, rng: np.random.Generator) -> FloatArray:
        """Draws (p, n_samples) of mean and field at locations (p, ...), normalised units."""
        hyper = self.hyperparameters
        field = self.fields.sample(hyper.kernel, points, n_samples, rng, N_FREQUENCIES)
        constant = np.sqrt(hyper.mean_variance) * rng.standard_normal(n_samples)
        return np.sqrt(hyper.outputscale) * field + constant


@stored
@dataclass(frozen=True, eq=False, repr=False)
class FieldGP(ExactGP):
    """A field with a constant mean given observations, by a Cholesky factor of their covariance.

    Points are locations (p, 2 (dimension + 1)), see `coupledgp.fields.Locations`.
    """

    points_are: ClassVar[str] = "places"

    @property
    def field_prior(self) -> FieldPrior:
        """The prior of the mean and the field."""
        prior = self.dense_prior
        assert isinstance(prior, FieldPrior)
        return prior

    @property
    def hyperparameters(self) -> FieldHyperparameters:  # type: ignore[override]
        return self.field_prior.hyperparameters

    def row_keys(self, points: Points) -> Points:
        """Rows (p, m) of numbers that are equal for equal places, whatever their elements."""
        return canonical(points)

    def latent_law(self, points: Points, want: Want) -> tuple[FloatArray, FloatArray | None]:
        """Mean (p, k) of f, and its variance (p,) or covariance (p, p), by one factorisation."""
        if want == "covariance":
            self._check_joint_size(len(points))
        return super().latent_law(points, want)

    def _check_joint_size(self, n_wanted: int) -> None:
        """Refuse a joint law that does not fit in memory, before it is computed."""
        n_vertices = self.field_prior.operator.n_vertices
        check_memory(
            8.0 * n_wanted * (5 * n_wanted + 3 * n_vertices),
            f"places: the joint law of {n_wanted} places",
            "ask for fewer places, for return_std, or for sample_y",
        )

    def latent_samples(
        self, points: Points, n_samples: int, rng: np.random.Generator
    ) -> FloatArray:
        """Draws (p, k, n_samples) of f in normalised units.

        At more than `DENSE_SAMPLES` places draws of the prior are corrected by the observations
        (Matheron's rule): the part of the surface is exact, that of position is drawn from
        `N_FREQUENCIES` coupled frequencies, whose covariance has a relative error of about
        `N_FREQUENCIES^-1/2`.
        """
        if len(points) <= DENSE_SAMPLES:
            return super().latent_samples(points, n_samples, rng)
        n_outputs = self.alpha.shape[1]
        count, n_rows = n_outputs * n_samples, len(self.rows)
        both = np.concatenate([points, self.rows.points])
        drawn = self.field_prior.sample(both, count, rng)
        relative = self.rows.relative_noise
        scale = np.sqrt(self.noise.variance * (1.0 if relative is None else relative[:, None]))
        seen = drawn[len(points) :] + scale * rng.standard_normal((n_rows, count))
        targets = np.repeat(self.units.normalized(self.rows.targets), n_samples, axis=1)
        weights = cholesky_solve(targets - seen, self.factor)
        drawn = drawn[: len(points)]
        drawn += self.dense_prior.covariance(points, self.rows.points) @ weights
        return drawn.reshape(len(points), n_outputs, n_samples)


def check_places(points: FloatArray, operator: LaplaceOperator) -> None:
    """Refuse rows of observations that are no places on an operator."""
    corners = operator.elements.shape[1]
    if points.shape[1] != 2 * corners:
        raise ModelFileError(f"X: expected {2 * corners} columns, got {points.shape[1]}")
    numbers, weights = points[:, :corners], points[:, corners:]
    whole = (numbers == np.floor(numbers)) & (numbers >= 0) & (numbers < operator.n_vertices)
    if not whole.all() or (weights < -ROUNDING).any():
        raise ModelFileError("X: expected vertices of the operator and their weights, got others")
    if not (np.abs(weights.sum(axis=1) - 1) <= ROUNDING).all():
        raise ModelFileError("X: expected weights whose sum is one, got others")


@stored
@dataclass(frozen=True, eq=False)
class PrecisePrior:
    """`m + sqrt(share) f + sqrt(1 - share) phi(x / l)'w`, times the root of the output scale.

    f is a Whittle-Matern field of mean variance one with a sparse precision, `w ~ N(0, I)` are the
    weights of Fourier features of position, and m a constant.

    Attributes
    ----------
    field_prior : FieldPrior
        Hyperparameters and operator; its kernel of position is the one that the
        features estimate.
    feature_map : FeatureMap or None
        Features of unit lengthscale; None without a part of position.
    known_precision : FieldPrecision or None
        Precisions of the field; None where they are found at their first use.
    places : Points or None
        Places (n, ...) of observations, for which they are found; None: anywhere.
    """

    field_prior: FieldPrior
    feature_map: FeatureMap | None
    known_precision: FieldPrecision | None = field(default=None, metadata={"stored": False})
    places: Points | None = None

    def read_back(self) -> PrecisePrior:
        """The prior of a file."""
        if self.places is not None:
            check_places(self.places, self.operator)
        return self

    @property
    def operator(self) -> LaplaceOperator:
        """The surface or network."""
        return self.field_prior.operator

    @cached_property
    def precision(self) -> FieldPrecision:
        """Precisions of the field."""
        if self.known_precision is not None:
            return self.known_precision
        alpha = self._surface[1].alpha
        assert alpha is not None
        rows = None if self.places is None else location_rows(self.places, self.operator.n_vertices)
        return FieldPrecision.of(self.operator, alpha, rows)

    def serving(self, points: Points) -> PrecisePrior:
        """The prior with precisions for observations at places (n, ...)."""
        rows = location_rows(points, self.operator.n_vertices)
        if self.places is points or self.precision.serves(rows):
            return self
        return replace(self, known_precision=None, places=points)

    @property
    def hyperparameters(self) -> FieldHyperparameters:
        """Kernel and variances."""
        return self.field_prior.hyperparameters

    @cached_property
    def field_precision(self) -> PriorPrecision:
        """Precision of the field at the vertices, in units of the output scale."""
        precision = self.precision.at(self._kappa)
        factor, n = self._factor, self.operator.n_vertices
        log_determinant = precision.log_determinant + n * np.log(factor)
        return PriorPrecision(factor * precision.values, float(log_determinant))

    def noise_of_precision(self, n_samples: int, rng: np.random.Generator) -> FloatArray:
        """Draws (n_vertices, n_samples) whose covariance is that precision."""
        return np.sqrt(self._factor) * self.precision.noise(self._kappa, n_samples, rng)

    @property
    def _kappa(self) -> float:
        return self._surface[1].kappa(self.operator.dimension)

    @cached_property
    def _factor(self) -> float:
        """Factor that gives the field its share of the output scale as mean variance."""
        share, surface = self._surface
        known = self.field_prior.fields.surface.known(surface)
        flat = flat_variance(self._kappa, self.precision.alpha, self.operator.dimension)
        return known.mean_variance / flat / share

    def columns(self, points: Points) -> FloatArray:
        """Features, times their factor, and a column of ones (p, q) at locations (p, ...)."""
        ones = np.ones((len(points), 1))
        position = self.hyperparameters.kernel.position
        if self.feature_map is None or position is None:
            return ones
        share = self.hyperparameters.kernel.share
        assert share is not None
        assert position.lengthscale is not None
        places = self.field_prior.fields.places(points, position) - self.center
        features = self.feature_map(torch.as_tensor(places / position.lengthscale)).numpy()
        return np.hstack([np.sqrt(1 - share) * features, ones])

    @cached_property
    def center(self) -> FloatArray:
        """Centre of the positions and columns, which the features are measured from."""
        position = self.hyperparameters.kernel.position
        assert position is not None
        return self.field_prior.fields.center(position)

    def penalties(self, n_columns: int) -> FloatArray:
        """Prior precisions (q,) of the weights of the columns, in units of the output scale."""
        hyper = self.hyperparameters
        return np.append(np.ones(n_columns - 1), hyper.outputscale / hyper.mean_variance)

    def covariance(self, points: Points) -> FloatArray:
        """Prior covariance (p, p) of mean, field and features, normalised units."""
        columns = self.columns(points)
        gram = self.field_covariance(points)
        gram += columns / self.penalties(columns.shape[1]) @ columns.T
        return self.hyperparameters.outputscale * gram

    def field_covariance(self, points: Points) -> FloatArray:
        """Prior covariance (p, p) of the field, in units of the output scale."""
        share, surface = self._surface
        return share * self.field_prior.fields.surface.gram(surface, points)

    def field_variance(self, points: Points) -> FloatArray:
        """Prior variance (p,) of the field, in units of the output scale."""
        share, surface = self._surface
        return share * self.field_prior.fields.surface.variance(surface, points)

    def field_samples(self, n_samples: int, rng: np.random.Generator) -> FloatArray:
        """Draws (n_vertices, n_samples) of the field, in units of the output scale's root."""
        share, surface = self._surface
        return np.sqrt(share) * self.field_prior.fields.surface.sample(surface, n_samples, rng)

    @property
    def _surface(self) -> tuple[float, WhittleMatern]:
        """Share and kernel of the field."""
        kernel = self.hyperparameters.kernel
        assert kernel.share is not None
        assert kernel.surface is not None
        return kernel.share, kernel.surface

    def is_observed(self, points: Points) -> BoolArray:
        """Whether places (p, ...) are on components with observations."""
        return self.precision.observed[points[:, 0].astype(np.int64)]


def check_factor_size(precision: FieldPrecision, n_columns: int) -> None:
    """Refuse a posterior whose factor does not fit in memory, before it is made."""
    nodes, n = precision.pattern.nodes, precision.operator.n_vertices
    n_numbers = nodes.n_values + nodes.most_updates() + nodes.most_fronts()
    check_memory(
        8.0 * (n_numbers + 2 * n * n_columns + 6 * precision.pattern.keys.size),
        f"operator: the factor of the precision of {n} vertices and {n_columns} features of each",
        "use a coarser mesh (a larger max_edge) or fewer frequencies",
    )


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
    are locations (p, 2 (dimension + 1)), see `coupledgp.fields.Locations`.

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

    points_are: ClassVar[str] = "places"
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
