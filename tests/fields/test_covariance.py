"""Whittle-Matern covariances against closed forms and dense eigenpairs."""

import numpy as np
import pytest
import trimesh
from scipy import linalg

from coupledgp.fields import LaplaceOperator
from coupledgp.fields.covariance import (
    FieldCovariance,
    SizedCache,
    SurfaceCovariance,
)
from coupledgp.fields.precision import edge_noise, edge_precision
from coupledgp.kernels.fields import FieldKernel, PositionKernel, WhittleMatern

KAPPA = 1.7


def network(ends, lengths, **options):
    sources, targets = np.array(ends).T
    return LaplaceOperator.from_edges(sources, targets, lengths, **options)


def alpha_one(kappa=KAPPA):
    return WhittleMatern(range_=2.0 / kappa, alpha=1)


def unscaled(operator, kernel, nodes):
    """Covariance between nodes before it is divided by its mean variance."""
    covariance = SurfaceCovariance(operator)
    places = operator.at_vertices(nodes).points
    return covariance.gram(kernel, places) * covariance.known(kernel).mean_variance


def test_a_path_has_the_exponential_kernel_with_neumann_ends():
    cuts = np.array([0.0, 0.3, 1.1, 1.9, 2.6])
    operator = network(list(zip(range(4), range(1, 5), strict=True)), np.diff(cuts))
    length = cuts[-1]
    low, high = np.minimum.outer(cuts, cuts), np.maximum.outer(cuts, cuts)
    expected = np.cosh(KAPPA * low) * np.cosh(KAPPA * (length - high))
    expected /= KAPPA * np.sinh(KAPPA * length)
    np.testing.assert_allclose(unscaled(operator, alpha_one(), range(5)), expected, rtol=1e-12)


def test_far_from_its_ends_a_path_has_the_stationary_exponential_kernel():
    operator = network([(0, 1), (1, 2), (2, 3)], [30.0, 0.8, 30.0])
    expected = np.exp(-KAPPA * 0.8) / (2 * KAPPA)
    np.testing.assert_allclose(unscaled(operator, alpha_one(), [1, 2])[0, 1], expected, rtol=1e-12)


def test_a_circle_has_the_periodic_kernel():
    lengths = np.array([0.4, 0.9, 1.3])
    operator = network([(0, 1), (1, 2), (2, 0)], lengths)
    places, total = np.array([0.0, 0.4, 1.3]), lengths.sum()
    apart = np.abs(np.subtract.outer(places, places))
    expected = np.cosh(KAPPA * (apart - total / 2)) / (2 * KAPPA * np.sinh(KAPPA * total / 2))
    np.testing.assert_allclose(unscaled(operator, alpha_one(), range(3)), expected, rtol=1e-12)


def test_the_middle_of_a_star_has_two_mths_of_the_variance_of_a_line():
    operator = network([(0, k) for k in range(1, 6)], np.full(5, 40.0))
    np.testing.assert_allclose(
        unscaled(operator, alpha_one(), [0])[0, 0], 1.0 / (5 * KAPPA), rtol=1e-12
    )


def test_a_vertex_of_degree_two_changes_nothing():
    whole = network([(0, 1), (1, 2), (2, 0), (2, 3)], [1.0, 0.7, 1.2, 0.5])
    cut = network([(0, 4), (4, 1), (1, 2), (2, 0), (2, 3)], [0.35, 0.65, 0.7, 1.2, 0.5])
    np.testing.assert_allclose(
        unscaled(whole, alpha_one(), range(4)), unscaled(cut, alpha_one(), range(4)), rtol=1e-12
    )


def test_noise_of_edges_has_their_precision_as_covariance():
    operator = network([(0, 1), (1, 2), (2, 0), (2, 3)], [1.0, 0.7, 400.0, 0.5], n_nodes=4)
    draws = edge_noise(operator, KAPPA, 60_000, np.random.default_rng(0))
    expected = edge_precision(operator, KAPPA).toarray()
    scale = np.sqrt(np.outer(expected.diagonal(), expected.diagonal()))
    np.testing.assert_allclose(draws @ draws.T / 60_000 / scale, expected / scale, atol=0.03)


def dense(operator, kernel):
    """`sum_j phi_j phi_j' (kappa^2 + lambda_j)^-alpha` of the pencil (S, M), mean variance one."""
    mass = operator.mass
    values, vectors = linalg.eigh(operator.stiffness.toarray(), np.diag(mass))
    K = vectors * (kernel.kappa(operator.dimension) ** 2 + values) ** -kernel.alpha @ vectors.T
    return K * mass.sum() / (mass @ K.diagonal())


def surfaces():
    sphere = trimesh.creation.icosphere(subdivisions=2)
    box = trimesh.creation.box((1.0, 2.0, 0.1))
    return {
        "sphere": LaplaceOperator.from_trimesh(sphere),
        "box": LaplaceOperator.from_trimesh(box, max_edge=0.3),
        "roads": network([(0, 1), (1, 2), (2, 0), (2, 3)], [1.0, 0.7, 1.2, 0.5], max_edge=0.1),
    }


@pytest.mark.parametrize("name", ["sphere", "box", "roads"])
@pytest.mark.parametrize("alpha", [2, 4])
@pytest.mark.parametrize("share", [0.2, 3.0])
def test_solves_and_entries_are_those_of_dense_eigenpairs(name, alpha, share):
    operator = surfaces()[name]
    if operator.dimension == 1 and alpha == 4:
        alpha = 2
    kernel = WhittleMatern(share * operator.diameter, alpha)
    expected = dense(operator, kernel)
    covariance = SurfaceCovariance(operator)
    rng = np.random.default_rng(1)
    corners = operator.elements[rng.integers(0, len(operator.elements), 12)]
    weights = rng.dirichlet(np.ones(corners.shape[1]), 12)
    places = np.hstack([corners, weights])
    rows = np.zeros((12, operator.n_vertices))
    np.add.at(rows, (np.arange(12)[:, None], corners), weights)
    between = rows @ expected @ rows.T
    np.testing.assert_allclose(covariance.gram(kernel, places), between, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(covariance.variance(kernel, places), between.diagonal(), rtol=1e-6)


@pytest.mark.parametrize(("alpha", "tolerance"), [(2, 0.09), (4, 0.015)])
def test_variance_on_a_sphere_is_the_sum_of_its_harmonics(alpha, tolerance):
    operator = LaplaceOperator.from_trimesh(trimesh.creation.icosphere(subdivisions=4))
    nu = alpha - 1
    kernel = WhittleMatern(np.sqrt(8 * nu) / 6.0, alpha)
    degree = np.arange(20_000)
    expected = ((2 * degree + 1) / (4 * np.pi) * (36.0 + degree * (degree + 1)) ** -alpha).sum()
    found = SurfaceCovariance(operator).known(kernel).mean_variance
    np.testing.assert_allclose(found, expected, rtol=tolerance)


@pytest.mark.parametrize("alpha", [1, 2])
def test_draws_on_a_network_have_the_covariance(alpha):
    operator = surfaces()["roads"]
    check_draws(operator, WhittleMatern(1.0, alpha))


@pytest.mark.parametrize("alpha", [2, 4])
def test_draws_on_a_surface_have_the_covariance(alpha):
    check_draws(surfaces()["box"], WhittleMatern(0.8, alpha))


def check_draws(operator, kernel, n_samples=20_000):
    covariance = SurfaceCovariance(operator)
    draws = covariance.sample(kernel, n_samples, np.random.default_rng(3))
    expected = covariance.gram(kernel, operator.at_vertices().points)
    found = (draws @ draws.T / n_samples)[: len(expected), : len(expected)]
    scale = np.sqrt(np.outer(expected.diagonal(), expected.diagonal()))
    np.testing.assert_allclose(found / scale, expected / scale, atol=6 / np.sqrt(n_samples))


@pytest.mark.parametrize("share", [0.3, 0.8])
def test_parts_of_a_draw_have_their_shares_of_the_variance(share):
    operator = surfaces()["box"]
    covariance = FieldCovariance(operator)
    kernel = FieldKernel(WhittleMatern(0.8, 2), PositionKernel("matern-5/2", 0.5), share)
    places = operator.at_vertices(range(8)).points
    draws = covariance.sample(kernel, places, 4_000, np.random.default_rng(4), 1_500)
    expected = covariance.gram(kernel, places)
    np.testing.assert_allclose(draws @ draws.T / 4_000, expected, atol=0.1)
    np.testing.assert_allclose(covariance.variance(kernel, places), expected.diagonal())


def test_scale_and_rotation_of_a_mesh_change_nothing():
    mesh = trimesh.creation.icosphere(subdivisions=2)
    turned = mesh.copy()
    turned.apply_transform(
        trimesh.transformations.random_rotation_matrix(rand=np.array([0.1, 0.5, 0.9]))
    )
    turned.apply_scale(1e-6)
    turned.apply_translation([1e-3, 0.0, 0.0])
    grams = []
    for body, size in ((mesh, 1.0), (turned, 1e-6)):
        operator = LaplaceOperator.from_trimesh(body)
        places = operator.at_vertices(range(20)).points
        grams.append(SurfaceCovariance(operator).gram(WhittleMatern(0.7 * size, 2), places))
    np.testing.assert_allclose(grams[0], grams[1], rtol=1e-6)


def test_bodies_that_do_not_touch_are_independent():
    near = trimesh.creation.icosphere(subdivisions=1)
    far = near.copy()
    far.apply_translation([5.0, 0.0, 0.0])
    operator = LaplaceOperator.from_trimesh(trimesh.util.concatenate([near, far]))
    count = len(near.vertices)
    gram = SurfaceCovariance(operator).gram(
        WhittleMatern(2.0, 2), operator.at_vertices([0, 3, count, count + 3]).points
    )
    assert np.all(gram[:2, 2:] == 0.0)
    np.testing.assert_allclose(gram[:2, :2], gram[2:, 2:], rtol=1e-9)


def test_the_least_recently_used_value_is_forgotten_first():
    kept = SizedCache(lambda value: float(value), limit=5.0)
    kept.put("a", 2)
    kept.put("b", 2)
    assert kept.get("a") == 2
    kept.put("c", 3)
    assert (kept.get("a"), kept.get("b"), kept.get("c")) == (2, None, 3)
    kept.put("d", 100)
    assert (kept.get("c"), kept.get("d")) == (None, 100)
