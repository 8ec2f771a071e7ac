"""Figures as rows of text, for tables on a page or a terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from coupledgp.diagnostics.result import Accuracy, Figures

# Text, name, and whether the reference has it too.
ROWS = (
    ("KL(reference || model), nats per point", "kl_per_point", False),
    ("KL(model || reference), nats per point", "reverse_kl_per_point", False),
    ("KL between the priors, nats per point", "prior_kl_per_point", False),
    ("kernel error, relative Frobenius", "kernel_relative_error", False),
    ("kernel RMSE, units of y squared", "kernel_rmse", False),
    ("RMSE, units of y", "rmse", True),
    ("MAE, units of y", "mae", True),
    ("NLPD, marginal, nats per point", "nlpd", True),
    ("NLPD, joint, nats per point", "nlpd_joint", True),
    ("CRPS, units of y", "crps", True),
    ("sharpness (root mean variance), units of y", "sharpness", True),
)
DIFFERENCES = {
    "squared_error": "squared error",
    "absolute_error": "absolute error",
    "nlpd": "NLPD",
    "crps": "CRPS",
}


class Section(NamedTuple):
    """A table of texts: its title, its columns' names and its rows."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def figure_columns(figures: Figures) -> tuple[str, str, str]:
    """Heads of the columns of `figure_rows`: what they are of, model and reference."""
    errors = ", scores ± s.e. over them" if figures.standard_errors else ""
    return f"{figures.n_test} test points{errors}", "model", "reference"


def figure_rows(figures: Figures, accuracy: Accuracy | None = None) -> list[tuple[str, str, str]]:
    """Rows (figure, model, reference); figures that are None are left out.

    With `accuracy`, the errors of figures that have some stand beside them.
    """
    accuracy = Accuracy("dense") if accuracy is None else accuracy
    rows = []
    for text, name, paired in ROWS:
        value = getattr(figures, name)
        if value is not None:
            other = getattr(figures, f"reference_{name}") if paired else None
            errors = figures.standard_errors or {}, figures.reference_standard_errors or {}
            cells = [
                "" if number is None else _cell(number, of.get(name), accuracy.text(label))
                for number, of, label in zip(
                    (value, other), errors, (name, f"reference_{name}"), strict=True
                )
            ]
            rows.append((text, cells[0], cells[1]))
    if figures.n_scored is not None:
        scored = f"{figures.n_scored} of {figures.n_test}"
        rows.append(("points scored, but for the joint NLPD", scored, scored))
    return rows + _level_rows(figures) + _difference_rows(figures)


def _cell(value: float, standard_error: float | None, accuracy: str) -> str:
    """A figure, its standard error over points and what is known of its accuracy."""
    spread = "" if standard_error is None else f" ± {standard_error:.2g}"
    return f"{value:.4g}{spread} {accuracy}".strip()


def _level_rows(f: Figures) -> list[tuple[str, str, str]]:
    shares, others = f.coverage or {}, f.reference_coverage or {}
    rows = [
        (
            f"coverage of {100 * level:.0f} % intervals",
            f"{100 * share:.1f} %",
            f"{100 * others[level]:.1f} %",
        )
        for level, share in shares.items()
    ]
    widths, others = f.interval_width or {}, f.reference_interval_width or {}
    return rows + [
        (
            f"mean width of {100 * level:.0f} % intervals, units of y",
            f"{width:.4g}",
            f"{others[level]:.4g}",
        )
        for level, width in widths.items()
    ]


def _difference_rows(f: Figures) -> list[tuple[str, str, str]]:
    """Model minus reference, with two digits of standard error."""
    rows = []
    for name, text in DIFFERENCES.items():
        gap = (f.differences or {}).get(name)
        if gap is not None:
            error = gap["standard_error"]
            spread = "" if error is None else f" ± {error:.2g}"
            rows.append((f"model - reference, {text}", f"{gap['mean']:+.3g}{spread}", ""))
    return rows


def short_numbers(text: str) -> str:
    """A text with its long decimals to four digits."""
    return re.sub(r"\d+\.\d{4,}(e-?\d+)?", lambda found: f"{float(found[0]):.4g}", text)
