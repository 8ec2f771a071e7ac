"""The inverse covariance of observations on the nodes of a graph, from any posterior of f.

With the posterior covariance V of f at the observed nodes it is `(I - V / s) / s`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from coupledgp.gp.inverse_covariance import (
    DenseInverse,
    InverseCovariance,
    RootInverse,
    SolvedInverse,
)
from coupledgp.inference.nodes.leading import LeadingPosterior
from coupledgp.inference.nodes.posterior import DensePosterior, GraphPosterior
from coupledgp.random import FloatArray, IntArray


class NodeInverse(InverseCovariance):
    """Blocks of `C^-1` from variances and covariances of a posterior that has a factor.

    Parameters
    ----------
    posterior
        The posterior, whose weights are `C^-1 y`.
    """

    def __init__(self, posterior: GraphPosterior) -> None:
        self.posterior, self.residuals = posterior, posterior.weights

    def diagonal(self, rows: IntArray) -> FloatArray:
        noise = self.posterior.noise
        kept = 1 - self.posterior.variance(self.posterior.nodes[rows]) / noise
        # An observation that nothing else informs: the difference may round to zero.
        return np.asarray(np.maximum(kept, np.finfo(float).eps) / noise)

    def blocks(self, groups: list[IntArray]) -> Iterator[FloatArray]:
        noise = self.posterior.noise
        for group in groups:
            covariance = self.posterior.covariance(self.posterior.nodes[group])
            yield (np.eye(group.size) - covariance / noise) / noise


def node_inverse(
    posterior: GraphPosterior, errors: FloatArray, most_solves: int
) -> InverseCovariance:
    """The inverse covariance of the observations of a posterior of f.

    Parameters
    ----------
    posterior
        The posterior.
    errors
        Normalised targets less the posterior mean of f, (n, k).
    most_solves
        Largest number of solves, where there is no factor.
    """
    if isinstance(posterior, LeadingPosterior):
        return RootInverse(posterior.noise, errors, *posterior.whitened_root)
    if isinstance(posterior, DensePosterior):
        return DenseInverse(posterior.factor, posterior.weights)
    if posterior.has_all_variances:
        return NodeInverse(posterior)
    advice = (
        "raise exact_variances, ask for some rows only (max_rows of a report), or fit with "
        "solver='dense'"
    )
    return SolvedInverse(posterior.solve, posterior.weights, most_solves, advice)
