"""Fields of parts with creases: when the cut is taken, places of either mesh, files, refusals."""

import numpy as np
import pytest
import trimesh

import coupledgp as cgp
from coupledgp.errors import InvalidInputError
from coupledgp.fields.routes import (
    LEAST_GAIN,
    log_evidence,
    separating_cut,
)
from coupledgp.model_files import load_model, save_model

BOX = trimesh.creation.box((4.0, 2.0, 1.0))
WHOLE = cgp.LaplaceOperator.from_trimesh(BOX, max_edge=0.4)
LEVELS = np.array([3.0, -1.0, 0.5, 2.0, -2.5, 1.0])
KERNEL = cgp.kernels.WhittleMatern(alpha=2)
NOISE = 0.02


def sides(faces):
    """The side, 0 to 5, of faces of the box."""
    normals = BOX.face_normals[faces]
    return 2 * np.abs(normals).argmax(axis=1) + (normals.sum(axis=1) > 0)


def drawn(n, seed, level=True):
    """Places, and a level of each side or a function of position."""
    X, face = trimesh.sample.sample_surface(BOX, n, seed=seed)
    return X, LEVELS[sides(face)] if level else np.sin(X[:, 0]) + X[:, 1]


def seen(level=True):
    X, truth = drawn(50, 0, level)
    return X, truth + NOISE * np.random.default_rng(0).normal(size=50)


@pytest.fixture(scope="module")
def fitted():
    return cgp.FieldGPRegressor(WHOLE, KERNEL).fit(*seen())


def test_levels_of_sides_take_the_cut_and_are_found(fitted):
    assert fitted.operator_.copies is not None
    assert "the surface is cut at creases: to cut it changes" in fitted.selection_.explain()
    X, truth = drawn(300, 1)
    mean, std = fitted.predict(X, return_std=True, latent=True)
    ignored = cgp.FieldGPRegressor(WHOLE, KERNEL, creases="ignored").fit(*seen())
    assert ignored.operator_ is WHOLE
    assert "creases" not in ignored.selection_.explain()
    error, before = (np.sqrt(np.mean((m - truth) ** 2)) for m in (mean, ignored.predict(X)))
    assert error < 0.3 * before
    assert np.mean(np.abs(truth - mean) < 1.96 * std) > 0.88


def test_the_cut_fit_is_that_of_the_cut_operator(fitted):
    """All rows find the kernel, although some sides have fewer than eight places."""
    given = cgp.FieldGPRegressor(WHOLE.with_creases(), KERNEL).fit(*seen())
    X, _ = drawn(40, 2)
    for found, other in zip(
        fitted.predict(X, return_std=True), given.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_allclose(found, other, rtol=1e-9, atol=1e-9)


def test_fields_of_position_keep_the_whole_mesh():
    X, y = seen(level=False)
    gp = cgp.FieldGPRegressor(WHOLE, KERNEL).fit(X, y)
    assert gp.operator_ is WHOLE
    assert "the surface is whole at creases: to cut it changes" in gp.selection_.explain()
    ignored = cgp.FieldGPRegressor(WHOLE, KERNEL, creases="ignored").fit(X, y)
    np.testing.assert_array_equal(gp.predict(X), ignored.predict(X))


def test_the_gain_is_the_difference_of_the_evidence_of_two_fits(fitted):
    given = cgp.FieldGPRegressor(WHOLE.with_creases(), KERNEL).fit(*seen())
    ignored = cgp.FieldGPRegressor(WHOLE, KERNEL, creases="ignored").fit(*seen())
    gain = given.selection_.families[0].log_evidence - ignored.selection_.families[0].log_evidence
    assert gain > LEAST_GAIN
    assert f"{gain:+.2f}" in fitted.selection_.reason
    assert log_evidence(given.selection_) - log_evidence(ignored.selection_) == pytest.approx(gain)


def test_places_of_the_whole_mesh_and_positions_have_one_answer(fitted):
    X, _ = drawn(40, 3)
    by_position = fitted.predict(X)
    np.testing.assert_array_equal(fitted.predict(WHOLE.project(X)), by_position)
    np.testing.assert_array_equal(fitted.predict(fitted.operator_.project(X)), by_position)
    at_faces = fitted.predict(WHOLE.at_faces())
    np.testing.assert_array_equal(at_faces, fitted.predict(fitted.operator_.at_faces()))
    assert np.abs(at_faces - LEVELS[sides(np.arange(12))]).max() < 0.2
    corners = LEVELS.reshape(3, 2)  # a corner of the box has the mean of its three sides
    upper = (BOX.vertices > 0).astype(int)
    means = corners[np.arange(3), upper].mean(axis=1)
    np.testing.assert_allclose(fitted.predict(), means, atol=0.2)
    np.testing.assert_allclose(fitted.predict(BOX.vertices), fitted.predict(), rtol=1e-6)


def test_a_file_and_further_data_hold_the_cut(fitted, tmp_path):
    path = tmp_path / "field.npz"
    save_model(fitted, path)
    again, other = load_model(path), load_model(path)
    X, y = drawn(30, 4)
    np.testing.assert_array_equal(again.operator_.copies, fitted.operator_.copies)
    np.testing.assert_allclose(again.predict(WHOLE.project(X)), fitted.predict(X), rtol=1e-10)
    assert again.selection_.reason == fitted.selection_.reason
    before = again.predict(X, return_std=True)[1]
    again.partial_fit(WHOLE.project(X), y)
    other.partial_fit(X, y)
    np.testing.assert_array_equal(again.predict(X), other.predict(X))
    assert (again.predict(X, return_std=True)[1] < before).all()


def test_the_precision_route_compares_too():
    gp = cgp.FieldGPRegressor(WHOLE, KERNEL, route="precision", random_state=0).fit(*seen())
    assert gp.operator_.copies is not None
    X, truth = drawn(100, 5)
    assert np.sqrt(np.mean((gp.predict(X) - truth) ** 2)) < 0.3


def test_cuts_are_tried_of_patches_of_a_sensible_size_alone():
    X, _ = drawn(50, 0)
    points = WHOLE.project(X).points
    assert separating_cut(WHOLE, points).components()[0] == 6
    assert separating_cut(WHOLE, points[:12]) is not None
    assert separating_cut(WHOLE, points[:11]) is None  # fewer than two places for each
    assert separating_cut(WHOLE.with_creases(), points) is None
    ball = cgp.LaplaceOperator.from_trimesh(trimesh.creation.icosphere(subdivisions=2))
    assert separating_cut(ball, ball.at_faces().points) is None
    prism = trimesh.creation.cylinder(1.0, 1.0, sections=8)  # ten patches
    many = cgp.LaplaceOperator.from_trimesh(prism, max_edge=0.3)
    assert separating_cut(many, many.at_faces().points) is not None
    roads = cgp.LaplaceOperator.from_edges(["a"], ["b"], [1.0], max_edge=0.1)
    assert separating_cut(roads, roads.at_edges([0], [0.5]).points) is None
    small = trimesh.util.concatenate(
        [trimesh.creation.box((0.2,) * 3).apply_translation([2.0 * k, 0, 0]) for k in range(20)]
    )
    dice = cgp.LaplaceOperator.from_trimesh(small)  # each side is less than 1 % of the area
    assert separating_cut(dice, dice.at_faces().points) is None


def test_an_unknown_choice_is_refused():
    with pytest.raises(InvalidInputError, match="creases"):
        cgp.FieldGPRegressor(WHOLE, KERNEL, creases="never").fit(*seen())
