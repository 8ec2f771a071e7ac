"""What the walkers of each node cost a posterior, to second order in their errors.

Rows `Phi_i` of different nodes are independent, and `Phi_i - F_i` is a mean over the walkers of
node i. So the KL of the exact posterior to that of the walks, averaged over targets and to first
order in one over the numbers m_i of walkers, is a sum over nodes:

    E KL = sum_i q_i / m_i .

n observations and p queries have the exact covariance `Sigma = K + s I`, with the lower factor
`Sigma = L L'`, observations first. Rows of `L^-1` then are `J'` of the observations, which whitens
them, and P of the queries given them. With `e_i` one at the rows of node i, `b_i = P e_i`,
`h_i = J' e_i`, and `g = v F (psi_i - F_i)'` for the row `psi_i` of one walker,

    q_i = E[ 1/2 (|b_i|^2 |P g|^2 + (b_i . P g)^2)
             + 1/2 (|b_i|^2 |J' g|^2 + |P g|^2 |h_i|^2 + 2 (b_i . P g) (h_i . J' g)) ] .

With `M = S^1/2 P` for P, and twice the second line alone, this is the expected excess of the
squared error of the mean. The first line without observations is the KL of the priors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import linalg

from coupledgp.features import WalkFeatures
from coupledgp.inference.nodes.priors import GraphPrior, WalkPrior, spread
from coupledgp.kernels import SeriesOperator
from coupledgp.linalg.matrices import cholesky
from coupledgp.random import FloatArray, IntArray

Measure = Literal["kl", "prior", "squared error"]
# Factors of the two lines of a form.
LINES: dict[Measure, tuple[float, float]] = {
    "kl": (0.5, 0.5), "prior": (0.5, 0.0), "squared error": (0.0, 1.0),
}  # fmt: skip
# Relative error of the series of the root of the kernel.
ROOT_TOLERANCE = 1e-8


@dataclass(frozen=True, eq=False)
class WalkerForm:
    """Costs of errors of the features of nodes.

    Attributes
    ----------
    nodes : IntArray (u,)
        The nodes of observations and queries, each once.
    asked, seen : FloatArray (u, k), (u, l)
        `b_i` and `h_i` of each node.
    through : FloatArray (n_nodes, k + l)
        Matrix R with `(P g, J' g) = (psi_i - F_i) R`.
    centre : FloatArray (u, k + l)
        `F_i R`.
    measure : str
        `"kl"` of the posteriors or `"prior"`, that of the priors, nats over all queries jointly; or
        `"squared error"`, in units of y squared.
    """

    nodes: IntArray
    asked: FloatArray
    seen: FloatArray
    through: FloatArray
    centre: FloatArray
    measure: Measure = "kl"

    @classmethod
    def of(
        cls,
        prior: GraphPrior,
        nodes: IntArray,
        asked: FloatArray,
        seen: FloatArray,
        outputscale: float,
        measure: Measure,
    ) -> WalkerForm:
        """The form with the columns `b_i` and `h_i` of nodes under an exact prior."""
        graph = prior.graph
        scale = np.ones(graph.n_nodes) if graph.node_scale is None else graph.node_scale
        columns = scale[nodes, None] * np.hstack([asked, seen])
        root = SeriesOperator(graph, prior.kernel.root, ROOT_TOLERANCE)
        through = outputscale * root.matmat(spread(graph, nodes, columns))
        centre = scale[nodes, None] * root.matmat(through)[nodes]
        return cls(nodes, asked, seen, through, centre, measure)

    def costs(self, features: WalkFeatures) -> FloatArray:
        """Cost (u,) of the errors of one draw of the features of the nodes, each node alone."""
        k = self.asked.shape[1]
        moved = features.matmat(self.through) - self.centre
        by_asked, by_seen = moved[:, :k], moved[:, k:]
        own, other = _squares(self.asked), _squares(self.seen)
        asked, seen = _squares(by_asked), _squares(by_seen)
        across = (self.asked * by_asked).sum(axis=1)
        between = (self.seen * by_seen).sum(axis=1)
        first, second = LINES[self.measure]
        found = first * (own * asked + across**2)
        found += second * (own * seen + asked * other + 2 * across * between)
        return np.asarray(found)


def sampled_costs(
    forms: Sequence[WalkerForm], prior: WalkPrior, n_walks: int, n_draws: int, seed: int
) -> FloatArray:
    """Draws of `q_i` for the walkers of a prior and forms of the same nodes.

    Each is the cost of one draw of walkers, times their number: of one walker where walkers are
    independent, else of `n_walks` that are joined by their coupling.

    Returns
    -------
    FloatArray (n_forms, n_draws, u)
    """
    together, rng = 1 if prior.coupling.is_independent else n_walks, np.random.default_rng(seed)
    found = np.empty((len(forms), n_draws, forms[0].nodes.size))
    for draw in range(n_draws):
        walked = prior.resampled(together, int(rng.integers(2**63)))
        features = walked.features(forms[0].nodes)
        for costs, form in zip(found, forms, strict=True):
            costs[draw] = together * form.costs(features)
    return found


def _squares(rows: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("ij,ij->i", rows, rows))


def exact_form(
    prior: GraphPrior,
    observed: IntArray,
    queries: IntArray,
    outputscale: float,
    noise: float,
    measure: Measure = "kl",
) -> WalkerForm:
    """The form by dense algebra, O((n + p)^3).

    Parameters
    ----------
    prior
        The exact prior, of unit output scale.
    observed, queries
        Nodes (n,) and (p,), which may repeat.
    outputscale, noise
        Variances of the function and the noise.
    measure
        What the form measures, see `WalkerForm`.
    """
    n = observed.size
    nodes, places = np.unique(np.concatenate([observed, queries]), return_inverse=True)
    covariance = outputscale * prior.matrix(nodes, nodes)[places[:, None], places]
    covariance[np.diag_indices_from(covariance)] += noise
    if measure == "prior":  # of which no observation tells
        covariance[n:, :n] = covariance[:n, n:] = 0.0
    factor = np.asarray(cholesky(covariance, "K + noise I of the pilot"))
    ones = np.zeros((places.size, nodes.size))
    ones[np.arange(places.size), places] = 1.0
    whitened = linalg.solve_triangular(factor, ones, lower=True)
    asked = factor[n:, n:] @ whitened[n:] if measure == "squared error" else whitened[n:]
    return WalkerForm.of(prior, nodes, asked.T, whitened[:n].T, outputscale, measure)
