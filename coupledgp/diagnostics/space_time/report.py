"""The report of a space-time model on a graph: a page, its pictures and its tables."""

from __future__ import annotations

from os import PathLike
from typing import Any, ClassVar

from coupledgp.diagnostics.sections.layout import Layout
from coupledgp.diagnostics.sections.report import Rendered
from coupledgp.diagnostics.space_time.map_layers import map_layers
from coupledgp.diagnostics.space_time.record import SpaceTimePage
from coupledgp.diagnostics.space_time.sections import layout_of
from coupledgp.formats.roads import RoadNetwork
from coupledgp.formats.time_maps import write_time_map


class SpaceTimeReport(SpaceTimePage, Rendered):
    """A space-time model on a page; its attributes are those of `SpaceTimeRecord`.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> from coupledgp.diagnostics import space_time_report
    >>> road = cgp.Graph.from_edges(range(5), range(1, 6))
    >>> speeds = 50 + np.cumsum(np.random.default_rng(0).normal(size=(4, 40)), axis=1)
    >>> speeds[1, 20:30] = np.nan  # a gap
    >>> model = cgp.GraphTimeGPRegressor(road, dynamics=False, usual_day=False, progress=False)
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
        rejected, no sensor); lines have `source`, `target`, `time` and the means of `mean` and
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
            A library of the extra `roads` is not installed.
        """
        layers, stamps, crs = map_layers(self, times, roads)
        write_time_map(path, layers, stamps, crs=crs)

    def layout(self) -> Layout:
        """The report with its sections: map over time, gains, series, sensors and calibration."""
        return layout_of(self)
