"""Figures as rows of text, for tables on a page or in a terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from coupledgp.diagnostics.figures import Accuracy, Figures
from coupledgp.diagnostics.score_table import PREFIXES, SCORES, Score, paired_scores, per_cent

# Texts and names of the figures that compare the two laws, so that the reference has none.
COMPARED = (
    ("KL(reference || model), nats per point", "kl_per_point"),
    ("KL(model || reference), nats per point", "reverse_kl_per_point"),
    ("KL between the priors, nats per point", "prior_kl_per_point"),
    ("kernel error, relative Frobenius", "kernel_relative_error"),
    ("kernel RMSE, units of y squared", "kernel_rmse"),
)
Row = tuple[str, ...]


class Section(NamedTuple):
    """A table of texts: its title, the names of its columns, and its rows."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def figure_columns(figures: Figures) -> Row:
    """Heads of the columns of `figure_rows`: the test points, model and any reference."""
    errors = ", scores ± s.e. over them" if figures.standard_errors else ""
    heads = f"{figures.n_test} test points{errors}", "model", "reference"
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
    rows: list[Row] = [
        (text, f"{value:.4g} {accuracy.text(name)}".strip(), "")
        for text, name in COMPARED
        if (value := figures.get(name)) is not None
    ]
    rows += _score_rows(figures, accuracy)
    if figures.n_scored is not None:
        scored = f"{figures.n_scored} of {figures.n_test}"
        rows.append(("points scored, but for the joint NLPD", scored, scored))
    rows += _level_rows(figures, accuracy) + _difference_rows(figures, accuracy)
    return rows if has_reference(figures) else [row[:2] for row in rows]


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


def _difference_rows(figures: Figures, accuracy: Accuracy) -> list[Row]:
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


def short_numbers(text: str) -> str:
    """Return a text in which long decimals are rounded to four significant digits."""
    return re.sub(r"\d+\.\d{4,}(e-?\d+)?", lambda found: f"{float(found[0]):.4g}", text)
