"""Squares of normal deviates, whose log variance is the function."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special

from coupledgp.errors import InvalidInputError
from coupledgp.ground.tensors import Tensor
from coupledgp.likelihoods.base import Likelihood, exponential, safe_exp
from coupledgp.random import FloatArray

# Least value whose logarithm stands for that of an observation of zero.
LEAST_VALUE = 1e-300


@dataclass(frozen=True)
class SquaredNormal(Likelihood):
    """`y = z^2`, `z ~ N(0, exp(f))`: f is the log variance of a normal z.

    `log p(y | f) = -f / 2 - y exp(-f) / 2 - 1/2 log(2 pi y)`, log-concave in f.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.likelihoods import SquaredNormal
    >>> mean, variance = SquaredNormal().moments(np.log([4.0]))
    >>> mean.round(6).tolist(), variance.round(6).tolist()  # exp(f) and 2 exp(f)^2
    ([4.0], [32.0])
    """

    takes_exposure: ClassVar[bool] = True

    def log_density(self, y: Tensor, f: Tensor) -> Tensor:
        constant = 0.5 * (2 * math.pi * y.clamp_min(LEAST_VALUE)).log()
        return -0.5 * (f + y * exponential(-f)) - constant

    def moments(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean = safe_exp(f)
        return mean, 2 * mean**2

    def cdf(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return np.asarray(special.gammainc(0.5, 0.5 * np.maximum(y, 0) * safe_exp(-f)))

    def draw(self, f: FloatArray, rng: np.random.Generator) -> FloatArray:
        return safe_exp(f) * rng.standard_gamma(0.5, np.shape(f)) / 0.5

    def check_targets(self, y: FloatArray) -> FloatArray:
        allowed = (y >= 0) & np.isfinite(y)
        if not allowed.all():
            raise InvalidInputError(f"y: expected numbers of at least 0, got {y[~allowed][0]:g}")
        return y
