"""Readings of sensors over time, and what is hidden of them: sensors, cells, gaps, forecasts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import check_positive_int, wrong
from coupledgp.random import FloatArray, IntArray, Seed, as_rng
from coupledgp.time.axis import TimeAxis, has_unit, seconds
from coupledgp.time.panel import as_panel
from coupledgp.time.sites import SiteLabels, as_domain

BoolArray = NDArray[np.bool_]
DAY = 86_400.0
# Kinds of hidden readings that a plan makes, as sentences end with them.
SCATTERED, GAP, SENSOR = "at single readings", "in gaps", "at hidden sensors"
# Hours of a gap and of a forecast where times are timestamps, and shares of the span elsewhere.
GAP_SECONDS, HORIZON_SECONDS = 6 * 3600.0, 3600.0
GAP_SHARE, HORIZON_SHARE = 0.05, 0.01
# Working hours of working days, in which forecasts begin, and the share of the times among the last
# ones, or else the largest share, from which their origins are taken.
WORKING, LATE, LATEST = (7, 18), 0.2, 0.5


@dataclass(frozen=True, eq=False)
class SensorReadings:
    """Values of p sensors at n times, and where the sensors stand.

    Attributes
    ----------
    values : FloatArray (p, n)
        Readings; NaN is a gap.
    times : FloatArray (n,)
        Rising times, in any unit.
    sites : IntArray (p,)
        Numbers of the sensors' nodes in the graph or the operator.
    domain : Graph or LaplaceOperator
    labels : sequence
        Names (p,) of the sensors as the user gave them.
    stamps : Any
        The n times as the user gave them, which a model is fitted to.
    axis : TimeAxis or None
        Their axis, which knows clocks and days; None where times are numbers.
    unit : str

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> from coupledgp.diagnostics import SensorReadings
    >>> ring = cgp.Graph.from_edges([0, 1, 2], [1, 2, 0])
    >>> values = np.array([[1.0, 2.0, np.nan], [4.0, 5.0, 6.0]])
    >>> readings = SensorReadings(values, np.array([0.0, 1.0, 2.0]), np.array([0, 2]), ring)
    >>> int(readings.seen.sum()), readings.step, readings.span
    (5, 1.0, 3.0)
    """

    values: FloatArray
    times: FloatArray
    sites: IntArray
    domain: Any = field(repr=False)
    labels: Sequence[Any] = ()
    stamps: Any = None
    axis: TimeAxis | None = None
    unit: str = ""

    def __post_init__(self) -> None:
        shape = self.values.shape
        if len(shape) != 2 or shape != (self.sites.size, self.times.size):
            raise InvalidInputError(
                f"values: expected shape ({self.sites.size}, {self.times.size}), one row a sensor "
                f"and one column a time, got {shape}"
            )
        if np.isinf(self.values).any():
            raise InvalidInputError("values: expected numbers or NaN, got inf")
        if not (np.isfinite(self.times).all() and (np.diff(self.times) > 0).all()):
            raise InvalidInputError("times: expected finite numbers that rise")

    @classmethod
    def of(cls, model: Any, data: Any, times: Any = None, values: Any = None) -> SensorReadings:
        """Readings in any form that the model is fitted to.

        Raises
        ------
        InvalidInputError
            The model has no graph, or the data are invalid.
        """
        if isinstance(data, SensorReadings):
            return data
        graph = getattr(model, "graph", None)
        if graph is None:
            raise wrong("model", "an estimator on a graph", type(model))
        missing = getattr(model, "missing_values", None)
        panel, domain = as_panel(data, times, values, missing_values=missing), as_domain(graph)
        axis = panel.axis
        return cls(
            np.asarray(panel.values, dtype=np.float64), axis.values,
            SiteLabels(domain).numbers(panel.nodes), domain, panel.nodes,
            axis.labels(axis.values), axis, panel.name or "",
        )  # fmt: skip

    @property
    def names(self) -> NDArray[Any]:
        """Names (p,) of the sensors as texts."""
        given = self.labels if len(self.labels) else self.sites.tolist()
        return np.array([str(one) for one in given])

    @cached_property
    def seen(self) -> BoolArray:
        """Where there is a reading (p, n)."""
        return np.isfinite(self.values)

    @cached_property
    def step(self) -> float:
        """Median distance of neighbouring times; one for a single time."""
        return float(np.median(np.diff(self.times))) if self.times.size > 1 else 1.0

    @cached_property
    def span(self) -> float:
        """Distance of the last time from the first, and one step."""
        return float(self.times[-1] - self.times[0]) + self.step

    @cached_property
    def seconds_of_day(self) -> FloatArray | None:
        """Local time of day (n,); None where times are numbers."""
        return None if self.axis is None else self.axis.seconds_of_day(self.times)

    @cached_property
    def days(self) -> IntArray | None:
        """Days since 1970 on local clocks (n,); None where times are numbers."""
        if self.axis is None or self.axis.origin is None:
            return None
        return self.axis.days(self.times)

    def without(self, hidden: BoolArray) -> SensorReadings:
        """The same readings with further gaps where `hidden` (p, n) says so."""
        return replace(self, values=np.where(hidden, np.nan, self.values))

    def until(self, origin: int, n_steps: int) -> SensorReadings:
        """The readings up to a time, by its number, and no later ones at some steps ahead of it."""
        n = origin + 1 + n_steps
        stamps = None if self.stamps is None else self.stamps[:n]
        values = self.values[:, :n].copy()
        values[:, origin + 1 :] = np.nan
        return replace(self, values=values, times=self.times[:n], stamps=stamps)

    def duration(self, n_steps: int) -> str:
        """A number of steps in words: `15 minutes`."""
        amount = n_steps * self.step
        if self.seconds_of_day is None:
            unit = "step" if n_steps == 1 else "steps"
            return f"{n_steps} {unit}"
        for size, unit in ((DAY, "day"), (3600.0, "hour"), (60.0, "minute"), (1.0, "second")):
            whole = amount / size
            if whole >= 1 and abs(whole - round(whole)) < 1e-6 and (size < 3600 or whole >= 2):
                return f"{round(whole)} {unit}{'' if round(whole) == 1 else 's'}"
        return f"{amount:.3g} seconds"


@dataclass(frozen=True, eq=False)
class SpaceTimeSplit:
    """Readings that are hidden from a model, each of one kind, and origins of forecasts.

    A model is fitted to what is left up to the first origin. From each origin on, all sensors that
    are not hidden altogether are forecast, given their readings up to it.

    Attributes
    ----------
    kinds : tuple of str
        Names of the kinds, as sentences end with them: `"in gaps"`.
    kind : IntArray (p, n)
        Number of the kind of each hidden reading, -1 for those that are left.
    origins : IntArray (o,)
        Numbers of the last times that forecasts are given, rising; empty: none.
    horizon : int
        Steps of the forecasts.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import SpaceTimeSplit
    >>> gap = np.zeros((3, 10), dtype=bool)
    >>> gap[1, 2:5] = True
    >>> split = SpaceTimeSplit.of_masks({"in gaps": gap}, origins=[6, 8], horizon=1)
    >>> int(split.hidden.sum())  # the gap, and all after the first origin
    12
    """

    kinds: tuple[str, ...]
    kind: IntArray = field(repr=False)
    origins: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    horizon: int = 0

    @classmethod
    def of_masks(
        cls, masks: Mapping[str, ArrayLike], origins: ArrayLike = (), horizon: int = 0
    ) -> SpaceTimeSplit:
        """A split of masks (p, n) by the names of their kinds; a reading is of the last one.

        Raises
        ------
        InvalidInputError
            There is no mask, or masks differ in shape or are not boolean.
        """
        arrays = {name: np.asarray(mask) for name, mask in masks.items()}
        shapes = {array.shape for array in arrays.values()}
        if len(shapes) != 1 or any(a.dtype != bool or a.ndim != 2 for a in arrays.values()):
            raise InvalidInputError(
                "masks: expected boolean arrays of one shape (sensors, times) by the names of "
                f"their kinds, got shapes {sorted(shapes)}"
            )
        kind = np.full(shapes.pop(), -1, dtype=np.int64)
        for number, mask in enumerate(arrays.values()):
            kind[mask] = number
        starts = np.sort(np.asarray(origins, dtype=np.int64).reshape(-1))
        if starts.size:
            kind[:, starts[0] + 1 :] = -1  # forecasts alone are scored there
        return cls(tuple(arrays), kind, starts, horizon if starts.size else 0)

    @cached_property
    def hidden(self) -> BoolArray:
        """Readings (p, n) that a model is not fitted to."""
        found: BoolArray = self.kind >= 0
        if self.origins.size:
            found = found.copy()
            found[:, self.origins[0] + 1 :] = True
        return found

    @cached_property
    def is_out(self) -> BoolArray:
        """Sensors (p,) of which no reading is left."""
        return np.asarray(self.hidden.all(axis=1))

    def check(self, readings: SensorReadings) -> None:
        """Refuse readings of another shape, and a split that hides nothing or everything.

        Raises
        ------
        InvalidInputError
        """
        if self.kind.shape != readings.values.shape:
            raise wrong("splits", f"masks of shape {readings.values.shape}", self.kind.shape)
        left = (readings.seen & ~self.hidden).sum()
        if left == readings.seen.sum() or not left:
            raise InvalidInputError(
                "splits: expected some readings that are hidden and some that are left, got "
                f"{left} of {readings.seen.sum()} left"
            )


@dataclass(frozen=True)
class SplitPlan:
    """How readings are hidden: sensors, single cells, one gap in some sensors, and forecasts.

    All is hidden together. Hidden sensors and sensors with a gap are drawn without replacement,
    gaps begin at a time drawn uniformly before the first forecast, cells are drawn one by one.
    Forecasts begin in working hours of the last fifth of the times, of half of them if these are
    too few, and do not overlap.

    Attributes
    ----------
    sensors : float
        Share of the sensors that are hidden altogether; at least one of them unless it is zero.
    cells : float
        Share of the single readings of the others.
    gap : number, text such as `"6h"`, or None
        Length of the gaps in units of time, 0 for none; texts and time deltas where times are
        timestamps. None: six hours where times are timestamps over a day at least, else a
        twentieth of the span.
    gap_sensors : float
        Share of the other sensors that have a gap.
    horizon : number, text such as `"1h"`, or None
        Length of the forecasts, as for gaps. None: an hour where times are timestamps over a day at
        least and steps are shorter, else a hundredth of the span; one step at least.
    origins : int
        Number of forecasts; fewer where the times do not hold them. 0: none.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> from coupledgp.diagnostics import SensorReadings, SplitPlan
    >>> t = np.arange(48.0)
    >>> ring = cgp.Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 0])
    >>> values = np.sin(t / 4) + np.arange(4)[:, None]
    >>> readings = SensorReadings(values, t, np.arange(4), ring)
    >>> split = SplitPlan(sensors=0.25, cells=0.0, gap=0, horizon=2).draw(readings)
    >>> split.origins.size, split.horizon, int(split.is_out.sum())
    (10, 2, 1)
    """

    sensors: float = 0.1
    cells: float = 0.05
    gap: Any = None
    gap_sensors: float = 0.5
    horizon: Any = None
    origins: int = 10

    def __post_init__(self) -> None:
        for name in ("sensors", "cells", "gap_sensors"):
            share = getattr(self, name)
            if not 0 <= share <= 1:
                raise wrong(name, "a share from 0 to 1", share)
        for name in ("gap", "horizon"):
            value = getattr(self, name)
            if value is not None and not has_unit(value):
                _at_least_zero(value, name)
        check_positive_int(self.origins, "origins", minimum=0)

    def draw(self, readings: SensorReadings, random_state: Seed = 0) -> SpaceTimeSplit:
        """Draw a split of readings; the same seed gives the same one."""
        rng = as_rng(random_state)
        p, n = readings.values.shape
        horizon = self._horizon(readings) if self.origins else 0
        origins = _origins(readings, self.origins, horizon) if horizon else np.empty(0, np.int64)
        last = int(origins[0]) if origins.size else n - 1
        order = rng.permutation(p)
        n_out = min(max(round(self.sensors * p), int(self.sensors > 0)), p - 1)
        out, rest = order[:n_out], order[n_out:]
        cells = rng.random((p, n)) < self.cells
        gaps = self._gaps(readings, rest, last, rng)
        sensors = np.zeros((p, n), dtype=np.bool_)
        sensors[out] = True
        masks = {SCATTERED: cells, GAP: gaps, SENSOR: sensors}
        return SpaceTimeSplit.of_masks(masks, origins, horizon)

    def _gaps(
        self, readings: SensorReadings, sensors: IntArray, last: int, rng: np.random.Generator
    ) -> BoolArray:
        """One gap in some of the sensors, up to a time by its number."""
        mask = np.zeros(readings.values.shape, dtype=np.bool_)
        times = readings.times[: last + 1]
        if self.gap is not None:
            length = _length(self.gap, "gap", readings)
        else:
            length = GAP_SECONDS if _is_days(readings) else GAP_SHARE * readings.span
        chosen = sensors[rng.permutation(sensors.size)[: round(self.gap_sensors * sensors.size)]]
        if not length or not chosen.size:
            return mask
        latest = max(times[-1] + readings.step - length, times[0])
        starts = rng.uniform(times[0], latest, chosen.size)
        inside = (times >= starts[:, None]) & (times < starts[:, None] + length)
        mask[chosen, : times.size] = inside
        return mask

    def _horizon(self, readings: SensorReadings) -> int:
        """Number of the steps of a forecast, half of all at most."""
        if self.horizon is not None:
            length = _length(self.horizon, "horizon", readings)
        else:
            hour = _is_days(readings) and readings.step < HORIZON_SECONDS
            length = HORIZON_SECONDS if hour else HORIZON_SHARE * readings.span
        if not length:
            return 0
        steps = int(np.floor(length / readings.step + 1e-6))
        return min(max(steps, 1), readings.times.size // 2)


def _origins(readings: SensorReadings, most: int, horizon: int) -> IntArray:
    """Numbers of times at which forecasts begin, a horizon apart at least, rising."""
    n = readings.times.size
    found = np.empty(0, np.int64)
    for working in (True, False):
        for share in (LATE, LATEST):
            first = max(int((1 - share) * n), 1)
            times = np.arange(first, n - horizon)
            if working:
                times = times[_in_working_hours(readings)[times]]
            tried = _apart(times, most, horizon)
            if tried.size > found.size:
                found = tried
            if found.size >= most:
                return found
    return found


def _apart(times: IntArray, most: int, gap: int) -> IntArray:
    """At most so many rising numbers, evenly chosen, a gap apart at least."""
    if not times.size:
        return times
    chosen = [int(times[0])]
    for one in times[1:].tolist():
        if one >= chosen[-1] + gap:
            chosen.append(one)
    places = np.linspace(0, len(chosen) - 1, min(most, len(chosen))).round().astype(np.int64)
    return np.array(chosen, dtype=np.int64)[np.unique(places)]


def _in_working_hours(readings: SensorReadings) -> BoolArray:
    """Times (n,) in working hours of working days; all where times are numbers."""
    clock, days = readings.seconds_of_day, readings.days
    if clock is None or readings.step >= DAY:
        return np.ones(readings.times.size, dtype=np.bool_)
    found = (clock >= WORKING[0] * 3600) & (clock < WORKING[1] * 3600)
    # The first of January 1970 was a Thursday.
    return found if days is None else found & ((days + 3) % 7 < 5)


def _is_days(readings: SensorReadings) -> bool:
    """Whether times are timestamps, in seconds, over a day at least."""
    return readings.seconds_of_day is not None and readings.span >= 4 * GAP_SECONDS


def _at_least_zero(value: Any, name: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not (np.isfinite(number) and number >= 0):
        raise wrong(name, "a number >= 0 or a duration such as '6h'", value)
    return number


def _length(value: Any, name: str, readings: SensorReadings) -> float:
    """A length in units of the readings' times."""
    if not has_unit(value):
        return _at_least_zero(value, name)
    if readings.seconds_of_day is None:
        raise wrong(name, "a number, as times are numbers", value)
    return seconds(value, name)
