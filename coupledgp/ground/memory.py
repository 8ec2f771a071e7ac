"""Memory that a computation may take, and the refusal of one that needs more."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from types import ModuleType

from coupledgp.errors import MemoryLimitError

_limits: ModuleType | None
try:
    import resource as _limits
except ImportError:  # Windows
    _limits = None

# Bytes that a computation may take without a check: a check reads a dozen files.
UNASKED = 2**24
# Bytes that a compressed file may unfold into however small it is, the most times its size, and
# copies of them that are alive at once while they are read.
FREE_BYTES, MOST_TIMES, COPIES = 2**26, 200, 3
# Most characters of another library's message.
LONGEST_REASON = 200


def available_bytes(root: Path = Path("/")) -> float:
    """Bytes that this process can still allocate without swapping; infinite where unknown.

    It is the least of three numbers: the machine's free memory, the free part of the limits of the
    process's control groups and their parents, which containers and batch systems set, and the free
    part of the process's address space.

    Parameters
    ----------
    root
        Folder that holds `proc` and `sys`.
    """
    return min(_machine_bytes(root), _process_bytes(root), *_cgroup_bytes(root))


def check_memory(
    needed: float,
    what: str,
    advice: str | Callable[[float], str],
    limit: float | None = None,
    verb: str = "are allowed",
) -> None:
    """Refuse a computation that needs more memory than is available.

    Parameters
    ----------
    needed
        Bytes alive at once. 16 MiB and less are never refused without a limit.
    what
        Subject of the message, in the plural, as in "X: 100000 rows of the exact GP".
    advice
        End of the message, or a function of the share of the needed bytes that is available.
    limit
        Bytes that may be taken; None: the available bytes.
    verb
        Where the limit comes from, after its number in the message.

    Raises
    ------
    MemoryLimitError
        More bytes are needed than may be taken.
    """
    if limit is None and needed <= UNASKED:
        return
    allowed = available_bytes() if limit is None else float(limit)
    if needed > allowed:
        end = advice if isinstance(advice, str) else advice(allowed / needed)
        verb = "are available" if limit is None else verb
        raise MemoryLimitError(f"{what} need about {_gib(needed)}, {_gib(allowed)} {verb}; {end}")


def unfolded_bytes(file_size: int) -> int:
    """Bytes into which a compressed file of so many bytes may unfold.

    200 times its size and a third of the memory at most, and 64 MB in any case.
    """
    return max(FREE_BYTES, int(min(MOST_TIMES * file_size, available_bytes() / COPIES)))


# Beginnings of messages of torch's and other libraries' errors, which are RuntimeErrors.
EXHAUSTED = re.compile(
    r"not enough memory|can't allocate memory|std::bad_alloc|out of memory|cannot allocate memory"
    r"|failed to allocate|can't start new thread",
    re.IGNORECASE,
)


@contextmanager
def named_exhaustion(doing: str) -> Iterator[None]:
    """Turn every error of exhausted memory into a `MemoryLimitError` that names the computation.

    Raises
    ------
    MemoryLimitError
        Numpy, torch, a compiled function or Python itself found no memory.
    """
    try:
        yield
    except MemoryLimitError:
        raise
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not EXHAUSTED.search(str(error)):
            raise
        text = " ".join(str(error).split())[:LONGEST_REASON] or "no more could be allocated"
        raise MemoryLimitError(
            f"{doing}: the memory was used up ({text}); the model is as it was before"
        ) from error


def _gib(n_bytes: float) -> str:
    size = n_bytes / 2**30
    return f"{size:.0f} GiB" if size >= 100 else f"{size:.3g} GiB"


def _machine_bytes(root: Path) -> float:
    """Bytes of free memory of the machine, with caches that can be dropped."""
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


def _process_bytes(root: Path) -> float:
    """Bytes of address space that the limit of this process leaves (`ulimit -v`)."""
    if _limits is None:
        return float("inf")
    limit = _limits.getrlimit(_limits.RLIMIT_AS)[0]
    if limit == _limits.RLIM_INFINITY:
        return float("inf")
    try:
        used = int((root / "proc/self/statm").read_text().split()[0]) * _limits.getpagesize()
    except (OSError, ValueError, IndexError):
        return float("inf")
    return float(max(limit - used, 0))


def _cgroup_bytes(root: Path) -> Iterator[float]:
    """Bytes left of each limit that the process's control groups have."""
    for line in _lines(root / "proc/self/cgroup"):
        # "0::/path" in version 2, "number:controllers:/path" in version 1.
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            kind, left = "cgroup2", _left_of_version_2
        elif "memory" in controllers.split(","):
            kind, left = "cgroup", _left_of_version_1
        else:
            continue
        for top, inside in _mounts(root, kind, path):
            # Where the path is the host's, as in some containers, the top alone exists.
            group = top / inside.lstrip("/")
            for folder in (group, *group.parents):
                yield left(folder)
                if folder == top:
                    break


def _mounts(root: Path, kind: str, path: str) -> list[tuple[Path, str]]:
    """Folders where a hierarchy of groups is mounted, and the path of a group below each."""
    found = []
    for line in _lines(root / "proc/self/mountinfo"):
        # "number parent device shown-part folder options ... - type source options"
        first, _, second = line.partition(" - ")
        fields, (mounted, *_, options) = first.split(), second.split() or ["", ""]
        is_wanted = mounted == kind and (kind == "cgroup2" or "memory" in options.split(","))
        if is_wanted and len(fields) > 4:
            part, folder = (_unescaped(field) for field in fields[3:5])
            below = PurePosixPath(path).is_relative_to(part)
            inside = str(PurePosixPath(path).relative_to(part)) if below else path
            found.append((root / folder.lstrip("/"), inside))
    default = root / "sys/fs/cgroup"
    return found or [(default if kind == "cgroup2" else default / "memory", path)]


def _unescaped(field: str) -> str:
    """A field of mountinfo, in which a backslash and three octal digits stand for a space."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), field)


def _left_of_version_2(folder: Path) -> float:
    """Bytes left of the two limits of a control group, of which the lower one counts."""
    most = min(_number(folder / "memory.max"), _number(folder / "memory.high"))
    used = _number(folder / "memory.current", 0.0)
    return _left(most, used, folder, "inactive_file")


def _left_of_version_1(folder: Path) -> float:
    """Bytes left of a group's limit, or of one above it that cannot be seen from a container."""
    above = _entry(folder / "memory.stat", "hierarchical_memory_limit")
    most = min(_number(folder / "memory.limit_in_bytes"), above or float("inf"))
    used = _number(folder / "memory.usage_in_bytes", 0.0)
    return _left(most, used, folder, "total_inactive_file")


def _left(most: float, used: float, folder: Path, reclaimable: str) -> float:
    """Bytes left of a limit, with pages of files, which the kernel gives back before it fails."""
    return max(most - used + min(_entry(folder / "memory.stat", reclaimable), used), 0.0)


def _number(path: Path, default: float = float("inf")) -> float:
    """The number in a file; `default` without one, or for "max"."""
    try:
        return float(int(path.read_text()))
    except (OSError, ValueError):
        return default


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()
    except OSError:
        return []


def _entry(path: Path, name: str) -> float:
    """Number behind a name in a file of lines "name number"; zero if there is none."""
    try:
        lines = [line.split() for line in path.read_text().splitlines()]
        return sum(float(line[1]) for line in lines if line[:1] == [name])
    except (OSError, ValueError, IndexError):
        return 0.0
