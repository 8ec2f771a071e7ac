"""Joint laws of directions: unit vectors whose marginals are uniform on the sphere (MATH 3)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

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
