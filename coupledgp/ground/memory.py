"""Memory that a computation may take, and the refusal of one that needs more."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from coupledgp.errors import MemoryLimitError

# Bytes that a computation may take without a check.
UNASKED = 2**24
# Most characters of another library's message.
LONGEST_REASON = 200


def available_bytes() -> float:
    """Bytes that can still be allocated on this machine without swapping."""
    import psutil

    return float(psutil.virtual_memory().available)


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
