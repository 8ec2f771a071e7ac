"""The debiased Whittle likelihood: against matrices, its slopes, and its minimiser."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from coupledgp.inference.space_time.filters import Term
from coupledgp.inference.space_time.gaps import time_covariance
from coupledgp.inference.space_time.whittle import (
    RIDGE,
    SpaceTimeParameters,
    Whittle,
    box,
    expected_periodogram,
)
from coupledgp.kernels.time import Constant, Matern12, Matern32, Periodic, White
from tests.inference.space_time.dense import made

PLACES = np.random.default_rng(0).normal(size=(6, 2))
DISTANCES = np.linalg.norm(PLACES[:, None] - PLACES, axis=2)
TERMS = (
    Term("graph", Matern12(8.0), 1.0),
    Term("graph", Periodic(7.0), 0.4),
    Term("graph", Constant(), 0.5),
    Term("node", Matern32(4.0), 0.3),
)
ROOTS = np.exp(0.3 * np.random.default_rng(1).normal(size=6))


def gram(theta):
    """Covariance of the sensors by the logarithms of a range and of an exponent."""
    return np.exp(-((DISTANCES * np.exp(-theta[0])) ** np.minimum(np.exp(theta[1]), 2.0)))


def parameters(roots=ROOTS, terms=TERMS):
    return SpaceTimeParameters(np.array([0.1, -0.2]), terms, 0.1, roots)


@pytest.mark.parametrize("n", [1, 2, 7, 40])
@pytest.mark.parametrize(
    "kernel", [Matern12(5.0), Matern32(5.0), Constant(), White(), Periodic(7.0)]
)
def test_the_expected_periodogram_is_that_of_the_covariance(kernel, n):
    times = np.arange(n, dtype=float)
    waves = np.exp(-2j * np.pi * np.outer(np.arange(n // 2 + 1), times) / n)
    covariance = kernel.covariance(times[:, None] - times)
    expected = np.einsum("wt,ts,ws->w", waves, covariance, waves.conj()).real / n
    found = expected_periodogram(kernel.covariance(times))
    np.testing.assert_allclose(found, expected, atol=1e-12 * n)


@pytest.mark.parametrize("n", [30, 31])
def test_the_loss_is_that_of_a_matrix_at_each_frequency(n):
    Z = np.random.default_rng(2).normal(size=(2, 6, n))
    at = parameters()
    whittle = Whittle(Z, 0.5, gram, replace(at, noise=0.2))
    lags = 0.5 * np.arange(n)
    graph, node = (
        expected_periodogram(time_covariance(TERMS, where, lags)) for where in ("graph", "node")
    )
    spectra = np.fft.fft(Z)[..., : n // 2 + 1] / np.sqrt(n)
    expected = 0.0
    for w in range(n // 2 + 1):
        matrix = gram(at.theta) * graph[w] + np.diag(ROOTS**2 * (node[w] + at.noise))
        count = 1 if w == 0 or 2 * w == n else 2
        quad = [(z.conj() @ np.linalg.solve(matrix, z)).real for z in spectra[:, :, w]]
        expected += 0.5 * count * (np.linalg.slogdet(matrix)[1] + np.mean(quad))
    expected += RIDGE * (np.log(0.1) - np.log(0.2)) ** 2
    assert whittle.loss(at.variables)[0] == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("roots", [np.ones(6), ROOTS], ids=["shared", "own"])
def test_slopes_are_those_of_differences(roots):
    Z = np.random.default_rng(2).normal(size=(2, 6, 40))
    start = parameters(roots)
    whittle = Whittle(Z, 1.0, gram, start)
    x = start.variables + 0.1
    _, slopes = whittle.loss(x)
    steps = 1e-5 * np.eye(x.size)
    expected = [(whittle.loss(x + h)[0] - whittle.loss(x - h)[0]) / 2e-5 for h in steps]
    np.testing.assert_allclose(slopes, expected, atol=1e-6 * np.abs(slopes).max())


def test_variables_are_those_of_the_parameters():
    start = parameters()
    x = start.variables
    assert x.size == 2 + (2 + 3 + 1 + 2) + 1
    again = start.at(x)
    assert [term.where for term in again.terms] == [term.where for term in TERMS]
    np.testing.assert_allclose(again.variables, x, rtol=1e-14)
    moved = start.at(x + np.arange(x.size) / 10)
    np.testing.assert_allclose(moved.variables, x + np.arange(x.size) / 10, atol=1e-14)
    assert moved.noise == pytest.approx(0.1 * np.exp((x.size - 1) / 10))
    limits = box(start, [(-1.0, 1.0), (-2.0, 2.0)], 1.0, 40.0)
    assert len(limits) == x.size
    assert all(low < value < high for (low, high), value in zip(limits, x, strict=True))


def test_scales_become_more_likely_and_keep_their_mean():
    truth = made(p=6, n=200, n_sites=6, observed=np.ones((6, 200), dtype=bool))
    Z = truth.values[None]
    start = SpaceTimeParameters(np.zeros(2), truth.terms, truth.noise, np.ones(6))
    whittle = Whittle(Z, 1.0, lambda theta: truth.gram, start)
    found = start
    for _ in range(8):
        # The pull to scale one counts as a few observations with a square of its expectation.
        better = whittle.rescaled(found, 1)
        assert np.log(better.roots).mean() == pytest.approx(0.0, abs=1e-12)
        found = better
    losses = [Whittle(Z, 1.0, whittle.gram, at).loss(at.variables)[0] for at in (start, found)]
    assert losses[1] < losses[0] - 10
    wanted = np.log(truth.roots) - np.log(truth.roots).mean()
    assert np.abs(np.log(found.roots) - wanted).max() < 0.15


def test_the_minimiser_is_near_that_of_the_dense_evidence():
    """Within two standard errors of it at p = 5, n = 200: one step of Newton from the one found."""
    terms = (Term("graph", Matern12(10.0), 1.0),)
    observed = np.ones((5, 200), dtype=bool)
    dense = made(p=5, n=200, n_sites=5, own=False, terms=terms, observed=observed)
    start = SpaceTimeParameters(np.zeros(0), terms, 0.1, np.ones(5))
    whittle = Whittle(dense.values[None], 1.0, lambda theta: dense.gram, start)
    found = minimize(whittle.loss, start.variables, jac=True, method="L-BFGS-B").x

    def evidence(x):
        at = start.at(x)
        return -replace(dense, terms=at.terms, noise=at.noise).log_evidence

    h = 0.02 * np.eye(3)
    centre = evidence(found)
    ahead, behind = ([evidence(found + sign * e) for e in h] for sign in (1, -1))
    slope = (np.array(ahead) - behind) / 0.04
    hessian = np.diag((np.array(ahead) + behind - 2 * centre) / 0.02**2)
    for i in range(3):
        for j in range(i):
            both = evidence(found + h[i] + h[j]) - ahead[i] - ahead[j] + centre
            hessian[i, j] = hessian[j, i] = both / 0.02**2
    step = np.linalg.solve(hessian, slope)
    errors = np.sqrt(np.linalg.inv(hessian).diagonal())
    assert np.abs(step / errors).max() < 2
