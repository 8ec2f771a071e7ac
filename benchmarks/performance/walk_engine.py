"""Speed of the walk engine, beside plain numpy walkers and the limit that memory sets.

All systems take turns in one run, and medians are printed, in walkers per second:

* `sample_walks`: walks, duplicates merged, in compact form;
* walkers in numpy that move in lockstep, with visits as one sparse matrix for each step, or merged
  as the engine does;
* random reads by the same threads from an array of the size of the graph's edges. Walkers that
  read once for each step, anywhere in such a graph, cannot be faster.

With `--rows` the script computes some rows of walk features on a graph of 10^5 nodes instead, by
sparse products and by products with the whole graph.

    python benchmarks/performance/walk_engine.py --nodes 1000000
    python benchmarks/performance/walk_engine.py --rows 500
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import numba
import numpy as np
from scipy import sparse

import coupledgp as cgp
from coupledgp.couplings import MatchedLaw
from coupledgp.features import WalkFeatures, plan_hops, sample_walks, walked_series
from coupledgp.kernels import HeatKernel


def grid(n_nodes: int) -> cgp.Graph:
    """A square grid."""
    side = round(np.sqrt(n_nodes))
    number = np.arange(side * side).reshape(side, side)
    sources = np.concatenate([number[:, :-1].ravel(), number[:-1].ravel()])
    targets = np.concatenate([number[:, 1:].ravel(), number[1:].ravel()])
    return cgp.Graph.from_edges(sources, targets, n_nodes=side * side)


@numba.njit
def _attach(n_nodes, m, rng):  # type: ignore[no-untyped-def]
    """Edges of a Barabasi-Albert graph: every new node takes m distinct ends of former edges."""
    ends = np.empty(2 * m * (n_nodes - m), np.int64)
    filled = 0
    for new in range(m, n_nodes):
        start = filled
        while filled < start + 2 * m:
            picked = ends[rng.integers(0, start)] if start else np.int64((filled - start) // 2)
            known = False
            for k in range(start, filled, 2):
                known |= ends[k] == picked
            if not known:
                ends[filled], ends[filled + 1] = picked, new
                filled += 2
    return ends.reshape(-1, 2)


def barabasi_albert(n_nodes: int, m: int = 5) -> cgp.Graph:
    """A Barabasi-Albert graph: hubs, and neighbours all over memory."""
    edges = _attach(n_nodes, m, np.random.default_rng(0))
    return cgp.Graph.from_edges(edges[:, 0], edges[:, 1], n_nodes=n_nodes)


def numpy_walks(graph: cgp.Graph, nodes: np.ndarray, args: argparse.Namespace, merge: bool) -> None:
    """All walkers in lockstep, vectorised.

    Visits are counted in one sparse matrix a step, or merged into what the engine gives: counts
    in order of row, node and step.
    """
    rng = np.random.default_rng(0)
    row = np.repeat(np.arange(nodes.size), args.walks)
    position, degree = nodes[row], np.diff(graph.indptr)
    codes = []
    for step in range(1, args.cut + 1):
        alive = rng.random(position.size) >= args.p
        position, row = position[alive], row[alive]
        edge = graph.indptr[position] + (rng.random(position.size) * degree[position]).astype(int)
        position = graph.indices[edge].astype(np.int64)
        if merge:
            codes.append((row * graph.n_nodes + position) * (args.cut + 1) + step)
        else:
            shape = (nodes.size, graph.n_nodes)
            sparse.coo_array((np.ones(row.size), (row, position)), shape=shape).tocsr()
    if merge:
        np.unique(np.concatenate(codes), return_counts=True)


@numba.njit(parallel=True)
def _reads(values, n_blocks, per_block):  # type: ignore[no-untyped-def]
    total = np.zeros(n_blocks, np.int64)
    for block in numba.prange(n_blocks):
        state = np.uint64(block + 1) * np.uint64(0x9E3779B97F4A7C15)
        found = np.int64(0)
        for _ in range(per_block):
            state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
            found += values[np.int64(state >> np.uint64(33)) % values.size]
        total[block] = found
    return total


def seconds(function: Callable[[], object]) -> tuple[float, float]:
    """Wall and processor seconds of one call."""
    wall, cpu = time.perf_counter(), time.process_time()
    function()
    return time.perf_counter() - wall, time.process_time() - cpu


def engine(name: str, graph: cgp.Graph, args: argparse.Namespace) -> None:
    """Print walkers and moves a second of the three."""
    nodes = np.arange(min(args.starts, graph.n_nodes))
    n_walkers = nodes.size * args.walks
    per_walk = ((1 - args.p) ** np.arange(1, args.cut + 1)).sum()
    values = np.arange(graph.indices.size)
    runs = {
        coupling: lambda coupling=coupling: sample_walks(
            graph, args.walks, args.p, coupling, max_length=args.cut, nodes=nodes, generator=0
        )
        for coupling in ("iid", "stratified+systematic", "iid+repelling")
    }
    runs["numpy, a matrix a step"] = lambda: numpy_walks(graph, nodes, args, False)
    runs["numpy, merged"] = lambda: numpy_walks(graph, nodes, args, True)
    reads = 64 * (int(n_walkers * per_walk) // 64)
    runs["random reads"] = lambda: _reads(values, 64, reads // 64)
    for run in runs.values():
        run()
    taken = {key: [] for key in runs}
    for _ in range(args.rounds):
        for key, run in runs.items():
            taken[key].append(seconds(run))
    print(f"\n{name}: {graph}, walks from {nodes.size} nodes, m={args.walks}, p={args.p}")
    for key, pairs in taken.items():
        wall, cpu = np.median(np.array(pairs), axis=0)
        moves = n_walkers * per_walk
        print(
            f"  {key:23s} {wall:7.2f} s wall  {cpu:7.2f} s processor  "
            f"{n_walkers / wall / 1e6:7.2f} M walkers/s  {moves / cpu / 1e6:7.1f} M moves/cpu-s"
        )


def few_rows(name: str, graph: cgp.Graph, args: argparse.Namespace) -> None:
    """Print seconds of some rows of features, by sparse and by whole-graph products."""
    kernel = HeatKernel(4.0)
    nodes = np.random.default_rng(0).choice(graph.n_nodes, args.rows, replace=False)
    print(f"\n{name}: {graph}, {args.rows} rows, heat t=4")
    for n_hops in (0, 1, 2, 4):
        plan = plan_hops(graph, kernel, args.walks, n_hops)
        series = walked_series(kernel, plan, 1e-6)
        walks = sample_walks(
            graph, args.walks, length_law=MatchedLaw(series), nodes=nodes, generator=0
        )
        features = WalkFeatures(walks, kernel, plan)
        whole = np.eye(args.rows)
        full_product = partial(features.rmatmat, whole)
        taken = [(seconds(features.sparse_rows), seconds(full_product)) for _ in range(args.rounds)]
        local, full = np.median(np.array(taken), axis=0)
        nnz = features.sparse_rows().nnz / args.rows
        print(
            f"  r={n_hops}  nonzeros a row {nnz:9.1f}  local {local[1]:8.4f} cpu-s  "
            f"whole graph {full[1]:7.3f} cpu-s  ratio {full[1] / local[1]:8.1f}"
        )


def main() -> None:
    """Read the options and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--starts", type=int, default=1_000_000, help="nodes walked from")
    parser.add_argument("--walks", type=int, default=16, help="walkers a node")
    parser.add_argument("--p", type=float, default=0.1, help="chance of halting")
    parser.add_argument("--cut", type=int, default=10, help="longest walk")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=0, help="measure few rows instead")
    args = parser.parse_args()
    measure = few_rows if args.rows else engine
    n_nodes = 100_000 if args.rows else args.nodes
    measure("grid", grid(n_nodes), args)
    measure("Barabasi-Albert", barabasi_albert(n_nodes), args)


if __name__ == "__main__":
    main()
