"""Pictures of reports, and those that estimators draw of rows, columns and series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from coupledgp.core.target_maps import mapped_back
from coupledgp.diagnostics.predictions import Predictions
from coupledgp.diagnostics.render.figures import (
    ALERT,
    BASELINE,
    COLOURS,
    ERRORS,
    GUIDE,
    INK,
    MEANS,
    MODEL,
    PAPER,
    REFERENCE,
    Picture,
    axes_of,
    coupling_style,
    legend,
    log_axis,
    panels_of,
    plain_axis,
    plain_frame,
    styled,
)
from coupledgp.diagnostics.render.tables import amount, has_classes, label
from coupledgp.diagnostics.tables import Tables
from coupledgp.ground.visible import printable, short
from coupledgp.random import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from coupledgp.time.axis import TimeAxis

BoolArray: TypeAlias = NDArray[np.bool_]
# Ends of central intervals by their level.
Bounds: TypeAlias = Mapping[float, tuple[FloatArray, FloatArray]]
# Width and height in inches: of the opening picture, of one beside a table, and of a model's own.
OPENING, SMALL, WIDE = (5.6, 3.5), (4.8, 2.5), (7.6, 4.0)
# Nominal level of the intervals that are drawn, and those of bands.
LEVEL, LEVELS = 0.95, (0.95, 0.5)
# Most points with error bars, with which more points cover each other, and most points at all.
MAX_BARS, MAX_POINTS = 250, 1500
# Most times of a series, and parts of readings over time of which there are whole series.
MAX_RUN, STEADY = 300, ("in gaps", "at hidden sensors")
# Standard deviations from which a point is named, most that are named, and letters of a name.
NOTABLE, NAMED, LETTERS = 2.0, 5, 18
# Share of a row of a confusion matrix from which its number is written in a light colour.
DARK = 0.6
# Panels of partial dependence, in a row, width and height of one, and most levels in one.
PANELS, IN_ROW, PANEL, MAX_LEVELS = 6, 3, (2.5, 1.9), 8


def opening(t: Tables) -> Picture | None:
    """The picture of the predictions: on a map, over time, or observed against predicted."""
    p = t.predictions
    if p.y is None:
        return None
    if has_classes(t):
        return _confusion_of(p)
    if p.times is not None:
        return course(t)
    if p.positions is not None and p.positions.shape[1] == 2 and len(p) > NAMED:
        return places(p)
    return observed(p)


def observed(p: Predictions) -> Picture:
    """Targets against predictions with 95 % intervals; of rows with names the worst are named."""
    assert p.y is not None
    ends = p.law.ppf(np.array([0.5 - LEVEL / 2, 0.5 + LEVEL / 2]))
    low, high, mean, y = (one.ravel() for one in (ends[..., 0], ends[..., 1], p.law.mean, p.y))
    width = np.maximum([mean - low, high - mean], 0.0)
    unit = f", {p.unit}" if p.unit else ""
    picture = predictions(y, mean, width, (low <= y) & (y <= high), f"{p.target}{unit}", OPENING)
    names = None if p.groups is None else p.groups.iloc[:, 0]
    if names is not None and names.is_unique and p.y.shape[1] == 1:
        residual = np.abs(p.y - p.law.mean)[:, 0] / p.law.std[:, 0]
        worst = np.argsort(-residual, kind="stable")[:NAMED]
        rows = [k for k in worst if residual[k] > NOTABLE]
        _name(picture.figure.axes[0], mean, y, rows, [label(one) for one in names])
    return picture


def predictions(
    y: FloatArray,
    mean: FloatArray,
    width: FloatArray,
    inside: BoolArray,
    name: str = "y",
    size: tuple[float, float] = WIDE,
) -> Picture:
    """Draw targets (n,) against predictions; at most 250 are drawn.

    Widths (n,), or (2, n) downwards and upwards, are those of the intervals that targets are inside
    of or not.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics.render.pictures import predictions
    >>> y, mean, width = np.array([0.0, 1.0, 5.0]), np.array([0.1, 0.9, 2.0]), np.full(3, 0.5)
    >>> picture = predictions(y, mean, width, np.abs(y - mean) < width, "depth, m")
    >>> picture.figure.axes[0].get_ylabel()
    'observed depth, m'
    """
    shown = np.unique(np.linspace(0, y.size - 1, min(y.size, MAX_BARS)).astype(int))
    figure, axes = axes_of(*size)
    for chosen, colour, text in ((inside, MODEL, "inside"), (~inside, ALERT, "outside")):
        own = shown[chosen[shown]]
        if own.size:
            axes.errorbar(
                mean[own], y[own], xerr=width[..., own], fmt=".", color=colour, elinewidth=0.7,
                alpha=0.7, markersize=5, label=f"{text} its 95 % interval ({chosen.sum()})",
            )  # fmt: skip
    middle = float(y.mean())
    axes.axline((middle, middle), slope=1, color=GUIDE, linewidth=1, zorder=1)
    axes.set_xlabel(f"predicted {printable(name)}", parse_math=False)
    axes.set_ylabel(f"observed {printable(name)}", parse_math=False)
    _plain(axes)
    legend(figure, axes)
    part = "" if shown.size == y.size else f"; {shown.size} of {y.size} points are drawn"
    return Picture(
        f"Observed values against predictions with 95 % intervals; equal on the line{part}",
        figure,
    )


def places(p: Predictions) -> Picture:
    """Draw predictions and standardised errors at two coordinates."""
    assert p.y is not None
    assert p.positions is not None
    figure, panels = panels_of(OPENING[0], 3.0, 1, 2)
    chosen = np.random.default_rng(0).permutation(len(p))[:MAX_POINTS]
    x, y = p.positions[chosen].T
    errors = ((p.y - p.law.mean) / p.law.std)[chosen, 0]
    unit = f", {p.unit}" if p.unit else ""
    shown: tuple[tuple[FloatArray, str, dict[str, Any]], ...] = (
        (p.law.mean[chosen, 0], f"predicted {p.target}{unit}", {"cmap": MEANS}),
        (errors, "error / standard deviation", {"cmap": ERRORS, "vmin": -3, "vmax": 3}),
    )
    with styled():
        for axes, (values, title, colours) in zip(panels[0], shown, strict=True):
            dots = axes.scatter(x, y, c=values, s=float(np.clip(2000 / x.size, 3, 24)),
                                linewidths=0, rasterized=True, **colours)  # fmt: skip
            axes.set_title(title, parse_math=False)
            axes.set_axis_off()
            axes.set_aspect("equal", adjustable="datalim")
            bar = figure.colorbar(dots, ax=axes, orientation="horizontal", shrink=0.8)
            bar.outline.set_visible(False)
            plain_axis(bar.ax.xaxis, 4)
    part = f"; {x.size} of {len(p)} points are drawn" if x.size < len(p) else ""
    return Picture(f"Predictions and their errors at the test points{part}", figure)


def course(t: Tables) -> Picture:
    """Draw predictions and targets over time, of the worst and of a median series.

    Of each it is the longest run without a break, in gaps and at hidden sensors where there are
    such parts.
    """
    p = t.predictions
    assert p.y is not None
    assert p.times is not None
    names = p.cluster if p.cluster is not None else p.groups
    series = np.zeros(len(p), int) if names is None else names.iloc[:, 0].to_numpy()
    kept = np.ones(len(p), bool)
    if p.parts is not None and np.isin(p.parts, STEADY).any():
        kept = np.isin(p.parts, STEADY)
    squares = pd.Series(np.square(p.y[kept, 0] - p.law.mean[kept, 0]))
    rmse = squares.groupby(series[kept]).mean().pow(0.5).sort_values(ascending=False)
    chosen = list(dict.fromkeys([rmse.index[0], rmse.index[(len(rmse) - 1) // 2]]))
    figure, panels = panels_of(OPENING[0], 0.7 + 1.7 * len(chosen), len(chosen), 1)
    for axes, name, why in zip(panels[:, 0], chosen, ("worst", "median"), strict=False):
        rows = _longest_run(np.asarray(p.times), np.flatnonzero(kept & (series == name)))
        law = p.law.take(rows)
        chances = np.array([0.5 + s * level / 2 for level in LEVELS for s in (-1, 1)])
        ends = law.ppf(chances)[:, 0]
        bounds = {level: (ends[:, 2 * k], ends[:, 2 * k + 1]) for k, level in enumerate(LEVELS)}
        draw_series(axes, p.times[rows], law.mean[:, 0], bounds, p.y[rows, 0])
        if len(rmse) > 1:
            text = f"{label(name)}, the {why} of {len(rmse)}: typically off by"
            axes.set_title(f"{text} {amount(rmse[name], p.unit)}", loc="left", fontsize=9,
                           parse_math=False)  # fmt: skip
        axes.set_ylabel(p.unit or p.target, parse_math=False)
    legend(figure, panels[0, 0], 4)
    return Picture("Predictions of values that were held out, with 50 and 95 % intervals", figure)


def _longest_run(times: Any, rows: IntArray) -> IntArray:
    """The longest run of rows at rising times without a break, at most its last `MAX_RUN`."""
    rows = rows[np.argsort(times[rows], kind="stable")]
    steps = np.diff(times[rows])
    breaks = np.empty(0, dtype=np.int64)
    if steps.size:
        breaks = np.flatnonzero(steps > 3 * np.median(steps)) + 1
    return max(np.split(rows, breaks), key=len)[-MAX_RUN:]


def draw_series(
    axes: Axes, times: Any, mean: FloatArray, bounds: Bounds, values: FloatArray
) -> None:
    """Draw a mean, bands and values over rising times, apart where times are missing between."""
    plain_frame(axes)
    axes.set_axisbelow(True)
    steps = np.diff(times)
    apart = np.flatnonzero(steps > 1.5 * np.median(steps)) + 1 if steps.size else np.empty(0, int)

    def parted(one: Any) -> Any:
        return np.insert(np.asarray(one, dtype=float), apart, np.nan)

    at = np.insert(times, apart, times[apart - 1])
    ends = {level: (parted(low), parted(high)) for level, (low, high) in bounds.items()}
    draw_bands(axes, at, parted(mean), ends)
    axes.plot(times, values, ".", color=INK, markersize=3, zorder=3, label="observed")
    if np.asarray(times).dtype.kind == "M":
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locate: Any = AutoDateLocator  # whose stubs have no types
        written: Any = ConciseDateFormatter
        where = locate(minticks=3, maxticks=7)
        axes.xaxis.set_major_locator(where)
        axes.xaxis.set_major_formatter(written(where))
    else:
        plain_axis(axes.xaxis)
    plain_axis(axes.yaxis, 4)


def calibration(t: Tables) -> Picture | None:
    """The distribution of the targets' chances, less the uniform one, within its envelope.

    Of classes it is the share of labels against their mean chance.
    """
    if not len(t.pit):
        return None
    figure, axes = axes_of(*SMALL)
    place, share, low, high = (t.pit[name].to_numpy(float) for name in t.pit.columns)
    if has_classes(t):
        axes.plot([0, 1], [0, 1], color=GUIDE, linewidth=1)
        axes.errorbar(place, share, yerr=np.abs([low - share, high - share]), fmt="o-", color=MODEL,
                      markersize=4, capsize=3, linewidth=1.2)  # fmt: skip
        axes.set_xlabel("predicted chance")
        axes.set_ylabel("share of the labels")
        caption = "Share of labels against their chance, with 95 % intervals; right on the line"
    else:
        outside = (share < low) | (share > high)
        axes.fill_between(place, low - place, high - place, color=GUIDE, alpha=0.2, linewidth=0)
        axes.step(place, share - place, where="mid", color=MODEL)
        axes.plot(place[outside], (share - place)[outside], ".", color=ALERT)
        axes.axhline(0, color=GUIDE, linewidth=1)
        axes.set_xlabel("predictive probability below the target, F(y)")
        axes.set_ylabel("share of targets below, minus F(y)")
        caption = (
            "Where targets lie in their predictive distributions: right ones stay within the grey "
            "envelope everywhere in 95 of 100 cases"
        )
    _plain(axes)
    return Picture(caption, figure)


def band(
    x: FloatArray, mean: FloatArray, bounds: Bounds, dots: tuple[FloatArray, FloatArray], name: str
) -> Picture:
    """Draw the predictive distribution along one column, and rows (m,), (m, k) as dots.

    Parameters
    ----------
    x
        Values (g,) of the column, ascending.
    mean
        Means (g, k).
    bounds
        Ends (g, k) of central intervals by their level.
    dots
        Values of the column and targets of some rows; may be empty.
    name
        Name of the column.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics.render.pictures import band
    >>> x, mean = np.linspace(0, 1, 20), np.zeros((20, 1))
    >>> bounds = {0.5: (mean - 0.7, mean + 0.7), 0.95: (mean - 2.0, mean + 2.0)}
    >>> rows = np.array([0.2, 0.8]), np.array([[0.5], [-1.0]])
    >>> picture = band(x, mean, bounds, rows, "depth")
    >>> picture.figure.axes[0].get_xlabel()
    'depth'
    """
    figure, axes = axes_of(*WIDE)
    for k in range(mean.shape[1]):
        colour = MODEL if mean.shape[1] == 1 else COLOURS[k % len(COLOURS)]
        own = {level: (low[:, k], high[:, k]) for level, (low, high) in bounds.items()}
        draw_bands(axes, x, mean[:, k], own, colour)
        size = float(np.clip(600 / max(len(dots[0]), 1), 2, 6))
        axes.plot(dots[0], dots[1][:, k], ".", color=INK if mean.shape[1] == 1 else colour,
                  markersize=size, zorder=3, label="rows" if k == 0 else None)  # fmt: skip
    axes.set_xlabel(name, parse_math=False)
    axes.set_ylabel("y")
    _plain(axes)
    legend(figure, axes, 4)
    return Picture(f"Predictive distribution along {name}, with the rows", figure)


def draw_bands(axes: Axes, x: Any, mean: FloatArray, bounds: Bounds, colour: str = MODEL) -> None:
    """Draw a mean (g,) and central intervals (g,) by their level, the widest first."""
    for level, (low, high) in sorted(bounds.items(), reverse=True):
        axes.fill_between(x, low, high, color=colour, alpha=0.46 - 0.25 * level, linewidth=0,
                          label=f"{100 * level:.0f} %")  # fmt: skip
    axes.plot(x, mean, color=colour, linewidth=1.1, label="mean")


def _confusion_of(p: Predictions) -> Picture:
    """The confusion matrix of a law of classes."""
    assert p.y is not None
    names: Any = getattr(p.law, "classes", range(p.law.mean.shape[1]))
    chances: FloatArray = getattr(p.law, "chances", p.law.mean)
    matrix = np.zeros((len(names), len(names)), dtype=np.int64)
    np.add.at(matrix, (p.y[:, 0].astype(int), chances.argmax(axis=1)), 1)
    return confusion_map(matrix, [label(one) for one in names])


def confusion_map(matrix: IntArray, names: Sequence[str]) -> Picture:
    """Draw shares of the rows of a confusion matrix (m, m).

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics.render.pictures import confusion_map
    >>> picture = confusion_map(np.array([[8, 2], [1, 9]]), ["cat", "dog"])
    >>> [text.get_text() for text in picture.figure.axes[0].texts]
    ['8', '2', '1', '9']
    """
    figure, axes = axes_of(5.6, 3.4)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    with styled():
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, interpolation="nearest", aspect="auto")
    size = 8 if len(names) <= 6 else 6
    for i, row in enumerate(matrix.tolist()):
        for j, count in enumerate(row):
            colour = "white" if shares[i, j] > DARK else "black"
            axes.text(j, i, str(count), ha="center", va="center", fontsize=size, color=colour)
    shown = [short(name) for name in names]
    turned = 90 if len(names) > 4 else 0
    axes.set_xticks(range(len(names)), shown, fontsize=size, parse_math=False, rotation=turned)
    axes.set_yticks(range(len(names)), shown, fontsize=size, parse_math=False)
    axes.set_xlabel("most probable class")
    axes.set_ylabel("class")
    caption = "Numbers of points of each class by the most probable one; shades are shares of rows"
    return Picture(caption, figure)


def dependence_panels(found: Sequence[Any], n_columns: int) -> Picture:
    """Draw partial dependence (`Dependence`) on columns on one scale, with 95 % intervals."""
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
                axes.errorbar(range(len(one.mean)), one.mean, bars, fmt="o", color=MODEL,
                              markersize=4)  # fmt: skip
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
    return Picture(caption, figure)


def move_bars(moves: Any) -> Picture:
    """Draw how far other values of a column move predictions (`ColumnMoves`), sorted."""
    count = min(len(moves.names), 2 * PANELS)
    figure, axes = axes_of(3.9, max(1.8, 1.0 + 0.25 * count))
    heights = np.arange(count)[::-1]
    axes.barh(heights, moves.mean[:count], 0.6, xerr=2 * moves.error[:count], color=MODEL,
              alpha=0.6, error_kw={"ecolor": GUIDE, "elinewidth": 1, "capsize": 2})  # fmt: skip
    axes.set_yticks(heights, [short(one) for one in moves.names[:count]], fontsize=8,
                    parse_math=False)  # fmt: skip
    axes.set_xlim(left=0)
    axes.set_xlabel("move of predictions (units of y)")
    axes.grid(axis="y", visible=False)
    plain_axis(axes.xaxis, 4)
    return Picture(
        "How far values of other rows move predictions, column by column, with two errors", figure
    )


def against_size(
    means: pd.DataFrame, figure: str, title: str, size_name: str, exact: float | None = None
) -> Picture:
    """Draw a figure of couplings against the size: means with two standard errors.

    Parameters
    ----------
    means
        `Study.summary()`: columns `coupling`, `size`, the figure, and its error.
    figure, title
        Name of the figure, and what its axis says.
    size_name
        What the sizes are.
    exact
        The figure of the exact process, a line.
    """
    drawn, axes = axes_of(*WIDE)
    is_log = figure == "kl_per_point" and bool((means[figure] > 0).all())
    sizes = sorted(set(means["size"]))
    names = list(dict.fromkeys(means.coupling))
    for k, name in enumerate(names):
        own = means[means.coupling == name].sort_values("size")
        y, error = own[figure].to_numpy(), 2 * own[f"{figure}_error"].to_numpy()
        below = np.minimum(error, 0.999 * y) if is_log else error  # a logarithm ends above zero
        shift = 1.03 ** (k - (len(names) - 1) / 2)
        axes.errorbar(own["size"] * shift, y, yerr=[below, error], label=name, markersize=5,
                      linewidth=1.2, capsize=2, **coupling_style(k))  # fmt: skip
    if exact is not None:
        axes.axhline(exact, color=REFERENCE, linewidth=1.2, label="exact process")
    axes.set_xscale("log")
    log_axis(axes.xaxis, [float(size) for size in sizes])
    axes.set_xlabel(size_name)
    axes.set_ylabel(title)
    if is_log:
        axes.set_yscale("log")
        log_axis(axes.yaxis)
    else:
        plain_axis(axes.yaxis)
    legend(drawn, axes, 4)
    caption = f"{title} against {size_name}, means over draws with two standard errors"
    return Picture(caption, drawn)


def series_of(model: Any, names: Sequence[Any], times: FloatArray, unit: str = "") -> Picture:
    """Draw the law of some sensors of a `GraphTimeGPRegressor`, a panel each.

    Values that were observed are dots, gaps are shaded, and a line parts the forecast.

    Parameters
    ----------
    model
        The fitted model.
    names
        Labels of sensors.
    times
        Numbers (k,) of the model's time axis, rising.
    unit
        Unit of the values.
    """
    sites = model.grid(list(names)).sites
    process, axis = model.grid_process_, model.time_axis_
    figure, panels = panels_of(5.0, 1.0 + 1.7 * sites.size, sites.size, 1, sharex=True)
    mean, _ = model.law_on_grid(sites, times)
    chances = [0.5 + s * level / 2 for level in LEVELS for s in (-1, 1)]
    ends = model.quantiles_on_grid(sites, times, chances)
    values = _observed_at(model, sites, times)
    clock, last = clock_times(axis, times), clock_times(axis, process.times[-1:])
    for row, axes in enumerate(panels[:, 0]):
        bounds = {level: (ends[row, :, 2 * k], ends[row, :, 2 * k + 1])
                  for k, level in enumerate(LEVELS)}  # fmt: skip
        draw_series(axes, clock, mean[row], bounds, values[row])
        axes.fill_between(
            clock, 0, 1, where=np.isnan(values[row]) & (times <= process.times[-1]), color=GUIDE,
            alpha=0.2, linewidth=0, step="mid", transform=axes.get_xaxis_transform(), zorder=0,
        )  # fmt: skip
        if times[-1] > process.times[-1]:
            axes.axvline(last[0], color=BASELINE, linewidth=1, linestyle="--")
        axes.set_title(label(names[row]), loc="left", parse_math=False)
        axes.set_ylabel(unit, parse_math=False)
    legend(figure, panels[0, 0], 4)
    return Picture("Predictive distribution of sensors over time, gaps shaded", figure)


def _observed_at(model: Any, sites: IntArray, times: FloatArray) -> FloatArray:
    """Values (a, k) that a `GraphTimeGPRegressor` was fitted to; NaN where there is none."""
    process = model.grid_process_
    columns = np.clip(np.searchsorted(process.times, times), 0, process.times.size - 1)
    known = np.isclose(process.times[columns], times, rtol=1e-12)
    values = np.where(known, process.values[process.rows_of(sites)][:, columns], np.nan)
    return values if model.transform_ is None else mapped_back(model.transform_, values)


def clock_times(axis: TimeAxis, numbers: FloatArray) -> Any:
    """Numbers of a time axis as local times (n,), `datetime64`; as they are without an origin."""
    if axis.origin is None:
        return numbers
    stamps = axis.labels(numbers)
    if isinstance(stamps, np.ndarray) and stamps.dtype.kind == "M":
        return stamps
    plain = [one.replace(tzinfo=None) if isinstance(one, datetime) else one for one in stamps]
    return np.array(plain, dtype="datetime64[us]")


def _plain(axes: Axes) -> None:
    plain_axis(axes.xaxis)
    plain_axis(axes.yaxis)


def _name(
    axes: Axes, x: FloatArray, y: FloatArray, rows: Sequence[int], names: Sequence[str]
) -> None:
    """Write the names of some points beside them."""
    from matplotlib.patheffects import withStroke

    middle = (x.min() + x.max()) / 2
    for k in rows:
        left = x[k] > middle
        axes.annotate(
            short(names[k], LETTERS), (x[k], y[k]), xytext=(-5 if left else 5, 4),
            textcoords="offset points", ha="right" if left else "left", fontsize=7,
            path_effects=[withStroke(linewidth=2, foreground=PAPER)], parse_math=False,
        )  # fmt: skip
