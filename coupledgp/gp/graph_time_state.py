"""Parts of a space-time process in a model file, and back."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.gp.protocol import Arrays
from coupledgp.gp.schema import Entries, check_number, require_type
from coupledgp.inference.space_time.filters import Term
from coupledgp.kernels.time import time_kernel_from, time_kernel_state
from coupledgp.random import FloatArray, IntArray

# Most terms of a file, and states of them.
MOST_TERMS, MOST_STATES = 64, 512


class GridCells(NamedTuple):
    """Observed cells of a grid.

    Attributes
    ----------
    numbers : IntArray (m,)
        Rising numbers of the cells, sensor by sensor.
    values : FloatArray (m,)
        Observations in units of y.
    extra : FloatArray (m,) or None
        Variance of extra noise over the noise of a sensor of scale one.
    """

    numbers: IntArray
    values: FloatArray
    extra: FloatArray | None


def terms_state(terms: tuple[Term, ...]) -> list[dict[str, Any]]:
    """Terms as values of JSON."""
    return [
        {
            "where": term.where,
            "variance": float(term.variance),
            "kernel": time_kernel_state(term.kernel),
        }
        for term in terms
    ]


def terms_from(entries: Entries) -> tuple[Term, ...]:
    """The terms of `terms_state`."""
    state = require_type(entries.value("terms"), list, "terms")
    if not 0 < len(state) <= MOST_TERMS:
        raise ModelFileError(f"terms: expected 1 to {MOST_TERMS}, got {len(state)}")
    terms = tuple(_term_from(item) for item in state)
    count = sum(term.kernel.output.size for term in terms)
    if count > MOST_STATES:
        raise ModelFileError(f"terms: expected {MOST_STATES} states at most, got {count}")
    return terms


def _term_from(state: Any) -> Term:
    values = require_type(state, dict, "terms")
    kernel = require_type(values.get("kernel"), dict, "terms.kernel")
    variance = check_number(values.get("variance"), "terms.variance", low=0.0)
    try:
        return Term(values.get("where"), time_kernel_from(kernel), variance)
    except (TypeError, ValueError, InvalidInputError) as error:
        raise ModelFileError(f"terms: expected a term, {error}") from None


def grid_state(sensors: IntArray, times: FloatArray, cells: GridCells) -> Arrays:
    """Observations of a grid (p, n) as arrays."""
    arrays: Arrays = {"sensors": sensors, "times": times}
    arrays |= {"cells": cells.numbers, "y": cells.values}
    return arrays if cells.extra is None else arrays | {"extra": cells.extra}


def grid_from(entries: Entries) -> tuple[IntArray, FloatArray, GridCells]:
    """Sensors, times and cells of `grid_state`."""
    sensors = entries.integers("sensors", "p", low=0, high=2**62)
    times = entries.floats("times", "n")
    p, n = sensors.size, times.size
    cells = entries.integers("cells", "m", low=0, high=max(p * n - 1, 0))
    for name, numbers in (("sensors", sensors), ("times", times), ("cells", cells)):
        if not (numbers[1:] > numbers[:-1]).all():
            raise ModelFileError(f"{name}: expected rising numbers, got others")
    seen = np.zeros(p, dtype=bool)
    seen[cells // max(n, 1)] = True
    if not seen.size or not seen.all():
        raise ModelFileError("cells: expected some of each sensor, got none of one")
    extra = None
    if "extra" in entries.arrays:
        extra = entries.floats("extra", "m", low=0.0)
    return sensors, times, GridCells(cells, entries.floats("y", "m"), extra)
