"""The first rows of a random order of a table, without the whole order in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coupledgp.random import IntArray

# A permutation of so many rows is made whole: 32 MiB.
WHOLE_ROWS = 2**22
# Steps of the shuffle that are looked at together.
STEPS = 2**18
# Number of bits by which most places are excluded before they are looked up.
FLAGS = 2**22
# Beyond this number of rows NumPy draws 64 bits a step.
MOST_ROWS = 2**32


def first_rows(
    rng: np.random.Generator, n_rows: int, size: int, whole_rows: int = WHOLE_ROWS
) -> IntArray:
    """Return `rng.permutation(n_rows)[:size]` in memory that does not grow with `n_rows`.

    `permutation` swaps the entries i = n_rows - 1, ..., 1 of 0, ..., n_rows - 1 with entries drawn
    from 0, ..., i. The steps down to i = size are drawn, a block at a time, and then gone through
    backwards: an entry that ends at a place below `size` is followed to its first place. The
    remaining steps shuffle these entries. The generator ends in the state in which `permutation`
    leaves it.

    Parameters
    ----------
    rng
        Generator; one of another kind than `default_rng` makes the whole order.
    n_rows, size
        Number of rows, and the number of first rows to return.
    whole_rows
        Tables of at most so many rows are ordered whole.

    Returns
    -------
    IntArray (size,)
        Numbers of rows.
    """
    size = min(size, n_rows)
    known = isinstance(rng.bit_generator, np.random.PCG64) and n_rows <= MOST_ROWS
    if n_rows <= max(whole_rows, size) or not known:
        return rng.permutation(n_rows)[:size].copy()
    starts = []
    for first, last in _blocks(n_rows, size):
        starts.append((first, last, rng.bit_generator.state))
        _drawn(rng, first, last)
    end = rng.bit_generator.state
    places = np.arange(size)
    for first, last, state in reversed(starts):
        rng.bit_generator.state = state
        _follow(places, _drawn(rng, first, last)[::-1], last)
    rng.bit_generator.state = end
    rng.shuffle(places)
    return places


def _blocks(n_rows: int, size: int) -> Iterator[tuple[int, int]]:
    """Steps (first, last), both included and descending, that end at i = size."""
    first = n_rows - 1
    while first >= size:
        # All steps of a block draw as many bits; few of them are near the largest number drawn.
        least = 1 << (first.bit_length() - 1)
        last = max(size, least, first + 1 - max(min(STEPS, first // 8), 1))
        yield first, last
        first = last - 1


def _drawn(rng: np.random.Generator, first: int, last: int) -> NDArray[np.int64]:
    """Entries drawn from 0, ..., i in the steps i = first, ..., last, as NumPy draws them.

    NumPy takes as many bits as the number i has, 32 at a time, until they are at most i.
    """
    wanted, mask = first - last + 1, (1 << first.bit_length()) - 1
    found: list[NDArray[np.int64]] = []
    step = first
    while wanted:
        words = _words(rng, wanted)
        values = (words & mask).astype(np.int64)
        # Surely taken are those at most `step - wanted`, for the bound falls by one when one is.
        taken = values <= step - wanted
        before, further = np.cumsum(taken), 0
        for place in np.flatnonzero(~taken & (values <= step)).tolist():
            if values[place] <= step - before[place] - further:
                taken[place] = True
                further += 1
        found.append(values[taken])
        wanted -= found[-1].size
        step -= found[-1].size
    return np.concatenate(found)


def _words(rng: np.random.Generator, count: int) -> NDArray[np.uint32]:
    """The next words of 32 bits: the lower half of each 64 bits drawn, then the upper one."""
    state: dict[str, Any] = dict(rng.bit_generator.state)
    kept = [state["uinteger"]] if state["has_uint32"] and count else []
    further = count - len(kept)
    pairs = rng.bit_generator.random_raw(-(-further // 2))
    halves = np.column_stack([pairs & 0xFFFFFFFF, pairs >> np.uint64(32)]).reshape(-1)
    words = np.concatenate([np.array(kept, dtype=np.uint64), halves]).astype(np.uint32)
    left = words[count:]
    after: dict[str, Any] = dict(rng.bit_generator.state)
    after["has_uint32"], after["uinteger"] = len(left), int(left[0]) if left.size else 0
    rng.bit_generator.state = after
    return words[:count]


def _follow(places: IntArray, drawn: IntArray, first: int) -> None:
    """Undo swaps of the entries first, first + 1, ... with those drawn, for contents at places.

    `places` (size,), all below `first`, are changed to where their contents were before.
    """
    flags = np.zeros(FLAGS, dtype=bool)
    flags[places % FLAGS] = True
    steps = np.flatnonzero(flags[drawn % FLAGS] | (drawn >= first))
    order = np.argsort(places)
    ordered = places[order]
    spots = np.minimum(np.searchsorted(ordered, drawn[steps]), len(places) - 1)
    contents = np.where(ordered[spots] == drawn[steps], order[spots], -1)
    moved: dict[int, int] = {}  # place to the number of the content that came there
    left = set()
    for step, place, content in zip(
        steps.tolist(), drawn[steps].tolist(), contents.tolist(), strict=True
    ):
        if place in moved:
            content = moved.pop(place)
        elif content < 0 or place in left:
            continue
        left.add(place)
        moved[first + step] = content
    for place, content in moved.items():
        places[content] = place
