"""Kullback-Leibler divergences of Gaussian distributions: dense, of single points, and bounds.

Errors of an approximate kernel (MATH section 7).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_solve, solve_triangular
from scipy.special import psi

from coupledgp.diagnostics.laws.normal import Normal
from coupledgp.diagnostics.predictions import Law
from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import LARGEST_PRODUCT, check_gaussian, check_magnitude
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
    root_q = root_of(sigma_q, "cov_q")
    ratio = solve_triangular(root_q, root_of(sigma_p, "cov_p"), lower=True)
    excess = np.square(np.linalg.svd(ratio, compute_uv=False)) - 1
    shift = solve_triangular(root_q, mu_p - mu_q, lower=True)
    return 0.5 * float((excess - np.log1p(excess)).sum() + shift @ shift)


def root_of(cov: FloatArray, name: str) -> FloatArray:
    """Lower Cholesky factor of a covariance (n, n), or a `NumericalError` that names it."""
    return np.asarray(cholesky(cov, name))


def joint_of(law: Law) -> Normal:
    """The normal distribution of the same moments, joint where these are known."""
    if isinstance(law, Normal):
        return law
    joint = getattr(law, "joint", None)
    return joint if isinstance(joint, Normal) else Normal(law.mean, law.std)


def kl_per_point(p: Normal, q: Normal) -> float:
    """`KL(p || q)`, nats per point and output; the mean of single points if one is not joint."""
    if p.cov is None or q.cov is None:
        excess = np.square(p.std / q.std) - 1
        shift = np.square((p.mean - q.mean) / q.std)
        return 0.5 * float((excess - np.log1p(excess) + shift).mean())
    total = sum(
        gaussian_kl(p.mean[:, k], p.cov[..., k], q.mean[:, k], q.cov[..., k])
        for k in range(p.mean.shape[1])
    )
    return total / p.mean.size


def kl_bounds_per_point(p: Normal, q: Normal) -> tuple[float, float]:
    """Bounds (below, above) of the error of `kl_per_point`, of distributions within bounds."""
    if p.slack is None and q.slack is None:
        return 0.0, 0.0
    if p.cov is None or q.cov is None:
        return _bounds_of_points(p, q)
    total = np.zeros(2)
    for k in range(p.mean.shape[1]):
        total += kl_bounds(*((one.mean[:, k], one.cov[..., k], one.floor(k), one.reach(k))
                             for one in (p, q) if one.cov is not None))  # fmt: skip
    below, above = total / p.mean.size
    return float(below), float(above)


def _bounds_of_points(p: Normal, q: Normal) -> tuple[float, float]:
    """`kl_bounds` of each point alone, the mean."""
    (c_p, b_p, r_p), (c_q, b_q, r_q) = (_of_points(one) for one in (p, q))
    gap = np.abs(p.mean - q.mean)
    h = (r_p * np.sqrt(c_p - b_p) + r_q * np.sqrt(c_q - b_q)) / np.sqrt(b_q)
    far, near = gap / np.sqrt(b_q), gap / np.sqrt(c_q)
    above = (1 / b_q - 1 / c_q) * c_p + np.log(c_p / b_p) + np.square(far + h) - np.square(near)
    below = (c_p - b_p) / c_q + np.log(c_q / b_q)
    below = below + np.square(near) - np.square(np.maximum(near - h, 0.0))
    return 0.5 * float(below.mean()), 0.5 * float(above.mean())


def _of_points(law: Normal) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Variances (p, k), their lower bounds, and the factors (k,) of errors of means."""
    variance = np.square(law.std)
    slack = 0.0 if law.slack is None else np.einsum("iik->ik", law.slack)
    radius = np.zeros(law.mean.shape[1]) if law.radius is None else law.radius
    return variance, variance - slack, radius


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
    (root_p, low_p), (root_q, low_q) = (
        (root_of(cov, f"cov_{name}"), root_of(floor, f"lower bound of cov_{name}"))
        for name, (_, cov, floor, _) in (("p", p), ("q", q))
    )
    d = p[0] - q[0]
    gaps = [(cov - floor, r) for _, cov, floor, r in (p, q)]
    h = sum(r * np.sqrt(max(_trace(low_q, gap), 0.0)) for gap, r in gaps)
    far, near = _square(low_q, d), _square(root_q, d)
    above = _square(low_q, root_p) - _square(root_q, root_p) + _logdet_gap(root_p, low_p)
    below = _trace(root_q, gaps[0][0]) + _logdet_gap(root_q, low_q)
    above += (np.sqrt(far) + h) ** 2 - near
    below += near - max(np.sqrt(near) - h, 0.0) ** 2
    return 0.5 * max(below, 0.0), 0.5 * max(float(above), 0.0)


def prior_figures(law: Normal, exact: Normal) -> dict[str, float]:
    """KL of the priors of observations, and errors of the Gram matrix of f; empty if unknown."""
    if law.prior is None or exact.prior is None or law.noise is None or exact.noise is None:
        return {}
    eye = np.eye(len(law.prior))[:, :, None]
    zero = np.zeros(law.prior.shape[1:])
    own, other = (
        Normal.joint(zero, prior + eye * noise)
        for prior, noise in ((law.prior, law.noise), (exact.prior, exact.noise))
    )
    errors = [kernel_error(a, b) for a, b in zip(law.prior.T, exact.prior.T, strict=True)]
    return {
        "prior_kl": kl_per_point(other, own),
        "kernel_rmse": float(np.mean([error[0] for error in errors])),
        "kernel_relative_error": float(np.mean([error[1] for error in errors])),
    }


def kernel_error(approximate: FloatArray, exact: FloatArray) -> tuple[float, float]:
    """Errors of a Gram matrix (p, p) beside the exact one (p, p).

    Returns
    -------
    tuple of float
        Root mean squared error over entries, and Frobenius norm of the error relative to that of
        the exact matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import kernel_error
    >>> exact = np.eye(2)
    >>> rmse, relative = kernel_error(1.1 * exact, exact)
    >>> round(rmse, 4), round(relative, 4)
    (0.0707, 0.1)
    """
    check_magnitude(np.asarray(approximate), "approximate", LARGEST_PRODUCT)
    check_magnitude(np.asarray(exact), "exact", LARGEST_PRODUCT)
    scale = float(np.abs(exact).max())
    if not scale > 0:
        raise InvalidInputError("exact: expected a matrix that is not zero")
    # Variances are squares already: their own squares might leave the range of numbers.
    exact, difference = exact / scale, (approximate - exact) / scale
    return (
        scale * float(np.sqrt(np.mean(np.square(difference)))),
        float(np.linalg.norm(difference) / np.linalg.norm(exact)),
    )


def kl_of_draws(n_draws: int, correlation: FloatArray) -> tuple[float, float]:
    """KL per point of a Gaussian law from the moments of m draws of it, and its standard error.

    The mean is exact, `(psi(v / 2) + log(2 / v) + (1 + 1 / m) v / (v - 2) - 1) / 2` with
    `v = m - 1` degrees of freedom. The variance is that of large m,
    `sum_ij (r_ij^2 + r_ij^4) / (2 m^2 p^2)` of correlations r (p, p, 1).
    """
    v, m = n_draws - 1, n_draws
    mean = 0.5 * (float(psi(v / 2)) + np.log(2 / v) + (1 + 1 / m) * v / (v - 2) - 1)
    squares = np.square(correlation[..., 0])
    total = float((squares + np.square(squares)).sum())
    return float(mean), float(np.sqrt(0.5 * total) / (m * len(squares)) * mean * m)


def correlations(cov: FloatArray) -> FloatArray:
    """Correlations (p, p, k) of covariances (p, p, k)."""
    std = np.sqrt(np.einsum("iik->ik", cov))
    return np.asarray(cov / (std[:, None] * std[None]))


def _square(root: FloatArray, right: FloatArray) -> float:
    """Squared Frobenius norm of `root^-1 right`, lower root (n, n), right (n,) or (n, k)."""
    return float(np.square(solve_triangular(root, right, lower=True)).sum())


def _trace(root: FloatArray, matrix: FloatArray) -> float:
    """Trace of `(root root')^-1 matrix`, both (n, n), root lower."""
    return float(np.trace(cho_solve((root, True), matrix)))


def _logdet_gap(high: FloatArray, low: FloatArray) -> float:
    """Difference of the logarithms of two determinants, given lower Cholesky factors (n, n)."""
    return 2 * float((np.log(np.diagonal(high)) - np.log(np.diagonal(low))).sum())
