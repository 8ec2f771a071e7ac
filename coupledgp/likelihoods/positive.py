"""Positive observations of mean `exp(f)`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from scipy import special

from coupledgp.errors import InvalidInputError
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.likelihoods.base import Likelihood, exponential, safe_exp
from coupledgp.random import FloatArray

# Least value whose logarithm stands for that of an observation of zero.
LEAST_VALUE = 1e-300


@dataclass(frozen=True)
class Gamma(Likelihood):
    """`y = exp(f) g`, g of a gamma law of mean one and variance `1 / shape`.

    `log p(y | f) = a log a - log Gamma(a) + (a - 1) log y - a (f + y exp(-f))`, `a = shape`. It is
    log-concave in f.

    Attributes
    ----------
    shape : float
        The shape a.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.likelihoods import Gamma
    >>> Gamma(shape=4.0).moments(np.array([0.0]))[1].tolist()  # the variance, 1 / shape
    [0.25]
    """

    shape: float = 1.0

    bounds: ClassVar = {"shape": (0.0, 1e8)}
    takes_exposure: ClassVar[bool] = True

    def log_density(self, y: Tensor, f: Tensor) -> Tensor:
        shape = torch.as_tensor(self.shape, dtype=f.dtype)
        own = shape * shape.log() - torch.lgamma(shape)
        return (
            own + (shape - 1) * y.clamp_min(LEAST_VALUE).log() - shape * (f + y * exponential(-f))
        )

    def moments(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean = safe_exp(f)
        return mean, mean**2 / self.shape

    def cdf(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return np.asarray(
            special.gammainc(self.shape, self.shape * np.maximum(y, 0) * safe_exp(-f))
        )

    def draw(self, f: FloatArray, rng: np.random.Generator) -> FloatArray:
        return safe_exp(f) * rng.standard_gamma(self.shape, np.shape(f)) / self.shape

    def check_targets(self, y: FloatArray) -> FloatArray:
        allowed = (y > 0) if self.shape >= 1 else (y >= 0)
        if not (allowed & np.isfinite(y)).all():
            bad = y[~(allowed & np.isfinite(y))][0]
            raise InvalidInputError(f"y: expected positive numbers, got {bad:g}")
        return y


@dataclass(frozen=True)
class SquaredNormal(Gamma):
    """`y = z^2`, `z ~ N(0, exp(f))`: f is the log variance of a normal z.

    `log p(y | f) = -f / 2 - y exp(-f) / 2 - 1/2 log(2 pi y)`, the gamma law of shape one half.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.likelihoods import SquaredNormal
    >>> mean, variance = SquaredNormal().moments(np.log([4.0]))
    >>> mean.round(6).tolist(), variance.round(6).tolist()  # exp(f) and 2 exp(f)^2
    ([4.0], [32.0])
    """

    shape: float = field(default=0.5, init=False)

    def log_density(self, y: Tensor, f: Tensor) -> Tensor:
        constant = 0.5 * (2 * math.pi * y.clamp_min(LEAST_VALUE)).log()
        return -0.5 * (f + y * exponential(-f)) - constant
