"""Hyperparameters of features, trend and local part as one vector of logarithms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coupledgp.core.problem import Box, VectorObjective
from coupledgp.ground.codec import stored
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.random import FloatArray
from coupledgp.spectra import Spectrum

# Columns of a trend by its name: none, a constant, or a constant and each column of the inputs.
TRENDS = ("none", "constant", "linear")
# Means and standard deviations of the normal priors of logarithms, for standardised columns and
# targets. Lengthscales are about sqrt(d) for the local part, about twice that for the features.
# They are weak: their use is to hold what the data do not decide.
SCALE_PRIOR, LENGTHSCALE_PRIOR_WIDTH, NOISE_PRIOR = (0.0, 1.5), 1.5, (-3.0, 2.5)
# Where a search starts; most of the variance of a table of real life is of long range.
START = {
    "outputscale": 0.5, "feature_outputscale": 0.5, "trend": 1.0, "noise": 0.1,
}  # fmt: skip
# Least noise variance: equal rows have a covariance of this condition number.
LEAST_NOISE = 1e-10
# Bounds of the logarithms: lengthscales of 10^-4 to 10^4 standard deviations of a column.
WIDEST_LOGARITHM = 9.0


@stored
@dataclass(frozen=True, eq=False)
class Structure:
    """Parts of a model of a table: local part, features of frequencies, trend.

    Attributes
    ----------
    dim : int
        Number d of columns.
    spectrum : Spectrum or None
        Kernel of the local part; None for no local part.
    n_neighbours : int
        Number k of neighbours of each row.
    frequencies : FloatArray (m, d) or None
        Frequencies of the features at unit lengthscales; None for no features.
    fits_frequencies : bool
        Whether they are hyperparameters.
    trend : str
        One of `TRENDS`.
    groups : NDArray (d,)
        Number of the lengthscale of each column; columns with one number share it.
    known_noise : float or None
        Noise variance in units of the normalised targets, where it is known.
    """

    dim: int
    spectrum: Spectrum | None
    n_neighbours: int
    frequencies: FloatArray | None
    fits_frequencies: bool
    trend: str
    groups: NDArray[np.int64]
    known_noise: float | None = None

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each hyperparameter by name."""
        scales: tuple[int, ...] = (int(self.groups.max()) + 1,)
        shapes: dict[str, tuple[int, ...]] = {"noise": ()}
        if self.spectrum is not None:
            shapes |= {"lengthscale": scales, "outputscale": ()}
        if self.trend != "none":
            shapes |= {"trend": ()}
        if self.frequencies is not None:
            shapes |= {"feature_lengthscale": scales, "feature_outputscale": ()}
            if self.fits_frequencies:
                shapes |= {"frequencies": self.frequencies.shape}
        return shapes

    def start(self) -> FloatArray:
        """The vector (q,) from which a search starts."""
        values: dict[str, FloatArray] = {
            name: np.array(math.log(value)) for name, value in START.items()
        }
        if self.known_noise is not None:
            values["noise"] = np.array(math.log(self.known_noise))
        values |= {name: np.full(1, mean) for name, (mean, _) in self._lengthscale_priors.items()}
        if self.frequencies is not None:
            values["frequencies"] = self.frequencies
        return self.pack(values)

    def pack(self, values: dict[str, FloatArray]) -> FloatArray:
        """The vector (q,) of logarithms, and of frequencies, from values by name."""
        parts = [np.broadcast_to(values[name], shape) for name, shape in self.shapes.items()]
        return np.concatenate([part.ravel() for part in parts])

    def named(self, vector: FloatArray | Tensor) -> dict[str, Tensor]:
        """Parts of a vector by name, as tensors of their shapes."""
        whole, start, named = torch.as_tensor(vector), 0, {}
        for name, shape in self.shapes.items():
            size = math.prod(shape)
            named[name] = whole[start : start + size].reshape(shape)
            start += size
        return named

    def box(self) -> list[tuple[float, float]]:
        """Bounds of each entry of the vector."""
        bounds: list[tuple[float, float]] = []
        for name, shape in self.shapes.items():
            bounds += [self._range(name)] * math.prod(shape)
        return bounds

    def _range(self, name: str) -> tuple[float, float]:
        if name == "frequencies":
            return -math.inf, math.inf
        if name == "noise" and self.known_noise is not None:
            known = math.log(self.known_noise)
            return known, known
        least = math.log(LEAST_NOISE) if name == "noise" else -WIDEST_LOGARITHM
        return least, WIDEST_LOGARITHM

    @property
    def _lengthscale_priors(self) -> dict[str, tuple[float, float]]:
        root = 0.5 * math.log(int(self.groups.max()) + 1)
        return {
            "lengthscale": (root, LENGTHSCALE_PRIOR_WIDTH),
            "feature_lengthscale": (root + math.log(2.0), LENGTHSCALE_PRIOR_WIDTH),
        }

    @cached_property
    def priors(self) -> dict[str, tuple[float, float]]:
        """Mean and standard deviation of the normal prior of each hyperparameter.

        That of frequencies is the spectral density of a Gaussian kernel.
        """
        priors = dict.fromkeys(START, SCALE_PRIOR)
        return priors | self._lengthscale_priors | {
            "noise": NOISE_PRIOR, "frequencies": (0.0, 1.0),
        }  # fmt: skip

    def log_prior(self, named: dict[str, Tensor]) -> Tensor:
        """Log prior density () of hyperparameters, up to a constant."""
        total = torch.zeros((), dtype=torch.float64)
        for name, value in named.items():
            mean, width = self.priors[name]
            total = total - 0.5 * ((value - mean) / width).square().sum()
        return total


class LocalObjective(VectorObjective):
    """Minus the log posterior of a vector of hyperparameters per observation of a table.

    Attributes
    ----------
    structure : Structure
        The model.
    """

    structure: Structure

    def box(self, start: FloatArray) -> Box:
        return self.structure.box()


class LocalScales(NamedTuple):
    """Hyperparameters of all columns, as tensors.

    Attributes
    ----------
    log_lengthscale, log_outputscale, log_noise : Tensor (d,), () and ()
        Logarithms for the local part and the noise; without a local part the first two are zero.
    feature_lengthscale : Tensor (d,) or None
    feature_outputscale : Tensor ()
    trend : Tensor ()
        Prior variance of the coefficients of the trend.
    frequencies : Tensor (m, d) or None
    """

    log_lengthscale: Tensor
    log_outputscale: Tensor
    log_noise: Tensor
    feature_lengthscale: Tensor | None
    feature_outputscale: Tensor
    trend: Tensor
    frequencies: Tensor | None

    @classmethod
    def of(cls, structure: Structure, named: dict[str, Tensor]) -> LocalScales:
        """Scales of the hyperparameters by name, lengthscales spread over the columns."""
        zero = named["noise"].new_zeros(())
        groups = torch.as_tensor(structure.groups, device=zero.device)
        lengthscale = named.get("lengthscale", zero.expand(int(groups.max()) + 1))[groups]
        features = named.get("feature_lengthscale")
        own = structure.frequencies
        frequencies = named.get("frequencies")
        if frequencies is None and own is not None:
            frequencies = torch.as_tensor(own, device=zero.device)
        return cls(
            lengthscale,
            named.get("outputscale", zero),
            named["noise"],
            None if features is None else features.exp()[groups],
            named.get("feature_outputscale", zero).exp(),
            named.get("trend", zero).exp(),
            frequencies,
        )

    def features(self, inputs: Tensor, trend: str) -> Tensor:
        """Features and trend (u, M) of standardised inputs (u, d), of prior variance one each.

        `psi = [sqrt(v_g / m) sin(z), sqrt(v_g / m) cos(z), sqrt(v_t) (1, x)]`, `z = W (x / l_g)`.
        """
        parts = []
        if self.frequencies is not None and self.feature_lengthscale is not None:
            phase = (inputs / self.feature_lengthscale) @ self.frequencies.T
            amplitude = (self.feature_outputscale / len(self.frequencies)).sqrt()
            parts = [amplitude * phase.sin(), amplitude * phase.cos()]
        columns = trend_columns(inputs, trend)
        return torch.cat([*parts, self.trend.sqrt() * columns], dim=1)


def trend_columns(inputs: Tensor, trend: str) -> Tensor:
    """Columns (u, 0), (u, 1) or (u, 1 + d) of a trend, of standardised inputs (u, d)."""
    ones = inputs.new_ones(len(inputs), 0 if trend == "none" else 1)
    return torch.cat([ones, inputs], dim=1) if trend == "linear" else ones
