"""Gains of Kalman filters: all that solves and variances of a series need beside its values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coupledgp.ground.compiled import share_rows
from coupledgp.ground.memory import check_memory
from coupledgp.inference.space_time.factors import LANES, factor
from coupledgp.inference.space_time.recursions import fill_records, solve_rows
from coupledgp.inference.space_time.state_space import StateSpace
from coupledgp.random import FloatArray

# Most groups of a block that a thread takes.
MOST_GROUPS = 8
ADVICE = "use fewer sensors, a shorter window of times or a coarser axis"


@dataclass(frozen=True, eq=False)
class Dynamics:
    """States, noise and times with observations that all series share.

    Attributes
    ----------
    space : StateSpace
        States of the terms that are not constant.
    noise : float
        s.
    seen : BoolArray (n,)
        Whether anything is observed at each time; true at one time or more.
    """

    space: StateSpace
    noise: float
    seen: NDArray[np.bool_]

    @property
    def n_times(self) -> int:
        """Number n of the times."""
        return self.seen.size

    @cached_property
    def stop(self) -> int:
        """Number of times up to the last one with an observation."""
        return int(np.flatnonzero(self.seen)[-1]) + 1

    @cached_property
    def regular(self) -> int:
        """First time from which on steps are equal and something is seen, up to the last time."""
        changes = np.flatnonzero(np.diff(self.space.steps[: self.stop - 1])) + 1
        unseen = np.flatnonzero(~self.seen[: self.stop]) + 1
        return int(max(changes.max(initial=0), unseen.max(initial=0)))

    @cached_property
    def factors(self) -> tuple[Any, Any]:
        """Factors `(U, D)` of the stationary covariance and of each step's innovation."""
        return factor(self.space.stationary[None]), factor(self.space.innovations)


@dataclass(frozen=True, eq=False)
class Gains:
    """Gains of groups of series whose covariances are `A = B + c 1 1'`, c from constant terms.

    Attributes
    ----------
    outputs : FloatArray (G, d, LANES)
        h, by which the states give B without noise.
    records : list of FloatArray (r, d + 1, LANES)
        See `recursions`; of each group.
    answers : list of FloatArray (n, LANES)
        `b = B^-1 1`, zero where nothing is seen; of no rows where all c are zero.
    shares : FloatArray (G, LANES)
        `c / (1 + c 1'b)`, the variance of the constant given complete data.
    log_determinants : FloatArray (G, LANES)
        `log |A|`.
    """

    outputs: FloatArray
    records: list[FloatArray]
    answers: list[FloatArray]
    shares: FloatArray
    log_determinants: FloatArray


def gains_of(shared: Dynamics, outputs: FloatArray, constants: FloatArray) -> Gains:
    """Return the gains of outputs (G, d, LANES) with variances (G, LANES) of constant terms.

    Constants are no states: their gains never become stationary, and theirs would keep those of
    all states. Their part follows by the formula of Sherman and Morrison.

    Raises
    ------
    MemoryLimitError
        Gains of all groups, kept until they are stationary, do not fit.
    """
    n_groups, width = outputs.shape[0], outputs.shape[1] + 1
    records, answers = [np.empty(0)] * n_groups, [np.empty((0, LANES))] * n_groups
    determinants, shares = np.zeros((n_groups, LANES)), np.zeros((n_groups, LANES))
    space = shared.space
    start, noises = shared.factors

    def work(blocks: Iterator[tuple[int, int]]) -> None:
        room = np.empty((shared.stop, width, LANES))
        for first, last in blocks:
            for g in range(first, last):
                count = fill_records(
                    outputs[g], shared.noise, start, space.transitions, noises, space.steps,
                    shared.seen, shared.stop, shared.regular, room, determinants[g],
                )  # fmt: skip
                _check_rest(shared, (n_groups - g) * count * width, constants)
                records[g] = room[:count].copy()
                if constants[g].any():
                    answers[g] = _answers(shared, outputs[g], records[g])
                    sums = answers[g].sum(axis=0)
                    shares[g] = constants[g] / (1.0 + constants[g] * sums)
                    determinants[g] += np.log1p(constants[g] * sums)

    share_rows(work, n_groups, 1, MOST_GROUPS)
    return Gains(outputs, records, answers, shares, determinants)


def _answers(shared: Dynamics, outputs: FloatArray, records: FloatArray) -> FloatArray:
    """`B^-1 1` (n, LANES) of a group."""
    n, space = shared.n_times, shared.space
    rows, buffer = np.zeros(LANES, dtype=np.int64), np.empty((n, LANES))
    none = np.empty((0, LANES))
    solve_rows(
        np.ones((1, n)), np.empty((1, n)), rows, buffer, outputs, space.transitions, space.steps,
        shared.seen, records, shared.stop, none, none.ravel(),
    )  # fmt: skip
    return buffer


def _check_rest(shared: Dynamics, n_numbers: int, constants: FloatArray) -> None:
    """Refuse gains that exceed the memory if all later groups are as large as this one."""
    n_numbers *= LANES
    if constants.any():
        n_numbers += constants.size * shared.n_times
    check_memory(
        8.0 * n_numbers,
        f"time filters: the gains of {constants.size} series at {shared.n_times} times",
        ADVICE,
    )
