"""Compiled loops: when numba is loaded, where machine code is stored, how threads share rows.

A function marked `compiled` is compiled for the types of its arguments when it is first called with
them, and numba is imported then, not before. Its machine code is kept on disk where numba finds a
place that can be written to: `NUMBA_CACHE_DIR`, the package's own folder, or the user's cache.
Where there is none (a read-only installation without a home), each process compiles anew.

A function marked `part` is called by compiled functions only. It is compiled into each caller.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial, update_wrapper
from typing import Any, overload

# Blocks of rows for each thread: the last ones to finish keep the others waiting for a block each.
BLOCKS_PER_THREAD = 8
# A division by zero gives infinity, as in numpy: no test before each division.
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
# What a compiler may do with sums and products: one rounding for both; any order of the terms.
FUSED, SUMMED = frozenset({"contract"}), frozenset({"contract", "reassoc"})
# Processor to the number of the word of C's `fenv_t` that controls it, and its bits by which
# results and arguments below the least normal number count as zero.
FLUSHING = {"x86_64": (7, 0x8040), "aarch64": (0, 1 << 24)}
_LOCK = threading.Lock()


_held: list[Any] = []


def _wait_for_compiling() -> None:
    """Take the locks of the compiler, so that no child process is forked while they are held."""
    compiler = sys.modules.get("numba.core.compiler_lock")
    locks = [_LOCK, getattr(compiler, "global_compiler_lock", None)]
    for lock in locks:
        if lock is not None:
            lock.acquire()
            _held.append(lock)


def _go_on_compiling() -> None:
    while _held:
        _held.pop().release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_wait_for_compiling, after_in_parent=_go_on_compiling,
        after_in_child=_go_on_compiling,
    )  # fmt: skip


class Lazy:
    """A function that numba compiles at its first call, or when a compiled function calls it."""

    def __init__(self, function: Callable[..., Any], compile_it: Callable[[Any], Any]) -> None:
        update_wrapper(self, function)
        self._compile_it = compile_it
        self._dispatcher: Any = None

    @property
    def dispatcher(self) -> Any:
        """Numba's own object for the function."""
        with _LOCK:
            if self._dispatcher is None:
                self._dispatcher = self._compile_it(self.__wrapped__)  # type: ignore[attr-defined]
        return self._dispatcher

    def __call__(self, *arguments: Any) -> Any:
        return (self._dispatcher or self.dispatcher)(*arguments)

    @property
    def _numba_type_(self) -> Any:
        """Numba's type of the function, for compiled functions that name it."""
        return self.dispatcher._numba_type_


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function that Python calls: compiled at its first call, without holding the GIL."""
    return Lazy(function, _with_cache)


@overload
def part(function: Callable[..., Any], /) -> Callable[..., Any]: ...
@overload
def part(function: frozenset[str], /) -> Callable[[Callable[..., Any]], Callable[..., Any]]: ...
def part(function: Any, /) -> Any:
    """Mark a function that only compiled functions call: nothing is made for calls by Python.

    `@part(FUSED)` and `@part(SUMMED)` let the compiler round its sums in other ways.
    """
    if isinstance(function, frozenset):
        return partial(Lazy, compile_it=partial(_without_wrappers, fastmath=set(function)))
    return Lazy(function, _without_wrappers)


def _with_cache(function: Callable[..., Any]) -> Any:
    import numba  # slow to import

    try:
        return numba.njit(cache=True, **OPTIONS)(function)
    except RuntimeError as error:
        if "cannot cache function" not in str(error):
            raise
        return numba.njit(**OPTIONS)(function)


def _without_wrappers(function: Callable[..., Any], **options: Any) -> Any:
    import numba  # slow to import

    bare: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return numba.njit(**OPTIONS | bare | options)(function)


@contextmanager
def without_denormals() -> Iterator[None]:
    """Let numbers below 2e-308 count as zero in this thread, where the processor can do that.

    Products of such numbers take a hundred times as long as others, and matrices whose entries fall
    off exponentially have many such numbers.
    """
    place, bits = FLUSHING.get(platform.machine(), (0, 0))
    if sys.platform != "linux" or not bits:
        yield
        return
    mathematics = ctypes.CDLL(None)
    before = (ctypes.c_uint32 * 16)()  # C's environment of floating point, 8 to 32 bytes
    mathematics.fegetenv(before)
    flushing = type(before).from_buffer_copy(before)
    flushing[place] |= bits
    mathematics.fesetenv(flushing)
    try:
        yield
    finally:
        mathematics.fesetenv(before)


def _number_of_threads() -> int:
    """Threads that numba may use.

    Numba's own are asked for only where somebody has started them: to ask starts them, and those of
    OpenMP do not survive a fork.
    """
    import numba  # slow to import
    from numba.np.ufunc import parallel

    if getattr(parallel, "_is_initialized", True):
        return int(numba.get_num_threads())
    return int(vars(numba.config)["NUMBA_NUM_THREADS"])


def share_rows(
    work: Callable[[Iterator[tuple[int, int]]], None],
    n_rows: int,
    least: int,
    most: int,
    fewest: int = 0,
) -> None:
    """Let the threads that numba may use share the rows 0..n_rows-1.

    Parameters
    ----------
    work
        Called once in each thread, with an iterator over blocks of rows `(first, last)`. It calls
        compiled functions, which run side by side. Results must not depend on the blocks.
    n_rows
        Number of rows.
    least, most
        Sizes of the blocks: fewer rows are not worth a call, more do not stay in the cache.
    fewest
        Rows from which other threads than this one take part: they start in some tenths of a
        millisecond each.
    """
    n_threads = _number_of_threads() if n_rows >= fewest else 1
    size = max(min(n_rows // (BLOCKS_PER_THREAD * n_threads), most), least)
    starts = iter(range(0, n_rows, size))
    lock = threading.Lock()

    def blocks() -> Iterator[tuple[int, int]]:
        while True:
            with lock:
                first = next(starts, n_rows)
            if first >= n_rows:
                return
            yield first, min(first + size, n_rows)

    n_helpers = min(n_threads, -(-n_rows // size)) - 1
    if n_helpers < 1:
        work(blocks())
        return
    with ThreadPoolExecutor(n_helpers) as pool:
        helpers = [pool.submit(work, blocks()) for _ in range(n_helpers)]
        try:
            work(blocks())
        finally:
            with lock:
                for _ in starts:  # after an interrupt the helpers find no further block
                    pass
        for helper in helpers:
            helper.result()
