"""Baselines of a kind of points: simple rivals that are fitted in closed form."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

from coupledgp.diagnostics.rivals.nearest import (
    Finder,
    left_out_by_nearest,
    predicted_by_nearest,
)
from coupledgp.diagnostics.rivals.observations import BaselinePrediction, Observations, Rivals
from coupledgp.errors import MemoryLimitError, NumericalError
from coupledgp.ground.threads import suited_threads
from coupledgp.random import IntArray


class Baseline(NamedTuple):
    """A fitted baseline.

    Attributes
    ----------
    predict : callable
        Predictions (p, k) at points (p, ...).
    left_out : callable
        Predictions (n, k) of each observation from those of other groups (n,).
    """

    predict: Callable[[Any], BaselinePrediction]
    left_out: Callable[[IntArray], BaselinePrediction]


# Fits a baseline, or says why there is none.
Maker = Callable[[], Baseline | str]


class Baselines(ABC):
    """Baselines of a kind of points, given observations.

    Attributes
    ----------
    observations : Observations
    """

    observations: Observations

    @abstractmethod
    def makers(self) -> dict[str, Maker]:
        """What fits each baseline besides the mean, by its name."""

    def predict(self, queries: Any) -> Rivals:
        """Predictions (p, k) at points (p, ...) by all baselines."""
        return self._gathered(lambda one: one.predict(queries))

    def left_out(self, groups: IntArray) -> Rivals:
        """Predictions (n, k) of each observation from those of other groups (n,).

        Raises
        ------
        InvalidInputError
            There is only one group, or not one number for each observation.
        """
        numbers = self.observations.as_groups(groups)
        return self._gathered(lambda one: one.left_out(numbers))

    def by_nearest(self, finder: Finder, number: Callable[[Any], IntArray]) -> Baseline:
        """Observations at the nearest site, whose number (p,) is -1 for points without one."""
        return Baseline(
            lambda queries: predicted_by_nearest(self.observations, finder, number(queries)),
            lambda groups: left_out_by_nearest(self.observations, finder, groups),
        )

    def _by_mean(self) -> Baseline:
        data = self.observations
        return Baseline(lambda queries: data.predicted_by_mean(len(queries)), data.left_out_by_mean)

    def _gathered(self, use: Callable[[Baseline], BaselinePrediction]) -> Rivals:
        """Predictions of all; those whose matrix cannot be factorised or stored are left out."""
        makers: dict[str, Maker] = {"mean": self._by_mean, **self.makers()}
        rivals = Rivals()
        with suited_threads(len(self.observations)):
            for name, make in makers.items():
                try:
                    made = make()
                    found = made if isinstance(made, str) else use(made)
                except (NumericalError, MemoryLimitError) as error:
                    found = str(error)
                if isinstance(found, str):
                    rivals.left_out[name] = found
                else:
                    rivals.append(found)
        return rivals
