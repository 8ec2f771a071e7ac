"""Fit of a space-time process: its terms, the search, and outliers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coupledgp.gp.graph_time import GraphTimeGP, SpaceTimeSettings
from coupledgp.gp.graph_time_prior import SpaceTimeRows, informative_sensors
from coupledgp.gp.units import Units
from coupledgp.ground.progress import Progress
from coupledgp.inference.space_time.basis import MOST_EIGENVECTORS
from coupledgp.inference.space_time.filters import Term
from coupledgp.inference.space_time.imputation import N_IMPUTATIONS, Imputer, SpaceTimeData
from coupledgp.inference.space_time.learned import learned_covariance
from coupledgp.inference.space_time.learned_sites import LearnedSites
from coupledgp.inference.space_time.sites import Sites
from coupledgp.inference.space_time.whittle import SpaceTimeParameters
from coupledgp.kernels.time import Constant, Matern12, Matern32, TimeKernel
from coupledgp.random import FloatArray, IntArray
from coupledgp.search.search import SearchResult
from coupledgp.search.space_time.rounds import ImputationRounds

# Shares of the variance of the data at which the search starts.
START_MOVING, START_USUAL, START_OWN, START_NOISE = 0.4, 0.2, 0.1, 0.1
# Steps in the lengthscale at which the search starts, and largest part of the series in it.
START_STEPS, START_PART = 12.0, 0.25
# Standardised residual left out beyond which a cell is an outlier.
OUTLYING = 4.0
# Rounds of rejection, and of weights.
REJECTIONS, REWEIGHTINGS = 4, 12
# Change of the weights that ends their rounds.
LEAST_CHANGE = 0.02
# Degrees of freedom of Student's law of the noise.
DEGREES = 4.0
# Most sensors and steps from which hyperparameters are found; on a large graph each sensor costs a
# product with all of it, so that there are fewer: sensors times sites, but the least number.
MOST_SENSORS, MOST_FITTED_STEPS = 400, 4096
# The same on an irregular axis, where an evaluation costs more.
MOST_IRREGULAR = 200, 1024
SENSORS_TIMES_SITES, LEAST_SENSORS = 1e7, 64


@dataclass(frozen=True, eq=False)
class SpaceTimeModel:
    """Terms of a space-time model, and the options of its search.

    Attributes
    ----------
    time_kernels : tuple of TimeKernel
        Candidates for the kernel of the part that moves; the one of greatest evidence is taken.
    node_effects : bool
        Whether sensors have terms of their own.
    noise : float or None
        Noise variance that is kept, in units of y squared; None: fitted.
    own_scales : bool
        Whether each sensor has a scale of its own for its noise and own terms.
    outliers : str or None
        `"reject"`, `"student-t"`, or None.
    seed : int
        Seed of imputations.
    learns_sensors : bool
        Whether the covariance of the sensors is learned, near that of the kernel.
    """

    time_kernels: tuple[TimeKernel, ...]
    node_effects: bool = True
    noise: float | None = None
    own_scales: bool = False
    outliers: str | None = None
    seed: int = 0
    learns_sensors: bool = False

    def starts(self, data: SpaceTimeData, theta: FloatArray, units: Units) -> list[
        SpaceTimeParameters
    ]:  # fmt: skip
        """Parameters at which the search starts: one for each candidate."""
        roots = np.ones(len(data.values))
        noise = START_NOISE
        if self.noise is not None:
            noise = self.noise / float(units.scale[0]) ** 2
        return [
            SpaceTimeParameters(theta, self._terms(kernel, data), noise, roots)
            for kernel in self.time_kernels
        ]

    def _terms(self, kernel: TimeKernel, data: SpaceTimeData) -> tuple[Term, ...]:
        span = float(np.ptp(data.times))
        start = min(START_STEPS * data.step, max(START_PART * span, data.step))
        moving = started(kernel, start)
        terms = [Term("graph", moving, START_MOVING)]
        if data.times.size > 1:
            terms.append(Term("graph", Constant(), START_USUAL))
        if self.node_effects:
            terms.append(Term("node", started(kernel, start), START_OWN))
            if data.times.size > 1:
                terms.append(Term("node", Constant(), START_OWN / 2))
        return tuple(terms)


def started(kernel: TimeKernel, lengthscale: float) -> TimeKernel:
    """A kernel at the lengthscale at which a search starts, where it was given by name."""
    if isinstance(kernel, (Matern12, Matern32)) and kernel.lengthscale == 1.0:
        return replace(kernel, lengthscale=lengthscale)
    return kernel


@dataclass(frozen=True, eq=False)
class Outliers:
    """Cells whose observation is far from its law given all other observations.

    Attributes
    ----------
    sensors, columns : IntArray (c,)
        Rows and columns of the cells.
    scores : FloatArray (c,)
        Standardised residuals of the cells, left out one by one.
    rejected : bool
        Whether the observations were left out.
    """

    sensors: IntArray
    columns: IntArray
    scores: FloatArray
    rejected: bool


@dataclass(frozen=True, eq=False)
class FittedSpaceTime:
    """A fitted process, its search, and outliers."""

    process: GraphTimeGP
    fit: SearchResult[SpaceTimeParameters]
    outliers: Outliers
    n_reweightings: int


def fit_space_time(
    sites: Sites,
    rows: SpaceTimeRows,
    units: Units,
    normalize: bool,
    model: SpaceTimeModel,
    settings: SpaceTimeSettings,
    report: Progress,
    kept: SpaceTimeParameters | None = None,
) -> FittedSpaceTime:
    """Find hyperparameters, condition on the observations, and look for outliers.

    Hyperparameters that are `kept` are not searched for; a covariance of the sensors is learned all
    the same.
    """
    if kept is None:
        fit = searched(sites, rows, units, model, report)
    else:
        fit = SearchResult(kept, float("nan"))
    if model.learns_sensors:
        sites, fit = learned(sites, rows, units, model, fit, report)
    process = _conditioned(sites, rows, units, normalize, settings, fit, report)
    scores = cell_scores(process)
    if model.outliers == "reject":
        return _rejected(process, sites, rows, units, normalize, model, settings, fit, report)
    n_reweightings = 0
    if model.outliers == "student-t":
        process, n_reweightings = reweighted(process, rows, report)
    return FittedSpaceTime(process, fit, _outliers(scores, False), n_reweightings)


def learned(
    sites: Sites,
    rows: SpaceTimeRows,
    units: Units,
    model: SpaceTimeModel,
    fit: SearchResult[SpaceTimeParameters],
    report: Progress,
) -> tuple[Sites, SearchResult[SpaceTimeParameters]]:
    """Sites with a learned covariance of the sensors, and the fit at these sites.

    The other hyperparameters do not change: found anew they would suit the fastest part that
    sensors share, and forecasts and hidden sensors would have worse laws. The arguments are
    returned if the steps are not alike, or if the kernel's covariance predicts one half of the
    times from the other as well.
    """
    data = rows.normalized(units)
    last = slice(max(data.times.size - MOST_FITTED_STEPS, 0), None)
    part = SpaceTimeData(data.values[:, last], data.observed[:, last], data.times[last])
    part = ending_with_values(part)
    if not part.is_regular or len(part.values) > MOST_EIGENVECTORS:
        return sites, fit
    report("covariance of the sensors")
    at = sites.with_theta(fit.point.theta)
    gram = at.gram(rows.sensors)
    imputer = Imputer(part, lambda _: gram, np.random.default_rng([model.seed, 3]))
    Z = imputer.drawn(fit.point, N_IMPUTATIONS)
    found = learned_covariance(Z, part.step, fit.point, gram)
    if found is None:
        return sites, fit
    own = LearnedSites(at, rows.sensors, found.covariance)
    return own, replace(fit, point=replace(fit.point, theta=own.theta))


def ending_with_values(data: SpaceTimeData) -> SpaceTimeData:
    """The data from the first time at which a sensor reports to the last one."""
    there = np.flatnonzero(data.seen)
    part = slice(int(there[0]), int(there[-1]) + 1)
    return SpaceTimeData(data.values[:, part], data.observed[:, part], data.times[part])


def searched(
    sites: Sites,
    rows: SpaceTimeRows,
    units: Units,
    model: SpaceTimeModel,
    report: Progress,
    starts: Sequence[SpaceTimeParameters] | None = None,
) -> SearchResult[SpaceTimeParameters]:
    """Hyperparameters of greatest evidence.

    They come from at most `MOST_SENSORS` informative sensors, fewer on large graphs, chosen by the
    seed, and the `MOST_FITTED_STEPS` last steps, or `MOST_IRREGULAR`; scales of other sensors are
    one.
    """
    data = rows.normalized(units)
    rng = np.random.default_rng([model.seed, 1])
    p = len(data.values)
    chosen = np.flatnonzero(informative_sensors(sites, rows))
    most, steps = MOST_SENSORS, MOST_FITTED_STEPS
    if not data.is_regular:
        most, steps = MOST_IRREGULAR
    most = int(np.clip(SENSORS_TIMES_SITES / sites.n_sites, LEAST_SENSORS, most))
    if chosen.size > most:
        chosen = np.sort(rng.choice(chosen, most, replace=False))
    last = slice(max(data.times.size - steps, 0), None)
    part = SpaceTimeData(data.values[chosen, last], data.observed[chosen, last], data.times[last])
    kept = part.observed.any(axis=1)
    part = SpaceTimeData(part.values[kept], part.observed[kept], part.times)
    sensors = rows.sensors[chosen][kept]

    def gram(theta: FloatArray) -> FloatArray:
        return np.asarray(sites.with_theta(theta).gram(sensors))

    rounds = ImputationRounds(
        part, gram, sites.bounds(), own_scales=model.own_scales,
        fixed_noise=model.noise is not None, seed=model.seed, report=report,
    )  # fmt: skip
    if starts is None:
        starts = [
            replace(start, theta=np.asarray(theta))
            for start in model.starts(part, sites.theta, units)
            for theta in sites.starts()
        ]
    else:
        starts = [replace(start, roots=start.roots[chosen][kept]) for start in starts]
    found = rounds.run(starts)
    roots = np.ones(p)
    roots[chosen[kept]] = found.point.roots
    return replace(found, point=replace(found.point, roots=roots))


def _conditioned(
    sites: Sites,
    rows: SpaceTimeRows,
    units: Units,
    normalize: bool,
    settings: SpaceTimeSettings,
    fit: SearchResult[SpaceTimeParameters],
    report: Progress,
) -> GraphTimeGP:
    at = sites.with_theta(fit.point.theta)
    return GraphTimeGP.given(at, fit.point, settings, units, normalize, rows, report)


def cell_scores(process: GraphTimeGP) -> FloatArray:
    """Standardised residuals (p, n) of observations, each given all others; NaN elsewhere.

    `alpha_it / sqrt((A^-1)_it,it)`, with the diagonal of complete data, which is at least that of
    the observed cells: scores near gaps are a little too small.
    """
    posterior = process.posterior
    diagonal = posterior.system.diagonal
    observed = process.rows.observed
    scores = posterior.alpha / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    return np.where(observed, scores, np.nan)


def _outliers(scores: FloatArray, rejected: bool) -> Outliers:
    with np.errstate(invalid="ignore"):
        far = np.abs(scores) > OUTLYING
    sensors, columns = np.nonzero(far)
    return Outliers(sensors, columns, scores[far], rejected)


def _rejected(
    process: GraphTimeGP,
    sites: Sites,
    rows: SpaceTimeRows,
    units: Units,
    normalize: bool,
    model: SpaceTimeModel,
    settings: SpaceTimeSettings,
    fit: SearchResult[SpaceTimeParameters],
    report: Progress,
) -> FittedSpaceTime:
    """Leave out outliers, find hyperparameters again, and test all cells anew, some times."""
    dropped = np.zeros(rows.values.shape, dtype=bool)
    scores = cell_scores(process)
    for _ in range(REJECTIONS):
        with np.errstate(invalid="ignore"):
            far = np.abs(scores) > OUTLYING
        far = rejectable_cells(rows.observed, far)
        if np.array_equal(far, dropped):
            break
        dropped = far
        rest = replace(rows, values=np.where(dropped, np.nan, rows.values))
        fit = searched(sites, rest, units, model, report, [fit.point])
        process = _conditioned(sites, rest, units, normalize, settings, fit, report)
        scores = tested_scores(process, rows)
    with np.errstate(invalid="ignore"):
        sensors, columns = np.nonzero(dropped)
        outliers = Outliers(sensors, columns, scores[dropped], True)
    return FittedSpaceTime(process, fit, outliers, 0)


def rejectable_cells(observed: NDArray[Any], far: NDArray[Any]) -> NDArray[Any]:
    """Cells (p, n) to leave out, except where a sensor would lose every observation."""
    alive = (observed & ~far).any(axis=1)
    return far & alive[:, None]


def tested_scores(process: GraphTimeGP, rows: SpaceTimeRows) -> FloatArray:
    """Scores (p, n) of all observations; rejected ones are given the observations in use."""
    scores = cell_scores(process)
    posterior = process.posterior
    out = rows.observed & ~process.rows.observed
    if out.any():
        values = rows.normalized(process.units).values
        noise = process.parameters.noise * process.parameters.roots**2
        spread = np.nan_to_num(posterior.gap_variances) + noise[:, None]
        residual = (values - posterior.filled) / np.sqrt(spread)
        scores = np.where(out, residual, scores)
    return scores


def reweighted(
    process: GraphTimeGP, rows: SpaceTimeRows, report: Progress
) -> tuple[GraphTimeGP, int]:
    """Weights of observations under Student's law of the noise, by expectation-maximisation.

    `w = (nu + 1) / (nu + E[e^2] / s)`, as extra noise `s / w - s` of cells of weight below one;
    hyperparameters are kept (Lange, Little and Taylor 1989).
    """
    weights = np.ones(rows.values.shape)
    count, change = 0, np.inf
    while count < REWEIGHTINGS and change >= LEAST_CHANGE:
        count += 1
        posterior, roots = process.posterior, process.parameters.roots
        noise = process.parameters.noise * roots[:, None] ** 2
        extra = 0.0 if process.rows.extra is None else process.rows.extra * process.parameters.noise
        error = posterior.alpha * (noise + extra)
        variance = posterior.system.basis.shares @ posterior.system.variances[1]
        square = error**2 + roots[:, None] ** 2 * variance
        new = np.minimum((DEGREES + 1.0) / (DEGREES + square / noise), 1.0)
        change = float(np.abs(new - weights)[rows.observed].max(initial=0.0))
        weights = new
        more = np.where(rows.observed, roots[:, None] ** 2 * (1.0 / weights - 1.0), 0.0)
        process = GraphTimeGP.given(
            process.sites, process.parameters, process.settings, process.units,
            process.normalize, replace(rows, extra=more), report,
        )  # fmt: skip
    return process, count
