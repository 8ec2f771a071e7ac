"""Hyperparameters of features on a lattice of frequencies, by average information.

A start comes from a variogram of few rows; a search on some thousand rows follows, then one on all
rows. Every pass over the rows gives the sums of a lattice, and all steps on it cost the same for
any number of rows. A lattice that has become too coarse or too narrow for the lengthscales is made
anew, with one further pass.

Tables of places whose sums on any lattice can be asked for, in memory or in passes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import nnls
from scipy.spatial import cKDTree
from scipy.spatial.distance import pdist

from coupledgp.core.passes import PartwisePass
from coupledgp.core.problem import Hyperparameters
from coupledgp.core.process import Data
from coupledgp.core.units import Units
from coupledgp.errors import NumericalError
from coupledgp.ground.progress import tell
from coupledgp.random import FloatArray
from coupledgp.spectra import Spectrum
from coupledgp.tables.lattice import Lattice, PlaceBox
from coupledgp.tables.lattice_evidence import (
    InformationStep,
    LatticePrior,
    information_step,
    log_evidence,
    mean_tolerance,
)
from coupledgp.tables.lattice_parts import TrendColumns
from coupledgp.tables.lattice_sums import LatticeSums
from coupledgp.tables.lattice_system import LatticeSystem
from coupledgp.tables.table_passes import BlockedPass, TablePasses

# Random rows that stand for a table in choices, and rows that are summed at once.
SAMPLE_ROWS, SUM_ROWS = 2**16, 2**18


class LatticeRows(ABC):
    """A table whose sums on any lattice can be asked for.

    Attributes
    ----------
    units : Units
        Units of the targets.
    trend : TrendColumns
        Places and trend columns.
    box : PlaceBox
        The box of the places.
    n_counted : float
        Number of rows, each as often as it counts.
    precision : float
        Sum of their counts over their relative noise variances, by the sample where rows are not
        in memory.
    sample : Data
        Random rows, at most `SAMPLE_ROWS`; all where there are no more.
    kept : Data or None
        All rows, where they are in memory.
    seconds_a_pass : float
        Seconds that a pass takes for reading the rows alone.
    """

    units: Units
    trend: TrendColumns
    box: PlaceBox
    n_counted: float
    precision: float
    sample: Data
    kept: Data | None = None
    seconds_a_pass: float = 0.0

    @property
    def n_outputs(self) -> int:
        """Number k of targets."""
        return self.units.n_outputs

    @property
    def n_trend(self) -> int:
        """Number p of trend columns."""
        return len(self.trend.columns)

    @abstractmethod
    def raw_sums(self, lattice: Lattice) -> LatticeSums:
        """Sums over all rows, of targets less the offset of the units, in units of y."""

    def sums(self, lattice: Lattice) -> LatticeSums:
        """Sums over all rows, targets in normalised units."""
        return self.raw_sums(lattice).shifted(np.zeros(self.n_outputs), 1 / self.units.scale)

    def some(self, n_rows: int, rng: np.random.Generator) -> Data:
        """At most so many random rows, of the sample."""
        count = len(self.sample)
        if count <= n_rows:
            return self.sample
        return self.sample.take(np.sort(rng.choice(count, n_rows, replace=False)))

    def part(self, data: Data) -> RowsInMemory:
        """Some rows by themselves, in the same box and units."""
        return RowsInMemory(data, self.units, self.trend, self.box)


class RowsInMemory(LatticeRows):
    """Rows in memory.

    Parameters
    ----------
    data
        Observations.
    units, trend
        As of `LatticeRows`.
    box
        The box of the places; None: that of these rows.
    """

    def __init__(
        self, data: Data, units: Units, trend: TrendColumns, box: PlaceBox | None = None
    ) -> None:
        self.kept, self.units, self.trend = data, units, trend
        self.n_counted = self.precision = float(len(data))
        if data.weights is not None:
            self.n_counted, self.precision = data.weights.n_counted, data.weights.precision
        self.sample = data
        if len(data) > SAMPLE_ROWS:
            self.sample = data.take(sample_of(len(data)))
        if box is None:
            places = data.points[:, trend.places]
            sample = self.sample.points[:, trend.places]
            box = PlaceBox.within(places.min(axis=0), places.max(axis=0), sample)
        self.box = box

    @cached_property
    def places(self) -> FloatArray:
        """Places (n, d)."""
        assert self.kept is not None
        return np.asarray(self.kept.points[:, self.trend.places])

    @cached_property
    def targets(self) -> FloatArray:
        """Normalised targets (n, k)."""
        assert self.kept is not None
        return self.units.normalized(self.kept.targets)

    def raw_sums(self, lattice: Lattice) -> LatticeSums:
        data = self.kept
        assert data is not None
        sums, found = LatticePass(lattice, self.trend, self.units), None
        for start in range(0, len(data), SUM_ROWS):
            found = sums.add(found, data.between(start, start + SUM_ROWS))
        assert found is not None
        return found


class RowsInPasses(LatticeRows):
    """A table that is gone through once for the sums of each lattice, and once for its sample.

    Parameters
    ----------
    passes
        The table.
    units, trend
        As of `LatticeRows`.
    """

    def __init__(self, passes: TablePasses, units: Units, trend: TrendColumns) -> None:
        self.passes, self.units, self.trend = passes, units, trend
        summary = passes.summary
        self.n_counted, self.seconds_a_pass = summary.targets.n_counted, passes.seconds_a_pass
        self.sample = passes.take(sample_of(summary.n_rows))
        self.precision, own = self.n_counted, self.sample.weights
        if own is not None:
            self.precision *= own.precision / own.n_counted
        low, high = (end[trend.places] for end in (summary.inputs.low, summary.inputs.high))
        self.box = PlaceBox.within(low, high, self.sample.points[:, trend.places])

    def raw_sums(self, lattice: Lattice) -> LatticeSums:
        found: LatticeSums = self.passes.total(LatticePass(lattice, self.trend, self.units))
        return found


class LatticePass(PartwisePass[LatticeSums], BlockedPass[LatticeSums | None]):
    """Sums on a lattice of targets less the offset of their units.

    Parameters
    ----------
    lattice, trend, units
        Frequencies, places and trend columns, and units of the targets.
    """

    name = "lattice"

    def __init__(self, lattice: Lattice, trend: TrendColumns, units: Units) -> None:
        self.lattice, self.trend, self.offset = lattice, trend, units.offset

    @property
    def block_rows(self) -> int:
        return SUM_ROWS

    def of(self, part: Data) -> LatticeSums:
        return self.trend.sums(self.lattice, part, self.offset)


def sample_of(n_rows: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Numbers of the rows of the sample of a table, which ascend; the same for all tables."""
    if n_rows <= SAMPLE_ROWS:
        return np.arange(n_rows)
    rng = np.random.default_rng(0)
    return np.sort(rng.choice(n_rows, SAMPLE_ROWS, replace=False, shuffle=False))


# Rows of the first search, those whose pairs make the variogram, neighbours of each in it, and bins
# of its near pairs and of all others.
FIRST_ROWS, VARIOGRAM_ROWS, VARIOGRAM_NEIGHBOURS, BINS = 4000, 1000, 8, (16, 40)
# Least noise of the start, as a share of the variogram's least value.
NUGGET_SHARE = 0.3
# Lengthscales of the variogram's start, in units of the longest side of the box.
STARTS = np.geomspace(0.005, 2.0, 24)
# Most steps on the rows of a search, and most change of a logarithm in one.
MOST_STEPS, MOST_CHANGE = 25, 0.7
# Rise of the log evidence, by the gradient and a step, below which a search has converged, on all
# rows and on the first ones.
CONVERGED, NEAR = 0.02, 0.3
# A search ends whose log evidence stays below that of another kernel after so many times the rise
# that a whole step promises, and so many standard errors.
RISES, EVIDENCE_ERRORS = 2.0, 4.0
# Normal priors of log v about zero, and of the log of l over a quarter of the box.
PRIOR_SD, PRIOR_SHARE = 1.5, 0.25
# Probes of traces.
N_PROBES = 8
# Least and greatest noise, in units of the variance of y, and of the outputscale.
LEAST_NOISE, GREATEST_SCALE, LEAST_SCALE = 1e-6, 1e4, 1e-6
# Longest lengthscale in sides of the box, beyond which a kernel is a constant and a trend.
LONGEST = 4.0
# Share of the band, or of the period, by which lengthscales may outgrow a lattice.
SLACK = 0.5


class HopelessError(NumericalError):
    """A kernel whose evidence stays below that of another."""


class LogEvidence(NamedTuple):
    """Log evidence of normalised targets, nats, and its standard error by probes."""

    value: float
    error: float


class LatticeSearch(NamedTuple):
    """What a search found.

    Attributes
    ----------
    prior : LatticePrior
        The prior with the fitted hyperparameters.
    system : LatticeSystem
        Its equations given all rows.
    n_steps : int
        Steps, each with about twelve solves.
    converged : bool
        Whether the last step would raise the log evidence by less than `CONVERGED`.
    probe_error : float
        Largest error of a hyperparameter by the probes, over its statistical standard deviation.
    """

    prior: LatticePrior
    system: LatticeSystem
    n_steps: int
    converged: bool
    probe_error: float

    def sums_in(self, scale: FloatArray) -> LatticeSums:
        """Sums of targets in other units: normalised targets times scales (k,)."""
        return self.system.sums.shifted(np.zeros(len(scale)), scale)


@dataclass(frozen=True, eq=False)
class LatticeFitter:
    """Searches for the hyperparameters of one kernel.

    Attributes
    ----------
    spectrum : Spectrum
        Gaussian or Matern kernel.
    shared : bool
        Whether all columns have one lengthscale.
    known_noise : float or None
        Noise that is kept, normalised units.
    seed : int
        Of random rows and probes.
    most_waves : int or None
        Most waves of a lattice; see `Lattice.for_kernel`.
    """

    spectrum: Spectrum
    shared: bool
    known_noise: float | None
    seed: int
    most_waves: int | None = None

    def search(
        self, rows: LatticeRows, first: LatticeSearch, grown: Callable[[LatticePrior], None],
        least: LogEvidence | None = None,
    ) -> LatticeSearch:  # fmt: skip
        """Search on all rows, from where one on few of them ended.

        Parameters
        ----------
        rows, first
            All rows, and the search on few.
        grown
            Called with each prior whose lattice takes the place of one that was outgrown.
        least
            Log evidence of another kernel, which this one has to reach.

        Raises
        ------
        HopelessError
            The log evidence stays below `least`.
        TooManyWavesError
            A lattice of so many waves leaves out most of the kernel.
        NumericalError
            The equations are not solved to working precision.
        """
        return self._search(rows, first.prior.hyperparameters, CONVERGED, grown, least)

    def first(self, rows: RowsInMemory) -> LatticeSearch:
        """Search on few rows, from a variogram's start."""
        return self._search(rows, self._start(rows), NEAR)

    def given(self, rows: LatticeRows, hyperparameters: Hyperparameters) -> LatticeSearch:
        """The prior with given hyperparameters, and its equations."""
        prior = self.prior(rows, hyperparameters)
        system = prior.system(rows.sums(prior.lattice), rows.n_outputs)
        return LatticeSearch(prior, system, 0, True, 0.0)

    def prior(self, rows: LatticeRows, hyper: Hyperparameters) -> LatticePrior:
        """The prior on the lattice that rows take at given hyperparameters.

        Raises
        ------
        TooManyWavesError
            A lattice of so many waves leaves out most of the kernel.
        """
        signal = hyper.outputscale / hyper.noise
        lattice = Lattice.for_kernel(
            self.spectrum, hyper.lengthscale, signal, rows.box, rows.n_counted, rows.precision,
            self.most_waves,
        )  # fmt: skip
        return LatticePrior(self.spectrum, hyper, lattice, rows.n_trend)

    def _search(
        self, rows: LatticeRows, start: Hyperparameters, tolerance: float,
        grown: Callable[[LatticePrior], None] | None = None, least: LogEvidence | None = None,
    ) -> LatticeSearch:  # fmt: skip
        prior = self.prior(rows, start)
        sums = rows.sums(prior.lattice)
        multiplier = prior.lattice.multiplier(sums.waves)
        error, converged = 0.0, False
        probes = self._probes(prior)
        secant = None
        for step in range(MOST_STEPS):
            system = prior.system(sums, rows.n_outputs, multiplier)
            found = information_step(prior, system, self.shared, probes)
            error = float(found.spread.max())
            found = found.with_prior(*self._departure(prior.hyperparameters, rows.box))
            if secant is not None:
                found = found.with_secant(secant[0], secant[1] - found.gradient)
            free = self._free(prior, rows.box, found.gradient)
            if least is not None:
                self._check_hope(system, found, free, least)
            change = found.newton(free, MOST_CHANGE)
            rise = float(found.gradient @ change)
            self._say(step, prior, rise)
            if rise < tolerance:
                converged = True
                break
            hyper = self._moved(prior.hyperparameters, change, rows.box)
            secant = change, found.gradient
            prior = replace(prior, hyperparameters=hyper)
            wanted = self.prior(rows, hyper)
            if _outgrown(prior.lattice, wanted.lattice):
                if grown is not None:
                    grown(wanted)
                prior, sums = wanted, rows.sums(wanted.lattice)
                multiplier = prior.lattice.multiplier(sums.waves)
                probes = self._probes(prior)
        system = prior.system(sums, rows.n_outputs, multiplier)
        return LatticeSearch(prior, system, step + 1, converged, error)

    def evidence(self, system: LatticeSystem) -> LogEvidence:
        """Log evidence of the hyperparameters of a system."""
        mean = system.solve(system.right_hand_side, mean_tolerance(system))
        rng = np.random.default_rng([self.seed, 3])
        return LogEvidence(*log_evidence(system, mean, N_PROBES, rng))

    def _check_hope(
        self, system: LatticeSystem, found: InformationStep, free: FloatArray, least: LogEvidence
    ) -> None:
        """Refuse hyperparameters from which no likely rise leads to the evidence of another kernel.

        The rise of a whole step is twice that of a parabola; `RISES` of them are allowed for.
        """
        own = self.evidence(system)
        rise = max(float(found.gradient @ found.newton(free, np.inf)), 0.0)
        error = float(np.hypot(own.error, least.error))
        if own.value + RISES * rise + EVIDENCE_ERRORS * error < least.value:
            raise HopelessError(
                f"{self.spectrum}: log evidence {own.value:.0f} ± {own.error:.0f} nats with "
                f"{rise:.0f} to gain, below {least.value:.0f} of another kernel"
            )

    def _departure(self, hyper: Hyperparameters, box: PlaceBox) -> tuple[FloatArray, FloatArray]:
        """Departures of (log v, log l, log s) from the prior's means, and its precisions."""
        lengths = np.log(hyper.lengthscale / (PRIOR_SHARE * scales_of(box)))
        if self.shared:
            lengths = lengths.mean(keepdims=True)
        gaps = np.concatenate([[np.log(hyper.outputscale)], lengths, [0.0]])
        precisions = np.full(len(gaps), PRIOR_SD**-2)
        precisions[-1] = 0.0
        return gaps, precisions

    def _probes(self, prior: LatticePrior) -> FloatArray:
        rng = np.random.default_rng([self.seed, 1])
        size = (N_PROBES, prior.lattice.n_waves + prior.n_trend)
        return np.ascontiguousarray(rng.choice([-1.0, 1.0], size=size).T)

    def _free(self, prior: LatticePrior, box: PlaceBox, gradient: FloatArray) -> FloatArray:
        """Which of (log v, log l, log s) move: not known ones, or ones pushed beyond a limit."""
        hyper = prior.hyperparameters
        free = np.ones(len(gradient), dtype=bool)
        scale = _shared(hyper.lengthscale / scales_of(box), self.shared)
        free[1:-1] = (scale < LONGEST) | (gradient[1:-1] < 0)
        free[0] = hyper.outputscale > LEAST_SCALE or gradient[0] > 0
        free[-1] = self.known_noise is None and (hyper.noise > LEAST_NOISE or gradient[-1] > 0)
        return free

    def _moved(self, hyper: Hyperparameters, change: FloatArray, box: PlaceBox) -> Hyperparameters:
        most = LONGEST * scales_of(box)
        moved = hyper.lengthscale * np.exp(np.broadcast_to(change[1:-1], hyper.lengthscale.shape))
        shrink = float(np.min(most / np.maximum(moved, most))) if self.shared else 1.0
        noise = hyper.noise * float(np.exp(change[-1]))
        return Hyperparameters(
            np.minimum(moved * shrink, most),
            float(np.clip(hyper.outputscale * np.exp(change[0]), LEAST_SCALE, GREATEST_SCALE)),
            hyper.noise if self.known_noise is not None else max(noise, LEAST_NOISE),
        )

    def _say(self, step: int, prior: LatticePrior, rise: float) -> None:
        hyper = prior.hyperparameters
        tell(
            f"{self.spectrum}, step {step + 1}: {prior.lattice.n_waves} waves, lengthscale "
            f"{np.array2string(hyper.lengthscale, precision=3)}, outputscale "
            f"{hyper.outputscale:.3g}, noise {hyper.noise:.3g}, {rise:.2g} nats to gain"
        )

    def _start(self, rows: RowsInMemory) -> Hyperparameters:
        """Least squares of a variogram of few rows: sill, nugget and lengthscale, all axes alike.

        Distances are in sides of the box where columns have a lengthscale each, otherwise in units
        of the longest side.
        """
        sides = scales_of(rows.box)
        scale = np.full(len(sides), sides.max()) if self.shared else sides
        where, values = variogram_bins(
            rows.places / scale, rows.targets, np.random.default_rng([self.seed, 2])
        )
        best = (np.inf, 0.1, 1.0, 0.1)
        for length in STARTS:
            design = np.column_stack(
                [1 - self.spectrum.kernel(where / length), np.ones(len(where))]
            )
            (sill, nugget), residual = nnls(design, values)
            if residual < best[0]:
                best = (residual, float(length), float(sill), float(nugget))
        _, length, sill, nugget = best
        whole = max(sill + nugget, 1e-3)
        noise = self.known_noise
        if noise is None:
            # Near pairs differ by noise and some of f: a nugget of zero is none to start from.
            noise = float(np.clip(nugget, NUGGET_SHARE * max(values.min(), 1e-3 * whole), whole))
        return Hyperparameters(scale * length, max(sill, 0.05 * whole), noise)


def variogram_bins(
    points: FloatArray, targets: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """A variogram of few rows: distances (b,), and half the mean squared gaps (b,) of targets.

    Bins have equal numbers of pairs; pairs of a row and its nearest rows have bins of their own.

    Parameters
    ----------
    points
        Rows (n, d) in units of distance.
    targets
        Targets (n, k); squared gaps are means over them.
    rng
        Source of the rows.
    """
    chosen = rng.permutation(len(points))[:VARIOGRAM_ROWS]
    parts = [(pdist(points[chosen]), pdist(targets[chosen], "sqeuclidean") / targets.shape[1])]
    neighbours = min(VARIOGRAM_NEIGHBOURS, len(points) - 1)
    if neighbours:
        near, places = cKDTree(points).query(points[chosen], neighbours + 1)
        gaps = targets[places[:, 1:]] - targets[chosen][:, None]
        parts.insert(0, (near[:, 1:].ravel(), np.square(gaps).mean(axis=2).ravel()))
    where, values = [], []
    for (distances, squares), n_bins in zip(parts, BINS, strict=False):
        for bin_ in np.array_split(np.argsort(distances), min(n_bins, len(distances))):
            where.append(distances[bin_].mean())
            values.append(0.5 * squares[bin_].mean())
    return np.array(where), np.array(values)


def scales_of(box: PlaceBox) -> FloatArray:
    """Sides (d,) of a box; of a column that is constant, the longest one, or one."""
    sides = box.sides
    longest = float(sides.max())
    return np.where(sides > 0, sides, longest if longest > 0 else 1.0)


def _shared(values: FloatArray, shared: bool) -> FloatArray:
    return values.max(keepdims=True) if shared else values


def _outgrown(own: Lattice, wanted: Lattice) -> bool:
    """Whether the period or the band of a lattice is too small for what is wanted."""
    band, needed = own.halves * own.steps, wanted.halves * wanted.steps
    narrow = (needed > (1 + SLACK) * band).any()
    # A shorter period repeats the kernel within the box.
    short = (own.steps > 1.02 * wanted.steps).any()
    wasteful = own.n_waves > 3 * wanted.n_waves
    return bool(narrow or short or wasteful)
