"""Leave one sensor out by fits without it: the reference of faster ways, for any estimator."""

from __future__ import annotations

from typing import Any

import numpy as np

from coupledgp.diagnostics.space_time.models import fitted_to, law_of, readings_of
from coupledgp.diagnostics.space_time.sensor_table import SensorTable
from coupledgp.errors import InvalidInputError


def leave_one_sensor_out(
    model: Any, data: Any, times: Any = None, values: Any = None, *, sensors: Any = None
) -> SensorTable:
    """Fit a model without each sensor in turn, hyperparameters included, and score what it says.

    Each sensor costs a whole fit. An estimator's own `leave_one_sensor_out`, where it has one,
    keeps the hyperparameters of all sensors and costs about one fit in all.

    Parameters
    ----------
    model
        An unfitted estimator such as `GraphTimeGPRegressor`.
    data, times, values
        Readings in any form that the model's `fit` takes.
    sensors
        Nodes of the sensors to leave out, all of them by default.

    Raises
    ------
    InvalidInputError
        The data are invalid, a node is no sensor, or there are fewer than two sensors.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> from sklearn.base import BaseEstimator
    >>> from coupledgp.diagnostics import leave_one_sensor_out
    >>> class MeanInTime(BaseEstimator):  # any estimator of sensors over times
    ...     graph = cgp.Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 0])
    ...     def fit(self, nodes, *, times, values):
    ...         self.mean_ = values.mean(axis=0)
    ...         return self
    ...     def predict(self, nodes, times, return_std):
    ...         mean = np.tile(self.mean_, (len(nodes), 1))
    ...         return mean, np.ones(mean.shape)
    >>> values = np.outer([1.0, 1.0, 1.0, 5.0], np.ones(6))
    >>> table = leave_one_sensor_out(MeanInTime(), range(4), np.arange(6.0), values)
    >>> table.node[0], table.rmse[0].item()  # the sensor that is unlike the others
    (3, 4.0)
    """
    readings = readings_of(model, data, times, values)
    if len(readings.values) < 2:
        raise InvalidInputError("data: expected at least two sensors, got one")
    places = {label: row for row, label in enumerate(readings.labels)}
    wanted = list(places) if sensors is None else list(sensors)
    unknown = [node for node in wanted if node not in places]
    if unknown:
        raise InvalidInputError(f"sensors: expected nodes with readings, got {unknown[:3]}")
    rows = [places[node] for node in wanted]
    mean = np.full((len(rows), readings.times.size), np.nan)
    std = mean.copy()
    for number, row in enumerate(rows):
        hidden = np.zeros(readings.values.shape, dtype=np.bool_)
        hidden[row] = True
        law = law_of(fitted_to(model, readings.without(hidden)), readings)
        mean[number], std[number] = law.mean[row], law.std[row]
    seen = readings.seen[rows]
    return SensorTable.of(
        wanted, readings.values[rows], np.where(seen, mean, np.nan), np.where(seen, std, np.nan)
    )
