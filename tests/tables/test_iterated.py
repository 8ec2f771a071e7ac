"""Exact models that are solved by iteration, beside the same ones by a Cholesky factor."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.errors import CoupledGPError, InvalidInputError
from coupledgp.ground.parameters import folded
from coupledgp.linalg.system import SystemOptions

RNG = np.random.default_rng(3)
X = RNG.uniform(size=(260, 2))
Y = np.sin(5 * X[:, 0]) + X[:, 1] ** 2 + 0.2 * RNG.normal(size=260)
NEW = RNG.uniform(-0.1, 1.1, size=(300, 2))
WEIGHTS = RNG.integers(1, 4, size=260).astype(float)
GIVEN = {"lengthscale": [0.4, 0.7], "outputscale": 1.3, "noise": 0.05, "optimizer": None}


def exact(kernel: Any = "matern-3/2", solver: str = "iterative", **options: Any) -> Any:
    return cgp.ExactGPRegressor(
        kernel, **folded(cgp.ExactGPRegressor, GIVEN | options), solver=solver
    )


def pair(fit: Any = lambda model: model.fit(X, Y), **options: Any) -> tuple[Any, Any]:
    """The model by iteration and by a factor."""
    tight = {"tolerance": 1e-9} | options
    return fit(exact(**tight)), fit(exact(solver="dense", **options))


@pytest.mark.parametrize("kernel", ["gaussian", "matern-1/2", "matern-5/2", "laplace"])
def test_laws_are_those_of_a_factor(kernel: str) -> None:
    ours, dense = pair(kernel=kernel)
    for want in ({"return_std": True}, {"return_cov": True}):
        for own, other in zip(ours.predict(NEW, **want), dense.predict(NEW, **want), strict=True):
            np.testing.assert_allclose(own, other, atol=1e-7)


@pytest.mark.parametrize(
    "fit",
    [
        lambda model: model.fit(X, Y, sample_weight=WEIGHTS),
        lambda model: model.fit(X[:200], Y[:200]).partial_fit(X[200:], Y[200:]),
        lambda model: model.fit(X, np.column_stack([Y, Y**2])),
    ],
    ids=["weights", "more rows", "two outputs"],
)
def test_rows_as_they_come(fit: Any) -> None:
    ours, dense = pair(fit)
    for own, other in zip(*(m.predict(NEW, return_std=True) for m in (ours, dense)), strict=True):
        np.testing.assert_allclose(own, other, atol=1e-7)
    process = ours.process_
    error = abs(process.log_evidence - dense.process_.log_evidence)
    assert error < 5 * process.log_evidence_error + 1e-6
    assert 0 < process.log_evidence_error < 5


def test_the_evidence_is_near_that_of_a_factor_over_probes() -> None:
    ours, dense = pair()
    errors = []
    for seed in range(20):
        system = ours.process_.row_inverse.system
        found, error = system.log_determinant(12, 40, np.random.default_rng(seed))
        factor = dense.process_.factor
        errors.append((found - 2 * np.log(factor.diagonal()).sum()) / error)
    # Twenty standardised errors: their mean square is below 3 but for a chance of 1e-6.
    assert np.mean(np.square(errors)) < 3
    assert abs(np.mean(errors)) < 5 / np.sqrt(20)


def test_left_out_laws_and_gradients_and_functions() -> None:
    ours, dense = pair(kernel="matern-5/2")
    for groups, rows in ((np.arange(260), np.arange(40)), (np.arange(260) // 5, None)):
        laws = [m.process_.left_out_law(groups, rows) for m in (ours, dense)]
        for own, other in zip(*laws, strict=True):
            np.testing.assert_allclose(own, other, atol=1e-7)
    gradients = [m.process_.gradient(NEW[:20], True) for m in (ours, dense)]
    for own, other in zip(*gradients, strict=True):
        np.testing.assert_allclose(own, other, atol=1e-5)
    drawn = [
        m.process_.draw_functions(3, np.random.default_rng(0))(NEW[:30]) for m in (ours, dense)
    ]
    np.testing.assert_allclose(*drawn, atol=1e-6)


def test_the_bound_of_means_holds() -> None:
    ours, dense = pair(tolerance=1e-3)
    off = np.abs(ours.predict(NEW) - dense.predict(NEW)).max() / ours.process_.units.scale[0]
    bound = ours.process_.mean_error_bound
    assert off <= bound < 0.1
    assert f"{bound:.1g} standard deviations" in ours.process_.remarks[0]
    assert dense.process_.mean_error_bound == 0
    assert dense.process_.remarks == ()


def test_variances_are_off_in_the_square_of_the_residuals() -> None:
    ours, dense = pair(tolerance=3e-2)
    rows = ours.process_.row_inverse
    cross = ours.process_.dense_prior.covariance(NEW, X)
    exact_part = dense.process_.row_inverse.explained(cross.copy()).variance
    missing = exact_part - rows.explained(cross).variance
    residuals = rows.system.solve(cross.T, rows.system.options.tolerance).residuals
    bounds = np.diagonal(rows.system.inverse_bound(residuals))
    assert bounds.max() > 1e-7
    assert (missing > -1e-10).all()
    assert (missing <= bounds + 1e-10).all()


@pytest.mark.long
@pytest.mark.parametrize(
    "model",
    [
        cgp.SparseSpectrumGPRegressor("matern-3/2", n_frequencies=40, random_state=0),
        cgp.SparseSpectrumGPRegressor(
            n_frequencies=20, random_state=0, target_transform="yeo-johnson"
        ),
        cgp.LocalGPRegressor("matern-3/2", 10, n_neighbors=10, random_state=0),
        cgp.LatticeGPRegressor("matern-3/2"),
        cgp.LatticeGPRegressor("matern-5/2", trend="linear"),
    ],
    ids=["sparse", "transformed", "local", "lattice", "trend"],
)
def test_hyperparameters_are_carried_over(model: Any) -> None:
    model.fit(X, Y)
    dense, ours = model.exact_twin(), model.exact_twin(solver="iterative")
    for own, other in zip(*(m.predict(NEW, return_std=True) for m in (ours, dense)), strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-4, atol=1e-5)
    with pytest.raises(InvalidInputError, match=r"^solver: expected one of"):
        model.exact_twin(solver="cholesky")


@pytest.mark.long
def test_a_mixture_carries_all_its_members_over() -> None:
    model = cgp.GPRegressor(random_state=0).fit(X, Y)
    dense, ours = model.exact_twin(), model.exact_twin("iterative")
    np.testing.assert_allclose(ours.predict(NEW), dense.predict(NEW), atol=1e-4)


@pytest.mark.long
def test_files_keep_the_solver(tmp_path: Any) -> None:
    for name, model in (
        ("exact", exact().fit(X, Y)),
        ("sum", cgp.LocalGPRegressor("gaussian", 8, random_state=0).fit(X, Y)),
    ):
        kept = model if name == "exact" else model.exact_twin("iterative")
        cgp.save_model(kept, tmp_path / name)
        loaded = cgp.load_model(tmp_path / name)
        assert loaded.process_.solver.iteration == SystemOptions()
        np.testing.assert_array_equal(loaded.predict(NEW), kept.predict(NEW))
        assert loaded.process_.log_evidence == kept.process_.log_evidence


def test_what_is_not_given_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="no lengthscale and no noise"):
        exact(lengthscale=None, noise=None).fit(X, Y)
    with pytest.raises(InvalidInputError, match=r"^solver: .*kernel='matern\(1.5\) \+ linear'"):
        exact("matern(1.5) + linear").fit(X, Y)
    with pytest.raises(InvalidInputError, match=r"^tolerance: "):
        exact(tolerance=0).fit(X, Y)
    with pytest.raises(InvalidInputError, match=r"^solver: expected one of"):
        exact(solver="cg").fit(X, Y)


def test_too_many_rows_are_refused_with_their_cost(monkeypatch: Any) -> None:
    monkeypatch.setattr("coupledgp.tables.exact_process.MOST_ITERATED", 100)
    with pytest.raises(InvalidInputError, match=r"^X: expected at most 100 rows .* CPU s"):
        exact().fit(X, Y)


def test_many_rows_left_out_are_refused(monkeypatch: Any) -> None:
    monkeypatch.setattr("coupledgp.core.inverse_covariance.MOST_LEFT_OUT", 50)
    process = exact().fit(X, Y).process_
    with pytest.raises(
        InvalidInputError, match=r"^groups: 260 observations .* at most 50; ask for some rows"
    ):
        process.left_out_law(np.arange(260))


def test_a_process_without_an_iterated_counterpart_says_so() -> None:
    graph = nx.path_graph(6)
    model = cgp.GraphGPRegressor(graph, random_state=0).fit(np.arange(6), np.arange(6.0))
    with pytest.raises(CoupledGPError, match=r"^solver: expected 'dense' for a NodeGP"):
        model.process_.exact_by(SystemOptions())


def test_steps_in_double_precision() -> None:
    process = exact(solver="dense").fit(X, Y).process_
    double = process.exact_by(SystemOptions(dtype="float64", tolerance=1e-11))
    np.testing.assert_allclose(double.alpha, process.alpha, atol=1e-8)
