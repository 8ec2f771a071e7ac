"""Floors of coupled norms, against closed forms, simulation and the best law of two norms."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import special, stats
from scipy.optimize import linear_sum_assignment

from coupledgp.couplings import DirectionsAndNorms, OrthogonalDirections
from coupledgp.couplings.frequencies.norms import Norms
from coupledgp.errors import InvalidInputError, NumericalError
from coupledgp.random import FloatArray, open_uniforms
from coupledgp.theory import distance_mse, norms_floor, simulated_distance_mse
from tests.theory import small_distance_coefficient

SMALL = 0.05


def squared(u: FloatArray, dim: int) -> FloatArray:
    """Squared norms at uniforms."""
    return np.asarray(stats.chi2(dim).ppf(u))


def mirrored_correlation(dim: int) -> float:
    """Correlation of the squared norms of a mirrored pair, by the midpoint rule."""
    u = (np.arange(200_000) + 0.5) / 200_000
    return float(np.mean((squared(u, dim) - dim) * (squared(1 - u, dim) - dim)) / (2 * dim))


@dataclass(frozen=True)
class TwoMirroredBlocks(Norms):
    """Equal norms in each of two blocks, the second mirrored."""

    def sample(self, n: int, block_size: int, rng: np.random.Generator) -> FloatArray:
        u = float(open_uniforms(rng, 1)[0])
        return np.repeat([u, 1 - u], block_size)[:n]


@pytest.mark.parametrize("dim", [2, 6, 16])
@pytest.mark.parametrize(("size", "blocks"), [(1, 1), (2, 1), (0, 1), (0, 3)])
def test_small_distances_of_independent_norms(dim: int, size: int, blocks: int) -> None:
    m = size or dim * blocks
    error = distance_mse("fourier", "orthogonal", m, dim, SMALL)
    assert 4 * error / SMALL**4 == pytest.approx(small_distance_coefficient(m, dim), rel=2e-2)


@pytest.mark.parametrize("dim", [2, 6, 16])
def test_small_distances_of_pairwise_and_equal_norms(dim: int) -> None:
    rho = -mirrored_correlation(dim)
    pairwise = small_distance_coefficient(dim, dim, 2 * (1 - rho))
    assert pairwise == pytest.approx((6 - 2 * rho) / (dim * (dim + 2)))
    for norms, variance in (("pnc", 2 * (1 - rho)), ("monotone", 2.0 * dim)):
        error = distance_mse("fourier", f"orthogonal+{norms}", dim, dim, SMALL)
        expected = small_distance_coefficient(dim, dim, variance)
        assert 4 * error / SMALL**4 == pytest.approx(expected, rel=1e-2)


def test_blocks_of_equal_norms_that_mirror_each_other_pass_the_floor(seed: int) -> None:
    """The floor is one of independent blocks, and the coefficient knows of dependent ones."""
    dim, t = 4, 0.2
    coupling = DirectionsAndNorms(OrthogonalDirections(), TwoMirroredBlocks())
    found = simulated_distance_mse(
        "fourier", coupling, 2 * dim, dim, t, n_draws=1500, generator=seed
    )
    variance = dim * (1 + mirrored_correlation(dim))
    expected = small_distance_coefficient(2 * dim, dim, 2.0 * dim, variance) * t**4 / 4
    assert abs(found.value - expected) < 4 * found.standard_error + 0.03 * expected
    assert found.value < 0.7 * norms_floor("fourier", "orthogonal", 2 * dim, dim, t)


@pytest.mark.parametrize("dim", [2, 5, 32])
def test_two_thirds_at_small_distances(dim: int) -> None:
    floor = norms_floor("fourier", "orthogonal", dim, dim, SMALL)
    assert 4 * floor / SMALL**4 == pytest.approx(4 / (dim * (dim + 2)), rel=1e-2)
    ratio = floor / distance_mse("fourier", "orthogonal", dim, dim, SMALL)
    assert ratio == pytest.approx(2 / 3, abs=2e-3)


@pytest.mark.parametrize("features", ["fourier", "laplace"])
@pytest.mark.parametrize("directions", ["orthogonal", "simplex-fast"])
@pytest.mark.parametrize("t", [0.1, 1.2])
def test_no_coupling_of_norms_is_below(features: str, directions: str, t: float) -> None:
    for m, dim in ((2, 2), (3, 8), (10, 4)):
        floor = norms_floor(features, directions, m, dim, t)
        for norms in ("", "+pnc", "+monotone"):
            error = distance_mse(features, directions + norms, m, dim, t)
            assert floor <= error * (1 + 1e-9)
        if m <= dim:  # strata couple blocks too
            assert floor <= distance_mse(features, directions + "+stratified", m, dim, t)


@pytest.mark.parametrize("t", [0.3, 1.0])
def test_it_is_nearly_met(t: float) -> None:
    """Pairwise norms in many dimensions, and the best joint law of two norms, by assignment."""
    pairwise = distance_mse("fourier", "orthogonal+pnc", 16, 16, t)
    assert 0.96 < norms_floor("fourier", "orthogonal", 16, 16, t) / pairwise < 1
    n, dim = 400, 3
    r2 = squared((np.arange(n) + 0.5) / n, dim)
    cost = special.hyp0f1(dim / 2, -(t**2) * (r2[:, None] + r2) / 4)
    best = float(cost[linear_sum_assignment(cost)].mean())
    same = (1 + np.exp(-2 * t**2)) / 2
    error = (2 * same + 2 * best) / 4 - np.exp(-(t**2))
    ratio = norms_floor("fourier", "orthogonal", 2, dim, t) / error
    assert 0.9 < ratio < 1 + 1e-3


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: norms_floor("fourier", "iid", 3, 3, 1.0), "coupling: expected orthogonal or"),
        (
            lambda: norms_floor("fourier", "orthogonal+antithetic", 4, 3, 1.0),
            "coupling: expected orthogonal or simplex directions, not antithetic",
        ),
        (lambda: norms_floor("fourier", "orthogonal", 3, 3, -1.0), "t: expected a finite"),
    ],
)
def test_wrong_arguments_of_floors(call, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        call()


def test_errors_beyond_the_range_of_numbers_are_refused() -> None:
    with pytest.raises(NumericalError, match="t: the error at 60"):
        norms_floor("laplace", "orthogonal", 3, 3, 60.0)


def test_the_floor_of_blocks_is_that_of_one() -> None:
    one = norms_floor("fourier", "orthogonal", 5, 5, 0.9)
    assert norms_floor("fourier", "orthogonal", 15, 5, 0.9) == pytest.approx(one / 3)


def test_the_floor_is_that_of_all_signs() -> None:
    """Against the eigenvalues of the interaction on a grid of quantiles, signs taken apart."""
    n, dim, t = 1500, 4, 2.0
    r2 = squared((np.arange(n) + 0.5) / n, dim)
    h = special.hyp0f1(dim / 2, -(t**2) * (r2[:, None] + r2) / 4)
    h -= h.mean(axis=0) + h.mean(axis=1)[:, None] - h.mean()
    eigenvalues = np.linalg.eigvalsh(h / n)
    negative = -eigenvalues[eigenvalues < 0].sum()
    gain = eigenvalues[eigenvalues > 0].sum() + (dim - 1) * negative
    expected = distance_mse("fourier", "orthogonal", dim, dim, t) - gain / dim
    assert norms_floor("fourier", "orthogonal", dim, dim, t) == pytest.approx(expected, rel=2e-2)
    assert (dim - 1) * negative > 0.2 * gain


@pytest.mark.parametrize("directions", ["orthogonal", "simplex"])
@pytest.mark.parametrize("features", ["fourier", "laplace"])
@pytest.mark.long
def test_shared_strata_against_simulation(features: str, directions: str, seed: int) -> None:
    """Blocks that are full, and a last one that is not."""
    coupling, dim, t = f"{directions}+shared-strata", 4, 0.8
    for m in (8, 10):
        found = simulated_distance_mse(
            features, coupling, m, dim, t, n_draws=1500, generator=seed + m
        )
        error = distance_mse(features, coupling, m, dim, t)
        assert abs(found.value - error) < 4 * found.standard_error


def test_shared_strata_pass_the_floor_of_independent_blocks() -> None:
    dim, t = 4, 0.8
    errors = [
        distance_mse("fourier", "orthogonal+shared-strata", blocks * dim, dim, t) * blocks
        for blocks in (1, 4, 16)
    ]
    floor = norms_floor("fourier", "orthogonal", dim, dim, t)
    assert errors[0] == pytest.approx(distance_mse("fourier", "orthogonal+monotone", dim, dim, t))
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.3 * floor
