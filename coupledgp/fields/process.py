"""The Gaussian process of a field on a surface or a network, given observations at locations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coupledgp.core.process import Points, Want
from coupledgp.errors import ModelFileError
from coupledgp.fields import LaplaceOperator
from coupledgp.fields.covariance import FieldCovariance, check_kernel
from coupledgp.fields.locations import canonical
from coupledgp.ground.codec import check_range, stored
from coupledgp.ground.memory import check_memory
from coupledgp.ground.validation import LARGEST_PRODUCT, SMALLEST_PRODUCT
from coupledgp.kernels.fields import FieldKernel
from coupledgp.linalg.matrices import cholesky_solve
from coupledgp.random import FloatArray
from coupledgp.tables.dense_prior import DensePrior
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

    Points are locations (p, 2 (dimension + 1)), see `coupledgp.geometry.Locations`.
    """

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
