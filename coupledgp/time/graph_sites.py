"""Covariances between nodes of a graph under a graph kernel."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from coupledgp.core.codec import check_range, stored
from coupledgp.errors import NumericalError
from coupledgp.graphs import Graph
from coupledgp.graphs.spectrum import dense_spectrum
from coupledgp.ground.memory import check_memory
from coupledgp.inference.nodes.cholesky_prior import SolvePrior, choose_solve
from coupledgp.inference.nodes.exact_evidence import SPECTRAL_LIMIT
from coupledgp.inference.nodes.forecast import EIGEN_RATE, EIGEN_WORK, Forecast
from coupledgp.inference.nodes.moments import expanded
from coupledgp.inference.nodes.priors import GraphPrior, SeriesPrior, SpectralPrior
from coupledgp.inference.nodes.scaled_prior import scaled
from coupledgp.kernels import GraphKernel
from coupledgp.kernels.graph.exact import series_degree
from coupledgp.random import FloatArray, IntArray
from coupledgp.time.site_base import Sites, checked_theta
from coupledgp.time.site_moments import SiteMoments, VarianceMoments

# Bytes below which free memory is not checked: a check takes longer than the computation.
FREE_BYTES = 2.0**22
# Relative error of covariances, of the mean variance, where no other one is asked for.
SITE_TOLERANCE = 1e-8
# Error of the mean variance of large graphs, relative to the kernel's maximum: that of the sample
# of signs is far larger.
MEAN_TOLERANCE = 1e-7
# Least error of a series relative to the kernel's maximum: rounding of its coefficients.
LEAST_TOLERANCE = 1e-13


class _GraphMoments:
    """Spectrum and moments of a graph, which do not depend on parameters of a kernel.

    Parameters
    ----------
    graph
        The graph as it was given.
    """

    def __init__(self, graph: Graph) -> None:
        self.given, self.graph = graph, graph.closed
        self.is_spectral = graph.n_nodes <= SPECTRAL_LIMIT
        self._moments: SiteMoments | None = None

    @cached_property
    def mean_squares(self) -> FloatArray:
        """`sum_i s_i^2 U_ik^2 / N` (n_nodes,), which times g adds up to the mean variance."""
        vectors, scale = dense_spectrum(self.graph).vectors, self.graph.node_scale
        weights = np.ones(self.graph.n_nodes) if scale is None else scale**2
        return np.asarray(weights @ vectors**2) / self.graph.n_nodes

    @cached_property
    def variance_moments(self) -> VarianceMoments:
        """Moments of the mean variance."""
        return VarianceMoments(self.graph)

    def moments(self, nodes: IntArray) -> SiteMoments:
        """Moments of distinct nodes, cached for the last nodes."""
        if self._moments is None or not np.array_equal(self._moments.nodes, nodes):
            self._moments = SiteMoments(self.graph, nodes)
        return self._moments


@stored
class StoredGraphSites(NamedTuple):
    """Sites in a file."""

    graph: Graph
    kernel: GraphKernel
    tolerance: float

    def read_back(self) -> GraphSites:
        """The sites."""
        check_range(self, 1e-15, 1.0, "tolerance")
        return GraphSites(*self)


class GraphSites(Sites):
    """Nodes of a graph: `K = S g(W~) S / c` with the nodes' scales S and the mean variance c.

    Graphs of up to `SPECTRAL_LIMIT` nodes have all their eigenvectors computed, and c is exact. On
    larger ones a gram is a sum of Chebyshev moments, which are shared by all parameters, and c is
    exact up to the sampling error of a fixed set of random signs, which `describe` states: it only
    rescales the unit of the variance. Isolated nodes have a self-loop, see `Graph.closed`.

    Parameters
    ----------
    graph
        The graph.
    kernel
        A graph kernel.
    tolerance
        Largest error of covariances on large graphs, of the mean variance.
    """

    kernel: GraphKernel

    def __init__(
        self, graph: Graph, kernel: GraphKernel, tolerance: float = SITE_TOLERANCE
    ) -> None:
        self.kernel, self.tolerance = kernel, tolerance
        self.n_sites = graph.n_nodes
        self._shared = _GraphMoments(graph)

    def as_stored(self) -> StoredGraphSites:
        """The arguments of the constructor."""
        return StoredGraphSites(self.graph, self.kernel, self.tolerance)

    @property
    def graph(self) -> Graph:
        """The graph as it was given."""
        return self._shared.given

    @property
    def theta(self) -> FloatArray:
        return self.kernel.theta

    def with_theta(self, theta: FloatArray) -> GraphSites:
        kernel = self.kernel.with_theta(checked_theta(theta, self.theta.size))
        other = GraphSites.__new__(GraphSites)
        other.kernel, other.tolerance = kernel, self.tolerance
        other.n_sites, other._shared = self.n_sites, self._shared
        return other

    def components(self) -> IntArray:
        return self.graph.components()[1]

    def bounds(self) -> list[tuple[float, float]]:
        return self.kernel.bounds_on(self.graph)

    def starts(self) -> list[FloatArray]:
        return [kernel.theta for kernel in self.kernel.scan_on(self.graph)]

    @property
    def mean_variance(self) -> float:
        return self._mean[0]

    @cached_property
    def _mean(self) -> tuple[float, float]:
        """Mean variance over all nodes, and its standard error."""
        shared = self._shared
        if shared.is_spectral:
            values = dense_spectrum(shared.graph).values
            return float(shared.mean_squares @ self.kernel.spectral(values)), 0.0
        try:
            series = expanded([self.kernel.spectral], [MEAN_TOLERANCE])
        except NumericalError:  # too wide for a series: a factor has every variance
            prior, _ = exact_prior(shared.graph, self.kernel, self.tolerance)
            return float(prior.diagonal(np.arange(self.n_sites)).mean()), 0.0
        values, errors = shared.variance_moments.means(series)
        return float(values[0]), float(errors[0])

    @property
    def _series_tolerance(self) -> float:
        """Tolerance relative to the kernel's maximum for one relative to the mean variance."""
        top = float(np.abs(self.kernel.spectral(np.linspace(-1.0, 1.0, 257))).max())
        if self.graph.node_scale is not None:
            top *= float(self.graph.node_scale.max()) ** 2
        share = self.tolerance * self.mean_variance / max(top, np.finfo(float).tiny)
        return float(np.clip(share, LEAST_TOLERANCE, self.tolerance))

    @cached_property
    def _chosen(self) -> tuple[GraphPrior, str]:
        return exact_prior(self._shared.graph, self.kernel, self._series_tolerance)

    @property
    def prior(self) -> GraphPrior:
        """The prior before it is divided by the mean variance."""
        return self._chosen[0]

    def grams(self, sites: IntArray, thetas: Sequence[FloatArray]) -> FloatArray:
        numbers, places = np.unique(self.checked(sites), return_inverse=True)
        each = [self.with_theta(theta) for theta in thetas]
        needed = 8.0 * (len(each) + 2) * len(sites) ** 2
        if needed > FREE_BYTES:
            check_memory(
                needed,
                f"sites: covariances of {len(sites)} sites at {len(each)} parameters",
                "use fewer sites, or fewer parameters at once",
            )
        found = np.stack([one._plain_gram(numbers) for one in each])
        return found[:, places[:, None], places[None, :]]

    def _plain_gram(self, nodes: IntArray) -> FloatArray:
        """`K[nodes, nodes]` (p, p) of distinct nodes."""
        shared = self._shared
        if not shared.is_spectral:
            found = self._moment_gram(nodes)
            if found is not None:
                return found
        found = self.prior.matrix(nodes, nodes) / self.mean_variance
        return 0.5 * (found + found.T)

    def _moment_gram(self, nodes: IntArray) -> FloatArray | None:
        """`K[nodes, nodes]` (p, p) by moments; None if it needs too many of them."""
        try:
            series = expanded([self.kernel.spectral], [self._series_tolerance])
        except NumericalError:
            return None
        moments = self._shared.moments(nodes)
        if not moments.fits(series.shape[1]):
            return None
        found: FloatArray = moments.blocks(series)[0] / self.mean_variance
        scale = self.graph.node_scale
        return found if scale is None else found * np.outer(scale[nodes], scale[nodes])

    def product(self, out: IntArray, into: IntArray, V: FloatArray) -> FloatArray:
        return self.prior.product(self.checked(out), self.checked(into), V) / self.mean_variance

    def cross(self, a: IntArray, b: IntArray) -> FloatArray:
        rows, columns = self.checked(a), self.checked(b)
        check_memory(
            8.0 * (2 * rows.size * columns.size),
            f"sites: covariances of {rows.size} with {columns.size} sites",
            "ask for some sites at a time, or for products",
        )
        return self.prior.matrix(rows, columns) / self.mean_variance

    def diagonal(self, sites: IntArray) -> FloatArray:
        return self.prior.diagonal(self.checked(sites)) / self.mean_variance

    def sample(self, sites: IntArray, n_samples: int, rng: np.random.Generator) -> FloatArray:
        draws = self.prior.sample(self.checked(sites), n_samples, rng)
        return draws / np.sqrt(self.mean_variance)

    def forecast(self, n_sites: int) -> Forecast:
        shared, n = self._shared, self.n_sites
        if shared.is_spectral:
            return Forecast(EIGEN_WORK * n**3 / EIGEN_RATE, 8.0 * (3 * n**2 + n_sites**2))
        moments = SiteMoments(shared.graph, np.arange(min(n_sites, n)))
        return moments.forecast(series_degree(self.kernel.spectral, self._series_tolerance) + 1)

    def describe(self) -> dict[str, Any]:
        mean, error = self._mean
        over = f"all {self.n_sites} nodes"
        if error:
            count = self._shared.variance_moments.n_probes
            over += f", by {count} random sign vectors of seed 0, standard error {error / mean:.1g}"
        return {
            "domain": "graph",
            "n_sites": self.n_sites,
            "kernel": repr(self.kernel),
            "method": self._chosen[1],
            "mean_variance": mean,
            "normalised_over": over,
        }


def exact_prior(graph: Graph, kernel: GraphKernel, tolerance: float) -> tuple[GraphPrior, str]:
    """The exact prior by the way that costs least, scales of nodes included, and the way's name.

    Parameters
    ----------
    graph
        The closed graph.
    kernel
        The kernel.
    tolerance
        Error of a series, relative to the kernel's maximum.
    """
    if graph.n_nodes <= SPECTRAL_LIMIT:
        return scaled(SpectralPrior(graph, kernel)), "spectral"
    if choose_solve(graph, kernel, tolerance).factorise:
        return scaled(SolvePrior(graph, kernel)), "cholesky"
    return scaled(SeriesPrior(graph, kernel, tolerance)), "series"
