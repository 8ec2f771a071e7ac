"""Fits of a model of space and time to readings, and its law of what is hidden."""

from __future__ import annotations

from typing import Any

import numpy as np

from coupledgp.diagnostics.space_time.scoring import SpaceTimeLaw
from coupledgp.diagnostics.space_time.sensor_table import moments_back
from coupledgp.diagnostics.space_time.splits import SensorReadings
from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import wrong
from coupledgp.time.panel import Panel, as_panel
from coupledgp.time.sites import SiteLabels, as_domain


def readings_of(model: Any, data: Any, times: Any = None, values: Any = None) -> SensorReadings:
    """Readings in any form that the model is fitted to.

    Parameters
    ----------
    model
        An estimator with an attribute `graph`.
    data, times, values
        As for its `fit`: an array (node, time) of xarray, a wide table of pandas, a long table, or
        nodes with an array (n_nodes, n_times) and times.

    Raises
    ------
    InvalidInputError
        The model has no graph, or the data are invalid.
    """
    if isinstance(data, SensorReadings):
        return data
    domain = getattr(model, "graph", None)
    if domain is None:
        raise wrong("model", "an estimator on a graph", type(model))
    missing = getattr(model, "missing_values", None)
    panel = as_panel(data, times, values, missing_values=missing)
    return readings_of_panel(panel, as_domain(domain))


def readings_of_panel(panel: Panel, domain: Any) -> SensorReadings:
    """Readings of a panel whose nodes are those of a graph or an operator."""
    axis = panel.axis
    return SensorReadings(
        np.asarray(panel.values, dtype=np.float64),
        axis.values,
        SiteLabels(domain).numbers(panel.nodes),
        domain,
        axis.seconds_of_day(axis.values),
        panel.nodes,
        axis.labels(axis.values),
        None if axis.origin is None else axis.days(axis.values),
    )


def fitted_to(model: Any, readings: SensorReadings, *, kept: bool = False) -> Any:
    """A copy of an estimator, fitted to readings; rows without a reading are left out.

    With `kept` it is a fitted one, and its hyperparameters are kept.
    """
    from sklearn.base import clone

    rows = np.flatnonzero(readings.seen.any(axis=1))
    labels = [readings.labels[row] for row in rows.tolist()]
    fit = model.refitted if kept else clone(model).fit
    values = readings.values[rows]
    return fit(labels, times=readings.stamps, values=values)


def law_of(fitted: Any, readings: SensorReadings) -> SpaceTimeLaw:
    """Law (p, n) of observations by a fitted estimator at the sensors and times of readings.

    Raises
    ------
    InvalidInputError
        Predictions have another shape, or a standard deviation is not positive.
    """
    if hasattr(fitted, "modelled_law_on_grid"):
        return _law_on_grid(fitted, readings)
    found = fitted.predict(list(readings.labels), readings.stamps, return_std=True)
    mean, std = (np.asarray(part, dtype=np.float64) for part in found)
    if mean.shape != readings.values.shape or std.shape != mean.shape:
        raise wrong("model", f"predictions of shape {readings.values.shape}", mean.shape)
    if (std <= 0).any():
        raise InvalidInputError("model: expected positive standard deviations, got zero or less")
    return SpaceTimeLaw(mean, std)


def _law_on_grid(fitted: Any, readings: SensorReadings) -> SpaceTimeLaw:
    """Law (p, n) by a model of the package, computed once."""
    stamps = fitted.time_axis_.numbers(readings.stamps)
    mean, std = fitted.modelled_law_on_grid(readings.sites, stamps)
    tails = fitted.grid_process_.grid_tails(readings.sites, stamps)
    if fitted.transform_ is None:
        return SpaceTimeLaw(mean, std, tails=tails)
    there, variance = moments_back(fitted.transform_, mean, std)
    return SpaceTimeLaw(there, np.sqrt(variance), fitted.transform_, mean, std, tails)
