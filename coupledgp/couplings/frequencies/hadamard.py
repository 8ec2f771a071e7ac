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
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coupledgp.couplings.frequencies.directions import Directions
from coupledgp.couplings.frequencies.hadamard_products import product
from coupledgp.errors import InvalidInputError
from coupledgp.random import FloatArray

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
