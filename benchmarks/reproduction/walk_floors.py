"""How near couplings of walk lengths come to the least error that any of them can have.

No coupling of lengths is below walkers that never halt (`theory.walk_length_floor`). The kernel is
the 2-regularised Laplacian (sigma = 1), the law geometric, and errors are those of the kernel
between different nodes, relative to that of independent lengths. The floor has a closed form; those
of antithetic, sigma-coupled and stratified lengths are measured. "gained" is the share of the
possible gain, `(1 - ratio) / (1 - floor)`.

    COUPLEDGP_DATA=FOLDER python benchmarks/reproduction/walk_floors.py [--walks 2 16] [--quick]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
from graph_common import Target, root_ratio, standard_error, table, with_error

from coupledgp import theory
from coupledgp.features import sample_walks
from coupledgp.ground.progress import reporter
from coupledgp.kernels import RegularizedLaplacianKernel
from coupledgp.random import FloatArray
from data_loaders import graphs

GRAPHS = ("karate", "dolphins", "polbooks", "football", "news_2cl1", "eu-core")
COUPLINGS = ("antithetic", "sigma", "stratified")
CHANCES = (0.1, 0.3, 0.5)
KERNEL = RegularizedLaplacianKernel(1.0, 2.0)


def squared_errors(
    target: Target, n_walks: int, p_halt: float, coupling: str, draws: int
) -> FloatArray:
    """Squared relative errors (draws,) of the kernel between different nodes."""
    found = []
    for seed in range(draws):
        walks = sample_walks(
            target.graph,
            n_walks,
            p_halt,
            coupling,
            max_length=target.series.size - 1,
            generator=seed,
            modulation=target.series,
        )
        phi = walks.features(target.series)
        gap = (phi @ phi.T).toarray() - target.K
        np.fill_diagonal(gap, 0.0)
        found.append(float(np.square(gap).sum()) / target.squared_norm)
    return np.array(found)


def row_of(name: str, n_walks: int, p_halt: float, draws: int) -> list[str]:
    """Floor and measured ratios of one graph, number of walkers and chance of halting."""
    target = Target(graphs.load(name).graph, KERNEL)
    floor = theory.walk_length_floor(target.graph, KERNEL, n_walks, p_halt=p_halt)
    base = squared_errors(target, n_walks, p_halt, "iid", draws)
    error = 0.5 * standard_error(base) / np.sqrt(base.mean())
    cells = [
        name, str(n_walks), f"{p_halt:g}", with_error(floor.independent, floor.independent_error),
        with_error(float(np.sqrt(base.mean())), float(error)),
        with_error(floor.ratio, floor.ratio_error),
    ]  # fmt: skip
    for coupling in COUPLINGS:
        own = squared_errors(target, n_walks, p_halt, coupling, draws)
        ratio, spread = root_ratio(own, base)
        cells.append(f"{with_error(ratio, spread)}, {(1 - ratio) / (1 - floor.ratio):.0%}")
    return cells


def main(given: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", nargs="+", default=list(GRAPHS))
    parser.add_argument("--walks", nargs="+", type=int, default=[2])
    parser.add_argument("--chances", nargs="+", type=float, default=list(CHANCES))
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--quick", action="store_true", help="one small graph, few draws")
    arguments = parser.parse_args(given)
    if arguments.quick:
        arguments.graphs, arguments.chances, arguments.draws = ["karate"], [0.3], 4
    rows = []
    with reporter("floors") as tick:
        for name in arguments.graphs:
            for m in arguments.walks:
                for p in arguments.chances:
                    tick(f"{name}, m={m}, p={p:g}")
                    rows.append(row_of(name, m, p, arguments.draws))
    header = ["graph", "m", "p", "error of iid, closed form", "measured", "floor / iid"]
    print(table([*header, *(f"{name} / iid, gained" for name in COUPLINGS)], rows))


if __name__ == "__main__":
    main()
