"""Predictions of a field that need no fit of its own: what a person would use instead.

| name | prediction at a place |
|---|---|
| mean | mean of all observations |
| nearest | observations at the nearest sensor, straight or, on networks, along the network |
| harmonic | the solution of `S f = 0` that equals the observations at the sensors |
| position GP | scikit-learn's `GaussianProcessRegressor` of the positions (surfaces) |

Left-out predictions leave out all observations at a place together.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.spatial import cKDTree

from coupledgp.diagnostics.network_distances import nearest_on_network, nearest_other_on_network
from coupledgp.errors import InvalidInputError, NumericalError
from coupledgp.geometry.locations import (
    Locations,
    canonical,
    location_positions,
    location_rows,
)
from coupledgp.geometry.operator import LaplaceOperator
from coupledgp.inference.linalg.sparse_cholesky import SparseFactor, elimination_order
from coupledgp.random import FloatArray, IntArray

# Variance of the harmonic baseline's noise, in units of 1 / (median diagonal entry of S): without
# it, more sensors in an element than it has corners would contradict each other.
NUGGET = 1e-6
# Largest number of places of which the position GP is fitted: it is cubic in them.
MAX_POSITIONS = 2000
# Observations, drawn at random, from which its hyperparameters are found, and restarts of that.
SEARCHED, RESTARTS = 300, 4


@dataclass(frozen=True, eq=False)
class BaselinePrediction:
    """A baseline's predictions.

    Attributes
    ----------
    name : str
        `"mean"`, `"nearest"`, `"harmonic"` or `"position GP"`.
    mean : FloatArray (p,)
        Predictions, in units of y.
    std : FloatArray (p,) or None
        Standard deviations of observations; None for baselines that have no law.
    """

    name: str
    mean: FloatArray
    std: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class Sensors:
    """Observations by the distinct places at which they are.

    Attributes
    ----------
    operator : LaplaceOperator
    y : FloatArray (n,)
        Observations.
    places : FloatArray (g, 2 (dimension + 1))
        Distinct places.
    group : IntArray (n,)
        Number of the place of each observation.
    counts, means : FloatArray (g,)
        Number of the observations at each place, and their mean.
    """

    operator: LaplaceOperator
    y: FloatArray
    places: FloatArray
    group: IntArray
    counts: FloatArray
    means: FloatArray

    @classmethod
    def of(cls, operator: LaplaceOperator, points: Any, y: ArrayLike) -> Sensors:
        """Observations y (n,) at points (n, 2 (dimension + 1)) or `Locations`."""
        rows = _rows(operator, points, "sensors")
        values = np.asarray(y, dtype=np.float64)
        if values.shape != (len(rows),) or not np.isfinite(values).all():
            raise InvalidInputError(
                f"y: expected {len(rows)} finite observations, got shape {values.shape}"
            )
        places, group = np.unique(rows, axis=0, return_inverse=True)
        group = group.reshape(-1)
        counts = np.bincount(group).astype(np.float64)
        means = np.bincount(group, weights=values) / counts
        return cls(operator, values, places, group, counts, means)

    @property
    def positions(self) -> FloatArray:
        """Positions (g, d) of the places."""
        assert self.operator.positions is not None
        return location_positions(self.places, self.operator.positions)


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
        harmonic predict the mean.

    Raises
    ------
    InvalidInputError
        Places or observations have a wrong shape, or are not finite.
    """
    known = Sensors.of(operator, sensors, y)
    places = _rows(operator, queries, "queries")
    n = known.y.size
    spread = None
    if n > 1:
        spread = np.full(len(places), np.std(known.y, ddof=1) * np.sqrt(1 + 1 / n))
    found = [
        BaselinePrediction("mean", np.full(len(places), known.y.mean()), spread),
        BaselinePrediction("nearest", _nearest(known, places)),
    ]
    return found + _further(lambda: _harmonic(known, places), lambda: _position_gp(known, places))


def leave_one_out_baselines(
    operator: LaplaceOperator, sensors: Any, y: ArrayLike
) -> list[BaselinePrediction]:
    """Predict every observation from those at all other places.

    The mean, the harmonic and the position GP come from closed forms; the position GP keeps the
    hyperparameters of all observations.

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
    """
    known = Sensors.of(operator, sensors, y)
    if known.counts.size < 2:
        raise InvalidInputError("sensors: expected observations at two places at least, got one")
    found = [_mean_left_out(known)]
    found.append(BaselinePrediction("nearest", _nearest_other(known)[known.group]))
    return found + _further(lambda: _harmonic_left_out(known), lambda: _position_gp_left_out(known))


def _further(*makers: Callable[[], BaselinePrediction | None]) -> list[BaselinePrediction]:
    """Baselines that apply; a matrix that cannot be factorised leaves one out."""
    found = []
    for make in makers:
        try:
            made = make()
        except NumericalError:
            continue
        if made is not None:
            found.append(made)
    return found


def _rows(operator: LaplaceOperator, points: Any, name: str) -> FloatArray:
    rows = points.points if isinstance(points, Locations) else np.asarray(points, dtype=np.float64)
    width = 2 * (operator.dimension + 1)
    if rows.ndim != 2 or rows.shape[1] != width or not len(rows) or not np.isfinite(rows).all():
        raise InvalidInputError(
            f"{name}: expected finite rows of {width} numbers, places of this operator, got shape "
            f"{rows.shape}"
        )
    return canonical(rows)


def _mean_left_out(known: Sensors) -> BaselinePrediction:
    n, total = known.y.size, known.y.sum()
    others = n - known.counts
    sums = np.bincount(known.group, weights=known.y)
    mean = (total - sums) / others
    std = None
    if others.min() > 1:
        squares = np.bincount(known.group, weights=np.square(known.y - known.y.mean()))
        shift = mean - known.y.mean()
        variance = (squares.sum() - squares) / others - np.square(shift)
        std = np.sqrt(np.maximum(variance, 0) * others / (others - 1) * (1 + 1 / others))
        std = std[known.group]
    return BaselinePrediction("mean", mean[known.group], std)


def _nearest(known: Sensors, queries: FloatArray) -> FloatArray:
    operator = known.operator
    if operator.dimension == 1:
        nearest = nearest_on_network(operator, known.places, queries)
        return np.where(nearest >= 0, known.means[nearest], known.y.mean())
    assert operator.positions is not None
    places = location_positions(queries, operator.positions)
    _, nearest = cKDTree(known.positions).query(places)
    chosen: FloatArray = known.means[nearest]
    return chosen


def _nearest_other(known: Sensors) -> FloatArray:
    """Mean (g,) of the observations at the nearest other place."""
    if known.operator.dimension == 1:
        nearest = nearest_other_on_network(known.operator, known.places)
        others = (known.y.sum() - known.counts * known.means) / (known.y.size - known.counts)
        return np.where(nearest >= 0, known.means[nearest], others)
    positions = known.positions
    _, found = cKDTree(positions).query(positions, k=2)
    # Places of equal positions may find themselves second.
    own = np.arange(len(positions))
    chosen: FloatArray = known.means[np.where(found[:, 0] == own, found[:, 1], found[:, 0])]
    return chosen


def _nugget(operator: LaplaceOperator) -> float:
    diagonal = operator.stiffness.diagonal()
    return NUGGET / float(np.median(diagonal[diagonal > 0]))


def _harmonic(known: Sensors, queries: FloatArray) -> BaselinePrediction:
    """`(S + A' W A) f = A' W y` on the components with sensors, W = counts / nugget."""
    operator = known.operator
    rows = location_rows(known.places, operator.n_vertices)
    inside = _observed_vertices(operator, rows)
    used = rows[:, inside]
    springs = sparse.diags_array(known.counts / _nugget(operator))
    matrix = operator.stiffness[inside][:, inside] + used.T @ springs @ used
    centre = known.y.mean()
    field = np.full(operator.n_vertices, centre)
    pull = used.T @ (springs @ (known.means - centre))
    field[inside] += _factor(operator, matrix, inside).solve(pull)
    return BaselinePrediction("harmonic", location_rows(queries, operator.n_vertices) @ field)


def _harmonic_left_out(known: Sensors) -> BaselinePrediction:
    """`mean_i - (B y)_i / B_ii`, B the precision of the observations with a constant left free.

    Within a component one vertex is held at zero, which adds a constant to covariances of
    differences that B does not see.
    """
    operator = known.operator
    rows = location_rows(known.places, operator.n_vertices)
    n_components, member = operator.components()
    inside = _observed_vertices(operator, rows)
    component = member[known.places[:, 0].astype(np.int64)]
    _, first = np.unique(member[inside], return_index=True)
    free = np.delete(inside, first)
    factor = _factor(operator, operator.stiffness[free][:, free], free)
    used = rows[:, free]
    covariance = np.asarray(used @ factor.solve(used.T.toarray()))
    covariance += np.diag(_nugget(operator) / known.counts)
    n, total = known.y.size, known.y.sum()
    left_out = (total - known.counts * known.means) / (n - known.counts)
    for part in range(n_components):
        own = np.flatnonzero(component == part)
        if own.size > 1:
            left_out[own] = known.means[own] - _free_residuals(
                covariance[np.ix_(own, own)], known.means[own]
            )
    return BaselinePrediction("harmonic", left_out[known.group])


def _free_residuals(covariance: FloatArray, y: FloatArray) -> FloatArray:
    """Residuals (g,) of observations left out one by one, given a covariance and a free mean."""
    # Any constant may be added; the largest variance keeps the matrix positive definite.
    inverse = np.linalg.inv(covariance + covariance.diagonal().max())
    sums = inverse.sum(axis=1)
    precision = inverse - np.outer(sums, sums) / sums.sum()
    residuals: FloatArray = precision @ y / precision.diagonal()
    return residuals


def _observed_vertices(operator: LaplaceOperator, rows: sparse.csr_array) -> IntArray:
    """Vertices of the components that have sensors, ascending."""
    _, member = operator.components()
    seen = np.unique(member[rows.indices])
    return np.flatnonzero(np.isin(member, seen))


def _factor(operator: LaplaceOperator, matrix: Any, vertices: IntArray) -> SparseFactor:
    positions = None if operator.positions is None else operator.positions[vertices]
    return SparseFactor(matrix, elimination_order(matrix, positions))


def _position_gp(known: Sensors, queries: FloatArray) -> BaselinePrediction | None:
    if not _has_position_gp(known):
        return None
    scaled, model = _fitted_gp(known)
    assert known.operator.positions is not None
    places = location_positions(queries, known.operator.positions)
    mean, std = model.predict(scaled(places), return_std=True)
    return BaselinePrediction("position GP", mean, std)


def _position_gp_left_out(known: Sensors) -> BaselinePrediction | None:
    """Closed form with the hyperparameters, mean and scale of all observations.

    With C the covariance of the means at the places, noise over counts on its diagonal, the mean
    at place i left out is `mean_i - (C^-1 y)_i / (C^-1)_ii` and has variance `1 / (C^-1)_ii`.
    """
    if not _has_position_gp(known):
        return None
    scaled, model = _fitted_gp(known)
    noise = float(model.kernel_.k2.noise_level)
    covariance = model.kernel_.k1(scaled(known.positions)) + np.diag(noise / known.counts)
    inverse = np.linalg.inv(covariance)
    centre, scale = known.y.mean(), _scale(known.y)
    targets = (known.means - centre) / scale
    mean = targets - inverse @ targets / inverse.diagonal()
    variance = 1 / inverse.diagonal() - noise / known.counts + noise
    return BaselinePrediction(
        "position GP",
        (centre + scale * mean)[known.group],
        (scale * np.sqrt(variance))[known.group],
    )


def _has_position_gp(known: Sensors) -> bool:
    return known.operator.dimension == 2 and known.y.size > 1 and known.y.size <= MAX_POSITIONS


def _fitted_gp(known: Sensors) -> tuple[Callable[[FloatArray], FloatArray], Any]:
    """The scaling of positions to the surface's extent, and the model fitted on scaled ones."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    vertices = known.operator.positions
    assert vertices is not None
    centre, extent = vertices.mean(axis=0), known.operator.extent or 1.0

    def scaled(positions: FloatArray) -> FloatArray:
        return (positions - centre) / extent

    kernel = ConstantKernel(1.0, (1e-3, 1e4)) * Matern(0.3, (1e-2, 1e1), nu=2.5) + WhiteKernel(
        1e-2, (1e-6, 1e1)
    )
    inputs = scaled(known.positions[known.group])
    chosen = np.random.default_rng(0).permutation(known.y.size)[:SEARCHED]
    search = GaussianProcessRegressor(
        kernel, normalize_y=True, n_restarts_optimizer=RESTARTS, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        search.fit(inputs[chosen], known.y[chosen])
    model = GaussianProcessRegressor(search.kernel_, normalize_y=True, optimizer=None)
    model.fit(inputs, known.y)
    return scaled, model


def _scale(y: FloatArray) -> float:
    """Standard deviation that scikit-learn divides y by."""
    return float(np.std(y)) or 1.0
