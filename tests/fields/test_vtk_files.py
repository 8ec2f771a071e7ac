"""Grids of VTK, with arrays as text, in base64 and appended, and meshes of other packages."""

import base64

import numpy as np
import pytest
import trimesh

import coupledgp as cgp
from coupledgp.errors import InvalidInputError
from coupledgp.fields.mesh_files import in_place, read_mesh

meshio = pytest.importorskip("meshio")

BALL = trimesh.creation.icosphere(1)
POINTS, FACES = np.asarray(BALL.vertices), np.asarray(BALL.faces, dtype=np.int64)
ENDS, KINDS = 3 * np.arange(1, len(FACES) + 1), np.full(len(FACES), 5)


def appended_grid():
    """A .vtu of triangles as VTK writes it, with all values behind the cells in base64."""
    values = ""

    def array(name, kind, given, more=""):
        nonlocal values
        raw, start = given.tobytes(), len(values)
        values += base64.b64encode(np.uint32(len(raw)).tobytes() + raw).decode()
        head = f'<DataArray type="{kind}" Name="{name}" {more}format="appended"'
        return f'{head} RangeMin="-1" offset="{start}"/>'

    points = array("Points", "Float64", POINTS, 'NumberOfComponents="3" ')
    cells = array("connectivity", "Int64", FACES) + array("offsets", "Int64", ENDS)
    cells += array("types", "UInt8", KINDS.astype(np.uint8))
    return (
        '<?xml version="1.0"?><VTKFile type="UnstructuredGrid" version="0.1" '
        'byte_order="LittleEndian" header_type="UInt32"><UnstructuredGrid>'
        f'<Piece NumberOfPoints="{len(POINTS)}" NumberOfCells="{len(FACES)}">'
        f"<Points>{points}</Points><Cells>{cells}</Cells></Piece></UnstructuredGrid>"
        f'<AppendedData encoding="base64">_{values}</AppendedData></VTKFile>'
    )


def test_appended_arrays_are_read(tmp_path):
    path = tmp_path / "ball.vtu"
    path.write_text(appended_grid())
    found = read_mesh(path, as_numbered=True)
    assert np.array_equal(found.vertices, POINTS)
    assert np.array_equal(found.faces, FACES)
    assert len(read_mesh(path).vertices) == len(POINTS)
    content = in_place(path.read_bytes())  # Python 3.14 leaves no other way for appended arrays
    assert b"ppended" not in content
    assert in_place(b'<AppendedData encoding="base64">_</AppendedData>') == b""


@pytest.mark.parametrize("ending", [".vtu", ".vtk"])
def test_grids_of_triangles_are_read(ending, tmp_path):
    path = tmp_path / f"ball{ending}"
    meshio.write(path, meshio.Mesh(POINTS, [("triangle", FACES)]))
    found = read_mesh(path, as_numbered=True)
    assert np.allclose(found.vertices, POINTS, rtol=1e-6)
    assert np.array_equal(found.faces, FACES)


def test_other_files_are_refused(tmp_path, capfd):
    quads = np.column_stack([FACES, FACES[:, 0]])
    meshio.write(tmp_path / "q.vtu", meshio.Mesh(POINTS, [("quad", quads)]))
    (tmp_path / "b.vtk").write_text("# vtk DataFile Version 5.1\nx\nASCII\nDATASET POLYDATA\n")
    for name, message in {"q.vtu": "expected triangles", "b.vtk": "PolyData as .ply"}.items():
        with pytest.raises(InvalidInputError, match=message):
            read_mesh(tmp_path / name)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("nodes", ["faces", "vertices"])
def test_graphs_take_every_form_of_a_mesh(nodes):
    usual = cgp.Graph.from_trimesh(BALL, nodes)
    for form in (meshio.Mesh(POINTS, [("triangle", FACES)]), (POINTS, FACES)):
        found = cgp.Graph.from_trimesh(form, nodes)
        assert (found.adjacency != usual.adjacency).nnz == 0
