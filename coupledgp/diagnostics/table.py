"""Figures as rows of text, for tables on a page or a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from coupledgp.diagnostics.report import Figures


class Section(NamedTuple):
    """A table of texts: its title, its columns' names and its rows."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def figure_rows(figures: Figures) -> list[tuple[str, str, str]]:
    """Rows (figure, model, reference); figures that are None are left out."""
    f = figures
    rows: list[tuple[str, float | None, float | None]] = [
        ("KL(reference || model), nats per point", f.kl_per_point, None),
        ("KL(model || reference), nats per point", f.reverse_kl_per_point, None),
        ("KL between the priors, nats per point", f.prior_kl_per_point, None),
        ("kernel error, relative Frobenius", f.kernel_relative_error, None),
        ("kernel RMSE, units of y squared", f.kernel_rmse, None),
        ("RMSE, units of y", f.rmse, f.reference_rmse),
        ("NLPD, marginal, nats per point", f.nlpd, f.reference_nlpd),
        ("NLPD, joint, nats per point", f.nlpd_joint, f.reference_nlpd_joint),
    ]
    texts = [
        (name, f"{value:.4g}", "" if other is None else f"{other:.4g}")
        for name, value, other in rows
        if value is not None
    ]
    others = f.reference_coverage or {}
    return texts + [
        (
            f"coverage of {100 * level:.0f} % intervals",
            f"{100 * share:.1f} %",
            f"{100 * others[level]:.1f} %",
        )
        for level, share in (f.coverage or {}).items()
    ]
