"""Pictures of sensors that are left out, beside their predictions from the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from coupledgp.diagnostics.pages.palette import ALERT, GUIDE, MODEL, PAPER
from coupledgp.diagnostics.pages.picture import Picture, axes_of, legend, plain_axis
from coupledgp.diagnostics.pages.pictures import SIZE, draw_against
from coupledgp.ground.visible import short
from coupledgp.random import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Most sensors that are all drawn with intervals (of more, those outside theirs), and number of the
# worst that are named.
MAX_INTERVALS, NAMED = 80, 5
# Standardised residual from which a sensor is named.
NOTABLE = 2.0
# Most letters of a name beside a point.
MOST_LETTERS = 18


def left_out(
    y: FloatArray, mean: FloatArray, std: FloatArray, names: Sequence[str], level: float
) -> Picture:
    """Draw observations (n,) against their predictions from the others; the worst are named."""
    figure, axes = axes_of(*SIZE)
    residual = (y - mean) / std
    worst = np.argsort(-np.abs(residual), kind="stable")
    width = ndtri((1 + level) / 2) * std
    outside = np.abs(y - mean) > width
    bars = y.size <= MAX_INTERVALS
    draw_against(axes, mean, y, width, ~outside, float(y.mean()), bars)
    _name(axes, mean, y, [k for k in worst[:NAMED] if abs(residual[k]) > NOTABLE], names)
    axes.set_xlabel("prediction from the other sensors")
    axes.set_ylabel("observed")
    legend(figure, axes, 2)
    return Picture("left-out", "Each sensor against its prediction from the others", figure)


def residuals(
    y: FloatArray,
    mean: FloatArray,
    std: FloatArray,
    names: Sequence[str],
    kind: str = "sensors",
) -> Picture:
    """Draw standardised residuals (n,), the largest on top: who deviates, and by how much.

    `kind` says what the names are, in the plural.
    """
    residual = (y - mean) / std
    worst = np.argsort(-np.abs(residual), kind="stable")[:20][::-1]
    figure, axes = axes_of(SIZE[0], max(1.8, 0.7 + 0.16 * worst.size))
    axes.axvspan(-NOTABLE, NOTABLE, color=GUIDE, alpha=0.15, linewidth=0)
    axes.axvline(0, color=GUIDE, linewidth=1)
    heights = np.arange(worst.size)
    far = np.abs(residual[worst]) > NOTABLE
    for chosen, colour in ((~far, MODEL), (far, ALERT)):
        axes.hlines(heights[chosen], 0, residual[worst][chosen], color=colour, linewidth=1.2)
        axes.plot(residual[worst][chosen], heights[chosen], ".", color=colour)
    axes.set_yticks(heights, [short(names[k], MOST_LETTERS) for k in worst], fontsize=7,
                    parse_math=False)  # fmt: skip
    axes.set_xlabel("observed minus predicted, standard deviations")
    axes.grid(axis="y", visible=False)
    plain_axis(axes.xaxis)
    what = "rows, by their groups," if kind == "groups" else kind
    caption = f"The {what} that deviate the most from their prediction"
    return Picture("residuals", caption, figure)


def _name(
    axes: Axes, x: FloatArray, y: FloatArray, rows: Sequence[int], names: Sequence[str]
) -> None:
    """Write the names of some points beside them."""
    from matplotlib.patheffects import withStroke

    middle = (x.min() + x.max()) / 2
    for k in rows:
        left = x[k] > middle
        axes.annotate(
            short(names[k], MOST_LETTERS), (x[k], y[k]), xytext=(-5 if left else 5, 4),
            textcoords="offset points", ha="right" if left else "left", fontsize=7,
            path_effects=[withStroke(linewidth=2, foreground=PAPER)], parse_math=False,
        )  # fmt: skip
