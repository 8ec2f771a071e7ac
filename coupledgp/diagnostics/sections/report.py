"""Five renderings of a report: page, notebook, JSON, CSV and terminal.

Each renders every report, and knows nothing but its header, verdicts and sections.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from coupledgp.diagnostics.plotted import Plotted
from coupledgp.diagnostics.sections.layout import Layout
from coupledgp.diagnostics.sections.section import ReportTable, safe_cell
from coupledgp.diagnostics.studies.tables import csv_of, frame_of
from coupledgp.errors import InvalidInputError
from coupledgp.ground.extras import named_extras
from coupledgp.ground.notebook import Notebook, Shown
from coupledgp.ground.output import text_written, write_text
from coupledgp.ground.validation import check_choice, json_values

if TYPE_CHECKING:
    import pandas as pd

    from coupledgp.diagnostics.pages.picture import Picture

# Formats of pictures that are saved.
FORMATS = ("svg", "png")


class Rendered(Shown, Plotted):
    """What has a layout of sections, in its five renderings, with its pictures and tables."""

    # Kinds of sections that the report has; see `register_section`.
    report_kinds: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def layout(self) -> Layout:
        """The header, the verdicts and the sections, in the order in which they are read."""

    def to_html(self, path: str | PathLike[str] | None = None) -> str:
        """Return one self-contained HTML page with tables and pictures, and write it to `path`."""
        with named_extras():
            from coupledgp.diagnostics.pages.terminal import html_of

            page = html_of(self.layout().parts())
        return text_written(page, path)

    def notebook(self) -> Notebook:
        """Its verdicts, sentences and tables for a notebook; `_repr_html_` shows them."""
        return self.layout().notebook()

    def __str__(self) -> str:
        from coupledgp.diagnostics.pages.terminal import print_verdict, text_of

        made = self.layout()
        return text_of(made, print_verdict) or text_of(made)

    def to_text(self) -> str:
        """Return the whole report as plain text; `str(report)` has its answers alone."""
        from coupledgp.diagnostics.pages.terminal import text_of

        return text_of(self.layout())

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the pictures as plain Python values."""
        return self.layout().to_dict()

    def to_json(self, path: str | PathLike[str] | None = None) -> str:
        """Return `to_dict()` as JSON, and write it to `path` if one is given.

        JSON has no NaN and no infinity: such a figure is null, and `"not_finite"` names it.
        """
        text = json.dumps(json_values(self.to_dict()), indent=2, allow_nan=False)
        if path is not None:
            write_text(path, text + "\n")
        return text

    def to_frame(self) -> pd.DataFrame:
        """Return all figures in full precision as a data frame: `section`, `figure` and `value`.

        Raises
        ------
        MissingLibraryError
            pandas is not installed.
        """
        return frame_of(self.layout().figure_table())

    def to_csv(self, path: str | PathLike[str] | None = None) -> str:
        """Return the figures of `to_frame` as CSV, and write it to `path` if one is given."""
        columns, rows = self.layout().figure_table()
        cells = [[safe_cell(f"{one}") if isinstance(one, str) else one for one in row]
                 for row in rows]  # fmt: skip
        return text_written(csv_of((columns, cells)), path, newline="")

    def pictures(self) -> dict[str, str]:
        """Return the pictures of the page as SVG documents in light colours, by name."""
        with named_extras():
            return {name: picture.svg() for name, picture in self.layout().drawn().items()}

    def picture(self, name: str | None = None) -> Picture:
        """Return a picture of the page.

        Parameters
        ----------
        name
            Its name, one of `pictures()`; None: the first one.

        Raises
        ------
        InvalidInputError
            There is no such picture.
        """
        from coupledgp.diagnostics.pages.picture import drawn_into

        draws = [draw for one in self.layout().sections for draw in one.pictures]
        if name is not None:
            with drawn_into(None):  # none of them but the chosen one
                known = {draw().name: draw for draw in draws[::-1]}
            draws = [known[check_choice(name, tuple(known)[::-1], "name")]]
        if not draws:
            raise InvalidInputError("name: expected a picture, this report has none")
        return draws[0]()

    def save_pictures(self, folder: str | PathLike[str], format: str = "svg") -> list[Path]:
        """Write each picture of the page as `<name>.<format>` into a folder.

        Parameters
        ----------
        folder
            It is made if it is missing; files of the same names are replaced.
        format
            `"svg"`, or `"png"` at 200 dots an inch.

        Returns
        -------
        list of Path
            The files, in the order of the page.

        Raises
        ------
        InvalidInputError
            The format is another one.
        OSError
            A file cannot be written.
        """
        check_choice(format, FORMATS, "format")
        saved = []
        for name, picture in self.layout().drawn().items():
            path = _inside(folder, f"{name}.{format}")
            picture.save(path, format)
            saved.append(path)
        return saved

    def tables(self) -> dict[str, ReportTable]:
        """Return the tables of the page by name: `title`, `columns`, `rows` and `to_csv()`."""
        return self.layout().listed()

    def save_tables(self, folder: str | PathLike[str]) -> list[Path]:
        """Write each table of the page as `<name>.csv` into a folder, and return the paths.

        The folder is made if it is missing. Errors of numbers stand in columns of their own.

        Raises
        ------
        OSError
            A file cannot be written.
        """
        saved = []
        for name, table in self.tables().items():
            path = _inside(folder, f"{name}.csv")
            write_text(path, table.to_csv(), newline="")
            saved.append(path)
        return saved


@dataclass(frozen=True, eq=False)
class Report(Layout, Rendered):
    """A report that is its own layout; its attributes are those of `Layout`."""

    def layout(self) -> Layout:
        """The report itself."""
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the pictures as plain Python values."""
        return Layout.to_dict(self)


def _inside(folder: str | PathLike[str], name: str) -> Path:
    """Path of a file in a folder that is made if it is missing."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    return Path(folder) / name
