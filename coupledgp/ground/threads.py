"""One thread for small work, in which many threads would wait for each other.

Libraries share out loops over some ten thousand numbers among all threads, which wait for each
other at the end of each. Where other programs hold the cores, a wait lasts as long as the system
lets these run. A small fit has thousands of such loops: with two threads it takes up to 17 times as
long as with one, and twice as long on a quiet machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from numbers import Integral, Real
from typing import Any

# Most observations, or places, of work that one thread does.
FEW = 2000
# Rows given a few neighbours that cost as much as a row of a dense matrix of so many.
LIGHT = 2
# Numbers from which floats have no more.
MOST = 1e300


def numbers_of(value: Any) -> float:
    """Nodes of a graph, vertices of a mesh, or numbers of a table; infinity where it has others."""
    if isinstance(value, Real):
        return float(value) if value < MOST else inf
    for name in ("n_nodes", "n_vertices", "vertices", "size"):
        found = getattr(value, name, None)
        if isinstance(found, Integral):
            return float(found)
        if name == "vertices" and found is not None:
            return len(found)
    try:
        return len(value)
    except TypeError:
        return inf


@contextmanager
def suited_threads(*sizes: Any) -> Iterator[None]:
    """Let libraries compute in one thread in the body, where no size is above `FEW`.

    Parameters
    ----------
    *sizes
        Numbers, or what `numbers_of` counts; None counts as nothing.
    """
    if any(numbers_of(size) > FEW for size in sizes if size is not None):
        yield
        return
    from threadpoolctl import threadpool_limits  # for work only, not for imports

    with threadpool_limits(1):
        yield
