"""Meshes with fields as VTK, PLY and glTF: what is read back equals what was written."""

import json
import sys

import meshio
import numpy as np
import pytest
import trimesh

import coupledgp as cgp
from coupledgp.errors import InvalidInputError, MissingLibraryError
from coupledgp.fields.output import GREY, linear_light, value_colours

BALL = trimesh.creation.icosphere(subdivisions=1)  # 42 vertices, 80 faces
RNG = np.random.default_rng(0)
VERTEX, FACE = RNG.normal(size=42), RNG.normal(size=80)
FAR = [4.5e5, 5.2e6, -300.0]


def moved(offset):
    return trimesh.Trimesh(BALL.vertices + offset, BALL.faces, process=False)


@pytest.mark.parametrize("kind", ["vtu", "vtk"])
def test_vtk_files_hold_point_and_cell_data(kind, tmp_path):
    path = tmp_path / f"law.{kind}"
    holes = np.where(FACE > 1, np.nan, FACE)
    cgp.write_mesh(path, moved(FAR), mean=VERTEX, std=VERTEX**2, cell=holes)
    found = meshio.read(path)
    np.testing.assert_array_equal(found.points, BALL.vertices + FAR)
    np.testing.assert_array_equal(found.cells_dict["triangle"], BALL.faces)
    np.testing.assert_array_equal(found.point_data["mean"], VERTEX)
    np.testing.assert_array_equal(found.point_data["std"], VERTEX**2)
    np.testing.assert_array_equal(found.cell_data["cell"][0], holes)
    assert set(found.point_data) | set(found.cell_data) == {"mean", "std", "cell"}


def test_ply_properties_and_colours(tmp_path):
    path = tmp_path / "law.ply"
    for at, name, values in ((VERTEX, "vertex", VERTEX), (FACE, "face", FACE)):
        cgp.write_mesh(path, BALL, mean=values, std=values**2)
        found = trimesh.load(path, process=False)
        np.testing.assert_array_equal(found.faces, BALL.faces)
        np.testing.assert_allclose(found.vertices, BALL.vertices, atol=1e-6)
        raw = found.metadata["_ply_raw"][name]["data"]
        np.testing.assert_array_equal(raw["mean"].ravel(), at)
        np.testing.assert_array_equal(raw["std"].ravel(), at**2)
        colours = getattr(found.visual, f"{name}_colors")
        np.testing.assert_array_equal(colours, value_colours(at))
    cgp.write_mesh(path, BALL, std=VERTEX, mean=FACE)
    found = trimesh.load(path, process=False)
    np.testing.assert_array_equal(found.visual.face_colors, value_colours(FACE))
    assert "std" in found.metadata["_ply_raw"]["vertex"]["properties"]


def test_ply_warns_of_coordinates_far_from_the_origin(tmp_path):
    """Single precision moves these vertices by a tenth of the mesh's radius."""
    with pytest.warns(UserWarning, match=r"moves vertices by up to 0\.19; \.vtu keeps them"):
        cgp.write_mesh(tmp_path / "far.ply", moved(FAR), mean=VERTEX)
    np.testing.assert_array_equal(meshio.read(tmp_path / "far.ply").point_data["mean"], VERTEX)


@pytest.mark.parametrize("kind", ["glb", "gltf"])
def test_gltf_has_attributes_and_the_mesh_in_its_place(kind, tmp_path):
    path = tmp_path / f"law.{kind}"
    cgp.write_mesh(path, moved(FAR), mean=VERTEX, std=VERTEX**2)
    scene = trimesh.load(path, process=False)
    (mesh,) = scene.geometry.values()
    np.testing.assert_allclose(mesh.vertex_attributes["_MEAN"].ravel(), VERTEX, rtol=1e-6)
    np.testing.assert_allclose(mesh.vertex_attributes["_STD"].ravel(), VERTEX**2, rtol=1e-6)
    np.testing.assert_array_equal(mesh.faces, BALL.faces)
    np.testing.assert_allclose(scene.bounds, BALL.bounds + FAR, atol=1e-6)
    colours = np.asarray(mesh.visual.vertex_attributes["color"])
    expected = linear_light(value_colours(VERTEX))
    np.testing.assert_allclose(colours, expected, atol=1e-6)


def test_gltf_gives_faces_with_values_vertices_of_their_own(tmp_path):
    cgp.write_mesh(tmp_path / "law.glb", BALL, mean=FACE, height=BALL.vertices[:, 2])
    (mesh,) = trimesh.load(tmp_path / "law.glb", process=False).geometry.values()
    assert len(mesh.vertices) == 240
    np.testing.assert_allclose(mesh.triangles, BALL.triangles, atol=1e-6)
    mean = mesh.vertex_attributes["_MEAN"].ravel()[mesh.faces]
    np.testing.assert_allclose(mean, np.repeat(FACE[:, None], 3, axis=1), rtol=1e-6)
    height = mesh.vertex_attributes["_HEIGHT"].ravel()
    np.testing.assert_allclose(height, mesh.vertices[:, 2], atol=1e-6)
    colours = np.asarray(mesh.visual.vertex_attributes["color"])[mesh.faces]
    assert (colours == colours[:, :1]).all()  # one colour a face


@pytest.mark.parametrize("kind", ["glb", "gltf"])
def test_gltf_leaves_out_vertices_that_no_face_uses(kind, tmp_path):
    lone = trimesh.Trimesh([[9.0, 9, 9], *BALL.vertices], BALL.faces + 1, process=False)
    path = tmp_path / f"law.{kind}"
    cgp.write_mesh(path, lone, mean=[np.nan, *VERTEX], std=[np.nan, *VERTEX**2])
    scene = trimesh.load(path, process=False)
    (mesh,) = scene.geometry.values()
    np.testing.assert_array_equal(mesh.faces, BALL.faces)
    np.testing.assert_allclose(scene.bounds, BALL.bounds, atol=1e-6)
    np.testing.assert_allclose(mesh.vertex_attributes["_MEAN"].ravel(), VERTEX, rtol=1e-6)
    colours = np.asarray(mesh.visual.vertex_attributes["color"])
    np.testing.assert_allclose(colours, linear_light(value_colours(VERTEX)), atol=1e-6)


def test_gltf_is_one_file_of_valid_json(tmp_path):
    cgp.write_mesh(tmp_path / "law.gltf", BALL, mean=VERTEX)
    tree = json.loads((tmp_path / "law.gltf").read_text())
    assert tree["materials"][0]["pbrMetallicRoughness"]["metallicFactor"] == 0
    assert tree["meshes"][0]["primitives"][0]["attributes"].keys() == {
        "POSITION", "_MEAN", "COLOR_0"
    }  # fmt: skip
    assert list(tmp_path.iterdir()) == [tmp_path / "law.gltf"]


def test_as_many_vertices_as_faces_need_a_location(tmp_path):
    fan = trimesh.Trimesh(
        [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]],
        [[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]],
        process=False,
    )
    with pytest.raises(InvalidInputError, match="mean: expected location='vertices' or"):
        cgp.write_mesh(tmp_path / "fan.vtu", fan, mean=np.arange(4))
    cgp.write_mesh(tmp_path / "fan.vtu", fan, location="faces", mean=np.arange(4))
    np.testing.assert_array_equal(
        meshio.read(tmp_path / "fan.vtu").cell_data["mean"][0], np.arange(4)
    )


def test_colours_of_hard_values():
    colours = value_colours(np.array([1.0, np.nan, 3.0]))
    assert tuple(colours[1]) == GREY
    assert colours[2, 1] > colours[0, 1]  # viridis: more is greener
    assert (value_colours(np.full(3, np.nan)) == GREY).all()
    # Whatever the offset and the unit, the least and the greatest value have the ends of the scale.
    for offset, unit in ((0.0, 1.0), (1e6, 1.0), (0.0, 1e-6), (-5.0, 100.0)):
        found = value_colours(offset + unit * np.array([1.0, np.nan, 3.0]))
        np.testing.assert_array_equal(found, colours)
    same = value_colours(np.full(3, 1e-300))
    assert (same == same[0]).all()
    np.testing.assert_allclose(
        linear_light(np.array([[0, 188, 255, 128]], dtype=np.uint8)),
        [[0, 0.5029, 1, 128 / 255]],
        atol=1e-4,
    )


def test_what_is_refused(tmp_path):
    def told(match, *arguments, path="law.vtu", mesh=BALL, **fields):
        with pytest.raises(InvalidInputError, match=match):
            cgp.write_mesh(tmp_path / path, mesh, *arguments, **fields)
        assert not list(tmp_path.iterdir())

    told("path: expected a file ending in .vtu", path="law.doc", mean=VERTEX)
    told("mean: expected 42 values at its vertices or 80", mean=np.ones(7))
    told("mean: expected 42 values, got 80", location="vertices", mean=FACE)
    told("location: expected one of", location="edges", mean=FACE)
    told("mean: expected a vector .* shape \\(42, 1\\)", mean=VERTEX[:, None])
    told("mean: expected a vector .* infinite", mean=np.where(VERTEX > 0, np.inf, 0))
    told("mean: expected numbers", mean=["a"] * 42)
    told("name of letters", **{"mean mph": VERTEX})
    told("name of letters", red=VERTEX)
    told("upper and lower case", mean=VERTEX, Mean=VERTEX)
    told("mean: expected finite values, as glTF", path="law.glb", mean=np.full(42, np.nan))
    told("mesh: expected an object with vertices", mesh="ball.stl")
    broken = trimesh.Trimesh(BALL.vertices.copy(), BALL.faces.copy(), process=False)
    broken.vertices[3] = np.nan
    told("mesh: expected finite vertices, got .* at 3", mesh=broken)
    beyond = type("Mesh", (), {"vertices": BALL.vertices[:5], "faces": BALL.faces})
    told("mesh: expected faces of vertices 0 to 4", mesh=beyond)


def test_a_missing_library_names_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "meshio", None)
    with pytest.raises(MissingLibraryError, match=r"coupledgp\[geo\]"):
        cgp.write_mesh(tmp_path / "law.vtu", BALL, mean=VERTEX)
    assert not list(tmp_path.iterdir())
