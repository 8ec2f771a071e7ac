"""Spectral measures of stationary kernels, and the kernels they belong to (MATH section 1).

A kernel `k(x, y) = kappa(|x - y|)` of unit variance and lengthscale is the Fourier transform of an
isotropic law of frequencies `w`: direction uniform on the sphere, norm `|w|` of law `F`,
independent. A spectrum supplies the inverse of `F`, through which every coupling of norms acts,
and `kappa`, which the exact models use.

Distances are Euclidean, but for kernels that state another metric: the product Laplace kernel is a
function of the sum of the columns' distances. Its law of frequencies is not isotropic, and models
with random features refuse it.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, NoReturn, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from coupledgp.errors import InvalidInputError
from coupledgp.expressions import (
    Evaluated,
    RowKernel,
    check_single,
    group_sums,
    single_expected,
)
from coupledgp.ground.codec import stored_as
from coupledgp.ground.validation import check_positive
from coupledgp.linalg.distances import scaled_distances, weighted_powers
from coupledgp.metrics import Metric
from coupledgp.random import FloatArray, IntArray
from coupledgp.registry import Registry

if TYPE_CHECKING:
    from coupledgp.ground.tensors import Tensor


class Spectrum(RowKernel):
    """The law of the frequencies of one stationary kernel, in any dimension.

    Attributes
    ----------
    smoothness : float or None
        Class attribute or field: nu of a Matern kernel, infinity for the Gaussian one; None where
        it is not known.
    metric : Metric
        Class attribute: the metric of the distances r of which the kernel is a function.
    """

    smoothness: float | None = None
    metric: ClassVar[Metric] = Metric.L2

    @abstractmethod
    def norm_ppf(self, u: ArrayLike, dim: int) -> FloatArray:
        """Inverse CDF of the norm of a frequency in `dim` dimensions, `F^-1(u)`, 0 <= u <= 1.

        The result has the shape of `u`, any. It is accurate to a few ulps for small `u`; for the
        upper tail use `norm_isf`.
        """

    @abstractmethod
    def norm_isf(self, q: ArrayLike, dim: int) -> FloatArray:
        """Inverse survival function `F^-1(1 - q)` of the norm, q of any shape, accurate if tiny."""

    @abstractmethod
    def norm_cdf(self, norm: ArrayLike, dim: int) -> FloatArray:
        """CDF `F` of the norm of a frequency in `dim` dimensions, at norms of any shape."""

    def norm_pdf(self, norm: ArrayLike, dim: int) -> FloatArray:
        """Density of the norm, for norms above zero, of any shape.

        It is computed by central differences of `norm_cdf` (relative error about 1e-9 where the
        density is not tiny) unless a subclass has the closed form.
        """
        r = np.asarray(norm, dtype=np.float64)
        step = 1e-5 * r
        return (self.norm_cdf(r + step, dim) - self.norm_cdf(r - step, dim)) / (2 * step)

    @abstractmethod
    def n_uniforms(self, dim: int) -> int:
        """Number of independent uniforms that `from_uniforms` needs for one frequency."""

    @abstractmethod
    def from_uniforms(self, u: FloatArray) -> FloatArray:
        """Map points of the open unit cube (m, n_uniforms(dim)) to frequencies (m, dim).

        The route of the quasi-Monte Carlo couplings: coordinate by coordinate through `Phi^-1`.
        With `1 - u` in place of the first uniform u the first coordinate changes its sign alone.
        """

    @abstractmethod
    def kernel(self, r: ArrayLike) -> FloatArray:
        """Kernel `kappa(r)` at scaled distances `r >= 0` of any shape, with `kappa(0) = 1`."""

    @abstractmethod
    def kernel_slope(self, r: ArrayLike) -> FloatArray:
        """`-kappa'(r) / r^(p - 1)` at distances of any shape, for gradients in lengthscales.

        With the order p of the metric, `d kappa / d log l_j = |x_j - y_j|^p / l_j^p * slope`. Where
        the limit at `r = 0` is infinite (Matern with nu <= 1) zero is returned: its factor there is
        zero.
        """

    def kernel_and_slope(self, powers: Tensor) -> tuple[Tensor, Tensor]:
        """`kappa(r)` and its derivative in `r^p`, p the metric's order, from powers of any shape.

        They are computed on the CPU by `kernel` and `kernel_slope` unless a class has functions of
        tensors. Zero stands for an infinite slope at distance zero, as in `kernel_slope`.
        """
        distances = self.metric.distances(powers).cpu().numpy()
        kernel, slope = self.kernel(distances), self.kernel_slope(distances) / -self.metric.order
        return powers.new_tensor(kernel), powers.new_tensor(slope)

    def log_density(self, squares: Tensor, dim: int) -> Tensor:
        """Sum of log densities of frequencies of squared norms (m,), up to a constant.

        Raises
        ------
        InvalidInputError
            The class does not state it; frequencies are not fitted under such a kernel.
        """
        raise InvalidInputError(
            "kernel: expected a Gaussian or Matern kernel for frequencies fitted to the evidence, "
            f"whose prior is the spectral density, got {self}"
        )

    def evaluate(
        self, a: FloatArray, b: FloatArray, theta: FloatArray, groups: IntArray
    ) -> Evaluated:
        scale = np.exp(theta)[groups]
        own, other = a / scale, b / scale
        distances = scaled_distances(own, other, self.metric)

        def pull(cotangent: FloatArray) -> FloatArray:
            weighted = cotangent * self.kernel_slope(distances)
            sums = weighted_powers(own, other, weighted, self.metric.order)
            return group_sums(sums, groups, theta.size)

        return Evaluated(self.kernel(distances), pull)

    def covariance(
        self, a: FloatArray, b: FloatArray, theta: FloatArray, groups: IntArray
    ) -> FloatArray:
        scale = np.exp(theta)[groups]
        return self.kernel(scaled_distances(a / scale, b / scale, self.metric))


_NU_MIN, _NU_MAX = 0.1, 100.0
# Scaled distance at which every Matern kernel is zero; `kve` fails at far larger ones.
VANISHED = 1e5


@dataclass(frozen=True)
class GaussianSpectrum(Spectrum):
    """`w ~ N(0, I_d)`, `|w| ~ chi_d`; `kappa(r) = exp(-r^2 / 2)`."""

    is_separable = True

    @property
    def smoothness(self) -> float:  # type: ignore[override]
        """Infinite: paths have derivatives of every order."""
        return np.inf

    def kernel_and_slope(self, powers: Tensor) -> tuple[Tensor, Tensor]:
        kernel = (-0.5 * powers).exp()
        return kernel, -0.5 * kernel

    def log_density(self, squares: Tensor, dim: int) -> Tensor:
        return -0.5 * squares.sum()

    def norm_ppf(self, u: ArrayLike, dim: int) -> FloatArray:
        return np.sqrt(2.0 * special.gammaincinv(dim / 2, np.asarray(u, dtype=np.float64)))

    def norm_isf(self, q: ArrayLike, dim: int) -> FloatArray:
        return np.sqrt(2.0 * special.gammainccinv(dim / 2, np.asarray(q, dtype=np.float64)))

    def norm_cdf(self, norm: ArrayLike, dim: int) -> FloatArray:
        return special.gammainc(dim / 2, np.square(np.asarray(norm, dtype=np.float64)) / 2)

    def norm_pdf(self, norm: ArrayLike, dim: int) -> FloatArray:
        r = np.asarray(norm, dtype=np.float64)
        constant = (1 - dim / 2) * np.log(2) - special.gammaln(dim / 2)
        return np.exp(constant + special.xlogy(dim - 1, r) - r**2 / 2)

    def n_uniforms(self, dim: int) -> int:
        return dim

    def from_uniforms(self, u: FloatArray) -> FloatArray:
        return special.ndtri(u)

    def kernel(self, r: ArrayLike) -> FloatArray:
        return np.exp(-0.5 * np.square(np.asarray(r, dtype=np.float64)))

    def kernel_slope(self, r: ArrayLike) -> FloatArray:
        return self.kernel(r)

    def __str__(self) -> str:
        return "gaussian"


@dataclass(frozen=True)
class MaternSpectrum(Spectrum):
    """Matern-nu: `w = z sqrt(2 nu / g)`, `z ~ N(0, I_d)`, `g ~ chi^2_{2 nu}` (multivariate t).

    `|w|^2 / d` has the F law with (d, 2 nu) degrees of freedom, and
    `kappa(r) = 2^{1-nu} / Gamma(nu) s^nu K_nu(s)`, `s = sqrt(2 nu) r`.

    Parameters
    ----------
    nu
        Smoothness, from 0.1 to 100; 1/2, 3/2, 5/2 have closed-form kernels.
    """

    nu: float

    def __post_init__(self) -> None:
        nu = check_positive(self.nu, "nu")
        if not _NU_MIN <= nu <= _NU_MAX:
            raise InvalidInputError(
                f"nu: expected a number from {_NU_MIN} to {_NU_MAX}, got {nu}; rougher kernels "
                "have frequencies beyond float64, smoother ones are the Gaussian kernel"
            )
        object.__setattr__(self, "nu", nu)

    @property
    def smoothness(self) -> float:  # type: ignore[override]
        """The order nu: paths have derivatives of every order below it."""
        return self.nu

    def kernel_and_slope(self, powers: Tensor) -> tuple[Tensor, Tensor]:
        if self.nu not in (0.5, 1.5, 2.5):
            return super().kernel_and_slope(powers)
        r = powers.sqrt()
        s = (2 * self.nu) ** 0.5 * r
        decay = (-s).exp()
        if self.nu == 0.5:
            slope = -0.5 * decay / r.clamp_min(1e-300)
            return decay, slope.masked_fill(r <= 0, 0.0)
        if self.nu == 1.5:
            return (1 + s) * decay, -1.5 * decay
        linear = (1 + s) * decay
        return linear + s.square() * decay / 3, -5 / 6 * linear

    def log_density(self, squares: Tensor, dim: int) -> Tensor:
        return -(self.nu + 0.5 * dim) * (squares / (2 * self.nu)).log1p().sum()

    def norm_ppf(self, u: ArrayLike, dim: int) -> FloatArray:
        u = np.asarray(u, dtype=np.float64)
        return self._norm(u, 1.0 - u, dim)

    def norm_isf(self, q: ArrayLike, dim: int) -> FloatArray:
        q = np.asarray(q, dtype=np.float64)
        return self._norm(1.0 - q, q, dim)

    def _norm(self, u: FloatArray, q: FloatArray, dim: int) -> FloatArray:
        """`F^-1(u)` with `q = 1 - u`: `|w|^2 = 2 nu x / (1 - x)`, `x ~ Beta(d/2, nu)`.

        Each of `x` and `1 - x` is inverted from the tail that is the smaller, so that neither
        loses digits near one.
        """
        lower = u <= 0.5
        a, b = dim / 2, self.nu
        x = np.where(lower, special.betaincinv(a, b, u), special.betainccinv(a, b, q))
        y = np.where(lower, special.betainccinv(b, a, u), special.betaincinv(b, a, q))
        x = np.where(x < 0.5, x, 1.0 - y)
        y = np.where(y < 0.5, y, 1.0 - x)
        with np.errstate(divide="ignore"):
            return np.sqrt(2 * self.nu * x / y)

    def norm_cdf(self, norm: ArrayLike, dim: int) -> FloatArray:
        square = np.square(np.asarray(norm, dtype=np.float64))
        # As in `_norm`: for rough kernels much of the law lies where x rounds to one.
        y = 2 * self.nu / (square + 2 * self.nu)
        with np.errstate(invalid="ignore"):
            x = square / (square + 2 * self.nu)
        a, b = dim / 2, self.nu
        return np.where(y < 0.5, special.betaincc(b, a, y), special.betainc(a, b, x))

    def norm_pdf(self, norm: ArrayLike, dim: int) -> FloatArray:
        # x = r^2 / (r^2 + 2 nu) has the Beta(d/2, nu) law, and dx/dr = 4 nu r / (r^2 + 2 nu)^2.
        r = np.asarray(norm, dtype=np.float64)
        whole = r**2 + 2 * self.nu
        log_x, log_y = 2 * np.log(r / np.sqrt(whole)), np.log(2 * self.nu / whole)
        a, b = dim / 2, self.nu
        log_beta = (a - 1) * log_x + (b - 1) * log_y - special.betaln(a, b)
        return np.exp(log_beta + np.log(4 * self.nu * r) - 2 * np.log(whole))

    def n_uniforms(self, dim: int) -> int:
        return dim + 1

    def from_uniforms(self, u: FloatArray) -> FloatArray:
        g = 2.0 * special.gammaincinv(self.nu, u[:, -1:])
        return special.ndtri(u[:, :-1]) * np.sqrt(2 * self.nu / g)

    def kernel(self, r: ArrayLike) -> FloatArray:
        s = np.sqrt(2 * self.nu) * np.asarray(r, dtype=np.float64)
        if self.nu == 0.5:
            return np.exp(-s)
        if self.nu == 1.5:
            return (1 + s) * np.exp(-s)
        if self.nu == 2.5:
            return (1 + s + s**2 / 3) * np.exp(-s)
        return _bessel_term(s, self.nu)

    def kernel_slope(self, r: ArrayLike) -> FloatArray:
        # d/ds [s^nu K_nu(s)] = -s^nu K_{nu-1}(s) makes the slope a Matern term of order nu - 1.
        s = np.sqrt(2 * self.nu) * np.asarray(r, dtype=np.float64)
        if self.nu == 1.5:
            return 3 * np.exp(-s)
        if self.nu == 2.5:
            return 5 / 3 * (1 + s) * np.exp(-s)
        if self.nu > 1:
            return self.nu / (self.nu - 1) * _bessel_term(s, self.nu - 1)
        positive = np.where(s > 0, s, 1.0)
        if self.nu == 0.5:
            value = np.exp(-positive) / positive
        else:
            scale = 2 * self.nu * 2 ** (1 - self.nu) / special.gamma(self.nu)
            value = scale * positive ** (self.nu - 1) * special.kv(self.nu - 1, positive)
        return np.where(s > 0, value, 0.0)

    def __str__(self) -> str:
        half = Fraction(self.nu).limit_denominator(2)
        return f"matern-{half}" if float(half) == self.nu else f"matern-{self.nu!r}"


def _bessel_term(s: FloatArray, nu: float) -> FloatArray:
    """`2^{1-nu} / Gamma(nu) s^nu K_nu(s)`, equal to 1 at s = 0, in logarithms.

    Where `K_nu(s)` overflows (s small, nu large) its ascending series takes over,
    `sum_k (s^2/4)^k / (k! (1-nu)_k)`; the terms it leaves out are below `s^{2 nu}`.
    """
    s = np.minimum(s, VANISHED)
    positive = np.where(s > 0, s, 1.0)
    bessel = special.kve(nu, positive)
    finite = (s > 0) & np.isfinite(bessel)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_value = (
            (1 - nu) * np.log(2.0)
            - special.gammaln(nu)
            + nu * np.log(positive)
            + np.log(bessel)
            - positive
        )
    series = np.ones_like(positive)
    term = np.ones_like(positive)
    for k in range(1, min(int(np.ceil(nu)), 20)):
        term = term * np.where(finite, 0.0, s**2 / 4) / (k * (k - nu))
        series = series + term
    return np.where(finite, np.exp(np.where(finite, log_value, 0.0)), series)


@dataclass(frozen=True)
class ProductLaplace(Spectrum):
    """`exp(-sum_j |x_j - x'_j| / l_j)`: rough along each axis, and nearly additive.

    The product of Matern-1/2 kernels of the columns, a function of the distance in the metric
    `"l1"`. It suits steps and rough effects of single columns (Rasmussen and Williams, 2006,
    section 4.2.1, for products of kernels). The same function of Euclidean distances is
    `"matern-1/2"`, which knows no axes.

    Raises
    ------
    InvalidInputError
        Frequencies are asked for, by any method of their law: each of their coordinates would be
        a Cauchy variable, half of which lie beyond the lengthscale in every column at once.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.kernels import ProductLaplace, RowCovariance
    >>> kernel = RowCovariance(ProductLaplace(), 2)
    >>> ends = np.array([[1.0, 0.0], [0.5, 0.5]])  # one lengthscale away along the axes
    >>> kernel.gram(np.zeros((1, 2)), ends, np.zeros(2)).round(3).tolist()
    [[0.368, 0.368]]
    """

    smoothness = 0.5
    metric = Metric.L1
    is_separable = True

    def kernel(self, r: ArrayLike) -> FloatArray:
        return np.exp(-np.asarray(r, dtype=np.float64))

    def kernel_slope(self, r: ArrayLike) -> FloatArray:
        return self.kernel(r)

    def kernel_and_slope(self, powers: Tensor) -> tuple[Tensor, Tensor]:
        kernel = (-powers).exp()
        return kernel, -kernel

    def norm_ppf(self, u: ArrayLike, dim: int) -> NoReturn:
        self._refuse()

    def norm_isf(self, q: ArrayLike, dim: int) -> NoReturn:
        self._refuse()

    def norm_cdf(self, norm: ArrayLike, dim: int) -> NoReturn:
        self._refuse()

    def norm_pdf(self, norm: ArrayLike, dim: int) -> NoReturn:
        self._refuse()

    def n_uniforms(self, dim: int) -> NoReturn:
        self._refuse()

    def from_uniforms(self, u: FloatArray) -> NoReturn:
        self._refuse()

    def log_density(self, squares: Tensor, dim: int) -> NoReturn:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise InvalidInputError(
            "kernel: expected an isotropic one, such as 'matern-1/2', for random frequencies, got "
            "'laplace', whose features would be poor; use it with ExactGPRegressor, "
            "LocalGPRegressor or GPRegressor"
        )

    def __str__(self) -> str:
        return "laplace"


SpectrumLike: TypeAlias = str | Spectrum
# What models take that take no expression.
SINGLE = "one stationary kernel of all columns, such as 'matern-5/2'"

_ALIASES = {
    "rbf": "gaussian",
    "matern12": "matern-1/2",
    "matern32": "matern-3/2",
    "matern52": "matern-5/2",
}
_MATERN = re.compile(r"matern-(?P<nu>\d+(\.\d*)?(e[+-]?\d+)?|\.\d+|\d+/\d+)")


def _matern_of(text: str) -> Spectrum | None:
    """The spectrum that `matern-NU` stands for."""
    match = _MATERN.fullmatch(text)
    if match is None or match["nu"].endswith("/0"):
        return None
    above, _, below = match["nu"].partition("/")
    nu = float(above) / float(below or 1)  # floats: a fraction of 1e99999999 fills the memory
    if not 0 < nu < np.inf:
        raise InvalidInputError(f"kernel: expected matern-NU of a finite NU > 0, got {text:.60}")
    return MaternSpectrum(nu)


SPECTRA: Registry[Spectrum] = Registry(
    Spectrum,
    "coupledgp.spectra",
    {
        "gaussian": GaussianSpectrum(),
        "matern-1/2": MaternSpectrum(0.5),
        "matern-3/2": MaternSpectrum(1.5),
        "matern-5/2": MaternSpectrum(2.5),
        "laplace": ProductLaplace(),
    },
    taken=set(_ALIASES),
    patterns={"matern-NU": _matern_of},
)


def parse_spectrum(spectrum: SpectrumLike, name: str = "spectrum") -> Spectrum:
    """Return the spectrum named by a text, or the object itself.

    Parameters
    ----------
    spectrum
        `"gaussian"` (also `"rbf"`), `"matern-1/2"`, `"matern-3/2"`, `"matern-5/2"` (also
        `"matern12"`, ...), `"matern-NU"` for NU from 0.1 to 100, as in `"matern-0.7"`, `"laplace"`
        (the product over columns, which has no random features), or a name that
        `register_spectrum` or an installed package added.
    name
        Name of the argument in error messages.

    Raises
    ------
    InvalidInputError
        The text names no spectrum; the choices are listed.
    """
    check_single(spectrum, name, SINGLE)
    if isinstance(spectrum, RowKernel) and not isinstance(spectrum, Spectrum):
        raise single_expected(spectrum, name, SINGLE)
    named = _ALIASES.get(spectrum, spectrum) if isinstance(spectrum, str) else spectrum
    return SPECTRA.parse(named, name)


def find_spectrum(text: str) -> Spectrum | None:
    """The spectrum that a text names, None for other texts."""
    return SPECTRA.find(_ALIASES.get(text, text))


def spectrum_text(spectrum: Spectrum) -> str | None:
    """The text from which `parse_spectrum` makes an equal spectrum, for files; None without one."""
    return SPECTRA.text_of(spectrum)


def register_spectrum(
    name: str, make: Spectrum | Callable[[], Spectrum], *, replace: bool = False
) -> None:
    """Make a spectrum known under `name`; see `Registry.register`."""
    SPECTRA.register(name, make, replace=replace)


stored_as(Spectrum, spectrum_text, parse_spectrum)
