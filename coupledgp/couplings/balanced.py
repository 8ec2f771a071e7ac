"""Samples from a finite pool that keep the means of functions: the cube method, recombination.

A vector x of N numbers moves from its start to a vertex of its bounds along directions that keep
`F x` for r functions F (r, N), in steps up or down with the chances that make x a martingale: the
mean of the end is the start, exactly, whatever the functions. Where as few atoms as functions are
still inside their bounds, the last functions are let go, a quarter at a time.

* `balanced_sample`: x from inclusion probabilities to 0 or 1 (Deville and Tille, 2004, Biometrika
  91; in blocks as Chauvet and Tille, 2006, Computational Statistics 21).
* `recombined_sample`: x from given weights, bounded below only, until m weights are left, those of
  a quadrature that is exact for m - 1 functions (Hayakawa, Oberhauser and Lyons, 2022).

A direction is the projection of a random vector on the null space of the functions, so that it does
not depend on the basis by which the null space is computed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from coupledgp.errors import InvalidInputError
from coupledgp.random import FloatArray, IntArray, Seed, as_rng

# Atoms of a block beyond the functions: fewer take more factorisations, more take longer steps.
LEAST_SPARE, SPARE_SHARE = 16, 0.25
# Part of the atoms that are left whose functions are kept towards the end.
KEPT_SHARE = 0.75
# A number this close to a bound, relative to the start, is at the bound.
AT_BOUND = 1e-9
# A direction whose part in the null space is shorter is drawn again: it would be rounding.
LEAST_WITHIN = 1e-6
# Singular values of a block's functions below this part of the greatest are rounding.
RANK = 1e-10


def balanced_sample(
    probabilities: FloatArray, functions: FloatArray, generator: Seed = None
) -> IntArray:
    """Sample atoms with given inclusion probabilities, balanced on functions.

    The sample keeps `sum_i f_k(i) x_i / pi_i` of the first functions, as nearly as its whole number
    of atoms allows, and its size.

    Parameters
    ----------
    probabilities
        Inclusion probabilities `pi` (N,), in (0, 1], of a whole sum m.
    functions
        Values (r, N) at the atoms, the most important first.
    generator
        Seed or generator.

    Returns
    -------
    IntArray (m,)
        Numbers of the sampled atoms, ascending: `P(i sampled) = pi_i`.

    Raises
    ------
    InvalidInputError
        A probability is outside (0, 1], their sum is no whole number, or a function is not finite.
    """
    pi = np.asarray(probabilities, dtype=np.float64)
    size = _checked(pi, functions)
    if pi.max() > 1 + AT_BOUND:
        raise InvalidInputError(f"probabilities: expected at most 1, got {pi.max():.6g}")
    total = pi.sum()
    if abs(total - round(total)) > 1e-6 * size:
        raise InvalidInputError(f"probabilities: expected a whole sum, got {total:.6g}")
    columns = np.vstack([np.ones(size), np.asarray(functions) / pi])
    flight = _Flight(pi, np.ones(size), columns, as_rng(generator))
    return np.flatnonzero(flight.ended(0) > 0.5)


def recombined_sample(
    weights: FloatArray, functions: FloatArray, n_atoms: int, generator: Seed = None
) -> tuple[IntArray, FloatArray]:
    """Move weights to at most `n_atoms` atoms, keeping the means of functions exactly.

    Parameters
    ----------
    weights
        Weights (N,), positive.
    functions
        Values (r, N) at the atoms, the most important first; those beyond `n_atoms - 2` are let go.
    n_atoms
        Number m of atoms that are left.
    generator
        Seed or generator.

    Returns
    -------
    (IntArray (m,), FloatArray (m,))
        Numbers of the atoms, ascending, and their weights, of the same sum: their means are
        `weights`, and `sum_i w_i f_k(i)` is kept for the functions that were not let go.

    Raises
    ------
    InvalidInputError
        A weight is not positive, a function is not finite, or `n_atoms` is below two.
    """
    start = np.asarray(weights, dtype=np.float64)
    size = _checked(start, functions)
    if n_atoms < 2:
        raise InvalidInputError(f"n_atoms: expected at least 2, got {n_atoms}")
    columns = np.vstack([np.ones(size), np.asarray(functions)[: n_atoms - 2]])
    found = _Flight(start, np.full(size, np.inf), columns, as_rng(generator)).ended(n_atoms)
    places = np.flatnonzero(found > 0)
    return places, found[places]


def _checked(start: FloatArray, functions: FloatArray) -> int:
    """Number of atoms of a start (N,) and functions (r, N)."""
    if start.ndim != 1 or not start.size or not (np.isfinite(start) & (start > 0)).all():
        raise InvalidInputError("probabilities, weights: expected a vector of positive numbers")
    shape = np.shape(functions)
    if len(shape) != 2 or shape[1] != start.size:
        raise InvalidInputError(f"functions: expected shape (r, {start.size}), got {shape}")
    if not np.isfinite(functions).all():
        raise InvalidInputError("functions: expected finite values, got NaN or inf")
    return start.size


@dataclass
class _Block:
    """Atoms that move together, and an orthonormal basis (b, k) of their null space."""

    atoms: IntArray
    basis: FloatArray

    def without(self, place: int) -> None:
        """Keep the directions that leave an atom where it is, by a reflection of the basis."""
        row = self.basis[place].copy()
        length = np.linalg.norm(row)
        if length <= 0:
            return
        last = int(np.argmax(np.abs(row)))
        # A Householder reflection that maps the row to a multiple of a unit vector.
        row[last] += np.copysign(length, row[last])
        factor = 2 / (row @ row)
        self.basis -= np.outer(self.basis @ row, factor * row)
        self.basis[:, last] = self.basis[:, -1]
        self.basis = self.basis[:, :-1]
        self.basis[place] = 0.0


class _Flight:
    """A vector on its way to a vertex of its bounds `0 <= x_i <= upper_i`."""

    def __init__(
        self, start: FloatArray, upper: FloatArray, columns: FloatArray, rng: np.random.Generator
    ) -> None:
        self.x, self.upper, self.rng = start.copy(), upper, rng
        self.columns, self.tolerance = columns, AT_BOUND * start
        self.open = self.x < upper - self.tolerance
        self.x[~self.open] = upper[~self.open]
        # Atoms that come late meet fewer functions: at random, not by their place in the pool.
        self.order = rng.permutation(start.size)

    def ended(self, n_left: int) -> FloatArray:
        """The vector (N,) when at most `n_left` of its numbers are inside their bounds."""
        n_functions = len(self.columns)
        while True:
            atoms = self.order[self.open[self.order]]
            if atoms.size <= max(n_left, 1):
                break
            if atoms.size <= n_functions:
                n_functions = max(1, int(KEPT_SHARE * atoms.size))
            spare = max(LEAST_SPARE, int(SPARE_SHARE * n_functions))
            block = self._block(atoms[: n_functions + spare], n_functions)
            n_open = atoms.size
            while block.basis.shape[1] and n_open > n_left:
                n_open -= self._step(block)
        if n_left == 0 and self.open.any():  # one number, which rounding keeps off its bound
            self.x[self.open] = np.round(self.x[self.open])
        return self.x

    def _block(self, atoms: IntArray, n_functions: int) -> _Block:
        matrix = self.columns[:n_functions, atoms].T
        matrix = matrix / np.maximum(np.abs(matrix).max(axis=0), np.finfo(float).tiny)
        Q, R, _ = linalg.qr(matrix, pivoting=True)
        sizes = np.abs(np.diag(R))
        rank = int((sizes > RANK * sizes[0]).sum())
        return _Block(atoms, np.ascontiguousarray(Q[:, rank:]))

    def _step(self, block: _Block) -> int:
        """Move up or down to the first bounds that are met; return how many atoms they settle."""
        atoms, basis = block.atoms, block.basis
        within = basis.T @ self.rng.standard_normal(atoms.size)
        while np.linalg.norm(within) < LEAST_WITHIN:  # functions that are such numbers themselves
            within = basis.T @ self.rng.standard_normal(atoms.size)
        direction = basis @ within
        x, upper = self.x[atoms], self.upper[atoms]
        up, down = _reach(x, upper, direction), _reach(x, upper, -direction)
        rises = self.rng.random() * (up + down) < down
        x = x + (up if rises else -down) * direction
        tolerance = self.tolerance[atoms]
        low, high = x <= tolerance, x >= upper - tolerance
        met = (low | high) & self.open[atoms]
        x[low], x[high] = 0.0, upper[high]
        self.x[atoms] = x
        self.open[atoms[met]] = False
        for place in np.flatnonzero(met):
            if block.basis.shape[1]:
                block.without(int(place))
        return int(met.sum())


def _reach(x: FloatArray, upper: FloatArray, direction: FloatArray) -> float:
    """Longest step along a direction within the bounds."""
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.where(direction > 0, (upper - x) / direction, -x / direction)
    moving = np.abs(direction) > 1e-14 * np.abs(direction).max()
    return float(max(steps[moving].min(), 0.0))
