"""Conjugate gradients for many columns, in either precision, with any preconditioner."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from coupledgp.errors import NumericalError
from coupledgp.inference.linalg.system import Solved
from coupledgp.progress import Progress

Map = Callable[[Tensor], Tensor]
# What the steps of one precision can gain between two residuals in double precision.
INNER_TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-12}
# The recurrence's residual is a little better than the true one.
MARGIN = 0.7
MAX_ITERATIONS = 1000
# Steps without a smaller residual after which rounding has won.
PATIENCE = 20


def solve_refined(
    product: Map,
    precondition: Map,
    B: Tensor,
    tolerance: float,
    dtype: torch.dtype,
    report: Progress,
) -> Solved:
    """Solve `A X = B`, (n, k) in float64, to residuals that are true ones.

    Conjugate gradients make their steps in `dtype`; residuals are computed in double precision and
    solved for again until they are small enough. Where single precision does not help, double has
    to. Residuals are measured in the norm of the preconditioner's inverse.

    Parameters
    ----------
    product, precondition
        `V -> A V` and `V -> L^-1 V`, in the dtype of V.
    B
        Right-hand sides.
    tolerance
        Of each column, relative to its right-hand side.
    dtype
        `torch.float32` or `torch.float64`.
    report
        Told of each step.

    Raises
    ------
    NumericalError
        The tolerance is out of reach.
    """

    def norms_of(R: Tensor) -> Tensor:
        return (R * precondition(R)).sum(0).clamp_min(0.0).sqrt()

    goal = tolerance * norms_of(B)
    X, R = torch.zeros_like(B), B.clone()
    norms, steps = norms_of(B), 0
    while True:
        gain = max(float((goal / norms.clamp_min(1e-300)).min()), INNER_TOLERANCE[dtype])
        change, count = conjugate_gradients(
            product, precondition, R.to(dtype), MARGIN * gain, report
        )
        steps += count
        X += change.double()
        torch.sub(B, product(X), out=R)
        before, norms = norms, norms_of(R)
        if bool((norms <= goal).all()):
            return Solved(X.numpy(), R.numpy(), steps)
        if bool((norms > 0.3 * before).any()):
            if dtype == torch.float64:
                raise NumericalError(
                    f"tolerance: relative residual {float((norms / goal).max()) * tolerance:.2g} "
                    f"after {steps} steps of conjugate gradients, expected {tolerance:.2g}; raise "
                    "the tolerance, the rank of the preconditioner or the noise"
                )
            dtype = torch.float64


def conjugate_gradients(
    product: Map, precondition: Map, B: Tensor, tolerance: float, report: Progress
) -> tuple[Tensor, int]:
    """Solve `A X = B`, columns (n, k) side by side, in the dtype of B; return X and the steps.

    Ends when every column's residual, in the norm of the preconditioner's inverse, is `tolerance`
    times what it was, when it has not fallen for `PATIENCE` steps, or after `MAX_ITERATIONS`.
    Columns that have converged are left out of the products.
    """
    X = torch.zeros_like(B)
    active = B.any(0).nonzero()[:, 0]
    R = B[:, active]
    Z = precondition(R)
    P, rho = Z, (R * Z).sum(0)
    goal = tolerance**2 * rho
    best, since, step = torch.inf, 0, 0
    while len(active) and step < MAX_ITERATIONS and since < PATIENCE:
        AP = product(P)
        alpha = rho / (P * AP).sum(0)
        X[:, active] += alpha * P
        R -= alpha * AP
        Z = precondition(R)
        following = (R * Z).sum(0)
        worst = float((following / goal).max())
        best, since = (worst, 0) if worst < best else (best, since + 1)
        step += 1
        report(f"conjugate gradients, step {step}, residual {tolerance * worst**0.5:.1e}")
        going = (following > goal).nonzero()[:, 0]
        beta = following[going] / rho[going]
        P = Z[:, going] + beta * P[:, going]
        R, rho, goal, active = R[:, going], following[going], goal[going], active[going]
    return X, step
