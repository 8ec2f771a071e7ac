"""Colour scales that do not make a hill of a grain."""

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
