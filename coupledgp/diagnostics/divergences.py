"""Divergences between Gaussian laws (MATH section 7)."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular

from coupledgp.inference.evidence import cholesky
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
