"""Kernels of time: covariances of lags that linear stochastic differential equations have.

A Gaussian process with such a kernel is the output of a Markov process of d states, so that filters
treat n times in O(n d) operations, exactly. Solin and Sarkka (2014), Explicit link between periodic
covariance functions and state space models; Hartikainen and Sarkka (2010).
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from coupledgp.errors import InvalidInputError
from coupledgp.expressions import Kernel, check_single
from coupledgp.ground.validation import check_positive, check_positive_int
from coupledgp.random import FloatArray
from coupledgp.registry import Registry

# Shortest lengthscale of a fit in steps of the axis, and longest one in spans of it.
SHORTEST, LONGEST = 0.2, 10.0
# Lengthscale in periods over which the shape of a cycle changes, unless another is given.
DECAY = 7.0
# Most harmonics of a cycle, each of two states.
MOST_HARMONICS = 100


class TimeKernel(Kernel):
    """A stationary kernel of variance one whose process is the output of a Markov process.

    The state x (d,) has the stationary covariance P; over a step D it becomes `A(D) x + q` with
    `q ~ N(0, Q(D))`, `Q = P - A P A'`; and f = h'x, so that `k(D) = h' A(D) P h` for D >= 0.
    Kernels are immutable; `with_theta` gives a new one. Two steps after each other are one step:
    `A(D) A(E) = A(D + E)`. Lags, steps and parameters have the unit of the time axis.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.kernels import parse_time_kernel
    >>> kernel = parse_time_kernel("periodic")
    >>> h, P, A = kernel.output, kernel.stationary, kernel.transition(0.3)
    >>> bool(np.isclose(h @ A @ P @ h, kernel.covariance(0.3)))
    True
    """

    domain = "times"

    @property
    @abstractmethod
    def theta(self) -> FloatArray:
        """Free parameters (n_parameters,), unconstrained (logarithms, as a rule)."""

    @abstractmethod
    def with_theta(self, theta: FloatArray) -> Self:
        """Return the kernel of the same class at other parameters, its other fields kept."""

    @abstractmethod
    def bounds(self, step: float, span: float) -> list[tuple[float, float]]:
        """Range of each free parameter in a fit on an axis of this step and length."""

    @abstractmethod
    def covariance(self, lags: ArrayLike) -> FloatArray:
        """`k(lag)` at lags of either sign, of the shape of `lags`."""

    @property
    @abstractmethod
    def output(self) -> FloatArray:
        """Output h (d,), by which the state gives the process."""

    @property
    @abstractmethod
    def stationary(self) -> FloatArray:
        """P (d, d), covariance of the state, with `h'P h = 1`."""

    @abstractmethod
    def transition(self, step: ArrayLike) -> FloatArray:
        """`A(step)` at steps > 0 of any shape, of the shape (..., d, d)."""

    def innovation(self, step: ArrayLike) -> FloatArray:
        """`Q(step) = P - A P A'` at steps of any shape, of the shape (..., d, d).

        A class that states it without the difference keeps the digits of short steps.
        """
        transition = self.transition(step)
        found = self.stationary - transition @ self.stationary @ np.swapaxes(transition, -1, -2)
        return 0.5 * (found + np.swapaxes(found, -1, -2))

    def parameters(self) -> dict[str, Any]:
        """Arguments of the constructor that make this kernel again: attributes of equal names."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}


@dataclass(frozen=True)
class _WithLengthscale(TimeKernel):
    """A kernel with a lengthscale alone."""

    lengthscale: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "lengthscale", check_positive(self.lengthscale, "lengthscale"))

    @property
    def theta(self) -> FloatArray:
        return np.array([np.log(self.lengthscale)])

    def with_theta(self, theta: FloatArray) -> Self:
        return replace(self, lengthscale=float(np.exp(theta[0])))

    def bounds(self, step: float, span: float) -> list[tuple[float, float]]:
        return [(np.log(SHORTEST * step), np.log(LONGEST * max(span, step)))]

    def _scaled(self, lags: ArrayLike) -> FloatArray:
        """`|lag| / l` at lags of any shape."""
        return np.abs(np.asarray(lags, dtype=np.float64)) / self.lengthscale


@dataclass(frozen=True)
class Matern12(_WithLengthscale):
    """Exponential (Ornstein-Uhlenbeck) kernel `k(D) = exp(-|D| / l)`; d = 1.

    Parameters
    ----------
    lengthscale
        l > 0. Free parameter: log l.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.kernels import Matern12
    >>> kernel = Matern12(lengthscale=2.0)
    >>> kernel.covariance([0.0, 2.0, -4.0]).round(3).tolist()
    [1.0, 0.368, 0.135]
    """

    def covariance(self, lags: ArrayLike) -> FloatArray:
        return np.exp(-self._scaled(lags))

    @property
    def output(self) -> FloatArray:
        return np.ones(1)

    @property
    def stationary(self) -> FloatArray:
        return np.ones((1, 1))

    def transition(self, step: ArrayLike) -> FloatArray:
        return np.exp(-self._scaled(step))[..., None, None]

    def innovation(self, step: ArrayLike) -> FloatArray:
        return -np.expm1(-2.0 * self._scaled(step))[..., None, None]


@dataclass(frozen=True)
class Matern32(_WithLengthscale):
    """Matern kernel of smoothness 3/2, `k(D) = (1 + x) exp(-x)`, `x = sqrt(3) |D| / l`; d = 2.

    The states are f and `f' l / sqrt(3)`, both of variance one. Q is stated by the incomplete gamma
    function, `Q_00 = 1 - e^(-2x) (1 + 2x + 2x^2)`, which keeps its digits when it is of size x^3.

    Parameters
    ----------
    lengthscale
        l > 0. Free parameter: log l.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.kernels import Matern32
    >>> kernel = Matern32(lengthscale=2.0)
    >>> bool(np.allclose(kernel.transition(1.0) @ kernel.transition(2.0), kernel.transition(3.0)))
    True
    """

    def covariance(self, lags: ArrayLike) -> FloatArray:
        x = np.sqrt(3.0) * self._scaled(lags)
        return np.asarray((1.0 + x) * np.exp(-x))

    @property
    def output(self) -> FloatArray:
        return np.array([1.0, 0.0])

    @property
    def stationary(self) -> FloatArray:
        return np.eye(2)

    def transition(self, step: ArrayLike) -> FloatArray:
        x = np.sqrt(3.0) * self._scaled(step)
        return np.exp(-x)[..., None, None] * _square(1.0 + x, x, -x, 1.0 - x)

    def innovation(self, step: ArrayLike) -> FloatArray:
        x = np.sqrt(3.0) * self._scaled(step)
        decayed = np.exp(-2.0 * x)
        first, cross = special.gammainc(3.0, 2.0 * x), 2.0 * x**2 * decayed
        return _square(first, cross, cross, first + 4.0 * x * decayed)


@dataclass(frozen=True)
class _WithoutParameters(TimeKernel):
    """A kernel of one state without free parameters."""

    @property
    def theta(self) -> FloatArray:
        return np.empty(0)

    def with_theta(self, theta: FloatArray) -> Self:
        return self

    def bounds(self, step: float, span: float) -> list[tuple[float, float]]:
        return []

    @property
    def output(self) -> FloatArray:
        return np.ones(1)

    @property
    def stationary(self) -> FloatArray:
        return np.ones((1, 1))


@dataclass(frozen=True)
class Constant(_WithoutParameters):
    """One value for all times, `k(D) = 1`; d = 1, without free parameters.

    Examples
    --------
    >>> from coupledgp.kernels import Constant
    >>> Constant().covariance([0.0, 1.0, 100.0]).tolist()
    [1.0, 1.0, 1.0]
    >>> float(Constant().innovation(100.0)[0, 0])  # nothing new happens
    0.0
    """

    def covariance(self, lags: ArrayLike) -> FloatArray:
        return np.ones(np.shape(lags))

    def transition(self, step: ArrayLike) -> FloatArray:
        return np.ones((*np.shape(step), 1, 1))


@dataclass(frozen=True)
class White(_WithoutParameters):
    """Independent values at different times, `k(D) = 1` at D = 0 and else 0; d = 1.

    Examples
    --------
    >>> from coupledgp.kernels import White
    >>> White().covariance([0.0, 1.0, 100.0]).tolist()
    [1.0, 0.0, 0.0]
    >>> float(White().innovation(1.0)[0, 0])  # each value is all new
    1.0
    """

    def covariance(self, lags: ArrayLike) -> FloatArray:
        return (np.asarray(lags) == 0.0).astype(np.float64)

    def transition(self, step: ArrayLike) -> FloatArray:
        return np.zeros((*np.shape(step), 1, 1))


@dataclass(frozen=True)
class Periodic(TimeKernel):
    """Cycle whose shape changes slowly, `k(D) = exp(-|D|/c) sum_j q_j cos(2 pi j D / period)`.

    J harmonics j = 1..J have the shares `q_j ~ exp(-b j)` of the variance, `sum_j q_j = 1`; d = 2J.

    Parameters
    ----------
    period
        Length of the cycle, not fitted.
    n_harmonics
        J, up to 100, not fitted.
    decay
        Lengthscale c > 0 over which the shape changes; None: seven periods. Free parameter: log c.
    smoothness
        b > 0. Free parameter: log b.

    Examples
    --------
    >>> from coupledgp.kernels import Periodic
    >>> week = Periodic(period=7.0, decay=70.0)
    >>> week.covariance([7.0, 14.0]).round(3).tolist()  # exp(-0.1) and exp(-0.2)
    [0.905, 0.819]
    >>> week.shares.round(3).tolist()
    [0.731, 0.269]
    """

    period: float = 1.0
    n_harmonics: int = 2
    decay: float | None = None
    smoothness: float = 1.0

    def __post_init__(self) -> None:
        period = check_positive(self.period, "period")
        decay = DECAY * period if self.decay is None else check_positive(self.decay, "decay")
        object.__setattr__(self, "period", period)
        object.__setattr__(self, "decay", decay)
        count = check_positive_int(self.n_harmonics, "n_harmonics")
        if count > MOST_HARMONICS:
            raise InvalidInputError(
                f"n_harmonics: expected at most {MOST_HARMONICS}, each of two states, got {count}"
            )
        object.__setattr__(self, "n_harmonics", count)
        object.__setattr__(self, "smoothness", check_positive(self.smoothness, "smoothness"))

    @property
    def theta(self) -> FloatArray:
        return np.log([self._decay, self.smoothness])

    def with_theta(self, theta: FloatArray) -> Self:
        decay, smoothness = np.exp(theta).tolist()
        return replace(self, decay=decay, smoothness=smoothness)

    def bounds(self, step: float, span: float) -> list[tuple[float, float]]:
        longest = LONGEST * max(span, DECAY * self.period)
        return [(np.log(self.period), np.log(longest)), (np.log(0.05), np.log(5.0))]

    def covariance(self, lags: ArrayLike) -> FloatArray:
        lags = np.asarray(lags, dtype=np.float64)
        waves = np.cos(self._angles(lags)) @ self.shares
        return np.asarray(np.exp(-np.abs(lags) / self._decay) * waves)

    @property
    def shares(self) -> FloatArray:
        """Shares `q_j` (J,) of the harmonics in the variance."""
        return np.asarray(special.softmax(-self.smoothness * np.arange(self.n_harmonics)))

    @property
    def output(self) -> FloatArray:
        return np.tile([1.0, 0.0], self.n_harmonics)

    @property
    def stationary(self) -> FloatArray:
        return np.diag(np.repeat(self.shares, 2))

    def transition(self, step: ArrayLike) -> FloatArray:
        step = np.asarray(step, dtype=np.float64)
        angles = self._angles(step)
        cos, sin = np.cos(angles), np.sin(angles)
        blocks = np.zeros((*step.shape, 2 * self.n_harmonics, 2 * self.n_harmonics))
        for j in range(self.n_harmonics):
            a, b = cos[..., j], sin[..., j]
            blocks[..., 2 * j : 2 * j + 2, 2 * j : 2 * j + 2] = _square(a, -b, b, a)
        return blocks * np.exp(-step / self._decay)[..., None, None]

    def innovation(self, step: ArrayLike) -> FloatArray:
        lost = -np.expm1(-2.0 * np.asarray(step, dtype=np.float64) / self._decay)
        return lost[..., None, None] * self.stationary

    @property
    def _decay(self) -> float:
        assert self.decay is not None  # set when the kernel was made
        return self.decay

    def _angles(self, lags: FloatArray) -> FloatArray:
        """Angles (..., J) of the harmonics, from each lag's remainder after whole periods."""
        turns = np.fmod(lags, self.period) / self.period
        return 2.0 * np.pi * turns[..., None] * np.arange(1, self.n_harmonics + 1)


TIME_KERNELS: Registry[TimeKernel] = Registry(
    TimeKernel,
    "coupledgp.time_kernels",
    {
        "matern-1/2": Matern12(),
        "matern-3/2": Matern32(),
        "constant": Constant(),
        "white": White(),
        "periodic": Periodic(),
    },
)
TimeKernelLike: TypeAlias = str | TimeKernel


def parse_time_kernel(kernel: TimeKernelLike, name: str = "time_kernel") -> TimeKernel:
    """Return the kernel of time a text names, at default parameters, or the object itself.

    Parameters
    ----------
    kernel
        `"matern-1/2"`, `"matern-3/2"`, `"constant"`, `"white"`, `"periodic"`, a name that
        `register_time_kernel` or an installed package added, or an object.
    name
        Name of the argument in error messages.

    Raises
    ------
    InvalidInputError
        The text names no kernel of time; the choices are listed.

    Examples
    --------
    >>> from coupledgp.kernels import parse_time_kernel
    >>> parse_time_kernel("matern-1/2").covariance([0.0, 1.0]).round(3).tolist()
    [1.0, 0.368]
    """
    check_single(kernel, name, "one kernel of time")
    return TIME_KERNELS.parse(kernel, name)


def available_time_kernels() -> list[str]:
    """Names of every kernel of time now registered.

    Examples
    --------
    >>> from coupledgp.kernels import available_time_kernels
    >>> available_time_kernels()
    ['matern-1/2', 'matern-3/2', 'constant', 'white', 'periodic']
    """
    return TIME_KERNELS.available()


def register_time_kernel(
    name: str, make: TimeKernel | Callable[[], TimeKernel], *, replace: bool = False
) -> None:
    """Make a kernel of time known under `name`; see `Registry.register`.

    Examples
    --------
    >>> from coupledgp.kernels import Periodic, parse_time_kernel, register_time_kernel
    >>> register_time_kernel("weekly", Periodic(period=7.0, n_harmonics=3))
    >>> parse_time_kernel("weekly").period
    7.0
    """
    TIME_KERNELS.register(name, make, replace=replace)


def time_kernel_state(kernel: TimeKernel) -> dict[str, Any]:
    """Return the kernel as plain values, from which `time_kernel_from` makes an equal one.

    They are the name of its class, under `"class"`, and its parameters.

    Raises
    ------
    InvalidInputError
        No kernel of its class is registered, so that the class could not be found again.
    """
    name = type(kernel).__name__
    if _classes().get(name) is not type(kernel):
        raise InvalidInputError(
            f"time_kernel: expected one of {', '.join(_classes())}, whose names a file can hold, "
            f"got {kernel!r}; make the class known by register_time_kernel"
        )
    return {"class": name} | kernel.parameters()


def time_kernel_from(state: Mapping[str, Any]) -> TimeKernel:
    """Return the kernel of `time_kernel_state`.

    Raises
    ------
    InvalidInputError
        No kernel of that class is registered, or it has no such parameter.
    """
    parameters = dict(state)
    name = parameters.pop("class", None)
    kind = _classes().get(name)
    if kind is None:
        raise InvalidInputError(
            f"time_kernel: expected one of {', '.join(_classes())}, got {name!r}; import what "
            "registers it, or install its package"
        )
    known = inspect.signature(kind).parameters
    if not parameters.keys() <= known.keys():
        raise InvalidInputError(
            f"time_kernel: expected {', '.join(known) or 'no parameters'} of a {name}, got "
            f"{', '.join(parameters)}"
        )
    return kind(**parameters)


def _classes() -> dict[str, type[TimeKernel]]:
    """Classes of the kernels now registered, by name; of two of one name the first."""
    kinds = [type(TIME_KERNELS[name]) for name in TIME_KERNELS.available()]
    return {kind.__name__: kind for kind in reversed(kinds)}


def _square(a: FloatArray, b: FloatArray, c: FloatArray, d: FloatArray) -> FloatArray:
    """Matrices `[[a, b], [c, d]]` (..., 2, 2) of entries (...)."""
    return np.stack([np.stack([a, b], axis=-1), np.stack([c, d], axis=-1)], axis=-2)
