"""One thread for small work, in which many threads would wait for each other.

Libraries share out loops over some ten thousand numbers among all threads, which wait for each
other at the end of each. Where other programs hold the cores, a wait lasts as long as the system
lets these run, and a small fit with thousands of such loops takes tens of times as long as in one
thread (`python benchmarks/performance/busy_machine.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from math import inf
from numbers import Integral
from threading import current_thread, main_thread
from typing import Any

# Most observations, or places, of work that one thread does.
FEW = 2000
_LIMITED: ContextVar[ExitStack | None] = ContextVar("limited", default=None)


def numbers_of(value: Any) -> float:
    """Nodes of a graph, vertices of a mesh, or numbers of a table; infinity where it has others."""
    for name in ("n_nodes", "n_vertices", "vertices", "size"):
        found = getattr(value, name, None)
        if isinstance(found, Integral):
            return int(found)
        if name == "vertices" and found is not None:
            return len(found)
    try:
        return int(value) if isinstance(value, Integral) else len(value)
    except TypeError:
        return inf


@contextmanager
def suited_threads(*sizes: Any) -> Iterator[None]:
    """Let libraries compute in one thread in the body, where no size is above `FEW`.

    OpenMP counts threads for each thread that calls it. OpenBLAS counts them for all, and what the
    main thread has lowered no other one can raise: bodies in other threads leave it as it is.

    Parameters
    ----------
    *sizes
        Numbers, or what `numbers_of` counts; None counts as nothing.
    """
    if any(numbers_of(size) > FEW for size in sizes if size is not None):
        yield
        return
    with ExitStack() as stack:
        stack.enter_context(_one_thread())
        token = _LIMITED.set(stack)
        stack.callback(_LIMITED.reset, token)
        yield


def limit_loaded() -> None:
    """Limit the threads of a library that the body of `suited_threads` has just loaded."""
    stack = _LIMITED.get()
    if stack is not None:
        stack.enter_context(_one_thread())


def _one_thread() -> Any:
    from threadpoolctl import threadpool_limits  # for work only, not for imports

    is_main = current_thread() is main_thread()
    return threadpool_limits(1, None if is_main else "openmp")
