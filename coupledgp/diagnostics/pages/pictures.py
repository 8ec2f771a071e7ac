"""Pictures of comparisons: predictions, calibration and errors of the kernel.

The picture of what could be picked instead of a model.

Pictures of classifiers: reliability and confusion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from coupledgp.diagnostics.likelihoods.reliability import Reliability
from coupledgp.diagnostics.pages.picture import Picture, axes_of, legend, plain_axis, styled
from coupledgp.diagnostics.pages.scale import ALERT, BASELINE, COLOURS, GUIDE, INK, MODEL, REFERENCE
from coupledgp.diagnostics.rivals.contest import BesideBaseline
from coupledgp.diagnostics.scoring.divergences import KernelErrors
from coupledgp.diagnostics.scoring.ecdf import EcdfEnvelope
from coupledgp.diagnostics.scoring.figures import Alternative
from coupledgp.diagnostics.verdicts.quality import as_alternative
from coupledgp.diagnostics.verdicts.result import ComparisonResult
from coupledgp.ground.visible import in_lines, short
from coupledgp.random import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BoolArray: TypeAlias = NDArray[np.bool_]
# Ends of central intervals by their level.
Bounds: TypeAlias = Mapping[float, tuple[FloatArray, FloatArray]]
# Largest number of points drawn with error bars: the bars of more points cover each other.
MAX_BARS = 250
# Width and height of a picture in inches, and of the one above the tables.
SIZE, WIDE = (3.9, 3.2), (7.6, 4.0)
# Nominal level of the intervals that are drawn.
LEVEL = 0.95


def truth(report: ComparisonResult) -> Picture:
    """Draw targets against predictions with their intervals, those outside apart."""
    p = report.predictions
    assert p.y is not None
    inside = np.abs(2 * p.transforms_of("").ravel() - 1) <= LEVEL
    width = ndtri((1 + LEVEL) / 2) * p.std.ravel()
    return predictions(p.y.ravel(), p.mean.ravel(), width, inside)


def predictions(y: FloatArray, mean: FloatArray, width: FloatArray, inside: BoolArray) -> Picture:
    """Draw targets (n,) against predictions; at most 250 are drawn.

    Widths (n,), or (2, n) downwards and upwards, are those of the intervals that targets are inside
    of or not.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics.pages import predictions
    >>> y, mean, width = np.array([0.0, 1.0, 5.0]), np.array([0.1, 0.9, 2.0]), np.full(3, 0.5)
    >>> picture = predictions(y, mean, width, inside=np.abs(y - mean) < width)
    >>> picture.figure.axes[0].get_ylabel()
    'observed (units of y)'
    >>> picture.caption
    'Observed targets against predictions with 95 % intervals; on the line they are equal'
    """
    shown = np.unique(np.linspace(0, y.size - 1, min(y.size, MAX_BARS)).astype(int))
    figure, axes = axes_of(*WIDE)
    draw_against(axes, mean[shown], y[shown], width[..., shown], inside[shown], float(y.mean()))
    axes.set_xlabel("prediction (units of y)")
    axes.set_ylabel("observed (units of y)")
    legend(figure, axes)
    part = "" if shown.size == y.size else f"; {shown.size} of {y.size} points are drawn"
    caption = (
        f"Observed targets against predictions with {100 * LEVEL:.0f} % intervals; on the line "
        f"they are equal{part}"
    )
    return Picture("predictions", caption, figure, wide=True)


def draw_against(
    axes: Axes,
    mean: FloatArray,
    y: FloatArray,
    width: FloatArray,
    inside: BoolArray,
    middle: float,
    bars: bool = True,
) -> None:
    """Draw observations against predictions, and the line on which they are equal.

    Without `bars` only those outside their intervals have them.
    """
    for chosen, colour, label in ((inside, MODEL, "inside"), (~inside, ALERT, "outside")):
        if chosen.any():
            axes.errorbar(
                mean[chosen], y[chosen],
                xerr=width[..., chosen] if bars or label == "outside" else None,
                fmt=".", color=colour, ecolor=colour, elinewidth=0.7, alpha=0.7, markersize=5,
                label=f"{label} its {100 * LEVEL:.0f} % interval ({chosen.sum()})",
            )  # fmt: skip
    axes.axline((middle, middle), slope=1, color=GUIDE, linewidth=1, zorder=1)
    _plain(axes)


def band(
    x: FloatArray, mean: FloatArray, bounds: Bounds, dots: tuple[FloatArray, FloatArray], name: str
) -> Picture:
    """Draw the law of observations along one column, and rows (m,), (m, k) as dots.

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
    >>> from coupledgp.diagnostics.pages import band
    >>> x, mean = np.linspace(0, 1, 20), np.zeros((20, 1))
    >>> bounds = {0.5: (mean - 0.7, mean + 0.7), 0.95: (mean - 2.0, mean + 2.0)}
    >>> rows = np.array([0.2, 0.8]), np.array([[0.5], [-1.0]])
    >>> picture = band(x, mean, bounds, rows, "depth")
    >>> picture.caption
    'Law of observations along depth, with the rows'
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
    return Picture("band", f"Law of observations along {name}, with the rows", figure, wide=True)


def draw_bands(
    axes: Axes, x: FloatArray, mean: FloatArray, bounds: Bounds, colour: str = MODEL
) -> None:
    """Draw a mean (g,) and central intervals (g,) by their level, the widest first."""
    for level, (low, high) in sorted(bounds.items(), reverse=True):
        axes.fill_between(x, low, high, color=colour, alpha=0.46 - 0.25 * level, linewidth=0,
                          label=f"{100 * level:.0f} %")  # fmt: skip
    axes.plot(x, mean, color=colour, linewidth=1.1, label="mean")


def calibration(report: ComparisonResult) -> Picture:
    """Draw the share of targets inside the central interval of every nominal level."""
    p = report.predictions
    assert p.y is not None
    figure, axes = axes_of(*SIZE)
    nominal = np.linspace(0, 1, 101)
    chance = 2 * np.sqrt(nominal * (1 - nominal) / max(p.y.size, 1))
    axes.fill_between(
        nominal, np.clip(nominal - chance, 0, 1), np.clip(nominal + chance, 0, 1), color=GUIDE,
        alpha=0.2, linewidth=0, label="chance, 2 s.e.",
    )  # fmt: skip
    axes.plot([0, 1], [0, 1], color=GUIDE, linewidth=1)
    laws = list(p.laws()) if report.has_other_reference else list(p.laws())[:1]
    for prefix, _, _ in reversed(laws):
        label, color = ("reference", REFERENCE) if prefix else ("model", MODEL)
        axes.plot(
            nominal, _observed_shares(p.transforms_of(prefix), nominal), color=color, label=label
        )
    axes.set_xlabel("nominal level of the central interval")
    axes.set_ylabel("share of targets inside")
    _plain(axes)
    legend(figure, axes)
    return Picture("calibration", "Calibration: share of targets inside central intervals", figure)


def _observed_shares(transforms: FloatArray, nominal: FloatArray) -> FloatArray:
    """Share of transforms (p, k) inside the central interval of each nominal level (l,)."""
    level = np.sort(np.abs(2 * transforms - 1).ravel())
    return np.searchsorted(level, nominal, side="right") / level.size


def means(report: ComparisonResult) -> Picture:
    """Draw the means of the model against those of the reference."""
    p = report.predictions
    assert p.reference_mean is not None
    figure, axes = axes_of(*SIZE)
    axes.plot(p.reference_mean.ravel(), p.mean.ravel(), ".", color=MODEL, alpha=0.6)
    middle = float(p.reference_mean.mean())
    axes.axline((middle, middle), slope=1, color=GUIDE, linewidth=1)
    axes.set_xlabel("mean of the reference (units of y)")
    axes.set_ylabel("mean of the model (units of y)")
    _plain(axes)
    caption = (
        "Means of the model and of the reference at the test points; on the line they are equal"
    )
    return Picture("means", caption, figure)


def pit(report: ComparisonResult) -> Picture:
    """Draw the histogram of the probability integral transforms, and its spread by chance."""
    figure, axes = axes_of(*SIZE)
    f = report.figures
    assert f.pit is not None
    n_bins = len(f.pit)
    edges = np.linspace(0, 1, n_bins + 1)
    share = 1 / n_bins
    spread = 2 * np.sqrt(share * (1 - share) / max(f.n_test, 1))
    axes.axhspan(share - spread, share + spread, color=GUIDE, alpha=0.2, linewidth=0,
                 label="chance, 2 s.e.")  # fmt: skip
    if f.reference_pit is not None and report.has_other_reference:
        axes.stairs(f.reference_pit, edges, color=REFERENCE, linewidth=1.5, label="reference")
    axes.stairs(f.pit, edges, fill=True, color=MODEL, alpha=0.45, label="model")
    axes.set_xlabel("predictive probability below the target")
    axes.set_ylabel("share of targets")
    axes.set_ylim(bottom=0)
    _plain(axes)
    legend(figure, axes)
    caption = "Probability integral transforms of the targets: flat if calibrated"
    return Picture("pit", caption, figure)


def ecdf(found: EcdfEnvelope) -> Picture:
    """Draw the distribution of the transforms less the uniform one, with its envelope."""
    figure, axes = axes_of(*SIZE)
    places = np.array(found.places)
    axes.fill_between(
        places, found.low - places, found.high - places, color=GUIDE, alpha=0.2, linewidth=0,
        label=f"{100 * found.level:.0f} % envelope of a right law",
    )  # fmt: skip
    gaps = found.shares - places
    axes.step(places, gaps, where="mid", color=MODEL, label="model")
    outside = (np.array(found.shares) < found.low) | (np.array(found.shares) > found.high)
    if outside.any():
        axes.plot(places[outside], gaps[outside], ".", color=ALERT, label="outside")
    axes.axhline(0, color=GUIDE, linewidth=1)
    axes.set_xlabel("predictive probability below the target")
    axes.set_ylabel("share of targets below, less that")
    _plain(axes)
    legend(figure, axes, 2)
    caption = (
        "Distribution of the probability integral transforms less the uniform one; a right law "
        "stays within the envelope at all places at once"
    )
    return Picture("ecdf", caption, figure)


def kernel_map(errors: KernelErrors) -> Picture:
    """Draw the map of the kernel's error over pairs of points."""
    figure, axes = axes_of(*SIZE)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    limit = float(np.abs(errors.error).max()) or 1.0
    with styled():
        drawn = axes.imshow(
            errors.error, cmap="RdBu", vmin=-limit, vmax=limit, interpolation="nearest"
        )
        bar = figure.colorbar(drawn, ax=axes, shrink=0.85)
    bar.outline.set_edgecolor(INK)
    plain_axis(bar.ax.yaxis)
    axes.set_xlabel("test point")
    axes.set_ylabel("test point")
    caption = (
        "Error of the kernel between test points, in units of its mean variance; similar points "
        "lie side by side"
    )
    return Picture("kernel-error", caption, figure)


def _plain(axes: Axes) -> None:
    plain_axis(axes.xaxis)
    plain_axis(axes.yaxis)


def coloured_rivals(report: ComparisonResult) -> list[tuple[Alternative, str]]:
    """Baselines and the reference, each with its colour, the best first."""
    found = [(as_alternative(one), BASELINE) for one in report.baselines]
    figures = report.figures
    if figures.differences and report.has_other_reference:
        scores = figures.get("reference_rmse"), figures.get("reference_nlpd")
        reference = BesideBaseline("reference", *scores, figures.differences)
        found.append((as_alternative(reference), REFERENCE))
    return sorted(found, key=lambda pair: -pair[0].gain)


def beside(report: ComparisonResult) -> Picture:
    """Draw by how much others predict worse than the model; see `has_others`."""
    rows = coloured_rivals(report)[::-1]
    figure, axes = axes_of(SIZE[0], max(1.8, 0.8 + 0.36 * len(rows)))
    axes.axvline(0, color=MODEL, linewidth=1.5)
    for height, (one, colour) in enumerate(rows):
        axes.errorbar(
            [-one.gain], [height], xerr=[2 * (one.standard_error or 0.0)], fmt="o", markersize=5,
            capsize=3, linewidth=1.2, color=colour,
        )  # fmt: skip
    names = [in_lines(one.name.removeprefix("the ")) for one, _ in rows]
    axes.set_yticks(range(len(rows)), names, fontsize=8, parse_math=False)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    low, high = axes.get_xlim()
    least = 0.02 * max(1.0, float(np.abs([low, high]).max()))
    axes.set_xlim(min(low, -least), max(high, least))
    axes.set_xlabel(f"{report.nlpd_is} minus the model's, nats per point")
    axes.grid(axis="y", visible=False)
    plain_axis(axes.xaxis, 4)
    caption = (
        "What could be picked instead, with two standard errors: right of the line, the model, it "
        "predicts worse; left of it, better"
    )
    return Picture("beside", caption, figure)


# Share of a row from which its number is written in a light colour.
DARK = 0.6


def reliability_diagram(found: Reliability) -> Picture:
    """Draw the share of an event in each bin against its mean chance."""
    figure, axes = axes_of(*WIDE)
    chance = np.array([one.chance for one in found.bins])
    share = np.array([one.share for one in found.bins])
    ends = np.array([one.interval for one in found.bins]).T
    axes.plot([0, 1], [0, 1], color=GUIDE, linewidth=1)
    axes.errorbar(
        chance, share, yerr=np.abs(ends - share), fmt="o-", markersize=5, capsize=3, linewidth=1.2,
        color=MODEL, label=f"{len(chance)} bins of equal numbers of points",
    )  # fmt: skip
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlabel(f"chance of {short(found.event)}")
    axes.set_ylabel("share of the labels")
    plain_axis(axes.xaxis)
    plain_axis(axes.yaxis)
    legend(figure, axes)
    caption = (
        f"Reliability: share of {found.event} against its chance, with binomial intervals of 95 %; "
        "on the line they are equal"
    )
    return Picture("reliability", caption, figure)


def confusion_map(matrix: IntArray, names: Sequence[str]) -> Picture:
    """Draw shares of the rows of a confusion matrix (m, m).

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics.pages import confusion_map
    >>> picture = confusion_map(np.array([[8, 2], [1, 9]]), ["cat", "dog"])
    >>> [text.get_text() for text in picture.figure.axes[0].texts]
    ['8', '2', '1', '9']
    """
    figure, axes = axes_of(*SIZE)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    with styled():
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, interpolation="nearest", aspect="auto")
    size = 8 if len(names) <= 6 else 6
    for i, row in enumerate(matrix.tolist()):
        for j, count in enumerate(row):
            colour = "white" if shares[i, j] > DARK else INK
            axes.text(j, i, str(count), ha="center", va="center", fontsize=size, color=colour)
    shown = [short(name) for name in names]
    turned = 90 if len(names) > 4 else 0
    axes.set_xticks(range(len(names)), shown, fontsize=size, parse_math=False, rotation=turned)
    axes.set_yticks(range(len(names)), shown, fontsize=size, parse_math=False)
    axes.set_xlabel("most probable class")
    axes.set_ylabel("class")
    caption = "Numbers of points of each class by the most probable one; shades are shares of rows"
    return Picture("confusion", caption, figure)
