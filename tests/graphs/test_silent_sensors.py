"""Observations whose value is missing, at nodes and places."""

import networkx as nx
import numpy as np
import pytest
import trimesh

import coupledgp as cgp
from coupledgp.errors import InvalidInputError

BALL = trimesh.creation.icosphere(subdivisions=2)
OPERATOR = cgp.LaplaceOperator.from_trimesh(BALL)
GRAPH = cgp.Graph.from_edges(np.arange(29), np.arange(1, 30))
NODES = np.arange(0, 30, 2)


def models(**options):
    return {
        "field": cgp.FieldGPRegressor(OPERATOR, cgp.kernels.WhittleMatern(2.0, 2), **options),
        "graph": cgp.GraphGPRegressor(GRAPH, random_state=0, **options),
        "exact graph": cgp.ExactGraphGPRegressor(GRAPH, **options),
    }


def values(n=15):
    y = np.sin(np.arange(n) / 3.0)
    y[[2, 7]] = np.nan
    return y


@pytest.mark.parametrize("name", models())
def test_silent_sensors_are_left_out_where_that_is_asked_for(name):
    y = values()
    kept = np.isfinite(y)
    found = models(missing="omit")[name].fit(NODES, y)
    expected = models()[name].fit(NODES[kept], y[kept])
    np.testing.assert_array_equal(found.predict(), expected.predict())
    found.partial_fit([1, 3], [np.nan, 0.4])
    expected.partial_fit([3], [0.4])
    np.testing.assert_allclose(found.predict(), expected.predict(), rtol=1e-9)


@pytest.mark.parametrize("name", models())
def test_otherwise_the_error_says_so(name):
    with pytest.raises(InvalidInputError, match="missing='omit' leaves 2 rows of NaN out"):
        models()[name].fit(NODES, values())
    with pytest.raises(InvalidInputError, match="y: expected a value, got 15 rows of NaN"):
        models(missing="omit")[name].fit(NODES, np.full(15, np.nan))
    with pytest.raises(InvalidInputError, match="y: expected finite values"):
        models(missing="omit")[name].fit(NODES, np.where(NODES == 4, np.inf, 1.0))
    with pytest.raises(InvalidInputError, match="missing: expected"):
        models(missing="drop")[name].fit(NODES, values())


def test_a_row_with_one_of_two_outputs_is_refused():
    y = np.column_stack([values(), np.arange(15.0)])
    with pytest.raises(InvalidInputError, match="y: expected finite values"):
        models(missing="omit")["field"].fit(NODES, y)


def test_a_networkx_graph_stands_for_its_graph():
    path = nx.path_graph(30)
    y = np.sin(NODES / 6.0)
    for kind in (cgp.GraphGPRegressor, cgp.ExactGraphGPRegressor):
        found = kind(path, random_state=0).fit(NODES, y)
        expected = kind(GRAPH, random_state=0).fit(NODES, y)
        np.testing.assert_allclose(found.predict(), expected.predict(), rtol=1e-9)
    labels = (NODES > 14).astype(int)
    classes = cgp.GraphGPClassifier(path, random_state=0).fit(NODES, labels)
    assert classes.predict([0, 28]).tolist() == [0, 1]


@pytest.mark.long
def test_exposures_of_silent_sensors_are_left_out_too():
    y = np.random.default_rng(0).poisson(5.0, 15).astype(float)
    y[3] = np.nan
    kept, exposure = np.isfinite(y), np.linspace(1.0, 2.0, 15)
    options = {"likelihood": "poisson", "random_state": 0}
    found = cgp.GraphGPRegressor(GRAPH, missing="omit", **options)
    found.fit(NODES, y, exposure=exposure)
    expected = cgp.GraphGPRegressor(GRAPH, **options)
    expected.fit(NODES[kept], y[kept], exposure=exposure[kept])
    np.testing.assert_allclose(found.predict(), expected.predict(), rtol=1e-9)
