"""Covariances between sites: nodes of a graph, or vertices of a mesh or network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.inference.nodes.forecast import Forecast
from coupledgp.random import FloatArray, IntArray


class Sites(ABC):
    """Covariances K between sites under a kernel, divided by their mean variance over all sites.

    A site is the number of a node of a graph, or of a vertex of a mesh or network. Objects do not
    change: `with_theta` returns a new one, which shares the results for the graph or operator.

    Attributes
    ----------
    n_sites : int
        Number N of sites.
    kernel : Any
        The kernel.
    """

    n_sites: int
    kernel: Any

    @property
    @abstractmethod
    def theta(self) -> FloatArray:
        """Free parameters (n_parameters,) of the kernel: logarithms, or logits of shares."""

    @abstractmethod
    def with_theta(self, theta: FloatArray) -> Self:
        """The same sites and family of kernels at other parameters."""

    @abstractmethod
    def bounds(self) -> list[tuple[float, float]]:
        """Range of each free parameter in a search."""

    @abstractmethod
    def starts(self) -> list[FloatArray]:
        """Parameters (n_parameters,) at which a search may start, from local to wide kernels."""

    @property
    @abstractmethod
    def mean_variance(self) -> float:
        """Mean variance of the kernel over all sites, by which covariances are divided."""

    def components(self) -> IntArray:
        """Number (n_sites,) of the component of each site; of different ones are independent."""
        return np.zeros(self.n_sites, dtype=np.int64)

    @abstractmethod
    def grams(self, sites: IntArray, thetas: Sequence[FloatArray]) -> FloatArray:
        """`K[sites, sites]` at several parameters, shape (m, p, p), each symmetric to the bit."""

    @abstractmethod
    def product(self, out: IntArray, into: IntArray, V: FloatArray) -> FloatArray:
        """`K[out, into] V`, shape (len(out), k), for V (len(into), k)."""

    @abstractmethod
    def cross(self, a: IntArray, b: IntArray) -> FloatArray:
        """`K[a, b]`, shape (len(a), len(b))."""

    @abstractmethod
    def diagonal(self, sites: IntArray) -> FloatArray:
        """Variances `K_ii` of sites, shape (p,)."""

    @abstractmethod
    def sample(self, sites: IntArray, n_samples: int, rng: np.random.Generator) -> FloatArray:
        """Draws (p, n_samples) of a field of covariance K at sites."""

    @abstractmethod
    def forecast(self, n_sites: int) -> Forecast:
        """Seconds and memory of the first gram of `n_sites` sites at the present parameters."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """The domain, the kernel, how covariances are computed, and their normaliser."""

    def gram(self, sites: IntArray) -> FloatArray:
        """`K[sites, sites]`, shape (p, p), symmetric to the bit."""
        found: FloatArray = self.grams(sites, [self.theta])[0]
        return found

    def checked(self, sites: Any) -> IntArray:
        """Site numbers (p,); a number out of range is refused.

        Raises
        ------
        InvalidInputError
            Sites are no whole numbers from 0 to N - 1.
        """
        numbers = np.asarray(sites)
        if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
            raise InvalidInputError(
                f"sites: expected site numbers (p,), got {numbers.dtype} of shape {numbers.shape}"
            )
        bad = numbers[(numbers < 0) | (numbers >= self.n_sites)]
        if bad.size:
            raise InvalidInputError(
                f"sites: expected numbers from 0 to {self.n_sites - 1}, got {bad[:3].tolist()}"
            )
        return numbers.astype(np.int64)


def checked_theta(theta: FloatArray, size: int) -> FloatArray:
    """Parameters as floats (size,); others are refused."""
    found = np.asarray(theta, dtype=np.float64).reshape(-1)
    if found.size != size or not np.isfinite(found).all():
        raise InvalidInputError(f"theta: expected {size} finite numbers, got {found.tolist()}")
    return found
