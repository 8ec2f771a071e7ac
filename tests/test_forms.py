"""Meshes and points as other packages hold them."""

from types import SimpleNamespace

import geopandas as gpd
import meshio
import networkx as nx
import numpy as np
import pytest
import trimesh
from shapely.geometry import LineString, Point

import coupledgp as cgp
from coupledgp.errors import InvalidInputError
from coupledgp.fields.estimator import as_operator
from coupledgp.ground.forms import is_mesh, mesh_arrays
from coupledgp.time.sites import as_domain

BALL = trimesh.creation.icosphere(subdivisions=2)
V, F = np.asarray(BALL.vertices), np.asarray(BALL.faces)


def polydata(faces):
    """What `pyvista.PolyData` has: points, and faces after their numbers of corners."""
    flat = np.concatenate([[len(face), *face] for face in faces])
    return SimpleNamespace(points=V, faces=flat, n_cells=len(faces))


FORMS = {
    "trimesh": BALL,
    "pair": (V, F),
    "list": [V, F],
    "meshio": meshio.Mesh(V, [("triangle", F)]),
    "meshio with lines": meshio.Mesh(V, [("line", F[:3, :2]), ("triangle", F)]),
    "pyvista": polydata(F),
    "grid of VTK": SimpleNamespace(points=V, cells_dict={5: F}),
    "open3d": SimpleNamespace(vertices=V, triangles=F),
}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_is_the_same_surface(name):
    expected = cgp.LaplaceOperator.from_trimesh(BALL)
    found = cgp.LaplaceOperator.from_trimesh(FORMS[name])
    np.testing.assert_array_equal(found.positions, expected.positions)
    assert (found.stiffness != expected.stiffness).nnz == 0
    assert as_operator(FORMS[name]).n_given == len(V)
    assert isinstance(as_domain(FORMS[name]), cgp.LaplaceOperator)


DEFAULTS = pytest.mark.filterwarnings("ignore:y. too few places")


@DEFAULTS
def test_a_field_takes_a_pair_of_arrays_and_a_networkx_graph():
    gp = cgp.FieldGPRegressor((V, F), cgp.kernels.WhittleMatern(1.0, 2))
    gp.fit(V[::9], V[::9, 2])
    assert gp.predict().shape == (len(V),)
    roads = nx.path_graph(5)
    nx.set_edge_attributes(roads, 100.0, "length")
    gp = cgp.FieldGPRegressor(roads, cgp.kernels.WhittleMatern(300.0, 1)).fit([0, 4], [1.0, 2.0])
    assert gp.predict([2])[0] == pytest.approx(1.5, abs=1e-6)


@pytest.mark.parametrize(
    ("mesh", "message"),
    [
        (meshio.Mesh(V, [("quad", F[:, [0, 1, 2, 0]])]), "got cells of kind quad"),
        (meshio.Mesh(V, [("line", F[:, :2])]), "got cells of kind none"),
        (polydata([*F[:3].tolist(), [0, 1, 2, 3]]), "other numbers of corners"),
        (3, "mesh: expected a trimesh.Trimesh, pyvista.PolyData"),
        (trimesh.Scene(), "trimesh.load"),
    ],
)
def test_other_cells_are_refused(mesh, message):
    with pytest.raises(InvalidInputError, match=message):
        mesh_arrays(mesh)


def test_a_graph_is_no_mesh():
    assert not is_mesh(nx.path_graph(3))
    assert not is_mesh(np.eye(3))
    with pytest.raises(InvalidInputError, match=r"operator: expected a coupledgp\.LaplaceOperator"):
        as_operator(3)


def roads(is_geographic):
    """Roads along a parallel, in degrees or in metres."""
    if not is_geographic:
        positions = np.array([[0.0, 0.0], [500.0, 0.0], [1000.0, 0.0]])
        return cgp.LaplaceOperator.from_edges([0, 1], [1, 2], [500.0, 500.0], positions=positions)
    positions = np.array([[10.0, 50.0], [10.007, 50.0], [10.014, 50.0]])
    return cgp.LaplaceOperator.from_edges(
        [0, 1], [1, 2], [500.0, 500.0], positions=positions, is_geographic=True
    )


@DEFAULTS
def test_points_of_a_geodataframe_are_matched_to_roads():
    points = gpd.GeoDataFrame(geometry=[Point(100.0, 3.0), Point(800.0, -2.0)])
    kernel = cgp.kernels.WhittleMatern(2000.0, 1)
    gp = cgp.FieldGPRegressor(roads(False), kernel).fit(points, [1.0, 2.0])
    by_array = cgp.FieldGPRegressor(roads(False), kernel).fit([[100.0, 3.0], [800.0, -2.0]], [1, 2])
    np.testing.assert_array_equal(gp.predict(), by_array.predict())


@DEFAULTS
def test_points_of_another_system_become_degrees_where_the_roads_have_them():
    degrees = gpd.GeoDataFrame(geometry=[Point(10.002, 50.0), Point(10.011, 50.0)], crs=4326)
    kernel = cgp.kernels.WhittleMatern(2000.0, 1)
    models = [
        cgp.FieldGPRegressor(roads(True), kernel).fit(points, [1.0, 2.0])
        for points in (degrees, degrees.to_crs(32632), degrees.geometry)
    ]
    for model in models[1:]:
        np.testing.assert_allclose(model.predict(), models[0].predict(), rtol=1e-6)


def test_tables_that_are_no_points_are_refused():
    gp = cgp.FieldGPRegressor(roads(False), cgp.kernels.WhittleMatern(2000.0, 1))
    lines = gpd.GeoDataFrame(geometry=[Point(1.0, 0.0), LineString([(0, 0), (1, 1)])])
    with pytest.raises(
        InvalidInputError, match=r"places: expected points, got LINESTRING .* row 1"
    ):
        gp.fit(lines, [1.0, 2.0])
    nothing = gpd.GeoDataFrame(geometry=[Point(1.0, 0.0), None])
    with pytest.raises(InvalidInputError, match=r"places: expected points, got None in row 1"):
        gp.fit(nothing, [1.0, 2.0])
    degrees = gpd.GeoDataFrame(geometry=[Point(10.0, 50.0), Point(10.1, 50.0)], crs=4326)
    with pytest.raises(
        InvalidInputError, match=r"places: expected positions in the unit .* degrees"
    ):
        gp.fit(degrees, [1.0, 2.0])


def test_points_are_matched_to_roads_within_a_distance() -> None:
    positions = np.array([[0.0, 0.0], [100.0, 0.0], [100.0, 80.0]])
    roads = cgp.LaplaceOperator.from_edges(
        [0, 1], [1, 2], [100.0, 80.0], positions=positions, max_edge=10.0
    )
    places = np.array([[20.0, 3.0], [104.0, 50.0], [60.0, -30.0], [0.0, -45.0]])
    table = gpd.GeoDataFrame(geometry=gpd.points_from_xy(*places.T))
    found = roads.project(table)
    np.testing.assert_allclose(found.distances, [3.0, 4.0, 30.0, 45.0])
    np.testing.assert_array_equal(found.points, roads.project(places).points)
    np.testing.assert_array_equal(roads.project(table, within=45.5).points, found.points)
    with pytest.raises(InvalidInputError, match=r"within 25 .* got 2 of 4 .*rows 2, 3; .* 45 away"):
        roads.project(table, within=25.0)
    with pytest.raises(InvalidInputError, match="within: expected"):
        roads.project(table, within=-1.0)
    with pytest.warns(UserWarning, match="too few places"):
        near = cgp.FieldGPRegressor(roads, progress=False).fit(found[:2], [50.0, 55.0])
    assert np.isfinite(near.predict(found[2:])).all()


def test_degrees_are_matched_within_metres() -> None:
    positions = np.array([[11.0, 48.0], [11.001, 48.0]])
    roads = cgp.LaplaceOperator.from_edges(
        [0], [1], [74.4], positions=positions, is_geographic=True
    )
    table = gpd.GeoDataFrame(geometry=gpd.points_from_xy([11.0005], [48.0002]), crs="EPSG:4326")
    assert 20 < roads.project(table).distances[0] < 25
    metres = table.to_crs("EPSG:25832")
    np.testing.assert_allclose(roads.project(metres, within=25.0).distances,
                               roads.project(table).distances, atol=1e-3)  # fmt: skip
    with pytest.raises(InvalidInputError, match="got 1 of 1"):
        roads.project(metres, within=20.0)
