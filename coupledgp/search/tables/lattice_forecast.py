"""Forecast of the cost of a fit on a lattice, from the speed of this machine on a few products."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.ground.progress import duration
from coupledgp.inference.lattice.evidence import (
    PROBE_TOLERANCE,
    LatticePrior,
    mean_tolerance,
)
from coupledgp.inference.lattice.lattice import Lattice
from coupledgp.inference.lattice.posterior import DRAW_TOLERANCE, MEAN_TOLERANCE
from coupledgp.inference.lattice.sums import LatticeSums
from coupledgp.inference.lattice.system import BLOCK_WAVES
from coupledgp.search.tables.lattice import N_PROBES
from coupledgp.search.tables.lattice_rows import SUM_ROWS, LatticeRows

# Rows whose sums are timed.
TRIAL_ROWS = 8192
# Passes over the rows of a search on all of them: a lattice, and one that it outgrows.
PASSES = 2
# Steps of a search on all rows, and steps of solves that do not hang on the signal.
SEARCH_STEPS, FEWEST = 6, 5.0
# Columns of the solve that is timed, and inverses of the block in a step, in units of its factor.
TRIAL_COLUMNS, BLOCK_SHARE = 4, 3.0
# Seconds of a search on the largest lattice whose equations have a factor.
DENSE_SECONDS = 3.0


@dataclass(frozen=True)
class LatticeForecast:
    """Expected cost of a fit once its hyperparameters are known from few rows.

    Attributes
    ----------
    seconds : float
        Seconds of one core, within a factor of two where waves are many.
    n_waves : int
        Waves of the lattice.
    n_rows : float
        Number of rows.
    """

    seconds: float
    n_waves: int
    n_rows: float

    def __str__(self) -> str:
        return f"about {duration(self.seconds)} for {self.n_rows:.0f} rows on {self.n_waves} waves"

    def check(self, budget: float | None) -> None:
        """Refuse a fit that takes more seconds than a budget.

        Raises
        ------
        InvalidInputError
            The message gives the forecast.
        """
        if budget is not None and self.seconds > budget:
            raise InvalidInputError(
                f"budget: the fit takes {self}, more than the {duration(budget)} allowed; take a "
                "smoother kernel, some of the rows or a larger budget, or use LocalGPRegressor"
            )


def forecast_of(prior: LatticePrior, rows: LatticeRows, n_draws: int) -> LatticeForecast:
    """Forecast from the time of sums over the sample, and of a product with the waves.

    Parameters
    ----------
    prior
        Prior on the lattice that all rows take.
    rows
        The table.
    n_draws
        Draws by which variances are known where waves are many.
    """
    lattice, n_rows = prior.lattice, rows.n_counted
    transform, _ = _timed(rows, lattice, 64)
    whole, sums = _timed(rows, lattice, TRIAL_ROWS)
    each = max(whole - transform, 0.0) / min(TRIAL_ROWS, len(rows.sample))
    a_pass = rows.seconds_a_pass + each * n_rows + transform * max(n_rows / SUM_ROWS, 1.0)
    if lattice.n_waves <= BLOCK_WAVES:
        return LatticeForecast(PASSES * a_pass + DENSE_SECONDS, lattice.n_waves, n_rows)
    sums = replace(sums, waves=sums.waves * (n_rows / sums.n_counted))  # of as many rows
    system = prior.system(sums, rows.n_outputs)
    block = _least_time(lambda: system.block, 1)
    trial = np.ones((system.n_weights, TRIAL_COLUMNS))
    a_step = _least_time(lambda: system.precondition(system.product(trial)), 2) / TRIAL_COLUMNS
    root, k = float(np.sqrt(system.signal_outside)), rows.n_outputs

    def steps(tolerance: float) -> float:
        """Of conjugate gradients, by the bound of their error for eigenvalues in [1, signal]."""
        return FEWEST + 0.5 * root * float(np.log(2 / tolerance))

    loose = N_PROBES + k * (3 + lattice.dim)
    searched = k * steps(float(mean_tolerance(system).min())) + loose * steps(PROBE_TOLERANCE)
    drawn = k * steps(MEAN_TOLERANCE) + n_draws * steps(DRAW_TOLERANCE)
    solves = a_step * (SEARCH_STEPS * searched + drawn) + SEARCH_STEPS * BLOCK_SHARE * block
    return LatticeForecast(PASSES * a_pass + solves, lattice.n_waves, n_rows)


def _least_time(work: Callable[[], object], repeats: int) -> float:
    """Least CPU seconds of some calls; the first one may also plan transforms."""
    found = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def _timed(rows: LatticeRows, lattice: Lattice, size: int) -> tuple[float, LatticeSums]:
    """Seconds of the sums of some rows of the sample, and these."""
    start = time.process_time()
    sums = rows.trend.sums(lattice, rows.sample.between(0, size), rows.units.offset)
    return time.process_time() - start, sums
