"""Likelihoods of two classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special

from coupledgp.errors import InvalidInputError
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.likelihoods.base import Likelihood
from coupledgp.random import FloatArray


@dataclass(frozen=True)
class Bernoulli(Likelihood):
    """`P(y = 1) = sigmoid(f) = 1 / (1 + exp(-f))`, y zero or one; f is the logit.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.likelihoods import Bernoulli
    >>> Bernoulli().moments(np.array([0.0]))[0].tolist()  # the chance of class one
    [0.5]
    """

    is_discrete: ClassVar[bool] = True

    def log_density(self, y: Tensor, f: Tensor) -> Tensor:
        """`log p(y | f)`: `-log(1 + exp(-f))` for y = 1, `-log(1 + exp(f))` for y = 0."""
        return -torch.logaddexp(torch.zeros_like(f), (1 - 2 * y) * f)

    def moments(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        chance = np.asarray(special.expit(f))
        return chance, chance * special.expit(-f)

    def cdf(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return np.where(y < 0, 0.0, np.where(y < 1, special.expit(-f), 1.0))

    def draw(self, f: FloatArray, rng: np.random.Generator) -> FloatArray:
        return (rng.random(f.shape) < special.expit(f)).astype(np.float64)

    def check_targets(self, y: FloatArray) -> FloatArray:
        if not np.isin(y, (0.0, 1.0)).all():
            bad = y[~np.isin(y, (0.0, 1.0))][0]
            raise InvalidInputError(f"y: expected classes 0 and 1, got {bad:g}")
        return y


@dataclass(frozen=True)
class Probit(Bernoulli):
    """`P(y = 1) = Phi(f)`, y zero or one, with the normal distribution function `Phi`.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.likelihoods import Probit
    >>> Probit().moments(np.array([0.0]))[0].tolist()
    [0.5]
    """

    def log_density(self, y: Tensor, f: Tensor) -> Tensor:
        """`log Phi(f)` for y = 1, `log Phi(-f)` for y = 0."""
        return torch.special.log_ndtr((2 * y - 1) * f)

    def moments(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        chance = np.asarray(special.ndtr(f))
        return chance, chance * special.ndtr(-f)

    def cdf(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return np.where(y < 0, 0.0, np.where(y < 1, special.ndtr(-f), 1.0))

    def draw(self, f: FloatArray, rng: np.random.Generator) -> FloatArray:
        return (rng.random(f.shape) < special.ndtr(f)).astype(np.float64)


def class_log_chances(zero: FloatArray, one: FloatArray, power: float = 1.0) -> FloatArray:
    """Log chances (..., K) of classes, from those (..., k) of zero and one of k indicators.

    Two classes have one indicator, of the second one, and chances `P(y = 0)` and `P(y = 1)`. K > 2
    classes have one each, of the class against all others, and chances `P(y_k = 1)`. They are
    raised to a power and normalised.
    """
    parts = np.concatenate([zero, one], axis=-1) if one.shape[-1] == 1 else one
    if power == 1.0 and one.shape[-1] == 1:
        return parts
    raised = power * parts
    return np.asarray(raised - special.logsumexp(raised, axis=-1, keepdims=True))
