"""Graph models whose walkers are spread for the posterior: closer at one budget, kept in files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch

import coupledgp as cgp
from coupledgp.diagnostics import compare
from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.features.walks.sample import Walks
from coupledgp.gp import walker_spread
from coupledgp.gp.components import ComponentsGP
from coupledgp.kernels import HeatKernel

N = 150
GRAPH = cgp.Graph.from_networkx(nx.barabasi_albert_graph(N, 1, seed=1))
RNG = np.random.default_rng(0)
ORDER = RNG.permutation(N)
SEEN, HIDDEN = ORDER[:75], ORDER[75:]
Y = np.sin(np.arange(N) / 9.0) + 0.1 * RNG.normal(size=N)
KEPT: dict[str, Any] = {
    "kernel": HeatKernel(2.0), "n_walks": 16, "exact_hops": 0, "optimizer": None,
    "outputscale": 4.0, "noise": 0.2, "progress": False,
}  # fmt: skip


def fitted(walkers: str = "posterior", y: np.ndarray = Y, **changed: Any) -> cgp.GraphGPRegressor:
    model = cgp.GraphGPRegressor(GRAPH, walkers=walkers, **{**KEPT, "random_state": 0, **changed})  # type: ignore[arg-type]
    return model.fit(SEEN, y[SEEN])


def numbers_of(model: cgp.GraphGPRegressor) -> np.ndarray:
    return np.asarray(model.first_process_.recipe.walkers)  # type: ignore[attr-defined]


@pytest.mark.long
@pytest.mark.parametrize(
    ("coupling", "dense"), [("iid", True), ("iid", False), ("stratified+systematic", True)]
)
def test_spread_walkers_come_closer_at_the_same_budget(
    coupling: str, dense: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not dense:
        monkeypatch.setattr(walker_spread, "DENSE_PILOT", 100)
    W, U = np.linalg.eigh(GRAPH.normalized_adjacency.toarray())
    root = U * np.sqrt(4.0 * HeatKernel(2.0).spectral(W) + 0.2)
    kls, expected = [], []
    for seed in range(6):
        y = root @ np.random.default_rng([5, seed]).normal(size=N)  # of the model's own law
        given = {"random_state": seed, "coupling": coupling, "normalize_y": False}
        models = [fitted(name, y, **given) for name in ("equal", "posterior")]
        kls.append([compare(m, HIDDEN, y[HIDDEN], progress=False).kl_per_point for m in models])
        (found,) = models[1].walker_spread_
        expected.append([found.equal_kl, found.spread_kl])
        assert 0.99 * 16 * N < found.n_walks.sum() <= 16 * N
        assert (found.n_columns is None) == dense
    measured, wanted = np.mean(kls, axis=0), np.mean(expected, axis=0)
    gaps = np.array(kls)[:, 1] - np.array(kls)[:, 0] * measured[1] / measured[0]
    error = np.std(gaps, ddof=1) / np.sqrt(6) / measured[0]
    assert measured[1] / measured[0] + 2 * error < 0.95
    # What is beyond second order is of the order of the KL of a node's neighbours together.
    np.testing.assert_allclose(
        measured[1] / measured[0], wanted[1] / wanted[0], atol=3 * error + 0.1
    )
    np.testing.assert_allclose(measured, wanted, rtol=0.35)


def test_equal_walkers_are_those_without_the_parameter() -> None:
    model = cgp.GraphGPRegressor(GRAPH, random_state=0, **KEPT).fit(SEEN, Y[SEEN])
    assert model.first_process_.recipe.walkers is None  # type: ignore[attr-defined]
    np.testing.assert_array_equal(model.predict(HIDDEN), fitted("equal").predict(HIDDEN))
    assert "walker_spread_" not in model.fitted_.results
    assert not hasattr(model, "walker_spread_")


def test_features_are_walks_of_the_numbers() -> None:
    model = fitted()
    prior = model.first_process_.chosen.prior
    phi = prior.features(np.arange(N))  # type: ignore[attr-defined]
    assert isinstance(phi.walks, Walks)
    np.testing.assert_array_equal(phi.walks.n_walks, numbers_of(model))
    np.testing.assert_array_equal(numbers_of(model), model.walker_spread_[0].n_walks)
    again = prior.at(HeatKernel(2.5)).features(np.arange(N))  # type: ignore[attr-defined]
    np.testing.assert_array_equal(again.walks.n_walks, numbers_of(model))
    assert model.n_walks_ == 16


def test_the_same_seed_gives_the_same_numbers() -> None:
    np.testing.assert_array_equal(numbers_of(fitted()), numbers_of(fitted()))
    assert (numbers_of(fitted()) != numbers_of(fitted(random_state=1))).any()


def test_explain_tells_of_numbers_and_gain() -> None:
    text = fitted().explain()
    numbers = numbers_of(fitted())
    assert f"{numbers.min()} to {numbers.max()} a node, {numbers.mean():.3g} in the mean" in text
    assert "with equal numbers (pilot by dense algebra)" in text
    assert "walkers spread" not in fitted("equal").explain()


def test_the_search_comes_first() -> None:
    given: dict[str, Any] = {"optimizer": "lbfgs", "hyperparameters": "maximum", "n_walks": 3}
    model, equal = fitted(**given), fitted("equal", **given)
    assert model.kernel_ == equal.kernel_
    assert model.noise_ == equal.noise_


def test_a_file_keeps_the_numbers(tmp_path: Path) -> None:
    model = fitted()
    model.save(tmp_path / "model")
    again = cgp.load_model(tmp_path / "model")
    assert again.walkers == "posterior"
    np.testing.assert_array_equal(numbers_of(again), numbers_of(model))
    for ours, theirs in zip(
        model.predict(return_std=True), again.predict(return_std=True), strict=True
    ):
        np.testing.assert_array_equal(theirs, ours)


def test_files_of_equal_walkers_name_no_parameter_that_is_new(tmp_path: Path) -> None:
    header, arrays = fitted("equal")._state(True)
    assert "walkers" not in header["parameters"]
    assert "walkers" not in header["recipe"]
    assert "walkers" not in arrays
    assert fitted()._state(True)[0]["parameters"]["walkers"] == "posterior"


def test_numbers_of_a_file_are_checked() -> None:
    header, arrays = fitted()._state(True)
    for bad in (np.zeros(N, np.int64), np.ones(3, np.int64), np.full(N, 2**16)):
        with pytest.raises(ModelFileError, match="walkers"):
            cgp.GraphGPRegressor.from_state(header, as_stored({**arrays, "walkers": bad}))


def as_stored(arrays: dict[str, Any]) -> dict[str, Any]:
    return {name: torch.as_tensor(np.array(value)) for name, value in arrays.items()}


def test_further_values_keep_the_numbers_and_other_draws_are_equal() -> None:
    model = fitted()
    before = numbers_of(model)
    model.partial_fit(HIDDEN[:5], Y[HIDDEN[:5]])
    np.testing.assert_array_equal(numbers_of(model), before)
    assert model.process_.redrawn("iid", 8, 1).recipe.walkers is None  # type: ignore[union-attr]


def test_components_have_walkers_of_their_own() -> None:
    joined = nx.disjoint_union(
        nx.barabasi_albert_graph(60, 3, seed=1), nx.barabasi_albert_graph(50, 3, seed=2)
    )
    graph = cgp.Graph.from_networkx(joined)
    nodes = np.concatenate([np.arange(0, 60, 2), 60 + np.arange(0, 50, 2)])
    y = np.where(nodes < 60, np.sin(nodes / 5), 100 + 9 * np.cos(nodes / 4))
    y = y + 0.1 * np.random.default_rng(0).normal(size=y.size)
    given: dict[str, Any] = {**KEPT, "random_state": 0, "optimizer": "lbfgs"}
    model = cgp.GraphGPRegressor(graph, walkers="posterior", **given).fit(nodes, y)
    process = model.process_
    assert isinstance(process, ComponentsGP)
    assert len(model.walker_spread_) == len(process.parts) == 2
    for number, (part, found) in enumerate(zip(process.parts, model.walker_spread_, strict=True)):
        own = process.part_of == number
        np.testing.assert_array_equal(part.first.recipe.walkers, found.n_walks)  # type: ignore[attr-defined]
        assert found.n_walks[own].sum() <= 16 * own.sum()
        assert (found.n_walks[~own] == 16).all()
        assert np.unique(found.n_walks[own]).size > 3


def test_a_number_that_is_chosen_is_spread(recwarn: pytest.WarningsRecorder) -> None:
    model = fitted(n_walks="auto", optimizer=None, kl_target=0.05)
    assert model.selection_ is not None
    numbers = numbers_of(model)
    assert numbers.min() >= 1
    assert np.unique(numbers).size > 3


def test_equal_numbers_are_kept_where_nodes_are_alike() -> None:
    ring = cgp.Graph.from_networkx(nx.circulant_graph(60, [1, 2, 5]))
    nodes, y = np.arange(0, 60, 2), np.sin(np.arange(0, 60, 2) / 5)
    equal, spread = (
        cgp.GraphGPRegressor(ring, walkers=name, random_state=0, **KEPT).fit(nodes, y)  # type: ignore[arg-type]
        for name in ("equal", "posterior")
    )
    np.testing.assert_array_equal(equal.predict(), spread.predict())
    assert "walkers: equal numbers kept" in spread.explain()
    np.testing.assert_array_equal(spread.walker_spread_[0].n_walks, np.full(60, 16))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"walkers": "most"}, "walkers"),
        ({"hyperparameters": "averaged", "optimizer": "lbfgs"}, "hyperparameters are averaged"),
    ],
)
def test_what_cannot_be_spread_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        fitted(**change)


def test_a_pilot_that_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walker_spread, "DENSE_PILOT", 10)
    monkeypatch.setattr(walker_spread, "SKETCH_COLUMNS", 10**13)
    with pytest.raises(cgp.errors.MemoryLimitError, match="use walkers='equal'"):
        fitted()
