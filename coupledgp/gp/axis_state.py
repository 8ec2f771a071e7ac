"""Time axes in a model file, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from coupledgp.errors import ModelFileError
from coupledgp.gp.schema import Entries, require_type
from coupledgp.random import FloatArray
from coupledgp.series import TimeAxis
from coupledgp.series.axis import LARGEST_SECONDS
from coupledgp.series.stamps import zone_of_name


def axis_state(axis: TimeAxis) -> dict[str, Any]:
    """Origin, zone and tick of a time axis as a file holds them, beside the numbers."""
    origin = None if axis.origin is None else str(axis.origin.astype("datetime64[ns]"))
    return {"origin": origin, "zone": axis.zone, "tick": axis.tick, "whole": axis.whole}


def axis_from(state: Any, times: FloatArray) -> TimeAxis:
    """The axis of `axis_state`, whose first and last time are of the years 1678 to 2261."""
    entries = Entries(require_type(state, dict, "axis"), {})
    zone, origin = entries.value("zone"), entries.value("origin")
    if zone is not None:
        zone_of_name(entries.text("zone"))
    axis = TimeAxis(
        times, None if origin is None else _instant(entries.text("origin")), zone,
        entries.integer("tick", low=1, high=1000), "numpy", entries.flag("whole"),
    )  # fmt: skip
    axis.labels(times[[0, -1]])
    return axis


def _instant(text: str) -> np.datetime64:
    """The time of a text by ISO 8601, in nanoseconds, into which other years do not fit."""
    second = np.datetime64(text, "s")
    if not abs(second.astype(np.int64)) < LARGEST_SECONDS - 1:
        raise ModelFileError(f"axis.origin: expected a time of 1678 to 2261, got {second}")
    return np.datetime64(text, "ns")
