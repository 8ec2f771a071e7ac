"""The walks in plain Python and numpy, a slow and short reference for the compiled engine.

The engine must give the same visits bit for bit (`tests/features/test_walk_engine.py`). Laws of
steps that are not compiled run here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from coupledgp.couplings.walkers.steps import Steps
from coupledgp.errors import CoupledGPError
from coupledgp.graphs import Graph
from coupledgp.graphs.walk_visits import Expanded, Visits, form_of, packed, starts
from coupledgp.ground.counter import SECOND_STREAMS, counter_uniforms
from coupledgp.random import FloatArray, IntArray


def paths(seed: int, node: int, lengths: IntArray, steps: Steps, graph: Graph) -> list[list[int]]:
    """Nodes at which each of one node's m walkers stands at steps 0, 1, ..., from lengths (m,)."""
    walked = [[node] for _ in lengths]
    if graph.indptr[node] == graph.indptr[node + 1]:
        return walked
    longest = int(lengths.max())
    start = np.array([node])
    for step in range(1, longest + 1):
        u = [counter_uniforms(seed, start, s, lengths.size) for s in (step, SECOND_STREAMS + step)]
        groups: dict[int, list[int]] = {}
        for walker in np.flatnonzero(lengths >= step).tolist():
            groups.setdefault(walked[walker][-1], []).append(walker)
        for here, walkers in groups.items():
            moved = move(here, np.concatenate(u)[:, walkers], steps, graph)
            for walker, there in zip(walkers, moved, strict=True):
                walked[walker].append(there)
    return walked


def visits_of(walked: list[list[int]]) -> Counter[tuple[int, int]]:
    """Number of walkers at each (node, step), step 0 included."""
    return Counter((node, step) for path in walked for step, node in enumerate(path))


def move(node: int, u: FloatArray, steps: Steps, graph: Graph) -> list[int]:
    """Next nodes of the k walkers that stand together on `node`, given uniforms (2, k)."""
    row = slice(graph.indptr[node], graph.indptr[node + 1])
    found = graph.indices[row]
    weights = graph.weights[row] if graph.is_weighted else None
    places = np.asarray(steps.choose(u, found.size, weights))
    ok = places.shape == (u.shape[1],) and places.dtype.kind in "iu"
    if not ok or places.min() < 0 or places.max() >= found.size:
        raise CoupledGPError(
            f"{type(steps).__name__}.choose returned {places!r}, expected {u.shape[1]} integers "
            f"from 0 to {found.size - 1}"
        )
    return [int(there) for there in found[places]]


def plain_walk(
    seed: int,
    rows: IntArray,
    lengths: IntArray,
    steps: Steps,
    graph: Graph,
    longest: int,
    n_walks: IntArray | None = None,
) -> Visits:
    """Visits as the engine finds them, for rows (n,), lengths (n, m) up to `longest`, any steps.

    Given `n_walks` (n,), start node r has as many walkers, with the first lengths of its row.
    """
    most = np.full(rows.size, lengths.shape[1]) if n_walks is None else n_walks
    walked = (
        paths(seed, int(node), lengths[r, : most[r]], steps, graph) for r, node in enumerate(rows)
    )
    visits = expanded_visits(visits_of(row) for row in walked)
    return packed(visits, form_of(lengths.shape[1], longest))


def plain_ends(
    seed: int, rows: IntArray, lengths: IntArray, steps: Steps, graph: Graph
) -> IntArray:
    """Nodes (n, m) where walkers halt, as from `engine.walk_ends`, for any law of steps."""
    walked = (paths(seed, int(node), lengths[r], steps, graph) for r, node in enumerate(rows))
    return np.array([[path[-1] for path in row] for row in walked], dtype=np.int64)


def expanded_visits(counted: Iterable[Counter[tuple[int, int]]]) -> Expanded:
    """Each row's counts of visits as arrays."""
    nodes: list[int] = []
    n_pairs, n_entries, steps, counts = [], [], [], []
    for row in counted:
        before = len(nodes)
        for node, step in sorted(row):
            if len(nodes) == before or nodes[-1] != node:
                nodes.append(node)
                n_entries.append(0)
            n_entries[-1] += 1
            steps.append(step)
            counts.append(row[node, step])
        n_pairs.append(len(nodes) - before)
    return Expanded(
        starts(np.array(n_pairs, dtype=np.int64)),
        np.array(nodes, dtype=np.int32),
        starts(np.array(n_entries, dtype=np.int64)),
        np.array(steps, dtype=np.uint16),
        np.array(counts, dtype=np.uint32),
    )
