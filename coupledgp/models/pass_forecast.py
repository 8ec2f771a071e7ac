"""Forecast of the cost of a fit in passes, from the speed of this machine on some rows."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.gp.protocol import Data
from coupledgp.gp.table_passes import StatisticsPass, TablePasses
from coupledgp.gp.units import Units
from coupledgp.ground.progress import duration
from coupledgp.inference.weights.stream import FeatureStream

# Rows of which features are made to see how long it takes.
TRIAL_ROWS = 8192
# Rows of which the search on the ladder usually makes features, the gradient included.
SEARCH_ROWS = 1_000_000
# Passes that only read: random rows, and the posterior beside its features.
READING_PASSES = 2


@dataclass(frozen=True)
class PassForecast:
    """Expected cost of a fit in passes.

    Attributes
    ----------
    seconds : float
        Seconds of one core that remain after the columns are known, if the ladder ends before the
        whole table.
    features_a_second : float
        Rows of which features and their products are made in a second.
    """

    seconds: float
    features_a_second: float

    def __str__(self) -> str:
        return f"about {duration(self.seconds)} for the passes and the search"

    def check(self, budget: float | None, n_frequencies: int) -> None:
        """Refuse a fit that takes more seconds than a budget.

        Raises
        ------
        InvalidInputError
            The message gives the forecast, and a number of frequencies that may be within it.
        """
        if budget is None or self.seconds <= budget:
            return
        fewer = max(int(n_frequencies * budget / self.seconds), 1)
        raise InvalidInputError(
            f"budget: the fit takes {self}, more than the {duration(budget)} allowed; take "
            f"n_frequencies={fewer}, some of the rows, or a larger budget"
        )


def forecast_of(passes: TablePasses, stream: FeatureStream, units: Units) -> PassForecast:
    """Forecast from the time that features of a few rows take, which are drawn.

    Parameters
    ----------
    passes
        The table, whose first pass is over.
    stream
        Feature map and centre.
    units
        Units of the targets.
    """
    summary, rng = passes.summary, np.random.default_rng(0)
    points = summary.inputs.mean + rng.normal(size=(TRIAL_ROWS, summary.inputs.mean.size))
    data = Data.of(points, np.broadcast_to(summary.targets.mean, (TRIAL_ROWS, units.n_outputs)))
    sums = StatisticsPass(stream, units, summary.targets.mean)
    times = []
    for _ in range(2):  # the first call also loads what it needs
        start = time.process_time()
        sums.add(sums.start(), data)
        times.append(time.process_time() - start)
    rate = TRIAL_ROWS / max(min(times), 1e-6)
    featured = summary.n_rows + SEARCH_ROWS
    return PassForecast(READING_PASSES * passes.seconds_a_pass + featured / rate, rate)
