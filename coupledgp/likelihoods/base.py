"""The law of observations y given values f of the function, `p(y | f) = prod_i p(y_i | f_i)`.

A likelihood states four things given f: its log density, its moments, its distribution function and
how it is drawn from, and the slope of the log density. Everything else follows. Laws of
observations, when f has a normal law, are integrals over it,

    p(y) = int p(y | f) N(f; m, v) df ,     E y = E mu(f) ,     Var y = Var mu(f) + E sigma^2(f) ,

by the trapezoid rule, or in closed form where a class has one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from coupledgp.errors import InvalidInputError
from coupledgp.likelihoods import hermite
from coupledgp.random import FloatArray

# Values of a likelihood at nodes of the integrals that are in memory at once.
AT_ONCE = 2**22
# Halvings of an interval by which a quantile is found, and doublings until one holds it.
HALVINGS, DOUBLINGS = 100, 1000
# Half the width of the first interval, in standard deviations.
FIRST_REACH = 4.0
# Values beyond which an exponential goes on as a parabola, and beyond which it stays as it is.
MOST_EXPONENT, MOST_FINITE = 50.0, 300.0
# Greatest size of a prior mean that observations suggest, for example those of one class.
MOST_CENTER = 10.0
# Distance of logarithms of parameters from the ends of their intervals.
INSIDE = 1e-3


class Likelihood(ABC):
    """Law of an observation given the function at its point; rows and outputs are independent.

    All methods are elementwise: y and f are numbers or arrays of shapes that fit each other. Own
    parameters are fields of a dataclass that are positive numbers.

    Attributes
    ----------
    bounds : dict
        Lower and upper ends of own parameters by name; they lie between. Others are not checked.
    is_gaussian : bool
        Whether observations are f plus independent normal noise.
    is_discrete : bool
        Whether observations are whole numbers, and densities are probabilities.
    takes_exposure : bool
        Whether `f + log e` is the function of an observation of exposure e, as where `exp(f)` is a
        mean for exposure one.
    is_log_concave : bool
        Whether log densities are concave in f; if not, a search costs more, and its forecast knows.
    variance : float
        Variance of an observation given f, where it is one of noise that does not depend on f.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.likelihoods import Likelihood
    >>> class Waiting(Likelihood):  # times of an exponential law of mean exp(f)
    ...     def log_density(self, y, f):
    ...         return -f - y * np.exp(-f)
    ...     def slope(self, y, f):
    ...         return y * np.exp(-f) - 1
    ...     def moments(self, f):
    ...         return np.exp(f), np.exp(2 * f)
    ...     def cdf(self, y, f):
    ...         return -np.expm1(-y * np.exp(-f))
    ...     def draw(self, f, rng):
    ...         return rng.exponential(np.exp(f))
    >>> mean, variance = Waiting().marginal_moments(np.zeros((1, 1)), np.ones((1, 1)))
    >>> mean.round(3).tolist()  # exp(1 / 2)
    [[1.649]]
    """

    variance: float

    is_gaussian: ClassVar[bool] = False
    is_discrete: ClassVar[bool] = False
    takes_exposure: ClassVar[bool] = False
    is_log_concave: ClassVar[bool] = True
    bounds: ClassVar[dict[str, tuple[float, float]]] = {}

    def __post_init__(self) -> None:
        for name, (low, high) in self.bounds.items():
            value = getattr(self, name)
            if not low < value < high:
                raise InvalidInputError(
                    f"{name}: expected a number between {low:g} and {high:g} for a "
                    f"{type(self).__name__} law, got {value!r}"
                )

    @abstractmethod
    def log_density(self, y: FloatArray, f: FloatArray) -> FloatArray:
        """`log p(y | f)` (...), nats."""

    @abstractmethod
    def slope(self, y: FloatArray, f: FloatArray) -> FloatArray:
        """`d log p(y | f) / d f` (...)."""

    @abstractmethod
    def moments(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean `mu(f)` and variance `sigma^2(f)` of an observation."""

    @abstractmethod
    def cdf(self, y: FloatArray, f: FloatArray) -> FloatArray:
        """Chance (...) that an observation is at most y (...), given f (...)."""

    @abstractmethod
    def draw(self, f: FloatArray, rng: np.random.Generator) -> FloatArray:
        """One observation for each value (...) of f."""

    def check_targets(self, y: FloatArray) -> FloatArray:
        """Return targets (n, k) if all are possible observations; other targets are refused.

        Raises
        ------
        InvalidInputError
            A target is not possible; the message says what is expected.
        """
        return y

    @property
    def parameters(self) -> dict[str, float]:
        """Own parameters by name, positive numbers."""
        if not is_dataclass(self):
            return {}
        return {item.name: float(getattr(self, item.name)) for item in fields(self) if item.init}

    def with_parameters(self, values: Mapping[str, Any]) -> Self:
        """The law with other values of its `parameters`.

        Raises
        ------
        InvalidInputError
            The names are not those of the parameters, or a number is out of its bounds.
        """
        if values.keys() != self.parameters.keys():
            raise InvalidInputError(
                f"likelihood: expected parameters {list(self.parameters)}, got {list(values)}"
            )
        own: Any = self
        found: Self = replace(own, **values) if values else self
        return found

    def log_box(self, logarithms: FloatArray, reach: float) -> list[tuple[float, float]]:
        """Ends of logarithms of own parameters in a search, at most `reach` from those given."""
        bounds = [self.bounds.get(name, (0.0, np.inf)) for name in self.parameters]
        with np.errstate(divide="ignore"):
            ends = np.log(np.reshape(bounds, (-1, 2))) + np.array([INSIDE, -INSIDE])
        low = np.maximum(ends[:, 0], logarithms - reach).tolist()
        high = np.minimum(ends[:, 1], logarithms + reach).tolist()
        return list(zip(low, high, strict=True))

    def log_exposure(self, exposure: FloatArray) -> FloatArray:
        """Logarithms of exposures (n,), by which the function of an observation is higher.

        Raises
        ------
        InvalidInputError
            The law takes no exposure, or one of them is no positive number.
        """
        if not self.takes_exposure:
            raise InvalidInputError(
                f"exposure: expected none for a {type(self).__name__} law, whose mean is no "
                "multiple of exp(f)"
            )
        wrong = ~(np.isfinite(exposure) & (exposure > 0))
        if wrong.any():
            raise InvalidInputError(
                f"exposure: expected positive numbers, got {exposure[wrong][0]!r}"
            )
        return np.log(exposure)

    def center(self, y: FloatArray, exposure: FloatArray | None = None) -> FloatArray:
        """Values (k,) of f, one an output, under which observations (n, k) have most density.

        They are the prior means of f where nothing else is known. Observations have exposures (n,),
        ones if these are None.
        """
        shift = np.zeros(len(y)) if exposure is None else self.log_exposure(exposure)
        middle = float(np.sort(shift)[(len(y) - 1) // 2])
        found = [
            minimize_scalar(
                lambda f, own=own: -float(self.log_density(own, f + shift - middle).sum()),
                bracket=(-1.0, 1.0),
            ).x
            for own in y.T
        ]
        return np.clip(found, -MOST_CENTER, MOST_CENTER) - middle

    def unit(self, y: FloatArray) -> FloatArray:
        """Units (k,) of the functions of observations (n, k): ones, but for noise added to f."""
        return np.ones(y.shape[1])

    def rescaled(self, factor: float) -> Self:
        """The law of `factor y` given `factor f`.

        Raises
        ------
        InvalidInputError
            The factor is not one, and y is not f plus noise.
        """
        if factor != 1:
            raise InvalidInputError(
                f"factor: expected one for a {type(self).__name__} law, got {factor:g}"
            )
        return self

    def marginal_moments(
        self, mean: FloatArray, spread: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Mean (p, k) and variance (p, k) or covariance (p, p, k) of observations.

        The arguments are the moments of f, of the same shapes. The covariance is the covariance of
        `mu(f)`, by a Hermite expansion, plus the mean of `sigma^2(f)` on the diagonal.
        """
        joint = spread.ndim == 3
        variance = np.einsum("iik->ik", spread) if joint else spread
        std = np.sqrt(variance)
        found, own = np.empty_like(mean), np.empty_like(mean)
        covariance = np.empty_like(spread)
        for k in range(mean.shape[1]):
            expansion = hermite.bounded_coefficients(
                lambda f: self.moments(f)[0], mean[:, k], std[:, k]
            )
            noise = hermite.average(lambda f: self.moments(f)[1], mean[:, k], std[:, k])
            found[:, k], own[:, k] = expansion[:, 0], hermite.variance_of(expansion) + noise
            if joint:
                scale = np.where(std[:, k] > 0, std[:, k], 1.0)
                correlation = spread[:, :, k] / np.multiply.outer(scale, scale)
                covariance[:, :, k] = hermite.covariance_of(expansion, correlation)
        if not joint:
            return found, own
        places = np.arange(len(mean))
        covariance[places, places] = own
        return found, covariance

    def marginal_log_density(
        self, y: FloatArray, mean: FloatArray, variance: FloatArray
    ) -> FloatArray:
        """Log density (p, k) of observations y where f has means and variances (p, k)."""
        nodes, weights = hermite.fine_nodes()
        log_weights = np.log(weights)

        def integral(y: FloatArray, mean: FloatArray, std: FloatArray) -> FloatArray:
            f = mean[:, None] + std[:, None] * nodes
            return np.asarray(logsumexp(self.log_density(y[:, None], f) + log_weights, axis=1))

        return _in_blocks(integral, nodes.size, y, mean, np.sqrt(variance))

    def marginal_cdf(self, y: FloatArray, mean: FloatArray, variance: FloatArray) -> FloatArray:
        """Chances (p, k, q) of observations of at most y (p, k, q), f of moments (p, k)."""
        nodes, weights = hermite.fine_nodes()

        def integral(y: FloatArray, mean: FloatArray, std: FloatArray) -> FloatArray:
            f = mean[:, None] + std[:, None] * nodes
            return np.asarray(self.cdf(y[:, None], f) @ weights)

        std = np.sqrt(variance)
        return _in_blocks(integral, nodes.size, y, mean[..., None], std[..., None])

    def pit(
        self, y: FloatArray, mean: FloatArray, variance: FloatArray, rng: np.random.Generator
    ) -> FloatArray:
        """Probability integral transforms (p, k) of observations, uniform under a true law.

        `u = F(y)`, and for a discrete law `u = F(y - 1) + U (F(y) - F(y - 1))` with uniform U
        (Czado, Gneiting and Held 2009), where f has means and variances (p, k).
        """
        found = self.marginal_cdf(y[..., None], mean, variance)[..., 0]
        if not self.is_discrete:
            return found
        below = self.marginal_cdf(y[..., None] - 1, mean, variance)[..., 0]
        return np.asarray(below + rng.random(y.shape) * (found - below))

    def marginal_quantiles(
        self, probabilities: FloatArray, mean: FloatArray, variance: FloatArray
    ) -> FloatArray:
        """Quantiles (p, k, q) at probabilities (q,) in (0, 1), where f has moments (p, k).

        They invert the distribution function by bisection; of a discrete law they are the least
        whole numbers whose chance to be exceeded is small enough.
        """
        middle, spread = (m[..., None] for m in self.marginal_moments(mean, variance))
        reach = FIRST_REACH * np.where(np.isfinite(spread) & (spread > 0), np.sqrt(spread), 1.0)
        middle = np.where(np.isfinite(middle), middle, mean[..., None])
        low, high = (middle + sign * reach + 0 * probabilities for sign in (-1.0, 1.0))
        for _ in range(DOUBLINGS):
            above = self.marginal_cdf(low, mean, variance) >= probabilities
            below = self.marginal_cdf(high, mean, variance) < probabilities
            if not (above.any() or below.any()):
                break
            reach = 2 * reach
            low, high = np.where(above, low - reach, low), np.where(below, high + reach, high)
        if self.is_discrete:
            low, high = np.floor(low), np.ceil(high)
        for _ in range(HALVINGS):
            between = 0.5 * (low + high)
            if self.is_discrete:
                between = np.floor(between)
            too_low = self.marginal_cdf(between, mean, variance) < probabilities
            low, high = np.where(too_low, between, low), np.where(too_low, high, between)
            if self.is_discrete and (high - low <= 1).all():
                break
        return np.asarray(high if self.is_discrete else 0.5 * (low + high))


def exponential(f: FloatArray) -> tuple[FloatArray, FloatArray]:
    """`exp(f)` and its slope, from `MOST_EXPONENT` on those of the parabola that goes on there."""
    bounded = np.minimum(f, MOST_EXPONENT)
    over = f - bounded
    found = np.exp(bounded)
    return found * (1 + over + 0.5 * np.square(over)), found * (1 + over)


def safe_exp(f: FloatArray) -> FloatArray:
    """`exp(f)`, at most a number whose square is finite."""
    return np.exp(np.minimum(f, MOST_FINITE))


def _in_blocks(
    integral: Callable[[FloatArray, FloatArray, FloatArray], FloatArray],
    n_nodes: int,
    *values: FloatArray,
) -> FloatArray:
    """An elementwise function of arrays of one shape after broadcasting, some values at a time."""
    whole = np.broadcast_arrays(*values)
    flat = [np.ravel(part) for part in whole]
    step = max(1, AT_ONCE // n_nodes)
    found = [
        integral(*(part[start : start + step] for part in flat))
        for start in range(0, flat[0].size, step)
    ]
    return np.concatenate(found).reshape(whole[0].shape) if found else np.empty(whole[0].shape)
