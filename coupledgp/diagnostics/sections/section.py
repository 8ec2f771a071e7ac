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

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from coupledgp.diagnostics.sections.table import ReportTable
from coupledgp.ground.validation import check_choice
from coupledgp.registry import Roster

if TYPE_CHECKING:
    from coupledgp.diagnostics.pages.picture import Picture

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
SECTIONS: Roster[Registered] = Roster(
    "key", share=lambda one, other: bool(one.kinds & _with_related(other.kinds))
)


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
    places = [k for k, one in enumerate(SECTIONS) if one.key == before and one.kinds & related]
    SECTIONS.enter(Registered(key, build, chosen), replace=replace, place=min(places, default=None))


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
    SECTIONS.leave(key)


def _with_related(kinds: frozenset[str]) -> frozenset[str]:
    """Kinds, and all kinds of comparisons where one of them is a comparison."""
    return kinds | COMPARISONS if kinds & COMPARISONS else kinds


def sections_of(subject: Any, kinds: Sequence[str]) -> list[Section]:
    """The sections that have something to say of a subject, in order."""
    built = (one.build(subject) for one in list(SECTIONS) if one.kinds & set(kinds))
    return [one for one in built if one is not None]
