"""Directions at obtuse angles: the simplex, and the sweeps that adapt it to given norms (MATH 3).

Reid et al., "Simplex random features" (2023), sections 3 and 4.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from coupledgp.couplings.frequencies.directions import Directions, haar_rows
from coupledgp.errors import NumericalError
from coupledgp.random import FloatArray
from coupledgp.validation import check_positive, check_positive_int


def simplex_product(Y: FloatArray) -> FloatArray:
    """`S Y` for `Y` (d, k) in O(d k): the rows of `S` are the d vertices of a regular simplex.

    `s_i = sqrt(d/(d-1)) e_i - (sqrt(d)+1) / (d-1)^{3/2} (1, ..., 1, 0)` for i < d and
    `s_d = (1, ..., 1, 0) / sqrt(d-1)`: unit vectors, any two at `cos = -1/(d-1)`. One alone for
    d = 1.
    """
    dim = len(Y)
    if dim == 1:
        return Y.copy()
    scale, shift = simplex_constants(dim)
    last = Y[:-1].sum(axis=0) / np.sqrt(dim - 1)
    return np.concatenate([scale * Y[:-1] - shift * last, last[None]])


def simplex_constants(dim: int) -> tuple[float, float]:
    """`sqrt(d/(d-1))` and `(sqrt(d)+1)/(d-1)`: `(S y)_i = scale y_i - shift (S y)_d`, d > 1."""
    return float(np.sqrt(dim / (dim - 1))), float((np.sqrt(dim) + 1) / (dim - 1))


@dataclass(frozen=True)
class SimplexDirections(Directions):
    """Rows of `S R`, S the vertices of a simplex and R Haar orthogonal, for each block.

    Any two directions of a block are at the angle `arccos(-1/(d-1))`, the largest that d vectors
    can all have. In one dimension they are independent.
    """

    def sample(self, norms: FloatArray, dim: int, rng: np.random.Generator) -> FloatArray:
        n_blocks = -(-norms.size // dim)
        blocks = [simplex_product(haar_rows(dim, dim, rng)) for _ in range(n_blocks)]
        return np.concatenate(blocks)[: norms.size]


@dataclass(frozen=True)
class SimplexPlusDirections(Directions):
    """Simplex directions adapted to the norms: each frequency opposes the sum of the others.

    From the simplex, sweeps over `w_i <- -|w_i| (sum_{j != i} w_j) / |sum_{j != i} w_j|` lower
    `|sum_i w_i|` until no direction of a sweep moves by more than `tolerance`; a Haar rotation
    follows. Given the norms every direction is uniform, so the marginals are those of the spectrum.

    Parameters
    ----------
    tolerance
        Largest move of a unit vector in the last sweep.
    max_sweeps
        Sweeps after which `NumericalError` is raised.
    """

    tolerance: float = 1e-6
    max_sweeps: int = 100_000

    def __post_init__(self) -> None:
        check_positive(self.tolerance, "tolerance")
        check_positive_int(self.max_sweeps, "max_sweeps")

    def sample(self, norms: FloatArray, dim: int, rng: np.random.Generator) -> FloatArray:
        simplex = simplex_product(np.eye(dim))
        blocks = []
        for start in range(0, norms.size, dim):
            block = norms[start : start + dim]
            settled, _ = settle(simplex[: block.size], block, self.tolerance, self.max_sweeps)
            blocks.append(settled @ haar_rows(dim, dim, rng))
        return np.concatenate(blocks)


def settle(
    directions: FloatArray, norms: FloatArray, tolerance: float, max_sweeps: int
) -> tuple[FloatArray, int]:
    """Sweep unit vectors (n, d) with norms (n,) until they settle; returns them and the sweeps.

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


@numba.njit(cache=True)
def _sweep(units, norms, tolerance, max_sweeps):  # type: ignore[no-untyped-def]
    n, dim = units.shape
    # The sum leaves the longest one out: the others would drown in its rounding errors.
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
            # Where the others cancel out, every direction is as good.
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
