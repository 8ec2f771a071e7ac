"""Feature models of expressions beside their exact processes, their scales, files and refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.diagnostics import compare
from coupledgp.errors import InvalidInputError
from coupledgp.gp.protocol import Data
from coupledgp.search.tables import expression_features

RNG = np.random.default_rng(8)
X = RNG.normal(size=(140, 3))
X[:, 2] = RNG.integers(0, 3, 140)
Y = np.sin(2 * X[:, 0]) + X[:, 1] + (X[:, 2] == 1) + 0.1 * RNG.normal(size=140)
TRAIN, TEST = np.arange(100), np.arange(100, 140)
SUM = "gaussian[0] + categorical[2] + linear + constant"


def fitted(
    kernel: str, n_frequencies: int = 16, **options: object
) -> cgp.SparseSpectrumGPRegressor:
    model = cgp.SparseSpectrumGPRegressor(
        kernel, n_frequencies=n_frequencies, n_restarts=0, random_state=0, **options
    )
    return model.fit(X[TRAIN], Y[TRAIN])


@pytest.fixture(scope="module")
def model() -> cgp.SparseSpectrumGPRegressor:
    return fitted(SUM, max_iter=15)


def test_eigenfunctions_give_the_exact_posterior(model: cgp.SparseSpectrumGPRegressor) -> None:
    report = compare(model, X[TEST], Y[TEST])
    assert report.kl_per_point < 1e-6
    twin = model.exact_twin()
    assert twin.log_marginal_likelihood_value_ == pytest.approx(
        model.log_marginal_likelihood_value_, abs=1e-3
    )
    assert model.process_.hyperparameters.parameters == twin.process_.hyperparameters.parameters
    assert report.rmse < 0.2


def test_more_waves_come_closer_to_the_exact_posterior() -> None:
    kernel = "matern-3/2[0, 1, 2] + constant"
    found = [
        compare(fitted(kernel, size, optimizer=None, noise=0.05), X[TEST], Y[TEST]).kl_per_point
        for size in (8, 64, 512)
    ]
    assert found[0] > 4 * found[1] > 16 * found[2] > 0


def test_scales_go_on_by_the_evidence_of_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = tuple(replace(one, batch_rows=30) for one in expression_features.FEATURE_ROUNDS[:1])
    monkeypatch.setattr(expression_features, "FEATURE_ROUNDS", rounds)
    monkeypatch.setattr("coupledgp.models.sparse_spectrum.FEATURE_ROUNDS", rounds)
    process = fitted(SUM, max_iter=15).process_
    evidence, active = expression_features.scale_evidence(process, True)
    prior = process.feature_prior.expression
    assert [prior.rows.names[k - 1] for k in active[1:]] == [
        "variance of gaussian[0]", "variance of categorical[2]", "variance of linear",
        "variance of constant",
    ]  # fmt: skip
    value, gradient = evidence.value_and_gradient(evidence.start)
    # It is at its least: the fit went on to here by the rows that were searched over no further.
    assert np.abs(gradient).max() < 1e-3
    gaps = (evidence.start - evidence.means) / evidence.widths
    log_evidence = process.log_evidence + process.units.log_jacobian(100.0)
    assert value == pytest.approx((0.5 * gaps @ gaps - log_evidence) / 100, abs=1e-8)
    moved = evidence.start + 0.3 * np.arange(1, 6)
    _, gradient = evidence.value_and_gradient(moved)
    steps = 1e-5 * np.eye(5)
    differences = [
        (evidence.value_and_gradient(moved + s)[0] - evidence.value_and_gradient(moved - s)[0])
        / 2e-5
        for s in steps
    ]
    np.testing.assert_allclose(gradient, differences, rtol=1e-5, atol=1e-8)
    vector = prior.vector.copy()
    vector[active] = moved
    other = process.feature_prior.at(vector).given(process.data, process.units, True)
    gaps = (moved - evidence.means) / evidence.widths
    log_evidence = other.log_evidence + process.units.log_jacobian(100.0)
    expected = (0.5 * gaps @ gaps - log_evidence) / 100
    assert evidence.value_and_gradient(moved)[0] == pytest.approx(expected, abs=1e-7)


def test_far_away_the_law_is_the_exact_one(model: cgp.SparseSpectrumGPRegressor) -> None:
    far = np.array([[30.0, 0.0, 1.0], [0.0, 0.0, 1.0], [-30.0, 0.5, 2.0]])
    points, exact = model.points(far), model.process_.exact()
    for want in ("variance", "covariance"):
        own, other = (process.law(points, want) for process in (model.process_, exact))
        np.testing.assert_allclose(own[1], other[1], rtol=1e-4, atol=1e-6)


def test_files_keep_it(model: cgp.SparseSpectrumGPRegressor, tmp_path: object) -> None:
    path = tmp_path / "model.cgp"  # type: ignore[operator]
    model.save(path)
    again = cgp.load_model(path)
    for found, kept in zip(
        again.predict(X[TEST], return_std=True), model.predict(X[TEST], return_std=True),
        strict=True,
    ):  # fmt: skip
        np.testing.assert_array_equal(found, kept)


def test_further_rows_give_the_posterior_of_all(model: cgp.SparseSpectrumGPRegressor) -> None:
    process = model.process_
    later = process.updated(Data.of(model.points(X[TEST]), Y[TEST, None]))
    both = Data.of(model.points(X), Y[:, None])
    whole = process.feature_prior.given(both, later.units, True)
    points = model.points(X[:7])
    for found, kept in zip(later.law(points, "variance"), whole.law(points, "variance"),
                           strict=True):  # fmt: skip
        np.testing.assert_allclose(found, kept, rtol=1e-8)


@pytest.mark.parametrize(
    ("name", "value"),
    [("features", "laplace"), ("frequencies", "fitted"), ("dtype", "float32"),
     ("n_frequencies", "auto"), ("lengthscale", 1.0), ("frequencies", "posterior")],
)  # fmt: skip
def test_parameters_of_one_kernel_are_refused(name: str, value: object) -> None:
    model = cgp.SparseSpectrumGPRegressor(SUM, **{name: value})
    with pytest.raises(InvalidInputError, match=f"{name}: expected"):
        model.fit(X[TRAIN], Y[TRAIN])


def test_batches_give_the_same(model: cgp.SparseSpectrumGPRegressor) -> None:
    other = cgp.SparseSpectrumGPRegressor(
        SUM, n_frequencies=16, n_restarts=0, random_state=0, max_iter=15
    ).fit_batches([(X[TRAIN], Y[TRAIN])])
    np.testing.assert_allclose(other.predict(X[TEST]), model.predict(X[TEST]), rtol=1e-9)


def test_a_large_table_is_fitted_in_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given hyperparameters, features and posterior are those of all rows at once."""
    monkeypatch.setattr("coupledgp.models.out_of_core.KEPT_ROWS", 35)
    options = {"n_restarts": 0, "random_state": 0, "max_iter": 5}
    model = cgp.SparseSpectrumGPRegressor(SUM, n_frequencies=16, **options)
    parts = [(X[TRAIN[k : k + 25]], Y[TRAIN[k : k + 25]]) for k in range(0, 100, 25)]
    process = model.fit_batches(parts).process_
    data = Data.of(model.points(X[TRAIN]), Y[TRAIN, None])
    whole = process.feature_prior.given(data, process.units, True)
    points = model.points(X[TEST])
    for found, kept in zip(process.law(points, "variance"), whole.law(points, "variance"),
                           strict=True):  # fmt: skip
        np.testing.assert_allclose(found, kept, rtol=1e-7)
    np.testing.assert_allclose(process.units.offset, Y[TRAIN].mean())
    box = process.feature_prior.expression.box
    inputs = process.feature_prior.expression.standardised(data.points)
    np.testing.assert_allclose([box.low, box.high], [inputs.min(axis=0), inputs.max(axis=0)])
    assert np.sqrt(np.mean((model.predict(X[TEST]) - Y[TEST]) ** 2)) < 0.25
