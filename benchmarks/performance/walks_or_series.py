"""When walks are the best tool on a graph: walkers beside Chebyshev series and sparse solves.

The covariance `K` of 20 or 500 wanted nodes near each other, of 500 anywhere ("apart"), or products
with `K` of all nodes, by

* a Chebyshev series: of few nodes the cheaper of nested balls, where the k-th of q products with
  `W~` takes only the nodes within `min(k, q - k)` steps of a wanted one, and sparse rows of the
  kernel's root, each within q steps of its own node;
* a sparse factor of `I + s L~`, for the regularised Laplacian of exponent two;
* walkers behind 0 or 1 exact hops, of 20 nodes and of all also behind as many hops as
  `exact_hops="auto"` takes, under a matched law of lengths.

Every run of walkers is compared with the series of least work whose error is no larger. The table
has the run where walkers do best among those with an error of a tenth at most, or the most accurate
run if there is none (then walks never count as the least work): multiply-adds (a move of a walker
is one) and seconds of both, the advantage (operations of the series over those of the walkers:
above one walkers win), and the error of independent walkers as a multiple of those of couplings.
Errors are relative, in Frobenius norm. KL: nats per node of the posterior of one half of the wanted
nodes given the other half, noise a hundredth of the mean variance.

    python benchmarks/performance/walks_or_series.py
    python benchmarks/performance/walks_or_series.py --graphs grid --nodes 100000
    python benchmarks/performance/walks_or_series.py --modulations --shards --graphs grid
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph
from scipy.spatial import Delaunay
from walk_engine import barabasi_albert, grid

import coupledgp as cgp
from coupledgp.couplings import MatchedLaw
from coupledgp.features import WalkFeatures, plan_hops, sample_walks, walked_series
from coupledgp.inference.nodes.precision import precision_work, root_precision
from coupledgp.kernels import GraphKernel, HeatKernel, RegularizedLaplacianKernel
from coupledgp.kernels.graph.exact import chebyshev_coefficients
from data_loaders import meshes

TIMES = (1.0, 4.0, 16.0, 64.0)
WANTED = ("20 near", "500 near", "500 apart", "all")
COUPLINGS = ("iid", "sigma", "stratified", "stratified+systematic")
BEST = "stratified+systematic"
# Products with `K` whose cost is counted where all nodes are wanted, probes and rows of the error.
PRODUCTS, PROBES, ROWS = 32, 8, 2000
# Degree of the series that stands for the exact kernel where all nodes are wanted, and where some
# are; columns in a timed run of a series.
DEGREE, FEW_DEGREE, TIMED = 72, 32, 50
# Multiply-adds of sparse rows of a series, and accuracy, at which longer ones are not tried.
ROWS_LIMIT, ACCURATE = 1.6e8, 0.01
# Largest error of an estimate that counts as one.
USEFUL = 0.1
# Multiply-adds of a factor beyond which it is counted but not made.
FACTOR_LIMIT = 3e10


def mesh_faces(n_nodes: int) -> cgp.Graph:
    """Faces of the embedded sphere, subdivided until there are about as many."""
    mesh = meshes.load("icosphere").mesh
    while len(mesh.faces) < 0.6 * n_nodes:
        mesh = mesh.subdivide()
    return cgp.Graph.from_trimesh(mesh, nodes="faces")


def road_like(n_nodes: int) -> cgp.Graph:
    """A spanning tree of random points with a fifth of the other Delaunay edges, degree 2.8."""
    rng = np.random.default_rng(0)
    points = rng.random((n_nodes, 2))
    corners = Delaunay(points).simplices
    edges = np.unique(np.sort(corners[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)), axis=0)
    lengths = np.linalg.norm(points[edges[:, 0]] - points[edges[:, 1]], axis=1)
    tree = csgraph.minimum_spanning_tree(sparse.csr_array((lengths, edges.T), (n_nodes, n_nodes)))
    more = edges[rng.random(len(edges)) < 0.2]
    both = np.unique(np.vstack([np.sort(np.stack(tree.nonzero(), axis=1)), more]), axis=0)
    return cgp.Graph.from_edges(both[:, 0], both[:, 1], n_nodes=n_nodes)


def erdos_renyi(n_nodes: int) -> cgp.Graph:
    """A random graph of mean degree ten, its largest component."""
    ends = np.random.default_rng(0).integers(n_nodes, size=(5 * n_nodes, 2))
    ends = np.unique(np.sort(ends[ends[:, 0] != ends[:, 1]]), axis=0)
    matrix = sparse.csr_array((np.ones(len(ends)), ends.T), (n_nodes, n_nodes))
    labels = csgraph.connected_components(matrix, directed=False)[1]
    kept = np.flatnonzero(labels == np.bincount(labels).argmax())
    number = np.full(n_nodes, -1)
    number[kept] = np.arange(kept.size)
    ends = number[ends[number[ends[:, 0]] >= 0]]
    return cgp.Graph.from_edges(ends[:, 0], ends[:, 1], n_nodes=kept.size)


GRAPHS: dict[str, Callable[[int], cgp.Graph]] = {
    "grid": grid,
    "mesh": mesh_faces,
    "road": road_like,
    "Barabasi-Albert": barabasi_albert,
    "Erdos-Renyi": erdos_renyi,
}


class Result(NamedTuple):
    """Multiply-adds, seconds and error of one way, and its degree or number of hops."""

    ops: float
    seconds: float
    error: float
    degree: int


class Wanted:
    """Some wanted nodes, or all: the exact kernel there, and the costs of series of each degree.

    Nodes are in order of their distance from a wanted one.
    """

    def __init__(self, graph: cgp.Graph, name: str) -> None:
        rng = np.random.default_rng(1)
        self.graph, self.name, self.all = graph, name, name == "all"
        self.known: dict[GraphKernel, tuple[np.ndarray, np.ndarray]] = {}
        matrix = graph.normalized_adjacency
        if self.all:
            self.nodes = np.arange(graph.n_nodes)
            self.rows = rng.choice(graph.n_nodes, min(ROWS, graph.n_nodes), replace=False)
            self.start = rng.normal(size=(graph.n_nodes, PROBES))
            self.matrix, self.reach = matrix, np.full(1, graph.n_nodes)
        else:
            n_wanted, kind = int(name.split()[0]), name.split()[1]
            order = rng.permutation(graph.n_nodes)
            if kind == "near":
                order, _ = csgraph.breadth_first_order(matrix, order[0])
            self.nodes = np.sort(order[:n_wanted])
            steps = distances(matrix, self.nodes)
            places = np.argsort(steps, kind="stable")
            self.matrix = matrix[places][:, places]
            self.reach = np.searchsorted(steps[places], np.arange(steps.max() + 2), "left")[1:]
            self.rows = np.argsort(places)[self.nodes]
            self.start = np.zeros((graph.n_nodes, n_wanted))
            self.start[self.rows, np.arange(n_wanted)] = 1.0
        self.matrix = sparse.csr_array(self.matrix)
        degree = DEGREE if self.all else FEW_DEGREE
        self.moments = np.concatenate(
            [
                np.stack([block[self.rows] for block in self.steps(degree, part)])
                for part in blocks(self.start.shape[1])
            ],
            axis=2,
        )

    def within(self, k: int, degree: int) -> int:
        """Number of nodes in the k-th product of a series."""
        return int(self.reach[min(k, degree - k, self.reach.size - 1)])

    def steps(self, degree: int, columns: slice) -> Iterable[np.ndarray]:
        """`T_k(W~)` times columns of the start for k = 0..degree, right at the wanted rows."""
        W, V = self.matrix, np.ascontiguousarray(self.start[:, columns])
        before, current = np.zeros_like(V), V
        yield current
        for k in range(1, degree + 1):
            n = self.within(k, degree) if k < degree else self.reach[0]
            n = self.reach[-1] if self.all else n
            end = W.indptr[n]
            part = sparse.csr_array((W.data[:end], W.indices[:end], W.indptr[: n + 1]), (n, len(V)))
            following = before
            following[:n] = (1.0 if k == 1 else 2.0) * (part @ current) - following[:n]
            before, current = current.copy() if k == 1 else current, following
            yield current

    def operations(self, degree: int) -> float:
        """Multiply-adds of a series."""
        n = [self.within(k, degree) for k in range(1, degree + 1)]
        columns = PRODUCTS if self.all else self.nodes.size
        return float(self.matrix.indptr[n].sum()) * columns

    def series(self, kernel: GraphKernel) -> tuple[np.ndarray, np.ndarray]:
        """Exact values, and the relative errors of series of each degree."""
        if kernel not in self.known:
            c = chebyshev_coefficients(kernel.spectral, 1e-9)[: len(self.moments)]
            exact = np.tensordot(c, self.moments[: c.size], 1)
            errors, rest = [], exact.copy()
            for k in range(c.size):
                rest -= c[k] * self.moments[k]
                errors.append(float(np.linalg.norm(rest)))
            self.known[kernel] = exact, np.array(errors) / np.linalg.norm(exact)
        return self.known[kernel]

    def candidates(self, kernel: GraphKernel) -> list[Result]:
        """Series of each degree; NaN seconds where they are not timed yet."""
        errors = self.series(kernel)[1]
        found = [Result(self.operations(q), np.nan, float(e), q) for q, e in enumerate(errors)]
        return found if self.all else [*found, *self.by_rows(kernel)]

    def by_rows(self, kernel: GraphKernel) -> list[Result]:
        """Series of the kernel's root by sparse rows, and products of these."""
        W, exact, found = self.graph.normalized_adjacency, self.series(kernel)[0], []
        degrees = np.diff(W.indptr)
        c = chebyshev_coefficients(kernel.root, 1e-9)
        before = current = sparse.csr_array(
            (np.ones(self.nodes.size), (np.arange(self.nodes.size), self.nodes)),
            (self.nodes.size, W.shape[0]),
        )
        total, ops, seconds = c[0] * current, 0.0, 0.0
        for q in range(1, c.size):
            ops += float(degrees[current.indices].sum())
            if ops > ROWS_LIMIT:
                break
            start = time.perf_counter()
            moved = current @ W
            following = moved if q == 1 else 2.0 * moved - before
            before, current = current, following
            total = total + c[q] * current
            seconds += time.perf_counter() - start
            start = time.perf_counter()
            estimate = products(total)
            gram = time.perf_counter() - start
            error = relative(estimate, exact)
            found.append(Result(ops + gram_work(total), seconds + gram, error, q))
            if error < ACCURATE:
                break
        return found

    def timed(self, series: Result) -> Result:
        """A series with its seconds, those of some columns scaled."""
        if np.isfinite(series.seconds):
            return series
        columns = self.start.shape[1]
        part = slice(0, min(TIMED, columns))
        start = time.perf_counter()
        for _ in self.steps(series.degree, part):
            pass
        taken = (time.perf_counter() - start) / part.stop
        return series._replace(seconds=taken * (PRODUCTS if self.all else columns))


def cheapest(candidates: list[Result], error: float) -> Result:
    """The series of least work with at most this error."""
    return min((c for c in candidates if c.error <= error), key=lambda c: c.ops)


def products(rows: sparse.csr_array) -> np.ndarray:
    """`rows rows'`, dense where a tenth of the rows is nonzero."""
    if rows.nnz < 0.1 * rows.shape[0] * rows.shape[1]:
        return (rows @ rows.T).toarray()
    dense = rows.toarray()
    return dense @ dense.T


def gram_work(rows: sparse.csr_array) -> float:
    """Multiply-adds of `rows rows'`."""
    per_column = np.bincount(rows.indices, minlength=rows.shape[1]).astype(float)
    return float(per_column @ per_column)


def blocks(columns: int, width: int = 64) -> list[slice]:
    """Slices of columns."""
    return [slice(k, min(k + width, columns)) for k in range(0, columns, width)]


def distances(matrix: sparse.csr_array, nodes: np.ndarray) -> np.ndarray:
    """Number of steps from the nearest of some nodes."""
    steps, frontier = np.full(matrix.shape[0], -1), nodes
    k = 0
    while frontier.size:
        steps[frontier] = k
        near = np.unique(matrix[frontier].indices)
        frontier, k = near[steps[near] < 0], k + 1
    steps[steps < 0] = k
    return steps


def relative(estimate: np.ndarray, exact: np.ndarray) -> float:
    """Relative error in Frobenius norm."""
    return float(np.linalg.norm(estimate - exact) / np.linalg.norm(exact))


def walked(
    wanted: Wanted, kernel: GraphKernel, hops: Any, m: int, coupling: str, seed: int
) -> tuple[np.ndarray, float, float, int]:
    """Values by walkers, with multiply-adds, seconds and the number of hops."""
    graph = wanted.graph
    plan = plan_hops(graph, kernel, m, hops)
    law = MatchedLaw(walked_series(kernel, plan, 1e-6))
    start = time.perf_counter()
    walks = sample_walks(
        graph, m, coupling=coupling, length_law=law, nodes=wanted.nodes,
        modulation=walked_series(kernel, plan, 1e-6), generator=seed,
    )  # fmt: skip
    features = WalkFeatures(walks, kernel, plan)
    moves = wanted.nodes.size * m * float(walks.survival[1:].sum())
    visited = walks.features(np.ones(1)).indices
    if wanted.all:
        own = time.perf_counter() - start
        start = time.perf_counter()
        values = (features @ (features.T @ wanted.start))[wanted.rows]
        each = (time.perf_counter() - start) / PROBES
        ops = moves + 2.0 * PRODUCTS * (plan.cost + visited.size)
        return values, ops, own + PRODUCTS * each, plan.n_hops
    rows = features.sparse_rows()
    values = products(rows)
    seconds = time.perf_counter() - start
    degrees = np.diff(graph.indptr)
    for_hops = plan.n_hops * float(degrees[visited].sum())
    if plan.n_hops > 1:
        for_hops = float(plan.cost) * wanted.nodes.size
    return values, moves + for_hops + gram_work(rows), seconds, plan.n_hops


def factored(wanted: Wanted, kernel: GraphKernel) -> Result | None:
    """Cost by a sparse factor of `I + s L~`; NaN seconds where it is only counted."""
    if not isinstance(kernel, RegularizedLaplacianKernel):
        return None
    work = precision_work(wanted.graph, 1)
    columns = PRODUCTS if wanted.all else wanted.nodes.size
    solves = (2 if wanted.all else 1) * columns
    ops = work.flops + 2.0 * solves * work.entries
    if not ops < FACTOR_LIMIT or not np.isfinite(work.bytes):
        return Result(ops, np.nan, 0.0, 0)
    start = time.perf_counter()
    root = root_precision(wanted.graph, kernel.scale)
    given = np.zeros((wanted.graph.n_nodes, min(columns, TIMED)))
    given[wanted.nodes[: given.shape[1]], np.arange(given.shape[1])] = 1.0
    root.solve(given[:, :1])
    own = time.perf_counter() - start
    start = time.perf_counter()
    root.solve(given)
    each = (time.perf_counter() - start) / given.shape[1]
    return Result(ops, own + solves * each, 0.0, 0)


def posterior_kl(exact: np.ndarray, estimate: np.ndarray) -> float:
    """KL of the posterior of one half of the nodes given the other half, nats per node."""
    n = len(exact) // 2
    order = np.random.default_rng(2).permutation(len(exact))
    exact, estimate = exact[np.ix_(order, order)], estimate[np.ix_(order, order)]
    noise = 0.01 * np.trace(exact) / len(exact)
    root = np.linalg.cholesky(exact + noise * np.eye(len(exact)))
    y = (root @ np.random.default_rng(3).normal(size=len(exact)))[:n]
    laws = []
    for K in (exact, estimate):
        observed = K[:n, :n] + noise * np.eye(n)
        gain = np.linalg.solve(observed, K[:n, n:]).T
        laws.append((gain @ y, K[n:, n:] + noise * np.eye(len(K) - n) - gain @ K[:n, n:]))
    (mean, S), (other, T) = laws
    gap = other - mean
    trace = np.trace(np.linalg.solve(T, S)) + gap @ np.linalg.solve(T, gap) - len(gap)
    return float(0.5 * (trace + np.linalg.slogdet(T)[1] - np.linalg.slogdet(S)[1]) / len(gap))


def measure(wanted: Wanted, kernel: GraphKernel, seeds: int) -> dict[str, Any]:
    """The run where walkers do best against the series, and couplings in that run."""
    exact, candidates = wanted.series(kernel)[0], wanted.candidates(kernel)
    few = (16, 64, 256, 1024) if wanted.nodes.size < 100 else (16, 64, 256)
    sizes = few if not wanted.all else (4, 16) if wanted.nodes.size < 50_000 else (4,)
    hops: list[Any] = [0, 1] if wanted.nodes.size == 500 else [0, 1, "auto"]
    runs = []
    for asked in hops:
        for m in sizes:
            values, ops, seconds, r = walked(wanted, kernel, asked, m, BEST, 0)
            error = relative(values, exact)
            gain = cheapest(candidates, error).ops / ops
            runs.append((gain, Result(ops, seconds, error, r), asked, m, values))
    useful = [each for each in runs if each[1].error <= USEFUL]
    least = min(runs, key=lambda each: each[1].error)
    gain, run, asked, m, values = max(useful, key=lambda each: each[0]) if useful else least
    series = wanted.timed(cheapest(candidates, run.error))
    affordable = [c.error for c in candidates if c.ops <= run.ops]
    found = {
        coupling: np.sqrt(
            np.mean(
                [
                    relative(walked(wanted, kernel, asked, min(m, 256), coupling, s)[0], exact) ** 2
                    for s in range(seeds)
                ]
            )
        )
        for coupling in COUPLINGS
    }  # fmt: skip
    factor = factored(wanted, kernel)
    own = run.ops if useful else np.inf
    best = min([own, series.ops] + ([] if factor is None else [factor.ops]))
    winner = "walks" if best == own else "series" if best == series.ops else "factor"
    return {
        "wanted": wanted.name, "useful": bool(useful), "m": m,
        "asked_hops": asked, "walks": run._asdict(), "series": series._asdict(),
        "series_error_at_equal_operations": min(affordable), "advantage": gain,
        "whole_graph_series_operations": float(
            series.degree * wanted.matrix.nnz * (PRODUCTS if wanted.all else wanted.nodes.size)
        ),
        "factor": None if factor is None else factor._asdict(), "winner": winner,
        "kl": None if wanted.all else posterior_kl(exact, values),
        "coupling_errors": {name: float(value) for name, value in found.items()},
        "all_runs": [(g, *x, a, size) for g, x, a, size, _ in runs],
    }  # fmt: skip


def table_of_graph(name: str, n_nodes: int, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure a graph and print its lines."""
    graph = GRAPHS[name](n_nodes)
    print(f"\n{name}: {graph.n_nodes} nodes, {graph.indices.size / graph.n_nodes:.1f} a node")
    print(
        "kernel        t    wanted | hops    m   error      kl | operations: walks, series "
        "(degree), factor | seconds | advantage | iid over sigma, stratified, +systematic | "
        "least work"
    )
    rows = []
    for wanted_nodes in args.wanted:
        wanted = Wanted(graph, wanted_nodes)
        for t in args.times:
            for label, kernel in (
                ("heat", HeatKernel(t)),
                ("laplacian", RegularizedLaplacianKernel(t / 2, 2.0)),
            ):
                row = measure(wanted, kernel, args.seeds)
                row = {"graph": name, "nodes": graph.n_nodes, "kernel": label, "t": t, **row}
                rows.append(row)
                print(line(row), flush=True)
    return rows


def line(row: dict[str, Any]) -> str:
    """A line of the table."""
    walks, series, factor = row["walks"], row["series"], row["factor"]
    couplings = row["coupling_errors"]
    ratios = " ".join(f"{couplings['iid'] / couplings[c]:5.2f}" for c in COUPLINGS[1:])
    kl = "      -" if row["kl"] is None else f"{row['kl']:7.1e}"
    counted = "      -" if factor is None else f"{factor['ops']:7.1e}"
    timed = "     -" if factor is None else f"{factor['seconds']:6.2f}"
    return (
        f"{row['kernel']:10s} {row['t']:4.0f} {row['wanted']:>9s} | {walks['degree']:4d} "
        f"{row['m']:4d} {walks['error']:7.1e} {kl} | {walks['ops']:7.1e} {series['ops']:7.1e} "
        f"({series['degree']:2d}) {counted} | {walks['seconds']:6.2f} {series['seconds']:6.2f} "
        f"{timed} | {row['advantage']:7.3f} | {ratios} | {row['winner']}"
    )


def modulations(name: str, n_nodes: int, args: argparse.Namespace) -> dict[str, Any]:
    """Kernel matrices of 500 nodes for many kernels: one draw weighed again, beside series."""
    wanted = Wanted(GRAPHS[name](n_nodes), "500 near")
    times = np.geomspace(2.0, 8.0, 16)
    kernels = [HeatKernel(t) for t in times]
    plan = plan_hops(wanted.graph, kernels[-1], 256, 0)
    series = np.zeros((len(kernels), 64))
    for row, kernel in zip(series, kernels, strict=True):
        row[:] = kernel.modulation(64)
    start = time.perf_counter()
    walks = sample_walks(
        wanted.graph, 256, coupling=BEST, length_law=MatchedLaw(series),
        nodes=wanted.nodes, generator=0,
    )  # fmt: skip
    features = WalkFeatures(walks, kernels[0], plan)
    drawn = time.perf_counter() - start
    weighed, gram, errors = [], [], []
    for kernel, f in zip(kernels, series, strict=True):
        start = time.perf_counter()
        rows = features.with_series(f).sparse_rows()
        weighed.append(time.perf_counter() - start)
        start = time.perf_counter()
        estimate = products(rows)
        gram.append(time.perf_counter() - start)
        errors.append(relative(estimate, wanted.series(kernel)[0]))
    middle = cheapest(wanted.candidates(kernels[8]), errors[8])
    c = chebyshev_coefficients(kernels[8].spectral, errors[8])
    start = time.perf_counter()
    np.tensordot(c, wanted.moments[: c.size], 1)
    kept = time.perf_counter() - start
    found: dict[str, Any] = {
        "graph": name, "nodes": wanted.graph.n_nodes, "error": float(np.median(errors)),
        "draw": drawn, "weigh": float(np.median(weighed)), "gram": float(np.median(gram)),
        "series": wanted.timed(middle).seconds, "kept_moments": kept,
    }  # fmt: skip
    saved = found["series"] - found["weigh"] - found["gram"]
    found["kernels_until_walks_win"] = float(np.ceil(drawn / saved)) if saved > 0 else None
    print(json.dumps(found))
    return found


def shards(name: str, n_nodes: int, n_shards: int = 8) -> dict[str, Any]:
    """Check that a shard's rows are those of the whole, and count what leaves a shard."""
    graph = GRAPHS[name](n_nodes)
    order = csgraph.breadth_first_order(graph.normalized_adjacency, 0)[0]
    owner = np.full(graph.n_nodes, n_shards - 1)
    owner[order] = np.arange(order.size) * n_shards // order.size
    kernel, own = HeatKernel(4.0), np.flatnonzero(owner == n_shards // 2)[:500]
    draw = partial(
        sample_walks, graph, 64, coupling=BEST, length_law="matched", modulation=kernel,
        generator=0,
    )  # fmt: skip
    whole, part = draw(), draw(nodes=own)
    same = (whole.features(kernel)[own] != part.features(kernel)).nnz == 0
    source = np.repeat(np.arange(graph.n_nodes), np.diff(graph.indptr))
    crossing = owner[source] != owner[graph.indices]
    moves = graph.n_nodes * 64 * float(whole.survival[1:].sum())
    pairs = np.unique(np.stack([graph.indices[crossing], owner[source[crossing]]]), axis=1).shape[1]
    found = {
        "graph": name, "nodes": graph.n_nodes, "rows_equal": bool(same),
        "crossing_share": float(crossing.mean()), "walkers_moved": moves * float(crossing.mean()),
        "values_moved_a_product": pairs, "moves": moves,
    }  # fmt: skip
    print(json.dumps(found))
    return found


def main() -> None:
    """Read the options and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--graphs", nargs="+", default=list(GRAPHS), choices=list(GRAPHS))
    parser.add_argument("--nodes", nargs="+", type=int, default=[10_000, 100_000])
    parser.add_argument("--times", nargs="+", type=float, default=list(TIMES))
    parser.add_argument("--wanted", nargs="+", default=list(WANTED), choices=WANTED)
    parser.add_argument("--seeds", type=int, default=2, help="draws of each coupling")
    parser.add_argument("--modulations", action="store_true", help="many kernels of one draw")
    parser.add_argument("--shards", action="store_true", help="rows of parts of a graph")
    parser.add_argument("--output", type=Path, help="JSON file of the results")
    args = parser.parse_args()
    results: list[Any] = []
    for kernel in (HeatKernel(1.0), RegularizedLaplacianKernel(1.0, 2.0)):  # compiles everything
        measure(Wanted(grid(400), "20 near"), kernel, 1)
    for name in args.graphs:
        for n_nodes in args.nodes:
            if args.modulations:
                results.append(modulations(name, n_nodes, args))
            if args.shards:
                results.append(shards(name, n_nodes))
            if not args.modulations and not args.shards:
                results += table_of_graph(name, n_nodes, args)
    if args.output is not None:
        args.output.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
