"""Sizes of rounding errors of equations in a positive definite matrix, and their warning."""

from __future__ import annotations

import math

import numpy as np

from coupledgp.errors import PrecisionWarning
from coupledgp.ground.warned import warn
from coupledgp.linalg.matrices import Matrix, beside, precision_of, rounding_unit, solve_lower

# Rounding may move a predictive mean by this many predictive standard deviations, or change the
# standard deviation by this share, before there is a warning.
LIMIT = 0.01
# Largest estimate that is reported: beyond it no digit is right.
MOST = 1e6
# Errors of a sum of products and its Cholesky factor, as multiples of the rounding of one operation
# on the norm of the matrix.
GRAM_ROUNDINGS = 2.0
# Rounding of an entry of a kernel matrix, as a multiple of that of one operation.
ENTRY_ROUNDINGS = 2.0
# Coordinates, in lengthscales, whose rounding is that of an entry.
FAR_EXTENT = 8.0
# Columns and steps of the iteration that estimates the size of an inverse.
PROBES, STEPS = 4, 3
# Rows of a matrix whose entries are squared at once.
ROWS_AT_ONCE = 256


def column_norms(matrix: Matrix) -> Matrix:
    """Euclidean norms (k,) of the columns of a matrix (n, k)."""
    return (matrix * matrix).sum(0) ** 0.5


def inverse_sizes(factor: Matrix) -> tuple[float, float]:
    """Estimates of the trace and of the spectral norm of `(L L')^-1`, in O(n^2).

    The trace is the mean of `z' (L L')^-1 z` over random signs z, which are the same in each call
    (Hutchinson, 1990); the norm comes from three steps of the power iteration that starts there.

    Parameters
    ----------
    factor
        Lower Cholesky factor L (n, n).
    """
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (len(factor), PROBES))
    columns = beside(signs.astype(precision_of(factor)), factor)
    half = solve_lower(factor, columns)
    trace = float((half * half).sum()) / PROBES
    norm = 0.0
    for _ in range(STEPS):
        columns = columns / column_norms(columns)
        columns = solve_lower(factor, solve_lower(factor, columns), transposed=True)
        norm = float(column_norms(columns).max())
    return trace, norm


def dense_error(
    covariance: Matrix, solved: Matrix, targets: Matrix, noise: float, extent: float = 0.0
) -> float:
    """Estimated error of a posterior by rounding of its covariance, in standard deviations.

    The mean at any input is `a' y`, and its variance at least `s |a|^2` (MATH section 6): errors
    `e` of the equations `C x = y` move it by at most `|e| / sqrt(s)` standard deviations. `e` is
    the residual, and what rounding of each entry of `C` leaves; deviations change by a share of at
    most `|dC| / 2 s`.

    Parameters
    ----------
    covariance
        C (n, n), noise included.
    solved
        x (n, k).
    targets
        y (n, k).
    noise
        Least noise variance s of a row.
    extent
        Largest coordinate of a row, in lengthscales: distances are rounded relative to it.
    """
    roundings = coordinate_roundings(extent)
    eps = roundings * ENTRY_ROUNDINGS * rounding_unit(covariance)
    residual = targets - covariance @ solved
    squares = solved * solved
    parts = (covariance[k : k + ROWS_AT_ONCE] for k in range(0, len(covariance), ROWS_AT_ONCE))
    entries = eps * sum(((part * part) @ squares).sum(0) for part in parts) ** 0.5
    largest = float(covariance.diagonal().max())
    return error_of_residual(residual, entries, roundings * largest, noise)


def coordinate_roundings(extent: float) -> float:
    """Rounding error of a kernel of coordinates, in units of that with exact distances.

    A coordinate u, in lengthscales, is off by `eps |u| / 2`, and a kernel falls by at most its own
    size over a lengthscale.
    """
    return math.hypot(1.0, extent / FAR_EXTENT)


def error_of_residual(residual: Matrix, entries: Matrix, largest: float, noise: float) -> float:
    """The estimate of `dense_error` from residuals (n, k) and the norms (k,) that rounding leaves.

    Parameters
    ----------
    residual
        `y - C x` (n, k).
    entries
        Norms (k,) of `dC x` for the rounding `dC` of the entries of C.
    largest
        Largest variance of C.
    noise
        Least noise variance s of a row.
    """
    moved = float(((residual * residual).sum(0) + entries * entries).max()) / noise
    eps = ENTRY_ROUNDINGS * rounding_unit(residual)
    return bounded(max(math.sqrt(moved), eps * largest * math.sqrt(len(residual)) / noise))


def bounded(error: float) -> float:
    """The estimate as a number of a model file: at most `MOST`, which stands for no number too."""
    return min(error, MOST) if math.isfinite(error) else MOST


def warn_if_imprecise(error: float, subject: str, advice: str) -> None:
    """Warn of an estimated error, in predictive standard deviations, above `LIMIT`.

    Parameters
    ----------
    error
        The estimate.
    subject
        The result that is affected and the argument to blame, in front of the text.
    advice
        The remedy that makes the error smaller.
    """
    if error <= LIMIT:
        return
    size = f"about {error:.1g}" if error < MOST else "any number of"
    warn(
        f"{subject}: rounding may move the predictive mean by {size} predictive standard "
        f"deviations, or change these as much; {advice}",
        PrecisionWarning,
    )


def warn_of_evidence(error: float, n_targets: float) -> None:
    """Warn of a search that ended where rounding moves its end.

    The log evidence of n targets has the curvature n / 2 in the log of the noise: an error of
    `sqrt(n / 2)` nats moves that by as much as it is uncertain anyway.

    Parameters
    ----------
    error
        Estimated error of the log evidence, nats.
    n_targets
        Number of targets.
    """
    limit = math.sqrt(0.5 * n_targets)
    if error > limit:
        warn(
            "hyperparameters: the search ended where rounding may change the log evidence by "
            f"about {error:.1g} nats, and the noise by more than it is uncertain; give a noise",
            PrecisionWarning,
        )
