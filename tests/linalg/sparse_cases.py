"""Sparse symmetric positive definite matrices for tests of factors and inverses."""

from __future__ import annotations

import numpy as np
from scipy import sparse


def laplacian(rows, columns, weights, n_rows):
    """`D - W` of edges with weights; parallel edges add up, loops do nothing."""
    W = sparse.coo_array((weights, (rows, columns)), shape=(n_rows, n_rows)).tocsr()
    W = W + W.T
    return sparse.csr_array(sparse.diags_array(W.sum(axis=1)) - W)


def random_matrix(rng, n_rows, n_edges, decades=0.0):
    """Laplacian of random edges, weights over some decades, plus a diagonal of that range."""
    ends = rng.integers(n_rows, size=(2, n_edges))
    weights = 10 ** rng.uniform(-decades / 2, decades / 2, n_edges)
    diagonal = 10 ** rng.uniform(-decades / 2, decades / 2, n_rows)
    return sparse.csr_array(laplacian(*ends, weights, n_rows) + sparse.diags_array(diagonal))


def grid_matrix(n_rows, n_columns):
    """Laplacian of a grid plus one, and the positions (n, 2) of its vertices."""
    numbers = np.arange(n_rows * n_columns).reshape(n_rows, n_columns)
    starts = np.concatenate([numbers[:, :-1].ravel(), numbers[:-1].ravel()])
    ends = np.concatenate([numbers[:, 1:].ravel(), numbers[1:].ravel()])
    matrix = laplacian(starts, ends, np.ones(starts.size), numbers.size)
    positions = np.stack(np.unravel_index(np.arange(numbers.size), numbers.shape), axis=1)
    return sparse.csr_array(matrix + sparse.eye_array(numbers.size)), positions.astype(float)


def arrow(n_rows):
    """A star plus one: every row has an entry in the first column only."""
    ends = np.arange(1, n_rows)
    matrix = laplacian(np.zeros(n_rows - 1, int), ends, np.ones(n_rows - 1), n_rows)
    return sparse.csr_array(matrix + sparse.eye_array(n_rows))


def path(n_rows):
    """A path plus one."""
    matrix = laplacian(np.arange(n_rows - 1), np.arange(1, n_rows), np.ones(n_rows - 1), n_rows)
    return sparse.csr_array(matrix + sparse.eye_array(n_rows))
