"""Where a search for lengthscales starts: a coarse profile of the evidence on a few rows.

The evidence has many maxima in the lengthscales. One maximum explains every row as noise, and a
search from multiples of the spread of the columns ends there where the function varies faster. So
the evidence is compared on a grid first: one factor for all lengthscales, from the longest down to
where hardly any two rows are correlated, then each lengthscale alone, from the best points so far
and from lengthscales that are all long. The variances are profiled out by one eigendecomposition,
so that every ratio of noise to signal is free (MATH section 6).

The first rows of a random order of a table, without the whole order in memory.

Hyperparameters, and the space in which they are searched for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coupledgp.core.minimise import Minimiser, lbfgs
from coupledgp.core.problem import EvidenceAtLengthscale, EvidenceProblem
from coupledgp.core.profile import ScaleBounds, profile_scales
from coupledgp.random import FloatArray, IntArray


@dataclass(frozen=True)
class SearchSpace:
    """Free hyperparameters, the starts and the optimiser of their search, and its bounds.

    Parameters
    ----------
    base
        Data-driven lengthscales (d,), the unit in which lengthscales are searched.
    ard
        One free lengthscale for each dimension; otherwise one factor on `base`.
    lengthscale
        Given lengthscales (d,): the only start, or kept if not free.
    outputscale, noise
        Variances that are kept if not free; otherwise ignored: the best are found without a start.
    free
        Names among lengthscale, outputscale, noise that are optimised.
    bounds
        Box of the variances.
    log_range
        Least and greatest log of a lengthscale over its base.
    minimise
        The optimiser of the lengthscales.
    groups
        Number (d,) of the group of each dimension, from 0 up: the dimensions of a group share one
        free lengthscale, and stand beside each other in `base` with one value. None: each dimension
        is a group.
    """

    base: FloatArray
    ard: bool
    lengthscale: FloatArray | None = None
    outputscale: float = 1.0
    noise: float = 0.1
    free: frozenset[str] = frozenset({"lengthscale", "outputscale", "noise"})
    bounds: ScaleBounds = field(default_factory=ScaleBounds)
    log_range: tuple[float, float] = (np.log(1e-3), np.log(1e4))
    minimise: Minimiser = lbfgs
    groups: IntArray | None = None

    @property
    def n_lengthscales(self) -> int:
        """Number q of free lengthscales."""
        if not self.ard:
            return 1
        return self.base.size if self.groups is None else int(self.groups[-1]) + 1

    @property
    def given_outputscale(self) -> float | None:
        """Value of the outputscale if it is given, None if it is searched for."""
        return None if "outputscale" in self.free else self.outputscale

    @property
    def given_noise(self) -> float | None:
        """Value of the noise if it is given, None if it is searched for."""
        return None if "noise" in self.free else self.noise

    def scales(self, here: EvidenceAtLengthscale) -> tuple[float, float]:
        """The best (outputscale, noise) at fixed lengthscales; a given one does not change."""
        kept = self.given_outputscale, self.given_noise
        if kept[0] is not None and kept[1] is not None:
            return kept[0], kept[1]
        return profile_scales(here.spectral(), self.bounds, *kept)

    def lengthscales(self, theta: FloatArray) -> FloatArray:
        """Lengthscales (d,) from the free logarithms theta (q,) over their base."""
        factors: FloatArray = self.of_dimensions(np.exp(theta))
        return self.base * factors

    def of_dimensions(self, values: Any) -> Any:
        """Values of the free lengthscales (q,), array or tensor, repeated for dimensions (d,).

        The shape is (d,), or (1,) for one lengthscale.
        """
        return values if self.groups is None or not self.ard else values[self.groups]

    def logarithms(self, lengthscale: FloatArray) -> FloatArray:
        """Free logarithms theta (q,) of lengthscales (d,)."""
        logs: FloatArray = np.log(lengthscale / self.base)
        if not self.ard:
            return logs[:1]
        return logs if self.groups is None else logs[first_places(self.groups)]

    def gradient(self, by_log_lengthscale: FloatArray) -> FloatArray:
        """Gradient (q,) in theta from the gradient (d,) in log lengthscales."""
        if not self.ard:
            return by_log_lengthscale.sum(keepdims=True)
        if self.groups is None:
            return by_log_lengthscale
        return np.add.reduceat(by_log_lengthscale, first_places(self.groups))

    def given_starts(self, n_restarts: int, rng: np.random.Generator) -> list[FloatArray]:
        """Starting points theta (q,): the given lengthscales, and `n_restarts` random ones.

        Without given lengthscales there are none.
        """
        if self.lengthscale is None:
            return []
        size, first = self.n_lengthscales, self.logarithms(self.lengthscale)
        return [first] + [rng.normal(0.0, 1.0, size) for _ in range(n_restarts)]


def first_places(groups: IntArray) -> IntArray:
    """Place (q,) of the first dimension of each group, from the numbers (d,) of the groups."""
    return np.flatnonzero(np.diff(groups, prepend=-1))


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


# A permutation of so many rows is made whole: 32 MiB.
WHOLE_ROWS = 2**22
# Steps of the shuffle that are looked at together.
STEPS = 2**18
# Number of bits by which most places are excluded before they are looked up.
FLAGS = 2**22
# Beyond this number of rows NumPy draws 64 bits a step.
MOST_ROWS = 2**32


def first_rows(
    rng: np.random.Generator, n_rows: int, size: int, whole_rows: int = WHOLE_ROWS
) -> IntArray:
    """Return `rng.permutation(n_rows)[:size]` in memory that does not grow with `n_rows`.

    `permutation` swaps the entries i = n_rows - 1, ..., 1 of 0, ..., n_rows - 1 with entries drawn
    from 0, ..., i. The steps down to i = size are drawn, a block at a time, and then gone through
    backwards: an entry that ends at a place below `size` is followed to its first place. The
    remaining steps shuffle these entries. The generator ends in the state in which `permutation`
    leaves it.

    Parameters
    ----------
    rng
        Generator; one of another kind than `default_rng` makes the whole order.
    n_rows, size
        Number of rows, and the number of first rows to return.
    whole_rows
        Tables of at most so many rows are ordered whole.

    Returns
    -------
    IntArray (size,)
        Numbers of rows.
    """
    size = min(size, n_rows)
    known = isinstance(rng.bit_generator, np.random.PCG64) and n_rows <= MOST_ROWS
    if n_rows <= max(whole_rows, size) or not known:
        return rng.permutation(n_rows)[:size].copy()
    starts = []
    for first, last in _blocks(n_rows, size):
        starts.append((first, last, rng.bit_generator.state))
        _drawn(rng, first, last)
    end = rng.bit_generator.state
    places = np.arange(size)
    for first, last, state in reversed(starts):
        rng.bit_generator.state = state
        _follow(places, _drawn(rng, first, last)[::-1], last)
    rng.bit_generator.state = end
    rng.shuffle(places)
    return places


def _blocks(n_rows: int, size: int) -> Iterator[tuple[int, int]]:
    """Steps (first, last), both included and descending, that end at i = size."""
    first = n_rows - 1
    while first >= size:
        # All steps of a block draw as many bits; few of them are near the largest number drawn.
        least = 1 << (first.bit_length() - 1)
        last = max(size, least, first + 1 - max(min(STEPS, first // 8), 1))
        yield first, last
        first = last - 1


def _drawn(rng: np.random.Generator, first: int, last: int) -> NDArray[np.int64]:
    """Entries drawn from 0, ..., i in the steps i = first, ..., last, as NumPy draws them.

    NumPy takes as many bits as the number i has, 32 at a time, until they are at most i.
    """
    wanted, mask = first - last + 1, (1 << first.bit_length()) - 1
    found: list[NDArray[np.int64]] = []
    step = first
    while wanted:
        words = _words(rng, wanted)
        values = (words & mask).astype(np.int64)
        # Surely taken are those at most `step - wanted`, for the bound falls by one when one is.
        taken = values <= step - wanted
        before, further = np.cumsum(taken), 0
        for place in np.flatnonzero(~taken & (values <= step)).tolist():
            if values[place] <= step - before[place] - further:
                taken[place] = True
                further += 1
        found.append(values[taken])
        wanted -= found[-1].size
        step -= found[-1].size
    return np.concatenate(found)


def _words(rng: np.random.Generator, count: int) -> NDArray[np.uint32]:
    """The next words of 32 bits: the lower half of each 64 bits drawn, then the upper one."""
    state: dict[str, Any] = dict(rng.bit_generator.state)
    kept = [state["uinteger"]] if state["has_uint32"] and count else []
    further = count - len(kept)
    pairs = rng.bit_generator.random_raw(-(-further // 2))
    halves = np.column_stack([pairs & 0xFFFFFFFF, pairs >> np.uint64(32)]).reshape(-1)
    words = np.concatenate([np.array(kept, dtype=np.uint64), halves]).astype(np.uint32)
    left = words[count:]
    after: dict[str, Any] = dict(rng.bit_generator.state)
    after["has_uint32"], after["uinteger"] = len(left), int(left[0]) if left.size else 0
    rng.bit_generator.state = after
    return words[:count]


def _follow(places: IntArray, drawn: IntArray, first: int) -> None:
    """Undo swaps of the entries first, first + 1, ... with those drawn, for contents at places.

    `places` (size,), all below `first`, are changed to where their contents were before.
    """
    flags = np.zeros(FLAGS, dtype=bool)
    flags[places % FLAGS] = True
    steps = np.flatnonzero(flags[drawn % FLAGS] | (drawn >= first))
    order = np.argsort(places)
    ordered = places[order]
    spots = np.minimum(np.searchsorted(ordered, drawn[steps]), len(places) - 1)
    contents = np.where(ordered[spots] == drawn[steps], order[spots], -1)
    moved: dict[int, int] = {}  # place to the number of the content that came there
    left = set()
    for step, place, content in zip(
        steps.tolist(), drawn[steps].tolist(), contents.tolist(), strict=True
    ):
        if place in moved:
            content = moved.pop(place)
        elif content < 0 or place in left:
            continue
        left.add(place)
        moved[first + step] = content
    for place, content in moved.items():
        places[content] = place
