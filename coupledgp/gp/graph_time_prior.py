"""The prior of a function of sites and times, and its observations as a grid."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.gp.additive import AdditiveProblem
from coupledgp.gp.dense_prior import DensePrior
from coupledgp.gp.exact import ExactGP
from coupledgp.gp.protocol import Arrays, Data, Header, Points
from coupledgp.gp.schema import Entries, check_number, require_type
from coupledgp.gp.units import Units
from coupledgp.ground.memory import check_memory
from coupledgp.inference.nodes.groups import informative_rows
from coupledgp.inference.space_time.filters import Term
from coupledgp.inference.space_time.gaps import time_covariance
from coupledgp.inference.space_time.imputation import SpaceTimeData
from coupledgp.inference.space_time.sites import Sites
from coupledgp.kernels.time import time_kernel_from, time_kernel_state
from coupledgp.likelihoods.base import Likelihood, NoiseLaw
from coupledgp.likelihoods.gaussian import Gaussian
from coupledgp.random import FloatArray, IntArray

# Most terms of a file, and states of them.
MOST_TERMS, MOST_STATES = 64, 512
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


@dataclass(frozen=True)
class SpaceTimeHyperparameters:
    """Fitted hyperparameters, variances in normalised units.

    Attributes
    ----------
    terms : tuple of Term
        Terms of the function: where each lives, its time kernel and its variance.
    outputscale : float
        Sum of the variances of the terms.
    noise : float
        Variance of the noise of a sensor of scale one.
    """

    terms: tuple[Term, ...]
    noise: float

    @property
    def outputscale(self) -> float:
        """Sum of the variances of the terms."""
        return float(sum(term.variance for term in self.terms))


@dataclass(frozen=True, eq=False)
class SensorScales:
    """Relative variances of noise and own terms of sensors; one at all other sites.

    Attributes
    ----------
    sensors : IntArray (p,)
        Sites of sensors, rising.
    values : FloatArray (p,)
        Relative variances D.
    """

    sensors: IntArray
    values: FloatArray

    def at(self, sites: IntArray) -> FloatArray:
        """Relative variances (a,) at sites."""
        if not self.sensors.size:
            return np.ones(sites.size)
        places = np.minimum(np.searchsorted(self.sensors, sites), self.sensors.size - 1)
        return np.where(self.sensors[places] == sites, self.values[places], 1.0)


@dataclass(frozen=True, eq=False)
class SpaceTimePrior(DensePrior):
    """`f = sum_c f_c`, `cov f_c = v_c B_c(i, j) k_c(t - t')`, B_c a kernel of sites or own scales.

    Points are rows (site, time).

    Attributes
    ----------
    sites : Sites
        Covariances between sites.
    hyperparameters : SpaceTimeHyperparameters
        Terms and noise.
    scales : SensorScales
        Relative variances of noise and own terms of sensors.
    likelihood : NoiseLaw
        Law of observations given f, made of the noise variance.
    """

    sites: Sites
    hyperparameters: SpaceTimeHyperparameters
    scales: SensorScales
    likelihood: NoiseLaw = Gaussian

    @property
    def process_class(self) -> type[ExactGP]:
        return ExactGraphTimeGP

    def covariance(self, a: Points, b: Points) -> FloatArray:
        """Prior covariance (n, p) of f between rows a (n, 2) and b (p, 2) of site and time."""
        first, of_a = np.unique(sites_of_points(a), return_inverse=True)
        second, of_b = np.unique(sites_of_points(b), return_inverse=True)
        lags = a[:, 1][:, None] - b[:, 1]
        terms = self.hyperparameters.terms
        between = self.sites.cross(first, second)
        found = between[of_a[:, None], of_b] * time_covariance(terms, "graph", lags)
        same = first[of_a][:, None] == second[of_b]
        own = self.scales.at(first)[of_a][:, None] * time_covariance(terms, "node", lags)
        return np.asarray(found + np.where(same, own, 0.0))

    def variance(self, points: Points) -> FloatArray:
        sites, places = np.unique(sites_of_points(points), return_inverse=True)
        terms = self.hyperparameters.terms
        graph = sum(term.variance for term in terms if term.where == "graph")
        node = sum(term.variance for term in terms if term.where == "node")
        found = graph * self.sites.diagonal(sites) + node * self.scales.at(sites)
        return np.asarray(found[places])

    def problem(self, data: Data, units: Units) -> AdditiveProblem:
        return AdditiveProblem.of(self, data, units)


def sites_of_points(points: Points) -> IntArray:
    """Numbers (n,) of the sites of points (n, 2)."""
    return points[:, 0].astype(np.int64)


def noise_at(points: Points, noise: float, scales: SensorScales) -> Gaussian:
    """Noise of observations at points (n, 2), of each sensor by its own scale."""
    relative = scales.at(sites_of_points(points))[:, None]
    return Gaussian(noise * relative)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False, repr=False)
class ExactGraphTimeGP(ExactGP):
    """A function of sites and times given observations, by a Cholesky factor of their covariance.

    Points are rows (site, time).
    """

    @property
    def space_time_prior(self) -> SpaceTimePrior:
        """The prior of a function of sites and times."""
        prior = self.dense_prior
        assert isinstance(prior, SpaceTimePrior)
        return prior

    @property
    def hyperparameters(self) -> Any:
        return self.space_time_prior.hyperparameters

    def likelihood_at(self, points: Points) -> Likelihood:
        """Law of observations at points (p, 2) given f, with noise by the scale of each sensor."""
        return noise_at(points, self.noise.variance, self.space_time_prior.scales)

    def state(self) -> tuple[Header, Arrays]:
        """Refuse: the process that it is the twin of is stored instead."""
        raise InvalidInputError(
            "model: expected a process that is stored, got the exact twin of one; save the model "
            "and call exact() after it is loaded"
        )


class GridCells(NamedTuple):
    """Observed cells of a grid.

    Attributes
    ----------
    numbers : IntArray (m,)
        Rising numbers of the cells, sensor by sensor.
    values : FloatArray (m,)
        Observations in units of y.
    extra : FloatArray (m,) or None
        Variance of extra noise over the noise of a sensor of scale one.
    """

    numbers: IntArray
    values: FloatArray
    extra: FloatArray | None


def terms_state(terms: tuple[Term, ...]) -> list[dict[str, Any]]:
    """Terms as values of JSON."""
    return [
        {
            "where": term.where,
            "variance": float(term.variance),
            "kernel": time_kernel_state(term.kernel),
        }
        for term in terms
    ]


def terms_from(entries: Entries) -> tuple[Term, ...]:
    """The terms of `terms_state`."""
    state = require_type(entries.value("terms"), list, "terms")
    if not 0 < len(state) <= MOST_TERMS:
        raise ModelFileError(f"terms: expected 1 to {MOST_TERMS}, got {len(state)}")
    terms = tuple(_term_from(item) for item in state)
    count = sum(term.kernel.output.size for term in terms)
    if count > MOST_STATES:
        raise ModelFileError(f"terms: expected {MOST_STATES} states at most, got {count}")
    return terms


def _term_from(state: Any) -> Term:
    values = require_type(state, dict, "terms")
    kernel = require_type(values.get("kernel"), dict, "terms.kernel")
    variance = check_number(values.get("variance"), "terms.variance", low=0.0)
    try:
        return Term(values.get("where"), time_kernel_from(kernel), variance)
    except (TypeError, ValueError, InvalidInputError) as error:
        raise ModelFileError(f"terms: expected a term, {error}") from None


def grid_state(sensors: IntArray, times: FloatArray, cells: GridCells) -> Arrays:
    """Observations of a grid (p, n) as arrays."""
    arrays: Arrays = {"sensors": sensors, "times": times}
    arrays |= {"cells": cells.numbers, "y": cells.values}
    return arrays if cells.extra is None else arrays | {"extra": cells.extra}


def grid_from(entries: Entries) -> tuple[IntArray, FloatArray, GridCells]:
    """Sensors, times and cells of `grid_state`."""
    sensors = entries.integers("sensors", "p", low=0, high=2**62)
    times = entries.floats("times", "n")
    p, n = sensors.size, times.size
    cells = entries.integers("cells", "m", low=0, high=max(p * n - 1, 0))
    for name, numbers in (("sensors", sensors), ("times", times), ("cells", cells)):
        if not (numbers[1:] > numbers[:-1]).all():
            raise ModelFileError(f"{name}: expected rising numbers, got others")
    seen = np.zeros(p, dtype=bool)
    seen[cells // max(n, 1)] = True
    if not seen.size or not seen.all():
        raise ModelFileError("cells: expected some of each sensor, got none of one")
    extra = None
    if "extra" in entries.arrays:
        extra = entries.floats("extra", "m", low=0.0)
    return sensors, times, GridCells(cells, entries.floats("y", "m"), extra)
