"""Reports on a terminal, and as plain text.

Reports as HTML: a page in one file that fetches nothing.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import jinja2
from rich import box
from rich.console import Console
from rich.segment import Segment
from rich.table import Table as RichTable
from rich.text import Text

from coupledgp.diagnostics.pages.scale import THEME
from coupledgp.diagnostics.verdicts.verdict import SIGNS
from coupledgp.ground.visible import visible

if TYPE_CHECKING:
    from coupledgp.diagnostics.sections.layout import Layout
    from coupledgp.diagnostics.sections.section import ReportTable, Section

# Colours of verdicts on a terminal.
STYLES = {"green": "green", "amber": "yellow", "red": "red", "grey": "bright_black"}
# Prints a report, or a part of it.
Printed: TypeAlias = Callable[["Layout", Console], None]
# Letters in a line of plain text.
WIDTH = 120


class PlainConsole(Console):
    """A console that shows control characters of texts instead of obeying them."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, force_jupyter=False, **options)

    def render(self, *arguments: Any, **options: Any) -> Iterable[Segment]:
        """Return the segments of what is printed, without control characters in their texts."""
        for segment in super().render(*arguments, **options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))


def text_of(report: Layout, printed: Printed | None = None) -> str:
    """Return a report as plain text, or what a function prints of it."""
    text = io.StringIO()
    console = PlainConsole(file=text, width=WIDTH, color_system=None)
    (print_report if printed is None else printed)(report, console)
    return text.getvalue().strip()


def print_report(report: Layout, console: Console | None = None, *, written: object = None) -> None:
    """Print a report: tables first, since the end of what is printed is what is seen.

    Tables that a page folds are left out. `written` is the file to which its page was written.
    """
    console = PlainConsole() if console is None else console
    _print_lines(console, [report.title], "bold")
    _print_lines(console, report.warnings, "bold yellow")
    _print_lines(console, report.lead)
    for section in report.sections:
        _print_section(console, section)
    console.print()
    print_verdict(report, console)
    _print_lines(console, [*report.remarks, *report.closing])
    _print_lines(console, [] if written is None else [f"Written: {written}"])


def print_verdict(report: Layout, console: Console) -> None:
    """Print the answers of a report: its main figures, its verdicts, and what to do next."""
    _print_lines(console, [*([report.headline] if report.headline else []), *report.statements])
    for one in [*report.verdicts, *report.badges]:
        line = Text.assemble(
            (f"{one.question} ", "bold"), (f"[{one.colour}] ", f"bold {STYLES[one.colour]}")
        )
        console.print(line + Text(one.text()), soft_wrap=True)
    for number, thing in enumerate(report.advice, start=1):
        _print_lines(console, [f"{'To do next: ' if number == 1 else 'Or: '}{thing.text()}"])


def _print_lines(console: Console, lines: Iterable[str], style: str = "") -> None:
    for line in lines:
        console.print(Text(line, style=style), soft_wrap=True)


def _print_section(console: Console, section: Section) -> None:
    """Print the title and the sentence of a section, and its tables that are not folded."""
    tables = [one for one in section.shown_tables() if not one.folded]
    if section.sentence or tables:
        console.print()
        _print_lines(console, [section.heading] if section.heading and tables else [], "bold")
        _print_lines(console, [section.sentence] if section.sentence else [])
    for table in tables:
        _print_table(console, table.shown())


def _print_table(console: Console, table: ReportTable) -> None:
    """Print a table with its title above it; numbers stand at the right of their columns."""
    _print_lines(console, [table.title] if table.title else [], "bold")
    _print_lines(console, [table.note] if table.note else [])
    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name, kind in zip(table.columns, table.kinds(), strict=True):
        drawn.add_column(Text(name), justify="right" if kind == "number" else "left")
    for row in table.rows:
        drawn.add_row(*(Text(cell) for cell in row))  # as Text: a name may look like markup
    console.print(drawn)


ENVIRONMENT = jinja2.Environment(
    loader=jinja2.PackageLoader("coupledgp.diagnostics.pages"), autoescape=True, trim_blocks=True,
    lstrip_blocks=True,
)  # fmt: skip
ENVIRONMENT.globals |= {"SIGNS": SIGNS, "THEME": THEME}
# Exponents in cells hold together at the ends of lines.
ENVIRONMENT.filters["unbroken"] = lambda cell: re.sub(
    r"(?<=\d)e-0?(?=\d)", "e\N{NON-BREAKING HYPHEN}", f"{cell}"
)


def html_of(report: Mapping[str, Any]) -> str:
    """Return the parts of a report as one HTML document."""
    pictures = [one for part in report["parts"] for _, one in part["pictures"]]
    text = ENVIRONMENT.get_template("page.html").render(
        report, has_scene=any(one.scene is not None for one in pictures),
        has_frames=any(one.scene and one.scene.frames for one in pictures),
    )  # fmt: skip
    return visible(text)
