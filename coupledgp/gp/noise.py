"""The law of an observation given the function: the interface that other noises implement."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

from coupledgp.errors import InvalidInputError
from coupledgp.inference.spectra.mixture import gaussian_log_density
from coupledgp.random import FloatArray


class Noise(ABC):
    """The law of observations y given values f of the function, in normalised units.

    A process adds it to the law of f, draws from it and scores with it by these methods only. The
    posterior of f takes observations to have independent Gaussian noise of this variance.

    Attributes
    ----------
    variance : float
        Variance of an observation given the function, averaged over rows.
    """

    variance: float

    @abstractmethod
    def observed(self, spread: FloatArray) -> FloatArray:
        """Variances (p,) or covariance (p, p) of observations, from those of f."""

    @abstractmethod
    def draw(self, functions: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Observations of functions (p, k, n_samples), one draw of the noise for each value."""

    @abstractmethod
    def log_density(
        self, targets: FloatArray, mean: FloatArray, variance: FloatArray
    ) -> FloatArray:
        """Log density (p,) of targets (p, k) whose predictive moments are given, both (p, k)."""

    @abstractmethod
    def quantiles(
        self, mean: FloatArray, variance: FloatArray, probabilities: FloatArray
    ) -> FloatArray:
        """Quantiles (p, k, q) of laws with moments (p, k) at probabilities (q,)."""

    @abstractmethod
    def probabilities(
        self, values: FloatArray, mean: FloatArray, variance: FloatArray
    ) -> FloatArray:
        """Chances (p, k, q) that an observation lies below values (p, k, q), moments (p, k)."""


# Likelihood of a process: a function that returns the law of observations for a noise variance.
Likelihood = Callable[[float], Noise]


@dataclass(frozen=True)
class GaussianNoise(Noise):
    """Independent noise `e ~ N(0, variance)`, the same for every row and output."""

    variance: float

    def observed(self, spread: FloatArray) -> FloatArray:
        """See the base class."""
        if spread.ndim == 1:
            return spread + self.variance
        noisy = spread.copy()
        noisy[np.diag_indices_from(noisy)] += self.variance
        return noisy

    def draw(self, functions: FloatArray, rng: np.random.Generator) -> FloatArray:
        """See the base class."""
        return functions + np.sqrt(self.variance) * rng.standard_normal(functions.shape)

    def log_density(
        self, targets: FloatArray, mean: FloatArray, variance: FloatArray
    ) -> FloatArray:
        """See the base class."""
        return gaussian_log_density(targets, mean, variance)

    def quantiles(
        self, mean: FloatArray, variance: FloatArray, probabilities: FloatArray
    ) -> FloatArray:
        """See the base class."""
        return mean[..., None] + np.sqrt(variance)[..., None] * special.ndtri(probabilities)

    def probabilities(
        self, values: FloatArray, mean: FloatArray, variance: FloatArray
    ) -> FloatArray:
        """See the base class."""
        chances: FloatArray = special.ndtr(
            (values - mean[..., None]) / np.sqrt(variance)[..., None]
        )
        return chances


def check_stored(likelihood: Likelihood) -> None:
    """Refuse to write a process whose likelihood a file does not name."""
    if likelihood is not GaussianNoise:
        raise InvalidInputError(
            f"model: expected Gaussian noise, the only one that a file can name, got {likelihood!r}"
        )
