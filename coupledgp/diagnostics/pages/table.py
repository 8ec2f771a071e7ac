"""Figures as rows of text, for tables on a page or in a terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from coupledgp.diagnostics.figures import Accuracy, Figures
from coupledgp.diagnostics.score_table import PREFIXES, SCORES, Score, paired_scores, per_cent
from coupledgp.diagnostics.studies.tables import csv_of

# Texts and names of the figures that compare the two laws, so that the reference has none.
COMPARED = (
    ("KL(reference || model), nats per point", "kl_per_point"),
    ("KL(model || reference), nats per point", "reverse_kl_per_point"),
    ("KL between the priors, nats per point", "prior_kl_per_point"),
    ("kernel error, relative Frobenius", "kernel_relative_error"),
    ("kernel RMSE, units of y squared", "kernel_rmse"),
)
Row = tuple[str, ...]
# A cell of a number with what is known of its error: `-0.14 ± 0.06 (bounds -1e-5 +2e-5)`.
CELL = re.compile(r"(?P<value>[^±(]*?)(?: ± (?P<error>[^\s(]+(?: %)?))?(?: \((?P<note>[^()]*)\))?")
# Cells that a spreadsheet would take for formulas.
FORMULA = re.compile(r"[=@\t\r]|[+-](?![\d.])")


class Section(NamedTuple):
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
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    name: str = ""
    folded: bool = False
    note: str = ""

    def shown(self) -> Section:
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


def figure_columns(figures: Figures, points: str = "test points") -> Row:
    """Heads of the columns of `figure_rows`: the points, model and any reference."""
    errors = ", scores ± s.e. over them" if figures.standard_errors else ""
    heads = f"{figures.n_test} {points}{errors}", "model", "reference"
    return heads if has_reference(figures) else heads[:2]


def has_reference(figures: Figures) -> bool:
    """Whether the figures compare a model with a reference."""
    return figures.kl_per_point is not None


def figure_rows(figures: Figures, accuracy: Accuracy | None = None) -> list[Row]:
    """Rows (figure, model, reference), or (figure, model) where there is no reference.

    Figures that are None are left out.

    With `accuracy`, the errors of figures that have some stand beside them.
    """
    accuracy = Accuracy("dense") if accuracy is None else accuracy
    rows = distance_rows(figures, accuracy) + score_rows(figures, accuracy)
    rows += difference_rows(figures, accuracy)
    return rows if has_reference(figures) else [row[:2] for row in rows]


def distance_rows(figures: Figures, accuracy: Accuracy) -> list[Row]:
    """Rows (figure, value, nothing) of the distances of the model from the reference."""
    return [
        (text, f"{value:.4g} {accuracy.text(name)}".strip(), "")
        for text, name in COMPARED
        if (value := figures.get(name)) is not None
    ]


def score_rows(figures: Figures, accuracy: Accuracy) -> list[Row]:
    """Rows (score, model, reference) of the scores, and of coverage and widths of intervals."""
    rows = _score_rows(figures, accuracy)
    if figures.n_scored is not None:
        scored = f"{figures.n_scored} of {figures.n_test}"
        rows.append(("points scored, but for the joint NLPD", scored, scored))
    return rows + _level_rows(figures, accuracy)


def _score_rows(figures: Figures, accuracy: Accuracy) -> list[Row]:
    """Rows of the scores that are a number."""
    rows: list[Row] = []
    for score in SCORES.values():
        if isinstance(figures.get(score.name), float):
            own, other = (_score_cell(score, prefix, figures, accuracy) for prefix in PREFIXES)
            rows.append((score.heading(), own, other))
    return rows


def _score_cell(score: Score, prefix: str, figures: Figures, accuracy: Accuracy) -> str:
    """A score of the model or the reference, its standard error over points and its accuracy."""
    value = figures.get(prefix + score.name)
    if value is None:
        return ""
    error = (figures.get(f"{prefix}standard_errors") or {}).get(score.name)
    spread = "" if error is None else f" ± {error:.2g}"
    return f"{score.format(value)}{spread} {accuracy.text(prefix + score.name)}".strip()


def _level_rows(figures: Figures, accuracy: Accuracy) -> list[Row]:
    """Rows of the scores that are a number for each nominal level."""
    rows: list[Row] = []
    for score in SCORES.values():
        own = figures.get(score.name)
        if isinstance(own, dict):
            for level in own:
                cells = [
                    _level_cell(score, prefix, level, figures, accuracy) for prefix in PREFIXES
                ]
                rows.append((score.heading(level), *cells))
    return rows


def _level_cell(
    score: Score, prefix: str, level: float, figures: Figures, accuracy: Accuracy
) -> str:
    """A score of the model or the reference at a nominal level, and its accuracy."""
    values = figures.get(prefix + score.name)
    if not isinstance(values, dict):
        return ""
    error = accuracy.text(prefix + score.name, score.format is per_cent)
    return f"{score.format(values[level])} {error}".strip()


def difference_rows(figures: Figures, accuracy: Accuracy) -> list[Row]:
    """Rows of the paired differences, model minus reference, with their standard errors."""
    rows: list[Row] = []
    for score in paired_scores():
        gap = (figures.differences or {}).get(score.difference_name)
        if gap is not None:
            error = gap["standard_error"]
            spread = "" if error is None else f" ± {error:.2g}"
            text = f"model - reference, {score.difference_label}"
            name = f"differences.{score.difference_name}"
            rows.append((text, f"{gap['mean']:+.3g}{spread} {accuracy.text(name)}".strip(), ""))
    return rows


def figure_sections(
    figures: Figures, accuracy: Accuracy, title: str, points: str = "test points"
) -> list[Section]:
    """Return the tables of scores, of the distance from a reference, and of differences from it.

    Those that would be empty are left out. `points` says what the points of the figures are.
    """
    over = "; ± is the standard error over them" if figures.standard_errors else ""
    heads = ("", "model", "reference")
    found = [
        Section(title, heads, score_rows(figures, accuracy), "scores",
                note=f"At {figures.n_test} {points}{over}").shown(),
        Section("Distance from the reference", ("", "value"),
                [row[:2] for row in distance_rows(figures, accuracy)], "distance"),
        Section("Model minus reference, point by point", ("", "mean ± s.e."),
                [row[:2] for row in difference_rows(figures, accuracy)], "differences"),
    ]  # fmt: skip
    return [section for section in found if section.rows]


def short_numbers(text: str) -> str:
    """Return a text in which long decimals are rounded to four significant digits."""
    return re.sub(r"\d+\.\d{4,}(e-?\d+)?", lambda found: f"{float(found[0]):.4g}", text)
