"""Posteriors of Gaussian processes in sixty digits, by the formulas and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mpmath
import numpy as np

DIGITS = 60


def fourier_law(
    frequencies: np.ndarray,
    inputs: np.ndarray,
    targets: np.ndarray,
    points: np.ndarray,
    outputscale: float,
    noise: float,
    lengthscale: Sequence[float],
    center: Sequence[float],
    counts: np.ndarray | None = None,
    units: tuple[np.ndarray, np.ndarray] | None = None,
) -> tuple[Any, Any, Any]:
    """Means (p, k) and latent variances (p,) with frequencies (m, d), and the log evidence.

    Where `units`, offsets and scales (k,), are given, targets and means are in units of y; the
    variances and the evidence are those of the normalised targets.
    """
    with mpmath.workdps(DIGITS):
        draw = [_numbers(row) for row in frequencies]
        shift, scale = _numbers(center), _numbers(lengthscale)

        def features(rows: np.ndarray) -> Any:
            scaled = [
                [(a - c) / u for a, c, u in zip(_numbers(row), shift, scale, strict=True)]
                for row in rows
            ]
            phases = [[mpmath.fdot(w, x) for w in draw] for x in scaled]
            half = mpmath.sqrt(mpmath.mpf(1) / len(draw))
            return mpmath.matrix(
                [[f(z) * half for f in (mpmath.sin, mpmath.cos) for z in row] for row in phases]
            )

        v, s = mpmath.mpf(outputscale), mpmath.mpf(noise)
        rows, at, y = features(inputs), features(points), mpmath.matrix(targets.tolist())
        k = y.cols
        offset, size = (_numbers(u) for u in (units or (np.zeros(k), np.ones(k))))
        for i in range(y.rows):
            for j in range(k):
                y[i, j] = (y[i, j] - offset[j]) / size[j]
        root = [
            mpmath.sqrt(c) for c in _numbers(np.ones(len(inputs)) if counts is None else counts)
        ]
        for i, r in enumerate(root):
            for j in range(rows.cols):
                rows[i, j] *= r
            for j in range(y.cols):
                y[i, j] *= r
        ridge = rows.T * rows + s / v * mpmath.eye(rows.cols)
        means, variances, evidence = _law(mpmath.cholesky(ridge), rows.T * y, at, y, v, s)
        means = [[o + u * e for o, u, e in zip(offset, size, row, strict=True)] for row in means]
        return means, variances, evidence


def _law(factor: Any, cross: Any, at: Any, y: Any, v: Any, s: Any) -> tuple[Any, Any, Any]:
    whitened = [_forward(factor, cross[:, j]) for j in range(cross.cols)]
    half = [_forward(factor, at[i, :].T) for i in range(at.rows)]
    means = [[mpmath.fdot(h, w) for w in whitened] for h in half]
    variances = [s * mpmath.fdot(h, h) for h in half]
    n, k, size = y.rows, y.cols, factor.rows
    quad = mpmath.fsum(a * a for a in y) - mpmath.fsum(a * a for w in whitened for a in w)
    logdet = 2 * mpmath.fsum(mpmath.log(factor[i, i]) for i in range(size))
    logdet += n * mpmath.log(v) + (n - size) * mpmath.log(s / v)
    evidence = -(quad / s + k * (logdet + n * mpmath.log(2 * mpmath.pi))) / 2
    return means, variances, evidence


def _forward(factor: Any, right: Any) -> list[Any]:
    solved: list[Any] = []
    for i in range(factor.rows):
        known = mpmath.fdot([factor[i, j] for j in range(i)], solved)
        solved.append((right[i] - known) / factor[i, i])
    return solved


def _numbers(values: Any) -> list[Any]:
    return [mpmath.mpf(float(value)) for value in values]


def dense_law(
    gram: Any, cross: Any, prior: Any, targets: np.ndarray, noise: float
) -> tuple[Any, Any]:
    """Means (p, k) and latent variances (p,) from covariances of rows (n, n) and points (p, n)."""
    with mpmath.workdps(DIGITS):
        n = gram.rows
        factor = mpmath.cholesky(gram + mpmath.mpf(noise) * mpmath.eye(n))
        y = mpmath.matrix(targets.tolist())
        whitened = [_forward(factor, y[:, j]) for j in range(y.cols)]
        half = [_forward(factor, cross[i, :].T) for i in range(cross.rows)]
        means = [[mpmath.fdot(h, w) for w in whitened] for h in half]
        return means, [c - mpmath.fdot(h, h) for c, h in zip(prior, half, strict=True)]


def errors(
    mean: np.ndarray, std: np.ndarray, means: Any, variances: Any, scale: Any
) -> tuple[float, float]:
    """Largest error of means (p, k) in exact standard deviations, and of deviations (p,) as share.

    Deviations are those of normalised outputs, whose scales are (k,).
    """
    with mpmath.workdps(DIGITS):
        exact = [mpmath.sqrt(value) for value in variances]
        off = [
            abs(mpmath.mpf(float(a)) - b) / (u * float(o))
            for row, others, u in zip(mean, means, exact, strict=True)
            for a, b, o in zip(row, others, scale, strict=True)
        ]
        shares = [abs(mpmath.mpf(float(a)) / u - 1) for a, u in zip(std, exact, strict=True)]
        return float(max(off)), float(max(shares))
