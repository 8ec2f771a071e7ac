"""Memory that a computation may take, and the refusal of one that needs more."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from coupledgp.errors import MemoryLimitError

# Files of a control group: its limit, its use, and the entry of its statistics that counts pages of
# files which the kernel gives back before anything fails.
CGROUP_V2 = ("memory.max", "memory.current", "inactive_file")
CGROUP_V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def available_bytes(root: Path = Path("/")) -> float:
    """Bytes that this process can still allocate without swapping; infinite where unknown.

    It is the least of the machine's free memory and of the free part of the limits of the process's
    control groups, which containers and batch systems set, their parents' included.

    Parameters
    ----------
    root
        Folder that holds `proc` and `sys`.
    """
    return min(_machine_bytes(root), *_cgroup_bytes(root), float("inf"))


def check_memory(
    needed: float, what: str, advice: str | Callable[[float], str], limit: float | None = None
) -> None:
    """Refuse a computation that needs more memory than is available.

    Parameters
    ----------
    needed
        Bytes alive at once.
    what
        Subject of the message, in the plural, as in "X: 100000 rows of the exact GP".
    advice
        End of the message, or a function of the share of the needed bytes that is available.
    limit
        Bytes that may be taken; those that are available if None.

    Raises
    ------
    MemoryLimitError
        More bytes are needed than may be taken.
    """
    allowed = available_bytes() if limit is None else float(limit)
    if needed > allowed:
        end = advice if isinstance(advice, str) else advice(allowed / needed)
        verb = "are available" if limit is None else "are allowed"
        raise MemoryLimitError(f"{what} need about {_gib(needed)}, {_gib(allowed)} {verb}; {end}")


def _gib(n_bytes: float) -> str:
    size = n_bytes / 2**30
    return f"{size:.0f} GiB" if size >= 100 else f"{size:.3g} GiB"


def _machine_bytes(root: Path) -> float:
    """Bytes the machine has left: free ones and those of caches that can be dropped."""
    try:
        for line in (root / "proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return float(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (OSError, ValueError, AttributeError):
        return float("inf")


def _cgroup_bytes(root: Path) -> Iterator[float]:
    """Bytes left of each limit that the process's control groups have."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        # "0::/path" in version 2, "number:controllers:/path" in version 1.
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        top = root / "sys/fs/cgroup"
        if number == "0" and not controllers:
            names = CGROUP_V2
        elif "memory" in controllers.split(","):
            names, top = CGROUP_V1, top / "memory"
        else:
            continue
        # Inside a container the path may be the host's: then the top alone exists.
        group = top / path.lstrip("/")
        for folder in (group, *group.parents):
            yield _left_of_limit(folder, *names)
            if folder == top:
                break


def _left_of_limit(folder: Path, limit: str, use: str, reclaimable: str) -> float:
    """Bytes left of one control group's limit; infinite without one."""
    try:
        most, used = (folder / limit).read_text().strip(), float((folder / use).read_text())
        left = float("inf") if most == "max" else float(most) - used
    except (OSError, ValueError):
        return float("inf")
    return max(left + _entry(folder / "memory.stat", reclaimable), 0.0)


def _entry(path: Path, name: str) -> float:
    """Number behind a name in a file of lines "name number"; zero if there is none."""
    try:
        lines = [line.split() for line in path.read_text().splitlines()]
        return sum(float(line[1]) for line in lines if line[:1] == [name])
    except (OSError, ValueError, IndexError):
        return 0.0
