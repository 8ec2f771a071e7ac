"""Seconds and memory of methods, each task in forked processes that share nothing but their start.

Methods of one size take turns in one process, so that a busy machine slows all alike; the peak of
the memory is that of a process for each method. A forked process computes in one thread.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import multiprocessing
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.performance.suite.comparison import Call, Comparison, Figures, Method

Record = dict[str, Any]


class ChildError(RuntimeError):
    """The work of a forked process failed; the message is its traceback."""


def in_child(work: Callable[[], Any]) -> Any:
    """Result of some work in a forked process, which has to be picklable."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_send, args=(theirs, work))
    child.start()
    theirs.close()
    try:
        is_done, result = ours.recv()
    except EOFError:
        child.join()
        raise ChildError(f"a process ended with code {child.exitcode}") from None
    child.join()
    if not is_done:
        raise ChildError(result)
    return result


def _send(pipe: Connection, work: Callable[[], Any]) -> None:
    try:
        message = True, work()
    except BaseException:
        message = False, traceback.format_exc()
    pipe.send(message)


def timed(call: Call) -> tuple[float, float, Figures]:
    """Wall and processor seconds of a call, and its figures."""
    wall, processor = time.perf_counter(), time.process_time()
    figures = call()
    return time.perf_counter() - wall, time.process_time() - processor, figures or {}


def warm_up(comparison: Comparison, methods: Sequence[Method], size: int) -> None:
    """Call methods on the smallest task, unless that is what is measured: a quick run."""
    warnings.simplefilter("ignore")
    if size > comparison.quick[-1]:
        small = comparison.make(comparison.quick[0])
        for method in methods:
            method.prepare(small)()


def seconds_of(comparison: Comparison, size: int, repeats: int) -> list[Record]:
    """Rounds in which all methods take turns, after a call of each on the smallest task."""
    methods = comparison.methods_at(size)
    warm_up(comparison, methods, size)
    task = comparison.make(size)
    calls = [method.prepare(task) for method in methods]
    records = []
    for round_ in range(repeats):
        for method, call in zip(methods, calls, strict=True):
            wall, processor, figures = timed(call)
            records.append(
                {
                    "comparison": comparison.name, "method": method.name, "role": method.role,
                    "size": size, "round": round_, "seconds": wall, "processor_seconds": processor,
                    "figures": figures,
                }
            )  # fmt: skip
    return records


def status(name: str) -> int:
    """A size in bytes of `/proc/self/status`, such as VmRSS or VmHWM."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {name}")


def give_back_memory() -> None:
    """Return what is free to the system: a call that takes it again would seem to need none."""
    gc.collect()
    with contextlib.suppress(AttributeError, OSError):  # not in every C library
        ctypes.CDLL(None).malloc_trim(0)


def peak_bytes(comparison: Comparison, method: Method, size: int) -> int:
    """Peak of the resident memory in a call beyond what was in use before it."""
    warm_up(comparison, [method], size)
    call = method.prepare(comparison.make(size))
    give_back_memory()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = status("VmRSS")
    call()
    return max(status("VmHWM") - before, 0)


def measured(
    comparison: Comparison, size: int, repeats: int, report: Callable[[str], None]
) -> list[Record]:
    """Records of all methods at a size; each has the peak of its memory where that is known."""
    report(f"{comparison.name}, {size} {comparison.unit}: seconds")
    records: list[Record] = in_child(lambda: seconds_of(comparison, size, repeats))
    peaks: dict[str, int | None] = {}
    for method in comparison.methods_at(size):
        report(f"{comparison.name}, {size} {comparison.unit}: memory of {method.name}")
        try:
            peaks[method.name] = in_child(
                lambda method=method: peak_bytes(comparison, method, size)
            )
        except ChildError:
            if Path("/proc/self/clear_refs").exists():
                raise
            peaks[method.name] = None
    return [record | {"peak_bytes": peaks[record["method"]]} for record in records]
