"""A fit that fails or is interrupted anywhere leaves the model as it was, ready for another try.

An exception is raised at a call of a function of the package, counted by `sys.setprofile`: at calls
spread over a whole fit, and at every call within the modules of the estimators. Afterwards every
attribute is the object it was before, every prediction and the bytes of the saved model are the
same, and the same fit once more ends where an undisturbed one does.
"""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError

import coupledgp as cgp
from coupledgp.core import estimator
from coupledgp.features import FeatureMap
from coupledgp.ground.parameters import folded
from tests.core.few_steps import search_little, take_few_steps
from tests.often import often

ESTIMATORS = str(Path(estimator.__file__).parent)
PACKAGE = str(Path(cgp.__file__).parent)
RNG = np.random.default_rng(20262)
X = RNG.normal(size=(40, 2))
Y = np.sin(X[:, 0]) + X[:, 1] + 0.1 * RNG.normal(size=40)
X_NEW = RNG.normal(size=(5, 2))
GRAPH = cgp.Graph.from_scipy(nx.adjacency_matrix(nx.grid_2d_graph(5, 5)))
NODES = RNG.permutation(25)
# A fault while a generator is closed has nobody to go to, and the step goes on.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
MOST_OWN = 8
Step = Callable[[Any], Any]


class FaultError(Exception):
    """Raised where nothing else is wrong."""


ERRORS = (FaultError, KeyboardInterrupt)


class Calls:
    """Calls of functions of the package while a function runs; one of them may fail.

    Parameters
    ----------
    place
        Number of the call that fails, from zero; None for none.
    error
        What it raises.
    """

    def __init__(self, place: int | None = None, error: type[BaseException] = FaultError) -> None:
        self.place = place
        self.error = error
        self.files: list[str] = []

    def __call__(self, frame: Any, event: str, argument: Any) -> None:
        name = frame.f_code.co_filename
        if event != "call" or not name.startswith(PACKAGE):
            return
        self.files.append(name)
        if len(self.files) - 1 == self.place:
            raise self.error(f"{name}:{frame.f_lineno}")

    def during(self, step: Step, model: Any) -> bool:
        """Run a step on a model; whether it failed."""
        sys.setprofile(self)
        try:
            quietly(step, model)
        except self.error:
            return True
        finally:
            sys.setprofile(None)
        return False

    def places(self, n_spread: int) -> list[int]:
        """Calls all over a run, the first and the last, and those within the estimators.

        Where an estimator fits many others, as `"auto"` does, not all of the latter.
        """
        n_calls, rng = len(self.files), np.random.default_rng(len(self.files))
        own = [k for k, name in enumerate(self.files) if name.startswith(ESTIMATORS)]
        if len(own) > MOST_OWN:
            n_own = min(MOST_OWN // 2, max(n_spread, 1))  # few of a fit that takes long
            own = rng.choice(own, n_own, replace=False).tolist()
        spread = rng.choice(n_calls, min(n_spread, n_calls), replace=False)
        return sorted({0, n_calls - 1, *spread.tolist(), *own})


def quietly(step: Step, model: Any) -> None:
    """Run a step; a search of few iterations has not converged."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step(model)


def plain(value: Any) -> Any:
    """A value that compares by content."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, torch.Tensor):
        return plain(value.numpy())
    if isinstance(value, FeatureMap):
        return type(value).__name__, {k: plain(v) for k, v in value.state_dict().items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return repr(value)


def public_results(model: Any) -> dict[str, Any]:
    """Fitted attributes by name, those that properties compute included."""
    names = [n for n in dir(model) if n.endswith("_") and not n.startswith("_")]
    found = {}
    for name in names:
        try:
            found[name] = plain(getattr(model, name))
        except (AttributeError, NotFittedError):
            found[name] = "none"
    return found


def told(model: Any, folder: Path) -> dict[str, Any]:
    """All that a model says of itself: predictions, fitted attributes, and its file."""
    graph = hasattr(model, "graph")
    found = {"results": public_results(model)}
    if not (hasattr(model, "process_") or hasattr(model, "features_")):
        return found
    points = NODES[:5] if graph else X_NEW[:, : model.n_features_in_]
    for name in ("predict", "predict_proba", "transform"):
        if hasattr(model, name):
            found[name] = plain(getattr(model, name)(points))
    if hasattr(model, "save"):
        found["law"] = plain(model.predict(points, return_cov=True))
        model.save(folder / "model", include_data=True)
        found["file"] = (folder / "model").read_bytes()
    return found


def assert_atomic(model: Any, step: Step, folder: Path, n_spread: int) -> None:
    """Let a step fail at many places, each time on the same model."""
    before, attributes = told(model, folder), dict(vars(model))
    counted, undisturbed = Calls(), copy.copy(model)
    quietly(step, copy.copy(model))  # fills what is remembered between fits
    assert not counted.during(step, undisturbed)
    after = told(undisturbed, folder)
    assert after != before
    for place in counted.places(n_spread):
        attempt, faulty = copy.copy(model), Calls(place, ERRORS[place % 2])
        if faulty.during(step, attempt):
            where = f"call {place} of {len(counted.files)}, in {faulty.files[place]}"
            assert vars(attempt).keys() == attributes.keys(), where
            assert all(vars(attempt)[name] is value for name, value in attributes.items()), where
            assert told(attempt, folder) == before, where
            quietly(step, attempt)
        assert told(attempt, folder) == after, place
    assert told(model, folder) == before


def sparse(**parameters: Any) -> Any:
    settings = {"n_frequencies": 5, "n_restarts": 0, "max_iter": 2, "random_state": 0}
    return cgp.SparseSpectrumGPRegressor(
        **folded(cgp.SparseSpectrumGPRegressor, (settings | parameters))
    )


def nodes(kind: Any = cgp.GraphGPRegressor, **parameters: Any) -> Any:
    settings = {"kernel": "heat", "optimizer": None, "random_state": 0}
    return kind(GRAPH, **folded(kind, settings | parameters))


def rows(model: Any, start: int, stop: int) -> tuple[Any, np.ndarray]:
    """Points of a model, rows of the table or nodes, with their targets."""
    points = NODES if hasattr(model, "graph") else X
    return points[start:stop], Y[start:stop]


def first(model: Any) -> Any:
    """Fit to the first observations."""
    points, y = rows(model, 0, 12)
    return model.fit(points, y > 0 if hasattr(model, "predict_proba") else y)


def other(model: Any) -> Any:
    """Fit to others, of a table without its last column."""
    points, y = rows(model, 12, 25)
    points = points if hasattr(model, "graph") else points[:, :1]
    return model.fit(points, np.sign(y) if hasattr(model, "predict_proba") else y)


def more(model: Any) -> Any:
    """Add observations."""
    return model.partial_fit(*rows(model, 12, 15))


SEARCH = {"optimizer": "lbfgs", "hyperparameters": "maximum"}
FITS = {
    "sparse": (sparse, 50),
    "sparse laplace": (lambda: sparse(features="laplace", optimizer=None), 20),
    "sparse fitted": (lambda: sparse(frequencies="fitted", n_frequencies=3), 4),
    "sparse transformed": (lambda: sparse(target_transform="yeo-johnson", optimizer=None), 20),
    "exact": (
        lambda: cgp.ExactGPRegressor(options={"n_restarts": 0, "max_iter": 2}, random_state=0),
        40,
    ),
    "chosen": (lambda: cgp.GPRegressor("local", random_state=0), 4),
    "graph": (lambda: nodes(exact_hops=1, n_walks=4), 60),
    "exact graph": (lambda: nodes(cgp.ExactGraphGPRegressor, **SEARCH), 40),
    "averaged graph": (lambda: nodes(optimizer="lbfgs", n_hyperparameter_draws=2), 10),
    "fourier sampler": (lambda: cgp.features.FourierSampler(random_state=0), 30),
}
UPDATES = {
    "sparse": (lambda: first(sparse()), 60),
    "sparse transformed": (
        lambda: first(sparse(target_transform="yeo-johnson", optimizer=None)),
        20,
    ),
    "exact": (lambda: first(cgp.ExactGPRegressor(optimizer=None)), 60),
    "local": (lambda: first(cgp.LocalGPRegressor("matern-3/2", 2, random_state=0)), 60),
    "chosen": (lambda: first(cgp.GPRegressor("local", random_state=0)), 20),
    "graph": (lambda: first(nodes(exact_hops=1, n_walks=4)), 60),
    "exact graph": (lambda: first(nodes(cgp.ExactGraphGPRegressor)), 60),
}


@pytest.fixture(autouse=True)
def _few_steps(monkeypatch):
    take_few_steps(monkeypatch)
    search_little(monkeypatch)


@pytest.mark.parametrize("name", often(FITS, "sparse", "exact", "graph"))
def test_a_first_fit_is_atomic(name, tmp_path):
    make, n_spread = FITS[name]
    assert_atomic(make(), first, tmp_path, n_spread // 16)


@pytest.mark.long
@pytest.mark.parametrize("name", [n for n in FITS if "fitted" not in n])
def test_a_further_fit_is_atomic(name, tmp_path):
    make, n_spread = FITS[name]
    model = make()
    quietly(first, model)
    assert_atomic(model, other, tmp_path, n_spread // 16)


@pytest.mark.parametrize("name", UPDATES)
def test_adding_observations_is_atomic(name, tmp_path):
    make, n_spread = UPDATES[name]
    assert_atomic(make(), more, tmp_path, n_spread // 20)


class ForgetsFirst(cgp.ExactGPRegressor):
    def fit(self, X, y):
        self._fitted = None
        return super().fit(X, y)


class AddsInHalves(cgp.SparseSpectrumGPRegressor):
    def partial_fit(self, X, y):
        super().partial_fit(X[:1], y[:1])
        return super().partial_fit(X[1:], y[1:])


class RemembersAFit(cgp.ExactGPRegressor):
    def fit(self, X, y):
        self.attempts = getattr(self, "attempts", 0) + 1
        return super().fit(X, y)


@pytest.mark.parametrize(
    ("model", "step"),
    [
        (ForgetsFirst(optimizer=None), other),
        (AddsInHalves(n_frequencies=5, optimizer=None, random_state=0), more),
        (RemembersAFit(optimizer=None), other),
    ],
)
def test_an_estimator_that_changes_on_the_way_is_found_out(model, step, tmp_path):
    with pytest.raises(AssertionError):
        assert_atomic(first(model), step, tmp_path, 20)
