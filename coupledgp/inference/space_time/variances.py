"""Variances of terms of series given complete data."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from coupledgp.ground.compiled import share_rows
from coupledgp.inference.space_time.factors import LANES
from coupledgp.inference.space_time.gains import MOST_GROUPS, Dynamics, Gains
from coupledgp.inference.space_time.products import multiply
from coupledgp.inference.space_time.smoothed import fill_variances
from coupledgp.random import FloatArray

# Numbers of the factors of covariances that a thread keeps at once.
KEPT = 2**22


def posterior_variances(
    shared: Dynamics, gains: Gains, asked: FloatArray, asked_constants: FloatArray,
    constants: FloatArray, whole: int,
) -> FloatArray:  # fmt: skip
    """Return variances (k, G, LANES, n) of sums of terms given complete data where it is seen.

    Given the constant terms' sum, of variance c, a sum `g + e` of other terms g and constants e has
    the variance V of g that the smoother knows and that of e, `(1 - r) v`, `r = v / c`; its mean
    depends on that sum as `r - (K_g b)(t)`, `b = B^-1 1`. So its variance is

        V(t) + (1 - r) v + c / (1 + c 1'b) (r - (K_g b)(t))^2 .

    Parameters
    ----------
    asked
        Outputs (k, G, d, LANES) of g, for k sums.
    asked_constants
        v (k, G, LANES).
    constants
        c (G, LANES).
    whole
        Number of the sum that is that of all terms; negative if there is none.
    """
    n_asked, n_groups, n = asked.shape[0], asked.shape[1], shared.n_times
    found = np.empty((n_asked, n_groups, LANES, n))
    parts = np.divide(
        asked_constants, constants, out=np.zeros_like(asked_constants), where=constants > 0.0
    )
    space = shared.space
    start, noises = shared.factors
    size = max(KEPT // max(space.n_states**2 * LANES, 1), 1)

    def work(blocks: Iterator[tuple[int, int]]) -> None:
        room = np.empty((n_asked, n, LANES))
        for first, last in blocks:
            for g in range(first, last):
                fill_variances(
                    gains.outputs[g], shared.noise, start, space.transitions, noises, space.steps,
                    shared.seen, gains.records[g], shared.stop,
                    np.ascontiguousarray(asked[:, g]), whole, size, room,
                )  # fmt: skip
                if constants[g].any():
                    _add_constants(shared, gains, g, asked[:, g], parts[:, g], room)
                    room += ((1.0 - parts) * asked_constants)[:, g, None]
                found[:, g] = np.swapaxes(room, 1, 2)

    share_rows(work, n_groups, 1, MOST_GROUPS)
    return found


def _add_constants(
    shared: Dynamics, gains: Gains, g: int, asked: FloatArray, parts: FloatArray, found: FloatArray
) -> None:
    """Add `c / (1 + c 1'b) (r - K_g b)^2` of a group to variances (k, n, LANES)."""
    space = shared.space
    product = np.empty((shared.n_times, LANES))
    for outputs, part, variances in zip(asked, parts, found, strict=True):
        outputs = np.ascontiguousarray(outputs)
        multiply(gains.answers[g], product, outputs, space.stationary_times(outputs),
                 space.transitions, space.steps)  # fmt: skip
        variances += gains.shares[g] * (part - product) ** 2
