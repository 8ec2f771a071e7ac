"""Panels, names and files of space-time models."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.gp.graph_time import GraphTimeGP
from coupledgp.gp.graph_time_prior import SpaceTimeRows
from coupledgp.gp.protocol import Arrays, Data, GaussianProcess, Header
from coupledgp.gp.transformed import TransformedGP
from coupledgp.gp.transforms import TargetTransform
from coupledgp.gp.usual_days import UsualDayGP
from coupledgp.ground.validation import check_sizes
from coupledgp.inference.space_time.filters import Term
from coupledgp.inference.space_time.site_labels import SiteLabels
from coupledgp.search.space_time.fitter import (
    FittedSpaceTime,
    Outliers,
)
from coupledgp.series import Panel, as_panel

# Names of terms in `components`.
MOVING, USUAL, OWN, BIAS, DAY = "moving", "usual", "own moving", "own usual", "usual day"


def read_panel(
    data: Any, further: tuple[Any, ...], times: Any, values: Any, resolution: Any
) -> Panel:
    """The panel of the arguments of `fit`, given by name or, after the data, by position."""
    if len(further) > 2:
        raise InvalidInputError(
            f"data: expected nodes, times and values at most, got {len(further) + 1} arguments"
        )
    if len(further) == 2:
        named = [
            name for name, value in (("times", times), ("values", values)) if value is not None
        ]
        if named:
            raise InvalidInputError(f"{named[0]}: expected it once, got it by place and by name")
        times, values = further
    elif len(further) == 1:
        if values is not None and times is not None:
            raise InvalidInputError("values: expected it once, got it by place and by name")
        if values is None and times is not None:
            values = further[0]
        else:
            times = further[0]
    return as_panel(data, times, values, resolution)


def transformed_rows(rows: SpaceTimeRows, transform: TargetTransform) -> SpaceTimeRows:
    """The same observations with transformed values."""
    values = np.full(rows.values.shape, np.nan)
    values[rows.observed] = transform.forward(transform.check(rows.values[rows.observed]))
    return replace(rows, values=values)


def observations(process: GraphTimeGP, rows: SpaceTimeRows) -> Data:
    """Observations of a process of transformed values, in units of y; without rejected ones."""
    data = process.data
    targets = rows.values[process.rows.observed][:, None]
    return Data.of(data.points, targets, weights=data.weights)


def restored_grid(header: Header, arrays: Arrays) -> GaussianProcess:
    """The process of a file: on the grid, or of transformed values."""
    if "target_transforms" in header:
        return TransformedGP.from_state(header, arrays)
    if "days" in header:
        return UsualDayGP.from_state(header, arrays)
    return GraphTimeGP.from_state(header, arrays)


def rows_of(panel: Panel, labels: SiteLabels) -> SpaceTimeRows:
    """The values of a panel by rising sites."""
    numbers = labels.numbers(panel.nodes)
    order = np.argsort(numbers, kind="stable")
    rising = numbers[order]
    same = np.flatnonzero(np.diff(rising) == 0)
    if same.size:
        label = panel.nodes[order[same[0]]]
        raise InvalidInputError(f"nodes: expected each node once, got {label!r} twice")
    check_sizes(np.diff(panel.axis.values), "times: steps")
    return SpaceTimeRows(rising, panel.axis.values, panel.values[order])


def results_of(found: FittedSpaceTime, panel: Panel, labels: SiteLabels) -> dict[str, Any]:
    """Results of a fit by name."""
    return {
        "panel": panel,
        "sensors": labels.numbers(panel.nodes),
        "outliers": found.outliers,
        "n_rounds_": found.fit.n_rounds,
        "n_evaluations_": found.fit.n_evaluations,
        "converged_": found.fit.converged,
    }


def no_outliers() -> Outliers:
    """No outliers, as of a model from a file."""
    none = np.empty(0, dtype=np.int64)
    return Outliers(none, none, np.empty(0), False)


def longest_run(observed: Any) -> int:
    """Steps of the longest run of cells (p, n) without an observation in a row."""
    longest = 0
    for row in ~observed:
        edges = np.flatnonzero(np.diff(np.concatenate([[0], row.astype(np.int8), [0]])))
        longest = max(longest, int((edges[1::2] - edges[::2]).max(initial=0)))
    return longest


def term_names(terms: tuple[Term, ...]) -> list[str]:
    """Names of terms in words."""
    found = []
    for term in terms:
        kind = type(term.kernel).__name__
        own = term.where == "node"
        if kind == "Constant":
            name = BIAS if own else USUAL
        elif kind == "Periodic":
            name = f"{'own ' if own else ''}cycle of {term.kernel.period:g}"  # type: ignore[attr-defined]
        else:
            name = OWN if own else MOVING
        found.append(name)
    return found
