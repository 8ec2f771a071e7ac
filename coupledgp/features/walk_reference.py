"""The walks once more, in plain Python and numpy: slow, short, and the engine's measure.

The engine must give the same visits bit for bit (`tests/features/test_walk_engine.py`).
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from coupledgp.counter import counter_uniforms
from coupledgp.features.walk_engine import INDEPENDENT, REPELLING, Moves
from coupledgp.random import FloatArray

IntArray = NDArray[np.int64]


def paths(seed: int, node: int, lengths: IntArray, steps: int, moves: Moves) -> list[list[int]]:
    """Where each of one node's walkers stands at steps 0, 1, ..."""
    walked = [[node] for _ in lengths]
    if moves.indptr[node] == moves.indptr[node + 1]:
        return walked
    longest = int(lengths.max())
    for step in range(1, longest + 1):
        u = counter_uniforms(seed, np.array([node]), step, lengths.size)[0]
        groups: dict[int, list[int]] = {}
        for walker in np.flatnonzero(lengths >= step).tolist():
            groups.setdefault(walked[walker][-1], []).append(walker)
        for here, walkers in groups.items():
            for walker, there in zip(walkers, move(here, u[walkers], steps, moves), strict=True):
                walked[walker].append(there)
    return walked


def visits_of(walked: list[list[int]]) -> Counter[tuple[int, int]]:
    """How many walkers are at each (node, step), step 0 included."""
    return Counter((node, step) for path in walked for step, node in enumerate(path))


def move(node: int, u: FloatArray, steps: int, moves: Moves) -> list[int]:
    """Where the walkers that stand together on `node` go, given a uniform for each."""
    if steps == INDEPENDENT:
        return [neighbour(node, float(v), moves) for v in u]
    if steps == REPELLING:
        return repel(node, u, moves)
    spread = [u[0] + rank / u.size for rank in range(u.size)]
    return [neighbour(node, v - 1.0 if v >= 1.0 else v, moves) for v in spread]


def neighbour(node: int, v: float, moves: Moves) -> int:
    """The neighbour of `node` at quantile v of its edge weights."""
    row = slice(moves.indptr[node], moves.indptr[node + 1])
    found = moves.indices[row]
    if moves.cumulative.size == 0:
        return int(found[min(int(v * found.size), found.size - 1)])
    sums = moves.cumulative[row]
    place = int(np.searchsorted(sums, v * sums[-1], side="right"))
    return int(found[min(place, found.size - 1)])


def repel(node: int, u: FloatArray, moves: Moves) -> list[int]:
    """Distinct neighbours without replacement; a new block begins when all are taken."""
    found = moves.indices[moves.indptr[node] : moves.indptr[node + 1]].tolist()
    chosen: list[int] = []
    left = list(found)
    for v in u:
        left = left or list(found)
        chosen.append(left.pop(min(int(v * len(left)), len(left) - 1)))
    return chosen
