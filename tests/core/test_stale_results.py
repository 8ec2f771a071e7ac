"""Every public result of a fit after `partial_fit`: renewed, of the search, or gone."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import trimesh

import coupledgp as cgp
from coupledgp.core.process import Data
from coupledgp.core.stored import OF_ONE_FIT
from coupledgp.core.units import Units
from coupledgp.tables.lattice import PlaceBox
from coupledgp.tables.lattice_process import LatticeGP

# What becomes of each result where the model is given further rows. A renewed one has the value of
# a model of the same hyperparameters that is given all rows at once; one of the search keeps its
# value, which tells how the hyperparameters were found; one that held for the rows of the fit goes.
RENEWED = {
    "X_train_", "y_train_", "nodes_", "process_", "fitted_", "log_marginal_likelihood_value_",
    "log_marginal_likelihood_error_", "outputscale_", "noise_", "lengthscale_",
    "lengthscale_names_",
    "n_features_in_", "feature_names_in_", "encoding_", "features_", "drawn_",
    "n_frequencies_", "kernel_",
    "kernels_", "column_shares_", "operator_", "members_", "member_weights_", "weights_",
    "n_walks_", "plan_",
    "truncation_", "n_waves_", "left_out_share_", "std_error_", "first_process_", "method_",
    "method_reason_",
}  # fmt: skip
OF_THE_SEARCH = {
    "n_evaluations_", "n_iter_", "converged_", "search_", "n_rounds_", "steps_",
    "n_effective_draws_", "choice_", "noise_choice_", "forecast_", "pilot_",
    "probe_error_", "power_", "target_names_",
}  # fmt: skip
# Compared by what they hold, which other entries of the table name.
CONTAINERS = {"process_", "first_process_", "fitted_", "members_"}

rng = np.random.default_rng(11)
X = rng.normal(size=(30, 2))
y = np.sin(X[:, 0]) + 0.4 * X[:, 1] + 0.1 * rng.normal(size=30) + 2.0
PARTS = slice(0, 20), slice(20, 30)


@dataclass
class Case:
    """An estimator, and how one of the same hyperparameters is fitted to all rows at once."""

    make: Callable[[], Any]
    inputs: Any
    targets: Any
    refit: Callable[[Any], Any] | None = None


def kept(model: Any) -> dict[str, Any]:
    """Hyperparameters as the constructor takes them, in units of the normalised y."""
    found = model.process_.hyperparameters
    return {
        "lengthscale": found.lengthscale,
        "outputscale": float(found.outputscale),
        "noise": float(found.noise),
        "optimizer": None,
        "random_state": 0,
    }


def exact_again(model: Any) -> Any:
    return cgp.ExactGPRegressor(**kept(model)).fit(X, y)


def sparse_again(model: Any) -> Any:
    center = model.process_.feature_prior.center
    again = cgp.SparseSpectrumGPRegressor(
        n_frequencies=model.n_frequencies_, options={"center": center}, **kept(model)
    )
    return again.fit(X, y)


GRAPH = cgp.Graph.from_edges(range(40), [*range(1, 40), 0])
NODES = rng.permutation(40)[:30]
MESH = trimesh.creation.icosphere(subdivisions=2)
PLACES = MESH.vertices[rng.permutation(len(MESH.vertices))[:30]]


def nodes_again(model: Any) -> Any:
    again = type(model)(
        GRAPH, model.kernel_, optimizer=None, random_state=0,
        outputscale=float(model.process_.hyperparameters.outputscale),
        noise=float(model.process_.hyperparameters.noise),
    )  # fmt: skip
    return again.fit(NODES, y)


def on_its_lattice(model: Any) -> Any:
    """The model given all rows at once, on the lattice of its fit."""
    own, data = model.process_, Data.of(X, y[:, None])
    sums = own.trend.sums(own.lattice, data, own.offset)
    process = LatticeGP.of(
        own.lattice_prior, own.trend, own.box.joined(PlaceBox.of(X)),
        Units.of(data.targets, True), True, own.offset, sums, own.seed, 32, data,
    )  # fmt: skip
    return model._around(process)


table = {"random_state": 0}
CASES = {
    "exact": Case(lambda: cgp.ExactGPRegressor(**table), X, y, exact_again),
    "exact averaged": Case(
        lambda: cgp.ExactGPRegressor(
            hyperparameters="averaged", options={"n_hyperparameter_draws": 4}, **table
        ), X, y,
    ),
    "sparse": Case(
        lambda: cgp.SparseSpectrumGPRegressor(n_frequencies=8, **table), X, y, sparse_again
    ),
    "sparse auto": Case(
        lambda: cgp.SparseSpectrumGPRegressor(
            n_frequencies="auto", coupling="auto", options={"kl_target": 10.0}, **table
        ), X, y,
    ),
    "sparse fitted": Case(
        lambda: cgp.SparseSpectrumGPRegressor(
            n_frequencies=4, frequencies="fitted",
            options={"n_restarts": 0, "max_iter": 2, "teacher_rows": 12}, **table
        ), X, y,
    ),
    "sparse transformed": Case(
        lambda: cgp.SparseSpectrumGPRegressor(n_frequencies=8, target_transform="log", **table),
        X, np.exp(y),
    ),
    "local": Case(lambda: cgp.LocalGPRegressor(n_frequencies=4, n_neighbors=29, **table), X, y),
    "lattice": Case(
        lambda: cgp.LatticeGPRegressor("gaussian", **table), X, y,
        lambda model: on_its_lattice(model),
    ),
    "automatic": Case(lambda: cgp.GPRegressor("exact", n_frequencies=8, **table), X, y),
    "walks": Case(
        lambda: cgp.GraphGPRegressor(GRAPH, "heat", n_walks=8, method="walks", random_state=0),
        NODES, y,
    ),
    "walks auto": Case(
        lambda: cgp.GraphGPRegressor(
            GRAPH, "heat", n_walks="auto", options={"kl_target": 10.0}, random_state=0
        ), NODES, y,
    ),
    "exact nodes": Case(
        lambda: cgp.ExactGraphGPRegressor(
            GRAPH, "heat", random_state=0, hyperparameters="maximum"
        ), NODES, y, nodes_again,
    ),
    "field": Case(lambda: cgp.FieldGPRegressor(MESH, "matern", random_state=0), PLACES, y),
    "field by precision": Case(
        lambda: cgp.FieldGPRegressor(MESH, "matern", random_state=0, route="precision"), PLACES, y
    ),
}  # fmt: skip


def public_results(model: Any) -> set[str]:
    """Names of all public results that the class of a model may have, present or not."""
    names = {*dir(type(model)), *vars(model)}
    return {name for name in names if name.endswith("_") and not name.startswith("_")}


def same(a: Any, b: Any) -> bool:
    """Whether two results are equal to rounding."""
    if isinstance(a, (float, np.ndarray)):
        return bool(np.allclose(a, b, rtol=1e-7, atol=1e-9))
    if hasattr(a, "frequencies"):
        return bool(np.allclose(a.frequencies.numpy(), b.frequencies.numpy()))
    return a is b or repr(a) == repr(b)


def reference(case: Case, model: Any, updated: Any) -> Any:
    """A model of the same hyperparameters that is given all rows at once."""
    if case.refit is not None:
        return case.refit(model)
    process = model.process_.conditioned(updated.process_.data.as_one_batch(), renormalize=True)
    return updated._around(process)


@functools.cache
def fitted(name: str) -> Any:
    """A model of a case, given the first rows."""
    case = CASES[name]
    return case.make().fit(case.inputs[PARTS[0]], case.targets[PARTS[0]])


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore")
def test_each_result_is_renewed_or_of_the_search_or_gone(name: str) -> None:
    case, model = CASES[name], fitted(name)
    further = PARTS[1]
    known = public_results(model)
    undecided = known - RENEWED - OF_THE_SEARCH - set(OF_ONE_FIT)
    assert not undecided, f"decide what partial_fit does to {sorted(undecided)}"

    before = {result: getattr(model, result) for result in known if hasattr(model, result)}
    updated = copy.copy(model)
    updated.partial_fit(case.inputs[further], case.targets[further])
    again = reference(case, model, updated)

    assert len(updated.y_train_) == 30
    assert public_results(updated) == known
    for result in sorted(known):
        if result in OF_ONE_FIT:
            said = "any more" if result in before else "in this fit"
            with pytest.raises(AttributeError, match=f"{result}.*{said}"):
                getattr(updated, result)
        elif result in OF_THE_SEARCH:
            assert hasattr(updated, result) == (result in before), result
            if result in before and result != "steps_":
                assert same(getattr(updated, result), before[result]), result
        elif result in before and result not in CONTAINERS:
            assert same(getattr(updated, result), getattr(again, result)), result


def test_the_dropped_results_exist_before() -> None:
    """Each result that goes is there in some case, so that the table above says something."""
    seen = set()
    for name in ("sparse auto", "sparse fitted", "field"):
        seen |= {result for result in OF_ONE_FIT if hasattr(fitted(name), result)}
    assert seen == set(OF_ONE_FIT)


def test_a_fit_anew_states_its_own_results_again() -> None:
    model = copy.copy(fitted("field")).partial_fit(PLACES[20:], y[20:])
    assert not hasattr(model, "selection_")
    assert hasattr(model.fit(PLACES, y), "selection_")


def test_parameters_that_are_set_after_a_fit_change_no_prediction() -> None:
    """Predictions are of the fitted process, and of the graph that it was fitted on."""
    model = cgp.ExactGraphGPRegressor(GRAPH, "heat", random_state=0).fit(NODES, y)
    expected = model.predict()
    model.set_params(graph=cgp.Graph.from_edges([0, 1], [1, 2]), kernel="matern", noise=5.0)
    np.testing.assert_array_equal(model.predict(), expected)
    np.testing.assert_array_equal(model.nodes_, NODES)
    assert model.partial_fit([39], [2.0]).predict().shape == (40,)
