"""Joint laws of directions: unit vectors whose marginals are uniform on the sphere (MATH 3).

Directions at obtuse angles: the simplex, and the sweeps that adapt it to given norms (MATH 3).

Reid et al., "Simplex random features" (2023), sections 3 and 4.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from coupledgp.errors import NumericalError
from coupledgp.ground.compiled import compiled
from coupledgp.ground.validation import check_positive, check_positive_int
from coupledgp.random import FloatArray


class Directions(ABC):
    """A joint law of unit vectors, each uniform on the sphere.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.couplings import Directions, DirectionsAndNorms
    >>> class OneAxis(Directions):  # one random axis for all frequencies
    ...     def sample(self, norms, dim, rng):
    ...         axis = rng.standard_normal(dim)
    ...         return np.tile(axis / np.linalg.norm(axis), (norms.size, 1))
    >>> frequencies = DirectionsAndNorms(OneAxis()).sample(6, 3, generator=0)
    >>> int(np.linalg.matrix_rank(frequencies))
    1
    """

    def ambient_dim(self, dim: int) -> int:
        """Dimension p >= d in which the directions of d-dimensional frequencies are drawn.

        Norms then follow their law in p dimensions, and blocks have p entries. The first d
        coordinates of the frequencies are used, whose marginals are those of d dimensions.
        """
        return dim

    @property
    def sums_to_zero(self) -> bool:
        """Whether the directions of a full block lean away from each other, as a simplex's do.

        They then span one dimension less than the block has entries.
        """
        return False

    @abstractmethod
    def sample(self, norms: FloatArray, dim: int, rng: np.random.Generator) -> FloatArray:
        """Draw one unit vector for each norm.

        Parameters
        ----------
        norms
            Norms (m,) by which the directions will be multiplied, in order. Blocks are runs of
            `dim` consecutive entries, of which the last may be shorter. Most laws use only the
            number of norms.
        dim
            Dimension d of the vectors.
        rng
            Generator of the draws.

        Returns
        -------
        FloatArray
            Unit vectors, shape (m, dim).
        """


@dataclass(frozen=True)
class IidDirections(Directions):
    """Independent directions.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.couplings import IidDirections
    >>> rows = IidDirections().sample(np.ones(4000), 2, np.random.default_rng(0))
    >>> cosines = (rows[0::2] * rows[1::2]).sum(axis=1)
    >>> bool(abs(np.mean(cosines**2) - 1 / 2) < 0.05)  # 1/d, where orthogonal ones have zero
    True
    """

    def sample(self, norms: FloatArray, dim: int, rng: np.random.Generator) -> FloatArray:
        vectors = rng.standard_normal((norms.size, dim))
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@dataclass(frozen=True)
class OrthogonalDirections(Directions):
    """Rows of independent Haar orthogonal matrices, one matrix for each block of d directions.

    Yu et al. (2016); "Variance-reducing couplings", section 3.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.couplings import OrthogonalDirections
    >>> rows = OrthogonalDirections().sample(np.ones(6), 3, np.random.default_rng(0))
    >>> bool(np.allclose(rows[:3] @ rows[:3].T, np.eye(3)))  # within the first block
    True
    >>> bool(np.allclose(rows[:3] @ rows[3:].T, 0))  # between blocks
    False
    """

    def sample(self, norms: FloatArray, dim: int, rng: np.random.Generator) -> FloatArray:
        n_full, rest = divmod(norms.size, dim)
        rows = haar_blocks(n_full, dim, dim, rng).reshape(-1, dim)
        return np.concatenate([rows, haar_blocks(1, rest, dim, rng)[0]]) if rest else rows


def haar_blocks(n_blocks: int, n_rows: int, dim: int, rng: np.random.Generator) -> FloatArray:
    """Draw the first `n_rows <= dim` rows of Haar-distributed orthogonal matrices, in blocks.

    They come from the QR factorisations of Gaussian matrices. With the signs of R's diagonal the
    factors are unique, and therefore Haar-distributed (Mezzadri, 2007).

    Parameters
    ----------
    n_blocks, n_rows, dim
        Number of independent matrices, of their rows, and of columns.
    rng
        Generator, which draws one block after the other.

    Returns
    -------
    FloatArray
        Shape (n_blocks, n_rows, dim).
    """
    q, r = np.linalg.qr(rng.standard_normal((n_blocks, dim, n_rows)))
    signs = np.sign(np.diagonal(r, axis1=1, axis2=2))
    return np.ascontiguousarray((q * signs[:, None, :]).swapaxes(1, 2))


def simplex_product(Y: FloatArray) -> FloatArray:
    """Compute `S Y` (d, k) for `Y` (d, k) in O(d k) time; S holds the vertices of a simplex.

    The rows of S are `s_i = sqrt(d/(d-1)) e_i - (sqrt(d)+1) / (d-1)^{3/2} (1, ..., 1, 0)` for
    i < d and `s_d = (1, ..., 1, 0) / sqrt(d-1)`: unit vectors, any two of which have the cosine
    `-1/(d-1)`. For d = 1, S is one.
    """
    dim = len(Y)
    if dim == 1:
        return Y.copy()
    scale, shift = simplex_constants(dim)
    last = Y[:-1].sum(axis=0) / np.sqrt(dim - 1)
    return np.concatenate([scale * Y[:-1] - shift * last, last[None]])


def simplex_constants(dim: int) -> tuple[float, float]:
    """Scale `sqrt(d/(d-1))` and shift `(sqrt(d)+1)/(d-1)` of the simplex, for d > 1.

    With them `(S y)_i = scale y_i - shift (S y)_d` for i < d.
    """
    return float(np.sqrt(dim / (dim - 1))), float((np.sqrt(dim) + 1) / (dim - 1))


@dataclass(frozen=True)
class SimplexDirections(Directions):
    """Rows of `S R` for each block, where S holds the vertices of a simplex and R is Haar.

    Any two directions of a block have the angle `arccos(-1/(d-1))`, the largest common angle of d
    vectors. In one dimension directions are independent.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.couplings import SimplexDirections
    >>> rows = SimplexDirections().sample(np.ones(4), 4, np.random.default_rng(0))
    >>> (rows @ rows.T).round(3)[0].tolist()  # 1, then -1/(d-1)
    [1.0, -0.333, -0.333, -0.333]
    """

    @property
    def sums_to_zero(self) -> bool:
        return True

    def sample(self, norms: FloatArray, dim: int, rng: np.random.Generator) -> FloatArray:
        n_blocks = -(-norms.size // dim)
        blocks = map(simplex_product, haar_blocks(n_blocks, dim, dim, rng))
        return np.concatenate(list(blocks))[: norms.size]


@dataclass(frozen=True)
class SimplexPlusDirections(Directions):
    """Simplex directions adapted to the norms: each frequency opposes the sum of all others.

    Sweeps over `w_i <- -|w_i| (sum_{j != i} w_j) / |sum_{j != i} w_j|` start at the simplex and
    lower `|sum_i w_i|`, until no direction moves by more than `tolerance` in a sweep. A Haar
    rotation follows. Given the norms, every direction is uniform, so that each frequency alone
    follows the spectrum.

    Parameters
    ----------
    tolerance
        Largest move of a unit vector in the last sweep.
    max_sweeps
        Number of sweeps after which `NumericalError` is raised.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.couplings import SimplexDirections, SimplexPlusDirections
    >>> norms = np.array([1.0, 2.0, 2.5])
    >>> def length_of_sum(directions):
    ...     return np.linalg.norm(norms @ directions.sample(norms, 3, np.random.default_rng(0)))
    >>> round(float(length_of_sum(SimplexPlusDirections())), 3)
    0.0
    >>> round(float(length_of_sum(SimplexDirections())), 3)
    1.323
    """

    tolerance: float = 1e-6
    max_sweeps: int = 100_000

    def __post_init__(self) -> None:
        check_positive(self.tolerance, "tolerance")
        check_positive_int(self.max_sweeps, "max_sweeps")

    @property
    def sums_to_zero(self) -> bool:
        return True

    def sample(self, norms: FloatArray, dim: int, rng: np.random.Generator) -> FloatArray:
        simplex = simplex_product(np.eye(dim))
        blocks = []
        rotations = haar_blocks(-(-norms.size // dim), dim, dim, rng)
        for start, rotation in zip(range(0, norms.size, dim), rotations, strict=True):
            block = norms[start : start + dim]
            settled, _ = settle(simplex[: block.size], block, self.tolerance, self.max_sweeps)
            blocks.append(settled @ rotation)
        return np.concatenate(blocks)


def settle(
    directions: FloatArray, norms: FloatArray, tolerance: float, max_sweeps: int
) -> tuple[FloatArray, int]:
    """Sweep over directions until they settle.

    Parameters
    ----------
    directions
        Unit vectors at the start, shape (n, d).
    norms
        Norms of the frequencies, shape (n,).
    tolerance
        Largest move of a unit vector in the last sweep.
    max_sweeps
        Largest number of sweeps.

    Returns
    -------
    tuple of FloatArray and int
        Settled unit vectors (n, d), and the number of sweeps.

    Raises
    ------
    NumericalError
        A direction still moves by more than the tolerance after `max_sweeps`.
    """
    settled = directions.copy()
    sweeps, moved = _sweep(settled, norms, tolerance, max_sweeps)
    if moved > tolerance:
        raise NumericalError(
            f"simplex-plus: directions still move by {moved:.1e} after {sweeps} sweeps, tolerance "
            f"{tolerance:.1e}; raise max_sweeps or tolerance of SimplexPlusDirections"
        )
    return settled, sweeps


@compiled
def _sweep(units, norms, tolerance, max_sweeps):  # type: ignore[no-untyped-def]
    """Sweep over units (n, d) in place; return the number of sweeps and the last largest move."""
    n, dim = units.shape
    # The sum leaves out the longest frequency, whose rounding errors would hide the shortest.
    longest = np.argmax(norms)
    shorter = norms.copy()
    shorter[longest] = 0.0
    others = np.empty(dim)
    moved = 0.0
    for sweep in range(max_sweeps):
        total = shorter @ units
        moved = 0.0
        for i in range(n):
            for k in range(dim):
                others[k] = total[k] - shorter[i] * units[i, k]
                if i != longest:
                    others[k] += norms[longest] * units[longest, k]
            size = np.sqrt((others**2).sum())
            # Where the others cancel out, all directions are equally good.
            if size <= 1e-12 * (norms.sum() - norms[i]):
                continue
            change = 0.0
            for k in range(dim):
                turned = -others[k] / size
                change += (turned - units[i, k]) ** 2
                total[k] += shorter[i] * (turned - units[i, k])
                units[i, k] = turned
            moved = max(moved, np.sqrt(change))
        if moved <= tolerance:
            return sweep + 1, moved
    return max_sweeps, moved
