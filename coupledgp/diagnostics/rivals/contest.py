"""Rivals, one after the other within a budget, and beside a model at points that are held out."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from coupledgp.diagnostics.rivals.rival import Rival
from coupledgp.diagnostics.scoring.other_model import Skipped
from coupledgp.errors import CoupledGPError
from coupledgp.ground.progress import Progress, watched

# A rival that takes this many times its forecast is ended where others wait for the time; by so
# much at most a machine is taken to be slower than forecasts assume.
PATIENCE = 3.0
# Seconds of any fit, however small.
LEAST_SECONDS = 0.5
# Parts of the data, each predicted from the others, for the error of a rival that gives means only.
FOLDS = 5

T = TypeVar("T")


class OutOfTimeError(CoupledGPError):
    """A fit did not end within its share of the budget."""


class Entry(NamedTuple, Generic[T]):
    """A rival that was tried, what was found of it, and the seconds that it took."""

    rival: Rival
    found: T
    seconds: float


@dataclass(frozen=True, eq=False)
class Contest:
    """Fits of rivals, one after the other.

    Attributes
    ----------
    budget : float
        Seconds for all of them together.
    report : Progress
        Told of each step.
    clock : callable
        Seconds that have passed.
    """

    budget: float
    report: Progress
    clock: Callable[[], float] = field(default=time.perf_counter)

    def run(
        self, rivals: Sequence[Rival], attempt: Callable[[Rival, float], T]
    ) -> tuple[list[Entry[T]], list[Skipped]]:
        """Try rivals, the cheapest first, as far as the budget goes.

        `attempt` fits a rival within some seconds and returns what is wanted of it, or raises a
        `CoupledGPError` that says why there is nothing.
        """
        start, planned = self.clock(), 0.0
        found: list[Entry[T]] = []
        skipped: list[Skipped] = []
        waiting = sorted(rivals, key=lambda one: one.seconds)
        later = sum(LEAST_SECONDS + one.seconds for one in waiting)
        for one in waiting:
            spent = self.clock() - start
            left = max(self.budget - spent, 0.0)
            # A machine that is slower than forecasts assume stays so.
            pace = float(np.clip(spent / planned, 1.0, PATIENCE)) if planned else 1.0
            seconds = pace * (LEAST_SECONDS + one.seconds)
            later -= LEAST_SECONDS + one.seconds
            if seconds > left:
                reason = f"forecast {seconds:.2g} s, {left:.2g} s of the budget left"
                skipped.append(Skipped(one.name, reason))
                continue
            planned += LEAST_SECONDS + one.seconds
            most = min(left, max(PATIENCE * seconds, left - pace * later))
            begun = self.clock()
            tried = self._tried(one, most, attempt)
            if isinstance(tried, Skipped):
                skipped.append(tried)
            else:
                found.append(Entry(one, tried, self.clock() - begun))
        return found, skipped

    def _tried(
        self, one: Rival, seconds: float, attempt: Callable[[Rival, float], T]
    ) -> T | Skipped:
        """What an attempt finds within some seconds, or why it finds nothing."""
        start = self.clock()

        def watch(message: str) -> None:
            self.report(f"{one.name}: {message}")
            if self.clock() - start > seconds:
                raise OutOfTimeError(f"did not end within {seconds:.2g} s")

        try:
            with watched(watch), warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                watch("fit")
                return attempt(one, seconds)
        except CoupledGPError as error:
            return Skipped(one.name, str(error))
