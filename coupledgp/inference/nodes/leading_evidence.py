"""Evidence of wide kernels from leading eigenpairs of `W~`, whatever the number of observations.

Beyond k pairs (l, U) such a kernel is a constant c, so that at the observed nodes
`A = U_T (g(l) - c) U_T' + (c + r) I`. With the triangle R of `[U_T, Y]` everything follows from
`P = R (g(l) - c) R' + (c + r) I` (Woodbury's rule in an orthonormal basis): an evaluation takes
O(j^3) for the j <= k pairs on which this kernel is not constant. The pairs come in descending
order, and those of fewer pairs are the corner of R. Nothing cancels, since the part of Y outside of
the span of `U_T` is the last rows of R.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg

from coupledgp.graphs import Graph
from coupledgp.graphs.eigenpairs import eigenvalue_counts
from coupledgp.graphs.spectrum import Eigenpairs
from coupledgp.inference.nodes.exact_evidence import (
    TOLERANCE_PER_RATIO,
    EvidenceTerms,
    ExactKernelEvidence,
    slopes_of,
    tolerance_for,
)
from coupledgp.inference.nodes.moments import constant_below, leading_of
from coupledgp.kernels import GraphKernel
from coupledgp.linalg.matrices import covariance_factor, log_determinant
from coupledgp.random import FloatArray, IntArray

# Share of the noise below which a pair is left out: it changes the last digit of the evidence.
UNSEEN = 1e-17
# Points at which kernels are looked at.
N_POINTS = 1024


def hidden_by_noise(ratio: float) -> float:
    """Error of a kernel, relative to its maximum, that the noise hides.

    No series has to reach it, so that it is as small under small noise as it has to be.
    """
    return min(TOLERANCE_PER_RATIO * ratio, tolerance_for(1.0))


def pairs_needed(
    graph: Graph, kernel: GraphKernel, ratio: float, tolerance: float | None = None
) -> int:
    """Estimate of how many leading eigenpairs a kernel has, from `eigenvalue_counts` alone.

    Parameters
    ----------
    graph, kernel
        The graph, and the kernel.
    ratio
        Noise ratio.
    tolerance
        Error relative to the kernel's maximum, below which kernel and slopes count as constant;
        None: the error that the noise hides.
    """
    if tolerance is None:
        tolerance = hidden_by_noise(ratio)
    # From 1 down to -1, points that lie the denser the nearer they are to 1.
    x = 1.0 - np.concatenate([[0.0], np.geomspace(1e-12, 2.0, N_POINTS)])
    needed = 0.0
    for f in (kernel.spectral, *slopes_of(kernel)):
        values = f(x)
        varies = np.abs(values - values[-1]) > tolerance * np.abs(values).max()
        if varies.any():
            edge = x[min(int(np.flatnonzero(varies)[-1]) + 1, x.size - 1)]
            needed = max(needed, eigenvalue_counts(graph).above(float(edge)))
    return min(int(np.ceil(needed)) + 1, graph.n_nodes)


class _PairValues(NamedTuple):
    """A kernel and its slopes on the pairs in use, and on all further eigenvalues.

    Attributes
    ----------
    rest, rest_slopes : float, FloatArray (n_parameters,)
        c and its slopes.
    above, above_slopes : FloatArray (j,), (n_parameters, j)
        `g(l) - c` and its slopes, eigenvalues descending.
    """

    rest: float
    rest_slopes: FloatArray
    above: FloatArray
    above_slopes: FloatArray


class LeadingEvidence(ExactKernelEvidence):
    """Terms of the evidence by eigenpairs, O(j^3) for the j pairs that a kernel needs.

    Observations of one node are replaced by their mean and the squares about it, weighted: with
    `c = 0` this changes nothing in `P`. Where nodes repeat, or have scales, c has to be zero.

    Parameters
    ----------
    graph, nodes, Y
        The graph, node numbers (n,), which may repeat, centred targets (n, n_outputs).
    pairs
        Leading eigenpairs of the graph; None: the pairs of `leading_of`.
    """

    def __init__(
        self, graph: Graph, nodes: IntArray, Y: FloatArray, pairs: Eigenpairs | None = None
    ) -> None:
        self.graph, (self.n_targets, self.n_outputs) = graph, Y.shape
        self._pairs = leading_of(graph) if pairs is None else pairs
        self._values = self._pairs.values[::-1].copy()
        unique, places, counts = np.unique(nodes, return_inverse=True, return_counts=True)
        means = np.zeros((unique.size, self.n_outputs))
        np.add.at(means, places, Y)
        means /= counts[:, None]
        self._needs_zero = unique.size < nodes.size or graph.node_scale is not None
        rows = self._pairs.vectors[unique, ::-1]
        self._shares = np.ones(self._values.size)
        if graph.node_scale is not None:
            rows = rows * graph.node_scale[unique, None]
            self._shares = graph.n_nodes * (rows**2).mean(axis=0)
        roots = np.sqrt(counts)[:, None]
        self._triangle = linalg.qr(
            np.hstack([roots * rows, roots * means]), mode="r", overwrite_a=True
        )[0][: self._values.size + self.n_outputs]
        self._scatter = float(((Y - means[places]) ** 2).sum())

    @property
    def n_pairs(self) -> int:
        """Number of eigenpairs."""
        return self._values.size

    def covers(self, kernel: GraphKernel, ratio: float, tolerance: float | None = None) -> bool:
        """Whether a kernel and its slopes are constant beyond the pairs, and zero where required.

        Parameters
        ----------
        kernel, ratio
            The kernel, and the noise ratio.
        tolerance
            Error of the kernel relative to its maximum; None: the error that the noise hides.
        """
        if tolerance is None:
            tolerance = hidden_by_noise(ratio)
        if not constant_below(self._pairs, [kernel.spectral, *slopes_of(kernel)], tolerance):
            return False
        values = kernel.spectral(np.append(self._values, -1.0))
        return not self._needs_zero or abs(values[-1]) <= tolerance * np.abs(values).max()

    def traces(self, kernel: GraphKernel) -> FloatArray:
        """`tr K` over all nodes and its gradient in theta, shape (1 + n_parameters,).

        On graphs with scales of their nodes the number of nodes times the mean at observed ones.
        """
        found = self._on_pairs(kernel, 0.0)
        rests = np.append(found.rest, found.rest_slopes)
        above = np.vstack([found.above, found.above_slopes])
        traces: FloatArray = self.graph.n_nodes * rests + above @ self._shares[: above.shape[1]]
        return traces

    def terms(self, kernel: GraphKernel, ratio: float) -> EvidenceTerms:
        """Terms of the evidence at a kernel and `ratio = noise / outputscale`, by eigenpairs.

        Raises
        ------
        NumericalError
            The covariance has no Cholesky factor.
        """
        found = self._on_pairs(kernel, ratio)
        noise, size = found.rest + ratio, found.above.size
        R, weights, outside = self._corner(size)
        p, n = len(R), self.n_targets
        P = (R * found.above) @ R.T
        P[np.diag_indices_from(P)] += noise
        factor = covariance_factor(P, noise)
        half = linalg.solve_triangular(factor[0], np.hstack([R, weights]), lower=factor[1])
        solved = linalg.solve_triangular(factor[0], half[:, size:], lower=factor[1], trans=1)
        inverse = linalg.solve_triangular(factor[0], np.eye(p), lower=factor[1])
        trace = (n - p) / noise + float((inverse**2).sum())  # of the inverse of A
        square = float((solved**2).sum()) + outside / noise**2  # of A^-1 Y
        per_pair = (half[:, :size] ** 2).sum(axis=0)
        images = ((R.T @ solved) ** 2).sum(axis=1)
        return EvidenceTerms(
            float((half[:, size:] ** 2).sum()) + outside / noise,
            (n - p) * float(np.log(noise)) + log_determinant(factor),
            -np.append(found.above_slopes @ images + found.rest_slopes * square, ratio * square),
            np.append(found.above_slopes @ per_pair + found.rest_slopes * trace, ratio * trace),
            0.0,
        )

    def _on_pairs(self, kernel: GraphKernel, ratio: float) -> _PairValues:
        """The kernel on the pairs that the noise does not hide, and beyond all pairs."""
        points = np.append(self._values, -1.0)
        table = np.vstack([kernel.spectral(points), kernel.spectral_gradient(points)])
        rests = np.zeros(len(table)) if self._needs_zero else table[:, -1]
        above = table[:, :-1] - rests[:, None]
        seen = np.flatnonzero(np.abs(above).max(axis=0) > UNSEEN * ratio)
        above = above[:, : int(seen[-1]) + 1 if seen.size else 1]
        return _PairValues(float(rests[0]), rests[1:], above[0], above[1:])

    def _corner(self, size: int) -> tuple[FloatArray, FloatArray, float]:
        """R (p, size) of the first pairs, `Q' Y` (p, n_outputs), and the squares outside of Q."""
        p = min(size, len(self._triangle))
        targets = self._triangle[:, self._values.size :]
        outside = float((targets[p:] ** 2).sum()) + self._scatter
        return self._triangle[:p, :size], targets[:p], outside
