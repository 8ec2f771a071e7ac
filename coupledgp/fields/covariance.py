"""Covariances of fields between locations: Whittle-Matern ones, and sums with those of position."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist

from coupledgp.errors import ModelFileError
from coupledgp.features import FourierFeatures
from coupledgp.fields import LaplaceOperator
from coupledgp.fields.locations import at_corners, location_positions, location_rows
from coupledgp.fields.precision import (
    edge_noise,
    edge_precision,
    is_exact_on_edges,
    shifted_stiffness,
)
from coupledgp.ground.codec import check_range, stored
from coupledgp.ground.tensors import torch
from coupledgp.ground.validation import LARGEST_PRODUCT, SMALLEST_PRODUCT
from coupledgp.kernels.fields import ALPHAS, FieldKernel, PositionKernel, WhittleMatern
from coupledgp.linalg.selected_inverse import selected_inverse
from coupledgp.linalg.sparse_cholesky import SparseFactor, elimination_order
from coupledgp.random import FloatArray, IntArray

Value = TypeVar("Value")
# Bytes of the columns of covariances that are kept, 1 GiB: the oldest go first.
KEPT_BYTES = 2**30
# Number of factors and of matrices of entries that are kept: those of a grid of ranges.
KEPT_FACTORS = 16
# Places whose features are formed at once.
BLOCK_ROWS = 4096


@stored
class StoredCovariance(NamedTuple):
    """Covariances in a file."""

    operator: LaplaceOperator

    def read_back(self) -> FieldCovariance:
        """The covariances."""
        return FieldCovariance(self.operator)


class FieldCovariance:
    """Covariances of unit amplitude, `share K_surface + (1 - share) K_position`.

    Parameters
    ----------
    operator
        The surface or network.
    """

    def __init__(self, operator: LaplaceOperator) -> None:
        self.operator = operator
        self.surface = SurfaceCovariance(operator)

    def as_stored(self) -> StoredCovariance:
        """The operator, of which it is made."""
        return StoredCovariance(self.operator)

    def cross(self, kernel: FieldKernel, a: FloatArray, b: FloatArray) -> FloatArray:
        """Covariances (p, n) between locations a (p, ...) and b (n, ...), solved for from b."""
        share = _share(kernel)
        total = np.zeros((len(a), len(b)))
        if kernel.surface is not None:
            total += share * self.surface.cross(kernel.surface, a, b)
        if kernel.position is not None:
            total += (1.0 - share) * self.position(kernel.position, a, b)
        return total

    def gram(self, kernel: FieldKernel, a: FloatArray) -> FloatArray:
        """Covariance (n, n) of locations a (n, ...), symmetric to the bit."""
        share = _share(kernel)
        total = np.zeros((len(a), len(a)))
        if kernel.surface is not None:
            total += share * self.surface.gram(kernel.surface, a)
        if kernel.position is not None:
            total += (1.0 - share) * self.position(kernel.position, a, a)
        return 0.5 * (total + total.T)

    def product(
        self, kernel: FieldKernel, a: FloatArray, b: FloatArray, V: FloatArray
    ) -> FloatArray:
        """Covariances (p, n) between locations a (p, ...) and b (n, ...) times V (n, k)."""
        share = _share(kernel)
        total = np.zeros((len(a), V.shape[1]))
        if kernel.surface is not None:
            total += share * self.surface.product(kernel.surface, a, b, V)
        if kernel.position is not None:
            for start in range(0, len(a), BLOCK_ROWS):
                rows = slice(start, start + BLOCK_ROWS)
                total[rows] += (1.0 - share) * (self.position(kernel.position, a[rows], b) @ V)
        return total

    def variance(self, kernel: FieldKernel, a: FloatArray) -> FloatArray:
        """Variances (p,) at locations a (p, ...)."""
        share = _share(kernel)
        total = np.full(len(a), 0.0 if kernel.position is None else 1.0 - share)
        if kernel.surface is not None:
            total += share * self.surface.variance(kernel.surface, a)
        return total

    def sample(
        self,
        kernel: FieldKernel,
        a: FloatArray,
        n_samples: int,
        rng: np.random.Generator,
        n_frequencies: int,
    ) -> FloatArray:
        """Draws (p, n_samples) at locations a (p, ...); position by random Fourier features."""
        share = _share(kernel)
        total = np.zeros((len(a), n_samples))
        if kernel.surface is not None:
            vertices = self.surface.sample(kernel.surface, n_samples, rng)
            rows = location_rows(a, self.operator.n_vertices)
            total += np.sqrt(share) * (rows @ vertices)
        if kernel.position is not None:
            places = torch.as_tensor(self._scaled(kernel.position, a))
            features = FourierFeatures(
                places.shape[1], n_frequencies, spectrum=kernel.position.spectrum, generator=rng
            )
            weights = torch.as_tensor(rng.standard_normal((features.n_features, n_samples)))
            for start in range(0, len(a), BLOCK_ROWS):
                block = features(places[start : start + BLOCK_ROWS]) @ weights
                total[start : start + BLOCK_ROWS] += np.sqrt(1.0 - share) * block.numpy()
        return total

    def position(self, kernel: PositionKernel, a: FloatArray, b: FloatArray) -> FloatArray:
        """Covariances (p, n) of the part of position."""
        distances = cdist(self._scaled(kernel, a), self._scaled(kernel, b))
        return np.asarray(kernel.spectrum.kernel(distances))

    def _scaled(self, kernel: PositionKernel, points: FloatArray) -> FloatArray:
        """`places` of locations (p, ...) in units of the lengthscale."""
        assert kernel.lengthscale is not None
        return self.places(points, kernel) / kernel.lengthscale

    def places(self, points: FloatArray, kernel: PositionKernel) -> FloatArray:
        """Positions, then columns as lengths (p, d + k), of locations (p, ...).

        Columns follow where the kernel gives any of them a length. Positions are missing where the
        operator has none.
        """
        parts, operator = [], self.operator
        if operator.positions is not None:
            parts.append(location_positions(points, operator.positions))
        if kernel.columns and any(kernel.columns):
            assert operator.place_columns is not None
            lengths = np.array(kernel.columns)[operator.place_columns.owner]
            parts.append((operator.column_values(points) * lengths)[:, lengths > 0])
        return np.hstack(parts) if parts else np.zeros((len(points), 1))

    def center(self, kernel: PositionKernel) -> FloatArray:
        """Centre (d + k,) of the bounding box of `places`."""
        vertices = at_corners(np.arange(self.operator.n_vertices), self.operator.elements.shape[1])
        places = self.places(vertices, kernel)
        return np.asarray((places.min(axis=0) + places.max(axis=0)) / 2)


def _share(kernel: FieldKernel) -> float:
    assert kernel.share is not None
    return kernel.share


class Shift(NamedTuple):
    """The matrix that kernels of one kappa share: `kappa^2 M + S`, or the exact one of edges."""

    kappa: float
    exact: bool


class ElementCovariance(NamedTuple):
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
        self._factors: SizedCache[SparseFactor] = SizedCache(one, KEPT_FACTORS)
        self._known: SizedCache[ElementCovariance] = SizedCache(one, 4 * KEPT_FACTORS)
        self._columns: SizedCache[FloatArray] = SizedCache(n_bytes, KEPT_BYTES)

    def cross(self, kernel: WhittleMatern, a: FloatArray, b: FloatArray) -> FloatArray:
        """Covariances (p, n) between locations a (p, ...) and b (n, ...), solved for from b."""
        return np.asarray(self._rows(a) @ self.columns(kernel, b))

    def gram(self, kernel: WhittleMatern, a: FloatArray) -> FloatArray:
        """Covariance (n, n) of locations a (n, ...), symmetric to the bit.

        For even alpha it is `Z' M Z` with `Z = P (M P)^(alpha / 2 - 1) A'`, half the solves.
        """
        assert kernel.alpha is not None
        if kernel.alpha % 2:
            gram = self.cross(kernel, a, a)
        else:
            Z = self._power(self._shift(kernel), a, kernel.alpha // 2)
            gram = (Z.T * self.operator.mass) @ Z / self.known(kernel).mean_variance
        return 0.5 * (gram + gram.T)

    def product(
        self, kernel: WhittleMatern, a: FloatArray, b: FloatArray, V: FloatArray
    ) -> FloatArray:
        """Covariances (p, n) between locations a (p, ...) and b (n, ...) times V (n, k).

        The solves are of k columns, whatever p and n.
        """
        assert kernel.alpha is not None
        factor, mass = self._factor(self._shift(kernel)), self.operator.mass[:, None]
        solved = factor.solve(np.asarray(self._rows(b).T @ V))
        for _ in range(kernel.alpha - 1):
            solved = factor.solve(mass * solved)
        return np.asarray(self._rows(a) @ solved) / self.known(kernel).mean_variance

    def variance(self, kernel: WhittleMatern, a: FloatArray) -> FloatArray:
        """Variances (p,) at locations a (p, ...), exact, without a solve for each."""
        rows, entries = self._rows(a), self.known(kernel).entries
        return np.asarray(rows.multiply(rows @ entries).sum(axis=1)).ravel()

    def columns(self, kernel: WhittleMatern, b: FloatArray) -> FloatArray:
        """Covariances (n_vertices, n) between all vertices and locations b (n, ...)."""
        assert kernel.alpha is not None
        solved = self._power(self._shift(kernel), b, kernel.alpha)
        return solved / self.known(kernel).mean_variance

    def _power(self, shift: Shift, b: FloatArray, exponent: int) -> FloatArray:
        """`P (M P)^(exponent - 1) B'` (n_vertices, n); lower powers are made and kept first."""
        key = (shift, exponent, b.tobytes())
        found = self._columns.get(key)
        if found is None:
            if exponent == 1:
                right = self._rows(b).T.toarray()
            else:
                right = self.operator.mass[:, None] * self._power(shift, b, exponent - 1)
            found = self._factor(shift).solve(right)
            self._columns.put(key, found)
        return found

    def known(self, kernel: WhittleMatern) -> ElementCovariance:
        """Entries of the covariance at pairs of vertices of an element, of mean variance one."""
        assert kernel.alpha is not None
        shift = self._shift(kernel)
        found = self._known.get((shift, kernel.alpha))
        if found is None:
            # The series of a higher alpha holds the terms of a lower one of the same kappa.
            highest = 1 if shift.exact else max(kernel.alpha, *ALPHAS[self.operator.dimension])
            for alpha, known in enumerate(self._entries(shift, highest), start=1):
                self._known.put((shift, alpha), known)
            found = self._known.get((shift, kernel.alpha))
        assert found is not None
        return found

    def _entries(self, shift: Shift, highest: int) -> list[ElementCovariance]:
        """Entries of the covariances of alpha from 1 to the highest, by derivatives of the inverse.

        `d^j P / d(kappa^2)^j = (-1)^j j! P (M P)^j`; the Taylor series in a relative change of
        kappa^2 has terms of like size.
        """
        mass, square = self.operator.mass, shift.kappa**2
        terms = selected_inverse(self._matrix(shift), square * mass, self._elimination(), highest)
        found = []
        for j, term in enumerate(terms):
            entries = term * (-1.0 / square) ** j
            mean = float(mass @ entries.diagonal()) / float(mass.sum())
            found.append(ElementCovariance(sparse.csr_array(entries / mean), mean))
        return found

    def sample(self, kernel: WhittleMatern, n_samples: int, rng: np.random.Generator) -> FloatArray:
        """Draws (n_vertices, n_samples) of the field at all vertices, of mean variance one."""
        assert kernel.alpha is not None
        shift, mass = self._shift(kernel), self.operator.mass[:, None]
        factor = self._factor(shift)
        if kernel.alpha == 1:
            draws = factor.solve(edge_noise(self.operator, shift.kappa, n_samples, rng))
        else:
            draws = factor.solve(np.sqrt(mass) * rng.standard_normal((len(mass), n_samples)))
            for _ in range(kernel.alpha // 2 - 1):
                draws = factor.solve(mass * draws)
        return draws / np.sqrt(self.known(kernel).mean_variance)

    def _rows(self, points: FloatArray) -> sparse.csr_array:
        return location_rows(points, self.operator.n_vertices)

    def _shift(self, kernel: WhittleMatern) -> Shift:
        assert kernel.alpha is not None
        exact = is_exact_on_edges(self.operator, kernel.alpha)
        return Shift(kernel.kappa(self.operator.dimension), exact)

    def _matrix(self, shift: Shift) -> sparse.csr_array:
        if shift.exact:
            return edge_precision(self.operator, shift.kappa)
        return shifted_stiffness(self.operator, shift.kappa)

    def _factor(self, shift: Shift) -> SparseFactor:
        found: SparseFactor | None = self._factors.get(shift)
        if found is None:
            found = SparseFactor(self._matrix(shift), self._elimination())
            self._factors.put(shift, found)
        return found

    def _elimination(self) -> IntArray:
        if self._order is None:
            matrix = shifted_stiffness(self.operator, 1.0)
            self._order = elimination_order(matrix, self.operator.positions)
        return self._order


def one(value: Any) -> float:
    """The size of any value, where a store counts values."""
    return 1.0


def n_bytes(value: FloatArray) -> float:
    """The size of an array in bytes."""
    return float(value.nbytes)


class SizedCache(Generic[Value]):
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
        """Store a value; the newest stays whatever its size."""
        if key in self._values:
            self._total -= self._size(self._values.pop(key))
        self._values[key] = value
        self._total += self._size(value)
        while self._total > self._limit and len(self._values) > 1:
            _, oldest = self._values.popitem(last=False)
            self._total -= self._size(oldest)


def check_kernel(kernel: FieldKernel, operator: LaplaceOperator) -> None:
    """Refuse a kernel of a file that an operator does not have."""
    if kernel.surface is not None:
        kernel.surface.check(operator.dimension)
        check_range(kernel.surface, SMALLEST_PRODUCT, LARGEST_PRODUCT, "range_")
    if kernel.position is not None:
        check_range(kernel.position, SMALLEST_PRODUCT, LARGEST_PRODUCT, "lengthscale")
        columns = kernel.position.columns or ()
        if len(columns) not in (0, operator.n_columns):
            raise ModelFileError(f"columns: expected {operator.n_columns} lengths, got others")
        if operator.positions is None and not any(columns):
            raise ModelFileError("kernel: expected positions, got an operator without")
