"""Covariances between sites whose block of the sensors was learned from data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from coupledgp.errors import InvalidInputError
from coupledgp.inference.nodes.forecast import Forecast
from coupledgp.inference.space_time.site_base import Sites, checked_theta
from coupledgp.random import FloatArray, IntArray, symmetric_root

# Part of the mean variance of the sensors that is added to the diagonal that is solved with.
JITTER = 1e-10
# Sites whose variances are computed at once.
AT_ONCE = 4096


class LearnedSites(Sites):
    """`K(x, x') = K_g(x, x') - B_x K_g(S, x') + B_x C B_x'`, `B_x = K_g(x, S) K_g(S, S)^-1`.

    The sensors S have the covariance C, and other sites, given the sensors, the law that they have
    under the kernel. With `C = K_g(S, S)` it is the kernel. There are no free parameters.

    Parameters
    ----------
    inner
        Covariances under the kernel, `K_g`.
    sensors
        Distinct sites (p,) of the sensors, rising.
    covariance
        C (p, p), symmetric and positive semidefinite.
    """

    def __init__(self, inner: Sites, sensors: IntArray, covariance: FloatArray) -> None:
        self.inner, self.sensors = inner, inner.checked(sensors)
        shape = (self.sensors.size, self.sensors.size)
        if covariance.shape != shape or not (np.diff(self.sensors) > 0).all():
            raise InvalidInputError(
                f"covariance: expected shape {shape} for rising sensors, got {covariance.shape}"
            )
        self.covariance: FloatArray = 0.5 * (covariance + covariance.T)
        self.n_sites, self.kernel = inner.n_sites, inner.kernel
        gram = inner.gram(self.sensors)
        jitter = JITTER * float(np.diagonal(gram).mean())
        self._gram = gram
        self._factor = cho_factor(gram + jitter * np.eye(len(gram)), lower=True)

    @property
    def theta(self) -> FloatArray:
        return np.zeros(0)

    def with_theta(self, theta: FloatArray) -> Self:
        checked_theta(theta, 0)
        return self

    def components(self) -> IntArray:
        return self.inner.components()

    def bounds(self) -> list[tuple[float, float]]:
        return []

    def starts(self) -> list[FloatArray]:
        return [self.theta]

    @property
    def mean_variance(self) -> float:
        return self.inner.mean_variance

    def grams(self, sites: IntArray, thetas: Sequence[FloatArray]) -> FloatArray:
        found = self.product(sites, sites, np.eye(len(sites)))
        return np.repeat(0.5 * (found + found.T)[None], len(thetas), axis=0)

    def product(self, out: IntArray, into: IntArray, V: FloatArray) -> FloatArray:
        column = self._gathered(into, V)
        change = self.covariance @ column - self.inner.product(self.sensors, into, V)
        return self.inner.product(out, into, V) + self._spread(out, change)

    def cross(self, a: IntArray, b: IntArray) -> FloatArray:
        return self.product(a, b, np.eye(len(b)))

    def diagonal(self, sites: IntArray) -> FloatArray:
        found = self.inner.diagonal(sites).copy()
        change = self.covariance - self._gram
        for start in range(0, len(sites), AT_ONCE):
            part = slice(start, start + AT_ONCE)
            weights = self._weights(sites[part])
            found[part] += np.einsum("ij,ij->i", weights @ change, weights)
        return np.maximum(found, 0.0)

    def sample(self, sites: IntArray, n_samples: int, rng: np.random.Generator) -> FloatArray:
        every, places = np.unique(np.concatenate([sites, self.sensors]), return_inverse=True)
        own, at = np.split(places.reshape(-1), [len(sites)])
        drawn = self.inner.sample(every, n_samples, rng)
        normal = rng.standard_normal((len(self.sensors), n_samples))
        wanted = symmetric_root(self.covariance) @ normal
        return drawn[own] + self._spread(sites, wanted - drawn[at])

    def forecast(self, n_sites: int) -> Forecast:
        return self.inner.forecast(n_sites)

    def describe(self) -> dict[str, Any]:
        return self.inner.describe() | {"sensors": f"learned covariance of {self.sensors.size}"}

    def _places(self, sites: IntArray) -> tuple[IntArray, IntArray]:
        """Rows of sites that are sensors with their numbers there, -1 for other sites."""
        spots = np.minimum(np.searchsorted(self.sensors, sites), self.sensors.size - 1)
        number = np.where(self.sensors[spots] == sites, spots, -1)
        return np.flatnonzero(number < 0), number

    def _spread(self, out: IntArray, Y: FloatArray) -> FloatArray:
        """`B_out Y` for Y (p, k)."""
        others, number = self._places(out)
        found: FloatArray = Y[number]
        if others.size:
            solved = cho_solve(self._factor, Y)
            found[others] = self.inner.product(np.asarray(out)[others], self.sensors, solved)
        return found

    def _gathered(self, into: IntArray, V: FloatArray) -> FloatArray:
        """`B_into' V` for V (len(into), k)."""
        others, number = self._places(into)
        found = np.zeros((self.sensors.size, V.shape[1]))
        known = np.flatnonzero(number >= 0)
        np.add.at(found, number[known], V[known])
        if others.size:
            across = self.inner.product(self.sensors, np.asarray(into)[others], V[others])
            found += cho_solve(self._factor, across)
        return found

    def _weights(self, sites: IntArray) -> FloatArray:
        """`B_sites`, shape (len(sites), p)."""
        others, number = self._places(sites)
        found = np.eye(self.sensors.size)[number]
        if others.size:
            across = self.inner.cross(self.sensors, np.asarray(sites)[others])
            found[others] = cho_solve(self._factor, across).T
        return found


def under_kernel(sites: Sites) -> Sites:
    """Sites under their kernel alone, whatever was learned."""
    return sites.inner if isinstance(sites, LearnedSites) else sites
