"""Histograms of ranks in simulation-based calibration, for print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from scipy.stats import binom

from coupledgp.diagnostics.pages.palette import MODEL
from coupledgp.diagnostics.pages.print_figure import PANEL, PRINT

COLUMNS = 3
LINE = 26  # letters of a title across a panel
# Chance that one bar of a uniform histogram leaves the band.
OUTSIDE = 0.01


def rank_figure(histograms: Mapping[str, Sequence[float]], n_simulations: int) -> Figure:
    """Draw a panel for each quantity: shares of ranks, and a band that holds 99 % of each bar.

    Parameters
    ----------
    histograms
        Shares of ranks in bins of equal width, by the name of the quantity.
    n_simulations
        Number of ranks in each.
    """
    n_rows = -(-len(histograms) // COLUMNS)
    with mpl.rc_context(PRINT):
        size = (PANEL[0] * min(len(histograms), COLUMNS), 0.75 * PANEL[1] * n_rows)
        drawn = Figure(figsize=size, layout="constrained")
        panels = drawn.subplots(n_rows, min(len(histograms), COLUMNS), squeeze=False).ravel()
        for axes, (name, shares) in zip(panels, histograms.items(), strict=False):
            n_bins = len(shares)
            low, high = binom.interval(1 - OUTSIDE, n_simulations, 1 / n_bins)
            axes.axhspan(low / n_simulations, high / n_simulations, color="0.85", zorder=0)
            axes.stairs(shares, np.linspace(0, 1, n_bins + 1), fill=True, color=MODEL,
                        alpha=0.7)  # fmt: skip
            axes.axhline(1 / n_bins, color="0.3", linewidth=0.6)
            axes.set_title("\n".join(wrap(name, LINE)), loc="left")
            axes.set_ylim(bottom=0)
            axes.spines[["top", "right"]].set_visible(False)
            axes.set_xlabel("rank among draws of the posterior")
            axes.set_ylabel("share")
        for axes in panels[len(histograms) :]:
            axes.set_visible(False)
    return drawn
