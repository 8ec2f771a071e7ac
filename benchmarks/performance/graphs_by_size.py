"""Fit and standard deviations of a graph model against the number of nodes, beside its rivals.

Values are drawn on a graph, a share of the nodes is observed with noise, and each method is fitted
with its defaults in a process of its own. RMSE is of the mean against the true values of hidden
nodes over their standard deviation; NLPD and coverage of 95 % intervals are of noisy values there.
Rivals: a Gaussian Markov random field by scipy's SuperLU with its own search and a solve for each
standard deviation; GeometricKernels 1.0.1 (eigenpairs, evidence by gpytorch's optimisers); and
fast-graph-gp 0.1.3 (walks). The latter two are optional (`pip install geometric-kernels
fast-graph-gp`), and `--methods` chooses.

    python -m benchmarks.performance.graphs_by_size --cases grid:1e4:.05 ba:24000:.8 --repeats 3
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

Law = tuple[np.ndarray, np.ndarray | None]
METHODS = ("coupledgp", "scipy-gmrf", "geometric-kernels", "fast-graph-gp", "harmonic")
CASES = ("grid:1e3:.05", "grid:1e4:.05", "grid:1e5:.05", "road:1e4:.2", "sphere:20480:.2",
         "ba:24000:.8")  # fmt: skip
NOISE, MOST_WANTED = 0.1, 10_000
# Nodes above which a rival would not end within the limit, or not fit in memory.
LARGEST = {"geometric-kernels": 6_000, "fast-graph-gp": 11_000, "scipy-gmrf": 120_000}


def edges_of(kind: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the edges of a graph of about n nodes."""
    rng = np.random.default_rng(0)
    if kind in ("grid", "road"):
        side = round(n**0.5)
        k = np.arange(side**2).reshape(side, side)
        start = np.concatenate([k[:, :-1].ravel(), k[:-1].ravel()])
        end = np.concatenate([k[:, 1:].ravel(), k[1:].ravel()])
        kept = rng.random(start.size) < (0.7 if kind == "road" else 1.0)
        return start[kept], end[kept]
    if kind == "sphere":
        import trimesh

        levels = round(np.log(n / 20) / np.log(4))
        mesh = trimesh.creation.icosphere(subdivisions=levels)
        return mesh.face_adjacency[:, 0], mesh.face_adjacency[:, 1]
    if kind == "path":
        return np.arange(n - 1), np.arange(1, n)
    if kind == "star":
        return np.zeros(n - 1, np.int64), np.arange(1, n)
    import networkx as nx

    pairs = np.array(nx.barabasi_albert_graph(n, 5, seed=1).edges())
    return pairs[:, 0], pairs[:, 1]


def case_of(name: str, seed: int) -> dict[str, Any]:
    """The graph of a case, observed nodes and values, and the truth at wanted nodes."""
    import coupledgp as cgp
    from coupledgp.kernels import HeatKernel, RegularizedLaplacianKernel, SeriesOperator

    kind, size, share = name.split(":")
    start, end = edges_of(kind, int(float(size)))
    n = int(max(start.max(), end.max())) + 1
    graph = cgp.Graph.from_edges(start, end, n_nodes=n)
    kernel = HeatKernel(4.0) if kind == "ba" else RegularizedLaplacianKernel(30.0)
    rng = np.random.default_rng(seed)
    white = rng.standard_normal((n, 1))
    f = SeriesOperator(graph.closed, kernel.root, 1e-4).matmat(white)[:, 0]
    f /= f.std()
    order = rng.permutation(n)
    n_seen = round(float(share) * n)
    seen, hidden = np.sort(order[:n_seen]), np.sort(order[n_seen:][:MOST_WANTED])
    noisy = f + NOISE * rng.standard_normal(n)
    return {"graph": graph, "seen": seen, "y": noisy[seen], "wanted": hidden,
            "truth": f[hidden], "noisy": noisy[hidden]}  # fmt: skip


def by_coupledgp(case: dict[str, Any]) -> tuple[Callable[[], Law], str]:
    """The default of this package."""
    import coupledgp as cgp

    model = cgp.GraphGPRegressor(case["graph"], random_state=0, progress=False)
    model.fit(case["seen"], case["y"])
    return lambda: model.predict(case["wanted"], return_std=True), model.explain()


def by_gmrf(case: dict[str, Any]) -> tuple[Callable[[], Law], str]:
    """`(I + s L~)^2` by SuperLU: 40 evaluations of the evidence, and a solve for each variance."""
    from scipy import sparse
    from scipy.optimize import minimize
    from scipy.sparse.linalg import splu

    graph, seen = case["graph"].closed, case["seen"]
    y, n = case["y"] - case["y"].mean(), graph.n_nodes
    eye = sparse.eye_array(n, format="csc")
    laplacian = eye - sparse.csc_array(graph.normalized_adjacency)
    counts = np.bincount(seen, minlength=n).astype(float)
    pulled = np.bincount(seen, y, n)

    def factors(s: float, ratio: float) -> tuple[Any, Any]:
        root = sparse.csc_array(eye + s * laplacian)
        precision = sparse.csc_array(root @ root + sparse.diags_array(counts / ratio))
        return splu(root), splu(precision)

    def loss(x: np.ndarray) -> float:
        s, ratio = np.exp(x)
        root, given = factors(s, ratio)
        logs = [np.log(np.abs(f.U.diagonal())).sum() for f in (root, given)]
        field = given.solve(pulled / ratio)
        fit = (y @ (y - field[seen])) / ratio
        log_determinant = logs[1] - 2 * logs[0] + y.size * np.log(ratio)
        return float(0.5 * (y.size * np.log(max(fit, 1e-300)) + log_determinant))

    best = minimize(loss, np.log([10.0, 0.01]), method="Nelder-Mead", options={"maxfev": 40})
    s, ratio = np.exp(best.x)
    _, given = factors(s, ratio)
    field = given.solve(pulled / ratio)
    scale = (y @ (y - field[seen])) / ratio / y.size

    def law() -> Law:
        wanted = case["wanted"]
        variances = np.empty(wanted.size)
        for start in range(0, wanted.size, 64):
            part = wanted[start : start + 64]
            unit = np.zeros((n, part.size))
            unit[part, np.arange(part.size)] = 1.0
            variances[start : start + 64] = given.solve(unit)[part, np.arange(part.size)]
        return field[wanted] + case["y"].mean(), np.sqrt(scale * (variances + ratio))

    return law, f"scale {s:.3g}"


def by_geometric_kernels(case: dict[str, Any]) -> tuple[Callable[[], Law], str]:
    """Matern kernel of 500 eigenpairs, 40 evaluations of the evidence by dense algebra."""
    if not hasattr(np, "trapz"):  # a dependency of the package asks for it
        vars(np)["trapz"] = np.trapezoid
    import geometric_kernels.spaces
    from geometric_kernels.kernels import MaternGeometricKernel
    from scipy import linalg
    from scipy.optimize import minimize

    adjacency = case["graph"].adjacency.toarray()
    space = geometric_kernels.spaces.Graph(adjacency, normalize_laplacian=True)
    kernel = MaternGeometricKernel(space, num=min(500, len(adjacency) - 1))
    seen, wanted = case["seen"][:, None], case["wanted"][:, None]
    y = case["y"] - case["y"].mean()

    def root(x: np.ndarray) -> tuple[Any, np.ndarray, dict[str, np.ndarray]]:
        given = {"nu": np.array([2.0]), "lengthscale": np.exp(x[:1])}
        K = np.asarray(kernel.K(given, seen, seen)) + np.exp(x[1]) * np.eye(y.size)
        factor = linalg.cho_factor(K, lower=True)
        return factor, linalg.cho_solve(factor, y), given

    def loss(x: np.ndarray) -> float:
        factor, weights, _ = root(x)
        logs = 2 * np.log(np.diagonal(factor[0])).sum()
        return float(0.5 * (y.size * np.log(y @ weights) + logs))

    best = minimize(loss, np.log([4.0, 0.01]), method="Nelder-Mead", options={"maxfev": 40})
    factor, weights, given = root(best.x)
    scale = float(y @ weights) / y.size

    def law() -> Law:
        cross = np.asarray(kernel.K(given, seen, wanted))
        own = np.asarray(kernel.K_diag(given, wanted)) + np.exp(best.x[1])
        explained = (cross * linalg.cho_solve(factor, cross)).sum(axis=0)
        return cross.T @ weights + case["y"].mean(), np.sqrt(scale * np.maximum(own - explained, 0))

    return law, f"lengthscale {np.exp(best.x[0]):.3g}"


def by_fast_graph_gp(case: dict[str, Any]) -> tuple[Callable[[], Law], str]:
    """Walks of fast-graph-gp on the Laplacian, 20 steps of Adam; 16 walkers of up to 10 steps."""
    import gpytorch
    import linear_operator
    import torch
    from grf_gp.kernels.diffusion import DiffusionGRFKernel
    from grf_gp.model import GRFGP
    from grf_gp.sampler import GRFSampler
    from grf_gp.utils.config import set_gp_defaults

    set_gp_defaults(linear_operator.settings, gpytorch.settings)
    graph, steps = case["graph"], 10
    dense = torch.tensor(graph.normalized_adjacency.toarray(), dtype=torch.float32)
    laplacian = torch.eye(graph.n_nodes) - dense
    sampler = GRFSampler(laplacian, 16, 0.1, steps, seed=1, use_tqdm=False)
    matrices = sampler.sample_random_walk_matrices()
    mean, scale = case["y"].mean(), case["y"].std()
    seen = torch.tensor(case["seen"])
    targets = torch.tensor((case["y"] - mean) / scale, dtype=torch.float32)
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = GRFGP(seen, targets, likelihood, DiffusionGRFKernel(matrices, steps))
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    adam = torch.optim.Adam(model.parameters(), lr=0.1)
    model.train()
    likelihood.train()
    for _ in range(20):
        adam.zero_grad()
        loss = -objective(model(seen), targets)
        loss.backward()
        adam.step()

    def law() -> Law:
        model.eval()
        likelihood.eval()
        found = model.predict(torch.tensor(case["wanted"]))
        noise = float(likelihood.noise.detach())
        deviation = np.sqrt(found.variance.detach().numpy() + noise)
        return found.mean.detach().numpy() * scale + mean, deviation * scale

    return law, "20 steps of Adam"


def by_harmonic(case: dict[str, Any]) -> tuple[Callable[[], Law], str]:
    """Each hidden node the mean of its neighbours, by SuperLU; no standard deviation."""
    from scipy import sparse
    from scipy.sparse.linalg import splu

    graph, seen = case["graph"], case["seen"]
    laplacian = sparse.diags_array(graph.degrees + 1e-9) - graph.adjacency
    hidden = np.setdiff1d(np.arange(graph.n_nodes), seen)
    rows = sparse.csr_array(laplacian)[hidden]
    values = np.full(graph.n_nodes, case["y"].mean())
    values[seen] = case["y"]
    known = values.copy()
    known[hidden] = 0.0
    inner = splu(sparse.csc_array(rows[:, hidden]))
    values[hidden] = inner.solve(-(rows @ known) + 1e-9 * case["y"].mean())
    return lambda: (values[case["wanted"]], None), ""


FITS: dict[str, Callable[[dict[str, Any]], tuple[Callable[[], Law], str]]] = {
    "coupledgp": by_coupledgp,
    "scipy-gmrf": by_gmrf,
    "geometric-kernels": by_geometric_kernels,
    "fast-graph-gp": by_fast_graph_gp,
    "harmonic": by_harmonic,
}


def measured(method: str, name: str, seed: int) -> dict[str, Any]:
    """One method on one case, in this process."""
    if method == "coupledgp":  # numba compiles, or reads its cache, before anything is timed
        by_coupledgp(case_of("grid:3e3:.2", 0))[0]()
        by_coupledgp(case_of("ba:2200:.8", 0))[0]()
    case = case_of(name, seed)
    start = time.perf_counter()
    law, words = FITS[method](case)
    fitted = time.perf_counter()
    mean, deviation = law()
    ended = time.perf_counter()
    gaps = mean - case["truth"]
    found = {
        "case": name, "method": method, "seed": seed, "nodes": case["graph"].n_nodes,
        "observed": int(case["seen"].size), "fit_s": fitted - start, "law_s": ended - fitted,
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
        "rmse": float(np.sqrt(np.mean(gaps**2)) / case["truth"].std()), "words": words,
    }  # fmt: skip
    if deviation is not None:
        rest = (mean - case["noisy"]) / deviation
        nlpd = 0.5 * np.log(2 * np.pi * deviation**2) + 0.5 * rest**2
        found |= {
            "nlpd": float(nlpd.mean()),
            "coverage": float(np.mean(np.abs(rest) < 1.96)),
        }
    return found


def run(method: str, name: str, seed: int, limit: float) -> dict[str, Any]:
    """One method on one case, in a process of its own."""
    empty = {"case": name, "method": method, "seed": seed}
    if float(name.split(":")[1]) > LARGEST.get(method, np.inf):
        return {**empty, "failed": "too large for it"}
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        __spec__.name,
        "--one",
        method,
        name,
        str(seed),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return {**empty, "failed": f"over {limit:.0f} s"}
    if done.returncode:
        return {**empty, "failed": (done.stderr.strip().splitlines() or ["no message"])[-1][:80]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def line(rows: list[dict[str, Any]]) -> str:
    """Medians of the repeats of a method on a case as a row of a Markdown table."""
    first = rows[0]
    if "failed" in first:
        return f"| {first['case']} | {first['method']} | {first['failed']} | | | | | |"

    def middle(key: str, form: str) -> str:
        values = [row[key] for row in rows if key in row]
        return format(float(np.median(values)), form) if values else ""

    cells = [first["case"], first["method"], middle("fit_s", ".3g"), middle("law_s", ".2g"),
             middle("peak_gb", ".2f"), middle("rmse", ".4f"), middle("nlpd", ".3f"),
             middle("coverage", ".3f")]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Print a row for each case and method, then all runs as JSON if asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", default=CASES)
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for one run")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        method, name, seed = args.one
        print(json.dumps(measured(method, name, int(seed))))
        return
    every = []
    print("| case | method | fit, s | law, s | peak, GB | RMSE | NLPD | coverage |")
    print("|---|---|---|---|---|---|---|---|")
    for name in args.cases:
        for method in args.methods:
            rows = [run(method, name, seed, args.limit) for seed in range(args.repeats)]
            every += rows
            print(line(rows), flush=True)
    if args.json:
        print(json.dumps(every, indent=2))


if __name__ == "__main__":
    main()
