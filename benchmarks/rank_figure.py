"""Histograms and distributions of ranks in simulation-based calibration, for print."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from scipy.stats import binom

from coupledgp.diagnostics.pages.palette import MODEL
from coupledgp.diagnostics.pages.print_figure import PANEL, PRINT
from coupledgp.diagnostics.scoring.ecdf import EcdfEnvelope

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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

    def draw(axes: Axes, shares: Sequence[float]) -> None:
        n_bins = len(shares)
        low, high = binom.interval(1 - OUTSIDE, n_simulations, 1 / n_bins)
        axes.axhspan(low / n_simulations, high / n_simulations, color="0.85", zorder=0)
        axes.stairs(shares, np.linspace(0, 1, n_bins + 1), fill=True, color=MODEL, alpha=0.7)
        axes.axhline(1 / n_bins, color="0.3", linewidth=0.6)
        axes.set_ylim(bottom=0)
        axes.set_ylabel("share")

    return _panels(histograms, draw)


def ecdf_figure(envelopes: Mapping[str, EcdfEnvelope]) -> Figure:
    """Draw a panel for each quantity: the distribution of ranks less the uniform one.

    The envelope holds that of uniform ranks at all places at once with a chance of 95 %.
    """

    def draw(axes: Axes, found: EcdfEnvelope) -> None:
        places = np.array(found.places)
        axes.fill_between(places, found.low - places, found.high - places, color="0.85", zorder=0)
        axes.plot(places, found.shares - places, color=MODEL, linewidth=1.2)
        axes.axhline(0, color="0.3", linewidth=0.6)
        axes.set_ylabel("share of ranks below, less rank")

    return _panels(envelopes, draw)


def _panels(found: Mapping[str, Any], draw: Callable[[Axes, Any], None]) -> Figure:
    """A panel for each quantity, by what draws it."""
    n_rows = -(-len(found) // COLUMNS)
    with mpl.rc_context(PRINT):
        size = (PANEL[0] * min(len(found), COLUMNS), 0.75 * PANEL[1] * n_rows)
        drawn = Figure(figsize=size, layout="constrained")
        panels = drawn.subplots(n_rows, min(len(found), COLUMNS), squeeze=False).ravel()
        for axes, (name, one) in zip(panels, found.items(), strict=False):
            draw(axes, one)
            axes.set_title("\n".join(wrap(name, LINE)), loc="left")
            axes.spines[["top", "right"]].set_visible(False)
            axes.set_xlabel("rank among draws of the posterior")
        for axes in panels[len(found) :]:
            axes.set_visible(False)
    return drawn
