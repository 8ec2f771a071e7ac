"""Pictures of couplings side by side, beside the exact process and the model of a page."""

from __future__ import annotations

from typing import Any

import numpy as np

from coupledgp.diagnostics.pages.palette import REFERENCE, coupling_style
from coupledgp.diagnostics.pages.picture import Picture, axes_of, legend, log_axis, plain_axis
from coupledgp.diagnostics.pages.pictures import SIZE
from coupledgp.diagnostics.studies.pairs import MeanOverDraws
from coupledgp.random import FloatArray

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
