"""Relative Frobenius error of kernel estimates against that of i.i.d. walkers (MATH 9).

A first table has every coupling (lengths x steps) with m in {2, 4, 16, 64} walkers, chances of
halting p in {.1, .3, .5} and the law matched to the kernel, for heat kernels with t = 1 and t = 4
and the 2-regularised Laplacian with s = 1. A second one has exact hops r = 0..4 under both laws.
"steps" is the mean number of moves of a walker. Errors are root mean squares over draws, relative to
`|K|_F`; the standard error of a ratio is that of paired draws. Sigma is solved on the Erdos-Renyi
graph of 100 nodes with n = 30 for the kernel and p in use.

    COUPLEDGP_DATA=FOLDER python benchmarks/reproduction/walk_errors.py [--json FILE] [--quick]

With `--couplings` (see `study_options`) the first one stands for i.i.d. walkers, and exact hops are
left out; `--graphs` takes files of edges too.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from graph_common import (
    PAPER_GRAPHS,
    JsonLines,
    LawLike,
    Target,
    coupling_errors,
    hop_errors,
    mean_length,
    root_mean,
    root_ratio,
    table,
    with_error,
)
from study_options import Results, add_options, chosen, parse_options

from coupledgp.couplings import WalkerCouplingLike, available_walker_couplings
from coupledgp.graphs.hops import HopNodes
from coupledgp.ground.progress import reporter
from coupledgp.kernels import GraphKernel, HeatKernel, RegularizedLaplacianKernel
from coupledgp.random import FloatArray
from data_loaders import graphs

KERNELS: dict[str, GraphKernel] = {
    "heat t=1": HeatKernel(1.0),
    "heat t=4": HeatKernel(4.0),
    "2-reg. Laplacian s=1": RegularizedLaplacianKernel(1.0, 2.0),
}
LAWS: tuple[LawLike, ...] = (0.1, 0.3, 0.5, "matched")
BEST = "stratified+systematic"
HOP_NODES: tuple[tuple[int, HopNodes], ...] = (
    (0, "power"),
    (1, "power"),
    (2, "power"),
    (3, "power"),
    (4, "power"),
    (3, "chebyshev"),
    (4, "chebyshev"),
)
Tables = dict[str, list[list[str]]]
Tick = Callable[[str], None]


def load_targets(name: str) -> dict[str, Target]:
    """The three kernels on a graph."""
    graph = graphs.load(name).graph
    return {label: Target(graph, kernel) for label, kernel in KERNELS.items()}


def couplings_of(
    name: str,
    n_walks: int,
    draws: int,
    couplings: dict[str, WalkerCouplingLike],
    tables: Tables,
    lines: JsonLines,
    results: Results,
    tick: Tick,
) -> None:
    """Add the rows of one graph and number of walkers: every coupling under every law."""
    targets = load_targets(name)
    labels = list(couplings)
    for law in LAWS:
        tick(f"{name} m={n_walks} p={law}")
        found = coupling_errors(targets, n_walks, law, couplings, range(draws))
        for kernel, target in targets.items():
            base = found[kernel, labels[0]]
            for label in labels:
                for seed, square in enumerate(found[kernel, label]):
                    results.add(f"{name} {kernel} p={law}", label, n_walks, seed, square)
            steps = mean_length(law, target.series)
            row = [name, str(n_walks), str(law), f"{steps:.2g}", with_error(*root_mean(base))]
            for label in labels[1:]:
                ratio, error = root_ratio(found[kernel, label], base)
                row.append(with_error(ratio, error))
            tables.setdefault(kernel, []).append(row)
            for label in labels:
                ratio, error = root_ratio(found[kernel, label], base)
                lines.write(
                    what="coupling", graph=name, kernel=kernel, n_walks=n_walks, law=law,
                    coupling=label, draws=draws, error=root_mean(found[kernel, label])[0],
                    ratio=ratio, ratio_error=error, mean_length=steps,
                )  # fmt: skip


def hops_of(
    name: str, n_walks: int, draws: int, p: float, tables: Tables, lines: JsonLines, tick: Tick
) -> None:
    """Add the rows of exact hops on one graph, over i.i.d. geometric walkers without."""
    seeds = range(draws)
    for kernel, target in load_targets(name).items():
        tick(f"{name} m={n_walks} hops, {kernel}")
        base = hop_errors(target, n_walks, p, "iid", 0, "power", seeds)
        laws: tuple[tuple[LawLike, str], ...] = ((p, "iid"), (p, BEST), ("matched", BEST))
        for law, coupling in laws:
            row = [name, str(n_walks), coupling, str(law)]
            for hops, nodes in HOP_NODES:
                squares = hop_errors(target, n_walks, law, coupling, hops, nodes, seeds)
                row.append(hop_cell(squares, base))
                ratio, error = root_ratio(squares, base)
                lines.write(
                    what="hops", graph=name, kernel=kernel, n_walks=n_walks, law=law,
                    coupling=coupling, hops=hops, nodes=nodes, draws=draws,
                    error=root_mean(squares)[0], ratio=ratio, ratio_error=error,
                )  # fmt: skip
            tables.setdefault(kernel, []).append(row)


def hop_cell(squares: FloatArray, base: FloatArray) -> str:
    """A ratio with its error, in digits that show small ones."""
    ratio, error = root_ratio(squares, base)
    return f"{ratio:.2g} ({error:.1g})"


def main() -> None:
    """Print one table a kernel of couplings, and one of exact hops."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--graphs",
        nargs="+",
        default=list(PAPER_GRAPHS),
        help="or any of data_loaders.graphs",
    )
    parser.add_argument("--walks", nargs="+", type=int, default=[2, 4, 16, 64])
    parser.add_argument(
        "--draws", nargs="+", type=int, default=[32, 24, 16, 8], help="draws for each of --walks"
    )
    parser.add_argument("--hop-halt", type=float, default=0.1, help="p of the tables of hops")
    parser.add_argument(
        "--json", help="also write every figure to this file, one JSON object a line"
    )
    add_options(parser, available_walker_couplings(), walkers=True)
    arguments = parse_options(parser)
    if arguments.quick:
        arguments.graphs, arguments.walks, arguments.draws = arguments.graphs[:1], [16], [4]
    if len(arguments.draws) != len(arguments.walks):
        parser.error(f"--draws: expected {len(arguments.walks)} numbers, got {arguments.draws}")
    lines, results = JsonLines(arguments.json), Results("n_walks", ("squared_error",))
    labels = available_walker_couplings()
    compared = chosen(arguments, dict(zip(labels, labels, strict=True)))
    couplings: Tables = {}
    hops: Tables = {}
    with reporter("walk errors") as tick:
        for name in arguments.graphs:
            for n_walks, draws in zip(arguments.walks, arguments.draws, strict=True):
                couplings_of(name, n_walks, draws, compared, couplings, lines, results, tick)
                if arguments.couplings is None:
                    hops_of(
                        name, n_walks, max(draws // 2, 4), arguments.hop_halt, hops, lines, tick
                    )
    first, *others = compared
    header = ["graph", "m", "p", "steps", f"{first} error", *others]
    for kernel, rows in couplings.items():
        print(
            f"## {kernel}: error over that of {first} walkers of the same law\n\n"
            f"{table(header, rows)}\n"
        )
    header = [
        "graph",
        "m",
        "coupling",
        "p",
        *(f"r={r} {n}" if r > 2 else f"r={r}" for r, n in HOP_NODES),
    ]
    for kernel, rows in hops.items():
        title = f"{kernel}: exact hops, over i.i.d. walkers with p={arguments.hop_halt:g} and none"
        print(f"## {title}\n\n{table(header, rows)}\n")
    if arguments.couplings is not None:
        results.print_comparisons()
    results.write(arguments.output)


if __name__ == "__main__":
    main()
