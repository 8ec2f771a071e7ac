"""Joint laws of norms, as joint laws of uniforms: the norm is `F^-1(u)` (MATH 3).

Every law here keeps each `u` uniform on (0, 1), so that each norm keeps its own law whatever the
spectrum.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from coupledgp.random import FloatArray, open_uniforms


class Norms(ABC):
    """A joint law of uniforms in (0, 1), one for each frequency."""

    @abstractmethod
    def sample(self, n: int, block_size: int, rng: np.random.Generator) -> FloatArray:
        """Draw `n` coupled uniforms in the open interval (0, 1), shape (n,).

        Blocks are runs of `block_size` (= dimension) consecutive entries; the last one is cut when
        `n` is not a multiple.
        """


@dataclass(frozen=True)
class IndependentNorms(Norms):
    """Independent norms."""

    def sample(self, n: int, block_size: int, rng: np.random.Generator) -> FloatArray:
        return open_uniforms(rng, n)


@dataclass(frozen=True)
class PairwiseNorms(Norms):
    """Pairwise norm coupling (PNC): `u_2 = 1 - u_1` in each of `floor(d/2)` pairs of a block.

    "Variance-reducing couplings", section 3.1: optimal for two orthogonal frequencies under
    Laplace features, and under Fourier features at small distances. An odd frequency out is
    independent. In one dimension there are no pairs.
    """

    def sample(self, n: int, block_size: int, rng: np.random.Generator) -> FloatArray:
        u = open_uniforms(rng, n)
        within = np.arange(n) % block_size
        second = np.flatnonzero(within % 2 == 1)
        u[second] = 1.0 - u[second - 1]
        return u


@dataclass(frozen=True)
class MonotoneNorms(Norms):
    """Positive monotone coupling (PM): one `u` shared by a whole block.

    "Variance-reducing couplings", section 3.3: the worst for the variance of a kernel entry, the
    best for attention.
    """

    def sample(self, n: int, block_size: int, rng: np.random.Generator) -> FloatArray:
        n_blocks = -(-n // block_size)
        return np.repeat(open_uniforms(rng, n_blocks), block_size)[:n]


@dataclass(frozen=True)
class StratifiedNorms(Norms):
    """All n norms from n equal strata, one each, randomly permuted over all blocks.

    Not in the papers. The sum of any function of the norms then varies by O(n^-3/2) for smooth
    functions, where independent norms give O(n^-1/2).
    """

    def sample(self, n: int, block_size: int, rng: np.random.Generator) -> FloatArray:
        within = open_uniforms(rng, n)
        # A stratum index of many bits can round the sum up to n.
        u = (rng.permutation(n) + within) / n
        return np.clip(u, 2.0**-53, 1 - 2.0**-53)
