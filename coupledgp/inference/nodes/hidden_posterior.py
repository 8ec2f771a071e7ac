"""Posterior of any kernel where few nodes are hidden, without iterations: exact at all nodes.

If every node were observed the covariance of f would be `s (I - Phi)`, a function of `W~`, with
`Phi = r (K + r I)^-1` and the noise ratio r = s / v. To take the observations of the hidden nodes H
out again is a block rule:

    cov = s (I - Phi + Phi_H Phi_HH^-1 Phi_H') ,   cov_HH = s (Phi_HH^-1 - I) .

Columns `Phi_H` are a Chebyshev series, the diagonal of `I - Phi` is one of `rational_diagonal`.
"""

from __future__ import annotations

from functools import cached_property, partial

import numpy as np
from scipy import linalg

from coupledgp.graphs import Graph
from coupledgp.ground.progress import Progress, silent
from coupledgp.inference.nodes.exact_evidence import continued, inverse_of, tolerance_for
from coupledgp.inference.nodes.posterior import DensePosterior, GraphPosterior, blocks_of
from coupledgp.inference.nodes.priors import GraphPrior, SeriesPrior, spread
from coupledgp.inference.nodes.rational import diagonal_of
from coupledgp.kernels import GraphKernel, SeriesOperator
from coupledgp.kernels.graph.exact import DEGREE_LIMIT, series_degree
from coupledgp.linalg.matrices import Factor, covariance_factor
from coupledgp.random import FloatArray, IntArray

# Most hidden nodes, or observations, of which a block is factorised: two seconds.
MOST_NODES = 4096
# Most operations of a block, which takes some seconds, and the number of those of dense algebra
# that take as long as one of a series.
MOST_WORK, DENSE_RATE = 2e10, 8.0
# Error of the diagonal of `I - Phi`, which is that of variances relative to the noise.
SMOOTH_TOLERANCE = 1e-9
# Most entries of `Phi_H` that are kept: 512 MiB.
KEPT_ENTRIES = 2**26


class HiddenPosterior(GraphPosterior):
    """Posterior from the block of `Phi` on the hidden nodes; see the file.

    Arguments are those of `GraphPosterior`; the prior is a `SeriesPrior`, and no node repeats.

    Raises
    ------
    NumericalError
        The block has no Cholesky factor.
    """

    has_all_variances = True

    def solve(self, B: FloatArray) -> FloatArray:
        """`(v K + s I)^-1 B = Phi X / s` for values X that continue B so that it is zero at H."""
        image = self._smoothed[1] if B is self._Y else self._filled(self._spread(B))[1]
        return image[self.nodes] / self.noise

    def mean(self, nodes: IntArray) -> FloatArray:
        """Means (p, n_outputs) of f: `X - Phi X`."""
        X, image = self._smoothed
        return X[nodes] - image[nodes]

    def variance(self, nodes: IntArray, report: Progress = silent) -> FloatArray:
        """Variance (p,) of f at nodes; at hidden nodes from the factor alone."""
        places = self._place[nodes]
        variance = np.empty(nodes.size)
        variance[places >= 0] = self._hidden_variances[places[places >= 0]]
        seen = np.flatnonzero(places < 0)
        if seen.size:
            variance[seen] = self._smooth_diagonal[nodes[seen]]
        for block in blocks_of(seen.size):
            report(f"variances, {block.start} of {seen.size} observed nodes")
            half = linalg.solve_triangular(
                self._factor[0], self._rows(nodes[seen[block]]).T, lower=self._factor[1]
            )
            variance[seen[block]] += (half**2).sum(axis=0)
        return self.noise * np.maximum(variance, 0.0)

    def covariance(self, nodes: IntArray, report: Progress = silent) -> FloatArray:
        places = self._place[nodes]
        seen, hidden = np.flatnonzero(places < 0), np.flatnonzero(places >= 0)
        Z = np.zeros((self._hidden.size, nodes.size))
        Z[places[hidden], hidden] = -1.0
        covariance = np.zeros((nodes.size, nodes.size))
        covariance[np.ix_(hidden, hidden)] -= nodes[hidden, None] == nodes[hidden]
        covariance[np.ix_(seen, seen)] += nodes[seen, None] == nodes[seen]
        for block in blocks_of(seen.size):
            report(f"covariance, {block.start} of {seen.size} observed nodes")
            columns = self._columns(nodes[seen[block]])
            Z[:, seen[block]] = columns[self._hidden]
            covariance[np.ix_(seen, seen[block])] -= columns[nodes[seen]]
        half = linalg.solve_triangular(self._factor[0], Z, lower=self._factor[1])
        covariance += half.T @ half
        return 0.5 * self.noise * (covariance + covariance.T)

    @property
    def _graph(self) -> Graph:
        return self.prior.graph

    @property
    def _ratio(self) -> float:
        return self.noise / self.outputscale

    @cached_property
    def _hidden(self) -> IntArray:
        """Hidden nodes (h,)."""
        return np.setdiff1d(np.arange(self._graph.n_nodes), self.nodes)

    @cached_property
    def _place(self) -> IntArray:
        """Places (n_nodes,) of nodes among the hidden ones; -1 elsewhere."""
        place = np.full(self._graph.n_nodes, -1)
        place[self._hidden] = np.arange(self._hidden.size)
        return place

    @cached_property
    def _operator(self) -> SeriesOperator:
        """`Phi = r / (g(W~) + r)` as an operator (n_nodes, n_nodes)."""
        function = partial(inverse_of, self.prior.kernel, self._ratio)
        device = self.prior.device if isinstance(self.prior, SeriesPrior) else None
        return SeriesOperator(self._graph, function, tolerance_for(self._ratio), device)

    def _columns(self, nodes: IntArray) -> FloatArray:
        """Columns of `Phi`, (n_nodes, p), of nodes (p,)."""
        E = np.zeros((self._graph.n_nodes, nodes.size))
        E[nodes, np.arange(nodes.size)] = 1.0
        return self._operator.matmat(E)

    @cached_property
    def _blocks(self) -> tuple[FloatArray, FloatArray]:
        """`Phi_HH`, and `Phi_H` (n_nodes, h), or (0, h) where it is too large to keep."""
        h, n = self._hidden.size, self._graph.n_nodes
        kept = np.empty((n if h * n <= KEPT_ENTRIES else 0, h))
        inner = np.empty((h, h))
        for block in blocks_of(h):
            columns = self._columns(self._hidden[block])
            kept[:, block] = columns[: len(kept)]
            inner[:, block] = columns[self._hidden]
        return 0.5 * (inner + inner.T), kept

    def _rows(self, nodes: IntArray) -> FloatArray:
        """Rows `Phi[nodes, H]` (p, h)."""
        kept = self._blocks[1]
        return kept[nodes] if len(kept) else self._columns(nodes)[self._hidden].T

    @cached_property
    def _factor(self) -> Factor:
        return covariance_factor(self._blocks[0], self._ratio)

    @cached_property
    def _hidden_variances(self) -> FloatArray:
        """Diagonal (h,) of `Phi_HH^-1 - I`."""
        if not self._hidden.size:
            return np.zeros(0)
        half = np.tril(linalg.lapack.dtrtri(self._factor[0], lower=True)[0])
        return np.einsum("ij,ij->j", half, half) - 1.0

    @cached_property
    def _smooth_diagonal(self) -> FloatArray:
        """Diagonal (n_nodes,) of `I - Phi`."""
        kernel, ratio = self.prior.kernel, self._ratio
        return diagonal_of(self._graph, partial(_smooth, kernel, ratio), SMOOTH_TOLERANCE)

    @cached_property
    def _smoothed(self) -> tuple[FloatArray, FloatArray]:
        """X and `Phi X` (n_nodes, k) of the targets."""
        return self._filled(continued(self._graph, self.nodes, self._Y))

    def _spread(self, B: FloatArray) -> FloatArray:
        return spread(self._graph, self.nodes, B)

    def _filled(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """X (n_nodes, k) with other values at H, so that `Phi X` is zero there, and `Phi X`."""
        image = self._operator.matmat(X)
        if not self._hidden.size:
            return X, image
        change = np.zeros_like(X)
        change[self._hidden] = -linalg.cho_solve(self._factor, image[self._hidden])
        return X + change, image + self._operator.matmat(change)


def _smooth(kernel: GraphKernel, ratio: float, x: FloatArray) -> FloatArray:
    """`g(x) / (g(x) + r)` at eigenvalues x of any shape."""
    g = kernel.spectral(x)
    return g / (g + ratio)


def direct_class(
    prior: GraphPrior,
    nodes: IntArray,
    ratio: float,
    limit: float = MOST_WORK,
    most_nodes: int = MOST_NODES,
) -> type[HiddenPosterior] | type[DensePosterior] | None:
    """Return the cheaper posterior of blocks of hidden or of observed nodes; None: both cost much.

    Parameters
    ----------
    prior
        The prior. Only one by a series of `W~` has a posterior by blocks here.
    nodes
        Observed node numbers (n,).
    ratio
        Noise ratio.
    limit, most_nodes
        Most operations, and most nodes of a block.
    """
    if not isinstance(prior, SeriesPrior):
        return None
    graph, kernel = prior.graph, prior.kernel
    works = block_works(graph, kernel, nodes.size, ratio, prior.tolerance, most_nodes)
    if np.unique(nodes).size < nodes.size:
        works[1] = np.inf
    if min(works) > limit:
        return None
    return DensePosterior if works[0] <= works[1] else HiddenPosterior


def block_works(
    graph: Graph,
    kernel: GraphKernel,
    n: int,
    ratio: float,
    tolerance: float,
    most_nodes: int = MOST_NODES,
) -> list[float]:
    """Operations of posteriors by n observed nodes, and by the nodes that are then hidden."""
    inverse = series_degree(partial(inverse_of, kernel, ratio), tolerance_for(ratio))
    own = series_degree(kernel.spectral, tolerance)
    sizes = zip((n, graph.n_nodes - n), (own, inverse), strict=True)
    return [_block_work(graph, size, degree, most_nodes) for size, degree in sizes]


def _block_work(graph: Graph, size: int, degree: int, most_nodes: int) -> float:
    """Operations of a block of `size` nodes, of its factor, and of variances of all nodes."""
    if size > most_nodes or degree > DEGREE_LIMIT:
        return np.inf
    series = 2.0 * size * degree * (graph.indices.size + 2 * graph.n_nodes)
    return series + (size**3 / 3 + size**2 * graph.n_nodes) / DENSE_RATE
