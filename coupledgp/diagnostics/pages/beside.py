"""The picture of what could be picked instead of a model."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from coupledgp.diagnostics.pages.palette import BASELINE, COLOURS, MODEL, REFERENCE
from coupledgp.diagnostics.pages.picture import Picture, axes_of, plain_axis
from coupledgp.diagnostics.pages.pictures import SIZE
from coupledgp.diagnostics.verdicts.quality import name_of
from coupledgp.diagnostics.verdicts.result import ComparisonResult

# Most letters of a name beside its row.
MAX_NAME = 26


class Rival(NamedTuple):
    """Another prediction: its NLPD minus the model's, the standard error, and a colour."""

    name: str
    gap: float
    error: float
    colour: str


def rivals(report: ComparisonResult) -> list[Rival]:
    """Baselines, other models and the reference beside the model, the best first."""
    found = [
        Rival(name_of(one), *_turned(one.differences["nlpd"]), BASELINE) for one in report.baselines
    ]
    found += [
        Rival(one.name, -one.gain, one.standard_error or 0.0, COLOURS[0])
        for one in report.alternatives or ()
    ]
    own = (report.figures.differences or {}).get("nlpd")
    if own is not None and report.has_other_reference:
        found.append(Rival("reference", *_turned(own), REFERENCE))
    return sorted(found, key=lambda one: one.gap)


def _turned(gap: dict[str, float | None]) -> tuple[float, float]:
    """A difference of the other from the model, and its standard error."""
    return -(gap["mean"] or 0.0), gap["standard_error"] or 0.0


def beside(report: ComparisonResult) -> Picture:
    """Draw by how much others predict worse than the model; see `has_others`."""
    rows = rivals(report)[::-1]
    figure, axes = axes_of(SIZE[0], max(1.8, 0.8 + 0.32 * len(rows)))
    axes.axvline(0, color=MODEL, linewidth=1.5)
    for height, one in enumerate(rows):
        axes.errorbar(
            [one.gap], [height], xerr=[2 * one.error], fmt="o", markersize=5, capsize=3,
            linewidth=1.2, color=one.colour,
        )  # fmt: skip
    names = [_short(one.name) for one in rows]
    axes.set_yticks(range(len(rows)), names, fontsize=8, parse_math=False)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    low, high = axes.get_xlim()
    least = 0.02 * max(1.0, float(np.abs([low, high]).max()))
    axes.set_xlim(min(low, -least), max(high, least))
    axes.set_xlabel("NLPD minus the model's, nats per point")
    axes.grid(axis="y", visible=False)
    plain_axis(axes.xaxis, 4)
    caption = (
        "What could be picked instead, with two standard errors: right of the line, the model, it "
        "predicts worse; left of it, better"
    )
    return Picture("beside", caption, figure)


def _short(name: str) -> str:
    name = "".join(one if one.isprintable() else " " for one in name).removeprefix("the ")
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 1]}…"
