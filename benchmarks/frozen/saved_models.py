"""Fitted models of every kind that a file can hold, small, and the figures they are known by."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import networkx as nx
import numpy as np
import pyarrow as pa

import coupledgp as cgp
from coupledgp.couplings import GeometricLaw
from coupledgp.kernels import GraphMaternKernel

_RNG = np.random.default_rng(20261)
X = _RNG.normal(size=(50, 3))
_NOISE = 0.1 * _RNG.normal(size=(50, 2))
Y = np.stack([np.sin(X[:, 0]) + X[:, 1], 20 * X[:, 1] * X[:, 2] + 1000], axis=1) + _NOISE
X_NEW, Y_NEW = X[40:], Y[40:]
X, Y = X[:40], Y[:40]
WALKS, EXACT = cgp.GraphGPRegressor, cgp.ExactGraphGPRegressor
COLUMNS = ["alpha", "beta", "gamma"]
MODELS: dict[str, tuple[Callable[[], Any], bool]] = {}


def model(name: str, make: Callable[[], Any], with_data: bool = False) -> None:
    """Add a model to the list, saved with its training rows or without."""
    MODELS[name] = make, with_data


def figures_of(gp: Any) -> Mapping[str, Any]:
    """Figures of a model, as it was fitted or as it was loaded."""
    if hasattr(gp, "graph"):
        return node_figures(gp)
    named = hasattr(gp, "feature_names_in_")
    points = pa.table(dict(zip(COLUMNS, X_NEW.T, strict=True))) if named else X_NEW
    y = Y_NEW[:, 0] if np.ndim(gp.predict(points)) == 1 else Y_NEW
    mean, std = gp.predict(points, return_std=True)
    figures = {
        "mean": mean,
        "std": std,
        "covariance": gp.predict(points, return_cov=True)[1],
        "samples": gp.sample_y(points, 2, random_state=1),
        "log_density": gp.log_density(points, y),
        "log_evidence": gp.log_marginal_likelihood_value_,
        "lengthscale": gp.lengthscale_,
        "outputscale": gp.outputscale_,
        "noise": gp.noise_,
        "prior_covariance": gp.prior_covariance(points),
        "class": type(gp).__name__,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gp.partial_fit(points, y)
    mean, std = gp.predict(points, return_std=True)
    return {**figures, "later mean": mean, "later std": std}


def node_figures(gp: Any) -> Mapping[str, Any]:
    """Figures of a model on a graph at up to twelve of its nodes."""
    labels = gp.graph.labels
    nodes = list(range(gp.graph.n_nodes) if labels is None else labels)[:12]
    mean, std = gp.predict(nodes, return_std=True)
    return {
        "mean": mean,
        "std": std,
        "covariance": gp.predict(nodes, return_cov=True)[1],
        "samples": gp.sample_y(nodes, 2, random_state=1),
        "log_evidence": gp.log_marginal_likelihood_value_,
        "theta": gp.kernel_.theta,
        "outputscale": gp.outputscale_,
        "noise": gp.noise_,
        "prior_covariance": gp.prior_covariance(nodes),
        "twin mean": gp.exact_twin().predict(nodes),
        "class": type(gp).__name__,
    }


def sparse(outputs: Any = 0, **parameters: Any) -> Callable[[], Any]:
    """Maker of a sparse-spectrum model that is fitted to one output or several."""
    settings = {"n_frequencies": 6, "optimizer": None, "random_state": 3} | parameters
    return lambda: cgp.SparseSpectrumGPRegressor(**settings).fit(X, Y[:, outputs])


def of_function() -> Any:
    """Frequencies fitted by a function, whose place a name takes in a file."""
    gp = cgp.SparseSpectrumGPRegressor(
        n_frequencies=6, frequencies="fitted", random_state=0, optimizer=None,
        objective=lambda frequencies, weights: (weights * frequencies.square().sum(1)).sum(),
    )  # fmt: skip
    return gp.fit(X, Y[:, 0]).set_params(objective="evidence")


def named_columns() -> Any:
    """Inputs whose columns have names."""
    table = pa.table(dict(zip(COLUMNS, X.T, strict=True)))
    return cgp.SparseSpectrumGPRegressor(n_frequencies=6, max_iter=5, random_state=1).fit(
        table, Y[:, 0]
    )


def in_batches(**parameters: Any) -> Callable[[], Any]:
    """Maker of a model whose rows came in two batches."""
    first = cgp.SparseSpectrumGPRegressor(**{"optimizer": None, "random_state": 3} | parameters)
    return lambda: first.fit(X[:25], Y[:25, 0]).partial_fit(X[25:], Y[25:, 0])


def nodes(
    kind: Any = cgp.GraphGPRegressor, outputs: Any = 0, **parameters: Any
) -> Callable[[], Any]:
    """Maker of a model on a grid of 36 nodes, half of them observed."""
    settings = {"kernel": "heat", "optimizer": None, "random_state": 0} | parameters
    graph = cgp.Graph.from_scipy(nx.adjacency_matrix(nx.grid_2d_graph(6, 6)))
    seen = np.random.default_rng(8).permutation(36)[:18]
    return lambda: kind(graph, **settings).fit(seen, Y[:18, outputs])


def roads(labels: list[Any]) -> Any:
    """A ring of weighted edges whose nodes have labels; one is observed twice, one is isolated."""
    ends = labels[:-1]
    graph = cgp.Graph.from_edges(
        ends, [*ends[1:], ends[0]], lengths=np.linspace(50, 300, len(ends)), labels=labels
    )
    gp = cgp.GraphGPRegressor(graph, "matern", random_state=0)
    return gp.fit([labels[k] for k in (2, 0, 6, 0, 8)], [1.0, 2.0, 0.5, 2.2, 7.0])


EVIDENCE = {"frequencies": "fitted"}
POSTERIOR = {"frequencies": "fitted", "objective": "posterior-kl", "teacher_rows": 30}
LAPLACE = {"features": "laplace", "coupling": "orthogonal+pnc+antithetic"}
for rows in (False, True):
    end = "-with-data" if rows else ""
    model(f"sparse{end}", sparse(), rows)
    model(f"sparse-mixture{end}", sparse(**EVIDENCE), rows)
    model(f"sparse-posterior-kl{end}", sparse(**POSTERIOR), rows)
    model(f"sparse-laplace{end}", sparse(**LAPLACE), rows)
    model(f"sparse-float32{end}", sparse(dtype="float32"), rows)
    model(f"sparse-fast{end}", sparse(coupling="orthogonal-fast+pnc"), rows)
    model(f"sparse-batches{end}", in_batches(n_frequencies=6), rows)
    model(f"sparse-outputs{end}", sparse([0, 1], kernel="matern-3/2", ard=False), rows)
model("sparse-rows", sparse(n_frequencies=32))
model("sparse-rows-batches", in_batches(n_frequencies=32))
model("sparse-float32-laplace", sparse(dtype="float32", **LAPLACE))
model("sparse-simplex-fast", sparse(coupling="simplex-fast"))
model("sparse-quadrature", sparse(coupling="quadrature", n_frequencies=27))
model("sparse-optimised", sparse(optimizer="lbfgs", max_iter=10, n_restarts=0, fixed=("noise",)))
model("sparse-unnormalised", sparse(normalize_y=False, lengthscale=[1.0, 2.0, 3.0]))
model("sparse-outputs-mixture", sparse([0, 1], **EVIDENCE), True)
model("sparse-outputs-posterior-kl", sparse([0, 1], **POSTERIOR))
model("sparse-function", of_function)
model("sparse-named-columns", named_columns, True)
model("sparse-matern-general", sparse(kernel="matern-1.3", coupling="sobol"))
model("exact", lambda: cgp.ExactGPRegressor(random_state=0, max_iter=10).fit(X, Y[:, 0]))
model("exact-outputs", lambda: cgp.ExactGPRegressor(optimizer=None, kernel="matern-5/2").fit(X, Y))
model("exact-twin", lambda: sparse()().exact_twin())
model("graph", nodes())
model("graph-optimised", nodes(kernel="auto", optimizer="lbfgs"))
model("graph-no-hops", nodes(exact_hops=0, n_walks=8))
model("graph-two-hops", nodes(exact_hops=2, n_walks=8, coupling="sigma", hop_nodes="power"))
model("graph-geometric", nodes(length_law="geometric", exact_hops=0, coupling="iid", n_walks=8))
model("graph-geometric-law", nodes(length_law=GeometricLaw(0.3), exact_hops=1, max_length=9))
model("graph-iterative", nodes(solver="iterative"))
model("graph-outputs", nodes(outputs=[0, 1], exact_hops=1))
model("graph-unnormalised", nodes(normalize_y=False, noise=0.3, fixed=("noise",)))
for text in ("regularized-laplacian", "matern", "random-walk", "inverse-cosine", "learned"):
    model(f"graph-{text}", nodes(kernel=text))
model("graph-matern-object", nodes(kernel=GraphMaternKernel(1.5, 2.5)))
model("graph-labels", lambda: roads(list("abcdefghi")))
model("graph-tuple-labels", lambda: roads([(k, "x") for k in range(9)]))
for text in ("spectral", "series", "cholesky"):
    made = nodes(EXACT, kernel="regularized-laplacian", method=text)
    model(f"exact-graph-{text}", made)
model("exact-graph-iterative", nodes(EXACT, method="series", solver="iterative"))
model("exact-graph-outputs", nodes(EXACT, outputs=[0, 1]))
