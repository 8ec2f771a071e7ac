"""Files of triangle meshes, read by trimesh and meshio."""

from __future__ import annotations

import io
import re
import tempfile
import textwrap
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

from coupledgp.errors import DataNotFoundError, InvalidInputError
from coupledgp.ground.extras import library
from coupledgp.ground.forms import mesh_arrays
from coupledgp.ground.validation import wrong

# Grids of VTK, read by meshio.
VTK = (".vtu", ".vtk")
# Endings of files that are read. trimesh opens others too, among them archives of any size.
ENDINGS = (".stl", ".ply", ".obj", ".off", ".glb", ".gltf", *VTK)
# An array whose values stand at an offset behind all cells, and those values in base64.
APPENDED = re.compile(
    rb'format="appended"([^>]*?)\s+offset="(\d+)"([^>]*?)(?:/>|>.*?</DataArray>)', re.DOTALL
)
VALUES = re.compile(rb'<AppendedData encoding="base64">\s*_(.*?)\s*</AppendedData>', re.DOTALL)
# Size of a mesh above which trimesh's own merging is that of rounding.
LEAST_SCALE = 1e-2
# Most characters of a library's message about a file.
LONGEST_MESSAGE = 300


def read_mesh(path: Path, as_numbered: bool = False) -> Any:
    """Read a triangle mesh (`trimesh.Trimesh`); the bodies of a scene are joined into one.

    Parameters
    ----------
    path
        File of one of `ENDINGS`.
    as_numbered
        Keep vertices as the file numbers them; else those at one position are merged.

    Raises
    ------
    DataNotFoundError
        There is no such file.
    MissingLibraryError
        meshio is not installed, for grids of VTK.
    InvalidInputError
        The file holds no triangle mesh, or ends otherwise.
    """
    import trimesh

    if path.suffix.lower() not in ENDINGS:
        raise wrong("mesh", f"a file ending in {', '.join(ENDINGS)}", str(path))
    if not path.is_file():
        raise DataNotFoundError(f"mesh: no file {path}")
    if path.suffix.lower() in VTK:
        library("meshio", f"mesh: {path}: reading {path.suffix} files")
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            mesh: Any
            if path.suffix.lower() in VTK:
                mesh = trimesh.Trimesh(*_read_vtk(path), process=False)
            else:
                mesh = _loaded(path, process=False, maintain_order=True)
            n_faces = len(getattr(mesh, "faces", ()))
            if n_faces and not as_numbered:
                mesh = _merged(path, mesh)
    except Exception as error:  # trimesh's readers raise whatever their format's library does
        text = textwrap.shorten(f"{type(error).__name__}: {error}", LONGEST_MESSAGE)
        raise InvalidInputError(f"mesh: cannot read {path}: {text}") from error
    if not n_faces:
        raise InvalidInputError(f"mesh: {path} holds no triangle faces")
    return mesh


def _read_vtk(path: Path) -> tuple[Any, Any]:
    """Vertices and faces by meshio, which else would print its error and end the process."""
    meshio = library("meshio")
    said = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(said), redirect_stderr(said):
        if path.suffix.lower() == ".vtu":
            copy = Path(folder) / "cells.vtu"
            copy.write_bytes(in_place(path.read_bytes()))
            path = copy
        try:
            return mesh_arrays(meshio.read(path))
        except SystemExit:
            raise InvalidInputError(
                "expected a grid of cells that meshio reads; save PolyData as .ply or .stl"
            ) from None


def in_place(content: bytes) -> bytes:
    """VTK's XML with the values of appended arrays, where they are in base64, in the arrays.

    Python 3.14 does not decode base64 that goes on behind its padding, as meshio would have it do.
    """
    values = VALUES.search(content)
    if not values:
        return content
    starts = sorted({int(found[2]) for found in APPENDED.finditer(content)})
    stops = dict(zip(starts, [*starts[1:], len(values[1])], strict=False))

    def array(found: re.Match[bytes]) -> bytes:
        start = int(found[2])
        text = values[1][start : stops[start]]
        return b'format="binary"%s%s>%s</DataArray>' % (found[1], found[3], text)

    return APPENDED.sub(array, content[: values.start()]) + content[values.end() :]


def _loaded(path: Path, **settings: Any) -> Any:
    """The mesh of a file that trimesh reads, without the pictures that a PLY names."""
    import trimesh

    plain: dict[str, Any] = {"skip_materials": True} if path.suffix.lower() == ".ply" else {}
    return trimesh.load(path, force="mesh", **plain, **settings)


def _merged(path: Path, mesh: Any) -> Any:
    """The mesh of a file with vertices at one position merged, in a unit of about its size.

    trimesh takes distances below 1e-8 for none, whatever the unit.
    """
    scale = float(np.ptp(mesh.vertices, axis=0).max())
    if path.suffix.lower() in VTK:
        mesh.merge_vertices()
        return mesh
    if not 0 < scale < LEAST_SCALE:
        return _loaded(path)
    exponent = int(np.frexp(scale)[1])
    mesh.vertices = np.ldexp(mesh.vertices, -exponent)  # exact, of a size near one
    mesh.merge_vertices()
    mesh.vertices = np.ldexp(mesh.vertices, exponent)
    return mesh
