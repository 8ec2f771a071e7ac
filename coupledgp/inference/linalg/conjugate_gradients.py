"""Conjugate gradients and Lanczos quadrature for many right-hand sides at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import linalg

from coupledgp.errors import NumericalError
from coupledgp.random import FloatArray

Product = Callable[[FloatArray], FloatArray]


class DiagonalPreconditioner:
    """Division by an estimate of the diagonal (n,)."""

    def __init__(self, diagonal: FloatArray) -> None:
        self._diagonal = diagonal

    def __call__(self, R: FloatArray) -> FloatArray:
        return R / self._diagonal[:, None]


class Solution(NamedTuple):
    """Solutions (n, k), and the largest relative residual."""

    values: FloatArray
    residual: float


def conjugate_gradients(
    product: Product,
    B: FloatArray,
    precondition: Product,
    tolerance: float | FloatArray = 1e-6,
    max_iterations: int = 5000,
) -> Solution:
    """Solve `A X = B` by conjugate gradients, preconditioned.

    Columns are solved side by side; one that has converged stays still.

    Parameters
    ----------
    product
        `V -> A V` for a symmetric positive definite A (n, n).
    B
        Right-hand sides (n, k).
    precondition
        `R -> M^-1 R` for a positive definite M near A.
    tolerance
        Relative residual `|A x - b| / |b|` of every column, or one for each (k,).

    Raises
    ------
    NumericalError
        A column has not converged after `max_iterations`; the message gives the residual.
    """
    norms = np.linalg.norm(B, axis=0)
    goals = tolerance * np.where(norms > 0, norms, 1.0)
    X, R = np.zeros_like(B), B.copy()
    Z = precondition(R)
    P, rho = Z.copy(), np.einsum("ij,ij->j", R, Z)
    for _ in range(max_iterations):
        active = np.linalg.norm(R, axis=0) > goals
        if not active.any():
            break
        AP = product(P[:, active])
        alpha = rho[active] / np.einsum("ij,ij->j", P[:, active], AP)
        X[:, active] += alpha * P[:, active]
        R[:, active] -= alpha * AP
        Z = precondition(R[:, active])
        following = np.einsum("ij,ij->j", R[:, active], Z)
        P[:, active] = Z + (following / rho[active]) * P[:, active]
        rho[active] = following
    residuals = np.linalg.norm(R, axis=0)
    relative = residuals * tolerance / goals
    residual = float(relative.max(initial=0.0))
    if (residuals > goals).any():
        worst = float((relative * (residuals > goals)).max())
        raise NumericalError(
            f"conjugate gradients: relative residual {worst:.2g} after {max_iterations} steps, "
            f"expected {np.min(tolerance):.2g}; raise the noise, the tolerance or "
            "max_iterations, or use solver='dense'"
        )
    return Solution(X, residual)


class Quadrature(NamedTuple):
    """`b' h(G) b ~ |b|^2 sum_j weights_j h(nodes_j)` for each column b; all (k, steps).

    Gauss rules, and Gauss-Radau rules with a node at zero. Of `b' (G + r)^-1 b` the first is a
    lower and the second an upper bound; of `b' log(G + r) b` the other way round. What Lanczos
    has not resolved yet is the second's weight at zero.
    """

    nodes: FloatArray
    weights: FloatArray
    radau_nodes: FloatArray
    radau_weights: FloatArray


def lanczos_quadrature(product: Product, B: FloatArray, n_steps: int) -> Quadrature:
    """Gauss quadrature of the spectral measures of columns b of B in a symmetric matrix G.

    No reorthogonalisation: repeated Ritz values share a weight, so quadratures stay right
    (Golub and Meurant, 2010, chapter 4), and memory stays that of a few columns.

    Parameters
    ----------
    product
        `V -> G V` for a positive semidefinite G (n, n); negative Ritz values are rounding.
    B
        Start vectors (n, k), none of them zero.
    n_steps
        Number of products.
    """
    n_vectors = B.shape[1]
    current = B / np.linalg.norm(B, axis=0)
    before = np.zeros_like(current)
    beta = np.zeros(n_vectors)
    diagonals, offs = [], []
    for _ in range(min(n_steps, B.shape[0])):
        following = product(current) - beta * before
        alpha = np.einsum("ij,ij->j", current, following)
        following -= alpha * current
        beta = np.linalg.norm(following, axis=0)
        diagonals.append(alpha)
        offs.append(beta)
        # A vector whose Krylov space is exhausted is cut off below; its rest is rounding.
        before, current = current, following / np.where(beta > 0, beta, 1.0)
    rules = np.zeros((4, n_vectors, len(diagonals)))
    for k in range(n_vectors):
        d, e = np.array(diagonals)[:, k], np.array(offs)[:-1, k]
        dead = np.flatnonzero(e <= 1e-13 * max(np.abs(d).max(), np.finfo(float).tiny))
        size = int(dead[0]) + 1 if dead.size else d.size
        d, e = d[:size], e[: size - 1]
        for row, diagonal in ((0, d), (2, radau_diagonal(d, e))):
            values, vectors = linalg.eigh_tridiagonal(diagonal, e)
            rules[row, k, :size] = np.maximum(values, 0.0)
            rules[row + 1, k, :size] = vectors[0] ** 2
    return Quadrature(*rules)


def radau_diagonal(d: FloatArray, e: FloatArray) -> FloatArray:
    """The diagonal of the Jacobi matrix with one eigenvalue at zero (Golub and Meurant, 6.2).

    The last entry becomes `e_last^2 (T^-1)_last,last` with T the matrix without its last row.
    """
    if d.size == 1:
        return d
    values, vectors = linalg.eigh_tridiagonal(d[:-1], e[:-1])
    floor = 1e-14 * np.abs(values).max()
    last = float((vectors[-1] ** 2 / np.maximum(values, floor)).sum())
    return np.append(d[:-1], e[-1] ** 2 * last)
