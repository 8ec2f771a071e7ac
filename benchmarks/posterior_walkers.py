"""Walkers spread over the nodes of a graph for its posterior, beside equal numbers, at one budget.

Half of the nodes is observed, the kernel is a heat kernel (t = 2) of mean diagonal one, the noise
.05, hyperparameters are known. Printed is KL(exact || walks) per hidden node, its mean over the
exact GP's own targets in closed form and over draws of the walkers, with one standard error over
draws and splits. "posterior" has `m_i` in proportion to the root of the cost of a walker
(`theory.walk_posterior_errors`), "sketch" the same by random columns, as beyond 2000 nodes, and
"twice" twice as many walkers at observed nodes as at others. All have the same number of walkers in
all. Columns of KLs are expected / measured.

    COUPLEDGP_DATA=FOLDER python benchmarks/posterior_walkers.py [--hops 0 1] [--quick]
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from coupledgp import theory
from coupledgp.couplings import parse_walker_coupling
from coupledgp.couplings.walkers.registry import parse_length_law
from coupledgp.diagnostics import gaussian_kl
from coupledgp.features import plan_hops, walked_series
from coupledgp.features.walks.modulation import SERIES_TOLERANCE
from coupledgp.features.walks.settings import tuned
from coupledgp.gp.walker_spread import SKETCH_COLUMNS
from coupledgp.graphs import Graph
from coupledgp.ground.progress import reporter
from coupledgp.inference.nodes.priors import SpectralPrior, WalkPrior
from coupledgp.inference.nodes.walker_form import sampled_costs, sketched_form, spread_walkers
from coupledgp.kernels import HeatKernel
from coupledgp.random import FloatArray, IntArray
from data_loaders import graphs

GRAPHS = ("eu-core", "databases", "arenas-email", "news_2cl1", "football")
NOISE, TIME, SHARE = 0.05, 2.0, 0.5
KERNEL = HeatKernel(TIME)
WAYS = ("equal", "posterior", "sketch", "twice")


@dataclass(frozen=True)
class Split:
    """A graph whose nodes are observed or hidden, and its exact posterior."""

    graph: Graph
    seed: int

    @cached_property
    def prior(self) -> SpectralPrior:
        """The exact prior."""
        return SpectralPrior(self.graph, KERNEL)

    @cached_property
    def outputscale(self) -> float:
        """The variance with which the mean of the diagonal is one."""
        return 1 / float(self.prior.diagonal(np.arange(self.graph.n_nodes)).mean())

    @cached_property
    def nodes(self) -> tuple[IntArray, IntArray]:
        """Observed and hidden nodes."""
        order = np.random.default_rng([9, self.seed]).permutation(self.graph.n_nodes)
        return order[: round(SHARE * order.size)], order[round(SHARE * order.size) :]

    def law(self, gram: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Weights of the mean (p, n), predictive covariance (p, p), and covariance (n, n)."""
        seen, hidden = self.nodes
        noisy = self.outputscale * gram + NOISE * np.eye(len(gram))
        own = noisy[np.ix_(seen, seen)]
        gain = np.linalg.solve(own, noisy[np.ix_(seen, hidden)]).T
        return gain, noisy[np.ix_(hidden, hidden)] - gain @ noisy[np.ix_(seen, hidden)], own

    @cached_property
    def exact(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The law of the exact kernel."""
        every = np.arange(self.graph.n_nodes)
        return self.law(self.prior.matrix(every, every))

    def kl(self, phi: FloatArray) -> float:
        """KL per hidden node of features, its mean over targets of the exact law."""
        (gain, covariance, own), (other, approximate, _) = self.exact, self.law(phi @ phi.T)
        zero, p = np.zeros(len(gain)), len(gain)
        moved = other - gain
        whitened = np.linalg.solve(approximate, moved @ own)
        return (
            gaussian_kl(zero, covariance, zero, approximate) + 0.5 * float(np.vdot(whitened, moved))
        ) / p


def walkers_of(split: Split, m: int, hops: int, coupling: str) -> WalkPrior:
    """The prior of m walkers of each node, as the closed form has them."""
    plan = plan_hops(split.graph, KERNEL, m, hops)
    series = walked_series(KERNEL, plan, SERIES_TOLERANCE)
    law = parse_length_law("matched", 0.1, lambda: series)
    longest = law.natural_length()
    own = tuned(parse_walker_coupling(coupling), law, series, longest)
    return WalkPrior(split.graph, KERNEL, plan, m, own, law, longest, 0)


def found(
    split: Split, m: int, hops: int, coupling: str, draws: int
) -> dict[str, tuple[float, FloatArray]]:
    """Expected KL and measured ones (draws,) of each way."""
    graph, (seen, hidden) = split.graph, split.nodes
    given = {"outputscale": split.outputscale, "noise": NOISE, "kernel": KERNEL}
    expected = theory.walk_posterior_errors(
        graph, graph.label_all(seen), n_walks=m, coupling=coupling, exact_hops=hops, **given
    )
    prior, budget = walkers_of(split, m, hops, coupling), m * graph.n_nodes
    scales = split.outputscale, NOISE
    sketch = sketched_form(split.prior, seen, hidden, *scales, SKETCH_COLUMNS, 3)
    costs = sampled_costs((sketch,), prior, m, 48, 11)[0].mean(axis=0)
    twice = np.full(graph.n_nodes, 1.0)
    twice[seen] = 2.0
    numbers = {
        "equal": np.full(graph.n_nodes, m),
        "posterior": expected.spread(),
        "sketch": spread_walkers(costs, budget),
        "twice": np.maximum(np.floor(twice * budget / twice.sum()), 1).astype(np.int64),
    }
    kls = {"equal": expected.kl.value, "posterior": expected.spread_kl.value}
    every = np.arange(graph.n_nodes)
    measured = {
        way: np.array(
            [
                split.kl(prior.resampled(own, 1000 * split.seed + k).features(every).rows())
                for k in range(draws)
            ]
        )
        for way, own in numbers.items()
    }
    return {way: (kls.get(way, expected.kl_with(numbers[way])[0]), measured[way]) for way in WAYS}


def main() -> None:
    """Print one table for each number of hops and coupling."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", nargs="+", default=list(GRAPHS))
    parser.add_argument("--hops", nargs="+", type=int, default=[0])
    parser.add_argument("--couplings", nargs="+", default=["iid", "stratified+systematic"])
    parser.add_argument("--walks", type=int, default=16)
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="one small graph")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.graphs, arguments.couplings = ["karate"], ["iid"]
        arguments.walks = 64
    with reporter("walkers") as tick:
        for hops in arguments.hops:
            for coupling in arguments.couplings:
                lines = []
                for name in arguments.graphs:
                    tick(f"{name}, {hops} hops, {coupling}")
                    graph = graphs.load(name).graph.closed
                    lines.append(line(name, graph, hops, coupling, arguments))
                print(f"\n{coupling}, {hops} exact hops, m = {arguments.walks}\n")
                print("| graph | equal | posterior / equal | sketch / equal | twice / equal |")
                print("|---|---|---|---|---|")
                print("\n".join(lines), flush=True)


def line(name: str, graph: Graph, hops: int, coupling: str, arguments: argparse.Namespace) -> str:
    """A row: expected / measured KL of equal walkers, and expected / measured ratios to it."""
    splits = [
        found(Split(graph, seed), arguments.walks, hops, coupling, arguments.draws)
        for seed in range(arguments.splits)
    ]
    expected = {way: np.mean([own[way][0] for own in splits]) for way in WAYS}
    measured = {way: np.concatenate([own[way][1] for own in splits]) for way in WAYS}
    base = measured["equal"]
    error = base.std(ddof=1) / np.sqrt(base.size)
    cells = [f"{expected['equal']:.3g} / {base.mean():.3g} ({error:.1g})"]
    for way in WAYS[1:]:
        ratio = measured[way].mean() / base.mean()
        gaps = measured[way] - ratio * base
        error = gaps.std(ddof=1) / np.sqrt(gaps.size) / base.mean()
        cells.append(f"{expected[way] / expected['equal']:.2f} / {ratio:.2f} ({error:.2f})")
    return f"| {name} | {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
