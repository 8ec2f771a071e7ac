"""Predictions of a field that need no fit of its own: what a person would use instead.

| name | prediction at a place |
|---|---|
| mean | mean of all observations |
| nearest | observations at the nearest sensor, straight or, on networks, along the network |
| harmonic | the solution of `S f = 0` that equals the observations at the sensors |
| position GP | scikit-learn's `GaussianProcessRegressor` of the positions (surfaces) |

Standard deviations of nearest and harmonic are the errors of the same predictions of sensors that
are left out. Left-out predictions leave out all observations of a group together.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.core.left_out import rows_of_groups
from coupledgp.core.problem import RowWeights
from coupledgp.diagnostics.rivals.harmonic import HarmonicDomain, HarmonicRival, linked
from coupledgp.diagnostics.rivals.nearest import Finder, RowFinder, WayFinder
from coupledgp.diagnostics.rivals.observations import BaselinePrediction, Observations
from coupledgp.diagnostics.rivals.rival import Baseline, Baselines, Maker
from coupledgp.errors import InvalidInputError
from coupledgp.fields.locations import Locations, canonical, location_positions, location_rows
from coupledgp.fields.operator import LaplaceOperator
from coupledgp.random import FloatArray, IntArray

# Observations, drawn at random, from which its hyperparameters are found, and restarts of that.
SEARCHED, RESTARTS = 300, 4
# Variance of the harmonic baseline's noise, in units of 1 / (median diagonal entry of S): without
# it, more sensors in an element than it has corners would contradict each other.
NUGGET = 1e-6
# Largest number of observations of which the position GP is fitted: it is cubic in them.
MAX_POSITIONS = 2000


def baseline_predictions(
    operator: LaplaceOperator, sensors: Any, y: ArrayLike, queries: Any
) -> list[BaselinePrediction]:
    """Predict at places from observations at others, by every baseline that applies.

    Parameters
    ----------
    operator
        The surface or network.
    sensors
        Places of the observations: `Locations`, or their points (n, 2 (dimension + 1)).
    y
        Observations (n,).
    queries
        Places (p) of the predictions, as `sensors`.

    Returns
    -------
    list of BaselinePrediction
        The mean, the nearest, the harmonic and, on surfaces with at most 2000 sensors, the
        position GP. Where a component of the operator has no sensor, nearest (on networks) and
        harmonic predict the mean. Standard deviations of nearest and harmonic are the errors of
        the same predictions of sensors that are left out; None where all are at one place.

    Raises
    ------
    InvalidInputError
        Places or observations have a wrong shape, or are not finite.

    Examples
    --------
    >>> import coupledgp as cgp
    >>> from coupledgp.diagnostics import baseline_predictions
    >>> road = cgp.LaplaceOperator.from_edges([0, 1, 2], [1, 2, 3], lengths=[1.0, 2.0, 1.0])
    >>> sensors = road.at_vertices([0, 3])
    >>> found = baseline_predictions(road, sensors, [1.0, 5.0], road.at_vertices([1]))
    >>> {one.name: round(one.mean[0].item(), 3) for one in found}
    {'mean': 3.0, 'nearest': 1.0, 'harmonic': 2.0}
    """
    rivals = _given(operator, sensors, y)
    return rivals.predict(rows_of(operator, queries, "queries")).first_outputs()


def leave_one_out_baselines(
    operator: LaplaceOperator, sensors: Any, y: ArrayLike
) -> list[BaselinePrediction]:
    """Predict every observation from those at all other places.

    The mean, the harmonic (of at most 1000 places; of more a tenth is left out together) and the
    position GP come from closed forms; the position GP keeps the hyperparameters of all
    observations.

    Parameters
    ----------
    operator, sensors, y
        As for `baseline_predictions`.

    Returns
    -------
    list of BaselinePrediction
        Predictions (n,) at the sensors, as by `baseline_predictions`.

    Raises
    ------
    InvalidInputError
        As for `baseline_predictions`, or all observations are at one place.

    Examples
    --------
    >>> import coupledgp as cgp
    >>> from coupledgp.diagnostics import leave_one_out_baselines
    >>> road = cgp.LaplaceOperator.from_edges([0, 1, 2], [1, 2, 3], lengths=[1.0, 2.0, 1.0])
    >>> sensors = road.at_vertices([0, 1, 3])
    >>> found = leave_one_out_baselines(road, sensors, [1.0, 2.0, 5.0])
    >>> {one.name: one.mean.round(3).tolist() for one in found}
    {'mean': [3.5, 3.0, 1.5], 'nearest': [2.0, 1.0, 2.0], 'harmonic': [2.0, 2.0, 2.0]}
    """
    rivals = _given(operator, sensors, y)
    if len(rivals.places) < 2:
        raise InvalidInputError("sensors: expected observations at two places at least, got one")
    return rivals.left_out(rivals.observations.site).first_outputs()


def _given(operator: LaplaceOperator, sensors: Any, y: ArrayLike) -> FieldRivals:
    """Baselines given observations (n,), which are checked."""
    rows = rows_of(operator, sensors, "sensors")
    values = np.asarray(y, dtype=np.float64)
    if values.shape != (len(rows),) or not np.isfinite(values).all():
        raise InvalidInputError(
            f"y: expected {len(rows)} finite observations, got shape {values.shape}"
        )
    return FieldRivals.of(operator, rows, values[:, None])


def rows_of(operator: LaplaceOperator, points: Any, name: str) -> FloatArray:
    """Canonical rows (p, 2 (dimension + 1)) of places of an operator, checked."""
    rows = points.points if isinstance(points, Locations) else np.asarray(points, dtype=np.float64)
    width = 2 * (operator.dimension + 1)
    if rows.ndim != 2 or rows.shape[1] != width or not len(rows) or not np.isfinite(rows).all():
        raise InvalidInputError(
            f"{name}: expected finite rows of {width} numbers, places of this operator, got shape "
            f"{rows.shape}"
        )
    return canonical(rows)


@dataclass(frozen=True, eq=False)
class FieldRivals(Baselines):
    """Baselines of a field on a surface or network.

    Attributes
    ----------
    operator : LaplaceOperator
    places : FloatArray (g, 2 (dimension + 1))
        Distinct places, the sites of the observations.
    observations : Observations
    """

    operator: LaplaceOperator
    places: FloatArray
    observations: Observations

    @classmethod
    def of(
        cls,
        operator: LaplaceOperator,
        rows: FloatArray,
        y: FloatArray,
        weights: RowWeights | None = None,
    ) -> FieldRivals:
        """Baselines given observations (n, k) at canonical places (n, 2 (dimension + 1))."""
        places, site = np.unique(rows, axis=0, return_inverse=True)
        return cls(operator, places, Observations.of(y, site.reshape(-1), weights))

    def makers(self) -> dict[str, Maker]:
        found: dict[str, Maker] = {
            "nearest": self._by_nearest_place,
            "harmonic": self._by_harmonic,
        }
        if self.operator.dimension > 1:
            found["position GP"] = self._by_position
        return found

    def _by_nearest_place(self) -> Baseline:
        return self.by_nearest(
            self._finder, lambda places: nearest_places(self.operator, self.places, places)
        )

    def _by_harmonic(self) -> Baseline:
        found, n_vertices = self._harmonic, self.operator.n_vertices
        return Baseline(
            lambda places: found.predict(location_rows(places, n_vertices)), found.left_out
        )

    def _by_position(self) -> Baseline | str:
        n = len(self.observations)
        if n < 2 or n > MAX_POSITIONS:
            return f"expected from 2 to {MAX_POSITIONS} observations, got {n}"
        gp = self._position_gp
        return Baseline(lambda places: gp.predict(self._scaled(places)), gp.left_out)

    @cached_property
    def _finder(self) -> Finder:
        """Distances between the places: straight, or along the network."""
        if self.operator.dimension == 1:
            links = linked(self.operator, self.places)
            return WayFinder(links.graph, links.vertices)
        return RowFinder(self._positions(self.places))

    @cached_property
    def _harmonic(self) -> HarmonicRival:
        operator = self.operator
        diagonal = operator.stiffness.diagonal()
        stiff = float(np.median(diagonal[diagonal > 0])) / NUGGET
        domain = HarmonicDomain(
            operator.stiffness, np.full(operator.n_vertices, stiff), operator.positions, True
        )
        sites = location_rows(self.places, operator.n_vertices)
        return HarmonicRival(domain, self.observations, sites)

    @cached_property
    def _position_gp(self) -> PositionGP:
        site = self.observations.site
        return PositionGP(self._scaled(self.places)[site], self.observations.y)

    def _scaled(self, places: FloatArray) -> FloatArray:
        """Positions of places (p, ...) about the middle, in units of the extent."""
        vertices = self.operator.positions
        assert vertices is not None
        return scaling(vertices, self.operator.extent or 1.0)(self._positions(places))

    def _positions(self, places: FloatArray) -> FloatArray:
        assert self.operator.positions is not None
        return location_positions(places, self.operator.positions)


def nearest_places(operator: LaplaceOperator, sensors: FloatArray, queries: FloatArray) -> IntArray:
    """Number (p,) of the sensor (g, ...) nearest to each query (p, ...), straight or by network.

    -1 where no sensor is in the query's part of a network.
    """
    if operator.dimension == 1:
        links = linked(operator, np.concatenate([sensors, queries]))
        own, others = np.split(links.vertices, [len(sensors)])
        return WayFinder(links.graph, own).nearest_to(others).number
    assert operator.positions is not None
    ends = (location_positions(places, operator.positions) for places in (sensors, queries))
    rows, wanted = ends
    return RowFinder(rows).nearest_to(wanted).number


class PositionGP:
    """`sqrt(v) Matern-5/2` of positions with noise, one process for each output.

    Parameters
    ----------
    positions
        Positions (n, d) of the observations, about zero and of about unit extent.
    y
        Observations (n, k).
    """

    def __init__(self, positions: FloatArray, y: FloatArray) -> None:
        self.positions, self.y = positions, y
        self.models = [_fitted(positions, column) for column in y.T]

    def predict(self, positions: FloatArray) -> BaselinePrediction:
        """Predictions (p, k) at positions (p, d), and standard deviations of observations."""
        laws = [model.predict(positions, return_std=True) for model in self.models]
        mean, std = (np.column_stack(columns) for columns in zip(*laws, strict=True))
        return BaselinePrediction("position GP", mean, std)

    def left_out(self, groups: IntArray) -> BaselinePrediction:
        """Predictions (n, k) of observations from those of other groups (n,), in closed form.

        Hyperparameters, mean and scale are those of all observations.
        """
        members = rows_of_groups(groups)
        mean, std = np.empty_like(self.y), np.empty_like(self.y)
        for k, model in enumerate(self.models):
            column = self.y[:, k]
            inverse = np.linalg.inv(model.kernel_(self.positions))
            pulls = inverse @ (column - column.mean())
            for rows in members:
                covariance = np.linalg.inv(inverse[np.ix_(rows, rows)])
                mean[rows, k] = column[rows] - covariance @ pulls[rows]
                std[rows, k] = _scale(column) * np.sqrt(covariance.diagonal())
        return BaselinePrediction("position GP", mean, std)


def scaling(vertices: FloatArray, extent: float) -> Callable[[FloatArray], FloatArray]:
    """The map of positions (p, d) to those about the mean of the vertices, in units of extent."""
    centre = vertices.mean(axis=0)
    return lambda positions: (positions - centre) / extent


def _fitted(inputs: FloatArray, y: FloatArray) -> Any:
    """A process of inputs (n, d) and y (n,), its hyperparameters found from some of them."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    kernel = ConstantKernel(1.0, (1e-3, 1e4)) * Matern(0.3, (1e-2, 1e1), nu=2.5) + WhiteKernel(
        1e-2, (1e-6, 1e1)
    )
    chosen = np.random.default_rng(0).permutation(y.size)[:SEARCHED]
    search = GaussianProcessRegressor(
        kernel, normalize_y=True, n_restarts_optimizer=RESTARTS, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        search.fit(inputs[chosen], y[chosen])
    model = GaussianProcessRegressor(search.kernel_, normalize_y=True, optimizer=None)
    return model.fit(inputs, y)


def _scale(y: FloatArray) -> float:
    """Standard deviation that scikit-learn divides y by."""
    return float(np.std(y)) or 1.0
