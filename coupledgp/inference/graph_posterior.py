"""Posterior of the values at nodes: dense, or by conjugate gradients and pathwise samples."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from coupledgp.errors import NumericalError
from coupledgp.inference.graph_priors import GraphPrior
from coupledgp.inference.graph_solvers import conjugate_gradients
from coupledgp.random import FloatArray

IntArray = NDArray[np.int64]


class GraphPosterior(ABC):
    """`f | y` for `y = f + e`, `f ~ N(0, v K)`, `e ~ N(0, s I)`, all in units of centred targets.

    Parameters
    ----------
    prior
        The prior at its final parameters.
    nodes, y
        Observed node numbers (n,) and centred targets (n,).
    outputscale, noise
        v and s.
    """

    def __init__(
        self, prior: GraphPrior, nodes: IntArray, y: FloatArray, outputscale: float, noise: float
    ) -> None:
        self.prior, self.nodes, self.y = prior, nodes, y
        self.outputscale, self.noise = outputscale, noise
        self.weights = self.solve(y[:, None])[:, 0]

    @abstractmethod
    def solve(self, B: FloatArray) -> FloatArray:
        """`(v K + s I)^-1 B`, shape (n, k)."""

    def mean(self, nodes: IntArray) -> FloatArray:
        """`v K[nodes, train] (v K + s I)^-1 y`, shape (p,)."""
        return self.outputscale * self.prior.product(nodes, self.nodes, self.weights[:, None])[:, 0]

    def covariance(self, nodes: IntArray) -> FloatArray:
        """Covariance of f at nodes, shape (p, p); exact, one solve a node."""
        cross = self.outputscale * self.prior.matrix(self.nodes, nodes)
        own = self.outputscale * self.prior.matrix(nodes, nodes)
        covariance = own - cross.T @ self.solve(cross)
        return 0.5 * (covariance + covariance.T)

    def variance(self, nodes: IntArray) -> FloatArray:
        """Variance of f at nodes, shape (p,); exact, one solve a node."""
        cross = self.outputscale * self.prior.matrix(self.nodes, nodes)
        own = self.outputscale * self.prior.diagonal(nodes)
        reduction = np.einsum("ij,ij->j", cross, self.solve(cross))
        return np.maximum(own - reduction, 0.0)

    def sample(self, nodes: IntArray, n_samples: int, rng: np.random.Generator) -> FloatArray:
        """Draws of f at nodes, shape (p, n_samples), by Matheron's rule.

        `f* + v K[nodes, train] (v K + s I)^-1 (y - f - e)` with prior draws (f*, f) and noise e
        (Wilson et al., 2020): one solve a sample, whatever the number of nodes.
        """
        together = np.concatenate([nodes, self.nodes])
        unique, places = np.unique(together, return_inverse=True)
        draws = np.sqrt(self.outputscale) * self.prior.sample(unique, n_samples, rng)[places]
        there, here = draws[: nodes.size], draws[nodes.size :]
        noise = np.sqrt(self.noise) * rng.standard_normal(here.shape)
        solved = self.solve(self.y[:, None] - here - noise)
        return there + self.outputscale * self.prior.product(nodes, self.nodes, solved)

    def sampled_variance(
        self, nodes: IntArray, n_samples: int, rng: np.random.Generator
    ) -> FloatArray:
        """Variance of f at nodes from pathwise samples; relative error `sqrt(2 / n_samples)`."""
        gaps = self.sample(nodes, n_samples, rng) - self.mean(nodes)[:, None]
        return (gaps**2).mean(axis=1)


class DensePosterior(GraphPosterior):
    """By a Cholesky factor of the training covariance: O(n^3)."""

    def __init__(
        self, prior: GraphPrior, nodes: IntArray, y: FloatArray, outputscale: float, noise: float
    ) -> None:
        A = outputscale * prior.matrix(nodes, nodes)
        A[np.diag_indices_from(A)] += noise
        try:
            self._factor = linalg.cho_factor(A, lower=True, overwrite_a=True)
        except linalg.LinAlgError:
            raise NumericalError(
                f"covariance of {nodes.size} nodes is not positive definite at noise {noise:.2g} "
                f"and output scale {outputscale:.2g}; raise the noise"
            ) from None
        super().__init__(prior, nodes, y, outputscale, noise)

    def solve(self, B: FloatArray) -> FloatArray:
        solved: FloatArray = linalg.cho_solve(self._factor, B)
        return solved


class IterativePosterior(GraphPosterior):
    """By preconditioned conjugate gradients to a relative residual of `tolerance`."""

    def __init__(
        self,
        prior: GraphPrior,
        nodes: IntArray,
        y: FloatArray,
        outputscale: float,
        noise: float,
        tolerance: float = 1e-6,
    ) -> None:
        self.tolerance = tolerance
        self._diagonal = outputscale * prior.rough_diagonal(nodes) + noise
        super().__init__(prior, nodes, y, outputscale, noise)

    def solve(self, B: FloatArray) -> FloatArray:
        def product(V: FloatArray) -> FloatArray:
            inner = self.prior.product(self.nodes, self.nodes, V)
            return self.outputscale * inner + self.noise * V

        return conjugate_gradients(product, B, self._diagonal, self.tolerance).values
