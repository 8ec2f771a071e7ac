"""Pictures of main effects and of shares of variance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coupledgp.diagnostics.effects.results import Effects, Importance
from coupledgp.diagnostics.pages.palette import GUIDE, MODEL
from coupledgp.diagnostics.pages.picture import (
    Picture,
    axes_of,
    blank,
    legend,
    plain_axis,
    styled,
)
from coupledgp.diagnostics.pages.pictures import SIZE

# Parts that are drawn, panels in a row, width and height of a panel, and most letters of a name.
PANELS, IN_ROW, PANEL, MAX_NAME, MAX_LEVELS = 6, 3, (2.5, 1.9), 26, 8


def effect_panels(effects: Effects, order: Sequence[str]) -> Picture:
    """Draw the main effects of the parts that come first in an order, with one scale for all."""
    shown = [effects.names.index(name) for name in order[:PANELS]]
    n_rows, n_columns = -(-len(shown) // IN_ROW), min(len(shown), IN_ROW)
    with styled():
        figure = blank(PANEL[0] * n_columns, PANEL[1] * n_rows)
        panels = figure.subplots(n_rows, n_columns, squeeze=False, sharey=True).ravel()
        for axes, place in zip(panels, shown, strict=False):
            grid, mean = effects.grid[place], effects.mean[place]
            ends = effects.low[place], effects.high[place]
            axes.set_facecolor("none")
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(alpha=0.7, linewidth=0.6)
            axes.axhline(0, color=GUIDE, linewidth=0.8)
            if all(isinstance(value, float) for value in grid):
                axes.fill_between(grid, *ends, color=MODEL, alpha=0.25, linewidth=0)
                axes.plot(grid, mean, color=MODEL, linewidth=1.5)
                plain_axis(axes.xaxis, 4)
            else:
                bars = np.abs(np.array(ends) - mean)
                axes.errorbar(range(len(mean)), mean, bars, fmt="o", color=MODEL, markersize=4)
                kept = range(0, len(grid), -(-len(grid) // MAX_LEVELS))
                axes.set_xticks(kept, [short(str(grid[k])) for k in kept], fontsize=7,
                                rotation=30, parse_math=False)  # fmt: skip
            axes.set_title(short(effects.names[place]), parse_math=False, fontsize=9)
        for axes in panels[len(shown) :]:
            axes.set_visible(False)
        for axes in panels[::n_columns]:
            axes.set_ylabel("effect (units of y)")
            plain_axis(axes.yaxis, 4)
    left = len(effects.names) - len(shown)
    caption = (
        f"Main effects with {effects.level:.0%} intervals: the average of f over all other columns"
        + (f"; the {len(shown)} parts of greatest share of {len(effects.names)}" if left else "")
    )
    return Picture("effects", caption, figure, wide=True)


def share_bars(importance: Importance) -> Picture:
    """Draw the shares of variance of columns as bars, the greatest on top."""
    names = sorted(importance.total, key=lambda name: importance.total[name].mean)[-2 * PANELS :]
    figure, axes = axes_of(SIZE[0], max(1.8, 1.0 + 0.32 * len(names)))
    heights = np.arange(len(names))
    drawn = ((importance.total, 0.3, 0.19, "with others"), (importance.first, 0.9, -0.19, "alone"))
    for shares, alpha, shift, label in drawn:
        found = [shares[name] for name in names]
        mean = np.array([one.mean for one in found])
        ends = np.array([[one.low for one in found], [one.high for one in found]])
        axes.barh(heights + shift, mean, 0.36, color=MODEL, alpha=alpha, label=label)
        axes.errorbar(mean, heights + shift, xerr=np.abs(ends - mean), fmt="none", ecolor=GUIDE,
                      elinewidth=1, capsize=2)  # fmt: skip
    axes.set_yticks(heights, [short(name) for name in names], fontsize=8, parse_math=False)
    axes.set_xlim(left=0)
    axes.set_xlabel("share of the variance of f")
    axes.grid(axis="y", visible=False)
    plain_axis(axes.xaxis, 4)
    legend(figure, axes)
    caption = f"Shares of the variance of f (Sobol indices) with {importance.level:.0%} intervals"
    return Picture("shares", caption, figure)


def short(name: str) -> str:
    """A name without control characters, cut where it is long."""
    name = "".join(one if one.isprintable() else " " for one in name)
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 1]}…"
