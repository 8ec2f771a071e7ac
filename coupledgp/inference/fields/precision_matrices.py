"""Matrices whose inverses make Whittle-Matern covariances: `kappa^2 M + S`, exact on networks."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from coupledgp.geometry import LaplaceOperator
from coupledgp.random import FloatArray

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
