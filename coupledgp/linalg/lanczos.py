"""Lanczos' method for several start vectors side by side, and its quadratures.

For a symmetric G and a start vector b the method builds a Jacobi matrix T, tridiagonal, whose
eigenvalues are the nodes of a Gauss rule: `b' h(G) b ~ |b|^2 sum_j weights_j h(nodes_j)`, exact for
polynomials of degree below twice the number of steps. Changing the last diagonal entry of T puts
one node at a given place (Gauss-Radau). Golub and Meurant (2010), chapters 4 and 6.

Standard errors of means over few random vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.linalg import eigh_tridiagonal
from scipy.special import ndtr, stdtrit

from coupledgp.errors import NumericalError
from coupledgp.ground.progress import tell
from coupledgp.random import FloatArray

# `V -> G V` for a symmetric G (n, n) and columns V (n, k).
Product: TypeAlias = Callable[[FloatArray], FloatArray]
# An off-diagonal entry below this share of the largest diagonal entry is rounding: the vectors so
# far span an invariant subspace, and their rule is exact.
EXHAUSTED = 1e-13
# Least distance of a Ritz value from a Gauss-Radau node, as a share of the largest Ritz value.
LEAST_GAP = 1e-14
# Vectors of a column that are stored together: products with 16 vectors at once are fast, and at
# most 15 places are reserved in vain.
BLOCK = 16
# Bytes of Lanczos vectors that are kept at once for a root, the steps that they are expected to
# take, most columns beside each other, and steps between two looks at the change.
ROOT_BYTES, ROOT_STEPS, ROOT_COLUMNS, LOOK = 2**27, 60, 8, 4


class Lanczos:
    """Gauss rules of the spectral measures of several vectors in a symmetric G, step by step.

    Parameters
    ----------
    product
        `V -> G V` for a symmetric G (n, n).
    starts
        Vectors (n, k); zero ones have the measure zero.
    reorthogonalise
        Keep all vectors and make each new one orthogonal to them, column by column. Without, memory
        is that of three vectors a column; Ritz values may come twice and share their weight, which
        leaves the quadratures right.
    """

    def __init__(
        self, product: Product, starts: FloatArray, *, reorthogonalise: bool = True
    ) -> None:
        self.product = product
        self.norms = np.linalg.norm(starts, axis=0)
        self._before = np.zeros_like(starts)
        self._current = starts / np.where(self.norms > 0, self.norms, 1.0)
        self._past = _LanczosVectors(self._current) if reorthogonalise else None
        self._diagonals: list[FloatArray] = []
        self._offs: list[FloatArray] = []
        self._largest = np.full(starts.shape[1], np.finfo(float).tiny)

    @property
    def n_steps(self) -> int:
        """Number of products made."""
        return len(self._diagonals)

    @property
    def current(self) -> FloatArray:
        """The last Lanczos vector (n, k) of each column, of length one, or zero where exhausted."""
        return self._current

    def step(self) -> None:
        """Make one product and lengthen every column's Jacobi matrix by a row."""
        current = self._current
        following = self.product(current)
        if self._offs:
            following = following - self._offs[-1] * self._before
        diagonal = np.einsum("ij,ij->j", current, following)
        following = following - diagonal * current
        if self._past is not None:
            following = self._past.removed_from(following)
        off = np.linalg.norm(following, axis=0)
        self._largest = np.maximum(self._largest, np.abs(diagonal))
        off[off <= EXHAUSTED * self._largest] = 0.0
        self._diagonals.append(diagonal)
        self._offs.append(off)
        self._before = current
        self._current = following / np.where(off > 0, off, 1.0) * (off > 0)
        if self._past is not None:
            self._past.append(self._current)

    def jacobi(self, k: int) -> tuple[FloatArray, FloatArray]:
        """Diagonal (j,) and off-diagonal (j,) of column k's matrix, its next entry included.

        The length j is the number of steps, or less where the Krylov space is exhausted; the next
        entry is zero then.
        """
        d, e = np.array(self._diagonals)[:, k], np.array(self._offs)[:, k]
        dead = np.flatnonzero(e == 0)
        size = int(dead[0]) + 1 if dead.size else d.size
        return d[:size], e[:size]


class _LanczosVectors:
    """All vectors of each column so far, in blocks, to which later ones are made orthogonal."""

    def __init__(self, starts: FloatArray) -> None:
        self._blocks: list[FloatArray] = []
        self._size = 0
        self.append(starts)

    def append(self, V: FloatArray) -> None:
        """Add a vector to each column, V (n, k)."""
        place = self._size % BLOCK
        if place == 0:
            self._blocks.append(np.zeros((V.shape[1], BLOCK, V.shape[0])))
        self._blocks[-1][:, place] = V.T
        self._size += 1

    def removed_from(self, V: FloatArray) -> FloatArray:
        """V (n, k) less its components along each column's vectors."""
        rest = np.ascontiguousarray(V.T)[:, :, None]
        for _ in range(2):  # the first pass leaves rounding errors, the second none that count
            for block in self._blocks:
                rest -= block.transpose(0, 2, 1) @ (block @ rest)
        return rest[:, :, 0].T


def gauss(d: FloatArray, e: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Nodes, weights (j,) of a Jacobi matrix with diagonal d (j,) and off-diagonal e (j - 1,)."""
    nodes, vectors = eigh_tridiagonal(d, e)
    return nodes, np.square(vectors[0])


def with_node(d: FloatArray, e: FloatArray, node: float) -> tuple[FloatArray, FloatArray]:
    """Lengthen a Jacobi matrix so that `node`, below its eigenvalues, becomes an eigenvalue.

    Parameters
    ----------
    d, e
        Diagonal (j,), and off-diagonal (j,) whose last entry couples the new row.
    node
        The Gauss-Radau node.

    Returns
    -------
    (FloatArray, FloatArray)
        Diagonal (j + 1,), whose last entry is `node + e_last^2 [(T - node I)^-1]_last,last`, and
        off-diagonal (j,).
    """
    values, vectors = eigh_tridiagonal(d, e[:-1])
    gaps = np.maximum(values - node, LEAST_GAP * np.abs(values).max())
    last = float((np.square(vectors[-1]) / gaps).sum())
    return np.append(d, node + e[-1] ** 2 * last), e


class LanczosRules(NamedTuple):
    """`b' h(G) b ~ |b|^2 sum_j weights_j h(values_j)` for each column b; all (k, steps).

    Gauss rules, and Gauss-Radau rules with a node at zero. Of `b' (G + r)^-1 b` the first is a
    lower and the second an upper bound; of `b' log(G + r) b` the other way round. The part of the
    measure that Lanczos has not resolved yet is the second rule's weight at zero.
    """

    values: FloatArray
    weights: FloatArray
    radau_values: FloatArray
    radau_weights: FloatArray


def lanczos_quadrature(product: Product, starts: FloatArray, n_steps: int) -> LanczosRules:
    """Quadratures of the spectral measures of columns in a positive semidefinite G.

    Parameters
    ----------
    product
        `V -> G V` for a positive semidefinite G (n, n); negative Ritz values are rounding.
    starts
        Start vectors (n, k), none of which is zero.
    n_steps
        Number of products, at most n.
    """
    lanczos = Lanczos(product, starts, reorthogonalise=False)
    for _ in range(min(n_steps, len(starts))):
        lanczos.step()
    rules = np.zeros((4, starts.shape[1], lanczos.n_steps))
    for k in range(starts.shape[1]):
        d, e = lanczos.jacobi(k)
        d_radau, e_radau = with_node(d[:-1], e[:-1], 0.0) if d.size > 1 else (d, e[:-1])
        for row, (values, weights) in ((0, gauss(d, e[:-1])), (2, gauss(d_radau, e_radau))):
            rules[row, k, : d.size] = np.maximum(values, 0.0)
            rules[row + 1, k, : d.size] = weights
    return LanczosRules(*rules)


def inverse_root(
    product: Product,
    starts: FloatArray,
    tolerance: float,
    most_steps: int,
) -> FloatArray:
    """`G^-1/2 B` for columns B (n, k), by `|b| V T^-1/2 e_1` of Lanczos vectors V.

    The steps end where the last `LOOK` of them changed no column by more than a share of its
    length. Vectors are kept in single precision, some columns at a time.

    Parameters
    ----------
    product
        `V -> G V` for a positive definite G (n, n).
    starts
        Columns B (n, k), none of which is zero.
    tolerance
        Relative change at which the steps end, above 1e-6.
    most_steps
        Most products.

    Raises
    ------
    NumericalError
        The steps did not end, or G is not positive definite to working precision.
    """
    n, k = starts.shape
    group = max(1, min(ROOT_COLUMNS, ROOT_BYTES // (4 * ROOT_STEPS * n)))
    found = np.empty_like(starts)
    for first in range(0, k, group):
        tell(f"roots of {min(first + group, k)} of {k} columns")
        own = slice(first, min(first + group, k))
        found[:, own] = _inverse_root(product, starts[:, own], tolerance, most_steps)
    return found


def _inverse_root(
    product: Product, starts: FloatArray, tolerance: float, most_steps: int
) -> FloatArray:
    lanczos, basis = Lanczos(product, starts, reorthogonalise=False), []
    last = np.zeros((starts.shape[1], 0))
    most_steps = min(most_steps, len(starts))
    while lanczos.n_steps < most_steps:
        for _ in range(min(LOOK, most_steps - lanczos.n_steps)):
            basis.append(lanczos.current.astype(np.float32))
            lanczos.step()
        weights = np.stack([_root_weights(lanczos, k) for k in range(starts.shape[1])])
        change = weights.copy()
        change[:, : last.shape[1]] -= last
        last = weights
        gap, whole = np.linalg.norm(change, axis=1), np.linalg.norm(weights, axis=1)
        if (gap <= tolerance * whole).all() or lanczos.n_steps == len(starts):
            found = np.zeros_like(starts)
            for vectors, own in zip(basis, weights.T, strict=True):
                found += own * vectors
            return found * lanczos.norms
    raise NumericalError(f"the inverse root is not found in {most_steps} products")


def _root_weights(lanczos: Lanczos, k: int) -> FloatArray:
    """`T^-1/2 e_1` of column k, with zeros where its Krylov space is exhausted."""
    d, e = lanczos.jacobi(k)
    values, vectors = eigh_tridiagonal(d, e[:-1])
    if values[0] <= 0:
        raise NumericalError("a matrix is not positive definite to working precision")
    found = np.zeros(lanczos.n_steps)
    found[: len(d)] = (vectors / np.sqrt(values)) @ vectors[0]
    return found


def widened_error(values: FloatArray) -> FloatArray:
    """Standard errors (...) of the means of independent values (..., n), widened for small n.

    The standard deviation of few values is uncertain itself. With the quantile of Student's law of
    n - 1 degrees of freedom over that of the normal law as a factor, two standard errors hold the
    mean as often as they do for many values, 95.4 %: 1.21 for 8 values, 1.09 for 16.
    """
    n = values.shape[-1]
    factor = float(stdtrit(n - 1, ndtr(2.0))) / 2.0
    return np.asarray(factor * values.std(axis=-1, ddof=1) / np.sqrt(n))
