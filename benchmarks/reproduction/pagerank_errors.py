"""PageRank error `|rho^ - rho|_2` of coupled walkers against i.i.d. (A11; figure 9).

m = 2 walkers a node, sigma of n = 10 quantiles solved on an Erdos-Renyi graph of 100 nodes. The
papers' claim: sigma is at least as good everywhere.

    COUPLEDGP_DATA=FOLDER python benchmarks/reproduction/pagerank_errors.py --repeats 1000
"""

from __future__ import annotations

import argparse

import numpy as np
from graph_common import table

from coupledgp import pagerank
from coupledgp.graphs import Graph
from coupledgp.pagerank import exact_pagerank
from data_loaders import graphs

NAMES = (
    "karate",
    "dolphins",
    "polbooks",
    "football",
    "news_2cl1",
    "eu-core",
    "arenas-email",
    "eurosis",
    "citeseer",
    "cora",
)
COUPLINGS = ("iid", "antithetic", "sigma", "stratified+systematic")


def errors(graph: Graph, p: float, coupling: str, repeats: int) -> tuple[float, float]:
    """Mean error and its standard error."""
    truth = exact_pagerank(graph, p)
    found = [
        float(np.linalg.norm(pagerank(graph, p, 2, coupling, seed) - truth))
        for seed in range(repeats)
    ]
    return float(np.mean(found)), float(np.std(found) / np.sqrt(repeats))


def main() -> None:
    """Print a table of errors over those of i.i.d. walkers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", nargs="+", default=list(NAMES))
    parser.add_argument("--halts", nargs="+", type=float, default=[0.1, 0.3, 0.5, 0.7, 0.9])
    parser.add_argument("--repeats", type=int, default=1000)
    arguments = parser.parse_args()
    rows = []
    for name in arguments.graphs:
        graph = graphs.load(name).graph
        for p in arguments.halts:
            found = [errors(graph, p, coupling, arguments.repeats) for coupling in COUPLINGS]
            base = found[0][0]
            ratios = [f"{value / base:.3f} ({error / base:.3f})" for value, error in found[1:]]
            rows.append([name, graph.n_nodes, p, base, *ratios])
    print(table(["graph", "N", "p", "iid error", *COUPLINGS[1:]], rows))


if __name__ == "__main__":
    main()
