"""Pictures of main effects and of shares of variance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from coupledgp.diagnostics.pages.palette import GUIDE, MODEL
from coupledgp.diagnostics.pages.picture import (
    Picture,
    axes_of,
    legend,
    panels_of,
    plain_axis,
    plain_frame,
    styled,
)
from coupledgp.diagnostics.pages.pictures import SIZE
from coupledgp.ground.visible import short

# Parts that are drawn, panels in a row, width and height of a panel, and most levels in one.
PANELS, IN_ROW, PANEL, MAX_LEVELS = 6, 3, (2.5, 1.9), 8


def effect_panels(effects: Any, order: Sequence[str]) -> Picture:
    """Draw main effects (`Effects`) of the parts that come first in an order, on one scale.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> from coupledgp.diagnostics.pages import effect_panels
    >>> X = np.random.default_rng(0).uniform(size=(30, 2))
    >>> model = cgp.ExactGPRegressor(optimizer=None, lengthscale=1.0, noise=0.01)
    >>> effects = model.fit(X, np.sin(3 * X[:, 0])).effects(grid=8)
    >>> picture = effect_panels(effects, effects.names)
    >>> [axes.get_title() for axes in picture.figure.axes]
    ['x0', 'x1']
    """
    shown = [effects.names.index(name) for name in order[:PANELS]]
    n_rows, n_columns = -(-len(shown) // IN_ROW), min(len(shown), IN_ROW)
    size = PANEL[0] * n_columns, PANEL[1] * n_rows
    figure, grid_of_panels = panels_of(*size, n_rows, n_columns, sharey=True)
    panels = grid_of_panels.ravel()
    with styled():
        for axes, place in zip(panels, shown, strict=False):
            grid, mean = effects.grid[place], effects.mean[place]
            ends = effects.low[place], effects.high[place]
            plain_frame(axes)
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


def share_bars(importance: Any) -> Picture:
    """Draw shares of variance (`Importance`) of columns as bars, the greatest on top."""
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
