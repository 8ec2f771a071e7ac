"""A table of texts, for people: on a page, on a terminal, and as CSV."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from coupledgp.diagnostics.studies.tables import csv_of

Row = tuple[str, ...]
# A cell of a number with what is known of its error: `-0.14 ± 0.06 (bounds -1e-5 +2e-5)`.
CELL = re.compile(r"(?P<value>[^±(]*?)(?: ± (?P<error>[^\s(]+(?: %)?))?(?: \((?P<note>[^()]*)\))?")
# Cells that a spreadsheet would take for formulas.
FORMULA = re.compile(r"[=@\t\r]|[+-](?![\d.])")


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
