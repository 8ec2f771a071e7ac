"""The report as a page: tables and inline pictures, nothing fetched from anywhere."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import jinja2
import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from scipy.special import ndtr, ndtri

from coupledgp.random import FloatArray

if TYPE_CHECKING:
    from coupledgp.diagnostics.report import PosteriorReport

MODEL, REFERENCE = "#0b6e99", "#d9730d"
# Points drawn as error bars; more would only be a blot.
MAX_BARS = 250
_ENVIRONMENT = jinja2.Environment(
    loader=jinja2.PackageLoader("coupledgp.diagnostics"), autoescape=True
)


def render(report: PosteriorReport) -> str:
    """Return the whole page."""
    pictures = [("Predictions of both models at the test points", _picture_means(report))]
    if report.predictions.y is not None:
        pictures = [
            ("Observed targets against predictions, with 95 % intervals", _picture_truth(report)),
            ("Calibration: share of targets inside central intervals", _picture_coverage(report)),
            *pictures,
        ]
    return _ENVIRONMENT.get_template("report.html").render(
        report=report, rows=table_rows(report), pictures=pictures
    )


def render_table(report: PosteriorReport) -> str:
    """Return the table of figures alone, for notebooks."""
    return _ENVIRONMENT.get_template("table.html").render(report=report, rows=table_rows(report))


def table_rows(report: PosteriorReport) -> list[tuple[str, str, str]]:
    """Rows (figure, model, reference) of the table, as texts."""
    f = report.figures
    rows: list[tuple[str, float | None, float | None]] = [
        ("KL(reference || model), nats per point", f.kl_per_point, None),
        ("KL(model || reference), nats per point", f.reverse_kl_per_point, None),
        ("KL between the priors, nats per point", f.prior_kl_per_point, None),
        ("kernel error, relative Frobenius", f.kernel_relative_error, None),
        ("kernel RMSE, units of y squared", f.kernel_rmse, None),
        ("RMSE, units of y", f.rmse, f.reference_rmse),
        ("NLPD, marginal, nats per point", f.nlpd, f.reference_nlpd),
        ("NLPD, joint, nats per point", f.nlpd_joint, f.reference_nlpd_joint),
    ]
    rows += [
        (f"coverage of {100 * level:.0f} % intervals", share, (f.reference_coverage or {})[level])
        for level, share in (f.coverage or {}).items()
    ]
    return [
        (name, f"{value:.4g}", "" if other is None else f"{other:.4g}")
        for name, value, other in rows
        if value is not None
    ]


def _axes(width: float, height: float) -> tuple[Figure, mpl.axes.Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.6)
    return figure, axes


def _svg(figure: Figure) -> str:
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
    figure, axes = _axes(6, 5)
    axes.errorbar(
        mean[shown], y[shown], xerr=ndtri(0.975) * std[shown], fmt=".", color=MODEL,
        ecolor=MODEL, elinewidth=0.6, alpha=0.6, markersize=5,
    )  # fmt: skip
    limits = [y.min(), y.max()]
    axes.plot(limits, limits, color="gray", linewidth=1)
    axes.set_xlabel("prediction, mean and 95 % interval (units of y)")
    axes.set_ylabel("observed y")
    return _svg(figure)


def _picture_coverage(report: PosteriorReport) -> str:
    p = report.predictions
    assert p.y is not None
    figure, axes = _axes(6, 5)
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
    return _svg(figure)


def _observed_shares(
    y: FloatArray, mean: FloatArray, std: FloatArray, nominal: FloatArray
) -> FloatArray:
    """Share of targets within the central interval of each nominal level."""
    level = np.sort(2 * ndtr(np.abs(y - mean).ravel() / std.ravel()) - 1)
    return np.searchsorted(level, nominal, side="right") / level.size


def _picture_means(report: PosteriorReport) -> str:
    p = report.predictions
    figure, axes = _axes(6, 5)
    axes.plot(p.reference_mean.ravel(), p.mean.ravel(), ".", color=MODEL, alpha=0.6, label="mean")
    limits = [p.reference_mean.min(), p.reference_mean.max()]
    axes.plot(limits, limits, color="gray", linewidth=1)
    axes.set_xlabel("mean of the reference (units of y)")
    axes.set_ylabel("mean of the model (units of y)")
    return _svg(figure)
