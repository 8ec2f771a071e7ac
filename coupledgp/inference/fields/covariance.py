"""Whittle-Matern covariances between locations, by sparse factorisations of `kappa^2 M + S`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from scipy import sparse

from coupledgp.geometry import LaplaceOperator
from coupledgp.geometry.locations import location_rows
from coupledgp.inference.fields.precision_matrices import (
    edge_noise,
    edge_precision,
    is_exact_on_edges,
    shifted_stiffness,
)
from coupledgp.inference.linalg.selected_inverse import selected_inverse
from coupledgp.inference.linalg.sparse_cholesky import SparseFactor, elimination_order
from coupledgp.kernels.fields import WhittleMatern
from coupledgp.random import FloatArray, IntArray

Value = TypeVar("Value")
# Bytes of the columns of covariances that are kept, 1 GiB: the oldest go first.
KEPT_BYTES = 2**30
# Number of factors and of matrices of entries that are kept: those of a grid of ranges.
KEPT_FACTORS = 16


class Known(NamedTuple):
    """A kernel's entries at elements, (n, n) sparse, and its mean variance before scaling."""

    entries: sparse.csr_array
    mean_variance: float


class SurfaceCovariance:
    """Covariances of Whittle-Matern fields on an operator, of mean variance one.

    Factors, columns and entries that were computed are kept for the next question.

    Parameters
    ----------
    operator
        The surface or network.
    """

    def __init__(self, operator: LaplaceOperator) -> None:
        self.operator = operator
        self._order: IntArray | None = None
        self._factors: Kept[SparseFactor] = Kept(one, KEPT_FACTORS)
        self._known: Kept[Known] = Kept(one, 2 * KEPT_FACTORS)
        self._columns: Kept[FloatArray] = Kept(n_bytes, KEPT_BYTES)

    def cross(self, kernel: WhittleMatern, a: FloatArray, b: FloatArray) -> FloatArray:
        """Covariances (p, n) between locations a (p, ...) and b (n, ...), solved for from b."""
        return np.asarray(self._rows(a) @ self.columns(kernel, b))

    def gram(self, kernel: WhittleMatern, a: FloatArray) -> FloatArray:
        """Covariance (n, n) of locations a (n, ...), symmetric to the bit."""
        gram = self.cross(kernel, a, a)
        return 0.5 * (gram + gram.T)

    def variance(self, kernel: WhittleMatern, a: FloatArray) -> FloatArray:
        """Variances (p,) at locations a (p, ...), exact, without a solve for each."""
        rows, entries = self._rows(a), self.known(kernel).entries
        return np.asarray(rows.multiply(rows @ entries).sum(axis=1)).ravel()

    def columns(self, kernel: WhittleMatern, b: FloatArray) -> FloatArray:
        """Covariances (n_vertices, n) between all vertices and locations b (n, ...)."""
        key = (kernel, b.tobytes())
        found = self._columns.get(key)
        if found is None:
            found = self._solved(kernel, self._rows(b).T.toarray())
            found /= self.known(kernel).mean_variance
            self._columns.put(key, found)
        return found

    def _solved(self, kernel: WhittleMatern, V: FloatArray) -> FloatArray:
        """`P (M P)^(alpha - 1) V`."""
        assert kernel.alpha is not None
        factor, mass = self._factor(kernel), self.operator.mass[:, None]
        V = factor.solve(V)
        for _ in range(kernel.alpha - 1):
            V = factor.solve(mass * V)
        return V

    def known(self, kernel: WhittleMatern) -> Known:
        """Entries of the covariance at pairs of vertices of an element, of mean variance one."""
        found = self._known.get(kernel)
        if found is None:
            found = self._entries(kernel)
            self._known.put(kernel, found)
        return found

    def _entries(self, kernel: WhittleMatern) -> Known:
        """By the derivatives of the inverse: `d^j P / d(kappa^2)^j = j! (-1)^j P (M P)^j`."""
        assert kernel.alpha is not None
        alpha, matrix = kernel.alpha, self._matrix(kernel)
        square = kernel.kappa(self.operator.dimension) ** 2
        # The Taylor series in a relative change of kappa^2 has terms of like size.
        terms = selected_inverse(matrix, square * self.operator.mass, self._elimination(), alpha)
        entries = terms[alpha - 1] * (-1.0 / square) ** (alpha - 1)
        mass = self.operator.mass
        mean = float(mass @ entries.diagonal()) / float(mass.sum())
        return Known(sparse.csr_array(entries / mean), mean)

    def sample(self, kernel: WhittleMatern, n_samples: int, rng: np.random.Generator) -> FloatArray:
        """Draws (n_vertices, n_samples) of the field at all vertices, of mean variance one."""
        assert kernel.alpha is not None
        factor, mass = self._factor(kernel), self.operator.mass[:, None]
        if kernel.alpha == 1:
            kappa = kernel.kappa(self.operator.dimension)
            draws = factor.solve(edge_noise(self.operator, kappa, n_samples, rng))
        else:
            draws = factor.solve(np.sqrt(mass) * rng.standard_normal((len(mass), n_samples)))
            for _ in range(kernel.alpha // 2 - 1):
                draws = factor.solve(mass * draws)
        return draws / np.sqrt(self.known(kernel).mean_variance)

    def _rows(self, points: FloatArray) -> sparse.csr_array:
        return location_rows(points, self.operator.n_vertices)

    def _matrix(self, kernel: WhittleMatern) -> sparse.csr_array:
        assert kernel.alpha is not None
        kappa = kernel.kappa(self.operator.dimension)
        if is_exact_on_edges(self.operator, kernel.alpha):
            return edge_precision(self.operator, kappa)
        return shifted_stiffness(self.operator, kappa)

    def _factor(self, kernel: WhittleMatern) -> SparseFactor:
        """Factor of the kernel's matrix: kernels of one kappa share it."""
        assert kernel.alpha is not None
        exact = is_exact_on_edges(self.operator, kernel.alpha)
        key = (kernel.kappa(self.operator.dimension), exact)
        found = self._factors.get(key)
        if found is None:
            found = SparseFactor(self._matrix(kernel), self._elimination())
            self._factors.put(key, found)
        return found

    def _elimination(self) -> IntArray:
        if self._order is None:
            matrix = shifted_stiffness(self.operator, 1.0)
            self._order = elimination_order(matrix, self.operator.positions)
        return self._order


def one(value: Any) -> float:
    """The size of a value where values are counted."""
    return 1.0


def n_bytes(value: FloatArray) -> float:
    """The size of an array in bytes."""
    return float(value.nbytes)


class Kept(Generic[Value]):
    """Values by key, the least recently used forgotten when their sizes exceed a limit."""

    def __init__(self, size: Callable[[Value], float], limit: float) -> None:
        self._size, self._limit, self._total = size, limit, 0.0
        self._values: OrderedDict[Hashable, Value] = OrderedDict()

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies, in other processes too, start with nothing: factors of SuperLU cannot be copied.
        return type(self), (self._size, self._limit)

    def get(self, key: Hashable) -> Any:
        """The value of a key, or None."""
        if key in self._values:
            self._values.move_to_end(key)
        return self._values.get(key)

    def put(self, key: Hashable, value: Value) -> None:
        """Keep a value; the newest is kept whatever its size."""
        self._values[key] = value
        self._total += self._size(value)
        while self._total > self._limit and len(self._values) > 1:
            _, oldest = self._values.popitem(last=False)
            self._total -= self._size(oldest)
