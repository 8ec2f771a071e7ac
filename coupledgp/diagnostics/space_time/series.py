"""Pictures of single sensors over time, and of the model's errors over the day."""

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
)
from coupledgp.diagnostics.pages.pictures import SIZE, draw_bands
from coupledgp.diagnostics.pages.scale import (
    BASELINE,
    GUIDE,
    REFERENCE,
    coupling_style,
)
from coupledgp.diagnostics.space_time.map_readings import MapReadings
from coupledgp.diagnostics.space_time.record import (
    FORECAST,
    GAP,
    OBSERVED,
    SensorSeries,
    SpaceTimePage,
)
from coupledgp.diagnostics.space_time.sensors import ChosenSensors
from coupledgp.diagnostics.space_time.words import (
    DAY,
    DAYS,
    HOUR,
    PLACES,
    ordinal,
    share_words,
    signed,
    stamps,
    with_unit,
)
from coupledgp.ground.visible import printable
from coupledgp.random import FloatArray, IntArray
from coupledgp.time.axis import TimeAxis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Most times of a picture: more would be less than a third of a pixel each.
MAX_TIMES = 400
# Levels of the bands.
LEVELS = (0.95, 0.5)


def sensor_picture(report: SpaceTimePage, chosen: ChosenSensors, number: int) -> Picture:
    """Draw a chosen sensor, from its own series or from the law of the map."""
    given = {one.sensor: one for one in report.series}
    one = given.get(chosen.sensor) or _of_law(report, chosen.sensor)
    step = -(-one.times.size // MAX_TIMES)
    name = printable(report.sensor_names[one.sensor])
    caption = _caption(report, one, name, chosen.why, step)
    return series_picture(one, report.axis, report.unit, caption, number)


def _of_law(report: SpaceTimePage, sensor: int) -> SensorSeries:
    """The series of a sensor in the law of the map."""
    node = report.sensors[sensor]
    return SensorSeries(
        sensor, report.times, report.mean[node], report.std[node], report.observed[sensor],
        report.kinds[sensor],
    )  # fmt: skip


def series_picture(
    one: SensorSeries, axis: TimeAxis, unit: str, caption: str, number: int = 1
) -> Picture:
    """Draw a sensor's law with 50 and 95 % bands, its values, and gaps shaded."""
    plot, axes = axes_of(SIZE[0], 2.5)
    step = -(-one.times.size // MAX_TIMES)
    shown = slice(None, None, step)
    times, mean, std = one.times[shown], one.mean[shown], one.std[shown]
    _shade(axes, one.times, one.kinds == GAP)
    half = {level: ndtri((1 + level) / 2) * std for level in LEVELS}
    draw_bands(axes, times, mean, {k: (mean - width, mean + width) for k, width in half.items()})
    if one.left_out is not None:
        axes.plot(times, one.left_out[shown], color=REFERENCE, linewidth=0.9,
                  label="from the others")  # fmt: skip
    kept = one.kinds[shown] == OBSERVED
    axes.plot(times[kept], one.observed[shown][kept], ".", color=BASELINE, markersize=3.2, zorder=3,
              markeredgewidth=0, rasterized=True, label="observed")  # fmt: skip
    axes.set_xlim(one.times[0], max(one.times[-1], np.nextafter(one.times[0], np.inf)))
    time_axis(axes, axis, one.times)
    plain_axis(axes.yaxis, 4)
    axes.set_ylabel(unit, parse_math=False)
    legend(plot, axes, 4)
    return Picture(f"series-{number}", caption, plot)


def forecast_picture(
    model: Any, sites: IntArray, names: Sequence[str], times: FloatArray, unit: str = ""
) -> Picture:
    """Draw the laws of sensors (p,) at times (k,), a panel each: values, gaps and forecasts."""
    figure, panels = panels_of(SIZE[0], 1.2 + 1.7 * sites.size, sites.size, 1, sharex=True)
    mean, _ = model.law_on_grid(sites, times)
    ends = {k: model.quantiles_on_grid(sites, times, [0.5 - k / 2, 0.5 + k / 2]) for k in LEVELS}
    readings = MapReadings.of(model)
    values, kinds = (part[model.grid_process_.rows_of(sites)] for part in readings.at(times))
    for row, axes in enumerate(panels[:, 0]):
        plain_frame(axes)
        axes.set_axisbelow(True)
        _shade(axes, times, kinds[row] == GAP)
        bands = {k: (part[row, :, 0], part[row, :, 1]) for k, part in ends.items()}
        draw_bands(axes, times, mean[row], bands)
        axes.plot(times, values[row], ".", color=BASELINE, markersize=3.2, zorder=3,
                  markeredgewidth=0, label="observed")  # fmt: skip
        if (kinds[row] == FORECAST).any():
            axes.axvline(readings.axis.values[-1], color=GUIDE, linewidth=1, linestyle="--")
        axes.set_title(printable(names[row]), loc="left", parse_math=False)
        axes.set_ylabel(unit, parse_math=False)
        plain_axis(axes.yaxis, 4)
    axes.set_xlim(times[0], max(times[-1], np.nextafter(times[0], np.inf)))
    time_axis(axes, readings.axis, times)
    legend(figure, panels[0, 0], 4)
    return Picture("forecast", "Values, gaps and forecasts of sensors", figure)


def _caption(report: SpaceTimePage, one: SensorSeries, name: str, why: str, step: int) -> str:
    parts = [f"Sensor {name}"]
    if report.left_out is not None:
        rmse, bias = report.left_out.rmse[one.sensor], report.left_out.bias[one.sensor]
        parts.append(
            f"{why}: left out, its RMSE is {with_unit(rmse, report.unit)} and its bias "
            f"{signed(bias)}"
        )
    gaps = float(np.mean(one.kinds == GAP))
    if gaps:
        parts.append(f"{share_words(gaps)} of its times are gaps, shaded")
    if step > 1:
        parts.append(f"every {ordinal(step)} time is drawn")
    return "; ".join(parts)


def _shade(axes: Axes, times: FloatArray, gaps: Any) -> None:
    """Shade runs of gaps, as wide as the steps they fill."""
    from matplotlib.patches import PathPatch  # an extra, and slow
    from matplotlib.path import Path

    edges = np.concatenate([times[:1], (times[1:] + times[:-1]) / 2, times[-1:]])
    change = np.diff(np.concatenate([[0], gaps.astype(np.int8), [0]]))
    starts, stops = np.flatnonzero(change == 1), np.flatnonzero(change == -1)
    boxes = [
        Path([(a, 0), (b, 0), (b, 1), (a, 1), (a, 0)], closed=True)
        for a, b in zip(edges[starts], edges[stops], strict=True)
    ]
    if boxes:  # as one path, as there may be hundreds
        every = PathPatch(
            Path.make_compound_path(*boxes), transform=axes.get_xaxis_transform(), color=GUIDE,
            alpha=0.25, linewidth=0, zorder=0,
        )  # fmt: skip
        axes.add_patch(every)


def time_axis(axes: Axes, axis: TimeAxis, times: FloatArray) -> None:
    """Label an axis of times at whole hours or days, or of plain numbers."""
    from matplotlib.ticker import FixedLocator, FuncFormatter  # an extra, and slow

    found = stamps(axis, times)
    if found is None or times.size < 2:
        plain_axis(axes.xaxis)
        return
    span = float(times[-1] - times[0])
    steps = [HOUR * k for k in (0.25, 0.5, 1, 2, 3, 6, 12)] + [DAY * k for k in (1, 2, 7, 28, 91)]
    unit = next((one for one in steps if span / one <= 6), 364 * DAY)
    start = found[0]
    since = (start - start.replace(hour=0, minute=0, second=0, microsecond=0)).total_seconds()
    first = times[0] + (-since) % unit
    ticks = np.arange(first, times[-1] + 1e-9 * span, unit)
    texts = iter(_tick_texts(axis, ticks, unit))
    axes.xaxis.set_major_locator(FixedLocator(ticks.tolist()))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda *_: ""))
    axes.set_xticks(ticks.tolist(), list(texts))


def _tick_texts(axis: TimeAxis, ticks: FloatArray, unit: float) -> list[str]:
    texts, last = [], None
    for one in stamps(axis, ticks) or []:
        day = f"{DAYS[one.weekday()]} {one.day}.{one.month}."
        clock = one.strftime("%H:%M")
        if unit >= DAY:
            texts.append(day)
        else:
            texts.append(clock if day == last else f"{clock}\n{day}")
        last = day
    return texts


def hours_picture(report: SpaceTimePage) -> Picture:
    """Draw the error of the model over the day, a line for each kind of hidden value."""
    plot, axes = axes_of(*SIZE)
    kinds = list(dict.fromkeys(one.kind for one in report.hours))
    for k, kind in enumerate(kinds):
        parts = sorted((one for one in report.hours if one.kind == kind), key=lambda one: one.start)
        style = coupling_style(k)
        axes.plot(
            [(one.start + one.stop) / 2 for one in parts], [one.rmse for one in parts],
            linewidth=1.4, markersize=4, label=PLACES.get(kind, printable(kind)), **style,
        )  # fmt: skip
    axes.set_ylim(bottom=0)
    axes.set_xlim(0, 24)
    axes.set_xlabel("local time of day")
    axes.set_ylabel(_with_name("RMSE", report.unit), parse_math=False)
    plain_axis(axes.yaxis)
    axes.set_xticks(range(0, 25, 4), [f"{hour}:00" for hour in range(0, 25, 4)])
    legend(plot, axes, 2)
    return Picture("hours", "Error of the model by time of day, at hidden values", plot)


def _with_name(name: str, unit: str) -> str:
    return f"{name}, {unit}" if unit else name
