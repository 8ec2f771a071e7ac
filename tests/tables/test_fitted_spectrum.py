"""Regressors with fitted frequencies, near the exact GP; mixtures of spectra as one law."""

import copy
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import kstest, norm

import coupledgp as cgp
from coupledgp.errors import InvalidInputError
from coupledgp.ground.parameters import folded
from coupledgp.tables import spectrum_search as fit_spectrum
from tests.core.few_steps import take_few_steps

M = 6


def table(n=160, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * [1, 1, 30] + [0, 0, 2000]
    f = np.sin(2 * X[:, 0]) + X[:, 1]
    return X, 10 * (f + 0.1 * rng.normal(size=n)) + 500


X, Y = table()
X_TEST, Y_TEST = table(80, 1)


def make(**options):
    defaults = {"n_frequencies": M, "frequencies": "fitted", "random_state": 0}
    return cgp.SparseSpectrumGPRegressor(
        **folded(cgp.SparseSpectrumGPRegressor, (defaults | options))
    )


@pytest.fixture
def few_steps(monkeypatch):
    """For statements that hold after any number of steps."""
    take_few_steps(monkeypatch)


@pytest.fixture(scope="module")
def stack():
    averaged = {"hyperparameters": "averaged", "n_hyperparameter_draws": 8}
    return make(frequencies="sampled", **averaged).fit(X[:50], Y[:50])


def short_kl(monkeypatch):
    """A third of the usual steps, which comes near enough."""
    monkeypatch.setattr(fit_spectrum, "KLSettings", partial(fit_spectrum.KLSettings, n_steps=160))


@pytest.fixture(scope="module")
def posterior():
    with pytest.MonkeyPatch.context() as patch:
        short_kl(patch)
        return make().fit(X, Y)


def test_posterior_kl_is_far_below_that_of_the_sampled_spectrum(posterior):
    sampled = posterior.exact_twin()
    scale = Y.std() ** 2
    drawn = cgp.SparseSpectrumGPRegressor(
        n_frequencies=M, optimizer=None, random_state=0, lengthscale=sampled.lengthscale_,
        outputscale=sampled.outputscale_ / scale, noise=sampled.noise_ / scale,
    ).fit(X, Y)  # fmt: skip
    before = cgp.report(drawn, X_TEST, exact=sampled)
    after = cgp.report(posterior, X_TEST)
    assert after.score("kl") < 0.2 * before.score("kl")
    assert posterior.spectrum_loss_ < 0.5 * posterior.spectrum_start_loss_
    assert float(posterior.features_.weights.sum()) == pytest.approx(1)
    assert np.isfinite(after.score("prior_kl"))


def test_the_teacher_is_an_exact_gp_on_some_of_the_rows(few_steps):
    gp = make(teacher_rows=40).fit(X, Y)
    again = make(teacher_rows=40).fit(X, Y)
    other = make(teacher_rows=40, random_state=1).fit(X, Y)
    assert torch.equal(gp.features_.frequencies, again.features_.frequencies)
    assert not torch.equal(gp.features_.frequencies, other.features_.frequencies)
    assert gp.process_.statistics.n_rows == len(X)
    assert gp.members_ == [gp]
    assert gp.member_weights_.tolist() == [1.0]


@pytest.mark.long
def test_query_points_say_where_the_posterior_matters(monkeypatch):
    short_kl(monkeypatch)
    # A corner of the data, beyond it: points that rows alone do not lead to.
    queries = np.array([2.5, -2.5, 2060.0]) + table(200, 2)[0] * [0.2, 0.2, 0.2] * 0.5
    queries -= queries.mean(axis=0) - [2.5, -2.5, 2060.0]
    kl = []
    for points in (None, queries[:100]):
        gp = make(optimizer=None, random_state=3).fit(X, Y, queries=points)
        kl.append(cgp.report(gp, queries[100:]).score("kl"))
    assert kl[1] < 0.7 * kl[0]


def test_query_points_of_a_table_with_names(few_steps):
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    named = make(optimizer=None).fit(frame, Y, queries=frame.iloc[:9])
    bare = make(optimizer=None).fit(X, Y, queries=X[:9])
    # A table's columns lie apart in memory, so sums round differently.
    torch.testing.assert_close(named.features_.frequencies, bare.features_.frequencies)
    with pytest.raises(InvalidInputError, match="queries: The feature names"):
        make().fit(frame, Y, queries=frame.rename(columns={"a": "z"}))


@pytest.mark.parametrize("queries", [X[:, :2], X[:0], X[0], np.full((2, 3), np.nan)])
def test_wrong_query_points(queries):
    with pytest.raises(InvalidInputError, match="queries: "):
        make().fit(X, Y, queries=queries)


@pytest.mark.parametrize(
    "options",
    [
        {"frequencies": "sampled"},
        {"n_frequencies": "auto"},
        {"coupling": "auto"},
    ],
)
def test_idle_query_points_are_refused(options):
    model = cgp.SparseSpectrumGPRegressor(
        **folded(cgp.SparseSpectrumGPRegressor, ({"random_state": 0} | options))
    )
    with pytest.raises(InvalidInputError, match="queries: expected none"):
        model.fit(X, Y, queries=X)
    assert not hasattr(model, "features_")


def test_hyperparameters_are_kept_without_an_optimizer(few_steps):
    gp = make(optimizer=None, lengthscale=[1.0, 2.0, 90.0], noise=0.2).fit(X, Y)
    np.testing.assert_array_equal(gp.lengthscale_, [1.0, 2.0, 90.0])
    assert gp.noise_ == pytest.approx(0.2 * Y.std() ** 2)


def test_density_and_moments_are_those_of_the_mixture(stack):
    q = stack.member_weights_
    laws = [m.predict(X_TEST, return_std=True) for m in stack.members_]
    densities = np.array([m.log_density(X_TEST, Y_TEST) for m in stack.members_])
    np.testing.assert_allclose(
        stack.log_density(X_TEST, Y_TEST), np.log(q @ np.exp(densities)), rtol=1e-10
    )
    mean, std = stack.predict(X_TEST, return_std=True)
    mu, var = np.array([m for m, _ in laws]), np.array([s**2 for _, s in laws])
    np.testing.assert_allclose(mean, (q @ (mu / var)) / (q @ (1 / var)))
    np.testing.assert_allclose(std**2, q @ (var + (mu - mean) ** 2))
    same, cov = stack.predict(X_TEST, return_cov=True)
    np.testing.assert_array_equal(same, mean)
    np.testing.assert_array_equal(np.sqrt(np.diagonal(cov)), std)
    assert np.linalg.eigvalsh(cov)[0] > 0
    latent = stack.predict(X_TEST, return_std=True, latent=True)
    np.testing.assert_array_equal(latent[0], mean)
    assert (latent[1] < std).all()


def test_samples_follow_the_mixture(stack, seed):
    n = 4000
    draws = stack.sample_y(X_TEST[:3], n, random_state=seed)
    q, points = stack.member_weights_, X_TEST[:3]
    mu = np.array([m.predict(points) for m in stack.members_])
    mean, std = stack.predict(points, return_std=True)
    spread = np.sqrt(std**2 - (q @ mu - mean) ** 2)
    assert (np.abs(draws.mean(axis=1) - q @ mu) < 5 * spread / np.sqrt(n)).all()
    # The mixture's distribution function makes its draws uniform, whatever their moments.
    for point, row in zip(points, draws, strict=True):
        laws = [m.predict(point[None], return_std=True) for m in stack.members_]
        chances = sum(w * norm.cdf(row, *law) for w, law in zip(q, laws, strict=True))
        assert kstest(chances, "uniform").pvalue > 1e-6
        assert chances.std() == pytest.approx(np.sqrt(1 / 12), rel=5 * np.sqrt(1 / 5 / n))
    np.testing.assert_array_equal(draws, stack.sample_y(points, n, random_state=seed))


def test_prior_of_the_mixture(stack):
    expected = sum(
        q * m.prior_covariance(X_TEST)
        for q, m in zip(stack.member_weights_, stack.members_, strict=True)
    )
    np.testing.assert_allclose(stack.prior_covariance(X_TEST), expected)


def n_rows(gp):
    return {member.statistics.n_rows for member in gp.process_.members}


def test_more_rows_and_other_rows(stack):
    grown = copy.copy(stack)  # which partial_fit leaves as it is
    grown.partial_fit(X_TEST, Y_TEST)
    assert n_rows(grown) == {50 + len(X_TEST)} == {len(grown.X_train_)}
    assert n_rows(stack) == {50}
    report = cgp.report(grown, X_TEST, Y_TEST)
    assert np.isfinite([report.score("kl"), report.score("prior_kl"), report.score("nlpd")]).all()


@pytest.mark.filterwarnings("ignore:y. expected targets that differ")
def test_too_few_rows_and_constant_targets(few_steps):
    with pytest.raises(
        InvalidInputError, match="X: expected at least 10 rows to fit frequencies to, got 9"
    ):
        make().fit(X[:9], Y[:9])
    gp = make().fit(X[:20], np.full(20, 7.0))
    np.testing.assert_allclose(gp.predict(X_TEST), 7.0, atol=1e-6)
