"""Meshes with fields as VTK and PLY: what is read back equals what was written."""

import sys

import meshio
import numpy as np
import pytest
import trimesh

import coupledgp as cgp
from coupledgp.errors import InvalidInputError, MissingLibraryError
from coupledgp.fields.output import GREY, value_colours

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
