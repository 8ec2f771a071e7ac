"""Computations of `coupledgp interpolate` over time: laws in blocks, kinds of cells, figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coupledgp.cli.commands.series_files import KINDS, LawLayout, SeriesLaw
from coupledgp.cli.readers.times import parse_times
from coupledgp.cli.shared.options import naming
from coupledgp.random import FloatArray
from coupledgp.series import Panel, as_panel

OBSERVED, GAP, FORECAST, HIDDEN = range(len(KINDS))
# Cells of a block of times that is predicted, and of one that is written.
LAW_CELLS, BLOCK_CELLS = 24_000_000, 4_000_000
# Sensors that a summary names.
N_WORST = 5
# Share of a step by which times that are one may differ.
SAME = 1e-6


def times_of(model: Any, times: str | None, forecast: str | None, zone: str | None) -> FloatArray:
    """Axis numbers (b,) of the law: of the data or the requested times, and of the forecast."""
    axis, known = model.time_axis_, model.grid_process_.times
    found = known if times is None else parse_times(times, axis, zone)
    if forecast is not None:
        with naming("--ahead"):
            axis.duration(forecast, "forecast")
            found = np.union1d(found, model.times_ahead(forecast))
    return np.asarray(found)


def laws_in_blocks(models: Mapping[str, Any], layout: LawLayout) -> Iterator[dict[str, SeriesLaw]]:
    """Laws of the times of a layout, block after block, by the names of values.

    More times are predicted at once than are written: each call finds covariances of all nodes.
    """
    many = max(1, LAW_CELLS // len(layout.labels))
    few = max(1, BLOCK_CELLS // len(layout.labels))
    for start in range(0, layout.times.size, many):
        times = layout.times[start : start + many]
        laws = {name: _law(model, layout, times) for name, model in models.items()}
        for first in range(0, times.size, few):
            part = slice(first, first + few)
            yield {name: law.at(part) for name, law in laws.items()}


def _law(model: Any, layout: LawLayout, times: FloatArray) -> SeriesLaw:
    stamps = layout.axis.labels(times)
    mean, std = model.predict(layout.labels, stamps, return_std=True)
    return SeriesLaw(mean, std, kinds_of(model, layout, times))


def kinds_of(model: Any, layout: LawLayout, times: FloatArray) -> NDArray[np.int8]:
    """Kind of each cell (p, m), as its place in `KINDS`."""
    rows = model.grid_process_
    place = rows.rows_of(model.grid(layout.labels).sites)
    known = place >= 0
    found = np.full((place.size, times.size), HIDDEN, dtype=np.int8)
    found[known] = GAP
    column, there = _columns(rows.times, times)
    seen = rows.observed[np.ix_(place[known], column)] & there
    found[known] = np.where(seen, OBSERVED, found[known])
    found[:, times > rows.times[-1] + SAME * _step(rows.times)] = FORECAST
    return found


def _columns(known: FloatArray, times: FloatArray) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The nearest of known times (n,) to times (m,), and whether they are the same."""
    right = np.clip(np.searchsorted(known, times), 0, known.size - 1)
    left = np.maximum(right - 1, 0)
    nearest = np.where(np.abs(known[left] - times) < np.abs(known[right] - times), left, right)
    return nearest, np.asarray(np.abs(known[nearest] - times) <= SAME * _step(known))


def _step(times: FloatArray) -> float:
    return float(np.median(np.diff(times))) if times.size > 1 else 1.0


def new_panel(model: Any, panel: Panel) -> Panel | None:
    """The values of a panel that are later than a model's values; None if there are none."""
    numbers = model.time_axis_.numbers(panel.axis.labels(panel.axis.values))
    known = model.grid_process_.times
    later = numbers > known[-1] + SAME * _step(known)
    values = panel.values[:, later]
    there = np.asarray(~np.isnan(values).all(axis=1))
    if not there.any():
        return None
    nodes = [node for node, kept in zip(panel.nodes, there, strict=True) if kept]
    return as_panel(nodes, panel.axis.labels(panel.axis.values[later]), values[there])


def describe_panel(panel: Panel, model: Any) -> dict[str, Any]:
    """Figures of the data of a model."""
    axis, rows, gaps = model.time_axis_, model.grid_process_, model.gaps_
    return {
        "n_sensors": len(rows.values),
        "n_times": int(rows.times.size),
        "first": axis.texts(rows.times[0])[0],
        "last": axis.texts(rows.times[-1])[0],
        "step": axis.step,
        "time_unit": axis.unit,
        "zone": axis.zone,
        "gaps": {
            "share": gaps.share, "longest_run": gaps.longest_run, "n_dark": gaps.n_dark,
        },
    }  # fmt: skip


def describe_model(model: Any) -> dict[str, Any]:
    """Figures of a fitted model."""
    return {
        "fitted": {
            "kernel": repr(model.kernel_),
            "log_density": float(model.log_marginal_likelihood_value_),
            "law": model.method_reason_,
        },
        "outliers": {"n": len(model.outliers_.node)},
        "leave_one_sensor_out": None,
    }  # fmt: skip


def left_out_rows(table: Any) -> tuple[dict[str, Any], Any]:
    """Mean scores of sensors left out and the worst ones, and the table."""
    names = ("rmse", "mae", "nlpd", "crps", "coverage_95", "bias")
    weights = np.asarray(table.n, dtype=np.float64)
    means = {name: float(np.average(getattr(table, name), weights=weights)) for name in names}
    means["rmse"] = float(np.sqrt(np.average(np.square(table.rmse), weights=weights)))
    worst = [
        {"node": str(table.node[k]), "n": int(table.n[k]), "rmse": float(table.rmse[k]),
         "bias": float(table.bias[k])}
        for k in range(min(N_WORST, len(table)))
    ]  # fmt: skip
    return means | {"worst": worst}, table
