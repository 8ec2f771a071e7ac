"""Choice among kernels on a lattice, by rows that are left out: first of few rows, then of all."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from coupledgp.core.budget import current_budget
from coupledgp.errors import InvalidInputError
from coupledgp.ground.codec import stored
from coupledgp.ground.progress import duration, tell
from coupledgp.random import FloatArray
from coupledgp.spectra import Spectrum
from coupledgp.tables.lattice import Lattice, TooManyWavesError
from coupledgp.tables.lattice_evidence import PROBE_TOLERANCE, LatticePrior, mean_tolerance
from coupledgp.tables.lattice_posterior import DRAW_TOLERANCE, MEAN_TOLERANCE
from coupledgp.tables.lattice_process import N_DRAWS, LatticeGP
from coupledgp.tables.lattice_search import (
    FIRST_ROWS,
    N_PROBES,
    SUM_ROWS,
    HopelessError,
    LatticeFitter,
    LatticeRows,
    LatticeSearch,
)
from coupledgp.tables.lattice_sums import LatticeSums
from coupledgp.tables.lattice_system import BLOCK_WAVES

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
# Kernels that are compared, the smoothest first, and rows by whose left-out laws.
KERNELS, SCORED_ROWS = ("gaussian", "matern-5/2", "matern-3/2"), 20_000
# Longest side of a box, in sides of its core: beyond it waves would serve empty space.
FAR_SIDES = 20.0
# Standard errors of the difference by which rows that are left out must be less dense for a kernel
# to go.
NEAR_ERRORS = 2.5
# Draws of the process of few rows, whose laws come from the exact one where it has a factor.
FEW_DRAWS = 8
# Waves of a lattice, in those of the last forecast, from which another forecast is made.
GROWN = 1.5
# Variance beyond a lattice, in units of the noise, above which a kernel is too rough for its rows.
MOST_LEFT_OUT = 0.5


@stored
@dataclass(frozen=True)
class LatticeChoice:
    """A kernel that was tried, and what came of it.

    Attributes
    ----------
    kernel : str
        Its name.
    log_density : float
        Mean log density of rows that are left out, nats; NaN where it was the only one.
    n_waves : int
        Waves of its lattice.
    left_out_share : float
        Share of the prior variance beyond the lattice.
    """

    kernel: str
    log_density: float = field(metadata={"finite": False})
    n_waves: int
    left_out_share: float

    def __str__(self) -> str:
        score = "" if np.isnan(self.log_density) else f", log density {self.log_density:.4f} nats"
        return (
            f"{self.kernel}: {self.n_waves} waves, {self.left_out_share:.1e} of the variance "
            f"beyond them{score}"
        )


@dataclass
class Tried:
    """A kernel on its way: its search on few rows, and on all, with the process given all."""

    fitter: LatticeFitter
    densities: FloatArray | None = None
    first: LatticeSearch | None = None
    search: LatticeSearch | None = None
    process: LatticeGP | None = None
    forecast: LatticeForecast | None = None

    @property
    def n_steps(self) -> int:
        """Steps of both searches."""
        return sum(each.n_steps for each in (self.first, self.search) if each is not None)

    @property
    def choice(self) -> LatticeChoice:
        """The kernel in a report."""
        found = self.search or self.first
        assert found is not None
        own = found.prior
        share = own.left_out_variance / own.hyperparameters.outputscale
        density = np.nan if self.densities is None else float(self.densities.mean())
        return LatticeChoice(str(own.spectrum), density, own.lattice.n_waves, share)


@dataclass(frozen=True, eq=False)
class LatticeProblem:
    """A table whose places are to be kriged on a lattice.

    Attributes
    ----------
    rows : LatticeRows
        The table.
    normalize : bool
        Whether the units follow further data.
    shared : bool
        Whether all places have one lengthscale.
    known_noise : float or None
        Noise that is kept, normalised units.
    seed : int
        Of rows, probes and draws.
    n_draws : int
        Draws by which variances are known where waves are many.
    most_waves : int or None
        Most waves of a lattice; see `Lattice.for_kernel`.
    forecasts : bool
        Whether to forecast what the fit takes, and to refuse it beyond the budget.
    most_left_out : float or None
        Most variance beyond the lattice of all rows, in units of the noise, that a kernel may have.
    """

    rows: LatticeRows
    normalize: bool
    shared: bool
    known_noise: float | None
    seed: int
    n_draws: int = N_DRAWS
    most_waves: int | None = None
    forecasts: bool = False
    most_left_out: float | None = None

    def fitter(self, spectrum: Spectrum) -> LatticeFitter:
        """The search for the hyperparameters of one kernel."""
        return LatticeFitter(spectrum, self.shared, self.known_noise, self.seed, self.most_waves)

    def process(self, search: LatticeSearch, few: LatticeRows | None = None) -> LatticeGP:
        """The process of a search, given all rows, or the few that it was made on."""
        table = self.rows if few is None else few
        n_draws = self.n_draws if few is None else min(self.n_draws, FEW_DRAWS)
        return LatticeGP.of(
            search.prior, table.trend, table.box, table.units, self.normalize, table.units.offset,
            search.sums_in(table.units.scale), self.seed, n_draws, table.kept,
        )  # fmt: skip

    def best(self, spectra: Sequence[Spectrum]) -> tuple[Tried, tuple[Tried, ...]]:
        """The kernel of greatest density of left-out rows, and all that were tried, it first.

        Raises
        ------
        TooManyWavesError
            A lattice holds none of the kernels.
        NumericalError
            Equations are not solved to working precision.
        """
        self._check_box()
        fitters = [self.fitter(spectrum) for spectrum in spectra]
        tried = self._tried(fitters) if len(fitters) > 1 else [self._alone(fitters[0])]
        closest = [each for each in _closest(tried) if self._holds(each)]
        self._check_some(closest)
        self._forecast(closest)
        left: list[Tried] = []
        least = None
        for each in closest:
            assert each.first is not None
            if left and left[-1].search is not None:
                own = left[-1].fitter.evidence(left[-1].search.system)
                least = own if least is None else max(least, own)
            try:
                each.search = each.fitter.search(self.rows, each.first, self._regrown(each), least)
            except (HopelessError, TooManyWavesError) as error:
                tell(str(error))
                continue
            each.process = self.process(each.search)
            left.append(each)
        self._check_some(left)
        if len(left) > 1:
            for each in left:
                each.densities = self._densities(each.process, self.rows)
            left = _closest(left)
        return left[0], tuple(sorted(tried, key=lambda each: each is not left[0]))

    def _alone(self, fitter: LatticeFitter) -> Tried:
        """A kernel that is the only one, searched on few rows."""
        few = self.rows.some(FIRST_ROWS, np.random.default_rng(self.seed))
        return Tried(fitter, first=fitter.first(self.rows.part(few)))

    def _holds(self, tried: Tried) -> bool:
        """Whether a lattice of all rows holds a kernel, as far as the search on few rows tells.

        The noise of few rows is that of all, or more: where a function has hardly any, further
        rows show finer parts of it.
        """
        assert tried.first is not None
        if self.most_left_out is None:
            return True
        try:
            wanted = tried.fitter.prior(self.rows, tried.first.prior.hyperparameters)
        except TooManyWavesError as error:
            tell(str(error))
            return False
        return wanted.left_out_variance <= self.most_left_out * wanted.hyperparameters.noise

    def _forecast(self, tried: Sequence[Tried]) -> None:
        """Tell what the searches on all rows will take, and refuse them above the budget."""
        if not self.forecasts or self.rows.n_counted <= FIRST_ROWS:
            return
        for each in tried:
            assert each.first is not None
            try:
                wanted = each.fitter.prior(self.rows, each.first.prior.hyperparameters)
            except TooManyWavesError:  # which the search tells
                continue
            each.forecast = forecast_of(wanted, self.rows, self.n_draws)
            tell(f"forecast, {each.fitter.spectrum}: {each.forecast}")
        whole = [each.forecast for each in tried if each.forecast is not None]
        for forecast in whole[:1]:
            total = sum(own.seconds for own in whole)
            replace(forecast, seconds=total).check()

    def _regrown(self, tried: Tried) -> Callable[[LatticePrior], None]:
        """Tell again what a search takes whose lattice has grown, and refuse it above the budget.

        Where noise is hardly any, all rows show finer parts of the function than few rows did, and
        the forecast from these is too low.
        """

        def told(prior: LatticePrior) -> None:
            forecast = tried.forecast
            if forecast is None or prior.lattice.n_waves < GROWN * forecast.n_waves:
                return
            found = forecast_of(prior, self.rows, self.n_draws)
            tell(
                f"forecast, {tried.fitter.spectrum}: {found}, which noise below that of few rows "
                "takes; LocalGPRegressor takes less"
            )
            found.check()
            tried.forecast = found

        return told

    def _check_box(self) -> None:
        """Refuse a box that few rows make many times as long as all others need."""
        box, trend = self.rows.box, self.rows.trend
        far = (box.sides > FAR_SIDES * box.core) & (box.core > 0)
        if not far.any():
            return
        data = self.rows.sample if self.rows.kept is None else self.rows.kept
        places = data.points[:, trend.places]
        middle = np.median(places, axis=0)
        beyond = (np.abs(places - middle) > 0.5 * FAR_SIDES * box.core) & far
        rows = np.flatnonzero(beyond.any(axis=1))
        listed = ", ".join(str(row + 1) for row in rows[:3])
        which = "some" if self.rows.kept is None else f"{len(rows)} of {len(places)}"
        named = "" if self.rows.kept is None else f" (row {listed})"
        raise TooManyWavesError(
            f"X: expected rows in one box, got {which} that are more than {FAR_SIDES / 2:.0f} "
            f"times as far from the middle as most{named}: leave them out, or use LocalGPRegressor"
        )

    def _tried(self, fitters: Sequence[LatticeFitter]) -> list[Tried]:
        """Each kernel searched on few rows, with the density of these when they are left out."""
        rng = np.random.default_rng([self.seed, 5])
        table = self.rows.part(self.rows.some(FIRST_ROWS, rng))
        found: list[Tried] = []
        for fitter in fitters:
            try:
                first = fitter.first(table)
            except TooManyWavesError as error:
                tell(str(error))
                continue
            found.append(Tried(fitter, self._densities(self.process(first, table), table), first))
            if found[-1] not in _closest(found) or not self._holds(found[-1]):
                break  # rougher ones are worse yet, or take more waves yet
        self._check_some(found)
        return found

    def _check_some(self, found: list[Tried]) -> None:
        if not found:
            raise TooManyWavesError(
                "kernel: expected one that a lattice holds for these "
                f"{self.rows.n_counted:.0f} rows, but none does; use LocalGPRegressor"
            )

    def _densities(self, process: LatticeGP | None, rows: LatticeRows) -> FloatArray:
        """Log densities (m,), nats, of the same rows for each kernel, when they are left out."""
        assert process is not None
        few = rows.some(SCORED_ROWS, np.random.default_rng([self.seed, 6]))
        return process.left_out_densities(few)


def _closest(tried: Sequence[Tried]) -> list[Tried]:
    """Kernels that are not clearly worse than the best, by paired densities, the best first."""
    if len(tried) == 1:
        return list(tried)
    every = [np.asarray(each.densities) for each in tried]
    best = max(every, key=lambda own: float(own.mean()))
    kept = [
        (float(own.mean()), each)
        for own, each in zip(every, tried, strict=True)
        if (best - own).mean() <= NEAR_ERRORS * (best - own).std() / np.sqrt(len(own))
    ]
    return [each for _, each in sorted(kept, key=lambda pair: -pair[0])]


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

    def check(self) -> None:
        """Refuse a fit that takes more seconds than its budget.

        Raises
        ------
        InvalidInputError
            The message gives the forecast.
        """
        budget = current_budget().seconds
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
