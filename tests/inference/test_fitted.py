"""Losses of a spectrum against the plain laws; the descent; the mixture of members."""

import numpy as np
import pytest
import torch
from scipy import stats

import coupledgp as cgp
from coupledgp.errors import InvalidInputError, NumericalError
from coupledgp.inference.evidence.problem import Hyperparameters
from coupledgp.inference.spectra.evidence import SpectrumEvidence, evidence_loss, log_evidence_of
from coupledgp.inference.spectra.posterior_form import (
    mixture_log_density,
    mixture_weights,
    precision_weighted_mean,
)
from coupledgp.inference.spectra.posterior_kl import Teacher, posterior_kl_loss
from coupledgp.inference.weights import posterior as stream_module
from coupledgp.search.starts import SearchSpace
from coupledgp.search.tables.spectrum_descent import (
    KLSettings,
    QueryPoints,
    fit_loss,
    fit_posterior_kl,
)
from coupledgp.search.tables.spectrum_members import (
    EvidenceSettings,
    JitterStage,
    Member,
    Trajectory,
    UnseenRows,
    fit_members,
    hold_out,
    log_densities,
    spectral_penalty,
)
from coupledgp.spectra import GaussianSpectrum, MaternSpectrum

DIM, M, V, S = 3, 5, 1.7, 0.3
LENGTHSCALE = np.array([1.3, 0.8, 2.0])


@pytest.fixture
def table(rng):
    return rng.normal(size=(40, DIM)), rng.normal(size=(40, 2))


@pytest.fixture
def spectrum(rng):
    weights = rng.dirichlet(np.full(M, 3.0))
    return torch.tensor(rng.normal(size=(M, DIM))), torch.tensor(weights)


def plain_features(X, frequencies, weights):
    phase = (X / LENGTHSCALE) @ frequencies.numpy().T
    return np.hstack([np.sin(phase), np.cos(phase)]) * np.sqrt(np.tile(weights.numpy(), 2))


def losses(table, queries, **options):
    scales = {"lengthscale": LENGTHSCALE, "outputscale": V, "noise": S}
    yield evidence_loss(*table, **scales)
    yield posterior_kl_loss(*table, queries, **scales, **options)


def test_evidence_is_that_of_the_plain_law(table, spectrum):
    X, y = table
    loss = next(losses(table, X[:1]))
    phi = plain_features(X - X.mean(axis=0), *spectrum)
    law = stats.multivariate_normal(np.zeros(40), V * phi @ phi.T + S * np.eye(40))
    expected = -sum(law.logpdf(column) for column in y.T) / y.size
    assert float(loss(*spectrum)) == pytest.approx(expected, rel=1e-10)
    leaves = [t.clone().requires_grad_() for t in spectrum]  # the value of the two passes
    assert float(loss(*leaves).detach()) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("kernel", ["gaussian", "matern-3/2"])
def test_kl_is_that_of_the_two_models(table, spectrum, kernel, rng):
    X, y = table
    y = y - y.mean(axis=0)
    queries = rng.normal(size=(15, DIM))
    loss = list(losses((X, y), queries, kernel=kernel))[1]
    scales = {"lengthscale": LENGTHSCALE, "outputscale": V, "noise": S, "optimizer": None}
    exact = cgp.ExactGPRegressor(kernel, normalize_y=False, **scales).fit(X, y)
    mean, cov = exact.predict(queries, return_cov=True)
    phi, psi = plain_features(X, *spectrum), plain_features(queries, *spectrum)
    gain = psi @ np.linalg.inv(phi.T @ phi + S / V * np.eye(2 * M))
    expected = [
        cgp.diagnostics.gaussian_kl(
            mean[:, k], cov[..., k], gain @ phi.T @ y[:, k], S * (gain @ psi.T + np.eye(15))
        )
        for k in range(2)
    ]
    assert float(loss(*spectrum)) == pytest.approx(np.mean(expected) / 15, rel=1e-8)


@pytest.mark.parametrize("which", [0, 1])
def test_gradients_of_the_losses(table, spectrum, which, rng):
    loss = list(losses(table, rng.normal(size=(9, DIM))))[which]
    leaves = [t.clone().requires_grad_() for t in spectrum]
    assert torch.autograd.gradcheck(loss, leaves)
    equal = loss(spectrum[0], torch.full((M,), 1 / M, dtype=torch.float64))
    assert float(loss(spectrum[0])) == float(equal)


def test_gradient_in_the_variances_and_over_chunks(table, spectrum, monkeypatch):
    X, y = table
    scales = [torch.tensor(t, dtype=torch.float64, requires_grad=True) for t in (0.4, -1.1)]
    leaves = [spectrum[0].requires_grad_(), spectrum[1].log().requires_grad_(), *scales]
    problem = SpectrumEvidence(X, y)
    assert torch.autograd.gradcheck(lambda *t: log_evidence_of(problem, *t), leaves)
    whole = problem.evaluate(spectrum[0].detach(), spectrum[1].log().detach(), V, S)
    monkeypatch.setattr(stream_module, "MAX_CHUNK_ROWS", 7)
    chunked = problem.evaluate(spectrum[0].detach(), spectrum[1].log().detach(), V, S)
    assert chunked.value == pytest.approx(whole.value, rel=1e-12)
    torch.testing.assert_close(chunked.frequencies, whole.frequencies)


BAD_LOSS = [
    ({"X": np.ones(4)}, "X: expected a non-empty 2-D array"),
    ({"X": np.full((4, DIM), np.nan)}, "X: expected finite values"),
    ({"y": np.ones(3)}, "y: expected 4 rows as X has, got 3"),
    ({"queries": np.ones((2, 2))}, "queries: expected 3 columns as X has, got 2"),
    ({"noise": 0.0}, "noise: expected a finite number > 0"),
    ({"lengthscale": [1.0, 2.0]}, "lengthscale: expected a scalar or 3 values"),
    ({"kernel": "cubic"}, "kernel: expected one of 'gaussian'"),
]


@pytest.mark.parametrize(("change", "message"), BAD_LOSS)
def test_bad_input_of_a_loss_is_named(change, message, rng):
    good = {"X": rng.normal(size=(4, DIM)), "y": np.ones(4), "queries": np.ones((2, DIM))}
    good |= {"lengthscale": 1.0, "outputscale": 1.0, "noise": 0.1}
    with pytest.raises(InvalidInputError, match=message):
        posterior_kl_loss(**(good | change))


def test_bad_frequencies_are_named(table):
    loss = next(losses(table, table[0][:1]))
    with pytest.raises(InvalidInputError, match=r"frequencies: expected shape \(m, 3\), got"):
        loss(torch.ones(4, 2))
    with pytest.raises(InvalidInputError, match=r"weights: expected shape \(4,\)"):
        loss(torch.ones(4, 3), torch.ones(3))


def start_map(seed=0):
    return cgp.features.FourierFeatures(DIM, M, generator=seed)


def test_a_loss_is_descended_and_its_best_state_kept(rng):
    target = torch.tensor(rng.normal(size=(M, DIM)))

    def loss(frequencies, weights):
        return (frequencies - target).square().sum() + weights.square().sum()

    fit = fit_loss(loss, start_map(), KLSettings(), lambda text: None)
    assert fit.loss < 0.3 * fit.start_loss
    assert float(loss(fit.frequencies, fit.weights)) == fit.loss
    assert float(fit.weights.sum()) == pytest.approx(1)
    with pytest.raises(NumericalError, match="objective: expected a finite loss, got nan"):
        fit_loss(lambda w, a: w.sum() * np.nan, start_map(), KLSettings(), lambda text: None)
    with pytest.raises(InvalidInputError, match=r"objective: expected .* scalar tensor"):
        fit_loss(lambda w, a: w.square().sum(1), start_map(), KLSettings(), lambda text: None)


def test_every_step_has_query_points_of_its_own(rng):
    """Points that come again are overfitted."""
    rows = rng.normal(size=(30, DIM))
    hyper = Hyperparameters(LENGTHSCALE, V, S)
    asked, laws = [], []

    class Watched(QueryPoints):
        def draw(self, n):
            asked.append(n)
            return super().draw(n)

    class WatchedTeacher(Teacher):
        def law(self, X):
            laws.append(X.copy())
            return super().law(X)

    teacher = WatchedTeacher(rows, rows[:, :1], GaussianSpectrum(), hyper)
    settings = KLSettings(n_steps=12, n_queries=20, n_starts=2)
    queries = Watched(rows, rows[:0], rng)
    fit_posterior_kl(teacher, queries, start_map, settings, lambda text: None)
    # One set judges, the others are those of the steps.
    assert asked == [20] * 13
    assert len({law.tobytes() for law in laws}) == 13


def test_query_points_keep_correlations_and_mix_in_further_rows(rng):
    rows = rng.normal(size=(300, 1)) * [1.0, 1.0]
    further = 100 + np.zeros((5, 2))
    points = QueryPoints(rows, further, rng).draw(200)
    assert (points == 100).all(axis=1).sum() == 100
    near = points[points[:, 0] < 50]
    # Only the tenth of a standard deviation moves them off the line.
    assert np.abs(near[:, 0] - near[:, 1]).max() < 0.1 * np.sqrt(2) * rows.std() * 6


def test_spectral_penalties_are_log_densities_up_to_a_constant(rng):
    w = torch.tensor(rng.normal(size=(2, DIM)))
    for spectrum, law in (
        (GaussianSpectrum(), stats.multivariate_normal(np.zeros(DIM))),
        (MaternSpectrum(1.5), stats.multivariate_t(np.zeros(DIM), df=3)),
    ):
        ours = [float(spectral_penalty(spectrum, row[None])) for row in w]
        plain = [-law.logpdf(row.numpy()) for row in w]
        assert ours[0] - ours[1] == pytest.approx(plain[0] - plain[1])


def problem_and_rest(rng, n=120):
    X = rng.normal(size=(n, DIM))
    y = np.sin(2 * X[:, :1]) + 0.3 * rng.normal(size=(n, 1))
    train, held = hold_out(n, rng)
    start = start_map()
    equal = torch.full((M,), 1 / M, dtype=torch.float64)
    member = Member(start.frequencies, equal, Hyperparameters(np.ones(DIM), 1.0, 0.2))
    space = SearchSpace(np.ones(DIM), ard=True)
    held_out = UnseenRows(X[held], y[held])
    return SpectrumEvidence(X[train], y[train]), held_out, member, space


def test_held_out_densities_are_those_of_the_plain_law(rng):
    problem, held_out, member, _ = problem_and_rest(rng)
    w, scales = member.frequencies.numpy(), member.hyperparameters
    both = np.concatenate([problem.X, held_out.X])
    phi = np.hstack([np.sin(both @ w.T), np.cos(both @ w.T)]) / np.sqrt(M)
    prior = scales.outputscale * phi @ phi.T + scales.noise * np.eye(len(both))
    n = problem.n_rows
    gain = prior[n:, :n] @ np.linalg.inv(prior[:n, :n])
    mean = (gain @ problem.targets)[:, 0]
    variance = np.diag(prior[n:, n:] - gain @ prior[:n, n:])
    expected = stats.norm.logpdf(held_out.targets[:, 0], mean, np.sqrt(variance))
    np.testing.assert_allclose(log_densities(problem, member, held_out), expected, rtol=1e-8)


def test_trajectories_keep_fixed_hyperparameters_and_repeat(rng):
    problem, held_out, member, space = problem_and_rest(rng)
    space = SearchSpace(np.ones(DIM), ard=True, free=frozenset({"outputscale"}))
    short = EvidenceSettings((JitterStage(12, 0.2),), (JitterStage(12, 0.0),))
    runs = [
        fit_members(
            problem, held_out, member, space, GaussianSpectrum(), short,
            np.random.default_rng(3), lambda text: None,
        )
        for _ in range(2)
    ]  # fmt: skip
    for first, second in zip(*runs, strict=True):
        assert torch.equal(first.frequencies, second.frequencies)
        assert not torch.equal(first.frequencies, member.frequencies)
        assert (first.hyperparameters.lengthscale == 1).all()
        assert first.hyperparameters.noise == pytest.approx(0.2, rel=1e-12)
        assert first.hyperparameters.outputscale != 1


def test_the_plain_trajectory_raises_the_evidence_and_batches_approach_it(rng):
    problem, held_out, member, space = problem_and_rest(rng, 600)
    values = {}
    for name, batch in (("whole", 10**6), ("batches", 200)):
        trajectory = Trajectory(problem, held_out, member, space, None, rng, batch)
        start = float(trajectory.loss(0.0))
        trajectory.run(JitterStage(60, 0.0), lambda text: None)
        trajectory.batch_rows = 10**6
        values[name] = start, float(trajectory.loss(0.0))
    assert values["whole"][1] < values["whole"][0] - 0.1
    assert values["batches"][1] < values["whole"][0] - 0.1


def test_mixture_weights_maximise_the_penalised_likelihood(rng):
    densities = rng.normal(size=(3, 50)) + np.array([[0.5], [0.0], [-3.0]])
    counts = np.array([2.0, 1.0, 1.0])
    weights = mixture_weights(densities, counts)

    def objective(q):
        return mixture_log_density(densities, q).sum() + counts @ np.log(q)

    assert weights.sum() == pytest.approx(1)
    for _ in range(50):
        other = weights * np.exp(0.05 * rng.normal(size=3))
        assert objective(other / other.sum()) <= objective(weights) + 1e-6
    empty = mixture_weights(np.zeros((3, 0)), counts)
    np.testing.assert_allclose(empty, counts / counts.sum())


def test_precision_weighted_mean_ignores_members_that_do_not_know():
    means, variances = np.array([[1.0], [500.0]]), np.array([[0.1], [1e9]])
    center = precision_weighted_mean(means, variances, np.array([0.5, 0.5]))
    assert center[0] == pytest.approx(1.0, abs=1e-6)
