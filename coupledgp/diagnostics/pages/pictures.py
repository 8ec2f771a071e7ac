"""Pictures of a report, as SVG."""

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
from coupledgp.diagnostics.result import ComparisonResult
from coupledgp.diagnostics.study import CouplingStudy, MeanOverDraws
from coupledgp.random import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MODEL, REFERENCE = "#0b6e99", "#d9730d"
# Distinguishable without colour vision; the markers tell them apart on paper.
COLOURS = ("#0b6e99", "#d9730d", "#448361", "#9065b0", "#c14c8a", "#787774", "#cb912f", "#1f2328")
MARKERS = "osD^vPX*"
# Points drawn as error bars; more would only be a blot.
MAX_BARS = 250


def of_report(report: ComparisonResult) -> list[tuple[str, str]]:
    """Captions and SVGs of everything a comparison can show."""
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


def of_study(study: CouplingStudy) -> list[tuple[str, str]]:
    """Captions and SVGs of couplings side by side."""
    what = study.size_name
    drawn = [
        (f"KL to the exact GP against {what}, means over draws with two standard errors",
         against_size(study, "kl_per_point")),
        (f"KL of the couplings at {what}={study.sizes[-1]}, with two standard errors",
         side_by_side(study)),
    ]  # fmt: skip
    if study.reference_rmse is not None:
        caption = f"RMSE against {what}, with two standard errors; the line is the exact GP's"
        drawn.insert(1, (caption, against_size(study, "rmse")))
    return drawn


def axes_of(width: float, height: float) -> tuple[Figure, Axes]:
    """Return a figure of a size in inches, and its only axes."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.6)
    return figure, axes


def svg_of(figure: Figure) -> str:
    """Return the figure as an SVG element; texts stay texts, and the same figure the same bytes."""
    buffer = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "coupledgp", "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    svg = buffer.getvalue()
    return re.sub(r'width="[\d.]+pt" height="[\d.]+pt"', 'width="100%"', svg[svg.index("<svg") :])


def truth(report: ComparisonResult) -> str:
    """Targets against predictions with intervals."""
    p = report.predictions
    assert p.y is not None
    y, mean, std = p.y.ravel(), p.mean.ravel(), p.std.ravel()
    shown = np.unique(np.linspace(0, y.size - 1, min(y.size, MAX_BARS)).astype(int))
    figure, axes = axes_of(4.2, 3.6)
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
    """Share of targets inside intervals of every level."""
    p = report.predictions
    assert p.y is not None
    figure, axes = axes_of(4.2, 3.6)
    nominal = np.linspace(0, 1, 101)
    axes.plot([0, 1], [0, 1], color="gray", linewidth=1, label="perfect calibration")
    for label, color, mean, std in (
        ("reference", REFERENCE, p.reference_mean, p.reference_std),
        ("model", MODEL, p.mean, p.std),
    ):
        axes.plot(nominal, _observed_shares(p.y, mean, std, nominal), color=color, label=label)
    axes.set_xlabel("nominal level of the central interval")
    axes.set_ylabel("share of targets inside")
    axes.legend(frameon=False)
    return svg_of(figure)


def _observed_shares(
    y: FloatArray, mean: FloatArray, std: FloatArray, nominal: FloatArray
) -> FloatArray:
    """Share of targets within the central interval of each nominal level."""
    level = np.sort(2 * ndtr(np.abs(y - mean).ravel() / std.ravel()) - 1)
    return np.searchsorted(level, nominal, side="right") / level.size


def means(report: ComparisonResult) -> str:
    """Means of both models."""
    p = report.predictions
    figure, axes = axes_of(4.2, 3.6)
    axes.plot(p.reference_mean.ravel(), p.mean.ravel(), ".", color=MODEL, alpha=0.6, label="mean")
    limits = [p.reference_mean.min(), p.reference_mean.max()]
    axes.plot(limits, limits, color="gray", linewidth=1)
    axes.set_xlabel("mean of the reference (units of y)")
    axes.set_ylabel("mean of the model (units of y)")
    return svg_of(figure)


def pit(report: ComparisonResult) -> str:
    """Histogram of the probability integral transforms, and what chance allows."""
    figure, axes = axes_of(4.2, 3.6)
    f = report.figures
    assert f.pit is not None
    assert f.reference_pit is not None
    n_bins = len(f.pit)
    edges = np.linspace(0, 1, n_bins + 1)
    axes.stairs(f.pit, edges, fill=True, color=MODEL, alpha=0.45, label="model")
    axes.stairs(f.reference_pit, edges, color=REFERENCE, linewidth=1.5, label="reference")
    share = 1 / n_bins
    spread = 2 * np.sqrt(share * (1 - share) / max(f.n_test, 1))
    axes.axhspan(share - spread, share + spread, color="gray", alpha=0.2, label="chance, 2 s.e.")
    axes.set_xlabel("predictive probability below the target")
    axes.set_ylabel("share of targets")
    axes.legend(frameon=False)
    return svg_of(figure)


def kernel_map(errors: KernelErrors) -> str:
    """Map of the kernel's error over pairs of points."""
    figure, axes = axes_of(4.2, 3.6)
    axes.grid(visible=False)
    limit = float(np.abs(errors.error).max()) or 1.0
    drawn = axes.imshow(errors.error, cmap="RdBu", vmin=-limit, vmax=limit, interpolation="nearest")
    axes.set_xlabel("test point")
    axes.set_ylabel("test point")
    figure.colorbar(drawn, ax=axes, shrink=0.85)
    return svg_of(figure)


def against_size(study: CouplingStudy, figure_name: str) -> str:
    """A figure of every coupling against the size."""
    figure, axes = axes_of(4.2, 3.6)
    for k, coupling in enumerate(study.couplings):
        rows = study.of(coupling)
        spreads: list[MeanOverDraws] = [getattr(row, figure_name) for row in rows]
        centre = np.array([spread.mean for spread in spreads])
        axes.errorbar(
            [row.size for row in rows], centre, yerr=_two_errors(spreads, centre), label=coupling,
            color=COLOURS[k % 8], marker=MARKERS[k % 8], markersize=5, linewidth=1.2, capsize=2,
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
    """KL of each coupling at the largest size, the closest on top."""
    rows = sorted(
        (row for row in study.rows if row.size == study.sizes[-1]),
        key=lambda row: -row.kl_per_point.mean,
    )
    figure, axes = axes_of(4.2, max(1.6, 0.5 + 0.42 * len(rows)))
    names = study.couplings
    for height, row in enumerate(rows):
        k, centre = names.index(row.coupling), np.array([row.kl_per_point.mean])
        axes.errorbar(
            centre, [height], xerr=_two_errors([row.kl_per_point], centre), capsize=3,
            color=COLOURS[k % 8], marker=MARKERS[k % 8],
        )  # fmt: skip
    axes.set_yticks(range(len(rows)), [row.coupling for row in rows])
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_xlabel("KL(exact || model), nats per point")
    return svg_of(figure)


def _two_errors(spreads: list[MeanOverDraws], centre: FloatArray) -> FloatArray:
    """Two standard errors down, short of zero, and up."""
    errors = 2 * np.nan_to_num([spread.standard_error for spread in spreads])
    return np.stack([np.minimum(errors, 0.999 * centre), errors])
