"""Exact hops: the first part of a series is computed, the rest is walked (MATH 9).

For hop nodes `x_1, ..., x_r` divided differences split the series `F(x) = sum_t f_t x^t` into

    F(x) = sum_{k<r} a_k prod_{j<=k} (x - x_j) + c(x) prod_{j<=r} (x - x_j) ,

the first sum computed by r products with `W~`, the series c carried by walkers:

    Phi = sum_k a_k prod_j (W~ - x_j) + (sum_t c_t Psi_t) prod_{j<=r} (W~ - x_j) ,

unbiased since `E[Psi_t] = W~^t`. All x_j = 0 is the plain tail of the series; Chebyshev nodes
make the norm of the last product, which multiplies the walkers' noise, least: it is `2^(1-r)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from coupledgp.errors import ModelFileError
from coupledgp.graphs import Graph
from coupledgp.graphs.spectral import lanczos_density, ritz_values
from coupledgp.graphs.walk_lengths import (
    SERIES_TOLERANCE,
    ModulationLike,
    coefficients,
    n_terms_for,
    tail_of,
)
from coupledgp.ground.codec import stored
from coupledgp.ground.validation import check_choice, check_positive_int, wrong
from coupledgp.random import FloatArray

HopNodes = Literal["chebyshev", "ritz", "power"]
# Relative kernel error that does not show in a posterior.
HOP_TOLERANCE = 1e-3
# Most hops that may be asked for: four times as many as are ever chosen.
MOST_HOPS = 2048
# Logarithms of products of distances that are closer than this are equal, as for mirrored points.
LEJA_TIE = 1e-9
# Multiply-adds that the hops of one product with the features may cost, some tens of milliseconds,
# and bounds of the number of hops that this gives.
MIN_AFFORDABLE_HOPS, MAX_AFFORDABLE_HOPS = 64, 512
AFFORDABLE_COST = 100_000_000

# Most hops of a file: the product of more is below the least float.
MOST_HOPS = 2048


@stored
@dataclass(frozen=True)
class HopPlan:
    """The number of exact hops, their interpolation nodes, and the error that is expected.

    Attributes
    ----------
    nodes
        Hop nodes `x_1..x_r`, shape (n_hops,).
    predicted_error
        Relative error of the kernel expected from the walkers,
        `|prod (x - x_j)| sum_{t>=1} |c_t| / sqrt(m)` over the root mean diagonal of K. Of the
        usual numbers of walkers it is right within a factor of about two, but behind one hop or
        two up to five times too large.
    cost
        Multiply-adds with `W~` in one product with the features, `n_hops * nnz(W~)`.
    reason
        Reason for this number of hops, in words.

    Examples
    --------
    >>> import coupledgp as cgp
    >>> from coupledgp.features import plan_hops
    >>> ring = cgp.Graph.from_edges(range(8), [1, 2, 3, 4, 5, 6, 7, 0])
    >>> plan = plan_hops(ring, [1.0, 0.5, 0.25], n_walks=32, exact_hops=2)
    >>> plan.n_hops, plan.nodes, plan.cost, plan.reason
    (2, (0.0, 0.0), 32, 'as asked for')
    """

    nodes: tuple[float, ...]
    predicted_error: float
    cost: int
    reason: str

    def read_back(self) -> HopPlan:
        """The plan of a file."""
        if len(self.nodes) > MOST_HOPS or not all(-1 <= node <= 1 for node in self.nodes):
            raise ModelFileError(f"nodes: expected at most {MOST_HOPS} from -1 to 1, got others")
        return self

    @property
    def n_hops(self) -> int:
        """Number r of exact hops."""
        return len(self.nodes)


@lru_cache(maxsize=256)
def chebyshev_nodes(n: int) -> FloatArray:
    """Chebyshev nodes `cos((2k+1) pi / 2n)`, shape (n,), in Leja order.

    The order keeps partial products small.
    """
    return leja_order(np.cos((2 * np.arange(n) + 1) * np.pi / (2 * n))) if n else np.empty(0)


def leja_order(points: FloatArray) -> FloatArray:
    """Points (n,) in Leja order: each maximises the product of distances from those before it."""
    sizes = np.abs(points)
    order = [int(np.argmax(sizes >= (1.0 - LEJA_TIE) * sizes.max()))]
    logs = np.zeros(points.size)
    for _ in range(points.size - 1):
        with np.errstate(divide="ignore"):
            logs += np.log(np.abs(points - points[order[-1]]))
        order.append(int(np.argmax(logs >= logs.max() - LEJA_TIE)))
    return points[order]


def hop_nodes(graph: Graph, n_hops: int, kind: HopNodes = "chebyshev") -> FloatArray:
    """Interpolation nodes (n_hops,) of exact hops; fewer Ritz nodes if the graph has fewer.

    One or two Chebyshev nodes are replaced by zeros, as for `"power"`.
    """
    check_choice(kind, ("chebyshev", "ritz", "power"), "hop_nodes")
    if kind == "power" or (kind == "chebyshev" and n_hops <= 2) or n_hops == 0:
        return np.zeros(n_hops)
    return (
        chebyshev_nodes(n_hops) if kind == "chebyshev" else leja_order(ritz_values(graph, n_hops))
    )


def split_series(f: FloatArray, nodes: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Divided differences `a` (.., r) of `f`, and the series `c` (.., n_terms - r) of its rest.

    r synthetic divisions, linear in f; f (.., n_terms) may hold several series.
    """
    from scipy import signal  # slow to import

    rest = np.asarray(f, dtype=np.float64)
    if rest.shape[-1] <= nodes.size:
        rest = np.concatenate(
            [rest, np.zeros((*rest.shape[:-1], nodes.size + 1 - rest.shape[-1]))], axis=-1
        )
    heads = []
    for node in nodes:
        quotient = signal.lfilter([1.0], [1.0, -node], rest[..., ::-1], axis=-1)[..., ::-1]
        heads.append(quotient[..., 0])
        rest = quotient[..., 1:]
    head = np.stack(heads, axis=-1) if heads else np.empty((*rest.shape[:-1], 0))
    return head, rest.copy()  # whose strides are positive, also those of axes of length one


def filter_norm(nodes: NDArray[np.float64]) -> float:
    """`max |prod_j (x - x_j)|` on [-1, 1] for nodes (r,), the factor on the walkers' noise."""
    grid = np.cos(np.linspace(0, np.pi, 2001))
    return float(np.abs(np.prod(grid[:, None] - nodes[None, :], axis=1)).max())


def root_mean_diagonal(graph: Graph, f: FloatArray) -> float:
    """`sqrt(mean_i K_ii)` of `K = (sum_t f_t W~^t)^2`, f (n_terms,), from the spectral density."""
    density = lanczos_density(graph)
    values = np.polynomial.polynomial.polyval(density.eigenvalues, f)
    return float(np.sqrt(density.weights @ values**2))


def predicted_error(f: FloatArray, nodes: FloatArray, n_walks: float, scale: float) -> float:
    """Relative kernel error of walkers for the series f (n_terms,) behind hops at nodes (r,).

    See `HopPlan`; `scale` is the root mean diagonal of the kernel.
    """
    _, c = split_series(f, nodes)
    noise = filter_norm(nodes) * np.abs(c[1:]).sum() / np.sqrt(n_walks)
    return float(noise / scale) if scale > 0 else 0.0


def plan_hops(
    graph: Graph,
    modulation: ModulationLike,
    n_walks: float,
    exact_hops: int | Literal["auto"] = "auto",
    kind: HopNodes = "chebyshev",
    max_hops: int | None = None,
    tolerance: float = HOP_TOLERANCE,
) -> HopPlan:
    """Choose the number of exact hops.

    `"auto"` takes the fewest hops whose predicted error is below `tolerance`, beyond which more
    hops do not change a posterior visibly, or the number of least predicted error up to `max_hops`
    if there are none. A given number is taken as it is.

    Parameters
    ----------
    graph, modulation, n_walks
        Graph, series (coefficients (n_terms,) or a kernel) and number of walkers per node of the
        features.
    exact_hops
        A number r >= 0, or `"auto"`.
    kind
        Kind of the hop nodes: `"chebyshev"`, `"ritz"` (Gauss nodes of the spectral density) or
        `"power"` (zeros, the terms of the series in their order).
    max_hops
        Largest number of hops, each a product with `W~` in every product with the features. By
        default as many as make a hundred million multiply-adds, at least 64 and at most 512.
    tolerance
        Relative kernel error below which no further hops are added.

    Examples
    --------
    >>> import coupledgp as cgp
    >>> from coupledgp.features import plan_hops
    >>> ring = cgp.Graph.from_edges(range(8), [1, 2, 3, 4, 5, 6, 7, 0])
    >>> plan = plan_hops(ring, [1.0, 0.5, 0.25], n_walks=32)
    >>> plan.n_hops, plan.predicted_error  # behind two hops walkers do not move
    (2, 0.0)
    """
    f = coefficients(modulation, n_terms_for(modulation))
    scale = root_mean_diagonal(graph, f)
    nnz = graph.indices.size
    if exact_hops != "auto":
        r = check_positive_int(exact_hops, "exact_hops", minimum=0)
        if r > MOST_HOPS:
            raise wrong("exact_hops", f"at most {MOST_HOPS}", r)
        nodes = hop_nodes(graph, r, kind)
        error = predicted_error(f, nodes, n_walks, scale)
        return HopPlan(tuple(nodes.tolist()), error, r * nnz, "as asked for")
    if max_hops is None:
        affordable = AFFORDABLE_COST // max(nnz, 1)
        max_hops = max(MIN_AFFORDABLE_HOPS, min(affordable, MAX_AFFORDABLE_HOPS))
    check_positive_int(max_hops, "max_hops", minimum=0)
    best: tuple[float, FloatArray] = (np.inf, np.empty(0))
    for r in candidates(max_hops):
        nodes = hop_nodes(graph, r, kind)
        error = predicted_error(f, nodes, n_walks, scale)
        if error < best[0]:
            best = (error, nodes)
        if error <= tolerance:
            break
    error, chosen = best[0], tuple(best[1].tolist())
    reached = "at the tolerance" if error <= tolerance else f"least error up to {max_hops} hops"
    return HopPlan(chosen, error, len(chosen) * nnz, f"{reached}: {error:.2g} predicted")


def candidates(max_hops: int) -> list[int]:
    """Numbers of hops to try: all up to 16, then each about an eighth larger than the last."""
    tried, r = [], 0
    while r < max_hops:
        tried.append(r)
        r += max(1, r // 8)
    return [*tried, max_hops]


def walked_series(f: ModulationLike, plan: HopPlan, tolerance: float) -> FloatArray:
    """Series c (n_terms,) that the walkers carry, cut where its rest is negligible.

    The rest, multiplied by the hops' filter norm as in the kernel, is below `tolerance` times the
    sum of the absolute coefficients of F.

    Examples
    --------
    >>> import coupledgp as cgp
    >>> from coupledgp.features import plan_hops, walked_series
    >>> ring = cgp.Graph.from_edges(range(8), [1, 2, 3, 4, 5, 6, 7, 0])
    >>> f = [1.0, 0.5, 0.25]
    >>> plan = plan_hops(ring, f, n_walks=32, exact_hops=1, kind="power")
    >>> walked_series(f, plan, tolerance=1e-6).tolist()  # the first term is computed
    [0.5, 0.25]
    """
    nodes = np.array(plan.nodes)
    _, c = split_series(coefficients(f, n_terms_for(f)), nodes)
    left = np.cumsum(np.abs(c)[::-1])[::-1] * filter_norm(nodes)
    needed = np.flatnonzero(left > tolerance * tail_of(f, 0))
    return c[: int(needed.max()) + 1] if needed.size else c[:1]


class Scalable(Protocol):
    """A graph kernel whose length of diffusion can be changed."""

    def scaled(self, factor: float) -> ModulationLike:
        """The kernel at a scale that is `factor` times as large."""


def series_at_scales(kernel: Scalable, plan: HopPlan, factors: Sequence[float]) -> FloatArray:
    """The walked series at several scales of a kernel, for one length law for all scales.

    A law that is matched to one scale is ruinous at a larger one, whose walks it makes too short,
    and costs little at a smaller one. So a kernel whose scale is still to be moved takes the mean
    of the laws matched to the scales that it may be moved to.

    Parameters
    ----------
    kernel
        The kernel at its present scale.
    plan
        Exact hops; walkers carry the rest of the series.
    factors
        Multiples of the present scale.

    Returns
    -------
    FloatArray (n_factors, n_terms)
        The series of each scale, filled with zeros to the same length.
    """
    series = [walked_series(kernel.scaled(factor), plan, SERIES_TOLERANCE) for factor in factors]
    rows = np.zeros((len(series), max(row.size for row in series)))
    for k, row in enumerate(series):
        rows[k, : row.size] = row
    return rows
