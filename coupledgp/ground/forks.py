"""Forked processes: they compute in one thread, where their parent's threads are no more.

A process that is forked has one thread, and OpenMP (of torch, and of MKL in it) still counts on
those of its parent: the first parallel loop of the child would wait for them without end. With one
thread nothing is shared out, and nothing waits.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

# Bit of a process's flags in Linux: it was forked and has loaded no program since.
FORKED = 0x40


def compute_in_one_thread() -> None:
    """Let torch compute in one thread from now on, if it is loaded and has more."""
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "set_num_threads") and torch.get_num_threads() > 1:
        torch.set_num_threads(1)


def is_forked() -> bool:
    """Whether this process was forked and has loaded no program since; False where not known."""
    try:
        line = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace")
        # After the name, which may hold anything: state, five numbers, flags.
        return bool(int(line.rpartition(")")[2].split()[6]) & FORKED)
    except (OSError, ValueError, IndexError):
        return False


def follow_forks() -> None:
    """Set children of this process to one thread, and this one if torch came with its fork."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=compute_in_one_thread)
    if "torch" in sys.modules and is_forked():
        compute_in_one_thread()
