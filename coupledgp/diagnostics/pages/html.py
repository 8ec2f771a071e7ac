"""The report as a page: tables and inline pictures, nothing fetched from anywhere."""

from __future__ import annotations

from collections.abc import Sequence

import jinja2

from coupledgp.diagnostics.pages import pictures
from coupledgp.diagnostics.pages.table import Section, figure_columns, figure_rows
from coupledgp.diagnostics.result import ComparisonResult

ENVIRONMENT = jinja2.Environment(
    loader=jinja2.PackageLoader("coupledgp.diagnostics.pages"), autoescape=True
)


def render(
    report: ComparisonResult,
    *,
    title: str = "Posterior report",
    lead: Sequence[str] = (),
    opening: tuple[Section | None, str, str] | None = None,
    sections: Sequence[Section] = (),
    comparison: str = "Beside the reference",
    closing: Sequence[str] = (),
    further: Sequence[tuple[str, str]] = (),
    after: Sequence[Section] = (),
    links: Sequence[tuple[str, str]] = (),
) -> str:
    """Return the whole page.

    Parameters
    ----------
    report
        The comparison to show.
    title
        Heading of the page.
    lead, closing
        Paragraphs below the heading and at the end.
    opening
        A table or None, and the caption and SVG of a picture, above all else.
    sections
        Further tables, above the comparison.
    comparison
        Title of the comparison's table.
    further
        Captions and SVGs of more pictures.
    after
        Tables below the pictures.
    links
        Addresses and texts of pages beside this one, below the heading.
    """
    return ENVIRONMENT.get_template("report.html").render(
        report=report,
        figures=figures_section(report, comparison),
        pictures=[*pictures.of_report(report), *further],
        title=title,
        lead=lead,
        opening=opening,
        sections=sections,
        closing=closing,
        after=after,
        links=links,
    )


def render_table(report: ComparisonResult) -> str:
    """Return the table of figures alone, for notebooks."""
    section = figures_section(report, report.verdict())
    return ENVIRONMENT.get_template("table.html").render(section=section)


def figures_section(report: ComparisonResult, title: str) -> Section:
    """Return the table of figures of a comparison."""
    figures = report.figures
    return Section(title, figure_columns(figures), figure_rows(figures, report.accuracy))
