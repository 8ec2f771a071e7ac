"""Regular grids of times: found under stamps that mostly lie on one, or else the stamps."""

from __future__ import annotations

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.ground.visible import warn
from coupledgp.random import FloatArray, IntArray

# Share of the stamps that lie on a grid, and how far from it in steps that may be.
ON_GRID, TOLERANCE = 0.95, 0.01
# Most steps of a grid for each stamp: one that is mostly empty is none.
MOST_STEPS = 10
# Distinct stamps on no grid above which a resolution is asked for.
MOST_STAMPS = 100_000


def regular_step(times: FloatArray) -> float | None:
    """Step of rising times (n,) that are a grid to rounding; None for others and for one time."""
    if times.size < 2:
        return None
    step = float(times[-1] - times[0]) / (times.size - 1)
    exact = times[0] + step * np.arange(times.size)
    largest = max(abs(float(times[0])), abs(float(times[-1])))
    allowed = 1e-6 * step + 16 * np.finfo(float).eps * largest
    return step if np.abs(times - exact).max() <= allowed else None


def on_grid(times: FloatArray, name: str = "times") -> tuple[FloatArray, IntArray]:
    """The grid under distinct rising times (n,), or the times; and the place of each on it.

    The grid has the median step, or the step of a line through the times, if 95 % of the times lie
    within 1 % of a step of it. Its first and last point are the nearest to the first and last time.

    Returns
    -------
    grid : FloatArray (m,)
        Times, rising.
    places : IntArray (n,)
        Where each time is on the grid.

    Raises
    ------
    InvalidInputError
        There are more than 10^5 times, and no grid.
    """
    if times.size > 2:
        for step in _steps(times):
            offset = _offset(times, step)
            found = np.rint((times - offset) / step).astype(np.int64)
            away = np.abs(times - offset - found * step) / step
            n_steps = int(found[-1] - found[0]) + 1
            if (away <= TOLERANCE).mean() >= ON_GRID and n_steps <= MOST_STEPS * times.size:
                _remark(away, name)
                grid = offset + step * np.arange(found[0], found[-1] + 1)
                return grid, found - found[0]
    if times.size > MOST_STAMPS and regular_step(times) is None:
        raise InvalidInputError(
            f"{name}: expected at most {MOST_STAMPS} distinct times that are on no regular grid, "
            f"got {times.size}; a resolution, such as 1min, rounds them to a grid"
        )
    return times, np.arange(times.size)


def rounded(times: FloatArray, resolution: float) -> tuple[FloatArray, IntArray]:
    """The grid of a resolution from the first of rising times (n,), and the place of each on it."""
    places = np.floor((times - times[0]) / resolution + 0.5).astype(np.int64)
    if places[-1] + 1 > MOST_STEPS * times.size:  # mostly empty
        kept, places = np.unique(places, return_inverse=True)
        return times[0] + resolution * kept, places
    return times[0] + resolution * np.arange(places[-1] + 1), places


def _steps(times: FloatArray) -> list[float]:
    """The median step, and the slope of a line through the times, which evens jitter out."""
    gaps = np.diff(times)
    step = float(np.median(gaps))
    numbers = np.concatenate([[0.0], np.cumsum(np.rint(gaps / step))])
    centred = numbers - numbers.mean()
    spread = float(centred @ centred)
    return [step, float(centred @ (times - times.mean())) / spread] if spread > 0 else [step]


def _offset(times: FloatArray, step: float) -> float:
    """A point of the grid near the first time: the one around which most times lie."""
    turns = (times - times[0]) / step
    phase = float(np.angle(np.exp(2j * np.pi * turns).mean())) / (2 * np.pi)
    numbers = np.rint(turns - phase)
    middle = np.argsort(turns - phase - numbers)[times.size // 2]
    # From a time itself: whole seconds stay whole.
    return float(times[middle] - numbers[middle] * step)


def _remark(away: FloatArray, name: str) -> None:
    """Say how many times are moved to a grid by more than the tolerance."""
    moved = away > TOLERANCE
    if moved.any():
        warn(
            f"{name}: {int(moved.sum())} of {away.size} times lie off the regular grid of the "
            f"others and are moved to its nearest point, by at most {away.max():.0%} of a step"
        )
