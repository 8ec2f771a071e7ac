"""One thread for small work, in which many threads would wait for each other.

Libraries share out loops over some ten thousand numbers among all threads, which wait for each
other at the end of each. Where other programs hold the cores, a wait lasts as long as the system
lets these run. A small fit has thousands of such loops: with two threads it takes up to 17 times as
long as with one, and twice as long on a quiet machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from math import inf
from numbers import Integral, Real
from threading import Lock
from typing import Any

# Most observations, or places, of work that one thread does.
FEW = 2000
# Rows given a few neighbours that cost as much as a row of a dense matrix of so many.
LIGHT = 2
# Numbers from which floats have no more.
MOST = 1e300
_LIMITED: ContextVar[ExitStack | None] = ContextVar("limited", default=None)


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

    OpenMP counts threads for each thread that calls it, BLAS for all of them: bodies in several
    threads at once have one thread of BLAS until the last of them ends, and so the same bits.

    Parameters
    ----------
    *sizes
        Numbers, or what `numbers_of` counts; None counts as nothing.
    """
    if any(numbers_of(size) > FEW for size in sizes if size is not None):
        yield
        return
    with ExitStack() as stack:
        stack.enter_context(_BLAS)
        stack.enter_context(_one_thread("openmp"))
        token = _LIMITED.set(stack)
        stack.callback(_LIMITED.reset, token)
        yield


def limit_loaded() -> None:
    """Limit the threads of a library that the body of `suited_threads` has just loaded."""
    stack = _LIMITED.get()
    if stack is not None:
        stack.enter_context(_one_thread("openmp"))


def _one_thread(kind: str) -> Any:
    from threadpoolctl import threadpool_limits  # for work only, not for imports

    return threadpool_limits(1, kind)


class _OneThreadOfBlas:
    """One thread of BLAS, from the first body that enters to the last that leaves."""

    def __init__(self) -> None:
        self._lock, self._n_bodies, self._limits = Lock(), 0, ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            # Limits that an interrupt leaves here are given back with those of the next body.
            if not self._n_bodies:
                _take_control()
                self._limits.enter_context(_one_thread("blas"))
            self._n_bodies += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._n_bodies -= 1
            if not self._n_bodies:
                _take_control()
                self._limits.close()


def _take_control() -> None:
    """Let this thread set those of OpenBLAS: threadpoolctl from 3.8 on keeps that to one thread."""
    import threadpoolctl

    controller: Any = getattr(threadpoolctl, "OpenBLASController", None)
    if hasattr(controller, "clear_controlling_thread"):
        controller.clear_controlling_thread(force=True)


_BLAS = _OneThreadOfBlas()
