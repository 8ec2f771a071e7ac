"""Predictions by all rivals of a kind, by name."""

from __future__ import annotations

from typing import Any

from coupledgp.diagnostics.rivals.observed import Kind, Predicted
from coupledgp.random import IntArray


def predicted(kind: Kind, points: Any) -> dict[str, Predicted]:
    """Predictions at points by those that apply, the mean first."""
    found = {"mean": kind.observations.predicted_by_mean(len(points))}
    for name, make in kind.makers.items():
        made = make()
        if not isinstance(made, str):
            found[name] = made.predict(points)
    return found


def left_out(kind: Kind, groups: IntArray) -> dict[str, Predicted]:
    """Predictions of observations from those of other groups."""
    found = {"mean": kind.observations.left_out_by_mean(groups)}
    for name, make in kind.makers.items():
        made = make()
        if not isinstance(made, str):
            found[name] = made.left_out(groups)
    return found
