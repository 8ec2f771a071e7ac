"""Gaps of a vector autoregression, by its precision matrix in order of time.

Gaps are unknowns z of `Lam_QQ z = -(B'Q^-1 (B y0 - c))_Q`, `cov z = Lam_QQ^-1`, y0 zero in gaps and
Lam the precision matrix of `markov`. In chunks of 12 steps, counted from the last one, the system
is block tridiagonal: one Cholesky pass gives means, variances, draws and log-determinant, exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack, solve_triangular

from coupledgp.errors import NumericalError
from coupledgp.ground.memory import check_memory
from coupledgp.inference.space_time.autoregression import LONGEST_LAG, padded
from coupledgp.inference.space_time.markov import Markov, is_inside, pair_weights, step_weights
from coupledgp.random import FloatArray, IntArray

BoolArray = NDArray[np.bool_]


class GapChunks:
    """Unknown cells of a series, in chunks of 12 steps that end with the last step.

    Parameters
    ----------
    law
        Law of the series.
    unknown
        Mask (p, n) of the cells.
    """

    def __init__(self, law: Markov, unknown: BoolArray) -> None:
        self.law, self.unknown = law, unknown
        self.p, self.n = unknown.shape
        first = self.n % LONGEST_LAG
        self.edges = [0, *range(first, self.n + 1, LONGEST_LAG)] if first else [
            *range(0, self.n + 1, LONGEST_LAG)
        ]  # fmt: skip
        self.weights = step_weights(self.n)
        self.rows: list[IntArray] = [np.flatnonzero(unknown[:, t]) for t in range(self.n)]

    @property
    def sizes(self) -> IntArray:
        """Number of unknown cells of each chunk."""
        counts = np.array([rows.size for rows in self.rows])
        return np.add.reduceat(counts, self.edges[:-1])

    def cells(self, c: int) -> tuple[IntArray, IntArray]:
        """Sensors and steps (k,) of the cells of a chunk, step by step."""
        steps = range(self.edges[c], self.edges[c + 1])
        sensors = [self.rows[t] for t in steps]
        times = [np.full(self.rows[t].size, t) for t in steps]
        return np.concatenate(sensors), np.concatenate(times)

    def block(self, c: int, other: int) -> FloatArray:
        """Lam between the cells of a chunk and those of it or of the next one."""
        first, second = (range(self.edges[k], self.edges[k + 1]) for k in (c, other))
        of_first = np.concatenate([[0], np.cumsum([self.rows[t].size for t in first])])
        of_second = np.concatenate([[0], np.cumsum([self.rows[t].size for t in second])])
        out = np.zeros((of_first[-1], of_second[-1]))
        for a, t in enumerate(first):
            if not self.rows[t].size:
                continue
            for b, s in enumerate(second):
                if self.rows[s].size and 0 <= s - t <= LONGEST_LAG:
                    part = self.pair(t, s - t)
                    out[of_first[a] : of_first[a + 1], of_second[b] : of_second[b + 1]] = part
        if c == other:
            upper = np.triu(out)
            out = upper + np.triu(out, 1).T
        return out

    def pair(self, t: int, lag: int) -> FloatArray:
        """Lam between unknown cells of step t and of step t + lag."""
        rows, columns = self.rows[t], self.rows[t + lag]
        place = np.ix_(rows, columns)
        if is_inside(t, self.n):
            return np.asarray(self.law.interior[lag][place])
        numbers = pair_weights(self.weights, t, lag)
        found = np.zeros((rows.size, columns.size))
        for g, h in zip(*np.nonzero(numbers), strict=True):
            found += numbers[g, h] * self.law.products[g, h][place]
        if t == 0 and lag == 0:
            found += self.law.inverse_first[place]
        return found


@dataclass(frozen=True, eq=False)
class GapFactor:
    """Cholesky factors of the chunks: `L_c L_c' = Lam_cc - O_c'O_c`, `O_c = L_(c-1)^-1 Lam`.

    Attributes
    ----------
    chunks : GapChunks
    lower : list of FloatArray
        L of each chunk.
    couplings : list of FloatArray
        O of each chunk, (size of the chunk before, size).
    """

    chunks: GapChunks
    lower: list[FloatArray]
    couplings: list[FloatArray]

    @classmethod
    def of(cls, chunks: GapChunks) -> GapFactor:
        """The factors, chunk by chunk in order of time."""
        sizes = chunks.sizes.astype(np.float64)
        beside = np.concatenate([[0.0], sizes[:-1]])
        check_memory(
            8.0 * float((sizes * (sizes + beside)).sum() + 4 * (sizes**2).max(initial=0.0)),
            f"gaps: factors of {int(sizes.sum())} missing cells",
            "fit to fewer sensors or times, or set dynamics=False",
        )
        lower: list[FloatArray] = []
        couplings: list[FloatArray] = []
        for c in range(sizes.size):
            S = chunks.block(c, c)
            size = len(S)
            link = np.zeros((len(lower[-1]) if lower else 0, size))
            if link.size:
                coupling = chunks.block(c - 1, c)
                link = solve_triangular(lower[-1], coupling, lower=True, check_finite=False)
                S -= link.T @ link
            L = S
            if size:
                L, info = lapack.dpotrf(S, lower=1)
                if info != 0:
                    raise NumericalError(
                        "dynamics: the precision of the gaps is not positive definite to working "
                        "precision; set dynamics=False"
                    )
            lower.append(L)
            couplings.append(link)
        return cls(chunks, lower, couplings)

    @property
    def log_determinant(self) -> float:
        """log|Lam_QQ|."""
        return 2.0 * sum(float(np.log(L.diagonal()).sum()) for L in self.lower)

    def scattered(self, parts: list[FloatArray]) -> FloatArray:
        """Values (m, p, n) of parts (size, m) of the chunks, zero elsewhere."""
        m = parts[0].shape[1] if parts else 0
        out = np.zeros((m, *self.chunks.unknown.shape))
        for c, part in enumerate(parts):
            if len(part):
                sensors, steps = self.chunks.cells(c)
                out[:, sensors, steps] = part.T
        return out

    def solve(self, right: FloatArray) -> FloatArray:
        """`Lam_QQ^-1 r` (m, p, n) for right sides (m, p, n) in the unknown cells."""
        forward: list[FloatArray] = []
        for c, (L, link) in enumerate(zip(self.lower, self.couplings, strict=True)):
            sensors, steps = self.chunks.cells(c)
            part = right[:, sensors, steps].T
            if link.size:
                part = part - link.T @ forward[-1]
            forward.append(_triangular(L, part))
        return self.backward(forward)

    def backward(self, forward: list[FloatArray]) -> FloatArray:
        """`L^-T f` (m, p, n) of parts f (size, m) of the chunks; of white noise it is a draw."""
        found: list[FloatArray] = [np.empty(0)] * len(self.lower)
        for c in range(len(self.lower) - 1, -1, -1):
            part = forward[c]
            if c + 1 < len(self.lower) and self.couplings[c + 1].size:
                part = part - self.couplings[c + 1] @ found[c + 1]
            found[c] = _triangular(self.lower[c], part, transposed=True)
        return self.scattered(found)

    def draws(self, m: int, rng: np.random.Generator) -> FloatArray:
        """Draws (m, p, n) of `N(0, Lam_QQ^-1)`."""
        return self.backward([rng.standard_normal((len(L), m)) for L in self.lower])

    def covariances(self) -> Iterator[tuple[int, FloatArray]]:
        """Number of each chunk from the last one on, and the covariance of its cells."""
        after = np.empty((0, 0))
        for c in range(len(self.lower) - 1, -1, -1):
            L = self.lower[c]
            if not len(L):
                after = np.empty((0, 0))
                yield c, after
                continue
            half = lapack.dtrtri(L, lower=1)[0]
            half = np.tril(half)
            S = half.T @ half
            if c + 1 < len(self.lower) and self.couplings[c + 1].size:
                K = half.T @ self.couplings[c + 1]
                S += K @ after @ K.T
            after = S
            yield c, S

    def variances(self) -> tuple[FloatArray, FloatArray]:
        """Variances (p, n) of the unknown cells, zero elsewhere; covariance of the last chunk."""
        out = np.zeros(self.chunks.unknown.shape)
        last = np.empty((0, 0))
        for c, S in self.covariances():
            sensors, steps = self.chunks.cells(c)
            out[sensors, steps] = S.diagonal()
            if c == len(self.lower) - 1:
                last = S
        return out, last


def _triangular(L: FloatArray, right: FloatArray, *, transposed: bool = False) -> FloatArray:
    if not len(L):
        return np.zeros((0, right.shape[1]))
    return np.asarray(blas.dtrsm(1.0, L, right, lower=1, trans_a=int(transposed)))


@dataclass(frozen=True, eq=False)
class FilledSeries:
    """Series with their gaps filled.

    Attributes
    ----------
    values : FloatArray (p, n)
        Observations, and conditional means in gaps.
    variances : FloatArray (p, n)
        Variances of the gaps; zero where a value was observed.
    last : FloatArray (u, u)
        Covariance of the gaps of the last 12 steps, step by step.
    log_evidence : float
        Log density of the observed values.
    """

    values: FloatArray
    variances: FloatArray
    last: FloatArray
    log_evidence: float


def filled_series(law: Markov, X: FloatArray, observed: BoolArray) -> FilledSeries:
    """Conditional law of the gaps of series X (p, n)."""
    known = np.where(observed, X, 0.0)
    n_gaps = int((~observed).sum())
    if not n_gaps:
        return FilledSeries(
            known, np.zeros(known.shape), np.empty((0, 0)), law.log_density(known)
        )  # fmt: skip
    factor = GapFactor.of(GapChunks(law, ~observed))
    values = known - factor.solve(law.gradient(known)[None])[0]
    values[observed] = known[observed]
    variances, last = factor.variances()
    evidence = law.log_density(values) - 0.5 * factor.log_determinant
    evidence += 0.5 * n_gaps * np.log(2 * np.pi)
    return FilledSeries(values, variances, last, evidence)


@dataclass(frozen=True, eq=False)
class Ahead:
    """Forecasts of series.

    Attributes
    ----------
    mean : FloatArray (p, h)
    variance : FloatArray (p, h)
    """

    mean: FloatArray
    variance: FloatArray


def ahead(law: Markov, filled: FilledSeries, observed: BoolArray, n_steps: int) -> Ahead:
    """Law of the next steps: the recursion, with the covariance of what is missing at the end."""
    p = law.n_sensors
    recent = padded(filled.values[:, -LONGEST_LAG:])[:, -LONGEST_LAG:]
    missing = np.zeros((p, LONGEST_LAG), dtype=bool)
    seen = observed[:, -LONGEST_LAG:]
    missing[:, LONGEST_LAG - seen.shape[1] :] = ~seen
    steps, sensors = np.nonzero(missing.T)
    u = steps.size
    last = recent.T[None].copy()
    carried = np.zeros((u, LONGEST_LAG, p))
    carried[np.arange(u), steps, sensors] = 1.0
    response = np.zeros((p, LONGEST_LAG, p))
    response[:, -1] = np.eye(p)
    mean, variance = np.empty((p, n_steps)), np.empty((p, n_steps))
    total = np.zeros(p)
    root = law.root
    for h in range(n_steps):
        new = law.model.next(last)
        last = np.concatenate([last[:, 1:], new[:, None]], axis=1)
        mean[:, h] = new[0]
        # Column k of `response` is what a unit innovation of sensor k has become.
        total = total + ((root.T @ response[:, -1]) ** 2).sum(axis=0)
        variance[:, h] = total
        if u:
            moved = law.model.moved(carried)
            carried = np.concatenate([carried[:, 1:], moved[:, None]], axis=1)
            variance[:, h] += ((filled.last @ moved) * moved).sum(axis=0)
        if h + 1 < n_steps:
            response = np.concatenate([response[:, 1:], law.model.moved(response)[:, None]], axis=1)
    return Ahead(mean, variance)
