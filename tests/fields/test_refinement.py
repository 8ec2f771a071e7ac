"""Refinement keeps meshes conforming; every part knows its given face."""

from __future__ import annotations

import numpy as np
import pytest
import trimesh

import coupledgp as cgp
from coupledgp.errors import InvalidInputError
from coupledgp.fields.meshes import refine
from tests.fields.shapes import plain, slivers, three_pages

SHAPES = {
    "box": (lambda: trimesh.creation.box(extents=[3, 1, 0.2]), 0.17),
    "slivers": (slivers, 0.11),
    "torus": (lambda: trimesh.creation.torus(1.0, 0.3, major_sections=9, minor_sections=5), 0.1),
    "pages": (three_pages, 0.2),
    "cylinder": (lambda: trimesh.creation.cylinder(1.0, 6.0, sections=30), 0.4),
}


@pytest.mark.parametrize("name", SHAPES)
def test_refinement_is_conforming(name):
    make, max_edge = SHAPES[name]
    mesh = make()
    refined = refine(np.asarray(mesh.vertices), np.asarray(mesh.faces, dtype=np.int64), max_edge)
    after = trimesh.Trimesh(refined.positions, refined.faces, process=False)
    assert after.edges_unique_length.max() <= max_edge
    assert after.area == pytest.approx(mesh.area, rel=1e-12)
    assert after.euler_number == mesh.euler_number
    assert after.is_watertight == mesh.is_watertight
    assert after.is_winding_consistent == mesh.is_winding_consistent
    # Old vertices keep their numbers, and no two vertices have one position.
    np.testing.assert_array_equal(refined.positions[: len(mesh.vertices)], mesh.vertices)
    assert np.unique(refined.positions, axis=0).shape == refined.positions.shape
    # The parts of a face make up the face, and lie where their weights say.
    areas = np.bincount(refined.parents, after.area_faces, minlength=len(mesh.faces))
    np.testing.assert_allclose(areas, mesh.area_faces, rtol=1e-9, atol=1e-15)
    places = np.einsum("mck,mkd->mcd", refined.corners, mesh.triangles[refined.parents])
    np.testing.assert_allclose(places, after.triangles, atol=1e-13)


@pytest.mark.parametrize("n_long", [0, 1, 2, 3])
def test_split_edges_give_one_face_more_each(n_long):
    # Sides just below and above one: exactly n_long are split, once.
    sides = [1.01] * n_long + [0.99] * (3 - n_long)
    x = (sides[0] ** 2 + sides[2] ** 2 - sides[1] ** 2) / (2 * sides[0])
    corners = np.array([[0, 0, 0], [sides[0], 0, 0], [x, np.sqrt(sides[2] ** 2 - x**2), 0]])
    for turn in range(3):
        face = np.roll([[0, 1, 2]], turn, axis=1)
        refined = refine(corners, face, 1.0)
        assert refined.faces.shape[0] == n_long + 1
        sides_after = refined.positions[refined.faces]
        normals = np.cross(
            sides_after[:, 1] - sides_after[:, 0], sides_after[:, 2] - sides_after[:, 0]
        )
        assert (normals[:, 2] > 0).all()


@pytest.mark.parametrize(
    "corners", [[[0, 0], [1.3, 0], [0.4, 0.8]], [[0, 0], [1.2, 0], [-0.1, 0.8]]]
)
def test_the_quadrilateral_is_cut_by_its_shorter_diagonal(corners):
    # Edges 0-1 and 1-2 are split, at their midpoints 3 and 4 in the order of the edges.
    corners = np.hstack([corners, np.zeros((3, 1))])
    refined = refine(corners, np.array([[0, 1, 2]]), 1.1)
    assert refined.faces.shape[0] == 3
    place = refined.positions
    np.testing.assert_array_equal(place[3:], [place[:2].mean(axis=0), place[1:3].mean(axis=0)])
    shorter = (0, 4) if np.linalg.norm(place[4]) < np.linalg.norm(place[3] - place[2]) else (2, 3)
    assert sum(set(shorter) <= set(face) for face in refined.faces.tolist()) == 2


def test_auto_takes_the_diameter():
    mesh = trimesh.creation.box()
    operator = cgp.LaplaceOperator.from_trimesh(mesh, "auto")
    lengths = trimesh.Trimesh(operator.positions, operator.elements, process=False)
    assert operator.diameter / 50 < lengths.edges_unique_length.max() <= operator.diameter / 25


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (1e-4, r"max_edge: .*at most 2000000 vertices, got 0.0001, .*'auto'"),
        (0.0, "max_edge: expected a finite number > 0"),
        (np.nan, "max_edge: expected a finite number > 0"),
        ("fine", "max_edge: expected one of 'auto'"),
    ],
)
def test_bad_lengths_are_refused(value, message):
    with pytest.raises(InvalidInputError, match=message):
        cgp.LaplaceOperator.from_trimesh(trimesh.creation.box(), value)


def test_long_thin_faces_count_too():
    thin = plain([[0, 0, 0], [1, 0, 0], [0, 1e-9, 0]], [[0, 1, 2]])
    with pytest.raises(InvalidInputError, match="max_edge"):
        cgp.LaplaceOperator.from_trimesh(thin, 1e-7)
