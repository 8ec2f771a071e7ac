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

from typing import Any

import numpy as np
from scipy import linalg

from coupledgp.errors import InvalidInputError
from coupledgp.ground.compiled import compiled, part
from coupledgp.ground.validation import wrong
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
        raise wrong("n_atoms", "at least 2", n_atoms)
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
        raise wrong("functions", f"shape (r, {start.size})", shape)
    if not np.isfinite(functions).all():
        raise InvalidInputError("functions: expected finite values, got NaN or inf")
    return start.size


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
            self._move(atoms[: n_functions + spare], n_functions, atoms.size - n_left)
        if n_left == 0 and self.open.any():  # one number, which rounding keeps off its bound
            self.x[self.open] = np.round(self.x[self.open])
        return self.x

    def _move(self, atoms: IntArray, n_functions: int, most: int) -> None:
        """Move some atoms until as many as the functions leave free, or `most`, are settled."""
        basis = self._null_space(atoms, n_functions)
        x, upper, tolerance = self.x[atoms], self.upper[atoms], self.tolerance[atoms]
        inside = np.ones(atoms.size, dtype=np.bool_)
        n_columns, n_settled = basis.shape[1], 0
        while n_columns and n_settled < most:
            normals = self.rng.standard_normal((n_columns, atoms.size))
            uniforms = self.rng.random(n_columns)
            n_settled, n_columns = _steps(
                x, upper, tolerance, inside, basis, n_columns, normals, uniforms, n_settled, most
            )
        self.x[atoms], self.open[atoms] = x, inside

    def _null_space(self, atoms: IntArray, n_functions: int) -> FloatArray:
        """Orthonormal directions (b, k) in which the functions do not change."""
        matrix = self.columns[:n_functions, atoms].T
        matrix = matrix / np.maximum(np.abs(matrix).max(axis=0), np.finfo(float).tiny)
        Q, R, _ = linalg.qr(matrix, pivoting=True)
        sizes = np.abs(np.diag(R))
        rank = int((sizes > RANK * sizes[0]).sum())
        return np.ascontiguousarray(Q[:, rank:])


@compiled
def _steps(
    x: Any, upper: Any, tolerance: Any, inside: Any, basis: Any, n_columns: Any, normals: Any,
    uniforms: Any, n_settled: Any, most: Any,
) -> Any:  # fmt: skip
    """Move b atoms up or down to the first bounds that are met, once for each row of normals.

    Parameters
    ----------
    x, upper, tolerance, inside
        Numbers, upper bounds and tolerances of the atoms (b,), and which are inside their bounds.
    basis
        Orthonormal directions (b, k), of which the first `n_columns` are left.
    normals, uniforms
        Random vectors (s, b), and numbers (s,) that choose up or down.
    n_settled, most
        Number of settled atoms, and that at which to end.

    Returns
    -------
    (int, int)
        Numbers of settled atoms and of directions that are left.
    """
    size = x.size
    direction = np.empty(size)
    for turn in range(normals.shape[0]):
        if n_columns == 0 or n_settled >= most:
            break
        within = np.zeros(n_columns)
        for i in range(size):
            for j in range(n_columns):
                within[j] += basis[i, j] * normals[turn, i]
        length = 0.0
        for j in range(n_columns):
            length += within[j] * within[j]
        if length < LEAST_WITHIN * LEAST_WITHIN:
            continue  # functions that are such numbers themselves
        largest = 0.0
        for i in range(size):
            total = 0.0
            for j in range(n_columns):
                total += basis[i, j] * within[j]
            direction[i] = total
            largest = max(largest, abs(total))
        up, down = np.inf, np.inf
        for i in range(size):
            step = direction[i]
            if abs(step) <= 1e-14 * largest:
                continue
            above, below = (upper[i] - x[i]) / abs(step), x[i] / abs(step)
            if step > 0:
                up, down = min(up, above), min(down, below)
            else:
                up, down = min(up, below), min(down, above)
        up, down = max(up, 0.0), max(down, 0.0)
        moved = up if uniforms[turn] * (up + down) < down else -down
        for i in range(size):
            x[i] += moved * direction[i]
            low, high = x[i] <= tolerance[i], x[i] >= upper[i] - tolerance[i]
            if low:
                x[i] = 0.0
            elif high:
                x[i] = upper[i]
            if (low or high) and inside[i]:
                inside[i] = False
                n_settled += 1
                if n_columns > 0:
                    n_columns = _without(basis, i, n_columns)
    return n_settled, n_columns


@part
def _without(basis: Any, place: Any, n_columns: Any) -> Any:
    """Keep the directions that leave an atom where it is, by a reflection; return their number."""
    row = basis[place, :n_columns].copy()
    square, last = 0.0, 0
    for j in range(n_columns):
        square += row[j] * row[j]
        if abs(row[j]) > abs(row[last]):
            last = j
    if square <= 0.0:
        return n_columns
    # A Householder reflection that maps the row to a multiple of a unit vector.
    row[last] += np.copysign(np.sqrt(square), row[last])
    square = 0.0
    for j in range(n_columns):
        square += row[j] * row[j]
    for i in range(basis.shape[0]):
        total = 0.0
        for j in range(n_columns):
            total += basis[i, j] * row[j]
        total *= 2.0 / square
        for j in range(n_columns):
            basis[i, j] -= total * row[j]
        basis[i, last] = basis[i, n_columns - 1]
    for j in range(n_columns):
        basis[place, j] = 0.0
    return n_columns - 1
