"""Evidence at noise ratios, and families of kernels on grids."""

import numpy as np
import pytest
import trimesh
from scipy import linalg, stats

from coupledgp.fields import LaplaceOperator
from coupledgp.fields.covariance import FieldCovariance
from coupledgp.fields.evidence import evidence_at_ratios, integrated_amplitude
from coupledgp.fields.grid import NOISE_RATIOS, FieldGrid
from coupledgp.kernels.fields import (
    FieldKernel,
    PositionKernel,
    WhittleMatern,
    parse_field_kernels,
)

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_evidence_is_the_density_of_contrasts_of_greatest_amplitude(n_outputs):
    """Contrasts N'y with an orthonormal N whose columns add up to zero do not know the mean."""
    n = 9
    root = RNG.normal(size=(n, n))
    K, y = root @ root.T, RNG.normal(size=(n, n_outputs)) + 5.0
    contrasts = linalg.null_space(np.ones((1, n)))
    ratios = np.array([0.01, 0.3])
    found = evidence_at_ratios(K, y, ratios)
    values = []
    for ratio, v in zip(ratios, found.amplitude, strict=True):
        C = contrasts.T @ (K + ratio * np.eye(n)) @ contrasts

        def density(v, C=C):
            law = stats.multivariate_normal(np.zeros(n - 1), v * C)
            return law.logpdf((contrasts.T @ y).T).sum()

        values.append(density(v))
        assert density(v) > density(1.01 * v)
        assert density(v) > density(0.99 * v)
    np.testing.assert_allclose(np.diff(values), np.diff(found.log_evidence), rtol=1e-9)


def grid(n=30, seed=0, signal=None):
    mesh = trimesh.creation.icosphere(subdivisions=2)
    operator = LaplaceOperator.from_trimesh(mesh)
    rng = np.random.default_rng(seed)
    X, _ = trimesh.sample.sample_surface(mesh, n, seed=seed)
    y = np.sin(3 * X[:, :1]) + 0.1 * rng.normal(size=(n, 1)) if signal is None else signal(X, rng)
    y = (y - y.mean()) / y.std()
    return FieldGrid(FieldCovariance(operator), operator.project(X).points, y)


def test_weights_are_those_of_families_with_equal_prior_mass():
    found = grid()
    families = parse_field_kernels("auto", 2, True)
    members, told = found.compare(families)
    assert [family.name for family in told] == ["position", "surface", "sum"]
    np.testing.assert_allclose(sum(member.weight for member in members), 1.0)
    np.testing.assert_allclose(sum(family.weight for family in told), 1.0)
    for family, record in zip(families, told, strict=True):
        every, size = found.candidates(family)
        assert size == len(every) == record.n_candidates
        values = np.array([candidate.log_evidence for candidate in every])
        np.testing.assert_allclose(
            record.log_evidence, np.log(np.mean(np.exp(values - values.max()))) + values.max()
        )
    by_family = {
        name: sum(m.weight for m in members if m.kernel.family == name)
        for name in ("position", "surface", "sum")
    }
    for record in told:
        assert abs(by_family[record.name] - record.weight) < 0.02
    assert members == sorted(members, key=lambda member: -member.weight)


def test_a_kernel_that_is_given_is_the_only_one():
    kernel = WhittleMatern(0.9, 2) + PositionKernel("matern-5/2", 0.7)
    members, told = grid().compare(parse_field_kernels(kernel, 2, True))
    assert {(m.kernel.surface, m.kernel.position) for m in members} == {
        (kernel.surface, kernel.position)
    }
    assert told[0].n_candidates == 3 * NOISE_RATIOS.size
    fixed = FieldKernel(WhittleMatern(0.9, 2), PositionKernel("matern-5/2", 0.7), 0.25)
    assert {m.kernel for m in grid().compare([fixed])[0]} == {fixed}


def test_sums_of_many_observations_are_those_of_the_best_parts():
    found = grid(n=120)
    members, told = found.compare(parse_field_kernels("auto", 2, True))
    assert told[2].n_candidates > 4 * 4 * 3 * NOISE_RATIOS.size
    ranges = {m.kernel.surface.range_ for m in members if m.kernel.surface is not None}
    assert members
    assert len(ranges) <= 4


def test_ranges_go_down_to_the_distance_between_sensors():
    for n in (10, 100, 400):
        found = grid(n=n)
        operator = found.covariance.operator
        spacing = np.sqrt(operator.measure / n)
        ranges = {kernel.range_ for kernel in found._surfaces(WhittleMatern())}
        assert min(ranges) <= spacing
        assert min(ranges) > 0.5 * min(spacing, 0.1 * operator.diameter)


def test_noise_alone_is_known_as_noise():
    """Intervals of the mixture are those of the noise, whichever kernel holds it."""
    members, _ = grid(40, 3, lambda X, rng: rng.normal(size=(40, 1))).compare(
        parse_field_kernels("auto", 2, True)
    )
    noise = sum(member.weight * member.noise for member in members)
    assert 0.5 < noise < 1.3


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_the_amplitude_is_integrated_out(n_outputs):
    """By a sum over amplitudes, weighted by the density of contrasts, of predictive variances."""
    n = 8
    root = RNG.normal(size=(n, n))
    K, y = root @ root.T + np.eye(n), RNG.normal(size=(n, n_outputs))
    contrasts = linalg.null_space(np.ones((1, n)))
    C, z = contrasts.T @ K @ contrasts + 0.2 * np.eye(n - 1), contrasts.T @ y
    v = np.geomspace(1e-3, 1e4, 40_001)
    squares = np.einsum("ik,ij,jk->", z, np.linalg.inv(C), z)
    weight = v ** (-0.5 * n_outputs * (n - 1)) * np.exp(-0.5 * squares / v)  # d log v
    mean_amplitude = (weight * v).sum() / weight.sum()
    best = evidence_at_ratios(K, y, np.array([0.2])).amplitude[0]
    np.testing.assert_allclose(mean_amplitude / best, integrated_amplitude(n, n_outputs), rtol=1e-3)
