"""Meshes cut at creases: patches as meshes of their own, links, places, errors."""

import numpy as np
import pytest
import trimesh

import coupledgp as cgp
from coupledgp.errors import InvalidInputError
from coupledgp.fields.covariance import FieldCovariance
from coupledgp.fields.locations import location_positions, location_rows
from coupledgp.kernels.fields import FieldKernel, WhittleMatern

BOX = trimesh.creation.box((4.0, 2.0, 1.0))
WHOLE = cgp.LaplaceOperator.from_trimesh(BOX, max_edge=0.5)
CUT = WHOLE.with_creases()


def matern(operator, kappa=1.3):
    """`P M P` of a dense P."""
    P = np.linalg.inv(kappa**2 * np.diag(operator.mass) + operator.stiffness.toarray())
    return P @ np.diag(operator.mass) @ P


def roof(angle):
    """Two squares of a side 1 that meet at the y axis, with the dihedral angle in degrees."""
    turn = np.radians(angle)
    V = [[-1, 0, 0], [-1, 1, 0], [0, 0, 0], [0, 1, 0]]
    V += [[np.cos(turn), y, np.sin(turn)] for y in (0, 1)]
    return np.array(V, dtype=float), np.array([[0, 2, 1], [1, 2, 3], [2, 4, 3], [3, 4, 5]])


def test_sides_of_a_box_are_independent_and_as_meshes_of_their_own():
    K = matern(CUT)
    count, member = CUT.components()
    assert count == 6
    assert np.abs(K[member[:, None] != member]).max() < 1e-13 * K.max()
    normals = BOX.face_normals[CUT.parents]
    for k in range(6):
        own = np.flatnonzero((member[CUT.elements] == k).all(axis=1))
        assert np.ptp(normals[own], axis=0).max() < 1e-12
        used = np.unique(CUT.elements[own])
        faces = np.searchsorted(used, CUT.elements[own])
        alone = cgp.LaplaceOperator.from_trimesh((CUT.positions[used], faces))
        np.testing.assert_allclose(K[np.ix_(used, used)], matern(alone), rtol=1e-9)


def test_the_covariance_of_a_fit_has_nothing_across_a_crease():
    X, face = trimesh.sample.sample_surface(BOX, 60, seed=0)
    points = CUT.placed(WHOLE.project(X).points)
    K = FieldCovariance(CUT).gram(FieldKernel(WhittleMatern(1.0, 2)), points)
    side = np.unique(BOX.face_normals.round(6), axis=0, return_inverse=True)[1].ravel()[face]
    assert np.abs(K[side[:, None] != side]).max() < 1e-12 * K.max()
    assert K[side[:, None] == side].min() > 0.0


def test_the_factor_one_is_the_operator_and_others_are_between():
    assert WHOLE.with_creases(factor=1.0) is WHOLE
    pair = np.ix_(*CUT.at_vertices([0]).points[:, [0, 1]].T.astype(int))
    correlations = []
    for factor in (0.0, 0.1, 0.9, 0.9999):
        operator = WHOLE.with_creases(factor=factor)
        S = operator.stiffness.toarray()
        np.testing.assert_array_equal(S, S.T)
        assert np.linalg.eigvalsh(S)[0] > -1e-10 * np.abs(S).max()
        np.testing.assert_allclose(S.sum(axis=1), 0.0, atol=1e-9 * np.abs(S).max())
        K = matern(operator)
        i, j = pair[0].item(), pair[1].item()
        correlations.append(K[i, j] / np.sqrt(K[i, i] * K[j, j]))
    assert abs(correlations[0]) < 1e-12
    assert correlations[0] < correlations[1] < correlations[2] < correlations[3]
    assert correlations[3] > 0.999
    J = (CUT.copies[:, None] == np.arange(WHOLE.n_vertices)).astype(float)
    S, mass = J.T @ CUT.stiffness @ J, J.T @ CUT.mass  # copies tied to each other
    P = np.linalg.inv(1.3**2 * np.diag(mass) + S)
    tied = J @ P @ np.diag(mass) @ P @ J.T
    np.testing.assert_allclose(matern(WHOLE.with_creases(factor=1 - 1e-7)), tied, rtol=1e-3)


def test_the_energy_of_a_jump_is_its_square_along_the_crease():
    whole = cgp.LaplaceOperator.from_trimesh(roof(60.0), max_edge=0.3)
    operator = whole.with_creases(factor=0.25)
    jump = np.where(whole.with_creases().components()[1] == 0, 0.0, 3.0)  # constant on each side
    energy = jump @ operator.stiffness @ jump
    expected = 0.25 / 0.75 / (whole.diameter / 25) * 1.0 * 3.0**2  # the crease has the length 1
    assert energy == pytest.approx(expected, rel=1e-9)


def test_angles_above_the_threshold_are_creases_however_faces_are_wound():
    V, F = roof(50.0)
    for faces in (F, np.vstack([F[:2], F[2:, ::-1]]), F[:, [1, 2, 0]]):
        whole = cgp.LaplaceOperator.from_trimesh((V, faces), max_edge=0.3)
        assert whole.with_creases(49.0).components()[0] == 2
        assert whole.with_creases(51.0) is whole
    ball = cgp.LaplaceOperator.from_trimesh(trimesh.creation.icosphere(subdivisions=2))
    assert ball.with_creases() is ball


def test_sheets_that_share_an_edge_are_joined_where_they_are_plane():
    V, F = roof(90.0)
    V = np.vstack([V, [[0, 0, -1], [0, 1, -1], [1, 0, 0], [1, 1, 0]]])
    F = np.vstack([F, [[2, 6, 3], [3, 6, 7], [2, 8, 3], [3, 8, 9]]])
    whole = cgp.LaplaceOperator.from_trimesh((V, F), max_edge=0.4)
    cut = whole.with_creases()
    count, member = cut.components()
    assert count == 2  # two planes that cross
    for axis in (0, 2):
        assert (np.abs(cut.positions[member == member[0], axis]).max() == 0.0) == (axis == 2)
    assert np.ptp(cut.positions[member != member[0], 2]) == 2.0


def test_places_of_the_whole_mesh_are_places_of_the_cut_one():
    X, face = trimesh.sample.sample_surface(BOX, 300, seed=1)
    points = WHOLE.project(X).points
    moved = CUT.placed(points)
    np.testing.assert_allclose(location_positions(moved, CUT.positions), X, atol=1e-12)
    normals = BOX.face_normals[face]
    values = CUT.column_values(moved) * CUT.column_scales[CUT.place_columns.owner]
    np.testing.assert_allclose(values, normals, atol=1e-12)
    turned = points[:, [2, 0, 1, 5, 3, 4]]
    rows = [location_rows(p, CUT.n_vertices).toarray() for p in (moved, CUT.placed(turned))]
    np.testing.assert_array_equal(*rows)
    for own in (moved, CUT.at_vertices().points, CUT.at_faces().points):
        np.testing.assert_array_equal(CUT.placed(own), own)
    np.testing.assert_array_equal(CUT.placed(WHOLE.at_faces().points), CUT.at_faces().points)
    assert WHOLE.placed(points) is points


def test_a_place_on_a_side_without_a_third_corner_is_on_one_triangle():
    a, b = WHOLE.elements[7, :2]
    place = np.array([[a, b, b, 0.25, 0.75, 0.0]])
    moved = CUT.placed(place)
    np.testing.assert_allclose(
        location_positions(moved, CUT.positions), location_positions(place, WHOLE.positions)
    )
    ends = moved[0, :3][moved[0, 3:] > 0].astype(int)
    assert np.unique(CUT.components()[1][ends]).size == 1


def test_a_vertex_on_creases_is_the_mean_of_its_copies():
    A = location_rows(CUT.at_vertices().points, CUT.n_vertices).toarray()
    corners = np.stack([CUT.copies == v for v in range(8)])
    np.testing.assert_allclose(A, corners / 3.0)
    at_corner = WHOLE.project(BOX.vertices).points  # rows of triangles, all weight at a corner
    np.testing.assert_allclose(location_rows(CUT.placed(at_corner), CUT.n_vertices).toarray(), A)


def test_bodies_do_not_count_creases_as_cuts():
    other = BOX.copy()
    other.apply_translation([9.0, 0.0, 0.0])
    whole = cgp.LaplaceOperator.from_trimesh(trimesh.util.concatenate([BOX, other]))
    cut = whole.with_creases()
    assert cut.components()[0] == 12
    np.testing.assert_array_equal(np.unique(cut.bodies()), [0, 1])
    np.testing.assert_array_equal(cut.bodies() == cut.bodies()[0], cut.positions[:, 0] < 4.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0,), "angle: expected"),
        ((180.0,), "angle: expected degrees above 0 and below 180"),
        ((40.0, -0.5), "factor: expected"),
        ((40.0, 1.5), "factor: expected a number from 0 to 1"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        WHOLE.with_creases(*arguments)


def test_networks_and_cut_meshes_are_refused():
    roads = cgp.LaplaceOperator.from_edges(["a", "b"], ["b", "c"], [1.0, 2.0])
    with pytest.raises(InvalidInputError, match="expected that of a whole mesh, got an operator"):
        roads.with_creases()
    with pytest.raises(InvalidInputError, match="expected that of a whole mesh, got one that is"):
        CUT.with_creases()
