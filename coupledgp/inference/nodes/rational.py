"""Diagonals of functions of `W~` at all nodes, from sparse factors at the poles of a rational fit.

A smooth function f of `d = 1 - w` on [0, 2] is, to some digits, a sum over few poles a +- ib,

    f(d) ~ c + sum_j (alpha_j + beta_j (d - a_j)) / ((d - a_j)^2 + b_j^2) ,

whose terms are functions of `L~` with a sparse positive definite denominator: entries of their
inverses on the pattern of `L~^2` give all diagonals, as in pole expansion and selected inversion
(Lin, Lu, Ying, Car and E, 2009). The poles come from the AAA algorithm (Nakatsukasa, Sete and
Trefethen, 2018), the coefficients from least squares. A heat kernel takes some seven pairs of poles
whatever its diffusion time.
"""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.interpolate import AAA

from coupledgp.errors import MemoryLimitError, NumericalError
from coupledgp.graphs import Graph
from coupledgp.graphs.elimination import graph_laplacian
from coupledgp.inference.nodes.forecast import (
    BLOCK_RATE,
    DENSE_RATE,
    ENTRY_SECONDS,
    factor_seconds,
)
from coupledgp.inference.nodes.moments import SpectralFunction
from coupledgp.inference.nodes.precision import (
    PowerPattern,
    hub_nodes,
    power_pattern,
    precision_work,
)
from coupledgp.kernels import SeriesOperator
from coupledgp.kernels.graph.exact import series_degree
from coupledgp.linalg.block_factor import BlockFactor
from coupledgp.random import FloatArray, IntArray

# Poles of a heat kernel, with which the cost of poles is compared with that of columns.
USUAL_POLES = 7
# Points of [0, 2] at which functions are fitted; a third of them are dense at zero, where `W~` has
# its greatest eigenvalues.
N_POINTS = 2000
# Most poles; a function that takes more is refused.
MOST_POLES = 60
# Imaginary part, relative to the modulus, below which a pole is real.
REAL = 1e-10
# Least distance of a pole from [0, 2]; nearer ones are rounding, or make matrices singular to it.
NEAREST = 1e-7
# Least error that is asked for.
LEAST_ERROR = 2e-12
# Columns of a series that exist at once.
BLOCK_COLUMNS = 256
# Singular values of the least-squares problem below this share of the largest one are rounding.
CUTOFF = 1e-14


class RationalFit(NamedTuple):
    """A function of d as a sum over poles.

    Attributes
    ----------
    constant : float
        c.
    poles : ndarray (m,)
        Poles of positive imaginary part, each for a conjugate pair, and real ones.
    coefficients : FloatArray (m, 2)
        alpha and beta of a pair; for a real pole z the coefficient of `1 / (d - z)` and zero.
    error : float
        Largest error on [0, 2], relative to the function's maximum.
    """

    constant: float
    poles: np.ndarray
    coefficients: FloatArray
    error: float

    def at(self, d: FloatArray) -> FloatArray:
        """Values (k,) of the fitted sum at d (k,)."""
        total = np.full(d.shape, self.constant)
        for pole, (alpha, beta) in zip(self.poles, self.coefficients, strict=True):
            gap = d - pole.real
            if pole.imag == 0:
                total += alpha / gap
            else:
                total += (alpha + beta * gap) / (gap**2 + pole.imag**2)
        return total


def rational_fit(function: SpectralFunction, tolerance: float) -> RationalFit:
    """Fit a function of eigenvalues of `W~` by a sum over poles.

    Parameters
    ----------
    function
        Function of numbers in [-1, 1].
    tolerance
        Largest error relative to the function's maximum.

    Raises
    ------
    NumericalError
        The tolerance is not reached.
    """
    ends = 1.0 - np.cos(np.linspace(0.0, np.pi, N_POINTS // 3))
    even = np.linspace(0.0, 2.0, N_POINTS // 3)
    d = np.unique(np.concatenate([ends, even, np.geomspace(1e-9, 2.0, N_POINTS // 3)]))
    values = function(1.0 - d)
    top = float(np.abs(values).max())
    if top == 0.0:
        return RationalFit(0.0, np.empty(0, complex), np.empty((0, 2)), 0.0)
    if np.ptp(values) <= tolerance * top:
        return RationalFit(float(values.mean()), np.empty(0, complex), np.empty((0, 2)), tolerance)
    tolerance = max(tolerance, LEAST_ERROR)
    for share in (0.1, 1e-2, 1e-3):
        fit = _with_coefficients(_poles(d, values / top, share * tolerance), d, values)
        error = float(np.abs(fit.at(d) - values).max()) / top
        if error <= tolerance:
            break
    else:
        raise NumericalError(
            f"tolerance: expected one that {fit.poles.size} poles reach, got {tolerance:g} where "
            f"they reach {error:.2g}"
        )
    return fit._replace(error=error)


def _poles(x: FloatArray, values: FloatArray, tolerance: float) -> NDArray[np.complex128]:
    """Poles of the rational interpolant of values (k,), at most one, at x (k,)."""
    share = tolerance / float(np.abs(values).max())
    with warnings.catch_warnings():
        # The caller measures the error of the fit and asks for another one.
        warnings.filterwarnings("ignore", "AAA failed to converge", RuntimeWarning)
        fit = AAA(x, values, rtol=share, max_terms=MOST_POLES, clean_up=False)
    poles: NDArray[np.complex128] = fit.poles()
    return poles[np.isfinite(poles)]


def _with_coefficients(poles: np.ndarray, d: FloatArray, values: FloatArray) -> RationalFit:
    """Coefficients of least squares for given poles, those on [0, 2] and second halves left out."""
    is_real = np.abs(poles.imag) <= REAL * np.abs(poles)
    poles = np.where(is_real, poles.real + 0j, poles)
    gaps = np.abs(poles - np.clip(poles.real, 0.0, 2.0))
    poles = poles[(gaps > NEAREST) & (poles.imag >= 0)]
    columns, scales = [np.ones_like(d)], [1.0]
    for pole in poles:
        gap = d - pole.real
        square = gap**2 + pole.imag**2
        for column in [1.0 / gap] if pole.imag == 0 else [1.0 / square, gap / square]:
            scales.append(float(np.abs(column).max()))
            columns.append(column / scales[-1])
    found = linalg.lstsq(np.stack(columns, axis=1), values, cond=CUTOFF)[0] / np.array(scales)
    coefficients, place = np.zeros((poles.size, 2)), 1
    for row, pole in zip(coefficients, poles, strict=True):
        width = 1 if pole.imag == 0 else 2
        row[:width] = found[place : place + width]
        place += width
    return RationalFit(float(found[0]), poles, coefficients, np.nan)


class HubSplit(NamedTuple):
    """A graph's Laplacian in blocks: few hubs C, which link half of the graph to itself, and R.

    Without hubs R is the graph.

    Attributes
    ----------
    hubs, rest : IntArray (h,), (r,)
        Nodes of C and of R.
    pattern : PowerPattern
        Pattern of `L_RR^2`, with `L_RR`.
    across, own : FloatArray (r, h), (h, h)
        `L_RC` and `L_CC`.
    """

    hubs: IntArray
    rest: IntArray
    pattern: PowerPattern
    across: FloatArray
    own: FloatArray

    @classmethod
    def of(cls, graph: Graph) -> HubSplit:
        """Split a closed graph.

        Raises
        ------
        MemoryLimitError
            Factors of the pattern of `L_RR^2` are out of question, see `precision_work`.
        """
        hubs, inner = _without_hubs(graph)
        rest = np.setdiff1d(np.arange(graph.n_nodes), hubs)
        if inner is graph:
            none = np.empty((rest.size, 0))
            return cls(hubs, rest, power_pattern(graph, 2), none, none[:0])
        laplacian = graph_laplacian(graph)
        rows = sparse.csr_array(laplacian[hubs]).toarray()
        own = sparse.csr_array(laplacian[rest][:, rest])
        return cls(hubs, rest, PowerPattern(inner, 2, own), rows[:, rest].T, rows[:, hubs])

    def term(self, pole: complex) -> NDArray[np.complex128]:
        """Diagonal (n_nodes,) of `(L~ - z)^-1` at a pole z beside the spectrum.

        With `G = (L_RR - z)^-1` and `X = G L_RC` the inverse is `S^-1` at C, where S is
        `L_CC - z - L_CR X`, and `G + X S^-1 X'` at R. G is `(L_RR - z*)` times the inverse of
        `(L_RR - a)^2 + b^2`, for z = a + ib.
        """
        a, b = float(pole.real), float(pole.imag)
        pattern = self.pattern
        # A real pole is left or right of the spectrum: the square of `L~ - z` serves as well.
        factor = BlockFactor(
            pattern.nodes, pattern.polynomial(np.array([a**2 + b**2, -2.0 * a, 1.0]))
        )
        inverse = factor.selected()[0]
        diagonal = pattern.diagonal(inverse)
        slope = pattern.product_diagonal(pattern.polynomial(np.array([0.0, 1.0, 0.0])), inverse)
        found = np.empty(self.hubs.size + self.rest.size, np.complex128)
        inner = slope - a * diagonal + 1j * b * diagonal
        if self.hubs.size:
            solved = factor.solve(self.across)
            X = pattern.laplacian @ solved - (a - 1j * b) * solved
            S = self.own - pole * np.eye(self.hubs.size) - self.across.T @ X
            schur = np.linalg.inv(S)
            inner += np.einsum("ij,ij->i", X @ schur, X)
            found[self.hubs] = np.diagonal(schur)
        found[self.rest] = inner
        return found


@lru_cache(maxsize=4)
def _without_hubs(graph: Graph) -> tuple[IntArray, Graph]:
    """Hubs (h,) of a graph whose square fills in by them, and the graph without them."""
    hubs = hub_nodes(graph)
    if not hubs.size or precision_work(graph, 2).bytes < np.inf:
        return hubs[:0], graph
    rest = np.setdiff1d(np.arange(graph.n_nodes), hubs)
    return hubs, Graph.from_scipy(sparse.csr_array(graph.adjacency[rest][:, rest]))


@lru_cache(maxsize=2)
def hub_split(graph: Graph) -> HubSplit:
    """The split of a closed graph, cached for the last graphs."""
    return HubSplit.of(graph)


def rational_diagonal(graph: Graph, fit: RationalFit) -> FloatArray:
    """Diagonal `f(W~)_ii`, (n_nodes,), of a fitted function; node scales are not applied.

    Parameters
    ----------
    graph
        The closed graph.
    fit
        Fit of the function.

    Raises
    ------
    MemoryLimitError
        Factors of the pattern of `L~^2`, few hubs aside, are out of question.
    """
    total = np.full(graph.n_nodes, fit.constant)
    if not fit.poles.size:
        return total
    split = hub_split(graph)
    for pole, (alpha, beta) in zip(fit.poles, fit.coefficients, strict=True):
        term = split.term(complex(pole))
        # `1 / (d - z)` is `(d - a + ib) / ((d - a)^2 + b^2)`.
        if pole.imag == 0:
            total += alpha * term.real
        else:
            total += (alpha / pole.imag) * term.imag + beta * term.real
    return total


def diagonal_seconds(graph: Graph, function: SpectralFunction, tolerance: float) -> float:
    """Forecast of the seconds of `diagonal_of`; arguments are the same."""
    return _diagonal_plan(graph, function, tolerance)[1]


def _diagonal_plan(
    graph: Graph, function: SpectralFunction, tolerance: float
) -> tuple[RationalFit | None, float]:
    """The fit whose poles give a diagonal, None where columns cost less, and the seconds."""
    size = float(graph.indices.size + 2 * graph.n_nodes)
    by_columns = graph.n_nodes * series_degree(function, tolerance) * size / BLOCK_RATE
    hubs, inner = _without_hubs(graph)
    work = precision_work(inner, 2)
    if work.bytes == np.inf or USUAL_POLES * factor_seconds(work.flops) > by_columns:
        return None, by_columns
    try:
        fit = rational_fit(function, tolerance)
    except NumericalError:
        return None, by_columns
    own = 4.0 * hubs.size * (work.entries + graph.n_nodes * hubs.size) / DENSE_RATE
    seconds = ENTRY_SECONDS * work.entries + fit.poles.size * (factor_seconds(work.flops) + own)
    return fit, seconds


def diagonal_of(graph: Graph, function: SpectralFunction, tolerance: float) -> FloatArray:
    """Diagonal `f(W~)_ii` of all nodes, (n_nodes,): by poles, by columns where those cost less.

    Parameters
    ----------
    graph
        The closed graph.
    function
        Function of eigenvalues of `W~`.
    tolerance
        Largest error relative to the function's maximum.
    """
    fit = _diagonal_plan(graph, function, tolerance)[0]
    if fit is not None:
        try:
            return rational_diagonal(graph, fit)
        except (NumericalError, MemoryLimitError):
            pass
    return diagonal_by_columns(graph, function, tolerance, np.arange(graph.n_nodes))


def diagonal_by_columns(
    graph: Graph, function: SpectralFunction, tolerance: float, nodes: IntArray
) -> FloatArray:
    """Diagonal `f(W~)_ii` of nodes (p,), from a column of a Chebyshev series each."""
    operator, found = SeriesOperator(graph, function, tolerance), np.empty(nodes.size)
    for start in range(0, nodes.size, BLOCK_COLUMNS):
        part = nodes[start : start + BLOCK_COLUMNS]
        places = np.arange(part.size)
        E = np.zeros((graph.n_nodes, part.size))
        E[part, places] = 1.0
        found[start : start + part.size] = operator.matmat(E)[part, places]
    return found
