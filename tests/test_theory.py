"""Closed forms of errors, against series, each other, the literature and plain sampling."""

import numpy as np
import pytest
from scipy import special, stats

from coupledgp.couplings import DirectionsAndNorms, parse_coupling
from coupledgp.couplings.frequencies.directions import simplex_product
from coupledgp.errors import InvalidInputError
from coupledgp.theory import distance_mse, expected_mse
from coupledgp.theory.closed_forms import _cosine_mean, _Pair, norm_rule
from tests.theory import assert_mean, conformity, orthogonal_moment, orthogonality_gap, z_score

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


@pytest.mark.parametrize("t", [0.1, 1.0, 8.0])
def test_cosine_means_of_many_dimensions(t: float) -> None:
    """Where SciPy's 0F1 still has a value it is the same."""
    dim = 100
    lengths = t * np.linspace(0, 2 * (dim**0.5 + 14), 200)
    expected = special.hyp0f1(dim / 2, -(lengths**2) / 4)
    np.testing.assert_allclose(_cosine_mean(dim, lengths), expected, rtol=0, atol=1e-11)


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
    with pytest.raises(InvalidInputError, match=r"y: expected shape \(2,\) as x, got \(3,\)"):
        expected_mse("fourier", DirectionsAndNorms(), 2, [0.0, 1.0], [0.0, 1.0, 2.0])
    with pytest.raises(InvalidInputError, match="x: expected finite values"):
        expected_mse("fourier", "iid", 2, [np.nan], [0.0])


def test_z_score_sees_a_shift(rng: np.random.Generator) -> None:
    samples = rng.standard_normal(10_000)
    assert abs(z_score(samples, 0.0)) < 5
    assert abs(z_score(samples, 0.1)) > 5


@both
def test_published_gaps(features: str) -> None:
    """Corollary 4.4, with the factor 2^k that its printed formula lacks, and Theorem 4.5."""
    sign = SIGNS[features]
    for m, dim, t in ((2, 2, 0.7), (5, 8, 1.2)):
        series = orthogonal_moment(sign, dim, t)
        gap = (m - 1) / m * (np.exp(sign * t**2) - series)
        assert orthogonality_gap(features, "orthogonal", m, dim, t) == pytest.approx(gap, rel=1e-8)
        assert gap > 0


def test_the_ratio_in_many_dimensions() -> None:
    """Corollary 4.6, whose remainder is of order 1 / d^2, also where SciPy's 0F1 has no value."""
    m, z = 2, 1.1
    for dim, tolerance in ((100, 0.06), (500, 0.012)):
        orthogonal, iid = (
            distance_mse("fourier", name, m, dim, z) for name in ("orthogonal", "iid")
        )
        leading = (m - 1) * np.exp(-(z**2)) * z**4 / (dim * (1 - np.exp(-(z**2))) ** 2)
        assert 1 - orthogonal / iid == pytest.approx(leading, rel=tolerance)


def test_published_series_of_the_conformity() -> None:
    """Theorem 4.3, both series term by term."""
    for dim, v in ((2, 0.5), (3, 1.0), (6, 1.4)):
        assert conformity("orthogonal", dim, dim, v) == pytest.approx(
            orthogonal_moment(1.0, dim, v)
        )
        total = 0.0
        for k in range(80):
            inner = sum(
                (-1 / (dim - 1)) ** p
                * np.exp(
                    special.gammaln((dim + p) / 2)
                    - special.gammaln((dim + p + 1) / 2)
                    - special.gammaln(k - p + 1)
                    - special.gammaln(p + 1)
                )
                for p in range(k + 1)
            )
            ratio = np.exp(special.gammaln(k + dim) - special.gammaln(k + dim / 2))
            total += ratio * (v**2 / 2) ** k * inner
        total *= np.sqrt(np.pi) / (special.gamma(dim / 2) * 2 ** (dim - 1))
        assert conformity("simplex", dim, dim, v) == pytest.approx(total, rel=1e-9)


def test_simplex_is_below_orthogonal_below_iid() -> None:
    for dim in (2, 5, 16):
        for v in (0.1, 0.8, 2.0):
            errors = [
                distance_mse("laplace", name, dim, dim, v)
                for name in ("simplex", "orthogonal", "iid")
            ]
            assert errors[0] < errors[1] < errors[2]


def test_the_law_of_the_length_of_a_sum() -> None:
    """Lemma 4.2: the density of `|w_i + w_j|` gives the conformity; chi of 2 d if orthogonal."""
    dim, v = 4, 0.9
    phi = (np.arange(400) + 0.5) * np.pi / 800
    w = np.linspace(1e-3, 16, 1601)
    for name, cosine in (("orthogonal", 0.0), ("simplex", -1 / (dim - 1))):
        wide = 1 + np.sin(2 * phi) * cosine
        inner = (np.sin(phi) * np.cos(phi)) ** (dim - 1) / wide**dim
        inner = (inner * np.exp(-np.square(w)[:, None] / (2 * wide))).sum(axis=1) * np.pi / 800
        density = w ** (2 * dim - 1) * inner / 2 ** (dim - 2) / special.gamma(dim / 2) ** 2
        if name == "orthogonal":
            np.testing.assert_allclose(density, stats.chi(2 * dim).pdf(w), atol=1e-8)
        mean = np.trapezoid(density * special.hyp0f1(dim / 2, v**2 * w**2 / 4), w)
        assert conformity(name, dim, dim, v) == pytest.approx(mean, rel=1e-6)


@pytest.mark.parametrize("equal_norms", [True, False])
def test_no_directions_independent_of_norms_beat_the_simplex(
    equal_norms: bool, rng: np.random.Generator
) -> None:
    """Theorem 3.4 and Lemma A.1, against other directions, far from the simplex and near it."""
    dim, v = 5, 1.3
    r, weight = (np.array([np.sqrt(dim)]), np.ones(1)) if equal_norms else norm_rule(dim)
    r, weight = r[weight > 1e-12], weight[weight > 1e-12]

    def of(units: np.ndarray) -> float:
        cosines = (units @ units.T)[np.triu_indices(dim, 1)]
        both = np.square(r)[:, None] + np.square(r)
        means = [
            weight @ special.hyp0f1(dim / 2, v**2 * (both + 2 * c * np.outer(r, r)) / 4) @ weight
            for c in cosines
        ]
        return float(np.mean(means))

    simplex = simplex_product(np.eye(dim))
    least = of(simplex)
    if not equal_norms:
        assert least == pytest.approx(conformity("simplex", dim, dim, v), rel=1e-5)
    for size in (0.05, 0.3, 5.0):
        for _ in range(3):
            other = simplex + size * rng.normal(size=simplex.shape)
            assert of(other / np.linalg.norm(other, axis=1, keepdims=True)) > least
