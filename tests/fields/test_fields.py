"""Processes of fields keep the contract; what is left out is what a refit without it says."""

from functools import cache

import numpy as np
import pytest
import trimesh

from coupledgp.core.mixture import MixtureGP
from coupledgp.core.process import Data
from coupledgp.core.units import Units
from coupledgp.fields import LaplaceOperator
from coupledgp.fields.covariance import FieldCovariance
from coupledgp.fields.grid import fit_fields
from coupledgp.fields.process import DENSE_SAMPLES, FieldGP, FieldHyperparameters, FieldPrior
from coupledgp.kernels.fields import (
    FieldKernel,
    PositionKernel,
    WhittleMatern,
    parse_field_kernels,
)
from coupledgp.testing import ProcessContract

BOX = LaplaceOperator.from_trimesh(trimesh.creation.box((1.0, 2.0, 0.4)), max_edge=0.4)
ROADS = LaplaceOperator.from_edges(
    [0, 1, 2, 2, 3], [1, 2, 0, 3, 4], [1.0, 0.7, 1.2, 0.5, 2.0], max_edge=0.2
)
SURFACE, POSITION = WhittleMatern(1.5, 2), PositionKernel("matern-5/2", 0.8)
KERNELS = {
    "surface": (BOX, FieldKernel(SURFACE)),
    "smooth surface": (BOX, FieldKernel(WhittleMatern(1.0, 4))),
    "position": (BOX, FieldKernel(None, POSITION)),
    "sum": (BOX, FieldKernel(SURFACE, POSITION, 0.3)),
    "network, alpha 1": (ROADS, FieldKernel(WhittleMatern(1.5, 1))),
    "network, alpha 2": (ROADS, FieldKernel(WhittleMatern(1.5, 2))),
}


def places(operator, n, seed):
    rng = np.random.default_rng(seed)
    corners = operator.elements[rng.integers(0, len(operator.elements), n)]
    return np.hstack([corners, rng.dirichlet(np.ones(corners.shape[1]), n)])


def data(operator, n, seed, n_outputs=2):
    points = places(operator, n, seed)
    rng = np.random.default_rng([seed, 1])
    y = np.sin(points[:, :1] / operator.n_vertices * 6) + 0.2 * rng.normal(size=(n, n_outputs))
    return Data.of(points, 4.0 + 3.0 * y * (1 + np.arange(n_outputs)))


def process(name, noise=0.1):
    operator, kernel = KERNELS[name]
    seen = data(operator, 25, 0)
    hyper = FieldHyperparameters(kernel, 0.9, noise, 100.0)
    prior = FieldPrior(FieldCovariance(operator), hyper)
    return FieldGP.given(prior, seen, Units.of(seen.targets, True), True)


class TestContract(ProcessContract):
    tolerance = 1e-5  # the unknown mean is a hundred times the field's variance

    @pytest.fixture(autouse=True, params=list(KERNELS))
    def _choose(self, request, seed):
        operator, _ = KERNELS[request.param]
        self.process = process(request.param)
        self.points, self.further = places(operator, 7, 1), data(operator, 10, 2)
        self.seed = seed


@cache
def mixture():
    families = parse_field_kernels("auto", 2, True)
    return fit_fields(FieldCovariance(BOX), families, data(BOX, 25, 0, 1), True)[0]


class TestMixtureContract(ProcessContract):
    tolerance = 1e-5

    @pytest.fixture(autouse=True)
    def _choose(self, seed):
        self.process = mixture()
        self.points, self.further, self.seed = places(BOX, 7, 1), data(BOX, 10, 2, 1), seed


@pytest.mark.parametrize("name", ["sum", "network, alpha 1"])
def test_the_law_without_a_group_is_that_of_a_process_without_it(name):
    gp = process(name)
    groups = np.arange(25) // 2
    mean, variance = gp.left_out_law(groups)
    for group in (0, 5, 12):
        rest, away = gp.data.take(np.flatnonzero(groups != group)), groups == group
        law = gp.conditioned(rest).law(gp.data.points[away], "variance")
        np.testing.assert_allclose(mean[away], law.mean, rtol=1e-8)
        np.testing.assert_allclose(variance[away], law.spread, rtol=1e-8)


def test_a_mixture_leaves_out_in_each_member():
    gp, _ = fit_fields(
        FieldCovariance(BOX),
        parse_field_kernels("auto", 2, True),
        data(BOX, 20, 0, 1),
        True,
    )
    assert isinstance(gp, MixtureGP)
    mean, variance = gp.left_out_law(np.arange(20))
    rest = gp.data.take(np.arange(1, 20))
    law = gp.conditioned(rest).law(gp.data.points[:1], "variance")
    np.testing.assert_allclose(mean[:1], law.mean, rtol=1e-7)
    np.testing.assert_allclose(variance[:1], law.spread, rtol=1e-7)


@pytest.mark.parametrize("name", ["sum", "surface", "network, alpha 1"])
def test_draws_at_many_places_follow_the_law(name, seed):
    """Beyond the dense size, draws of the prior are corrected by the observations."""
    gp = process(name)
    few = places(KERNELS[name][0], 6, 4)
    many = np.tile(few, (DENSE_SAMPLES // 6 + 1, 1))
    n_draws = 600
    draws = gp.sample(many, n_draws, np.random.default_rng(seed), latent=True)[:6, 0]
    mean, spread = gp.law(few, "covariance", latent=True)
    std = np.sqrt(spread[:, :, 0].diagonal())
    np.testing.assert_allclose(
        (draws.mean(axis=1) - mean[:, 0]) / std, 0.0, atol=4.5 / np.sqrt(n_draws)
    )
    found, expected = (matrix / np.outer(std, std) for matrix in (np.cov(draws), spread[:, :, 0]))
    np.testing.assert_allclose(found, expected, atol=4.5 * np.sqrt(2 / n_draws))


def test_a_fit_follows_the_unit_of_targets_that_are_taken_as_they_are():
    seen, families = data(BOX, 25, 0, 1), parse_field_kernels(WhittleMatern(1.5, 2), 2, True)
    larger = Data.of(seen.points, 1e3 * seen.targets)
    plain, scaled = (
        fit_fields(FieldCovariance(BOX), families, given, False)[0] for given in (seen, larger)
    )
    points = places(BOX, 7, 1)
    one, other = (gp.law(points, "variance", latent=True) for gp in (plain, scaled))
    np.testing.assert_allclose(other.mean, 1e3 * one.mean, rtol=1e-6)
    np.testing.assert_allclose(other.spread, 1e6 * one.spread, rtol=1e-6)


@pytest.mark.parametrize("name", KERNELS)
def test_draws_of_the_prior_have_its_covariance(name):
    operator, kernel = KERNELS[name]
    prior = FieldPrior(FieldCovariance(operator), FieldHyperparameters(kernel, 3.0, 0.1, 2.0))
    points, n_samples = places(operator, 6, 4), 4000
    draws = prior.sample(points, n_samples, np.random.default_rng(8))
    expected = prior.covariance(points, points)
    scale = np.sqrt(np.outer(expected.diagonal(), expected.diagonal()))
    found = draws @ draws.T / n_samples
    np.testing.assert_allclose(found / scale, expected / scale, atol=6 / np.sqrt(n_samples))


def test_the_amplitude_is_the_mean_variance_over_the_surface():
    operator, kernel = KERNELS["surface"]
    variance = FieldCovariance(operator).variance(kernel, operator_vertices(operator))
    np.testing.assert_allclose(operator.mass @ variance / operator.mass.sum(), 1.0)


def operator_vertices(operator):
    vertices = np.repeat(np.arange(operator.n_vertices)[:, None], operator.dimension + 1, axis=1)
    weights = np.zeros_like(vertices, dtype=float)
    weights[:, 0] = 1.0
    return np.hstack([vertices, weights])
