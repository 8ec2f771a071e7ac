"""Surfaces of VTK: PolyData in XML with arrays as text, in base64 and appended, and grids."""

import base64
import zlib

import numpy as np
import pytest
import trimesh

import coupledgp as cgp
from coupledgp.errors import InvalidInputError
from coupledgp.formats.mesh_files import read_mesh
from coupledgp.graphs.vtk_files import in_place

meshio = pytest.importorskip("meshio")

BALL = trimesh.creation.icosphere(1)
POINTS, FACES = np.asarray(BALL.vertices), np.asarray(BALL.faces, dtype=np.int64)
OFFSETS = 3 * np.arange(1, len(FACES) + 1, dtype=np.int64)
HEAD = (
    '<?xml version="1.0"?><VTKFile type="PolyData" version="0.1" byte_order="LittleEndian"'
    ' header_type="UInt32"{more}><PolyData>'
)
PIECE = (
    '<Piece NumberOfPoints="{points}" NumberOfVerts="0" NumberOfLines="0" NumberOfStrips="0" '
    'NumberOfPolys="{faces}"><PointData/><CellData/><Points>{where}</Points><Verts>{none}</Verts>'
    "<Lines/><Polys>{corners}{ends}</Polys></Piece></PolyData>{appended}</VTKFile>"
)


def encoded(values, packed):
    raw = values.tobytes()
    if not packed:
        return base64.b64encode(np.uint32(len(raw)).tobytes() + raw).decode()
    parts = zlib.compress(raw)
    header = np.array([1, len(raw), len(raw), len(parts)], dtype=np.uint32).tobytes()
    return base64.b64encode(header).decode() + base64.b64encode(parts).decode()


def polydata(form, faces=FACES, packed=False):
    """A file of PolyData as VTK writes it."""
    appended = ""

    def array(name, kind, values, more=""):
        nonlocal appended
        start = f'<DataArray type="{kind}" Name="{name}" {more}'
        if form == "appended":
            place, appended = len(appended), appended + encoded(values, packed)
            place = f'{start} format="appended" RangeMin="-1" offset="{place}"'
            return f"{place}/>" if packed else f"{place}>\n<InformationKey/></DataArray>"
        text = " ".join(map(repr, values.ravel().tolist()))
        text = text if form == "ascii" else encoded(values, packed)
        return f'{start} format="{form}">{text}</DataArray>'

    parts = {
        "where": array("Points", "Float64", POINTS, 'NumberOfComponents="3"'),
        "none": '<DataArray type="Int64" Name="offsets" format="ascii"/>',
        "corners": array("connectivity", "Int64", faces),
        "ends": array("offsets", "Int64", faces.shape[1] * np.arange(1, len(faces) + 1)),
    }
    data = f'<AppendedData encoding="base64">_{appended}</AppendedData>' if appended else ""
    more = ' compressor="vtkZLibDataCompressor"' if packed else ""
    piece = PIECE.format(points=len(POINTS), faces=len(faces), appended=data, **parts)
    return HEAD.format(more=more) + piece


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("form", ["ascii", "binary", "appended"])
def test_polydata_is_read_in_every_encoding(form, packed, tmp_path):
    path = tmp_path / "ball.vtp"
    path.write_text(polydata(form, packed=packed))
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
    cases = {
        "q.vtp": (polydata("ascii", quads), "expected triangles"),
        "p.vtp": (polydata("ascii").replace("Polys", "Cells"), "PolyData with polygons"),
        "r.vtp": (polydata("appended").replace("base64", "raw"), "got appended raw bytes"),
        "b.vtk": ("# vtk DataFile Version 5.1\nx\nASCII\nDATASET POLYDATA\n", "ending in .vtp"),
    }
    for name, (text, message) in cases.items():
        (tmp_path / name).write_text(text)
        with pytest.raises(InvalidInputError, match=message):
            read_mesh(tmp_path / name)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("nodes", ["faces", "vertices"])
def test_graphs_take_every_form_of_a_mesh(nodes):
    usual = cgp.Graph.from_trimesh(BALL, nodes)
    for form in (meshio.Mesh(POINTS, [("triangle", FACES)]), (POINTS, FACES)):
        found = cgp.Graph.from_trimesh(form, nodes)
        assert (found.adjacency != usual.adjacency).nnz == 0
