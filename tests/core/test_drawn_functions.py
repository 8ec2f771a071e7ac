"""Drawn functions have the posterior's law and are the same at every call; gradients."""

from __future__ import annotations

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.core.process import GaussianProcess
from coupledgp.errors import InvalidInputError, PrecisionWarning

RNG = np.random.default_rng(0)
X = RNG.random((60, 2))
Y = np.sin(5 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * RNG.standard_normal(60)
POINTS = RNG.random((5, 2))
MODELS = {
    "exact": cgp.ExactGPRegressor(random_state=0, options={"max_iter": 30}),
    "local": cgp.LocalGPRegressor(random_state=0),
    "features": cgp.SparseSpectrumGPRegressor(n_frequencies=32, random_state=0),
    "expression": cgp.ExactGPRegressor(
        kernel="additive(2)", random_state=0, options={"max_iter": 10}
    ),
}


@pytest.fixture(scope="module", params=list(MODELS))
def model(request):
    return MODELS[request.param].fit(X, Y)


def test_functions_have_the_law_of_the_posterior(model):
    n_draws = 1200
    draw = model.sample_functions(n_draws, random_state=1)
    values = draw(POINTS)
    mean, covariance = model.predict(POINTS, return_cov=True, latent=True)
    deviation = np.sqrt(covariance.diagonal())
    assert (np.abs(values.mean(axis=1) - mean) < 5 * deviation / np.sqrt(n_draws)).all()
    scale = np.outer(deviation, deviation)
    allowed = 4.5 * np.sqrt(2 / n_draws) + 3 * draw.deviation_error
    assert (np.abs(np.cov(values) - covariance) < allowed * scale).all()


def test_functions_are_the_same_at_every_call(model):
    draw = model.sample_functions(3, random_state=1)
    first = draw(POINTS[:3])
    np.testing.assert_allclose(draw(POINTS)[:3], first, rtol=0, atol=1e-10)
    np.testing.assert_allclose(draw(POINTS[1:2])[0], first[1], rtol=0, atol=1e-10)
    other = model.sample_functions(3, random_state=2)(POINTS[:3])
    assert np.abs(other - first).max() > 1e-4


def test_joint_laws_are_extended_exactly():
    """Values that came in two calls have the joint law of one."""
    model = cgp.ExactGPRegressor(random_state=0, options={"max_iter": 30}).fit(X, Y)
    draw = model.sample_functions(4000, random_state=1, exact=True)
    values = np.vstack([draw(POINTS[:2]), draw(POINTS[2:])])
    _, covariance = model.predict(POINTS, return_cov=True, latent=True)
    deviation = np.sqrt(covariance.diagonal())
    assert (np.abs(np.cov(values) - covariance) < 0.1 * np.outer(deviation, deviation)).all()
    assert draw.deviation_error == 0.0


def test_a_prior_far_wider_than_the_posterior_is_told():
    """Fourier features are no prior for functions that are known to a thousandth of it."""
    model = cgp.ExactGPRegressor(
        kernel="matern-1/2", lengthscale=50.0, outputscale=100.0, noise=1e-4, optimizer=None
    ).fit(X, Y)
    with pytest.warns(PrecisionWarning, match="sample_functions: deviations"):
        model.sample_functions(1)


def test_mixtures_draw_members_and_transforms_are_mapped_back():
    mixture = cgp.ExactGPRegressor(
        hyperparameters="averaged", random_state=0, options={"max_iter": 5}
    ).fit(X[:20], Y[:20])  # fmt: skip
    values = mixture.sample_functions(3000, random_state=0)(POINTS)
    mean, deviation = mixture.predict(POINTS, return_std=True, latent=True)
    assert (np.abs(values.mean(axis=1) - mean) < 0.3 * deviation).all()
    logarithm = cgp.ExactGPRegressor(
        target_transform="log", random_state=0, options={"max_iter": 20}
    )
    positive = logarithm.fit(X, np.exp(Y)).sample_functions(200)(POINTS)
    assert (positive > 0).all()
    with pytest.raises(InvalidInputError, match="joint law is not Gaussian"):
        logarithm.sample_functions(1, exact=True)


def test_gradients_in_closed_form_and_by_differences():
    for kernel in ("gaussian", "matern-5/2"):
        process = cgp.ExactGPRegressor(kernel=kernel, random_state=0).fit(X, Y).process_
        own, other = process.gradient(POINTS, True), GaussianProcess.gradient(process, POINTS, True)
        scale = np.sqrt(own.variance)
        assert np.abs((own.mean - other.mean) / scale).max() < 1e-4
        assert np.abs(np.sqrt(other.variance) / scale - 1).max() < 0.01


def test_gradients_of_all_kinds_of_models(model):
    """The mean against an own difference, and deviations against slopes of drawn functions."""
    step = np.array([1e-3, 0.0])
    mean, deviation = model.predict_gradient(POINTS, return_std=True)
    draw = model.sample_functions(2000, random_state=0)
    slopes = (draw(POINTS + step) - draw(POINTS - step)) / 2e-3
    assert np.abs(slopes.std(axis=1) / deviation[:, 0] - 1).max() < 0.1 + 3 * draw.deviation_error
    ends = model.predict(POINTS + step), model.predict(POINTS - step)
    np.testing.assert_allclose(mean[:, 0], (ends[0] - ends[1]) / 2e-3, atol=0.02)


def test_rough_kernels_have_no_law_of_gradients():
    rough = cgp.ExactGPRegressor(kernel="matern-1/2", random_state=0, options={"max_iter": 10}).fit(
        X, Y
    )
    assert np.isfinite(rough.predict_gradient(POINTS)).all()
    with pytest.raises(InvalidInputError, match="return_std: expected False"):
        rough.predict_gradient(POINTS, return_std=True)


def test_gradients_are_of_columns_of_numbers_only():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"kind": np.where(X[:, 0] > 0.5, "a", "b"), "size": X[:, 1]})
    model = cgp.ExactGPRegressor(random_state=0, options={"max_iter": 10}).fit(table, Y)
    found = model.predict_gradient(table[:4])
    assert np.isnan(found[:, 0]).all()
    assert np.isfinite(found[:, 1]).all()
