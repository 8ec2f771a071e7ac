"""Wide kernels on large graphs: priors of low rank from leading eigenpairs, and posteriors."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy import linalg

from coupledgp.errors import InvalidInputError
from coupledgp.graphs import Graph
from coupledgp.graphs.spectrum import Eigenpairs
from coupledgp.ground.progress import Progress, silent
from coupledgp.inference.nodes.moments import SERIES_DEGREE, leading_of
from coupledgp.inference.nodes.posterior import GraphPosterior
from coupledgp.inference.nodes.priors import SpectralPrior
from coupledgp.kernels import GraphKernel
from coupledgp.kernels.graph.exact import series_degree
from coupledgp.linalg.matrices import Factor, covariance_factor
from coupledgp.random import FloatArray, IntArray


class LeadingPrior(SpectralPrior):
    """`K = U g(l) U'` with the leading eigenpairs `(l, U)` of `W~`; no product with it is made.

    It is right where `negligible_below` holds. Under a small noise s an error of the kernel counts
    divided by s, so that it has to be below some 1e-12 of g; a Chebyshev series would take
    thousands of terms for that.

    Parameters
    ----------
    graph, kernel
        The graph, and the kernel.
    tolerance
        Largest value of the kernel on the rest of the spectrum, relative to its maximum.

    Raises
    ------
    InvalidInputError
        The kernel is larger than that there.
    """

    def __init__(self, graph: Graph, kernel: GraphKernel, tolerance: float = 1e-12) -> None:
        self.graph, self.kernel, self.tolerance = graph, kernel, tolerance
        pairs = leading_of(graph)
        if not negligible_below(pairs, kernel, tolerance):
            raise InvalidInputError(
                f"kernel: expected one below {tolerance:g} beyond the {pairs.values.size} "
                f"leading eigenvalues, got {kernel!r}"
            )
        self._pairs = pairs

    @property
    def rank(self) -> int:
        """Number of eigenpairs."""
        return self._values.size

    def at(self, kernel: GraphKernel) -> LeadingPrior:
        return LeadingPrior(self.graph, kernel, self.tolerance)

    def root(self, nodes: IntArray) -> FloatArray:
        """Rows `U sqrt(g(l))` of nodes (p,), shape (p, rank)."""
        return self._vectors[nodes] * self.kernel.root(self._values)


class LeadingPosterior(GraphPosterior):
    """Posterior in the coordinates of the eigenpairs, `K = F F'`: nothing is lost by cancellation.

    With `B = F[T]' F[T] + (s / v) I` the mean is `F B^-1 F[T]' Y` and the covariance
    `s F B^-1 F'`. Arguments are those of `GraphPosterior`.
    """

    has_all_variances = True
    prior: LeadingPrior

    @cached_property
    def _observed(self) -> FloatArray:
        return self.prior.root(self.nodes)

    @cached_property
    def _factor(self) -> Factor:
        ratio = self.noise / self.outputscale
        B = self._observed.T @ self._observed
        B[np.diag_indices_from(B)] += ratio
        return covariance_factor(B, ratio)

    def _halved(self, nodes: IntArray) -> FloatArray:
        """`L^-1 F[nodes]'`, (rank, p), with `B = L L'`."""
        F = self.prior.root(nodes)
        return linalg.solve_triangular(self._factor[0], F.T, lower=self._factor[1])

    def solve(self, B: FloatArray) -> FloatArray:
        inner = linalg.cho_solve(self._factor, self._observed.T @ B)
        return (B - self._observed @ inner) / self.noise

    @property
    def whitened_root(self) -> tuple[FloatArray, FloatArray]:
        """`E = F[T] L^-T` (n, rank), and `(s / v) L^-1 L^-T`, which is `I - E' E`."""
        eye = np.sqrt(self.noise / self.outputscale) * np.eye(len(self._factor[0]))
        half = linalg.solve_triangular(self._factor[0], eye, lower=self._factor[1])
        return self._halved(self.nodes).T, half @ half.T

    def mean(self, nodes: IntArray) -> FloatArray:
        weights = linalg.cho_solve(self._factor, self._observed.T @ self._Y)
        return self.prior.root(nodes) @ weights

    def covariance(self, nodes: IntArray, report: Progress = silent) -> FloatArray:
        half = self._halved(nodes)
        return self.noise * (half.T @ half)

    def covariance_product(self, out: IntArray, into: IntArray, V: FloatArray) -> FloatArray:
        return self.noise * (self._halved(out).T @ (self._halved(into) @ V))

    def variance(self, nodes: IntArray, report: Progress = silent) -> FloatArray:
        return self.noise * (self._halved(nodes) ** 2).sum(axis=0)

    def deviations(
        self,
        nodes: IntArray,
        n_samples: int,
        rng: np.random.Generator,
        report: Progress = silent,
        error: float = 0.0,
    ) -> FloatArray:
        # `F B^-1 (F[T]' e + (s / v)^1/2 z)` has the covariance `F B^-1 F'`, by the draws' own B.
        seen = self._observed.T @ rng.standard_normal((len(self._observed), n_samples))
        rest = np.sqrt(self.noise / self.outputscale) * self.prior.innovations(n_samples, rng)
        weights = linalg.cho_solve(self._factor, seen + rest)
        return np.sqrt(self.noise) * (self.prior.root(nodes) @ weights)


def negligible_below(pairs: Eigenpairs, kernel: GraphKernel, tolerance: float) -> bool:
    """Whether a kernel is at most `tolerance` of its maximum below the known eigenvalues."""
    if not pairs.values.size:
        return False
    rest = np.linspace(-1.0, pairs.values[0], 257)
    top = float(kernel.spectral(np.ones(1))[0])
    return bool(np.abs(kernel.spectral(rest)).max() <= tolerance * top)


def is_leading(graph: Graph, kernel: GraphKernel, tolerance: float) -> bool:
    """Whether leading eigenpairs represent a kernel whose Chebyshev series is long."""
    if series_degree(kernel.spectral, tolerance) <= SERIES_DEGREE:
        return False
    return negligible_below(leading_of(graph), kernel, tolerance)
