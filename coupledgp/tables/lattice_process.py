"""A Gaussian process of few columns by features on a lattice of frequencies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from coupledgp.core.drawn_functions import DrawnFunctions, WeightFunctions
from coupledgp.core.inverse_covariance import InverseCovariance, LatticeInverse
from coupledgp.core.problem import Hyperparameters, RowWeights
from coupledgp.core.process import (
    Data,
    Points,
    Want,
)
from coupledgp.core.units import Units
from coupledgp.errors import InvalidInputError, ModelFileError, NumericalError
from coupledgp.ground.codec import check_range, check_shapes, stored
from coupledgp.ground.memory import check_memory
from coupledgp.ground.progress import tell
from coupledgp.ground.validation import LARGEST_PRODUCT, SMALLEST_PRODUCT
from coupledgp.random import FloatArray
from coupledgp.spectra import Spectrum
from coupledgp.tables.dense_prior import DensePrior
from coupledgp.tables.exact_process import ExactByPrior
from coupledgp.tables.lattice import MOST_AXES, Lattice, PlaceBox, kernel_reach
from coupledgp.tables.lattice_evidence import LatticePrior, log_evidence
from coupledgp.tables.lattice_parts import (
    LatticeRows,
    TrendColumns,
    averaged_over,
    dense_prior,
    units_of,
    warn_of_rounding,
)
from coupledgp.tables.lattice_posterior import (
    DRAW_TOLERANCE,
    MEAN_TOLERANCE,
    LatticePosterior,
    boxed,
    values_at,
)
from coupledgp.tables.lattice_sums import LatticeSums
from coupledgp.tables.lattice_system import LatticeSystem
from coupledgp.tables.spreading import half_shape

# Draws of the deviation by which variances are known where the block does not hold all waves.
N_DRAWS = 32
# Parts of a reach beyond the box from which, and up to which, answers return to the prior.
FADING, FADED = 0.25, 0.5
PROBES_FOR_EVIDENCE = 12
# Rows up to which laws of rows left out are those of the exact process where variances are drawn.
EXACT_ROWS = 4000

# Largest half-width of a lattice in a file.
MOST_HALF = 2**24


@stored
@dataclass(frozen=True, eq=False, repr=False)
class LatticeGP(ExactByPrior):
    """A stationary kernel of one to three columns on a lattice, with a linear trend, given data.

    One pass over n rows, then solves that do not depend on n; means and variances at any number of
    points by one transform. `coupledgp.tables.lattice` has the formulas.

    Attributes
    ----------
    lattice_prior : LatticePrior
        Kernel, hyperparameters and lattice; lengthscales are those of the places.
    trend : TrendColumns
        Places and trend columns among the columns of a row.
    box : PlaceBox
        The box of the rows' places.
    units : Units
        Units of y.
    normalize : bool
        Whether the units follow the data when rows are added.
    offset : FloatArray (k,)
        What targets were less by when the sums were made, units of y.
    sums : LatticeSums
        Sums over rows.
    posterior : LatticePosterior
        Moments of the posterior, normalised units.
    seed : int
        Of draws by which variances are known.
    rows : Data or None
        Observations; None if they were not kept.
    """

    lattice_prior: LatticePrior
    trend: TrendColumns
    box: PlaceBox
    units: Units
    normalize: bool
    offset: FloatArray
    sums: LatticeSums
    posterior: LatticePosterior
    seed: int
    rows: Data | None

    @classmethod
    def given(
        cls,
        spectrum: Spectrum,
        hyperparameters: Hyperparameters,
        trend: TrendColumns,
        data: Data,
        units: Units,
        normalize: bool,
        *,
        seed: int = 0,
        n_draws: int = N_DRAWS,
    ) -> LatticeGP:
        """Condition on data.

        Parameters
        ----------
        spectrum, hyperparameters
            Kernel, lengthscales (d,) of the places, and variances in normalised units.
        trend
            Places and trend columns.
        data, units, normalize
            Observations, their units, and whether units follow further data.
        seed, n_draws
            Of the draws by which variances are known where waves are many.

        Raises
        ------
        NumericalError
            The equations of the weights are not solved to working precision.
        """
        box = PlaceBox.of(data.points[:, trend.places])
        offset = units.offset
        lattice = _lattice_of(spectrum, hyperparameters, trend, data.points, data.weights)
        sums = trend.sums(lattice, data, offset)
        prior = LatticePrior(spectrum, hyperparameters, lattice, len(trend.columns))
        return cls.of(prior, trend, box, units, normalize, offset, sums, seed, n_draws, data)

    @classmethod
    def of(
        cls,
        prior: LatticePrior,
        trend: TrendColumns,
        box: PlaceBox,
        units: Units,
        normalize: bool,
        offset: FloatArray,
        sums: LatticeSums,
        seed: int,
        n_draws: int,
        rows: Data | None,
    ) -> LatticeGP:
        """Compute the posterior from the sums; rows are kept, where they are given."""
        system = _system(prior, units, offset, sums)
        rng = np.random.default_rng([seed, 3])
        tell("posterior")
        posterior = LatticePosterior.of(system, n_draws, rng)
        found = cls(prior, trend, box, units, normalize, offset, sums, posterior, seed, rows)
        found.__dict__["system"] = system
        warn_of_rounding(prior, system, posterior.mean)
        return found

    @cached_property
    def system(self) -> LatticeSystem:
        """Equations of the whitened weights."""
        return _system(self.lattice_prior, self.units, self.offset, self.sums)

    @property
    def lattice(self) -> Lattice:
        """The lattice of frequencies."""
        return self.lattice_prior.lattice

    @property
    def hyperparameters(self) -> Hyperparameters:
        """Hyperparameters; the lengthscale of a column that is no place is infinite."""
        own = self.lattice_prior.hyperparameters
        lengthscale = np.full(len(self.trend.center), np.inf)
        lengthscale[self.trend.places] = own.lengthscale
        return replace(own, lengthscale=lengthscale)

    @property
    def is_rough(self) -> bool:
        smoothness = self.lattice_prior.spectrum.smoothness
        return smoothness is not None and smoothness <= 1

    @property
    def n_waves(self) -> int:
        """Number of waves of the lattice."""
        return self.lattice.n_waves

    @property
    def left_out_share(self) -> float:
        """Share of the prior variance in waves beyond the lattice, taken for white noise."""
        own = self.lattice_prior
        return own.left_out_variance / own.hyperparameters.outputscale

    @property
    def remarks(self) -> tuple[str, ...]:
        found = []
        if self.posterior.relative_error:
            found.append(
                f"Standard deviations of f come from {self.posterior.draws.shape[1]} draws, with a "
                f"relative error of {self.posterior.relative_error:.0%}."
            )
            if self.sums.n_counted > EXACT_ROWS:
                found.append("So do the laws of rows that are left out, one by one.")
        if self.lattice_prior.left_out_variance > 0.5 * self.lattice_prior.hyperparameters.noise:
            found.append(
                f"Waves beyond the lattice hold {self.left_out_share:.1%} of the variance: the "
                "kernel is rough for this many rows, and LocalGPRegressor may do better."
            )
        return tuple(found)

    @cached_property
    def _evidence(self) -> tuple[float, float]:
        rng = np.random.default_rng([self.seed, 4])
        value, error = log_evidence(self.system, self.posterior.mean, PROBES_FOR_EVIDENCE, rng)
        return value - self.units.log_jacobian(self.sums.n_counted), error

    @property
    def log_evidence(self) -> float:
        """Log evidence of y; an estimate where the block does not hold all waves."""
        return self._evidence[0]

    @property
    def log_evidence_error(self) -> float:
        """Standard error of the log evidence, nats."""
        return self._evidence[1]

    def latent_law(self, points: Points, want: Want) -> tuple[FloatArray, FloatArray | None]:
        own, trend, kept = self._placed(points)
        weights = self._loadings * self.posterior.mean
        mean = self._faded(weights, own, trend, kept)
        if want == "mean":
            return mean, None
        variance = self._variance(own, trend, kept)
        if want == "variance":
            return mean, variance
        loaded = self._loaded_features(own, trend, kept)
        covariance = self.lattice_prior.noise * loaded.T @ self._solved(loaded)
        covariance = 0.5 * (covariance + covariance.T)
        covariance[np.diag_indices_from(covariance)] = variance
        return mean, covariance

    def _variance(self, own: FloatArray, trend: FloatArray, kept: FloatArray) -> FloatArray:
        prior, none = self.lattice_prior, np.zeros((len(own), 0))
        waves = self.posterior.variances(self.lattice, own, none)
        left_out = prior.left_out_variance
        whole = prior.hyperparameters.outputscale - left_out
        found = kept**2 * waves + (1 - kept**2) * whole + left_out
        if trend.shape[1]:
            beside = self.lattice.waves.forward(own, self.posterior.cross)
            found += 2 * kept * (trend * beside).sum(axis=1)
            found += np.einsum("ip,pq,iq->i", trend, self.posterior.trend_covariance, trend)
        return np.maximum(found, left_out)

    @property
    def _loadings(self) -> FloatArray:
        return self.lattice_prior.loadings[:, None]

    def _placed(self, points: Points) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Places (p, d) in units of the period, trend columns, and shares of waves that are kept.

        Beyond the box waves fade, since those of the rows come again one period further.
        """
        places = points[:, self.trend.places]
        reach = self.lattice_prior.hyperparameters.lengthscale
        reach = kernel_reach(self.lattice_prior.spectrum) * reach
        beyond = np.maximum(self.box.low - places, places - self.box.high) / reach
        far = np.clip((beyond.max(axis=1) - FADING) / (FADED - FADING), 0.0, 1.0)
        kept = np.square(np.cos(0.5 * np.pi * far))
        kept[far >= 1] = 0.0
        # Where nothing is kept any place serves; far ones would lose their digits.
        own = np.where(kept[:, None] > 0, places, self.box.center)
        return self.lattice.relative(own), self.trend.standardised(points), kept

    def _faded(
        self, weights: FloatArray, own: FloatArray, trend: FloatArray, kept: FloatArray
    ) -> FloatArray:
        """Values (p, c) at places of functions with weights (M + p, c)."""
        none = np.zeros((len(own), 0))
        waves = values_at(self.lattice, weights[: self.n_waves], own, none)
        return kept[:, None] * waves + trend @ weights[self.n_waves :]

    def _loaded_features(self, own: FloatArray, trend: FloatArray, kept: FloatArray) -> FloatArray:
        """Features times prior deviations (M + p, p) at places.

        Raises
        ------
        MemoryLimitError
            They do not fit into memory.
        """
        check_memory(
            3.0 * 8 * len(own) * len(self._loadings), "the joint law of all points",
            "ask for fewer points at once, or for draws",
        )  # fmt: skip
        waves = kept[:, None] * self.lattice.features(own)
        return self._loadings * np.hstack([waves, trend]).T

    def _solved(self, loaded: FloatArray) -> FloatArray:
        return self.system.solve(loaded, MEAN_TOLERANCE)

    def latent_samples(
        self, points: Points, n_samples: int, rng: np.random.Generator
    ) -> FloatArray:
        own, trend, kept = self._placed(points)
        drawn = self._drawn_weights(n_samples, rng)
        values = self._faded(drawn, own, trend, kept)
        lost = (1 - kept**2) * self.lattice_prior.hyperparameters.outputscale
        lost += kept**2 * self.lattice_prior.left_out_variance
        values += np.sqrt(lost)[:, None] * rng.standard_normal(values.shape)
        return values.reshape(len(points), self.units.n_outputs, n_samples)

    def draw_functions(self, n_functions: int, rng: np.random.Generator) -> DrawnFunctions:
        """Functions by draws of the weights, without the waves beyond the lattice."""
        weights = self._drawn_weights(n_functions, rng)

        def values(points: Points, weights: FloatArray) -> FloatArray:
            return self._faded(weights, *self._placed(points))

        return WeightFunctions(values, weights, self.units, n_functions)

    def _drawn_weights(self, n_samples: int, rng: np.random.Generator) -> FloatArray:
        """Draws (M + p, k n_samples) of the weights times prior deviations."""
        n_outputs, system = self.units.n_outputs, self.system
        normals = rng.standard_normal((system.n_weights, n_outputs * n_samples))
        deviations = system.deviations(normals, DRAW_TOLERANCE)
        mean = np.repeat(self.posterior.mean, n_samples, axis=1)
        return self._loadings * (mean + deviations)

    def block_law(self, centres: Points, sides: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Means (p, k) and variances (p, k) of averages of f over boxes, units of y.

        Each wave has the mean `prod_a sinc(h_a j_a e_a)` of itself over a box of sides e, so that
        averages cost what points cost.

        Parameters
        ----------
        centres
            Centres (p, D) of the boxes; other columns are constant in a box.
        sides
            Sides (d,) in the order of the places, units of the columns.
        """
        own, trend, kept = self._placed(centres)
        n, lattice = self.n_waves, self.lattice
        weights = self._loadings * self.posterior.mean
        shrunk = boxed(lattice.coefficients(weights[:n]), lattice, sides, lattice.halves)
        mean = kept[:, None] * lattice.waves.forward(own, shrunk) + trend @ weights[n:]
        averaged = averaged_over(self, sides)
        variance = averaged._variance(own, trend, kept)
        return self.units.mean(mean), self.units.spread(variance)

    def latent_prior(self, points: Points) -> FloatArray:
        return self.exact_prior.covariance(points, points)

    def inverse_covariance(self) -> InverseCovariance | None:
        """Inverse covariance of the observations: a transform, and a solve for each in a group.

        Where variances come from draws and rows are few, their errors would be as large as what a
        row that is left out leaves: there it is that of the exact process.
        """
        if not self.system.is_dense and len(self.data) <= EXACT_ROWS:
            try:
                return self.exact().inverse_covariance()
            except NumericalError:  # the exact covariance has no factor: draws are all there is
                pass
        return LatticeInverse(self)

    def left_out_densities(self, data: Data) -> FloatArray:
        """Log densities (m,), nats, of observations among those given, each given all others.

        Where variances are drawn and all observations are few, `data` are all of them.
        """
        law = self._holding(data).left_out(np.arange(len(data)))
        gaps = np.square(data.targets - law.mean) / law.variance
        return np.asarray(-0.5 * (gaps + np.log(2 * np.pi * law.variance)).sum(axis=1))

    def _holding(self, rows: Data | None) -> LatticeGP:
        """The same process that holds other rows, or none."""
        found = replace(self, rows=rows)
        found.__dict__["system"] = self.system
        return found

    def site_prior(self, points: Points) -> LatticeRows:
        own = self.lattice_prior
        lattice = _lattice_of(own.spectrum, own.hyperparameters, self.trend, points)
        return LatticeRows(replace(own, lattice=lattice), self.trend, points, self.seed)

    @property
    def exact_prior(self) -> DensePrior:
        """The prior by covariances: the kernel itself, and the trend's."""
        return dense_prior(self.lattice_prior, self.trend)

    def conditioned(self, data: Data, *, renormalize: bool = False) -> LatticeGP:
        units = Units.of(data.targets, self.normalize, data.counts) if renormalize else self.units
        own = self.lattice_prior
        n_draws = self.posterior.draws.shape[1] or N_DRAWS
        return LatticeGP.given(
            own.spectrum, own.hyperparameters, self.trend, data, units, self.normalize,
            seed=self.seed, n_draws=n_draws,
        )  # fmt: skip

    def updated(self, data: Data) -> LatticeGP:
        """Return the process given further data: one pass over these, then solves.

        Raises
        ------
        InvalidInputError
            The places lie too far beyond the box of the others, whose rows were not kept.
        """
        places = data.points[:, self.trend.places]
        box = self.box.joined(PlaceBox.of(places))
        both = None if self.rows is None else self.rows.followed_by(data)
        own = self.lattice_prior
        reach = kernel_reach(own.spectrum) * own.hyperparameters.lengthscale
        if (box.sides + reach > 1 / self.lattice.steps).any():
            if both is None:
                raise InvalidInputError(
                    "X: expected places near the box of the rows of the fit, which were not kept, "
                    f"from {self.box.low} to {self.box.high}, got some from {box.low} to "
                    f"{box.high}; fit again with all rows"
                )
            return self.conditioned(both, renormalize=self.normalize)
        sums = self.sums.merge(self.trend.sums(self.lattice, data, self.offset))
        units = units_of(sums, self.offset) if self.normalize else self.units
        n_draws = self.posterior.draws.shape[1] or N_DRAWS
        return LatticeGP.of(
            own, self.trend, box, units, self.normalize, self.offset, sums, self.seed, n_draws, both
        )

    def without_data(self) -> LatticeGP:
        """The process without its rows: their sums give means, variances, draws and updates."""
        return self._holding(None)

    def read_back(self) -> LatticeGP:
        """The process of a file.

        Raises
        ------
        ModelFileError
            Its parts are of different sizes.
        """
        prior, trend, lattice = self.lattice_prior, self.trend, self.lattice
        check_shapes(lattice, center=("d",), steps=("d",), halves=("d",))
        d = lattice.halves.size
        check_range(lattice, 1, MOST_HALF, "halves")
        check_range(lattice, SMALLEST_PRODUCT, LARGEST_PRODUCT, "steps")
        check_shapes(self.box, low=(d,), high=(d,), core=(d,))
        columns = check_shapes(trend, places=(d,), center=("D",), scale=("D",))["D"]
        check_range(trend, 0, columns - 1, "places")
        check_range(trend, SMALLEST_PRODUCT, LARGEST_PRODUCT, "scale")
        check_shapes(prior.hyperparameters, lengthscale=(d,))
        k, p, n = self.units.n_outputs, len(trend.columns), lattice.n_waves
        if not 1 <= d <= MOST_AXES or len(set(trend.places)) != d or prior.n_trend != p:
            raise ModelFileError(f"lattice: expected one to {MOST_AXES} places, got others")
        own, twice = half_shape(lattice.halves), half_shape(2 * lattice.halves)
        check_shapes(self, offset=(k,))
        check_shapes(self.sums, waves=twice, cross=(k + p, *own), products=(k + p, k + p))
        check_shapes(
            self.posterior, mean=(n + p, k), spread=twice, cross=(p, *own),
            trend_covariance=(p, p), draws=(n + p, "draws"),
        )  # fmt: skip
        if self.rows is not None:
            check_shapes(self.rows, points=("n", columns), targets=("n", k))
        return self


def _lattice_of(
    spectrum: Spectrum,
    hyperparameters: Hyperparameters,
    trend: TrendColumns,
    points: Points,
    weights: RowWeights | None = None,
) -> Lattice:
    """The lattice for rows at points, whose waves stand out of their noise."""
    signal = hyperparameters.outputscale / hyperparameters.noise
    counted, precision = float(len(points)), None
    if weights is not None:
        counted, precision = weights.n_counted, weights.precision
    box = PlaceBox.of(points[:, trend.places])
    return Lattice.for_kernel(
        spectrum, hyperparameters.lengthscale, signal, box, counted, precision
    )


def _system(
    prior: LatticePrior, units: Units, offset: FloatArray, sums: LatticeSums
) -> LatticeSystem:
    normalised = sums.shifted(units.offset - offset, 1 / units.scale)
    return prior.system(normalised, units.n_outputs)
