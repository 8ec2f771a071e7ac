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

from coupledgp.errors import InvalidInputError
from coupledgp.ground.compiled import share_rows
from coupledgp.ground.memory import check_memory
from coupledgp.ground.validation import check_choice, check_positive, check_vector
from coupledgp.inference.space_time.factors import LANES
from coupledgp.inference.space_time.gains import ADVICE, Dynamics, Gains, gains_of
from coupledgp.inference.space_time.lanes import Lanes, lanes_of, rows_in_order
from coupledgp.inference.space_time.products import draw_rows, multiply_rows
from coupledgp.inference.space_time.recursions import solve_rows
from coupledgp.inference.space_time.state_space import StateSpace, state_space
from coupledgp.inference.space_time.variances import posterior_variances
from coupledgp.kernels.time import Constant, TimeKernel
from coupledgp.random import FloatArray

BoolArray = NDArray[np.bool_]
# Negative eigenvalues of this size beside the largest one are rounding.
ROUNDING = 1e-8
# Normals that are drawn at once.
DRAWN_AT_ONCE = 2**22
# Most tasks of `LANES` rows in a block that a thread takes.
MOST_TASKS = 16


class SeriesFilter:
    """q independent series on one time axis, of covariances `A_i`, by Kalman filters.

    `A_i = l_i sum_graph v_c k_c + sum_node v_c k_c + s I`. At times without observations, rows and
    columns of `A_i` are left out, and `solve` returns zeros. Gains do not depend on values. They
    are computed at their first use, for different eigenvalues only, and stored up to the time from
    which their relative change is at most 1e-14. The covariance of the states is kept as factors `U
    D U'`, which lose no digits where the noise is a millionth of the variance, or a lengthscale a
    million steps. Results are the same bits for any number of threads.

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
        Whether anything is observed at each time (n,); None: at all times.

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
        self.eigenvalues = checked_eigenvalues(eigenvalues)
        self.times = check_vector(times, "times")
        if not (np.diff(self.times) > 0).all():
            raise InvalidInputError("times: expected rising times, got equal or falling ones")
        self.seen = checked_seen(seen, self.times.size)
        self._spaces: dict[tuple[int, ...], StateSpace] = {}

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

        Raises
        ------
        MemoryLimitError
            The gains do not fit.
        """
        given = self._rows(values)
        solved = np.empty_like(given)
        gains, shared = self._gains, self._shared
        tasks, groups = self._lanes.tasks(given.shape[0] // self.n_series)

        def work(blocks: Iterator[tuple[int, int]]) -> None:
            buffer = np.empty((self.n_times, LANES))
            for block in blocks:
                for task in range(*block):
                    g = groups[task]
                    solve_rows(
                        given, solved, tasks[task], buffer, gains.outputs[g],
                        shared.space.transitions, shared.space.steps, shared.seen,
                        gains.records[g], shared.stop, gains.answers[g], gains.shares[g],
                    )  # fmt: skip

        share_rows(work, len(tasks), 1, MOST_TASKS)
        return solved.reshape(np.shape(values))

    @property
    def log_determinants(self) -> FloatArray:
        """`log |A_i|` (q,) over the times with observations."""
        return self._by_series(self._gains.log_determinants[None, ..., None])[0, :, 0]

    def variances(self) -> FloatArray:
        """Variances (2, q, n) given complete data at the times with observations.

        The first is of the sum of the graph's terms, `l_i sum_graph v_c k_c` a priori, the second
        of the sum of all terms.
        """
        is_graph = np.array([term.where == "graph" for term in self.terms])
        return self._variances(np.stack([is_graph, np.ones_like(is_graph)]), 1)

    def term_variances(self) -> FloatArray:
        """Variances (n_terms, q, n) of each term given complete data where anything is seen."""
        return self._variances(np.eye(len(self.terms), dtype=bool), -1)

    def product(self, which: tuple[int, ...], values: FloatArray) -> FloatArray:
        """Return `sum_c v_c k_c(t, t') y` for rows y (..., n), without l_i, over some terms c."""
        given = np.asarray(values, dtype=np.float64)
        if given.ndim < 2 or given.shape[-1] != self.n_times:
            raise InvalidInputError(
                f"values: expected rows of {self.n_times} times, got shape {given.shape}"
            )
        rows = np.ascontiguousarray(given.reshape(-1, self.n_times))
        moving, constant = self._split(which)
        found = np.zeros_like(rows)
        if moving:
            self._multiply(moving, rows, found)
        for c in constant:
            found += self.terms[c].variance * rows.sum(axis=1, keepdims=True)
        return found.reshape(given.shape)

    def sample(
        self, which: tuple[int, ...], rng: np.random.Generator, m: int, n_rows: int | None = None
    ) -> FloatArray:
        """Return draws (m, n_rows, n) of `sum_c sqrt(v_c) f_c`, `f_c ~ GP(0, k_c)`, without l_i.

        There are as many rows as series unless another number is given.
        """
        moving, constant = self._split(which)
        count = self.n_series if n_rows is None else n_rows
        drawn = np.zeros((m * count, self.n_times))
        if moving:
            self._draw(moving, rng, drawn)
        for c in constant:
            drawn += np.sqrt(self.terms[c].variance) * rng.standard_normal((len(drawn), 1))
        return drawn.reshape(m, count, self.n_times)

    def on(self, times: FloatArray) -> SeriesFilter:
        """Return the filter on the union of its times and others, where nothing is seen."""
        union = np.union1d(self.times, check_vector(times, "times"))
        seen = np.zeros(union.size, dtype=bool)
        seen[np.searchsorted(union, self.times)] = self.seen
        return SeriesFilter(self.terms, self.noise, self.eigenvalues, union, seen)

    @cached_property
    def _kinds(self) -> tuple[Lanes, FloatArray]:
        """Groups of series, and the eigenvalue of each kind of series."""
        is_graph = any(term.where == "graph" for term in self.terms)
        return lanes_of(self.eigenvalues if is_graph else np.ones(self.n_series))

    @property
    def _lanes(self) -> Lanes:
        return self._kinds[0]

    @cached_property
    def _weights(self) -> FloatArray:
        """Variances (n_terms, G, LANES) of the terms for each lane, `l_i v_c` or `v_c`."""
        values = self._kinds[1][self._lanes.groups]
        return np.stack(
            [
                term.variance * (values if term.where == "graph" else np.ones_like(values))
                for term in self.terms
            ]
        )

    @cached_property
    def _shared(self) -> Dynamics:
        return Dynamics(self._space(self._moving), self.noise, self.seen)

    @cached_property
    def _moving(self) -> tuple[int, ...]:
        """Numbers of the terms that are not constant."""
        return self._split(tuple(range(len(self.terms))))[0]

    @property
    def _constants(self) -> FloatArray:
        """Variances (n_terms, G, LANES) of the terms that are constant; zero of others."""
        constants = self._weights.copy()
        constants[list(self._moving)] = 0.0
        return constants

    @cached_property
    def _gains(self) -> Gains:
        outputs = self._outputs(np.ones((1, len(self.terms)), dtype=bool))[0]
        return gains_of(self._shared, outputs, self._constants.sum(axis=0))

    def _outputs(self, chosen: BoolArray) -> FloatArray:
        """Outputs (k, G, d, LANES) of sums of terms, which rows of `chosen` (k, n_terms) state."""
        moving = list(self._moving)
        scales, states = np.sqrt(self._weights[moving]), self._shared.space.outputs
        found = np.einsum("kc,cgw,cd->kgdw", chosen[:, moving] * 1.0, scales, states)
        return np.ascontiguousarray(found)

    def _variances(self, chosen: BoolArray, whole: int) -> FloatArray:
        """Variances (k, q, n) of sums of terms, which rows of `chosen` (k, n_terms) state.

        All terms are in row `whole`; in none if it is negative.
        """
        check_memory(
            16.0 * chosen.shape[0] * self._lanes.groups.size * self.n_times,
            f"time filters: the variances of {self.n_series} series at {self.n_times} times",
            ADVICE,
        )
        asked, constants = self._outputs(chosen), self._constants
        asked_constants = np.einsum("kc,cgw->kgw", chosen * 1.0, constants)
        total = constants.sum(axis=0)
        found = posterior_variances(self._shared, self._gains, asked, asked_constants, total, whole)
        return self._by_series(found)

    def _by_series(self, found: FloatArray) -> FloatArray:
        """Numbers (k, q, n) of each series of those (k, G, LANES, n) of each lane."""
        groups = self._lanes.groups
        lane_of = np.empty(groups.max() + 1, dtype=np.int64)
        lane_of[groups.ravel()] = np.arange(groups.size)
        flat = found.reshape(found.shape[0], groups.size, found.shape[-1])
        return flat[:, lane_of[self._lanes.numbers]]

    def _multiply(self, moving: tuple[int, ...], given: FloatArray, found: FloatArray) -> None:
        """Fill the products of the sum of some terms with rows (.., n)."""
        space = self._space(moving)
        outputs = np.repeat(self._output(moving)[:, None], LANES, axis=1)
        moves_in = space.stationary_times(outputs)
        tasks = rows_in_order(len(given))

        def work(blocks: Iterator[tuple[int, int]]) -> None:
            room = np.empty((2, self.n_times, LANES))
            for block in blocks:
                for task in range(*block):
                    multiply_rows(given, found, tasks[task], room, outputs, moves_in,
                                  space.transitions, space.steps)  # fmt: skip

        share_rows(work, len(tasks), 1, MOST_TASKS)

    def _draw(self, moving: tuple[int, ...], rng: np.random.Generator, drawn: FloatArray) -> None:
        """Fill rows (.., n) with draws of the sum of some terms."""
        space, output = self._space(moving), self._output(moving)
        root, roots = space.roots()
        tasks = rows_in_order(len(drawn))
        shape = (self.n_times, space.n_states, LANES)
        at_once = max(DRAWN_AT_ONCE // int(np.prod(shape)), 1)
        for start in range(0, len(tasks), at_once):
            some = tasks[start : start + at_once]
            normals = rng.standard_normal((len(some), *shape))

            def work(
                blocks: Iterator[tuple[int, int]], some: Any = some, normals: Any = normals
            ) -> None:
                buffer = np.empty((self.n_times, LANES))
                for block in blocks:
                    for task in range(*block):
                        draw_rows(normals[task], drawn, some[task], buffer, output, root,
                                  space.transitions, roots, space.steps)  # fmt: skip

            share_rows(work, len(some), 1, MOST_TASKS)

    def _space(self, moving: tuple[int, ...]) -> StateSpace:
        """State space of some terms, cached."""
        if moving not in self._spaces:
            kernels = [self.terms[c].kernel for c in moving]
            self._spaces[moving] = state_space(kernels, self.times)
        return self._spaces[moving]

    def _output(self, moving: tuple[int, ...]) -> FloatArray:
        """Output (d,) of the sum of some terms, without eigenvalues."""
        scales = np.sqrt([self.terms[c].variance for c in moving])
        return np.asarray(scales @ self._space(moving).outputs)

    def _split(self, which: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Numbers of the moving terms, and of the constant terms, in order."""
        bad = [c for c in which if not 0 <= c < len(self.terms)]
        if bad:
            raise InvalidInputError(
                f"which: expected numbers of terms from 0 to {len(self.terms) - 1}, got {bad[0]}"
            )
        chosen = sorted(set(which))
        constant = tuple(c for c in chosen if isinstance(self.terms[c].kernel, Constant))
        return tuple(c for c in chosen if c not in constant), constant

    def _rows(self, values: FloatArray) -> FloatArray:
        """Values as an array (m q, n) in order."""
        given = np.asarray(values, dtype=np.float64)
        if given.ndim not in (2, 3) or given.shape[-2:] != (self.n_series, self.n_times):
            raise InvalidInputError(
                f"values: expected shape (m, {self.n_series}, {self.n_times}) or "
                f"({self.n_series}, {self.n_times}), got {given.shape}"
            )
        return np.ascontiguousarray(given.reshape(-1, self.n_times))


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


def checked_eigenvalues(eigenvalues: FloatArray) -> FloatArray:
    """Return eigenvalues (q,) clipped at zero; those below zero beyond rounding are refused."""
    found = check_vector(eigenvalues, "eigenvalues")
    if found.min() < -ROUNDING * max(found.max(), 0.0):
        raise InvalidInputError(f"eigenvalues: expected numbers >= 0, got {found.min():g}")
    return np.maximum(found, 0.0)


def checked_seen(seen: BoolArray | None, n: int) -> BoolArray:
    """Return at which of n times (n,) anything is observed; at all of them if None."""
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
