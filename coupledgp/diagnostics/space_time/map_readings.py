"""Values of the sensors of a fitted model as cells of a map."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from coupledgp.core.target_maps import mapped_back
from coupledgp.diagnostics.space_time.record import (
    FORECAST,
    GAP,
    OBSERVED,
    SensorSeries,
)
from coupledgp.ground.validation import check_choice
from coupledgp.random import FloatArray, IntArray
from coupledgp.time.axis import TimeAxis

if TYPE_CHECKING:
    from coupledgp.diagnostics.pages.picture import Picture


@dataclass(frozen=True, eq=False)
class MapReadings:
    """Values of the sensors of a fitted model.

    Attributes
    ----------
    sites : IntArray (p,)
        Rising numbers of the sensors' sites.
    labels : list
        Labels of the sensors.
    axis : TimeAxis
        The n times.
    values : FloatArray (p, n)
        NaN where there is none.
    """

    sites: IntArray
    labels: list[Any]
    axis: TimeAxis
    values: FloatArray

    @classmethod
    def of(cls, model: Any) -> MapReadings:
        """The values of a fitted `GraphTimeGPRegressor`, those that were added later included."""
        process, every = model.grid_process_, model.grid()
        label_of = dict(zip(every.sites.tolist(), every.labels, strict=True))
        sensors = process.law_.sensors
        labels = [label_of[site] for site in sensors.tolist()]
        values = np.array(process.values)
        if model.transform_ is not None:
            values = mapped_back(model.transform_, values)
        return cls(sensors, labels, replace(model.panel_.axis, values=process.times), values)

    def at(self, times: FloatArray) -> tuple[FloatArray, IntArray]:
        """Values and codes of cells (p, k) at times (k,) of the axis or after it."""
        own = self.axis.values
        columns = nearest(own, times)
        ahead = times > own[-1]
        values = np.where(ahead, np.nan, self.values[:, columns])
        kinds = np.where(np.isnan(values), GAP, OBSERVED)
        kinds[:, ahead] = FORECAST
        return values, kinds


def sensor_series(model: Any, sensor: Any = None) -> Picture:
    """The law of a sensor of a fitted `GraphTimeGPRegressor` with its values; None: the first one.

    Raises
    ------
    InvalidInputError
        There is no such sensor.
    """
    from coupledgp.diagnostics.space_time.series import series_picture

    readings = MapReadings.of(model)
    names = [str(one) for one in readings.labels]
    name = names[0] if sensor is None else str(sensor)
    k = names.index(check_choice(name, names, "X"))
    times = readings.axis.values
    mean, std = model.law_on_grid(readings.sites[[k]], times)
    values, kinds = readings.at(times)
    one = SensorSeries(k, times, mean[0], std[0], values[k], kinds[k])
    return series_picture(one, readings.axis, model.panel_.name or "", f"Sensor {name}")


def nearest(rising: FloatArray, wanted: FloatArray) -> IntArray:
    """Number of the nearest of rising values (n,) to each that is wanted (k,)."""
    after = np.clip(np.searchsorted(rising, wanted), 1, max(rising.size - 1, 1))
    after = np.minimum(after, rising.size - 1)
    before = np.maximum(after - 1, 0)
    return np.where(wanted - rising[before] <= rising[after] - wanted, before, after)
