"""Pictures of comparisons and of studies of couplings, as SVG."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, ScalarFormatter
from scipy.special import ndtr, ndtri

from coupledgp.diagnostics.kernel_errors import KernelErrors
from coupledgp.diagnostics.pages.palette import coupling_style
from coupledgp.diagnostics.result import ComparisonResult
from coupledgp.diagnostics.study import CouplingStudy, MeanOverDraws
from coupledgp.random import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Colours of the model and of the reference.
MODEL, REFERENCE = "#0b6e99", "#d9730d"
# Largest number of points drawn with error bars: the bars of more points cover each other.
MAX_BARS = 250
# Width and height of a picture in inches; pages show up to three side by side.
SIZE = (4.2, 3.6)


def comparison_pictures(report: ComparisonResult) -> list[tuple[str, str]]:
    """Return the captions and SVGs of all pictures of a comparison."""
    drawn = []
    if report.predictions.reference_mean is not None:
        drawn = [("Predictions of both models at the test points", means(report))]
    if report.predictions.y is not None:
        drawn = [
            ("Observed targets against predictions, with 95 % intervals", truth(report)),
            ("Calibration: share of targets inside central intervals", calibration(report)),
            ("Probability integral transforms of the targets: flat if calibrated", pit(report)),
            *drawn,
        ]
    if report.kernel_errors is not None:
        drawn.append((MAP_CAPTION, kernel_map(report.kernel_errors)))
    return drawn


MAP_CAPTION = (
    "Error of the kernel between test points, in units of its mean variance; similar points lie "
    "side by side"
)


def study_pictures(study: CouplingStudy) -> list[tuple[str, str]]:
    """Return the captions and SVGs of the pictures of couplings side by side."""
    size_name = study.size_name
    drawn = [
        (f"KL to the exact GP against {size_name}, means over draws with two standard errors",
         against_size(study, "kl_per_point")),
        (f"KL of the couplings at {size_name}={study.sizes[-1]}, with two standard errors",
         side_by_side(study)),
    ]  # fmt: skip
    if study.reference_rmse is not None:
        caption = f"RMSE against {size_name}, with two standard errors; the line is the exact GP's"
        drawn.insert(1, (caption, against_size(study, "rmse")))
    return drawn


def axes_of(width: float, height: float) -> tuple[Figure, Axes]:
    """Return a figure of a width and height in inches, and its only axes."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.6)
    return figure, axes


def svg_of(figure: Figure) -> str:
    """Return the figure as an SVG element, of the same bytes for the same figure.

    Texts stay texts, so that they can be searched and take the page's font.
    """
    buffer = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "coupledgp", "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    svg = buffer.getvalue()
    return re.sub(r'width="[\d.]+pt" height="[\d.]+pt"', 'width="100%"', svg[svg.index("<svg") :])


def truth(report: ComparisonResult) -> str:
    """Draw targets against predictions with their intervals."""
    p = report.predictions
    assert p.y is not None
    y, mean, std = p.y.ravel(), p.mean.ravel(), p.std.ravel()
    shown = np.unique(np.linspace(0, y.size - 1, min(y.size, MAX_BARS)).astype(int))
    figure, axes = axes_of(*SIZE)
    axes.errorbar(
        mean[shown], y[shown], xerr=ndtri(0.975) * std[shown], fmt=".", color=MODEL,
        ecolor=MODEL, elinewidth=0.6, alpha=0.6, markersize=5,
    )  # fmt: skip
    limits = [y.min(), y.max()]
    axes.plot(limits, limits, color="gray", linewidth=1)
    axes.set_xlabel("prediction, mean and 95 % interval (units of y)")
    axes.set_ylabel("observed y")
    return svg_of(figure)


def calibration(report: ComparisonResult) -> str:
    """Draw the share of targets inside the central interval of every nominal level."""
    p = report.predictions
    assert p.y is not None
    figure, axes = axes_of(*SIZE)
    nominal = np.linspace(0, 1, 101)
    axes.plot([0, 1], [0, 1], color="gray", linewidth=1, label="perfect calibration")
    for prefix, mean, std in reversed(list(p.laws())):
        label, color = ("reference", REFERENCE) if prefix else ("model", MODEL)
        axes.plot(nominal, _observed_shares(p.y, mean, std, nominal), color=color, label=label)
    axes.set_xlabel("nominal level of the central interval")
    axes.set_ylabel("share of targets inside")
    axes.legend(frameon=False)
    return svg_of(figure)


def _observed_shares(
    y: FloatArray, mean: FloatArray, std: FloatArray, nominal: FloatArray
) -> FloatArray:
    """Share of targets inside the central interval of each nominal level (l,); laws (p, k)."""
    level = np.sort(2 * ndtr(np.abs(y - mean).ravel() / std.ravel()) - 1)
    return np.searchsorted(level, nominal, side="right") / level.size


def means(report: ComparisonResult) -> str:
    """Draw the means of the model against those of the reference."""
    p = report.predictions
    assert p.reference_mean is not None
    figure, axes = axes_of(*SIZE)
    axes.plot(p.reference_mean.ravel(), p.mean.ravel(), ".", color=MODEL, alpha=0.6, label="mean")
    limits = [p.reference_mean.min(), p.reference_mean.max()]
    axes.plot(limits, limits, color="gray", linewidth=1)
    axes.set_xlabel("mean of the reference (units of y)")
    axes.set_ylabel("mean of the model (units of y)")
    return svg_of(figure)


def pit(report: ComparisonResult) -> str:
    """Draw the histogram of the probability integral transforms, and its spread by chance."""
    figure, axes = axes_of(*SIZE)
    f = report.figures
    assert f.pit is not None
    n_bins = len(f.pit)
    edges = np.linspace(0, 1, n_bins + 1)
    axes.stairs(f.pit, edges, fill=True, color=MODEL, alpha=0.45, label="model")
    if f.reference_pit is not None:
        axes.stairs(f.reference_pit, edges, color=REFERENCE, linewidth=1.5, label="reference")
    share = 1 / n_bins
    spread = 2 * np.sqrt(share * (1 - share) / max(f.n_test, 1))
    axes.axhspan(share - spread, share + spread, color="gray", alpha=0.2, label="chance, 2 s.e.")
    axes.set_xlabel("predictive probability below the target")
    axes.set_ylabel("share of targets")
    axes.legend(frameon=False)
    return svg_of(figure)


def kernel_map(errors: KernelErrors) -> str:
    """Draw the map of the kernel's error over pairs of points."""
    figure, axes = axes_of(*SIZE)
    axes.grid(visible=False)
    limit = float(np.abs(errors.error).max()) or 1.0
    drawn = axes.imshow(errors.error, cmap="RdBu", vmin=-limit, vmax=limit, interpolation="nearest")
    axes.set_xlabel("test point")
    axes.set_ylabel("test point")
    figure.colorbar(drawn, ax=axes, shrink=0.85)
    return svg_of(figure)


def against_size(study: CouplingStudy, figure_name: str) -> str:
    """Draw a figure of every coupling, `"kl_per_point"` or `"rmse"`, against the size."""
    figure, axes = axes_of(*SIZE)
    for k, coupling in enumerate(study.couplings):
        rows = study.of(coupling)
        found: list[MeanOverDraws] = [getattr(row, figure_name) for row in rows]
        axes.errorbar(
            [row.size for row in rows], [one.mean for one in found], yerr=_two_errors(found),
            label=coupling, markersize=5, linewidth=1.2, capsize=2, **coupling_style(k),
        )  # fmt: skip
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xticks(study.sizes)
    axes.set_xlabel(study.size_name)
    if figure_name == "rmse" and study.reference_rmse is not None:
        axes.axhline(study.reference_rmse, color="gray", linewidth=1, label="exact GP")
        axes.set_ylabel("RMSE (units of y)")
    else:
        axes.set_yscale("log")
        axes.set_ylabel("KL(exact || model), nats per point")
    axes.legend(frameon=False, fontsize=8)
    return svg_of(figure)


def side_by_side(study: CouplingStudy) -> str:
    """Draw the KL of each coupling at the largest size, the closest on top."""
    rows = sorted(
        (row for row in study.rows if row.size == study.sizes[-1]),
        key=lambda row: -row.kl_per_point.mean,
    )
    figure, axes = axes_of(SIZE[0], max(1.6, 0.5 + 0.42 * len(rows)))
    names = study.couplings
    for height, row in enumerate(rows):
        axes.errorbar(
            [row.kl_per_point.mean], [height], xerr=_two_errors([row.kl_per_point]), capsize=3,
            **coupling_style(names.index(row.coupling)),
        )  # fmt: skip
    axes.set_yticks(range(len(rows)), [row.coupling for row in rows])
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_xlabel("KL(exact || model), nats per point")
    return svg_of(figure)


def _two_errors(found: list[MeanOverDraws]) -> FloatArray:
    """Lengths (2, n) of bars of two standard errors, downwards and upwards, of n means.

    Downwards they end above zero, which an axis of logarithms has no place for.
    """
    errors = 2 * np.nan_to_num([one.standard_error for one in found])
    centre = np.array([one.mean for one in found])
    return np.stack([np.minimum(errors, 0.999 * centre), errors])
