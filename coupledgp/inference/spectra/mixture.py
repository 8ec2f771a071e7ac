"""Several predictive laws as one: a mixture whose weights held-out rows decide.

With densities `p_k(y | x)`, means `mu_k` and variances `v_k`, the law is `sum_k q_k p_k`. Its point
prediction is the precision-weighted mean

    c = sum_k q_k mu_k / v_k / sum_k q_k / v_k,

in which a member has little say where its own variance is large. The spread about it is
`sum_k q_k [ V_k + (mu_k - c)(mu_k - c)' ]`, the second moment of the mixture about `c`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from coupledgp.random import FloatArray

# The weights are an average over held-out rows: more digits than this mean nothing.
TOLERANCE = 1e-6
# Steps of EM after which the weights are taken as they are. Steps are cheap and never make the
# likelihood smaller.
MAX_ITERATIONS = 2000


def mixture_weights(
    log_densities: FloatArray,
    pseudo_counts: ArrayLike = 1.0,
    row_counts: FloatArray | None = None,
) -> FloatArray:
    """Weights (K,) of a mixture that maximise the likelihood of held-out rows, by EM.

    Maximises `sum_b n_b log sum_k q_k p_k(b) + sum_k c_k log q_k`: the pseudo-counts c keep each
    weight positive and, with few rows, near their shares.

    Parameters
    ----------
    log_densities
        Log density (K, b) of each row under each member.
    pseudo_counts
        Number of rows that each member is credited with beforehand, one number or (K,), above zero.
    row_counts
        How often each row counts, n (b,); None for once.
    """
    n_members, n_rows = log_densities.shape
    rows = np.ones(n_rows) if row_counts is None else row_counts
    counts = np.broadcast_to(np.asarray(pseudo_counts, dtype=np.float64), (n_members,))
    weights = counts / counts.sum()
    for _ in range(MAX_ITERATIONS):
        joint = log_densities + np.log(weights)[:, None]
        shares = (rows * np.exp(joint - logsumexp(joint, axis=0))).sum(axis=1) + counts
        updated = shares / (rows.sum() + counts.sum())
        converged = np.abs(updated - weights).max() < TOLERANCE
        weights = updated
        if converged:
            break
    return weights


def mixture_log_density(log_densities: FloatArray, weights: FloatArray) -> FloatArray:
    """`log sum_k q_k p_k`, (b,), from log densities (K, b) and weights (K,)."""
    return np.asarray(logsumexp(log_densities + np.log(weights)[:, None], axis=0))


def precision_weighted_mean(
    means: FloatArray, variances: FloatArray, weights: FloatArray
) -> FloatArray:
    """Point prediction (...) from the members' means and variances (K, ...) and weights (K,)."""
    precision = weights.reshape(-1, *[1] * (means.ndim - 1)) / variances
    return np.asarray((precision * means).sum(axis=0) / precision.sum(axis=0))
