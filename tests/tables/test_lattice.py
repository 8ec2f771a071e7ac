"""Processes on a lattice: the contract, and the exact process of the same kernel and trend."""

from __future__ import annotations

import gc
import tracemalloc
import warnings
import weakref
from dataclasses import replace
from functools import cached_property

import numpy as np
import pytest
from scipy import linalg

from coupledgp.core.problem import Hyperparameters, RowWeights
from coupledgp.core.process import Data
from coupledgp.core.units import Units
from coupledgp.errors import InvalidInputError, PrecisionWarning
from coupledgp.linalg.low_rank import LIMIT
from coupledgp.spectra import parse_spectrum
from coupledgp.tables import lattice
from coupledgp.tables.exact_process import StationaryPrior
from coupledgp.tables.lattice_parts import TrendColumns, rounding_error
from coupledgp.tables.lattice_posterior import LatticePosterior
from coupledgp.tables.lattice_process import LatticeGP
from coupledgp.testing import ProcessContract

rng = np.random.default_rng(0)
X = rng.uniform(2.0, 3.0, (90, 3))
Y = rng.normal(size=(90, 2)) * [1.0, 3.0] + [0.0, 5.0] + np.sin(5 * X[:, :1])
WEIGHTS = RowWeights(rng.uniform(0.5, 2, 90), rng.integers(1, 3, 90).astype(float))
POINTS = rng.uniform(2.0, 3.0, (12, 3))
PLACES = {"one": ([0], False), "two with a trend": ([2, 0], True), "two": ([1, 2], False)}


@pytest.fixture(autouse=True)
def fine(monkeypatch):
    """Lattices so fine that nothing is left out."""
    monkeypatch.setattr(lattice, "LEAST_SIGNAL", 1e-8)
    monkeypatch.setattr(lattice, "LEAST_KERNEL", 1e-11)


def process(places, is_linear, weights=None, length=0.6, columns=3, seed=0):
    points = X[:, :columns]
    data = Data.of(points, Y, weights=weights)
    trend = TrendColumns.of(np.array(places), is_linear, points)
    hyper = Hyperparameters(np.full(len(places), length), 1.3, 0.1)
    units = Units.of(data.targets, True, data.counts)
    return LatticeGP.given(parse_spectrum("gaussian"), hyper, trend, data, units, True, seed=seed)


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_laws_are_those_of_the_exact_process(name, weights):
    own = process(*PLACES[name], weights)
    exact = own.exact()
    for want in ("variance", "covariance"):
        for latent in (True, False):
            found, wanted = (p.law(POINTS, want, latent=latent) for p in (own, exact))
            np.testing.assert_allclose(found.mean, wanted.mean, atol=1e-7)
            np.testing.assert_allclose(found.spread, wanted.spread, atol=1e-7)
    assert own.log_evidence == pytest.approx(exact.log_evidence, abs=1e-5)
    assert own.log_evidence_error == 0.0
    for size in (1, 4):
        groups = np.arange(90) // size
        found, wanted = own.left_out(groups), exact.left_out(groups)
        np.testing.assert_allclose(found.mean, wanted.mean, atol=1e-6)
        np.testing.assert_allclose(found.variance, wanted.variance, atol=1e-6)
    np.testing.assert_allclose(own.prior(POINTS), exact.prior(POINTS), atol=1e-9)


def test_known_noise_of_many_magnitudes(monkeypatch):
    """Deviations of f are those of the exact process where noise spans eight powers of ten."""
    monkeypatch.undo()
    own = np.random.default_rng(1)
    points = own.uniform(0, 10, (200, 1))
    noise = 10.0 ** own.uniform(-4, 4, 200)
    values = np.sin(points) + np.sqrt(noise)[:, None] * own.normal(size=(200, 1))
    data = Data.of(points, values, noise / noise.mean())
    trend = TrendColumns.of(np.array([0]), False, points)
    hyper, units = Hyperparameters(np.ones(1), 1.0, noise.mean()), Units(np.zeros(1), np.ones(1))
    found = LatticeGP.given(parse_spectrum("gaussian"), hyper, trend, data, units, False)
    places = np.linspace(0.5, 9.5, 40)[:, None]
    got, wanted = (one.law(places, "variance", latent=True) for one in (found, found.exact()))
    np.testing.assert_allclose(np.sqrt(got.spread), np.sqrt(wanted.spread), rtol=0.05)
    np.testing.assert_allclose(got.mean, wanted.mean, atol=0.005)


class TestContract(ProcessContract):
    """Frozen, files, draws, updates, left-out laws and iterative solves."""

    points = POINTS
    further = Data.of(X[:20] + 0.01, Y[:20] + 0.1)

    @cached_property
    def process(self):
        return process(*PLACES["two"])


@pytest.mark.long
def test_many_waves_differ_by_draws_alone():
    """With a small block means are those of all waves, and variances have the error they state."""
    exact = process(*PLACES["two"])
    drawn = _with_small_block(exact)
    assert not drawn.system.is_dense
    mean, variance = drawn.latent_law(POINTS, "variance")
    wanted = exact.latent_law(POINTS, "variance")
    np.testing.assert_allclose(mean, wanted[0], atol=1e-4)
    error = drawn.posterior.relative_error
    assert error == pytest.approx(1 / np.sqrt(2 * 500))
    assert (np.abs(np.sqrt(variance / wanted[1]) - 1) < 6 * error).all()
    covariance = drawn.latent_law(POINTS, "covariance")[1]
    expected = exact.latent_law(POINTS, "covariance")[1]
    off = ~np.eye(len(POINTS), dtype=bool)
    np.testing.assert_allclose(covariance[off], expected[off], atol=1e-5)
    assert "draws" in drawn.remarks[0]
    assert drawn.without_data().rows is None
    for size in (1, 3):
        groups = np.arange(90) // size
        found, known = drawn.left_out(groups), exact.left_out(groups)
        np.testing.assert_allclose(found.mean, known.mean, atol=1e-5)
        np.testing.assert_allclose(found.variance, known.variance, rtol=1e-5)


def _with_small_block(exact):
    """The process whose block holds few of its waves."""
    small = replace(exact.system, most_waves=101)
    draws = np.random.default_rng(1)
    posterior = LatticePosterior.of(small, 500, draws)
    found = replace(exact, posterior=posterior)
    found.__dict__["system"] = small
    return found


def test_averages_over_boxes_are_means_of_the_joint_law():
    own = process(*PLACES["two"])
    sides = np.array([0.2, 0.3])
    nodes, shares = np.polynomial.legendre.leggauss(8)
    mesh = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 2)
    weights = np.outer(shares, shares).ravel() / 4
    rows = np.repeat(POINTS[:1], len(mesh), axis=0)
    rows[:, [1, 2]] += mesh * sides / 2
    mean, covariance = own.exact().law(rows, "covariance", latent=True)
    found_mean, found_variance = own.block_law(POINTS[:1], sides)
    np.testing.assert_allclose(found_mean[0], weights @ mean, atol=1e-7)
    wanted = np.einsum("i,ijk,j->k", weights, covariance, weights)
    np.testing.assert_allclose(found_variance[0], wanted, atol=1e-7)


def test_answers_return_to_the_prior_beyond_the_box(monkeypatch):
    monkeypatch.setattr(lattice, "LEAST_KERNEL", 1e-3)
    own = process(*PLACES["one"], columns=1)
    reach = lattice.kernel_reach(parse_spectrum("gaussian")) * 0.6
    high = float(own.box.high[0])
    places = np.array([high, high + 0.24 * reach, high + 0.4 * reach, high + 0.51 * reach, 1e6])
    mean, variance = own.latent_law(places[:, None], "variance")
    exact = own.exact().latent_law(places[:, None], "variance")
    np.testing.assert_allclose(mean[:2], exact[0][:2], atol=5e-3)
    assert abs(mean[2]).max() <= abs(exact[0][2]).max() + 5e-3
    assert (mean[3:] == 0).all()
    np.testing.assert_allclose(variance[3:], 1.3, atol=1e-6)


def test_further_rows_join_the_sums_or_are_refused():
    own = process(*PLACES["two"])
    first, second = Data.of(X[:60], Y[:60]), Data.of(X[60:], Y[60:])
    joined = own.conditioned(first, renormalize=True).updated(second)
    whole = own.conditioned(Data.of(X, Y), renormalize=True)
    np.testing.assert_allclose(
        joined.law(POINTS, "mean").mean, whole.law(POINTS, "mean").mean, atol=1e-6
    )
    far = Data.of(X[:5] + 20.0, Y[:5])
    moved = own.updated(far)
    assert moved.box.high[0] > 20
    assert len(moved.data) == 95
    with pytest.raises(InvalidInputError, match="X: expected places near the box"):
        own.without_data().updated(far)
    with pytest.raises(InvalidInputError, match="frequencies to draw again"):
        own.redrawn("iid", 8, 0)


def test_exact_laws_take_few_matrices_and_go_at_once():
    """A kernel matrix is made in place, and a process is freed without a collector of cycles."""
    points = np.random.default_rng(3).uniform(size=(1200, 2))
    hyper = Hyperparameters(np.full(2, 0.2), 1.3, 0.1)
    prior = StationaryPrior(parse_spectrum("matern-5/2"), hyper)
    small = prior.covariance(points[:2], points)
    tracemalloc.start()
    matrix = prior.covariance(points, points)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2.2 * matrix.nbytes
    np.testing.assert_allclose(matrix[:2], small, rtol=1e-14)
    np.testing.assert_allclose(matrix, matrix.T, rtol=1e-14)
    gc.disable()
    try:
        exact = process(*PLACES["two"]).exact()
        exact.left_out(np.arange(90))
        held = weakref.ref(exact)
        del exact
        assert held() is None
    finally:
        gc.enable()


def extended_means(own, points):
    """Means of f at points by QR of the features of the rows, without normal equations."""
    prior, lattice = own.lattice_prior, own.lattice
    rows, at = (
        lattice.features(own._placed(p)[0]) * prior.loadings for p in (own.data.points, points)
    )
    root = np.sqrt(prior.noise)
    stacked = np.vstack([rows, root * np.eye(rows.shape[1])])
    targets = np.vstack([own.units.normalized(own.data.targets), np.zeros((rows.shape[1], 1))])
    q, r = np.linalg.qr(stacked)
    return at @ linalg.solve_triangular(r, q.T @ targets)


@pytest.mark.parametrize("length", [0.3, 0.05])
@pytest.mark.parametrize("noise", [1e-6, 1e-8, 1e-10])
def test_estimates_of_rounding_are_near_the_true_errors(length, noise, monkeypatch):
    """Beside QR, whose error grows with the root of the condition number alone."""
    monkeypatch.undo()
    found = []
    for seed in range(3):
        draw = np.random.default_rng(seed)
        points = draw.uniform(size=(250, 1))
        y = np.sin(5 * points) + np.sqrt(noise) * draw.normal(size=(250, 1))
        data, trend = Data.of(points, y), TrendColumns.of(np.arange(1), False, points)
        units = Units.of(data.targets, True, data.counts)
        hyper = Hyperparameters(np.full(1, length), 1.3, noise)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            own = LatticeGP.given(parse_spectrum("gaussian"), hyper, trend, data, units, True)
        estimate = rounding_error(own.lattice_prior, own.system, own.posterior.mean)
        warned = any(issubclass(w.category, PrecisionWarning) for w in caught)
        assert warned == (estimate > LIMIT)
        places = draw.uniform(size=(60, 1))
        mean, variance = own.latent_law(places, "variance")
        gaps = np.abs(mean - extended_means(own, places))[:, 0] / np.sqrt(variance + noise)
        found.append(estimate / gaps.max())
    # A factor of ten, and of two more since rounding differs among processors.
    assert min(found) > 0.05
    assert np.median(found) < 20
