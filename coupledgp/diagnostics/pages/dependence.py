"""Pictures of partial dependence and of moves of predictions.

Pictures of sensors that are left out, beside their predictions from the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from coupledgp.diagnostics.pages.picture import (
    Picture,
    axes_of,
    legend,
    panels_of,
    plain_axis,
    plain_frame,
    styled,
)
from coupledgp.diagnostics.pages.pictures import SIZE, draw_against
from coupledgp.diagnostics.pages.scale import ALERT, GUIDE, MODEL, PAPER
from coupledgp.ground.visible import short
from coupledgp.random import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from coupledgp.diagnostics.moves import Dependence

# Parts that are drawn, panels in a row, width and height of a panel, and most levels in one.
PANELS, IN_ROW, PANEL, MAX_LEVELS = 6, 3, (2.5, 1.9), 8


def dependence_panels(found: Sequence[Dependence], n_columns: int) -> Picture:
    """Draw partial dependence on columns on one scale, with 95 % intervals.

    Parameters
    ----------
    found
        Partial dependences, one panel each.
    n_columns
        Number of columns of the table, for the caption.
    """
    in_row = min(len(found), IN_ROW)
    n_rows = -(-len(found) // IN_ROW)
    figure, grid_of_panels = panels_of(
        PANEL[0] * in_row, PANEL[1] * n_rows, n_rows, in_row, sharey=True
    )
    panels = grid_of_panels.ravel()
    with styled():
        for axes, one in zip(panels, found, strict=False):
            plain_frame(axes)
            bars = 1.96 * one.std
            if all(isinstance(value, float) for value in one.labels):
                axes.fill_between(one.labels, one.mean - bars, one.mean + bars, color=MODEL,
                                  alpha=0.25, linewidth=0)  # fmt: skip
                axes.plot(one.labels, one.mean, color=MODEL, linewidth=1.5)
                plain_axis(axes.xaxis, 4)
            else:
                places = range(len(one.mean))
                axes.errorbar(places, one.mean, bars, fmt="o", color=MODEL, markersize=4)
                kept = range(0, len(one.labels), -(-len(one.labels) // MAX_LEVELS))
                axes.set_xticks(kept, [short(str(one.labels[k])) for k in kept], fontsize=7,
                                rotation=30, parse_math=False)  # fmt: skip
            axes.set_title(short(one.name), parse_math=False, fontsize=9)
        for axes in panels[len(found) :]:
            axes.set_visible(False)
        for axes in panels[::in_row]:
            axes.set_ylabel("average of f (units of y)")
            plain_axis(axes.yaxis, 4)
    caption = "Partial dependence: f averaged over rows with a given value, 95 % intervals"
    if n_columns > len(found):
        caption += f"; the {len(found)} columns of {n_columns} that move predictions most"
    return Picture("dependence", caption, figure, wide=True)


def move_bars(moves: Any) -> Picture:
    """Draw how far other values of a column move predictions (`ColumnMoves`), sorted."""
    count = min(len(moves.names), 2 * PANELS)
    figure, axes = axes_of(SIZE[0], max(1.8, 1.0 + 0.25 * count))
    heights = np.arange(count)[::-1]
    axes.barh(heights, moves.mean[:count], 0.6, xerr=2 * moves.error[:count], color=MODEL,
              alpha=0.6, error_kw={"ecolor": GUIDE, "elinewidth": 1, "capsize": 2})  # fmt: skip
    axes.set_yticks(heights, [short(one) for one in moves.names[:count]], fontsize=8,
                    parse_math=False)  # fmt: skip
    axes.set_xlim(left=0)
    axes.set_xlabel("move of predictions (units of y)")
    axes.grid(axis="y", visible=False)
    plain_axis(axes.xaxis, 4)
    caption = "How far values of other rows move predictions, column by column, with two errors"
    return Picture("moves", caption, figure)


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
