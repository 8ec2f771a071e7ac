"""Fields by sparse precisions keep the contract, and have the law of dense covariances."""

from dataclasses import replace

import numpy as np
import pytest
import trimesh
from sklearn.exceptions import ConvergenceWarning

from coupledgp.core.problem import RowWeights
from coupledgp.core.process import Data
from coupledgp.core.units import Units
from coupledgp.errors import InvalidInputError, MemoryLimitError, NumericalError
from coupledgp.features import FourierFeatures
from coupledgp.fields import LaplaceOperator
from coupledgp.fields.covariance import FieldCovariance
from coupledgp.fields.locations import as_points, location_positions
from coupledgp.fields.precision import FieldPrecision
from coupledgp.fields.process import (
    FieldGP,
    FieldHyperparameters,
    FieldPrior,
    PreciseFieldGP,
    PrecisePrior,
)
from coupledgp.fields.search import fit_precise
from coupledgp.ground.codec import decoded, encoded
from coupledgp.ground.progress import watched
from coupledgp.kernels.fields import FieldKernel, PositionKernel, WhittleMatern
from coupledgp.testing import ProcessContract
from tests.fields.shapes import slivers

BOX = LaplaceOperator.from_trimesh(trimesh.creation.box((1.0, 2.0, 0.4)), max_edge=0.4)
ROADS = LaplaceOperator.from_edges(
    [0, 1, 2, 2, 3], [1, 2, 0, 3, 4], [1.0, 0.7, 1.2, 0.5, 2.0], max_edge=0.2,
    positions=[[0, 0], [1, 0], [1, 0.7], [1.4, 1], [3, 1.2]],
)  # fmt: skip
SURFACE, POSITION = WhittleMatern(1.5, 2), PositionKernel("matern-5/2", 0.8)
KERNELS = {
    "surface": (BOX, FieldKernel(SURFACE)),
    "sum": (BOX, FieldKernel(SURFACE, POSITION, 0.3)),
    "network, alpha 1": (ROADS, FieldKernel(WhittleMatern(1.5, 1))),
    "network, alpha 2": (ROADS, FieldKernel(WhittleMatern(1.5, 2))),
    "network, sum": (ROADS, FieldKernel(WhittleMatern(1.5, 1), POSITION, 0.6)),
}


def places(operator, n, seed):
    rng = np.random.default_rng(seed)
    corners = operator.elements[rng.integers(0, len(operator.elements), n)]
    return as_points(corners, rng.dirichlet(np.ones(corners.shape[1]), n))


def data(operator, n, seed, n_outputs=2, weights=None):
    points = places(operator, n, seed)
    rng = np.random.default_rng([seed, 1])
    y = np.sin(points[:, :1] / operator.n_vertices * 6) + 0.2 * rng.normal(size=(n, n_outputs))
    return Data.of(points, 4.0 + 3.0 * y * (1 + np.arange(n_outputs)), weights=weights)


def prior(name, noise=0.1, outputscale=0.9):
    operator, kernel = KERNELS[name]
    hyper = FieldHyperparameters(kernel, outputscale, noise, 100.0)
    features = None
    if kernel.position is not None:
        dim = operator.positions.shape[1]
        features = FourierFeatures(dim, 9, "orthogonal", kernel.position.spectrum, 3)
    precision = FieldPrecision.of(operator, kernel.surface.alpha)
    return PrecisePrior(FieldPrior(FieldCovariance(operator), hyper), features, precision)


def process(name, seen=None, **variances):
    seen = seen or data(KERNELS[name][0], 25, 0)
    return PreciseFieldGP.given(prior(name, **variances), seen, Units.of(seen.targets, True), True)


class TestContract(ProcessContract):
    tolerance = 1e-5  # the unknown mean is a hundred times the field's variance

    @pytest.fixture(autouse=True, params=list(KERNELS))
    def _choose(self, request, seed):
        operator, kernel = KERNELS[request.param]
        self.process = process(request.param)
        self.points, self.further = places(operator, 7, 1), data(operator, 10, 2)
        self.coupling = None if kernel.position is None else "orthogonal"
        self.seed = seed


def dense_law(made, points, seen):
    """Mean and covariance of f, and the log evidence, by the covariance of all places at once."""
    units, hyper = made.units, made.hyperparameters
    n = len(seen)
    K = made.latent_prior(np.concatenate([seen.points, points]))
    relative = np.ones(n) if seen.relative_noise is None else seen.relative_noise
    C = K[:n, :n] + hyper.noise * np.diag(relative)
    y = units.normalized(seen.targets)
    gain = np.linalg.solve(C, K[:n, n:]).T
    covariance = K[n:, n:] - gain @ K[:n, n:]
    k = y.shape[1]
    value = -0.5 * np.trace(y.T @ np.linalg.solve(C, y))
    value -= 0.5 * k * (np.linalg.slogdet(C)[1] + n * np.log(2 * np.pi))
    return units.mean(gain @ y), units.spread(covariance), value - units.log_jacobian(n)


@pytest.mark.parametrize("name", KERNELS)
def test_the_law_and_the_evidence_are_those_of_the_dense_prior(name):
    operator, _ = KERNELS[name]
    noise = RowWeights(np.random.default_rng(5).uniform(0.2, 3.0, 40), np.ones(40))
    made = process(name, data(operator, 40, 3, weights=noise))
    points = places(operator, 12, 4)
    mean, covariance, evidence = dense_law(made, points, made.data)
    found = made.law(points, "covariance", latent=True)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-8)
    np.testing.assert_allclose(found.spread, covariance, atol=1e-8)
    variance = made.law(points, "variance", latent=True).spread
    np.testing.assert_allclose(variance, np.einsum("iik->ik", covariance), rtol=1e-7)
    assert abs(made.log_evidence - evidence) < 1e-8


@pytest.mark.parametrize("name", ["surface", "network, alpha 1", "network, alpha 2"])
def test_without_features_it_is_the_process_of_the_dense_covariance(name):
    made = process(name)
    dense = FieldGP.given(made.field_prior, made.data, made.units, True)
    points = places(KERNELS[name][0], 12, 4)
    for want in ("variance", "covariance"):
        for found, expected in zip(made.law(points, want), dense.law(points, want), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(made.prior(points), dense.prior(points), rtol=1e-9)
    assert made.log_evidence == pytest.approx(dense.log_evidence, abs=1e-7)
    assert made.exact() is made
    groups = np.arange(len(made.data))
    for found, expected in zip(made.left_out_law(groups), dense.left_out_law(groups), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_rows_that_count_more_than_once_are_as_in_the_dense_process():
    rng = np.random.default_rng(5)
    weights = RowWeights(rng.uniform(0.2, 3.0, 25), rng.integers(1, 4, 25).astype(float))
    made = process("surface", data(BOX, 25, 0, weights=weights))
    dense = FieldGP.given(made.field_prior, made.data, made.units, True)
    assert made.log_evidence == pytest.approx(dense.log_evidence, abs=1e-7)


def test_places_between_any_vertices_are_welcome():
    rng = np.random.default_rng(6)
    ends = rng.integers(BOX.n_vertices, size=(25, 3))
    seen = data(BOX, 25, 0)
    made = process("surface", Data.of(as_points(ends, rng.dirichlet(np.ones(3), 25)), seen.targets))
    points = places(BOX, 9, 1)
    mean, covariance, evidence = dense_law(made, points, made.data)
    found = made.law(points, "covariance", latent=True)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-8)
    np.testing.assert_allclose(found.spread, covariance, atol=1e-8)
    assert abs(made.log_evidence - evidence) < 1e-8


def test_with_many_features_it_is_close_to_its_exact_process():
    few = process("sum")
    many = few.redrawn("orthogonal+pnc", 500, 1)
    points = places(BOX, 12, 4)
    exact = few.exact()
    assert exact.exact() is exact
    expected = exact.law(points, "covariance").spread
    gaps = [np.abs(own.law(points, "covariance").spread - expected).max() for own in (few, many)]
    assert gaps[1] < 0.1 * np.abs(expected).max()
    assert gaps[1] < 0.4 * gaps[0]


@pytest.mark.parametrize("name", ["sum", "network, alpha 1"])
def test_what_is_left_out_is_predicted_as_by_a_process_without_it(name):
    operator, _ = KERNELS[name]
    seen = data(operator, 20, 7)
    points = seen.points.copy()
    points[4] = points[11]  # two observations at one place
    seen = Data.of(points, seen.targets)
    made = process(name, seen)
    groups = np.arange(20)
    groups[[11, 6]] = 4, 17  # one place, and two places of a group
    found = made.left_out_law(groups)
    for group in np.unique(groups):
        out = np.flatnonzero(groups == group)
        rest = made.conditioned(seen.take(np.flatnonzero(groups != group)))
        expected = rest.law(points[out], "variance")
        np.testing.assert_allclose(found.mean[out], expected.mean, rtol=1e-7)
        np.testing.assert_allclose(found.spread[out], expected.spread, rtol=1e-7)


def bodies():
    """A ball with sensors and a box of needles without."""
    box = slivers()
    box.apply_translation([9, 0, 0])
    two = trimesh.util.concatenate([trimesh.creation.icosphere(subdivisions=1), box])
    return LaplaceOperator.from_trimesh(two, max_edge=0.6)


@pytest.mark.parametrize("name", KERNELS)
def test_noise_has_the_precision_of_the_field_as_covariance(name):
    """Then `noise' C noise` has the number of vertices as mean, for the covariance C."""
    operator, kernel = KERNELS[name]
    n, n_samples = operator.n_vertices, 500
    vertices = np.repeat(np.arange(n)[:, None], operator.dimension + 1, axis=1)
    places = as_points(vertices, np.eye(operator.dimension + 1)[np.zeros(n, int)])
    share = 1.0 if kernel.position is None else kernel.share
    covariance = share * FieldCovariance(operator).surface.gram(kernel.surface, places)
    noise = prior(name).noise_of_precision(n_samples, np.random.default_rng(6))
    mean = np.einsum("is,ij,js->", noise, covariance, noise, optimize=True) / n_samples
    assert mean == pytest.approx(n, abs=6 * np.sqrt(2 * n / n_samples))


def test_a_body_without_observations_keeps_its_prior():
    operator, kernel = bodies(), FieldKernel(WhittleMatern(6.0, 2))
    _, part = operator.components()
    ball = operator.at_vertices(np.flatnonzero(part[: operator.n_given] == part[0])).points
    box = operator.at_vertices(np.flatnonzero(part[: operator.n_given] != part[0])).points
    rng = np.random.default_rng(0)
    fields = FieldCovariance(operator)
    prior = FieldPrior(fields, FieldHyperparameters(kernel, 1.0, 0.01, 0.5))
    parts = PrecisePrior(prior, None, FieldPrecision.of(operator, 2))
    seen = Data.of(ball, rng.normal(size=(len(ball), 1)))
    made = PreciseFieldGP.given(parts, seen, Units.of(seen.targets, False), False)
    dense = FieldGP.given(prior, made.data, made.units, False)
    both = np.concatenate([box, ball[:3]])
    found, expected = (p.law(both, "covariance", latent=True) for p in (made, dense))
    np.testing.assert_allclose(found.mean, expected.mean, atol=1e-6)
    np.testing.assert_allclose(found.spread, expected.spread, atol=1e-6)
    variance = made.law(both, "variance", latent=True).spread
    np.testing.assert_allclose(variance, np.einsum("iik->ik", expected.spread), rtol=1e-6)
    assert made.log_evidence == pytest.approx(dense.log_evidence, abs=1e-6)
    draws = made.sample(both, 3000, rng, latent=True)[:, 0]
    errors = np.cov(draws) - expected.spread[:, :, 0]
    assert np.abs(errors).max() < 0.12 * np.abs(expected.spread).max()
    # Sensors on the box, too, are observations of it.
    seen = Data.of(np.concatenate([ball, box[:4]]), rng.normal(size=(len(ball) + 4, 1)))
    assert not made.prior_parts.is_observed(box).any()
    assert made.conditioned(seen).prior_parts.is_observed(box).all()


def test_a_fit_is_free_of_bodies_without_observations():
    operator = bodies()
    alone = LaplaceOperator.from_trimesh(trimesh.creation.icosphere(subdivisions=1), max_edge=0.6)
    rng = np.random.default_rng(1)
    points = places(alone, 60, 0)
    positions = location_positions(points, alone.positions)
    y = np.sin(2 * positions[:, :1]) + 0.1 * rng.normal(size=(60, 1))
    kept = WhittleMatern(1.1, 2)  # its mean variance is one over all bodies
    found = [
        fit_precise(
            FieldCovariance(own), FieldKernel(kept), Data.of(own.project(positions).points, y)
        )
        for own in (alone, operator)
    ]
    assert found[0][1].value == pytest.approx(found[1][1].value, abs=2e-3)


# Free kernels, and the parameters that are kept.
FREE = {
    "surface": (BOX, FieldKernel(WhittleMatern()), 120),
    "range kept": (BOX, FieldKernel(WhittleMatern(0.9)), 60),
    "sum": (BOX, FieldKernel(WhittleMatern(), PositionKernel()), 120),
    "share and lengthscale kept": (
        BOX, FieldKernel(WhittleMatern(), PositionKernel("gaussian", 0.7), 0.4), 60,
    ),
    "network": (ROADS, FieldKernel(WhittleMatern()), 60),
    "network and position": (ROADS, FieldKernel(WhittleMatern(alpha=1), POSITION), 60),
}  # fmt: skip


@pytest.mark.parametrize("name", FREE)
def test_fits(name):
    operator, free, n = FREE[name]
    seen, lines = data(operator, n, 9), []
    settings = {"n_frequencies": 12, "seed": 4}
    with watched(lines.append):
        made, search = fit_precise(FieldCovariance(operator), free, seen, **settings)
    assert search.converged
    assert search.n_evaluations == len(lines) <= 90  # none of them has failed
    again, _ = fit_precise(FieldCovariance(operator), free, seen, **settings)
    assert again.hyperparameters == made.hyperparameters
    assert again.log_evidence == made.log_evidence
    kernel = made.hyperparameters.kernel
    assert kernel.surface.alpha in ((1, 2) if operator is ROADS else (2,))
    own_scale, kept_scale = (k.position and k.position.lengthscale for k in (kernel, free))
    assert free.surface.range_ in (None, kernel.surface.range_)
    found_kappa = np.exp(search.point.scales.kappa)
    assert kernel.surface.kappa(operator.dimension) == pytest.approx(found_kappa)
    assert free.share in (None, kernel.share)
    assert kept_scale in (None, own_scale)
    # The amplitude is the best one: the evidence falls for others, with all ratios kept.
    hyper = made.hyperparameters
    for factor in (0.7, 1.4):
        scaled = FieldHyperparameters(
            kernel, factor * hyper.outputscale, factor * hyper.noise, hyper.mean_variance
        )
        parts = made.prior_parts
        changed = replace(parts, field_prior=FieldPrior(parts.field_prior.fields, scaled))
        other = PreciseFieldGP.given(changed, seen, made.units, True)
        assert other.log_evidence < made.log_evidence


@pytest.mark.long
def test_a_quadrature_rule_is_as_good_as_exact_where_lengthscales_are_long():
    sphere = LaplaceOperator.from_trimesh(trimesh.creation.icosphere(subdivisions=2))
    points, further = places(sphere, 150, 1), places(sphere, 20, 2)
    x = location_positions(points, sphere.positions)
    y = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.05 * np.random.default_rng(0).normal(size=150)
    free = FieldKernel(WhittleMatern(), PositionKernel())
    gaps = {}
    for coupling in ("quadrature", "orthogonal"):
        kernel = FieldKernel(free.surface, PositionKernel("gaussian", 1.2), None)
        made, _ = fit_precise(
            FieldCovariance(sphere), kernel, Data.of(points, y[:, None]), coupling=coupling
        )
        laws = [own.law(further, "variance", latent=True) for own in (made, made.exact())]
        gaps[coupling] = np.abs(laws[0].mean - laws[1].mean) / np.sqrt(laws[1].spread)
    assert gaps["quadrature"].max() < 0.01 * gaps["orthogonal"].max()
    found, _ = fit_precise(FieldCovariance(sphere), free, Data.of(points, y[:, None]))
    assert found.hyperparameters.kernel.position.kernel == "gaussian"


def test_lengths_over_nine_decades_leave_the_alpha_that_is_exact():
    rng = np.random.default_rng(0)
    ends = rng.integers(400, size=(2, 700))
    operator = LaplaceOperator.from_edges(*ends, 10 ** rng.uniform(-6, 3, 700))
    seen = Data.of(places(operator, 200, 0), rng.normal(size=(200, 1)))
    with pytest.raises(NumericalError, match="ten orders of magnitude"):
        fit_precise(FieldCovariance(operator), FieldKernel(WhittleMatern(alpha=2)), seen)
    made, search = fit_precise(FieldCovariance(operator), FieldKernel(WhittleMatern()), seen)
    assert made.hyperparameters.kernel.surface.alpha == 1
    assert search.converged


def test_the_noise_is_found():
    rng = np.random.default_rng(0)
    sphere = LaplaceOperator.from_trimesh(trimesh.creation.icosphere(subdivisions=3))
    points = places(sphere, 500, 1)
    fields = FieldCovariance(sphere)
    true = FieldKernel(WhittleMatern(0.9, 2))
    f = fields.sample(true, points, 1, rng, 1)
    y = 7.0 + f + 0.1 * rng.normal(size=f.shape)
    made, _ = fit_precise(fields, FieldKernel(WhittleMatern()), Data.of(points, y))
    summary = made.summary()
    assert 0.08 < np.sqrt(summary["noise"][0]) < 0.12
    assert 0.6 < summary["kernel"].surface.range_ < 1.4
    assert 0.4 < summary["outputscale"][0] < 2.5
    left = made.left_out_law(np.arange(500))
    assert 0.8 < np.mean((left.mean - y) ** 2 / left.spread) < 1.25


def test_constant_targets_are_not_searched():
    for name in ("surface", "sum"):
        operator, free, _ = FREE[name]
        seen = Data.of(places(operator, 30, 0), np.full((30, 1), 3.0))
        made, search = fit_precise(FieldCovariance(operator), free, seen, n_frequencies=6)
        assert search.n_evaluations == 0
        np.testing.assert_allclose(made.law(places(operator, 5, 1), "mean").mean, 3.0)


def test_a_search_that_is_cut_short_warns():
    operator, free, n = FREE["surface"]
    with pytest.warns(ConvergenceWarning, match="stopped after 1 iterations"):
        fit_precise(FieldCovariance(operator), free, data(operator, n, 9), max_iterations=1)


def test_what_has_no_sparse_precision_is_refused():
    fields, seen = FieldCovariance(BOX), data(BOX, 30, 0)
    with pytest.raises(InvalidInputError, match="alpha: expected 2"):
        fit_precise(fields, FieldKernel(WhittleMatern(alpha=4)), seen)
    with pytest.raises(InvalidInputError, match="along the surface"):
        fit_precise(fields, FieldKernel(None, PositionKernel()), seen)


def test_files_name_the_process():
    made = process("sum")
    restored = decoded(encoded(made), PreciseFieldGP)
    assert restored.log_evidence == made.log_evidence


def test_a_factor_that_does_not_fit_is_refused(monkeypatch):
    made = process("sum")
    monkeypatch.setattr("coupledgp.ground.memory.available_bytes", lambda: 1e4)
    monkeypatch.setattr("coupledgp.ground.memory.UNASKED", 0)
    with pytest.raises(MemoryLimitError, match="use a coarser mesh"):
        made.conditioned(made.data)
    with pytest.raises(MemoryLimitError, match="joint law of 7 places"):
        made.law(places(BOX, 7, 0), "covariance")
    assert isinstance(made, PreciseFieldGP)
