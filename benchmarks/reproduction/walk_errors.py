"""Relative Frobenius error of kernel estimates against i.i.d. walkers (A7; MATH 9).

For every coupling, number of walkers, chance of halting, kernel and number of exact hops: error
of `Phi Phi'` over that of i.i.d. walkers without hops. "Variance-reducing couplings", figures 3
and 10, are the columns iid, antithetic and sigma of the regularised Laplacian with m = 2; the
claim is that sigma is equal or better at every p on every graph. The Frobenius norm is taken of
32 random sign vectors' images (1 to 2 % on these graphs); sigma is solved on the Erdos-Renyi
graph with n = 30.

    COUPLEDGP_DATA=FOLDER python benchmarks/reproduction/walk_errors.py [--quick]
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np
from graph_common import PAPER_GRAPHS, exact_products, frobenius, table

from coupledgp.couplings import available_walker_couplings
from coupledgp.features import WalkFeatures, plan_hops, sample_walks
from coupledgp.graphs import Graph
from coupledgp.kernels import GraphKernel, HeatKernel, RegularizedLaplacianKernel
from data_loaders import graphs

KERNELS: dict[str, GraphKernel] = {
    "heat t=1": HeatKernel(1.0),
    "heat t=4": HeatKernel(4.0),
    "2-reg. Laplacian s=1": RegularizedLaplacianKernel(1.0, 2.0),
}


def error(
    graph: Graph,
    kernel: GraphKernel,
    n_walks: int,
    p_halt: float,
    coupling: str,
    seeds: range,
    n_hops: int = 0,
    law: str = "geometric",
) -> float:
    """Root mean squared relative Frobenius error over some draws."""
    probes = np.random.default_rng(0).choice([-1.0, 1.0], (graph.n_nodes, 32))
    exact = exact_products(graph, kernel, probes)
    plan = plan_hops(graph, kernel, n_walks, n_hops)
    squares = []
    for seed in seeds:
        walks = sample_walks(
            graph, n_walks, p_halt, coupling, law, generator=seed, modulation=kernel
        )
        features = WalkFeatures(walks, kernel, plan)
        gap = features.matmat(features.rmatmat(probes)) - exact
        squares.append((gap**2).sum() / probes.shape[1])
    return float(np.sqrt(np.mean(squares))) / frobenius(graph, kernel)


def main() -> None:
    """Print one table a kernel and number of walkers, and one of exact hops."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", nargs="+", default=list(PAPER_GRAPHS))
    parser.add_argument("--walks", nargs="+", type=int, default=[2, 16, 64])
    parser.add_argument("--halts", nargs="+", type=float, default=[0.1, 0.3, 0.5])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="cora, m = 16, p = 0.1 only")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.graphs, arguments.walks, arguments.halts = ["cora"], [16], [0.1]
    seeds = range(arguments.seeds)
    couplings = available_walker_couplings()
    for name, kernel in KERNELS.items():
        rows, hop_rows = [], []
        for set_name, m, p in itertools.product(arguments.graphs, arguments.walks, arguments.halts):
            graph = graphs.load(set_name).graph
            base = error(graph, kernel, m, p, "iid", seeds)
            ratios = [error(graph, kernel, m, p, c, seeds) / base for c in couplings[1:]]
            rows.append([set_name, m, p, base, *ratios])
            if p == arguments.halts[0] and m == 16:
                hops = [
                    error(graph, kernel, m, p, "stratified+systematic", seeds, r) / base
                    for r in range(5)
                ]
                hop_rows.append([set_name, m, p, *hops])
        header = ["graph", "m", "p", "iid error", *couplings[1:]]
        print(f"\n## {name}: error over that of i.i.d. walkers\n\n{table(header, rows)}")
        if hop_rows:
            header = ["graph", "m", "p", *(f"r={r}" for r in range(5))]
            title = "stratified+systematic with exact hops, over i.i.d. without"
            print(f"\n## {name}: {title}\n\n{table(header, hop_rows)}", flush=True)


if __name__ == "__main__":
    main()
