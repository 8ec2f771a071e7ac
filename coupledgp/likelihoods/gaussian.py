"""Independent normal noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special

from coupledgp.ground.tensors import Tensor, torch
from coupledgp.likelihoods.base import Likelihood
from coupledgp.random import FloatArray


@dataclass(frozen=True)
class Gaussian(Likelihood):
    """`y = f + e`, `e ~ N(0, variance)`; all laws of observations are in closed form.

    Attributes
    ----------
    variance : float
        Variance of the noise; an array (p, 1) for laws of p rows that have noise of their own.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.likelihoods import Gaussian
    >>> Gaussian(4.0).moments(np.array([1.0]))[1].tolist()
    [4.0]
    """

    variance: float = 1.0
    is_gaussian: ClassVar[bool] = True

    def log_density(self, y: Tensor, f: Tensor) -> Tensor:
        variance = torch.as_tensor(self.variance, dtype=f.dtype)
        return -0.5 * ((y - f).square() / variance + torch.log(2 * math.pi * variance))

    def moments(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        return f, np.broadcast_to(self.variance, f.shape)

    def cdf(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return np.asarray(special.ndtr((y - f) / np.sqrt(self.variance)))

    def draw(self, f: FloatArray, rng: np.random.Generator) -> FloatArray:
        """One normal observation for each value of f (p, k, n_samples)."""
        scale = np.sqrt(self.variance)
        return f + (scale[..., None] if np.ndim(scale) else scale) * rng.standard_normal(f.shape)

    def marginal_moments(
        self, mean: FloatArray, spread: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        if spread.ndim == 2:
            return mean, spread + self.variance
        noisy, places = spread.copy(), np.arange(len(spread))
        noisy[places, places] += self.variance
        return mean, noisy

    def marginal_log_density(
        self, y: FloatArray, mean: FloatArray, variance: FloatArray
    ) -> FloatArray:
        return normal_log_density(y, mean, variance + self.variance)

    def marginal_cdf(self, y: FloatArray, mean: FloatArray, variance: FloatArray) -> FloatArray:
        std = np.sqrt(variance + self.variance)[..., None]
        return np.asarray(special.ndtr((y - mean[..., None]) / std))

    def marginal_quantiles(
        self, probabilities: FloatArray, mean: FloatArray, variance: FloatArray
    ) -> FloatArray:
        std = np.sqrt(variance + self.variance)[..., None]
        return np.asarray(mean[..., None] + std * special.ndtri(probabilities))


def normal_log_density(y: FloatArray, mean: FloatArray, variance: FloatArray) -> FloatArray:
    """Log density (...) of normal laws of means and variances (...) at y (...)."""
    return np.asarray(-0.5 * (np.square(y - mean) / variance + np.log(2 * np.pi * variance)))


def gaussian_log_density(y: FloatArray, mean: FloatArray, variance: FloatArray) -> FloatArray:
    """Log density (b,) of targets (b, k), outputs independent, with means and variances (b, k)."""
    return np.asarray(normal_log_density(y, mean, variance).sum(axis=1))
