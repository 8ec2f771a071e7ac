"""Joint laws of norms, given as joint laws of uniforms u; the norm is `F^-1(u)` (MATH 3).

Under each of these laws every `u` alone is uniform on (0, 1), so that every norm alone follows its
spectrum, whichever that is.

Norms coupled by a Gaussian copula (MATH 3).
"""

from __future__ import annotations

import json
import reprlib
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import wrong
from coupledgp.random import FloatArray, open_uniforms, symmetric_root


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
    strata leave little of it. With one block this is
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


# Error allowed in a correlation matrix. Those of pairwise and monotone norms are singular, so that
# rounding alone can make an eigenvalue negative.
ROUNDING = 1e-10
# Largest number of norms in a block whose law a text states.
LARGEST_ORDER = 1024


@dataclass(frozen=True)
class GaussianCopulaNorms(Norms):
    """Norms with uniforms `u = Phi(g)`, where `g ~ N(0, C)` in each independent block of d norms.

    "Variance-reducing couplings", appendix A.5. A correlation of -1 between partners gives
    `PairwiseNorms`, a matrix of ones `MonotoneNorms`, the identity `IndependentNorms`.

    Parameters
    ----------
    correlation
        Correlation matrix C (d, d), positive semidefinite; kept as a tuple of rows.

    Raises
    ------
    InvalidInputError
        `correlation` is no correlation matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.couplings import GaussianCopulaNorms
    >>> opposed = GaussianCopulaNorms([[1, -1], [-1, 1]])
    >>> u = opposed.sample(6, block_size=2, rng=np.random.default_rng(0))
    >>> (u[0::2] + u[1::2]).round(6).tolist()  # what pairwise norms do
    [1.0, 1.0, 1.0]
    >>> str(opposed)
    'copula:[[-1.0]]'
    """

    correlation: tuple[tuple[float, ...], ...]

    def __init__(self, correlation: ArrayLike) -> None:
        checked = check_correlation(correlation)
        object.__setattr__(self, "correlation", tuple(map(tuple, checked.tolist())))

    @property
    def order(self) -> int:
        """Number d of norms in a block."""
        return len(self.correlation)

    @classmethod
    def from_text(cls, text: str) -> GaussianCopulaNorms:
        """Return the law whose text form is `copula:TEXT`.

        The text has the rows of C left of the diagonal in JSON: `[]` for one norm, `[[c]]` for two
        norms of correlation c, `[[c21],[c31,c32]]` for three.
        """
        try:
            rows = json.loads(text)
            # All lengths are known before a matrix is made, which may be much larger than the text.
            if len(rows) >= LARGEST_ORDER or any(len(row) != i for i, row in enumerate(rows, 1)):
                raise ValueError
            correlation = np.eye(len(rows) + 1)
            for i, row in enumerate(rows, start=1):
                correlation[i, :i] = correlation[:i, i] = row
        except (ValueError, TypeError, OverflowError, RecursionError):
            raise InvalidInputError(
                "coupling: 'copula' expects the correlations left of the diagonal as rows in JSON, "
                f"such as copula:[[-0.9],[0,0.5]], for at most {LARGEST_ORDER} norms, got "
                f"{reprlib.repr(text)}; GaussianCopulaNorms(correlation) "
                "and learn_copula make such a law"
            ) from None
        return cls(correlation)

    def sample(self, n: int, block_size: int, rng: np.random.Generator) -> FloatArray:
        if block_size != self.order:
            raise InvalidInputError(
                f"correlation: expected order {block_size}, the norms of one block (the input "
                f"dimension, for fast directions the next power of two), got {self.order}"
            )
        n_blocks = -(-n // block_size)
        g = rng.standard_normal((n_blocks, block_size)) @ self._root.T
        return np.clip(special.ndtr(g).ravel()[:n], 2.0**-53, 1 - 2.0**-53)

    @property
    def _root(self) -> FloatArray:
        """Matrix A (d, d) with `A A' = C`, also for a singular C."""
        return symmetric_root(np.array(self.correlation))

    def __str__(self) -> str:
        rows = [list(row[:i]) for i, row in enumerate(self.correlation)][1:]
        return "copula:" + json.dumps(rows, separators=(",", ":"))


def check_correlation(correlation: ArrayLike) -> FloatArray:
    """Return a checked correlation matrix (d, d), exactly symmetric with ones on the diagonal."""
    matrix = np.array(correlation, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise InvalidInputError(f"correlation: expected a square matrix, got shape {matrix.shape}")
    if not np.isfinite(matrix).all():
        raise InvalidInputError("correlation: expected finite values, got NaN or inf")
    if np.abs(matrix - matrix.T).max() > ROUNDING:
        raise InvalidInputError("correlation: expected a symmetric matrix")
    if np.abs(matrix.diagonal() - 1).max() > ROUNDING:
        raise wrong("correlation", "ones on the diagonal", matrix.diagonal().tolist())
    matrix = (matrix + matrix.T) / 2
    np.fill_diagonal(matrix, 1.0)
    least = float(np.linalg.eigvalsh(matrix)[0])
    if least < -ROUNDING * len(matrix):
        raise InvalidInputError(
            "correlation: expected a positive semidefinite matrix, its least eigenvalue is "
            f"{least:.3g}"
        )
    return matrix.clip(-1.0, 1.0)
