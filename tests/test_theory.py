"""The closed forms that other tests rely on, against each other and against plain sampling."""

import numpy as np
import pytest
from scipy import special

from tests.theory import (
    Ensemble,
    assert_mean,
    orthogonal_moment,
    pair_moment,
    unit_mse,
    z_score,
)

DIMS = [1, 2, 3, 8]


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_quadrature_meets_the_series(dim: int, sign: float) -> None:
    for t in (0.1, 0.7, 1.5):
        series = orthogonal_moment(sign, dim, t)
        assert pair_moment(sign, "orthogonal", "independent", 0, dim, t) == pytest.approx(
            series, rel=1e-11
        )
        assert special.hyp1f1(dim, dim / 2, sign * t**2 / 2) == pytest.approx(series, rel=1e-11)


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_independent_frequencies_factorise(dim: int, sign: float) -> None:
    for t in (0.2, 1.3):
        exact = np.exp(sign * t**2)
        assert pair_moment(sign, "iid", "independent", 0, dim, t) == pytest.approx(exact, rel=1e-11)
        # Equal norms and orthogonal directions: the sum has the law N(0, 2 I), as if independent.
        equal = pair_moment(sign, "orthogonal", "equal", 0, dim, t)
        assert equal == pytest.approx(exact, rel=1e-11)


@pytest.mark.parametrize("norms", ["independent", "mirrored", "equal", "strata"])
@pytest.mark.parametrize("dim", [1, 3])
def test_moments_are_one_at_zero_distance(norms: str, dim: int) -> None:
    for directions in ("iid", "orthogonal"):
        one = pair_moment(1.0, directions, norms, 5, dim, 0.0)
        assert one == pytest.approx(1.0, rel=1e-12)


def test_iid_mse_is_that_of_the_literature() -> None:
    t = 0.8
    fourier = (1 - np.exp(-(t**2))) ** 2 / 2
    laplace = np.exp(2 * t**2) - np.exp(t**2)
    for m in (1, 4):
        assert unit_mse("fourier", Ensemble(), m, 3, t) == pytest.approx(fourier / m, rel=1e-10)
        assert unit_mse("laplace", Ensemble(), m, 3, t) == pytest.approx(laplace / m, rel=1e-10)


def test_iid_pairs_of_both_signs_have_the_mse_of_math_2() -> None:
    t, pairs = 0.8, 3
    expected = np.exp(t**2) * (1 - np.exp(-(t**2))) ** 2 * np.exp(t**2) / (2 * pairs)
    value = unit_mse("laplace", Ensemble(antithetic=True), 2 * pairs, 2, t)
    assert value == pytest.approx(expected, rel=1e-10)


def test_simplex_beats_orthogonal_at_small_distance() -> None:
    """MATH 3: for d = 64 and small v the ratio of the mean squared errors is 0.0078."""
    simplex, orthogonal = (
        unit_mse("laplace", Ensemble(directions), 64, 64, 0.05)
        for directions in ("simplex", "orthogonal")
    )
    assert simplex / orthogonal == pytest.approx(0.0078, abs=2e-4)


@pytest.mark.parametrize(("directions", "norms"), [("orthogonal", "pnc"), ("iid", "stratified")])
def test_pair_moments_against_plain_sampling(
    directions: str, norms: str, rng: np.random.Generator
) -> None:
    """Without the package: norms by inverting uniforms, directions by normalised Gaussians."""
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
    other = angle + np.pi / 2 if directions == "orthogonal" else rng.uniform(0, 2 * np.pi, size)
    for sign, g in ((1.0, np.exp), (-1.0, np.cos)):
        product = g(t * r1 * np.cos(angle)) * g(t * r2 * np.cos(other))
        assert_mean(product, pair_moment(sign, directions, relation, n, dim, t))


def test_z_score_sees_a_shift(rng: np.random.Generator) -> None:
    samples = rng.standard_normal(10_000)
    assert abs(z_score(samples, 0.0)) < 5
    assert abs(z_score(samples, 0.1)) > 5
