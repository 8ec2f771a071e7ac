"""A Gaussian process whose kernel is a dot product of features, in the space of their weights."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from coupledgp.core.column_moments import column_means
from coupledgp.core.drawn_functions import DrawnFunctions, WeightFunctions
from coupledgp.core.inverse_covariance import FeatureInverse
from coupledgp.core.mixture import FITTED_REMARK
from coupledgp.core.normal_equations import FeatureRounding, SquareRoot, row_factors
from coupledgp.core.posterior_draw import (
    LEAST_PILOT_ROWS,
    PILOT_ROWS,
    pilot_form,
    pilot_places,
    posterior_draw,
)
from coupledgp.core.posterior_form import PosteriorForm
from coupledgp.core.problem import Hyperparameters
from coupledgp.core.process import (
    Batch,
    Data,
    Points,
    Want,
)
from coupledgp.core.sites import FeatureRows
from coupledgp.core.statistics import Chunk, DataStatistics
from coupledgp.core.units import Units, safe_scale
from coupledgp.core.weights_posterior import FeatureStream, WeightPosterior
from coupledgp.couplings.frequencies.registry import POSTERIOR, PosteriorLaw, parse_law
from coupledgp.errors import InvalidInputError, ModelFileError, NumericalError
from coupledgp.features import FeatureMap, FourierFeatures
from coupledgp.features.registry import Drawn, features_text, make_features
from coupledgp.ground.codec import check_range, check_shapes, stored
from coupledgp.ground.devices import moved
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.ground.validation import LARGEST_PRODUCT, SMALLEST_PRODUCT
from coupledgp.linalg.low_rank import LIMIT, warn_if_imprecise
from coupledgp.random import FloatArray
from coupledgp.tables.exact_process import ExactByPrior, StationaryPrior

RAISE_NOISE = "raise the noise, or lower the outputscale"
# Rows from which the size of phases is taken.
PHASE_ROWS = 4096
MAP_ARRAYS, MAP_PREFIX = ("frequencies", "weights"), "features."


def batch_chunks(stream: FeatureStream, batch: Batch) -> Iterator[Chunk]:
    """Features (b, M) of a batch of data, targets (b, k) and weights (b, 2), if any, in chunks."""
    weights = batch.weights
    for rows, _, features in stream:
        arrays = [batch.targets[rows]]
        if weights is not None:
            arrays.append(np.column_stack([weights.noise[rows], weights.counts[rows]]))
        # Copies: torch warns of tensors that share a read-only array.
        yield features, *(torch.tensor(a, device=features.device) for a in arrays)


@stored
@dataclass(frozen=True, eq=False)
class FeaturePrior:
    """`f(x) = sqrt(v) phi((x - c) / l) . w`, `w ~ N(0, I)`.

    Attributes
    ----------
    feature_map : FeatureMap
        phi, of unit lengthscale and variance.
    center : FloatArray (d,)
        Shift c of the inputs.
    hyperparameters : Hyperparameters
        Lengthscales l (d,) in units of the inputs; v and the noise variance in normalised units.
    """

    feature_map: FeatureMap
    center: FloatArray
    hyperparameters: Hyperparameters

    @property
    def stationary(self) -> StationaryPrior:
        """The prior whose kernel the features estimate."""
        return StationaryPrior(self.feature_map.spectrum, self.hyperparameters)

    @property
    def is_fitted(self) -> bool:
        """Whether the frequencies were fitted, and so are no sample of the spectral measure."""
        return Drawn.of(self.feature_map).law == "fitted"

    @property
    def is_single(self) -> bool:
        """Whether features are in single precision."""
        return self.feature_map.dtype == torch.float32

    def in_double(self) -> FeaturePrior:
        """The prior with features of the same frequencies in double precision."""
        return replace(self, feature_map=self.feature_map.to(dtype=torch.float64))

    def drawn_for(self, data: Data, size: int, rng: np.random.Generator) -> FeaturePrior:
        """The prior with frequencies drawn for its posterior given data, at its hyperparameters.

        Raises
        ------
        InvalidInputError
            The features are not Fourier features, or the rows are too few for a pilot.
        """
        own, (of_draws,) = self.feature_map, rng.spawn(1)
        if own.maker is not FourierFeatures or len(data) < LEAST_PILOT_ROWS:
            raise InvalidInputError(
                f"coupling: {POSTERIOR!r} needs Fourier features and at least {LEAST_PILOT_ROWS} "
                f"rows, got {features_text(own)} and {len(data)} rows"
            )
        form = self.pilot(data, of_draws)
        draw = posterior_draw(form, own.dim, size, of_draws)
        return replace(self, feature_map=draw.features(own))

    def pilot(
        self, data: Data, rng: np.random.Generator, n_rows: int = PILOT_ROWS
    ) -> PosteriorForm:
        """The form of the posterior of a random part of the data, at these hyperparameters."""
        given = data.take(pilot_places(len(data), rng))
        counted = len(data) if data.weights is None else data.weights.n_counted
        return pilot_form(
            given.points - self.center, self.feature_map.spectrum, self.hyperparameters, rng,
            given.weights, n_counted=counted, most_rows=n_rows,
        )  # fmt: skip

    def stream(self, points: Points) -> FeatureStream:
        """Features (p, M) of rows (p, d), computed some rows at a time."""
        lengthscale = self.hyperparameters.lengthscale
        return FeatureStream(self.feature_map, points, self.center, lengthscale)

    def chunks(self, data: Data) -> Iterator[Chunk]:
        """Features (b, M), targets (b, k) and weights (b, 2), if any, some rows at a time."""
        for batch in data.batches:
            yield from batch_chunks(self.stream(batch.points), batch)

    def given(
        self, data: Data, units: Units, normalize: bool, keep_data: bool = True
    ) -> WeightSpaceGP:
        """Condition on data.

        Raises
        ------
        NumericalError
            The posterior's matrix is not positive definite to working precision.
        """
        mean = column_means(data.targets, data.counts)
        offset = torch.as_tensor(mean, device=self.feature_map.device)
        empty = DataStatistics(self.feature_map.n_features, offset)
        statistics = empty.updated(self.chunks(data))
        rows = data if keep_data else None
        return WeightSpaceGP.of(self, statistics, units, normalize, rows, at_hand=data)

    def posterior(
        self, statistics: DataStatistics, units: Units, at_hand: Data | None
    ) -> WeightPosterior:
        """Posterior of the weights, from the rows themselves where sums over rows are too rounded.

        Parameters
        ----------
        statistics
            Statistics of the data.
        units
            Units of the targets.
        at_hand
            The data; None where it was not kept.

        Raises
        ------
        NumericalError
            The posterior's matrix is not positive definite to rounding, and there are no rows.
        """
        hyper, device = self.hyperparameters, self.feature_map.device
        offset, scale = (torch.as_tensor(u, device=device) for u in (units.offset, units.scale))
        phase = 1.0 if at_hand is None else self.phase(at_hand)
        found = None
        try:
            found = statistics.posterior(offset, scale, hyper.outputscale, hyper.noise, phase)
        except NumericalError:
            if at_hand is None or not statistics.is_finite:
                raise
        if (found is None or found.error > LIMIT) and at_hand is not None:
            found = self._posterior_of_rows(at_hand, units, statistics.rounding(phase))
        assert found is not None
        return found

    def _posterior_of_rows(
        self, data: Data, units: Units, rounding: FeatureRounding
    ) -> WeightPosterior:
        """Posterior by an orthogonal factor of all rows: three to four times the cost of sums."""
        hyper, weights = self.hyperparameters, data.weights
        root = SquareRoot.of(self._scaled_chunks(data, units), hyper.noise / hyper.outputscale)
        n_rows, log_noise = float(len(data)), 0.0
        if weights is not None:
            n_rows, log_noise = weights.n_counted, weights.log_noise
        return WeightPosterior.from_root(
            root, hyper.outputscale, hyper.noise, n_rows, log_noise, rounding
        )

    def _scaled_chunks(self, data: Data, units: Units) -> Iterator[tuple[Tensor, Tensor]]:
        """Features (b, M) and normalised targets (b, k), with factors of the rows, in double."""
        device = self.feature_map.device
        offset, scale = (torch.as_tensor(u, device=device) for u in (units.offset, units.scale))
        for features, targets, *weights in self.chunks(data):
            factors = row_factors(weights[0]) if weights else 1.0
            yield features.double() * factors, (targets - offset) / scale * factors

    def phase(self, data: Data) -> float:
        """Factor of the rounding of features: one plus the size of products with frequencies."""
        step = max(len(data) // PHASE_ROWS, 1)
        points = np.concatenate([batch.points[::step] for batch in data.batches])
        inputs = (points - self.center) / self.hyperparameters.lengthscale
        frequencies = self.feature_map.frequencies
        square = float(frequencies.double().square().sum(1).mean())
        return 1.0 + math.sqrt(square * float(np.square(inputs).sum(axis=1).mean()))


@stored
@dataclass(frozen=True, eq=False, repr=False)
class WeightSpaceGP(ExactByPrior):
    """A feature prior given data: O(n M^2) time and O(M^2) memory for M features.

    Attributes
    ----------
    feature_prior : FeaturePrior
        Feature map, hyperparameters and likelihood.
    statistics : DataStatistics
        Sufficient statistics of the data.
    posterior : WeightPosterior
        Posterior of the weights, in normalised units.
    units : Units
        Units of y.
    normalize : bool
        Whether the units follow the data when rows are added.
    rows : Data or None
        Observations; None if they were not kept.
    """

    feature_prior: FeaturePrior
    statistics: DataStatistics
    posterior: WeightPosterior
    units: Units
    normalize: bool
    rows: Data | None

    @classmethod
    def of(
        cls,
        feature_prior: FeaturePrior,
        statistics: DataStatistics,
        units: Units,
        normalize: bool,
        rows: Data | None,
        at_hand: Data | None = None,
    ) -> WeightSpaceGP:
        """Compute the posterior of the weights from the statistics of the data.

        `at_hand` is the data if `rows`, the data that the process keeps, are None. Features in
        single precision are replaced by those in double where their rounding shows. A
        PrecisionWarning is given where the mean may be off by .01 predictive standard deviations.
        """
        data = at_hand if rows is None else rows
        posterior = feature_prior.posterior(statistics, units, data)
        if posterior.error > LIMIT and data is not None and feature_prior.is_single:
            return feature_prior.in_double().given(data, units, normalize, rows is not None)
        process = cls(feature_prior, statistics, posterior, units, normalize, rows)
        process._warn_if_imprecise(data is not None)
        return process

    @property
    def rounding_error(self) -> float:
        """Estimated error of the mean by rounding, in predictive standard deviations."""
        return max(self.posterior.error, self._offset_error)

    @property
    def _offset_error(self) -> float:
        """Error of the mean by the digits of the offset of y, which no posterior can make less."""
        largest = float(np.max(np.abs(self.units.offset) / self.units.scale))
        return float(np.finfo(np.float64).eps * largest / math.sqrt(self.hyperparameters.noise))

    def _warn_if_imprecise(self, had_rows: bool) -> None:
        if self._offset_error > self.posterior.error:
            subject = f"y: an offset of {np.max(np.abs(self.units.offset)):.1g}"
            warn_if_imprecise(self._offset_error, subject, "subtract a constant from y")
            return
        hyper = self.hyperparameters
        advice = RAISE_NOISE + ("" if had_rows else ", or fit on rows that are kept")
        subject = f"noise: {hyper.noise / hyper.outputscale:.1g} of the outputscale"
        warn_if_imprecise(self.rounding_error, subject, advice)

    @property
    def hyperparameters(self) -> Hyperparameters:
        return self.feature_prior.hyperparameters

    @property
    def feature_map(self) -> FeatureMap:
        """The feature map, of unit lengthscale and variance."""
        return self.feature_prior.feature_map

    @property
    def remarks(self) -> tuple[str, ...]:
        return (FITTED_REMARK,) if self.feature_prior.is_fitted else ()

    @property
    def log_evidence(self) -> float:
        return self.posterior.log_evidence - self.units.log_jacobian(self.statistics.n_counted)

    def latent_law(self, points: Points, want: Want) -> tuple[FloatArray, FloatArray | None]:
        means, roots, variances = [], [], []
        for _, _, features in self.feature_prior.stream(points):
            means.append(self.posterior.predict(features))
            if want == "mean":
                continue
            root = self.posterior.root(features)
            variances.append(root.square().sum(1))
            if want == "covariance":
                roots.append(root)
        mean = torch.cat(means).cpu().numpy()
        if want == "mean":
            return mean, None
        variance = torch.cat(variances)
        if want == "variance":
            return mean, variance.cpu().numpy()
        root = torch.cat(roots)
        covariance = root @ root.T
        covariance.diagonal().copy_(variance)
        return mean, covariance.cpu().numpy()

    def latent_samples(
        self, points: Points, n_samples: int, rng: np.random.Generator
    ) -> FloatArray:
        """Draws (p, k, n_samples) of f in normalised units, by draws of the weights.

        The draws of the weights depend on the generator only, so that calls with one seed see the
        same functions.
        """
        values = self._times_features(points, self._drawn_weights(n_samples, rng))
        return values.reshape(len(points), self.units.n_outputs, n_samples)

    def draw_functions(self, n_functions: int, rng: np.random.Generator) -> DrawnFunctions:
        """Functions by draws of the weights, which are exact."""
        weights = self._drawn_weights(n_functions, rng)
        return WeightFunctions(self._times_features, weights, self.units, n_functions)

    def _drawn_weights(self, n_samples: int, rng: np.random.Generator) -> FloatArray:
        """Draws (M, k n_samples) of the weights, normalised units."""
        n_outputs = self.units.n_outputs
        innovations = rng.standard_normal((self.posterior.n_innovations, n_outputs * n_samples))
        deviations = self.posterior.sample(
            torch.as_tensor(innovations, device=self.feature_map.device)
        )
        weights = self.posterior.mean[:, :, None] + deviations.reshape(-1, n_outputs, n_samples)
        flat: FloatArray = weights.reshape(len(weights), -1).cpu().numpy()
        return flat

    def _times_features(self, points: Points, weights: FloatArray) -> FloatArray:
        """Features of points (p, d) times weights (M, j)."""
        flat = torch.as_tensor(weights, device=self.feature_map.device)
        parts = [
            features.to(flat.dtype) @ flat for _, _, features in self.feature_prior.stream(points)
        ]
        values: FloatArray = torch.cat(parts).cpu().numpy()
        return values

    def latent_prior(self, points: Points) -> FloatArray:
        features = self.feature_prior.stream(points).dense()
        gram: FloatArray = (features @ features.T).cpu().numpy()
        return gram * self.hyperparameters.outputscale

    def site_prior(self, points: Points) -> FeatureRows:
        stream = self.feature_prior.stream(points)
        return FeatureRows(
            lambda: (features.cpu().numpy() for _, _, features in stream),
            self.hyperparameters.outputscale,
        )

    def inverse_covariance(self) -> FeatureInverse:
        """Inverse covariance of the observations: O(n M), and O(M^2) for each one left out."""
        data = self.data
        relative = np.ones(len(data)) if data.relative_noise is None else data.relative_noise
        targets = self.units.normalized(data.targets)
        stream = self.feature_prior.stream(data.points)
        return FeatureInverse(stream, self.posterior, relative, targets)

    @property
    def exact_prior(self) -> StationaryPrior:
        return self.feature_prior.stationary

    def conditioned(self, data: Data, *, renormalize: bool = False) -> WeightSpaceGP:
        units = Units.of(data.targets, self.normalize, data.counts) if renormalize else self.units
        return self.feature_prior.given(data, units, self.normalize)

    def updated(self, data: Data) -> WeightSpaceGP:
        """Return the process given further data, at a cost that depends on the new rows alone."""
        statistics = self.statistics.updated(self.feature_prior.chunks(data))
        units = self.units
        if self.normalize:
            mean, std = (t.cpu().numpy() for t in statistics.target_mean_and_std())
            units = Units(mean, safe_scale(std, mean - std, mean + std, statistics.n_rows))
        rows = None if self.rows is None else self.rows.followed_by(data)
        return WeightSpaceGP.of(self.feature_prior, statistics, units, self.normalize, rows)

    def redrawn(self, coupling: Any, size: int, seed: int) -> WeightSpaceGP:
        """Return the process with `size` sampled frequencies of another draw, given its data.

        The law `"posterior"` draws for the posterior of the data.
        """
        own, prior = self.feature_map, self.feature_prior
        law, rng = parse_law(coupling), np.random.default_rng(seed)
        if isinstance(law, PosteriorLaw):
            prior = prior.drawn_for(self.data, size, rng)
            return prior.given(self.data, self.units, self.normalize)
        rows = None
        if own.from_rows:
            rows = (self.data.points - prior.center) / prior.hyperparameters.lengthscale
        drawn = make_features(
            own.maker, own.dim, size, law, own.spectrum, rng,
            dtype=own.dtype, device=own.device, rows=rows,
        )  # fmt: skip
        prior = replace(prior, feature_map=drawn)
        return prior.given(self.data, self.units, self.normalize)

    def on(self, device: torch.device) -> WeightSpaceGP:
        features = moved(self.feature_map, device)
        return replace(
            self,
            feature_prior=replace(self.feature_prior, feature_map=features),
            statistics=moved(self.statistics, device),
            posterior=moved(self.posterior, device),
        )

    def without_data(self) -> WeightSpaceGP:
        """The process without its rows."""
        return replace(self, rows=None)

    def read_back(self) -> WeightSpaceGP:
        """The process of a file, whose statistics are of features in its map's data type.

        Raises
        ------
        ModelFileError
            Its parts are of different sizes.
        """
        prior, own, k = self.feature_prior, self.statistics, self.units.n_outputs
        m, dim = prior.feature_map.n_features, prior.feature_map.dim
        check_shapes(prior, center=(dim,))
        check_shapes(prior.hyperparameters, lengthscale=(dim,))
        check_shapes(own, offset=(k,))
        for chunk in own.rows:
            shapes = [tuple(part.shape) for part in chunk]
            n = shapes[0][0]
            if not n or shapes not in ([(n, m), (n, k)], [(n, m), (n, k), (n, 2)]):
                raise ModelFileError(f"statistics: expected rows of {m} features, got others")
        if own.moments is not None:
            check_shapes(
                own.moments, gram=(m, m), cross=(m, k), feature_sum=(m,), target_sum=(k,),
                target_square=(k,), offset=(k,),
            )  # fmt: skip
            check_range(own.moments, 1, 2**62, "n_rows")
        if own.n_features != m or (own.moments is None) is (not own.rows):
            raise ModelFileError("statistics: expected rows or their moments, got others")
        factor = self.posterior.factor.shape[:1]
        check_shapes(self.posterior, mean=(m, k), basis=(m, *factor), factor=(*factor, *factor))
        check_range(
            self.posterior, SMALLEST_PRODUCT, LARGEST_PRODUCT, "outputscale", "noise"
        )  # fmt: skip
        rank = m if self.posterior.basis is None else factor[0]
        if factor != (rank,) or not float(self.posterior.factor.diagonal().min()) > 0:
            raise ModelFileError("factor: expected a diagonal above zero, got another factor")
        if self.rows is not None:
            check_shapes(self.rows, points=("n", dim), targets=("n", k))
        return replace(self, statistics=replace(own, dtype=prior.feature_map.dtype))
