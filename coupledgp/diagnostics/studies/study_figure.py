"""The figure of a study of couplings, for print."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, ScalarFormatter

from coupledgp.diagnostics.pages.palette import coupling_style
from coupledgp.diagnostics.pages.print_figure import PANEL, PRINT
from coupledgp.diagnostics.studies.pairs import StudyRow, values_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
