"""A report as plain data: a header, verdicts and sections, in the order in which they are read."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from coupledgp.diagnostics.sections.section import ReportTable, Section
from coupledgp.diagnostics.studies.tables import Table
from coupledgp.diagnostics.verdicts.verdict import SIGNS, Advice, Verdict, in_units_of
from coupledgp.ground.notebook import Card, Notebook, NotebookTable

if TYPE_CHECKING:
    from coupledgp.diagnostics.pages.picture import Picture

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Layout:
    """A header, verdicts and an ordered list of sections.

    Attributes
    ----------
    title : str
        Heading.
    lead, closing : sequence of str
        Paragraphs below the heading, and at the end.
    links : sequence of (str, str)
        Addresses and texts of pages beside this one, below the heading.
    headline : str
        The sentence that says the most, above everything but warnings; may be empty.
    warnings : sequence of str
        Sentences that come before everything else.
    verdicts : sequence of Verdict
        Answers to the three questions.
    badges : sequence of Verdict
        Short answers to further questions, below the verdicts.
    statements : sequence of str
        Main figures in words, where there are no verdicts.
    remarks : sequence of str
        Sentences that a reader needs beside single figures.
    advice : sequence of Advice
        What to do next, the greatest gain first.
    sections : sequence of Section
        The content, in the order in which it is read.
    """

    title: str
    lead: Sequence[str] = ()
    closing: Sequence[str] = ()
    links: Sequence[tuple[str, str]] = ()
    headline: str = ""
    warnings: Sequence[str] = ()
    verdicts: Sequence[Verdict] = ()
    badges: Sequence[Verdict] = ()
    statements: Sequence[str] = ()
    remarks: Sequence[str] = ()
    advice: Sequence[Advice] = ()
    sections: Sequence[Section] = ()

    def drawn(self) -> dict[str, Picture]:
        """Return the pictures by name, in the order of the sections."""
        pictures = [draw() for one in self.sections for draw in one.pictures]
        return _by_name([(picture.name, picture) for picture in pictures])

    def listed(self) -> dict[str, ReportTable]:
        """Return the tables by name, in the order of the sections."""
        tables = [table for one in self.sections for table in one.shown_tables()]
        return _by_name([(table.name or slug(table.title), table) for table in tables])

    def parts(self) -> dict[str, Any]:
        """The report with its sections as templates take them: named tables, named pictures."""
        tables = iter(self.listed().items())
        pictures = iter(self.drawn().items())
        parts = [
            {
                "section": one,
                "tables": [next(tables) for _ in one.shown_tables()],
                "pictures": [next(pictures) for _ in one.pictures],
            }
            for one in self.sections
        ]
        return {"page": self, "parts": parts}

    def named(self, target: str) -> Self:
        """The report with the reader's name of y where texts and pictures have `units of y`."""
        if target in ("", "y"):
            return self
        return replace(
            self, **{one.name: _named(getattr(self, one.name), target) for one in fields(self)}
        )

    def notebook(self) -> Notebook:
        """The parts that a notebook shows: warnings, verdicts, sentences, and tables by section."""
        further = [f"{'Or' if k else 'To do next'}: {one.text()}"
                   for k, one in enumerate(self.advice)]  # fmt: skip
        said = [_said(one) for one in self.sections if one.sentence]
        tables = [
            NotebookTable(shown.title, shown.columns, shown.rows, one.heading)
            for one in self.sections
            for shown in (table.shown() for table in one.shown_tables() if not table.folded)
        ]
        cards = [
            Card(
                one.question,
                one.sentence,
                one.colour,
                " ".join(SIGNS[one.colour]),
                f"{one.detail} {one.reason}".strip() if one.is_given else "",
            )
            for one in [*self.verdicts, *self.badges]
        ]
        first = [self.headline] if self.headline else []
        sentences = [*first, *further, *self.statements, *said]
        draw = next((draw for one in self.sections for draw in one.pictures), None)
        picture = None if draw is None else draw().in_notebook()
        return Notebook(self.title, self.warnings, cards, sentences, tables, picture)

    def figure_table(self) -> Table:
        """All figures: names of the columns, and a row for each number."""
        rows = [
            [one.key, name, value]
            for one in self.sections
            for name, value in one.flat_figures()
            if value is not None
        ]
        return ["section", "figure", "value"], rows

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the pictures as plain Python values."""
        return {
            "title": self.title,
            "headline": self.headline,
            "lead": list(self.lead),
            "warnings": list(self.warnings),
            "verdicts": [one.to_dict() for one in self.verdicts],
            "badges": [one.to_dict() for one in self.badges],
            "statements": list(self.statements),
            "advice": [one.to_dict() for one in self.advice],
            "remarks": list(self.remarks),
            "sections": [one.to_dict() for one in self.sections],
            "closing": list(self.closing),
        }


def _named(value: Any, target: str) -> Any:
    """Texts, and what is made of them, with the name of y in units."""
    if isinstance(value, str):
        return in_units_of(value, target)
    if isinstance(value, ReportTable):
        return ReportTable(*(_named(one, target) for one in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_named(one, target) for one in value)
    if isinstance(value, Section):
        draws = [partial(_picture_named, draw, target) for draw in value.pictures]
        title, sentence = _named(value.title, target), _named(value.sentence, target)
        tables = _named(list(value.tables), target)
        return replace(value, title=title, sentence=sentence, tables=tables, pictures=draws)
    if isinstance(value, (Verdict, Advice)):
        kept = {one.name: _named(getattr(value, one.name), target) for one in fields(value)}
        return replace(value, **kept)
    return value


def _picture_named(draw: Callable[[], Picture], target: str) -> Picture:
    return draw().named(target)


def _said(section: Section) -> str:
    """The sentence of a section behind its heading."""
    return f"{section.heading}: {section.sentence}" if section.heading else section.sentence


def slug(text: str) -> str:
    """Return a short name for files of the first words of a text, letters and digits alone."""
    words = re.findall(r"[a-z0-9]+", text.lower())
    return "-".join(words[:6]) or "table"


def _by_name(found: Sequence[tuple[str, T]]) -> dict[str, T]:
    """Values by name; a name that comes again gets a number."""
    named: dict[str, T] = {}
    for name, value in found:
        free, k = name, 2
        while free in named:
            free, k = f"{name}-{k}", k + 1
        named[free] = value
    return named
