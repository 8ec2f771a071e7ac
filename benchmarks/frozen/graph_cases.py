"""Cases of the regressors on the nodes of a graph, and of PageRank."""

from __future__ import annotations

import warnings
from typing import Any

import networkx as nx
import numpy as np

import coupledgp as cgp
from coupledgp.couplings import GeometricLaw, SigmaLengths, SystematicSteps, WalkerCoupling
from coupledgp.ground.parameters import folded
from coupledgp.kernels import HeatKernel
from frozen.cases import Figures, case


def grid(side: int) -> cgp.Graph:
    """Square grid of unit edges, nodes numbered by rows."""
    return cgp.Graph.from_scipy(nx.adjacency_matrix(nx.grid_2d_graph(side, side)))


def values(n_nodes: int) -> np.ndarray:
    """Two smooth signals on the nodes of a grid with noise, shape (n_nodes, 2)."""
    side = round(n_nodes**0.5)
    rows, columns = np.divmod(np.arange(n_nodes), side)
    noise = 0.1 * np.random.default_rng(7).normal(size=(n_nodes, 2))
    signal = np.stack([np.sin(rows / 3) + columns / side, 30 + 5 * np.cos(columns / 4)], axis=1)
    return signal + noise


def split(n_nodes: int, n_seen: int) -> tuple[np.ndarray, np.ndarray]:
    """Observed nodes in random order, and 40 others."""
    order = np.random.default_rng(8).permutation(n_nodes)
    return order[:n_seen], order[n_seen : n_seen + 40]


def law(gp: Any, wanted: Any) -> Figures:
    """Figures of a fitted model at nodes."""
    mean, std = gp.predict(wanted, return_std=True)
    figures = {
        "mean": mean,
        "std": std,
        "latent_std": gp.predict(wanted, return_std=True, latent=True)[1],
        "covariance": gp.predict(wanted, return_cov=True)[1],
        "samples": gp.sample_y(wanted, 3, random_state=1),
        "latent_samples": gp.sample_y(wanted, 2, random_state=2, latent=True),
        "log_evidence": gp.log_marginal_likelihood_value_,
        "log_evidence_error": gp.log_marginal_likelihood_error_,
        "kernel": type(gp.kernel_).__name__,
        "theta": gp.kernel_.theta,
        "outputscale": gp.outputscale_,
        "noise": gp.noise_,
        "prior_covariance": gp.prior_covariance(wanted[:8]),
        "nodes": np.asarray(gp.nodes_),
        "y_train": gp.y_train_,
    }
    if hasattr(gp, "plan_"):
        figures |= {"hops": gp.plan_.n_hops, "reason": gp.plan_.reason, "n_walks": gp.n_walks_}
        figures |= {"truncation": gp.truncation_.relative}
    if hasattr(gp, "method_"):
        figures |= {"method": gp.method_}
    return figures


def fitted(kind: Any, settings: dict[str, Any], outputs: Any = 0, n_seen: int = 80) -> Figures:
    """A model on a grid of 225 nodes."""
    graph = grid(15)
    seen, hidden = split(graph.n_nodes, n_seen)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gp = kind(graph, random_state=0, **folded(kind, settings)).fit(
            seen, values(graph.n_nodes)[seen][:, outputs]
        )
    figures = law(gp, hidden)
    if "n_walks" in figures and hasattr(gp, "selection_"):
        figures = {**figures, "explanation": gp.selection_.explain(), "kl": gp.kl_per_point_}
    return figures


def twin(settings: dict[str, Any]) -> Figures:
    """The exact twin of a model with walks."""
    graph = grid(15)
    seen, hidden = split(graph.n_nodes, 80)
    gp = cgp.GraphGPRegressor(
        graph, **folded(cgp.GraphGPRegressor, dict(random_state=0, **settings))
    )
    return law(gp.fit(seen, values(graph.n_nodes)[seen, 0]).exact_twin(), hidden)


def large(kind: Any, settings: dict[str, Any], side: int, n_seen: int) -> Figures:
    """A model with more observations than dense algebra is used for."""
    graph = grid(side)
    seen, hidden = split(graph.n_nodes, n_seen)
    gp = kind(graph, random_state=0, **folded(kind, settings))
    figures = dict(law(gp.fit(seen, values(graph.n_nodes)[seen, 0]), hidden))
    every = gp.predict(return_std=True)
    return figures | {"mean_everywhere": every[0], "std_everywhere": every[1]}


def labelled() -> Figures:
    """Nodes with names, weighted edges, an isolated node and a node that is observed twice."""
    names = ["a", "b", "c", "d", "e", "f", "g", "h", "i"]
    graph = cgp.Graph.from_edges(
        names[:8], [*names[1:8], "a"], lengths=np.linspace(50.0, 300.0, 8), labels=names
    )
    gp = cgp.GraphGPRegressor(graph, "heat", random_state=0, optimizer=None)
    gp.fit(["c", "a", "g", "a", "i"], [1.0, 2.0, 0.5, 2.2, 7.0])
    return law(gp, np.array(["b", "d", "i", "a"]))


def ranks(coupling: Any, p_halt: float) -> Figures:
    """PageRank of a graph of communities."""
    adjacency = nx.adjacency_matrix(nx.connected_caveman_graph(6, 5))
    rank = cgp.pagerank(cgp.Graph.from_scipy(adjacency), p_halt, 32, coupling, generator=4)
    return {"rank": rank}


WALKS = cgp.GraphGPRegressor
EXACT = cgp.ExactGraphGPRegressor
OFF = {"optimizer": None, "kernel": "heat"}
PAPER = {"coupling": "sigma", "length_law": "geometric", "exact_hops": 0}

for name, settings in {
    "auto-kernel": {},
    "heat": {"kernel": "heat"},
    "regularized-laplacian": {"kernel": "regularized-laplacian"},
    "matern": {"kernel": "matern"},
    "random-walk": {"kernel": "random-walk"},
    "inverse-cosine": {"kernel": "inverse-cosine"},
    "learned": {"kernel": "learned"},
    "kernel-object": {"kernel": HeatKernel(3.0), **{"optimizer": None}},
    "of-the-paper": {**OFF, **PAPER, "n_walks": 64},
    "sigma-object": {**OFF, "coupling": WalkerCoupling(SigmaLengths(order=10), SystematicSteps())},
    "iid": {**OFF, "coupling": "iid"},
    "antithetic-repelling": {**OFF, "coupling": "antithetic+repelling"},
    "geometric": {**OFF, "length_law": "geometric", "p_halt": 0.2},
    "geometric-object": {**OFF, "length_law": GeometricLaw(0.3), "max_length": 12},
    "hops-0": {**OFF, "exact_hops": 0},
    "hops-2": {"kernel": "matern", "exact_hops": 2},
    "hops-2-power": {**OFF, "exact_hops": 2, "hop_nodes": "power"},
    "hops-2-ritz": {**OFF, "exact_hops": 2, "hop_nodes": "ritz"},
    "rounds": {"kernel": "heat", "exact_hops": 0, "n_walks": 16},
    "kept-scales": {**OFF, "outputscale": 2.0, "noise": 0.05},
    "fixed": {"kernel": "heat", "fixed": ("noise", "kernel"), "noise": 0.2},
    "unnormalised": {**OFF, "normalize_y": False},
    "iterative": {**OFF, "solver": "iterative", "exact_hops": 2},
    "iterative-optimised": {"kernel": "heat", "solver": "iterative"},
    "iterative-sampled-std": {**OFF, "solver": "iterative", "exact_variances": 10},
    "auto-size": {**OFF, "exact_hops": 0, "n_walks": "auto", "kl_target": 0.1},
    "auto-coupling": {**OFF, "exact_hops": 1, "coupling": "auto", "n_walks": 16},
}.items():
    case(f"graph {name}", fitted, WALKS, settings)
case("graph several-outputs", fitted, WALKS, {}, [0, 1])
case("graph several-outputs hops-0", fitted, WALKS, {**OFF, "exact_hops": 0}, [0, 1])
case("graph several-outputs iterative", fitted, WALKS, {**OFF, "solver": "iterative"}, [0, 1])
case("graph exact-twin", twin, {"exact_hops": 1})
case("graph labelled", labelled)
for name, settings in {
    "auto-kernel": {},
    "spectral": {"kernel": "matern", "method": "spectral"},
    "series": {"kernel": "heat", "method": "series"},
    "cholesky": {"kernel": "regularized-laplacian", "method": "cholesky"},
    "iterative": {**OFF, "solver": "iterative", "method": "series"},
    "iterative-cholesky": {
        "optimizer": None,
        "kernel": "regularized-laplacian",
        "solver": "iterative",
        "method": "cholesky",
    },
    "iterative-optimised": {"kernel": "heat", "solver": "iterative", "method": "series"},
    "unnormalised": {**OFF, "normalize_y": False},
}.items():
    case(f"exact-graph {name}", fitted, EXACT, settings)
case("exact-graph several-outputs", fitted, EXACT, {}, [0, 1])
# 1100 observations are beyond the dense evidence, 1600 nodes beyond all eigenvectors.
case("graph large", large, WALKS, {"kernel": "heat"}, 40, 1100)
case("graph large hops-0", large, WALKS, {**OFF, "exact_hops": 0, "n_walks": 16}, 40, 1100)
case("graph large auto-kernel", large, WALKS, {}, 40, 300)
case("exact-graph large", large, EXACT, {"kernel": "heat"}, 40, 1100)
for name, coupling in {
    "iid": "iid",
    "sigma": "sigma",
    "stratified+systematic": "stratified+systematic",
}.items():
    case(f"pagerank {name}", ranks, coupling, 0.15)
case("pagerank antithetic", ranks, "antithetic", 0.3)
