"""Pictures of classifiers: reliability and confusion."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coupledgp.diagnostics.likelihoods.reliability import Reliability
from coupledgp.diagnostics.pages.palette import GUIDE, INK, MODEL
from coupledgp.diagnostics.pages.picture import Picture, axes_of, legend, plain_axis, styled
from coupledgp.diagnostics.pages.pictures import SIZE, WIDE
from coupledgp.ground.visible import short
from coupledgp.random import IntArray

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
