"""Factors of sparse symmetric positive definite matrices and the inverse on their pattern.

`A(t) = A + t diag(d)` is factorised in blocks of columns, where every number is a polynomial in t
without the higher powers (Taylor arithmetic; Griewank and Walther, "Evaluating Derivatives", 2008).
With the columns J of a block and the rows R below it, its front F gives

    X = F_RJ F_JJ^-1,    U = F_RR - X F_JR,    log|A| = sum_J log|F_JJ|

where U is added to the front of the parent (Duff and Reid, 1983). From the roots down, the inverse
Z on all fronts follows by the recursion of Takahashi, Fagan and Chin (1973):

    Z_RJ = -Z_RR X,    Z_JJ = F_JJ^-1 - X' Z_RJ
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from coupledgp.errors import NumericalError
from coupledgp.ground.compiled import compiled, part, without_denormals
from coupledgp.linalg.sparse_cholesky import REMEDY
from coupledgp.linalg.supernodes import Supernodes
from coupledgp.random import FloatArray

# Rows of a triangle that are inverted one by one; larger ones are inverted by products of tiles.
TILE = 64
# Rows of a symmetric product that are computed at once, with the columns of the lower triangle.
STRIPE = 128


class BlockFactor:
    """Factor of a sparse symmetric positive definite `A + t diag(d)`, in powers of t.

    Parameters
    ----------
    nodes
        Blocks of columns of the pattern of A.
    values
        Values of A in the order of the pattern's matrix; if the blocks have no places, values of
        the lower triangle in the order of the blocks.
    slope
        Diagonal d (n,); zeros if None.
    n_terms
        Number of powers of t, from t^0 on.

    Attributes
    ----------
    log_determinant : float
        `log|A|`.

    Raises
    ------
    NumericalError
        A is not positive definite to rounding, or not finite; the message says what to do.
    """

    def __init__(
        self,
        nodes: Supernodes,
        values: FloatArray,
        slope: FloatArray | None = None,
        n_terms: int = 1,
    ) -> None:
        self.nodes = nodes
        n = nodes.order.size
        inner = np.zeros(n) if slope is None else np.asarray(slope, dtype=np.float64)[nodes.order]
        lower = np.asarray(values, dtype=np.float64)
        if nodes.places.size:
            lower = lower[nodes.places]
        self._squares = np.empty((n_terms, nodes.square_starts[-1]))
        self._below = np.empty((n_terms, nodes.below_starts[-1]))
        stack = np.empty((n_terms, nodes.most_updates()))
        try:
            with without_denormals():
                self.log_determinant = float(
                    _factorise(nodes, lower, inner, stack, self._squares, self._below)
                )
        except np.linalg.LinAlgError:
            self.log_determinant = np.nan
        if not np.isfinite(self.log_determinant):
            raise NumericalError(
                f"matrix of {n} rows is not positive definite to rounding, or not finite: {REMEDY}"
            )

    def solve(self, V: FloatArray) -> FloatArray:
        """`A^-1 V` for V (n,) or (n, k)."""
        nodes = self.nodes
        inner = np.ascontiguousarray(V[nodes.order].reshape(nodes.order.size, -1))
        with without_denormals():
            _solve(nodes, self._squares[0], self._below[0], inner)
        out = np.empty(V.shape)
        out[nodes.order] = inner.reshape(V.shape)
        return out

    def selected(self) -> FloatArray:
        """Coefficients (n_terms, e) of the inverse at the entries of the blocks' pattern."""
        nodes = self.nodes
        fronts = np.empty((len(self._squares), nodes.most_fronts()))
        found = np.empty((len(self._squares), nodes.entry_rows.size))
        with without_denormals():
            _invert(nodes, self._squares, self._below, fronts, found)
        return found

    def on_pattern(self, lower: FloatArray) -> sparse.csr_array:
        """The symmetric matrix (n, n) of entries (e,) in the order of `selected`."""
        nodes, n = self.nodes, self.nodes.order.size
        columns = nodes.order[np.repeat(np.arange(n), np.diff(nodes.entry_starts))]
        rows = nodes.order[nodes.entry_rows]
        off = rows != columns
        ends = np.append(rows, columns[off]), np.append(columns, rows[off])
        values = np.append(lower, lower[off])
        return sparse.csr_array(sparse.coo_array((values, ends), shape=(n, n)))


@part
def _block(values, starts, block, height, width):  # type: ignore[no-untyped-def]
    return values[starts[block] : starts[block + 1]].reshape(height, width)


@part
def _number(nodes, block, place):  # type: ignore[no-untyped-def]
    """Write the places of a block's columns and rows in its front; return where they are."""
    first, width = nodes.starts[block], nodes.starts[block + 1] - nodes.starts[block]
    below = nodes.rows[nodes.row_starts[block] : nodes.row_starts[block + 1]]
    for number in range(width):
        place[first + number] = number
    for number in range(below.size):
        place[below[number]] = width + number
    return first, width, below


@part
def _add(matrix, out, factor):  # type: ignore[no-untyped-def]
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] += factor * matrix[i, j]


@compiled
def _factorise(nodes, values, slope, stack, squares, below):  # type: ignore[no-untyped-def]
    n_terms, n_blocks = squares.shape[0], nodes.parents.size
    place = np.empty(slope.size, np.int64)
    # Updates of the children of a block end where its own one starts, the last child's on top.
    last_child = np.full(n_blocks, -1, np.int64)
    previous = np.full(n_blocks, -1, np.int64)
    top, log_determinant = np.int64(0), 0.0  # a literal zero would compile the parts twice
    for block in range(n_blocks):
        first, width, rows = _number(nodes, block, place)
        height = rows.size
        diagonal = np.zeros((n_terms, width, width))
        crossing = np.zeros((n_terms, height, width))
        stack[:, top : top + height**2] = 0.0
        _add_entries(nodes, values, slope, first, place, diagonal, crossing)
        bottom, child = top, last_child[block]
        while child >= 0:
            start, end = nodes.row_starts[child], nodes.row_starts[child + 1]
            bottom -= (end - start) ** 2
            into = place[nodes.rows[start:end]]
            _add_update(stack, bottom, top, into, diagonal, crossing)
            child = previous[child]
        log_determinant += _invert_series(diagonal, squares, nodes.square_starts, block)
        if height > 0:
            _eliminate(nodes, block, crossing, squares, below, stack, top)
        for k in range(n_terms):
            for number in range(height**2):  # down over the updates of the children
                stack[k, bottom + number] = stack[k, top + number]
        top = bottom + height**2
        above = nodes.parents[block]
        if above >= 0:
            previous[block] = last_child[above]
            last_child[above] = block
    return log_determinant


@part
def _add_entries(  # type: ignore[no-untyped-def]
    nodes, values, slope, first, place, diagonal, crossing
):
    width = diagonal.shape[1]
    for column in range(width):
        start, end = nodes.entry_starts[first + column], nodes.entry_starts[first + column + 1]
        for entry in range(start, end):
            row = place[nodes.entry_rows[entry]]
            if row < width:
                diagonal[0, row, column] = values[entry]
                diagonal[0, column, row] = values[entry]
            else:
                crossing[0, row - width, column] = values[entry]
        if diagonal.shape[0] > 1:
            diagonal[1, column, column] = slope[first + column]


@part
def _add_update(stack, bottom, top, into, diagonal, crossing):  # type: ignore[no-untyped-def]
    """Add the update that starts at `bottom` to a front, whose own update starts at `top`.

    Updates are symmetric, and only their lower triangles are used.
    """
    width, height, n_inner = diagonal.shape[1], crossing.shape[1], 0
    while n_inner < into.size and into[n_inner] < width:
        n_inner += 1
    for k in range(stack.shape[0]):
        waiting = stack[k, bottom : bottom + into.size**2].reshape(into.size, into.size)
        update = stack[k, top : top + height**2].reshape(height, height)
        for i in range(n_inner):
            for j in range(i):
                diagonal[k, into[i], into[j]] += waiting[i, j]
                diagonal[k, into[j], into[i]] += waiting[i, j]
            diagonal[k, into[i], into[i]] += waiting[i, i]
        for i in range(n_inner, into.size):
            row = into[i] - width
            for j in range(n_inner):
                crossing[k, row, into[j]] += waiting[i, j]
            for j in range(n_inner, i + 1):
                update[row, into[j] - width] += waiting[i, j]


@part
def _inverse_root(root):  # type: ignore[no-untyped-def]
    """Inverse of a lower triangle, tile by tile: all but the tiles on the diagonal by products."""
    width = root.shape[0]
    half = np.zeros((width, width))
    for start in range(0, width, TILE):
        end = min(start + TILE, width)
        for i in range(start, end):
            half[i, i] = 1.0
            for j in range(start, i):
                for column in range(start, j + 1):
                    half[i, column] -= root[i, j] * half[j, column]
            for column in range(start, i + 1):
                half[i, column] /= root[i, i]
        if start > 0:
            left = np.ascontiguousarray(root[start:end, :start])
            known = np.dot(left, np.ascontiguousarray(half[:start, :start]))
            tile = np.ascontiguousarray(half[start:end, start:end])
            _add(np.dot(tile, known), half[start:end, :start], -1.0)
    return half


@part
def _write_square(half, square):  # type: ignore[no-untyped-def]
    """Write `half' half` of a lower triangle, stripe by stripe of its lower triangle."""
    width = half.shape[0]
    if width <= STRIPE:
        np.dot(half.T, half, square)
        return
    for start in range(0, width, STRIPE):
        end = min(start + STRIPE, width)
        stripe = np.ascontiguousarray(half[start:, start:end])
        found = np.dot(stripe.T, np.ascontiguousarray(half[start:, :end]))
        for i in range(start, end):
            for j in range(i + 1):
                square[i, j] = found[i - start, j]
                square[j, i] = found[i - start, j]


@part
def _invert_series(matrix, inverses, starts, block):  # type: ignore[no-untyped-def]
    """Write the inverse of a polynomial; return the log determinant of its constant term."""
    width = matrix.shape[1]
    root = np.linalg.cholesky(matrix[0])
    half = _inverse_root(root)
    log_determinant = 0.0
    for i in range(width):
        log_determinant += 2.0 * np.log(root[i, i])
    first = _block(inverses[0], starts, block, width, width)
    _write_square(half, first)
    for k in range(1, matrix.shape[0]):
        total = np.zeros((width, width))
        for i in range(1, k + 1):
            other = _block(inverses[k - i], starts, block, width, width)
            _add(np.dot(matrix[i], other), total, -1.0)
        np.dot(first, total, _block(inverses[k], starts, block, width, width))
    return log_determinant


@part
def _eliminate(  # type: ignore[no-untyped-def]
    nodes, block, crossing, squares, below, stack, top
):
    """Write the rows X below a block, and subtract `X F_JR` from its update."""
    n_terms, height, width = crossing.shape
    for k in range(n_terms):
        X = _block(below[k], nodes.below_starts, block, height, width)
        for i in range(k + 1):
            inverse = _block(squares[k - i], nodes.square_starts, block, width, width)
            if i == 0:
                np.dot(crossing[0], inverse, X)
            else:
                _add(np.dot(crossing[i], inverse), X, 1.0)
    for k in range(n_terms):
        update = stack[k, top : top + height**2].reshape(height, height)
        for i in range(k + 1):
            X = _block(below[i], nodes.below_starts, block, height, width)
            for start in range(0, height, STRIPE):
                end = min(start + STRIPE, height)
                change = np.dot(X[start:end], crossing[k - i, :end].T)
                _add(change, update[start:end, :end], -1.0)


@compiled
def _solve(nodes, squares, below, V):  # type: ignore[no-untyped-def]
    for block in range(nodes.parents.size):
        first, end = nodes.starts[block], nodes.starts[block + 1]
        rows = nodes.rows[nodes.row_starts[block] : nodes.row_starts[block + 1]]
        if rows.size > 0:
            X = _block(below, nodes.below_starts, block, rows.size, end - first)
            change = np.dot(X, V[first:end])
            for number in range(rows.size):
                for column in range(V.shape[1]):
                    V[rows[number], column] -= change[number, column]
    for block in range(nodes.parents.size - 1, -1, -1):
        first, end = nodes.starts[block], nodes.starts[block + 1]
        rows = nodes.rows[nodes.row_starts[block] : nodes.row_starts[block + 1]]
        inverse = _block(squares, nodes.square_starts, block, end - first, end - first)
        found = np.dot(inverse, V[first:end])
        if rows.size > 0:
            X = _block(below, nodes.below_starts, block, rows.size, end - first)
            _add(np.dot(X.T, V[rows]), found, -1.0)
        V[first:end] = 0.0
        _add(found, V[first:end], 1.0)


@compiled
def _invert(nodes, squares, below, fronts, found):  # type: ignore[no-untyped-def]
    n_terms, n_blocks = squares.shape[0], nodes.parents.size
    place = np.empty(nodes.order.size, np.int64)
    ends = np.zeros(n_blocks + 1, np.int64)  # of fronts on the stack; the last one for no parent
    for block in range(n_blocks - 1, -1, -1):
        above = nodes.parents[block]
        start, end = nodes.row_starts[block], nodes.row_starts[block + 1]
        if above >= 0:
            _number(nodes, above, place)
        into = place[nodes.rows[start:end]]
        first, width, rows = _number(nodes, block, place)
        size, bottom = width + rows.size, ends[above]
        ends[block] = bottom + size**2
        if rows.size > 0:
            _extend(nodes, block, above, into, squares, below, fronts, bottom)
        for k in range(n_terms):
            front = fronts[k, bottom : bottom + size**2].reshape(size, size)
            if rows.size == 0:
                front[:] = 0.0
                _add(_block(squares[k], nodes.square_starts, block, width, width), front, 1.0)
            for column in range(width):
                start, end = (
                    nodes.entry_starts[first + column],
                    nodes.entry_starts[first + column + 1],
                )
                for entry in range(start, end):
                    found[k, entry] = front[place[nodes.entry_rows[entry]], column]


@part
def _extend(  # type: ignore[no-untyped-def]
    nodes, block, above, into, squares, below, fronts, bottom
):
    """Write the inverse on a block's front, which starts at `bottom`, behind its parent's."""
    n_terms, height = squares.shape[0], into.size
    width = nodes.starts[block + 1] - nodes.starts[block]
    n_above = nodes.starts[above + 1] - nodes.starts[above]
    n_above += nodes.row_starts[above + 1] - nodes.row_starts[above]
    size = width + height
    outer = np.empty((n_terms, height, height))
    crossing = np.zeros((n_terms, height, width))
    for k in range(n_terms):
        whole = fronts[k, bottom - n_above**2 : bottom].reshape(n_above, n_above)
        for i in range(height):
            for j in range(height):
                outer[k, i, j] = whole[into[i], into[j]]
        for i in range(k + 1):
            X = _block(below[k - i], nodes.below_starts, block, height, width)
            _add(np.dot(outer[i], X), crossing[k], -1.0)
    for k in range(n_terms):
        front = fronts[k, bottom : bottom + size**2].reshape(size, size)
        front[:] = 0.0
        inner = front[:width, :width]
        _add(_block(squares[k], nodes.square_starts, block, width, width), inner, 1.0)
        for i in range(k + 1):
            X = _block(below[i], nodes.below_starts, block, height, width)
            _add(np.dot(X.T, crossing[k - i]), inner, -1.0)
        _add(crossing[k], front[width:, :width], 1.0)
        _add(crossing[k].T, front[:width, width:], 1.0)
        _add(outer[k], front[width:, width:], 1.0)
