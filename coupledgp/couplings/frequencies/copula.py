"""Norms coupled by a Gaussian copula (MATH 3)."""

from __future__ import annotations

import json
import reprlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from coupledgp.couplings.frequencies.norms import Norms
from coupledgp.errors import InvalidInputError
from coupledgp.random import FloatArray, symmetric_root

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
        raise InvalidInputError(
            f"correlation: expected ones on the diagonal, got {matrix.diagonal().tolist()}"
        )
    matrix = (matrix + matrix.T) / 2
    np.fill_diagonal(matrix, 1.0)
    least = float(np.linalg.eigvalsh(matrix)[0])
    if least < -ROUNDING * len(matrix):
        raise InvalidInputError(
            "correlation: expected a positive semidefinite matrix, its least eigenvalue is "
            f"{least:.3g}"
        )
    return matrix.clip(-1.0, 1.0)
