"""The usual day of values beside a process about it."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from coupledgp.gp.graph_time import GraphTimeGP
from coupledgp.gp.graph_time_prior import sites_of_points
from coupledgp.gp.protocol import GaussianProcess, Points
from coupledgp.inference.space_time.day_field import DayField
from coupledgp.inference.space_time.usual_day import UsualDay
from coupledgp.random import FloatArray, IntArray


class KnownMean:
    """The part m of `y = m + z`, with its variance; the fields are those of `UsualDayGP`."""

    inner: GaussianProcess
    usual: UsualDay | None
    past: FloatArray
    field: DayField | None

    @property
    def grid(self) -> GraphTimeGP:
        """The inner process on its grid of sensors and times."""
        assert isinstance(self.inner, GraphTimeGP)
        return self.inner

    @cached_property
    def _times(self) -> tuple[FloatArray, float]:
        """Times of the grid, and its step."""
        times = self.grid.rows.times
        return times, float(np.median(np.diff(times))) if times.size > 1 else 1.0

    def usual_at(self, sites: IntArray, times: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The usual day and its variance (a, b) at sites and times, units of y.

        The variance is that of sites without a sensor: what the usual day of sensors leaves open is
        in the variance of z, which is about means without the day itself.
        """
        shape = sites.size, times.size
        if self.usual is None or self.field is None:
            return np.zeros(shape), np.zeros(shape)
        of_sensors = self._of_sensors(times)
        sensors = self.field.sensors
        rows = np.minimum(np.searchsorted(sensors, sites), sensors.size - 1)
        there = sensors[rows] == sites
        mean, variance = np.empty(shape), np.zeros(shape)
        mean[there] = of_sensors[rows[there]]
        if not there.all():
            mean[~there], variance[~there] = self.field.at(sites[~there], of_sensors)
        return mean, variance

    def others_known(self) -> tuple[FloatArray, FloatArray]:
        """M and its variance (p, n) of each sensor from what is known of the other sensors."""
        rows = self.grid.rows
        if self.field is None:
            mean, variance = np.zeros((2, *rows.values.shape))
            return mean, variance
        sensors = self.field.sensors
        mean, variance = self.usual_at(rows.sensors, rows.times)
        places = np.minimum(np.searchsorted(sensors, rows.sensors), sensors.size - 1)
        there = sensors[places] == rows.sensors
        found = self.field.others(self._of_sensors(rows.times))
        mean[there], variance[there] = (part[places[there]] for part in found)
        return mean, variance

    def _of_sensors(self, times: FloatArray) -> FloatArray:
        """M (p, b) of the sensors of the usual day at times: the past, or by the usual day."""
        assert self.usual is not None
        grid = self.grid.rows.times
        places = np.minimum(np.searchsorted(grid, times), grid.size - 1)
        past = grid[places] == times
        out = np.empty((len(self.past), times.size))
        out[:, past] = self.past[:, places[past]]
        if not past.all():
            found = self.usual.means(times[~past]) - self.usual.levels[:, None]
            out[:, ~past] = found
        return out

    def _known_of(self, points: Points) -> tuple[FloatArray, FloatArray]:
        """M and its variance (n,) at points (n, 2)."""
        sites, rows = np.unique(sites_of_points(points), return_inverse=True)
        times, columns = np.unique(points[:, 1], return_inverse=True)
        mean, variance = self.usual_at(sites, times)
        return mean[rows, columns], variance[rows, columns]

    def inner_targets(self, points: Points, targets: FloatArray) -> FloatArray:
        """Observations z about the usual day."""
        return targets - self._known_of(points)[0][:, None]

    def _known_covariance(self, points: Points) -> FloatArray:
        """Covariance (n, n) of what is not known of m.

        That of the usual day is one deviation for all times of a site.
        """
        sites, rows = np.unique(sites_of_points(points), return_inverse=True)
        times, columns = np.unique(points[:, 1], return_inverse=True)
        roots = np.sqrt(self.usual_at(sites, times)[1][rows, columns])
        return np.asarray(np.outer(roots, roots) * (rows[:, None] == rows))

    def _drawn_known(
        self, points: Points, m: int, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray]:
        """M (n,) at points, and draws (n, m) of what is not known of it."""
        sites, rows = np.unique(sites_of_points(points), return_inverse=True)
        times, columns = np.unique(points[:, 1], return_inverse=True)
        mean, variance = (part[rows, columns] for part in self.usual_at(sites, times))
        errors = np.zeros((len(points), m))
        if variance.any():
            errors += np.sqrt(variance)[:, None] * rng.standard_normal((sites.size, m))[rows]
        return mean, errors
