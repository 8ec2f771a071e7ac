"""Memory that walks take, estimated before they are sampled."""

from __future__ import annotations

import numpy as np

from coupledgp.features.walks.visits import form_of
from coupledgp.ground.memory import check_memory
from coupledgp.random import FloatArray


def visit_bytes(n_walks: int, longest: int) -> float:
    """Most bytes of a visit: a node (4), its step and count, and a feature (8)."""
    return 12.0 + np.dtype(form_of(n_walks, longest).dtype).itemsize


def walk_bytes(n_rows: int, n_walks: int, survival: FloatArray) -> float:
    """Upper estimate of the bytes of walks and their features.

    Every walker makes `1 + sum_{t>=1} S_t` visits on average; merging only makes them fewer.

    Parameters
    ----------
    n_rows
        Number of start nodes.
    n_walks
        Number of walkers of each.
    survival
        Probabilities `S_t` (max_length + 1,) that a walk has at least t steps.
    """
    per_visit = visit_bytes(n_walks, survival.size - 1)
    return per_visit * n_rows * n_walks * float(survival.sum())


def check_walk_memory(n_rows: int, n_walks: int, survival: FloatArray, limit: float | None) -> None:
    """Refuse walks that need more than the limit in bytes, or than is available if it is None.

    The chances `survival` (max_length + 1,) of a walk to have at least t steps give the estimate.

    Raises
    ------
    MemoryLimitError
        The walks would not fit; the message says what would make them smaller.
    """

    def advice(share: float) -> str:
        fitting = int(n_walks * share)
        fewer = f"n_walks <= {fitting}, " if fitting else ""
        return f"use {fewer}fewer nodes, a larger p_halt or a smaller max_length"

    needed = walk_bytes(n_rows, n_walks, survival)
    check_memory(needed, f"walks: {n_walks} from each of {n_rows} nodes", advice, limit)
