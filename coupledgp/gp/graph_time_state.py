"""Parts of a space-time process in a model file, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.gp.protocol import Arrays
from coupledgp.gp.schema import Entries, check_number, require_type
from coupledgp.inference.space_time.filters import Term
from coupledgp.kernels.time import time_kernel_from, time_kernel_state
from coupledgp.random import FloatArray, IntArray

# Most terms of a file, states of them, and cells of its grid for each observation: a small file
# cannot ask for large arrays.
MOST_TERMS, MOST_STATES, MOST_GAPS = 64, 512, 1000


def terms_state(terms: tuple[Term, ...]) -> list[dict[str, Any]]:
    """Terms as JSON holds them."""
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


def grid_state(
    sensors: IntArray, times: FloatArray, values: FloatArray, extra: FloatArray | None
) -> Arrays:
    """Observations of a grid (p, n), NaN in gaps, as arrays: cells and what was observed there."""
    cells = np.flatnonzero(~np.isnan(values))
    arrays: Arrays = {
        "sensors": sensors, "times": times, "cells": cells, "y": values.reshape(-1)[cells],
    }  # fmt: skip
    if extra is not None:
        arrays["extra"] = extra.reshape(-1)[cells]
    return arrays


def grid_from(entries: Entries) -> tuple[IntArray, FloatArray, FloatArray, FloatArray | None]:
    """Sensors, times, values (p, n), NaN in gaps, and extra noise of `grid_state`."""
    sensors = entries.integers("sensors", "p", low=0, high=2**62).numpy()
    times = entries.floats("times", "n").numpy()
    shape = (sensors.size, times.size)
    if (np.diff(sensors) <= 0).any() or (np.diff(times) <= 0).any():
        raise ModelFileError("sensors, times: expected rising numbers, got others")
    cells = entries.integers("cells", "m", low=0, high=max(shape[0] * shape[1] - 1, 0)).numpy()
    targets = entries.floats("y", "m").numpy()
    seen = np.zeros(shape[0], dtype=bool)
    seen[cells // max(shape[1], 1)] = True
    if (np.diff(cells) <= 0).any() or not seen.size or not seen.all():
        raise ModelFileError("cells: expected rising numbers, some of each sensor, got others")
    if cells.size < shape[0] * shape[1] / MOST_GAPS:
        raise ModelFileError(f"cells: expected one of {MOST_GAPS} at least, got {cells.size}")
    values = np.full(shape, np.nan)
    values.reshape(-1)[cells] = targets
    extra = None
    if "extra" in entries.arrays:
        extra = np.zeros(shape)
        extra.reshape(-1)[cells] = entries.floats("extra", "m").numpy()
        if (extra < 0).any():
            raise ModelFileError("extra: expected variances of at least zero, got others")
    return sensors, times, values, extra
