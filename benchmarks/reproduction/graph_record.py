"""Findings about coupled walkers on many graphs and chances of halting, for the record."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from record import Finding

LIMIT = 3.0  # standard errors; of 90 cells without any difference one in ten passes it by chance


@dataclass(frozen=True)
class Cell:
    """One graph and chance of halting: errors over that of i.i.d. walkers, each with its error.

    `gaps` are sigma less i.i.d. and sigma less antithetic, in standard errors of the difference.
    """

    graph: str
    p_halt: float
    ratios: dict[str, tuple[float, float]]
    gaps: tuple[float, float]


def record_cells(finding: Finding, cells: list[Cell], protocol: str) -> None:
    """Mean ratios of each graph over chances of halting, and whether sigma is never worse."""
    for graph in dict.fromkeys(cell.graph for cell in cells):
        own = [cell for cell in cells if cell.graph == graph]
        for coupling in own[0].ratios:
            values = np.array([cell.ratios[coupling] for cell in own])
            error = float(np.sqrt((values[:, 1] ** 2).sum()) / len(own))
            finding.figure(f"{graph}: {coupling} over iid, mean over p", values[:, 0].mean(), error)
    for other, column in zip(
        ("iid", "antithetic"), np.array([c.gaps for c in cells]).T, strict=True
    ):
        better, worse = int((column < -LIMIT).sum()), int((column > LIMIT).sum())
        finding.claim(
            f"sigma nowhere worse than {other} by more than {LIMIT:g} standard errors "
            f"({len(cells)} cells: better in {better}, worse in {worse})",
            worse == 0,
        )
        finding.claim(f"sigma clearly better than {other} somewhere", better > 0)
    finding.note(protocol)
