"""The section of laws that are stated by draws or quantiles: what these alone tell."""

from __future__ import annotations

from typing import Any

import numpy as np

from coupledgp.diagnostics.scoring.score_table import per_cent
from coupledgp.diagnostics.sections.section import Section, register_section
from coupledgp.diagnostics.sections.table import ReportTable
from coupledgp.diagnostics.verdicts.result import ComparisonResult


def stated(report: ComparisonResult) -> Section | None:
    """Energy scores of draws, and reliability of quantiles; None for other laws."""
    own = report.predictions.own
    if own is None or not (own.energy or own.below):
        return None
    if own.energy is not None:
        joint, alone = own.energy
        rows = [("joint draws", f"{joint:.4g}"), ("the same, points independent", f"{alone:.4g}")]
        table = ReportTable("Energy score, units of y", ("", "value"), rows, "energy")
        figures = {"energy": joint, "energy_of_independent_points": alone}
        return Section("stated", figures=figures, tables=[table])
    n = len(own.transforms)
    cells = [
        (
            f"{chance:g}", f"{per_cent(share)} ± {per_cent(np.sqrt(chance * (1 - chance) / n))}",
            f"{loss:.4g}",
        )
        for chance, (share, loss) in own.below.items()
    ]  # fmt: skip
    columns = ("chance", "share of targets at most it ± chance", "pinball loss, units of y")
    table = ReportTable("Quantiles", columns, cells, "quantiles")
    shares: dict[str, Any] = {
        f"{chance:g}": {"share": share, "pinball": loss}
        for chance, (share, loss) in own.below.items()
    }
    return Section("stated", figures=shares, tables=[table])


def register_stated() -> None:
    """Register the section for audits."""
    register_section("stated", stated, "audit", before="scores")
