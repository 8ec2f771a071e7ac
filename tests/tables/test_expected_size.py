"""Sizes chosen by the closed form of the expected KL, before anything is drawn."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import coupledgp as cgp
from coupledgp.ground.parameters import folded
from coupledgp.tables import coupling_fit as automatic

RNG = np.random.default_rng(4)
X = RNG.uniform(-2, 2, (420, 2))
Y = np.sin(3 * X[:, 0]) * np.cos(2 * X[:, 1]) + 0.3 * RNG.normal(size=420)


def model(**parameters):
    settings = {
        "n_frequencies": "auto", "kl_target": 2e-3, "random_state": 0, "n_restarts": 0,
        "progress": False,
    }  # fmt: skip
    return cgp.SparseSpectrumGPRegressor(
        **folded(cgp.SparseSpectrumGPRegressor, (settings | parameters))
    )


def chosen(**parameters):
    return automatic._expected(model(**parameters), X, Y, 0)


def test_independent_frequencies_need_v_over_the_target():
    near, far = (chosen(kl_target=target, frequencies="sampled") for target in (0.012, 0.048))
    assert near.expected
    assert near.size == pytest.approx(4 * far.size, abs=4)
    assert near.best.kl_per_point <= 0.012
    assert 0 < near.best.standard_error < 0.2 * near.best.kl_per_point


@pytest.mark.long
def test_a_draw_for_the_posterior_needs_fewer():
    drawn, kernel = chosen(frequencies="auto"), chosen(frequencies="sampled")
    assert drawn.coupling == "posterior"
    assert drawn.size < 0.6 * kernel.size
    assert drawn.best.kl_per_point <= 2e-3
    assert drawn.estimator.frequencies == "posterior"
    assert drawn.estimator.coupling is None
    assert f"orthogonal+pnc would need {kernel.size}." in drawn.explain()


@pytest.mark.long
def test_the_expected_size_meets_the_target_as_measured():
    gp = model(frequencies="auto").fit(X, Y)
    assert gp.kl_per_point_ <= 2e-3
    assert gp.drawn_.law == "posterior"
    text = gp.selection_.explain()
    assert "Chosen before anything was drawn: frequencies='posterior'" in text
    assert f"with n_frequencies={gp.n_frequencies_}." in text


@pytest.mark.long
def test_where_no_number_of_frequencies_serves_it_is_said():
    rough = np.random.default_rng(0).normal(size=300)
    inputs = np.random.default_rng(1).uniform(size=(300, 8))
    targets = np.sin(40 * inputs).sum(axis=1)
    gp = model(lengthscale=0.1, noise=1e-3, outputscale=1.0, optimizer=None, kl_target=1e-3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gp.fit(inputs, targets + 1e-3 * rough)
    assert any(issubclass(w.category, ConvergenceWarning) for w in caught)
    assert "No number of frequencies up to" in gp.selection_.explain()
    assert "ExactGPRegressor" in gp.selection_.explain()


@pytest.mark.parametrize(
    "parameters",
    [
        {"features": "laplace"},
        {"coupling": "halton"},
        {"coupling": "orthogonal+pnc"},
        {"coupling": "auto", "frequencies": "sampled"},
        {"n_frequencies": 64, "coupling": "auto", "frequencies": "auto"},
    ],
)
def test_other_choices_are_measured(parameters):
    assert not model(**parameters).has_closed_form


def test_few_rows_have_no_pilot():
    assert automatic._expected(model(), X[:199], Y[:199], 0) is None
