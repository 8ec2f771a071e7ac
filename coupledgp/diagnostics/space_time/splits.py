"""What is hidden from a model and predicted: sensors, blocks of time, cells, the last times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import wrong
from coupledgp.random import FloatArray, IntArray, Seed, as_rng
from coupledgp.time.axis import has_unit, seconds

BoolArray = NDArray[np.bool_]
DAY = 86_400.0
# Kinds of hidden readings that a plan makes.
SCATTERED, GAP, SENSOR, FORECAST = "scattered", "gap", "hidden sensor", "forecast"
# Hours of a gap and of a forecast where times are timestamps, and shares of the span elsewhere.
GAP_SECONDS, HORIZON_SECONDS = 6 * 3600.0, 3600.0
GAP_SHARE, HORIZON_SHARE = 0.05, 0.01


@dataclass(frozen=True, eq=False)
class SpaceTimeSplit:
    """Readings that are hidden from a model, each of one kind.

    Attributes
    ----------
    hidden : BoolArray (p, n)
        Readings that the model is not given.
    kinds : tuple of str
        Names of the kinds.
    kind : IntArray (p, n)
        Number of the kind of each hidden reading that is scored; -1 elsewhere.
    ahead : IntArray (n,)
        Steps ahead of the last time that the model is given: 0, and 1, 2, ... in a forecast.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import SpaceTimeSplit
    >>> last = np.zeros((3, 10), dtype=bool)
    >>> last[:, 8:] = True  # a forecast of two steps
    >>> split = SpaceTimeSplit.of_masks({"forecast": last})
    >>> split.ahead.tolist()
    [0, 0, 0, 0, 0, 0, 0, 0, 1, 2]
    """

    hidden: BoolArray = field(repr=False)
    kinds: tuple[str, ...]
    kind: IntArray = field(repr=False)
    ahead: IntArray = field(repr=False)

    @classmethod
    def of_masks(cls, masks: Mapping[str, ArrayLike]) -> SpaceTimeSplit:
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
        hidden = kind >= 0
        return cls(hidden, tuple(arrays), kind, steps_ahead(hidden))

    def of_kind(self, name: str) -> BoolArray:
        """Where readings of a kind are hidden (p, n)."""
        if name not in self.kinds:
            return np.zeros(self.hidden.shape, dtype=np.bool_)
        mask: BoolArray = self.kind == self.kinds.index(name)
        return mask

    def check(self, readings: SensorReadings) -> None:
        """Refuse readings of another shape, and a split that hides nothing or everything.

        Raises
        ------
        InvalidInputError
        """
        if self.hidden.shape != readings.values.shape:
            raise wrong("splits", f"masks of shape {readings.values.shape}", self.hidden.shape)
        left = (readings.seen & ~self.hidden).sum()
        if not (readings.seen & (self.kind >= 0)).any() or not left:
            raise InvalidInputError(
                "splits: expected some readings that are hidden and some that are left, got "
                f"{left} of {readings.seen.sum()} left"
            )


def steps_ahead(hidden: BoolArray) -> IntArray:
    """Numbers 1, 2, ... of the last times at which every sensor is hidden, else 0; (n,)."""
    given = np.flatnonzero(~hidden.all(axis=0))
    last = int(given[-1]) if given.size else hidden.shape[1] - 1
    return np.maximum(np.arange(hidden.shape[1]) - last, 0)


@dataclass(frozen=True)
class SplitPlan:
    """How readings are hidden: sensors, single cells, one gap in some sensors, and the last times.

    All is hidden together. Hidden sensors and sensors with a gap are drawn without replacement,
    gaps begin at a time drawn uniformly, cells are drawn one by one. The last times of hidden
    sensors are hidden, too, and not scored.

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
        Length of the forecast, as for gaps. None: an hour where times are
        timestamps over a day at least and steps are shorter, else a hundredth of the span; one
        step at least.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> from coupledgp.diagnostics import SensorReadings, SplitPlan
    >>> t = np.arange(48.0)
    >>> ring = cgp.Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 0])
    >>> values = np.sin(t / 4) + np.arange(4)[:, None]
    >>> readings = SensorReadings(values, t, np.arange(4), ring)
    >>> split = SplitPlan(sensors=0.25, cells=0.0, gap=0, horizon=6).draw(readings)
    >>> {kind: int(split.of_kind(kind).sum()) for kind in split.kinds}
    {'scattered': 0, 'gap': 0, 'forecast': 18, 'hidden sensor': 42}
    """

    sensors: float = 0.1
    cells: float = 0.05
    gap: Any = None
    gap_sensors: float = 0.5
    horizon: Any = None

    def __post_init__(self) -> None:
        for name in ("sensors", "cells", "gap_sensors"):
            share = getattr(self, name)
            if not 0 <= share <= 1:
                raise wrong(name, "a share from 0 to 1", share)
        for name in ("gap", "horizon"):
            value = getattr(self, name)
            if value is not None and not has_unit(value):
                check_at_least_zero(value, name)

    def draw(self, readings: SensorReadings, random_state: Seed = 0) -> SpaceTimeSplit:
        """Draw a split of readings; the same seed gives the same one."""
        rng = as_rng(random_state)
        p, n = readings.values.shape
        ahead = np.arange(n) >= n - self._horizon_steps(readings)
        order = rng.permutation(p)
        n_out = min(max(round(self.sensors * p), int(self.sensors > 0)), p - 1)
        out, rest = order[:n_out], order[n_out:]
        cells = rng.random((p, n)) < self.cells
        gaps = self._gaps(readings, rest, int(ahead.sum()), rng)
        sensors = np.zeros((p, n), dtype=np.bool_)
        sensors[out] = True
        split = SpaceTimeSplit.of_masks(
            {
                SCATTERED: cells,
                GAP: gaps,
                FORECAST: np.broadcast_to(ahead, (p, n)),
                SENSOR: sensors & ~ahead,
            }
        )
        return _scored_once(split, sensors & ahead)

    def _gaps(
        self, readings: SensorReadings, sensors: IntArray, n_ahead: int, rng: np.random.Generator
    ) -> BoolArray:
        """One gap in some of the sensors, before the forecast."""
        mask = np.zeros(readings.values.shape, dtype=np.bool_)
        times = readings.times[: readings.times.size - n_ahead]
        length = self._gap_length(readings)
        chosen = sensors[rng.permutation(sensors.size)[: round(self.gap_sensors * sensors.size)]]
        if not length or not chosen.size or not times.size:
            return mask
        latest = max(times[-1] + readings.step - length, times[0])
        starts = rng.uniform(times[0], latest, chosen.size)
        inside = _within(times, starts, length)
        mask[chosen, : times.size] = inside
        return mask

    def _gap_length(self, readings: SensorReadings) -> float:
        if self.gap is not None:
            return _length(self.gap, "gap", readings)
        return GAP_SECONDS if _is_days(readings) else GAP_SHARE * readings.span

    def _horizon_steps(self, readings: SensorReadings) -> int:
        """Number of the last times that are forecast, half of all at most."""
        if self.horizon is not None:
            length = _length(self.horizon, "horizon", readings)
        else:
            hour = _is_days(readings) and readings.step < HORIZON_SECONDS
            length = HORIZON_SECONDS if hour else HORIZON_SHARE * readings.span
        if not length:
            return 0
        later = readings.times > readings.times[-1] + 1e-6 * readings.step - length
        return min(max(int(later.sum()), 1), readings.times.size // 2)


def _is_days(readings: SensorReadings) -> bool:
    """Whether times are timestamps, in seconds, over a day at least."""
    return readings.seconds_of_day is not None and readings.span >= 4 * GAP_SECONDS


def check_at_least_zero(value: Any, name: str) -> float:
    """Return a finite number that is not negative."""
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
        return check_at_least_zero(value, name)
    if readings.seconds_of_day is None:
        raise wrong(name, "a number, as times are numbers", value)
    return seconds(value, name)


def _within(times: FloatArray, starts: FloatArray, length: float) -> BoolArray:
    """Whether times (n,) lie in intervals that begin at `starts` (k,), shape (k, n)."""
    inside: BoolArray = (times >= starts[:, None]) & (times < starts[:, None] + length)
    return inside


def _scored_once(split: SpaceTimeSplit, unscored: BoolArray) -> SpaceTimeSplit:
    """The split with some hidden readings that are of no kind."""
    kind = np.where(unscored, -1, split.kind)
    return SpaceTimeSplit(split.hidden | unscored, split.kinds, kind, split.ahead)


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
    seconds_of_day : FloatArray (n,) or None
        Local time of day; None where times are numbers.
    labels : sequence
        Names (p,) of the sensors as the user gave them.
    stamps : Any
        The n times as the user gave them, which a model is fitted to.
    days : IntArray (n,) or None
        Days since 1970 on local clocks; None where times are numbers or nothing is known of it.

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
    seconds_of_day: FloatArray | None = None
    labels: Sequence[Any] = ()
    stamps: Any = None
    days: IntArray | None = None

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

    def without(self, hidden: BoolArray) -> SensorReadings:
        """The same readings with further gaps where `hidden` (p, n) says so."""
        return replace(self, values=np.where(hidden, np.nan, self.values))
