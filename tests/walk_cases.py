"""Visits of the compiled engine for given lengths, without what draws them."""

from __future__ import annotations

import numpy as np

from coupledgp.graphs.walk_steps import Moves
from coupledgp.graphs.walk_visits import Visits, form_of, starts
from coupledgp.graphs.walks import Engine, merge_columns
from coupledgp.random import IntArray


def walk(seed: int, rows: IntArray, lengths: IntArray, steps: int | None, moves: Moves) -> Visits:
    """Visits of walkers of start nodes (n,) that make `lengths` (n, m) steps."""
    assert steps is not None
    longest = int(lengths.max(initial=0))
    return counted(Engine(seed, steps, moves, longest), rows, lengths)


def counted(engine: Engine, rows: IntArray, lengths: IntArray) -> Visits:
    """Visits of an engine."""
    n_walks = lengths.shape[1]
    columns = engine.visits(rows, lengths)
    form = form_of(n_walks, engine.longest)
    room = int(columns.n_codes.sum())
    nodes, entries = np.empty(room, np.int32), np.empty(room, form.dtype)
    sizes = [np.empty(rows.size, np.int64) for _ in range(2)]
    own = np.full(rows.size, n_walks)
    merge_columns(*columns.read, *form, own, nodes, entries, *sizes)
    pairs, found = starts(sizes[0]), starts(sizes[1])
    return Visits(pairs, nodes[: pairs[-1]], found, entries[: found[-1]], form)
