"""Entries of inverses of sparse matrices and of their derivatives, without a solve a column."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from coupledgp.errors import InvalidInputError
from coupledgp.ground.memory import check_memory
from coupledgp.linalg.block_factor import BlockFactor
from coupledgp.linalg.sparse_cholesky import symmetric_pattern
from coupledgp.linalg.supernodes import Supernodes
from coupledgp.random import FloatArray, IntArray


def selected_inverse(
    constant: sparse.sparray, slope: FloatArray | None, order: IntArray, n_terms: int = 1
) -> list[sparse.csr_array]:
    """Entries of `(A + t diag(d))^-1 = sum_k t^k C_k` on the pattern of A, exact to rounding.

    The coefficients are `C_k = (-1)^k P (diag(d) P)^k` with `P = A^-1`. The time is about that of
    three sparse factorisations times `n_terms (n_terms + 1) / 2`.

    Parameters
    ----------
    constant
        Symmetric positive definite matrix A (n, n), whose stored entries, zeros included, are the
        pattern.
    slope
        Diagonal d (n,); zeros if None.
    order
        Order of elimination (n,), such as `elimination_order(constant)`.
    n_terms
        Number of coefficients.

    Returns
    -------
    list of csr_array (n, n)
        `C_0, ..., C_{n_terms - 1}`, symmetric to the bit.

    Raises
    ------
    InvalidInputError
        The matrix is not square, or its pattern is not symmetric.
    MemoryLimitError
        The factor does not fit in memory.
    NumericalError
        A is not positive definite to rounding, or not finite.
    """
    matrix = canonical(constant)
    pattern = symmetric_pattern(matrix)
    if (pattern != pattern.T).nnz or not pattern.diagonal().all():
        raise InvalidInputError(
            "constant: expected a symmetric pattern that holds the diagonal, got "
            f"{(pattern != pattern.T).nnz} entries without a counterpart and "
            f"{np.count_nonzero(pattern.diagonal() == 0)} rows without their diagonal"
        )
    nodes = Supernodes.of(matrix, order)
    check_memory(
        8 * n_terms * (nodes.n_values + nodes.most_updates() + nodes.most_fronts()),
        f"constant: {n_terms} factors of a matrix of {matrix.shape[0]} rows",
        "use fewer vertices, or fewer terms",
    )
    factor = BlockFactor(nodes, matrix.data, slope, n_terms)
    return [factor.on_pattern(lower) for lower in factor.selected()]


def canonical(matrix: sparse.sparray) -> sparse.csr_array:
    """The matrix in compressed rows, each column once and ascending; the given one if it is so."""
    rows = sparse.csr_array(matrix)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows
