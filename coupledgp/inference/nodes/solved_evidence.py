"""Evidence of exact kernels on graphs with scales of their nodes, such as those of operators.

There `K + r I` of all nodes is no function of `W~`, so that only the block of the observed nodes
serves. On large graphs it comes from solves where the kernel is a whole power of the Laplacian: on
irregular triangulations a Chebyshev series would take thousands of terms.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.graphs import Graph
from coupledgp.inference.nodes.cholesky_prior import SolvePrior, power_and_scale
from coupledgp.inference.nodes.exact_evidence import (
    SCALE_TOLERANCE,
    SPECTRAL_LIMIT,
    ExactKernelProblem,
    ObservedEvidence,
    block_limit,
)
from coupledgp.inference.nodes.moments import (
    BlockColumns,
    GraphMoments,
    LargeGraphMoments,
    SpectralMoments,
)
from coupledgp.inference.nodes.priors import unit_blocks
from coupledgp.kernels import GraphKernel
from coupledgp.random import FloatArray, IntArray


class SolvedEvidence(ObservedEvidence):
    """Terms from `K[T, T]` by a factorisation of `I + s L~` for each kernel.

    Kernels that are no whole powers take their blocks from moments.

    Parameters
    ----------
    graph, nodes, Y
        The graph, node numbers (n,), centred targets (n, n_outputs).
    make_moments
        Makes the moments of other kernels.
    """

    def __init__(
        self,
        graph: Graph,
        nodes: IntArray,
        Y: FloatArray,
        make_moments: Callable[[BlockColumns], GraphMoments],
    ) -> None:
        super().__init__(graph, nodes, Y, make_moments)
        self._solved = lru_cache(maxsize=1)(self._solve)

    def traces(self, kernel: GraphKernel) -> FloatArray:
        """Number of nodes times the mean at the observed ones, which sets the unit of the noise."""
        blocks = self._blocks(kernel, SCALE_TOLERANCE)
        diagonals = np.diagonal(blocks, axis1=1, axis2=2)
        scale = self.graph.node_scale
        if scale is not None:
            diagonals = diagonals * scale[self._unique] ** 2
        means: FloatArray = self.graph.n_nodes * diagonals.mean(axis=1)
        return means

    def _blocks(self, kernel: GraphKernel, tolerance: float) -> FloatArray:
        try:
            power_and_scale(kernel)
        except InvalidInputError:
            return super()._blocks(kernel, tolerance)
        return self._solved(kernel)

    def _solve(self, kernel: GraphKernel) -> FloatArray:
        """Blocks of a kernel that is a whole power, and their slopes."""
        prior = SolvePrior(self.graph, kernel)
        nodes, parts = self._unique, unit_blocks(self._unique.size)
        K = np.hstack([prior.product(nodes, nodes, E) for E in parts])
        slopes = np.concatenate([prior.gradient_products(nodes, E) for E in parts], axis=2)
        blocks = np.concatenate([K[None], slopes])
        return 0.5 * (blocks + blocks.transpose(0, 2, 1))


def scaled_kernel_problem(
    graph: Graph, nodes: IntArray, Y: FloatArray, seed: int
) -> ExactKernelProblem:
    """Return the evidence of all observations, or of some of them where there are too many.

    Parameters
    ----------
    graph
        The graph, with scales of its nodes.
    nodes, Y
        Node numbers (n,), centred targets (n, n_outputs).
    seed
        Seed of the choice of a part and of the probes of traces.
    """
    limit, is_whole = block_limit(graph), True
    if nodes.size > limit:
        part = np.sort(np.random.default_rng(seed).choice(nodes.size, limit, replace=False))
        nodes, Y, is_whole = nodes[part], Y[part], False
    if graph.n_nodes <= SPECTRAL_LIMIT:
        return ExactKernelProblem(ObservedEvidence(graph, nodes, Y, SpectralMoments), is_whole)
    make = partial(LargeGraphMoments, seed=seed)
    return ExactKernelProblem(SolvedEvidence(graph, nodes, Y, make), is_whole)
