"""Divergences between Gaussian laws (MATH section 7).

Errors of an approximate kernel between pairs of test points, for a map.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_solve, solve_triangular

from coupledgp.ground.validation import check_gaussian
from coupledgp.linalg.matrices import cholesky
from coupledgp.random import FloatArray


def gaussian_kl(mean_p: ArrayLike, cov_p: ArrayLike, mean_q: ArrayLike, cov_q: ArrayLike) -> float:
    """Kullback-Leibler divergence `KL(p || q)` of two multivariate normal laws, in nats.

    `1/2 sum_i (l_i - 1 - log l_i) + 1/2 |L^-1 (mean_p - mean_q)|^2`, with `cov_q = L L'` and `l_i`
    the eigenvalues of `L^-1 cov_p L^-T`: a sum of terms that are not negative, accurate also where
    the two laws nearly agree.

    Parameters
    ----------
    mean_p, mean_q
        Means (n,).
    cov_p, cov_q
        Covariances (n, n), positive definite.

    Raises
    ------
    InvalidInputError
        Shapes differ, entries are not finite, or a covariance is not symmetric.
    NumericalError
        A covariance is not positive definite; latent covariances of near points often are not,
        those of observations (noise included) are.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import gaussian_kl
    >>> zero, one = np.zeros(2), np.eye(2)
    >>> round(gaussian_kl(np.ones(2), one, zero, one), 9)  # half the squared distance of the means
    1.0
    """
    mu_p, sigma_p = check_gaussian(mean_p, cov_p, "mean_p", "cov_p")
    mu_q, sigma_q = check_gaussian(mean_q, cov_q, "mean_q", "cov_q")
    if mu_p.size != mu_q.size:
        # Both laws must be laws at the same points.
        check_gaussian(mu_p, sigma_q, "mean_p", "cov_q")
    root_q = covariance_root(sigma_q, "cov_q")
    ratio = solve_triangular(root_q, covariance_root(sigma_p, "cov_p"), lower=True)
    excess = np.square(np.linalg.svd(ratio, compute_uv=False)) - 1
    shift = solve_triangular(root_q, mu_p - mu_q, lower=True)
    return 0.5 * float((excess - np.log1p(excess)).sum() + shift @ shift)


def covariance_root(cov: FloatArray, name: str) -> FloatArray:
    """Lower Cholesky factor of a covariance (n, n), or a `NumericalError` that names it."""
    return np.asarray(cholesky(cov, name))


def kl_bounds(
    p: tuple[FloatArray, FloatArray, FloatArray, float],
    q: tuple[FloatArray, FloatArray, FloatArray, float],
) -> tuple[float, float]:
    """Bounds (below, above) of the error of `gaussian_kl` for two laws that are known up to bounds.

    The true covariances lie between `floor` and `cov`, and the error e of a mean satisfies
    `e e' <= r^2 (cov - floor)`. With the covariances `S`, the floors `B`, the difference `d` of the
    means and `|d|_A^2 = d' A^-1 d`, each term at its worst gives

        above: 1/2 [ tr((B_q^-1 - S_q^-1) S_p) + logdet S_p - logdet B_p
                     + (|d|_Bq + h)^2 - |d|_Sq^2 ],
        below: 1/2 [ tr(S_q^-1 (S_p - B_p)) + logdet S_q - logdet B_q
                     + |d|_Sq^2 - (|d|_Sq - h)_+^2 ],

    `h = sum over both laws of r tr(B_q^-1 (S - B))^1/2`.

    Parameters
    ----------
    p, q
        Mean (n,), covariance (n, n), floor (n, n) and r of each law.

    Raises
    ------
    NumericalError
        A floor is not positive definite, so that there is no bound: the solver needs a smaller
        tolerance.
    """
    roots = [
        (covariance_root(cov, f"cov_{name}"), covariance_root(floor, f"lower bound of cov_{name}"))
        for name, (_, cov, floor, _) in (("p", p), ("q", q))
    ]
    (root_p, low_p), (root_q, low_q) = roots
    d = p[0] - q[0]
    gaps = [(cov - floor, r) for _, cov, floor, r in (p, q)]
    h = sum(r * np.sqrt(max(_trace(low_q, gap), 0.0)) for gap, r in gaps)
    far, near = _square(low_q, d), _square(root_q, d)
    above = _square(low_q, root_p) - _square(root_q, root_p) + _logdet_gap(root_p, low_p)
    below = _trace(root_q, gaps[0][0]) + _logdet_gap(root_q, low_q)
    above += (np.sqrt(far) + h) ** 2 - near
    below += near - max(np.sqrt(near) - h, 0.0) ** 2
    return 0.5 * max(below, 0.0), 0.5 * max(float(above), 0.0)


def _square(root: FloatArray, right: FloatArray) -> float:
    """Squared Frobenius norm of `root^-1 right`, lower root (n, n), right (n,) or (n, k)."""
    return float(np.square(solve_triangular(root, right, lower=True)).sum())


def _trace(root: FloatArray, matrix: FloatArray) -> float:
    """Trace of `(root root')^-1 matrix`, both (n, n), root lower."""
    return float(np.trace(cho_solve((root, True), matrix)))


def _logdet_gap(high: FloatArray, low: FloatArray) -> float:
    """Difference of the logarithms of two determinants, given lower Cholesky factors (n, n)."""
    return 2 * float((np.log(np.diagonal(high)) - np.log(np.diagonal(low))).sum())


# Largest number of points in the map: a picture of a few hundred pixels shows no more of them.
MAX_POINTS = 150


@dataclass(frozen=True)
class KernelErrors:
    """Kernel of the reference and error of the model's, in units of the reference's mean variance.

    Points are sorted by the leading eigenvector of the reference's kernel, so that similar ones lie
    side by side.

    Attributes
    ----------
    exact, error : FloatArray (p, p)
    """

    exact: FloatArray
    error: FloatArray

    @classmethod
    def of(cls, approximate: FloatArray, exact: FloatArray) -> KernelErrors:
        """Errors between two prior covariances (n, n), at 150 evenly spaced points at most."""
        kept = np.linspace(0, len(exact) - 1, min(len(exact), MAX_POINTS)).astype(int)
        small, own = exact[np.ix_(kept, kept)], approximate[np.ix_(kept, kept)]
        scale = float(np.diagonal(small).mean())
        order = np.argsort(np.linalg.eigh(small)[1][:, -1], kind="stable")
        places = np.ix_(order, order)
        return cls(small[places] / scale, (own - small)[places] / scale)
