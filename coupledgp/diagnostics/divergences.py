"""Divergences between Gaussian laws (MATH section 7)."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.linalg import cho_solve, solve_triangular

from coupledgp.inference.linalg.cholesky import cholesky
from coupledgp.random import FloatArray
from coupledgp.validation import check_gaussian


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
    """
    mu_p, sigma_p = check_gaussian(mean_p, cov_p, "mean_p", "cov_p")
    mu_q, sigma_q = check_gaussian(mean_q, cov_q, "mean_q", "cov_q")
    if mu_p.size != mu_q.size:
        # The two laws must speak of the same points.
        check_gaussian(mu_p, sigma_q, "mean_p", "cov_q")
    root_q = covariance_root(sigma_q, "cov_q")
    ratio = solve_triangular(root_q, covariance_root(sigma_p, "cov_p"), lower=True)
    excess = np.square(np.linalg.svd(ratio, compute_uv=False)) - 1
    shift = solve_triangular(root_q, mu_p - mu_q, lower=True)
    return 0.5 * float((excess - np.log1p(excess)).sum() + shift @ shift)


def covariance_root(cov: FloatArray, name: str) -> FloatArray:
    """Lower Cholesky factor of a covariance (n, n), or a `NumericalError` that names it."""
    return cholesky(torch.as_tensor(cov), name).numpy()


def kl_bounds(
    p: tuple[FloatArray, FloatArray, FloatArray, float],
    q: tuple[FloatArray, FloatArray, FloatArray, float],
) -> tuple[float, float]:
    """How far below and above `gaussian_kl` of two laws the divergence of the true ones may be.

    The true covariances lie between `floor` and `cov`, the errors of the means within
    `e e' <= r^2 (cov - floor)`. With `S` the covariances, `B` the floors, `d` the difference of
    the means and `|d|_A^2 = d' A^-1 d`, each term at its worst:

        above: 1/2 [ tr((B_q^-1 - S_q^-1) S_p) + logdet S_p - logdet B_p
                     + (|d|_Bq + h)^2 - |d|_Sq^2 ],
        below: 1/2 [ tr(S_q^-1 (S_p - B_p)) + logdet S_q - logdet B_q
                     + |d|_Sq^2 - (|d|_Sq - h)_+^2 ],

    `h = sum over both laws of r tr(B_q^-1 (S - B))^1/2`.

    Parameters
    ----------
    p, q
        (mean (n,), cov (n, n), floor (n, n), r) of each law.

    Raises
    ------
    NumericalError
        A floor is not positive definite: the bounds say nothing, the solver has to do more.
    """
    roots = [
        (covariance_root(cov, f"cov_{name}"), covariance_root(floor, f"lower bound of cov_{name}"))
        for name, (_, cov, floor, _) in (("p", p), ("q", q))
    ]
    (root_p, low_p), (root_q, low_q) = roots

    def square(root: FloatArray, right: FloatArray) -> float:
        return float(np.square(solve_triangular(root, right, lower=True)).sum())

    def trace(root: FloatArray, matrix: FloatArray) -> float:
        return float(np.trace(cho_solve((root, True), matrix)))

    def logdet_gap(high: FloatArray, low: FloatArray) -> float:
        return 2 * float((np.log(np.diagonal(high)) - np.log(np.diagonal(low))).sum())

    d = p[0] - q[0]
    gaps = [(law[1] - law[2], law[3]) for law in (p, q)]
    h = sum(r * np.sqrt(max(trace(low_q, gap), 0.0)) for gap, r in gaps)
    far, near = square(low_q, d), square(root_q, d)
    above = square(low_q, root_p) - square(root_q, root_p) + logdet_gap(root_p, low_p)
    below = trace(root_q, gaps[0][0]) + logdet_gap(root_q, low_q)
    above += (np.sqrt(far) + h) ** 2 - near
    below += near - max(np.sqrt(near) - h, 0.0) ** 2
    return 0.5 * max(below, 0.0), 0.5 * max(float(above), 0.0)
