"""Fast directions: rotations of O(d) numbers, applied in O(d log d) (MATH 3).

In place of a Haar matrix stands `R = H D_3 H D_2 H Q_1`, `H` the normalised Hadamard matrix of
order p, `D_2` and `D_3` random signs. The papers have random signs for `Q_1` too, which leaves a
direction on finitely many points of the sphere: in few dimensions the estimates would be biased.
Signs are the units of the real numbers; `Q_1` has units of the octonions instead, one for each
eight coordinates, by which it multiplies from the left (quaternions, complex numbers and signs for
p = 4, 2 and 1). Multiplying by a uniform unit makes any vector uniform on its sphere, hence

* up to p = 8 every direction is uniform and every sum of frequencies isotropic: mean squared errors
  are exactly those of Haar rotations;
* beyond, a direction is uniform within each eight coordinates; how its square divides among them
  comes from the signs.

If the dimension d is no power of two, the frequencies are those of the next one, p: blocks of p
directions, norms of the law in p dimensions, of which the first d coordinates are taken. A spectrum
belongs to one kernel in all dimensions, so the marginals in d dimensions are right, and inputs are
padded by zeros. The p frequencies of a block are orthogonal (a simplex) in p dimensions, not in d.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coupledgp.couplings.frequencies.directions import Directions
from coupledgp.couplings.frequencies.hadamard_products import product
from coupledgp.errors import InvalidInputError
from coupledgp.random import FloatArray

# Multiplication by units keeps lengths in 1, 2, 4 and 8 dimensions only (Hurwitz).
LARGEST_ALGEBRA = 8


@dataclass(frozen=True)
class HadamardRotations:
    """Random numbers of fast rotations, one for each block of p directions.

    Parameters
    ----------
    units
        Units of the octonions, (blocks, p), each run of min(p, 8) of length one.
    signs
        Diagonals of `D_2` and `D_3`, (blocks, 2, p), int8.
    """

    units: FloatArray
    signs: NDArray[np.int8]

    @classmethod
    def draw(cls, n_blocks: int, dim: int, rng: np.random.Generator) -> HadamardRotations:
        """Draw rotations of `dim` (a power of two) dimensions."""
        size = min(dim, LARGEST_ALGEBRA)
        units = rng.standard_normal((n_blocks, dim // size, size))
        units /= np.linalg.norm(units, axis=2, keepdims=True)
        signs = 2 * rng.integers(0, 2, size=(n_blocks, 2, dim), dtype=np.int8) - 1
        return cls(units.reshape(n_blocks, dim), signs.astype(np.int8))


@dataclass(frozen=True)
class StructuredFrequencies:
    """An ensemble of frequencies in O(m) numbers, for products with it in O(m log d).

    The first `ceil(m/2)` frequencies (all m unless `antithetic`) are `norms` times rows of the
    rotations, or of the simplex times the rotations; the others are their negatives.
    """

    n_frequencies: int
    dim: int
    norms: FloatArray
    rotations: HadamardRotations
    simplex: bool
    antithetic: bool

    def dense(self) -> FloatArray:
        """The frequencies themselves, (m, d)."""
        drawn = np.empty((self.dim, self.norms.size))
        units, signs = self.rotations.units, self.rotations.signs
        product(np.eye(self.dim), self.norms, units, signs, self.simplex, False, drawn)
        whole = np.concatenate([drawn, -drawn], axis=1) if self.antithetic else drawn
        return np.ascontiguousarray(whole.T[: self.n_frequencies])


@dataclass(frozen=True)
class FastDirections(Directions):
    """Orthogonal or simplex directions by Hadamard rotations; see the module for their law.

    Choromanski et al., "The unreasonable effectiveness of structured random orthogonal embeddings"
    (2017); Reid et al., "Simplex random features" (2023), section 4.

    Parameters
    ----------
    simplex
        Multiply the rotation by the vertices of a simplex, as in `SimplexDirections`.
    """

    simplex: bool = False

    def ambient_dim(self, dim: int) -> int:
        """The next power of two."""
        return 1 << (dim - 1).bit_length()

    def draw(self, n_norms: int, dim: int, rng: np.random.Generator) -> HadamardRotations:
        """Random numbers behind the directions of `n_norms` norms; `dim` is a power of two."""
        return HadamardRotations.draw(-(-n_norms // dim), dim, rng)

    def sample(self, norms: FloatArray, dim: int, rng: np.random.Generator) -> FloatArray:
        if self.ambient_dim(dim) != dim:
            raise InvalidInputError(f"dim: expected a power of two, got {dim}; use ambient_dim")
        rotations = self.draw(norms.size, dim, rng)
        ones = np.ones(norms.size)
        return StructuredFrequencies(norms.size, dim, ones, rotations, self.simplex, False).dense()
