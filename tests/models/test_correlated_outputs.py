"""Regression of correlated outputs with entries missing: laws, forms, files, what is refused."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import coupledgp as cgp
from coupledgp.errors import InvalidInputError, ModelFileError

N, NEW = 140, 80
NOISE = np.array([0.2, 0.3, 8.0])


def drawn(n, seed):
    rng = np.random.default_rng([6, seed])
    X = rng.uniform(-2, 2, (n, 2))
    a = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
    b = np.cos(1.5 * X[:, 1]) * X[:, 0] / 2
    f = np.stack([a, -2 * a + 0.5 * b, 50 * (b + 0.3 * a) + 7], axis=1)
    return X, f, f + NOISE * rng.normal(size=f.shape)


X, F, WHOLE = drawn(N, 0)
Y = WHOLE.copy()
Y[np.random.default_rng(1).random(Y.shape) < 0.3] = np.nan
Y[60:, 0] = np.nan
Y[5] = np.nan  # a row without any output
AT, F_NEW, Y_NEW = drawn(NEW, 2)


def made(**parameters):
    # Hyperparameters of single outputs are near those of greatest evidence, and kept.
    kept = {"lengthscale": 1.4, "outputscale": 1.2, "noise": 0.05, "optimizer": None}
    base = cgp.SparseSpectrumGPRegressor(n_frequencies=16, random_state=0, **kept, **parameters)
    return cgp.CorrelatedOutputsGPRegressor(base, max_iter=40)


@cache
def fitted():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return made().fit(X, Y)


def test_outputs_that_are_missing_are_learned_from_the_others():
    model = fitted()
    mean, std = model.predict(AT, return_std=True)
    alone = np.column_stack([one.predict(AT) for one in model.models_])
    rmse = np.sqrt(((mean - F_NEW) ** 2).mean(axis=0))
    plain = np.sqrt(((alone - F_NEW) ** 2).mean(axis=0))
    assert rmse[0] < 0.9 * plain[0]
    assert rmse[1] < plain[1]
    assert rmse[2] < 1.1 * plain[2]
    held = np.abs(Y_NEW - mean) < 1.96 * std
    assert 0.88 < held.mean() < 0.99
    assert model.correlation_[0, 1] < -0.85
    assert model.log_marginal_likelihood_value_ > model.log_evidence_apart_ + 20.0
    assert 0.3 < model.noise_[2] / NOISE[2] ** 2 < 3.0
    assert model.score(AT, Y_NEW) > 0.8


def test_the_law_is_that_of_the_features_by_dense_algebra():
    model = fitted()
    stacked = [one.process_.feature_prior.stream(one.points(X)) for one in model.models_]
    phis = [np.concatenate([f.double().numpy() for _, _, f in stream]) for stream in stacked]
    ahead = [one.process_.feature_prior.stream(one.points(AT[:4])) for one in model.models_]
    news = [np.concatenate([f.double().numpy() for _, _, f in stream]) for stream in ahead]
    there = ~np.isnan(Y).ravel()
    parts = list(zip(phis, news, model.covariances_, strict=True))
    K = sum(np.kron(a @ a.T, B) for a, _, B in parts)[np.ix_(there, there)]
    A = K + np.kron(np.eye(N), model.noise_covariance_)[np.ix_(there, there)]
    cross = sum(np.kron(c @ a.T, B) for a, c, B in parts)[:, there]
    offset = np.nanmean(Y, axis=0)
    error = (Y - offset).ravel()[there]
    mean = (cross @ np.linalg.solve(A, error)).reshape(4, 3) + offset
    prior = sum(np.kron(c @ c.T, B) for _, c, B in parts)
    joint = prior - cross @ np.linalg.solve(A, cross.T)
    found, covariance = model.law(AT[:4], latent=True)
    np.testing.assert_allclose(found, mean, rtol=1e-5, atol=1e-5)
    own = np.einsum("pqpt->pqt", joint.reshape(4, 3, 4, 3))
    np.testing.assert_allclose(covariance, own, rtol=1e-4, atol=1e-5)
    value = multivariate_normal.logpdf(error, cov=A)
    assert model.log_marginal_likelihood_value_ == pytest.approx(value, rel=1e-6)


def test_known_outputs_of_a_row_tell_of_the_others():
    model = fitted()
    given = np.full(Y_NEW.shape, np.nan)
    given[:, 1] = Y_NEW[:, 1]
    given[::2, 2] = Y_NEW[::2, 2]
    plain, std = model.predict(AT, return_std=True)
    mean, less = model.predict(AT, return_std=True, given=given)
    np.testing.assert_array_equal(mean[:, 1], Y_NEW[:, 1])
    assert (less[:, 1] == 0.0).all()
    assert (less[:, 0] <= std[:, 0] + 1e-12).all()
    # By the joint law of the outputs of a row.
    whole, covariance = model.law(AT[:2])
    for row, known in ((0, [1, 2]), (1, [1])):
        C = covariance[row]
        gain = C[0, known] @ np.linalg.inv(C[np.ix_(known, known)])
        error = Y_NEW[row, known] - whole[row, known]
        assert mean[row, 0] == pytest.approx(whole[row, 0] + gain @ error)
        assert less[row, 0] ** 2 == pytest.approx(C[0, 0] - gain @ C[known, 0])
    nothing = np.full(Y_NEW.shape, np.nan)
    np.testing.assert_allclose(model.predict(AT, given=nothing), plain)


def test_ways_to_ask_agree():
    model = fitted()
    mean, std = model.predict(AT[:5], return_std=True)
    low, high = model.predict_interval(AT[:5], 0.9)
    np.testing.assert_allclose((low + high) / 2, mean)
    np.testing.assert_allclose((high - low) / 2, 1.6448536 * std, rtol=1e-6)
    quantiles = model.predict_quantiles(AT[:5], [0.05, 0.5])
    np.testing.assert_allclose(quantiles, np.stack([low, mean], axis=2))
    drawn = model.sample_y(AT[:5], 20_000, random_state=0)
    assert np.abs((drawn.mean(axis=2) - mean) / std).max() < 4.5 / np.sqrt(20_000)
    _, covariance = model.law(AT[:5])
    for k in range(5):
        spread = np.sqrt((np.outer(std[k], std[k]) ** 2 + covariance[k] ** 2) / 20_000)
        assert (np.abs(np.cov(drawn[k]) - covariance[k]) < 4.5 * spread).all()
    density = model.log_density(AT[:5], Y_NEW[:5])
    for k in range(5):
        wanted = multivariate_normal.logpdf(Y_NEW[k], mean[k], covariance[k])
        assert density[k] == pytest.approx(wanted)
    some = Y_NEW[:5].copy()
    some[:, 2] = np.nan
    assert model.log_density(AT[:5], some)[0] == pytest.approx(
        multivariate_normal.logpdf(Y_NEW[0, :2], mean[0, :2], covariance[0, :2, :2])
    )
    assert model.log_density(AT[:1], np.full((1, 3), np.nan))[0] == 0.0


def test_tables_of_pandas_and_further_rows():
    frame = pd.DataFrame(X, columns=["u", "v"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = made().fit(frame, pd.DataFrame(Y))
    np.testing.assert_allclose(model.predict(pd.DataFrame(AT, columns=["u", "v"])),
                               fitted().predict(AT), rtol=0.02, atol=0.1)  # fmt: skip
    before = model.predict(frame[:3])
    model.partial_fit(pd.DataFrame(AT, columns=["u", "v"]), Y_NEW)
    errors = model.predict(frame) - F
    assert np.abs(model.predict(frame[:3]) - before).max() > 0.0
    assert (np.sqrt((errors**2).mean(axis=0)) < [0.2, 0.3, 8.0]).all()


def test_order_of_rows_and_units_do_not_matter():
    order = np.random.default_rng(0).permutation(N)
    scale = np.array([3.0, 0.01, 100.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        again = made().fit(X[order], Y[order] * scale + 5.0)
    np.testing.assert_allclose(
        (again.predict(AT) - 5.0) / scale, fitted().predict(AT), rtol=0.02, atol=0.05
    )


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_files_hold_them(tmp_path):
    model = fitted()
    cgp.save_model(model, tmp_path / "o.cgp")
    again = cgp.load_model(tmp_path / "o.cgp")
    assert isinstance(again, cgp.CorrelatedOutputsGPRegressor)
    for one, two in zip(again.predict(AT, True), model.predict(AT, True), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9)
    np.testing.assert_allclose(again.covariances_, model.covariances_)
    assert again.log_marginal_likelihood_value_ == pytest.approx(
        model.log_marginal_likelihood_value_
    )
    header, arrays = model.state()
    for name, broken in {
        "output_covariances": -arrays["output_covariances"],
        "output_noise": 0.0 * arrays["output_noise"],
        "output_grams": -arrays["output_grams"],
    }.items():
        with pytest.raises(ModelFileError, match=name):
            cgp.CorrelatedOutputsGPRegressor.from_state(header, arrays | {name: broken})


def test_what_is_refused_is_named():
    for y, message in [
        (Y[:, 0], r"y: expected the shape \(n, Q\)"),
        (Y[:, :1], "expected two outputs or more"),
        (np.where(np.arange(3) == 1, np.nan, WHOLE), "output 2: expected 3 values or more, got 0"),
        (np.where(np.isnan(Y), np.inf, Y), "output 3, row 1: expected a finite number, or NaN"),
    ]:
        with pytest.raises(InvalidInputError, match=message):
            made().fit(X, y)
    with pytest.raises(InvalidInputError, match="expected a SparseSpectrumGPRegressor"):
        cgp.CorrelatedOutputsGPRegressor(cgp.ExactGPRegressor()).fit(X, Y)
    with pytest.raises(InvalidInputError, match="whose process is a WeightSpaceGP"):
        made(target_transform="yeo-johnson").fit(X, Y)
    with pytest.raises(InvalidInputError, match="given: expected 2 rows, got 80"):
        fitted().predict(AT[:2], given=Y_NEW)
    with pytest.raises(InvalidInputError, match="expected 3 outputs as in the fit"):
        fitted().log_density(AT, Y_NEW[:, :2])
    with pytest.raises(NotFittedError):
        made().predict(AT)
    huge = cgp.SparseSpectrumGPRegressor(n_frequencies=1000, optimizer=None, random_state=0)
    with pytest.raises(InvalidInputError, match="use fewer frequencies"):
        cgp.CorrelatedOutputsGPRegressor(huge).fit(X, Y)
    assert clone(made()).max_iter == 40


@pytest.mark.parametrize(
    "model", [cgp.GPRegressor(), cgp.ExactGPRegressor(), cgp.SparseSpectrumGPRegressor()]
)
def test_models_of_complete_targets_point_to_it(model):
    with pytest.raises(InvalidInputError, match="CorrelatedOutputsGPRegressor"):
        model.fit(X, Y)
