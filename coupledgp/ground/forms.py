"""Forms in which meshes and points are held by other packages, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.random import FloatArray

# Number of a triangle among the kinds of cells of VTK.
VTK_TRIANGLE = 5
# Longitudes and latitudes of WGS 84.
LONLAT = "EPSG:4326"
MESHES = (
    "a trimesh.Trimesh, pyvista.PolyData, meshio.Mesh or open3d mesh, arrays `vertices` and "
    "`faces`, or a pair (vertices, faces)"
)
SCENES = "trimesh.load(path, force='mesh') makes a mesh of a file or a scene"


def is_mesh(value: Any) -> bool:
    """Whether a value is one of the forms of a mesh that `mesh_arrays` reads."""
    return _parts(value) is not None


def mesh_arrays(mesh: Any) -> tuple[Any, Any]:
    """Vertices and faces of a mesh, unchecked.

    Parameters
    ----------
    mesh
        Anything with `vertices` and `faces` (trimesh) or `triangles` (open3d); `pyvista.PolyData`
        or an unstructured grid; `meshio.Mesh`; or a pair of arrays.

    Raises
    ------
    InvalidInputError
        The value is none of these, or has cells other than triangles.
    """
    found = _parts(mesh)
    if found is None:
        raise InvalidInputError(f"mesh: expected {MESHES}, got {type(mesh).__name__}; {SCENES}")
    return found


def _parts(mesh: Any) -> tuple[Any, Any] | None:
    for faces in ("faces", "triangles"):
        if hasattr(mesh, "vertices") and hasattr(mesh, faces):
            return mesh.vertices, getattr(mesh, faces)
    if hasattr(mesh, "points") and hasattr(mesh, "cells_dict"):
        return mesh.points, _cells(mesh.cells_dict)
    if hasattr(mesh, "points") and hasattr(mesh, "faces") and hasattr(mesh, "n_cells"):
        return mesh.points, _padded(mesh)
    if isinstance(mesh, (tuple, list)) and len(mesh) == 2:
        vertices, faces = mesh
        if np.ndim(vertices) == 2 and np.ndim(faces) == 2:
            return np.asarray(vertices), np.asarray(faces)
    return None


def _cells(kinds: Any) -> Any:
    """Triangles of a dictionary of cells by kind, a text in meshio, a number in VTK."""
    others = [kind for kind in kinds if kind not in ("triangle", VTK_TRIANGLE, "vertex", "line")]
    found = [kinds[kind] for kind in ("triangle", VTK_TRIANGLE) if kind in kinds]
    if others or not found:
        named = ", ".join(str(kind) for kind in others) or "none"
        raise InvalidInputError(
            f"mesh: expected triangles, got cells of kind {named}; take the surface and cut it "
            "into triangles, as mesh.extract_surface().triangulate() of pyvista does"
        )
    return found[0]


def _padded(mesh: Any) -> Any:
    """Triangles of an array that names the number of corners before those of each face."""
    flat = np.asarray(mesh.faces)
    if flat.size % 4 or (flat.reshape(-1, 4)[:, 0] != 3).any():
        raise InvalidInputError(
            "mesh: expected triangles, got faces with other numbers of corners; mesh.triangulate() "
            "of pyvista cuts them"
        )
    return flat.reshape(-1, 4)[:, 1:]


def is_point_table(value: Any) -> bool:
    """Whether a value is a GeoDataFrame or GeoSeries."""
    return hasattr(value, "crs") and hasattr(value, "to_crs")


def table_points(table: Any, is_geographic: bool, name: str) -> FloatArray:
    """Positions (p, 2) or (p, 3) of the points of a GeoDataFrame or GeoSeries.

    Parameters
    ----------
    table
        The table; a coordinate system that it names is turned into longitudes and latitudes where
        the operator has these.
    is_geographic
        Whether the operator takes longitudes and latitudes.
    name
        Name of the argument in errors.

    Raises
    ------
    InvalidInputError
        A geometry is missing or is no point, or degrees meet an operator in units of length.
    """
    points = _checked_points(table, name)
    if table.crs is not None:
        if is_geographic:
            points = points.to_crs(LONLAT)
        elif table.crs.is_geographic:
            raise InvalidInputError(
                f"{name}: expected positions in the unit of the operator, got degrees "
                f"({table.crs.to_string():.60}); project them with to_crs, or make the operator "
                "with is_geographic=True"
            )
    return np.column_stack(list(_coordinates(points, "xyz").values()))


def with_coordinates(table: Any, crs: str | None, name: str) -> tuple[Any, str | None]:
    """A GeoDataFrame or GeoSeries of points as a table of pandas, and its coordinate system.

    Its first columns are `longitude` and `latitude` (WGS 84) where the system has degrees, else `x`
    and `y`, and `z` where all points have it. The other columns follow.

    Parameters
    ----------
    table
        The table.
    crs
        Coordinate system of a fit, into which points are turned; None: their own.
    name
        Name of the argument in errors.

    Raises
    ------
    InvalidInputError
        A geometry is missing or is no point, or the coordinate system of a fit is given and the
        points have none.
    """
    from pandas import DataFrame, concat  # slow to import; geopandas needs it

    points = _checked_points(table, name)
    if crs is None and table.crs is not None:
        crs = LONLAT if table.crs.is_geographic else table.crs.to_string()
    if crs is not None and table.crs is None:
        raise InvalidInputError(
            f"{name}: expected points in {crs:.60}, as in the fit, got points without a coordinate "
            "system; set_crs names it"
        )
    points = points if crs is None else points.to_crs(crs)
    names = ("longitude", "latitude", "z") if crs == LONLAT else "xyz"
    found = DataFrame(_coordinates(points, names), index=table.index)
    if hasattr(table, "columns"):
        found = concat([found, DataFrame(table.drop(columns=points.name))], axis=1)
    return found, crs


def _checked_points(table: Any, name: str) -> Any:
    """The geometry of a table, which is one of points."""
    points = table.geometry
    bad = np.flatnonzero(points.isna() | points.is_empty | (points.geom_type != "Point"))
    if bad.size:
        raise InvalidInputError(
            f"{name}: expected points, got {points.iloc[int(bad[0])]!s:.60} in row {bad[0]} "
            f"({bad.size} such rows)"
        )
    return points


def _coordinates(points: Any, names: Sequence[str]) -> dict[str, FloatArray]:
    """Coordinates (p,) of points by name, with heights where all have them."""
    columns = [points.x, points.y, *([points.z] if bool(points.has_z.all()) else [])]
    found = (np.asarray(column, dtype=np.float64) for column in columns)
    return dict(zip(names, found, strict=False))
