"""Products with `W~` in one pass over memory: the inner loop of every series and hop."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from scipy import sparse

from coupledgp.graphs.graph import Graph
from coupledgp.ground.compiled import compiled, share_rows
from coupledgp.random import FloatArray

# Multiply-adds from which threads share the rows: below, starting them takes longer than the work.
PARALLEL_WORK = 20_000_000
# Numbers in a block of columns (2 MiB): a few such blocks stay in the cache.
BLOCK_ENTRIES = 2**18


@compiled
def _rows(first, last, indptr, indices, data, V, a, b, S, c, out):  # type: ignore[no-untyped-def]
    for row in range(first, last):
        for k in range(V.shape[1]):
            out[row, k] = b * V[row, k] + c * S[row, k]
        for entry in range(indptr[row], indptr[row + 1]):
            weight, column = a * data[entry], indices[entry]
            for k in range(V.shape[1]):
                out[row, k] += weight * V[column, k]


def column_blocks(n_rows: int, n_columns: int) -> list[slice]:
    """Slices of columns, each so narrow that a block of `n_rows` rows stays in the cache."""
    width = max(BLOCK_ENTRIES // max(n_rows, 1), 8)
    return [slice(k, min(k + width, n_columns)) for k in range(0, n_columns, width)]


def by_column_blocks(
    product: Callable[[FloatArray], FloatArray], V: FloatArray, n_rows: int, shared: bool = False
) -> FloatArray:
    """Apply a linear map of many steps to V (n_rows, k), some columns at a time.

    The columns of a block stay in the cache from step to step.

    Parameters
    ----------
    product
        The map, (n_rows, b) -> (m, b).
    V
        Columns (n_rows, k).
    n_rows
        Number of rows that the map works on.
    shared
        Whether threads share the blocks; for a map that starts no threads itself.
    """
    parts = column_blocks(n_rows, V.shape[1])
    if len(parts) < 2:
        return product(V)
    found: list[FloatArray] = [V] * len(parts)

    def work(blocks: Iterator[tuple[int, int]]) -> None:
        for first, last in blocks:
            for k in range(first, last):
                found[k] = product(np.ascontiguousarray(V[:, parts[k]]))

    if shared:
        share_rows(work, len(parts), least=1, most=1)
    else:
        work(iter([(0, len(parts))]))
    return np.hstack(found)


def fused_product(
    graph: Graph,
    V: FloatArray,
    a: float = 1.0,
    b: float = 0.0,
    c: float = 0.0,
    S: FloatArray | None = None,
) -> FloatArray:
    """`a W~ V + b V + c S`, shape (n_nodes, k), for V and S of that shape; S is zero if None.

    Rows are added up in the same order whatever the number of threads, also where the graph has
    them computed elsewhere (`Graph.product_elsewhere`).
    """
    V = np.ascontiguousarray(V, dtype=np.float64)
    found = graph.product_elsewhere(V, a, b, c, S)
    if found is not None:
        return found
    return rows_product(graph.normalized_adjacency, V, a, b, c, S)


def rows_product(
    matrix: sparse.csr_array,
    V: FloatArray,
    a: float = 1.0,
    b: float = 0.0,
    c: float = 0.0,
    S: FloatArray | None = None,
) -> FloatArray:
    """`a M V + b V + c S` in the first rows, as many as a matrix M (r, n) has, n at least r.

    V (n, k) is contiguous, and S (r, k) or longer; it is zero if None.
    """
    n_rows = matrix.shape[0]
    other = V if S is None else np.ascontiguousarray(S, dtype=np.float64)
    out = np.empty((n_rows, V.shape[1]))
    given = (
        matrix.indptr,
        matrix.indices,
        matrix.data,
        V,
        a,
        b,
        other,
        c if S is not None else 0.0,
    )
    if (matrix.nnz + n_rows) * V.shape[1] <= PARALLEL_WORK:
        _rows(0, n_rows, *given, out)
        return out

    def work(blocks: Iterator[tuple[int, int]]) -> None:
        for first, last in blocks:
            _rows(first, last, *given, out)

    share_rows(work, n_rows, least=1, most=n_rows)
    return out
