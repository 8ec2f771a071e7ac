"""Observations of sensors over time as a grid."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from coupledgp.errors import InvalidInputError
from coupledgp.gp.graph_time_prior import SensorScales, sites_of_points
from coupledgp.gp.graph_time_state import GridCells
from coupledgp.gp.protocol import Data
from coupledgp.gp.units import Units
from coupledgp.ground.memory import check_memory
from coupledgp.inference.nodes.groups import informative_rows
from coupledgp.inference.space_time.imputation import SpaceTimeData
from coupledgp.inference.space_time.sites import Sites
from coupledgp.random import FloatArray, IntArray

# Grids of sensors and times that are alive at once while a process is conditioned.
GRIDS = 6
# Extra noise below this share of a sensor's own is none.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class SpaceTimeRows:
    """Observations as a grid.

    Attributes
    ----------
    sensors : IntArray (p,)
        Sites of the sensors, rising.
    times : FloatArray (n,)
        Rising times.
    values : FloatArray (p, n)
        Observations in units of y; NaN where there is none.
    extra : FloatArray (p, n) or None
        Variance of extra noise of observations over the noise of a sensor of scale one.
    """

    sensors: IntArray
    times: FloatArray
    values: FloatArray
    extra: FloatArray | None = None

    @cached_property
    def observed(self) -> NDArray[np.bool_]:
        """Which cells (p, n) were observed."""
        return ~np.isnan(self.values)

    @cached_property
    def cells(self) -> GridCells:
        """Numbers of the observed cells, and their values, without gaps."""
        cells = np.flatnonzero(self.observed)
        extra = None if self.extra is None else self.extra.reshape(-1)[cells]
        return GridCells(cells, self.values.reshape(-1)[cells], extra)

    def normalized(self, units: Units) -> SpaceTimeData:
        """Values (p, n) in normalised units, zero where nothing was observed."""
        filled = np.where(self.observed, self.values, units.offset[0])
        return SpaceTimeData((filled - units.offset[0]) / units.scale[0], self.observed, self.times)

    def last(self, n_steps: int | None) -> SpaceTimeRows:
        """The grid at its last `n_steps` times; all of it if None."""
        if n_steps is None or n_steps >= self.times.size:
            return self
        kept = slice(self.times.size - n_steps, None)
        extra = None if self.extra is None else self.extra[:, kept]
        return replace(self, times=self.times[kept], values=self.values[:, kept], extra=extra)

    @classmethod
    def of(cls, data: Data, scales: SensorScales, grid: FloatArray) -> SpaceTimeRows:
        """The grid of observations at points (n, 2), with the times of `grid` that lie between.

        Raises
        ------
        InvalidInputError
            A cell is observed twice, or an observation has less noise than its sensor.
        """
        sensors, rows = np.unique(sites_of_points(data.points), return_inverse=True)
        stamps = data.points[:, 1]
        inside = grid[(grid >= stamps.min()) & (grid <= stamps.max())]
        times = np.union1d(inside, stamps)
        columns = np.searchsorted(times, stamps)
        cells = rows * times.size + columns
        if np.unique(cells).size < cells.size:
            raise InvalidInputError("data: expected one observation of a site at a time, got two")
        values = np.full((sensors.size, times.size), np.nan)
        values[rows, columns] = data.targets[:, 0]
        relative = data.relative_noise
        if relative is None:
            return cls(sensors, times, values)
        more = relative - scales.at(sensors)[rows]
        if (more < -ROUNDING * relative).any():
            raise InvalidInputError(
                "data: expected relative noise of at least the sensor's own, got less"
            )
        extra = np.zeros(values.shape)
        extra[rows, columns] = np.where(more > ROUNDING * relative, more, 0.0)
        return cls(sensors, times, values, extra if extra.any() else None)


class StoredRows(SpaceTimeRows):
    """Observations of a file, in which gaps take no room: the grid is made when it is needed.

    Parameters
    ----------
    sensors, times
        See the base class.
    cells
        Observations.
    """

    def __init__(self, sensors: IntArray, times: FloatArray, cells: GridCells) -> None:
        vars(self).update(sensors=sensors, times=times, cells=cells)

    @cached_property
    def values(self) -> FloatArray:
        return self._grid(self.cells.values, np.nan)

    @cached_property
    def extra(self) -> FloatArray | None:
        return None if self.cells.extra is None else self._grid(self.cells.extra, 0.0)

    def _grid(self, values: FloatArray, rest: float) -> FloatArray:
        """Values of the cells as a grid (p, n), with another number in gaps."""
        shape = self.sensors.size, self.times.size
        check_memory(
            8.0 * GRIDS * shape[0] * shape[1],
            f"model: grids of {shape[0]} sensors and {shape[1]} times",
            "fit to fewer sensors or times, or to values of coarser times",
        )
        grid = np.full(shape, rest)
        grid.reshape(-1)[self.cells.numbers] = values
        return grid


def informative_sensors(sites: Sites, rows: SpaceTimeRows) -> NDArray[np.bool_]:
    """Sensors (p,) from which hyperparameters and units are found, see `informative_rows`."""
    return informative_rows(sites.components()[rows.sensors], rows.sensors)


def units_of(sites: Sites, rows: SpaceTimeRows, normalize: bool) -> Units:
    """Units of the values of informative sensors, or of all sensors if these have none."""
    usable = rows.observed & informative_sensors(sites, rows)[:, None]
    return Units.of(rows.values[usable if usable.any() else rows.observed][:, None], normalize)
