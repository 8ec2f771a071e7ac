"""A section of a report, and the ordered registry of the functions that build sections.

A report is a header, verdicts and an ordered list of sections. A section is built by one function
of what the report is about, and registered once. Page, notebook, JSON, CSV and terminal know
nothing but sections, so that all five show it:

    def by_weekday(report):
        error = abs(report.predictions.y - report.predictions.mean)
        return Section("weekday", "Errors by weekday", figures={"Monday": error[::7].mean()})

    register_section("weekday", by_weekday)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from coupledgp.diagnostics.studies.tables import csv_of
from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import check_choice, unknown_choice

if TYPE_CHECKING:
    from coupledgp.diagnostics.pages.picture import Picture

Row = tuple[str, ...]
# A cell of a number with what is known of its error: `-0.14 ± 0.06 (bounds -1e-5 +2e-5)`.
CELL = re.compile(r"(?P<value>[^±(]*?)(?: ± (?P<error>[^\s(]+(?: %)?))?(?: \((?P<note>[^()]*)\))?")
# Cells that a spreadsheet would take for formulas.
FORMULA = re.compile(r"[=@\t\r]|[+-](?![\d.])")
# Kinds of reports. A report may be of several: an audit is a comparison, too.
KINDS = (
    "comparison", "audit", "study", "left-out", "space-time", "fit", "graph", "field", "series",
    "demo", "classes", "likelihood",
)  # fmt: skip
# Those that are comparisons.
COMPARISONS = frozenset({"comparison", "audit", "study", "left-out", "classes", "likelihood"})
# The section before which others are put unless they say otherwise.
LAST = "provenance"


@dataclass(frozen=True, eq=False)
class Section:
    """A part of a report: a sentence, figures, tables and pictures, each of them optional.

    Attributes
    ----------
    key : str
        Short name, of which those of files and addresses on a page are made.
    title : str
        Heading; empty where tables have titles of their own.
    sentence : str
        What the section says, in words.
    figures : mapping of str to numbers, or to mappings of them
        Numbers in full precision, for JSON and CSV. Without a table they are shown as one.
    tables : sequence of ReportTable
        Tables of texts, for people.
    pictures : sequence of callable
        Functions without arguments that draw a picture each; a terminal and JSON call none.

    Examples
    --------
    >>> from coupledgp.diagnostics import Section
    >>> section = Section("weekday", "Errors by weekday", figures={"Monday": 0.25, "Sunday": 0.5})
    >>> dict(section.flat_figures())
    {'Monday': 0.25, 'Sunday': 0.5}
    >>> section.shown_tables()[0].rows
    [('Monday', '0.25'), ('Sunday', '0.5')]
    """

    key: str
    title: str = ""
    sentence: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)
    tables: Sequence[ReportTable] = ()
    pictures: Sequence[Callable[[], Picture]] = ()

    def shown_tables(self) -> list[ReportTable]:
        """The tables, or one of the figures where there are figures alone."""
        if self.tables or not self.figures:
            return list(self.tables)
        rows = [(name, text_of_figure(value)) for name, value in self.flat_figures()]
        return [ReportTable(self.title, ("", "value"), rows, self.key)]

    @property
    def heading(self) -> str:
        """The title, unless a table shows it."""
        return "" if any(one.title == self.title for one in self.shown_tables()) else self.title

    def flat_figures(self) -> Iterator[tuple[str, Any]]:
        """Names and values of the figures; names of nested ones are joined by dots."""
        yield from _flat(self.figures, "")

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the pictures as plain values."""
        tables = [
            {"title": one.title, "note": one.note, "columns": list(one.columns),
             "rows": [list(row) for row in one.rows]}
            for one in self.shown_tables()
        ]  # fmt: skip
        return {
            "key": self.key, "title": self.title, "sentence": self.sentence,
            "figures": plain(self.figures), "tables": tables,
        }  # fmt: skip


def plain(value: Any) -> Any:
    """Numbers of NumPy and mappings as plain Python values."""
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value.tolist() if hasattr(value, "tolist") else value


def text_of_figure(value: Any) -> str:
    """A figure to four significant digits."""
    return f"{value:.4g}" if isinstance(value, float) else f"{value}"


def _flat(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        items: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    else:
        yield name, plain(value)
        return
    for key, one in items:
        yield from _flat(one, f"{name}.{key}" if name else f"{key}")


# Builds a section from what a report is about; None where it has nothing to say.
BuildSection = Callable[[Any], Section | None]


class Registered(NamedTuple):
    """A function that builds a section, its key, and the kinds of reports that it is built for."""

    key: str
    build: BuildSection
    kinds: frozenset[str]


# In the order in which sections are read.
SECTIONS: list[Registered] = []


def register_section(
    key: str,
    build: BuildSection,
    kinds: str | Sequence[str] = "comparison",
    *,
    before: str = LAST,
    replace: bool = False,
) -> None:
    """Add a section to all reports of some kinds that are made from now on.

    Parameters
    ----------
    key
        Name of the section, which no other one of these kinds has.
    build
        Function of what the report is about: the report itself (a `PosteriorReport` or one of its
        kinds, a `SpaceTimeReport`), or what a command found. It returns a section, or None where
        it has nothing to say.
    kinds
        Kinds of reports: `"comparison"` (of which audits, studies and cross-validations are
        special kinds), `"audit"`, `"study"`, `"left-out"`, `"classes"` and `"likelihood"` (reports
        of classifiers, and of those and of other laws that are not normal), `"space-time"`, and
        those of the commands, `"fit"`, `"graph"`, `"field"`, `"series"`, `"demo"`.
    before
        Key of the section before which it stands; where there is none of that key it comes last.
    replace
        Put it in the place of the section of these kinds that has the key, if there is one.

    Raises
    ------
    InvalidInputError
        A kind is unknown, or the key is taken.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> from coupledgp.diagnostics import Section, compare, register_section, unregister_section
    >>> def by_half(report):
    ...     error = abs(report.predictions.y - report.predictions.mean)
    ...     return Section("halves", "Errors by half", figures={"first": error[:15].mean()})
    >>> register_section("halves", by_half)
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    >>> model = cgp.ExactGPRegressor(optimizer=None, lengthscale=1.5, noise=0.02)
    >>> report = compare(model.fit(X[::2], y[::2]), X[1::2], y[1::2])
    >>> [one["title"] for one in report.to_dict()["sections"] if one["key"] == "halves"]
    ['Errors by half']
    >>> unregister_section("halves")
    """
    chosen = frozenset([kinds] if isinstance(kinds, str) else kinds)
    for kind in chosen:
        check_choice(kind, KINDS, "kinds")
    related = _with_related(chosen)
    rivals = [one for one in SECTIONS if one.key == key and one.kinds & related]
    if rivals and not replace:
        raise InvalidInputError(f"key: {key!r} is taken; replace=True puts this one in its place")
    sought = key if rivals else before
    places = (k for k, one in enumerate(SECTIONS) if one.key == sought and one.kinds & related)
    SECTIONS.insert(next(places, len(SECTIONS)), Registered(key, build, chosen))
    for one in rivals:
        SECTIONS.remove(one)


def unregister_section(key: str) -> None:
    """Take the sections of a key out of all reports that are made from now on.

    Raises
    ------
    InvalidInputError
        There is none of that key.

    Examples
    --------
    >>> from coupledgp.diagnostics import Section, register_section, unregister_section
    >>> register_section("empty", lambda report: None)
    >>> unregister_section("empty")
    >>> unregister_section("empty")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    coupledgp.errors.InvalidInputError: key: expected ...
    """
    if all(one.key != key for one in SECTIONS):
        raise InvalidInputError(unknown_choice(key, {one.key for one in SECTIONS}, "key"))
    SECTIONS[:] = [one for one in SECTIONS if one.key != key]


def _with_related(kinds: frozenset[str]) -> frozenset[str]:
    """Kinds, and all kinds of comparisons where one of them is a comparison."""
    return kinds | COMPARISONS if kinds & COMPARISONS else kinds


def sections_of(subject: Any, kinds: Sequence[str]) -> list[Section]:
    """The sections that have something to say of a subject, in order."""
    built = (one.build(subject) for one in list(SECTIONS) if one.kinds & set(kinds))
    return [one for one in built if one is not None]


class ReportTable(NamedTuple):
    """A table of texts.

    Attributes
    ----------
    title : str
    columns : sequence of str
        Heads of the columns.
    rows : sequence of sequence of str
        Cells; the first of each row names it.
    name : str
        Short name, of which that of a file is made; empty: the first words of the title.
    folded : bool
        Whether a page shows the title alone until it is opened.
    note : str
        A sentence below the title; may be empty.

    Examples
    --------
    >>> from coupledgp.diagnostics import ReportTable
    >>> rows = [["north", "0.14 ± 0.06"], ["south", "0.2"]]
    >>> table = ReportTable("Sites", ["site", "error"], rows)
    >>> table.kinds()
    ['name', 'number']
    >>> table.to_csv().splitlines()
    ['site,error,error ±', 'north,0.14,0.06', 'south,0.2,']
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    name: str = ""
    folded: bool = False
    note: str = ""

    def shown(self) -> ReportTable:
        """Return the table without columns that are empty."""
        kept = [k for k in range(len(self.columns)) if k == 0 or any(row[k] for row in self.rows)]
        return self._replace(
            columns=[self.columns[k] for k in kept],
            rows=[[row[k] for k in kept] for row in self.rows],
        )

    def kinds(self) -> list[str]:
        """Return for each column whether it is a `"name"`, `"number"`s or `"text"`."""
        kinds = ["name"]
        for k in range(1, len(self.columns)):
            cells = [row[k] for row in self.rows if row[k]]
            numbers = sum(bool(re.match(r"[+-]?[\d.]|± |[+-]?(?:nan|inf)\b", one)) for one in cells)
            is_long = any(len(one) > MAX_NUMBER and "(" not in one for one in cells)
            kinds.append("text" if is_long or numbers < len(cells) / 2 else "number")
        return kinds

    def to_csv(self) -> str:
        """Return the table as CSV: errors and notes of numbers in columns of their own."""
        split = [self._columns_of(k) for k in range(1, len(self.columns))]
        columns = [column for found in split for column in found]
        heads = [self.columns[0], *(head for head, _ in columns)]
        rows = [
            [self.rows[i][0], *(cells[i] for _, cells in columns)] for i in range(len(self.rows))
        ]
        return csv_of(([safe_cell(one) for one in heads], [[*map(safe_cell, r)] for r in rows]))

    def _columns_of(self, k: int) -> list[tuple[str, list[str]]]:
        """Heads and cells of a column of the page, split into values, errors and notes."""
        head, cells = self.columns[k], [row[k] for row in self.rows]
        if self.kinds()[k] == "text":
            return [(head, cells)]
        found = [CELL.fullmatch(cell) for cell in cells]
        values = [
            cell if one is None else one["value"] for cell, one in zip(cells, found, strict=True)
        ]
        columns = [(head, values)]
        for part, ending in (("error", "±"), ("note", "accuracy")):
            parts = [(one and one[part]) or "" for one in found]
            if any(parts):
                columns.append((f"{head} {ending}".strip(), parts))
        return columns


# Longest cell of a column of numbers.
MAX_NUMBER = 24


def safe_cell(text: str) -> str:
    """Return a cell that no spreadsheet takes for a formula, whatever a name in it is."""
    return f"'{text}" if FORMULA.match(text) else text


def short_numbers(text: str) -> str:
    """Return a text in which long decimals are rounded to four significant digits."""
    return re.sub(r"\d+\.\d{4,}(e-?\d+)?", lambda found: f"{float(found[0]):.4g}", text)
