"""Where a search for lengthscales starts: a coarse profile of the evidence on a few rows.

The evidence has many maxima in the lengthscales. One maximum explains every row as noise, and a
search from multiples of the spread of the columns ends there where the function varies faster. So
the evidence is compared on a grid first: one factor for all lengthscales, from the longest down to
where hardly any two rows are correlated, then each lengthscale alone, from the best points so far
and from lengthscales that are all long. The variances are profiled out by one eigendecomposition,
so that every ratio of noise to signal is free (MATH section 6).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from coupledgp.inference.evidence.problem import EvidenceProblem
from coupledgp.random import FloatArray, IntArray
from coupledgp.search.profile import profile_scales
from coupledgp.search.space import SearchSpace

# Rows of the coarse profile. In longer tables three quarters are random and the others are near
# each other, for random rows of a long table are too far apart to see what varies fast.
COARSE_ROWS, NEAR_ROWS, N_CENTRES = 128, 16, 2
# Logarithms of a factor of two: the grid of one factor for all, the longest single lengthscale,
# the step of a single one, and the length from which a column hardly matters.
OCTAVE = float(np.log(2.0))
SHORTEST, LONGEST, FAR, STEP, FLAT = -9, 3, 4, 2, 2
# Points that differ by less in every lengthscale are near the same maximum.
APART = 1.5
# Points from which single lengthscales are tried, and evaluations after which no more are.
BEAM, MOST_EVALUATIONS = 3, 100
# Mean square of the correlations of a row with all others below which rows are independent.
INDEPENDENT = 0.1


def proposed_starts(
    problem: EvidenceProblem, space: SearchSpace, n_starts: int
) -> tuple[list[FloatArray], int]:
    """Points theta (q,) of great evidence that are apart, the best first.

    Parameters
    ----------
    problem
        The evidence; a part of its rows is used.
    space
        Free and kept hyperparameters; lengthscales are tried between its bounds.
    n_starts
        Largest number of points.

    Returns
    -------
    tuple
        The points, at most `n_starts`, and the number of evaluations on at most `COARSE_ROWS` rows.
    """
    profile = _CoarseProfile(problem, space)
    size = space.n_lengthscales
    line = list(profile.along(np.zeros(size), np.arange(size), LONGEST, 1))
    values = np.pad([value for value, _ in line], 1, constant_values=-np.inf)
    peaks = [line[k] for k in range(len(line)) if values[k] < values[k + 1] >= values[k + 2]]
    peaks = peaks or line[:1]
    if size == 1:
        return _apart(peaks, n_starts), len(profile.known)
    far = np.full(size, FAR)
    pool = [*line, (profile.value(far), far)]
    states = [max(peaks, key=lambda point: point[0])[1], far]
    for first in (FAR - 1, FAR):  # the second grid lies between the points of the first
        for state in states:
            if len(profile.known) + size * STEP > MOST_EVALUATIONS:
                break
            for column in range(size):
                pool += profile.along(state, np.array([column]), first, STEP)
        states = _octaves_apart(pool, BEAM)
    return _apart(pool, n_starts), len(profile.known)


_Point = tuple[float, FloatArray]


class _CoarseProfile:
    """The greatest evidence over the variances, on some rows, at octaves (q,) of the lengthscales.

    An octave is the logarithm to the base 2 of a lengthscale over its base.
    """

    def __init__(self, problem: EvidenceProblem, space: SearchSpace) -> None:
        self.problem = coarse_problem(problem, space.base)
        self.space = space
        self.known: dict[tuple[float, ...], float] = {}
        self.independent = False

    def value(self, octaves: FloatArray) -> float:
        """Log evidence in nats, on a grid of ratios of noise to signal."""
        key = tuple(octaves.tolist())
        if key not in self.known:
            space = self.space
            here = self.problem.at(space.lengthscales(octaves * OCTAVE)).spectral()
            kept = space.given_outputscale, space.given_noise
            scales = profile_scales(here, space.bounds, *kept, polish=False)
            self.known[key] = float(here.value(*scales))
            # Features may vanish at short lengthscales: then no row says anything about another.
            shares = here.eigenvalues / max(here.eigenvalues.sum(), np.finfo(float).tiny)
            correlated = here.n_rows * np.square(shares).sum() - 1.0
            self.independent = bool(correlated < INDEPENDENT)
        else:
            self.independent = False
        return self.known[key]

    def along(
        self, octaves: FloatArray, columns: IntArray, first: int, step: int
    ) -> Iterator[_Point]:
        """Values where some of the lengthscales go from the longest to where rows part."""
        for octave in range(first, SHORTEST - 1, -step):
            point = octaves.copy()
            point[columns] = octave
            yield self.value(point), point
            if self.independent:
                return


def coarse_rows(
    order: IntArray, centres: IntArray, near: Callable[[], IntArray] | None
) -> IntArray:
    """Numbers (b,) of the rows on which starts are compared, ascending: all of a short table.

    Parameters
    ----------
    order
        Numbers (n,) of the rows in random order.
    centres
        Rows to which others are near.
    near
        Finds rows near to these; None where there are no inputs by which rows are near.
    """
    if len(order) <= COARSE_ROWS:
        return np.sort(order)
    if near is None:
        return np.sort(order[:COARSE_ROWS])
    n_random = COARSE_ROWS - N_CENTRES * NEAR_ROWS
    return np.unique(np.concatenate([order[:n_random], centres, near()]))


def coarse_problem(problem: EvidenceProblem, base: FloatArray) -> EvidenceProblem:
    """The problem of the rows on which starts are compared, near ones in units of `base` (d,).

    They are the same for the same table, whatever the seed of the search.
    """
    if problem.n_rows <= COARSE_ROWS:
        return problem
    inputs, order = problem.inputs, np.random.default_rng(0).permutation(problem.n_rows)
    centres = order[:N_CENTRES]

    def near() -> IntArray:
        assert inputs is not None
        squares = (np.square((inputs - inputs[c]) / base).sum(axis=1) for c in centres)
        return np.concatenate([np.argsort(s, kind="stable")[:NEAR_ROWS] for s in squares])

    return problem.subset(coarse_rows(order, centres, None if inputs is None else near))


def _octaves_apart(pool: list[_Point], most: int) -> list[FloatArray]:
    """The best points that are near different maxima, the best first."""
    found: list[FloatArray] = []
    for _, point in sorted(pool, key=lambda each: -each[0]):
        flat = np.minimum(point, FLAT)
        if all(np.abs(flat - np.minimum(other, FLAT)).max() >= APART for other in found):
            found.append(point)
        if len(found) == most:
            break
    return found


def _apart(pool: list[_Point], most: int) -> list[FloatArray]:
    return [OCTAVE * point for point in _octaves_apart(pool, most)]
