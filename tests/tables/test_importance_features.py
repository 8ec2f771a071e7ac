"""Frequencies drawn where the training rows need them, inside the regressors."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.errors import InvalidInputError
from coupledgp.features import ImportanceLaplaceFeatures
from coupledgp.features import registry as features_registry
from coupledgp.features.laplace import mixture_log_ratio
from coupledgp.features.registry import make_features
from coupledgp.ground.parameters import folded
from coupledgp.tables.batched_evidence import KEPT_ROWS

RNG = np.random.default_rng(3)
X = RNG.normal([0.5, -1.0], size=(160, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * RNG.normal(size=160)
TEST = RNG.normal(size=(20, 2))
NAME = "importance-laplace"


def model(**options: Any) -> cgp.SparseSpectrumGPRegressor:
    options = {"features": NAME, "n_frequencies": 48, "coupling": "orthogonal"} | options
    return cgp.SparseSpectrumGPRegressor(
        **folded(cgp.SparseSpectrumGPRegressor, dict(random_state=0, **options))
    )


def scaled(fitted: Any, rows: np.ndarray = X) -> np.ndarray:
    return (rows - X.mean(axis=0)) / fitted.lengthscale_


def test_the_proposal_is_that_of_the_training_rows() -> None:
    fitted = model().fit(X, Y)
    own = fitted.features_
    assert type(own) is ImportanceLaplaceFeatures
    expected = -mixture_log_ratio(own.frequencies.numpy(), scaled(fitted))
    np.testing.assert_allclose(own.log_ratios, expected, rtol=1e-9, atol=1e-9)
    named, given = fitted.predict(TEST), model(features=ImportanceLaplaceFeatures).fit(X, Y)
    np.testing.assert_array_equal(given.predict(TEST), named)
    single = model(dtype="float32").fit(X, Y).predict(TEST)
    np.testing.assert_allclose(single, named, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("lengthscale", [0.8, [1.0, 2.0]])
def test_gram_matrices_are_closer_than_those_of_laplace(lengthscale: Any) -> None:
    """Below the lengthscale of the rule, where plain Laplace features have a large variance."""
    errors = {}
    for name in (NAME, "laplace"):
        squares = []
        for seed in range(6):
            fitted = model(features=name, lengthscale=lengthscale, fixed=("lengthscale",))
            fitted.set_params(random_state=seed).fit(X, Y)
            rows = scaled(fitted)
            phi = fitted.features_(rows).numpy()
            kernel = np.exp(-0.5 * np.square(rows[:, None] - rows).sum(-1))
            squares.append(np.square(phi @ phi.T - kernel).mean())
        errors[name] = np.mean(squares)
    assert errors[NAME] < 0.4 * errors["laplace"]


def test_files(tmp_path: Path) -> None:
    fitted = model().fit(X, Y)
    fitted.save(tmp_path / "model.cgp")
    loaded = cgp.load_model(tmp_path / "model.cgp")
    for known, found in zip(
        fitted.predict(TEST, return_std=True), loaded.predict(TEST, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(found, known)
    assert loaded.features_.digest == fitted.features_.digest
    assert "log_ratios" in loaded.features_.state_dict()


def test_further_rows_keep_the_frequencies() -> None:
    fitted = model(optimizer=None).fit(X[:100], Y[:100])
    digest = fitted.features_.digest
    before = fitted.predict(TEST)
    fitted.partial_fit(X[100:], Y[100:])
    assert fitted.features_.digest == digest
    assert not np.allclose(fitted.predict(TEST), before)


def test_another_draw_is_of_the_same_law() -> None:
    process = model().fit(X, Y).process_
    other, same = process.redrawn("iid", 12, 4), process.redrawn("iid", 12, 4)
    assert type(other.feature_map) is ImportanceLaplaceFeatures
    assert other.feature_map.digest == same.feature_map.digest != process.feature_map.digest
    rows = (X - process.feature_prior.center) / process.hyperparameters.lengthscale
    expected = -mixture_log_ratio(other.feature_map.frequencies.numpy(), rows)
    np.testing.assert_allclose(other.feature_map.log_ratios, expected, rtol=1e-9, atol=1e-9)
    study = cgp.coupling_study(
        model().fit(X, Y), TEST, couplings=["iid", "orthogonal"], sizes=[8], n_draws=2
    )
    assert NAME in str(model())
    assert "iid" in str(study)


def test_couplings_are_chosen_among_its_own() -> None:
    fitted = model(coupling="auto", n_frequencies=30, kl_target=1.0).fit(X, Y)
    tried = {trial.coupling for trial in fitted.selection_.trials}
    assert tried <= set(ImportanceLaplaceFeatures.couplings_to_try)


def test_long_tables_give_some_of_their_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features_registry, "PROPOSAL_ROWS", 10)
    drawn = make_features(NAME, 2, 6, "iid", generator=1, rows=X)
    rng = np.random.default_rng(1)
    some = X[np.sort(rng.choice(160, 10, replace=False))]
    assert drawn.digest == ImportanceLaplaceFeatures(some, 6, "iid", rng).digest


def test_refusals() -> None:
    with pytest.raises(InvalidInputError, match="ImportanceLaplaceFeatures are made from rows"):
        make_features(NAME, 2, 4)
    with pytest.raises(InvalidInputError, match="kernel: ImportanceLaplaceFeatures exist for 'gau"):
        model(kernel="matern-3/2").fit(X, Y)
    with pytest.raises(InvalidInputError, match="frequencies: only those of features='fourier'"):
        model(frequencies="fitted").fit(X, Y)
    with pytest.raises(InvalidInputError, match="would bias the estimates"):
        model(coupling="orthogonal+antithetic").fit(X, Y)


def test_tables_read_in_passes_give_some_of_their_rows() -> None:
    n_rows = KEPT_ROWS + 200
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n_rows, 2))
    targets = np.sin(rows[:, 0])

    def batches() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        yield from ((rows[i : i + 4096], targets[i : i + 4096]) for i in range(0, n_rows, 4096))

    fitted = model(n_frequencies=24, max_iter=2, n_restarts=0, lengthscale=2.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # two iterations are not all
        fitted.fit_batches(batches)
    own, points = fitted.features_, (rows - rows.mean(axis=0)) / 2.0
    assert type(own) is ImportanceLaplaceFeatures
    # The proposal of 4096 of the rows is near that of all of them.
    expected = -mixture_log_ratio(own.frequencies.numpy(), points)
    np.testing.assert_allclose(own.log_ratios, expected, atol=0.5)
    assert np.abs(fitted.predict(rows[:50]) - targets[:50]).max() < 0.3
