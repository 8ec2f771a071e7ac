"""Colours of models, references, baselines and couplings, on light and on dark paper."""

from __future__ import annotations

from typing import Any

# Colours of the model, of the reference and of simple baselines, on every picture and table.
MODEL, REFERENCE, BASELINE = "#0b6e99", "#d9730d", "#7a7f85"
# Colour of what needs attention, such as targets outside their intervals.
ALERT = "#c4314b"
# Colours of texts, of reference lines and of grids, and of halos around texts.
INK, GUIDE, GRID, PAPER = "#1f2328", "#6e7781", "#d0d7de", "#fdfdfd"
# Colours of couplings, none of them a model's or a reference's, distinguishable without colour
# vision; on paper their markers are.
COLOURS = ("#448361", "#9065b0", "#c14c8a", "#b07c14", "#4f5fc4", "#8c5a3c", "#2a8f9d", "#3f464d")
MARKERS = "osD^vPX*"
# Names of the colours in the style sheet, and their lighter shades for dark paper.
THEME: dict[str, tuple[str, str]] = {
    MODEL: ("model", "#56b4e0"),
    REFERENCE: ("reference", "#f2a154"),
    BASELINE: ("baseline", "#9aa3ab"),
    ALERT: ("alert", "#ff7b8a"),
    INK: ("ink", "#e6e8ea"),
    GUIDE: ("guide", "#9aa3ab"),
    GRID: ("grid", "#3a4149"),
    PAPER: ("paper", "#14171b"),
    COLOURS[0]: ("coupling-0", "#74c69d"),
    COLOURS[1]: ("coupling-1", "#c09be0"),
    COLOURS[2]: ("coupling-2", "#ee85b8"),
    COLOURS[3]: ("coupling-3", "#e3b95c"),
    COLOURS[4]: ("coupling-4", "#93a0ff"),
    COLOURS[5]: ("coupling-5", "#cf9a7a"),
    COLOURS[6]: ("coupling-6", "#6fd0de"),
    COLOURS[7]: ("coupling-7", "#c3cad1"),
}


def coupling_style(k: int) -> dict[str, Any]:
    """Return colour and marker of coupling k."""
    return {"color": COLOURS[k % len(COLOURS)], "marker": MARKERS[k % len(MARKERS)]}
