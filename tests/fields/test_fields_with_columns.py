"""Fields that depend on normals, thickness or lanes: what columns gain, files, and both routes."""

import numpy as np
import pytest
import trimesh
from scipy.spatial.distance import cdist

import coupledgp as cgp
from coupledgp.errors import InvalidInputError
from coupledgp.fields.covariance import FieldCovariance
from coupledgp.fields.grid import COLUMN_SHARES, ColumnGrid
from coupledgp.kernels.fields import FieldKernel, PositionKernel, WhittleMatern
from coupledgp.model_files import load_model, save_model

PLATE = trimesh.creation.box((4.0, 3.0, 0.05))
OPERATOR = cgp.LaplaceOperator.from_trimesh(PLATE, max_edge=0.4)
NOISE = 0.02


def two_sided(X, normals):
    """A field that differs between the two sides of a thin plate."""
    return np.sin(X[:, 0]) + np.sign(normals[:, 2]) * np.cos(X[:, 1])


def drawn(n, seed):
    X, face = trimesh.sample.sample_surface(PLATE, n, seed=seed)
    return X, two_sided(X, PLATE.face_normals[face])


def seen(n=60, seed=0):
    X, truth = drawn(n, seed)
    return X, truth + NOISE * np.random.default_rng(seed).normal(size=n)


@pytest.fixture(scope="module")
def fitted():
    return cgp.FieldGPRegressor(OPERATOR).fit(*seen())


def test_the_covariance_is_that_of_positions_and_columns_side_by_side():
    X, face = trimesh.sample.sample_surface(PLATE, 30, seed=1)
    points = OPERATOR.project(X).points
    kernel = FieldKernel(None, PositionKernel("gaussian", 0.7, columns=(0.4,)))
    deviation = OPERATOR.column_scales[0]
    places = np.hstack([X, 0.4 * PLATE.face_normals[face] / deviation]) / 0.7
    expected = np.exp(-0.5 * cdist(places, places, "sqeuclidean"))
    found = FieldCovariance(OPERATOR).gram(kernel, points)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_a_field_that_differs_between_two_sides_is_found(fitted):
    X, truth = drawn(400, 100)
    mean, std = fitted.predict(X, return_std=True, latent=True)
    blind = cgp.FieldGPRegressor(OPERATOR, "position").fit(*seen())
    guesses = mean, blind.predict(X)
    error, error_of_blind = (np.sqrt(np.mean((m - truth) ** 2)) for m in guesses)
    assert error < 0.5 * error_of_blind
    assert np.mean(np.abs(truth - mean) < 1.96 * std) > 0.88
    assert "columns as lengths" in fitted.selection_.explain()
    assert fitted.column_shares_["normal"] > 0.2
    assert blind.column_shares_["normal"] == 0.0


@pytest.mark.long
def test_a_field_of_position_alone_is_as_good_as_without_columns():
    X, _ = trimesh.sample.sample_surface(PLATE, 50, seed=2)
    y = X[:, 0] + np.sin(X[:, 1]) + NOISE * np.random.default_rng(2).normal(size=50)
    test, _ = trimesh.sample.sample_surface(PLATE, 300, seed=3)
    truth = test[:, 0] + np.sin(test[:, 1])
    found = cgp.FieldGPRegressor(OPERATOR).fit(X, y).predict(test)
    plain = cgp.FieldGPRegressor(OPERATOR, "position").fit(X, y).predict(test)
    error, of_plain = (np.sqrt(np.mean((m - truth) ** 2)) for m in (found, plain))
    assert error < 1.3 * of_plain + 0.2 * NOISE


def test_a_file_holds_columns_and_kernels(fitted, tmp_path):
    operator = OPERATOR.with_columns({"layer": np.arange(12) % 3}, "elements")
    gp = cgp.FieldGPRegressor(operator, PositionKernel(columns=None)).fit(*seen())
    for model in (fitted, gp):
        save_model(model, tmp_path / "model.npz")
        again = load_model(tmp_path / "model.npz")
        X, _ = drawn(20, 5)
        np.testing.assert_allclose(again.predict(X), model.predict(X), rtol=1e-9)
        assert again.kernels_ == model.kernels_
        assert again.operator_.place_columns.names == model.operator_.place_columns.names


@pytest.mark.long
def test_many_sensors_take_columns_on_the_precision_route():
    kernel = WhittleMatern(alpha=2) + PositionKernel("gaussian", columns=None)
    gp = cgp.FieldGPRegressor(OPERATOR, kernel, random_state=0, route="precision")
    gp.fit(*seen(80))
    assert gp.kernel_.position.has_columns
    X, truth = drawn(300, 100)
    plain = cgp.FieldGPRegressor(
        OPERATOR, WhittleMatern(alpha=2) + PositionKernel("gaussian"), random_state=0,
        route="precision", creases="ignored",
    ).fit(*seen(80))  # fmt: skip
    errors = [np.sqrt(np.mean((own.predict(X) - truth) ** 2)) for own in (gp, plain)]
    assert errors[0] < 0.7 * errors[1]


def test_a_network_s_columns_separate_fast_from_slow_roads():
    rng = np.random.default_rng(0)
    n = 60
    sources, targets = np.arange(n), (np.arange(n) + 1) % n
    lanes = rng.integers(1, 4, n).astype(float)
    roads = cgp.LaplaceOperator.from_edges(sources, targets, np.full(n, 100.0), max_edge=20.0)
    with_lanes = roads.with_columns({"lanes": lanes}, "elements")
    middle, offset = np.arange(0, n, 2), np.full(n // 2, 50.0)
    y = 30 * lanes[middle] + rng.normal(size=n // 2)
    hidden = roads.at_edges(np.arange(1, n, 2), offset)
    truth = 30 * lanes[1::2]
    errors = []
    for operator in (with_lanes, roads):
        gp = cgp.FieldGPRegressor(operator).fit(operator.at_edges(middle, offset), y)
        errors.append(np.sqrt(np.mean((gp.predict(hidden) - truth) ** 2)))
    assert errors[0] < 0.3 * errors[1]


def test_kernels_of_other_columns_are_refused():
    with pytest.raises(InvalidInputError, match="columns: expected a length of each of the"):
        cgp.FieldGPRegressor(OPERATOR, PositionKernel("gaussian", 1.0, (0.1, 0.2))).fit(*seen())
    with pytest.raises(InvalidInputError, match="columns: expected a finite number > 0"):
        PositionKernel("gaussian", 1.0, (-0.1,))


def test_the_search_finds_the_best_of_the_whole_grid_where_columns_act_alone():
    grid = ColumnGrid(("gaussian", "matern-5/2"), (0.1, 0.2, 0.4, 0.8), 2)

    def value(kernel):  # best at one kernel of the grid, and separable
        logs = np.log([kernel.lengthscale / 0.4, *(c / kernel.lengthscale + 0.1
                       for c in kernel.columns)])  # fmt: skip
        target = np.log([1.0, 2.1, 0.1])
        return -float(np.sum((logs - target) ** 2)) - (kernel.kernel == "matern-5/2")

    tried = grid.around(value)
    assert len(tried) < grid.size / 5 == 2 * 4 * len(COLUMN_SHARES) ** 2 / 5
    best = max(tried, key=value)
    assert (best.kernel, best.lengthscale) == ("gaussian", 0.4)
    np.testing.assert_allclose(best.columns, (0.8, 0.0))
