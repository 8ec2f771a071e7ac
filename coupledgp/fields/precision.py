"""Precisions of Whittle-Matern fields on one sparse pattern, for any range.

With `P = (kappa^2 M + S)^-1` and alpha = 2 the field at the vertices has the precision

    Q = c (kappa^2 M + S) M^-1 (kappa^2 M + S) = c (kappa^4 M + 2 kappa^2 S + S M^-1 S)

which is a sum of three matrices that do not depend on kappa; with alpha = 1 on networks Q is c
times the exact precision edge by edge. c is the variance of the field on an infinite flat surface,
so that variances are about one; the exact mean variance is left to the caller.

Matrices whose inverses make Whittle-Matern covariances: `kappa^2 M + S`, exact on networks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from coupledgp.fields import LaplaceOperator
from coupledgp.linalg.block_factor import BlockFactor
from coupledgp.linalg.sparse_cholesky import elimination_order
from coupledgp.linalg.supernodes import Supernodes
from coupledgp.random import FloatArray, IntArray

# Product of kappa and an edge's length beyond which the two ends of the edge are independent.
FAR_APART = 350.0


def is_exact_on_edges(operator: LaplaceOperator, alpha: int) -> bool:
    """Whether the covariance has a closed form on each edge: on networks with alpha = 1."""
    return alpha == 1 and operator.element_lengths is not None


def shifted_stiffness(operator: LaplaceOperator, kappa: float) -> sparse.csr_array:
    """`kappa^2 M + S`, positive definite (n, n).

    Every pair of vertices of an element has a stored entry, zero or not: the stiffness links the
    vertices of intrinsic triangles, which may be others, and the entries of the inverse are wanted
    where places on elements need them.
    """
    stiffness = operator.stiffness.tocoo()
    n, corners = operator.n_vertices, operator.elements
    width = corners.shape[1]
    first, second = np.repeat(corners, width, axis=1), np.tile(corners, (1, width))
    every = np.arange(n)
    rows = np.concatenate([stiffness.row, every, first.ravel()])
    columns = np.concatenate([stiffness.col, every, second.ravel()])
    values = np.concatenate([stiffness.data, kappa**2 * operator.mass, np.zeros(first.size)])
    return sparse.csr_array(sparse.coo_array((values, (rows, columns)), shape=(n, n)))


def edge_precision(operator: LaplaceOperator, kappa: float) -> sparse.csr_array:
    """Precision (n, n) of the Whittle-Matern field with alpha = 1 at the vertices of a network.

    An edge of length l adds `kappa coth(kappa l)` to the diagonal of both ends and
    `-kappa / sinh(kappa l)` between them: the law at the vertices is exact however long the edges
    are (Bolin, Simas and Wallin, 2024). A vertex without an edge has the precision
    `kappa^2 M_i` of the finite elements.
    """
    assert operator.element_lengths is not None
    length = kappa * operator.element_lengths
    near = length < FAR_APART
    diagonal = np.full(length.size, kappa)
    diagonal[near] = kappa / np.tanh(length[near])
    across = np.zeros(length.size)
    across[near] = -kappa / np.sinh(length[near])
    return edge_matrix(operator, diagonal, across, kappa**2)


def edge_matrix(
    operator: LaplaceOperator, diagonal: FloatArray, across: FloatArray, alone: float
) -> sparse.csr_array:
    """Matrix (n, n) of a network whose edges add `diagonal` to both ends, `across` between them.

    A vertex without an edge has `alone` times its mass.
    """
    (start, end), n = operator.elements.T, operator.n_vertices
    total = np.bincount(start, diagonal, n) + np.bincount(end, diagonal, n)
    lonely = total == 0
    total[lonely] = alone * operator.mass[lonely]
    rows = np.concatenate([start, end, np.arange(n)])
    columns = np.concatenate([end, start, np.arange(n)])
    values = np.concatenate([across, across, total])
    return sparse.csr_array(sparse.coo_array((values, (rows, columns)), shape=(n, n)))


def edge_noise(
    operator: LaplaceOperator, kappa: float, n_samples: int, rng: np.random.Generator
) -> FloatArray:
    """Draws (n, n_samples) whose covariance is `edge_precision`."""
    assert operator.element_lengths is not None
    start, end = operator.elements.T
    length = np.minimum(kappa * operator.element_lengths, FAR_APART)
    # coth - 1 / sinh = tanh of the half: what remains of the diagonal beside the differences.
    own = kappa * np.tanh(length / 2)
    n = operator.n_vertices
    rest = np.bincount(start, own, n) + np.bincount(end, own, n)
    alone = rest == 0
    rest[alone] = kappa**2 * operator.mass[alone]
    draws = np.sqrt(rest)[:, None] * rng.standard_normal((n, n_samples))
    currents = np.sqrt(kappa / np.sinh(length))[:, None] * rng.standard_normal(
        (length.size, n_samples)
    )
    np.add.at(draws, start, currents)
    np.subtract.at(draws, end, currents)
    return draws


BoolArray: TypeAlias = NDArray[np.bool_]
# Largest `S_ii^2 / M_i` over their median; share of the mean mass up to which masses are raised.
MOST_STIFF, LEAST_MASS = 1e8, 1e-3
# Product of kappa and an edge's length below which derivatives are taken from their series.
SHORT = 0.01


class PriorPrecision(NamedTuple):
    """Precision of a field at one range.

    Attributes
    ----------
    values : FloatArray (e,)
        Q at the entries of the pattern.
    log_determinant : float
        `log|Q|`.
    slope : FloatArray (e,) or None
        Derivative of the values in `log kappa`, if it was asked for.
    determinant_slope : float
        Derivative of `log|Q|` in `log kappa`; zero if it was not asked for.
    """

    values: FloatArray
    log_determinant: float
    slope: FloatArray | None = None
    determinant_slope: float = 0.0


class SparsePattern:
    """A symmetric pattern with the blocks in which its matrices are factorised.

    Parameters
    ----------
    matrices
        Matrices (n, n) of symmetric pattern whose entries, and the diagonal, are the pattern.
    positions
        Positions (n, d) of the vertices, for the order of elimination, or None.
    """

    def __init__(self, matrices: list[sparse.csr_array], positions: FloatArray | None) -> None:
        n = matrices[0].shape[0]
        parts = [*matrices, sparse.eye_array(n, format="csr")]
        rows = np.concatenate([np.repeat(np.arange(n), np.diff(m.indptr)) for m in parts])
        columns = np.concatenate([m.indices for m in parts]).astype(np.int64)
        self.keys = np.unique(rows * n + columns)  # of entries, row by row
        indptr = np.searchsorted(self.keys, n * np.arange(n + 1))
        arrays = np.ones(self.keys.size), self.keys % n, indptr
        self.matrix = sparse.csr_array(arrays, shape=(n, n))
        order = elimination_order(self.matrix, positions)
        self.nodes = Supernodes.of(self.matrix, order)
        columns = np.repeat(np.arange(n), np.diff(self.nodes.entry_starts))
        # Entries below the diagonal stand for two.
        self._copies = np.where(self.nodes.entry_rows == columns, 1.0, 2.0)

    def holds(self, matrix: sparse.csr_array) -> bool:
        """Whether the pattern has all entries of a matrix."""
        keys = self._keys_of(matrix)
        places = np.minimum(np.searchsorted(self.keys, keys), self.keys.size - 1)
        return bool((self.keys[places] == keys).all())

    def values(self, matrix: sparse.csr_array) -> FloatArray:
        """Entries (e,) of a matrix that the pattern holds."""
        keys = self._keys_of(matrix)
        places = np.searchsorted(self.keys, keys)
        return np.bincount(places, matrix.data, self.keys.size).astype(np.float64)

    def with_identity(self, values: FloatArray, kept: BoolArray, diagonal: float) -> FloatArray:
        """Entries (e,), a multiple of the identity in rows and columns that are not kept (n,)."""
        if kept.all():
            return values
        rows, columns = np.divmod(self.keys, kept.size)
        identity = np.where(rows == columns, diagonal, 0.0)
        return np.where(kept[rows] & kept[columns], values, identity)

    def with_values(self, values: FloatArray) -> sparse.csr_array:
        """The matrix of entries (e,)."""
        parts = values, self.matrix.indices, self.matrix.indptr
        return sparse.csr_array(parts, shape=self.matrix.shape)

    def trace(self, lower: FloatArray, values: FloatArray) -> float:
        """`tr(Z X)` of Z, by its entries in the lower triangle, and X, by its entries (e,)."""
        return float((self._copies * lower) @ values[self.nodes.places])

    def _keys_of(self, matrix: sparse.csr_array) -> IntArray:
        n = matrix.shape[0]
        rows = np.repeat(np.arange(n), np.diff(matrix.indptr))
        return rows * n + matrix.indices.astype(np.int64)


@dataclass(frozen=True, eq=False)
class FieldPrecision:
    """Precisions of the Whittle-Matern fields of one alpha on an operator.

    Attributes
    ----------
    operator : LaplaceOperator
        The surface or network.
    alpha : int
        2, or 1 on a network.
    pattern : SparsePattern
        Pattern of Q and of all pairs of vertices of an element.
    root_pattern : SparsePattern
        Pattern of `kappa^2 M + S`.
    stiffness : sparse.csr_array (n, n)
        S of the operator, moderated where its square would leave no digits.
    mass : FloatArray (n,)
        M of the operator, moderated likewise.
    observed : BoolArray (n,)
        Vertices of components with observations. On the others nothing but `kappa^4 M` would keep Q
        from being singular, which rounding hides where elements are stiff: there Q is the identity,
        which says the same about the observations, and the field has to be taken from its prior.
    """

    operator: LaplaceOperator
    alpha: int
    pattern: SparsePattern
    root_pattern: SparsePattern
    stiffness: sparse.csr_array
    mass: FloatArray
    observed: BoolArray

    @classmethod
    def of(
        cls, operator: LaplaceOperator, alpha: int, rows: sparse.csr_array | None = None
    ) -> FieldPrecision:
        """Find the patterns for rows A (n, n_vertices); None: all components are observed."""
        root = shifted_stiffness(operator, 1.0)
        n_corners = operator.elements.shape[1]
        ends = np.array([(i, j) for i in range(n_corners) for j in range(n_corners)])
        pairs = operator.elements[:, ends].reshape(-1, 2)
        elements = sparse.coo_array((np.ones(len(pairs)), tuple(pairs.T)), shape=root.shape)
        parts = [as_pattern(root), sparse.csr_array(elements)]
        if alpha == 2:
            parts[0] = parts[0] @ parts[0]
        if rows is not None:
            ones = as_pattern(rows)
            parts.append(sparse.csr_array(ones.T @ ones))
        places = operator.positions
        matrices = operator.stiffness, operator.mass
        if alpha == 2:
            matrices = moderated(*matrices)
        return cls(
            operator, alpha, SparsePattern(parts, places), SparsePattern([root], places),
            *matrices, observed_vertices(operator, rows),
        )  # fmt: skip

    def serves(self, rows: sparse.csr_array) -> bool:
        """Whether it is the precision of these observations, rows (n, n_vertices), too."""
        held = self.pattern.holds(sparse.csr_array(rows.T @ rows))
        return held and np.array_equal(observed_vertices(self.operator, rows), self.observed)

    def at(self, kappa: float, with_slope: bool = False) -> PriorPrecision:
        """The precision at a kappa, per unit of length."""
        root, root_slope = self._root(kappa)
        own, kept = self.root_pattern, self.observed
        factor = BlockFactor(own.nodes, own.with_identity(own.values(root), kept, 1.0))
        n, smoothness = self.operator.n_vertices, self.alpha - self.operator.dimension / 2
        scale = flat_variance(kappa, self.alpha, self.operator.dimension)
        values, slope = self._values(kappa, root, root_slope)
        values = self.pattern.with_identity(values, kept, 1.0)
        log_determinant = self.alpha * factor.log_determinant + n * np.log(scale)
        if self.alpha == 2:
            log_determinant -= np.log(self.mass[kept]).sum()
        if not with_slope:
            return PriorPrecision(scale * values, float(log_determinant))
        trace = own.trace(
            factor.selected()[0], own.with_identity(own.values(root_slope), kept, 0.0)
        )
        slope = self.pattern.with_identity(slope, kept, 0.0)
        return PriorPrecision(
            scale * values,
            float(log_determinant),
            scale * (slope - 2 * smoothness * values),
            self.alpha * trace - 2 * smoothness * n,
        )

    def noise(self, kappa: float, n_samples: int, rng: np.random.Generator) -> FloatArray:
        """Draws (n_vertices, n_samples) whose covariance is Q on components with observations."""
        root = np.sqrt(flat_variance(kappa, self.alpha, self.operator.dimension))
        if self.alpha == 1:
            return root * edge_noise(self.operator, kappa, n_samples, rng)
        mass = self.mass[:, None]
        white = rng.standard_normal((mass.size, n_samples)) / np.sqrt(mass)
        return root * np.asarray(self._root(kappa)[0] @ white)

    def _root(self, kappa: float) -> tuple[sparse.csr_array, sparse.csr_array]:
        """The matrix that is factorised for the determinant, and its derivative in `log kappa`."""
        if self.alpha == 1:
            return edge_precision(self.operator, kappa), edge_slope(self.operator, kappa)
        slope = sparse.csr_array(sparse.diags_array(2 * kappa**2 * self.mass))
        return sparse.csr_array(self.stiffness + 0.5 * slope), slope

    def _values(
        self, kappa: float, root: sparse.csr_array, root_slope: sparse.csr_array
    ) -> tuple[FloatArray, FloatArray]:
        """Entries of Q, without its scale, and their derivatives in `log kappa`."""
        if self.alpha == 1:
            return self.pattern.values(root), self.pattern.values(root_slope)
        mass, stiffness, square = self._parts
        values = kappa**4 * mass + 2 * kappa**2 * stiffness + square
        return values, 4 * kappa**4 * mass + 4 * kappa**2 * stiffness

    @cached_property
    def _parts(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Entries of M, S and `S M^-1 S`."""
        mass, stiffness = self.mass, self.stiffness
        square = sparse.csr_array(stiffness @ sparse.diags_array(1 / mass) @ stiffness)
        diagonal = sparse.csr_array(sparse.diags_array(mass))
        parts = (diagonal, sparse.csr_array(stiffness), square)
        found = tuple(self.pattern.values(part) for part in parts)
        return found[0], found[1], found[2]


def observed_vertices(operator: LaplaceOperator, rows: sparse.csr_array | None) -> BoolArray:
    """Vertices (n_vertices,) of components with observations, rows (n, n_vertices)."""
    if rows is None:
        return np.ones(operator.n_vertices, dtype=bool)
    _, member = operator.components()
    return np.isin(member, member[np.unique(rows.indices)])


def moderated(stiffness: sparse.csr_array, mass: FloatArray) -> tuple[sparse.csr_array, FloatArray]:
    """Stiffness and mass whose `S_ii^2 / M_i` are at most `MOST_STIFF` times their median.

    Entries of `S M^-1 S` are rounded by 1e-16 of the largest, which has to be little beside the
    precision of a smooth field. Needles and vertices with next to no area exceed that: their mass
    is raised first, up to `LEAST_MASS` of the mean, and then their stiffness lowered. Vertices that
    stiff stay as good as tied to each other. Ordinary meshes are returned as they are.
    """
    diagonal = stiffness.diagonal()
    limit = MOST_STIFF * float(np.median(diagonal**2 / mass))
    excess = diagonal**2 / np.maximum(limit, np.finfo(float).tiny)
    if (excess <= mass).all():
        return stiffness, mass
    raised = np.maximum(mass, np.minimum(excess, LEAST_MASS * mass.mean()))
    factor = np.minimum(1.0, np.sqrt(raised / np.maximum(excess, np.finfo(float).tiny)))
    entries = stiffness.tocoo()
    off = entries.row != entries.col
    rows, columns = entries.row[off], entries.col[off]
    weights = entries.data[off] * np.minimum(factor[rows], factor[columns])
    lowered = sparse.csr_array(sparse.coo_array((weights, (rows, columns)), shape=stiffness.shape))
    return sparse.csr_array(lowered - sparse.diags_array(lowered.sum(axis=1))), raised


def flat_variance(kappa: float, alpha: int, dimension: int) -> float:
    """Variance of the field of `P (M P)^(alpha - 1)` on an infinite line or plane."""
    if dimension == 2:
        return 1 / (4 * np.pi * (alpha - 1) * kappa ** (2 * alpha - 2))
    return 1 / (2 * kappa) if alpha == 1 else 1 / (4 * kappa**3)


def edge_slope(operator: LaplaceOperator, kappa: float) -> sparse.csr_array:
    """Derivative of `edge_precision` in `log kappa`, (n, n)."""
    assert operator.element_lengths is not None
    length = kappa * operator.element_lengths
    near = length < FAR_APART
    diagonal, across = np.full(length.size, kappa), np.zeros(length.size)
    x = length[near]
    short = x < SHORT  # where the closed forms are differences of almost equal numbers
    closed = 1 / np.tanh(x) - x / np.sinh(x) ** 2, (x / np.tanh(x) - 1) / np.sinh(x)
    series = 2 * x / 3 - 4 * x**3 / 45, x / 3 - 7 * x**3 / 90
    diagonal[near], across[near] = (
        kappa * np.where(short, a, b) for a, b in zip(series, closed, strict=True)
    )
    return edge_matrix(operator, diagonal, across, 2 * kappa**2)


def as_pattern(matrix: sparse.csr_array) -> sparse.csr_array:
    """A matrix with ones in place of its values."""
    arrays = np.ones(matrix.nnz), matrix.indices, matrix.indptr
    return sparse.csr_array(arrays, shape=matrix.shape)
