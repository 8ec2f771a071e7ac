"""The usual day of sensors and their dynamics, each kept where it foretells better."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from scipy import sparse

from coupledgp.errors import InvalidInputError
from coupledgp.gp.graph_time import GraphTimeGP
from coupledgp.gp.graph_time_prior import SpaceTimeRows, units_of
from coupledgp.graphs.directions import next_sensors_of
from coupledgp.ground.progress import Progress
from coupledgp.inference.space_time.autoregression import LONGEST_LAG, neighbour_means
from coupledgp.inference.space_time.dynamics import SensorDynamics, fitted_dynamics
from coupledgp.inference.space_time.graph_sites import GraphSites
from coupledgp.inference.space_time.imputation import SpaceTimeData
from coupledgp.inference.space_time.learned_sites import under_kernel
from coupledgp.inference.space_time.sites import Sites
from coupledgp.inference.space_time.usual_day import (
    FittedDay,
    UsualDay,
    fitted_usual_day,
    steps_of_day,
    usual_day_of,
)
from coupledgp.inference.space_time.whittle import Whittle
from coupledgp.random import FloatArray, IntArray
from coupledgp.series import TimeAxis

Choice: TypeAlias = bool | Literal["auto"]
# Fewest steps and sensors for dynamics, and most sensors.
LEAST_STEPS, LEAST_SENSORS, MOST_SENSORS = 200, 4, 600
# Most missing cells of 12 steps, seconds that gaps may take by forecast, multiply-adds a second.
MOST_CELLS, MOST_SECONDS, RATE = 8000, 60.0, 1.5e10
# Neighbours by the kernel where the graph joins too few sensors, and the share that is too few.
N_NEIGHBOURS, LEAST_JOINED = 6, 0.5


@dataclass(frozen=True)
class DayOptions:
    """What a model may have beside the separable law.

    Attributes
    ----------
    usual_day, dynamics, spread : bool or "auto"
        A usual day, dynamics about it, and variances that move; `"auto"`: where they foretell
        better.
    holidays : tuple of int
        Days since 1970.
    seed : int
        Seed of pseudo-gaps.
    directions : csr_array (n_nodes, n_nodes) or None
        Moves from the node of a row to that of a column; None: the graph has no directions.
    """

    usual_day: Choice = "auto"
    dynamics: Choice = "auto"
    spread: Choice = "auto"
    holidays: tuple[int, ...] = ()
    seed: int = 0
    directions: sparse.csr_array | None = None


@dataclass(frozen=True, eq=False)
class FoundDay:
    """A usual day at the sensors and times of the data.

    Attributes
    ----------
    usual : UsualDay or None
    past : FloatArray (p, n)
        Deviations from the levels of the sensors; zero without a usual day.
    gain : float
        Part by which squared errors of days left out fall.
    reason : str
        Why there is one, or none.
    """

    usual: UsualDay | None
    past: FloatArray
    gain: float
    reason: str


def found_usual_day(rows: SpaceTimeRows, axis: TimeAxis, options: DayOptions) -> FoundDay:
    """The usual day of observations, if it is wanted and worth it.

    Raises
    ------
    InvalidInputError
        It is wanted by all means, and the data have no two whole days.
    """
    none = np.zeros(rows.values.shape)
    if options.usual_day is False:
        return FoundDay(None, none, 0.0, "usual_day=False")
    found = FittedDay(None)
    known = np.where(rows.observed, rows.values, 0.0)
    if steps_of_day(axis, rows.times) is not None:
        found = fitted_usual_day(axis, known, rows.observed, rows.times, options.holidays)
    if found.usual is None:
        if options.usual_day is True:
            raise InvalidInputError(
                "usual_day: expected two whole days of timestamps on a grid of which a day has a "
                f"whole number of steps, 8 or more, got {rows.times.size} times"
            )
        return FoundDay(None, none, 0.0, "no two whole days on a grid of timestamps")
    gain = f"squared errors of days left out fall by {found.gain:.1%}"
    if options.usual_day == "auto" and not found.is_worth_it:
        return FoundDay(None, none, found.gain, f"no usual day: {gain}")
    past = found.usual.means(rows.times) - found.usual.levels[:, None]
    return FoundDay(found.usual, past, found.gain, f"usual day: {gain}")


def refined(
    process: GraphTimeGP, day: FoundDay, options: DayOptions
) -> tuple[GraphTimeGP, FoundDay]:
    """The usual day of values whose gaps the process has filled, and the process about it.

    Without gaps it is that which was there. Hyperparameters are kept. Long gaps that are joined by
    straight lines tell less of the day.
    """
    rows, usual = process.rows, day.usual
    if usual is None or rows.observed.all():
        return process, day
    filled = filled_values(process) + day.past
    found = usual_day_of(usual.axis, filled, rows.times, options.holidays)
    if found is None:
        return process, day
    past = found.means(rows.times) - found.levels[:, None]
    values = rows.values + day.past - past
    units = units_of(process.sites, replace(rows, values=values), process.normalize)
    new = replace(process, rows=replace(rows, values=values), units=units)
    return new, replace(day, usual=found, past=past)


def filled_values(process: GraphTimeGP) -> FloatArray:
    """Observations (p, n) in units of y, gaps filled by their means."""
    offset, scale = float(process.units.offset[0]), float(process.units.scale[0])
    values = offset + scale * process.posterior.filled
    return np.asarray(np.where(process.rows.observed, process.rows.values, values))


@dataclass(frozen=True, eq=False)
class FoundDynamics:
    """Dynamics, or none.

    Attributes
    ----------
    dynamics : SensorDynamics or None
    errors : FloatArray (p, n) or None
        Errors one step ahead, left out.
    reason : str
        Why there are some, or none.
    """

    dynamics: SensorDynamics | None
    errors: FloatArray | None
    reason: str


def found_dynamics(
    process: GraphTimeGP,
    start: FloatArray,
    past: FloatArray,
    options: DayOptions,
    report: Progress,
    kept: SensorDynamics | None = None,
) -> FoundDynamics:
    """The dynamics of values about the usual day, if they are wanted and foretell better.

    `start` are the values (p, n) about the usual day `past`, gaps filled. The ridge and the law in
    gaps of dynamics that are `kept` are not found anew, nor is it tested whether they foretell
    better.

    Raises
    ------
    InvalidInputError
        They are wanted by all means, and the data do not allow them.
    """
    if options.dynamics is False:
        return FoundDynamics(None, None, "dynamics=False")
    obstacle = obstacle_of(process)
    if obstacle:
        if options.dynamics is True:
            raise InvalidInputError(f"dynamics: expected data that allow them, {obstacle}")
        return FoundDynamics(None, None, f"no dynamics: {obstacle}")
    rows = process.rows
    sites = under_kernel(process.sites)
    dynamics, errors, along = fitted_dynamics(
        rows.sensors, start, rows.observed, past, neighbours_of(sites, rows.sensors),
        kernel_correlations(sites, rows.sensors), options.spread is not False, options.seed, report,
        kept, ways_of(options.directions, rows.sensors),
    )  # fmt: skip
    if kept is not None:
        return FoundDynamics(dynamics, errors, "dynamics: their ridge is kept")
    plain = separable_density(process)
    words = (
        f"log density of a value one step ahead {dynamics.density:.3f} nats, "
        f"{plain:.3f} under the separable law"
    )
    if along:
        words += f"; {along}"
    if options.dynamics == "auto" and not (dynamics.density > plain and dynamics.is_stable):
        more = "" if dynamics.is_stable else ", and disturbances would not die out"
        return FoundDynamics(None, None, f"no dynamics: {words}{more}")
    return FoundDynamics(dynamics, errors, f"dynamics: {words}")


def obstacle_of(process: GraphTimeGP) -> str:
    """Why the data of a process do not allow dynamics; empty where they do."""
    rows = process.rows
    p, n = rows.values.shape
    if not SpaceTimeData(rows.values, rows.observed, rows.times).is_regular:
        return "times are on no regular grid"
    if not LEAST_SENSORS <= p <= MOST_SENSORS:
        return f"{p} sensors, where {LEAST_SENSORS} to {MOST_SENSORS} are needed"
    if n < max(LEAST_STEPS, p):
        return f"{n} steps, where {max(LEAST_STEPS, p)} are needed"
    if rows.extra is not None:
        return "observations have noise of their own"
    unknown = (~rows.observed).sum(axis=0)
    edges = np.arange(n % LONGEST_LAG, n, LONGEST_LAG)
    cells = np.add.reduceat(unknown, np.unique(np.concatenate([[0], edges])))
    if cells.max() > MOST_CELLS:
        return f"{cells.max()} missing cells in {LONGEST_LAG} steps, more than {MOST_CELLS}"
    seconds = 3.0 * float((cells.astype(np.float64) ** 3).sum()) / RATE
    if seconds > MOST_SECONDS:
        return f"{int(cells.sum())} missing cells would take {seconds:.0f} s by forecast"
    return ""


def separable_density(process: GraphTimeGP) -> float:
    """Mean log density of a value under the separable law, nats, in units of y.

    It is the evidence of complete data, gaps filled: the sum of log densities one step ahead.
    """
    rows, parameters = process.rows, process.parameters
    gram = process.sites.gram(rows.sensors)
    filled = process.posterior.filled[None]
    step = float(np.median(np.diff(rows.times)))
    whittle = Whittle(filled, step, lambda _: gram, parameters)
    value = -whittle.value(parameters) / rows.values.size - 0.5 * float(np.log(2 * np.pi))
    return value - float(np.log(process.units.scale[0]))


def kernel_correlations(sites: Sites, sensors: IntArray) -> FloatArray:
    """Correlations (p, p) of the sensors under the kernel of sites."""
    gram = np.asarray(sites.gram(sensors))
    roots = np.sqrt(np.maximum(gram.diagonal(), 1e-300))
    found = gram / np.outer(roots, roots)
    np.fill_diagonal(found, 1.0)
    return np.asarray(found)


def neighbours_of(sites: Sites, sensors: IntArray) -> FloatArray:
    """Weights (p, p) of neighbours: by edges between sensors, or by the kernel if these are few."""
    if isinstance(sites, GraphSites):
        adjacency = sites.graph.adjacency[sensors][:, sensors].toarray()
        np.fill_diagonal(adjacency, 0.0)
        if (adjacency.sum(axis=1) > 0).mean() >= LEAST_JOINED:
            return neighbour_means(adjacency)
    weights = np.abs(kernel_correlations(sites, sensors))
    np.fill_diagonal(weights, 0.0)
    if len(weights) > N_NEIGHBOURS:
        least = -np.partition(-weights, N_NEIGHBOURS - 1, axis=1)[
            :, N_NEIGHBOURS - 1 : N_NEIGHBOURS
        ]
        weights = np.where(weights >= least, weights, 0.0)
    return neighbour_means(weights)


def ways_of(directions: sparse.csr_array | None, sensors: IntArray) -> FloatArray | None:
    """Weights (2, p, p) of the next sensors upstream and downstream; None without directions."""
    if directions is None:
        return None
    ways = (sparse.csr_array(directions.T), directions)
    return np.stack([neighbour_means(next_sensors_of(counts, sensors)) for counts in ways])


def days_of(holidays: Any) -> tuple[int, ...]:
    """Days since 1970 of dates: texts by ISO 8601, `datetime.date`, `datetime64`.

    Raises
    ------
    InvalidInputError
        An entry is no date.
    """
    if holidays is None:
        return ()
    given = (
        [holidays] if isinstance(holidays, str) or not hasattr(holidays, "__iter__") else holidays
    )
    try:
        dates = [np.datetime64(day, "D") for day in given]
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"holidays: expected dates such as 2024-12-25, {error}") from None
    if any(np.isnat(day) for day in dates):
        raise InvalidInputError("holidays: expected dates such as 2024-12-25, got a missing one")
    return tuple(sorted({int(day.astype(np.int64)) for day in dates}))
