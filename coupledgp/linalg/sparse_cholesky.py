"""Orders of elimination for sparse symmetric matrices, and factors of positive definite ones.

An order decides how many entries a factor has. Every order made here is a postorder of its own
elimination tree: a column's descendants come directly before it. Reordering by such a postorder
leaves the entries as they are, and puts columns of equal pattern side by side, which SuperLU then
treats as one dense block (Liu, "The role of elimination trees in sparse factorization", 1990).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import SuperLU, spilu, splu

from coupledgp.errors import InvalidInputError, NumericalError
from coupledgp.ground.compiled import compiled
from coupledgp.ground.validation import wrong
from coupledgp.random import FloatArray, IntArray

# Options under which SuperLU takes the diagonal as pivots: the matrix is positive definite.
SYMMETRIC = {"SymmetricMode": True}
# Number of vertices that nested dissection does not split any further.
LEAF = 60
REMEDY = (
    "shorten the range or raise the noise; entries that differ by ten orders of magnitude or more, "
    "as slivers of a mesh make them, round the smallest eigenvalues away"
)


def minimum_degree(matrix: sparse.sparray) -> IntArray:
    """Order of the rows (n,) in which elimination fills little: minimum degree, by SuperLU.

    Trees that hang off the rest fill in nothing from their leaves on, and come first: leaves of a
    hub would keep the rest of the search busy. That order is read off an incomplete factorisation
    that drops everything off the diagonal, which costs no more than the order itself. It is a
    postorder of its elimination tree.

    Parameters
    ----------
    matrix
        Sparse matrix (n, n) of symmetric pattern; its values are not used.
    """
    pattern = symmetric_pattern(matrix)
    trees = hanging_trees(pattern)
    if not trees.size:
        return postordered(pattern, _minimum_degree(pattern))
    rest = np.setdiff1d(np.arange(pattern.shape[0]), trees)
    inner = symmetric_pattern(pattern[rest][:, rest]) if rest.size else None
    order = trees if inner is None else np.append(trees, rest[_minimum_degree(inner)])
    return postordered(pattern, order)


def _minimum_degree(pattern: sparse.csr_array) -> IntArray:
    """The order of a pattern with rows (n,), which is no postorder yet."""
    # A large drop tolerance keeps the factors empty; the order depends on the pattern alone.
    off = pattern * (-0.5 / max(pattern.shape[0], 1))
    thin = spilu(
        sparse.csc_array(off + sparse.eye_array(pattern.shape[0])),
        drop_tol=1.0, fill_factor=1.0, diag_pivot_thresh=0.0,
        permc_spec="MMD_AT_PLUS_A", options=SYMMETRIC,
    )  # fmt: skip
    order: IntArray = np.argsort(thin.perm_c)
    return order


def hanging_trees(pattern: sparse.csr_array) -> IntArray:
    """Rows (m,) of trees that hang off a symmetric pattern, from the leaves on."""
    found: IntArray = _hanging_trees(pattern.indptr, pattern.indices)
    return found


@compiled
def _hanging_trees(indptr, indices):  # type: ignore[no-untyped-def]
    n = indptr.size - 1
    degrees = np.zeros(n, np.int64)
    for row in range(n):
        for entry in range(indptr[row], indptr[row + 1]):
            degrees[row] += indices[entry] != row
    found = np.empty(n, np.int64)
    size = 0
    for row in range(n):
        if degrees[row] <= 1:
            found[size] = row
            size += 1
    place = 0
    while place < size:
        row = found[place]
        place += 1
        degrees[row] = -1  # it is gone, and found no more
        for entry in range(indptr[row], indptr[row + 1]):
            other = indices[entry]
            if degrees[other] >= 2:
                degrees[other] -= 1
                if degrees[other] == 1:
                    found[size] = other
                    size += 1
    return found[:size]


def nested_dissection(matrix: sparse.sparray, positions: FloatArray) -> IntArray:
    """Order of the rows (n,) by halving space again and again (George, 1973).

    A set of vertices is split at the median of its longest coordinate. The vertices of the one half
    that have neighbours in the other separate the rest, and are eliminated after both. Neighbours
    are those of this very matrix. The order is a postorder of its elimination tree.

    Parameters
    ----------
    matrix
        Sparse matrix (n, n) of symmetric pattern; its values are not used.
    positions
        Coordinates (n, d) of the vertices that its rows stand for; some may be equal.

    Raises
    ------
    InvalidInputError
        Positions have another shape, or are not finite.
    """
    pattern = symmetric_pattern(matrix)
    n = pattern.shape[0]
    places = np.asarray(positions, dtype=np.float64)
    if places.ndim != 2 or len(places) != n or not places.size or not np.isfinite(places).all():
        raise InvalidInputError(
            f"positions: expected finite coordinates ({n}, d), one row for each row of the matrix, "
            f"got shape {places.shape}"
        )
    indptr, indices = pattern.indptr, pattern.indices
    order = np.empty(n, dtype=np.int64)
    side = np.zeros(n, dtype=np.int8)
    # Sets of vertices, each with the place in the order where it begins.
    waiting = [(np.arange(n), 0)]
    while waiting:
        group, start = waiting.pop()
        if group.size <= LEAF:
            order[start : start + group.size] = group
            continue
        left, right, separator = _split(group, places[group], indptr, indices, side)
        middle = start + left.size
        waiting += [(left, start), (right, middle)]
        order[middle + right.size : start + group.size] = separator
    return postordered(pattern, order)


def _split(
    group: IntArray, places: FloatArray, indptr: IntArray, indices: IntArray, side: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Halves of a group without their separator, and the separator; `side` (n,) is all zeros."""
    with np.errstate(over="ignore"):  # an infinite extent is the longest one
        axis = np.argmax(np.ptp(places, axis=0))
    ranks = np.argsort(places[:, axis], kind="stable")
    half = group.size // 2
    left, right = group[ranks[:half]], group[ranks[half:]]
    side[left], side[right] = 1, 2
    on_left, on_right = (_touching(indptr, indices, part, side, other)
                         for part, other in ((left, 2), (right, 1)))  # fmt: skip
    side[group] = 0
    if on_left.sum() <= on_right.sum():
        return left[~on_left], right, left[on_left]
    return left, right[~on_right], right[on_right]


def elimination_order(matrix: sparse.sparray, positions: FloatArray | None = None) -> IntArray:
    """Order of the rows (n,), of minimum degree or by nested dissection: that with fewer entries.

    Parameters
    ----------
    matrix
        Sparse matrix (n, n) of symmetric pattern; its values are not used.
    positions
        Coordinates (n, d) of the vertices that its rows stand for; without them the order is that
        of minimum degree.
    """
    order = minimum_degree(matrix)
    if positions is None:
        return order
    other = nested_dissection(matrix, positions)
    budget = factor_entries(matrix, order)
    return other if factor_entries(matrix, other, budget) < budget else order


def factor_entries(matrix: sparse.sparray, order: IntArray, budget: int | None = None) -> int:
    """Number of entries of the Cholesky factor L, its diagonal included, in a given order.

    They are counted row by row along the elimination tree, without forming L: O(nnz(L)) time, O(n)
    memory.

    Parameters
    ----------
    matrix
        Sparse matrix (n, n) of symmetric pattern; its values are not used.
    order
        Order of elimination (n,).
    budget
        Number beyond which counting stops; None: it never does.
    """
    return int(column_counts(matrix, order, budget).sum())


def column_counts(matrix: sparse.sparray, order: IntArray, budget: int | None = None) -> IntArray:
    """Number of entries (n,) of each column of the Cholesky factor, by place in the order.

    Arguments are those of `factor_entries`; where the counts add up to more than the budget, some
    are too small.
    """
    pattern = symmetric_pattern(matrix)
    tree = elimination_tree(pattern, order)
    limit = np.iinfo(np.int64).max if budget is None else budget
    counts: IntArray = _column_counts(
        pattern.indptr, pattern.indices, order, np.argsort(order), tree, limit
    )
    return counts


def elimination_tree(matrix: sparse.csr_array, order: IntArray) -> IntArray:
    """Parent (n,) of each column of the factor in the elimination tree; -1 at a root.

    Columns are numbered by their place in the order.
    """
    return _tree(matrix.indptr, matrix.indices, order, np.argsort(order))


def postordered(matrix: sparse.csr_array, order: IntArray) -> IntArray:
    """The order (n,) rearranged as a postorder of its elimination tree, with the same entries."""
    return order[_postorder(elimination_tree(matrix, order))]


def symmetric_pattern(matrix: sparse.sparray) -> sparse.csr_array:
    """Entries of a matrix (n, n) with ones as values and indices of the type that SuperLU takes.

    Raises
    ------
    InvalidInputError
        The matrix is not square, or has no rows.
    """
    n_rows, n_columns = matrix.shape
    if n_rows != n_columns or n_rows == 0:
        raise wrong("matrix", "a square one with rows", matrix.shape)
    rows = sparse.csr_array(matrix)
    arrays = (np.ones(rows.nnz), rows.indices.astype(np.int32), rows.indptr.astype(np.int32))
    return sparse.csr_array(arrays, shape=rows.shape)


@compiled
def _touching(indptr, indices, part, side, other):  # type: ignore[no-untyped-def]
    found = np.zeros(part.size, np.bool_)
    for number in range(part.size):
        row = part[number]
        for entry in range(indptr[row], indptr[row + 1]):
            if side[indices[entry]] == other:
                found[number] = True
                break
    return found


@compiled
def _tree(indptr, indices, order, place):  # type: ignore[no-untyped-def]
    n = order.size
    parent = np.full(n, -1, np.int64)
    # The highest ancestor known so far, where the walk up the tree goes on (Liu, 1986).
    ancestor = np.full(n, -1, np.int64)
    for row in range(n):
        node = order[row]
        for entry in range(indptr[node], indptr[node + 1]):
            column = place[indices[entry]]
            while column >= 0 and column < row:
                above = ancestor[column]
                ancestor[column] = row
                if above < 0:
                    parent[column] = row
                column = above
    return parent


@compiled
def _postorder(parent):  # type: ignore[no-untyped-def]
    n = parent.size
    first_child = np.full(n, -1, np.int64)
    next_sibling = np.full(n, -1, np.int64)
    for column in range(n - 1, -1, -1):  # so that lists of children ascend
        if parent[column] >= 0:
            next_sibling[column] = first_child[parent[column]]
            first_child[parent[column]] = column
    found = np.empty(n, np.int64)
    stack = np.empty(n, np.int64)
    size = 0
    for root in range(n):
        if parent[root] >= 0:
            continue
        stack[0], height = root, 1
        while height > 0:
            column = stack[height - 1]
            child = first_child[column]
            if child < 0:
                height -= 1
                found[size] = column
                size += 1
            else:
                first_child[column] = next_sibling[child]
                stack[height] = child
                height += 1
    return found


@compiled
def _column_counts(indptr, indices, order, place, parent, budget):  # type: ignore[no-untyped-def]
    n = order.size
    mark = np.full(n, -1, np.int64)
    counts = np.ones(n, np.int64)
    total = n
    for row in range(n):
        mark[row] = row
        node = order[row]
        for entry in range(indptr[node], indptr[node + 1]):
            column = place[indices[entry]]
            # Every node on the way up the tree that is new to this row is an entry of it.
            while column < row and mark[column] != row:
                mark[column] = row
                counts[column] += 1
                total += 1
                column = parent[column]
        if total > budget:
            break
    return counts


class SparseFactor:
    """Factors of a sparse symmetric positive definite matrix A, for solves and determinants.

    Parameters
    ----------
    matrix
        Symmetric matrix A (n, n).
    order
        Order of elimination (n,), a postorder of its elimination tree: see `elimination_order`.

    Raises
    ------
    NumericalError
        A is not positive definite to rounding, or not finite; the message says what to do.
    """

    def __init__(self, matrix: sparse.sparray, order: IntArray) -> None:
        self._order = order
        permuted = sparse.csc_array(sparse.csr_array(matrix)[order][:, order], dtype=np.float64)
        if not np.isfinite(permuted.data).all():
            raise NumericalError(
                f"matrix of {order.size} rows has NaN or infinite entries: check that lengths and "
                "hyperparameters are of moderate size"
            )
        permuted.sum_duplicates()
        permuted.indices = permuted.indices.astype(np.int32)
        permuted.indptr = permuted.indptr.astype(np.int32)
        try:
            self._factors: SuperLU = splu(
                permuted, permc_spec="NATURAL", diag_pivot_thresh=0.0, options=SYMMETRIC
            )
        except RuntimeError as error:
            raise NumericalError(
                f"matrix of {order.size} rows is singular to rounding ({error}): {REMEDY}"
            ) from None
        self._pivots = self._checked_pivots()
        self.log_determinant = float(np.log(self._pivots).sum())

    def _checked_pivots(self) -> FloatArray:
        """Pivots (n,), checked to be positive and on the diagonal."""
        factors = self._factors
        pivots: FloatArray = factors.U.diagonal()
        if (pivots > 0).all() and np.array_equal(factors.perm_r, factors.perm_c):
            return pivots
        raise NumericalError(
            f"matrix of {pivots.size} rows is not positive definite: its pivots range from "
            f"{pivots.min():.2e} to {pivots.max():.2e}; {REMEDY}"
        )

    @cached_property
    def n_entries(self) -> int:
        """Number of entries of L, its diagonal included."""
        return int(self._factors.L.nnz)

    def solve(self, V: FloatArray) -> FloatArray:
        """`A^-1 V` for V (n,) or (n, k)."""
        out = np.empty(V.shape)
        out[self._order] = self._factors.solve(np.ascontiguousarray(V[self._order]))
        return out
