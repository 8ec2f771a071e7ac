"""How far the columns of a table move a model's predictions, in a report."""

from __future__ import annotations

from typing import Any

from coupledgp.diagnostics.moves import ColumnMoves
from coupledgp.diagnostics.scoring.subject import process_of
from coupledgp.diagnostics.sections.section import ReportTable, Section
from coupledgp.errors import CoupledGPError

# Columns that are shown.
SHOWN = 12
TITLE = "Which columns its predictions depend on"


def moves_of(model: Any) -> ColumnMoves | None:
    """The moves of a model of one output; None for one without columns, or without its rows."""
    process = process_of(model)
    if process is None or process is model or not hasattr(model, "predict_gradient"):
        return None
    try:
        n_outputs, dim = process.data.targets.shape[1], process.data.points.shape[1]
    except CoupledGPError:
        return None
    if n_outputs > 1 or dim < 2:
        return None
    return ColumnMoves.of(process, model.fitted_.columns)


def moves(report: Any) -> Section | None:
    """The section; None where the report's model has no columns."""
    found: ColumnMoves | None = getattr(report, "moves", None)
    if found is None:
        return None
    figures = {"moves": dict(zip(found.names, found.mean.tolist(), strict=True))}
    rows = [
        [name, f"{mean:.3g} ± {error:.2g}"]
        for name, mean, error in zip(found.names, found.mean, found.error, strict=True)
        if mean > 0
    ]
    table = ReportTable(
        "Change of predictions where a column takes the value of another row",
        ("", "units of y"),
        rows[:SHOWN],
        "moves",
    )
    text = found.text()
    still = [name for name, mean in zip(found.names, found.mean, strict=True) if not mean > 0]
    if still:
        text += f" Without effect on predictions: {', '.join(still)}."
    return Section("moves", TITLE, text, figures, [table], [found.picture])
