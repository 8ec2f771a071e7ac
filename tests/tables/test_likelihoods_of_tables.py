"""Regressors of tables under likelihoods: laws, exposures, the search, and counts that lose."""

from __future__ import annotations

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.core.latent import LatentGP
from coupledgp.core.problem import RowWeights
from coupledgp.core.process import Data
from coupledgp.errors import InvalidInputError
from coupledgp.kernels import parse_kernel
from coupledgp.likelihoods import NegativeBinomial, Poisson, StudentT
from coupledgp.tables import latent_kernels
from coupledgp.tables.expression_search import ObservedProblem
from coupledgp.tables.latent_kernels import left_out_log_densities
from coupledgp.tables.likelihood_parameter import law_and_units
from coupledgp.tables.local_problem import LocalProblem
from coupledgp.tables.weight_space import WeightSpaceGP
from tests.core.few_steps import search_little

RNG = np.random.default_rng(5)
X = RNG.uniform(-2, 2, size=(70, 2))
F = np.sin(2 * X[:, 0]) + 0.4 * X[:, 1]
HOURS = RNG.uniform(0.5, 4.0, 70)
COUNTS = RNG.poisson(HOURS * np.exp(F)).astype(float)
KERNEL = "matern-3/2 + constant"
TARGETS = {
    "poisson": COUNTS,
    "negative-binomial": COUNTS,
    "student-t": 300 + 100 * (F + 0.2 * RNG.standard_t(3, size=70)),
}


@pytest.fixture(autouse=True)
def _small_searches(monkeypatch):
    search_little(monkeypatch)


def fitted(name="poisson", **options):
    return cgp.GPRegressor(kernel=KERNEL, likelihood=name, random_state=0, **options)


def problem(law, y, weights=None):
    data = Data.of(X[: len(y)], np.asarray(y)[:, None], weights=weights)
    table = LocalProblem.of(data, law_and_units(law, law, data)[1], np.arange(2), 0, 1.0)
    return ObservedProblem(table, parse_kernel("matern-3/2 + linear + constant"), law)


@pytest.mark.parametrize("name", TARGETS)
class TestEveryLaw:
    @pytest.fixture
    def model(self, name):
        return fitted(name).fit(X, TARGETS[name])

    def test_answers_are_those_of_the_process(self, name, model):
        law = model.process_.marginals(X[:6])
        mean, std = model.predict(X[:6], return_std=True)
        moments = law.likelihood.marginal_moments(law.mean, law.variance)
        np.testing.assert_allclose(mean, moments[0][:, 0])
        np.testing.assert_allclose(std, np.sqrt(moments[1][:, 0]))
        y = TARGETS[name][:6]
        np.testing.assert_allclose(model.log_density(X[:6], y), law.log_density(y[:, None]))
        low, high = model.predict_interval(X[:6], 0.8)
        ends = law.cdf(np.stack([low, high], axis=1)[:, None])[:, 0]
        if law.likelihood.is_discrete:  # least numbers of chances at least .1 and .9
            np.testing.assert_array_equal([low, high], np.round([low, high]))
            assert (ends >= [0.1 - 1e-9, 0.9 - 1e-9]).all()
        else:
            np.testing.assert_allclose(ends, np.tile([0.1, 0.9], (6, 1)), atol=1e-8)

    def test_draws_are_possible_observations(self, model):
        drawn = model.sample_y(X[:4], 3)
        assert drawn.shape == (4, 3)
        model.process_.likelihood.check_targets(drawn)

    def test_files_and_more_rows(self, name, model, tmp_path):
        path = tmp_path / "model"
        model.save(path, include_data=True)
        restored = cgp.load_model(path)
        np.testing.assert_allclose(restored.predict(X[:5]), model.predict(X[:5]), rtol=1e-12)
        assert restored.explain() == model.explain()
        part = restored.conditioned_on(X[:60], TARGETS[name][:60])
        part.partial_fit(X[60:], TARGETS[name][60:])
        np.testing.assert_allclose(part.predict(X[:5]), model.predict(X[:5]), rtol=1e-5)

    def test_left_out_laws(self, name, model):
        law = model.process_.left_out_law(np.arange(70), np.arange(3))
        rest = model.conditioned_on(X[1:], TARGETS[name][1:])
        mean, std = rest.predict(X[:1], return_std=True)
        assert abs(law.mean[0, 0] - mean[0]) < 0.1 * std[0]


def test_exposures_multiply_means():
    model = fitted().fit(X, COUNTS, exposure=HOURS)
    mean = model.predict(X[:5])
    np.testing.assert_allclose(model.predict(X[:5], exposure=np.full(5, 3.0)), 3 * mean, rtol=1e-9)
    f, std = model.predict(X[:5], return_std=True, latent=True)
    np.testing.assert_array_equal(model.predict(X[:5], latent=True, exposure=np.full(5, 3.0)), f)
    chances = model.process_.likelihood.marginal_log_density(
        COUNTS[:5, None], (f + np.log(HOURS[:5]))[:, None], np.square(std)[:, None]
    )
    found = model.log_density(X[:5], COUNTS[:5], exposure=HOURS[:5])
    np.testing.assert_allclose(found, chances[:, 0])
    assert model.score(X, COUNTS, exposure=HOURS) > model.score(X, COUNTS)
    low, high = model.predict_interval(X[:5], exposure=np.full(5, 400.0))
    drawn = model.sample_y(X[:5], 400, exposure=np.full(5, 400.0))
    share = np.mean((drawn >= low[:, None]) & (drawn <= high[:, None]))
    assert abs(share - 0.95) < 0.03


def test_exposures_enter_a_fit_as_offsets_of_the_function():
    """Twice the exposure of all rows lowers f by log 2 and changes no law of the rows."""
    one, two = (fitted().fit(X, COUNTS, exposure=e * HOURS) for e in (1.0, 2.0))
    shift = one.predict(X[:5], latent=True) - two.predict(X[:5], latent=True)
    np.testing.assert_allclose(shift, np.log(2), atol=1e-6)
    further = one.partial_fit(X[:3], COUNTS[:3], exposure=HOURS[:3])
    np.testing.assert_array_equal(further.process_.data.weights.exposure[-3:], HOURS[:3])


def test_rows_of_weight_zero_have_no_exposure():
    weights = np.where(np.arange(70) < 40, 1.0, 0.0)
    one = fitted().fit(X, COUNTS, sample_weight=weights, exposure=HOURS)
    np.testing.assert_array_equal(one.process_.data.weights.exposure, HOURS[:40])


def test_units_of_heavy_tails_are_those_of_y():
    """A thousandfold y has a thousandfold law."""
    y = TARGETS["student-t"]
    one, other = (fitted("student-t").fit(X, factor * y) for factor in (1.0, 1000.0))
    means, stds = zip(*(m.predict(X[:5], return_std=True) for m in (one, other)), strict=True)
    np.testing.assert_allclose(1000 * means[0], means[1], rtol=1e-6)
    np.testing.assert_allclose(1000 * stds[0], stds[1], rtol=1e-5)


@pytest.mark.parametrize(
    ("law", "y"),
    [
        (NegativeBinomial(0.5), COUNTS),
        (StudentT(60.0, 6.0), TARGETS["student-t"]),
    ],
)
def test_gradients_in_parameters_of_the_law(law, y):
    evidence = problem(law, y[:30]).evidence(np.arange(30))
    at = evidence.start + 0.1 * np.random.default_rng(0).normal(size=evidence.start.size)
    at[0] = 0.0
    _, gradient = evidence.value_and_gradient(at)
    steps = 1e-5 * np.eye(at.size)[1:]
    numeric = [
        (evidence.value_and_gradient(at + s)[0] - evidence.value_and_gradient(at - s)[0]) / 2e-5
        for s in steps
    ]
    np.testing.assert_allclose(gradient[1:], numeric, rtol=2e-4, atol=1e-6)


def test_parameters_of_a_search_are_those_of_the_law():
    own = problem(StudentT(60.0, 6.0), TARGETS["student-t"])
    vector = own.evidence(np.arange(70)).start
    np.testing.assert_allclose(list(own.likelihood_of(vector).parameters.values()), [60.0, 6.0])
    box = own.evidence(np.arange(70)).box(vector)
    assert np.exp(box[-1][0]) > 2  # degrees of freedom stay where a variance is


def test_left_out_densities_are_at_the_exposures_of_rows():
    own = problem(Poisson(), COUNTS, RowWeights.ones(70, HOURS))
    vector = own.evidence(np.arange(70)).start
    prior = own.prior_process(vector)
    found = left_out_log_densities(LatentGP.given([prior], Poisson(), own.table.data))
    for row in (3, 40):
        rest = own.table.data.take(np.delete(np.arange(70), row))
        refit = LatentGP.given([prior], Poisson(), rest).at_exposure(HOURS[[row]])
        exact = refit.log_density(X[[row]], COUNTS[[row], None])[0]
        assert abs(found[row] - exact) < 0.05 * (1 + abs(exact))


def test_many_rows_have_features(monkeypatch):
    monkeypatch.setattr(latent_kernels, "EXACT_LATENT_ROWS", 50)
    model = cgp.GPRegressor(likelihood="poisson", n_frequencies=4, random_state=0)
    model.fit(np.hstack([X, X]), COUNTS)  # more columns than a lattice has
    (function,) = model.process_.functions
    assert isinstance(function, WeightSpaceGP)
    assert function.feature_map.n_features == 64
    with pytest.raises(InvalidInputError, match="Fourier features"):
        fitted().fit(X, COUNTS)


def test_a_law_of_ones_own_starts_with_its_parameters(tmp_path):
    model = fitted(NegativeBinomial(0.7)).fit(X, COUNTS)
    model.save(tmp_path / "model", include_data=True)
    again = cgp.load_model(tmp_path / "model")
    assert again.process_.likelihood == model.process_.likelihood
    assert again.likelihood == NegativeBinomial(0.7)


REFUSED = [
    ({"likelihood": "poison"}, COUNTS, {}, "likelihood: .*poisson"),
    ({}, COUNTS - 1, {}, "y: expected counts"),
    ({}, COUNTS, {"exposure": -HOURS}, "exposure: expected positive"),
    ({}, COUNTS, {"exposure": HOURS[:3]}, "exposure: expected shape"),
    ({}, COUNTS, {"sample_noise": HOURS}, "sample_noise: expected None beside"),
    ({}, np.column_stack([COUNTS, COUNTS]), {}, "y: expected one output"),
    ({"likelihood": "gaussian"}, F, {"exposure": HOURS}, "exposure: expected none"),
    ({"noise": "varying"}, COUNTS, {}, "noise: expected 'auto' beside likelihood='poisson'"),
    ({"model": "exact"}, COUNTS, {}, "model: expected 'auto' beside"),
    ({"target_transform": "log"}, COUNTS, {}, "target_transform: expected None beside"),
    ({"budget": 1e-9}, COUNTS, {}, "budget: .* would take about"),
]


@pytest.mark.parametrize(("options", "y", "rows", "message"), REFUSED)
def test_what_is_refused(options, y, rows, message):
    model = cgp.GPRegressor(random_state=0).set_params(
        **{"kernel": KERNEL if options.get("model") is None else None, "likelihood": "poisson"}
        | options
    )
    with pytest.raises(InvalidInputError, match=message):
        model.fit(X, y, **rows)


@pytest.mark.long
def test_exposures_of_predictions_are_refused_without_a_law_that_takes_them():
    gaussian = cgp.GPRegressor("exact", random_state=0).fit(X[:30], F[:30])
    with pytest.raises(InvalidInputError, match="exposure: expected none for a Gaussian law"):
        gaussian.predict(X[:2], exposure=[1.0, 2.0])
    counts = fitted().fit(X, COUNTS)
    for wrong in ([1.0], [1.0, 0.0], [1.0, np.nan]):
        with pytest.raises(InvalidInputError, match="exposure"):
            counts.predict(X[:2], exposure=wrong)
