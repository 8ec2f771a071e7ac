"""Statistics of targets beside those of joint draws."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

import coupledgp as cgp
from coupledgp.diagnostics import predictive_check
from coupledgp.errors import InvalidInputError

RNG = np.random.default_rng(0)
X = RNG.uniform(size=(120, 2))
Y = np.sin(6 * X[:, 0]) + 0.1 * RNG.normal(size=120)


def test_the_p_value_is_twice_the_smaller_tail_with_the_targets_counted():
    draws = np.arange(199.0)[:, None] * np.ones((1, 3))
    found = predictive_check(draws, None, np.full(3, 9.5), {"mean": np.mean}).statistics[0]
    assert found.p_value == pytest.approx(2 * 11 / 200)  # ten draws below, and the targets
    assert (found.observed, found.mean) == (9.5, 99.0)
    above = predictive_check(draws, None, np.full(3, 1e3), {"mean": np.mean}).statistics[0]
    assert above.p_value == pytest.approx(2 / 200)


@pytest.mark.long
def test_a_right_law_is_rarely_off_and_p_values_are_uniform():
    rng, off, chances = np.random.default_rng(1), 0, []
    for _ in range(200):
        draws = rng.normal(size=(301, 20)) @ np.linalg.cholesky(0.5 + 0.5 * np.eye(20)).T
        found = predictive_check(draws[1:], None, draws[0])
        off += bool(found.off)
        chances.append(found.statistics[0].p_value)
    assert off <= 4
    # The share below one half has a standard deviation of .035.
    assert abs(np.mean(np.array(chances) < 0.5) - 0.5) < 0.12


def test_wrong_spread_and_tails_are_found():
    rng = np.random.default_rng(2)
    draws = rng.normal(size=(1000, 200))
    wide = predictive_check(draws, None, 1.5 * rng.normal(size=200))
    assert "standard deviation" in {one.name for one in wide.off}
    assert "does not reproduce the standard deviation" in wide.verdict()
    outlier = rng.normal(size=200)
    outlier[7] = 9.0
    assert {"maximum"} <= {one.name for one in predictive_check(draws, None, outlier).off}


@pytest.mark.parametrize("name", ["ours", "scikit-learn"])
def test_models_draw_their_own_law(name):
    if name == "ours":
        model = cgp.ExactGPRegressor(random_state=0).fit(X[:80], Y[:80])
    else:
        model = GaussianProcessRegressor(RBF() + WhiteKernel(), normalize_y=True).fit(
            X[:80], Y[:80]
        )
    found = predictive_check(model, X[80:], Y[80:], n_draws=200)
    assert found.n_draws == 200
    assert not found.off
    assert found.verdict().startswith("The law reproduces mean, standard deviation")
    again = predictive_check(model, X[80:], Y[80:], n_draws=200)
    assert again.statistics == found.statistics


def test_several_outputs_and_a_notebook():
    both = np.column_stack([Y, 2 * Y])
    model = cgp.ExactGPRegressor(random_state=0).fit(X[:80], both[:80])
    found = predictive_check(
        model, X[80:], both[80:], {"<b>difference</b>": lambda y: float((y[:, 1] - y[:, 0]).mean())}
    )
    page = found._repr_html_()
    assert "&lt;b&gt;difference" in page
    assert "<b>difference" not in page
    assert str(found).startswith(found.verdict())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"y": Y[:3]}, "y: expected the shape of a draw"),
        ({"statistics": {"a": lambda y: y}}, r"statistics\['a'\]: expected a finite number"),
        ({"statistics": {"a": lambda y: np.nan}}, r"statistics\['a'\]: expected a finite number"),
        ({"statistics": {}}, "statistics: expected a dictionary"),
        ({"model": np.ones((5, 120))}, "model: expected 100 joint draws or more, got 5"),
        ({"model": object()}, "model: expected a model with sample_y"),
        ({"X": X}, "X: expected None beside draws"),
    ],
)
def test_bad_arguments_are_named(given, message):
    arguments = {"model": np.random.default_rng(3).normal(size=(100, 120)), "X": None, "y": Y}
    with pytest.raises(InvalidInputError, match=message):
        predictive_check(**{**arguments, **given})
    with pytest.raises(InvalidInputError, match="n_draws: expected an int >= 100"):
        predictive_check(cgp.ExactGPRegressor(optimizer=None).fit(X, Y), X, Y, n_draws=10)
