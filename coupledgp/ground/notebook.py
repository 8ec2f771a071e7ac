"""What a notebook shows of a result: cards, sentences and small tables in one piece of HTML."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from coupledgp.ground.visible import visible

# Most letters of the HTML, of one text and of one cell, and most rows and columns of a table.
MOST, LONGEST, LONGEST_CELL, ROWS, COLUMNS = 90_000, 1_500, 120, 12, 10
# Colours behind the white words of badges; their contrast exceeds 4.5 on any paper.
BADGES = {"green": "#1a7f37", "amber": "#9a6700", "red": "#cf222e", "grey": "#656d76"}
# Lines and edges that are seen on light and on dark paper; texts inherit the notebook's colour.
LINE = "rgba(127,127,127,.4)"
CELL = f"padding:2px 8px;border-bottom:1px solid {LINE};text-align:left"
LEFT_OUT = '<p style="margin:4px 0">Further parts are left out here.</p>'


@dataclass(frozen=True)
class Card:
    """One answer: a question, a badge of a colour, and a sentence.

    Attributes
    ----------
    question, sentence : str
        The texts.
    colour : str
        `"green"`, `"amber"`, `"red"` or `"grey"`.
    badge : str
        Sign and word of the colour, so that nobody has to tell colours apart.
    folded : str
        Figures and the rule behind the answer, folded away; may be empty.
    """

    question: str
    sentence: str
    colour: str
    badge: str
    folded: str = ""

    def html(self) -> str:
        """The card as HTML with the styles in it."""
        colour = BADGES[self.colour]
        return (
            f'<div style="border:1px solid {LINE};border-left:5px solid {colour};'
            f'border-radius:4px;padding:6px 10px;margin:6px 0;max-width:60em">'
            f"<strong>{_text(self.question)}</strong> "
            f'<span style="background:{colour};color:#fff;border-radius:9px;padding:1px 8px;'
            f'font-size:85%">{_text(self.badge)}</span><br>{_text(self.sentence)}{self._fold()}</div>'
        )

    def _fold(self) -> str:
        if not self.folded:
            return ""
        return (
            '<details style="font-size:85%;margin-top:4px"><summary>Figures and rule</summary>'
            f"{_text(self.folded)}</details>"
        )


@dataclass(frozen=True)
class NotebookTable:
    """A small table; the first cell of each row names it.

    Attributes
    ----------
    title : str
        Caption.
    columns : sequence of str
        Heads of the columns.
    rows : sequence of sequence
        Cells: texts, or numbers, which are shown to four digits.
    heading : str
        Heading above the table; may be empty.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    heading: str = ""

    def html(self, opened: bool = True) -> str:
        """The table as HTML behind its title; rows and columns beyond the limits are counted."""
        heads = "".join(self._cell("th", name, "col") for name in self.columns[:COLUMNS])
        body = "".join(f"<tr>{self._row(row[:COLUMNS])}</tr>" for row in self.rows[:ROWS])
        missing = (
            (len(self.rows) - ROWS, "rows"), (len(self.columns) - COLUMNS, "columns")
        )  # fmt: skip
        more = ", ".join(f"{count} {name}" for count, name in missing if count > 0)
        note = f"<div>Not shown: {more}.</div>" if more else ""
        title = " · ".join(filter(None, dict.fromkeys((self.heading, self.title)))) or "Table"
        return (
            f'<details{" open" if opened else ""} style="margin:6px 0">'
            f'<summary style="cursor:pointer">{_text(title)}</summary>'
            f'<table style="border-collapse:collapse"><thead><tr>{heads}</tr></thead>'
            f"<tbody>{body}</tbody></table>{note}</details>"
        )

    def _row(self, row: Sequence[Any]) -> str:
        cells = [_written(cell) for cell in row]
        rest = "".join(self._cell("td", cell) for cell in cells[1:])
        return self._cell("th", cells[0], "row") + rest if cells else ""

    @staticmethod
    def _cell(tag: str, text: str, scope: str = "") -> str:
        where = f' scope="{scope}"' if scope else ""
        return f'<{tag}{where} style="{CELL}">{_text(text, LONGEST_CELL)}</{tag}>'


@dataclass(frozen=True)
class Notebook:
    """The parts of a result in the order in which they are read.

    Attributes
    ----------
    title : str
        Heading.
    warnings : sequence of str
        Sentences that come before everything else.
    cards : sequence of Card
        Answers.
    sentences : sequence of str
        Paragraphs below the cards.
    tables : sequence of NotebookTable
        Tables; the first one is open, the others open at a click.
    """

    title: str
    warnings: Sequence[str] = ()
    cards: Sequence[Card] = ()
    sentences: Sequence[str] = ()
    tables: Sequence[NotebookTable] = ()

    def html(self) -> str:
        """One piece of HTML below 100 kB that fetches nothing; all texts are escaped."""
        kept: list[str] = []
        left = MOST
        for part in self._parts():
            left -= len(part.encode())
            if left < 0:
                kept.append(LEFT_OUT)
                break
            kept.append(part)
        return f'<div class="coupledgp-report">{"".join(kept)}</div>'

    def _parts(self) -> Iterator[str]:
        yield f"<p><strong>{_text(self.title)}</strong></p>"
        yield from map(_paragraph, self.warnings)
        yield from (card.html() for card in self.cards)
        yield from map(_paragraph, self.sentences)
        yield from (table.html(opened=k == 0) for k, table in enumerate(self.tables))


class Shown(ABC):
    """What a notebook shows where it is the last line of a cell."""

    @abstractmethod
    def notebook(self) -> Notebook:
        """Its parts for a notebook, in the order in which they are read."""

    def _repr_html_(self) -> str:
        return self.notebook().html()


class ExplainedChoice(Shown):
    """A choice that says in words what it is, on paper and in a notebook."""

    @abstractmethod
    def explain(self) -> str:
        """The choice and the figures that decided, in words."""

    def __str__(self) -> str:
        return self.explain()

    def notebook(self) -> Notebook:
        """Its explanation, a paragraph a line, for a notebook."""
        return Notebook(type(self).__name__, sentences=self.explain().splitlines())


def _paragraph(line: str) -> str:
    return f'<p style="margin:4px 0;max-width:60em">{_text(line)}</p>'


def _text(text: str, longest: int = LONGEST) -> str:
    """A text for HTML: escaped, without control characters, and cut where it is very long."""
    short = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return escape(visible(short))


def _written(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else f"{value}"
