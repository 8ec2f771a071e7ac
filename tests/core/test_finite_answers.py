"""A process whose numbers are not finite answers with an error that says where, never with them."""

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.core.process import finite_answer
from coupledgp.errors import NumericalError
from coupledgp.tables.weight_space import WeightSpaceGP

RNG = np.random.default_rng(4)
X = RNG.normal(size=(12, 2))
POINTS = X[:3] + 0.1
MODEL = cgp.SparseSpectrumGPRegressor(n_frequencies=4, optimizer=None, random_state=0)
PROCESS = MODEL.fit(X, X[:, 0]).process_
WRONG = [np.nan, np.inf, -np.inf]


def spoilt(values, wrong):
    """The numbers, of which those of the second point are wrong."""
    values = np.array(values)
    values[1] = wrong
    return values


@pytest.mark.parametrize("wrong", WRONG)
def test_a_law(wrong, monkeypatch):
    mean, variance = PROCESS.latent_law(POINTS, "variance")
    for law, name in (((spoilt(mean, wrong), variance), "predictive mean"),
                      ((mean, spoilt(variance, wrong)), "predictive variance")):  # fmt: skip
        monkeypatch.setattr(WeightSpaceGP, "latent_law", lambda *_, law=law: law)
        for ask in (
            lambda: PROCESS.law(POINTS, "variance"),
            lambda: PROCESS.log_density(POINTS, X[:3, :1]),
            lambda: MODEL.predict(POINTS, return_std=True),
        ):
            with pytest.raises(NumericalError, match=f"^{name}: no finite number at 1 of 3 points"):
                ask()


@pytest.mark.parametrize("wrong", WRONG)
def test_samples_and_priors(wrong, monkeypatch):
    drawn = spoilt(np.zeros((3, 1, 5)), wrong)
    monkeypatch.setattr(WeightSpaceGP, "latent_samples", lambda *_: drawn)
    with pytest.raises(NumericalError, match=r"^sample: no finite number at 1 of 3 points"):
        PROCESS.sample(POINTS, 5, np.random.default_rng(0))
    monkeypatch.setattr(WeightSpaceGP, "latent_prior", lambda *_: spoilt(np.eye(3), wrong))
    with pytest.raises(NumericalError, match=r"^prior covariance: no finite number at 1 of 3"):
        PROCESS.prior(POINTS)


def test_finite_numbers_pass():
    values = np.array([[1e300, -1e300], [0.0, 5e-324]])
    assert finite_answer(values, "a") is values


@pytest.mark.parametrize(
    "error",
    [ZeroDivisionError("by zero"), OverflowError("too large"), np.linalg.LinAlgError("singular"),
     ValueError("array must not contain infs or NaNs")],
)  # fmt: skip
def test_arithmetic_that_ends_before_an_answer_is_a_numerical_error(error):
    def breaks(*_):
        raise error

    model = cgp.ExactGPRegressor(optimizer=None).fit([[0.0], [1.0]], [1.0, 2.0])
    process = model.process_
    object.__setattr__(process, "latent_law", breaks)
    object.__setattr__(process, "latent_samples", breaks)
    with pytest.raises(NumericalError, match="predictive variance: no number is left"):
        model.predict([[0.5]], return_std=True)
    with pytest.raises(NumericalError, match="sample: no number is left"):
        model.sample_y([[0.5]])


def test_other_errors_before_an_answer_stay_what_they_are():
    def breaks(*_):
        raise ValueError("a mistake of the program")

    model = cgp.ExactGPRegressor(optimizer=None).fit([[0.0], [1.0]], [1.0, 2.0])
    object.__setattr__(model.process_, "latent_law", breaks)
    with pytest.raises(ValueError, match="a mistake of the program"):
        model.predict([[0.5]])
