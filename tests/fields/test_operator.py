"""Stiffness and mass: identities, spectra in closed form, and meshes as they come."""

from __future__ import annotations

import numpy as np
import pytest
import trimesh
from scipy import linalg, sparse
from scipy.sparse.linalg import eigsh
from scipy.spatial import Delaunay

import coupledgp as cgp
from coupledgp.errors import InvalidInputError
from coupledgp.fields import meshes as cotangents
from coupledgp.fields.locations import location_positions, location_rows
from coupledgp.fields.meshes import area
from coupledgp.ground.codec import decoded, encoded
from tests.fields.shapes import plain, slivers, soup, three_pages, town


def uneven() -> trimesh.Trimesh:
    """A closed surface without ties: one intrinsic Delaunay triangulation, thin triangles."""
    mesh = trimesh.creation.icosphere(subdivisions=2)
    mesh.vertices += 0.03 * np.random.default_rng(5).standard_normal(mesh.vertices.shape)
    mesh.vertices *= [1.0, 0.4, 0.08]
    return mesh


MESHES = {
    "uneven": uneven,
    "box": trimesh.creation.box,
    "sphere": lambda: trimesh.creation.icosphere(subdivisions=2),
    "slivers": slivers,
    "pages": three_pages,
    "open": lambda: trimesh.creation.icosphere(subdivisions=2).slice_plane([0, 0, 0.1], [0, 0, 1]),
}


def dense(operator):
    return operator.stiffness.toarray()


@pytest.mark.parametrize("max_edge", [None, "auto"])
@pytest.mark.parametrize("name", MESHES)
def test_stiffness_and_mass_of_meshes(name, max_edge):
    mesh = MESHES[name]()
    operator = cgp.LaplaceOperator.from_trimesh(mesh, max_edge)
    S = operator.stiffness
    assert (S != S.T).nnz == 0
    off = S.tocoo()
    assert (off.data[off.row != off.col] < 0).all()
    assert np.abs(S.sum(axis=1)).max() <= 1e-13 * S.diagonal().max()
    assert linalg.eigvalsh(S.toarray()[:300, :300])[0] >= -1e-10 * S.diagonal().max()
    assert (operator.mass > 0).all()
    assert operator.measure == pytest.approx(mesh.area, rel=1e-4)
    assert operator.components()[0] == 1
    assert operator.dimension == 2
    assert operator.diameter == pytest.approx(float(mesh.scale))


@pytest.mark.parametrize(("subdivisions", "error"), [(3, 0.047), (4, 0.012)])
def test_eigenvalues_of_the_sphere(subdivisions, error):
    operator = cgp.LaplaceOperator.from_trimesh(
        trimesh.creation.icosphere(subdivisions=subdivisions)
    )
    M = sparse.diags_array(operator.mass, format="csc")
    # More vectors and pairs than are wanted: few of them may miss one of a multiple eigenvalue.
    start = np.random.default_rng(0).normal(size=operator.n_vertices)
    pairs = eigsh(operator.stiffness.tocsc(), 50, M, sigma=-1.0, ncv=150, v0=start)
    found = np.sort(pairs[0])[:36]
    expected = np.repeat([k * (k + 1.0) for k in range(6)], [2 * k + 1 for k in range(6)])
    assert abs(found[0]) < 1e-10
    np.testing.assert_allclose(found[1:], expected[1:], rtol=error)


def test_linear_functions_have_their_energy_and_mean():
    # On a flat square |grad(2x + 3y)|^2 = 13 whatever the triangles within.
    edge = np.linspace(0, 1, 9)
    side = [[x, y, 0] for t in edge[:-1] for x, y in ((t, 0), (1, t), (1 - t, 1), (0, 1 - t))]
    inner = np.random.default_rng(0).uniform(0.12, 0.88, (60, 2))
    vertices = np.vstack([side, np.hstack([inner, np.zeros((60, 1))])])
    operator = cgp.LaplaceOperator.from_trimesh(
        plain(vertices, Delaunay(vertices[:, :2]).simplices)
    )
    f = operator.positions @ [2.0, 3.0, 0.0]
    assert f @ operator.stiffness @ f == pytest.approx(13.0, rel=1e-10)
    assert operator.mass @ f == pytest.approx(2.5, rel=1e-12)


@pytest.mark.parametrize("scale", [1e-9, 1e-6, 1.0, 1e3, 1e9])
def test_units_change_the_unit_alone(scale):
    mesh = uneven()
    operator = cgp.LaplaceOperator.from_trimesh(mesh, 0.3)
    other = cgp.LaplaceOperator.from_trimesh(plain(mesh.vertices * scale, mesh.faces), 0.3 * scale)
    np.testing.assert_allclose(other.mass, operator.mass * scale**2, rtol=1e-6)
    difference = dense(other) - dense(operator)
    assert np.abs(difference).max() <= 1e-6 * np.abs(dense(operator)).max()


def test_place_and_direction_change_nothing():
    mesh = uneven()
    operator = cgp.LaplaceOperator.from_trimesh(mesh)
    turn = trimesh.transformations.rotation_matrix(0.7, [0.3, 0.4, 0.8])
    moved = mesh.copy()
    moved.apply_transform(turn)
    moved = plain(moved.vertices + np.array([2.0**20, -(2.0**21), 2.0**19]), moved.faces)
    other = cgp.LaplaceOperator.from_trimesh(moved)
    np.testing.assert_allclose(dense(other), dense(operator), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(other.mass, operator.mass, rtol=1e-6)


def test_the_order_of_vertices_and_faces_changes_nothing():
    mesh = uneven()
    operator = cgp.LaplaceOperator.from_trimesh(mesh)
    rng = np.random.default_rng(3)
    order = rng.permutation(len(mesh.vertices))
    place = np.argsort(order)
    faces = place[mesh.faces][rng.permutation(len(mesh.faces))]
    other = cgp.LaplaceOperator.from_trimesh(plain(mesh.vertices[order], faces))
    assert (
        np.abs(dense(other) - dense(operator)[order][:, order]).max()
        <= 1e-6 * np.abs(dense(operator)).max()
    )
    np.testing.assert_allclose(other.mass, operator.mass[order], rtol=1e-6)


def test_two_bodies_are_independent():
    a, b = MESHES["box"](), MESHES["sphere"]()
    both = trimesh.util.concatenate([a, b.apply_translation([5, 0, 0])])
    operator = cgp.LaplaceOperator.from_trimesh(both)
    count, member = operator.components()
    assert count == 2
    assert not operator.stiffness[member == 0][:, member == 1].nnz
    alone = dense(cgp.LaplaceOperator.from_trimesh(b))
    np.testing.assert_allclose(dense(operator)[8:, 8:], alone, rtol=1e-5, atol=1e-6)


def test_corners_of_their_own_are_welded():
    mesh = MESHES["sphere"]()
    operator = cgp.LaplaceOperator.from_trimesh(mesh, 0.4)
    other = cgp.LaplaceOperator.from_trimesh(soup(mesh), 0.4)
    assert other.n_given == 3 * len(mesh.faces)
    assert other.n_vertices == operator.n_vertices
    assert other.measure == pytest.approx(operator.measure)
    places = location_positions(other.at_vertices().points, other.positions)
    np.testing.assert_array_equal(places, mesh.vertices[mesh.faces].reshape(-1, 3))
    # Vertices at the same place are the same vertex.
    rows = location_rows(other.at_vertices().points, other.n_vertices)
    assert np.unique(rows.indices).size == len(mesh.vertices)


def test_faces_that_say_nothing_have_no_effect():
    mesh = MESHES["box"]()
    n = len(mesh.vertices)
    extra = [[0, 0, 1], [3, 3, 3], [n, n, 2], mesh.faces[0].tolist(), mesh.faces[5][::-1].tolist()]
    vertices = np.vstack([mesh.vertices, [[0.5, 0.5, 3.0], [np.nan, 0, 0]]])
    hostile = plain(vertices, np.vstack([extra, mesh.faces]))
    operator = cgp.LaplaceOperator.from_trimesh(mesh, 0.5)
    other = cgp.LaplaceOperator.from_trimesh(hostile, 0.5)
    assert other.n_vertices == operator.n_vertices
    assert other.diameter == operator.diameter
    assert other.measure == pytest.approx(operator.measure)
    np.testing.assert_array_equal(other.at_vertices(range(n)).points[:, 0], range(n))
    with pytest.raises(InvalidInputError, match=r"nodes: expected nodes of faces, got 8, .*2 such"):
        other.at_vertices()
    centroids = location_positions(other.at_faces().points, other.positions)
    np.testing.assert_allclose(centroids[5:], mesh.triangles_center, atol=1e-14)
    np.testing.assert_allclose(centroids[3], mesh.triangles_center[0], atol=1e-14)
    assert np.isfinite(centroids).all()


def test_a_cap_without_area_keeps_its_neighbours_together():
    # A vertex amid the side of a face: the face of no area between them is all that links them.
    vertices = [[0, 0, 0], [2, 0, 0], [1, 1, 0], [1, 0, 0], [1, -1, 0]]
    faces = [[0, 1, 2], [0, 3, 1], [0, 4, 3], [3, 4, 1]]
    operator = cgp.LaplaceOperator.from_trimesh(plain(vertices, faces))
    assert operator.components()[0] == 1
    assert operator.measure == pytest.approx(2.0, rel=1e-2)
    f = np.array(vertices) @ [1.0, 0.0, 0.0]
    assert f @ operator.stiffness @ f == pytest.approx(2.0, rel=1e-2)


BAD_MESHES = {
    "vertices": (np.zeros((4, 2)), [[0, 1, 2]], r"vertices of shape \(v, 3\)"),
    "no faces": (np.eye(3), np.empty((0, 3), int), "expected triangles"),
    "quadrilaterals": (np.eye(4, 3), [[0, 1, 2, 3]], "expected triangles"),
    "range": (np.eye(3), [[0, 1, 3]], r"from 0 to 2 in its faces, got \[0, 1, 3\] in face 0"),
    "negative": (np.eye(3), [[0, 1, -1]], "from 0 to 2"),
    "nan": ([[0, 0, 0], [1, 0, 0], [0, np.nan, 0]], [[0, 1, 2]], "finite positions"),
    "inf": ([[0, 0, 0], [1, 0, 0], [0, np.inf, 0]], [[0, 1, 2]], "finite positions"),
    "floats": (np.eye(3), [[0.0, 1.0, 2.0]], "faces of integers"),
    "point": (np.zeros((3, 3)), [[0, 1, 2]], "three different corners"),
    "line": (np.outer([0.0, 1.0, 2.0], [1, 1, 1]), [[0, 1, 2]], "with an area"),
    "far line": ([[0, 5, 0], [1, 6, 1], [2, 7, 2]], [[0, 1, 2]], "with an area"),
}


@pytest.mark.parametrize("case", BAD_MESHES)
def test_bad_meshes_are_refused(case):
    vertices, faces, message = BAD_MESHES[case]
    with pytest.raises(InvalidInputError, match=f"mesh: .*{message}"):
        cgp.LaplaceOperator.from_trimesh(plain(vertices, faces))


def test_an_area_is_that_of_all_triangles_anywhere():
    mesh = uneven()
    mesh.vertices += [3.0, -2.0, 1.0]
    assert area(mesh.vertices, mesh.faces) == pytest.approx(mesh.area, rel=1e-12)


def test_what_is_no_mesh_is_refused():
    with pytest.raises(InvalidInputError, match="mesh: expected a trimesh"):
        cgp.LaplaceOperator.from_trimesh(trimesh.Scene())


def test_plain_cotangents_without_the_library(monkeypatch):
    mesh = MESHES["sphere"]()
    operator = cgp.LaplaceOperator.from_trimesh(mesh)
    monkeypatch.setattr(cotangents, "robust_laplacian", lambda: None)
    other = cgp.LaplaceOperator.from_trimesh(mesh)  # Delaunay as it is
    np.testing.assert_allclose(dense(other), dense(operator), atol=1e-10)
    np.testing.assert_allclose(other.mass, operator.mass)
    with pytest.warns(UserWarning, match="robust_laplacian is not installed, and .*% of the edges"):
        sliver = cgp.LaplaceOperator.from_trimesh(slivers())
    off = sliver.stiffness.tocoo()
    assert (off.data[off.row != off.col] < 0).all()


def test_state_and_copies():
    for operator in (
        cgp.LaplaceOperator.from_trimesh(soup(MESHES["sphere"]()), 0.5),
        cgp.LaplaceOperator.from_edges(*town()[:3], positions=town()[3], max_edge=0.7),
    ):
        other = decoded(encoded(operator), cgp.LaplaceOperator)
        np.testing.assert_array_equal(dense(other), dense(operator))
        for name in ("mass", "elements", "parents", "given_lengths", "positions"):
            np.testing.assert_array_equal(getattr(other, name), getattr(operator, name))
        assert repr(other) == repr(operator)
        with pytest.raises(ValueError, match="read-only"):
            operator.mass[0] = 1.0
