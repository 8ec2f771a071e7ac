"""A law over nodes and times as layers of a file: points of nodes, and lines of edges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from coupledgp.diagnostics.space_time.record import CELL_KINDS, SpaceTimePage
from coupledgp.diagnostics.space_time.times import chosen_times
from coupledgp.errors import InvalidInputError
from coupledgp.formats.roads import RoadNetwork
from coupledgp.formats.time_maps import TimeLayer
from coupledgp.random import FloatArray, IntArray

# Kind of the cells of nodes without a sensor.
NO_SENSOR = "no sensor"


def columns_of(report: SpaceTimePage, times: Any) -> IntArray:
    """Numbers of the times of a report: those of its small maps, all, or the nearest to some.

    Raises
    ------
    InvalidInputError
        A time is farther from all of the report's than half their greatest step.
    """
    if times is None:
        return chosen_times(report)
    if isinstance(times, str) and times == "all":
        return np.arange(report.times.size)
    wanted = report.axis.numbers(times)
    gaps = np.abs(report.times[:, None] - wanted)
    nearest = gaps.argmin(axis=0)
    half = np.diff(report.times).max(initial=0.0) / 2
    far = np.flatnonzero(gaps.min(axis=0) > half * (1 + 1e-9))
    if far.size:
        label = report.axis.texts(wanted[far[:1]])[0]
        raise InvalidInputError(
            f"times: expected times of the report, {report.axis.texts(report.times[:1])[0]} to "
            f"{report.axis.texts(report.times[-1:])[0]}, got {label}"
        )
    return np.unique(nearest)


def map_layers(
    report: SpaceTimePage, times: Any, roads: RoadNetwork | None
) -> tuple[dict[str, TimeLayer], Any, str | None]:
    """Layers, times in the user's form, and the coordinate system of a map over time.

    Raises
    ------
    InvalidInputError
        The nodes have no positions, roads have other nodes, or a time is not of the report.
    """
    columns = columns_of(report, times)
    labels = report.axis.labels(report.times[columns])
    if roads is not None:
        rows, unit = _rows_of(report, roads), roads.plane.unit
        lines = [line / unit for line in roads.lines]
        layers = {
            "nodes": _node_layer(report, columns, rows, roads.positions / unit),
            "edges": _edge_layer(report, columns, rows[roads.ends], lines),
        }
        return layers, labels, roads.crs
    if report.positions is None:
        raise InvalidInputError(
            "positions: expected places of the nodes for a file of maps, this report has none"
        )
    rows = np.arange(len(report.nodes))
    layers = {"nodes": _node_layer(report, columns, rows, report.positions)}
    if report.is_network and len(report.edges):
        pieces = list(report.positions[report.edges])
        layers["edges"] = _edge_layer(report, columns, report.edges, pieces)
    return layers, labels, report.crs


def _rows_of(report: SpaceTimePage, roads: RoadNetwork) -> IntArray:
    """Row of the report of each node of a network, by their names."""
    row = {name: k for k, name in enumerate(report.names)}
    names = [str(one) for one in (roads.labels or range(roads.n_nodes))]
    missing = [name for name in names if name not in row]
    if missing:
        raise InvalidInputError(
            f"roads: expected the nodes of the report, got {missing[0]!r}, which it does not have"
        )
    return np.array([row[name] for name in names], dtype=np.int64)


def _node_layer(
    report: SpaceTimePage, columns: IntArray, rows: IntArray, places: FloatArray
) -> TimeLayer:
    """Points of nodes: law, and value and kind of the cell where there is a sensor."""
    shape = (len(report.nodes), columns.size)
    observed, kinds = np.full(shape, np.nan), np.full(shape, NO_SENSOR, dtype=object)
    observed[report.sensors] = report.observed[:, columns]
    kinds[report.sensors] = np.array(CELL_KINDS, dtype=object)[report.kinds[:, columns]]
    fields = {
        "mean": report.mean[rows][:, columns], "std": report.std[rows][:, columns],
        "observed": observed[rows], "kind": kinds[rows],
    }  # fmt: skip
    return TimeLayer(list(places[:, None]), {"node": _names(report)[rows]}, fields)


def _edge_layer(
    report: SpaceTimePage, columns: IntArray, ends: IntArray, lines: Sequence[FloatArray]
) -> TimeLayer:
    """Lines between nodes, with the mean of their ends.

    The standard deviation is the mean of those of the ends, which is at least that of the mean of
    both.
    """
    names = _names(report)
    fields = {
        name: values[:, columns][ends].mean(axis=1)
        for name, values in (("mean", report.mean), ("std", report.std))
    }
    return TimeLayer(lines, {"source": names[ends[:, 0]], "target": names[ends[:, 1]]}, fields)


def _names(report: SpaceTimePage) -> Any:
    return np.array(report.names, dtype=object)
