"""Classes of nodes beside rivals: roads at six hours, parts of a mesh, labels of drawn functions.

* ours: one function for each class against all others, Matern on the normalised Laplacian, its
  smoothness, range and variance by the variational evidence on a grid;
* normal: the same kernel for indicators with normal noise, ranges, variances and noise by evidence
  on a grid, its means clipped to chances;
* propagation: the harmonic function of the indicators (label propagation);
* spreading: `(I - .9 S)^-1 Y` of the normalised adjacency S (label spreading);
* neighbours: the share of observed neighbours, one more of each class counted by its share;
* share: the shares of the classes.

Graphs: sensors of Los Angeles, whose speed is below 50 mph or not at six hours; faces of the
teapot by which of five balls they are in; and 400 places with labels of a drawn function,
`P = sigmoid(2 f)`. A third of the nodes is observed. Columns: log loss in nats, Brier score,
expected calibration error of ten bins, accuracy, CPU seconds.

    COUPLEDGP_DATA=... python benchmarks/performance/nodes_of_classes.py --splits 3
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import product

os.environ |= {"OMP_NUM_THREADS": "1"}

import numpy as np
from classes_against_rivals import scores
from scipy.cluster.vq import kmeans2
from scipy.spatial import cKDTree
from scipy.special import expit

import coupledgp as cgp
from coupledgp.core.latent import LatentGP
from coupledgp.core.process import Data
from coupledgp.core.units import Units
from coupledgp.diagnostics import Chances
from coupledgp.diagnostics.rivals.surfaces import node_kind
from coupledgp.errors import NumericalError
from coupledgp.kernels.graph_families import GraphMaternKernel
from coupledgp.likelihoods import Bernoulli
from coupledgp.likelihoods.counts import class_log_chances
from coupledgp.tables.discrete_targets import left_out_power
from data_loaders import meshes, traffic_series

SMOOTH, RANGES, VARIANCES = (1.5, 2.5), (2.0, 4.0, 8.0, 16.0, 32.0), (1.0, 4.0, 16.0, 64.0)
NOISES, SPREADS = (0.03, 0.1, 0.3, 1.0), (0.1, 0.3, 1.0)
SPEED, STEPS, LEAST = 50.0, (60, 210, 330, 498, 780, 1068), 1e-3
Case = tuple[cgp.Graph, np.ndarray]


def roads(split: int) -> list[Case]:
    """Congestion of sensors at six hours; sensors without speed count as free."""
    data = traffic_series.load_metr_la()
    nodes = data.graph.index(data.nodes)
    found = []
    for step in STEPS:
        y = np.zeros(data.graph.n_nodes, dtype=int)
        y[nodes] = np.nan_to_num(data.speeds[:, step], nan=99.0) < SPEED
        if 10 <= y.sum() <= len(y) - 10:
            found.append((data.graph, y))
    return found


def parts(split: int) -> list[Case]:
    """Faces of the teapot by the nearest of five centres."""
    data = meshes.load("teapot")
    centers = data.mesh.triangles_center
    _, y = kmeans2(centers, 5, seed=7, minit="++")
    return [(data.graph, np.unique(y, return_inverse=True)[1])]


def drawn(split: int) -> list[Case]:
    """Labels of a function of the kernel on a random geometric graph."""
    rng = np.random.default_rng(split)
    places = rng.random((400, 2))
    pairs = np.array(sorted(cKDTree(places).query_pairs(0.09)))
    graph = cgp.Graph.from_edges(pairs[:, 0], pairs[:, 1], n_nodes=400)
    gram = prior(graph, GraphMaternKernel(4.0), np.arange(1)).prior(np.arange(400))[..., 0]
    f = np.linalg.cholesky(gram + 1e-9 * np.eye(400)) @ rng.standard_normal(400)
    scale = 2 / np.sqrt(np.diag(gram).mean())
    return [(graph, (rng.random(400) < expit(scale * f)).astype(int))]


CASES: dict[str, Callable[[int], list[Case]]] = {"roads": roads, "parts": parts, "drawn": drawn}


def prior(graph: cgp.Graph, kernel: GraphMaternKernel, nodes: np.ndarray, **options):
    """A process of the kernel, of one output."""
    model = cgp.ExactGraphGPRegressor(graph, kernel, optimizer=None, random_state=0, **options)
    return model.fit(graph.label_all(nodes), np.linspace(-1, 1, len(nodes))).process_


def kernels() -> list[GraphMaternKernel]:
    """Kernels of the grid."""
    return [GraphMaternKernel(lengthscale, nu) for lengthscale, nu in product(RANGES, SMOOTH)]


def indicators(y: np.ndarray) -> np.ndarray:
    """Zeros and ones (n, k) of the functions."""
    found = np.eye(y.max() + 1)[y]
    return found[:, 1:] if found.shape[1] == 2 else found


def ours(graph: cgp.Graph, y: np.ndarray, seen: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Chances (p, K) of the classes."""
    ones = indicators(y)[seen]
    logits = np.log(ones.sum(axis=0) + 1) - np.log((1 - ones).sum(axis=0) + 1)
    best: list[tuple[float, object]] = [(-np.inf, None)] * ones.shape[1]
    for kernel, variance in product(kernels(), VARIANCES):
        made = prior(graph, kernel, seen, outputscale=variance)
        for k, column in enumerate(ones.T):
            function = replace(made, units=Units(logits[[k]], np.ones(1)))
            data = Data.of(made.data.points, column[:, None])
            try:
                found = LatentGP.given([function], Bernoulli(), data)
            except NumericalError:
                continue
            best[k] = max(best[k], (found.log_evidence, function), key=lambda pair: pair[0])
    functions = [function for _, function in best]
    process = LatentGP.given(functions, Bernoulli(), Data.of(functions[0].data.points, ones))
    law = process.marginals(at)
    zero, one = (
        law.likelihood.marginal_log_density(np.full_like(law.mean, v), law.mean, law.variance)
        for v in (0.0, 1.0)
    )
    return np.exp(class_log_chances(zero, one, left_out_power(process, 0)))


def normal(graph: cgp.Graph, y: np.ndarray, seen: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Means of indicators with normal noise, clipped."""
    ones = indicators(y)[seen]
    best, mean = -np.inf, None
    for kernel, variance, noise in product(kernels(), SPREADS, NOISES):
        made = prior(graph, kernel, seen, outputscale=variance, noise=noise)
        units = Units(ones.mean(axis=0), np.ones(ones.shape[1]))
        found = replace(made, units=units).conditioned(Data.of(made.data.points, ones))
        if found.log_evidence > best:
            best, mean = found.log_evidence, found.law(at, "mean").mean
    return chances_of(mean)


def chances_of(mean: np.ndarray) -> np.ndarray:
    """Chances (p, K) of predicted indicators (p, k)."""
    found = np.hstack([1 - mean, mean]) if mean.shape[1] == 1 else mean
    found = np.clip(found, LEAST, None)
    return found / found.sum(axis=1, keepdims=True)


def propagation(graph: cgp.Graph, y: np.ndarray, seen: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Harmonic functions of the indicators."""
    harmonic = node_kind(graph, seen, indicators(y)[seen]).makers["harmonic"]()
    return chances_of(np.clip(harmonic.predict(at).mean, LEAST, 1 - LEAST))


def spreading(graph: cgp.Graph, y: np.ndarray, seen: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Label spreading of Zhou and others (2004)."""
    weights = graph.adjacency.toarray()
    np.fill_diagonal(weights, 0.0)
    root = 1 / np.sqrt(np.maximum(weights.sum(axis=1), 1e-12))
    labels = np.zeros((len(y), y.max() + 1))
    labels[seen] = np.eye(y.max() + 1)[y[seen]]
    system = np.eye(len(y)) - 0.9 * root[:, None] * weights * root
    found = np.linalg.solve(system, labels)[at] + 1e-9
    return chances_of(np.clip(found / found.sum(axis=1, keepdims=True), LEAST, 1 - LEAST))


def neighbours(graph: cgp.Graph, y: np.ndarray, seen: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Shares of observed neighbours, weighted."""
    weights = graph.adjacency.toarray()
    ones = np.eye(y.max() + 1)[y[seen]]
    found = weights[np.ix_(at, seen)] @ ones + weights.mean() / weights.size + ones.mean(axis=0)
    return found / found.sum(axis=1, keepdims=True)


def share(graph: cgp.Graph, y: np.ndarray, seen: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Shares of the classes."""
    found = np.bincount(y[seen], minlength=y.max() + 1) + 1.0
    return np.tile(found / found.sum(), (len(at), 1))


SYSTEMS = (ours, normal, propagation, spreading, neighbours, share)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", default=list(CASES))
    parser.add_argument("--splits", type=int, default=3)
    options = parser.parse_args()
    print("| graph | system | log loss | Brier | ECE | accuracy | CPU s |")
    print("|---|---|---|---|---|---|---|")
    for name in options.cases:
        found: dict[str, list[list[float]]] = {}
        for split in range(options.splits):
            for graph, y in CASES[name](split):
                order = np.random.default_rng([split, 3]).permutation(len(y))
                seen, at = np.split(order, [len(y) // 3])
                if len(np.unique(y[seen])) <= y.max():
                    continue
                for system in SYSTEMS:
                    start = time.process_time()
                    laws = Chances(system(graph, y, seen, at), np.arange(y.max() + 1))
                    own = scores(y[at], laws.chances, laws.classes)
                    found.setdefault(system.__name__, []).append(
                        [*own, time.process_time() - start]
                    )
        for system, runs in found.items():
            own = np.mean(runs, axis=0)
            cells = " | ".join(f"{value:.4f}" for value in own[:4])
            print(f"| {name} | {system} | {cells} | {own[4]:.1f} |", flush=True)


if __name__ == "__main__":
    main()
