"""A low-rank part plus noise: preconditioner and lower bound of systems of a kernel.

`L = F F' + s I` with `F F' <= K`, hence `L <= K + s I` and `R' (K + s I)^-1 R <= R' L^-1 R`.

Sizes of rounding errors of equations in a positive definite matrix, and their warning.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from coupledgp.errors import PrecisionWarning
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.ground.visible import warn
from coupledgp.linalg.matrices import Matrix, beside, precision_of, rounding_unit, solve_lower
from coupledgp.random import FloatArray

Columns = Callable[[NDArray[np.int64]], Tensor]
# Pivots drawn at once: enough for matrix products at full speed, few enough to be good ones.
BLOCK = 128
# Eigenvalues of the pivots' block below this share of the largest are rounding: such pivots are
# explained by the others of their block.
LEAST_EIGENVALUE = 1e-10
# Eigenvalues of `F F'` below this share of the largest are rounding, and beside the noise s those
# below `LEAST_SHARE` of it change next to nothing.
ROUNDING = 1e-12
LEAST_SHARE = 1e-3


def partial_cholesky(
    diagonal: FloatArray, columns: Columns, rank: int, rng: np.random.Generator, floor: float
) -> Tensor:
    """Factor F (n, r) of a Nystrom approximation, by randomly pivoted Cholesky in blocks.

    Pivots are drawn with probabilities in proportion to the diagonal of the residual `K - F F'`
    (Chen, Epperly, Tropp and Webber, 2023), up to `BLOCK` at a time: O(n rank^2).

    Parameters
    ----------
    diagonal
        Diagonal of K (n,).
    columns
        Function `indices -> K[:, indices]`, (b,) -> (n, b).
    rank
        Largest number of columns of F.
    rng
        Source of the pivots.
    floor
        Mean diagonal of the residual at which F is good enough.
    """
    left = torch.tensor(diagonal)
    n, size = len(left), 0
    factor = left.new_empty(n, min(rank, n))
    while size < factor.shape[1] and float(left.mean()) > floor:
        weights = (left / left.sum()).numpy()
        wanted = min(BLOCK, factor.shape[1] - size, int(np.count_nonzero(weights)))
        pivots = np.sort(rng.choice(n, wanted, replace=False, p=weights))
        done = factor[:, :size]
        gap = columns(pivots).double().addmm_(done, done[pivots].T, alpha=-1)
        values, vectors = torch.linalg.eigh(gap[pivots])
        kept = values > LEAST_EIGENVALUE * values[-1]
        root = vectors[:, kept] / values[kept].sqrt()
        new = gap @ root
        factor[:, size : size + new.shape[1]] = new
        size += new.shape[1]
        left = (left - new.square().sum(1)).clamp_min_(0.0)
        left[pivots] = 0.0
    return factor[:, :size]


class LowRankPlusNoise:
    """`L = U diag(l) U' + s I` with orthonormal U (n, r), and solves with it in O(n r).

    Parameters
    ----------
    factor
        F (n, r') with `F F' = U diag(l) U'`, apart from eigenvalues that do not matter beside s.
    noise
        Noise variance s.
    """

    def __init__(self, factor: Tensor, noise: float) -> None:
        values, vectors = torch.linalg.eigh(factor.T @ factor)
        largest = float(values.max()) if len(values) else 0.0
        kept = values > max(ROUNDING * largest, LEAST_SHARE * noise)
        self.values = values[kept]
        self.basis = factor @ (vectors[:, kept] / self.values.sqrt())
        self.noise = noise
        self._copies = {self.basis.dtype: self.basis}

    @property
    def rank(self) -> int:
        """Number r of columns of U."""
        return self.basis.shape[1]

    def solve(self, B: Tensor) -> Tensor:
        """`L^-1 B` for B (n, k), in the dtype of B."""
        if B.dtype not in self._copies:
            self._copies[B.dtype] = self.basis.to(B.dtype)
        basis = self._copies[B.dtype]
        shrink = (1 / (self.values + self.noise) - 1 / self.noise).to(B.dtype)
        return torch.addmm(B / self.noise, basis, shrink[:, None] * (basis.T @ B))

    def inverse_root(self, B: Tensor) -> Tensor:
        """`L^-1/2 B` for B (n, k), in float64."""
        least = self.noise**-0.5
        shrink = (self.values + self.noise).rsqrt() - least
        return torch.addmm(B * least, self.basis, shrink[:, None] * (self.basis.T @ B))

    def log_determinant(self, n_rows: int) -> float:
        """`log det L` for L (n, n)."""
        shared = (n_rows - self.rank) * np.log(self.noise)
        return float((self.values + self.noise).log().sum() + shared)


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
