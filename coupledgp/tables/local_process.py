"""A Gaussian process with features for the long range and nearest neighbours for the short."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from coupledgp.core.drawn_functions import DrawnFunctions
from coupledgp.core.process import (
    Data,
    Points,
    Want,
)
from coupledgp.core.units import Units
from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.features.registry import make_features
from coupledgp.ground.codec import check_range, check_shapes, stored
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.linalg.low_rank import (
    ENTRY_ROUNDINGS,
    coordinate_roundings,
    warn_if_imprecise,
)
from coupledgp.metrics import Metric
from coupledgp.random import FloatArray, IntArray
from coupledgp.spectra import GaussianSpectrum
from coupledgp.tables.dense_prior import AdditivePrior
from coupledgp.tables.exact_process import ExactByPrior
from coupledgp.tables.local_functions import LocalFunctions, LocalInverse
from coupledgp.tables.local_prior import (
    LocalHyperparameters,
    LocalPrior,
)
from coupledgp.tables.local_table import Kriged, Table, krige, kriging_errors, random_order
from coupledgp.tables.standardized import TablePair
from coupledgp.tables.whitening import WhitenedPosterior, WhitenedSums


@dataclass(frozen=True, eq=False, repr=False)
class LocalGP(ExactByPrior):
    """Features, trend and a local part given data, by whitening each row by near earlier ones.

    Given the weights, an observation depends on the others through its k nearest rows only
    (Vecchia, 1988); with k at least the number of rows nothing is approximated besides the kernel
    of sampled features. O(n (k^3 + k M + M^2)) time for n rows, M features and trend columns.

    Attributes
    ----------
    local_prior : LocalPrior
        Parts and hyperparameters.
    units : Units
        Units of y.
    normalize : bool
        Whether the units follow the data when rows are added.
    rows : Data
        Observations.
    table : Table
        The observations in the order in which they are conditioned on each other; later data come
        after earlier data.
    sums : WhitenedSums
        Sums over whitened rows, targets as in the table.
    posterior : WhitenedPosterior
        Posterior of the weights, normalised targets.
    """

    local_prior: LocalPrior
    units: Units
    normalize: bool
    rows: Data
    table: Table
    sums: WhitenedSums
    posterior: WhitenedPosterior

    @classmethod
    def given(
        cls,
        prior: LocalPrior,
        data: Data,
        units: Units,
        normalize: bool,
        table: Table | None = None,
    ) -> LocalGP:
        """Condition a prior on data, whose table, if it was made before, need not be made anew.

        Raises
        ------
        NumericalError
            A covariance of neighbours is not positive definite to working precision.
        """
        if table is None:
            table = Table.first(prior.center, prior.spread, data)
        table.check_standardised(prior)
        return cls.of(prior, units, normalize, data, table, table.sums(prior))

    @classmethod
    def of(
        cls,
        prior: LocalPrior,
        units: Units,
        normalize: bool,
        data: Data,
        table: Table,
        sums: WhitenedSums,
    ) -> LocalGP:
        """Compute the posterior of the weights from the sums."""
        change = table.normalizer(units)
        normalized = sums._replace(
            cross=sums.cross @ change, squares=change.T @ sums.squares @ change
        )
        posterior = WhitenedPosterior.of(normalized)
        process = cls(prior, units, normalize, data, table, sums, posterior)
        subject = f"noise: {prior.noise:.1g} of the variance of y"
        warn_if_imprecise(process.rounding_error, subject, "raise the noise")
        return process

    @property
    def rounding_error(self) -> float:
        """Estimated error by rounding, in predictive standard deviations (MATH section 6).

        Errors come from the equations of neighbours, whose targets have the size of their laws or
        the observed size, and from the equations of the weights.
        """
        prior, own = self.local_prior, self.posterior
        relative = self.rows.relative_noise
        least = prior.noise if relative is None else prior.noise * float(relative.min())
        ratio = prior.local_outputscale / least
        size = min(prior.structure.n_neighbours, len(self.table))
        gone = max(1.0, float(own.quadratic.max()) / len(self.table)) ** 0.5
        eps = ENTRY_ROUNDINGS * float(np.finfo(np.float64).eps)
        eps *= coordinate_roundings(self._extent)
        return max(eps * math.sqrt(size) * ratio * gone, own.rounding_error)

    @property
    def _extent(self) -> float:
        """Largest coordinate of a row, in lengthscales of the local part."""
        return self.local_prior.extent_of(self.table.inputs)

    @property
    def hyperparameters(self) -> LocalHyperparameters:
        return self.local_prior.hyperparameters

    @property
    def log_evidence(self) -> float:
        value, n_rows = float(self.posterior.log_evidence), float(len(self.rows))
        weights = self.rows.weights
        if weights is not None:
            value += self.units.n_outputs * weights.log_repetition(self.local_prior.noise)
            n_rows = weights.n_counted
        return value - self.units.log_jacobian(n_rows)

    def summary(self) -> dict[str, Any]:
        """Hyperparameters by name, of the parts that the prior has.

        Variances are in units of y squared.
        """
        structure = self.local_prior.structure
        has_features = structure.frequencies is not None
        parts = {
            "local_outputscale": structure.spectrum is not None,
            "feature_outputscale": has_features,
            "feature_lengthscale": has_features,
            "trend": structure.trend != "none",
        }
        return {
            name: self.units.spread(value) if np.ndim(value) == 0 else value
            for name, value in vars(self.hyperparameters).items()
            if parts.get(name, True)
        }

    @cached_property
    def _targets(self) -> Tensor:
        """Normalised targets (n, k) in the order of the table."""
        return torch.as_tensor(self.table.columns) @ self.table.normalizer(self.units)

    def _kriged(self, points: Points) -> tuple[FloatArray, FloatArray, Kriged]:
        """Standardised inputs (p, d), factors (p,) of their features, and kriging there."""
        prior = self.local_prior
        inputs = prior.standardised(points)
        fading = self.table.box.fading(inputs, prior.feature_lengthscale)
        return inputs, fading, krige(prior, self.table, self._targets, inputs, fading)

    def latent_law(self, points: Points, want: Want) -> tuple[FloatArray, FloatArray | None]:
        inputs, fading, kriged = self._kriged(points)
        mean = (kriged.errors @ self.posterior.mean + kriged.targets).numpy()
        if want == "mean":
            return mean, None
        root = self.posterior.root(kriged.errors)
        beyond = self.local_prior.beyond(inputs, self.table.box)
        variance = root.square().sum(1).numpy() + kriged.variance
        variance += np.square(self.local_prior.faded_root(fading))
        variance += np.square(beyond).sum(axis=1)
        if want == "variance":
            return mean, variance
        covariance = (root @ root.T).numpy() + beyond @ beyond.T
        covariance += self.local_prior.lost(inputs, fading)
        if self.local_prior.structure.spectrum is not None:
            covariance += kriging_errors(self.local_prior, self.table, inputs, kriged.weights)
        covariance[np.diag_indices_from(covariance)] = variance
        return mean, covariance

    @property
    def is_rough(self) -> bool:
        return self.local_prior.is_rough

    def draw_functions(self, n_functions: int, rng: np.random.Generator) -> DrawnFunctions:
        """Functions by Matheron's rule with near rows, or by joint laws without frequencies."""
        spectrum = self.local_prior.structure.spectrum
        if spectrum is not None and spectrum.metric != Metric.L2:
            return super().draw_functions(n_functions, rng)
        return LocalFunctions.of(
            self.local_prior, self.table, self._targets, self.posterior, self.units, n_functions,
            rng,
        )  # fmt: skip

    def latent_prior(self, points: Points) -> FloatArray:
        prior = self.local_prior
        inputs = prior.standardised(points)
        fading = self.table.box.fading(inputs, prior.feature_lengthscale)
        features = prior.features(inputs, fading, self.table.box)
        covariance: FloatArray = (features @ features.T).numpy()
        beyond = prior.beyond(inputs, self.table.box)
        covariance += prior.lost(inputs, fading) + beyond @ beyond.T
        return covariance + prior.local_covariance(TablePair(inputs, inputs))

    def inverse_covariance(self) -> LocalInverse:
        """Inverse covariance of the law in which rows are conditioned on near earlier rows.

        An observation that is left out is predicted as any other point is, by the nearest rows
        that are not in its group and by the weights of features and trend without its group.
        Nothing of this uses a target of the group. Kept are the order of the rows, by which the
        weights are estimated, and the range of the inputs, outside of which features fade: these
        depend on inputs alone. `conditioned` on the other rows orders them anew, so that the
        weights differ a little; with all rows as neighbours, inside the range, nothing does.
        Correlations are those of the joint law of the rows in their order.
        """
        return LocalInverse(self.local_prior, self.table, self._targets)

    def on(self, device: torch.device) -> LocalGP:
        """The process with whitening and kriging on a device; its posterior stays on the CPU."""
        return replace(self, local_prior=replace(self.local_prior, device=device))

    def conditioned(self, data: Data, *, renormalize: bool = False) -> LocalGP:
        units = Units.of(data.targets, self.normalize, data.counts) if renormalize else self.units
        return LocalGP.given(self.local_prior, data, units, self.normalize)

    def updated(self, data: Data) -> LocalGP:
        """Return the process given further data; only new rows are whitened, by near rows."""
        both = self.rows.followed_by(data)
        first = len(self.rows)
        order = np.concatenate([self.table.order, random_order(first, len(data))])
        prior = self.local_prior
        table = Table(prior.center, prior.spread, both, order, self.table.offset)
        sums = self.sums.merge(table.sums(prior, first))
        units = Units.of(both.targets, self.normalize, both.counts)
        return LocalGP.of(prior, units, self.normalize, both, table, sums)

    def redrawn(self, coupling: Any, size: int, seed: int) -> LocalGP:
        """Return the process with `size` sampled frequencies of another draw, given its data.

        Raises
        ------
        InvalidInputError
            The model has no features.
        """
        structure = self.local_prior.structure
        if structure.frequencies is None:
            raise InvalidInputError(
                "model: expected one with frequencies to draw again, got a local GP without "
                "features"
            )
        drawn = make_features(
            "fourier", structure.dim, size, coupling, GaussianSpectrum(),
            np.random.default_rng(seed),
        )  # fmt: skip
        prior = self.local_prior.with_frequencies(drawn.frequencies.numpy())
        return LocalGP.given(prior, self.rows, self.units, self.normalize)

    @property
    def exact_prior(self) -> AdditivePrior:
        """The prior with all parts in one kernel."""
        return AdditivePrior(self.local_prior)

    def as_stored(self) -> StoredLocal:
        """What a file holds: the sums over whitened rows, of which the posterior is made."""
        own = self.local_prior, self.units, self.normalize, self.rows
        return StoredLocal(*own, self.table.order, self.table.offset, self.sums)


@stored
class StoredLocal(NamedTuple):
    """A process in a file: its rows, their order, and the sums over them."""

    local_prior: LocalPrior
    units: Units
    normalize: bool
    rows: Data
    order: IntArray
    offset: FloatArray
    sums: WhitenedSums

    def read_back(self) -> LocalGP:
        """The process.

        Raises
        ------
        ModelFileError
            Rows, sums and prior are of different sizes.
        """
        prior, n, k = self.local_prior, len(self.rows), self.units.n_outputs
        m = prior.n_columns
        check_shapes(self.rows, points=(n, prior.center.size), targets=(n, k))
        check_shapes(self, order=(n,), offset=(k,))
        check_shapes(
            self.sums, gram=(m, m), cross=(m, k + 1), squares=(k + 1, k + 1), log_variance=()
        )
        check_range(self.sums, 1, 2**62, "n_rows")
        check_range(self, 0, n - 1, "order")
        if (np.bincount(self.order, minlength=n) != 1).any():
            raise ModelFileError("order: expected each row once, got a row twice")
        table = Table(prior.center, prior.spread, self.rows, self.order, self.offset)
        return LocalGP.of(prior, self.units, self.normalize, self.rows, table, self.sums)
