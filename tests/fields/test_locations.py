"""Places: the nearest ones against plain searches, vertices, centroids, rows of the matrix."""

from __future__ import annotations

import numpy as np
import pytest
import trimesh

import coupledgp as cgp
from coupledgp.errors import InvalidInputError
from coupledgp.fields import locations as nearest
from coupledgp.fields.locations import location_positions, location_rows, place_numbers
from tests.fields.shapes import plain, slivers, three_pages, town

SHAPES = {
    "slivers": slivers,
    "pages": three_pages,
    "sphere": lambda: trimesh.creation.icosphere(subdivisions=2),
    "sizes": lambda: trimesh.util.concatenate(
        [
            trimesh.creation.box(extents=[90, 80, 70]),
            trimesh.creation.icosphere(subdivisions=2).apply_translation([60, 0, 0]),
        ]
    ),
}


@pytest.mark.parametrize("max_edge", [None, "auto"])
@pytest.mark.parametrize("name", SHAPES)
def test_projection_finds_the_nearest_place(name, max_edge, monkeypatch):
    mesh = SHAPES[name]()
    monkeypatch.setattr(nearest, "PAIRS_AT_A_TIME", 1000)  # many rounds
    operator = cgp.LaplaceOperator.from_trimesh(mesh, max_edge)
    rng = np.random.default_rng(1)
    around = rng.uniform(-1, 1, (60, 3)) * operator.diameter + mesh.bounds.mean(axis=0)
    on = mesh.triangles[rng.integers(len(mesh.faces), size=40)]
    on = np.einsum("pk,pkd->pd", rng.dirichlet(np.ones(3), 40), on)
    points = np.vstack([around, on, mesh.vertices[:5], mesh.bounds.mean(axis=0)[None]])
    found = operator.project(points)
    expected = [
        np.linalg.norm(
            trimesh.triangles.closest_point(mesh.triangles, np.tile(p, (len(mesh.faces), 1))) - p,
            axis=1,
        ).min()
        for p in points
    ]
    scale = operator.diameter
    # On slivers trimesh's places are not quite the nearest ones.
    np.testing.assert_allclose(found.distances, expected, atol=1e-6 * scale)
    assert (found.distances <= np.array(expected) + 1e-14 * scale).all()
    places = location_positions(found.points, operator.positions)
    np.testing.assert_allclose(
        np.linalg.norm(places - points, axis=1), found.distances, atol=1e-12 * scale
    )
    assert (found.points[:, 3:] >= 0).all()
    np.testing.assert_allclose(found.points[:, 3:].sum(axis=1), 1.0, rtol=1e-12)


def test_projection_far_from_the_origin_and_in_other_units():
    mesh = SHAPES["sphere"]()
    points = np.random.default_rng(2).normal(size=(30, 3))
    base = cgp.LaplaceOperator.from_trimesh(mesh).project(points)
    shift, scale = np.array([2.0**24, 0, -(2.0**25)]), 1e-6
    moved = plain(mesh.vertices + shift, mesh.faces)
    far = cgp.LaplaceOperator.from_trimesh(moved).project(points + shift)
    np.testing.assert_allclose(far.distances, base.distances, atol=1e-7)
    small = plain(mesh.vertices * scale, mesh.faces)
    tiny = cgp.LaplaceOperator.from_trimesh(small).project(points * scale)
    np.testing.assert_allclose(tiny.distances, base.distances * scale, rtol=1e-9, atol=1e-20)
    places = location_positions(base.points, mesh.vertices)
    np.testing.assert_allclose(location_positions(tiny.points, mesh.vertices), places, atol=1e-9)


def test_projection_on_a_network():
    sources, targets, lengths, positions = town()
    operator = cgp.LaplaceOperator.from_edges(
        sources, targets, lengths, positions=positions, max_edge=0.7
    )
    points = np.random.default_rng(3).uniform(-2, 9, (40, 2))
    found = operator.project(points)
    fine = np.linspace(0, 1, 4001)[:, None]
    ways = [
        (1 - fine) * positions[a] + fine * positions[b]
        for a, b in zip(sources, targets, strict=True)
    ]
    expected = [np.linalg.norm(np.vstack(ways) - p, axis=1).min() for p in points]
    np.testing.assert_allclose(found.distances, expected, atol=2e-3)
    assert (found.distances <= np.array(expected) + 1e-12).all()


def test_rows_give_the_values_of_functions_on_the_surface():
    mesh = SHAPES["sphere"]()
    operator = cgp.LaplaceOperator.from_trimesh(mesh, 0.3)
    f = operator.positions @ [1.0, -2.0, 0.5]  # linear: exact on the elements
    for places in (operator.at_faces(), operator.at_faces([3, 3, 0]), operator.at_vertices([5, 2])):
        A = location_rows(places.points, operator.n_vertices)
        expected = location_positions(places.points, operator.positions) @ [1.0, -2.0, 0.5]
        np.testing.assert_allclose(A @ f, expected, rtol=1e-12, atol=1e-14)
        assert (places.distances == 0).all()
    centroids = location_positions(operator.at_faces().points, operator.positions)
    np.testing.assert_allclose(centroids, mesh.triangles_center, atol=1e-14)
    vertices = location_positions(operator.at_vertices().points, operator.positions)
    np.testing.assert_array_equal(vertices, mesh.vertices)
    some = operator.at_vertices()[np.array([4, 1])]
    np.testing.assert_array_equal(some.points, operator.at_vertices([4, 1]).points)
    assert len(some) == 2


def test_centroids_of_slivers_lie_in_their_faces():
    mesh = slivers()
    operator = cgp.LaplaceOperator.from_trimesh(mesh, 0.1)
    centroids = operator.at_faces()
    np.testing.assert_allclose(
        location_positions(centroids.points, operator.positions), mesh.triangles_center, atol=1e-14
    )
    assert (centroids.points[:, 3:] >= 0).all()


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (np.zeros((2, 2)), r"points: expected shape \(p, 3\)"),
        (np.zeros(3), "points: expected shape"),
        (np.zeros((0, 3)), "points: expected shape"),
        ([[0, 0, np.nan]], "points: expected finite positions, got .* in row 0"),
    ],
)
def test_bad_points_are_refused(points, message):
    operator = cgp.LaplaceOperator.from_trimesh(trimesh.creation.box())
    with pytest.raises(InvalidInputError, match=message):
        operator.project(points)


def test_bad_numbers_are_refused():
    operator = cgp.LaplaceOperator.from_trimesh(trimesh.creation.box())
    for numbers, message in (
        ([12], "numbers: expected numbers from 0 to 11"),
        ([0.5], "numbers: expected integers"),
        (np.ones(12, bool), "numbers: expected integers"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            operator.at_faces(numbers)
    with pytest.raises(InvalidInputError, match="nodes: expected numbers from 0 to 7"):
        operator.at_vertices([8])
    with pytest.raises(InvalidInputError, match="network's edges"):
        operator.at_edges([0], [0.0])
    network = cgp.LaplaceOperator.from_edges([0], [1], [1.0])
    with pytest.raises(InvalidInputError, match="no positions"):
        network.project(np.zeros((1, 2)))
    with pytest.raises(InvalidInputError, match=r"points: expected shape \(p, 4\)"):
        location_rows(np.zeros((2, 5)), 3)


def test_a_place_has_one_number_whichever_element_and_rounding_gives_it():
    rows = np.array(
        [
            [0, 1, 2, 0.25, 0.75, 0.0],
            [7, 1, 0, 1e-13, 0.75 - 1e-12, 0.25 + 1e-12],
            [1, 0, 9, 0.25, 0.75, 0.0],
            [4, 4, 4, 1.0, 0.0, 0.0],
            [3, 2, 4, 0.0, 0.0, 1.0],
        ]
    )
    numbers = place_numbers(rows)
    assert numbers[0] == numbers[1]
    assert numbers[3] == numbers[4]
    assert len(set(numbers.tolist())) == 3
