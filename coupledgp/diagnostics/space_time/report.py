"""The report of a space-time model on a graph: a page, its pictures and its tables."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from coupledgp.diagnostics.pages.space_time.record import SpaceTimeRecord
from coupledgp.diagnostics.pages.table import Section
from coupledgp.output import write_text

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
