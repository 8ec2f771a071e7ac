"""The structure of each coupling: orthogonality, paired and shared norms, strata, signs."""

import numpy as np
import pytest
from scipy import stats

from coupledgp.couplings import (
    DirectionsAndNorms,
    IidDirections,
    IndependentNorms,
    MonotoneNorms,
    OrthogonalDirections,
    PairwiseNorms,
    QuasiMonteCarlo,
    StratifiedNorms,
    parse_coupling,
)
from coupledgp.couplings.frequencies.directions import haar_blocks
from coupledgp.couplings.frequencies.registry import norms_from_uniforms
from coupledgp.errors import InvalidInputError
from coupledgp.spectra import GaussianSpectrum, MaternSpectrum
from tests.theory import assert_mean

SPECTRA = [GaussianSpectrum(), MaternSpectrum(0.5), MaternSpectrum(2.5)]
SIZES = [(1, 1), (3, 1), (2, 5), (5, 5), (8, 3), (9, 4), (13, 2)]


def blocks(frequencies: np.ndarray) -> list[np.ndarray]:
    """Blocks of d consecutive frequencies, of which the last may be shorter."""
    dim = frequencies.shape[1]
    return [frequencies[i : i + dim] for i in range(0, len(frequencies), dim)]


@pytest.mark.parametrize(("m", "dim"), SIZES)
@pytest.mark.parametrize("norms", ["", "+pnc", "+monotone", "+stratified"])
def test_orthogonal_within_blocks(norms: str, m: int, dim: int, seed: int) -> None:
    for spectrum in SPECTRA:
        w = parse_coupling("orthogonal" + norms).sample(m, dim, spectrum, seed)
        for block in blocks(w):
            unit = block / np.linalg.norm(block, axis=1, keepdims=True)
            np.testing.assert_allclose(unit @ unit.T, np.eye(len(block)), atol=1e-13)


def test_blocks_are_independent_of_each_other(rng: np.random.Generator) -> None:
    """Also the cut one: its directions are neither those of the first block nor orthogonal."""
    w = np.stack([OrthogonalDirections().sample(np.ones(5), 3, rng) for _ in range(4000)])
    cosines = np.einsum("rik,rjk->rij", w[:, :3], w[:, 3:])
    assert_mean(cosines, 0.0)
    assert_mean(cosines**2, 1 / 3)


@pytest.mark.parametrize(("m", "dim"), SIZES)
@pytest.mark.parametrize("directions", ["iid", "orthogonal"])
def test_pnc_pairs(directions: str, m: int, dim: int, seed: int) -> None:
    for spectrum in SPECTRA:
        w = parse_coupling(f"{directions}+pnc").sample(m, dim, spectrum, seed)
        for block in blocks(w):
            u = spectrum.norm_cdf(np.linalg.norm(block, axis=1), dim)
            n_pairs = len(u) // 2
            pairs = u[: 2 * n_pairs].reshape(n_pairs, 2)
            np.testing.assert_allclose(pairs.sum(axis=1), 1.0, atol=1e-12)


def test_pnc_pairs_are_independent_and_an_odd_one_is_free(rng: np.random.Generator) -> None:
    u = np.stack([PairwiseNorms().sample(10, 5, rng) for _ in range(4000)])
    correlation = np.corrcoef(u.T)
    expected = np.eye(10)
    for first in (0, 2, 5, 7):
        expected[first, first + 1] = expected[first + 1, first] = -1
    assert np.abs(correlation - expected).max() < 5 / np.sqrt(4000)


def test_pnc_has_no_pairs_in_one_dimension(rng: np.random.Generator) -> None:
    u = np.stack([PairwiseNorms().sample(2, 1, rng) for _ in range(2000)])
    assert stats.kstest(u.sum(axis=1) / 2, stats.triang(0.5).cdf).pvalue > 1e-7


@pytest.mark.parametrize(("m", "dim"), SIZES)
@pytest.mark.parametrize("directions", ["iid", "orthogonal"])
def test_monotone_norms_are_equal_in_a_block_only(
    directions: str, m: int, dim: int, seed: int
) -> None:
    w = parse_coupling(f"{directions}+monotone").sample(m, dim, generator=seed)
    norms = [np.linalg.norm(block, axis=1) for block in blocks(w)]
    for block in norms:
        np.testing.assert_allclose(block, block[0], rtol=1e-13)
    firsts = [block[0] for block in norms]
    assert len(set(np.round(firsts, 12))) == len(firsts)


@pytest.mark.parametrize(("m", "dim"), SIZES)
@pytest.mark.parametrize("directions", ["iid", "orthogonal"])
def test_stratified_norms_fill_every_stratum_once(
    directions: str, m: int, dim: int, seed: int
) -> None:
    for spectrum in SPECTRA:
        w = parse_coupling(f"{directions}+stratified").sample(m, dim, spectrum, seed)
        u = spectrum.norm_cdf(np.linalg.norm(w, axis=1), dim)
        assert sorted(np.floor(u * m).astype(int)) == list(range(m))


def test_strata_are_permuted_over_all_positions(rng: np.random.Generator) -> None:
    u = np.stack([StratifiedNorms().sample(4, 2, rng) for _ in range(4000)])
    strata = np.floor(u * 4).astype(int)
    for position in range(4):
        counts = np.bincount(strata[:, position], minlength=4)
        assert stats.chisquare(counts).pvalue > 1e-8
    assert stats.kstest((u * 4 - strata).ravel(), "uniform").pvalue > 1e-8


@pytest.mark.parametrize(("m", "dim"), [(12, 4), (10, 4), (3, 5), (8, 1)])
def test_shared_strata_have_one_norm_a_block_and_one_block_a_stratum(
    m: int, dim: int, seed: int
) -> None:
    spectrum = GaussianSpectrum()
    w = parse_coupling("orthogonal+shared-strata").sample(m, dim, spectrum, seed)
    u = spectrum.norm_cdf(np.linalg.norm(w, axis=1), dim)
    blocks = -(-m // dim)
    first = u[::dim]
    np.testing.assert_allclose(u, np.repeat(first, dim)[:m], rtol=1e-9)
    assert sorted(np.floor(first * blocks).astype(int)) == list(range(blocks))


def test_strata_of_any_number_stay_inside_the_open_interval() -> None:
    class Largest:
        def permutation(self, n: int) -> np.ndarray:
            return np.arange(n)

        def integers(self, low: int, high: int, size: int) -> np.ndarray:
            return np.full(size, high - 1)

    u = StratifiedNorms().sample(1_000_003, 3, Largest())  # type: ignore[arg-type]
    assert u.max() < 1


@pytest.mark.parametrize("m", [1, 2, 5, 6, 11])
@pytest.mark.parametrize("head", ["iid", "orthogonal+pnc", "orthogonal+stratified"])
def test_antithetic_appends_the_negatives(head: str, m: int, seed: int) -> None:
    plain, antithetic = parse_coupling(head), parse_coupling(f"{head}+antithetic")
    w = antithetic.sample(m, 3, generator=seed)
    half = -(-m // 2)
    np.testing.assert_array_equal(w[:half], plain.sample(half, 3, generator=seed))
    np.testing.assert_array_equal(w[half:], -w[: m - half])


def test_haar_law(rng: np.random.Generator) -> None:
    """Second and fourth moments of Haar entries, which a plain QR factor gets wrong."""
    dim = 3
    q = haar_blocks(20_000, dim, dim, rng)
    assert_mean(q, 0.0)
    assert_mean(q**2, 1 / dim)
    assert_mean(q**4, 3 / (dim * (dim + 2)))
    assert_mean(np.trace(q, axis1=1, axis2=2), 0.0)
    assert_mean(np.trace(q, axis1=1, axis2=2) ** 2, 1.0)
    assert_mean(np.linalg.det(q), 0.0)


def test_haar_rows_of_a_cut_block_are_rows_of_a_whole_one(rng: np.random.Generator) -> None:
    q = haar_blocks(8000, 2, 4, rng)
    assert q.shape == (8000, 2, 4)
    assert_mean(q[:, 0, 0] ** 2 * q[:, 1, 1] ** 2, 5 / (3 * 4 * 6))
    assert_mean(q[:, 0, 0] ** 2 * q[:, 1, 0] ** 2, 1 / (4 * 6))


def test_iid_frequencies_are_uncorrelated(rng: np.random.Generator) -> None:
    w = np.stack([DirectionsAndNorms().sample(3, 2, generator=rng) for _ in range(8000)])
    flat = w.reshape(8000, 6)
    assert_mean(flat[:, :, None] * flat[:, None, :], np.eye(6))


@pytest.mark.parametrize("sequence", ["halton", "sobol"])
def test_quasi_monte_carlo_points_fill_the_cube(sequence: str, seed: int) -> None:
    """Every one of 64 equal cells of each coordinate holds one of 64 Sobol points, nearly so for
    Halton points in base 2 and 3."""
    w = QuasiMonteCarlo(sequence).sample(64, 2, generator=seed)  # type: ignore[arg-type]
    u = stats.norm.cdf(w)
    first = np.bincount(np.floor(u[:, 0] * 64).astype(int), minlength=64)
    assert (first == 1).all()
    if sequence == "sobol":
        assert (np.bincount(np.floor(u[:, 1] * 64).astype(int), minlength=64) == 1).all()
    else:
        thirds = np.bincount(np.floor(u[:, 1] * 27).astype(int), minlength=27)
        assert set(thirds) <= {2, 3}


def test_quasi_monte_carlo_of_matern_uses_one_more_coordinate(seed: int) -> None:
    spectrum = MaternSpectrum(1.5)
    for sequence in ("halton", "sobol"):
        w = QuasiMonteCarlo(sequence).sample(300, 3, spectrum, seed)  # type: ignore[arg-type]
        assert w.shape == (300, 3)
        u = spectrum.norm_cdf(np.linalg.norm(w, axis=1), 3)
        # A discrepancy that independent points reach once in e^18.
        assert stats.kstest(u, "uniform").statistic < 3 / np.sqrt(300)


def test_sobol_reaches_the_tails(rng: np.random.Generator) -> None:
    """One of 2^16 points lies in each stratum, the outermost included: beyond 4 deviations."""
    w = QuasiMonteCarlo("sobol").sample(2**16, 1, generator=rng)
    assert w.max() > 4.1
    assert w.min() < -4.1
    assert np.isfinite(w).all()


def test_unknown_sequence() -> None:
    with pytest.raises(InvalidInputError, match=r"sequence: expected 'halton' or 'sobol', got"):
        QuasiMonteCarlo("fibonacci")  # type: ignore[arg-type]


def test_norms_are_inverted_from_the_nearer_tail() -> None:
    u = np.array([2.0**-53, 0.25, 0.5, 1 - 2.0**-53])
    norms = norms_from_uniforms(u, 2, GaussianSpectrum())
    np.testing.assert_allclose(norms[:3], np.sqrt(-2 * np.log1p(-u[:3])), rtol=1e-14)
    assert norms[3] == pytest.approx(np.sqrt(2 * 53 * np.log(2)), rel=1e-14)


def test_parts_are_values() -> None:
    """Equal parts are equal, so that text forms can be found and models compared."""
    for kind in (IidDirections, OrthogonalDirections, IndependentNorms, MonotoneNorms):
        assert kind() == kind()
        assert hash(kind()) == hash(kind())
    assert DirectionsAndNorms(OrthogonalDirections(), PairwiseNorms()) == parse_coupling(
        "orthogonal+pnc"
    )


@pytest.mark.parametrize("sequence", ["halton", "sobol"])
def test_points_of_half_a_space_are_twice_as_fine(sequence: str, seed: int) -> None:
    """Every one of 64 equal cells of the first coordinate's size holds one of 64 points."""
    coupling = QuasiMonteCarlo(sequence, half_space=True)  # type: ignore[arg-type]
    w = coupling.sample(64, 2, generator=seed)
    u = 2 * stats.norm.cdf(np.abs(w[:, 0])) - 1
    assert (np.bincount(np.floor(u * 64).astype(int), minlength=64) == 1).all()
    assert 10 < (w[:, 0] > 0).sum() < 54


def test_half_a_space_halves_the_error_of_cosines(rng: np.random.Generator) -> None:
    """Two columns, 64 Sobol points: .47 of the squared error over 60 seeds."""
    gaps = rng.normal(size=(40, 2))
    exact = np.exp(-0.5 * np.square(gaps).sum(axis=1))
    whole, half = (
        np.mean(
            [
                np.square(np.cos(gaps @ coupling.sample(64, 2, generator=s).T).mean(1) - exact)
                for s in range(40)
            ]
        )
        for coupling in (QuasiMonteCarlo("sobol"), QuasiMonteCarlo("sobol", half_space=True))
    )
    assert half < 0.75 * whole
