"""Expected errors of posteriors by random features, against Monte Carlo with dense algebra."""

import numpy as np
import pytest

from coupledgp import theory
from coupledgp.core.posterior_form import PosteriorForm
from coupledgp.core.problem import Hyperparameters
from coupledgp.couplings import parse_coupling
from coupledgp.errors import InvalidInputError, PrecisionWarning
from coupledgp.spectra import parse_spectrum
from coupledgp.theory import posterior

N, P, D, NOISE, SCALE = 40, 20, 3, 0.2, 1.5
RNG = np.random.default_rng(4)
X, QUERIES = RNG.normal(size=(N, D)), RNG.normal(size=(P, D))
HYPER = {"lengthscale": 2.0, "outputscale": SCALE, "noise": NOISE}
SPECTRUM = parse_spectrum("gaussian")
Z = np.concatenate([X, QUERIES]) / 2.0
K = SCALE * np.exp(-0.5 * np.square(Z[:, None] - Z[None]).sum(axis=-1))


def law(K):
    C = K[:N, :N] + NOISE * np.eye(N)
    mean = np.linalg.solve(C, K[:N, N:]).T
    return mean, K[N:, N:] - mean @ K[:N, N:] + NOISE * np.eye(P), C


def divergence(own, other, gap):
    logdets = np.linalg.slogdet(other)[1] - np.linalg.slogdet(own)[1]
    return 0.5 * (np.trace(np.linalg.solve(other, own + gap)) - P + logdets) / P


def measured(W):
    """KL forward and reverse, KL of the priors, and excess squared error, of one draw."""
    phase = Z @ W.T
    columns = np.concatenate([np.cos(phase), np.sin(phase)], axis=1) * np.sqrt(SCALE / len(W))
    approximate = columns @ columns.T
    (mean, S, C), (other, S_hat, _) = law(K), law(approximate)
    gap = (other - mean) @ C @ (other - mean).T
    priors = [A[N:, N:] + NOISE * np.eye(P) for A in (K, approximate)]
    zero = np.zeros((P, P))
    return np.array([
        divergence(S, S_hat, gap), divergence(S_hat, S, gap), divergence(*priors, zero),
        np.trace(gap) / P,
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("coupling", "m"), [("iid", 1500), ("orthogonal", 600), ("orthogonal+pnc", 600)]
)
@pytest.mark.long
def test_expected_errors_are_those_of_draws(coupling, m):
    found = theory.posterior_errors(X, QUERIES, m, coupling=coupling, n_draws=24, **HYPER)
    law = parse_coupling(coupling)
    draws = np.array([measured(law.sample(m, D, SPECTRUM, k)) for k in range(60)])
    means, errors = draws.mean(axis=0), draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    for expected, k in (
        (found.kl, 0), (found.kl, 1), (found.prior_kl, 2), (found.squared_error, 3),
    ):  # fmt: skip
        # What is beyond second order is of the order of the KL itself, relative to it.
        tolerance = 4 * np.hypot(errors[k], expected.standard_error) + 0.05 * means[k]
        assert means[k] == pytest.approx(expected.value, abs=tolerance)
    assert found.coupling == coupling


@pytest.mark.parametrize(("coupling", "m"), [("iid", 60), ("iid", 150), ("halton", 25)])
def test_stated_errors_hold_what_the_second_order_leaves_out(coupling, m):
    """Between .03 and .1 nats, where the expansion is off by more than the spread of its parts."""
    found = theory.posterior_errors(X, QUERIES, m, coupling=coupling, n_draws=24, **HYPER)
    law = parse_coupling(coupling)
    draws = np.array([measured(law.sample(m, D, SPECTRUM, 100 + k)) for k in range(100)])
    means, errors = draws.mean(axis=0), draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    for expected, k in (
        (found.kl, 0), (found.kl, 1), (found.prior_kl, 2), (found.squared_error, 3),
    ):  # fmt: skip
        assert abs(means[k] - expected.value) < 2 * expected.standard_error + 4 * errors[k]
    assert found.kl.standard_error < 0.5 * found.kl.value


def test_what_the_second_order_leaves_out_is_that_of_dense_algebra():
    hyper, W = Hyperparameters(np.full(D, 2.0), SCALE, NOISE), RNG.normal(size=(40, D))
    whole = measured(W) * P
    for measure, expected in (
        ("kl", whole[:2]),
        ("prior", whole[2:3]),
        ("squared error", whole[3:]),
    ):
        form = PosteriorForm(X, QUERIES, SPECTRUM, hyper, measure=measure)
        second = form.value(form.atoms(W), np.full(40, 1 / 40))
        found = form.beyond(W)[: expected.size] + second
        np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_independent_errors_fall_as_one_over_their_number():
    one, two = (theory.posterior_errors(X, QUERIES, m, **HYPER) for m in (50, 200))
    assert one.kl.value == pytest.approx(4 * two.kl.value, rel=1e-12)
    assert one.kl.independent == one.kl.value
    wanted = one.frequencies_for(0.001)
    assert wanted == two.frequencies_for(0.001)
    assert one.kl.value * 50 / wanted <= 0.001 < one.kl.value * 50 / (wanted - 1)


def test_halton_points_gain_and_orthogonal_directions_hardly_do():
    found = {
        name: theory.posterior_errors(X, QUERIES, 120, coupling=name, n_draws=32, **HYPER).kl
        for name in ("orthogonal", "halton")
    }
    ratio = {name: kl.value / kl.independent for name, kl in found.items()}
    assert ratio["halton"] < 0.7
    assert abs(ratio["orthogonal"] - 1) < 0.1


def test_pairs_are_those_of_the_errors_of_the_kernel():
    hyper = Hyperparameters(np.full(D, 2.0), SCALE, NOISE)
    form = PosteriorForm(X, QUERIES, SPECTRUM, hyper)
    atoms = form.atoms(RNG.normal(size=(6, D)))
    beside = form.beside_kernel(atoms)
    errors = form.gram(atoms, atoms) - beside - beside[:, None] + form.of_kernel
    expected = (errors.sum() - np.trace(errors)) / 36
    assert posterior._centred_pairs(form, atoms) == pytest.approx(expected, rel=1e-9)


@pytest.mark.filterwarnings("ignore::coupledgp.errors.PrecisionWarning")
def test_a_single_frequency_has_no_pair():
    found = theory.posterior_errors(X, QUERIES, 1, coupling="orthogonal", **HYPER)
    assert found.kl.value == found.kl.independent


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"queries": np.ones((4, 2))}, "queries: expected 3 columns as X has, got 2"),
        ({"n_frequencies": 0}, "n_frequencies"),
        ({"noise": 0.0}, "noise"),
        ({"X": np.full((4, 3), np.nan)}, "X: expected finite"),
    ],
)
def test_what_is_refused(changed, text):
    arguments = {"X": X, "queries": QUERIES, "n_frequencies": 9} | HYPER | changed
    with pytest.raises(InvalidInputError, match=text):
        theory.posterior_errors(**arguments)


def test_a_target_that_is_not_positive_is_refused():
    found = theory.posterior_errors(X, QUERIES, 90, **HYPER)
    with pytest.raises(InvalidInputError, match="kl_target"):
        found.frequencies_for(0.0)


def test_expectations_beyond_second_order_are_told():
    with pytest.warns(PrecisionWarning, match=r"n_frequencies: the expected KL of .* above 0\.1"):
        theory.posterior_errors(X, QUERIES, 1, **HYPER)


@pytest.mark.long
def test_changes_are_those_of_the_expected_errors() -> None:
    """Against `posterior_errors`, whose draws differ; independent frequencies change nothing."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(90, 1)) + 0.3 * rng.normal(size=(90, 3))
    rows, points, hyper = X[:60], X[60:], Hyperparameters(np.full(3, 4.0), 1.0, 0.1)
    form = PosteriorForm(rows, points, SPECTRUM, hyper)
    laws = {name: parse_coupling(name) for name in ("iid", "orthogonal")}
    independent, changes = theory.expected_changes(form, laws, 3, 3, n_draws=400, random_state=1)
    found = theory.posterior_errors(
        rows, points, 3, lengthscale=4.0, outputscale=1.0, noise=0.1, coupling="orthogonal",
        n_draws=400,
    )  # fmt: skip
    expected = found.kl.value / found.kl.independent - 1
    error = np.hypot(changes["orthogonal"].standard_error, found.kl.standard_error / independent)
    assert abs(changes["orthogonal"].value - expected) < 4 * error
    assert abs(independent - found.kl.independent) < 6 * found.kl.standard_error
    assert changes["orthogonal"].value < -0.06
    assert abs(changes["iid"].value) < 4 * changes["iid"].standard_error
    assert str(theory.ExpectedChange(-0.0314, 0.0021)) == "-3.1 ± 0.2 %"
