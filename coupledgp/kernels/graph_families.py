"""The graph kernels, one class each, and their names (MATH 8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats

from coupledgp.errors import InvalidInputError
from coupledgp.expressions import check_single
from coupledgp.ground.codec import stored_as
from coupledgp.ground.validation import check_positive, check_positive_int, check_vector
from coupledgp.kernels.graph import GraphKernel, deconvolve, difference
from coupledgp.random import FloatArray
from coupledgp.registry import Registry

_NO_PARAMETERS = np.empty(0)
# Diffusion times from which a fit may start: from a node's neighbours to hundreds of nodes.
_SCAN = (0.25, 1.0, 4.0, 16.0, 64.0)


@dataclass(frozen=True, eq=False)
class HeatKernel(GraphKernel):
    """Heat or diffusion kernel `K = exp(-t L~)`; `F(x) = exp(-t (1 - x) / 2)`.

    `f_k = exp(-t/2) (t/2)^k / k!`, a Poisson law. The papers write `exp(-sigma^2 L~ / 2)`, and
    `kappa exp(-gamma^2 L~)` for meshes. Kondor and Lafferty (2002).

    Parameters
    ----------
    time
        Diffusion time t > 0. Free parameter: log t.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.kernels import HeatKernel
    >>> HeatKernel(2.0).spectral(np.array([1.0, 0.0])).round(3).tolist()  # 1 and exp(-2)
    [1.0, 0.135]
    """

    time: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "time", check_positive(self.time, "time"))

    @property
    def theta(self) -> FloatArray:
        return np.array([np.log(self.time)])

    def with_theta(self, theta: FloatArray) -> Self:
        return replace(self, time=float(np.exp(theta[0])))

    @property
    def bounds(self) -> list[tuple[float, float]]:
        return [(np.log(1e-2), np.log(1e4))]

    def root(self, x: FloatArray) -> FloatArray:
        return np.exp(-0.5 * self.time * (1.0 - x))

    def root_gradient(self, x: FloatArray) -> FloatArray:
        return (-0.5 * self.time * (1.0 - x) * self.root(x))[None, :]

    def modulation(self, n_terms: int) -> FloatArray:
        return stats.poisson.pmf(np.arange(n_terms), 0.5 * self.time)

    def modulation_gradient(self, n_terms: int) -> FloatArray:
        return (-0.5 * self.time * difference(self.modulation(n_terms)))[None, :]

    def tail(self, n_terms: int) -> float:
        return float(stats.poisson.sf(n_terms - 1, 0.5 * self.time))

    def scaled(self, factor: float) -> Self:
        return replace(self, time=self.time * factor)

    def scan(self) -> list[Self]:
        return [replace(self, time=time) for time in _SCAN]


@dataclass(frozen=True, eq=False)
class RegularizedLaplacianKernel(GraphKernel):
    """Regularised Laplacian `K = (I + s L~)^-r` for any real r > 0; `F(x) = (1 + s (1-x))^(-r/2)`.

    `f_k = (1+s)^(-r/2) binom(r/2 + k - 1, k) b^k`, `b = s / (1+s)`: a negative binomial law. The
    papers' 2-regularised Laplacian has r = 2. Smola and Kondor (2003).

    Parameters
    ----------
    scale
        s > 0. Free parameter: log s.
    exponent
        r > 0, not fitted.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> from coupledgp.kernels import RegularizedLaplacianKernel, dense_kernel
    >>> ring = cgp.Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 0])
    >>> K = dense_kernel(ring, RegularizedLaplacianKernel(scale=3.0, exponent=1.0))
    >>> laplacian = np.eye(4) - ring.normalized_adjacency.toarray()
    >>> bool(np.allclose(K @ (np.eye(4) + 3.0 * laplacian), np.eye(4)))
    True
    """

    scale: float = 1.0
    exponent: float = 2.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", check_positive(self.scale, "scale"))
        object.__setattr__(self, "exponent", check_positive(self.exponent, "exponent"))

    @property
    def theta(self) -> FloatArray:
        return np.array([np.log(self.scale)])

    def with_theta(self, theta: FloatArray) -> Self:
        return replace(self, scale=float(np.exp(theta[0])))

    @property
    def bounds(self) -> list[tuple[float, float]]:
        return [(np.log(1e-3), np.log(1e4))]

    def root(self, x: FloatArray) -> FloatArray:
        return (1.0 + self.scale * (1.0 - x)) ** (-0.5 * self.exponent)

    def root_gradient(self, x: FloatArray) -> FloatArray:
        inner = self.scale * (1.0 - x)
        return (-0.5 * self.exponent * inner / (1.0 + inner) * self.root(x))[None, :]

    def modulation(self, n_terms: int) -> FloatArray:
        chance = 1.0 / (1.0 + self.scale)
        return stats.nbinom.pmf(np.arange(n_terms), 0.5 * self.exponent, chance)

    def modulation_gradient(self, n_terms: int) -> FloatArray:
        chance = 1.0 / (1.0 + self.scale)
        steeper = stats.nbinom.pmf(np.arange(n_terms), 0.5 * self.exponent + 1.0, chance)
        return (-0.5 * self.exponent * self.scale * difference(steeper))[None, :]

    def tail(self, n_terms: int) -> float:
        chance = 1.0 / (1.0 + self.scale)
        return float(stats.nbinom.sf(n_terms - 1, 0.5 * self.exponent, chance))

    def scaled(self, factor: float) -> Self:
        return replace(self, scale=self.scale * factor)

    def scan(self) -> list[Self]:
        return [replace(self, scale=4.0 * s) for s in _SCAN]


@dataclass(frozen=True, eq=False)
class GraphMaternKernel(RegularizedLaplacianKernel):
    """Matern kernel on a graph, `K = (I + kappa^2 / (2 nu) L~)^-nu`.

    That is `(2 nu / kappa^2 + L~)^-nu` scaled to one at `L~ = 0`: a regularised Laplacian with
    `s = kappa^2 / (2 nu)` and `r = nu`. Borovitskiy et al. (2021).

    Parameters
    ----------
    lengthscale
        kappa > 0, in steps. Free parameter: log kappa.
    nu
        Smoothness nu > 0, not fitted.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.kernels import GraphMaternKernel
    >>> kernel = GraphMaternKernel(lengthscale=2.0, nu=1.0)
    >>> kernel.spectral([1.0, 0.0, -1.0]).round(3).tolist()  # 1, 1/3 and 1/5
    [1.0, 0.333, 0.2]
    """

    scale: float = field(init=False, repr=False)
    exponent: float = field(init=False, repr=False)
    lengthscale: float = 2.0
    nu: float = 1.5

    def __post_init__(self) -> None:
        kappa, nu = check_positive(self.lengthscale, "lengthscale"), check_positive(self.nu, "nu")
        values = {"lengthscale": kappa, "nu": nu, "scale": kappa**2 / (2.0 * nu), "exponent": nu}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def theta(self) -> FloatArray:
        return np.array([np.log(self.lengthscale)])

    def with_theta(self, theta: FloatArray) -> Self:
        return replace(self, lengthscale=float(np.exp(theta[0])))

    @property
    def bounds(self) -> list[tuple[float, float]]:
        return [(np.log(0.03), np.log(150.0))]

    def root_gradient(self, x: FloatArray) -> FloatArray:
        return 2.0 * super().root_gradient(x)

    def modulation_gradient(self, n_terms: int) -> FloatArray:
        return 2.0 * super().modulation_gradient(n_terms)

    def scaled(self, factor: float) -> Self:
        return replace(self, lengthscale=self.lengthscale * float(np.sqrt(factor)))

    def scan(self) -> list[Self]:
        return [replace(self, lengthscale=2.0 * float(np.sqrt(2.0 * self.nu * s))) for s in _SCAN]


@dataclass(frozen=True, eq=False)
class RandomWalkKernel(GraphKernel):
    """p-step random walk kernel `K = (I - L~ / a)^p`, a >= 2; `F(x) = ((a - 1 + x) / a)^(p/2)`.

    `(a I - L~)^p` scaled to one at `L~ = 0`. `f_k = a^(-p/2) (a-1)^(p/2 - k) binom(p/2, k)`: the
    series ends for even p. Smola and Kondor (2003).

    Parameters
    ----------
    a
        a >= 2. Free parameter: log a.
    steps
        p, a positive int, not fitted.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> from coupledgp.kernels import RandomWalkKernel, dense_kernel
    >>> path = cgp.Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 4])
    >>> K = dense_kernel(path, RandomWalkKernel(steps=2))
    >>> np.isclose(K[0], 0.0).tolist()  # nothing is shared beyond two steps
    [False, False, False, True, True]
    """

    a: float = 2.0
    steps: int = 4
    max_terms = 4096

    def __post_init__(self) -> None:
        object.__setattr__(self, "a", check_positive(self.a, "a"))
        check_positive_int(self.steps, "steps")
        if self.a < 2:
            raise InvalidInputError(f"a: expected a number >= 2, got {self.a}")

    @property
    def theta(self) -> FloatArray:
        return np.array([np.log(self.a)])

    def with_theta(self, theta: FloatArray) -> Self:
        return replace(self, a=max(2.0, float(np.exp(theta[0]))))

    @property
    def bounds(self) -> list[tuple[float, float]]:
        return [(np.log(2.0), np.log(1e3))]

    def root(self, x: FloatArray) -> FloatArray:
        return np.maximum((self.a - 1.0 + x) / self.a, 0.0) ** (0.5 * self.steps)

    def root_gradient(self, x: FloatArray) -> FloatArray:
        base = np.maximum((self.a - 1.0 + x) / self.a, 1e-300)
        return (0.5 * self.steps * (1.0 - x) / self.a * base ** (0.5 * self.steps - 1))[None, :]

    def modulation(self, n_terms: int) -> FloatArray:
        return self._binomial(0.5 * self.steps, n_terms)

    def modulation_gradient(self, n_terms: int) -> FloatArray:
        lower = self._binomial(0.5 * self.steps - 1.0, n_terms)
        return (0.5 * self.steps / self.a * difference(lower))[None, :]

    def _binomial(self, power: float, n_terms: int) -> FloatArray:
        """Coefficients (n,) of `((a - 1 + x) / a)^power`, by the ratio of one to the next."""
        k = np.arange(1, n_terms)
        ratios = (power - k + 1.0) / (k * (self.a - 1.0))
        first = ((self.a - 1.0) / self.a) ** power
        return first * np.concatenate([[1.0], np.cumprod(ratios)])


@dataclass(frozen=True, eq=False)
class InverseCosineKernel(GraphKernel):
    """Inverse cosine kernel `K = cos(pi L~ / 4)`; `F = sqrt(g)` by deconvolution.

    `g(x) = (cos(pi x / 4) + sin(pi x / 4)) / sqrt(2)`. F has a branch point at x = -1, so that
    `f_k` falls only like `k^(-3/2)`. Series of F are cut at `max_terms`, and `Truncation` gives the
    error of that; the exact kernels use g, which is entire. There are no parameters. Smola and
    Kondor (2003).

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.kernels import InverseCosineKernel
    >>> InverseCosineKernel().spectral([1.0, 0.0, -1.0]).round(3).tolist()
    [1.0, 0.707, 0.0]
    """

    max_terms = 1024

    @property
    def theta(self) -> FloatArray:
        return _NO_PARAMETERS

    def with_theta(self, theta: FloatArray) -> Self:
        return self

    @property
    def bounds(self) -> list[tuple[float, float]]:
        return []

    def root(self, x: FloatArray) -> FloatArray:
        return np.sqrt(self.spectral(x))

    def root_gradient(self, x: FloatArray) -> FloatArray:
        return np.empty((0, x.size))

    def spectral(self, x: ArrayLike) -> FloatArray:
        return np.maximum(np.cos(0.25 * np.pi * (1.0 - np.asarray(x, dtype=np.float64))), 0.0)

    def modulation(self, n_terms: int) -> FloatArray:
        return _inverse_cosine_series(n_terms).copy()

    def modulation_gradient(self, n_terms: int) -> FloatArray:
        return np.empty((0, n_terms))

    def tail(self, n_terms: int) -> float:
        # From the third on the coefficients alternate and F(-1) = 0, so the rest of the series
        # at -1 is minus its beginning.
        f = self.modulation(max(n_terms, 3))
        rest = abs(f @ (-1.0) ** np.arange(f.size))
        return float(rest + np.abs(f[n_terms:]).sum())


@lru_cache(maxsize=8)
def _inverse_cosine_series(n_terms: int) -> FloatArray:
    k = np.arange(n_terms)
    signs = np.where(k % 4 < 2, 1.0, -1.0)
    logs = k * np.log(0.25 * np.pi) - special.gammaln(k + 1.0)
    return deconvolve(signs * np.exp(logs) / np.sqrt(2.0))


class LearnedKernel(GraphKernel):
    """Learned modulation: `F(x) = sum_{k<n} f_k x^k` with free coefficients, regularised.

    Any `F^2` is a kernel, so the coefficients are free; the fit adds
    `strength / 2 |f - centre|^2` to the negative log evidence. Reid et al. (2023), section 3.

    Parameters
    ----------
    coefficients
        Coefficients f (n,) where a fit starts; None: the coefficients of the heat kernel with t =
        2.
    n_terms
        Number of coefficients if none are given.
    strength
        Strength of the penalty.
    centre
        Coefficients (n,) to which the penalty draws; the start if left out.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.kernels import LearnedKernel, RandomWalkKernel
    >>> kernel = LearnedKernel([0.5, 0.5])  # F(x) = (1 + x) / 2
    >>> x = np.array([1.0, 0.0, -0.5])
    >>> bool(np.allclose(kernel.spectral(x), RandomWalkKernel(a=2.0, steps=2).spectral(x)))
    True
    """

    def __init__(
        self,
        coefficients: ArrayLike | None = None,
        n_terms: int = 8,
        strength: float = 1.0,
        *,
        centre: ArrayLike | None = None,
    ) -> None:
        if coefficients is None:
            coefficients = HeatKernel(2.0).modulation(check_positive_int(n_terms, "n_terms"))
        self.coefficients = check_vector(coefficients, "coefficients")
        self.centre = self.coefficients if centre is None else check_vector(centre, "centre")
        self.strength = check_positive(strength, "strength")

    @property
    def theta(self) -> FloatArray:
        return self.coefficients.copy()

    def with_theta(self, theta: FloatArray) -> Self:
        return type(self)(**{**self.parameters(), "coefficients": theta})

    def parameters(self) -> dict[str, Any]:
        return {
            "coefficients": self.coefficients, "strength": self.strength, "centre": self.centre
        }  # fmt: skip

    @property
    def bounds(self) -> list[tuple[float, float]]:
        return [(-10.0, 10.0)] * self.coefficients.size

    def root(self, x: FloatArray) -> FloatArray:
        values = np.polynomial.polynomial.polyval(x, self.coefficients)
        return np.asarray(values, dtype=np.float64)

    def root_gradient(self, x: FloatArray) -> FloatArray:
        powers: FloatArray = x[None, :] ** np.arange(self.coefficients.size)[:, None]
        return powers

    def modulation(self, n_terms: int) -> FloatArray:
        f = np.zeros(n_terms)
        size = min(n_terms, self.coefficients.size)
        f[:size] = self.coefficients[:size]
        return f

    def modulation_gradient(self, n_terms: int) -> FloatArray:
        return np.eye(self.coefficients.size, n_terms)

    def penalty(self) -> tuple[float, FloatArray]:
        gap = self.coefficients - self.centre
        return 0.5 * self.strength * float(gap @ gap), self.strength * gap

    def __repr__(self) -> str:
        return f"LearnedKernel({self.coefficients.tolist()}, strength={self.strength!r})"


GRAPH_KERNELS: Registry[GraphKernel] = Registry(
    GraphKernel,
    "coupledgp.graph_kernels",
    {
        "heat": HeatKernel(),
        "regularized-laplacian": RegularizedLaplacianKernel(),
        "matern": GraphMaternKernel(),
        "random-walk": RandomWalkKernel(),
        "inverse-cosine": InverseCosineKernel(),
        "learned": LearnedKernel(),
    },
)
GraphKernelLike: TypeAlias = str | GraphKernel


def parse_graph_kernel(kernel: GraphKernelLike, name: str = "kernel") -> GraphKernel:
    """Return the graph kernel a text names, at default parameters, or the object itself.

    Parameters
    ----------
    kernel
        `"heat"`, `"regularized-laplacian"`, `"matern"`, `"random-walk"`, `"inverse-cosine"`,
        `"learned"`, a name that `register_graph_kernel` or an installed package added, or an
        object.
    name
        Name of the argument in error messages.

    Raises
    ------
    InvalidInputError
        The text names no graph kernel; the choices are listed.

    Examples
    --------
    >>> from coupledgp.kernels import HeatKernel, parse_graph_kernel
    >>> parse_graph_kernel("heat") == HeatKernel(time=1.0)
    True
    """
    check_single(kernel, name, "one kernel of nodes")
    return GRAPH_KERNELS.parse(kernel, name)


def graph_kernel_state(kernel: GraphKernel) -> dict[str, Any]:
    """Return the kernel as plain values, from which `graph_kernel_from` makes an equal one.

    They are the name of its class, under `"class"`, and its parameters; the shortest texts of
    floats keep all their bits.

    Raises
    ------
    InvalidInputError
        No kernel of its class is registered, so that the class could not be found again.
    """
    name = type(kernel).__name__
    if _class_named(name) is not type(kernel):
        raise InvalidInputError(
            f"kernel: expected one of {', '.join(_classes())}, whose names a file can hold, got "
            f"{kernel!r}; make the class known by register_graph_kernel"
        )
    return {"class": name} | {k: _plain(v) for k, v in kernel.parameters().items()}


def graph_kernel_from(state: Mapping[str, Any]) -> GraphKernel:
    """Return the kernel of `graph_kernel_state`.

    Raises
    ------
    InvalidInputError
        No kernel of that class is registered.
    """
    parameters = dict(state)
    name = parameters.pop("class", None)
    kind = _class_named(name)
    if kind is None:
        raise InvalidInputError(
            f"kernel: expected one of {', '.join(_classes())}, got {name!r}; import what registers "
            "it, or install its package"
        )
    known = next(k for k in GRAPH_KERNELS.values() if type(k) is kind).parameters()
    if not parameters.keys() <= known.keys():
        raise InvalidInputError(
            f"kernel: expected {', '.join(known)} of a {name}, got {', '.join(parameters)}"
        )
    return kind(**parameters)


def available_graph_kernels() -> list[str]:
    """Names of every graph kernel now registered.

    Examples
    --------
    >>> from coupledgp.kernels import available_graph_kernels
    >>> available_graph_kernels()[:3]
    ['heat', 'regularized-laplacian', 'matern']
    """
    return GRAPH_KERNELS.available()


def register_graph_kernel(
    name: str, make: GraphKernel | Callable[[], GraphKernel], *, replace: bool = False
) -> None:
    """Make a graph kernel known under `name`; see `Registry.register`.

    The object holds the parameters that a fit starts from; files hold the name of its class.

    Examples
    --------
    >>> from coupledgp.kernels import HeatKernel, parse_graph_kernel, register_graph_kernel
    >>> register_graph_kernel("wide", HeatKernel(50.0))
    >>> parse_graph_kernel("wide").time
    50.0
    """
    GRAPH_KERNELS.register(name, make, replace=replace)


def _class_named(name: str) -> type[GraphKernel] | None:
    """The class of that name of a registered kernel; packages are loaded only if need be."""
    if name not in _classes():
        GRAPH_KERNELS.available()
    return _classes().get(name)


def _classes() -> dict[str, type[GraphKernel]]:
    """Classes of the kernels now known, by name; of two of one name the first."""
    kinds = [type(kernel) for kernel in GRAPH_KERNELS.values()]
    return {kind.__name__: kind for kind in reversed(kinds)}


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


stored_as(GraphKernel, graph_kernel_state, graph_kernel_from, dict)
