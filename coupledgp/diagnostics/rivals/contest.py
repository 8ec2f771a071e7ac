"""Rivals, one after the other within a budget, and beside a model at points that are held out."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold

from coupledgp.diagnostics.rivals.observations import first_seen, positive
from coupledgp.diagnostics.rivals.rival import Rival, fitted_to, laws_at
from coupledgp.diagnostics.scoring.alternatives import Alternative, Alternatives, Skipped
from coupledgp.diagnostics.scoring.laws import PointLaws
from coupledgp.diagnostics.scoring.score_table import NLPD
from coupledgp.diagnostics.scoring.scores import paired_difference, rmse
from coupledgp.errors import CoupledGPError, InvalidInputError
from coupledgp.gp.protocol import Data, Points
from coupledgp.ground.progress import Progress, reporter, watched
from coupledgp.random import FloatArray

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


class Scored(NamedTuple):
    """Laws of a rival at p test points.

    Attributes
    ----------
    laws : PointLaws
    nlpd : FloatArray (p,)
        Negative log densities of the targets, nats per output.
    detail : str
        What the rival chose for itself, for the end of its action.
    """

    laws: PointLaws
    nlpd: FloatArray
    detail: str = ""


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


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Observations that rivals are given, and others at which they stand beside a model.

    Attributes
    ----------
    data : Data
        Observations that rivals are fitted to.
    points : array (p, ...)
    y : FloatArray (p, k)
        Test points and targets.
    nlpd : FloatArray (p,)
        Negative log densities of the targets by the model, nats per output.
    seed : int
        Seed of the folds of rivals that give means only.
    shared : callable
        What errors that near points share add to the variance of the gain of a rival, from its laws
        and the gains (p,) at the points.
    """

    data: Data
    points: Points
    y: FloatArray
    nlpd: FloatArray
    seed: int = 0
    shared: Callable[[PointLaws, FloatArray], float] = lambda laws, gains: 0.0

    def alternatives(self, rivals: Sequence[Rival], contest: Contest) -> Alternatives:
        """Fit rivals within a budget and score them beside the model, the greatest gain first."""
        entries, skipped = contest.run(rivals, self.scored)
        found = [self._beside(one) for one in entries]
        return Alternatives(sorted(found, key=lambda one: -one.gain), skipped)

    def scored(self, rival: Rival, seconds: float) -> Scored:
        """A rival's laws and densities at the test points.

        Raises
        ------
        InvalidInputError
            It has no laws there, or none with densities.
        """
        fitted = fitted_to(rival, self.data, seconds)
        laws = laws_at(fitted.law, self.points, self.y.shape[1])
        if not isinstance(laws, PointLaws):
            std = np.tile(self._errors(rival, seconds), (len(laws), 1))
            laws = PointLaws(laws, std)
        nlpd = laws.losses(NLPD, self.y).reshape(len(self.y), -1).mean(axis=1)
        if not (np.isfinite(nlpd).all() and np.isfinite(laws.mean).all()):
            raise InvalidInputError("it gives some test targets no density")
        return Scored(laws, nlpd, fitted.detail)

    def _errors(self, rival: Rival, seconds: float) -> FloatArray:
        """Root mean squared error (k,) of means at each of five folds, from the other four.

        Observations of equal points are in one fold; each counts as often as it counts.
        """
        data, y = self.data, self.data.targets
        sites = first_seen(data.points)
        places = np.unique(sites)
        if places.size < 2:
            raise InvalidInputError("expected observations at two points at least, got one")
        folds = KFold(min(FOLDS, places.size), shuffle=True, random_state=self.seed)
        errors = np.empty_like(y)
        with reporter("held out") as report:
            for number, (_, held) in enumerate(folds.split(places)):
                report(f"fold {number + 1} of {folds.n_splits}")
                inside = np.isin(sites, held)
                law = fitted_to(rival, data.take(np.flatnonzero(~inside)), seconds).law
                found = laws_at(law, data.points[inside], y.shape[1])
                errors[inside] = y[inside] - (found.mean if isinstance(found, PointLaws) else found)
        squares = np.average(np.square(errors), axis=0, weights=data.counts)
        return positive(np.sqrt(squares), y)

    def _beside(self, entry: Entry[Scored]) -> Alternative:
        """A rival's scores, and its paired difference from the model."""
        laws, nlpd, detail = entry.found
        gap = paired_difference(self.nlpd, nlpd)
        spread = gap.standard_error
        if spread is not None:
            spread = float(np.sqrt(spread**2 + self.shared(laws, self.nlpd - nlpd)))
        return Alternative(
            name=entry.rival.name,
            action=entry.rival.action + detail,
            gain=gap.mean,
            standard_error=spread,
            rmse=rmse(self.y, laws.mean),
            nlpd=float(nlpd.mean()),
            seconds=entry.seconds,
        )
