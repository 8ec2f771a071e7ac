"""Pages of comparisons and fields: tables and pictures in one file that fetches nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence

import jinja2

from coupledgp.diagnostics.pages.beside import beside
from coupledgp.diagnostics.pages.evidence import evidence_sections
from coupledgp.diagnostics.pages.page import Page
from coupledgp.diagnostics.pages.palette import THEME
from coupledgp.diagnostics.pages.picture import Picture
from coupledgp.diagnostics.pages.pictures import SIZE, WIDE, comparison_pictures
from coupledgp.diagnostics.pages.table import (
    Section,
    figure_columns,
    figure_rows,
    figure_sections,
)
from coupledgp.diagnostics.result import ComparisonResult
from coupledgp.diagnostics.verdicts.verdict import Advice, Verdict
from coupledgp.ground.visible import visible

# Signs and words of the colours of verdicts: nobody has to tell colours apart.
SIGNS = {
    "green": ("✓", "good"),
    "amber": ("!", "look at it"),
    "red": ("✕", "do not use as it is"),
    "grey": ("–", "not judged"),
}
ENVIRONMENT = jinja2.Environment(
    loader=jinja2.PackageLoader("coupledgp.diagnostics.pages"), autoescape=True, trim_blocks=True,
    lstrip_blocks=True,
)  # fmt: skip
ENVIRONMENT.globals |= {"SIGNS": SIGNS, "THEME": THEME}
# Exponents in cells hold together at the ends of lines.
ENVIRONMENT.filters["unbroken"] = lambda cell: re.sub(
    r"(?<=\d)e-0?(?=\d)", "e\N{NON-BREAKING HYPHEN}", f"{cell}"
)


def html_of(page: Page) -> str:
    """Return a page as one HTML document."""
    tables, pictures = list(page.listed().items()), list(page.drawn().items())
    above, first = len(page.sections), 0 if page.opening is None else 1
    text = ENVIRONMENT.get_template("page.html").render(
        page=page, opening=pictures[:first], tables=tables[:above], pictures=pictures[first:],
        after=tables[above:], has_scene=any(one.scene is not None for _, one in pictures),
        has_frames=any(one.scene and one.scene.frames for _, one in pictures),
    )  # fmt: skip
    return visible(text)


def render(
    report: ComparisonResult,
    *,
    title: str = "Posterior report",
    lead: Sequence[str] = (),
    opening: Picture | None = None,
    sections: Sequence[Section] = (),
    comparison: str = "Beside the reference",
    closing: Sequence[str] = (),
    further: Sequence[Picture] = (),
    after: Sequence[Section] = (),
    links: Sequence[tuple[str, str]] = (),
) -> Page:
    """Return the page of a comparison.

    Parameters
    ----------
    report
        Result of the comparison.
    title
        Heading of the page.
    lead, closing
        Paragraphs below the heading, and at the end.
    opening
        Picture above the tables; None: the one that says the most of the comparison.
    sections
        Further tables, above those of the comparison.
    comparison
        Title of the table of the comparison.
    further
        More pictures.
    after
        Tables below the pictures.
    links
        Addresses and texts of pages beside this one, below the heading.
    """
    drawn = comparison_pictures(report, WIDE if opening is None else SIZE)
    if opening is None and drawn:
        opening, *drawn = drawn
    others = beside(report)
    instead = [] if others is None else [others]
    figures = figure_sections(report.figures, report.accuracy, comparison, report.points_are)
    reference = [] if report.reference is None else [("reference", report.reference)]
    return Page(
        title=title,
        lead=lead,
        closing=closing,
        links=links,
        warnings=report.warnings,
        verdicts=report.verdicts,
        statements=[] if report.verdicts else report.conclusions(),
        remarks=report.remarks,
        advice=report.advice,
        opening=opening,
        sections=[*evidence_sections(report), *sections, *figures],
        pictures=[*instead, *drawn, *further],
        after=after,
        models=[("model", report.model), *reference],
    )


def render_field(
    *,
    title: str,
    lead: Sequence[str],
    verdict: Sequence[str] = (),
    warnings: Sequence[str] = (),
    verdicts: Sequence[Verdict] = (),
    advice: Sequence[Advice] = (),
    opening: Picture | None = None,
    sections: Sequence[Section] = (),
    further: Sequence[Picture] = (),
    after: Sequence[Section] = (),
    closing: Sequence[str] = (),
) -> Page:
    """Return the page of a field.

    Parameters
    ----------
    title
        Heading of the page.
    lead, closing
        Paragraphs below the heading, and at the end.
    verdict, warnings
        Sentences on how good the field is, and on what a reader should doubt.
    verdicts, advice
        Answers to the three questions, and what to do next.
    opening
        The first picture.
    sections, after
        Tables above and below the pictures.
    further
        More pictures.
    """
    return Page(
        title=title, lead=lead, statements=verdict, warnings=warnings, verdicts=verdicts,
        advice=advice, opening=opening, sections=sections, pictures=further, after=after,
        closing=closing,
    )  # fmt: skip


def render_table(report: ComparisonResult) -> str:
    """Return the table of figures alone as HTML, for notebooks."""
    section = figures_section(report, report.verdict())
    return visible(ENVIRONMENT.get_template("notebook.html").render(section=section))


def figures_section(report: ComparisonResult, title: str) -> Section:
    """Return the table of all figures of a comparison."""
    figures = report.figures
    columns = figure_columns(figures, report.points_are)
    return Section(title, columns, figure_rows(figures, report.accuracy))
