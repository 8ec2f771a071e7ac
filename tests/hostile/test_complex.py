"""Complex numbers are refused everywhere, not cut to their real parts; so are equal names."""

import warnings
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import trimesh

import coupledgp as cgp
from coupledgp import diagnostics, geometry
from coupledgp.errors import InvalidInputError

X = np.random.default_rng(0).normal(size=(12, 2))
Y, ONES = X[:, 0], np.ones(12)
GRAPH = cgp.Graph.from_networkx(nx.path_graph(5))
BALL = trimesh.creation.icosphere(1)


def model(**options):
    return cgp.SparseSpectrumGPRegressor(n_frequencies=4, optimizer=None, **options)


FITTED = model().fit(X, Y)
CALLS = {
    "rows": lambda: model().fit(X + 1j, Y),
    "targets": lambda: model().fit(X, Y + 1j),
    "listed targets": lambda: model().fit(X, list(Y + 1j)),
    "weights": lambda: model().fit(X, Y, sample_weight=ONES + 1j),
    "noise": lambda: model().fit(X, Y, sample_noise=ONES + 1j),
    "lengthscale": lambda: model(lengthscale=np.array([1, 1j])).fit(X, Y),
    "further rows": lambda: FITTED.predict(X + 1j),
    "further targets": lambda: FITTED.log_density(X, Y + 1j),
    "probabilities": lambda: FITTED.predict_quantiles(X, np.array([0.5 + 1j])),
    "test targets": lambda: diagnostics.compare(FITTED, X, Y + 1j),
    "scores": lambda: diagnostics.rmse(Y + 1j, Y),
    "coverage": lambda: diagnostics.coverage(Y, Y, ONES + 1j),
    "points of a graph": lambda: cgp.Graph.from_points(X + 1j, 3),
    "weights of edges": lambda: cgp.Graph.from_edges([0, 1], [1, 2], np.array([1, 1j])),
    "lengths of edges": lambda: cgp.Graph.from_edges([0, 1], [1, 2], lengths=np.array([1, 1j])),
    "values at nodes": lambda: cgp.GraphGPRegressor(GRAPH).fit([0, 1], np.array([1, 1j])),
    "mesh of a graph": lambda: cgp.Graph.from_trimesh(
        SimpleNamespace(vertices=BALL.vertices + 1j, faces=BALL.faces), weights="inverse-distance"
    ),
    "mesh": lambda: geometry.LaplaceOperator.from_trimesh(
        SimpleNamespace(vertices=BALL.vertices + 1j, faces=BALL.faces)
    ),
    "cloud": lambda: geometry.LaplaceOperator.from_points(BALL.vertices + 1j),
    "lengths": lambda: geometry.LaplaceOperator.from_edges([0, 1], [1, 2], np.array([1, 1j])),
    "places": lambda: geometry.LaplaceOperator.from_trimesh(BALL).project(BALL.vertices[:3] + 1j),
}


@pytest.mark.parametrize("name", CALLS)
def test_complex_numbers_are_refused(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error", np.exceptions.ComplexWarning)
        with pytest.raises(InvalidInputError, match="expected real numbers, got complex"):
            CALLS[name]()


@pytest.mark.parametrize("columns", [["a", "a"], [3, 3]])
def test_equal_names_of_columns_are_refused_by_name(columns):
    table = pd.DataFrame(X, columns=columns)
    with pytest.raises(InvalidInputError, match=rf"X: .*more than one {columns[0]!r}"):
        model().fit(table, Y)
    other = pd.DataFrame(X, columns=["a", "b"])
    fitted = model().fit(other, Y)
    with pytest.raises(InvalidInputError, match=rf"X: .*more than one {columns[0]!r}"):
        fitted.predict(table)
