"""Simulated errors of kernel estimates: against closed forms, plain draws and exact rules."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from coupledgp import theory
from coupledgp.couplings import (
    FrequencyCoupling,
    available_couplings,
    parse_coupling,
    register_coupling,
)
from coupledgp.errors import InvalidInputError
from coupledgp.features import FeatureMap, FourierFeatures
from coupledgp.spectra import parse_spectrum
from coupledgp.theory.simulation import MIN_DRAWS
from tests.registries import COUPLINGS, forgotten
from tests.theory import MAX_Z

CLOSED = [text for text in available_couplings() if theory.has_closed_form("fourier", text)]
# One coupling of each kind of directions, and each law of norms once.
SOME = ["iid", "orthogonal+pnc", "orthogonal+monotone+antithetic", "simplex+stratified",
        "simplex-fast", "orthogonal-fast+pnc"]  # fmt: skip
LENGTHS = {"fourier": 1.1, "laplace": 0.5}


def distance(found: theory.SimulatedError, expected: float) -> float:
    return abs(found.value - expected) / found.standard_error


@pytest.mark.parametrize("features", LENGTHS)
@pytest.mark.parametrize("coupling", SOME)
@pytest.mark.parametrize("dim", [3, 8])
def test_it_converges_to_the_closed_form(features, coupling, dim, seed):
    t = LENGTHS[features]
    expected = theory.distance_mse(features, coupling, 5, dim, t)
    few, many = (
        theory.simulated_distance_mse(features, coupling, 5, dim, t, n_draws=n, generator=seed)
        for n in (50, 400)
    )
    assert distance(many, expected) < MAX_Z
    # Eight times as many draws: the error falls by their root, within its own scatter.
    assert 0.2 < many.standard_error / few.standard_error < 0.7


# Squares of exponentials have heavy tails, of which few draws see little.
@pytest.mark.parametrize(("features", "n_draws"), [("fourier", 50), ("laplace", 200)])
def test_the_standard_error_is_that_of_the_value(features, n_draws, seed):
    """Root mean square of z over half of the closed forms is near one."""
    t = LENGTHS[features]
    z = [
        distance(
            theory.simulated_distance_mse(
                features, text, 3, 3, t, n_draws=n_draws, generator=seed + 1000 * k
            ),
            theory.distance_mse(features, text, 3, 3, t),
        )
        for k, text in enumerate(CLOSED[::2])
    ]
    assert len(z) >= 20
    assert 0.5 < np.sqrt(np.mean(np.square(z))) < 1.8


def test_inputs_carry_their_factor(seed):
    x, y = np.array([0.3, -0.2, 0.4]), np.array([0.1, 0.5, -0.3])
    for features in LENGTHS:
        found = theory.simulated_mse(features, "orthogonal", 3, x, y, generator=seed)
        assert distance(found, theory.expected_mse(features, "orthogonal", 3, x, y)) < MAX_Z


def test_errors_and_standard_errors_have_one_factor(seed):
    x, y = np.array([0.3, -0.2, 0.4]), np.array([0.1, 0.5, -0.3])
    found = theory.simulated_mse("laplace", "orthogonal", 3, x, y, generator=seed)
    t = float(np.linalg.norm(x + y))
    plain = theory.simulated_distance_mse("laplace", "orthogonal", 3, 3, t, generator=seed)
    assert found.value / plain.value == pytest.approx(np.exp(-2 * (x @ x + y @ y)))
    assert found.standard_error / found.value == pytest.approx(plain.standard_error / plain.value)


@pytest.mark.parametrize("features", LENGTHS)
@pytest.mark.parametrize(
    "coupling", ["halton", "sobol", "simplex-plus", "orthogonal+copula:[[-0.9]]"]
)
def test_no_closed_form_is_needed(features, coupling, seed):
    """Plain draws, without averages over rotations or control variates, are the reference."""
    x, y = np.array([0.9, 0.1]), np.array([-0.2, 0.3])
    assert not theory.has_closed_form(features, coupling)
    found = theory.simulated_mse(features, coupling, 4, x, y, n_draws=200, generator=seed)
    parsed, rng = parse_coupling(coupling), np.random.default_rng(seed + 1)
    w = np.stack([parsed.sample(4, 2, generator=rng) for _ in range(400)])
    if features == "fourier":
        estimates = np.cos(w @ (x - y)).mean(axis=1)
    else:
        estimates = np.exp(w @ (x + y)).mean(axis=1) * np.exp(-x @ x - y @ y)
    squares = (estimates - np.exp(-0.5 * (x - y) @ (x - y))) ** 2
    error = np.hypot(found.standard_error, squares.std(ddof=1) / np.sqrt(squares.size))
    assert abs(found.value - squares.mean()) < MAX_Z * error
    assert found.standard_error < squares.std(ddof=1) / np.sqrt(200)


def test_the_direction_counts_where_the_law_is_not_the_same_under_rotations(seed):
    """Along an axis Halton points are evenly spread, and across the axes less so."""
    along, across = (
        theory.simulated_mse("fourier", "halton", 16, v, np.zeros(3), n_draws=400, generator=seed)
        for v in (np.array([1.5, 0.0, 0.0]), np.full(3, 1.5 / np.sqrt(3)))
    )
    gap = across.value - along.value
    assert gap > MAX_Z * np.hypot(across.standard_error, along.standard_error)
    mean = theory.simulated_distance_mse(
        "fourier", "halton", 16, 3, 1.5, n_draws=400, generator=seed
    )
    assert along.value < mean.value < across.value


def test_a_single_frequency_has_no_error_left(seed):
    """The control variates determine its squared error, which is known."""
    found = theory.simulated_distance_mse("fourier", "iid", 1, 4, 0.7, n_draws=20, generator=seed)
    assert found.value == pytest.approx((1 - np.exp(-0.49)) ** 2 / 2, rel=1e-10)
    assert found.standard_error < 1e-12


def test_a_rule_is_exact():
    x, y = np.array([0.4, 0.1]), np.array([-0.3, 0.2])
    found = theory.simulated_mse("fourier", "quadrature", 8, x, y)
    rule = parse_coupling("quadrature")
    estimate = rule.weights(8, 2) @ np.cos(rule.sample(8, 2) @ (x - y))
    exact = np.exp(-0.5 * (x - y) @ (x - y))
    assert found.value == pytest.approx((estimate - exact) ** 2, rel=1e-9)
    assert found.standard_error == 0
    spread = theory.simulated_distance_mse("fourier", "quadrature", 8, 2, 1.0)
    assert 0 < spread.standard_error < spread.value


@pytest.mark.parametrize("spectrum", ["matern-3/2", "matern-1/2"])
def test_other_spectra(spectrum, seed):
    """Independent frequencies: `(1 + kappa(2t)) / 2 - kappa(t)^2` over their number."""
    found = theory.simulated_mse(
        "fourier", "iid", 6, [0.8], [0.0], spectrum=spectrum, generator=seed
    )
    kappa = parse_spectrum(spectrum).kernel
    expected = float((1 + kappa(1.6)) / 2 - kappa(0.8) ** 2) / 6
    assert distance(found, expected) < MAX_Z


@dataclass(frozen=True)
class Opposites(FrequencyCoupling):
    """Frequencies in pairs w and -w of independent normal vectors."""

    def _sample(self, n_frequencies, dim, spectrum, rng):
        half = rng.standard_normal((-(-n_frequencies // 2), dim))
        return np.concatenate([half, -half])[:n_frequencies]


def test_couplings_of_ones_own(seed):
    with forgotten(COUPLINGS):
        register_coupling("opposites", Opposites)
        for coupling in ("opposites", Opposites()):
            found = theory.simulated_mse("laplace", coupling, 4, [0.4], [0.2], generator=seed)
            expected = theory.expected_mse("laplace", "iid+antithetic", 4, [0.4], [0.2])
            assert distance(found, expected) < MAX_Z


class Doubled(FeatureMap):
    """Fourier features of a kind whose products no closed form is known for."""

    def __init__(self, *size, **options):
        super().__init__(*size, **options)

    n_features = property(lambda self: 2 * self.n_frequencies)

    def _features(self, inputs):
        return FourierFeatures._features(self, inputs)


def test_features_of_ones_own(seed):
    x, y = [0.8, 0.1], [-0.4, 0.2]
    found = theory.simulated_mse(Doubled, "orthogonal", 4, x, y, n_draws=300, generator=seed)
    assert distance(found, theory.expected_mse("fourier", "orthogonal", 4, x, y)) < MAX_Z


def test_same_seed_same_bits():
    first, again, other = (
        theory.simulated_distance_mse("fourier", "sobol", 3, 2, 1.0, n_draws=20, generator=s)
        for s in (1, 1, 2)
    )
    assert first == again
    assert first != other


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fourier", "quadrature", 4, np.zeros(5), np.ones(5)), "dim: quadrature expects"),
        (("laplace", "quadrature", 4, [0.0], [1.0]), "coupling: Laplace features are no even"),
        (("fourier", "nothing", 4, [0.0], [1.0]), "coupling"),
        (("fourier", "iid", 0, [0.0], [1.0]), "n_frequencies"),
        (("fourier", "iid", 4, [0.0], [1.0, 2.0]), r"y: expected shape \(1,\) as x"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        theory.simulated_mse(*arguments)


def test_bad_options():
    with pytest.raises(InvalidInputError, match="n_draws: expected an int >= 8"):
        theory.simulated_mse("fourier", "iid", 2, [0.0], [1.0], n_draws=MIN_DRAWS - 1)
    with pytest.raises(InvalidInputError, match="t: expected a finite number >= 0"):
        theory.simulated_distance_mse("fourier", "iid", 2, 1, -1.0)
    with pytest.raises(InvalidInputError, match="features: expected features whose products"):
        theory.simulated_distance_mse(Doubled, "iid", 2, 1, 1.0)
    with pytest.raises(InvalidInputError, match="gaussian"):
        theory.simulated_mse("laplace", "iid", 2, [0.0], [1.0], spectrum="matern-3/2")
