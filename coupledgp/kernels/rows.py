"""Kernels of rows of a table besides stationary spectra and additive ones, and all their names.

`Gaussian`, `Matern`, `Laplace`, `Periodic` and `Constant` are short names of `GaussianSpectrum`,
`MaternSpectrum`, `ProductLaplace`, `PeriodicRows` and `ConstantRows`; time kernels are called so in
`coupledgp.kernels`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.expressions import (
    AxisTerm,
    Evaluated,
    Factor,
    Parameter,
    RowKernel,
    differences,
    group_sums,
)
from coupledgp.ground.validation import check_positive
from coupledgp.kernels.additive import Additive
from coupledgp.random import FloatArray, IntArray
from coupledgp.registry import Registry
from coupledgp.spectra import GaussianSpectrum, MaternSpectrum, ProductLaplace, parse_spectrum

Gaussian, Matern, Laplace = GaussianSpectrum, MaternSpectrum, ProductLaplace
# Means and standard deviations of priors of logarithms.
PERIODIC_LENGTHSCALE, PERIOD, ALPHA, CATEGORY = (0.0, 1.0), (0.0, 1.0), (0.0, 1.0), (0.0, 1.5)
SPHERE_LENGTHSCALE = (-1.0, 1.5)


@dataclass(frozen=True)
class ConstantRows(RowKernel):
    """`k(x, x') = 1`: an offset that all rows share, of which a sum states the variance."""

    def parameters(self, labels: Sequence[str]) -> tuple[Parameter, ...]:
        return ()

    def evaluate(
        self, a: FloatArray, b: FloatArray, theta: FloatArray, groups: IntArray
    ) -> Evaluated:
        return Evaluated(np.ones((len(a), len(b))), lambda cotangent: np.zeros(0))

    def lengthscales(self, theta: FloatArray, groups: IntArray) -> FloatArray:
        return np.full(groups.size, np.inf)

    def axes(
        self, theta: FloatArray, numbers: IntArray, groups: IntArray
    ) -> tuple[AxisTerm, ...] | None:
        return (AxisTerm(1.0, 0, ()),)

    def __str__(self) -> str:
        return "constant"


@dataclass(frozen=True)
class Linear(RowKernel):
    """`k(x, x') = sum_j x_j x_j'` of standardised columns: a linear trend about their means.

    Beyond one range of the training rows the slopes are others that no row informs, as in
    `LocalGPRegressor`: means go on to there, and deviations grow.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> from coupledgp.kernels import Linear
    >>> X = np.arange(10.0)[:, None]
    >>> model = cgp.ExactGPRegressor(Linear()).fit(X, 3 * X[:, 0] + 1)
    >>> model.predict([[12.0]]).round(1).tolist()
    [37.0]
    """

    variance_mean = -1.0

    def within(self, low: FloatArray, high: FloatArray) -> RowKernel:
        return _LinearWithin(tuple(low.tolist()), tuple(high.tolist()))

    def parameters(self, labels: Sequence[str]) -> tuple[Parameter, ...]:
        return ()

    def evaluate(
        self, a: FloatArray, b: FloatArray, theta: FloatArray, groups: IntArray
    ) -> Evaluated:
        return Evaluated(a @ b.T, lambda cotangent: np.zeros(0))

    def diagonal(self, a: FloatArray, theta: FloatArray, groups: IntArray) -> FloatArray:
        return np.square(a).sum(axis=1)

    def lengthscales(self, theta: FloatArray, groups: IntArray) -> FloatArray:
        return np.full(groups.size, np.inf)

    def axes(
        self, theta: FloatArray, numbers: IntArray, groups: IntArray
    ) -> tuple[AxisTerm, ...] | None:
        factors = tuple(
            Factor(tuple(numbers[groups == g].tolist()), self, theta)
            for g in range(int(groups.max()) + 1)
        )
        return (AxisTerm(1.0, 1, factors),)

    def __str__(self) -> str:
        return "linear"


@dataclass(frozen=True)
class _LinearWithin(Linear):
    """A linear trend whose slopes beyond the ends (d,) of the columns are others."""

    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()

    def evaluate(
        self, a: FloatArray, b: FloatArray, theta: FloatArray, groups: IntArray
    ) -> Evaluated:
        own, other = np.clip(a, self.low, self.high), np.clip(b, self.low, self.high)
        found = own @ other.T + (a - own) @ (b - other).T
        return Evaluated(found, lambda cotangent: np.zeros(0))

    def diagonal(self, a: FloatArray, theta: FloatArray, groups: IntArray) -> FloatArray:
        inside = np.clip(a, self.low, self.high)
        return np.square(inside).sum(axis=1) + np.square(a - inside).sum(axis=1)

    def axes(
        self, theta: FloatArray, numbers: IntArray, groups: IntArray
    ) -> tuple[AxisTerm, ...] | None:
        factors = []
        for own in groups == np.arange(int(groups.max()) + 1)[:, None]:
            low, high = (tuple(np.array(ends)[own].tolist()) for ends in (self.low, self.high))
            factors.append(Factor(tuple(numbers[own].tolist()), _LinearWithin(low, high), theta))
        return (AxisTerm(1.0, 1, tuple(factors)),)


@dataclass(frozen=True)
class PeriodicRows(RowKernel):
    """`exp(-2 sum_j sin(pi (x_j - x_j') / p_j)^2 / l_j^2)` (MacKay, 1998).

    Parameters
    ----------
    period
        Period p in units of the columns, kept as it is. None: each column has one of its own that
        is fitted, from a start of one standard deviation; give it where it is known.
    """

    period: float | None = None
    is_separable = True

    def __post_init__(self) -> None:
        if self.period is not None:
            object.__setattr__(self, "period", check_positive(self.period, "period"))

    def in_units(self, center: FloatArray, spread: FloatArray) -> RowKernel:
        return self if self.period is None else _PeriodicAt(self.period, tuple(spread.tolist()))

    def parameters(self, labels: Sequence[str]) -> tuple[Parameter, ...]:
        found = [
            Parameter(f"lengthscale of {self} in {label}", *PERIODIC_LENGTHSCALE)
            for label in labels
        ]
        if self.period is None:
            found += [Parameter(f"period of {self} in {label}", *PERIOD) for label in labels]
        return tuple(found)

    def _periods(self, theta: FloatArray, groups: IntArray) -> FloatArray:
        """Periods (d,) of standardised columns."""
        if self.period is not None:
            return np.full(groups.size, self.period)
        return np.exp(theta[theta.size // 2 :])[groups]

    def evaluate(
        self, a: FloatArray, b: FloatArray, theta: FloatArray, groups: IntArray
    ) -> Evaluated:
        n_groups = int(groups.max()) + 1
        lengthscale = np.exp(theta[:n_groups])[groups]
        periods = self._periods(theta, groups)
        angles = [np.pi * step for step in differences(a, b, periods)]
        parts = [
            2 * np.square(np.sin(angle) / scale)
            for angle, scale in zip(angles, lengthscale, strict=True)
        ]
        covariance = np.exp(-sum(parts))

        def pull(cotangent: FloatArray) -> FloatArray:
            weighted = cotangent * covariance
            own = [2 * (weighted * part).sum() for part in parts]
            found = group_sums(own, groups, n_groups)
            if theta.size == n_groups:
                return found
            slopes = [
                (weighted * 2 * angle * np.sin(2 * angle)).sum() / scale**2
                for angle, scale in zip(angles, lengthscale, strict=True)
            ]
            return np.concatenate([found, group_sums(slopes, groups, n_groups)])

        return Evaluated(np.asarray(covariance), pull)

    def lengthscales(self, theta: FloatArray, groups: IntArray) -> FloatArray:
        """Half a period, or the lengthscale's share of it where that is less."""
        lengthscale = np.exp(theta[: int(groups.max()) + 1])[groups]
        return self._periods(theta, groups) * np.minimum(0.5, lengthscale / np.pi)

    def axes(
        self, theta: FloatArray, numbers: IntArray, groups: IntArray
    ) -> tuple[AxisTerm, ...] | None:
        n_groups = int(groups.max()) + 1
        factors = tuple(
            Factor(
                tuple(numbers[groups == g].tolist()), self._alone(groups == g), theta[g::n_groups]
            )
            for g in range(n_groups)
        )
        return (AxisTerm(1.0, n_groups, factors),)

    def _alone(self, chosen: Any) -> RowKernel:
        """The kernel of some of its columns."""
        return self

    def __str__(self) -> str:
        return "periodic" if self.period is None else f"periodic({self.period!r})"


@dataclass(frozen=True)
class _PeriodicAt(PeriodicRows):
    """A periodic kernel of columns that were divided by their spreads."""

    spread: tuple[float, ...] = ()

    def _periods(self, theta: FloatArray, groups: IntArray) -> FloatArray:
        assert self.period is not None
        return self.period / np.array(self.spread)

    def _alone(self, chosen: Any) -> RowKernel:
        return replace(self, spread=tuple(np.array(self.spread)[chosen].tolist()))

    def __str__(self) -> str:
        return str(PeriodicRows(self.period))


@dataclass(frozen=True)
class RationalQuadratic(RowKernel):
    """`(1 + r^2 / (2 alpha))^-alpha`, r in lengthscales: a mixture of Gaussian kernels.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.kernels import RationalQuadratic, RowCovariance
    >>> kernel = RowCovariance(RationalQuadratic(), ["hour"])
    >>> kernel.names
    ['lengthscale of rational-quadratic in hour', 'alpha of rational-quadratic']
    >>> kernel.gram(np.array([[0.0]]), np.array([[2.0]]), np.log([1.0, 1.0])).round(6).tolist()
    [[0.333333]]
    """

    def parameters(self, labels: Sequence[str]) -> tuple[Parameter, ...]:
        return (*super().parameters(labels), Parameter(f"alpha of {self}", *ALPHA))

    def evaluate(
        self, a: FloatArray, b: FloatArray, theta: FloatArray, groups: IntArray
    ) -> Evaluated:
        lengthscale, alpha = np.exp(theta[:-1])[groups], float(np.exp(theta[-1]))
        steps = differences(a, b, lengthscale)
        whole = 1 + sum(np.square(step) for step in steps) / (2 * alpha)
        covariance = np.asarray(whole**-alpha)

        def pull(cotangent: FloatArray) -> FloatArray:
            weighted = cotangent * covariance
            own = [(weighted / whole * np.square(step)).sum() for step in steps]
            of_alpha = alpha * (weighted * ((whole - 1) / whole - np.log(whole))).sum()
            return np.append(group_sums(own, groups, theta.size - 1), of_alpha)

        return Evaluated(covariance, pull)

    def lengthscales(self, theta: FloatArray, groups: IntArray) -> FloatArray:
        return np.exp(theta[:-1])[groups]

    def __str__(self) -> str:
        return "rational-quadratic"


@dataclass(frozen=True)
class Categorical(RowKernel):
    """`exp(-sum_g 1[x_g != x_g'] / l_g)`: rows of another level are alike to some degree.

    It is the product Laplace kernel of codes, so positive definite for any number of levels. Values
    of a group of columns are equal where all its columns are.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.kernels import Categorical, RowCovariance
    >>> kernel = RowCovariance(Categorical(), ["team"])
    >>> codes = np.array([[0.0], [1.0], [2.0]])
    >>> kernel.gram(codes[:1], codes, np.log([0.5])).round(3).tolist()  # exp(-2) for other teams
    [[1.0, 0.135, 0.135]]
    """

    is_separable = True

    def parameters(self, labels: Sequence[str]) -> tuple[Parameter, ...]:
        return tuple(Parameter(f"lengthscale of {self} in {label}", *CATEGORY) for label in labels)

    def evaluate(
        self, a: FloatArray, b: FloatArray, theta: FloatArray, groups: IntArray
    ) -> Evaluated:
        differs = [
            (a[:, None, groups == g] != b[None, :, groups == g]).any(axis=2)
            for g in range(theta.size)
        ]
        scales = np.exp(-theta)
        covariance = np.exp(-sum(scale * own for scale, own in zip(scales, differs, strict=True)))

        def pull(cotangent: FloatArray) -> FloatArray:
            weighted = cotangent * covariance
            return np.array(
                [scale * weighted[own].sum() for scale, own in zip(scales, differs, strict=True)]
            )

        return Evaluated(np.asarray(covariance), pull)

    def __str__(self) -> str:
        return "categorical"


@dataclass(frozen=True)
class Sphere(RowKernel):
    """A stationary kernel of the chord between two places on a sphere of radius one.

    It takes two columns, latitude and longitude in degrees: `Sphere().on("lat", "lon")`. The
    lengthscale is in radii; one degree along a great circle is a chord of .01745.

    Parameters
    ----------
    base
        Kernel of the chord, a text or a spectrum.

    Raises
    ------
    InvalidInputError
        There are not two columns, or a latitude is beyond 90 degrees.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.kernels import RowCovariance, Sphere
    >>> kernel = RowCovariance(Sphere().on("lat", "lon"), ["lat", "lon"])
    >>> east, west, middle = np.array([[[0.0, 179.0]], [[0.0, -179.0]], [[0.0, 177.0]]])
    >>> across, along = (kernel.gram(east, b, kernel.start) for b in (west, middle))
    >>> bool(np.isclose(across, along).all())  # both are two degrees from the first place
    True
    """

    base: Any = "matern-3/2"
    center: tuple[float, ...] = field(default=(0.0, 0.0), repr=False)
    spread: tuple[float, ...] = field(default=(1.0, 1.0), repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "base", parse_spectrum(self.base, "base"))

    def in_units(self, center: FloatArray, spread: FloatArray) -> RowKernel:
        return replace(self, center=tuple(center.tolist()), spread=tuple(spread.tolist()))

    def parameters(self, labels: Sequence[str]) -> tuple[Parameter, ...]:
        if len(labels) != 2:
            raise InvalidInputError(
                f"kernel: expected {self} on two columns, latitude and longitude, got "
                f"{len(labels)} ({', '.join(labels)})"
            )
        return (Parameter(f"lengthscale of {self} in radii", *SPHERE_LENGTHSCALE),)

    def evaluate(
        self, a: FloatArray, b: FloatArray, theta: FloatArray, groups: IntArray
    ) -> Evaluated:
        one_scale = np.zeros(3, dtype=np.int64)
        found: Evaluated = self.base.evaluate(self.places(a), self.places(b), theta, one_scale)
        return found

    def places(self, rows: FloatArray) -> FloatArray:
        """Places (n, 3) on the unit sphere of standardised latitudes and longitudes (n, 2)."""
        degrees = rows * self.spread + self.center
        if np.abs(degrees[:, 0]).max(initial=0.0) > 90.0 + 1e-9:
            raise InvalidInputError(
                f"kernel: expected latitudes from -90 to 90 degrees in the first column of {self}, "
                f"got {degrees[np.abs(degrees[:, 0]).argmax(), 0]:g}"
            )
        latitude, longitude = np.deg2rad(degrees.T)
        flat = np.cos(latitude)
        return np.stack(
            [flat * np.cos(longitude), flat * np.sin(longitude), np.sin(latitude)], axis=1
        )

    def lengthscales(self, theta: FloatArray, groups: IntArray) -> FloatArray:
        found: FloatArray = np.rad2deg(np.exp(theta[0])) / np.array(self.spread)
        return found

    def __str__(self) -> str:
        return "sphere" if self.base == MaternSpectrum(1.5) else f"sphere({self.base})"


Periodic, Constant = PeriodicRows, ConstantRows
# Kernels by the names of texts, apart from those of `parse_spectrum`.
ROW_KERNELS: Registry[RowKernel] = Registry(
    RowKernel,
    "coupledgp.row_kernels",
    {
        "additive": Additive(),
        "periodic": PeriodicRows(),
        "rational-quadratic": RationalQuadratic(),
        "linear": Linear(),
        "constant": ConstantRows(),
        "categorical": Categorical(),
        "sphere": Sphere(),
    },
)


def register_row_kernel(
    name: str, make: RowKernel | Callable[[], RowKernel], *, replace: bool = False
) -> None:
    """Make a kernel of rows known under a name, for texts, files and the command line.

    See `Registry.register`. Arguments in a text, `name(2, base=gaussian)`, are fields of its class,
    and `str` of a kernel must be a text that makes it again.

    Examples
    --------
    >>> from coupledgp.kernels import Sphere, parse_kernel, register_row_kernel
    >>> register_row_kernel("globe", Sphere("gaussian"))
    >>> str(parse_kernel('globe["lat", "lon"] + linear["height"]'))
    "sphere(gaussian)['lat', 'lon'] + linear['height']"
    """
    ROW_KERNELS.register(name, make, replace=replace)
