"""Fast directions: rotations with O(d) random numbers, applied in O(d log d) time (MATH 3).

The rotation `R = H D_3 H D_2 H Q_1` replaces a Haar matrix. `H` is the normalised Hadamard matrix
of order p; `D_2` and `D_3` are diagonals of random signs. The papers have random signs for `Q_1`
too, which leaves a direction on finitely many points of the sphere, so that estimates would be
biased in few dimensions. Signs are the units of the real numbers; `Q_1` has units of the octonions
instead, one for each run of eight coordinates, and multiplies the run by its unit from the left
(quaternions, complex numbers and signs for p = 4, 2 and 1). The product of any vector with a
uniform unit is uniform on its sphere, hence

* up to p = 8 every direction is uniform and every sum of frequencies is isotropic, so that mean
  squared errors are exactly those of Haar rotations;
* for larger p a direction is uniform within each run of eight coordinates, and the signs decide
  how its squared length divides among the runs.

If the dimension d is no power of two, frequencies are drawn in p dimensions, where p is the next
power of two: in blocks of p directions, with norms of the law in p dimensions. The first d
coordinates are used. A spectrum belongs to one kernel in all dimensions, so that the marginals in
d dimensions are right; inputs are padded by zeros. The p frequencies of a block are orthogonal, or
a simplex, in p dimensions, not in d.

Products with fast rotations, in O(d log d) time for each block of directions.

Sixteen rows at a time are stored side by side, so that each step of the transform is one vector
instruction for all of them, and the whole tile stays in the cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coupledgp.couplings.frequencies.directions import Directions
from coupledgp.errors import InvalidInputError
from coupledgp.ground.compiled import compiled, part, share_rows
from coupledgp.random import FloatArray

TILE = 16  # rows in a tile: two vectors of eight float64, or one of sixteen float32 (AVX-512)
# Number of entries from which a product takes longer than the start of the threads.
PARALLEL_FROM = 2**16


def multiplication_signs(size: int) -> NDArray[np.int8]:
    """Signs s (size, size) in the products `e_i e_j = s_ij e_(i xor j)` of basis elements.

    The Cayley-Dickson construction `(a, b)(c, d) = (a c - d* b, d a + b c*)` doubles the real
    numbers to the complex numbers, the quaternions and the octonions (size 2, 4 and 8).
    """
    signs = np.ones((1, 1), dtype=np.int8)
    while len(signs) < size:
        conjugate = np.ones(len(signs), dtype=np.int8)
        conjugate[1:] = -1
        signs = np.block([[signs, signs.T], [signs * conjugate, -signs.T * conjugate]]).astype(
            np.int8
        )
    return signs


SIGNS_OF_PRODUCTS = multiplication_signs(8)


@part
def hadamard(tile):  # type: ignore[no-untyped-def]
    """Multiply a tile (p, TILE) in place by the Hadamard matrix of order p with entries +-1.

    Two levels of the transform are done at once, which halves the reads and writes.
    """
    size = tile.shape[0]
    half = 1
    while 2 * half < size:
        for start in range(0, size, 4 * half):
            for j in range(start, start + half):
                for k in range(TILE):
                    a, b = tile[j, k], tile[j + half, k]
                    c, d = tile[j + 2 * half, k], tile[j + 3 * half, k]
                    tile[j, k] = (a + b) + (c + d)
                    tile[j + half, k] = (a - b) + (c - d)
                    tile[j + 2 * half, k] = (a + b) - (c + d)
                    tile[j + 3 * half, k] = (a - b) - (c - d)
        half *= 4
    if half < size:
        for j in range(half):
            for k in range(TILE):
                a, b = tile[j, k], tile[j + half, k]
                tile[j, k] = a + b
                tile[j + half, k] = a - b


@part
def _flip(tile, signs):  # type: ignore[no-untyped-def]
    """Multiply the rows of a tile (p, TILE) in place by signs (p,)."""
    for j in range(tile.shape[0]):
        sign = tile.dtype.type(signs[j])
        for k in range(TILE):
            tile[j, k] *= sign


@compiled
def unit_matrices(units, transpose):  # type: ignore[no-untyped-def]
    """Matrices (blocks, p, 8) that multiply by units (blocks, p), or their transposes.

    The first min(p, 8) columns are used.
    """
    n_blocks, p = units.shape
    size = min(p, 8)
    matrices = np.zeros((n_blocks, p, 8), units.dtype)
    for block in range(n_blocks):
        for start in range(0, p, size):
            for a in range(size):
                for b in range(size):
                    row, column = (b, a) if transpose else (a, b)
                    sign = units.dtype.type(SIGNS_OF_PRODUCTS[row ^ column, column])
                    unit = units[block, start + (row ^ column)]
                    matrices[block, start + a, b] = sign * unit
    return matrices


@part
def _multiply(tile, matrices, out):  # type: ignore[no-untyped-def]
    """Add the products of matrices (p, 8) and runs of min(p, 8) rows to `out` (p, TILE)."""
    size = min(tile.shape[0], 8)
    # Eight rows, padded with zeros for the smaller algebras, give the inner loop a fixed length.
    rows = np.zeros((8, TILE), tile.dtype)
    for start in range(0, tile.shape[0], size):
        for b in range(size):  # no assignment of slices: its checks are slow to compile
            for k in range(TILE):
                rows[b, k] = tile[start + b, k]
        for a in range(start, start + size):
            for k in range(TILE):
                total = matrices[a, 0] * rows[0, k]
                for b in range(1, 8):
                    total += matrices[a, b] * rows[b, k]
                out[a, k] += total


@part
def _simplex(tile, transposed):  # type: ignore[no-untyped-def]
    """Multiply a tile (p, TILE) in place by the simplex matrix S of `simplex_product`, or by S'.

    Either product scales all rows but the last and adds to them one vector, made of their sum.
    """
    p = tile.shape[0]
    scale = tile.dtype.type(np.sqrt(p / (p - 1)))
    shift = tile.dtype.type((np.sqrt(p) + 1) / (p - 1))
    total = np.zeros(TILE, tile.dtype)
    for j in range(p - 1):
        for k in range(TILE):
            total[k] += tile[j, k]
    root = tile.dtype.type(np.sqrt(p - 1))
    for k in range(TILE):
        if transposed:
            total[k] = (tile[p - 1, k] - shift * total[k]) / root
            tile[p - 1, k] = 0
        else:
            tile[p - 1, k] = total[k] / root
            total[k] = -shift * tile[p - 1, k]
    for j in range(p - 1):
        for k in range(TILE):
            tile[j, k] = scale * tile[j, k] + total[k]


@part
def _project_tile(start, X, scales, matrices, signs, simplex, out):  # type: ignore[no-untyped-def]
    """Write the products of X (n, d) for one tile of rows, from row `start` on, to out (n, m)."""
    dim = X.shape[1]
    n_blocks, p = matrices.shape[:2]
    width = min(TILE, X.shape[0] - start)
    rows = np.zeros((p, TILE), X.dtype)
    for k in range(width):
        for j in range(dim):
            rows[j, k] = X[start + k, j]
    tile = np.empty((p, TILE), X.dtype)
    for block in range(n_blocks):
        tile[:] = 0
        _multiply(rows, matrices[block], tile)
        hadamard(tile)
        for level in range(2):
            _flip(tile, signs[block, level])
            hadamard(tile)
        if simplex and p > 1:
            _simplex(tile, False)
        first = block * p
        for k in range(width):
            for j in range(min(p, scales.size - first)):
                out[start + k, first + j] = scales[first + j] * tile[j, k]


@part
def _back_tile(start, G, scales, matrices, signs, simplex, out):  # type: ignore[no-untyped-def]
    """Write the transposed products of G (n, m) for one tile of rows to out (n, d).

    `matrices` are those of the transposed units.
    """
    dim = out.shape[1]
    n_blocks, p = matrices.shape[:2]
    width = min(TILE, G.shape[0] - start)
    total = np.zeros((p, TILE), G.dtype)
    tile = np.empty((p, TILE), G.dtype)
    for block in range(n_blocks):
        tile[:] = 0
        first = block * p
        for k in range(width):
            for j in range(min(p, scales.size - first)):
                tile[j, k] = scales[first + j] * G[start + k, first + j]
        if simplex and p > 1:
            _simplex(tile, True)
        hadamard(tile)
        for level in range(2):
            _flip(tile, signs[block, 1 - level])
            hadamard(tile)
        _multiply(tile, matrices[block], total)
    for k in range(width):
        for j in range(dim):
            out[start + k, j] = total[j, k]


@compiled
def _tiles(first, last, X, scales, matrices, signs, simplex, transposed, out):  # type: ignore[no-untyped-def]
    for index in range(first, last):
        if transposed:
            _back_tile(index * TILE, X, scales, matrices, signs, simplex, out)
        else:
            _project_tile(index * TILE, X, scales, matrices, signs, simplex, out)


def product(
    X: NDArray[Any],
    norms: NDArray[Any],
    units: NDArray[Any],
    signs: NDArray[np.int8],
    simplex: bool,
    transposed: bool,
    out: NDArray[Any],
) -> None:
    """Write `X W'`, or `X W` if transposed, to `out`, where W (m, d) holds the frequencies.

    All floating-point arrays have one type, float32 or float64.

    Parameters
    ----------
    X
        Inputs (n, d), or (n, m) if transposed.
    norms
        Norms (m,) of the frequencies.
    units, signs
        Numbers of `HadamardRotations`, (blocks, p) and (blocks, 2, p).
    simplex
        Whether the vertices of a simplex multiply the rotation.
    transposed
        Whether to compute `X W` and not `X W'`.
    out
        Array for the result, (n, m), or (n, d) if transposed.
    """
    p = units.shape[1]
    scales = norms / norms.dtype.type(p * np.sqrt(p))
    given = (X, scales, unit_matrices(units, transposed), signs, simplex, transposed, out)
    n_tiles = -(-len(X) // TILE)
    if len(X) * norms.size < PARALLEL_FROM:
        _tiles(0, n_tiles, *given)
        return

    def work(blocks: Iterator[tuple[int, int]]) -> None:
        for first, last in blocks:
            _tiles(first, last, *given)

    share_rows(work, n_tiles, least=1, most=n_tiles)


# Products with units preserve lengths in 1, 2, 4 and 8 dimensions only (Hurwitz).
LARGEST_ALGEBRA = 8


@dataclass(frozen=True)
class HadamardRotations:
    """Random numbers of fast rotations, one rotation for each block of p directions.

    Parameters
    ----------
    units
        Units of the octonions, shape (blocks, p); each run of min(p, 8) entries has length one.
    signs
        Diagonals of `D_2` and `D_3`, shape (blocks, 2, p), int8.
    """

    units: FloatArray
    signs: NDArray[np.int8]

    @classmethod
    def draw(cls, n_blocks: int, dim: int, rng: np.random.Generator) -> HadamardRotations:
        """Draw rotations in `dim` dimensions, a power of two."""
        size = min(dim, LARGEST_ALGEBRA)
        units = rng.standard_normal((n_blocks, dim // size, size))
        units /= np.linalg.norm(units, axis=2, keepdims=True)
        signs = 2 * rng.integers(0, 2, size=(n_blocks, 2, dim), dtype=np.int8) - 1
        return cls(units.reshape(n_blocks, dim), signs.astype(np.int8))


@dataclass(frozen=True)
class StructuredFrequencies:
    """An ensemble of frequencies in O(m) numbers, whose product with a vector takes O(m log d).

    The frequencies are `norms` times the rows of the rotations, or the rows of the simplex times
    the rotations. If `antithetic`, these are the first `ceil(m/2)` frequencies and the others are
    their negatives.

    Parameters
    ----------
    n_frequencies, dim
        Number of frequencies m, and their dimension d.
    norms
        Norms of the frequencies that are no negatives, shape (m,) or (ceil(m/2),).
    rotations
        Random numbers of the rotations.
    simplex
        Whether the vertices of a simplex multiply the rotations.
    antithetic
        Whether the second half is the negative of the first.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.couplings import parse_coupling
    >>> coupling = parse_coupling("orthogonal-fast+pnc")
    >>> structured = coupling.structured(8, 4, generator=0)
    >>> bool(np.allclose(structured.dense(), coupling.sample(8, 4, generator=0)))
    True
    >>> parse_coupling("orthogonal+pnc").structured(8, 4) is None  # no fast products
    True
    """

    n_frequencies: int
    dim: int
    norms: FloatArray
    rotations: HadamardRotations
    simplex: bool
    antithetic: bool

    def dense(self) -> FloatArray:
        """Return the frequencies as an array (m, d)."""
        drawn = np.empty((self.dim, self.norms.size))
        units, signs = self.rotations.units, self.rotations.signs
        product(np.eye(self.dim), self.norms, units, signs, self.simplex, False, drawn)
        whole = np.concatenate([drawn, -drawn], axis=1) if self.antithetic else drawn
        return np.ascontiguousarray(whole.T[: self.n_frequencies])


@dataclass(frozen=True)
class FastDirections(Directions):
    """Orthogonal or simplex directions by Hadamard rotations; the module describes their law.

    Choromanski et al., "The unreasonable effectiveness of structured random orthogonal embeddings"
    (2017); Reid et al., "Simplex random features" (2023), section 4.

    Parameters
    ----------
    simplex
        Whether the vertices of a simplex multiply the rotation, as in `SimplexDirections`.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.couplings import FastDirections
    >>> rows = FastDirections().sample(np.ones(8), 8, np.random.default_rng(0))
    >>> bool(np.allclose(rows @ rows.T, np.eye(8)))
    True
    >>> FastDirections().ambient_dim(5)  # the dimension that 5 is padded to
    8
    """

    simplex: bool = False

    @property
    def sums_to_zero(self) -> bool:
        return self.simplex

    def ambient_dim(self, dim: int) -> int:
        """Least power of two that is not below `dim`."""
        return 1 << (dim - 1).bit_length()

    def draw(self, n_norms: int, dim: int, rng: np.random.Generator) -> HadamardRotations:
        """Draw the rotations for `n_norms` directions in `dim` dimensions, a power of two."""
        return HadamardRotations.draw(-(-n_norms // dim), dim, rng)

    def sample(self, norms: FloatArray, dim: int, rng: np.random.Generator) -> FloatArray:
        if self.ambient_dim(dim) != dim:
            raise InvalidInputError(f"dim: expected a power of two, got {dim}; use ambient_dim")
        rotations = self.draw(norms.size, dim, rng)
        ones = np.ones(norms.size)
        return StructuredFrequencies(norms.size, dim, ones, rotations, self.simplex, False).dense()
