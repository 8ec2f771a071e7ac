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

P and J enter by products alone. Any columns of the same second moments stand for them: for draws
`y ~ N(0, Sigma)` those of `J J'` are `H y` with `H = C^-1` at the observations, and those of `P' P`
are `(Sigma^-1 - H) y`, since `Sigma^-1 - H = P' P`. Both are uncorrelated. So large graphs take a
few solves instead of L (`sketched_form`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import linalg

from coupledgp.features import WalkFeatures
from coupledgp.features.walks.settings import WALKS_LIMIT
from coupledgp.ground.progress import silent
from coupledgp.inference.nodes.posterior import IterativePosterior
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
# Share of the standard deviation of the noise that solves of a sketch may be off.
SKETCH_ERROR = 0.01
# Steps to a factor of two of the roots of costs from which numbers of walkers are made, and of the
# common factor of all of them.
COST_STEPS, FACTOR_STEPS = 64, 1024
# Binary logarithms of the least root of a cost over the largest that is told from zero, and of the
# largest common factor.
LEAST_SHARE, MOST_FACTOR = -40.0, 64


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


def sketched_form(
    prior: GraphPrior,
    observed: IntArray,
    queries: IntArray,
    outputscale: float,
    noise: float,
    n_columns: int,
    seed: int,
) -> WalkerForm:
    """The form of the KL by random columns in place of P and J, whatever the number of nodes.

    Costs are off by some `sqrt(2 / n_columns)`, the same way for all draws of walkers. It takes
    `2 n_columns` solves by conjugate gradients.
    """
    n, rng = observed.size, np.random.default_rng(seed)
    rows = np.concatenate([observed, queries])
    nodes, places = np.unique(rows, return_inverse=True)
    values = np.sqrt(outputscale) * prior.sample(nodes, n_columns, rng)[places]
    values += np.sqrt(noise) * rng.standard_normal(values.shape)
    seen = np.zeros_like(values)
    seen[:n] = _solved(prior, observed, values[:n], outputscale, noise)
    asked = _solved(prior, rows, values, outputscale, noise) - seen
    summed = np.zeros((2, nodes.size, n_columns))
    for columns, found in zip(summed, (asked, seen), strict=True):
        np.add.at(columns, places, found / np.sqrt(n_columns))
    return WalkerForm.of(prior, nodes, summed[0], summed[1], outputscale, "kl")


def _solved(
    prior: GraphPrior, nodes: IntArray, values: FloatArray, outputscale: float, noise: float
) -> FloatArray:
    """`(v K + s I)^-1 values` at nodes (n,) for columns (n, k)."""
    if not nodes.size:
        return values
    posterior = IterativePosterior(prior, nodes, values, outputscale, noise)
    return posterior.solve_draws(values, SKETCH_ERROR, silent)


def spread_walkers(costs: FloatArray, budget: int) -> IntArray:
    """Numbers of walkers in proportion to the roots of costs q, at least one and at most 65535.

    `sum_i q_i / m_i` is least for them among all numbers of one sum. Roots are rounded to steps of
    a 64th of a factor of two, and the common factor is the largest of 1024 steps to a factor of
    two that keeps the budget. So the numbers do not hang on the last digits of costs.

    Parameters
    ----------
    costs
        Costs q (u,), not negative.
    budget
        Most walkers of all nodes together, at least u.
    """
    known = costs > 0
    if not known.any():
        return np.full(costs.size, min(budget // max(costs.size, 1), WALKS_LIMIT))
    steps = np.full(costs.size, -np.inf)
    steps[known] = np.rint(0.5 * COST_STEPS * np.log2(costs[known]))
    steps = np.maximum(steps - steps.max(), LEAST_SHARE * COST_STEPS)

    def numbers(factor: int) -> IntArray:
        wanted = np.exp2(steps / COST_STEPS + factor / FACTOR_STEPS)
        return np.clip(np.floor(wanted), 1, WALKS_LIMIT).astype(np.int64)

    low, high = 0, MOST_FACTOR * FACTOR_STEPS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if numbers(middle).sum() <= budget else (low, middle)
    return numbers(low)


def crossed_cost(draws: FloatArray, budget: int) -> tuple[float, float]:
    """Expected cost of spread walkers, and its standard error, from draws (k, u) of their costs.

    Numbers are made from every other draw and judged by those in between, both ways. The costs from
    which numbers are made would look too low.
    """
    parts = draws[0::2], draws[1::2]
    costs = [
        (judged / spread_walkers(made.mean(axis=0), budget)).sum(axis=1)
        for made, judged in (parts, parts[::-1])
    ]
    errors = [own.std(ddof=1) / np.sqrt(own.size) if own.size > 1 else np.inf for own in costs]
    return float(np.mean([own.mean() for own in costs])), float(np.hypot(errors[0], errors[1]) / 2)
