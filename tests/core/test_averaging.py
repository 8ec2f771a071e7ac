"""Hyperparameters averaged over their posterior: against quadrature, and honest on few rows."""

import numpy as np
import pytest
from scipy.special import logsumexp

import coupledgp as cgp
from coupledgp.core.averaging import (
    HyperparameterPrior,
    TablePosterior,
    average_hyperparameters,
)
from coupledgp.core.dense_evidence import ExactEvidence
from coupledgp.core.mixture import MixtureGP
from coupledgp.core.problem import Hyperparameters
from coupledgp.core.starts import SearchSpace
from coupledgp.core.units import Units
from coupledgp.errors import InvalidInputError
from coupledgp.spectra import parse_spectrum

RNG = np.random.default_rng(8)
X = RNG.uniform(-1.7, 1.7, (15, 2))
Y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * RNG.normal(size=15)
X_TEST = RNG.uniform(-1.7, 1.7, (6, 2))


def problem_and_space(free, ard=True):
    targets = Units.of(Y[:, None], True).normalized(Y[:, None])
    space = SearchSpace(base=np.array([1.4, 1.3]), ard=ard, free=frozenset(free))
    return ExactEvidence(parse_spectrum("gaussian"), X, targets), space


@pytest.mark.parametrize("free", [("noise",), ("lengthscale", "noise"),
                                  ("lengthscale", "outputscale", "noise")])  # fmt: skip
@pytest.mark.parametrize("ard", [True, False])
def test_the_gradient_of_the_log_posterior(free, ard):
    problem, space = problem_and_space(free, ard)
    start = Hyperparameters(np.array([1.0, 2.0]), 0.8, 0.1)
    posterior = TablePosterior(problem, space, start, HyperparameterPrior(noise_mean=-2.0))
    t = posterior.mean + 0.3
    value, gradient = posterior.value_and_gradient(t)
    step = 1e-5
    for k in range(t.size):
        e = step * np.eye(t.size)[k]
        above, below = (posterior.value_and_gradient(t + s * e)[0] for s in (1, -1))
        assert gradient[k] == pytest.approx((above - below) / (2 * step), rel=1e-5, abs=1e-6)
    hyper = posterior.hyperparameters(t)
    if ard or "lengthscale" not in free:
        np.testing.assert_allclose(posterior.logarithms(hyper), t, rtol=1e-12)
    evidence = problem.at(hyper.lengthscale).value(hyper.outputscale, hyper.noise)
    z = (t - posterior.mean) / posterior.sd
    assert value == pytest.approx(0.5 * z @ z - evidence)


def test_averages_are_those_of_quadrature(seed):
    """The posterior mean of log s, one hyperparameter free, against a fine grid."""
    problem, space = problem_and_space(["noise"])
    start = Hyperparameters(np.array([1.0, 2.0]), 0.8, 0.1)
    prior = HyperparameterPrior()
    posterior = TablePosterior(problem, space, start, prior)
    grid = np.linspace(-12, 4, 201)[:, None]
    logs = -np.array([posterior.value(t) for t in grid])
    chances = np.exp(logs - logsumexp(logs))
    mean = chances @ grid[:, 0]
    sd = np.sqrt(chances @ (grid[:, 0] - mean) ** 2)
    rng = np.random.default_rng(seed)
    found = average_hyperparameters(problem, space, start, prior, 600, rng)
    drawn = found.weights @ np.log([h.noise for h in found.hyperparameters])
    assert found.n_effective > 150
    assert abs(drawn - mean) < 6 * sd / np.sqrt(found.n_effective)
    assert found.weights.sum() == pytest.approx(1)


def test_the_law_is_the_mixture_of_the_members():
    gp = cgp.ExactGPRegressor(hyperparameters="averaged", random_state=0).fit(X, Y)
    process = gp.process_
    assert isinstance(process, MixtureGP)
    assert process.purpose == "hyperparameters"
    assert len(process.members) > 5
    assert 1 <= gp.n_effective_draws_ <= 48
    assert gp.exact_twin() is gp
    one = cgp.ExactGPRegressor(random_state=0).fit(X, Y)
    # What is not known about the hyperparameters widens the law.
    assert (gp.predict(X_TEST, return_std=True)[1] > one.predict(X_TEST, return_std=True)[1]).all()
    report = cgp.report(gp, X_TEST)
    assert report.score("kl") == pytest.approx(0, abs=1e-9)
    assert "mixture of" in report.tables.predictions.remarks[0]


def test_features_too_and_their_exact_process():
    gp = cgp.SparseSpectrumGPRegressor(
        n_frequencies=200, hyperparameters="averaged", random_state=0, coupling="orthogonal"
    ).fit(X, Y)
    exact = gp.exact_twin()
    assert isinstance(exact.process_, MixtureGP)
    scale = exact.predict(X_TEST, return_std=True)[1]
    assert np.abs((gp.predict(X_TEST) - exact.predict(X_TEST)) / scale).max() < 0.5
    assert cgp.report(gp, X_TEST).score("kl") < 0.5


@pytest.mark.parametrize("kind", [cgp.ExactGPRegressor, cgp.SparseSpectrumGPRegressor])
def test_files(kind, tmp_path):
    prior = HyperparameterPrior(noise_mean=-2.0)
    options = {"hyperparameter_prior": prior, "n_hyperparameter_draws": 12}
    gp = kind(hyperparameters="averaged", options=options, random_state=0).fit(X, Y)
    gp.save(tmp_path / "model", include_data=True)
    same = cgp.load_model(tmp_path / "model")
    laws = [model.predict(X_TEST, return_cov=True) for model in (gp, same)]
    for one, other in zip(*laws, strict=True):
        np.testing.assert_array_equal(one, other)
    assert same.n_effective_draws_ == gp.n_effective_draws_
    more = gp.partial_fit(X_TEST, X_TEST[:, 0]), same.partial_fit(X_TEST, X_TEST[:, 0])
    np.testing.assert_allclose(more[0].predict(X), more[1].predict(X))
    assert len(same.X_train_) == 21
    again = kind(**{**same.get_params(), "random_state": 0}).fit(X, Y)
    np.testing.assert_array_equal(
        again.predict(X_TEST), kind(**gp.get_params()).fit(X, Y).predict(X_TEST)
    )


def test_no_single_kernel_to_solve_with():
    gp = cgp.ExactGPRegressor(hyperparameters="averaged", random_state=0).fit(X, Y)
    with pytest.raises(InvalidInputError, match=r"method: .* no single kernel"):
        cgp.report(gp, X_TEST, exact=cgp.diagnostics.StochasticOptions())


@pytest.mark.filterwarnings("ignore:y. expected targets that differ")
def test_nothing_to_average():
    kept = cgp.ExactGPRegressor(hyperparameters="averaged", optimizer=None).fit(X, Y)
    assert not isinstance(kept.process_, MixtureGP)
    constant = cgp.ExactGPRegressor(hyperparameters="averaged").fit(X, np.ones(15))
    assert constant.predict(X_TEST).tolist() == [1.0] * 6


@pytest.mark.long
def test_intervals_hold_what_they_say_on_few_rows():
    """Tables of 15 rows: the maximum's 95 % intervals hold far less, the average's nearly that."""
    inside = {"maximum": [], "averaged": []}
    for table in range(12):
        rng = np.random.default_rng([3, table])
        every = rng.uniform(-1.7, 1.7, (65, 2))
        scaled = every / np.exp(rng.normal(np.log(1.2), 0.4, 2))
        distance = ((scaled[:, None] - scaled[None]) ** 2).sum(-1)
        root = np.linalg.cholesky(np.exp(-distance / 2) + 1e-10 * np.eye(65))
        y = root @ rng.standard_normal(65) + 0.2 * rng.standard_normal(65)
        for choice, found in inside.items():
            gp = cgp.ExactGPRegressor(hyperparameters=choice, random_state=0).fit(
                every[:15], y[:15]
            )
            low, high = gp.predict_interval(every[15:])
            found.append(((y[15:] > low) & (y[15:] < high)).mean())
    assert np.mean(inside["averaged"]) > 0.88
    assert np.mean(inside["averaged"]) > np.mean(inside["maximum"]) + 0.02


def test_options_that_make_no_sense():
    with pytest.raises(InvalidInputError, match="hyperparameters: expected one of 'averaged'"):
        cgp.ExactGPRegressor(hyperparameters="mean").fit(X, Y)
    with pytest.raises(InvalidInputError, match="n_hyperparameter_draws: expected an int >= 2"):
        cgp.ExactGPRegressor(hyperparameters="averaged", options={"n_hyperparameter_draws": 1}).fit(
            X, Y
        )
    with pytest.raises(InvalidInputError, match="noise_sd: expected a finite number > 0"):
        cgp.ExactGPRegressor(options={"hyperparameter_prior": {"noise_sd": 0}}).fit(X, Y)
    with pytest.raises(InvalidInputError, match=r"hyperparameter_prior: .*unexpected keyword"):
        cgp.ExactGPRegressor(options={"hyperparameter_prior": {"sd": 1}}).fit(X, Y)
    fitted = cgp.SparseSpectrumGPRegressor(frequencies="fitted", hyperparameters="averaged")
    with pytest.raises(InvalidInputError, match="hyperparameters: expected 'maximum' where freq"):
        fitted.fit(X, Y)
