"""The picture of what could be picked instead of a model."""

from __future__ import annotations

import numpy as np

from coupledgp.diagnostics.pages.palette import BASELINE, MODEL, REFERENCE
from coupledgp.diagnostics.pages.picture import Picture, axes_of, plain_axis
from coupledgp.diagnostics.pages.pictures import SIZE
from coupledgp.diagnostics.rivals.beside import BesideBaseline
from coupledgp.diagnostics.scoring.other_model import Alternative
from coupledgp.diagnostics.verdicts.quality import as_alternative
from coupledgp.diagnostics.verdicts.result import ComparisonResult
from coupledgp.ground.visible import in_lines


def coloured_rivals(report: ComparisonResult) -> list[tuple[Alternative, str]]:
    """Baselines and the reference, each with its colour, the best first."""
    found = [(as_alternative(one), BASELINE) for one in report.baselines]
    figures = report.figures
    if figures.differences and report.has_other_reference:
        scores = figures.get("reference_rmse"), figures.get("reference_nlpd")
        reference = BesideBaseline("reference", *scores, figures.differences)
        found.append((as_alternative(reference), REFERENCE))
    return sorted(found, key=lambda pair: -pair[0].gain)


def beside(report: ComparisonResult) -> Picture:
    """Draw by how much others predict worse than the model; see `has_others`."""
    rows = coloured_rivals(report)[::-1]
    figure, axes = axes_of(SIZE[0], max(1.8, 0.8 + 0.36 * len(rows)))
    axes.axvline(0, color=MODEL, linewidth=1.5)
    for height, (one, colour) in enumerate(rows):
        axes.errorbar(
            [-one.gain], [height], xerr=[2 * (one.standard_error or 0.0)], fmt="o", markersize=5,
            capsize=3, linewidth=1.2, color=colour,
        )  # fmt: skip
    names = [in_lines(one.name.removeprefix("the ")) for one, _ in rows]
    axes.set_yticks(range(len(rows)), names, fontsize=8, parse_math=False)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    low, high = axes.get_xlim()
    least = 0.02 * max(1.0, float(np.abs([low, high]).max()))
    axes.set_xlim(min(low, -least), max(high, least))
    axes.set_xlabel(f"{report.nlpd_is} minus the model's, nats per point")
    axes.grid(axis="y", visible=False)
    plain_axis(axes.xaxis, 4)
    caption = (
        "What could be picked instead, with two standard errors: right of the line, the model, it "
        "predicts worse; left of it, better"
    )
    return Picture("beside", caption, figure)
