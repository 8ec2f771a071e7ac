"""Posterior at all nodes from one factor of a sparse precision.

The function given the data has the precision `M = Q + D P' P D / r` over the output scale v, see
`precision_evidence`: the mean is `D M^-1 D P' Y / r`, the covariance `v D M^-1 D`, and all
variances are entries of the inverse on the pattern of M.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from coupledgp.graphs.cholesky_prior import SolvePrior
from coupledgp.graphs.posterior import BLOCK, GraphPosterior
from coupledgp.graphs.precision import (
    ObservedPrecision,
    observed_precision,
    power_pattern,
)
from coupledgp.graphs.precision_evidence import PrecisionEvidence
from coupledgp.graphs.priors import spread
from coupledgp.graphs.scaled_prior import unscaled
from coupledgp.ground.progress import tell
from coupledgp.random import FloatArray, IntArray

# Values at all nodes that exist at once, as columns of a solve: 128 MiB.
COLUMN_VALUES = 2**24


class PrecisionNodePosterior(GraphPosterior):
    """Posterior of a prior `(I + s L~)^-p`, for any number of observations.

    Arguments are those of `GraphPosterior`; the prior is a `SolvePrior`, scaled or not.

    Raises
    ------
    MemoryLimitError
        The factor does not fit in memory.
    NumericalError
        The precision is not positive definite to rounding.
    """

    has_all_variances = True

    def solve(self, B: FloatArray) -> FloatArray:
        """`(v K + s I)^-1 B`: B (n, k) minus its posterior mean, over the noise."""
        return (B - self._smoothed(B)[self.nodes]) / self.noise

    def mean(self, nodes: IntArray) -> FloatArray:
        return self._mean[nodes]

    def variance(self, nodes: IntArray) -> FloatArray:
        """Variance (p,) of f at nodes; all variances come from one pass."""
        return self._variances[nodes]

    def covariance(self, nodes: IntArray) -> FloatArray:
        covariance = np.empty((nodes.size, nodes.size))
        scales = self._scales[nodes]
        for block in self._slices(nodes.size):
            tell(f"covariance, {block.start} of {nodes.size} nodes")
            own = nodes[block]
            columns = np.zeros((self._scales.size, own.size))
            columns[own, np.arange(own.size)] = scales[block]
            covariance[:, block] = self._precision.solve(columns)[nodes]
        covariance *= self.outputscale * scales[:, None]
        return 0.5 * (covariance + covariance.T)

    def covariance_product(self, out: IntArray, into: IntArray, V: FloatArray) -> FloatArray:
        columns = spread(self.prior.graph, into, self._scales[into, None] * V)
        solved = self._precision.solve(columns)[out]
        return np.asarray(self.outputscale * self._scales[out, None] * solved)

    def _smoothed_draws(self, noisy: FloatArray, nodes: IntArray, error: float) -> FloatArray:
        return self._smoothed(noisy)[nodes]

    def log_evidence(self) -> float:
        """Log evidence of Y, summed over outputs, from the same factor."""
        prior = self._own_prior
        evidence = PrecisionEvidence(prior.graph, prior.power, self.nodes, self._Y)
        # The factor is shared: it is in use here.
        assert self._precision is not None
        return evidence.log_evidence(prior.kernel, self.outputscale, self.noise)

    @property
    def _own_prior(self) -> SolvePrior:
        prior = unscaled(self.prior)
        assert isinstance(prior, SolvePrior)
        return prior

    @cached_property
    def _scales(self) -> FloatArray:
        """Scales d (n_nodes,) of the nodes; ones where there are none."""
        graph = self.prior.graph
        return np.ones(graph.n_nodes) if graph.node_scale is None else graph.node_scale

    @cached_property
    def _precision(self) -> ObservedPrecision:
        """The precision `M = (I + s L~)^p + diag(w)` of the function given the observations."""
        prior, ratio = self._own_prior, self.noise / self.outputscale
        counts = np.bincount(self.nodes, minlength=self._scales.size)
        pattern = power_pattern(prior.graph, prior.power)
        return observed_precision(pattern, prior.scale, counts * self._scales**2 / ratio)

    @cached_property
    def _mean(self) -> FloatArray:
        return self._smoothed(self._Y)

    @cached_property
    def _variances(self) -> FloatArray:
        return self.outputscale * self._scales**2 * self._precision.variances

    def _smoothed(self, B: FloatArray) -> FloatArray:
        """`D M^-1 D P' B / r`, the mean (n_nodes, k) of all nodes given observations B (n, k)."""
        ratio = self.noise / self.outputscale
        pulled = spread(self.prior.graph, self.nodes, self._scales[self.nodes, None] * B)
        return self._scales[:, None] * self._precision.solve(pulled / ratio)

    def _slices(self, size: int) -> list[slice]:
        """Slices that cut columns of values at all nodes into blocks."""
        width = min(max(COLUMN_VALUES // self._scales.size, 1), BLOCK)
        return [slice(start, min(start + width, size)) for start in range(0, size, width)]
