"""Sigma-coupled walkers on the community graphs (A7; figures 3 and 10).

"Variance-reducing couplings", section 4.2 and appendix F.1: relative Frobenius error of the
2-regularised Laplacian (sigma = 1) with m = 2 walkers and p in {.1, ..., .5}; sigma is solved on
the Erdos-Renyi graph of 100 nodes with n = 30. The paper claims that sigma is equal to or better
than i.i.d. and antithetic walkers at every p on every graph. The default coupling of this package
is printed beside it.

Errors are root mean squares over draws, and ratios are those of paired draws. "Distance" is the
difference (sigma - other) in standard errors of it, negative where sigma is better.

    COUPLEDGP_DATA=FOLDER python benchmarks/reproduction/community_graphs.py [--json FILE]
"""

from __future__ import annotations

import argparse

import numpy as np
from graph_common import (
    COMMUNITY_GRAPHS,
    Cell,
    JsonLines,
    Target,
    claim,
    coupling_errors,
    n_errors,
    record_cells,
    root_mean,
    root_ratio,
    table,
    with_error,
)
from record import Record, command
from study_options import Results, add_options, chosen, parse_options

from coupledgp.ground.progress import reporter
from coupledgp.kernels import RegularizedLaplacianKernel
from coupledgp.random import FloatArray
from data_loaders import graphs

KERNEL = RegularizedLaplacianKernel(1.0, 2.0)
N_WALKS = 2
COUPLINGS = ("iid", "antithetic", "sigma", "stratified+systematic")
HALTS = (0.1, 0.2, 0.3, 0.4, 0.5)


def n_draws(n_nodes: int, work: int, least: int) -> int:
    """Draws that walk from `work` nodes in all, at least `least` and at most 1000."""
    return int(np.clip(work // n_nodes, least, 1000))


def distance(squares: FloatArray, other: FloatArray) -> tuple[float, float]:
    """Gap `ratio - 1` of paired errors, and its standard error."""
    ratio, error = root_ratio(squares, other)
    return ratio - 1.0, error


def record(cells: list[Cell], work: int, least: int) -> None:
    """Figure 3 has cora alone, figure 10 the other graphs."""
    kept = Record("community_graphs", command())
    protocol = (
        f"Draws of each cell: {work} over the number of nodes, at least {least} and at most 1000. "
        "The last coupling is this package's own."
    )
    for name, own in (("Figure 3", True), ("Figure 10", False)):
        chosen_cells = [cell for cell in cells if (cell.graph == "cora") is own]
        if chosen_cells:
            record_cells(kept.item("variance-reducing-couplings", name), chosen_cells, protocol)
    kept.write()


def main() -> None:
    """Print one row a graph and chance of halting, and how the claim fares."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--graphs", nargs="+", default=list(COMMUNITY_GRAPHS))
    parser.add_argument("--halts", nargs="+", type=float, default=list(HALTS))
    parser.add_argument("--work", type=int, default=100_000, help="start nodes in all draws")
    parser.add_argument("--json", help="also write every figure to this file, one object a line")
    parser.add_argument("--least", type=int, default=100, help="draws of the largest graphs")
    parser.add_argument("--record", action="store_true", help="write the record")
    add_options(parser, COUPLINGS, walkers=True)
    arguments = parse_options(parser)
    if arguments.quick:
        arguments.graphs, arguments.work = arguments.graphs[:1], 1
    lines, rows, cells = JsonLines(arguments.json), [], list[Cell]()
    own = dict(zip(COUPLINGS, COUPLINGS, strict=True))
    # The claim needs its own couplings; others stand beside them.
    couplings = own | chosen(arguments, own)
    results = Results("n_walks", ("squared_error",))
    with reporter("community graphs") as tick:
        for name in arguments.graphs:
            target = Target(graphs.load(name).graph, KERNEL)
            draws = n_draws(target.graph.n_nodes, arguments.work, arguments.least)
            for p in arguments.halts:
                tick(f"{name} p={p}")
                found = coupling_errors({"": target}, N_WALKS, p, couplings, range(draws))
                base = found["", "iid"]
                for label in couplings:
                    for seed, square in enumerate(found["", label]):
                        results.add(f"{name} p={p}", label, N_WALKS, seed, square)
                others = list(couplings)[1:]
                gaps = [distance(found["", "sigma"], found["", c]) for c in COUPLINGS[:2]]
                ratios = [root_ratio(found["", c], base) for c in others]
                shown = {c: root_ratio(found["", c], base) for c in COUPLINGS[1:]}
                to_iid, to_antithetic = (gap / error for gap, error in gaps)
                cells.append(Cell(name, p, shown, (to_iid, to_antithetic)))
                rows.append(
                    [name, target.graph.n_nodes, p, draws, with_error(*root_mean(base))]
                    + [with_error(*ratio) for ratio in ratios]
                    + [n_errors(*gap) for gap in gaps]
                )
                for coupling, (ratio, error) in zip(others, ratios, strict=True):
                    lines.write(
                        graph=name, p_halt=p, coupling=coupling, draws=draws,
                        ratio=ratio, ratio_error=error, iid_error=root_mean(base)[0],
                    )  # fmt: skip
    header = ["graph", "N", "p", "draws", "iid error", *list(couplings)[1:]]
    print(table([*header, "distance to iid", "distance to antithetic"], rows), "\n")
    print(claim(np.array([cell.gaps for cell in cells])))
    if arguments.record:
        record(cells, arguments.work, arguments.least)
    if arguments.couplings is not None:
        results.print_comparisons()
    results.write(arguments.output)


if __name__ == "__main__":
    main()
