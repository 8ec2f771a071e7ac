"""Loaders of meshes, graphs and traffic: embedded sets always, local files where they are."""

import os
from pathlib import Path

import numpy as np
import pytest
import trimesh

from coupledgp.errors import DataNotFoundError, InvalidInputError
from data_loaders import graphs, meshes, traffic
from data_loaders.files import ENVIRONMENT_VARIABLE, data_folder, download

LOCAL = os.environ.get(ENVIRONMENT_VARIABLE)
needs_data = pytest.mark.skipif(not LOCAL, reason=f"{ENVIRONMENT_VARIABLE} is not set")


@pytest.fixture
def no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENVIRONMENT_VARIABLE, raising=False)


@pytest.mark.parametrize("name", ["icosphere", "annulus", "capsule"])
@pytest.mark.usefixtures("no_folder")
def test_embedded_meshes_need_no_file(name: str) -> None:
    data = meshes.load(name)
    assert data.graph.n_nodes == len(data.mesh.faces) == data.normal_z.size
    assert data.graph.components()[0] == 1
    assert np.abs(data.normal_z).max() <= 1 + 1e-12


def test_any_mesh_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "cube.ply"
    trimesh.creation.box().export(path)
    data = meshes.load(path)
    assert (data.name, data.graph.n_nodes) == ("cube", 12)


def test_bad_mesh_names_and_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="did you mean 'torus'"):
        meshes.load("torsu")
    with pytest.raises(DataNotFoundError, match="no file"):
        meshes.load(tmp_path / "none.stl")
    (tmp_path / "bad.stl").write_text("nothing")
    with pytest.raises(InvalidInputError, match=r"bad\.stl"):
        meshes.load(tmp_path / "bad.stl")


@needs_data
def test_local_meshes_have_the_faces_they_should() -> None:
    for name in ("teapot", "fuze", "unit_sphere", "idler_riser"):
        assert meshes.load(name).graph.n_nodes == len(meshes.load(name).mesh.faces)


@pytest.mark.usefixtures("no_folder")
def test_embedded_graphs_need_no_file() -> None:
    for name in graphs.names():
        data = graphs.load(name)
        assert data.source == "networkx"
        assert data.graph.components()[0] == 1
    assert graphs.load("karate").graph.n_edges == 78


def test_edge_lists_are_read(tmp_path: Path) -> None:
    path = tmp_path / "roads.csv"
    path.write_text("source,target,weight\na,b,2.0\nb,c,3.0\n")
    graph = graphs.load(path).graph
    assert graph.labels == ("a", "b", "c")
    np.testing.assert_array_equal(graph.degrees, [2, 5, 3])
    (tmp_path / "bad.csv").write_text("from,to\n1,2\n")
    with pytest.raises(InvalidInputError, match="columns source and target"):
        graphs.load(tmp_path / "bad.csv")
    with pytest.raises(DataNotFoundError, match="COUPLEDGP_DATA"):
        graphs.load("no-such-graph")
    with pytest.raises(DataNotFoundError, match="no file"):
        graphs.load(tmp_path / "none.csv")


@needs_data
def test_local_graphs_are_connected() -> None:
    assert graphs.load("cora").graph.components()[0] == 1
    assert graphs.load("karate").source == "file karate.csv"


def test_roads_are_cut_at_sensors_in_order() -> None:
    lines = [np.array([[0.0, 0.0], [0.0, 1.0]]), np.array([[0.0, 1.0], [0.0, 2.0]])]
    places = np.array([[0.0, 0.75], [0.0, 0.25]])
    positions, ends, lengths = traffic.cut_roads(
        lines, places, np.array([0, 0]), np.array([0.75, 0.25])
    )
    assert ends.tolist() == [[0, 4], [4, 3], [3, 1], [1, 2]]
    degree = np.radians(1.0) * traffic.EARTH_RADIUS
    np.testing.assert_allclose(lengths, degree * np.array([0.25, 0.5, 0.25, 1.0]))
    np.testing.assert_array_equal(positions[3:], places)


@needs_data
@pytest.mark.long
def test_traffic_tables_and_package_file_agree() -> None:
    tables = traffic.load()
    assert tables.graph.n_nodes == 1016
    assert tables.ends.shape == (1173, 2)
    assert tables.sensors.size == tables.speeds.size == 325
    folder = data_folder(None, "traffic")
    assert folder is not None
    built = traffic.from_pems(folder / "pems.rda")
    np.testing.assert_array_equal(built.sensors, tables.sensors)
    np.testing.assert_allclose(built.speeds, tables.speeds, atol=1e-5)
    np.testing.assert_allclose(built.positions, tables.positions, atol=1e-6)
    assert {tuple(sorted(e)) for e in built.ends.tolist()} == {
        tuple(sorted(e)) for e in tables.ends.tolist()
    }
    np.testing.assert_allclose(np.sort(built.lengths), np.sort(tables.lengths), rtol=5e-3, atol=1)


def test_a_download_that_fails_says_what_to_do(tmp_path: Path) -> None:
    missing = (tmp_path / "none.ply").as_uri()
    with pytest.raises(DataNotFoundError, match="put a copy"):
        download(missing, "0" * 64, "none-such.ply")
