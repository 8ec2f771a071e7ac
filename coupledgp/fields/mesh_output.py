"""Triangle meshes with values at vertices or faces: VTK, PLY and glTF."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coupledgp.errors import InvalidInputError
from coupledgp.graphs.forms import mesh_arrays
from coupledgp.ground.extras import library
from coupledgp.ground.output import written_whole
from coupledgp.ground.validation import check_choice, wrong
from coupledgp.ground.visible import warn
from coupledgp.random import FloatArray, IntArray

Location = Literal["vertices", "faces"]
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Red, green, blue and opacity of a place without a value.
GREY = (0xC9, 0xCE, 0xD3, 0xFF)
# A dull surface that is seen from both sides and shows the vertices' colours as they are.
MATERIAL = {
    "name": "values",
    "doubleSided": True,
    "pbrMetallicRoughness": {"metallicFactor": 0.0, "roughnessFactor": 1.0},
}
LINEAR = "_LINEAR_COLOUR"
# Rounding of coordinates to single precision that goes without a warning, relative to the extent.
ROUNDING = 1e-6
# Names that the formats use themselves.
TAKEN = ("x", "y", "z", "red", "green", "blue", "alpha", "vertex_indices", "color_0", "position")


@dataclass(frozen=True)
class MeshFields:
    """A mesh and its fields, checked.

    Attributes
    ----------
    vertices : FloatArray (v, 3)
    faces : IntArray (f, 3)
    at_vertices, at_faces : dict of FloatArray (v,) and (f,)
        Fields by name.
    """

    vertices: FloatArray
    faces: IntArray
    at_vertices: dict[str, FloatArray]
    at_faces: dict[str, FloatArray]

    def coloured(self) -> tuple[str, FloatArray] | None:
        """Location and values of the field that gives colours: `mean`, else the first one."""
        for wanted in ("mean", None):
            for place, fields in (("vertices", self.at_vertices), ("faces", self.at_faces)):
                for name, values in fields.items():
                    if wanted in (name, None):
                        return place, values
        return None


def write_mesh(
    path: str | os.PathLike[str],
    mesh: Any,
    /,
    *,
    location: Location | None = None,
    **fields: ArrayLike,
) -> None:
    """Write a triangle mesh with fields; the extension of the path tells the format.

    | extension | fields | read by |
    |---|---|---|
    | .vtu, .vtk | point data and cell data, float64 | ParaView, PyVista, meshio |
    | .ply | properties of vertices and faces, float64; colours | MeshLab, Blender, trimesh |
    | .glb, .gltf | attributes `_MEAN`, `_STD`, float32; colours | browsers, Blender, trimesh |

    Colours are those of the field `mean`, or of the first one without it: viridis from its least to
    its greatest value, grey where it is NaN. Of a PLY, PyVista reads colours alone, and meshio no
    properties of faces; .vtu is the format for them. glTF has no values of faces: where there are
    any, every face gets three vertices of its own that carry them. VTK files need the extra
    `geo`.

    Parameters
    ----------
    path
        Path of the file, which is written whole or not at all.
    mesh
        A mesh of trimesh, PyVista, meshio or open3d, anything with `vertices` (v, 3) and `faces`
        (f, 3), or a pair of these arrays.
    location
        `"vertices"` or `"faces"`, for meshes with as many vertices as faces. Else the number of
        values tells where they are.
    **fields
        Values by name, (v,) or (f,). Names are letters, digits and underscores. NaN is allowed but
        in glTF, whose standard has no NaN. Vertices that no face uses are left out of glTF.

    Raises
    ------
    InvalidInputError
        The extension is unknown, the mesh is none, or a field has a wrong name, shape or value.
    MissingLibraryError
        meshio is not installed, for .vtu and .vtk.

    Examples
    --------
    >>> import tempfile
    >>> import trimesh
    >>> import coupledgp as cgp
    >>> sphere = trimesh.creation.icosphere(subdivisions=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cgp.write_mesh(f"{folder}/sphere.ply", sphere, height=sphere.vertices[:, 2])
    """
    kind = mesh_format(path)
    checked = checked_fields(mesh, location, fields)
    with written_whole(path) as temporary:
        save_mesh(temporary, kind, checked)


def mesh_format(path: str | os.PathLike[str], name: str = "path") -> str:
    """The extension of a path, which must be one of a format; `name` names the path in errors."""
    kind = Path(path).suffix.lower()
    if kind not in WRITERS:
        raise wrong(name, f"a file ending in {', '.join(WRITERS)}", os.fspath(path))
    if kind in (".vtu", ".vtk"):
        _meshio()
    return kind


def _meshio() -> Any:
    return library("meshio", "writing .vtu and .vtk")


def save_mesh(path: Path, kind: str, fields: MeshFields) -> None:
    """Write the file at a path of any name, in the format of an extension."""
    WRITERS[kind](path, fields)


def checked_fields(mesh: Any, location: str | None, fields: Mapping[str, ArrayLike]) -> MeshFields:
    """Check a mesh and fields of it, and sort the fields by their location."""
    vertices, faces = _geometry(mesh)
    if location is not None:
        check_choice(location, ("vertices", "faces"), "location")
    counts = {"vertices": len(vertices), "faces": len(faces)}
    placed: dict[str, dict[str, FloatArray]] = {"vertices": {}, "faces": {}}
    for name, given in fields.items():
        _check_name(name, fields)
        values = _values(given, name)
        placed[_location(name, values.size, counts, location)][name] = values
    return MeshFields(vertices, faces, placed["vertices"], placed["faces"])


def _geometry(mesh: Any) -> tuple[FloatArray, IntArray]:
    """Vertices (v, 3) and faces (f, 3) of a mesh."""
    try:
        given = mesh_arrays(mesh)
        vertices, faces = np.asarray(given[0], np.float64), np.asarray(given[1], np.int64)
    except (TypeError, ValueError) as error:
        raise wrong(
            "mesh", "an object with vertices (v, 3) and faces (f, 3)", type(mesh)
        ) from error
    shapes = (vertices.shape, faces.shape)
    if any(len(shape) != 2 or shape[1] != 3 or not shape[0] for shape in shapes):
        raise InvalidInputError(
            f"mesh: expected vertices (v, 3) and faces (f, 3), got shapes {shapes[0]} and "
            f"{shapes[1]}"
        )
    if not np.isfinite(vertices).all():
        row = int(np.flatnonzero(~np.isfinite(vertices).all(axis=1))[0])
        raise InvalidInputError(f"mesh: expected finite vertices, got {vertices[row]} at {row}")
    if faces.min() < 0 or faces.max() >= len(vertices):
        raise InvalidInputError(
            f"mesh: expected faces of vertices 0 to {len(vertices) - 1}, got numbers "
            f"{faces.min()} to {faces.max()}"
        )
    return vertices, faces


def _check_name(name: str, fields: Mapping[str, ArrayLike]) -> None:
    if not NAME.fullmatch(name) or name.lower() in TAKEN:
        raise InvalidInputError(
            f"fields: expected a name of letters, digits and underscores that is none of "
            f"{', '.join(TAKEN)}, got {name!r}"
        )
    same = [other for other in fields if other.lower() == name.lower()]
    if len(same) > 1:
        raise InvalidInputError(
            f"fields: expected names that differ in more than upper and lower case, got {same}"
        )


def _values(given: ArrayLike, name: str) -> FloatArray:
    try:
        values = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{name}: expected numbers: {error}") from error
    if values.ndim != 1 or np.isinf(values).any():
        raise InvalidInputError(
            f"{name}: expected a vector of numbers that are not infinite, got shape "
            f"{values.shape}" + (" with infinite ones" if values.ndim == 1 else "")
        )
    return values


def _location(name: str, size: int, counts: Mapping[str, int], given: str | None) -> str:
    """Location of the values of a field: vertices or faces."""
    fitting = [place for place, count in counts.items() if count == size]
    if given in fitting:
        return given
    if len(fitting) == 1 and given is None:
        return fitting[0]
    if len(fitting) == 2:
        raise InvalidInputError(
            f"{name}: expected location='vertices' or location='faces', as the mesh has "
            f"{size} of both"
        )
    expected = f"{counts[given]} values" if given else " or ".join(
        f"{count} values at its {place}" for place, count in counts.items()
    )  # fmt: skip
    raise wrong(name, expected, size)


def _write_vtk(path: Path, mesh: MeshFields, file_format: str) -> None:
    meshio = _meshio()
    content = meshio.Mesh(
        mesh.vertices,
        [("triangle", mesh.faces)],
        point_data=mesh.at_vertices,
        cell_data={name: [values] for name, values in mesh.at_faces.items()},
    )
    meshio.write(path, content, file_format=file_format)


def _write_ply(path: Path, mesh: MeshFields) -> None:
    trimesh = importlib.import_module("trimesh")
    moved = np.abs(mesh.vertices - mesh.vertices.astype(np.float32)).max()
    if moved > ROUNDING * np.ptp(mesh.vertices, axis=0).max():
        warn(
            f"path: PLY has coordinates in single precision, which moves vertices by up to "
            f"{moved:.2g}; .vtu keeps them"
        )
    solid = trimesh.Trimesh(
        mesh.vertices, mesh.faces, process=False,
        vertex_attributes=mesh.at_vertices, face_attributes=mesh.at_faces,
    )  # fmt: skip
    if (found := mesh.coloured()) is not None:
        place, values = found
        setattr(solid.visual, {"vertices": "vertex", "faces": "face"}[place] + "_colors",
                value_colours(values))  # fmt: skip
    path.write_bytes(trimesh.exchange.ply.export_ply(solid, vertex_normal=False))


def _write_gltf(path: Path, mesh: MeshFields, binary: bool) -> None:
    vertices, faces, values = _corners(mesh)
    bad = [name for name, value in values.items() if np.isnan(value).any()]
    if bad:
        raise InvalidInputError(f"{bad[0]}: expected finite values, as glTF has no NaN")
    found = mesh.coloured()
    if found is not None:
        place, levels = found
        colours = value_colours(levels)
        if mesh.at_faces:
            colours = np.repeat(colours, 3, axis=0) if place == "faces" else (
                colours[mesh.faces.ravel()]
            )  # fmt: skip
        else:
            colours = colours[np.unique(mesh.faces)]
    path.write_bytes(gltf_bytes(vertices, faces, values, colours if found else None, binary))


def _corners(mesh: MeshFields) -> tuple[FloatArray, IntArray, dict[str, FloatArray]]:
    """The mesh with all fields at vertices; fields of faces give each face vertices of its own.

    Vertices that no face uses are left out.
    """
    if not mesh.at_faces:
        used, faces = np.unique(mesh.faces, return_inverse=True)
        values = {name: value[used] for name, value in mesh.at_vertices.items()}
        return mesh.vertices[used], faces.reshape(-1, 3), values
    corners = mesh.faces.ravel()
    values = {name: value[corners] for name, value in mesh.at_vertices.items()}
    values |= {name: np.repeat(value, 3) for name, value in mesh.at_faces.items()}
    return mesh.vertices[corners], np.arange(corners.size).reshape(-1, 3), values


def gltf_bytes(
    vertices: FloatArray,
    faces: IntArray,
    values: Mapping[str, FloatArray],
    colours: NDArray[np.uint8] | None,
    binary: bool,
) -> bytes:
    """Return the bytes of a .glb file, or of a .gltf file that holds its buffers itself.

    Attributes are named by an underscore and capitals, as the standard asks of an application's own
    ones, and are in single precision, as are coordinates: they are stored relative to the mesh's
    centre, which the node's translation holds. Colours (v, 4) are stored in linear light, in which
    the standard reads them.
    """
    trimesh = importlib.import_module("trimesh")
    exchange = trimesh.exchange.gltf
    centre = (vertices.min(axis=0) + vertices.max(axis=0)) / 2
    mesh = trimesh.Trimesh(vertices - centre, faces, process=False)
    for name, value in values.items():
        mesh.vertex_attributes[f"_{name.upper()}"] = value
    if colours is not None:
        mesh.vertex_attributes[LINEAR] = linear_light(colours)
    scene = trimesh.Scene()
    placed = np.eye(4)
    placed[:3, 3] = centre
    scene.add_geometry(mesh, node_name="mesh", geom_name="mesh", transform=placed)
    if binary:
        return bytes(
            exchange.export_glb(scene, include_normals=False, tree_postprocessor=_finished)
        )
    files = exchange.export_gltf(
        scene, include_normals=False, merge_buffers=True, embed_buffers=True,
        tree_postprocessor=_finished,
    )  # fmt: skip
    return bytes(files["model.gltf"])


def _finished(tree: dict[str, Any]) -> None:
    """Name the colours as the standard does, and give the mesh its material."""
    tree["materials"] = [MATERIAL]
    (part,) = tree["meshes"][0]["primitives"]
    part["material"] = 0
    if LINEAR in part["attributes"]:
        part["attributes"]["COLOR_0"] = part["attributes"].pop(LINEAR)


def value_colours(values: FloatArray) -> NDArray[np.uint8]:
    """Colours (n, 4) of values (n,), viridis from the least to the greatest; grey without value."""
    from matplotlib import colormaps

    known = np.isfinite(values)
    low, high = (values[known].min(), values[known].max()) if known.any() else (0.0, 1.0)
    spread = high - low
    levels = np.where(known, values - low, 0.0) / (spread if spread > 0 else 1.0)
    rgba: NDArray[np.uint8] = colormaps["viridis"](levels, bytes=True)
    rgba[~known] = GREY
    return rgba


def linear_light(colours: NDArray[np.uint8]) -> FloatArray:
    """Colours (n, 4) from 0 to 1 in linear light, from those of a screen (sRGB, IEC 61966-2-1)."""
    shares = colours / 255.0
    rgb = shares[:, :3]
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return np.concatenate([linear, shares[:, 3:]], axis=1)


GLTF = (".glb", ".gltf")
WRITERS: dict[str, Callable[[Path, MeshFields], None]] = {
    ".vtu": lambda path, mesh: _write_vtk(path, mesh, "vtu"),
    ".vtk": lambda path, mesh: _write_vtk(path, mesh, "vtk"),
    ".ply": _write_ply,
    ".glb": lambda path, mesh: _write_gltf(path, mesh, binary=True),
    ".gltf": lambda path, mesh: _write_gltf(path, mesh, binary=False),
}
