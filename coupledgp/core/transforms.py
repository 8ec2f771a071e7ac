"""Increasing transforms of targets: `z = g(y)`, and a Gaussian process models z.

With g the law of y is that of `g^-1(z)`: its density has the factor `g'(y)`, its quantiles are
those of z mapped back, and it stays in the range of `g^-1`, so that positive targets get positive
intervals.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy import special

from coupledgp.core.units import safe_scale
from coupledgp.errors import InvalidInputError
from coupledgp.ground.codec import stored_as
from coupledgp.ground.validation import wrong
from coupledgp.random import FloatArray
from coupledgp.registry import Registry

EVERYTHING = (-np.inf, np.inf)
# What Anscombe (1948) adds to counts.
ANSCOMBE = 0.375


@dataclass(frozen=True)
class TargetTransform(ABC):
    """An increasing map g of targets y to values z, the same for all observations of an output.

    A dataclass whose fields are numbers, or None where a fit decides. Text forms, as in files, are
    the registered name and the fields: `"box-cox(power=0.5)"`.

    Attributes
    ----------
    name : str
        Name under which the class is registered.
    shape_bounds : (float, float) or None
        Least and greatest value of the shape that a fit decides, for classes that have one.
    """

    name: ClassVar[str]
    shape_bounds: ClassVar[tuple[float, float] | None] = None

    @property
    def is_free(self) -> bool:
        """Whether a fit still has to decide the shape."""
        return False

    def with_shape(self, shape: float) -> Self:
        """The transform of this shape; itself if there is nothing to decide."""
        return self

    def adapted(self, targets: FloatArray, counts: FloatArray | None) -> Self:
        """The transform with location and scale of targets (n,), rows counted `counts` times."""
        return self

    @property
    def domain(self) -> tuple[float, float]:
        """Open interval of the targets."""
        return EVERYTHING

    @property
    def image(self) -> tuple[float, float]:
        """Interval of the values z; a value outside is taken for the end next to it."""
        return EVERYTHING

    @abstractmethod
    def forward(self, targets: FloatArray) -> FloatArray:
        """`g(y)` of targets of any shape in the domain."""

    @abstractmethod
    def inverse(self, values: FloatArray) -> FloatArray:
        """`g^-1(z)` of values of any shape in the image."""

    @abstractmethod
    def log_slope(self, targets: FloatArray) -> FloatArray:
        """`log g'(y)` of targets of any shape in the domain."""

    def contains(self, targets: FloatArray) -> Any:
        """Whether targets lie in the domain, entry by entry."""
        low, high = self.domain
        return (targets > low) & (targets < high)

    def check(self, targets: FloatArray) -> FloatArray:
        """Return targets, of any shape, that all lie in the domain.

        Raises
        ------
        InvalidInputError
            One does not.
        """
        if not np.all(self.contains(targets)):
            low, high = self.domain
            outside = targets[~self.contains(targets)]
            raise InvalidInputError(
                f"y: expected values between {low:g} and {high:g} for target_transform={self}, "
                f"got {outside[0]:g} among them"
            )
        return targets

    def __str__(self) -> str:
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        defaults = {f.name: f.default for f in fields(self)}
        given = ", ".join(f"{k}={float(v)!r}" for k, v in values.items() if v != defaults[k])
        return f"{self.name}({given})" if given else self.name


@dataclass(frozen=True)
class Identity(TargetTransform):
    """`z = y`."""

    name: ClassVar[str] = "identity"

    def forward(self, targets: FloatArray) -> FloatArray:
        return targets

    def inverse(self, values: FloatArray) -> FloatArray:
        return values

    def log_slope(self, targets: FloatArray) -> FloatArray:
        return np.zeros_like(targets)


@dataclass(frozen=True)
class Log(TargetTransform):
    """`z = log(y + shift)` for `y > -shift`: y is lognormal.

    Attributes
    ----------
    shift : float
        Minus the lower end of the targets.
    """

    shift: float = 0.0
    name: ClassVar[str] = "log"

    @property
    def domain(self) -> tuple[float, float]:
        return (0.0 - self.shift, np.inf)

    def forward(self, targets: FloatArray) -> FloatArray:
        return np.log(targets + self.shift)

    def inverse(self, values: FloatArray) -> FloatArray:
        return np.exp(values) - self.shift

    def log_slope(self, targets: FloatArray) -> FloatArray:
        return -np.log(targets + self.shift)


@dataclass(frozen=True)
class PowerTransform(TargetTransform):
    """A transform whose shape is a power.

    Attributes
    ----------
    power : float or None
        None: by the evidence, within `shape_bounds`.
    """

    power: float | None = None

    @property
    def is_free(self) -> bool:
        return self.power is None

    def with_shape(self, shape: float) -> Self:
        return replace(self, power=shape) if self.is_free else self


@dataclass(frozen=True)
class BoxCox(PowerTransform):
    """`z = (y^power - 1) / power` for `y > 0`, and `log y` for the power zero (Box and Cox, 1964).

    For a power above zero z is above `-1 / power`; the part of its law below belongs to `y = 0`.
    Powers below zero are refused, since y would have no mean.

    Attributes
    ----------
    power : float or None
        None: from 0 to 1.5, by the evidence.
    """

    name: ClassVar[str] = "box-cox"
    shape_bounds: ClassVar[tuple[float, float] | None] = (0.0, 1.5)

    def __post_init__(self) -> None:
        if self.power is not None and not (np.isfinite(self.power) and self.power >= 0):
            raise wrong("power", "a number >= 0, for which y has a mean", self.power)

    @property
    def domain(self) -> tuple[float, float]:
        return (0.0, np.inf)

    @property
    def image(self) -> tuple[float, float]:
        return (-1 / self.power, np.inf) if self.power else EVERYTHING

    def forward(self, targets: FloatArray) -> FloatArray:
        return np.asarray(special.boxcox(targets, self.power))

    def inverse(self, values: FloatArray) -> FloatArray:
        if not self.power:
            return np.exp(values)
        with np.errstate(divide="ignore"):  # the logarithm of zero at the lower end
            return np.exp(np.log1p(np.maximum(self.power * values, -1.0)) / self.power)

    def log_slope(self, targets: FloatArray) -> FloatArray:
        assert self.power is not None
        return (self.power - 1) * np.log(targets)


@dataclass(frozen=True)
class Counts(PowerTransform):
    """`z = ((y + 3/8)^power - 1) / power` for `y >= 0`, and `log(y + 3/8)` for the power zero.

    Of the power 1/2 it is Anscombe's (1948), after which Poisson counts have equal variances; lower
    powers suit counts whose variance grows with the square of the mean. The part of the law of z
    below `z(0)` belongs to `y = 0`.

    Attributes
    ----------
    power : float or None
        None: from 0 to 1, by the evidence.
    """

    name: ClassVar[str] = "counts"
    shape_bounds: ClassVar[tuple[float, float] | None] = (0.0, 1.0)

    def __post_init__(self) -> None:
        if self.power is not None and not 0 <= self.power <= 1:
            raise wrong("power", "a number from 0 to 1", self.power)

    @property
    def domain(self) -> tuple[float, float]:
        return (float(np.nextafter(0.0, -1.0)), np.inf)

    @property
    def image(self) -> tuple[float, float]:
        return (float(special.boxcox(ANSCOMBE, self.power)), np.inf)

    def forward(self, targets: FloatArray) -> FloatArray:
        return np.asarray(special.boxcox(targets + ANSCOMBE, self.power))

    def inverse(self, values: FloatArray) -> FloatArray:
        return np.maximum(BoxCox(self.power).inverse(values) - ANSCOMBE, 0.0)

    def log_slope(self, targets: FloatArray) -> FloatArray:
        assert self.power is not None
        return (self.power - 1) * np.log(targets + ANSCOMBE)


@dataclass(frozen=True)
class YeoJohnson(PowerTransform):
    """The transform of Yeo and Johnson (2000) of `u = (y - center) / scale`, for all y.

    `z = ((u + 1)^power - 1) / power` for `u >= 0`, `z = -((1 - u)^(2 - power) - 1) / (2 - power)`
    below; logarithms where an exponent is zero.

    Attributes
    ----------
    power : float or None
        From 0 to 2, where z takes all values; None: by the evidence.
    center, scale : float or None
        None: mean and standard deviation of the targets.
    """

    center: float | None = None
    scale: float | None = None
    name: ClassVar[str] = "yeo-johnson"
    shape_bounds: ClassVar[tuple[float, float] | None] = (0.0, 2.0)

    def __post_init__(self) -> None:
        if self.power is not None and not 0 <= self.power <= 2:
            raise wrong("power", "a number from 0 to 2", self.power)
        if self.scale is not None and not (np.isfinite(self.scale) and self.scale > 0):
            raise wrong("scale", "a number > 0", self.scale)

    def adapted(self, targets: FloatArray, counts: FloatArray | None) -> Self:
        mean = np.asarray(np.average(targets, weights=counts))
        variance = np.asarray(np.average(np.square(targets - mean), weights=counts))
        low, high = np.asarray(targets.min()), np.asarray(targets.max())
        scale = float(safe_scale(np.asarray(np.sqrt(variance)), low, high, len(targets)))
        return replace(
            self,
            center=float(mean) if self.center is None else self.center,
            scale=scale if self.scale is None else self.scale,
        )

    def forward(self, targets: FloatArray) -> FloatArray:
        u = self._standard(targets)
        powers = self._powers(u)
        return np.asarray(np.sign(u) * special.boxcox1p(np.abs(u), powers))

    def inverse(self, values: FloatArray) -> FloatArray:
        assert self.center is not None
        u = np.sign(values) * special.inv_boxcox1p(np.abs(values), self._powers(values))
        return np.asarray(self.center + u * self.scale)

    def log_slope(self, targets: FloatArray) -> FloatArray:
        assert self.scale is not None
        u = self._standard(targets)
        return np.asarray((self._powers(u) - 1) * np.log1p(np.abs(u)) - np.log(self.scale))

    def _standard(self, targets: FloatArray) -> FloatArray:
        assert self.center is not None
        assert self.scale is not None
        return (targets - self.center) / self.scale

    def _powers(self, signed: FloatArray) -> FloatArray:
        """Exponents, by their sign, of values of any shape."""
        assert self.power is not None
        return np.where(signed >= 0, self.power, 2 - self.power)


@dataclass(frozen=True)
class Logit(TargetTransform):
    """`z = log(u / (1 - u))`, `u = (y - low) / (high - low)`, for targets between two numbers.

    Attributes
    ----------
    low, high : float
        Ends of the targets.
    """

    low: float = 0.0
    high: float = 1.0
    name: ClassVar[str] = "logit"

    def __post_init__(self) -> None:
        if not (np.isfinite([self.low, self.high]).all() and self.low < self.high):
            raise InvalidInputError(f"low, high: expected low < high, got {self.low}, {self.high}")

    @property
    def domain(self) -> tuple[float, float]:
        return (self.low, self.high)

    def forward(self, targets: FloatArray) -> FloatArray:
        return np.log((targets - self.low) / (self.high - targets))

    def inverse(self, values: FloatArray) -> FloatArray:
        return np.asarray(self.low + (self.high - self.low) * special.expit(values))

    def log_slope(self, targets: FloatArray) -> FloatArray:
        span = np.log(self.high - self.low)
        return np.asarray(span - np.log(targets - self.low) - np.log(self.high - targets))


def transform_text(value: TargetTransform | None) -> str | None:
    """The text from which an equal transform is made, for files; None if there is none."""
    return None if value is None else TARGET_TRANSFORMS.text_of(value)


def _from_text(text: str) -> TargetTransform | None:
    """The transform of a text `name(field=number, ...)`, None for other texts."""
    match = re.fullmatch(r"([\w-]+)\((.*)\)", text.strip())
    known = TARGET_TRANSFORMS.find(match[1]) if match else None
    if match is None or known is None:
        return None
    try:
        pairs = [item.split("=") for item in match[2].split(",")]
        return type(known)(**{name.strip(): float(value) for name, value in pairs})
    except (TypeError, ValueError) as error:
        if isinstance(error, InvalidInputError):
            raise
        return None


TARGET_TRANSFORMS: Registry[TargetTransform] = Registry(
    TargetTransform,
    "coupledgp.target_transforms",
    {kind.name: kind() for kind in (Identity, Log, BoxCox, Counts, YeoJohnson, Logit)},
    patterns={"NAME(FIELD=NUMBER, ...)": _from_text},
)


stored_as(TargetTransform, transform_text, lambda text: TARGET_TRANSFORMS.parse(text, "transform"))
