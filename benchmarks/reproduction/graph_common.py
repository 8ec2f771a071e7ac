"""What the reproductions on graphs share: divergences, scores and tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy import linalg, stats

from coupledgp.graphs import Graph
from coupledgp.kernels import GraphKernel, dense_spectrum
from coupledgp.random import FloatArray

PAPER_GRAPHS = ("cora", "eurosis", "eu-core", "arenas-email")
PAPER_MESHES = ("teapot", "fuze", "unit_sphere", "idler_riser", "busted", "torus")


def gaussian_kl(p: tuple[FloatArray, FloatArray], q: tuple[FloatArray, FloatArray]) -> float:
    """`KL(p || q)` of Gaussians given by mean and covariance, nats."""
    (mean_p, cov_p), (mean_q, cov_q) = p, q
    lower = linalg.cholesky(cov_q, lower=True)
    half = linalg.solve_triangular(lower, linalg.cholesky(cov_p, lower=True), lower=True)
    gap = linalg.solve_triangular(lower, mean_q - mean_p, lower=True)
    log_det = 2.0 * np.log(np.abs(np.diag(half))).sum()
    return 0.5 * float((half**2).sum() + gap @ gap - gap.size - log_det)


def scores(mean: FloatArray, cov: FloatArray, y: FloatArray) -> dict[str, float]:
    """RMSE, mean negative log density a point, and coverage of central 95 % intervals."""
    std = np.sqrt(np.diag(cov))
    inside = np.abs(y - mean) <= stats.norm.ppf(0.975) * std
    return {
        "rmse": float(np.sqrt(np.mean((y - mean) ** 2))),
        "nlpd": float(-stats.norm.logpdf(y, mean, std).mean()),
        "coverage95": float(inside.mean()),
    }


def exact_products(graph: Graph, kernel: GraphKernel, V: FloatArray) -> FloatArray:
    """`K V` with the exact kernel."""
    values, vectors = dense_spectrum(graph)
    return vectors @ (kernel.spectral(values)[:, None] * (vectors.T @ V))


def frobenius(graph: Graph, kernel: GraphKernel) -> float:
    """Frobenius norm of the exact kernel."""
    return float(np.linalg.norm(kernel.spectral(dense_spectrum(graph).values)))


def table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(cell(value) for value in row) + " |" for row in rows]
    return "\n".join(lines)


def cell(value: Any) -> str:
    """A value as text, numbers to three digits."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Mean and its standard error."""
    array = np.asarray(values, dtype=np.float64)
    error = array.std(ddof=1) / np.sqrt(array.size) if array.size > 1 else float("nan")
    return float(array.mean()), float(error)
