"""Pictures of couplings side by side, beside the exact process and the model of a page.

The figure of a study of couplings, for print.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, ScalarFormatter

from coupledgp.diagnostics.pages.picture import Picture, axes_of, legend, log_axis, plain_axis
from coupledgp.diagnostics.pages.pictures import SIZE
from coupledgp.diagnostics.pages.print_figure import PANEL, PRINT
from coupledgp.diagnostics.pages.scale import REFERENCE, coupling_style
from coupledgp.diagnostics.studies.pairs import MeanOverDraws, StudyRow, values_of
from coupledgp.random import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Least height of the axis of scores, as a share of the score: less is nothing to look at.
LEAST_SPAN = 0.01


def against_size(study: Any, figure_name: str) -> Picture:
    """Draw `"kl_per_point"` or `"rmse"` of the couplings of a `CouplingStudy` against the size."""
    figure, axes = axes_of(*SIZE)
    for k, coupling in enumerate(study.couplings):
        rows = study.of(coupling)
        found: list[MeanOverDraws] = [getattr(row, figure_name) for row in rows]
        axes.errorbar(
            [row.size for row in rows], [one.mean for one in found], yerr=_two_errors(found),
            label=coupling, markersize=5, linewidth=1.2, capsize=2, **coupling_style(k),
        )  # fmt: skip
    axes.set_xscale("log")
    log_axis(axes.xaxis, [float(size) for size in study.sizes])
    axes.set_xlabel(study.size_name)
    if figure_name == "rmse" and study.reference_rmse is not None:
        axes.axhline(study.reference_rmse, color=REFERENCE, linewidth=1.2, label="exact GP")
        low, high = axes.get_ylim()
        lacking = max(LEAST_SPAN * abs(study.reference_rmse) - (high - low), 0.0) / 2
        axes.set_ylim(low - lacking, high + lacking)
        axes.set_ylabel("RMSE (units of y)")
        plain_axis(axes.yaxis)
        caption = f"RMSE against {study.size_name}, with two standard errors"
    else:
        axes.set_yscale("log")
        axes.set_ylabel("KL(exact || model), nats per point")
        log_axis(axes.yaxis)
        caption = (
            f"KL to the exact GP against {study.size_name}, means over draws with two standard "
            "errors"
        )
    legend(figure, axes, 2)
    return Picture(f"couplings-{figure_name.split('_')[0]}", caption, figure)


def side_by_side(study: Any) -> Picture:
    """Draw the KL of each coupling of a `CouplingStudy` at the largest size, the closest on top."""
    rows = sorted(
        (row for row in study.rows if row.size == study.sizes[-1]),
        key=lambda row: -row.kl_per_point.mean,
    )
    figure, axes = axes_of(SIZE[0], max(1.6, 0.7 + 0.42 * len(rows)))
    names = study.couplings
    for height, row in enumerate(rows):
        axes.errorbar(
            [row.kl_per_point.mean], [height], xerr=_two_errors([row.kl_per_point]), capsize=3,
            **coupling_style(names.index(row.coupling)),
        )  # fmt: skip
    axes.set_yticks(range(len(rows)), [row.coupling for row in rows])
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_xlim(left=0)
    axes.set_xlabel("KL(exact || model), nats per point")
    plain_axis(axes.xaxis, 4)
    caption = (
        f"KL of the couplings at {study.size_name}={study.sizes[-1]}, with two standard errors"
    )
    return Picture("couplings-largest", caption, figure)


def _two_errors(found: list[MeanOverDraws]) -> FloatArray:
    """Lengths (2, n) of bars of two standard errors, downwards and upwards, of n means.

    Downwards they end above zero, which an axis of logarithms has no place for.
    """
    errors = 2 * np.nan_to_num([one.standard_error for one in found])
    centre = np.array([one.mean for one in found])
    return np.stack([np.minimum(errors, 0.999 * centre), errors])


LABELS = {
    "kl_per_point": "KL(exact || model), nats per point",
    "rmse": "RMSE (units of y)",
    "nlpd": "NLPD, nats per point",
}


def study_figure(
    by_coupling: Sequence[Sequence[StudyRow]],
    figures: Sequence[str],
    reference: dict[str, float],
    size_name: str,
) -> Figure:
    """Draw a panel for each figure against the size: means, two standard errors, single draws.

    Parameters
    ----------
    by_coupling
        Rows of each coupling by ascending size.
    figures
        Names of the figures.
    reference
        Figures of the exact GP, drawn as a line.
    size_name
        Label of the axis of sizes.
    """
    with mpl.rc_context(PRINT):
        drawn = Figure(figsize=(PANEL[0] * len(figures), PANEL[1] + 0.35), layout="constrained")
        panels = drawn.subplots(1, len(figures), squeeze=False)[0]
        for axes, figure in zip(panels, figures, strict=True):
            for k, rows in enumerate(by_coupling):
                _draw(axes, rows, figure, k, len(by_coupling))
            if figure in reference:
                axes.axhline(reference[figure], color="0.4", linewidth=0.8, linestyle="--",
                             label="exact GP")  # fmt: skip
            _dress(axes, by_coupling, figure, size_name)
        handles = {
            text: handle
            for axes in panels
            for handle, text in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        drawn.legend(handles.values(), handles.keys(), loc="outside upper center", frameon=False,
                     ncols=min(len(handles), 2 * len(figures)))  # fmt: skip
    return drawn


def _draw(axes: Axes, rows: Sequence[StudyRow], figure: str, k: int, n: int) -> None:
    """Draw one coupling; couplings stand beside each other at a size."""
    shift = 1.05 ** (k - (n - 1) / 2)
    sizes = np.array([row.size * shift for row in rows])
    found = [row.mean_of(figure) for row in rows]
    means = np.array([one.mean for one in found])
    errors = 2 * np.nan_to_num([one.standard_error for one in found])
    below = np.clip(0.999 * means, 0.0, errors) if figure == "kl_per_point" else errors
    style: dict[str, Any] = coupling_style(k)
    axes.errorbar(sizes, means, yerr=[below, errors], label=rows[0].coupling, capsize=1.5, **style)
    for row, at in zip(rows, sizes, strict=True):
        values = values_of(row.draws, figure)
        axes.plot(np.full(values.size, at), values, ".", color=style["color"], alpha=0.25,
                  markersize=2, zorder=1)  # fmt: skip


def _dress(
    axes: Axes, by_coupling: Sequence[Sequence[StudyRow]], figure: str, size_name: str
) -> None:
    """Give a panel its scales, ticks and labels."""
    sizes = [row.size for row in by_coupling[0]]
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.4)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xticks(sizes)
    axes.set_xlabel(size_name)
    axes.set_ylabel(LABELS.get(figure, figure))
    if figure == "kl_per_point":
        axes.set_yscale("log")
