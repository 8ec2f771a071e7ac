"""The posterior's own form: dense algebra, the KL it approximates, its expectation, its draws."""

import numpy as np
import pytest
import torch

from coupledgp.core import posterior_draw as posterior_draws
from coupledgp.core.posterior_draw import (
    inclusion,
    leading_functions,
    pilot_form,
    posterior_draw,
)
from coupledgp.core.posterior_form import FACTORS, PosteriorForm
from coupledgp.core.problem import Hyperparameters, RowWeights
from coupledgp.couplings import parse_coupling
from coupledgp.errors import InvalidInputError
from coupledgp.features import FourierFeatures, LaplaceFeatures
from coupledgp.spectra import parse_spectrum

N, P, D = 20, 6, 2
RNG = np.random.default_rng(11)
ROWS, QUERIES = RNG.normal(size=(N, D)), RNG.normal(size=(P, D))
HYPER = Hyperparameters(np.array([1.1, 1.6]), 2.0, 0.3)
FREQUENCIES = RNG.normal(size=(7, D))
WEIGHTS = RNG.dirichlet(np.ones(7))
SPECTRUM = parse_spectrum("gaussian")


class Dense:
    """The form by dense matrices, from its definition."""

    def __init__(self, measure="kl", relative=None, features="fourier"):
        Z = np.concatenate([ROWS, QUERIES]) / HYPER.lengthscale
        squares = np.square(Z[:, None] - Z[None]).sum(axis=-1)
        self.K = HYPER.outputscale * np.exp(-0.5 * squares)
        if features == "fourier":
            phases = [(Z[:, None] - Z[None]) @ w for w in FREQUENCIES]
            self.parts = [HYPER.outputscale * np.cos(phase) for phase in phases]
        else:
            columns = [np.exp(Z @ w - np.square(Z).sum(axis=1)) for w in FREQUENCIES]
            self.parts = [HYPER.outputscale * np.outer(z, z) for z in columns]
        noise = HYPER.noise * (np.ones(N) if relative is None else relative)
        self.C = self.K[:N, :N] + np.diag(noise)
        solved = np.linalg.solve(self.C, self.K[:N, N:]).T
        self.mean = solved
        self.S = self.K[N:, N:] - solved @ self.K[:N, N:] + HYPER.noise * np.eye(P)
        self.M = np.hstack([-solved, np.eye(P)])
        self.W = np.linalg.inv(self.S)
        if measure == "prior":
            self.M = np.hstack([np.zeros((P, N)), np.eye(P)])
            self.W = np.linalg.inv(self.K[N:, N:] + HYPER.noise * np.eye(P))
        if measure == "squared error":
            self.W = np.eye(P)
        self.factors = FACTORS[measure]

    def form(self, E, F):
        """B(E, F) by traces."""
        alpha, beta = self.factors
        seen, other = self.M @ E @ self.M.T, self.M @ F @ self.M.T
        rows = E[:N].T @ np.linalg.solve(self.C, F[:N]) if E is F else None
        rows = E[:, :N] @ np.linalg.solve(self.C, F[:N]) if rows is None else rows
        first = np.trace(self.W @ seen @ self.W @ other)
        return alpha * first + beta * np.trace(self.W @ self.M @ rows @ self.M.T)

    @property
    def error(self):
        return sum(a * A for a, A in zip(WEIGHTS, self.parts, strict=True)) - self.K


def made(measure="kl", weights=None, features=FourierFeatures):
    return PosteriorForm(ROWS, QUERIES, SPECTRUM, HYPER, weights, features, measure)


@pytest.mark.parametrize("measure", FACTORS)
@pytest.mark.parametrize("features", ["fourier", "laplace"])
def test_the_form_is_that_of_dense_algebra(measure, features):
    dense = Dense(measure, features=features)
    kind = FourierFeatures if features == "fourier" else LaplaceFeatures
    form = made(measure, features=kind)
    atoms = form.atoms(FREQUENCIES)
    pairs = np.array([[dense.form(A, B) for B in dense.parts] for A in dense.parts])
    scale = np.abs(pairs).max()
    np.testing.assert_allclose(form.gram(atoms, atoms), pairs, atol=1e-11 * scale)
    np.testing.assert_allclose(form.diagonal(atoms), np.diag(pairs), atol=1e-11 * scale)
    beside = [dense.form(A, dense.K) for A in dense.parts]
    np.testing.assert_allclose(form.beside_kernel(atoms), beside, atol=1e-11 * scale)
    assert form.of_kernel == pytest.approx(dense.form(dense.K, dense.K), rel=1e-10)
    expected = dense.form(dense.error, dense.error)
    assert form.value(atoms, WEIGHTS) == pytest.approx(expected, rel=1e-9)


def test_noise_and_counts_of_rows_enter_the_rows_noise():
    weights = RowWeights(RNG.uniform(0.5, 2.0, N), RNG.integers(1, 4, N).astype(float))
    dense = Dense(relative=weights.relative_noise)
    form = made(weights=weights)
    expected = dense.form(dense.error, dense.error)
    assert form.value(form.atoms(FREQUENCIES), WEIGHTS) == pytest.approx(expected, rel=1e-9)


def divergences(dense, t):
    """KL in both directions, averaged over targets of the exact law, for an error of t E."""
    K = dense.K + t * dense.error
    C = K[:N, :N] + HYPER.noise * np.eye(N)
    mean = np.linalg.solve(C, K[:N, N:]).T
    S = K[N:, N:] - mean @ K[:N, N:] + HYPER.noise * np.eye(P)
    gap = (mean - dense.mean) @ dense.C @ (mean - dense.mean).T
    found = []
    for own, other in ((dense.S, S), (S, dense.S)):
        logdets = np.linalg.slogdet(other)[1] - np.linalg.slogdet(own)[1]
        found.append(0.5 * (np.trace(np.linalg.solve(other, own + gap)) - P + logdets))
    return np.array(found)


def test_the_form_is_the_kl_to_second_order_in_both_directions():
    dense, form = Dense(), made()
    value = form.value(form.atoms(FREQUENCIES), WEIGHTS)
    gaps = [np.abs(divergences(dense, t) / (t**2 * value) - 1).max() for t in (1e-1, 1e-2, 1e-3)]
    assert gaps[0] < 0.3
    # The next term is of third order: the relative gap falls with t.
    np.testing.assert_allclose(np.divide(gaps[1:], gaps[:-1]), 0.1, rtol=0.4)


def test_the_pilots_rows_count_as_often_as_all():
    inputs = np.random.default_rng(3).normal(size=(90, D))
    # Logarithms that are whole steps, so that the pilot does not round them.
    hyper = Hyperparameters(np.exp([6 / 64, 30 / 64]), np.exp(44 / 64), np.exp(-77 / 64))
    order = np.random.default_rng(0).permutation(90)
    rows, queries = inputs[order[:60]], inputs[order[60:]]
    for counts in (1.0, 2.0):
        weights = RowWeights(np.ones(90), np.full(90, counts))
        found = pilot_form(inputs, SPECTRUM, hyper, np.random.default_rng(0), weights)
        own = RowWeights(np.ones(60), np.full(60, 1.5 * counts))
        expected = PosteriorForm(rows, queries, SPECTRUM, hyper, own)
        values = [form.value(form.atoms(FREQUENCIES), WEIGHTS) for form in (found, expected)]
        assert values[0] == pytest.approx(values[1], rel=1e-9)
    further = pilot_form(inputs, SPECTRUM, hyper, np.random.default_rng(0), queries=inputs[:7])
    assert further.n_queries == 37


def test_small_changes_of_hyperparameters_do_not_change_a_pilot():
    inputs = np.random.default_rng(3).normal(size=(90, D))
    near = Hyperparameters(HYPER.lengthscale * (1 + 1e-6), 2.0 * (1 - 1e-6), 0.3)
    found = [
        pilot_form(inputs, SPECTRUM, hyper, np.random.default_rng(0)) for hyper in (HYPER, near)
    ]
    values = [form.value(form.atoms(FREQUENCIES), WEIGHTS) for form in found]
    assert values[0] == values[1]
    far = Hyperparameters(HYPER.lengthscale * 1.2, 2.0, 0.3)
    other = pilot_form(inputs, SPECTRUM, far, np.random.default_rng(0))
    assert other.value(other.atoms(FREQUENCIES), WEIGHTS) != values[0]


def test_inclusion_probabilities():
    own = np.array([100.0, 1.0, 1.0, 1.0, 4.0])
    np.testing.assert_allclose(inclusion(own, 1), np.sqrt(own) / 15)
    found = inclusion(own, 3)
    assert found[0] == 1
    np.testing.assert_allclose(found[1:], 2 * np.array([1, 1, 1, 2]) / 5)
    assert inclusion(own, 4).sum() == pytest.approx(4)
    np.testing.assert_allclose(inclusion(np.zeros(5), 2), 0.4)
    rare = inclusion(np.array([0.0, *np.ones(99)]), 10)
    assert rare[0] > 0.02


def test_leading_functions_reproduce_the_form():
    form = made()
    pool = np.random.default_rng(1).normal(size=(40, D))
    atoms = form.atoms(pool)
    found = leading_functions(form, atoms, 40, np.random.default_rng(2))
    np.testing.assert_allclose(found.T @ found, form.gram(atoms, atoms), atol=1e-8)


@pytest.fixture(scope="module")
def form():
    rows = np.random.default_rng(7).normal(size=(300, 3))
    hyper = Hyperparameters(np.full(3, 2.0), 1.0, 0.1)
    return pilot_form(rows, SPECTRUM, hyper, np.random.default_rng(0))


class TestDraw:
    def test_a_draw_is_nearer_than_independent_frequencies(self, form):
        found = posterior_draw(form, 3, 60, np.random.default_rng(1))
        assert found.frequencies.shape == (60, 3)
        assert found.weights.sum() == pytest.approx(1, abs=1e-12)
        value = form.value(form.atoms(found.frequencies), found.weights) / form.n_queries
        assert found.kl_per_point == pytest.approx(value, rel=1e-8)
        assert found.kl_per_point < 0.3 * found.independent_kl

    def test_the_expected_value_of_independent_frequencies(self, form):
        found = posterior_draw(form, 3, 60, np.random.default_rng(1))
        draws = [parse_coupling("iid").sample(60, 3, SPECTRUM, k) for k in range(60)]
        values = np.array([form.value(form.atoms(W), np.full(60, 1 / 60)) for W in draws])
        mean, error = values.mean() / form.n_queries, values.std(ddof=1) / np.sqrt(60)
        # The mean over the pool has an error of its own, some percent.
        tolerance = 4 * error / form.n_queries + 0.1 * mean
        assert found.independent_kl == pytest.approx(mean, abs=tolerance)

    def test_the_nearer_of_two_draws_is_kept(self, form, monkeypatch):
        """The other is made bad: all its weight on one atom."""
        m = 30
        with monkeypatch.context() as patch:
            patch.setattr(posterior_draws, "balanced_sample", lambda *_: np.zeros(m, int))
            assert posterior_draw(form, 3, m, np.random.default_rng(1)).kind == "recombined"
        one = np.arange(m), np.array([1.0, *np.full(m - 1, 1e-9)])
        monkeypatch.setattr(posterior_draws, "recombined_sample", lambda *_: one)
        assert posterior_draw(form, 3, m, np.random.default_rng(1)).kind == "balanced"

    def test_the_same_seed_gives_the_same_bits(self, form):
        one, two = (posterior_draw(form, 3, 30, np.random.default_rng(1)) for _ in range(2))
        assert one.frequencies.tobytes() == two.frequencies.tobytes()
        assert one.weights.tobytes() == two.weights.tobytes()

    def test_threads_change_no_frequency(self, form):
        found = []
        threads = torch.get_num_threads()
        try:
            for number in (1, 2):
                torch.set_num_threads(number)
                found.append(posterior_draw(form, 3, 30, np.random.default_rng(1)))
        finally:
            torch.set_num_threads(threads)
        assert found[0].frequencies.tobytes() == found[1].frequencies.tobytes()


def test_an_unknown_measure_is_refused():
    with pytest.raises(InvalidInputError, match="measure: expected one of"):
        made("variance")
