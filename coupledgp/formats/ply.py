"""Binary PLY files (Turk 1994) of triangles, with properties and colours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coupledgp.random import FloatArray, IntArray

COLOUR = ("red", "green", "blue", "alpha")
TYPES = {"<f4": "float", "<f8": "double", "u1": "uchar"}
# Rounding of coordinates to single precision that is accepted, relative to the extent of the mesh.
ROUNDING = 1e-6


def ply_bytes(
    vertices: FloatArray,
    faces: IntArray,
    at_vertices: Mapping[str, FloatArray],
    at_faces: Mapping[str, FloatArray],
    vertex_colours: NDArray[np.uint8] | None = None,
    face_colours: NDArray[np.uint8] | None = None,
) -> bytes:
    """Return the bytes of a file of vertices (v, 3) and faces (f, 3).

    Fields are properties in double precision, colours (v, 4) and (f, 4) are bytes. Coordinates are
    in single precision, as most readers keep them, or in double where that would move a vertex by
    more than a millionth of the mesh's extent.
    """
    real = _coordinate_type(vertices)
    points = _table(
        {name: (real, vertices[:, k]) for k, name in enumerate("xyz")}, at_vertices, vertex_colours
    )
    corners = np.empty(len(faces), dtype=[("count", "u1"), ("corners", "<i4", 3)])
    corners["count"], corners["corners"] = 3, faces
    further = _table({}, at_faces, face_colours)
    lines = [
        "ply", "format binary_little_endian 1.0", "comment written by coupledgp",
        f"element vertex {len(vertices)}", *_properties(points),
        f"element face {len(faces)}", "property list uchar int vertex_indices",
        *_properties(further), "end_header",
    ]  # fmt: skip
    header = "".join(f"{line}\n" for line in lines).encode("ascii")
    return header + points.tobytes() + _joined(corners, further).tobytes()


def _coordinate_type(vertices: FloatArray) -> str:
    extent = float(np.ptp(vertices, axis=0).max())
    with np.errstate(over="ignore"):
        moved = float(np.abs(vertices - vertices.astype(np.float32)).max())
    return "<f4" if moved <= ROUNDING * extent else "<f8"


def _table(
    columns: Mapping[str, tuple[str, FloatArray]],
    fields: Mapping[str, FloatArray],
    colours: NDArray[np.uint8] | None,
) -> NDArray[np.void]:
    """One record for each vertex or face: columns with their types, colours, then fields."""
    filled: dict[str, tuple[str, NDArray[Any]]] = dict(columns)
    if colours is not None:
        filled |= {name: ("u1", colours[:, k]) for k, name in enumerate(COLOUR)}
    filled |= {name: ("<f8", values) for name, values in fields.items()}
    size = max((len(values) for _, values in filled.values()), default=0)
    table = np.empty(size, dtype=[(name, kind) for name, (kind, _) in filled.items()])
    for name, (_, values) in filled.items():
        table[name] = values
    return table


def _properties(table: NDArray[np.void]) -> list[str]:
    kinds = {np.dtype(kind): name for kind, name in TYPES.items()}
    return [f"property {kinds[table.dtype[name]]} {name}" for name in table.dtype.names or ()]


def _joined(first: NDArray[np.void], second: NDArray[np.void]) -> NDArray[np.void]:
    """The records of two tables side by side."""
    if not second.dtype.names:
        return first
    both = np.empty(len(first), dtype=first.dtype.descr + second.dtype.descr)
    for table in (first, second):
        for name in table.dtype.names or ():
            both[name] = table[name]
    return both
