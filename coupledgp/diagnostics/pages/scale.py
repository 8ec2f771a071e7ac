"""Colour scales that do not make a hill of a grain.

Colours of models, references, baselines and couplings, on light and on dark paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from coupledgp.random import FloatArray

# Values that vary by less than this share of the largest are called nearly constant.
NEARLY_CONSTANT = 0.1
# Palettes of means, standard deviations and errors.
MEANS, SPREADS, ERRORS = "viridis", "magma", "RdBu"


@dataclass(frozen=True)
class Scale:
    """Colours of values.

    Attributes
    ----------
    low, high : float
        Values of the first and the last colour.
    palette : str
        Name of matplotlib's palette.
    note : str
        What a reader has to know of the scale; may be empty.
    """

    low: float
    high: float
    palette: str
    note: str = ""

    def mappable(self) -> Any:
        """Return matplotlib's object of the scale, with `to_rgba(values)`."""
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import Normalize

        return ScalarMappable(Normalize(self.low, self.high), self.palette)


class Quantity(NamedTuple):
    """Values of a map: name, title, values with NaN where there are none, and colours.

    Values are (n,), or (n, T) at T times.
    """

    name: str
    title: str
    values: FloatArray
    scale: Scale


def mean_scale(values: FloatArray, std: FloatArray) -> Scale:
    """Scale over means (n,); at least as wide as a tenth of the median standard deviation."""
    low, high = _range(values)
    least = NEARLY_CONSTANT * float(np.nanmedian(std))
    if high - low >= least and high > low:
        return Scale(low, high, MEANS)
    middle, half = (low + high) / 2, max(least, 1e-12 * abs(low), 1e-300) / 2
    return Scale(middle - half, middle + half, MEANS, _constant(low, high))


def spread_scale(values: FloatArray) -> Scale:
    """Scale of standard deviations (n,), from zero."""
    low, high = _range(values)
    note = _constant(low, high) if high - low <= NEARLY_CONSTANT * high else ""
    return Scale(0.0, high if high > 0 else 1.0, SPREADS, note)


def error_scale(values: FloatArray) -> Scale:
    """Scale of errors (n,), about zero."""
    low, high = _range(values)
    limit = max(abs(low), abs(high)) or 1.0
    return Scale(-limit, limit, ERRORS)


def _range(values: FloatArray) -> tuple[float, float]:
    known = values[np.isfinite(values)]
    return (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)


def _constant(low: float, high: float) -> str:
    return f"nearly constant: {low:.4g} to {high:.4g}"


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
