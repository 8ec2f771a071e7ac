"""Losses of a spectrum against the plain laws; the descent; weights of mixtures."""

import numpy as np
import pytest
import torch
from scipy import stats

import coupledgp as cgp
from coupledgp.core import weights_posterior as stream_module
from coupledgp.core.posterior_form import (
    mixture_log_density,
    mixture_weights,
    precision_weighted_mean,
)
from coupledgp.core.posterior_kl import Teacher, posterior_kl_loss
from coupledgp.core.problem import Hyperparameters
from coupledgp.errors import InvalidInputError
from coupledgp.spectra import GaussianSpectrum
from coupledgp.tables.spectrum_descent import (
    KLSettings,
    QueryPoints,
    fit_posterior_kl,
)
from coupledgp.tables.spectrum_evidence import evidence_loss

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


def test_gradients_do_not_depend_on_chunks(table, spectrum, monkeypatch):
    loss = next(losses(table, table[0][:1]))
    gradients = []
    for rows in (10**6, 7):
        monkeypatch.setattr(stream_module, "MAX_CHUNK_ROWS", rows)
        leaves = [t.clone().requires_grad_() for t in spectrum]
        gradients.append(torch.autograd.grad(loss(*leaves), leaves))
    torch.testing.assert_close(*gradients)


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
    fit_posterior_kl(teacher, queries, start_map, settings)
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
