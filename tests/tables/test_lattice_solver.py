"""Lattices of frequencies against sums, dense matrices and differences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate

from coupledgp.core.problem import Hyperparameters, RowWeights
from coupledgp.spectra import parse_spectrum
from coupledgp.tables import lattice
from coupledgp.tables import lattice_evidence as evidence
from coupledgp.tables.lattice import (
    Lattice,
    PlaceBox,
    TooManyWavesError,
    log_spectral_density,
)
from coupledgp.tables.lattice_evidence import LatticePrior, information_step, log_evidence
from coupledgp.tables.lattice_posterior import LatticePosterior, boxed
from coupledgp.tables.lattice_sums import LatticeSums
from coupledgp.tables.lattice_system import LatticeSystem
from coupledgp.tables.spreading import PlaneWaves

N = 80


class Case:
    """A lattice, sums over weighted rows with a trend, and the same as dense matrices."""

    def __init__(self, dim: int, kernel: str, length: float, most_waves: int = 10**6) -> None:
        rng = np.random.default_rng(dim)
        self.points = rng.uniform(2.0, 3.0, (N, dim))
        self.targets = rng.normal(size=(N, 2)) + np.sin(5 * self.points[:, :1])
        self.trend = 2 * (self.points - 2.5)
        self.weights = RowWeights(rng.uniform(0.5, 2, N), rng.integers(1, 3, N).astype(float))
        self.spectrum, self.dim = parse_spectrum(kernel), dim
        lengths = length * np.linspace(1.0, 1.2, dim)
        self.theta = np.log(np.concatenate([[1.3], lengths, [0.1]]))
        box = PlaceBox.of(self.points)
        self.lattice = Lattice.for_kernel(self.spectrum, lengths, 13.0, box, N)
        self.sums = LatticeSums.of(
            self.lattice, self.points, self.targets, self.trend, self.weights
        )
        self.prior = self.prior_at(self.theta)
        self.system = LatticeSystem.of(
            self.lattice, self.sums, 2, self.prior.loadings, self.prior.noise,
            most_waves=most_waves,
        )  # fmt: skip

    def prior_at(self, theta: np.ndarray) -> LatticePrior:
        v, lengths, s = np.exp(theta[0]), np.exp(theta[1:-1]), np.exp(theta[-1])
        return LatticePrior(self.spectrum, Hyperparameters(lengths, v, s), self.lattice, self.dim)

    def loaded(self, prior: LatticePrior, points: np.ndarray | None = None) -> np.ndarray:
        """Features (n, M + p) times prior deviations."""
        own = self.points if points is None else points
        trend = 2 * (own - 2.5)
        features = self.lattice.features(self.lattice.relative(own))
        return np.hstack([features, trend]) * prior.loadings

    def covariance(self, theta: np.ndarray) -> np.ndarray:
        prior = self.prior_at(theta)
        F = self.loaded(prior)
        return F @ F.T + prior.noise * np.diag(self.weights.relative_noise)

    def log_evidence(self, theta: np.ndarray) -> float:
        factor = np.linalg.cholesky(self.covariance(theta))
        z = np.linalg.solve(factor, self.targets)
        value = -0.5 * np.square(z).sum() - 2 * np.log(np.diag(factor)).sum()
        value -= N * np.log(2 * np.pi)
        return value + 2 * self.weights.log_repetition(self.prior_at(theta).noise)


CASES = [(1, "matern-3/2", 0.1), (2, "gaussian", 0.4), (3, "gaussian", 1.2)]


@pytest.mark.parametrize("halves", [[9], [5, 3], [2, 3, 4], [0, 3], [4, 0]])
def test_transforms_equal_sums(halves):
    waves, rng = PlaneWaves(np.array(halves)), np.random.default_rng(0)
    points, values = rng.uniform(-0.5, 0.5, (60, len(halves))), rng.normal(size=(60, 2))
    axes = [np.arange(-n, n + 1) for n in halves]
    every = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(halves))
    phases = np.exp(-2j * np.pi * every @ points.T)
    whole = (phases @ values).T
    shaped = whole.reshape(2, *(2 * n + 1 for n in halves))
    found = waves.adjoint(points, values)
    np.testing.assert_allclose(found, shaped[..., halves[-1] :], atol=1e-9 * np.abs(values).sum())
    back = (whole @ phases.conj()).real.T
    atol = 1e-9 * np.abs(whole).sum(axis=1).max()
    np.testing.assert_allclose(waves.forward(points, found), back, atol=atol)


def test_sorted_rows_give_the_same_sums():
    """Rows are sorted by blocks on large grids only: an order changes no more than rounding."""
    waves, rng = PlaneWaves(np.array([40, 40])), np.random.default_rng(0)
    assert np.prod(waves.grid) > 32**2
    points, values = rng.uniform(-0.5, 0.5, (300, 2)), rng.normal(size=(300, 1))
    order = rng.permutation(300)
    np.testing.assert_allclose(
        waves.adjoint(points[order], values[order]), waves.adjoint(points, values), atol=1e-11
    )


@pytest.mark.parametrize("kernel", ["gaussian", "matern-1/2", "matern-3/2"])
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_spectral_densities_have_integral_one(kernel, dim):
    spectrum = parse_spectrum(kernel)
    area = {1: 2.0, 2: 2 * np.pi, 3: 4 * np.pi}[dim]

    def density(f: float) -> float:
        square = np.asarray((2 * np.pi * f) ** 2)
        return float(area * f ** (dim - 1) * np.exp(log_spectral_density(spectrum, square, dim)))

    whole = integrate.quad(density, 0, 1)[0] + integrate.quad(density, 1, np.inf)[0]
    assert whole == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("dim", [1, 2])
def test_a_wide_lattice_has_the_kernel(dim, monkeypatch):
    """Products of features are the kernel where period and band are large."""
    monkeypatch.setattr(lattice, "LEAST_KERNEL", 1e-10)
    monkeypatch.setattr(lattice, "MOST_VARIANCE", np.inf)
    spectrum, rng = parse_spectrum("matern-5/2"), np.random.default_rng(0)
    points, length = rng.uniform(0, 1, (20, dim)), np.full(dim, 0.3)
    own = Lattice.for_kernel(spectrum, length, 1e8, PlaceBox.of(points), 1000)
    loaded = own.features(own.relative(points)) * own.amplitudes(spectrum, length)
    distances = np.linalg.norm(points[:, None] - points, axis=2) / 0.3
    np.testing.assert_allclose(loaded @ loaded.T, spectrum.kernel(distances), atol=2e-3)
    assert 0 < 1 - np.square(loaded[0]).sum() < 2e-3


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("most_waves", [10**6, 21])
def test_solutions_are_those_of_dense_matrices(case, most_waves):
    own = Case(*case, most_waves)
    F, precision = own.loaded(own.prior), 1 / own.weights.relative_noise
    A = F.T @ (precision[:, None] * F) + own.prior.noise * np.eye(F.shape[1])
    rng = np.random.default_rng(1)
    V = rng.normal(size=(len(A), 2))
    np.testing.assert_allclose(own.system.product(V), A @ V, atol=1e-8 * np.abs(A).max())
    right = F.T @ (precision[:, None] * own.targets)
    np.testing.assert_allclose(own.system.right_hand_side, right, atol=1e-7)
    assert own.system.is_dense == (most_waves > own.lattice.n_waves)
    np.testing.assert_allclose(own.system.solve(right, 1e-10), np.linalg.solve(A, right), atol=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_evidence_and_gradient_are_those_of_the_covariance(case):
    own = Case(*case)
    rng = np.random.default_rng(2)
    alpha = own.system.solve(own.system.right_hand_side, 1e-12)
    value, error = log_evidence(own.system, alpha, 4, rng)
    assert error == 0.0
    assert value == pytest.approx(own.log_evidence(own.theta), abs=1e-6)
    probes = np.empty((own.system.n_weights, 0))
    found = information_step(own.prior, own.system, False, probes)
    eye = 1e-5 * np.eye(len(own.theta))
    slopes = [
        (own.log_evidence(own.theta + e) - own.log_evidence(own.theta - e)) / 2e-5 for e in eye
    ]
    np.testing.assert_allclose(found.gradient, slopes, atol=1e-4 * np.abs(slopes).max())
    inverse = np.linalg.inv(own.covariance(own.theta))
    moves = [(own.covariance(own.theta + e) - own.covariance(own.theta - e)) / 2e-5 for e in eye]
    pulled = [move @ inverse @ own.targets for move in moves]
    expected = 0.5 * np.array([[(a * (inverse @ b)).sum() for b in pulled] for a in pulled])
    np.testing.assert_allclose(found.information, expected, atol=1e-4 * np.abs(expected).max())


def test_probes_estimate_gradient_and_determinant(monkeypatch):
    """Within five of their own standard errors; solves are made exact."""
    monkeypatch.setattr(evidence, "PROBE_TOLERANCE", 1e-10)
    own = Case(2, "gaussian", 0.4, most_waves=41)
    rng = np.random.default_rng(3)
    exact = Case(2, "gaussian", 0.4)
    none = np.empty((own.system.n_weights, 0))
    wanted = information_step(exact.prior, exact.system, False, none)
    probes = rng.choice([-1.0, 1.0], size=(own.system.n_weights, 100))
    found = information_step(own.prior, own.system, False, probes)
    gap = np.abs(found.gradient - wanted.gradient)
    assert (gap < 5 * found.gradient_error + 1e-6).all()
    assert (found.gradient_error > 0).all()
    np.testing.assert_allclose(found.information, wanted.information, rtol=1e-5, atol=1e-5)
    assert (found.spread > 0).all()
    value, error = own.system.log_determinant(40, rng)
    assert abs(value - exact.system.log_determinant(1, rng)[0]) < 5 * error
    assert error > 0


def test_secants_are_met():
    """The corrected information turns the last step into the fall of the gradient."""
    own = Case(1, "gaussian", 0.3)
    found = information_step(own.prior, own.system, False, np.empty((own.system.n_weights, 0)))
    step = np.array([0.1, -0.2, 0.3])
    fall = found.information @ step * 2.0 + 0.1
    corrected = found.with_secant(step, fall)
    np.testing.assert_allclose(corrected.information @ step, fall)
    assert found.with_secant(step, -fall) is found
    both = found.with_prior(np.ones(3), np.array([1.0, 2.0, 0.0]))
    np.testing.assert_allclose(both.gradient, found.gradient - [1.0, 2.0, 0.0])
    np.testing.assert_allclose(np.diag(both.information - found.information), [1.0, 2.0, 0.0])


@pytest.mark.parametrize("case", CASES)
def test_moments_are_sums_of_waves(case):
    own = Case(*case)
    rng = np.random.default_rng(4)
    posterior = LatticePosterior.of(own.system, 1, rng)
    assert posterior.relative_error == 0.0
    points = rng.uniform(2.0, 3.0, (10, own.dim))
    F, P = own.loaded(own.prior), own.loaded(own.prior, points)
    precision = 1 / own.weights.relative_noise
    A = F.T @ (precision[:, None] * F) + own.prior.noise * np.eye(F.shape[1])
    mean = P @ np.linalg.solve(A, F.T @ (precision[:, None] * own.targets))
    variance = own.prior.noise * np.einsum("ij,ji->i", P, np.linalg.solve(A, P.T))
    place, trend = own.lattice.relative(points), 2 * (points - 2.5)
    found = posterior.means(own.lattice, own.prior.loadings, place, trend)
    np.testing.assert_allclose(found, mean, atol=1e-8)
    np.testing.assert_allclose(posterior.variances(own.lattice, place, trend), variance, atol=1e-9)


@pytest.mark.long
def test_draws_have_the_variances():
    """Mean squares of 2000 draws, whose relative deviation is `sqrt(2 / 2000)`."""
    own, exact = Case(1, "matern-3/2", 0.1, most_waves=21), Case(1, "matern-3/2", 0.1)
    rng = np.random.default_rng(5)
    drawn = LatticePosterior.of(own.system, 2000, rng)
    known = LatticePosterior.of(exact.system, 1, rng)
    points = rng.uniform(2.0, 3.0, (10, 1))
    place, trend = own.lattice.relative(points), 2 * (points - 2.5)
    ratio = drawn.variances(own.lattice, place, trend) / known.variances(own.lattice, place, trend)
    assert (np.abs(ratio - 1) < 6 * np.sqrt(2 / 2000)).all()
    assert drawn.relative_error == pytest.approx(1 / np.sqrt(4000))
    np.testing.assert_allclose(drawn.mean, known.mean, atol=1e-3 * np.abs(known.mean).max())


def test_averages_over_boxes_are_integrals_of_waves():
    own, rng = Case(2, "gaussian", 0.4).lattice, np.random.default_rng(6)
    weights, sides = rng.normal(size=(own.n_waves, 1)), np.array([0.2, 0.1])
    shrunk = boxed(own.coefficients(weights), own, sides, own.halves)
    centre = np.array([[2.4, 2.6]])
    nodes, shares = np.polynomial.legendre.leggauss(12)
    mesh = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 2)
    values = own.features(own.relative(centre + mesh * sides / 2)) @ weights
    expected = np.outer(shares, shares).ravel() @ values / 4
    found = own.waves.forward(own.relative(centre), shrunk)
    np.testing.assert_allclose(found[0], expected, atol=1e-8)


def test_sums_add_up_and_follow_units():
    own = Case(2, "gaussian", 0.4)
    first, second = slice(0, 30), slice(30, N)
    parts = [
        LatticeSums.of(
            own.lattice, own.points[part], own.targets[part], own.trend[part],
            own.weights.take(part),
        ) for part in (first, second)
    ]  # fmt: skip
    whole = parts[0].merge(parts[1])
    for name in ("waves", "cross", "products", "n_counted", "log_noise"):
        np.testing.assert_allclose(getattr(whole, name), getattr(own.sums, name), atol=1e-9)
    change, factor = np.array([0.3, -0.2]), np.array([2.0, 0.5])
    moved = LatticeSums.of(
        own.lattice, own.points, (own.targets - change) * factor, own.trend, own.weights
    )
    found = own.sums.shifted(change, factor)
    np.testing.assert_allclose(found.cross, moved.cross, atol=1e-7)
    np.testing.assert_allclose(found.products, moved.products, atol=1e-7)
    mean, std = own.sums.moments(2)
    shares = 1 / own.weights.relative_noise
    np.testing.assert_allclose(mean, np.average(own.targets, axis=0, weights=shares), atol=1e-9)
    square = np.average(np.square(own.targets - mean), axis=0, weights=shares)
    np.testing.assert_allclose(std, np.sqrt(square), atol=1e-8)
    with pytest.raises(ValueError, match="other: expected sums of"):
        own.sums.merge(replace(own.sums, waves=own.sums.waves[:-1]))


def test_too_few_waves_are_left_out_or_refused():
    """A band is narrower where waves are too many; a kernel that it would not hold is refused."""
    box = PlaceBox(np.zeros(2), np.full(2, 10.0), np.full(2, 10.0))
    spectrum = parse_spectrum("matern-3/2")
    whole = Lattice.for_kernel(spectrum, np.full(2, 0.5), 1e3, box, 30_000)
    fewer = Lattice.for_kernel(spectrum, np.full(2, 0.5), 1e3, box, 30_000, most_waves=1000)
    assert fewer.n_waves <= 1000 < whole.n_waves
    np.testing.assert_array_equal(fewer.steps, whole.steps)
    with pytest.raises(TooManyWavesError, match=r"takes \d+ waves, more than 81 for 30000 rows"):
        Lattice.for_kernel(spectrum, np.full(2, 0.05), 1e4, box, 30_000, most_waves=100)


def test_waves_are_no_more_than_rows_pay_for_and_equations_that_are_solved():
    """A small table has a lattice whose equations have a factor, however small its noise."""
    box = PlaceBox(np.zeros(2), np.ones(2), np.ones(2))
    spectrum, length = parse_spectrum("matern-3/2"), np.full(2, 0.5)
    few = [Lattice.for_kernel(spectrum, length, 1e6, box, n).n_waves for n in (100, 4000, 20_000)]
    assert few[0] <= 1.1 * lattice.FEW_FACTORED
    assert few[1] <= 2100
    assert few[2] <= 1.1 * lattice.MOST_FACTORED
    noisy = Lattice.for_kernel(spectrum, length / 5, 1.0, box, 20_000)
    assert noisy.n_waves > lattice.MOST_FACTORED  # conjugate gradients solve these


def test_precise_rows_keep_their_waves():
    """Waves stand out of the noise of the most precise rows, not of the mean noise."""
    box = PlaceBox(np.zeros(1), np.ones(1), np.ones(1))
    spectrum, length = parse_spectrum("matern-5/2"), np.full(1, 0.05)
    relative = np.repeat([1e-4, 1e4], 100)
    mean = Lattice.for_kernel(spectrum, length, 1.0, box, 200)
    own = Lattice.for_kernel(spectrum, length, 1.0, box, 200, float((1 / relative).sum()))
    alone = Lattice.for_kernel(spectrum, length, 1e4, box, 100)
    assert mean.n_waves < own.n_waves == alone.n_waves
