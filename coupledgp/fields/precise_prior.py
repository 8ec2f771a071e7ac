"""The prior of a field by its sparse precision, with features of position and a constant mean."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from coupledgp.core.process import Points
from coupledgp.features import FeatureMap
from coupledgp.fields import LaplaceOperator
from coupledgp.fields.locations import location_rows
from coupledgp.fields.precision import (
    BoolArray,
    FieldPrecision,
    PriorPrecision,
    flat_variance,
)
from coupledgp.fields.process import FieldHyperparameters, FieldPrior, check_places
from coupledgp.ground.codec import stored
from coupledgp.ground.memory import check_memory
from coupledgp.ground.tensors import torch
from coupledgp.kernels.fields import WhittleMatern
from coupledgp.random import FloatArray


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
