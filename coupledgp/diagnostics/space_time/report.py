"""The report of a space-time model on a graph: a page, its pictures and its tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from coupledgp.diagnostics.sections.layout import Layout
from coupledgp.diagnostics.sections.report import Rendered
from coupledgp.diagnostics.sections.section import (
    ReportTable,
    Section,
    register_section,
    sections_of,
)
from coupledgp.diagnostics.space_time.gains import answer, cards, headline, where_time_adds_nothing
from coupledgp.diagnostics.space_time.record import CELL_KINDS, SpaceTimePage
from coupledgp.diagnostics.space_time.sensors import ChosenSensors, drawn_sensors
from coupledgp.diagnostics.space_time.tables import (
    calibration_tables,
    fact_table,
    gain_table,
    provenance_table,
    score_table,
    sensor_tables,
)
from coupledgp.diagnostics.space_time.times import chosen_times
from coupledgp.diagnostics.space_time.words import duration_words, time_texts, zone_sentence
from coupledgp.errors import InvalidInputError
from coupledgp.fields.output import TimeLayer, write_time_map
from coupledgp.fields.roads import RoadNetwork
from coupledgp.random import FloatArray, IntArray

if TYPE_CHECKING:
    from coupledgp.diagnostics.pages.picture import Picture

# Kind of the cells of nodes without a sensor.
NO_SENSOR = "no sensor"


class SpaceTimeReport(SpaceTimePage, Rendered):
    """A space-time model on a page; its attributes are those of `SpaceTimePage`.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> from coupledgp.diagnostics import space_time_report
    >>> road = cgp.Graph.from_edges(range(5), range(1, 6))
    >>> speeds = 50 + np.cumsum(np.random.default_rng(0).normal(size=(4, 40)), axis=1)
    >>> speeds[1, 20:30] = np.nan  # a gap
    >>> model = cgp.GraphTimeGPRegressor(road, progress=False)
    >>> fitted = model.fit([0, 2, 3, 5], speeds, times=np.arange(40.0))
    >>> report = space_time_report(fitted, splits=0, left_out=False, forecast=0, unit="mph")
    >>> report.unit, report.gaps.n_gaps, report.gaps.longest
    ('mph', 10, 10)
    """

    report_kinds: ClassVar[tuple[str, ...]] = ("space-time",)

    def write_map(
        self,
        path: str | PathLike[str],
        times: Any = None,
        *,
        roads: RoadNetwork | None = None,
    ) -> None:
        """Write the law of nodes at some times, and of edges where they are roads.

        Points have `node`, `time`, `mean`, `std`, `observed` and `kind` (observed, gap, forecast,
        no sensor); lines have `source`, `target`, `time` and the means of `mean` and
        `std` of their ends, an upper bound of the standard deviation of the mean of both.

        Parameters
        ----------
        path
            A .gpkg or, of positions with a coordinate system, a .geojson.
        times
            Times of the report in the form of the data, `"all"`, or None for those of the small
            maps.
        roads
            Network whose nodes are those of the graph; its lines and places are written.

        Raises
        ------
        InvalidInputError
            The extension is unknown, nodes have no positions or no coordinate system that the file
            needs, roads have other nodes, or a time is not of the report.
        MissingLibraryError
            A library of the extra `geo` is not installed.
        """
        layers, stamps, crs = map_layers(self, times, roads)
        write_time_map(path, layers, stamps, crs=crs)

    def layout(self) -> Layout:
        """The report with its sections: map over time, gains, series, sensors and calibration."""
        return layout_of(self)


def layout_of(report: SpaceTimePage) -> Layout:
    """The header, the answers and the sections of a space-time model."""
    return Layout(
        title=report.title,
        lead=[_lead(report)],
        headline=answer(report),
        warnings=report.warnings,
        verdicts=cards(report),
        statements=[headline(report), *where_time_adds_nothing(report)],
        sections=sections_of(report, ["space-time"]),
    )


def _lead(report: SpaceTimePage) -> str:
    """What the data are: nodes, sensors, times, step and zone."""
    axis = report.axis
    first, *_, last = time_texts(axis, axis.values[[0, -1]])
    step = (
        "irregular steps" if axis.step is None else f"a step of {duration_words(axis.step, axis)}"
    )
    return (
        f"{len(report.nodes)} nodes, {report.sensors.size} of them with a sensor; "
        f"{axis.values.size} times from {first} to {last}, {step}. {zone_sentence(axis)}"
    )


Build = Callable[[SpaceTimePage], Section | None]


def _map(report: SpaceTimePage, name: str) -> Picture:
    """The map over time, or six times of it side by side, by the name of the method."""
    from coupledgp.diagnostics.space_time.maps import TimeMaps

    drawn: Picture = getattr(TimeMaps(report), name)()
    return drawn


def map_section(report: SpaceTimePage) -> Section:
    """The law on the map, all times of it and some side by side."""
    names = ["interactive", "small_multiples"][: 1 + (report.times.size > 1)]
    return Section("map", pictures=[partial(_map, report, name) for name in names])


def gains_section(report: SpaceTimePage) -> Section | None:
    """Scores of the model and of what could be picked instead, by kind of hidden value."""
    figures: dict[str, dict[str, dict[str, float]]] = {}
    for one in report.scores:
        kind = one.kind if one.ahead is None else f"{one.kind} {one.ahead}"
        values = {"n": one.n, "rmse": one.rmse, "mae": one.mae, "crps": one.crps, "nlpd": one.nlpd}
        known = {name: value for name, value in values.items() if value is not None}
        figures.setdefault(kind, {})[one.model] = known
    return _of_tables("gains", [gain_table(report), score_table(report)], figures)


def series_section(report: SpaceTimePage) -> Section:
    """The law of the worst sensors and a median one over time."""
    chosen = drawn_sensors(report)
    return Section("series", pictures=[partial(_series, report, one, k)
                                       for k, one in enumerate(chosen, 1)])  # fmt: skip


def _series(report: SpaceTimePage, chosen: ChosenSensors, number: int) -> Picture:
    from coupledgp.diagnostics.space_time.series import sensor_picture

    return sensor_picture(report, chosen, number)


def calibration_section(report: SpaceTimePage) -> Section | None:
    """Shares inside intervals and errors over the day."""

    def hours() -> Picture:
        from coupledgp.diagnostics.space_time.series import hours_picture

        return hours_picture(report)

    tables, drawn = calibration_tables(report), [hours] if report.hours else []
    return Section("calibration", tables=tables, pictures=drawn) if tables or drawn else None


def _of_tables(
    key: str, tables: list[ReportTable | None], figures: Mapping[str, Any] | None = None
) -> Section | None:
    """A section of the tables that there are; None without any."""
    known = [one for one in tables if one is not None]
    return Section(key, figures=figures or {}, tables=known) if known else None


BUILDERS: dict[str, Build] = {
    "map": map_section,
    "gains": gains_section,
    "series": series_section,
    "sensors": lambda report: _of_tables("sensors", [*sensor_tables(report)]),
    "calibration": calibration_section,
    "computation": lambda report: _of_tables("computation", [fact_table(report)]),
    "provenance": lambda report: _of_tables("provenance", [provenance_table(report)]),
}
for key, build in BUILDERS.items():
    register_section(key, build, "space-time")


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
