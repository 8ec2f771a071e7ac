"""Colours of values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coupledgp.random import FloatArray

# Red, green, blue and opacity of a place without a value.
GREY = (0xC9, 0xCE, 0xD3, 0xFF)


def value_colours(values: FloatArray) -> NDArray[np.uint8]:
    """Colours (n, 4) of values (n,), viridis from the least to the greatest; grey without value."""
    from matplotlib import colormaps

    known = np.isfinite(values)
    low, high = (values[known].min(), values[known].max()) if known.any() else (0.0, 1.0)
    spread = high - low
    levels = np.where(known, values - low, 0.0) / (spread if spread > 0 else 1.0)
    rgba: NDArray[np.uint8] = colormaps["viridis"](levels, bytes=True)
    rgba[~known] = GREY
    return rgba


def linear_light(colours: NDArray[np.uint8]) -> FloatArray:
    """Colours (n, 4) from 0 to 1 in linear light, from those of a screen (sRGB, IEC 61966-2-1)."""
    shares = colours / 255.0
    rgb = shares[:, :3]
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return np.concatenate([linear, shares[:, 3:]], axis=1)
