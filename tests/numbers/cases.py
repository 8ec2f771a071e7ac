"""Small models of every kind, everything that they answer, and numbers among it that are none."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import trimesh

import coupledgp as cgp
from coupledgp.ground.validation import json_values
from coupledgp.random import FloatArray

rng = np.random.default_rng(0)
X, X_TEST = rng.normal(size=(24, 2)), rng.normal(size=(9, 2))
Y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.05 * rng.normal(size=24)
Y_TEST = np.sin(X_TEST[:, 0]) + 0.3 * X_TEST[:, 1]

SEARCHED: dict[str, Any] = {"random_state": 0, "n_restarts": 0, "max_iter": 8}
KEPT: dict[str, Any] = {"random_state": 0, "optimizer": None}
TABLES: dict[str, Callable[[], Any]] = {
    "exact": lambda: cgp.ExactGPRegressor(**SEARCHED),
    "exact, given lengthscale": lambda: cgp.ExactGPRegressor("matern-0.7", lengthscale=1.0, **KEPT),
    "exact, y as it is": lambda: cgp.ExactGPRegressor(
        "matern-3/2", normalize_y=False, ard=False, **KEPT
    ),
    "exact, averaged": lambda: cgp.ExactGPRegressor(
        hyperparameters="averaged", n_hyperparameter_draws=4, **SEARCHED
    ),
    "exact, transformed": lambda: cgp.ExactGPRegressor(target_transform="yeo-johnson", **SEARCHED),
    "sparse": lambda: cgp.SparseSpectrumGPRegressor(n_frequencies=8, **SEARCHED),
    "sparse, given lengthscale": lambda: cgp.SparseSpectrumGPRegressor(
        n_frequencies=8, lengthscale=1.0, **KEPT
    ),
    "sparse, laplace": lambda: cgp.SparseSpectrumGPRegressor(
        n_frequencies=8, features="laplace", **KEPT
    ),
    "sparse, single precision": lambda: cgp.SparseSpectrumGPRegressor(
        n_frequencies=8, dtype="float32", **KEPT
    ),
    "local": lambda: cgp.LocalGPRegressor(
        "matern-3/2", n_frequencies=0, n_neighbors=6, random_state=0
    ),
    "automatic": lambda: cgp.GPRegressor("exact", random_state=0),
}
# Those whose search of hyperparameters takes seconds, for fewer cases.
SLOW = {"local", "automatic"}

EDGES = np.array([(5 * i + j, 5 * i + j + step) for i in range(5) for j in range(5)
                  for step in (1, 5) if (j < 4 or step == 5) and (i < 4 or step == 1)])  # fmt: skip
WEIGHTS = rng.uniform(0.5, 2.0, len(EDGES))
NODES, NODES_TEST = np.arange(0, 25, 2), np.arange(1, 25, 2)
Y_NODES = rng.normal(size=13) + 1.0
SPHERE = trimesh.creation.icosphere(subdivisions=1)
SENSORS, PLACES = np.arange(0, 42, 3), np.arange(1, 42, 4)
Y_SENSORS = SPHERE.vertices[SENSORS, 0] + 0.1 * rng.normal(size=14)


def on_nodes(weights: FloatArray = WEIGHTS, y: FloatArray = Y_NODES, walks: bool = False) -> Any:
    """A model of nodes of a grid of 5 x 5, its data, and where it predicts."""
    graph = cgp.Graph.from_edges(EDGES[:, 0], EDGES[:, 1], weights)
    make: Any = cgp.GraphGPRegressor if walks else cgp.ExactGraphGPRegressor
    further = {"n_walks": 4, "method": "walks"} if walks else {}
    model = make(graph, "heat", random_state=0, optimizer=None, **further)
    return model, NODES, y, NODES_TEST, np.full(12, y.mean())


def on_sphere(scale: float = 1.0, offset: float = 0.0, y: FloatArray = Y_SENSORS) -> Any:
    """A model of a field on a sphere of a radius, elsewhere."""
    vertices = SPHERE.vertices * scale + offset
    mesh = trimesh.Trimesh(vertices, SPHERE.faces, process=False)
    operator = cgp.LaplaceOperator.from_trimesh(mesh)
    model = cgp.FieldGPRegressor(operator, "matern", random_state=0)
    return model, vertices[SENSORS], y, vertices[PLACES], np.full(11, y.mean() + y.std())


def on_roads(scale: float = 1.0, y: FloatArray = Y_NODES) -> Any:
    """A model of a field on a network of edges whose lengths have a scale."""
    operator = cgp.LaplaceOperator.from_edges(EDGES[:, 0], EDGES[:, 1], WEIGHTS * scale)
    places, further = operator.at_vertices(NODES), operator.at_vertices(NODES_TEST)
    model = cgp.FieldGPRegressor(operator, random_state=0)
    return model, places, y, further, np.full(12, y.mean())


def no_numbers(value: Any, name: str = "") -> Iterator[str]:
    """Names of the numbers within dicts, lists and arrays that are NaN or infinite."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from no_numbers(item, f"{name}.{key}")
    elif isinstance(value, (list, tuple)):
        for place, item in enumerate(value):
            yield from no_numbers(item, f"{name}[{place}]")
    elif isinstance(value, (float, np.ndarray)):
        array = np.asarray(value)
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            yield name


def predictions(model: Any, points: Any, y: FloatArray) -> dict[str, Any]:
    """What a fitted model says of observations at points."""
    mean, std = model.predict(points, return_std=True)
    return {
        "mean": mean,
        "std": std,
        "cov": model.predict(points, return_cov=True)[1],
        "samples": model.sample_y(points, 2),
        "quantiles": model.predict_quantiles(points),
        "log density": model.log_density(points, y) if hasattr(model, "log_density") else 0.0,
        "prior": model.prior_covariance(points) if hasattr(model, "prior_covariance") else 0.0,
        "evidence": model.log_marginal_likelihood_value_,
        "scales": [model.outputscale_, model.noise_],
    }


def answers(
    model: Any, X: Any, y: FloatArray, points: Any, targets: FloatArray, *, scored: bool = True,
    **weights: Any,
) -> dict[str, Any]:  # fmt: skip
    """Everything that a model answers with after a fit: on its own, from a file, and scored."""
    model.fit(X, y, **weights)
    if not hasattr(model, "process_"):
        return {"mean": model.predict(points)}
    found = predictions(model, points, targets)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        cgp.save_model(model, path, include_data=True)
        again = cgp.load_model(path).predict(points)
    size = np.abs(found["mean"]).max() or 1.0
    np.testing.assert_allclose(again / size, found["mean"] / size, atol=1e-6)
    if scored:
        report = cgp.diagnostics.compare(model, points, targets)
        found["report"] = report.to_dict()
        text = json.loads(report.to_json())
        assert ("not_finite" in text) == any(no_numbers(found["report"]))
        found["left out"] = json_values(cgp.diagnostics.cross_validate(model).to_dict())
    model.partial_fit(points, targets)
    found["further rows"] = list(model.predict(points, return_std=True))
    return found
