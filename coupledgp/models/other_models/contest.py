"""Other models, one after the other within a budget, beside a model at the same points."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from coupledgp.diagnostics.scoring.alternatives import Alternative, Alternatives, Skipped
from coupledgp.diagnostics.scoring.scores import paired_difference, rmse
from coupledgp.errors import CoupledGPError
from coupledgp.ground.progress import Progress, watched
from coupledgp.random import FloatArray

# A model that takes this many times its forecast is ended where others wait for the time; by so
# much at most a machine is taken to be slower than forecasts assume.
PATIENCE = 3.0
# Seconds of any fit, however small.
LEAST_SECONDS = 0.5


class OutOfTimeError(CoupledGPError):
    """A fit did not end within its share of the budget."""


class Scored(NamedTuple):
    """Scores of a model at p test points.

    Attributes
    ----------
    mean, std : FloatArray (p, k)
        Means and standard deviations of observations.
    nlpd : FloatArray (p,)
        Negative log densities of the targets, nats per output.
    detail : str
        What the model chose for itself, for the end of its action.
    """

    mean: FloatArray
    std: FloatArray
    nlpd: FloatArray
    detail: str = ""


@dataclass(frozen=True, eq=False)
class Candidate:
    """Another model before it is fitted.

    Attributes
    ----------
    name, action : str
        As in `Alternative`.
    seconds : float
        Forecast of its fit and predictions.
    score : callable
        Fits it within some seconds and returns its `Scored` at the test points, or a sentence that
        says why there is nothing to score.
    """

    name: str
    action: str
    seconds: float
    score: Callable[[float], Scored | str]


@dataclass(frozen=True, eq=False)
class Contest:
    """Candidates beside a model.

    Attributes
    ----------
    y : FloatArray (p, k)
        Targets at the test points.
    nlpd : FloatArray (p,)
        Negative log densities of the targets by the model, nats per output.
    budget : float
        Seconds for all candidates together.
    report : Progress
        Told of each step.
    shared : callable
        What errors that near points share add to the variance of the gain of an alternative, from
        its scores and the gains (p,) at the points.
    clock : callable
        Seconds that have passed.
    """

    y: FloatArray
    nlpd: FloatArray
    budget: float
    report: Progress
    shared: Callable[[Scored, FloatArray], float] = lambda scored, gains: 0.0
    clock: Callable[[], float] = field(default=time.perf_counter)

    def run(self, candidates: Sequence[Candidate]) -> Alternatives:
        """Fit and score the candidates, the cheapest first, as far as the budget goes."""
        start, planned = self.clock(), 0.0
        found: list[Alternative] = []
        skipped: list[Skipped] = []
        waiting = sorted(candidates, key=lambda one: one.seconds)
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
            tried = self._tried(one, min(left, max(PATIENCE * seconds, left - pace * later)))
            if isinstance(tried, Alternative):
                found.append(tried)
            else:
                skipped.append(tried)
        return Alternatives(sorted(found, key=lambda one: -one.gain), skipped)

    def _tried(self, one: Candidate, seconds: float) -> Alternative | Skipped:
        """A candidate's scores, or why it has none."""
        start = self.clock()

        def watch(message: str) -> None:
            self.report(f"{one.name}: {message}")
            if self.clock() - start > seconds:
                raise OutOfTimeError(f"did not end within {seconds:.2g} s")

        try:
            with watched(watch), warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                watch("fit")
                scored = one.score(seconds)
        except CoupledGPError as error:
            return Skipped(one.name, str(error))
        if isinstance(scored, str):
            return Skipped(one.name, scored)
        if not (np.isfinite(scored.nlpd).all() and np.isfinite(scored.mean).all()):
            return Skipped(one.name, "it gives some test targets no density")
        gap = paired_difference(self.nlpd, scored.nlpd)
        spread = gap.standard_error
        if spread is not None:
            spread = float(np.sqrt(spread**2 + self.shared(scored, self.nlpd - scored.nlpd)))
        return Alternative(
            name=one.name,
            action=one.action + scored.detail,
            gain=gap.mean,
            standard_error=spread,
            rmse=rmse(self.y, scored.mean),
            nlpd=float(scored.nlpd.mean()),
            seconds=self.clock() - start,
        )
