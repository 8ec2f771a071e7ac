"""Normal noise, heavy tails, and squares of normal deviates."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from scipy import special, stats

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

    def log_density(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return normal_log_density(y, f, self.variance)

    def slope(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return (y - f) / self.variance

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


def normal_log_density(y: FloatArray, mean: FloatArray, variance: FloatArray | float) -> FloatArray:
    """Log density (...) of normal laws of means and variances (...) at y (...)."""
    return np.asarray(-0.5 * (np.square(y - mean) / variance + np.log(2 * np.pi * variance)))


def gaussian_log_density(y: FloatArray, mean: FloatArray, variance: FloatArray) -> FloatArray:
    """Log density (b,) of targets (b, k), outputs independent, with means and variances (b, k)."""
    return np.asarray(normal_log_density(y, mean, variance).sum(axis=1))


# Least value whose logarithm stands for that of an observation of zero.
LEAST_VALUE = 1e-300


@dataclass(frozen=True)
class StudentT(Likelihood):
    """`y = f + scale * t`, t of Student's law with `dof` degrees of freedom.

    `log p(y | f) = log c - (dof + 1) / 2 log(1 + r^2 / dof)`, `r = (y - f) / scale`. It is not
    log-concave: observations further than `scale sqrt(dof)` from f have a negative curvature.

    Attributes
    ----------
    scale : float
        Scale of the noise, in units of f.
    dof : float
        Degrees of freedom, above two, so that observations have a variance.

    Examples
    --------
    >>> from coupledgp.likelihoods import Gaussian, StudentT
    >>> [round(float(law.slope(10.0, 0.0)), 3) for law in (Gaussian(1.0), StudentT(dof=4.0))]
    [10.0, 0.481]
    """

    scale: float = 1.0
    dof: float = 4.0

    bounds: ClassVar = {"scale": (0.0, math.inf), "dof": (2.0, 1e6)}
    is_log_concave: ClassVar[bool] = False

    def log_density(self, y: FloatArray, f: FloatArray) -> FloatArray:
        dof = self.dof
        constant = math.lgamma((dof + 1) / 2) - math.lgamma(dof / 2)
        constant -= 0.5 * math.log(math.pi * dof) + math.log(self.scale)
        residual = np.square((y - f) / self.scale) / dof
        return np.asarray(constant - (dof + 1) / 2 * np.log1p(residual))

    def slope(self, y: FloatArray, f: FloatArray) -> FloatArray:
        residual = (y - f) / self.scale
        return (self.dof + 1) * residual / (self.scale * (self.dof + np.square(residual)))

    def moments(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        variance = self.scale**2 * self.dof / (self.dof - 2)
        return f, np.full_like(f, variance)

    def cdf(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return np.asarray(stats.t.cdf(y, self.dof, f, self.scale))

    def center(self, y: FloatArray, exposure: FloatArray | None = None) -> FloatArray:
        """Medians (k,) of observations (n, k)."""
        return np.median(y, axis=0)

    def unit(self, y: FloatArray) -> FloatArray:
        """Standard deviations (k,) of observations (n, k); one where they are all the same."""
        spread = y.std(axis=0)
        return np.where(spread > np.finfo(float).eps * np.abs(y).max(axis=0), spread, 1.0)

    def rescaled(self, factor: float) -> Self:
        return replace(self, scale=factor * self.scale)

    def draw(self, f: FloatArray, rng: np.random.Generator) -> FloatArray:
        return f + self.scale * rng.standard_t(self.dof, np.shape(f))
