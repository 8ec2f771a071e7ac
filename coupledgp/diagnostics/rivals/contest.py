"""Rivals, one after the other within a budget, and beside a model at points that are held out.

A model beside its baselines: paired differences of scores.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from coupledgp.diagnostics.rivals.observations import BaselinePrediction
from coupledgp.diagnostics.rivals.rival import Rival
from coupledgp.diagnostics.scoring.figures import Skipped
from coupledgp.diagnostics.scoring.laws import PointLaws
from coupledgp.diagnostics.scoring.measures import differences, gain_of
from coupledgp.diagnostics.scoring.score_table import NLPD, OwnLaws
from coupledgp.diagnostics.scoring.scores import rmse
from coupledgp.errors import CoupledGPError
from coupledgp.ground.progress import shown, watched
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


@dataclass(frozen=True, eq=False)
class Contest:
    """Fits of rivals, one after the other.

    Attributes
    ----------
    budget : float
        Seconds for all of them together.
    clock : callable
        Seconds that have passed.
    """

    budget: float
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
        start, show = self.clock(), shown()

        def watch(message: str) -> None:
            show(f"{one.name}: {message}")
            if self.clock() - start > seconds:
                raise OutOfTimeError(f"did not end within {seconds:.2g} s")

        try:
            with watched(watch), warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                watch("fit")
                return attempt(one, seconds)
        except CoupledGPError as error:
            return Skipped(one.name, str(error))


# Unit of gains of laws without a density.
BY_CRPS = "of the CRPS, in logarithms"


@dataclass(frozen=True)
class BesideBaseline:
    """A model beside a baseline.

    Attributes
    ----------
    name : str
    rmse, nlpd : float
        Scores of the baseline.
    differences : dict of str to dict
        Losses of the model minus those of the baseline, as in `Figures.differences`:
        `"squared_error"`, `"nlpd"` and others, each with `"mean"` and `"standard_error"`, which is
        None for a single point.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    >>> model = cgp.ExactGPRegressor(optimizer=None, lengthscale=1.5, noise=0.02)
    >>> report = cgp.diagnostics.compare(model.fit(X[::2], y[::2]), X[1::2], y[1::2])
    >>> linear = {one.name: one for one in report.evidence.baselines}["linear"]
    >>> linear.gain < 0, linear.advantage() > 3  # the model is better
    (True, True)
    """

    name: str
    rmse: float
    nlpd: float
    differences: dict[str, dict[str, float | None]]

    @classmethod
    def of(
        cls,
        y: FloatArray,
        mean: FloatArray,
        std: FloatArray,
        other: BaselinePrediction,
        mixture: OwnLaws | None = None,
        groups: ArrayLike | None = None,
    ) -> BesideBaseline:
        """Scores of a law of single points beside those of a baseline's.

        Parameters
        ----------
        y, mean, std
            Targets, means and standard deviations of the model, (p,) or (p, k).
        other
            Predictions of the baseline, of the same shape, with standard deviations.
        mixture
            The laws of the points where they are mixtures.
        groups
            Groups (p,) in which losses go together; None: every point by itself.
        """
        assert other.std is not None
        shape = (len(y), -1)
        targets = y.reshape(shape)
        own = PointLaws(mean.reshape(shape), std.reshape(shape), mixture)
        theirs = PointLaws(other.mean.reshape(shape), other.std.reshape(shape), other.own)
        found = differences(targets, own, theirs, groups)
        density = float(theirs.losses(NLPD, targets).mean())
        return cls(other.name, rmse(targets, theirs.mean), density, found)

    @property
    def gain(self) -> float:
        """Mean paired decrease of the NLPD if it is picked, nats per point.

        Of laws without a density it is the decrease of the logarithm of the CRPS.
        """
        return gain_of(self.differences)["mean"] or 0.0

    @property
    def standard_error(self) -> float | None:
        """Standard error of the gain; None for a single point."""
        error: float | None = gain_of(self.differences)["standard_error"]
        return error

    @property
    def unit(self) -> str:
        """What the gain is in."""
        return "nats per point" if "nlpd" in self.differences else BY_CRPS

    def advantage(self) -> float:
        """Standard errors by which the model's NLPD is smaller; negative where it is larger."""
        return -self.gain / self.standard_error if self.standard_error else 0.0
