"""Columns at places: values within elements, at vertices and after refinement, and errors."""

import networkx as nx
import numpy as np
import pytest
import trimesh

import coupledgp as cgp
from coupledgp.errors import InvalidInputError

BOX = trimesh.creation.box((4.0, 2.0, 1.0))


def fine(mesh=BOX):
    return cgp.LaplaceOperator.from_trimesh(mesh, max_edge=0.5)


def by_names(operator, points):
    """Values in the units that were given, by name."""
    columns = operator.place_columns
    values = operator.column_values(points) * operator.column_scales[columns.owner]
    ends = np.cumsum(columns.sizes)
    parts = np.split(values, ends[:-1], axis=1)
    return dict(zip(columns.names, parts, strict=True))


def test_places_within_faces_have_their_normals():
    operator = fine()
    X, face = trimesh.sample.sample_surface(BOX, 200, seed=3)
    found = by_names(operator, operator.project(X).points)["normal"]
    np.testing.assert_allclose(found, BOX.face_normals[face], atol=1e-12)


def test_corners_have_the_mean_of_the_elements_that_meet_there():
    operator = fine()
    at_corners = by_names(operator, operator.at_vertices().points)["normal"]
    assert (np.sign(at_corners) == np.sign(BOX.vertices)).all()


def test_rounding_of_a_place_on_an_edge_does_not_choose_a_face():
    operator = fine()
    middle = np.array([[0.3, 1.0, 0.5]])  # on the edge of the faces +y and +z
    shifts = 1e-6 * np.array([[0, 1, 1], [0, -1, 1], [0, 1, -1], [1, 0, 0.0]])
    found = [by_names(operator, operator.project(middle + d).points)["normal"] for d in shifts]
    np.testing.assert_allclose(found, np.broadcast_to(found[0], np.shape(found)), atol=1e-4)
    assert (found[0][0, 1:] > 0.3).all()
    vertex = operator.project(BOX.vertices[:1] + 1e-7).points
    exact = by_names(operator, operator.at_vertices([0]).points)["normal"]
    np.testing.assert_allclose(by_names(operator, vertex)["normal"], exact, atol=1e-4)


def test_the_order_of_a_place_s_corners_does_not_matter():
    operator = fine()
    points = operator.project(trimesh.sample.sample_surface(BOX, 50, seed=4)[0]).points
    turned = points[:, [1, 2, 0, 4, 5, 3]]
    numbers = np.arange(12.0) ** 2
    with_numbers = operator.with_columns({"z": BOX.vertices[:, 2], "face": numbers})
    np.testing.assert_allclose(
        with_numbers.column_values(points), with_numbers.column_values(turned), rtol=1e-12
    )


def test_columns_of_vertices_are_linear_within_given_faces():
    operator = fine().with_columns({"height": BOX.vertices @ [1.0, -2.0, 0.5]})
    X, _ = trimesh.sample.sample_surface(BOX, 100, seed=5)
    found = by_names(operator, operator.project(X).points)["height"]
    np.testing.assert_allclose(found[:, 0], X @ [1.0, -2.0, 0.5], atol=1e-9)


def test_columns_of_faces_hold_within_all_their_parts():
    numbers = np.arange(12.0)
    operator = fine().with_columns({"face": numbers})
    X, face = trimesh.sample.sample_surface(BOX, 100, seed=6)
    found = by_names(operator, operator.project(X).points)["face"]
    np.testing.assert_allclose(found[:, 0], face, atol=1e-12)


def test_scales_are_standard_deviations_over_the_surface():
    operator = fine().with_columns({"z": BOX.vertices[:, 2]})
    # Over a box of 4 x 2 x 1: top and bottom have z = +-1/2, the sides z uniform between.
    shares = np.array([16.0, 12.0]) / 28.0
    expected = np.sqrt(shares @ [0.25, 1.0 / 12.0])
    assert operator.column_scales[1] == pytest.approx(expected, rel=0.05)
    # Normals of a closed surface have mean zero and length one.
    assert operator.column_scales[0] == pytest.approx(1.0, rel=1e-6)


def test_a_network_s_columns_run_along_its_edges():
    roads = cgp.LaplaceOperator.from_edges([0, 1], [1, 2], [300.0, 500.0], max_edge=40.0)
    with_columns = roads.with_columns({"lanes": [1.0, 3.0], "height": [0.0, 30.0, 10.0]})
    points = with_columns.at_edges([0, 1, 1], [150.0, 250.0, 499.0]).points
    found = by_names(with_columns, points)
    np.testing.assert_allclose(found["lanes"][:, 0], [1.0, 3.0, 3.0])
    np.testing.assert_allclose(found["height"][:, 0], [15.0, 20.0, 10.04])


def test_texts_become_a_component_for_each_kind():
    operator = fine().with_columns({"material": ["steel"] * 6 + ["foam"] * 6})
    columns = operator.place_columns
    assert columns.names == ("normal", "material")
    assert columns.sizes.tolist() == [3, 2]
    values = by_names(operator, operator.at_faces([0, 11]).points)["material"]
    np.testing.assert_allclose(values, [[0.0, 1.0], [1.0, 0.0]])


def test_a_flat_sheet_and_a_network_have_no_normals():
    sheet = trimesh.Trimesh([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0.0]], [[0, 1, 2], [0, 2, 3]])
    assert cgp.LaplaceOperator.from_trimesh(sheet).n_columns == 0
    graph = nx.path_graph(3)
    nx.set_edge_attributes(graph, 1.0, "length")
    assert cgp.LaplaceOperator.from_networkx(graph).n_columns == 0
    with pytest.raises(InvalidInputError, match="normals: expected a mesh"):
        _ = cgp.LaplaceOperator.from_networkx(graph).normals


def test_normals_of_given_faces():
    np.testing.assert_allclose(fine().normals, BOX.face_normals, atol=1e-12)


def test_a_normal_that_is_given_takes_the_place_of_the_mesh_s():
    operator = fine().with_columns({"normal": np.ones(12)})
    assert operator.place_columns.sizes.tolist() == [1]


@pytest.mark.parametrize(
    ("columns", "on", "message"),
    [
        ([1.0], None, "columns: expected a dictionary"),
        ({"a": np.ones(9)}, None, r"columns\['a'\]: expected a value of each of 8 given vertices"),
        ({"a": np.ones(8)}, "elements", "or of each of 12 given faces"),
        ({"a": [np.nan] * 8}, None, r"columns\['a'\]: expected finite numbers"),
        ({"a": np.ones((2, 2, 2))}, None, "expected shape"),
        ({3: np.ones(8)}, None, "expected texts as names"),
        ({"a": np.ones(8)}, "corners", "on: expected"),
    ],
)
def test_bad_columns_are_refused(columns, on, message):
    with pytest.raises(InvalidInputError, match=message):
        fine().with_columns(columns, on)


def test_as_many_vertices_as_faces_need_a_word():
    pyramid = trimesh.Trimesh(
        [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]], [[0, 2, 1], [0, 1, 3], [1, 2, 3], [0, 3, 2]]
    )
    operator = cgp.LaplaceOperator.from_trimesh(pyramid)
    with pytest.raises(InvalidInputError, match="on: expected 'vertices' or 'elements'"):
        operator.with_columns({"a": np.arange(4.0)})
    assert operator.with_columns({"a": np.arange(4.0)}, "vertices").n_columns == 2


def test_too_many_kinds_of_a_text_are_refused():
    sphere = cgp.LaplaceOperator.from_trimesh(trimesh.creation.icosphere(subdivisions=2))
    with pytest.raises(InvalidInputError, match="at most 64 kinds, got 162"):
        sphere.with_columns({"id": [f"v{k}" for k in range(162)]})
    with pytest.raises(InvalidInputError, match="expected new names, got 'a' again"):
        sphere.with_columns({"a": np.ones(162)}).with_columns({"a": np.ones(162)})
