"""Blocks of columns in which a sparse symmetric matrix is factorised, and their rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from coupledgp.ground.compiled import compiled
from coupledgp.linalg.sparse_cholesky import (
    column_counts,
    elimination_tree,
    postordered,
    symmetric_pattern,
)
from coupledgp.random import IntArray

# Subtrees of the elimination tree of up to this number of columns make one block, and columns
# follow each other in one block of up to this width, whatever the zeros that this adds.
NARROW = 16
# Share of zeros among the entries of a wider block.
SHARE_OF_ZEROS = 0.2


class Supernodes(NamedTuple):
    """Blocks of columns of a Cholesky factor L with the same rows below them.

    The front of a block are its own columns and the rows below. The rows below a block are in the
    front of its parent, the block of the first of these rows.

    Attributes
    ----------
    order : IntArray (n,)
        Order of elimination; columns and rows are numbered by their place in it.
    starts : IntArray (m + 1,)
        First column of each block, and n.
    parents : IntArray (m,)
        Parent of each block; -1 at a root.
    row_starts : IntArray (m + 1,)
        Where the rows of each block start in `rows`.
    rows : IntArray
        Rows below the blocks, ascending for each.
    entry_starts : IntArray (n + 1,)
        Where the entries of each column of the lower triangle of the matrix start.
    entry_rows : IntArray (e,)
        Their rows, ascending for each column.
    places : IntArray (e,)
        Where their values are among those of the matrix; empty if values come in this order.
    square_starts, below_starts : IntArray (m + 1,)
        Where the values of each block start if those of all blocks follow each other: the square of
        its columns, and its rows below them.
    """

    order: IntArray
    starts: IntArray
    parents: IntArray
    row_starts: IntArray
    rows: IntArray
    entry_starts: IntArray
    entry_rows: IntArray
    places: IntArray
    square_starts: IntArray
    below_starts: IntArray

    @classmethod
    def of(cls, matrix: sparse.csr_array, order: IntArray) -> Supernodes:
        """Find the blocks of a matrix (n, n) of symmetric pattern in an order (n,).

        The order is made a postorder of its elimination tree if it is none.
        """
        pattern = symmetric_pattern(matrix)
        order = postordered(pattern, order)
        numbered = sparse.csr_array(
            (np.arange(1, pattern.nnz + 1), pattern.indices, pattern.indptr), shape=pattern.shape
        )
        # Rows of the upper triangle are columns of the lower one, as the pattern is symmetric.
        lower = sparse.csr_array(sparse.triu(numbered[order][:, order], format="csr"))
        lower.sort_indices()
        indptr, indices = lower.indptr.astype(np.int64), lower.indices.astype(np.int64)
        tree = elimination_tree(pattern, order)
        counts = column_counts(pattern, order)
        starts = np.append(np.flatnonzero(~_joined(tree, counts)), len(tree))
        parents, row_starts, rows = _rows(starts, tree, counts, indptr, indices)
        widths, heights = np.diff(starts), np.diff(row_starts)
        # Rows rise within each block. They are sorted here, since numba compiles sorts for seconds.
        rows = rows[np.lexsort((rows, np.repeat(np.arange(heights.size), heights)))]
        squares, below = (np.append(0, np.cumsum(widths * s)) for s in (widths, heights))
        return cls(order, starts, parents, row_starts, rows, indptr, indices, lower.data - 1,
                   squares, below)  # fmt: skip

    @property
    def n_values(self) -> int:
        """Number of values of all blocks: squares of their columns, and the rows below."""
        return int(self.square_starts[-1] + self.below_starts[-1])

    def most_updates(self) -> int:
        """Largest number of values that wait at once to be added to parents, going up the tree."""
        return int(_most_updates(self.parents, np.diff(self.row_starts)))

    def most_fronts(self) -> int:
        """Largest number of values of a front and its ancestors' fronts."""
        sizes = np.diff(self.starts) + np.diff(self.row_starts)
        return int(_fronts(self.parents, sizes).max())


@compiled
def _joined(parent, counts):  # type: ignore[no-untyped-def]
    """Whether each column is in the block of the one before it."""
    n = parent.size
    sizes = np.ones(n, np.int64)  # of subtrees
    for column in range(n):
        if parent[column] >= 0:
            sizes[parent[column]] += sizes[column]
    joined = np.zeros(n, np.bool_)
    for column in range(n):
        # The largest small subtrees, whose columns come one after the other.
        if sizes[column] <= NARROW and (parent[column] < 0 or sizes[parent[column]] > NARROW):
            joined[column - sizes[column] + 2 : column + 1] = True
    start, entries = 0, counts[0]
    for column in range(1, n):
        width = column - start + 1
        entries += counts[column]
        full = width * (width - 1) // 2 + width * counts[column]
        few = width <= NARROW or full - entries <= SHARE_OF_ZEROS * full
        joined[column] |= parent[column - 1] == column and few
        if not joined[column]:
            start, entries = column, counts[column]
    return joined


@compiled
def _rows(starts, parent, counts, indptr, indices):  # type: ignore[no-untyped-def]
    n, n_blocks = parent.size, starts.size - 1
    block_of = np.empty(n, np.int64)
    parents = np.full(n_blocks, -1, np.int64)
    row_starts = np.zeros(n_blocks + 1, np.int64)
    for block in range(n_blocks):
        block_of[starts[block] : starts[block + 1]] = block
        row_starts[block + 1] = row_starts[block] + counts[starts[block + 1] - 1] - 1
    rows = np.empty(row_starts[n_blocks], np.int64)
    first_child = np.full(n_blocks, -1, np.int64)
    next_sibling = np.full(n_blocks, -1, np.int64)
    mark = np.full(n, -1, np.int64)
    for block in range(n_blocks):
        end, size = starts[block + 1], row_starts[block]
        for entry in range(indptr[starts[block]], indptr[end]):
            row = indices[entry]
            if row >= end and mark[row] != block:
                mark[row] = block
                rows[size] = row
                size += 1
        child = first_child[block]
        while child >= 0:
            for row in rows[row_starts[child] : row_starts[child + 1]]:
                if row >= end and mark[row] != block:
                    mark[row] = block
                    rows[size] = row
                    size += 1
            child = next_sibling[child]
        if parent[end - 1] >= 0:
            above = block_of[parent[end - 1]]
            parents[block] = above
            next_sibling[block] = first_child[above]
            first_child[above] = block
    return parents, row_starts, rows


@compiled
def _most_updates(parents, heights):  # type: ignore[no-untyped-def]
    n_blocks = parents.size
    waiting = np.zeros(n_blocks, np.int64)  # of the children of each block
    size, most = 0, 0
    for block in range(n_blocks):
        size += heights[block] ** 2
        most = max(most, size)  # the block's own update beside those of its children
        size -= waiting[block]
        if parents[block] >= 0:
            waiting[parents[block]] += heights[block] ** 2
    return most


@compiled
def _fronts(parents, sizes):  # type: ignore[no-untyped-def]
    """Values of each block's front and of its ancestors' fronts."""
    n_blocks = parents.size
    total = np.zeros(n_blocks, np.int64)
    for block in range(n_blocks - 1, -1, -1):
        above = 0 if parents[block] < 0 else total[parents[block]]
        total[block] = above + sizes[block] ** 2
    return total
