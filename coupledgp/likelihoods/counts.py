"""Likelihoods of counts of mean `exp(f)`, and of two classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special

from coupledgp.errors import InvalidInputError
from coupledgp.likelihoods.base import Likelihood, exponential, safe_exp
from coupledgp.random import FloatArray

# Greatest mean of counts that are drawn.
MOST_DRAWN = 1e15


def check_counts(y: FloatArray) -> FloatArray:
    """Return targets that are whole numbers, zero or above; refuse others."""
    whole = np.isfinite(y) & (y >= 0) & (y == np.floor(y))
    if not whole.all():
        raise InvalidInputError(
            f"y: expected counts (whole numbers from zero on), got {y[~whole][0]:g}"
        )
    return y


@dataclass(frozen=True)
class Poisson(Likelihood):
    """Counts of mean and variance `exp(f)`: `log p(y | f) = y f - exp(f) - log y!`.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.likelihoods import Poisson
    >>> Poisson().moments(np.array([0.0]))  # mean and variance where the log rate is zero
    (array([1.]), array([1.]))
    """

    is_discrete: ClassVar[bool] = True
    takes_exposure: ClassVar[bool] = True

    def log_density(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return y * f - exponential(f)[0] - special.gammaln(y + 1)

    def slope(self, y: FloatArray, f: FloatArray) -> FloatArray:
        return y - exponential(f)[1]

    def moments(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean = safe_exp(f)
        return mean, mean

    def cdf(self, y: FloatArray, f: FloatArray) -> FloatArray:
        below = special.gammaincc(np.floor(np.maximum(y, 0)) + 1, safe_exp(f))
        return np.where(y < 0, 0.0, below)

    def draw(self, f: FloatArray, rng: np.random.Generator) -> FloatArray:
        return rng.poisson(np.minimum(safe_exp(f), MOST_DRAWN)).astype(np.float64)

    def check_targets(self, y: FloatArray) -> FloatArray:
        return check_counts(y)


@dataclass(frozen=True)
class NegativeBinomial(Likelihood):
    """Counts of mean `mu = exp(f)` and variance `mu + dispersion mu^2`.

    With `r = 1 / dispersion` and `a = f - log r`,

        log p(y | f) = log Gamma(y + r) - log Gamma(r) - log y! + y a - (y + r) log(1 + exp(a)) ,

    log-concave in f. Counts are Poisson given a gamma variable of mean `mu`, shape r.

    Attributes
    ----------
    dispersion : float
        `1 / r`; the law goes to Poisson's as it goes to zero.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.likelihoods import NegativeBinomial
    >>> NegativeBinomial(dispersion=0.5).moments(np.array([0.0]))[1].tolist()
    [1.5]
    """

    dispersion: float = 1.0

    bounds: ClassVar = {"dispersion": (1e-6, 1e6)}
    is_discrete: ClassVar[bool] = True
    takes_exposure: ClassVar[bool] = True

    def log_density(self, y: FloatArray, f: FloatArray) -> FloatArray:
        size = 1 / self.dispersion
        a = f - np.log(size)
        ways = special.gammaln(y + size) - special.gammaln(size) - special.gammaln(y + 1)
        return np.asarray(ways + y * a - (y + size) * np.logaddexp(0.0, a))

    def slope(self, y: FloatArray, f: FloatArray) -> FloatArray:
        size = 1 / self.dispersion
        return np.asarray(y - (y + size) * special.expit(f - np.log(size)))

    def moments(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean = safe_exp(f)
        return mean, mean + self.dispersion * mean**2

    def cdf(self, y: FloatArray, f: FloatArray) -> FloatArray:
        size = 1 / self.dispersion
        chance = special.expit(np.log(size) - f)
        below = special.betainc(size, np.floor(np.maximum(y, 0)) + 1, chance)
        return np.where(y < 0, 0.0, below)

    def draw(self, f: FloatArray, rng: np.random.Generator) -> FloatArray:
        mean = safe_exp(f) * self.dispersion * rng.standard_gamma(1 / self.dispersion, np.shape(f))
        return rng.poisson(np.minimum(mean, MOST_DRAWN)).astype(np.float64)

    def check_targets(self, y: FloatArray) -> FloatArray:
        return check_counts(y)


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

    def log_density(self, y: FloatArray, f: FloatArray) -> FloatArray:
        """`log p(y | f)`: `-log(1 + exp(-f))` for y = 1, `-log(1 + exp(f))` for y = 0."""
        return np.asarray(-np.logaddexp(0.0, (1 - 2 * y) * f))

    def slope(self, y: FloatArray, f: FloatArray) -> FloatArray:
        sign = 2 * y - 1
        return np.asarray(sign * special.expit(-sign * f))

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

    def log_density(self, y: FloatArray, f: FloatArray) -> FloatArray:
        """`log Phi(f)` for y = 1, `log Phi(-f)` for y = 0."""
        return np.asarray(special.log_ndtr((2 * y - 1) * f))

    def slope(self, y: FloatArray, f: FloatArray) -> FloatArray:
        sign = 2 * y - 1
        normal = -0.5 * np.square(f) - 0.5 * np.log(2 * np.pi)
        return np.asarray(sign * np.exp(normal - special.log_ndtr(sign * f)))

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
