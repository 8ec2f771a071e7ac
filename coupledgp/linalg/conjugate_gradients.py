"""Conjugate gradients for many right-hand sides at once, preconditioned, in either precision.

One loop, `conjugate_gradients`, serves two callers. `solve_columns` trusts the residuals of the
recurrence, measured by their Euclidean norm. `solve_refined` recomputes them in double precision
and solves for them again, so that the steps may be made in single precision; it measures them in
the norm of the preconditioner's inverse, in which the error of a covariance is bounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from coupledgp.errors import NumericalError
from coupledgp.ground.progress import tell
from coupledgp.linalg.lanczos import Product
from coupledgp.linalg.matrices import Matrix, as_numpy, in_precision, library
from coupledgp.linalg.system import Solution
from coupledgp.random import FloatArray

# `V -> A V` for columns V (n, k), in the dtype of V.
Map: TypeAlias = Callable[[Matrix], Matrix]
# Inner products (k,) of the columns of two matrices (n, k).
InnerProduct: TypeAlias = Callable[[Matrix, Matrix], Matrix]
# Factor by which the steps of one precision can reduce a residual before rounding stops them.
INNER_TOLERANCE = {"float32": 1e-4, "float64": 1e-12}
# Share of the wanted reduction that the steps aim at: the recurrence's residual is a little smaller
# than the true one.
MARGIN = 0.7
# Largest number of steps between two true residuals; the iteration starts afresh from the second.
REFINED_ITERATIONS = 1000
# Steps without a smaller residual after which rounding has won.
PATIENCE = 20
# A refinement that leaves more than this share of a residual is bound by rounding.
LEAST_GAIN = 0.3


def fast_inner(A: Matrix, B: Matrix) -> Matrix:
    """`sum_i A_ij B_ij`, (k,), on any device; its rounding depends on the number of threads."""
    return (A * B).sum(0)


def ordered_inner(A: FloatArray, B: FloatArray) -> FloatArray:
    """`sum_i A_ij B_ij`, (k,), of arrays: the same bits for any number of threads."""
    return np.asarray(np.einsum("ij,ij->j", A, B))


class Iterated(NamedTuple):
    """Approximate solutions X (n, k), their residuals' squares over the goals' (k,), and steps."""

    values: Matrix
    excess: Matrix
    n_iterations: int


@np.errstate(over="ignore", invalid="ignore")  # what is not finite ends the iteration
def conjugate_gradients(
    product: Map,
    precondition: Map,
    B: Matrix,
    tolerance: float | Matrix,
    max_iterations: int,
    *,
    in_norm_of_preconditioner: bool,
    inner: InnerProduct = fast_inner,
    patience: int | None = None,
) -> Iterated:
    """Solve `A X = B` for columns side by side; a column that has converged leaves the products.

    Parameters
    ----------
    product, precondition
        `V -> A V` and `R -> L^-1 R` for symmetric positive definite A and L (n, n).
    B
        Right-hand sides (n, k), whose dtype the steps are made in.
    tolerance
        Size of a residual over that of its right-hand side, one number or one a column (k,).
    max_iterations
        Largest number of steps.
    in_norm_of_preconditioner
        Whether the size of a residual r is `(r' L^-1 r)^1/2`, or its Euclidean norm.
    inner
        Inner products of columns, `fast_inner` or `ordered_inner`.
    patience
        Number of steps without a smaller residual after which the iteration ends; None for any.
    """
    own = library(B)
    X, Z = own.zeros_like(B), precondition(B)
    rho = inner(B, Z)
    size = rho if in_norm_of_preconditioner else inner(B, B)
    wanted = own.zeros_like(size) + tolerance
    goal = wanted**2 * size
    # Written so that a size that is not a number is not taken for a small one.
    active = own.where(~(size <= goal))[0]
    excess = own.zeros_like(goal)
    excess[active] = size[active] / goal[active]
    R, P, rho, goal = _some(B, active), _some(Z, active), rho[active], goal[active]
    best, since, step = math.inf, 0, 0
    while len(active) and step < max_iterations and (patience is None or since < patience):
        AP = product(P)
        alpha = rho / inner(P, AP)
        X[:, active] += alpha * P
        R = R - alpha * AP
        Z = precondition(R)
        following = inner(R, Z)
        left = (following if in_norm_of_preconditioner else inner(R, R)) / goal
        excess[active] = left
        worst, step = float(left.max()), step + 1
        best, since = (worst, 0) if worst < best else (best, since + 1)
        residual = float((wanted[active] * left**0.5).max())
        tell(f"conjugate gradients, step {step}, residual {residual:.1e}")
        if not math.isfinite(worst):
            break
        going = own.where(left > 1)[0]
        P = _some(Z, going) + following[going] / rho[going] * _some(P, going)
        R, rho, goal, active = _some(R, going), following[going], goal[going], active[going]
    return Iterated(X, excess, step)


def _some(A: Matrix, columns: Matrix) -> Matrix:
    """Columns of A (n, k), each in one piece of memory."""
    return A.T[columns].T


class DiagonalPreconditioner:
    """Division by an estimate of the diagonal (n,)."""

    def __init__(self, diagonal: FloatArray) -> None:
        self._diagonal = diagonal

    def __call__(self, R: FloatArray) -> FloatArray:
        return R / self._diagonal[:, None]


class NotConvergedError(NumericalError):
    """Conjugate gradients ended early, with approximate values (n, k) and a relative residual."""

    def __init__(self, text: str, values: FloatArray, residual: float) -> None:
        super().__init__(text)
        self.values, self.residual = values, residual


def solve_columns(
    product: Product,
    precondition: Product,
    B: FloatArray,
    tolerance: float | FloatArray = 1e-6,
    max_iterations: int = 5000,
    *,
    in_norm_of_preconditioner: bool = False,
) -> FloatArray:
    """Solve `A X = B` to a relative residual of the recurrence, in double precision.

    Parameters
    ----------
    product
        `V -> A V` for a symmetric positive definite A (n, n), columns (n, k).
    precondition
        `R -> L^-1 R` for a positive definite L near A.
    B
        Right-hand sides (n, k).
    tolerance
        Relative residual `|A x - b| / |b|` of every column, or one for each (k,).
    max_iterations
        Largest number of steps.

    Raises
    ------
    NotConvergedError
        A column has not converged after `max_iterations`; the error has values and residual.
    """
    tolerances = np.broadcast_to(np.asarray(tolerance, dtype=np.float64), B.shape[1])
    # Powers of two change no digit, and the squares of tiny columns do not vanish.
    scale = np.exp2(np.frexp(np.abs(B).max(axis=0, initial=0.0))[1].astype(np.float64))
    found = conjugate_gradients(
        product,
        precondition,
        np.ascontiguousarray(B / scale),
        tolerances,
        max_iterations,
        in_norm_of_preconditioner=in_norm_of_preconditioner,
        inner=ordered_inner,
    )
    excess = np.sqrt(found.excess)
    failed = ~(excess <= 1)
    values = np.asarray(found.values * scale)
    if failed.any():
        residual = float((excess * tolerances)[failed].max())
        raise NotConvergedError(
            f"conjugate gradients: relative residual {residual:.2g} after {found.n_iterations} "
            f"steps, expected {tolerances.min():.2g}; raise the noise, the tolerance or "
            "max_iterations, or use solver='dense'",
            values,
            residual,
        )
    return values


@np.errstate(over="ignore", invalid="ignore")
def solve_refined(
    product: Map,
    precondition: Map,
    B: Matrix,
    tolerance: float,
    dtype: str,
) -> Solution:
    """Solve `A X = B`, (n, k) in float64, to residuals that are true ones.

    Conjugate gradients make their steps in `dtype`; residuals are computed in double precision and
    solved for again until they are small enough. Where single precision does not help, double has
    to. Residuals are measured in the norm of the preconditioner's inverse.

    Parameters
    ----------
    product, precondition
        `V -> A V` and `V -> L^-1 V`, in the dtype of V.
    B
        Right-hand sides (n, k) in float64.
    tolerance
        Largest residual of each column, relative to its right-hand side.
    dtype
        `"float32"` or `"float64"`.

    Raises
    ------
    NumericalError
        The tolerance is out of reach.
    """

    def norms_of(R: Matrix) -> Matrix:
        return fast_inner(R, precondition(R)).clip(0.0, None) ** 0.5

    goal = tolerance * norms_of(B)
    X, R = library(B).zeros_like(B), B
    norms, steps = norms_of(B), 0
    while True:
        gain = max(float((goal / norms.clip(1e-300, None)).min()), INNER_TOLERANCE[dtype])
        change = conjugate_gradients(
            product, precondition, in_precision(R, dtype), MARGIN * gain,
            REFINED_ITERATIONS, in_norm_of_preconditioner=True, patience=PATIENCE,
        )  # fmt: skip
        steps += change.n_iterations
        if bool(library(B).isfinite(change.values).all()):
            X += in_precision(change.values, "float64")
            R = B - product(X)
        before, norms = norms, norms_of(R)
        if bool((norms <= goal).all()):
            return Solution(as_numpy(X), as_numpy(R), steps)
        if not bool((norms <= LEAST_GAIN * before).all()):
            if dtype == "float64":
                raise NumericalError(
                    f"tolerance: relative residual {float((norms / goal).max()) * tolerance:.2g} "
                    f"after {steps} steps of conjugate gradients, expected {tolerance:.2g}; raise "
                    "the tolerance, the rank of the preconditioner or the noise"
                )
            dtype = "float64"
