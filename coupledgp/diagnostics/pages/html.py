"""Pages of comparisons: tables and inline pictures in one file that fetches nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence

import jinja2

from coupledgp.diagnostics.pages import pictures
from coupledgp.diagnostics.pages.table import Section, figure_columns, figure_rows
from coupledgp.diagnostics.result import ComparisonResult

ENVIRONMENT = jinja2.Environment(
    loader=jinja2.PackageLoader("coupledgp.diagnostics.pages"), autoescape=True
)
# Exponents in cells hold together at the ends of lines.
ENVIRONMENT.filters["unbroken"] = lambda cell: re.sub(
    r"(?<=\d)e-0?(?=\d)", "e\N{NON-BREAKING HYPHEN}", f"{cell}"
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
    """Return the whole page of a comparison.

    Parameters
    ----------
    report
        Result of the comparison.
    title
        Heading of the page.
    lead, closing
        Paragraphs below the heading, and at the end.
    opening
        A table or None, and the caption and the SVG of a picture, all above the rest of the page.
    sections
        Further tables, above the table of the comparison.
    comparison
        Title of the table of the comparison.
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
        pictures=[*pictures.comparison_pictures(report), *further],
        title=title,
        lead=lead,
        opening=opening,
        sections=sections,
        closing=closing,
        after=after,
        links=links,
    )


def render_field(
    *,
    title: str,
    lead: Sequence[str],
    verdict: Sequence[str] = (),
    warnings: Sequence[str] = (),
    opening: tuple[str, str] | None = None,
    sections: Sequence[Section] = (),
    further: Sequence[tuple[str, str]] = (),
    after: Sequence[Section] = (),
    closing: Sequence[str] = (),
) -> str:
    """Return the whole page of a field.

    Parameters
    ----------
    title
        Heading of the page.
    lead, closing
        Paragraphs below the heading, and at the end.
    verdict, warnings
        Sentences on how good the field is, and on what a reader should doubt.
    opening
        The caption and the SVG of the first picture.
    sections, after
        Tables above and below the pictures.
    further
        Captions and SVGs of more pictures.
    """
    return ENVIRONMENT.get_template("field.html").render(
        title=title,
        lead=lead,
        verdict=verdict,
        warnings=warnings,
        opening=opening,
        sections=sections,
        pictures=further,
        after=after,
        closing=closing,
    )


def render_table(report: ComparisonResult) -> str:
    """Return the table of figures alone as HTML, for notebooks."""
    section = figures_section(report, report.verdict())
    return ENVIRONMENT.get_template("table.html").render(section=section)


def figures_section(report: ComparisonResult, title: str) -> Section:
    """Return the table of figures of a comparison."""
    figures = report.figures
    return Section(title, figure_columns(figures), figure_rows(figures, report.accuracy))
