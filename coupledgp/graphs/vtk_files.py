"""Surfaces in files of VTK, read by meshio; those of PolyData in XML are read as cells."""

from __future__ import annotations

import importlib
import io
import re
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.graphs.forms import mesh_arrays

ENDINGS = (".vtu", ".vtk", ".vtp")
# Polygons among the kinds of cells of VTK.
POLYGON = 7
# Cells of PolyData that are no faces.
OTHERS = re.compile(rb"<(Verts|Lines|Strips)\s*(/>|>.*?</\1>)", re.DOTALL)
# An array whose values stand at an offset behind all cells, and those values in base64.
APPENDED = re.compile(
    rb'format="appended"([^>]*?)\s+offset="(\d+)"([^>]*?)(?:/>|>.*?</DataArray>)', re.DOTALL
)
VALUES = re.compile(rb'<AppendedData encoding="base64">\s*_(.*?)\s*</AppendedData>', re.DOTALL)


def read_vtk(path: Path) -> tuple[Any, Any]:
    """Vertices (v, 3) and faces (f, 3) of a file.

    Raises
    ------
    InvalidInputError
        It has other cells than triangles.
    """
    if path.suffix.lower() == ".vtk":
        return mesh_arrays(_read(path))
    content = in_place(path.read_bytes())
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "cells.vtu"
        copy.write_bytes(as_cells(content) if path.suffix.lower() == ".vtp" else content)
        found = _read(copy)
    if path.suffix.lower() == ".vtp":
        blocks = [block.data for block in found.cells]
        if not blocks or any(block.shape[1] != 3 for block in blocks):
            raise InvalidInputError("expected triangles, got other polygons")
        return found.points, np.concatenate(blocks)
    return mesh_arrays(found)


def _read(path: Path) -> Any:
    """What meshio reads, which else would print its error and end the process."""
    meshio: Any = importlib.import_module("meshio")
    said = io.StringIO()
    try:
        with redirect_stdout(said), redirect_stderr(said):
            return meshio.read(path)
    except SystemExit:
        raise InvalidInputError(
            "expected a file that meshio reads; of PolyData those ending in .vtp are"
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


def as_cells(content: bytes) -> bytes:
    """PolyData of VTK's XML as an unstructured grid of polygons."""
    if b"<AppendedData" in content:
        raise InvalidInputError("expected arrays as text or in base64, got appended raw bytes")
    if b"<Polys" not in content:
        raise InvalidInputError("expected PolyData with polygons")
    counts = re.search(rb'NumberOfPolys\s*=\s*"(\d+)"', content)
    size = int(counts[1]) if counts else 0
    kinds = b'<DataArray type="UInt8" Name="types" format="ascii">%s</DataArray></Cells>' % (
        b" ".join([b"%d" % POLYGON] * size)
    )
    head = OTHERS.sub(b"", content).replace(b"PolyData", b"UnstructuredGrid")
    head = head.replace(b"NumberOfPolys", b"NumberOfCells").replace(b"<Polys", b"<Cells")
    return head.replace(b"</Polys>", kinds)
