"""Prior of a table with parts of long and of short range: features, trend and local part."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from coupledgp.core.process import Points
from coupledgp.errors import ModelFileError
from coupledgp.ground.codec import check_range, check_shapes, stored
from coupledgp.ground.devices import CPU, moved
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.ground.validation import LARGEST_PRODUCT, SMALLEST_PRODUCT, check_choice
from coupledgp.linalg.distances import scaled_distances
from coupledgp.metrics import Metric
from coupledgp.random import FloatArray
from coupledgp.spectra import GaussianSpectrum, Spectrum
from coupledgp.tables.local_parameters import TRENDS, LocalScales, Structure
from coupledgp.tables.standardized import Box, TablePair, Tables, standardised

# Most neighbours of a row in a file: their covariance has as many columns.
MOST_NEIGHBOURS = 4096
LARGEST_LOGARITHM = math.log(LARGEST_PRODUCT)


@dataclass(frozen=True, eq=False)
class LocalHyperparameters:
    """Hyperparameters of all parts, variances in units of the normalised targets.

    Attributes
    ----------
    lengthscale : FloatArray (d,)
        Lengthscales of the local part, or of the features where there is no local part, in units of
        the inputs.
    outputscale : float
        Variance of the local part and of all features together.
    noise : float
        Variance of the noise.
    local_outputscale, feature_outputscale : float
        Variances of the local part and of the features.
    feature_lengthscale : FloatArray (d,)
        Lengthscales of the features, in units of the inputs; infinite without features.
    trend : float
        Prior variance of the coefficients of the trend, of standardised columns.
    """

    lengthscale: FloatArray
    outputscale: float
    noise: float
    local_outputscale: float
    feature_outputscale: float
    feature_lengthscale: FloatArray
    trend: float


@stored
@dataclass(frozen=True, eq=False)
class LocalPrior:
    """`f = sqrt(v_g) phi(x / l_g)'w + t(x)'c + f_l(x)`, `f_l ~ GP(0, v_l kappa(|x - x'| / l_l))`.

    Weights `w ~ N(0, I)` of Fourier features of the Gaussian kernel and coefficients
    `c ~ N(0, v_t I)` of the trend; x are standardised columns.

    Attributes
    ----------
    structure : Structure
        Which parts there are.
    vector : FloatArray
        Their hyperparameters, as the structure packs them.
    center, spread : FloatArray (d,)
        Mean and standard deviation of each column, by which inputs are standardised.
    device : torch.device
        Where rows are whitened and kriged; the results are on the CPU.
    """

    structure: Structure
    vector: FloatArray
    center: FloatArray
    spread: FloatArray
    device: torch.device = field(default=CPU, metadata={"stored": False})

    def read_back(self) -> LocalPrior:
        """The prior of a file.

        Raises
        ------
        ModelFileError
            Columns or hyperparameters are not those of its parts.
        """
        own, (dim,) = self.structure, check_shapes(self, center=("d",), spread=("d",)).values()
        check_range(self, SMALLEST_PRODUCT, LARGEST_PRODUCT, "spread")
        check_shapes(own, frequencies=("m", dim), groups=(dim,))
        check_range(own, int(own.spectrum is not None), MOST_NEIGHBOURS, "n_neighbours")
        check_range(own, dim, dim, "dim")
        check_choice(own.trend, TRENDS, "trend")
        if not dim or set(np.diff(own.groups)) - {0, 1} or own.groups[0] != 0:
            raise ModelFileError("groups: expected 0, 1, ... in rising order, got others")
        if own.frequencies is not None and not own.frequencies.size:
            raise ModelFileError("frequencies: expected at least one, got none")
        check_shapes(self, vector=(sum(math.prod(shape) for shape in own.shapes.values()),))
        for name, value in own.named(self.vector).items():
            if name != "frequencies" and float(value.abs().max()) > LARGEST_LOGARITHM:
                raise ModelFileError(f"vector: expected another {name}, got {value.tolist()}")
        return self

    @cached_property
    def scales(self) -> LocalScales:
        """Hyperparameters of all columns, as tensors."""
        return LocalScales.of(self.structure, self.structure.named(self.vector))

    @cached_property
    def device_scales(self) -> LocalScales:
        """Hyperparameters of all columns, as tensors on the prior's device."""
        return moved(self.scales, self.device)

    @cached_property
    def noise(self) -> float:
        """Noise variance, normalised."""
        return float(self.scales.log_noise.exp())

    @cached_property
    def local_outputscale(self) -> float:
        """Variance of the local part, zero without one."""
        return float(self.scales.log_outputscale.exp()) if self.structure.spectrum else 0.0

    @cached_property
    def feature_outputscale(self) -> float:
        """Variance of the features, zero without any."""
        has_features = self.structure.frequencies is not None
        return float(self.scales.feature_outputscale) if has_features else 0.0

    @cached_property
    def local_lengthscale(self) -> FloatArray:
        """Lengthscales (d,) of the local part, for standardised columns."""
        return np.asarray(self.scales.log_lengthscale.exp())

    @cached_property
    def feature_lengthscale(self) -> FloatArray:
        """Lengthscales (d,) of the features, for standardised columns; infinite without any."""
        found = self.scales.feature_lengthscale
        return np.full(self.structure.dim, np.inf) if found is None else np.asarray(found)

    @property
    def hyperparameters(self) -> LocalHyperparameters:
        """Hyperparameters in units of the inputs."""
        local = self.structure.spectrum is not None
        own = self.local_lengthscale if local else self.feature_lengthscale
        return LocalHyperparameters(
            own * self.spread,
            self.local_outputscale + self.feature_outputscale,
            self.noise,
            self.local_outputscale,
            self.feature_outputscale,
            self.feature_lengthscale * self.spread,
            0.0 if self.structure.trend == "none" else float(self.scales.trend),
        )

    @property
    def is_rough(self) -> bool:
        """Whether paths of the local part have no derivatives; see `smoothness` of a spectrum."""
        return is_rough(self.structure.spectrum)

    def with_frequencies(self, frequencies: FloatArray) -> LocalPrior:
        """The same prior with sampled frequencies (m, d) in place of its own."""
        structure = replace(self.structure, frequencies=frequencies, fits_frequencies=False)
        named = self.structure.named(self.vector)
        kept = {name: np.asarray(named[name]) for name in structure.shapes}
        return replace(self, structure=structure, vector=structure.pack(kept))

    def with_noise(self, noise: float) -> LocalPrior:
        """The prior with another noise variance, in normalised units."""
        return self.with_values(noise=np.array(noise))

    def with_values(self, **values: FloatArray) -> LocalPrior:
        """The prior with other variances by the names of the structure, in normalised units."""
        named = {k: np.asarray(v) for k, v in self.structure.named(self.vector).items()}
        named |= {name: np.log(value) for name, value in values.items()}
        return replace(self, vector=self.structure.pack(named))

    def standardised(self, points: Points) -> FloatArray:
        """Standardised inputs (p, d) of rows (p, d)."""
        return standardised(points, self.center, self.spread)

    @property
    def n_columns(self) -> int:
        """Number M of features and trend columns."""
        return int(self.features(np.zeros((1, self.structure.dim)), np.ones(1)).shape[1])

    def features(self, inputs: FloatArray, fading: FloatArray, box: Box | None = None) -> Tensor:
        """Features and trend (p, M) of standardised inputs, features times their factors (p,).

        The trend is bounded by the box.
        """
        found = self.scales.features(torch.as_tensor(inputs), self.structure.trend)
        if box is not None and self.structure.trend == "linear":
            bounded = torch.as_tensor(box.bounded(inputs))
            found[:, -self.structure.dim :] = self.scales.trend.sqrt() * bounded
        if self.structure.frequencies is not None:
            found[:, : 2 * len(self.structure.frequencies)] *= torch.as_tensor(fading)[:, None]
        return found

    def lost(self, inputs: FloatArray, fading: FloatArray) -> FloatArray:
        """Covariance (p, p) that faded features have lost, `v_g sqrt((1 - a^2)(1 - b^2)) k`."""
        lost = self.faded_root(fading)
        if not lost.any():
            return np.zeros((len(inputs), len(inputs)))
        return np.outer(lost, lost) * self.feature_kernel(inputs, inputs)

    def faded_root(self, fading: FloatArray) -> FloatArray:
        """`sqrt(v_g (1 - a^2))` (p,), the standard deviation that faded features have lost."""
        return np.sqrt(self.feature_outputscale * np.maximum(1.0 - np.square(fading), 0.0))

    def beyond(self, inputs: FloatArray, box: Box) -> FloatArray:
        """Columns (p, d) of the slopes that the trend has beyond the box; (p, 0) without slopes."""
        if self.structure.trend != "linear":
            return np.zeros((len(inputs), 0))
        return math.sqrt(float(self.scales.trend)) * (inputs - box.bounded(inputs))

    def feature_kernel(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Gaussian kernel (n, p) of unit variance that sampled features estimate."""
        scale = self.feature_lengthscale
        return GaussianSpectrum().kernel(scaled_distances(a / scale, b / scale, Metric.L2))

    def extent_of(self, inputs: FloatArray) -> float:
        """Largest coordinate of standardised inputs (n, d), in lengthscales of the local part."""
        if self.structure.spectrum is None or not len(inputs):
            return 0.0
        ends = np.maximum(inputs.max(axis=0), -inputs.min(axis=0))
        return float((ends / self.local_lengthscale).max())

    def local_covariance(self, pair: TablePair) -> FloatArray:
        """Covariance (n, p) of the local part between two tables."""
        spectrum = self.structure.spectrum
        if spectrum is None:
            return np.zeros((len(pair.a), len(pair.b)))
        distances = pair.scaled_distances(self.local_lengthscale, spectrum.metric)
        return self.local_outputscale * spectrum.kernel(distances)

    def covariance(self, a: Points, b: Points, tables: Tables | None = None) -> FloatArray:
        """Covariance (n, p) of f between rows (n, d) and (p, d) under the exact kernel.

        The kernel of features is the one that sampled frequencies estimate; fitted frequencies
        define their own. `tables` are shared by priors with the same standardisation.
        """
        pair = (tables or Tables(self.center, self.spread)).pair(a, b)
        inputs, others = pair.a, pair.b
        total = self.local_covariance(pair)
        if self.structure.fits_frequencies:
            inside = np.ones(len(inputs)), np.ones(len(others))
            features = self.features(inputs, inside[0]), self.features(others, inside[1])
            return total + (features[0] @ features[1].T).numpy()
        if self.structure.frequencies is not None:
            total += self.feature_outputscale * self.feature_kernel(inputs, others)
        if self.structure.trend != "none":
            total += float(self.scales.trend)
        if self.structure.trend == "linear":
            total += float(self.scales.trend) * pair.products
        return total

    def variance(self, points: Points, tables: Tables | None = None) -> FloatArray:
        """Prior variance (p,) of f at rows (p, d) under the exact kernel."""
        variance = np.full(len(points), self.local_outputscale + self.feature_outputscale)
        if self.structure.trend != "none":
            variance += float(self.scales.trend)
        if self.structure.trend == "linear":
            squares = (tables or Tables(self.center, self.spread)).squares(points)
            variance += float(self.scales.trend) * squares
        return variance


def is_rough(spectrum: Spectrum | None) -> bool:
    """Whether paths of a spectrum are known to have no derivatives: `nu <= 1`."""
    smoothness = None if spectrum is None else spectrum.smoothness
    return smoothness is not None and smoothness <= 1.0
