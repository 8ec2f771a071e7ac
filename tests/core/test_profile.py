"""Closed-form profiling of outputscale and noise, against brute force in two dimensions."""

import numpy as np
import pytest
from scipy.optimize import minimize

from coupledgp.core.problem import SpectralEvidence
from coupledgp.core.profile import ScaleBounds, profile_scales

WIDE = ScaleBounds()


def random_evidence(rng: np.random.Generator, n_outputs: int = 1) -> SpectralEvidence:
    """Evidence with eigenvalues and energies of many orders of magnitude, and several maxima."""
    r = int(rng.integers(2, 7))
    n = r + int(rng.integers(0, 30))
    eigenvalues = np.exp(rng.uniform(np.log(1e-6), np.log(1e3), r))
    energies = np.exp(rng.uniform(np.log(1e-8), np.log(1e8), r))
    remainder = 0.0 if n == r else float(np.exp(rng.uniform(-15, 10)))
    return SpectralEvidence(eigenvalues, energies, remainder, n, n_outputs)


def plain_value(e: SpectralEvidence, v: float, s: float) -> float:
    """Log density of targets with the given energies under a diagonal covariance."""
    variances = np.concatenate([v * e.eigenvalues + s, np.full(e.n_rows - e.eigenvalues.size, s)])
    quad = (e.energies / (v * e.eigenvalues + s)).sum() + e.remainder / s
    return float(-0.5 * (quad + e.n_outputs * np.log(2 * np.pi * variances).sum()))


def brute_force(
    e: SpectralEvidence,
    bounds: ScaleBounds,
    outputscale: float | None = None,
    noise: float | None = None,
) -> float:
    """Largest evidence in the box, from a fine grid whose best points L-BFGS improves."""
    axes = [
        np.linspace(*np.log(interval), 60) if kept is None else np.log([kept])
        for interval, kept in ((bounds.outputscale, outputscale), (bounds.noise, noise))
    ]
    grid = np.array([[plain_value(e, *np.exp([a, b])) for b in axes[1]] for a in axes[0]])
    best = float(grid.max())
    for flat in np.argsort(grid.ravel())[-3:]:
        i, j = np.unravel_index(flat, grid.shape)
        result = minimize(
            lambda t: -plain_value(e, *np.exp(t)),
            [axes[0][i], axes[1][j]],
            method="L-BFGS-B",
            bounds=[(axis[0], axis[-1]) for axis in axes],
        )
        best = max(best, -float(result.fun))
    return best


def assert_best(
    e: SpectralEvidence,
    bounds: ScaleBounds,
    outputscale: float | None = None,
    noise: float | None = None,
) -> tuple[float, float]:
    v, s = profile_scales(e, bounds, outputscale, noise)
    assert isinstance(v, float)
    assert isinstance(s, float)
    if outputscale is None:
        assert bounds.outputscale[0] * (1 - 1e-12) <= v <= bounds.outputscale[1] * (1 + 1e-12)
    else:
        assert v == outputscale
    if noise is None:
        assert bounds.noise[0] * (1 - 1e-12) <= s <= bounds.noise[1] * (1 + 1e-12)
    else:
        assert s == noise
    reference = brute_force(e, bounds, outputscale, noise)
    actual = plain_value(e, v, s)
    assert float(e.value(v, s)) == pytest.approx(actual, rel=1e-9)
    assert actual >= reference - 1e-6 * max(1.0, abs(reference))
    return v, s


@pytest.mark.parametrize("case", range(12))
def test_wide_box(case: int, seed: int) -> None:
    assert_best(random_evidence(np.random.default_rng([seed, case]), 1 + case % 3), WIDE)


@pytest.mark.parametrize("case", range(12))
def test_narrow_box(case: int, seed: int) -> None:
    """Most optima are then on an edge or in a corner."""
    rng = np.random.default_rng([seed, case])
    bounds = ScaleBounds(
        (10 ** rng.uniform(-4, 0), 10 ** rng.uniform(0.1, 4)),
        (10 ** rng.uniform(-6, -1), 10 ** rng.uniform(-0.9, 1)),
    )
    assert_best(random_evidence(rng), bounds)


@pytest.mark.long
def test_interior_maximum_where_a_better_one_is_outside_the_box() -> None:
    """The greatest maximum of all leaves the box, a lesser one in its interior is what counts."""
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(200):
        r = rng.integers(2, 6)
        n = r + rng.integers(0, 30)
        eigenvalues = np.exp(rng.uniform(np.log(1e-6), np.log(1e3), r))
        energies = np.exp(rng.uniform(np.log(1e-8), np.log(1e8), r))
        remainder = 0.0 if n == r else float(np.exp(rng.uniform(-15, 10)))
        e = SpectralEvidence(eigenvalues, energies, remainder, int(n), 1)
        bounds = ScaleBounds(
            (10 ** rng.uniform(-4, 0), 10 ** rng.uniform(0.1, 4)),
            (10 ** rng.uniform(-6, -1), 10 ** rng.uniform(-0.9, 1)),
        )
        outside = profile_scales(e, ScaleBounds((1e-12, 1e12), (1e-12, 1e12)))
        v, s = profile_scales(e, bounds)
        leaves = not bounds.outputscale[0] <= outside[0] <= bounds.outputscale[1]
        inside = bounds.outputscale[0] < v < bounds.outputscale[1]
        inside = inside and bounds.noise[0] < s < bounds.noise[1]
        if leaves and inside:
            found += 1
            assert_best(e, bounds)
    assert found > 0


@pytest.mark.parametrize("case", range(6))
def test_one_scale_kept(case: int, seed: int) -> None:
    e = random_evidence(np.random.default_rng([seed, case]))
    assert_best(e, WIDE, noise=0.3)
    assert_best(e, WIDE, outputscale=2.0)
    # What is kept is kept, also outside the box.
    assert_best(e, WIDE, noise=30.0)


def test_both_kept(rng: np.random.Generator) -> None:
    assert profile_scales(random_evidence(rng), WIDE, 3.0, 77.0) == (3.0, 77.0)


def test_noise_at_its_lower_bound() -> None:
    """Targets without noise, in the span of the features."""
    e = SpectralEvidence(np.array([5.0, 1.0]), np.array([5.0, 1.0]), 0.0, 30, 1)
    _, s = assert_best(e, WIDE)
    assert s == pytest.approx(WIDE.noise[0], rel=1e-9)


def test_outputscale_at_its_lower_bound() -> None:
    """Targets that the features have nothing to do with."""
    e = SpectralEvidence(np.array([5.0, 1.0]), np.array([1e-9, 1e-9]), 40.0, 40, 1)
    v, s = assert_best(e, WIDE)
    assert v == pytest.approx(WIDE.outputscale[0], rel=1e-9)
    # 38 of 40 directions have noise alone.
    assert s == pytest.approx(1.0, rel=0.1)


def test_maximum_in_a_corner_where_both_bounds_meet() -> None:
    """Energies beyond the box: a cusp in the ratio of the two, far narrower than any grid."""
    e = SpectralEvidence(np.array([1e-5, 170.0, 6e-3]), np.array([4e-4, 3e-2, 3.5e5]), 0.08, 30, 3)
    v, s = assert_best(e, WIDE)
    assert v == pytest.approx(WIDE.outputscale[1], rel=1e-9)
    assert s == pytest.approx(WIDE.noise[1], rel=1e-9)


def test_ratios_below_rounding_are_left_out() -> None:
    """Where `Phi' Phi + lam I` is no longer definite in float64."""
    e = SpectralEvidence(np.array([1e9, 1e-3]), np.array([1e9, 1e-3]), 0.0, 30, 1)
    floor = 2 * np.finfo(float).eps * 1e9
    for kept in ({}, {"outputscale": 1.0}, {"outputscale": 1e6}, {"noise": 1e-6}):
        v, s = profile_scales(e, WIDE, **kept)
        assert s / v >= floor


def test_closed_form() -> None:
    """One eigenvalue for all directions but some without: both variances are sample variances."""
    e = SpectralEvidence(np.full(4, 2.0), np.array([30.0, 10.0, 25.0, 15.0]), 7.2, 16, 1)
    v, s = profile_scales(e, WIDE)
    assert s == pytest.approx(7.2 / 12, rel=1e-6)
    assert 2 * v + s == pytest.approx(80 / 4, rel=1e-6)


def test_best_outputscale_is_a_maximum(rng: np.random.Generator) -> None:
    e = random_evidence(rng, 2)
    for lam in (1e-4, 0.1, 10.0):
        v = float(e.best_outputscale(lam))
        values = [float(e.value(f * v, f * v * lam)) for f in (0.999, 1.0, 1.001)]
        assert values[1] == max(values)


def test_vectors_of_pairs(rng: np.random.Generator) -> None:
    e = random_evidence(rng)
    v, s = np.array([0.5, 2.0]), np.array([0.1, 3.0])
    expected = [plain_value(e, *pair) for pair in zip(v, s, strict=True)]
    np.testing.assert_allclose(e.value(v, s), expected, rtol=1e-10)
