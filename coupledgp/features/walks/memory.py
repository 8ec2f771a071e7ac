"""Memory that walks take, estimated before they are sampled."""

from __future__ import annotations

import numpy as np

from coupledgp.features.walks.visits import form_of
from coupledgp.ground.memory import check_memory
from coupledgp.random import FloatArray, IntArray


def visit_bytes(n_walks: int, longest: int) -> float:
    """Most bytes of a visit: a node (4), its step and count, and a feature (8)."""
    return 12.0 + np.dtype(form_of(n_walks, longest).dtype).itemsize


def walk_bytes(n_rows: int, n_walks: int | IntArray, survival: FloatArray) -> float:
    """Upper estimate of the bytes of walks and their features.

    Every walker makes `1 + sum_{t>=1} S_t` visits on average; merging only makes them fewer.

    Parameters
    ----------
    n_rows
        Number of start nodes.
    n_walks
        Number of walkers of each, or one number for each (n_rows,).
    survival
        Probabilities `S_t` (max_length + 1,) that a walk has at least t steps.
    """
    own = np.broadcast_to(n_walks, n_rows)
    per_visit = visit_bytes(int(own.max(initial=1)), survival.size - 1)
    return per_visit * float(own.sum()) * float(survival.sum())


def check_walk_memory(n_walks: IntArray, survival: FloatArray, limit: float | None) -> None:
    """Refuse walks that need more than the limit in bytes, or than is available if it is None.

    The numbers of walkers of the start nodes (n_rows,) and the chances `survival` (max_length + 1,)
    of a walk to have at least t steps give the estimate.

    Raises
    ------
    MemoryLimitError
        The walks would not fit; the message says what would make them smaller.
    """

    def advice(share: float) -> str:
        fitting = int(mean * share)
        fewer = f"n_walks <= {fitting}, " if fitting else ""
        return f"use {fewer}fewer nodes, a larger p_halt or a smaller max_length"

    mean = float(n_walks.mean()) if n_walks.size else 0.0
    needed = walk_bytes(n_walks.size, n_walks, survival)
    check_memory(needed, f"walks: {mean:g} from each of {n_walks.size} nodes", advice, limit)
