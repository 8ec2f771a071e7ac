"""Power scaling against ArviZ and closed forms, and models with and without conflict."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

import coupledgp as cgp
from coupledgp.diagnostics import power_sensitivity
from coupledgp.diagnostics.power_scaling import (
    PowerSensitivity,
    QuantitySensitivity,
    cumulative_distance,
    sensitivity_of,
)
from coupledgp.errors import InvalidInputError

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (60, 2))
Y = np.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * RNG.normal(size=60)


def grid_distance(p: np.ndarray, q: np.ndarray, x: np.ndarray) -> float:
    """The distance by plain sums over a fine grid of distribution functions."""
    found = []
    for P, Q in ((p, q), (1 - p, 1 - q)):
        m = 0.5 * (P + Q)
        step = np.diff(x)

        def half(a: np.ndarray, b: np.ndarray, m: np.ndarray = m) -> np.ndarray:
            inner = np.where(a > 0, a * np.log2(np.where(a > 0, a / m, 1.0)), 0.0)
            return inner + 0.5 / np.log(2) * (b - a)

        total = half(P, Q) + half(Q, P)
        found.append(np.sqrt((step * total[:-1]).sum() / (step * (P + Q)[:-1]).sum()))
    return float(max(found))


def test_the_distance_is_that_of_the_distribution_functions() -> None:
    x = np.linspace(-4, 6, 4001)
    p, q = norm(0.5, 0.8).pdf(x), norm(0.9, 1.0).pdf(x)
    found = cumulative_distance(x, p / p.sum(), q / q.sum())
    expected = grid_distance(np.cumsum(p) / p.sum(), np.cumsum(q) / q.sum(), x)
    assert found == pytest.approx(expected, rel=1e-6)
    shuffled = RNG.permutation(x.size)
    again = cumulative_distance(x[shuffled], p[shuffled] / p.sum(), q[shuffled] / q.sum())
    assert again == pytest.approx(found, rel=1e-9)
    assert cumulative_distance(x, p / p.sum(), p / p.sum()) == 0.0
    assert cumulative_distance(np.ones(5), np.full(5, 0.2), np.full(5, 0.2)) == 0.0


def test_sensitivities_are_those_of_powers_of_normal_laws() -> None:
    """Prior N(0, 1), likelihood N(1.2, .6): powers of both give normal posteriors."""
    x = np.linspace(-3, 5, 6001)
    log_prior, log_likelihood = -0.5 * x**2, -0.5 * np.square((x - 1.2) / 0.6)

    def law(a: float, b: float) -> np.ndarray:
        precision = a + b / 0.36
        return norm((b * 1.2 / 0.36) / precision, precision**-0.5).cdf(x)

    weights = np.exp(log_prior + log_likelihood)
    weights /= weights.sum()
    for logs, powers in (
        (log_prior, [(1 / 1.01, 1.0), (1.01, 1.0)]),
        (log_likelihood, [(1.0, 1 / 1.01), (1.0, 1.01)]),
    ):
        expected = np.mean([grid_distance(law(1, 1), law(*one), x) for one in powers])
        found = sensitivity_of(x, weights, logs)
        assert found == pytest.approx(expected / np.log2(1.01), rel=1e-3)


def test_it_is_what_arviz_measures() -> None:
    az = pytest.importorskip("arviz")
    if not hasattr(az, "psens"):
        pytest.skip("arviz.psens came with ArviZ 0.16 and moved with 1.0")
    xr = pytest.importorskip("xarray")
    mu = np.random.default_rng(0).normal(0.8, 0.5, size=(4, 500))
    likelihood, prior = -0.5 * np.square((mu - 1.2) / 0.6), -0.5 * mu**2
    data = az.from_dict(posterior={"mu": mu}, log_likelihood={"y": likelihood[..., None]})
    data.add_groups({"log_prior": xr.Dataset({"mu": (("chain", "draw"), prior)})})
    even = np.full(2000, 1 / 2000)
    for component, logs in (("prior", prior), ("likelihood", likelihood)):
        expected = float(az.psens(data, component=component)["mu"])
        assert sensitivity_of(mu.ravel(), even, logs.ravel()) == pytest.approx(expected, rel=0.02)


@pytest.mark.long
def test_a_prior_that_the_data_contradict_is_told() -> None:
    model = cgp.ExactGPRegressor(ard=False, random_state=0).fit(X, Y)
    usual = power_sensitivity(model, X[:5])
    names = [one.name for one in usual.quantities]
    assert names == [
        "log lengthscale", "log outputscale", "log noise", "mean prediction",
        "mean standard deviation",
    ]  # fmt: skip
    assert usual.n_effective > 50
    flat = {"lengthscale_sd": 10.0, "outputscale_sd": 10.0, "noise_sd": 10.0}
    weak = power_sensitivity(model, X[:5], prior=flat)
    against = power_sensitivity(model, X[:5], prior={"noise_mean": -1.0, "noise_sd": 0.4})
    assert against["log noise"].prior > 3 * usual["log noise"].prior
    assert against["log noise"].diagnosis == "prior-data conflict"
    assert "log noise" in against.verdict()
    assert weak["log noise"].prior < usual["log noise"].prior
    assert usual["log noise"].mean == pytest.approx(np.log(model.process_.noise.variance), abs=0.5)
    again = power_sensitivity(model, X[:5])
    assert again == usual
    assert usual.to_frame().shape == (5, 6)
    assert usual.notebook().tables[0].rows == usual.table()[1]


def test_quantities_of_ones_own_are_measured() -> None:
    model = cgp.ExactGPRegressor(ard=False, random_state=0).fit(X, Y)
    point = X[:1]
    found = power_sensitivity(
        model, quantities={"at one point": lambda one: float(one.law(point, "mean").mean[0, 0])}
    )
    assert found["at one point"].mean == pytest.approx(float(model.predict(point)[0]), abs=0.1)
    with pytest.raises(InvalidInputError, match="quantities"):
        power_sensitivity(model, quantities={"none": lambda one: np.nan})


def test_few_effective_draws_are_not_judged() -> None:
    one = QuantitySensitivity("x", 0.0, 1.0, 0.5, 0.5)
    few = PowerSensitivity((one,), 400, 3.0)
    assert few.verdict().startswith("Not judged")
    assert few.notebook().cards[0].colour == "grey"
    assert "prior-data conflict" in PowerSensitivity((one,), 400, 300.0).verdict()
    calm = PowerSensitivity((QuantitySensitivity("x", 0.0, 1.0, 0.01, 0.5),), 400, 300.0)
    assert calm.verdict().startswith("No quantity")
    strong = QuantitySensitivity("x", 0.0, 1.0, 0.5, 0.01)
    assert strong.diagnosis == "strong prior or weak likelihood"


def test_other_models_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="one stationary kernel"):
        power_sensitivity(cgp.ExactGPRegressor("matern-3/2 + linear", max_iter=3).fit(X, Y))
    with pytest.raises(InvalidInputError, match="n_draws"):
        power_sensitivity(cgp.ExactGPRegressor().fit(X, Y), n_draws=3)
    with pytest.raises(InvalidInputError, match="fitted model of this package"):
        power_sensitivity(object())


def test_a_prior_that_decides_alone_is_strong() -> None:
    """Eight rows say little beside a prior of a twentieth: the likelihood moves nothing."""
    tight = {"lengthscale_sd": 0.05, "outputscale_sd": 0.05, "noise_mean": -3.0, "noise_sd": 0.05}
    model = cgp.ExactGPRegressor(ard=False, random_state=0).fit(X[:8], Y[:8])
    found = power_sensitivity(model, prior=tight)
    for one in found.quantities:
        assert one.diagnosis == "strong prior or weak likelihood"
        assert one.likelihood < 0.4 * one.prior
