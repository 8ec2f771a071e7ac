"""Joint laws of norms, given as joint laws of uniforms u; the norm is `F^-1(u)` (MATH 3).

Under each of these laws every `u` alone is uniform on (0, 1), so that every norm alone follows its
spectrum, whichever that is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from coupledgp.random import FloatArray, open_uniforms


class Norms(ABC):
    """A joint law of uniforms in (0, 1), one for each frequency.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.couplings import DirectionsAndNorms, Norms, OrthogonalDirections
    >>> class AllEqual(Norms):  # one uniform for all blocks
    ...     def sample(self, n, block_size, rng):
    ...         return np.full(n, rng.random())
    >>> coupling = DirectionsAndNorms(OrthogonalDirections(), AllEqual())
    >>> frequencies = coupling.sample(6, 3, generator=0)
    >>> len(set(np.linalg.norm(frequencies, axis=1).round(9).tolist()))
    1
    """

    @abstractmethod
    def sample(self, n: int, block_size: int, rng: np.random.Generator) -> FloatArray:
        """Draw coupled uniforms in the open interval (0, 1).

        Parameters
        ----------
        n
            Number of uniforms.
        block_size
            Number of frequencies in a block, the dimension. Blocks are runs of consecutive
            entries, of which the last may be shorter.
        rng
            Generator of the draws.

        Returns
        -------
        FloatArray
            Uniforms, shape (n,).
        """


@dataclass(frozen=True)
class IndependentNorms(Norms):
    """Independent norms.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.couplings import IndependentNorms
    >>> u = IndependentNorms().sample(4000, block_size=2, rng=np.random.default_rng(0))
    >>> bool(abs(np.corrcoef(u[0::2], u[1::2])[0, 1]) < 0.1)
    True
    """

    def sample(self, n: int, block_size: int, rng: np.random.Generator) -> FloatArray:
        return open_uniforms(rng, n)


@dataclass(frozen=True)
class PairwiseNorms(Norms):
    """Pairwise norm coupling (PNC): `u_2 = 1 - u_1` in each of `floor(d/2)` pairs of a block.

    "Variance-reducing couplings", section 3.1. It is optimal for two orthogonal frequencies under
    Laplace features, and under Fourier features at small distances. The last frequency of an odd
    block is independent. In one dimension there are no pairs.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.couplings import PairwiseNorms
    >>> u = PairwiseNorms().sample(4, block_size=4, rng=np.random.default_rng(0))
    >>> (u[0::2] + u[1::2]).tolist()
    [1.0, 1.0]
    """

    def sample(self, n: int, block_size: int, rng: np.random.Generator) -> FloatArray:
        u = open_uniforms(rng, n)
        within = np.arange(n) % block_size
        second = np.flatnonzero(within % 2 == 1)
        u[second] = 1.0 - u[second - 1]
        return u


@dataclass(frozen=True)
class MonotoneNorms(Norms):
    """Positive monotone coupling (PM): one `u` is shared by a whole block.

    "Variance-reducing couplings", section 3.3. It is the worst coupling for the variance of a
    kernel entry and the best for attention.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.couplings import parse_coupling
    >>> frequencies = parse_coupling("orthogonal+monotone").sample(6, 3, generator=0)
    >>> lengths = np.linalg.norm(frequencies, axis=1).round(9)
    >>> [len(set(block)) for block in (lengths[:3].tolist(), lengths[3:].tolist())]
    [1, 1]
    """

    def sample(self, n: int, block_size: int, rng: np.random.Generator) -> FloatArray:
        n_blocks = -(-n // block_size)
        return np.repeat(open_uniforms(rng, n_blocks), block_size)[:n]


@dataclass(frozen=True)
class StratifiedNorms(Norms):
    """Stratified norms: one of the n norms from each of n equal strata, in random order.

    Not in the papers. The mean of a smooth function of the norms has a standard deviation of
    O(n^-3/2), where independent norms give O(n^-1/2).

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.couplings import StratifiedNorms
    >>> u = StratifiedNorms().sample(5, block_size=2, rng=np.random.default_rng(0))
    >>> np.sort(np.floor(5 * u)).astype(int).tolist()
    [0, 1, 2, 3, 4]
    """

    def sample(self, n: int, block_size: int, rng: np.random.Generator) -> FloatArray:
        return _strata(n, rng)


@dataclass(frozen=True)
class SharedStrataNorms(Norms):
    """Shared strata: one norm for all of a block, the blocks' norms stratified, in random order.

    Not in the papers. Orthogonal frequencies of one length r sum to `sum_i w_i w_i^T = r^2 I`
    exactly, so that at small distances the kernel's error is that of the mean of r^2 alone, and
    strata leave little of it (`theory.small_distance_coefficient`). With one block this is
    `MonotoneNorms`; with few blocks in many dimensions it is worse than independent norms.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.couplings import SharedStrataNorms
    >>> u = SharedStrataNorms().sample(8, block_size=2, rng=np.random.default_rng(0))
    >>> np.sort(np.floor(4 * u)).astype(int).tolist()  # one stratum for each of four blocks
    [0, 0, 1, 1, 2, 2, 3, 3]
    """

    def sample(self, n: int, block_size: int, rng: np.random.Generator) -> FloatArray:
        return np.repeat(_strata(-(-n // block_size), rng), block_size)[:n]


def _strata(n: int, rng: np.random.Generator) -> FloatArray:
    """Uniforms (n,), one from each of n equal strata, in random order."""
    within = open_uniforms(rng, n)
    # The sum can round up to n, because a large index leaves few bits to the uniform.
    u = (rng.permutation(n) + within) / n
    return np.clip(u, 2.0**-53, 1 - 2.0**-53)
