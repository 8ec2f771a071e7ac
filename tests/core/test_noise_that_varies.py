"""Noise that varies at the front door: when it is taken, what is said, and what is refused."""

from copy import copy
from functools import cache

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.core.frozen_mean import folds_of
from coupledgp.core.left_out import LeftOut
from coupledgp.core.process import Data
from coupledgp.core.transformed import TransformedGP
from coupledgp.core.varying_noise import VaryingNoiseGP, variance_columns
from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.model_files import load_model
from coupledgp.tables.noise_choice import (
    FOLDS,
    LEAST_ROWS,
    LeftOutRows,
    NoiseChoice,
    fit_noise,
    noise_seconds,
    pays,
    with_noise,
)
from tests.core.few_steps import search_little
from tests.model_files import changed

RNG, N = np.random.default_rng(2), 220
X = RNG.uniform(-1, 1, (N, 2))
SPREAD = np.exp(1.2 * X[:, 1] - 1.5)
Y = np.sin(3 * X[:, 0]) + SPREAD * RNG.normal(size=N)
AT = RNG.uniform(-1, 1, (300, 2))
SPREAD_AT = np.exp(1.2 * AT[:, 1] - 1.5)
Y_AT = np.sin(3 * AT[:, 0]) + SPREAD_AT * RNG.normal(size=300)


@pytest.fixture(autouse=True, scope="module")
def few_steps():
    with pytest.MonkeyPatch.context() as patch:
        search_little(patch)
        yield


def fitted(noise="auto", y=Y, **given):
    return cgp.GPRegressor(kernel="gaussian", noise=noise, random_state=0, **given).fit(X, y)


@cache
def exact(n_outputs=1, weighted=False):
    """A process with constant noise, whose hyperparameters are given."""
    y = np.column_stack([Y, X[:, 0]])[:, :n_outputs]
    model = cgp.ExactGPRegressor(lengthscale=0.6, noise=0.2, optimizer=None)
    return model.fit(X, y, np.ones(N) + (Y > 0) if weighted else None).process_


@pytest.fixture(scope="module")
def model():
    return fitted()


@pytest.fixture(scope="module")
def constant():
    return fitted("constant")


def test_noise_that_varies_is_found_and_told(model):
    assert isinstance(model.process_, VaryingNoiseGP)
    choice = model.noise_choice_
    assert choice.varies
    assert choice.column == 1
    assert choice.correlation > 0.9
    assert choice.gain > 2 * choice.error > 0
    assert choice.explain(["a", "b"]) in model.explain().replace("`x1`", "`b`")
    deviation = model.predict(AT, return_std=True)[1]
    assert np.abs(np.log(deviation / SPREAD_AT)).mean() < 0.35
    low, high = model.predict_interval(AT)
    # Three standard errors of a share of 300 rows are .04.
    assert 0.89 < np.mean((low < Y_AT) & (high > Y_AT)) < 0.99


def test_constant_noise_is_the_inner_process_to_the_bit(model, constant):
    inner, points = model.process_.inner, constant.points(AT)
    assert type(inner) is type(constant.process_)
    laws = (one.law(points, "variance") for one in (inner, constant.process_))
    for found, expected in zip(*laws, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert not hasattr(constant, "noise_choice_")
    assert model.forecast_ == constant.forecast_ + noise_seconds(*X.shape)
    gain = model.log_density(AT, Y_AT) - constant.log_density(AT, Y_AT)
    assert gain.mean() > 0.1


@pytest.mark.parametrize("include_data", [True, False])
def test_files_keep_the_noise_and_what_is_said_of_it(model, tmp_path, include_data):
    path = tmp_path / "model.safetensors"
    model.save(path, include_data=include_data)
    again = load_model(path)
    np.testing.assert_array_equal(again.predict_quantiles(AT[:9]), model.predict_quantiles(AT[:9]))
    assert again.explain() == model.explain()
    assert again.noise_choice_ == model.noise_choice_


def test_files_whose_column_is_not_there_are_refused(model, tmp_path):
    model.save(tmp_path / "m")
    changed(tmp_path / "m", "NoiseChoice", column=2)
    with pytest.raises(ModelFileError, match=r"noise_choice\.column"):
        cgp.load_model(tmp_path / "m")


def test_members_are_those_of_the_inner_process_and_further_rows_are_taken(model):
    assert all(isinstance(one.process_, VaryingNoiseGP) for one in model.members_)
    other = copy(model).partial_fit(AT[:30], Y_AT[:30])
    assert len(other.process_.data) == N + 30
    assert other.process_.log_factor is model.process_.log_factor
    assert np.isfinite(other.predict_gradient(AT[:3])).all()


@pytest.mark.long
def test_noise_of_transformed_targets_varies_about_their_transform():
    found = fitted("varying", np.exp(Y), target_transform="log")
    assert isinstance(found.process_, VaryingNoiseGP)
    assert isinstance(found.process_.inner, TransformedGP)
    gain = found.log_density(AT, np.exp(Y_AT)) - found.process_.inner.log_density(
        found.points(AT), np.exp(Y_AT)[:, None]
    )
    assert gain.mean() > 0.1
    assert (found.predict_interval(AT)[0] > 0).all()


def test_reasons_against_noise_that_varies():
    few = exact().conditioned(exact().data.take(np.arange(LEAST_ROWS - 10)))
    kept, choice = with_noise(few, "auto", 0)
    assert kept is few
    assert choice.explain(["a", "b"]) == "Noise is constant: 40 rows are less than 50."
    with pytest.raises(InvalidInputError, match="since 40 rows are less than 50"):
        with_noise(few, "varying", 0)
    for process, text in (
        (exact(2), "y has several outputs"),
        (exact(1, True), "rows have weights"),
        (exact().conditioned(Data.of(X, np.round(2 * Y)[:, None])), "y takes few values"),
    ):
        assert text in with_noise(process, "auto", 0)[1].explain(["a", "b"])
        with pytest.raises(InvalidInputError, match=f"noise: expected 'constant'.*{text}"):
            with_noise(process, "varying", 0)


def test_what_is_given_wrongly_or_beyond_the_budget_is_refused():
    with pytest.raises(InvalidInputError, match="noise: expected one of"):
        fitted("changing")
    with pytest.raises(InvalidInputError, match="few values"):
        fitted("varying", np.round(2 * Y))
    little = 0.9 * noise_seconds(*X.shape)
    with pytest.raises(InvalidInputError, match="budget: "):
        fitted("varying", budget=little)
    assert not hasattr(fitted(budget=little), "noise_choice_")


def test_what_is_said_of_a_choice():
    choice = NoiseChoice(True, "", 0.1, 0.02, 300, 0.1, 0.9, 0, -0.8, 7.0)
    assert choice.explain(["depth"]) == (
        "Noise falls with column `depth` (rank correlation -0.80): standard deviation 0.1 to 0.9 "
        "(90 % of rows), 7 degrees of freedom; it gains +0.100 ± 0.020 nats a row on 300 rows "
        "left out."
    )
    assert "too little to be clear" in NoiseChoice(False, "", 0.01, 0.02, 300).explain(["depth"])


def accepted(seed, n):
    """Whether noise that is constant, with a true law of left-out rows, is taken to vary."""
    rng = np.random.default_rng(seed)
    points, law = rng.uniform(-1, 1, (n, 3)), LeftOut.single(np.zeros((n, 1)), np.ones((n, 1)))
    return pays(fit_noise(LeftOutRows(points, law, rng.normal(size=(n, 1))), seed).gains)


def test_gains_are_of_rows_that_no_factor_has_seen(monkeypatch):
    law = LeftOut.single(np.zeros((60, 1)), np.ones((60, 1)))
    points = np.repeat(RNG.normal(size=(30, 2)), 2, axis=0)  # equal rows share a fold
    folds = folds_of(points, FOLDS)
    y = RNG.normal(size=(60, 1))
    found = fit_noise(LeftOutRows(points, law, y), 0)
    assert all(folds[2 * k] == folds[2 * k + 1] for k in range(30))
    log_factor = found.log_factor.observed(variance_columns(points, law), folds)
    expected = law.scaled(np.exp(log_factor), found.tail).log_density(y) - law.log_density(y)
    np.testing.assert_allclose(found.gains, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.long
def test_constant_noise_stays_constant():
    assert sum(accepted(seed, LEAST_ROWS) for seed in range(3)) == 0


@pytest.mark.long
def test_noise_that_varies_is_taken_on_few_rows():
    """From .05 to 1.2 along a column: constant noise is some .5 nats behind at 100 rows."""
    rng, n = np.random.default_rng(3), 100
    X = rng.uniform(-1, 1, (n + 500, 2))
    spread = np.geomspace(0.05, 1.2, 1000)[((X[:, 1] + 1) * 499.5).astype(int)]
    y = np.sin(3 * X[:, 0]) + spread * rng.normal(size=n + 500)
    process = cgp.ExactGPRegressor("gaussian", random_state=0).fit(X[:n], y[:n]).process_
    found, choice = with_noise(process, "auto", 0)
    assert choice.varies
    assert choice.column == 1
    gain = found.log_density(X[n:], y[n:, None]) - process.log_density(X[n:], y[n:, None])
    assert gain.mean() > 0.2


@pytest.mark.long
@pytest.mark.parametrize("n", [LEAST_ROWS, 100, 200, 400])
def test_constant_noise_stays_constant_in_nineteen_of_twenty_draws(n):
    assert sum(accepted(seed, n) for seed in range(20)) <= 1
