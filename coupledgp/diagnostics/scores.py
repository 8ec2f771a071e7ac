"""Scores of Gaussian predictive laws against observed targets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import ndtri

from coupledgp.diagnostics.divergences import covariance_root
from coupledgp.errors import InvalidInputError
from coupledgp.random import FloatArray

LEVELS = (0.5, 0.8, 0.95)


def rmse(y: FloatArray, mean: FloatArray) -> float:
    """Root mean squared error, in units of y."""
    return float(np.sqrt(np.mean(np.square(y - mean))))


def nlpd(y: FloatArray, mean: FloatArray, std: FloatArray) -> float:
    """Mean negative log predictive density of each point alone (marginal), nats per point."""
    return float(np.mean(0.5 * np.square((y - mean) / std) + np.log(std) + 0.5 * np.log(2 * np.pi)))


def nlpd_joint(y: FloatArray, mean: FloatArray, cov: FloatArray) -> float:
    """Negative log density of all points together, (n,) under (n, n), nats per point."""
    root = covariance_root(cov, "predictive covariance")
    white = solve_triangular(root, y - mean, lower=True)
    logdet = 2 * np.log(np.diagonal(root)).sum()
    return float(0.5 * (white @ white + logdet + y.size * np.log(2 * np.pi)) / y.size)


def coverage(
    y: FloatArray, mean: FloatArray, std: FloatArray, levels: Sequence[float] = LEVELS
) -> dict[float, float]:
    """Share of targets inside the central interval of each nominal level."""
    for level in levels:
        if not 0 < level < 1:
            raise InvalidInputError(f"levels: expected numbers between 0 and 1, got {level}")
    distance = np.abs(y - mean) / std
    return {level: float(np.mean(distance <= ndtri(0.5 + level / 2))) for level in levels}


def kernel_error(approximate: FloatArray, exact: FloatArray) -> tuple[float, float]:
    """Error of a Gram matrix: (root mean squared over entries, Frobenius relative to the exact)."""
    difference = approximate - exact
    return (
        float(np.sqrt(np.mean(np.square(difference)))),
        float(np.linalg.norm(difference) / np.linalg.norm(exact)),
    )
