"""Law of each sensor's observations given all other sensors.

With complete data, `e_i = ((A^-1)_ii)^-1 (A^-1 y)_i` are the residuals of sensor i left out, and
the diagonal of `((A^-1)_ii)^-1` their variances. The block is Toeplitz far from the ends of the
series, so that its inverse is that of a circulant. Gaps of other sensors must not be filled with
the help of sensor i: its row joins the gaps, and conjugate gradients go on from there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

from coupledgp.ground.progress import Progress, silent
from coupledgp.inference.space_time.posterior import SpaceTimePosterior
from coupledgp.random import FloatArray, IntArray

# Residual of the gaps and a sensor's row, of the change that leaving it out makes, and most steps
# of conjugate gradients.
TOLERANCE, MOST_STEPS = 1e-3, 60
# Numbers in the arrays that are worked on at once: 32 MiB each.
MOST_ENTRIES = 2**22


@dataclass(frozen=True, eq=False)
class SensorsLeftOut:
    """Laws of observations given the other sensors, in normalised units.

    Attributes
    ----------
    mean, variance : FloatArray (p, n)
        Moments of an observation, noise included; NaN where sensor i has none.
    """

    mean: FloatArray
    variance: FloatArray


class RowInverses:
    """Circulant inverses of the blocks `(A^-1)_ii` of the sensors.

    Parameters
    ----------
    posterior
        The posterior, whose system the blocks are of.
    """

    def __init__(self, posterior: SpaceTimePosterior) -> None:
        system, n = posterior.system, posterior.values.shape[1]
        self.n, self.size = n, next_fast_len(2 * n, real=True)
        self.inverse = 1.0 / system.precision_spectra(self.size)

    @property
    def variances(self) -> FloatArray:
        """Variance (p,) of an observation of each sensor given complete data of all others."""
        return np.asarray(irfft(self.inverse, self.size)[:, 0])

    def apply(self, rows: IntArray, R: FloatArray) -> FloatArray:
        """`((A^-1)_ii)^-1 R` for R (m, n), row by row, away from the ends."""
        return np.asarray(irfft(self.inverse[rows] * rfft(R, self.size), self.size)[:, : self.n])


def sensors_left_out(
    posterior: SpaceTimePosterior, rows: IntArray | None = None, report: Progress = silent
) -> SensorsLeftOut:
    """Laws of the observations of some sensors (m,), by default all, each given all others."""
    p, n = posterior.values.shape
    rows = np.arange(p) if rows is None else rows
    inverses = RowInverses(posterior)
    observed = ~posterior.gaps.unknown & posterior.system.series.seen
    if posterior.gaps.precision is not None:
        weighted = posterior.gaps.runs.cells[posterior.gaps.precision > 0]
        observed.reshape(-1)[weighted] = True
    observed = observed[rows]
    mean = np.empty((rows.size, n))
    batch = max(1, MOST_ENTRIES // (p * n))
    solved = posterior.system.solve(posterior.filled[None])[0]
    for start in range(0, rows.size, batch):
        part = slice(start, start + batch)
        mean[part] = _means(posterior, inverses, rows[part], solved)
        report(f"leave-one-sensor-out, sensor {min(start + batch, rows.size)} of {rows.size}")
    variance = inverses.variances[rows, None] + _variances_of_gaps(posterior, inverses, rows)
    return SensorsLeftOut(np.where(observed, mean, np.nan), np.where(observed, variance, np.nan))


def first_left_out(posterior: SpaceTimePosterior) -> SensorsLeftOut:
    """Laws of each sensor as if the means in gaps of other sensors would stay: one solve in all."""
    inverses = RowInverses(posterior)
    rows = np.arange(len(posterior.values))
    first = inverses.apply(rows, posterior.system.solve(posterior.filled[None])[0])
    observed = ~posterior.gaps.unknown & posterior.system.series.seen
    variance = np.broadcast_to(inverses.variances[:, None], observed.shape)
    return SensorsLeftOut(
        np.where(observed, posterior.filled - first, np.nan), np.where(observed, variance, np.nan)
    )


def _means(
    posterior: SpaceTimePosterior, inverses: RowInverses, rows: IntArray, solved: FloatArray
) -> FloatArray:
    """Means (m, n) of some sensors, each given all other sensors, by conjugate gradients.

    `solved` (p, n) is `A^-1` of the filled values. Row i becomes `filled - first` at first, with
    `first = ((A^-1)_ii)^-1 solved_i`: one product tells what that leaves in the other gaps.
    """
    system, gaps = posterior.system, posterior.gaps
    m, seen = rows.size, system.series.seen
    own = np.arange(m)
    # Unknowns: the gaps and, in each problem, a row. Values of the row are those to be found.
    unknown = np.repeat(gaps.unknown[None], m, axis=0)
    unknown[own, rows] = seen
    inverse_noise = np.zeros((m, *gaps.unknown.shape))
    if gaps.precision is not None:
        inverse_noise.reshape(m, -1)[:, gaps.runs.cells] = gaps.precision
        inverse_noise[own, rows] = 0.0

    def product(V: FloatArray) -> FloatArray:
        return np.where(unknown, system.solve(V) + inverse_noise * V, 0.0)

    def precondition(R: FloatArray) -> FloatArray:
        out = gaps.scattered(gaps.precondition(gaps.gathered(R))) if gaps.size else np.zeros_like(R)
        out[own, rows] = np.where(seen, inverses.apply(rows, R[own, rows]), 0.0)
        return out

    # z is subtracted from the data of the cells, with zeros as data in row i.
    first = np.where(seen, inverses.apply(rows, solved[rows]), 0.0)
    start = np.where(unknown, posterior.values - posterior.filled, 0.0)
    start[own, rows] = np.where(seen, first - posterior.filled[rows], 0.0)
    change = np.zeros_like(start)
    change[own, rows] = first
    change = np.where(unknown, system.solve(change), 0.0)
    left = np.where(unknown, solved - inverse_noise * start, 0.0) - change
    found = _conjugate_gradients(product, precondition, left, (change**2).sum(axis=(1, 2)))
    return -(start + found)[own, rows]


def _conjugate_gradients(
    product: Callable[[FloatArray], FloatArray],
    precondition: Callable[[FloatArray], FloatArray],
    right: FloatArray,
    size: FloatArray,
) -> FloatArray:
    """Solve for right-hand sides (m, p, n) side by side, each with coefficients of its own.

    The end is a residual whose square is below `TOLERANCE**2 * size`.
    """
    axes = (1, 2)
    z, R = np.zeros_like(right), right
    goal = TOLERANCE**2 * size
    Z = precondition(R)
    P, rho = Z, (R * Z).sum(axis=axes)
    for _ in range(MOST_STEPS):
        if ((R**2).sum(axis=axes) <= goal).all():
            break
        AP = product(P)
        along = (P * AP).sum(axis=axes)
        alpha = np.where(along > 0, rho / np.where(along > 0, along, 1.0), 0.0)[:, None, None]
        z = z + alpha * P
        R = R - alpha * AP
        Z = precondition(R)
        following = (R * Z).sum(axis=axes)
        ratio = np.where(rho > 0, following / np.where(rho > 0, rho, 1.0), 0.0)
        P, rho = Z + ratio[:, None, None] * P, following
    return z


def _variances_of_gaps(
    posterior: SpaceTimePosterior, inverses: RowInverses, rows: IntArray
) -> FloatArray:
    """Variances (m, n) that the gaps of other sensors add, estimated from draws of the gaps."""
    total = np.zeros((rows.size, posterior.values.shape[1]))
    if not posterior.gaps.size:
        return total
    draws = posterior.deviations[0]
    for d in draws:
        values = posterior.gaps.scattered(d[None])
        solved = posterior.system.solve(values)[0, rows]
        total += (values[0, rows] - inverses.apply(rows, solved)) ** 2
    return total / len(draws)
