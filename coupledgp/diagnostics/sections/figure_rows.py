"""Distances, scores and differences of a comparison as rows of texts, with their errors."""

from __future__ import annotations

from coupledgp.diagnostics.scoring.figures import Accuracy, Figures
from coupledgp.diagnostics.scoring.score_table import (
    PREFIXES,
    SCORES,
    Score,
    paired_scores,
    per_cent,
)
from coupledgp.diagnostics.sections.table import Row

# Texts and names of the figures that compare the two laws, so that the reference has none.
COMPARED = (
    ("KL(reference || model), nats per point", "kl_per_point"),
    ("KL(model || reference), nats per point", "reverse_kl_per_point"),
    ("KL between the priors, nats per point", "prior_kl_per_point"),
    ("kernel error, relative Frobenius", "kernel_relative_error"),
    ("kernel RMSE, units of y squared", "kernel_rmse"),
)


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
    for score in SCORES:
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
    for score in SCORES:
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
