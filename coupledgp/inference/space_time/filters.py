"""Complete data of many series in time: exact solves, variances and products in O(n) each.

With `K_g(S, S) = U diag(l) U'` the rows of `U'Y` are independent series, of covariance `l_i G + R`,
G and R sums of kernels of time. Each is treated by a Kalman filter and Koopman's disturbance
smoother, never by an n x n matrix.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from coupledgp.compiled import share_rows
from coupledgp.errors import InvalidInputError
from coupledgp.inference.space_time.factors import factor
from coupledgp.inference.space_time.recursions import (
    draw_row,
    fill_records,
    multiply_row,
    solve_series,
)
from coupledgp.inference.space_time.smoothed import fill_variances
from coupledgp.inference.space_time.state_space import StateSpace, state_space
from coupledgp.kernels.time import TimeKernel
from coupledgp.memory import check_memory
from coupledgp.random import FloatArray
from coupledgp.validation import check_choice, check_positive, check_vector

BoolArray = NDArray[np.bool_]
# Negative eigenvalues of this size beside the largest one are rounding.
ROUNDING = 1e-8
# Normals that are drawn at once.
DRAWN_AT_ONCE = 2**22
# Most series of a block that a thread takes.
MOST_SERIES = 64
ADVICE = "use fewer sensors or a shorter window of times"


@dataclass(frozen=True)
class Term:
    """A part of the process: `variance * B (x) kernel`, B the kernel of nodes or the identity.

    Parameters
    ----------
    where
        `"graph"`: B is the kernel of nodes; `"node"`: B = I, what a sensor has for itself.
    kernel
        Kernel of time.
    variance
        v >= 0.

    Raises
    ------
    InvalidInputError
        `where` is no such word, or the variance is negative or not finite.
    """

    where: Literal["graph", "node"]
    kernel: TimeKernel
    variance: float

    def __post_init__(self) -> None:
        check_choice(self.where, ("graph", "node"), "where")
        if not isinstance(self.kernel, TimeKernel):
            raise InvalidInputError(f"kernel: expected a TimeKernel, got {self.kernel!r}")
        if self.variance != 0.0:
            object.__setattr__(self, "variance", check_positive(self.variance, "variance"))


class SeriesFilter:
    """q independent series on one time axis, of covariances `A_i`, by Kalman filters.

    `A_i = l_i sum_graph v_c k_c + sum_node v_c k_c + s I`. Where nothing is seen, rows and columns
    of `A_i` are left out, and what `solve` returns is zero. Gains do not depend on values: they are
    computed once, for different eigenvalues only, and kept up to the time from which they no longer
    change. Results are the same bits for any number of threads.

    Parameters
    ----------
    terms
        Parts of the process.
    noise
        s > 0.
    eigenvalues
        l (q,), not negative beyond rounding.
    times
        Rising times (n,).
    seen
        Whether anything is observed at each time (n,); None: at all of them.

    Raises
    ------
    InvalidInputError
        An argument is not as stated.
    """

    def __init__(
        self,
        terms: tuple[Term, ...],
        noise: float,
        eigenvalues: FloatArray,
        times: FloatArray,
        seen: BoolArray | None = None,
    ) -> None:
        self.terms = tuple(terms)
        if not self.terms or not all(isinstance(term, Term) for term in self.terms):
            raise InvalidInputError(f"terms: expected one Term or more, got {terms!r}")
        self.noise = check_positive(noise, "noise")
        self.eigenvalues = _checked_eigenvalues(eigenvalues)
        self.times = check_vector(times, "times")
        if not (np.diff(self.times) > 0).all():
            raise InvalidInputError("times: expected rising times, got equal or falling ones")
        self.seen = _checked_seen(seen, self.times.size)
        self.space: StateSpace = state_space([term.kernel for term in self.terms], self.times)

    @property
    def n_series(self) -> int:
        """Number q of the series."""
        return self.eigenvalues.size

    @property
    def n_times(self) -> int:
        """Number n of the times."""
        return self.times.size

    def solve(self, values: FloatArray) -> FloatArray:
        """Return `A_i^-1 y` (m, q, n) or (q, n) of values y of the same shape.

        Values at times without observations are passed over, NaN too.
        """
        given = self._checked_values(values)
        solved = np.empty_like(given)
        records, space = self._records, self.space

        def work(blocks: Iterator[tuple[int, int]]) -> None:
            for first, last in blocks:
                for i in range(first, last):
                    number = self._numbers[i]
                    solve_series(given, solved, i, self._outputs[number], space.transitions,
                                 space.steps, records[number], self._stop)  # fmt: skip

        share_rows(work, self.n_series, 1, MOST_SERIES)
        return solved.reshape(np.shape(values))

    @property
    def log_determinants(self) -> FloatArray:
        """`log |A_i|` (q,) over the times with observations."""
        self._records  # noqa: B018
        return self._determinants[self._numbers]

    def variances(self) -> FloatArray:
        """Variances (2, q, n) given complete data at the times with observations.

        Of the sum of the graph's terms, `l_i sum_graph v_c k_c` a priori, and of that of all terms.
        """
        is_graph = np.array([term.where == "graph" for term in self.terms])
        return self._variances(np.stack([is_graph, np.ones_like(is_graph)]))

    def term_variances(self) -> FloatArray:
        """Variances (n_terms, q, n) of each term given complete data where anything is seen."""
        return self._variances(np.eye(len(self.terms), dtype=bool))

    def product(self, which: tuple[int, ...], values: FloatArray) -> FloatArray:
        """Return `sum_c v_c k_c(t, t') y` for rows y (..., n), without l_i, over some terms c."""
        given = self._checked_rows(values)
        rows = given.reshape(-1, self.n_times)
        found = np.zeros_like(rows)
        output = self._output_of(which)
        move_in = _times_banded(self.space.stationary, output)

        def work(blocks: Iterator[tuple[int, int]]) -> None:
            for first, last in blocks:
                for row in range(first, last):
                    multiply_row(rows, found, row, output, move_in, self.space.transitions,
                                 self.space.steps)  # fmt: skip

        share_rows(work, rows.shape[0], 1, MOST_SERIES)
        return found.reshape(np.shape(values))

    def sample(
        self, which: tuple[int, ...], rng: np.random.Generator, m: int, n_rows: int | None = None
    ) -> FloatArray:
        """Return draws (m, n_rows, n) of `sum_c sqrt(v_c) f_c`, `f_c ~ GP(0, k_c)`, without l_i.

        There are as many rows as series unless another number is given.
        """
        count = self.n_series if n_rows is None else n_rows
        output = self._output_of(which)
        drawn = np.zeros((m * count, self.n_times))
        root, roots = self.space.roots()
        at_once = max(DRAWN_AT_ONCE // (self.n_times * output.size), 1)
        for start in range(0, drawn.shape[0], at_once):
            part = drawn[start : start + at_once]
            normals = rng.standard_normal((part.shape[0], self.n_times, output.size))

            def work(
                blocks: Iterator[tuple[int, int]], part: Any = part, normals: Any = normals
            ) -> None:
                for first, last in blocks:
                    for row in range(first, last):
                        draw_row(normals[row], part[row], output, root, self.space.transitions,
                                 roots, self.space.steps)  # fmt: skip

            share_rows(work, part.shape[0], 1, MOST_SERIES)
        return drawn.reshape(m, count, self.n_times)

    def on(self, times: FloatArray) -> SeriesFilter:
        """Return the filter on the union of its times and others, where nothing is seen."""
        further = check_vector(times, "times")
        union = np.union1d(self.times, further)
        seen = np.zeros(union.size, dtype=bool)
        seen[np.searchsorted(union, self.times)] = self.seen
        return SeriesFilter(self.terms, self.noise, self.eigenvalues, union, seen)

    @cached_property
    def _distinct(self) -> tuple[FloatArray, NDArray[np.int64]]:
        """Different eigenvalues, and the number of each series' one."""
        if not any(term.where == "graph" for term in self.terms):
            return np.ones(1), np.zeros(self.n_series, dtype=np.int64)
        values, numbers = np.unique(self.eigenvalues, return_inverse=True)
        return values, numbers.astype(np.int64)

    @property
    def _numbers(self) -> NDArray[np.int64]:
        return self._distinct[1]

    @cached_property
    def _scales(self) -> FloatArray:
        """Standard deviation of each term for each different eigenvalue (u, n_terms)."""
        values = self._distinct[0]
        return np.stack(
            [
                np.sqrt(term.variance * (values if term.where == "graph" else np.ones_like(values)))
                for term in self.terms
            ],
            axis=1,
        )

    @cached_property
    def _outputs(self) -> FloatArray:
        """Outputs h (u, D) for each different eigenvalue."""
        return np.ascontiguousarray(self._scales @ self.space.outputs)

    @cached_property
    def _factors(self) -> tuple[Any, Any]:
        """Factors `(U, D)` of P and of each step's Q."""
        return factor(self.space.stationary[None]), factor(self.space.innovations)

    @cached_property
    def _stop(self) -> int:
        """Number of times up to the last one with an observation."""
        return int(np.flatnonzero(self.seen)[-1]) + 1

    @cached_property
    def _regular(self) -> int:
        """First time from which on steps are equal and something is seen, up to the last time."""
        steps, seen = self.space.steps[: self._stop - 1], self.seen[: self._stop]
        changes = np.flatnonzero(np.diff(steps)) + 1
        unseen = np.flatnonzero(~seen) + 1
        return int(max(changes.max(initial=0), unseen.max(initial=0)))

    @cached_property
    def _found(self) -> tuple[list[FloatArray], FloatArray]:
        outputs, space = self._outputs, self.space
        start, noises = self._factors
        width = outputs.shape[1] + 1
        check_memory(
            8.0 * outputs.shape[0] * (self._stop if self._regular else 1) * width,
            f"time filters: the gains of {outputs.shape[0]} series at {self._stop} times",
            ADVICE,
        )
        records: list[Any] = [None] * outputs.shape[0]
        determinants = np.zeros(outputs.shape[0])

        def work(blocks: Iterator[tuple[int, int]]) -> None:
            room = np.empty((self._stop, width))
            for first, last in blocks:
                for i in range(first, last):
                    count, determinants[i] = fill_records(
                        outputs[i], self.noise, start, space.transitions, noises, space.steps,
                        self.seen, self._stop, self._regular, room,
                    )  # fmt: skip
                    records[i] = room[:count].copy()

        share_rows(work, outputs.shape[0], 1, MOST_SERIES)
        return records, determinants

    @property
    def _records(self) -> list[FloatArray]:
        return self._found[0]

    @property
    def _determinants(self) -> FloatArray:
        return self._found[1]

    def _variances(self, chosen: BoolArray) -> FloatArray:
        """Variances (k, q, n) of sums of terms, which rows of `chosen` (k, n_terms) state."""
        space, records = self.space, self._records
        start, noises = self._factors
        check_memory(
            8.0 * chosen.shape[0] * (self.n_series + len(records)) * self.n_times,
            f"time filters: the variances of {self.n_series} series at {self.n_times} times",
            ADVICE,
        )
        found = np.empty((len(records), chosen.shape[0], self.n_times))

        def work(blocks: Iterator[tuple[int, int]]) -> None:
            for first, last in blocks:
                for i in range(first, last):
                    asked = (self._scales[i] * chosen) @ space.outputs
                    places = records[i].shape[0] + self.n_times - self._stop
                    room = np.empty((places, space.n_states, space.n_states))
                    fill_variances(
                        self._outputs[i], self.noise, start, space.transitions, noises, space.steps,
                        self.seen, records[i], self._stop, asked, room, found[i],
                    )  # fmt: skip

        share_rows(work, len(records), 1, MOST_SERIES)
        return np.ascontiguousarray(np.swapaxes(found[self._numbers], 0, 1))

    def _output_of(self, which: tuple[int, ...]) -> FloatArray:
        """Output h (D,) of the sum of some terms, without eigenvalues."""
        output = np.zeros(self.space.n_states)
        bad = [c for c in which if not 0 <= c < len(self.terms)]
        if bad:
            raise InvalidInputError(
                f"which: expected numbers of terms from 0 to {len(self.terms) - 1}, got {bad[0]}"
            )
        for c in which:
            output += np.sqrt(self.terms[c].variance) * self.space.outputs[c]
        return output

    def _checked_rows(self, values: FloatArray) -> FloatArray:
        """Values as an array (..., n) in order."""
        given = np.ascontiguousarray(values, dtype=np.float64)
        if given.ndim < 2 or given.shape[-1] != self.n_times:
            raise InvalidInputError(
                f"values: expected shape (..., {self.n_times}), got {given.shape}"
            )
        return given

    def _checked_values(self, values: FloatArray) -> FloatArray:
        """Values as an array (m, q, n) in order."""
        given = np.asarray(values, dtype=np.float64)
        if given.ndim not in (2, 3) or given.shape[-2:] != (self.n_series, self.n_times):
            raise InvalidInputError(
                f"values: expected shape (m, {self.n_series}, {self.n_times}) or "
                f"({self.n_series}, {self.n_times}), got {given.shape}"
            )
        return np.ascontiguousarray(given.reshape(-1, self.n_series, self.n_times))


def _times_banded(banded: FloatArray, vector: FloatArray) -> FloatArray:
    """Product of a matrix given by diagonals (2w + 1, D) with a vector (D,)."""
    width = banded.shape[0] // 2
    padded = np.pad(vector, width)
    windows = np.lib.stride_tricks.sliding_window_view(padded, vector.size)
    return np.asarray((banded * windows).sum(axis=0))


def _checked_eigenvalues(eigenvalues: FloatArray) -> FloatArray:
    found = check_vector(eigenvalues, "eigenvalues")
    if found.min() < -ROUNDING * max(found.max(), 0.0):
        raise InvalidInputError(f"eigenvalues: expected numbers >= 0, got {found.min():g}")
    return np.maximum(found, 0.0)


def _checked_seen(seen: BoolArray | None, n: int) -> BoolArray:
    if seen is None:
        return np.ones(n, dtype=bool)
    found = np.asarray(seen)
    if found.dtype != bool or found.shape != (n,):
        raise InvalidInputError(
            f"seen: expected {n} truth values, got shape {found.shape} of {found.dtype}"
        )
    if not found.any():
        raise InvalidInputError("seen: expected an observation at one time or more, got none")
    return found
