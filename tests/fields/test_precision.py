"""Sparse precisions of fields: evidence, gradient and posterior against dense covariances."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import trimesh
from scipy import sparse

from coupledgp.features import FourierFeatures
from coupledgp.fields import LaplaceOperator
from coupledgp.fields.evidence import (
    FieldPrecisionEvidence,
    FieldScales,
    PositionFeatures,
    PrecisionPosterior,
)
from coupledgp.fields.locations import as_points, location_positions, location_rows
from coupledgp.fields.precision import (
    FieldPrecision,
    edge_precision,
    edge_slope,
    flat_variance,
    shifted_stiffness,
)
from coupledgp.fields.search import (
    PrecisionSearch,
    SearchSettings,
    precision_search,
)
from tests.fields.shapes import slivers, three_pages, town


def pebble():
    mesh = trimesh.creation.icosphere(subdivisions=2)
    mesh.vertices *= [1.0, 0.8, 0.5]
    return LaplaceOperator.from_trimesh(mesh)


def roads():
    sources, targets, lengths, positions = town()
    return LaplaceOperator.from_edges(sources, targets, lengths, positions=positions, max_edge=0.4)


OPERATORS = {
    "surface": (pebble(), 2),
    "three pages": (LaplaceOperator.from_trimesh(three_pages(), max_edge=0.2), 2),
    "network": (roads(), 2),
    "network by edges": (roads(), 1),
}
SCALES = FieldScales(np.log(2.3), np.log(0.05), np.log(0.7), np.log(0.6))


def places(operator, n, seed=0):
    """Places within elements, some of them twice, at vertices and on edges."""
    rng = np.random.default_rng(seed)
    corners = operator.elements[rng.integers(len(operator.elements), size=n)]
    weights = rng.dirichlet(np.ones(corners.shape[1]), n)
    weights[0] = np.eye(corners.shape[1])[0]
    points = as_points(corners, weights)
    points[1] = points[2]
    return points


def problem(name, with_features, n=40):
    operator, alpha = OPERATORS[name]
    rng = np.random.default_rng(3)
    points = places(operator, n)
    rows = location_rows(points, operator.n_vertices)
    precision = FieldPrecision.of(operator, alpha, rows)
    targets = rng.standard_normal((n, 2)).cumsum(axis=0)
    evidence = FieldPrecisionEvidence(precision, rows, rng.uniform(0.5, 2.0, n), targets)
    if with_features:
        positions = location_positions(points, operator.positions)
        dim = positions.shape[1]
        drawn = FourierFeatures(dim, 12, "orthogonal", "matern-5/2", 0)
        evidence = evidence.with_features(PositionFeatures.of(drawn, positions))
    return evidence


def field_covariance(precision, kappa):
    """Dense covariance of the field at all vertices."""
    operator = precision.operator
    if precision.alpha == 1:
        K = np.linalg.inv(edge_precision(operator, kappa).toarray())
    else:
        P = np.linalg.inv(shifted_stiffness(operator, kappa).toarray())
        K = P * operator.mass @ P
    return K / flat_variance(kappa, precision.alpha, operator.dimension)


def dense_covariance(evidence, scales):
    """Covariance of the observations, in units of the amplitude."""
    A = evidence.rows.toarray()
    C = A @ field_covariance(evidence.precision, np.exp(scales.kappa)) @ A.T
    C += np.exp(scales.noise) * np.diag(evidence.relative_noise)
    if evidence.features is not None:
        operator = evidence.precision.operator
        positions = location_positions(places(operator, len(C)), operator.positions)
        scaled = positions / np.exp(scales.lengthscale)
        phi = evidence.features.feature_map(torch.as_tensor(scaled)).numpy()
        C += np.exp(scales.features) * phi @ phi.T
    return C


def dense_evidence(evidence, scales):
    C, y = dense_covariance(evidence, scales), evidence.targets
    n, k = y.shape
    inverse, ones = np.linalg.inv(C), np.ones(n)
    total = ones @ inverse @ ones
    P = inverse - np.outer(inverse @ ones, inverse @ ones) / total
    amplitude = np.trace(y.T @ P @ y) / (k * (n - 1))
    rest = (n - 1) * (np.log(amplitude) + 1 + np.log(2 * np.pi))
    return -0.5 * k * (np.linalg.slogdet(C)[1] + np.log(total) + rest), amplitude


@pytest.mark.parametrize("with_features", [False, True])
@pytest.mark.parametrize("name", OPERATORS)
def test_the_evidence_is_that_of_the_dense_covariance(name, with_features):
    evidence = problem(name, with_features)
    for scales in (SCALES, SCALES._replace(kappa=np.log(0.3), noise=np.log(1e-4))):
        found = evidence.at(scales)
        value, amplitude = dense_evidence(evidence, scales)
        assert abs(found.log_evidence - value) < 1e-8
        assert abs(found.amplitude / amplitude - 1) < 1e-8


@pytest.mark.parametrize("with_features", [False, True])
@pytest.mark.parametrize("name", OPERATORS)
def test_the_gradient_is_that_of_the_value(name, with_features):
    evidence = problem(name, with_features)
    found = evidence.at(SCALES, with_gradient=True)
    assert found.log_evidence == pytest.approx(evidence.at(SCALES).log_evidence, abs=1e-9)
    assert found.gradient.size == (4 if with_features else 2)
    for k, derivative in enumerate(found.gradient):
        step = 1e-4 * np.eye(4)[k]
        high, low = (
            evidence.at(FieldScales(*(np.array(SCALES) + s))).log_evidence for s in (step, -step)
        )
        assert derivative == pytest.approx((high - low) / 2e-4, rel=1e-5, abs=1e-5)


def test_the_slope_of_edges_is_that_of_their_precision():
    operator = LaplaceOperator.from_edges(range(6), range(1, 7), [1e-7, 1e-3, 0.02, 1.0, 90.0, 1e4])
    step = 1e-6
    high, low = (edge_precision(operator, 0.8 * np.exp(s)).toarray() for s in (step, -step))
    found = edge_slope(operator, 0.8).toarray()
    long = np.ix_([3, 4, 5, 6], [3, 4, 5, 6])
    np.testing.assert_allclose(found[long], ((high - low) / (2 * step))[long], rtol=1e-6, atol=1e-9)
    # Short edges: kappa (2 x / 3, x / 3), where differences of the precision are rounding.
    short = 0.8 * np.array([1e-7, 1e-3])
    np.testing.assert_allclose(np.diag(found, 1)[:2], 0.8 * short / 3, rtol=1e-5)
    np.testing.assert_allclose(found[0, 0], 0.8 * 2 * short[0] / 3, rtol=1e-5)


class Sources:
    """Stands in for random numbers: the rows of an identity over all sources of noise."""

    start = 0

    def standard_normal(self, shape):
        rows = np.eye(shape[1])[self.start : self.start + shape[0]]
        self.start += shape[0]
        return rows


@pytest.mark.parametrize("name", OPERATORS)
def test_noise_has_the_precision_as_covariance(name):
    operator, alpha = OPERATORS[name]
    precision = FieldPrecision.of(operator, alpha)
    root = precision.noise(1.4, 2 * operator.n_vertices + len(operator.elements), Sources())
    Q = np.linalg.inv(field_covariance(precision, 1.4))
    found = precision.pattern.with_values(precision.at(1.4).values).toarray()
    np.testing.assert_allclose(found, Q, atol=1e-9 * np.abs(Q).max())
    np.testing.assert_allclose(root @ root.T, Q, atol=1e-9 * np.abs(Q).max())
    np.testing.assert_allclose(
        precision.at(1.4).log_determinant, np.linalg.slogdet(Q)[1], rtol=1e-9
    )


def test_needles_change_little():
    """Stiffness over seven decades, whose square would leave no digits, is moderated."""
    operator = LaplaceOperator.from_trimesh(slivers(), max_edge=0.3)
    points = places(operator, 60)
    rows = location_rows(points, operator.n_vertices)
    precision = FieldPrecision.of(operator, 2, rows)
    assert precision.stiffness.diagonal().max() < 0.5 * operator.stiffness.diagonal().max()
    assert precision.mass.sum() < 1.01 * operator.mass.sum()
    targets = np.sin(3 * location_positions(points, operator.positions)).sum(axis=1, keepdims=True)
    evidence = FieldPrecisionEvidence(precision, rows, np.ones(60), targets)
    for kappa in (0.7, 5.0):
        scales = FieldScales(np.log(kappa), np.log(1e-2))
        assert abs(evidence.at(scales).log_evidence - dense_evidence(evidence, scales)[0]) < 0.2


def test_ordinary_meshes_are_left_as_they_are():
    for operator, alpha in OPERATORS.values():
        precision = FieldPrecision.of(operator, alpha)
        assert precision.stiffness is operator.stiffness
        assert precision.mass is operator.mass


def posterior_of(evidence):
    columns = np.ones((len(evidence.targets), 1))
    prior = evidence.precision.at(np.exp(SCALES.kappa))
    noise = np.exp(SCALES.noise) * evidence.relative_noise
    return PrecisionPosterior(
        evidence.precision.pattern, prior, evidence.rows, noise, columns, np.array([0.25])
    )


@pytest.mark.parametrize("name", OPERATORS)
def test_variances_are_exact_inside_elements_and_anywhere(name):
    evidence = problem(name, False)
    operator, posterior = evidence.precision.operator, posterior_of(evidence)
    K = field_covariance(evidence.precision, np.exp(SCALES.kappa))
    A = evidence.rows.toarray()
    data = A.T / (np.exp(SCALES.noise) * evidence.relative_noise) @ A
    expected = np.linalg.inv(np.linalg.inv(K) + data)
    inside = location_rows(places(operator, 30, 1), operator.n_vertices)
    ends = np.random.default_rng(2).integers(operator.n_vertices, size=(30, 2))
    across = location_rows(as_points(ends, np.full((30, 2), 0.5)), operator.n_vertices)
    assert not evidence.precision.pattern.holds(sparse.csr_array(across.T @ across))
    rows = sparse.csr_array(sparse.vstack([inside, across]))
    full = rows @ expected @ rows.T
    np.testing.assert_allclose(posterior.field_variances(rows), np.diag(full), rtol=1e-9)
    np.testing.assert_allclose(posterior.field_covariance(rows), full, atol=1e-10)


def test_blocks_of_the_inverse_covariance():
    evidence = problem("surface", False)
    C = dense_covariance(evidence, SCALES) + 4.0  # a mean of variance 4
    inverse = np.linalg.inv(C)
    groups = [np.array([0]), np.array([1, 2]), np.array([5, 9, 30])]
    for group, block in zip(groups, posterior_of(evidence).inverse_blocks(groups), strict=True):
        np.testing.assert_allclose(block, inverse[np.ix_(group, group)], rtol=1e-8, atol=1e-8)


def search(evidence, **kept):
    operator = evidence.precision.operator
    smoothness = evidence.precision.alpha - operator.dimension / 2
    settings = SearchSettings(smoothness, operator.diameter, 0.1 * operator.diameter, **kept)
    return PrecisionSearch(settings, precision_search())


@pytest.mark.parametrize("name", ["surface", "network by edges"])
def test_the_search_ends_at_a_maximum(name):
    evidence = problem(name, True)
    own = search(evidence)
    start = own.scan_features(own.scan(problem(name, False)).point, [evidence.features])
    found = own.climb(start.point)
    assert found.converged
    assert found.value <= start.value
    assert found.n_evaluations == own.search.n_evaluations
    greatest = -found.value * evidence.targets.size
    for k, (low, high) in enumerate(own.settings.box):
        for step in (-0.3, 0.3):
            near = np.array(found.point.scales)
            near[k] = np.clip(near[k] + step, low, high)
            assert evidence.at(FieldScales(*near)).log_evidence < greatest + 0.02


def test_what_is_kept_stays_and_the_rest_is_at_its_best():
    """The ratio of a share that is kept follows kappa, and enters the derivative."""
    evidence = problem("surface", True)
    own = search(evidence, range_=None, lengthscale=0.5, log_ratio=lambda x: (0.3 * x - 0.2, 0.3))
    start = own.scan_features(own.scan(problem("surface", False)).point, [evidence.features])
    found = own.climb(start.point).point
    assert found.scales.lengthscale == pytest.approx(np.log(0.5))
    assert found.scales.features == pytest.approx(0.3 * found.scales.kappa - 0.2)
    x = np.array([0.9, -2.0, 0.0, np.log(0.5)])
    loss = own.objective(found).value_and_gradient
    _, gradient = loss(x)
    assert gradient[2] == 0.0
    for k in (0, 1, 3):
        step = 1e-4 * np.eye(4)[k]
        slope = (loss(x + step)[0] - loss(x - step)[0]) / 2e-4
        assert gradient[k] == pytest.approx(slope, rel=1e-5, abs=1e-7)
    fixed = search(evidence, range_=0.8)
    kept = fixed.climb(fixed.scan(problem("surface", False)).point).point
    assert np.exp(kept.scales.kappa) == pytest.approx(np.sqrt(8.0) / 0.8)
