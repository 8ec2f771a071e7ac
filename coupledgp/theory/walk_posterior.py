"""Expected distance of a graph posterior by random walks from the exact one.

To second order in the error of the kernel, averaged over targets of the exact GP's own law and to
first order in one over the numbers of walkers,

    E KL = sum_i q_i / m_i ,

a sum over the nodes that are observed or asked for, with the cost `q_i` of one walker of node i
(formula in `inference.nodes.walker_form`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.couplings import WalkerCouplingLike, parse_walker_coupling
from coupledgp.couplings.walkers.registry import LengthLawLike, WalkerCoupling, parse_length_law
from coupledgp.errors import InvalidInputError, PrecisionWarning
from coupledgp.features import plan_hops, walked_series
from coupledgp.features.walks.lengths import SERIES_TOLERANCE
from coupledgp.features.walks.settings import check_max_length, check_n_walks, tuned, walks_of
from coupledgp.graphs import Graph
from coupledgp.graphs.graph import check_graph, check_nodes
from coupledgp.ground.memory import check_memory
from coupledgp.ground.validation import check_positive, check_positive_int
from coupledgp.ground.visible import warn
from coupledgp.inference.nodes.priors import SeriesPrior, WalkPrior
from coupledgp.inference.nodes.scaled_prior import scaled
from coupledgp.inference.nodes.walker_form import (
    exact_form,
    sampled_costs,
)
from coupledgp.inference.spectra.posterior_draw import MOST_KL
from coupledgp.kernels import GraphKernelLike, parse_graph_kernel
from coupledgp.random import FloatArray, IntArray, Seed, as_rng
from coupledgp.theory.posterior import ExpectedError

# Draws of walkers from which costs are estimated.
N_DRAWS = 48


@dataclass(frozen=True, eq=False)
class WalkPosteriorErrors:
    """Expected errors of a graph posterior by random walks.

    Attributes
    ----------
    nodes : numpy.ndarray (u,)
        Labels of the nodes that are observed or asked for.
    n_walks : IntArray (u,)
        Their numbers of walkers.
    n_queries : int
        Number of nodes that are asked for.
    coupling : str
        Joint law of the walkers of a node.
    draws : FloatArray (n_draws, u)
        Draws of the cost q of each node, nats per query for one walker. Of walkers that are not
        independent it is the cost of the mean number of walkers, times that number.
    kl : ExpectedError
        KL from the exact posterior of observations to the one by walks, and back, nats per query;
        both agree to second order.
    prior_kl : ExpectedError
        The same of the priors.
    squared_error : ExpectedError
        Excess of the mean's expected squared error over that of the exact mean, in units of y
        squared; over twice the RMSE it is the excess of the RMSE.

    Examples
    --------
    >>> import coupledgp as cgp
    >>> from coupledgp.theory import walk_posterior_errors
    >>> star = cgp.Graph.from_edges([0] * 7, range(1, 8))
    >>> hyper = {"kernel": "heat", "outputscale": 1.0, "noise": 0.1}
    >>> found = walk_posterior_errors(star, [0, 1, 2], n_walks=200, n_draws=8, **hyper)
    >>> found.kl_with(400)[0] < found.kl.value
    True
    """

    nodes: Any
    n_walks: IntArray
    n_queries: int
    coupling: str
    draws: FloatArray
    kl: ExpectedError
    prior_kl: ExpectedError
    squared_error: ExpectedError

    @property
    def costs(self) -> FloatArray:
        """Costs q (u,), nats per query for one walker."""
        return np.asarray(self.draws.mean(axis=0))

    @property
    def cost_errors(self) -> FloatArray:
        """Standard errors (u,) of the costs."""
        return np.asarray(self.draws.std(axis=0, ddof=1) / np.sqrt(len(self.draws)))

    def kl_with(self, n_walks: ArrayLike) -> tuple[float, float]:
        """Expected KL of other numbers of walkers, and its standard error, nats per query.

        Parameters
        ----------
        n_walks
            One number for all nodes, or one for each (u,), all positive.

        Raises
        ------
        InvalidInputError
            A number is not positive, or there are not as many as nodes.
        """
        numbers = np.asarray(n_walks, dtype=np.float64)
        if numbers.shape not in ((), self.n_walks.shape) or not (numbers > 0).all():
            raise InvalidInputError(
                f"n_walks: expected a positive number, or one for each of {self.n_walks.size} "
                f"nodes, got {n_walks!r:.60}"
            )
        return _mean_and_error((self.draws / numbers).sum(axis=1))

    def walks_for(self, kl_target: float) -> int:
        """Least number of walkers of each node whose expected KL is `kl_target`.

        Parameters
        ----------
        kl_target
            Nats per query.

        Raises
        ------
        InvalidInputError
            The target is not positive.
        """
        total = float(self.costs.sum())
        return max(1, int(np.ceil(total / check_positive(kl_target, "kl_target"))))


def walk_posterior_errors(
    graph: Graph,
    observed: Any,
    queries: Any = None,
    n_walks: int | ArrayLike = 32,
    *,
    kernel: GraphKernelLike,
    outputscale: float,
    noise: float,
    coupling: WalkerCouplingLike = "iid",
    length_law: LengthLawLike = "matched",
    p_halt: float = 0.1,
    exact_hops: int = 0,
    max_length: int | None = None,
    n_draws: int = N_DRAWS,
    random_state: Seed = 0,
) -> WalkPosteriorErrors:
    """Expected KL and squared error of a graph posterior by random walks, without targets.

    They hold to second order, up to a KL of some .1 nats per query. O((n + q)^3) for n observations
    and q queries, and `n_draws` draws of walkers.

    Parameters
    ----------
    graph
        The graph.
    observed, queries
        Labels of the nodes (n,) that are observed, and of those (q,) at which joint laws are
        compared: all others if left out, or all if there are no others.
    n_walks
        Number of walkers of each node, or one number for each node of the graph (n_nodes,).
    kernel, outputscale, noise
        Graph kernel, and the variances in units of y squared.
    coupling, length_law, p_halt, exact_hops, max_length
        Walkers, as in `GraphGPRegressor`; the matched law is that of the walked series alone.
    n_draws
        Draws of the walkers from which costs are estimated, at least four.
    random_state
        Seed of the draws.

    Raises
    ------
    InvalidInputError
        A node is none of the graph, or a value is out of range.
    MemoryLimitError
        The covariances of all nodes do not fit into memory.

    Warns
    -----
    PrecisionWarning
        The expected KL is above .1 nats per query, where the second order does not hold.

    Examples
    --------
    >>> import coupledgp as cgp
    >>> from coupledgp.theory import walk_posterior_errors
    >>> ring = cgp.Graph.from_edges(range(8), [1, 2, 3, 4, 5, 6, 7, 0])
    >>> hyper = {"kernel": "heat", "outputscale": 1.0, "noise": 0.1}
    >>> found = walk_posterior_errors(ring, [0, 2, 4], n_walks=200, n_draws=8, **hyper)
    >>> found.n_queries, 0 < found.kl.value < 0.1
    (5, True)
    """
    closed = check_graph(graph).closed
    seen = check_nodes(closed, observed)
    others = np.setdiff1d(np.arange(closed.n_nodes), seen)
    if queries is not None:
        asked = check_nodes(closed, queries)
    else:
        asked = others if others.size else np.arange(closed.n_nodes)
    v, s = check_positive(outputscale, "outputscale"), check_positive(noise, "noise")
    given = check_n_walks(closed, n_walks)
    check_positive_int(n_draws, "n_draws", minimum=4)
    n_rows = seen.size + asked.size
    check_memory(100.0 * n_rows**2, f"queries: {n_rows} rows with those observed", "ask for fewer")
    parsed, chosen = parse_graph_kernel(kernel), parse_walker_coupling(coupling)
    exact = scaled(SeriesPrior(closed, parsed))
    forms = [
        exact_form(exact, seen, asked, v, s, measure)
        for measure in ("kl", "prior", "squared error")
    ]
    nodes = forms[0].nodes
    counts = walks_of(closed, given, nodes)
    mean = max(round(float(counts.mean())), 1)
    plan = plan_hops(closed, parsed, mean, exact_hops)
    series = walked_series(parsed, plan, SERIES_TOLERANCE)
    law = parse_length_law(length_law, p_halt, lambda: series)
    longest = check_max_length(max_length, law, series)
    rng = as_rng(random_state)

    def sampled(joint: WalkerCoupling) -> FloatArray:
        own = tuned(joint, law, series, longest)
        prior = WalkPrior(closed, parsed, plan, mean, own, law, longest, 0)
        seed = int(rng.integers(2**63))
        return sampled_costs(forms, prior, mean, n_draws, seed) / asked.size

    draws = sampled(chosen)
    alone = draws if chosen.is_independent else sampled(WalkerCoupling())
    kl, prior_kl, squared = (_expected(d, a, counts) for d, a in zip(draws, alone, strict=True))
    if kl.value > MOST_KL:
        warn(
            f"n_walks: the expected KL of {kl.value:.2g} nats per query is above "
            f"{MOST_KL:g}, beyond which the second order does not hold and the KL may be far more",
            PrecisionWarning,
        )
    return WalkPosteriorErrors(
        nodes=closed.label_all(nodes),
        n_walks=counts,
        n_queries=asked.size,
        coupling=str(chosen),
        draws=draws[0],
        kl=kl,
        prior_kl=prior_kl,
        squared_error=squared,
    )


def _mean_and_error(values: FloatArray) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(values.size))


def _expected(draws: FloatArray, alone: FloatArray, counts: IntArray) -> ExpectedError:
    value, error = _mean_and_error((draws / counts).sum(axis=1))
    return ExpectedError(value, error, _mean_and_error((alone / counts).sum(axis=1))[0])
