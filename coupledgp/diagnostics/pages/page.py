"""A page as plain data: what it says, shows and lists, in the order in which it is read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TypeVar

from coupledgp.diagnostics.pages.picture import FORMATS, Picture
from coupledgp.diagnostics.pages.table import Section
from coupledgp.diagnostics.verdicts.verdict import Advice, Verdict
from coupledgp.ground.output import write_text
from coupledgp.ground.validation import check_choice

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Page:
    """The content of a page.

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
    statements : sequence of str
        Main figures in words, where there are no verdicts.
    remarks : sequence of str
        Sentences that a reader needs beside single figures.
    advice : sequence of Advice
        What to do next, the greatest gain first.
    opening : Picture or None
        The picture above all tables.
    sections, after : sequence of Section
        Tables above and below the other pictures.
    pictures : sequence of Picture
        The other pictures.
    models : sequence of (str, str)
        Names and texts of the models, folded.
    """

    title: str
    lead: Sequence[str] = ()
    closing: Sequence[str] = ()
    links: Sequence[tuple[str, str]] = ()
    headline: str = ""
    warnings: Sequence[str] = ()
    verdicts: Sequence[Verdict] = ()
    statements: Sequence[str] = ()
    remarks: Sequence[str] = ()
    advice: Sequence[Advice] = ()
    opening: Picture | None = None
    sections: Sequence[Section] = ()
    pictures: Sequence[Picture] = ()
    after: Sequence[Section] = ()
    models: Sequence[tuple[str, str]] = ()

    def drawn(self) -> dict[str, Picture]:
        """Return the pictures by name, in the order of the page."""
        first = [] if self.opening is None else [self.opening]
        return _by_name([(one.name, one) for one in [*first, *self.pictures]])

    def listed(self) -> dict[str, Section]:
        """Return the tables by name, in the order of the page."""
        return _by_name(
            [(one.name or slug(one.title), one) for one in [*self.sections, *self.after]]
        )

    def save_pictures(self, folder: str | PathLike[str], form: str = "svg") -> list[Path]:
        """Write each picture as `<name>.<form>` into a folder, and return the paths."""
        check_choice(form, FORMATS, "format")
        saved = []
        for name, picture in self.drawn().items():
            path = _inside(folder, f"{name}.{form}")
            picture.save(path, form)
            saved.append(path)
        return saved

    def save_tables(self, folder: str | PathLike[str]) -> list[Path]:
        """Write each table as `<name>.csv` into a folder, and return the paths."""
        saved = []
        for name, section in self.listed().items():
            path = _inside(folder, f"{name}.csv")
            write_text(path, section.to_csv(), newline="")
            saved.append(path)
        return saved


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


def _inside(folder: str | PathLike[str], name: str) -> Path:
    """Path of a file in a folder that is made if it is missing."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    return Path(folder) / name
