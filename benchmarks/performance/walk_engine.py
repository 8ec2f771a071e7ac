"""Speed and memory of the walk engine, beside gathering without counting and plain numpy walkers.

All systems take turns in one run, and medians are printed, with their ratio to each of the limits:

* `sample_walks`: walks, duplicates merged, in compact form; `sample_walk_features`: features of one
  series, weighed while the walkers walk; both with lengths drawn;
* walkers one after the other that count nothing, in a plain compiled loop over the rows of the
  graph's arrays;
* the engine's own walkers that count nothing (`walk_ends`), in lockstep;
* random reads by the same threads from an array of the size of the graph's edges. Walkers that
  read once for each step, anywhere in such a graph, cannot be much faster;
* with `--numpy`, walkers in numpy that move in lockstep, with visits as one sparse matrix for each
  step, or merged as the engine does.

With `--memory` the script prints the bytes of the results and the peak of the resident memory
beyond the graph, each in a process of its own. With `--rows` it computes some rows of walk features
on a graph of 10^5 nodes instead, by sparse products and by products with the whole graph.

    python benchmarks/performance/walk_engine.py --nodes 1000000
    python benchmarks/performance/walk_engine.py --memory
    python benchmarks/performance/walk_engine.py --rows 500
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numba
import numpy as np
from scipy import sparse

import coupledgp as cgp
from coupledgp.couplings import GeometricLaw, IidLengths, MatchedLaw
from coupledgp.couplings.walkers.steps import INDEPENDENT
from coupledgp.features import (
    WalkFeatures,
    plan_hops,
    sample_walk_features,
    sample_walks,
    walked_series,
)
from coupledgp.features.walks.compiled_steps import moves_of
from coupledgp.features.walks.engine import walk_ends
from coupledgp.features.walks.lengths import lengths_of
from coupledgp.kernels import HeatKernel

SERIES = 0.8 ** np.arange(11)
CHUNK = 16_384  # rows whose lengths are drawn at once for walkers that count nothing


def erdos_renyi(n_nodes: int, degree: int = 10) -> cgp.Graph:
    """Pairs of nodes at random, each at most once."""
    pairs = np.random.default_rng(0).integers(n_nodes, size=(2, n_nodes * degree // 2))
    low, high = pairs.min(axis=0), pairs.max(axis=0)
    code = np.unique((low * n_nodes + high)[low < high])
    return cgp.Graph.from_edges(code // n_nodes, code % n_nodes, n_nodes=n_nodes)


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
    """Read at random, the place in the upper bits of a product instead of a remainder."""
    total = np.zeros(n_blocks, np.int64)
    size = np.uint64(values.size)
    for block in numba.prange(n_blocks):
        state = np.uint64(block + 1) * np.uint64(0x9E3779B97F4A7C15)
        found = np.int64(0)
        for _ in range(per_block):
            state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
            found += values[((state >> np.uint64(32)) * size) >> np.uint64(32)]
        total[block] = found
    return total


@numba.njit(parallel=True)
def _one_by_one(indptr, indices, nodes, n_walks, p, cut):  # type: ignore[no-untyped-def]
    """Walkers that count nothing, one after the other."""
    ends = np.empty((nodes.size, n_walks), np.int64)
    for row in numba.prange(nodes.size):
        state = np.uint64(row + 1) * np.uint64(0x9E3779B97F4A7C15)
        for walker in range(n_walks):
            node = nodes[row]
            for _ in range(cut):
                state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
                if np.float64(state >> np.uint64(32)) < p * 2.0**32:
                    break
                state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
                degree = np.uint64(indptr[node + 1] - indptr[node])
                if degree == 0:
                    break
                node = indices[indptr[node] + np.int64(((state >> np.uint64(32)) * degree) >> 32)]
            ends[row, walker] = node
    return ends


def lockstep(graph: cgp.Graph, nodes: np.ndarray, args: argparse.Namespace) -> None:
    """The engine's independent walkers, lengths drawn, nothing counted."""
    moves = moves_of(graph, np.inf)
    draw = lengths_of(IidLengths(), GeometricLaw(args.p), args.cut, 0, args.walks)
    for start in range(0, nodes.size, CHUNK):
        rows = nodes[start : start + CHUNK]
        walk_ends(0, rows, draw(rows), INDEPENDENT, moves)


def seconds(function: Callable[[], object]) -> tuple[float, float]:
    """Wall and processor seconds of one call."""
    wall, cpu = time.perf_counter(), time.process_time()
    function()
    return time.perf_counter() - wall, time.process_time() - cpu


LIMITS = ("nothing counted, one by one", "nothing counted, in lockstep", "random reads")


def systems(graph: cgp.Graph, args: argparse.Namespace) -> dict[str, Callable[[], object]]:
    """Functions to time, the limits last."""
    nodes = np.arange(min(args.starts, graph.n_nodes))
    given = {"max_length": args.cut, "nodes": nodes, "generator": 0}
    runs: dict[str, Callable[[], object]] = {
        coupling: partial(sample_walks, graph, args.walks, args.p, coupling, **given)
        for coupling in ("iid", "stratified+systematic", "iid+repelling")
    }
    runs["iid, one series"] = partial(
        sample_walk_features, graph, SERIES, args.walks, args.p, "iid", **given
    )
    if args.numpy:
        runs["numpy, a matrix a step"] = partial(numpy_walks, graph, nodes, args, False)
        runs["numpy, merged"] = partial(numpy_walks, graph, nodes, args, True)
    runs[LIMITS[0]] = partial(
        _one_by_one, graph.indptr, graph.indices, nodes, args.walks, args.p, args.cut
    )
    runs[LIMITS[1]] = partial(lockstep, graph, nodes, args)
    values, reads = np.arange(graph.indices.size), int(n_moves(nodes.size, args))
    runs[LIMITS[2]] = partial(_reads, values, 64, reads // 64)
    return runs


def n_moves(n_rows: int, args: argparse.Namespace) -> float:
    """Moves of all walkers on average."""
    return n_rows * args.walks * ((1 - args.p) ** np.arange(1, args.cut + 1)).sum()


def engine(name: str, graph: cgp.Graph, args: argparse.Namespace) -> None:
    """Print walkers and moves a second of all systems, and ratios of processor seconds."""
    runs = systems(graph, args)
    n_rows = min(args.starts, graph.n_nodes)
    for run in runs.values():
        run()
    taken: dict[str, list[tuple[float, float]]] = {key: [] for key in runs}
    for _ in range(args.rounds):
        for key, run in runs.items():
            taken[key].append(seconds(run))
    middle = {key: np.median(np.array(pairs), axis=0) for key, pairs in taken.items()}
    print(f"\n{name}: {graph}, walks from {n_rows} nodes, m={args.walks}, p={args.p}")
    print(f"{'':30s}{'wall':>9s}{'processor':>11s}{'ns a move':>11s}   ratio to the limits")
    for key, (wall, cpu) in middle.items():
        ratios = "".join(f"{cpu / middle[limit][1]:7.2f}" for limit in LIMITS)
        each = 1e9 * cpu / n_moves(n_rows, args)
        print(f"  {key:28s}{wall:7.2f} s{cpu:9.2f} s{each:11.1f}  {ratios}", flush=True)


GRAPHS = {"Erdos-Renyi": erdos_renyi, "grid": grid, "Barabasi-Albert": barabasi_albert}
RESULTS = ("walks", "features of one series", "walks and features")


def memory_use(name: str, args: argparse.Namespace) -> None:
    """Print the bytes of each result and the peak of memory, from processes of their own."""
    print(f"\n{name}, {args.nodes} nodes, m={args.walks}, p={args.p}")
    for result in RESULTS:
        command = [sys.executable, __file__, "--peak", name, result, "--nodes", str(args.nodes)]
        subprocess.run(command, check=True)


def peak(name: str, result: str, args: argparse.Namespace) -> None:
    """Print the bytes of one result and the peak of resident memory beyond what was there."""
    graph = GRAPHS[name](args.nodes)
    given = {"coupling": "iid", "max_length": args.cut, "generator": 0}

    def made(nodes: np.ndarray | None) -> tuple[int, int, object]:
        if result == "features of one series":
            found = sample_walk_features(graph, SERIES, args.walks, args.p, nodes=nodes, **given)
            n_bytes = found.data.nbytes + found.indices.nbytes + found.indptr.nbytes
            return n_bytes, found.nnz, found
        walks = sample_walks(graph, args.walks, args.p, nodes=nodes, **given)
        features = None if result == "walks" else walks.features(SERIES)
        n_bytes = walks.nbytes + (0 if features is None else features.data.nbytes)
        return n_bytes, walks.visits.entries.size, (walks, features)

    made(np.arange(1000))  # compiles
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak so far
    size, n_items, _kept = made(None)
    most = resident("VmHWM") - before
    print(
        f"  {result:24s} {size / 1e6:7.0f} MB, {size / n_items:5.2f} bytes a visit, "
        f"peak {most / 1e6:7.0f} MB, {most / size:5.2f} times the result",
        flush=True,
    )


def resident(entry: str) -> int:
    """An entry of this process's status in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(entry + ":"))


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
    parser.add_argument("--numpy", action="store_true", help="time walkers in numpy too")
    parser.add_argument("--memory", action="store_true", help="measure memory instead")
    parser.add_argument("--peak", nargs=2, metavar=("GRAPH", "RESULT"), help="memory of one result")
    parser.add_argument("--rows", type=int, default=0, help="measure few rows instead")
    args = parser.parse_args()
    if args.peak:
        peak(*args.peak, args)
    elif args.memory:
        for name in GRAPHS:
            memory_use(name, args)
    elif args.rows:
        for name in ("grid", "Barabasi-Albert"):
            few_rows(name, GRAPHS[name](100_000), args)
    else:
        for name, make in GRAPHS.items():
            engine(name, make(args.nodes), args)


if __name__ == "__main__":
    main()
