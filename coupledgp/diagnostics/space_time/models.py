"""Fits of a model of space and time to readings, and its law of what is hidden."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtr

from coupledgp.diagnostics.space_time.readings import SensorReadings
from coupledgp.diagnostics.space_time.scoring import SpaceTimeLaw
from coupledgp.errors import InvalidInputError
from coupledgp.gp.transforms import TargetTransform
from coupledgp.inference.space_time.site_labels import SiteLabels
from coupledgp.inference.space_time.sites import as_domain
from coupledgp.random import FloatArray
from coupledgp.series import Panel, as_panel


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
        raise InvalidInputError(
            f"model: expected an estimator on a graph, got {type(model).__name__}"
        )
    panel = data if isinstance(data, Panel) else as_panel(data, times, values)
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
    )


def fitted_to(model: Any, readings: SensorReadings) -> Any:
    """A copy of an unfitted estimator, fitted to readings; rows without a reading are left out."""
    from sklearn.base import clone

    rows = np.flatnonzero(readings.seen.any(axis=1))
    labels = [readings.labels[row] for row in rows.tolist()]
    known = model.covariates_ if model.__sklearn_is_fitted__() else None
    values = readings.values[rows]
    return clone(model).fit(labels, times=readings.stamps, values=values, covariates=known)


def law_of(fitted: Any, readings: SensorReadings) -> SpaceTimeLaw:
    """Law (p, n) of observations by a fitted estimator at the sensors and times of readings."""
    found = fitted.predict(list(readings.labels), readings.stamps, return_std=True)
    mean, std = (np.asarray(part, dtype=np.float64) for part in found)
    if mean.shape != readings.values.shape or std.shape != mean.shape:
        raise InvalidInputError(
            f"model: expected predictions of shape {readings.values.shape}, got {mean.shape}"
        )
    transform = getattr(fitted, "transform_", None)
    if transform is None:
        return SpaceTimeLaw(mean, std)
    return SpaceTimeLaw(mean, std, transform, *_inner_law(fitted, transform, readings))


def _inner_law(
    fitted: Any, transform: TargetTransform, readings: SensorReadings
) -> tuple[FloatArray, FloatArray]:
    """Means and standard deviations (p, n) of `g(y)` from two quantiles of y."""
    stamps = fitted.time_axis_.numbers(readings.stamps)
    quantiles = fitted.quantiles_on_grid(readings.sites, stamps, [0.5, ndtr(1.0)])
    middle, upper = (transform.forward(quantiles[..., k]) for k in (0, 1))
    return middle, upper - middle
