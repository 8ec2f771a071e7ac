"""Estimates of memory before a run, and the refusal of what cannot fit."""

from __future__ import annotations

import os

from coupledgp.errors import MemoryLimitError
from coupledgp.random import FloatArray

# A visit is at most a step (2), a count (4), a node (4) and a pointer (8); a feature adds 12.
VISIT_BYTES = 30.0


def available_bytes() -> float:
    """Free memory of this machine; infinite where it cannot be told."""
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return float(line.split()[1]) * 1024
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (OSError, ValueError, AttributeError):
        return float("inf")


def walk_bytes(n_rows: int, n_walks: int, survival: FloatArray) -> float:
    """Upper estimate of the memory of walks and their features.

    Every walker makes `1 + sum_{t>=1} S_t` visits on average; merging only makes them fewer.
    """
    return VISIT_BYTES * n_rows * n_walks * float(survival.sum())


def check_memory(needed: float, limit: float | None, n_walks: int) -> None:
    """Refuse what needs more than the limit, with advice."""
    allowed = available_bytes() if limit is None else float(limit)
    if needed > allowed:
        fitting = int(n_walks * allowed / needed)
        advice = f"n_walks <= {fitting}, " if fitting else ""
        raise MemoryLimitError(
            f"walks: about {needed / 2**30:.3g} GiB needed, {allowed / 2**30:.3g} GiB allowed; "
            f"use {advice}fewer nodes, a larger p_halt or a smaller max_length"
        )
