"""PageRank error `|rho^ - rho|_2` of coupled walkers against i.i.d. (A11; figure 9).

"Variance-reducing couplings", appendix E.3: m = 2 walkers for each node, p in {.1, ..., .9}, sigma
with n = 10 quantiles solved on the Erdos-Renyi graph of 100 nodes, 1000 repeats, connected graphs
of 34 to 2708 nodes (the largest component of cora here has 2485). The paper claims that sigma is at
least as good as i.i.d. and antithetic walkers everywhere. "Distance" is (sigma - other) in standard
errors of the paired difference, negative where sigma is better.

    COUPLEDGP_DATA=FOLDER python benchmarks/reproduction/pagerank_errors.py [--json FILE]
"""

from __future__ import annotations

import argparse

import networkx as nx
import numpy as np
from graph_common import (
    Cell,
    JsonLines,
    claim,
    mean_and_error,
    n_errors,
    record_cells,
    standard_error,
    table,
    with_error,
)
from record import Record, command
from study_options import Results, add_options, chosen, parse_options

from coupledgp import pagerank
from coupledgp.graphs import Graph
from coupledgp.ground.progress import reporter
from coupledgp.random import FloatArray
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
HALTS = tuple(k / 10 for k in range(1, 10))
N_WALKS = 2


def errors(graph: Graph, p: float, coupling: str, repeats: int) -> FloatArray:
    """Error of each repeat."""
    own = nx.from_scipy_sparse_array(graph.closed.adjacency)
    exact = nx.pagerank(own, alpha=1 - p, tol=1e-13, max_iter=2000)
    truth = np.array([exact[node] for node in range(graph.n_nodes)])
    estimates = (pagerank(graph, p, N_WALKS, coupling, seed) for seed in range(repeats))
    return np.array([float(np.linalg.norm(estimate - truth)) for estimate in estimates])


def ratio_of_means(values: FloatArray, base: FloatArray) -> tuple[float, float]:
    """`mean(values) / mean(base)` of paired repeats, and its standard error."""
    ratio = float(values.mean() / base.mean())
    return ratio, ratio * standard_error(values / values.mean() - base / base.mean())


def main() -> None:
    """Print a table of errors over those of i.i.d. walkers, and how the claim fares."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--graphs", nargs="+", default=list(NAMES))
    parser.add_argument("--halts", nargs="+", type=float, default=list(HALTS))
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--json", help="also write every figure to this file, one object a line")
    parser.add_argument("--record", action="store_true", help="write the record")
    add_options(parser, COUPLINGS, walkers=True)
    arguments = parse_options(parser)
    if arguments.quick:
        arguments.graphs, arguments.halts, arguments.repeats = arguments.graphs[:1], [0.5], 20
    own = dict(zip(COUPLINGS, COUPLINGS, strict=True))
    couplings = list(own | chosen(arguments, own))
    lines, rows, cells = JsonLines(arguments.json), [], list[Cell]()
    results = Results("n_walks", ("error",))
    with reporter("pagerank") as tick:
        for name in arguments.graphs:
            graph = graphs.load(name).graph
            for p in arguments.halts:
                tick(f"{name} p={p}")
                found = {c: errors(graph, p, c, arguments.repeats) for c in couplings}
                for label, values in found.items():
                    for seed, value in enumerate(values):
                        results.add(f"{name} p={p}", label, N_WALKS, seed, value)
                gaps = [mean_and_error(found["sigma"] - found[c]) for c in COUPLINGS[:2]]
                ratios = [ratio_of_means(found[c], found["iid"]) for c in couplings[1:]]
                to_iid, to_antithetic = (gap / error for gap, error in gaps)
                shown = dict(zip(couplings[1:], ratios, strict=True))
                cells.append(Cell(name, p, shown, (to_iid, to_antithetic)))
                base = mean_and_error(found["iid"])
                rows.append(
                    [name, graph.n_nodes, p, f"{base[0]:.5f}"]
                    + [with_error(*ratio) for ratio in ratios]
                    + [n_errors(*gap) for gap in gaps]
                )
                for coupling, (ratio, error) in zip(couplings[1:], ratios, strict=True):
                    lines.write(
                        graph=name, p_halt=p, coupling=coupling, repeats=arguments.repeats,
                        ratio=ratio, ratio_error=error, iid_error=base[0],
                    )  # fmt: skip
    header = ["graph", "N", "p", "iid error", *couplings[1:]]
    print(table([*header, "distance to iid", "distance to antithetic"], rows), "\n")
    print(claim(np.array([cell.gaps for cell in cells])))
    if arguments.record:
        kept = Record("pagerank_errors", command())
        protocol = f"{arguments.repeats} repeats of each cell (published: 1000)."
        record_cells(kept.item("variance-reducing-couplings", "Figure 9"), cells, protocol)
        kept.write()
    if arguments.couplings is not None:
        results.print_comparisons()
    results.write(arguments.output)


if __name__ == "__main__":
    main()
