"""Closed forms of errors, against series, each other, the literature and plain sampling."""

import numpy as np
import pytest
from scipy import special

from coupledgp.couplings import DirectionsAndNorms, parse_coupling
from coupledgp.errors import InvalidInputError
from coupledgp.theory import conformity, distance_mse, expected_mse, orthogonality_gap
from coupledgp.theory.closed_forms import _Pair
from tests.theory import assert_mean, orthogonal_moment, z_score

DIMS = [1, 2, 3, 8]
SIGNS = {"fourier": -1.0, "laplace": 1.0}
both = pytest.mark.parametrize("features", SIGNS)


@pytest.mark.parametrize("dim", DIMS[1:])
@both
def test_quadrature_meets_the_series(dim: int, features: str) -> None:
    sign = SIGNS[features]
    for t in (0.1, 0.7, 1.5):
        series = orthogonal_moment(sign, dim, t)
        pair = _Pair("orthogonal", "independent")
        assert pair.moment(sign, dim, t) == pytest.approx(series, rel=1e-11)
        assert special.hyp1f1(dim, dim / 2, sign * t**2 / 2) == pytest.approx(series, rel=1e-11)


@pytest.mark.parametrize("dim", DIMS)
@both
def test_independent_frequencies_factorise(dim: int, features: str) -> None:
    sign = SIGNS[features]
    for t in (0.2, 1.3):
        exact = np.exp(sign * t**2)
        assert _Pair("iid", "independent").moment(sign, dim, t) == pytest.approx(exact, rel=1e-11)
        if dim > 1:
            # Orthogonal with equal norms: the sum has the law N(0, 2 I), as if independent.
            equal = _Pair("orthogonal", "equal").moment(sign, dim, t)
            assert equal == pytest.approx(exact, rel=1e-11)


@pytest.mark.parametrize("norms", ["independent", "mirrored", "equal", "strata"])
@pytest.mark.parametrize("directions", ["iid", "orthogonal", "simplex"])
def test_moments_are_one_at_zero_distance(norms: str, directions: str) -> None:
    for dim in (2, 3):
        pair = _Pair(directions, norms, n_strata=5)
        assert pair.moment(1.0, dim, 0.0) == pytest.approx(1.0, rel=1e-12)


def test_independent_errors_are_those_of_the_literature() -> None:
    t = 0.8
    fourier = (1 - np.exp(-(t**2))) ** 2 / 2
    laplace = np.exp(2 * t**2) - np.exp(t**2)
    for m in (1, 4):
        assert distance_mse("fourier", "iid", m, 3, t) == pytest.approx(fourier / m, rel=1e-10)
        assert distance_mse("laplace", "iid", m, 3, t) == pytest.approx(laplace / m, rel=1e-10)
    n_pairs = 3
    signs = np.exp(t**2) * (1 - np.exp(-(t**2))) ** 2 * np.exp(t**2) / (2 * n_pairs)
    value = distance_mse("laplace", "iid+antithetic", 2 * n_pairs, 2, t)
    assert value == pytest.approx(signs, rel=1e-10)


def test_errors_at_inputs_carry_their_factor() -> None:
    x, y = np.array([0.3, -0.2]), np.array([0.1, 0.5])
    t, c = np.linalg.norm(x + y), np.exp(-x @ x - y @ y)
    laplace = c**2 * distance_mse("laplace", "orthogonal", 2, 2, t)
    assert expected_mse("laplace", "orthogonal", 2, x, y) == pytest.approx(laplace)
    fourier = distance_mse("fourier", "orthogonal", 2, 2, np.linalg.norm(x - y))
    assert expected_mse("fourier", "orthogonal", 2, x, y) == pytest.approx(fourier)


def test_conformity() -> None:
    """Values for independent, orthogonal and opposite frequencies, computed without the package."""
    t = 0.9
    assert conformity("iid", 5, 3, t) == pytest.approx(np.exp(t**2))
    assert conformity("orthogonal", 3, 3, t) == pytest.approx(orthogonal_moment(1.0, 3, t))
    # Two blocks of two: 4 of the 12 ordered pairs share one.
    mixed = (4 * orthogonal_moment(1.0, 2, t) + 8 * np.exp(t**2)) / 12
    assert conformity("orthogonal", 4, 2, t) == pytest.approx(mixed)
    assert conformity("iid+antithetic", 2, 7, t) == pytest.approx(1.0)


def test_simplex_beats_orthogonal_at_small_distance() -> None:
    """MATH 3: for d = 64 and small v the ratio of the mean squared errors is 0.0078."""
    simplex, orthogonal = (
        distance_mse("laplace", directions, 64, 64, 0.05)
        for directions in ("simplex", "orthogonal")
    )
    assert simplex / orthogonal == pytest.approx(0.0078, abs=2e-4)


@both
def test_gaps(features: str) -> None:
    assert orthogonality_gap(features, "iid", 8, 8, 1.1) == pytest.approx(0.0, abs=1e-13)
    for better in ("orthogonal", "orthogonal+pnc"):
        assert orthogonality_gap(features, better, 8, 8, 0.5) > 0
    gap = orthogonality_gap(features, "iid+antithetic", 8, 8, 0.5)
    assert (gap > 0) == (features == "laplace")


@both
def test_fast_directions_are_those_of_the_padded_dimension(features: str) -> None:
    fast = distance_mse(features, "simplex-fast+pnc", 6, 3, 0.8)
    assert fast == distance_mse(features, "simplex+pnc", 6, 4, 0.8)
    assert fast != distance_mse(features, "simplex+pnc", 6, 3, 0.8)


@pytest.mark.parametrize(
    ("directions", "norms"), [("orthogonal", "pnc"), ("iid", "stratified"), ("simplex", "pnc")]
)
def test_pair_moments_against_plain_sampling(
    directions: str, norms: str, rng: np.random.Generator
) -> None:
    """Without the package: norms by inverting uniforms, directions in the plane by angles."""
    dim, t, n, size = 2, 0.6, 3, 400_000
    u1 = rng.uniform(size=size)
    if norms == "pnc":
        u2, relation = 1 - u1, "mirrored"
    else:
        relation = "strata"
        strata = rng.permuted(np.tile(np.arange(n), (size, 1)), axis=1)[:, :2]
        u1, u2 = ((strata + rng.uniform(size=(size, 2))) / n).T
    r1, r2 = (np.sqrt(-2 * np.log1p(-u)) for u in (u1, u2))
    angle = rng.uniform(0, 2 * np.pi, size)
    turn = {"orthogonal": np.pi / 2, "simplex": np.pi}.get(directions)
    other = rng.uniform(0, 2 * np.pi, size) if turn is None else angle + turn
    for sign, g in ((1.0, np.exp), (-1.0, np.cos)):
        product = g(t * r1 * np.cos(angle)) * g(t * r2 * np.cos(other))
        pair = _Pair(directions, relation, n_strata=n)
        assert_mean(product, pair.moment(sign, dim, t))


@pytest.mark.parametrize("text", ["sobol", "simplex-plus", "simplex-plus+pnc"])
def test_couplings_without_closed_form_are_refused(text: str) -> None:
    with pytest.raises(
        InvalidInputError, match=rf"coupling: expected .* got {text}".replace("+", r"\+")
    ):
        distance_mse("fourier", parse_coupling(text), 2, 2, 0.5)


def test_wrong_arguments() -> None:
    with pytest.raises(
        InvalidInputError, match="features: expected one of 'fourier', 'importance-laplace'"
    ):
        distance_mse("furier", "iid", 2, 2, 0.5)
    with pytest.raises(InvalidInputError, match="n_frequencies: expected an int >= 2"):
        conformity("iid", 1, 2, 0.5)
    with pytest.raises(InvalidInputError, match=r"y: expected shape \(2,\) as x, got \(3,\)"):
        expected_mse("fourier", DirectionsAndNorms(), 2, [0.0, 1.0], [0.0, 1.0, 2.0])
    with pytest.raises(InvalidInputError, match="x: expected finite values"):
        expected_mse("fourier", "iid", 2, [np.nan], [0.0])


def test_z_score_sees_a_shift(rng: np.random.Generator) -> None:
    samples = rng.standard_normal(10_000)
    assert abs(z_score(samples, 0.0)) < 5
    assert abs(z_score(samples, 0.1)) > 5
