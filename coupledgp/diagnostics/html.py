"""The report as a page: tables and inline pictures, nothing fetched from anywhere."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import jinja2
import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from scipy.special import ndtr, ndtri

from coupledgp.diagnostics.table import Section, figure_rows
from coupledgp.random import FloatArray

if TYPE_CHECKING:
    from coupledgp.diagnostics.report import PosteriorReport

MODEL, REFERENCE = "#0b6e99", "#d9730d"
# Points drawn as error bars; more would only be a blot.
MAX_BARS = 250
ENVIRONMENT = jinja2.Environment(
    loader=jinja2.PackageLoader("coupledgp.diagnostics"), autoescape=True
)


def render(
    report: PosteriorReport,
    *,
    title: str = "Posterior report",
    lead: Sequence[str] = (),
    opening: tuple[Section, str, str] | None = None,
    sections: Sequence[Section] = (),
    comparison: str = "Beside the reference",
    closing: Sequence[str] = (),
) -> str:
    """Return the whole page.

    Parameters
    ----------
    report
        The comparison to show.
    title
        Heading of the page.
    lead, closing
        Paragraphs below the heading and at the end.
    opening
        A table, and the caption and SVG of a picture, above all else.
    sections
        Further tables, above the comparison.
    comparison
        Title of the comparison's table.
    """
    pictures = [("Predictions of both models at the test points", _picture_means(report))]
    if report.predictions.y is not None:
        pictures = [
            ("Observed targets against predictions, with 95 % intervals", _picture_truth(report)),
            ("Calibration: share of targets inside central intervals", _picture_coverage(report)),
            ("Probability integral transforms: flat if calibrated", _picture_pit(report)),
            *pictures,
        ]
    return ENVIRONMENT.get_template("report.html").render(
        report=report,
        figures=figures_section(report, comparison),
        pictures=pictures,
        title=title,
        lead=lead,
        opening=opening,
        sections=sections,
        closing=closing,
    )


def render_table(report: PosteriorReport) -> str:
    """Return the table of figures alone, for notebooks."""
    section = figures_section(report, report.verdict())
    return ENVIRONMENT.get_template("table.html").render(section=section)


def figures_section(report: PosteriorReport, title: str) -> Section:
    """Return the table of figures of a comparison."""
    figures = report.figures
    columns = (f"{figures.n_test} test points", "model", "reference")
    return Section(title, columns, figure_rows(figures, report.accuracy))


def axes_of(width: float, height: float) -> tuple[Figure, mpl.axes.Axes]:
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


def _picture_truth(report: PosteriorReport) -> str:
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


def _picture_coverage(report: PosteriorReport) -> str:
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


def _picture_pit(report: PosteriorReport) -> str:
    f = report.figures
    assert f.pit is not None
    assert f.reference_pit is not None
    figure, axes = axes_of(4.2, 3.6)
    for label, color, shares in (
        ("reference", REFERENCE, f.reference_pit), ("model", MODEL, f.pit),
    ):  # fmt: skip
        axes.stairs(np.multiply(shares, len(shares)), np.linspace(0, 1, len(shares) + 1),
                    color=color, linewidth=1.8, label=label)  # fmt: skip
    axes.axhline(1.0, color="gray", linewidth=1, label="perfect calibration")
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel("predictive distribution function at the observed y")
    axes.set_ylabel("density")
    axes.legend(frameon=False)
    return svg_of(figure)


def _observed_shares(
    y: FloatArray, mean: FloatArray, std: FloatArray, nominal: FloatArray
) -> FloatArray:
    """Share of targets within the central interval of each nominal level."""
    level = np.sort(2 * ndtr(np.abs(y - mean).ravel() / std.ravel()) - 1)
    return np.searchsorted(level, nominal, side="right") / level.size


def _picture_means(report: PosteriorReport) -> str:
    p = report.predictions
    figure, axes = axes_of(4.2, 3.6)
    axes.plot(p.reference_mean.ravel(), p.mean.ravel(), ".", color=MODEL, alpha=0.6, label="mean")
    limits = [p.reference_mean.min(), p.reference_mean.max()]
    axes.plot(limits, limits, color="gray", linewidth=1)
    axes.set_xlabel("mean of the reference (units of y)")
    axes.set_ylabel("mean of the model (units of y)")
    return svg_of(figure)
