"""Weights and known noise of rows: repeated rows and dense formulas are the references."""

import numpy as np
import pytest
import torch
from scipy import stats

import coupledgp as cgp
from coupledgp.core.dense_evidence import ExactEvidence
from coupledgp.core.posterior_form import mixture_weights
from coupledgp.core.posterior_kl import Teacher, kl_per_point
from coupledgp.core.problem import Hyperparameters, RowWeights
from coupledgp.core.process import Data
from coupledgp.core.statistics import DataStatistics, Moments
from coupledgp.core.weights_evidence import FeatureEvidence
from coupledgp.core.weights_posterior import FeatureStream
from coupledgp.diagnostics import StochasticOptions
from coupledgp.errors import InvalidInputError
from coupledgp.features import FourierFeatures, LaplaceFeatures
from coupledgp.spectra import GaussianSpectrum

RNG = np.random.default_rng(3)
N = 40
X, X_NEW = RNG.normal(size=(N, 2)), RNG.normal(size=(6, 2))
Y = 5 + 2 * np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * RNG.normal(size=N)
COUNTS = RNG.integers(1, 5, size=N)
NOISE = np.exp(RNG.normal(size=N))
REPEATED = np.repeat(np.arange(N), COUNTS)
FIXED = {"lengthscale": [1.2, 0.9], "outputscale": 1.3, "noise": 0.07, "optimizer": None}
MODELS = {
    "fewer features than rows": cgp.SparseSpectrumGPRegressor(
        n_frequencies=8, random_state=0, **FIXED
    ),
    "more features than rows": cgp.SparseSpectrumGPRegressor(
        n_frequencies=64, random_state=0, **FIXED
    ),
    "laplace": cgp.SparseSpectrumGPRegressor(
        features="laplace", n_frequencies=8, random_state=0, **FIXED
    ),
    "exact": cgp.ExactGPRegressor(**FIXED),
}


def new(name, **changes):
    model = MODELS[name]
    return type(model)(**{**model.get_params(), **changes})


def require_same(model, other, rtol=1e-8):
    for a, b in zip(
        model.predict(X_NEW, return_cov=True), other.predict(X_NEW, return_cov=True), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * np.abs(b).max())
    assert model.noise_ == pytest.approx(other.noise_, rel=rtol)
    assert model.log_marginal_likelihood_value_ == pytest.approx(
        other.log_marginal_likelihood_value_, rel=rtol
    )


@pytest.mark.parametrize("name", MODELS)
def test_integer_weights_are_repeated_rows(name):
    model = new(name).fit(X, Y, sample_weight=COUNTS)
    require_same(model, new(name).fit(X[REPEATED], Y[REPEATED]))
    assert model.process_.units.offset[0] == pytest.approx(Y[REPEATED].mean())
    both = np.column_stack([Y, X[:, 0]])
    pair = new(name).fit(X, both, sample_weight=COUNTS), new(name).fit(X[REPEATED], both[REPEATED])
    values = [model.log_marginal_likelihood_value_ for model in pair]
    assert values[0] == pytest.approx(values[1], rel=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_so_they_are_where_one_lengthscale_is_searched_for(name):
    settings = {"ard": False, "lengthscale": None, "optimizer": "lbfgs", "noise": None}
    weighted = new(name, **settings).fit(X, Y, sample_weight=COUNTS)
    repeated = new(name, **settings).fit(X[REPEATED], Y[REPEATED])
    require_same(weighted, repeated, rtol=1e-5)
    assert weighted.lengthscale_ == pytest.approx(repeated.lengthscale_, rel=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_the_exact_twin_and_further_rows_carry_weights(name, tmp_path):
    first, rest = slice(None, 25), slice(25, None)
    repeats = [np.repeat(np.arange(N)[part], COUNTS[part]) for part in (first, rest)]
    model = new(name).fit(X[first], Y[first], sample_weight=COUNTS[first])
    model.save(tmp_path / "m", include_data=True)
    model.partial_fit(X[rest], Y[rest], sample_weight=COUNTS[rest])
    other = new(name).fit(X[repeats[0]], Y[repeats[0]]).partial_fit(X[repeats[1]], Y[repeats[1]])
    require_same(model, other)
    require_same(model.exact_twin(), other.exact_twin())
    loaded = cgp.load_model(tmp_path / "m")
    np.testing.assert_array_equal(loaded.process_.data.counts, COUNTS[first])
    require_same(loaded.partial_fit(X[rest], Y[rest], sample_weight=COUNTS[rest]), other)
    require_same(
        model.conditioned_on(X, Y, sample_weight=COUNTS),
        other.conditioned_on(X[REPEATED], Y[REPEATED]),
    )


@pytest.mark.parametrize("name", MODELS)
def test_known_noise_is_that_of_the_dense_formula(name):
    variances = 0.04 * NOISE
    model = new(name, noise=None).fit(X, Y, sample_noise=variances)
    process, scale = model.process_, Y.std()
    assert model.noise_ == pytest.approx(variances.mean())
    # By the joint prior of training and new rows, in units of y.
    every = process.prior(np.vstack([X, X_NEW]))[..., 0]
    own = every[:N, :N] + np.diag(variances)
    gain = np.linalg.solve(own, every[:N, N:]).T
    mean = Y.mean() + gain @ (Y - Y.mean())
    cov = every[N:, N:] - gain @ every[:N, N:] + variances.mean() * np.eye(6)
    found = model.predict(X_NEW, return_cov=True)
    np.testing.assert_allclose(found[0], mean, rtol=1e-8)
    np.testing.assert_allclose(found[1], cov, rtol=1e-7, atol=1e-9 * scale**2)
    evidence = stats.multivariate_normal.logpdf(Y, np.full(N, Y.mean()), own)
    assert model.log_marginal_likelihood_value_ == pytest.approx(evidence, rel=1e-9)


def test_known_noise_is_kept_unless_the_user_frees_it():
    wrong = 7.0 * np.full(N, 0.09)
    kept = cgp.ExactGPRegressor(random_state=0).fit(X, Y, sample_noise=wrong)
    assert kept.noise_ == pytest.approx(0.63)
    freed = cgp.ExactGPRegressor(random_state=0, options={"fixed": ()}).fit(
        X, Y, sample_noise=wrong
    )
    plain = cgp.ExactGPRegressor(random_state=0).fit(X, Y)
    assert freed.noise_ == pytest.approx(plain.noise_, rel=1e-6)
    assert freed.noise_ < 0.5 * kept.noise_


def test_noise_of_further_rows_is_in_units_of_y():
    kinds = cgp.ExactGPRegressor(**{**FIXED, "noise": None}, normalize_y=False)
    first, rest = slice(None, 25), slice(25, None)
    variances = 0.04 * NOISE
    model = kinds.fit(X[first], Y[first], sample_noise=variances[first])
    model.partial_fit(X[rest], Y[rest], sample_noise=variances[rest])
    at_once = type(model)(**kinds.get_params()).fit(X, Y, sample_noise=variances)
    for a, b in zip(
        model.predict(X_NEW, return_std=True, latent=True),
        at_once.predict(X_NEW, return_std=True, latent=True),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-9)


def problems(weights):
    targets = ((Y - Y.mean()) / Y.std())[:, None] * [1.0, 0.7]
    spread = np.ones(2)
    yield ExactEvidence(GaussianSpectrum(), X, targets, weights)
    for kind, m in ((FourierFeatures, 6), (FourierFeatures, 60), (LaplaceFeatures, 9)):
        stream = FeatureStream(kind(2, m, generator=0), X, X.mean(axis=0), spread)
        yield FeatureEvidence(stream, targets, weights)


@pytest.mark.parametrize("k", range(4))
@pytest.mark.parametrize("rows", [slice(None), np.arange(0, N, 2)], ids=["all", "some"])
def test_gradients_of_the_evidence(k, rows):
    problem = list(problems(RowWeights(NOISE, COUNTS.astype(float))))[k]
    if not isinstance(rows, slice):
        problem = problem.subset(rows)
    logs = np.log([1.1, 0.8, 1.4, 0.2])

    def value(t):
        return problem.at(np.exp(t[:2])).value(*np.exp(t[2:]))

    here = problem.at(np.exp(logs[:2]))
    by_factor = here.evaluate(*np.exp(logs[2:]))
    assert by_factor.value == pytest.approx(value(logs), rel=1e-12)
    spectral = here.spectral().value(*np.exp(logs[2:]))
    assert spectral == pytest.approx(value(logs), rel=1e-8)
    by_eigenvalues = here.evaluate(*np.exp(logs[2:]))
    step = 1e-5 * np.eye(4)
    slopes = [(value(logs + h) - value(logs - h)) / 2e-5 for h in step]
    for found in (by_factor, by_eigenvalues):
        gradient = [*found.lengthscale, found.outputscale, found.noise]
        np.testing.assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("k", range(4))
def test_the_evidence_is_that_of_repeated_rows(k):
    weighted = list(problems(RowWeights(np.ones(N), COUNTS.astype(float))))[k]
    plain = list(problems(None))[k].subset(REPEATED)
    assert plain.n_rows == weighted.n_counted == COUNTS.sum()
    for hyper in ((1.3, 0.2), (0.6, 0.05)):
        here, there = (p.at(np.array([1.1, 0.8])) for p in (weighted, plain))
        assert here.value(*hyper) == pytest.approx(there.value(*hyper), rel=1e-9)


def test_the_teacher_of_a_spectrum_knows_weights():
    hyper = Hyperparameters(np.array([1.1, 0.8]), 1.3, 0.2)
    targets = (Y - Y.mean())[:, None]
    frequencies = torch.as_tensor(RNG.normal(size=(9, 2)))
    shares = torch.full((9,), 1 / 9, dtype=torch.float64)
    kls = []
    for rows, weights in (
        (np.arange(N), RowWeights(np.ones(N), COUNTS.astype(float))), (REPEATED, None),
    ):  # fmt: skip
        teacher = Teacher(X[rows], targets[rows], GaussianSpectrum(), hyper, weights=weights)
        kls.append(float(kl_per_point(teacher, teacher.law(X_NEW), frequencies, shares)))
    assert kls[0] == pytest.approx(kls[1], rel=1e-7)


@pytest.mark.long
def test_fitted_spectra_keep_the_rows():
    model = cgp.SparseSpectrumGPRegressor(
        n_frequencies=4, frequencies="fitted", random_state=0
    ).fit(X, Y, sample_weight=COUNTS)
    np.testing.assert_array_equal(model.process_.data.counts, COUNTS)
    again = model.process_.conditioned(model.process_.data, renormalize=True)
    old, new_ = (p.law(X_NEW, "mean").mean for p in (model.process_, again))
    np.testing.assert_allclose(new_, old, rtol=1e-9)
    alike = model.process_.conditioned(Data.of(X, Y[:, None]), renormalize=True)
    assert not np.allclose(alike.law(X_NEW, "mean").mean, old, rtol=1e-4)


def test_weights_of_members_count_rows():
    densities = RNG.normal(size=(3, 12))
    counts = RNG.integers(1, 4, size=12)
    repeated = mixture_weights(np.repeat(densities, counts, axis=1))
    np.testing.assert_allclose(mixture_weights(densities, 1.0, counts), repeated, rtol=1e-9)


def test_automatic_sizes_know_the_weights():
    auto = cgp.SparseSpectrumGPRegressor(
        n_frequencies="auto", options={"kl_target": 3.0}, random_state=0
    )
    model = auto.fit(X, Y, sample_weight=COUNTS)
    np.testing.assert_array_equal(model.process_.data.counts, COUNTS)
    chosen = cgp.select(auto, X, Y, sample_noise=0.04 * NOISE, kl_target=3.0, sizes=[8, 16])
    assert chosen.size in (8, 16)


def test_a_comparison_by_solves_is_the_dense_one():
    model = new("fewer features than rows", noise=None).fit(X, Y, sample_noise=0.04 * NOISE)
    dense, solved = (cgp.report(model, X_NEW, exact=one) for one in ("dense", StochasticOptions()))
    assert solved.score("kl") == pytest.approx(dense.score("kl"), rel=1e-3)


def test_moments_merge_whether_or_not_rows_have_weights(rng):
    features, targets = (torch.as_tensor(rng.normal(size=(30, k))) for k in (5, 2))
    weights = torch.as_tensor(rng.uniform(0.5, 3.0, size=(30, 2)))
    offset = torch.zeros(2).double()
    marked = [
        (features[:10], targets[:10]),
        (features[10:20], targets[10:20], weights[10:20]),
        (features[20:], targets[20:]),
    ]
    ones = torch.ones(10, 2).double()
    filled = [chunk if len(chunk) == 3 else (*chunk, ones) for chunk in marked]
    every = [Moments.of(chunks, 5, offset) for chunks in (marked, filled)]
    parts = [Moments.of([chunk], 5, offset) for chunk in marked]
    every.append(parts[0].merge(parts[1]).merge(parts[2]))
    every.append(parts[1].merge(parts[0]).updated([marked[2]]))
    mean, scale = torch.tensor([3.0, -1.0]).double(), torch.tensor([2.0, 0.3]).double()
    found = [moments.normalized(mean, scale) for moments in every]
    root = (torch.cat([ones, weights[10:20], ones])[:, [1]] / torch.cat(
        [ones, weights[10:20], ones])[:, [0]]).sqrt()  # fmt: skip
    scaled, y = features * root, (targets - mean) / scale * root
    for equations in found:
        torch.testing.assert_close(equations.gram, scaled.T @ scaled)
        torch.testing.assert_close(equations.cross, scaled.T @ y)
        torch.testing.assert_close(equations.square, y.square().sum(0))
        assert equations.n_rows == pytest.approx(20 + float(weights[10:20, 1].sum()))


def test_statistics_of_fewer_rows_than_features_keep_weights(rng):
    features, targets = (torch.as_tensor(rng.normal(size=(6, k))) for k in (20, 1))
    weights = torch.as_tensor(rng.uniform(0.5, 3.0, size=(3, 2)))
    empty = DataStatistics(20, torch.zeros(1).double())
    mixed = empty.updated([(features[:3], targets[:3])])
    mixed = mixed.updated([(features[3:], targets[3:], weights)])
    filled = torch.cat([torch.ones(3, 2).double(), weights])
    whole = empty.updated([(features, targets, filled)])
    for a, b in zip(mixed.target_mean_and_std(), whole.target_mean_and_std(), strict=True):
        torch.testing.assert_close(a, b)
    posteriors = [
        s.posterior(torch.zeros(1), torch.ones(1), 1.0, 0.1).log_evidence for s in (mixed, whole)
    ]
    assert posteriors[0] == pytest.approx(posteriors[1], rel=1e-12)


def test_known_noise_improves_predictions():
    """Rows whose noise differs by a factor of 100: the model that knows it predicts better."""
    rng = np.random.default_rng(8)
    x = rng.uniform(0, 6, size=(300, 1))
    std = np.where(rng.random(300) < 0.5, 0.1, 1.0)
    y = np.sin(2 * x[:, 0]) + std * rng.normal(size=300)
    grid = np.linspace(0.2, 5.8, 200)[:, None]
    truth = np.sin(2 * grid[:, 0])
    nlpds = []
    for noise in (std**2, None):
        model = cgp.SparseSpectrumGPRegressor(n_frequencies=32, random_state=0)
        mean, spread = model.fit(x, y, sample_noise=noise).predict(
            grid, return_std=True, latent=True
        )
        nlpds.append(-stats.norm.logpdf(truth, mean, spread).mean())
    assert nlpds[0] < nlpds[1] - 0.3


@pytest.mark.parametrize("name", ["exact", "fewer features than rows"])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sample_weight": np.ones(N), "sample_noise": np.ones(N)}, "at most one"),
        ({"sample_weight": np.zeros(N)}, "sample_weight: .*zero"),
        ({"sample_weight": np.ones(N - 1)}, "sample_weight: expected shape"),
        ({"sample_weight": -np.ones(N)}, "sample_weight: expected weights >= 0"),
        ({"sample_weight": np.full(N, np.nan)}, "sample_weight: expected finite"),
        ({"sample_weight": ["a"] * N}, "sample_weight: expected 40 numbers, got .{,103}$"),
        ({"sample_noise": np.zeros(N)}, "sample_noise: expected variances > 0"),
        ({"sample_noise": np.full(N, np.inf)}, "sample_noise: expected finite"),
        ({"sample_noise": np.ones((N, 1))}, "sample_noise: expected shape"),
        ({"sample_noise": np.ones(N)}, "noise: expected None beside sample_noise"),
    ],
)
def test_bad_weights_are_refused(name, given, message):
    with pytest.raises(InvalidInputError, match=message):
        new(name).fit(X, Y, **given)


def test_noise_of_several_outputs_is_refused():
    with pytest.raises(InvalidInputError, match="sample_noise: expected one output"):
        new("exact", noise=None).fit(X, np.column_stack([Y, Y]), sample_noise=np.ones(N))


def test_rows_of_weight_zero_are_left_out():
    weights = np.where(np.arange(N) < 30, COUNTS, 0)
    model = new("exact").fit(X, Y, sample_weight=weights)
    assert len(model.X_train_) == 30
    require_same(model, new("exact").fit(X[:30], Y[:30], sample_weight=COUNTS[:30]), rtol=1e-12)


def test_graphs_refuse_rows_that_count_twice():
    graph = cgp.Graph.from_edges(np.arange(20), (np.arange(20) + 1) % 20)
    nodes, y = np.arange(15), np.sin(np.arange(15.0))
    process = cgp.GraphGPRegressor(graph, n_walks=5, random_state=0).fit(nodes, y).process_
    twice = RowWeights(np.ones(15), np.full(15, 2.0))
    with pytest.raises(InvalidInputError, match="count once each"):
        process.conditioned(Data.of(nodes, y[:, None], weights=twice))
