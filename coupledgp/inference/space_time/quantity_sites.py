"""Sites of several quantities at the nodes of one domain: `B (x) K`.

Site `q N + i` is the quantity q at the node i. B (Q, Q) is a matrix of correlations, `B = L L'`,
row q of L being `(l_q1, .., l_q,q-1, 1, 0, ..)` over its norm, with free numbers l (linear model of
coregionalisation of one term; Goovaerts 1997).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.geometry import LaplaceOperator
from coupledgp.graphs import Graph
from coupledgp.inference.nodes.forecast import Forecast
from coupledgp.inference.space_time.site_base import Sites, checked_theta
from coupledgp.random import FloatArray, IntArray, symmetric_root

# Largest free number: correlations of two quantities are below 0.995.
MOST = 10.0
# Most quantities.
MOST_QUANTITIES = 16


@dataclass(frozen=True, eq=False)
class Quantities:
    """A domain with several quantities at each of its nodes, whose labels are (quantity, node).

    Attributes
    ----------
    domain : Graph or LaplaceOperator
        The domain of each quantity.
    names : tuple of str
        Names of the quantities.
    offset, scale : FloatArray (Q,)
        Mean and standard deviation of each quantity in its units, by which values are standardised.
    """

    domain: Graph | LaplaceOperator
    names: tuple[str, ...]
    offset: FloatArray
    scale: FloatArray

    def __post_init__(self) -> None:
        if not 1 <= len(set(self.names)) == len(self.names) <= MOST_QUANTITIES:
            raise InvalidInputError(
                f"quantities: expected 1 to {MOST_QUANTITIES} different names, got "
                f"{list(self.names)!r:.200}"
            )


class QuantitySites(Sites):
    """Covariances `B (x) K` between quantities at nodes.

    Parameters
    ----------
    inner
        Covariances K between the nodes.
    quantities
        The quantities.
    loadings
        Free numbers l (Q (Q - 1) / 2,) by rows of L; zeros where they are not given.
    """

    def __init__(
        self, inner: Sites, quantities: Quantities, loadings: FloatArray | None = None
    ) -> None:
        self.inner, self.quantities = inner, quantities
        count = len(quantities.names)
        size = count * (count - 1) // 2
        self.loadings = checked_theta(np.zeros(size) if loadings is None else loadings, size)
        self.n_sites, self.kernel = inner.n_sites * count, inner.kernel

    @property
    def correlation(self) -> FloatArray:
        """B (Q, Q)."""
        return correlation_of(self.loadings, len(self.quantities.names))

    @property
    def theta(self) -> FloatArray:
        """Parameters of K, then l."""
        return np.concatenate([self.inner.theta, self.loadings])

    def _split(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        size = self.inner.theta.size
        found = checked_theta(theta, size + self.loadings.size)
        return found[:size], found[size:]

    def with_theta(self, theta: FloatArray) -> QuantitySites:
        own, loadings = self._split(theta)
        return QuantitySites(self.inner.with_theta(own), self.quantities, loadings)

    def bounds(self) -> list[tuple[float, float]]:
        return self.inner.bounds() + [(-MOST, MOST)] * self.loadings.size

    def starts(self) -> list[FloatArray]:
        return [np.concatenate([own, self.loadings]) for own in self.inner.starts()]

    @property
    def mean_variance(self) -> float:
        return self.inner.mean_variance

    def components(self) -> IntArray:
        return np.tile(self.inner.components(), len(self.quantities.names))

    def _places(self, sites: IntArray) -> tuple[IntArray, IntArray]:
        """Quantity and node (p,) of sites."""
        found = np.asarray(sites)
        return found // self.inner.n_sites, found % self.inner.n_sites

    def grams(self, sites: IntArray, thetas: Sequence[FloatArray]) -> FloatArray:
        quantity, node = self._places(sites)
        nodes, rows = np.unique(node, return_inverse=True)
        split = [self._split(theta) for theta in thetas]
        grams = self.inner.grams(nodes, [own for own, _ in split])
        count = len(self.quantities.names)
        whole = np.ix_(rows, rows)
        return np.stack([
            gram[whole] * correlation_of(loadings, count)[np.ix_(quantity, quantity)]
            for gram, (_, loadings) in zip(grams, split, strict=True)
        ])  # fmt: skip

    def product(self, out: IntArray, into: IntArray, V: FloatArray) -> FloatArray:
        (to, at), (quantity, node) = self._places(out), self._places(into)
        found, B = np.zeros((len(at), V.shape[1])), self.correlation
        for q in np.unique(quantity).tolist():
            part = quantity == q
            found += B[to, q][:, None] * self.inner.product(at, node[part], V[part])
        return found

    def cross(self, a: IntArray, b: IntArray) -> FloatArray:
        (qa, na), (qb, nb) = self._places(a), self._places(b)
        return self.inner.cross(na, nb) * self.correlation[np.ix_(qa, qb)]

    def diagonal(self, sites: IntArray) -> FloatArray:
        return self.inner.diagonal(self._places(sites)[1])

    def sample(self, sites: IntArray, n_samples: int, rng: np.random.Generator) -> FloatArray:
        quantity, node = self._places(sites)
        nodes, rows = np.unique(node, return_inverse=True)
        count = len(self.quantities.names)
        drawn = self.inner.sample(nodes, n_samples * count, rng).reshape(-1, n_samples, count)
        mixed = drawn @ symmetric_root(self.correlation)
        return np.asarray(mixed[rows, :, quantity])

    def forecast(self, n_sites: int) -> Forecast:
        return self.inner.forecast(n_sites)

    def describe(self) -> dict[str, Any]:
        names = ", ".join(self.quantities.names)
        return self.inner.describe() | {
            "quantities": names, "correlations": np.round(self.correlation, 3).tolist(),
        }  # fmt: skip


def correlation_of(loadings: FloatArray, count: int) -> FloatArray:
    """B (Q, Q) of free numbers l."""
    L = np.eye(count)
    L[np.tril_indices(count, -1)] = loadings
    L /= np.linalg.norm(L, axis=1, keepdims=True)
    return np.asarray(L @ L.T)
