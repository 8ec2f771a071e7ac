"""The base of graph kernels: a function of `W~`, its square root and the root's power series."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.errors import InvalidInputError
from coupledgp.expressions import Kernel
from coupledgp.graphs import Graph
from coupledgp.random import FloatArray

# Terms of which `GraphKernel.tail` takes the sum by default, where no closed form is known.
LONG_SERIES = 4096


class GraphKernel(Kernel):
    """A kernel `K = g(W~) = F(W~)^2` on the nodes of a graph (MATH 8).

    `W~ = D^-1/2 W D^-1/2` has its spectrum in [-1, 1] and `L~ = I - W~`. Every kernel here is
    scaled so that `g(1) = 1`, the value at `L~ = 0`; the output scale multiplies it. Kernels are
    immutable: `with_theta` gives a new one. `theta` are the free parameters, unconstrained
    (logarithms, as a rule), of shape (n_parameters,).

    Attributes
    ----------
    max_terms : int
        Class attribute: length beyond which power series of the kernel are cut.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.kernels import parse_graph_kernel
    >>> kernel = parse_graph_kernel("matern")
    >>> root = np.polynomial.polynomial.polyval(0.5, kernel.modulation(200))
    >>> bool(np.isclose(root**2, kernel.spectral(0.5)))
    True
    """

    domain = "nodes"
    max_terms: int = 20_000

    @property
    @abstractmethod
    def theta(self) -> FloatArray:
        """Free parameters (n_parameters,)."""

    @abstractmethod
    def with_theta(self, theta: FloatArray) -> Self:
        """Return the kernel of the same class at other parameters, its other fields kept."""

    @property
    @abstractmethod
    def bounds(self) -> list[tuple[float, float]]:
        """Range of each free parameter in a fit."""

    @abstractmethod
    def root(self, x: FloatArray) -> FloatArray:
        """`F(x)` at eigenvalues x of `W~`, of the shape of x."""

    @abstractmethod
    def root_gradient(self, x: FloatArray) -> FloatArray:
        """`dF(x) / dtheta`, shape (n_parameters, len(x))."""

    @abstractmethod
    def modulation(self, n_terms: int) -> FloatArray:
        """Coefficients of `F(x) = sum_k f_k x^k`, shape (n_terms,)."""

    @abstractmethod
    def modulation_gradient(self, n_terms: int) -> FloatArray:
        """`df_k / dtheta`, shape (n_parameters, n_terms)."""

    def spectral(self, x: ArrayLike) -> FloatArray:
        """`g(x) = F(x)^2` at eigenvalues x of `W~`, of the shape of x."""
        return self.root(np.asarray(x, dtype=np.float64)) ** 2

    def spectral_gradient(self, x: ArrayLike) -> FloatArray:
        """`dg(x) / dtheta`, shape (n_parameters, len(x))."""
        x = np.asarray(x, dtype=np.float64)
        return 2.0 * self.root(x) * self.root_gradient(x)

    def tail(self, n_terms: int) -> float:
        """`sum_{k >= n_terms} |f_k|`."""
        tails = self._tails
        return float(tails[n_terms]) if n_terms < tails.size else 0.0

    def penalty(self) -> tuple[float, FloatArray]:
        """Term that a fit adds to the negative log evidence, and its gradient (n_parameters,)."""
        return 0.0, np.zeros(self.theta.size)

    def scaled(self, factor: float) -> Self:
        """Return the kernel at `factor` times its diffusion time or scale; itself without one."""
        return self

    def scan(self) -> list[Self]:
        """Starting points of a fit, from local to wide."""
        return [self]

    def scan_on(self, graph: Graph) -> list[Self]:
        """Starting points of a fit on a graph: multiples of its unit of time."""
        starts = self.scan()
        return starts if graph.time_unit == 1.0 else [k.scaled(graph.time_unit) for k in starts]

    def bounds_on(self, graph: Graph) -> list[tuple[float, float]]:
        """Range of each free parameter in a fit on a graph: its unit of time widens the range."""
        if graph.time_unit == 1.0:
            return self.bounds
        shift = np.maximum(self.scaled(graph.time_unit).theta - self.theta, 0.0)
        return [(low, high + s) for (low, high), s in zip(self.bounds, shift.tolist(), strict=True)]

    def parameters(self) -> dict[str, Any]:
        """Arguments of the constructor that make this kernel again, by name.

        They are the attributes of the same names, unless a subclass overrides this. Files hold
        them, so they have to be numbers, texts or arrays (or lists) of numbers.
        """
        names = inspect.signature(type(self)).parameters
        missing = [name for name in names if not hasattr(self, name)]
        if missing:
            raise InvalidInputError(
                f"kernel: expected attributes named as the arguments of {type(self).__name__}, got "
                f"none for {', '.join(missing)}; override `parameters`"
            )
        return {name: getattr(self, name) for name in names}

    @cached_property
    def _tails(self) -> FloatArray:
        tails: FloatArray = np.cumsum(np.abs(self.modulation(LONG_SERIES))[::-1])[::-1]
        return tails

    @cached_property
    def _key(self) -> tuple[Any, ...]:
        """Class and parameters, by which kernels are compared whatever the parameters' types."""
        try:
            parameters = self.parameters()
        except InvalidInputError:  # of a class that does not keep its arguments
            return (id(self),)
        return type(self), *((k, repr(np.asarray(v).tolist())) for k, v in parameters.items())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GraphKernel) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def deconvolve(alpha: FloatArray) -> FloatArray:
    """`f` (n,) with `f * f = alpha`, by `f_k = (alpha_k - sum_{0<j<k} f_j f_{k-j}) / (2 f_0)`."""
    if not alpha[0] > 0:
        raise InvalidInputError(f"alpha: expected alpha_0 > 0, got {alpha[0]}")
    f = np.zeros(alpha.size)
    f[0] = np.sqrt(alpha[0])
    for k in range(1, alpha.size):
        f[k] = (alpha[k] - f[1:k] @ f[1:k][::-1]) / (2.0 * f[0])
    return f


def difference(h: FloatArray) -> FloatArray:
    """Coefficients (n,) of `(1 - x) H(x)`: `h_k - h_{k-1}`."""
    out = h.copy()
    out[1:] -= h[:-1]
    return out
