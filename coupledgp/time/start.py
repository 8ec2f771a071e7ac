"""The law before the coefficients are known: one lag and a learned covariance.

    x_t = phi x_(t-1) + e_t ,   e_t ~ N(0, (1 - phi^2) C) ,
    C = (I I' / 2 (1 - phi^2) n + F F' / 2 n + K / 4) / 1.25 ,

I the errors of one step, F the filled series and K the correlations of the graph's kernel; C has a
mean diagonal of one. A few rounds lead from straight lines to the start.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coupledgp.random import FloatArray
from coupledgp.time.precision import GapFactor, Markov
from coupledgp.time.recursion import (
    N_BLOCKS,
    N_GROUPS,
    Recursion,
    alone_residuals,
    shrunk_covariance,
)
from coupledgp.time.student import fitted_scale

BoolArray = NDArray[np.bool_]
ROUNDS = 4
# Largest pooled coefficient.
MOST = 0.999


def one_lag(phi: float, C: FloatArray) -> Markov:
    """The law of one lag with the covariance C (p, p)."""
    coefficients = np.zeros((N_GROUPS, *C.shape))
    coefficients[0] = phi * np.eye(len(C))
    return Markov(Recursion(coefficients), (1.0 - phi**2) * C, C)


def start_law(x: FloatArray, K: FloatArray) -> Markov:
    """The law of one lag, from filled series (p, n)."""
    p, n = x.shape
    before = float((x[:, :-1] ** 2).sum())
    phi = float((x[:, 1:] * x[:, :-1]).sum()) / before if before > 0 else 0.0
    phi = min(max(phi, 0.0), MOST)
    steps = x[:, 1:] - phi * x[:, :-1]
    C = 0.5 * (steps @ steps.T) / ((1.0 - phi**2) * n) + 0.5 * (x @ x.T) / n + 0.25 * K
    return one_lag(phi, C * (p / float(np.trace(C))))


def started(x: FloatArray, observed: BoolArray, K: FloatArray) -> FloatArray:
    """Series (p, n) whose gaps the start fills."""
    for _ in range(0 if observed.all() else ROUNDS):
        x = GapFactor(start_law(x, K), x, observed).filled()
    return x


class FewSteps(NamedTuple):
    """The start as the law itself.

    Attributes
    ----------
    markov : Markov
    density : float
        Mean log density of an error of one step, left out.
    factor : float
        Variance of values given all others, left out, over that of that law.
    tail : float
        Inverse degrees of freedom of Student's law of such values.
    """

    markov: Markov
    density: float
    factor: float
    tail: float


def law_of_few_steps(x: FloatArray, observed: BoolArray, K: FloatArray) -> FewSteps:
    """The start as the law itself, its covariance that of errors, of filled series (p, n).

    Correlations are shrunk as those of innovations are.
    """
    phi = float(start_law(x, K).model.coefficients[0, 0, 0])
    steps = x[:, 1:] - phi * x[:, :-1]
    steps = np.where(observed[:, 1:] & observed[:, :-1], steps, np.nan)
    ends = np.linspace(0, steps.shape[1], min(N_BLOCKS, steps.shape[1]) + 1).astype(int)
    edges = list(itertools.pairwise(ends.tolist()))
    shrunk = shrunk_covariance(steps, edges, K)
    factor, tail = fitted_scale(alone_residuals(steps, edges, shrunk))
    markov = one_lag(phi, shrunk.covariance / (1.0 - phi**2))
    return FewSteps(markov, shrunk.density, factor, tail)
