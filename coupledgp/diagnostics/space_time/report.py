"""The report of a space-time model on a graph: a page, its pictures and its tables."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coupledgp.diagnostics.pages.space_time.record import SpaceTimeRecord
from coupledgp.diagnostics.pages.table import Section
from coupledgp.diagnostics.space_time.map_layers import map_layers
from coupledgp.formats.roads import RoadNetwork
from coupledgp.formats.time_maps import write_time_map
from coupledgp.ground.output import write_text

if TYPE_CHECKING:
    from coupledgp.diagnostics.pages.page import Page


class SpaceTimeReport(SpaceTimeRecord):
    """A space-time model on a page; its attributes are those of `SpaceTimeRecord`."""

    def to_html(self, path: str | PathLike[str] | None = None) -> str:
        """Return one self-contained HTML page, and write it to `path` if one is given."""
        from coupledgp.diagnostics.pages.html import html_of  # matplotlib is slow to import

        page = html_of(self._page())
        if path is not None:
            write_text(path, page)
        return page

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

    def pictures(self) -> dict[str, str]:
        """Return the pictures of the page by name, as SVG in light colours."""
        return {name: one.svg() for name, one in self._page().drawn().items()}

    def tables(self) -> dict[str, Section]:
        """Return the tables of the page by name, with `to_csv()`."""
        return self._page().listed()

    def save_pictures(self, folder: str | PathLike[str], format: str = "svg") -> list[Path]:
        """Write each picture as `<name>.<format>` into a folder, and return the paths."""
        return self._page().save_pictures(folder, format)

    def save_tables(self, folder: str | PathLike[str]) -> list[Path]:
        """Write each table as `<name>.csv` into a folder, and return the paths."""
        return self._page().save_tables(folder)

    def _page(self) -> Page:
        from coupledgp.diagnostics.pages.space_time.page import page_of  # imports matplotlib

        return page_of(self)
