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
from coupledgp.ground.progress import Progress, silent
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.linalg.lanczos import Product
from coupledgp.linalg.system import Solution
from coupledgp.random import FloatArray

# `V -> A V` for columns V (n, k), in the dtype of V.
Map: TypeAlias = Callable[[Tensor], Tensor]
# Inner products (k,) of the columns of two tensors (n, k).
InnerProduct: TypeAlias = Callable[[Tensor, Tensor], Tensor]
# Factor by which the steps of one precision can reduce a residual before rounding stops them.
INNER_TOLERANCE = {4: 1e-4, 8: 1e-12}  # by the bytes of a number
# Share of the wanted reduction that the steps aim at: the recurrence's residual is a little smaller
# than the true one.
MARGIN = 0.7
# Largest number of steps between two true residuals; the iteration starts afresh from the second.
REFINED_ITERATIONS = 1000
# Steps without a smaller residual after which rounding has won.
PATIENCE = 20
# A refinement that leaves more than this share of a residual is bound by rounding.
LEAST_GAIN = 0.3


def fast_inner(A: Tensor, B: Tensor) -> Tensor:
    """`sum_i A_ij B_ij`, (k,), on any device; its rounding depends on the number of threads."""
    return (A * B).sum(0)


def ordered_inner(A: Tensor, B: Tensor) -> Tensor:
    """`sum_i A_ij B_ij`, (k,), on the CPU: the same bits for any number of threads."""
    return torch.as_tensor(np.einsum("ij,ij->j", A.numpy(), B.numpy()))


class Iterated(NamedTuple):
    """Approximate solutions X (n, k), their residuals' squares over the goals' (k,), and steps."""

    values: Tensor
    excess: Tensor
    n_iterations: int


def conjugate_gradients(
    product: Map,
    precondition: Map,
    B: Tensor,
    tolerance: float | Tensor,
    max_iterations: int,
    *,
    in_norm_of_preconditioner: bool,
    inner: InnerProduct = fast_inner,
    patience: int | None = None,
    report: Progress = silent,
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
    report
        Called with a line of progress after each step.
    """
    X, Z = torch.zeros_like(B), precondition(B)
    wanted = torch.as_tensor(tolerance, dtype=B.dtype, device=B.device).expand(B.shape[1])
    rho = inner(B, Z)
    size = rho if in_norm_of_preconditioner else inner(B, B)
    goal = wanted**2 * size
    # Written so that a size that is not a number is not taken for a small one.
    active = (~(size <= goal)).nonzero()[:, 0]
    excess = torch.zeros_like(goal)
    excess[active] = size[active] / goal[active]
    R, P, rho, goal = _some(B, active), _some(Z, active), rho[active], goal[active]
    best, since, step = torch.inf, 0, 0
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
        residual = float((wanted[active] * left.sqrt()).max())
        report(f"conjugate gradients, step {step}, residual {residual:.1e}")
        if not math.isfinite(worst):
            break
        going = (left > 1).nonzero()[:, 0]
        P = _some(Z, going) + following[going] / rho[going] * _some(P, going)
        R, rho, goal, active = _some(R, going), following[going], goal[going], active[going]
    return Iterated(X, excess, step)


def _some(A: Tensor, columns: Tensor) -> Tensor:
    """Columns of A (n, k), each in one piece of memory."""
    return A.T[columns].T


class DiagonalPreconditioner:
    """Division by an estimate of the diagonal (n,)."""

    def __init__(self, diagonal: FloatArray) -> None:
        self._diagonal = diagonal

    def __call__(self, R: FloatArray) -> FloatArray:
        return R / self._diagonal[:, None]


def solve_columns(
    product: Product,
    precondition: Product,
    B: FloatArray,
    tolerance: float | FloatArray = 1e-6,
    max_iterations: int = 5000,
    report: Progress = silent,
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
    report
        Called with a line of progress after each step.

    Raises
    ------
    NumericalError
        A column has not converged after `max_iterations`; the message gives the residual.
    """
    tolerances = np.broadcast_to(np.asarray(tolerance, dtype=np.float64), B.shape[1])
    # Powers of two change no digit, and the squares of tiny columns do not vanish.
    scale = np.exp2(np.frexp(np.abs(B).max(axis=0, initial=0.0))[1].astype(np.float64))
    found = conjugate_gradients(
        lambda V: torch.as_tensor(product(V.numpy())),
        lambda R: torch.as_tensor(precondition(R.numpy())),
        torch.as_tensor(np.ascontiguousarray(B / scale)),
        torch.tensor(tolerances),
        max_iterations,
        in_norm_of_preconditioner=in_norm_of_preconditioner,
        inner=ordered_inner,
        report=report,
    )
    excess = found.excess.sqrt().numpy()
    failed = ~(excess <= 1)
    if failed.any():
        raise NumericalError(
            f"conjugate gradients: relative residual {(excess * tolerances)[failed].max():.2g} "
            f"after {found.n_iterations} steps, expected {tolerances.min():.2g}; raise the noise, "
            "the tolerance or max_iterations, or use solver='dense'"
        )
    return found.values.numpy() * scale


def solve_refined(
    product: Map,
    precondition: Map,
    B: Tensor,
    tolerance: float,
    dtype: torch.dtype,
    report: Progress,
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
        `torch.float32` or `torch.float64`.
    report
        Called with a line of progress after each step.

    Raises
    ------
    NumericalError
        The tolerance is out of reach.
    """

    def norms_of(R: Tensor) -> Tensor:
        return fast_inner(R, precondition(R)).clamp_min(0.0).sqrt()

    goal = tolerance * norms_of(B)
    X, R = torch.zeros_like(B), B.clone()
    norms, steps = norms_of(B), 0
    while True:
        gain = max(float((goal / norms.clamp_min(1e-300)).min()), INNER_TOLERANCE[dtype.itemsize])
        change = conjugate_gradients(
            product, precondition, R.to(dtype), MARGIN * gain,
            REFINED_ITERATIONS, in_norm_of_preconditioner=True, patience=PATIENCE, report=report,
        )  # fmt: skip
        steps += change.n_iterations
        if bool(torch.isfinite(change.values).all()):
            X += change.values.double()
            torch.sub(B, product(X), out=R)
        before, norms = norms, norms_of(R)
        if bool((norms <= goal).all()):
            return Solution(X.numpy(), R.numpy(), steps)
        if not bool((norms <= LEAST_GAIN * before).all()):
            if dtype == torch.float64:
                raise NumericalError(
                    f"tolerance: relative residual {float((norms / goal).max()) * tolerance:.2g} "
                    f"after {steps} steps of conjugate gradients, expected {tolerance:.2g}; raise "
                    "the tolerance, the rank of the preconditioner or the noise"
                )
            dtype = torch.float64
