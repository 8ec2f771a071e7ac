"""Greatest eigenvalues of a symmetric operator by Lanczos' method with blocks of vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy import linalg

from coupledgp.random import FloatArray

# `V -> A V` for a symmetric A (n, n) and columns V (n, b).
Operator: TypeAlias = Callable[[FloatArray], FloatArray]
# Columns of a block. An eigenvalue that is repeated more often takes several rounds.
BLOCK = 16
# Residual of a converged pair, relative to its eigenvalue.
RESIDUAL = 1e-11
# Dimension of the space at the first look at its eigenpairs, growth from look to look, and the
# largest dimension, as multiples of the number of wanted pairs.
FIRST, GROWTH, LARGEST = 1.5, 1.15, 3.0
# Steps that look for eigenvalues which a round has missed, and columns of their blocks.
CHECK_STEPS, CHECK_BLOCK = 12, 8
# Share by which an eigenvalue that was not found has to exceed the least one that was.
MISSED = 1e-6
# Largest number of rounds.
MAX_ROUNDS = 64
# Norm of a new direction, relative to the operator's, below which it is rounding.
EXHAUSTED = 1e-13
# Norm of a new direction below which rounding left components along the basis in it.
CANCELLED = 1e-4


class TopPairs(NamedTuple):
    """Greatest eigenvalues (k,) of an operator, ascending, and their eigenvectors (n, k)."""

    values: FloatArray
    vectors: FloatArray


def top_pairs(
    operator: Operator,
    n: int,
    n_pairs: int,
    rng: np.random.Generator,
    residual: float = RESIDUAL,
) -> TopPairs:
    """The greatest eigenvalues of a positive semidefinite operator, all above some number.

    Golub and Underwood (1977), every block made orthogonal to all before it. Repeated eigenvalues
    are found in rounds: after each one, a short run on the orthogonal complement shows whether a
    greater eigenvalue than the least of those found is left there.

    Parameters
    ----------
    operator
        Products with the operator, (n, b) -> (n, b).
    n
        Number of rows.
    n_pairs
        Number of pairs wanted. Fewer are returned where the last ones do not converge.
    rng
        Random starts.
    """
    found = _round(operator, n, n_pairs, TopPairs(np.empty(0), np.empty((n, 0))), rng)
    least, bound = _least(found, n_pairs), np.inf
    for _ in range(MAX_ROUNDS):
        bound = _rest_bound(operator, n, found, rng)
        if bound <= least * (1.0 + MISSED):
            break
        more = _round(operator, n, max(n_pairs // 4, 4 * BLOCK), found, rng)
        if not more.values.size:
            break
        values = np.concatenate([found.values, more.values])
        order = np.argsort(values)
        found = TopPairs(values[order], np.hstack([found.vectors, more.vectors])[:, order])
        least = _least(found, n_pairs)
    first = max(found.values.size - n_pairs, 0)
    if bound > least * (1.0 + MISSED):
        first = max(first, int(np.searchsorted(found.values, bound)))
    return TopPairs(found.values[first:], found.vectors[:, first:])


def _least(found: TopPairs, n_pairs: int) -> float:
    """The least of the greatest `n_pairs` values; infinite if there are none."""
    values = found.values[-n_pairs:]
    return float(values[0]) if values.size else np.inf


def _rest_bound(operator: Operator, n: int, found: TopPairs, rng: np.random.Generator) -> float:
    """Estimate from below of the greatest eigenvalue that is not among those found."""
    if n - found.values.size <= CHECK_STEPS * CHECK_BLOCK:
        return -np.inf
    space = BlockKrylov(operator, found.vectors, rng, CHECK_BLOCK, CHECK_STEPS * CHECK_BLOCK)
    for _ in range(CHECK_STEPS):
        space.step()
    return float(linalg.eigvalsh(space.projected)[-1])


def _round(
    operator: Operator,
    n: int,
    n_pairs: int,
    known: TopPairs,
    rng: np.random.Generator,
) -> TopPairs:
    """The greatest eigenvalues on the complement of known eigenvectors, without repetitions."""
    free = n - known.values.size
    most = min(int(LARGEST * n_pairs) + 8 * BLOCK, free)
    space = BlockKrylov(operator, known.vectors, rng, min(BLOCK, free), most)
    look = int(FIRST * n_pairs) + 3 * BLOCK
    while True:
        while space.size < min(look, most):
            space.step()
        values, turn = linalg.eigh(space.projected)
        residuals = np.linalg.norm(space.coupling @ turn[-space.coupling.shape[1] :], axis=0)
        bad = np.flatnonzero(residuals > RESIDUAL * np.abs(values))
        good = values.size - (int(bad[-1]) + 1 if bad.size else 0)
        if good >= n_pairs or space.size >= most:
            keep = min(good, n_pairs)
            return TopPairs(
                values[values.size - keep :], space.rotated(turn[:, turn.shape[1] - keep :])
            )
        look = int(GROWTH * look)


class BlockKrylov:
    """An orthonormal basis of `V, A V, A^2 V, ...` for a random V, and A in it.

    Parameters
    ----------
    operator
        Products with A.
    known
        Orthonormal eigenvectors (n, j) of A, to which the basis is orthogonal.
    rng
        Random starts.
    width
        Number of columns of V.
    most
        Largest dimension of the space.

    Attributes
    ----------
    coupling : FloatArray (b, b)
        `A Q` leaves the space by this times the next block, from the last block alone.
    """

    def __init__(
        self,
        operator: Operator,
        known: FloatArray,
        rng: np.random.Generator,
        width: int,
        most: int,
    ) -> None:
        self._operator, self._known, self._rng = operator, known, rng
        n, room = known.shape[0], most + 2 * width
        self._basis = np.empty((n, room), order="F")
        self._band = np.zeros((room, room))
        self.size = 0
        start = rng.standard_normal((n, width))
        self._next = self._orthonormal(start, np.inf)[0]
        self._top = 0.0
        self.coupling = np.zeros((width, width))

    @property
    def projected(self) -> FloatArray:
        """`Q' A Q`, (size, size)."""
        return self._band[: self.size, : self.size]

    def rotated(self, turn: FloatArray) -> FloatArray:
        """`Q turn`, (n, k), for turn (size, k)."""
        return self._basis[:, : self.size] @ turn

    def step(self) -> None:
        """Make products with the next block and add it to the basis."""
        block, before = self._next, self.size
        width = block.shape[1]
        end = before + width
        self._basis[:, before:end] = block
        image = self._operator(np.ascontiguousarray(block))
        own = block.T @ image
        own = 0.5 * (own + own.T)
        self._band[before:end, before:end] = own
        if before:
            past = slice(before - self.coupling.shape[1], before)
            self._band[before:end, past] = self.coupling
            self._band[past, before:end] = self.coupling.T
            image -= self._basis[:, past] @ self.coupling.T
        image -= block @ own
        self.size = end
        self._top = max(self._top, float(np.abs(own).max()))
        self._next, self.coupling = self._orthonormal(image, EXHAUSTED * self._top)

    def _orthonormal(self, V: FloatArray, least: float) -> tuple[FloatArray, FloatArray]:
        """Orthonormal columns beside the basis, and R with `V = Q R` but for the basis.

        Directions whose norm is below `least` are replaced by random ones.
        """
        V = self._removed(V)
        Q, R = linalg.qr(V, mode="economic")
        left = float(np.abs(np.diagonal(R)).min())
        if not np.isfinite(least) or left > CANCELLED * self._top:
            return Q, R
        if left <= least:
            Q, R, order = linalg.qr(V, mode="economic", pivoting=True)
            lost = np.abs(np.diagonal(R)) <= least  # the last ones
            R[:, order] = R.copy()
            R[lost] = 0.0
            new = self._removed(self._rng.standard_normal((len(Q), int(lost.sum()))))
            Q[:, lost] = new - Q[:, ~lost] @ (Q[:, ~lost].T @ new)
        Q, turn = linalg.qr(self._removed(Q), mode="economic", overwrite_a=True)
        Q *= np.sign(np.diagonal(turn))
        return Q, R

    def _removed(self, V: FloatArray) -> FloatArray:
        """V (n, b) less its components along the basis and the known eigenvectors."""
        for past in (self._known, self._basis[:, : self.size]):
            if past.shape[1]:
                V = V - past @ (past.T @ V)
        return V
