"""Parameters of estimators are declared once, and every estimator answers alike."""

import inspect
import re
from dataclasses import KW_ONLY

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone

import coupledgp as cgp
from coupledgp.core.options import estimator, points_named
from coupledgp.errors import InvalidInputError

ESTIMATORS = [
    cgp.ExactGPRegressor, cgp.SparseSpectrumGPRegressor, cgp.LocalGPRegressor, cgp.GPRegressor,
    cgp.GraphGPRegressor, cgp.ExactGraphGPRegressor, cgp.FieldGPRegressor,
    cgp.GraphTimeGPRegressor,
]  # fmt: skip
PATH = cgp.Graph.from_networkx(nx.path_graph(8))
RNG = np.random.default_rng(0)
X = RNG.normal(size=(25, 2))
Y = np.sin(X[:, 0])


@estimator
class Shared(BaseEstimator):
    """A group of options.

    Parameters
    ----------
    size, shape
        Size and shape.
    depth
        The depth of all.

    Attributes
    ----------
    found_
        What is found.
    """

    _: KW_ONLY
    depth: int = 3
    size: int = 1

    found_ = 4

    def answer(self, X=None, level=0.5):
        """Return both."""
        return X, level


@points_named("nodes", "answer")
@estimator
class Own(Shared):
    """An estimator.

    Parameters
    ----------
    name
        Its name.
    depth
        Its own depth.

    Examples
    --------
    >>> 1 + 1
    2
    """

    name: str = "a"
    _: KW_ONLY
    size: int = 2


def test_a_constructor_has_the_parameters_of_its_groups():
    found = inspect.signature(Own).parameters
    kinds = {name: p.kind.name for name, p in found.items()}
    assert kinds == {
        "name": "POSITIONAL_OR_KEYWORD", "depth": "KEYWORD_ONLY", "size": "KEYWORD_ONLY",
    }  # fmt: skip
    model = Own("b", depth=5)
    assert model.get_params() == {"name": "b", "depth": 5, "size": 2}
    assert clone(model).get_params() == model.get_params()


def test_documentation_is_inherited_and_one_s_own_comes_first():
    sections = inspect.getdoc(Own).split("\n\n")
    assert sections == [
        "An estimator.",
        "Parameters\n----------\nname\n    Its name.\ndepth\n    Its own depth.\n"
        "size\n    Size and shape.",
        "Attributes\n----------\nfound_\n    What is found.",
        "Examples\n--------\n>>> 1 + 1\n2",
    ]


def test_points_have_the_name_of_their_family():
    model = Own()
    assert model.answer(nodes=1) == model.answer(1) == model.answer(X=1) == (1, 0.5)
    assert model.answer(level=0.2) == (None, 0.2)
    assert list(inspect.signature(Own.answer).parameters) == ["self", "nodes", "level"]
    for given in ({"nodes": 1, "X": 2}, {"places": 1}):
        with pytest.raises(TypeError):
            model.answer(**given)
    with pytest.raises(TypeError, match="multiple values for argument 'nodes'"):
        model.answer(1, nodes=2)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_every_parameter_is_documented(kind):
    text = re.split(r"\n\n(?=\S)", inspect.getdoc(kind).split("Parameters\n")[1])[0]
    names = [
        name for line in text.splitlines() if line and not line.startswith((" ", "-"))
        for name in line.split(", ")
    ]  # fmt: skip
    assert sorted(names) == sorted(inspect.signature(kind).parameters)


def fitted_models():
    kept = {"optimizer": None, "random_state": 0}
    yield cgp.ExactGPRegressor(optimizer=None).fit(X, Y)
    yield cgp.SparseSpectrumGPRegressor(n_frequencies=8, **kept).fit(X, Y)
    yield cgp.LocalGPRegressor("matern-1/2", 0, random_state=0).fit(X, Y)
    yield cgp.GPRegressor("exact", random_state=0).fit(X, Y)
    yield cgp.ExactGraphGPRegressor(PATH, **kept).fit([0, 3, 5], [1.0, 2.0, 0.0])
    roads = cgp.LaplaceOperator.from_edges(range(9), range(1, 10), np.ones(9))
    yield cgp.FieldGPRegressor(roads, "matern", random_state=0).fit(range(10), np.arange(10.0))
    times, values = np.arange(40.0), RNG.normal(size=(8, 40))
    yield cgp.GraphTimeGPRegressor(PATH).fit(range(8), values, times=times)


@pytest.mark.filterwarnings("ignore:y. no kernel")
@pytest.mark.long
def test_every_estimator_answers_alike():
    for model in fitted_models():
        name = type(model).__name__
        lines = model.explain().splitlines()
        assert lines, name
        lower, upper = model.predict_interval(
            X[:3] if hasattr(model, "X_train_") else
            ([0, 1, 2], [4.0, 5.0, 6.0]) if name.startswith("GraphTime") else [0, 1, 2],
            level=0.9,
        )  # fmt: skip
        assert lower.shape == (3,), name
        assert (lower < upper).all(), name
        assert model.get_params()["progress"] is None
        assert sum(model.member_weights_) == pytest.approx(1)
        assert len(model.members_) == len(model.member_weights_)


def test_points_that_cannot_be_missing_refuse_an_indicator():
    for model, data in (
        (cgp.GraphGPRegressor(PATH, missing="indicator"), ([0, 1], [1.0, 2.0])),
        (cgp.GraphTimeGPRegressor(PATH, missing="indicator"), (range(8), np.ones((8, 4)))),
    ):
        with pytest.raises(InvalidInputError, match=r"missing: expected .*'raise'"):
            model.fit(*data)


def test_an_explanation_names_hyperparameters_and_the_search():
    text = cgp.ExactGPRegressor().fit(X, Y).explain()
    assert "lengthscale: " in text
    assert "noise: " in text
    assert "evaluations; the search converged" in text


def test_intervals_over_time_have_the_form_of_the_data():
    values = RNG.normal(size=(40, 8)).cumsum(axis=0)
    table = pd.DataFrame(values, index=np.arange(40.0), columns=list(range(8)))
    gp = cgp.GraphTimeGPRegressor(PATH).fit(table)
    lower, upper = gp.predict_interval([2, 5], [3.0, 41.0, 3.0], level=0.8)
    assert list(lower.columns) == [2, 5]
    assert lower.shape == upper.shape == (3, 2)
    assert (lower.iloc[0] == lower.iloc[2]).all()
    mean, std = gp.predict([2, 5], [3.0, 41.0], return_std=True)
    half = 1.2815515655446004  # of the standard normal law, at 0.9
    np.testing.assert_allclose(upper.iloc[:2], mean + half * std, rtol=1e-9)
    alone = gp.predict_interval(([2, 5], [3.0, 41.0]), 0.8)
    np.testing.assert_allclose(alone[0], [lower.iloc[0, 0], lower.iloc[1, 1]], rtol=1e-6)
    with pytest.raises(InvalidInputError, match="level"):
        gp.predict_interval([2], [3.0], level=1.5)


def test_numbers_as_text_are_no_numbers():
    with pytest.raises(InvalidInputError, match=r"budget: expected seconds, .*got '10'"):
        cgp.GPRegressor(budget="10").fit(np.eye(9), np.arange(9.0))


@pytest.mark.parametrize("row", [pd.Series({"a": 1.0, "side": "l"}), {"a": 1.0, "side": "l"}])
def test_a_row_that_is_no_table_is_refused(row):
    table = pd.DataFrame({"a": np.arange(9.0), "side": list("lrlrlrlrl")})
    model = cgp.ExactGPRegressor(optimizer=None, lengthscale=1.0, noise=0.1).fit(
        table, np.arange(9)
    )
    with pytest.raises(
        InvalidInputError, match=r"expected rows and columns, got (dict|Series); one"
    ):
        model.predict(row)
