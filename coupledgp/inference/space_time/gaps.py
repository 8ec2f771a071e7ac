"""Gaps of space-time data as unknowns: a system of equations in the space of the gaps.

With `A = K + s I` on the full grid of sensors and times, and y0 the data with zeros in the gaps Q,

    (A^-1)_QQ z = -(A^-1 y0)_Q ;   z = E[y_Q | y_O] ;   alpha = A^-1 (y0 + z) = (A_OO)^-1 y_O on O,

and alpha is zero on Q. One product with `(A^-1)_QQ` is one solve with complete data. The
preconditioner has a block for every run of gaps of one sensor: the inverse of the Toeplitz matrix
that the run's part of A^-1 is far from both ends, scaled to the diagonal of A^-1. Extra noise E on
some cells adds E^-1 to the diagonal, and makes any observation a gap in part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft

from coupledgp.errors import NumericalError
from coupledgp.ground.progress import Progress, silent
from coupledgp.inference.space_time.basis import Basis
from coupledgp.inference.space_time.filters import SeriesFilter, Term
from coupledgp.inference.space_time.toeplitz import (
    Blocks,
    applied_inverses,
    diagonals_of,
    first_columns,
)
from coupledgp.linalg.conjugate_gradients import solve_columns
from coupledgp.linalg.lanczos import lanczos_quadrature, widened_error
from coupledgp.random import FloatArray, IntArray

BoolArray = NDArray[np.bool_]
# Cells of a run of gaps beyond which it is cut.
LONGEST_RUN = 400
# Number of gaps up to which their log-determinant is that of a matrix.
DENSE_GAPS = 1500
# Largest number of numbers in the right-hand sides of one product: 256 MiB.
MOST_ENTRIES = 2**25
# Largest number of steps of conjugate gradients.
MOST_STEPS = 1000


class CompleteSystem:
    """`A = K + s I` of p sensors and the times at which some sensor reports.

    Parameters
    ----------
    basis
        Eigenvectors of the sensors' covariance.
    series
        The filter of its series, with an eigenvalue each.
    """

    def __init__(self, basis: Basis, series: SeriesFilter) -> None:
        self.basis, self.series = basis, series

    def drawn(self, m: int, rng: np.random.Generator) -> FloatArray:
        """Draws (m, p, n) of `N(0, A)`."""
        terms, series = self.series.terms, self.series
        graph, node = (
            tuple(k for k, term in enumerate(terms) if term.where == where)
            for where in ("graph", "node")
        )
        drawn = np.sqrt(series.noise) * rng.standard_normal((m, *self.shape))
        if node:
            drawn += series.sample(node, rng, m, self.basis.n_sensors)
        drawn *= self.basis.roots[:, None]
        if graph:
            drawn += self.basis.spread(series.sample(graph, rng, m, self.basis.values.size))
        return drawn

    @property
    def shape(self) -> tuple[int, int]:
        """Number of sensors and of times."""
        return self.basis.n_sensors, self.series.times.size

    def solve(self, Y: FloatArray) -> FloatArray:
        """`A^-1 Y` for Y (m, p, n); zero at times at which no sensor reports."""
        p, n = self.shape
        out = np.empty(Y.shape)
        block = max(1, MOST_ENTRIES // (p * n))
        for start in range(0, len(Y), block):
            part = slice(start, start + block)
            out[part] = self.basis.unrotated(self.series.solve(self.basis.rotated(Y[part])))
        return out

    def applied(self, alpha: FloatArray) -> FloatArray:
        """`K alpha` for alpha (m, p, n), without the noise."""
        series, basis = self.series, self.basis
        graph, node = (
            tuple(k for k, term in enumerate(series.terms) if term.where == where)
            for where in ("graph", "node")
        )
        out = np.zeros(alpha.shape)
        if node:
            out += basis.roots[:, None] ** 2 * series.product(node, alpha)
        if graph:
            weights = basis.roots[:, None] * basis.vectors
            inner = np.matmul(weights.T, series.product(graph, alpha))
            out += np.matmul(weights * basis.values, inner)
        return out

    @cached_property
    def log_determinant(self) -> float:
        """log|A|, over the times at which a sensor reports."""
        series = float(self.basis.multiplicities @ self.series.log_determinants)
        return series + 2.0 * int(self.series.seen.sum()) * float(np.log(self.basis.roots).sum())

    @cached_property
    def is_regular(self) -> bool:
        """Whether the times follow each other by one step."""
        steps = np.diff(self.series.times)
        return bool(not steps.size or np.ptp(steps) <= 1e-6 * steps.mean())

    @cached_property
    def variances(self) -> FloatArray:
        """Variances (2, q, n) of the series given complete data: of graph terms, and of all."""
        return self.series.variances()

    @cached_property
    def diagonal(self) -> FloatArray:
        """Diagonal (p, n) of A^-1; zero at times at which no sensor reports.

        The diagonal of a series is clipped to lie between the inverse of its variance and the
        inverse of the noise, since rounding may lead outside where the noise is small.
        """
        s, terms = self.series.noise, self.series.terms
        graph, node = (
            sum(term.variance for term in terms if term.where == where)
            for where in ("graph", "node")
        )
        least = 1.0 / (self.basis.eigenvalues * graph + node + s)
        exact = (s - self.variances[1]) / s**2
        series = np.where(self.series.seen, np.clip(exact, least[:, None], 1.0 / s), 0.0)
        return self.basis.shares @ series / self.basis.roots[:, None] ** 2

    def precision_spectra(self, size: int) -> FloatArray:
        """Spectra (p, size // 2 + 1) of the blocks `(A^-1)_ii` on a circle of `size` steps."""
        series = self.series
        step = float(np.median(np.diff(series.times))) if series.times.size > 1 else 1.0
        lags = step * np.minimum(np.arange(size), size - np.arange(size))
        graph, node = (
            np.maximum(rfft(time_covariance(series.terms, where, lags)).real, 0.0)
            for where in ("graph", "node")
        )
        precision = np.empty((self.basis.n_sensors, graph.size))
        shares, eigenvalues = self.basis.shares, self.basis.eigenvalues
        for block in np.array_split(np.arange(graph.size), max(1, graph.size // 2048)):
            spectrum = np.outer(eigenvalues, graph[block]) + node[block] + series.noise
            precision[:, block] = shares @ (1.0 / spectrum)
        return precision / self.basis.roots[:, None] ** 2

    def symbols(self, n_lags: int) -> FloatArray:
        """Entries (p, n_lags) of A^-1 between a sensor's times, far from both ends, by lag."""
        size = next_fast_len(max(2 * self.series.times.size, 4 * n_lags, 16), real=True)
        return np.asarray(irfft(self.precision_spectra(size), size)[:, :n_lags])


def time_covariance(terms: Sequence[Term], where: str, lags: FloatArray) -> FloatArray:
    """`sum_c v_c k_c(lag)` over the terms of the graph or of the nodes, of the shape of `lags`."""
    total = np.zeros(lags.shape)
    for term in terms:
        if term.where == where:
            total += term.variance * term.kernel.covariance(lags)
    return total


@dataclass(frozen=True, eq=False)
class Runs:
    """Runs of unknown cells: cells of one sensor at times that follow each other.

    Attributes
    ----------
    cells : IntArray (c,)
        Numbers `sensor * n + time` of the cells, rising.
    starts, lengths : IntArray (b,)
        Place of the first cell of each run in `cells`, and number of its cells.
    sensors, firsts : IntArray (b,)
        Sensor of each run, and its first time.
    """

    cells: IntArray
    starts: IntArray
    lengths: IntArray
    sensors: IntArray
    firsts: IntArray

    @classmethod
    def of(
        cls, unknown: BoolArray, alone: BoolArray | None = None, longest: int = LONGEST_RUN
    ) -> Runs:
        """Runs of the cells that are true in a mask (p, n), of which some (c,) stand alone."""
        n = unknown.shape[1]
        cells = np.flatnonzero(unknown)
        if not cells.size:
            none = np.empty(0, dtype=np.int64)
            return cls(none, none, none, none, none)
        breaks = (np.diff(cells) > 1) | (cells[1:] % n == 0)
        if alone is not None:
            breaks |= alone[1:] | alone[:-1]
        starts = np.concatenate([[0], np.flatnonzero(breaks) + 1])
        lengths = np.diff(np.append(starts, cells.size))
        pieces = -(-lengths // longest)
        # A run that is too long is cut into pieces of nearly equal length.
        places = np.repeat(starts, pieces)
        number = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        whole, parts = np.repeat(lengths, pieces), np.repeat(pieces, pieces)
        places = places + number * whole // parts
        sizes = np.diff(np.append(places, cells.size))
        return cls(cells, places, sizes, cells[places] // n, cells[places] % n)


class GapSystem:
    """Equations of the cells Q that are not, or not quite, observed.

    Parameters
    ----------
    system
        Complete data.
    unknown
        Mask (p, n) of Q; false at times at which no sensor reports.
    precision
        Inverse extra noise E^-1 (c,) of the cells of Q in rising order; None: zeros, all cells of Q
        are gaps.
    """

    def __init__(
        self, system: CompleteSystem, unknown: BoolArray, precision: FloatArray | None = None
    ) -> None:
        self.system, self.unknown, self.precision = system, unknown, precision
        # A block of cells that have noise of their own is no Toeplitz matrix.
        self.runs = Runs.of(unknown, None if precision is None else precision > 0)

    @property
    def size(self) -> int:
        """Number of unknown cells."""
        return int(self.runs.cells.size)

    def scattered(self, z: FloatArray) -> FloatArray:
        """Values (m, p, n) that are z (m, c) on Q and zero elsewhere."""
        out = np.zeros((len(z), *self.system.shape))
        out.reshape(len(z), -1)[:, self.runs.cells] = z
        return out

    def gathered(self, Y: FloatArray) -> FloatArray:
        """Values (m, c) of Y (m, p, n) on Q."""
        return Y.reshape(len(Y), -1)[:, self.runs.cells]

    def product(self, z: FloatArray) -> FloatArray:
        """`((A^-1)_QQ + E^-1) z` for z (m, c)."""
        p, n = self.system.shape
        block = max(1, MOST_ENTRIES // (p * n))
        parts = [
            self.gathered(self.system.solve(self.scattered(z[k : k + block])))
            for k in range(0, len(z), block)
        ]
        out = np.concatenate(parts)
        return out if self.precision is None else out + self.precision * z

    @cached_property
    def matrix(self) -> FloatArray:
        """`(A^-1)_QQ + E^-1` (c, c), by a product for each cell."""
        found = self.product(np.eye(self.size))
        return np.asarray(0.5 * (found + found.T))

    @cached_property
    def diagonal(self) -> FloatArray:
        """Diagonal (c,) of `(A^-1)_QQ + E^-1`."""
        own = self.system.diagonal.reshape(-1)[self.runs.cells]
        return own if self.precision is None else own + self.precision

    @cached_property
    def _blocks(self) -> Blocks:
        """Inverses of the blocks of the runs."""
        runs = self.runs
        symbols = self.system.symbols(int(runs.lengths.max(initial=1)))
        symbols = symbols / symbols[:, :1]
        # Blocks of one sensor and length are alike.
        keys = runs.sensors * (LONGEST_RUN + 1) + runs.lengths
        _, first, same = np.unique(keys, return_index=True, return_inverse=True)
        lengths = runs.lengths[first]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        columns = np.empty(offsets[-1])
        bad = first_columns(symbols, runs.sensors[first], lengths, offsets[:-1], columns)
        if bad >= 0:
            raise NumericalError(
                f"the block of {lengths[bad]} gaps of sensor {runs.sensors[first][bad]} is not "
                "positive definite to working precision; raise the noise"
            )
        return Blocks(
            columns, offsets[:-1][same], runs.starts, runs.lengths, np.sqrt(self.diagonal)
        )

    def precondition(self, R: FloatArray) -> FloatArray:
        """`B R` for R (m, c), B the inverses of the blocks of the runs."""
        return applied_inverses(self._blocks, np.ascontiguousarray(R))

    @cached_property
    def block_variances(self) -> FloatArray:
        """Diagonal (c,) of B: variance of a cell given all cells outside its run."""
        return diagonals_of(self._blocks)

    def solve(
        self,
        right: FloatArray,
        tolerance: float = 1e-6,
        start: FloatArray | None = None,
        report: Progress = silent,
    ) -> FloatArray:
        """Solve `((A^-1)_QQ + E^-1) z = right` for right (m, c), to a relative residual."""
        if not self.size:
            return np.zeros_like(right)
        if start is not None:
            left = right - self.product(start)
            size, rest = (np.sqrt((part**2).sum(axis=1)) for part in (right, left))
            goals = np.minimum(tolerance * size / np.where(rest > 0, rest, 1.0), 0.9)
            return start + self._solved(left, goals, report)
        return self._solved(right, np.full(len(right), tolerance), report)

    def _solved(self, right: FloatArray, tolerances: FloatArray, report: Progress) -> FloatArray:
        self.n_iterations = 0

        def product(V: FloatArray) -> FloatArray:
            self.n_iterations += 1
            return self.product(V.T).T

        found = solve_columns(
            product, lambda R: self.precondition(R.T).T, right.T, tolerances, MOST_STEPS, report
        )
        return np.ascontiguousarray(found.T)

    def filled(
        self, Y: FloatArray, tolerance: float = 1e-6, report: Progress = silent
    ) -> tuple[FloatArray, FloatArray]:
        """Values with gaps filled by their conditional means, and `alpha`, both (m, p, n).

        Y is zero on gaps. The values are Y on observed cells, the mean of an observation in gaps,
        and on cells with extra noise the mean of an observation without it.
        """
        solved = self.system.solve(Y)
        if not self.size:
            return Y, solved
        z = self.solve(self.gathered(solved), tolerance, report=report)
        values = Y - self.scattered(z)
        return values, self.system.solve(values)

    def deviations(
        self, m: int, rng: np.random.Generator, tolerance: float = 1e-3, report: Progress = silent
    ) -> tuple[FloatArray, FloatArray]:
        """Draws d (m, c) of `N(0, ((A^-1)_QQ + E^-1)^-1)`, and their products w (m, c).

        These are the deviations of the unknown cells from their means given the observations; w is
        drawn from `N(0, (A^-1)_QQ + E^-1)` and d solved for.
        """
        if not self.size:
            return np.empty((m, 0)), np.empty((m, 0))
        right = self.gathered(self.system.solve(self.system.drawn(m, rng)))
        if self.precision is not None:
            right += np.sqrt(self.precision) * rng.standard_normal(right.shape)
        return self.solve(right, tolerance, report=report), right

    def log_determinant(self, n_probes: int, n_steps: int, seed: int) -> tuple[float, float]:
        """log|(A^-1)_QQ + E^-1| and its standard error, zero where a dense matrix is used.

        For more than `DENSE_GAPS` cells it is estimated from random vectors by quadrature (Ubaru,
        Chen and Saad 2017), after a division by the diagonal on both sides.
        """
        if not self.size:
            return 0.0, 0.0
        roots = np.sqrt(self.diagonal)
        known = 2.0 * float(np.log(roots).sum())

        def product(V: FloatArray) -> FloatArray:
            return np.ascontiguousarray((self.product(V.T / roots) / roots).T)

        if self.size <= DENSE_GAPS:
            _, value = np.linalg.slogdet(self.matrix / np.outer(roots, roots))
            return known + float(value), 0.0
        rng = np.random.default_rng(seed)
        probes = np.where(rng.random((self.size, n_probes)) < 0.5, -1.0, 1.0)
        rules = lanczos_quadrature(product, probes, n_steps)
        logs = np.log(np.maximum(rules.values, np.finfo(float).tiny))
        estimates = self.size * (rules.weights * logs).sum(axis=1)
        error = float(widened_error(estimates))
        return known + float(estimates.mean()), error
