"""Variances of the unknown cells of space-time data.

The variance of a cell is a sum of two parts. The first is its variance given all cells outside its
run: the diagonal of the inverse B of the run's block of A^-1. The second is the variance of its
mean given the cells outside, which is `d - B w` for a draw d of all unknown cells and its product
w. The second part is estimated from m draws, with a relative error of `sqrt(2 / m)`. Where that
leaves more than `LEAST_ERROR` of a standard deviation, some cells are solved for, `e_i'
((A^-1)_QQ)^-1 e_i`, and correct the cells between them. Few cells have the inverse itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from coupledgp.inference.space_time.gaps import GapSystem
from coupledgp.random import FloatArray, IntArray

# Steps from either end of the series within which a block of the preconditioner is not that of the
# inverse covariance.
EDGE_STEPS = 8
# Relative error of a standard deviation beyond which cells are solved for.
LEAST_ERROR = 0.005
# For each draw, which takes some twenty products with `(A^-1)_QQ`: cells up to which the inverse is
# formed, times for blocks that are not known otherwise, and cells that are solved for.
INVERTED, FORMED, SOLVED = 24, 16, 1
# Most numbers of the inverses of all series at these times, and of their solutions: 256 MiB.
MOST_ENTRIES = 2**25
# Relative residual of these solves; the error of the variance is of its square.
TOLERANCE = 1e-3
# Largest factor by which an estimated part is corrected.
LARGEST_RATIO = 10.0


def are_few(gaps: GapSystem, n_draws: int) -> bool:
    """Whether the inverse of all unknown cells costs less than `n_draws` draws."""
    return gaps.size <= INVERTED * n_draws


def drawn_variances(gaps: GapSystem, noise: FloatArray, d: FloatArray, w: FloatArray) -> FloatArray:
    """Variances (c,) of observations of the unknown cells, if these are gaps.

    Parameters
    ----------
    gaps
        Equations of the unknown cells.
    noise
        Noise variances (p,) of the sensors.
    d, w
        Draws (m, c) of the cells about their means, and their products, as of `deviations`.
    """
    own = noise[gaps.runs.sensors].repeat(gaps.runs.lengths)
    known, rest = _in_blocks(gaps, own, d, w)
    sampled = (rest**2).mean(axis=0)
    spread = np.maximum(known + sampled - own, np.finfo(float).tiny)
    error = 0.5 * sampled / spread * np.sqrt(2.0 / len(d))
    doubtful = error > LEAST_ERROR
    if gaps.precision is not None:
        doubtful &= gaps.precision == 0
    return known + sampled * _ratios(gaps, doubtful, known, sampled, SOLVED * len(d))


def _in_blocks(
    gaps: GapSystem, noise: FloatArray, d: FloatArray, w: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Variances (c,) given all cells outside of runs, and draws (m, c) of means given these cells.

    With complete data elsewhere, the block of a run is a Toeplitz matrix far from the ends of the
    series; near them, and on irregular axes, it is formed, of the longest runs first, from the
    inverses of the independent series at the times of these runs.
    """
    runs, system = gaps.runs, gaps.system
    exact = _has_block(gaps)
    is_known = np.repeat(exact, runs.lengths)
    scales = system.basis.roots[:, None] ** 2
    complete = (scales * (system.basis.shares @ system.variances[1])).reshape(-1)[runs.cells]
    known = np.where(is_known, gaps.block_variances, complete + noise)
    rest = np.where(is_known, d - gaps.precondition(w), d - noise * w)
    formed, times = _longest(gaps, exact, FORMED * len(d))
    inverses = _series_inverses(gaps, times)
    for run in formed:
        part = runs.starts[run] + np.arange(runs.lengths[run])
        at = slice(*np.searchsorted(times, runs.firsts[run] + np.array([0, runs.lengths[run]])))
        sensor = runs.sensors[run]
        block = np.einsum("q,sqt->st", system.basis.shares[sensor], inverses[at, :, at])
        inverse = scales[sensor] * np.linalg.inv(0.5 * (block + block.T))
        known[part] = inverse.diagonal()
        rest[:, part] = d[:, part] - w[:, part] @ inverse
    return known, rest


def _longest(gaps: GapSystem, exact: NDArray[np.bool_], most: int) -> tuple[list[int], IntArray]:
    """Runs without a known block, the longest first, at `most` times in all; and these times."""
    runs, n_series = gaps.runs, gaps.system.basis.eigenvalues.size
    most = min(most, int(np.sqrt(MOST_ENTRIES / n_series)))
    taken, found = np.zeros(gaps.system.shape[1], dtype=bool), []
    for run in np.argsort(-runs.lengths, kind="stable"):
        if exact[run]:
            continue
        span = slice(runs.firsts[run], runs.firsts[run] + runs.lengths[run])
        if taken.sum() + np.count_nonzero(~taken[span]) <= most:
            taken[span] = True
            found.append(int(run))
    return found, np.flatnonzero(taken)


def _series_inverses(gaps: GapSystem, times: IntArray) -> FloatArray:
    """Inverse covariances (t, q, t) of the independent series at some times."""
    series, (_, n) = gaps.system.series, gaps.system.shape
    q = series.n_series
    found = np.empty((times.size, q, times.size))
    size = max(1, MOST_ENTRIES // (q * n))
    for start in range(0, times.size, size):
        part = slice(start, start + size)
        unit = np.zeros((times[part].size, q, n))
        unit[np.arange(len(unit)), :, times[part]] = 1.0
        found[part] = series.solve(unit)[:, :, times]
    return found


def _has_block(gaps: GapSystem) -> NDArray[np.bool_]:
    """Which runs (n_runs,) have a known block: one cell, or far from times without data."""
    runs, seen = gaps.runs, np.pad(gaps.system.series.seen, EDGE_STEPS)
    # Numbers of the times before each at which a sensor reports; none do beyond the ends.
    before = np.concatenate([[0], np.cumsum(seen)])
    reach = runs.lengths + 2 * EDGE_STEPS
    inner = before[runs.firsts + reach] - before[runs.firsts] == reach
    return np.asarray((runs.lengths == 1) | (inner & gaps.system.is_regular))


def _ratios(
    gaps: GapSystem,
    doubtful: NDArray[np.bool_],
    known: FloatArray,
    sampled: FloatArray,
    most: int,
) -> FloatArray:
    """Factors (c,) of the sampled parts: true ones over estimates, of at most `most` solves.

    Errors of neighbours in a run go together, since they come from the same draws: factors between
    cells that were solved for are interpolated.
    """
    factor, cells = np.ones(gaps.size), np.flatnonzero(doubtful)
    if not cells.size or not most:
        return factor
    runs = gaps.runs
    run_of = np.repeat(np.arange(runs.lengths.size), runs.lengths)
    chosen = _spaced(run_of[cells], most)
    solved = cells[chosen]
    unit = np.zeros((solved.size, gaps.size))
    unit[np.arange(solved.size), solved] = 1.0
    exact = gaps.solve(unit, TOLERANCE)[np.arange(solved.size), solved]
    tiny = np.finfo(float).tiny
    ratio = np.maximum(exact - known[solved], 0.0) / np.maximum(sampled[solved], tiny)
    ratio = np.clip(ratio, 1.0 / LARGEST_RATIO, LARGEST_RATIO)
    for run in np.unique(run_of[solved]):
        here, at = np.flatnonzero(run_of[cells] == run), run_of[solved] == run
        factor[cells[here]] = np.interp(cells[here], solved[at], ratio[at])
    return factor


def _spaced(runs: IntArray, most: int) -> IntArray:
    """Places among cells (m,), given the run of each, that are about `most` and even in each run.

    Both ends of a run are among them; where there are more runs than that, some have none.
    """
    _, starts, sizes = np.unique(runs, return_index=True, return_counts=True)
    order = np.argsort(-sizes, kind="stable")
    step = max(1, -(-runs.size // most))
    places: list[IntArray] = []
    left = most
    for k in order:
        count = min(int(sizes[k]), int(sizes[k]) // step + 2)
        if count > left:
            break
        left -= count
        inside = np.round(np.linspace(0, sizes[k] - 1, count)).astype(np.int64)
        places.append(starts[k] + inside)
    return np.sort(np.concatenate(places)) if places else np.empty(0, dtype=np.int64)
