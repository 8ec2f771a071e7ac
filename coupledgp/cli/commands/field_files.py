"""Laws of fields as tables, meshes and roads, for `coupledgp interpolate`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from coupledgp.cli.readers.domains import SpatialDomain
from coupledgp.cli.readers.networks import label_column
from coupledgp.cli.readers.places import ReadPlaces
from coupledgp.cli.readers.tables import check_table_path, write_table
from coupledgp.cli.shared.options import LeftOutPlaces
from coupledgp.errors import InvalidInputError
from coupledgp.formats.meshes import GLTF, WRITERS, checked_fields, mesh_format, save_mesh
from coupledgp.formats.projection import LONLAT
from coupledgp.formats.road_output import DRIVERS, road_format, road_layers, save_roads
from coupledgp.formats.roads import RoadNetwork, RoadPlaces
from coupledgp.geometry.locations import location_positions
from coupledgp.geometry.operator import LaplaceOperator
from coupledgp.ground.validation import check_choice
from coupledgp.models.field_estimator import refined_places
from coupledgp.models.fields import FieldGPRegressor
from coupledgp.random import FloatArray

SURFACE_PLACES = ("vertices", "faces", "refined")
NETWORK_PLACES = ("nodes", "edges")
Law = tuple[FloatArray, FloatArray]
# Values of places by name: numbers, and in tables texts.
Fields = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Piecewise:
    """A network in short pieces, and the law at their middles.

    Attributes
    ----------
    pieces : RoadNetwork
    middles : RoadPlaces
        The middles of the pieces, on the roads that were given.
    law : (FloatArray, FloatArray)
        Mean and standard deviation at the middles.
    """

    pieces: RoadNetwork
    middles: RoadPlaces
    law: Law


def check_output(output: Path, on_mesh: bool) -> None:
    """Refuse a path whose extension names no format of a surface's or network's law."""
    kind = output.suffix.lower()
    if kind in WRITERS and not on_mesh:
        raise InvalidInputError(f"--output: a {kind} needs a mesh, got roads or a network")
    if kind in DRIVERS and on_mesh:
        raise InvalidInputError(f"--output: a {kind} needs roads, got a mesh")
    if kind in WRITERS:
        mesh_format(output, "--output")
    elif kind not in DRIVERS:
        check_table_path(output, "--output", WRITERS if on_mesh else DRIVERS)


def chosen_place(
    domain: SpatialDomain, at: str | None, output: Path, queried: bool, kind: str
) -> str:
    """Element at which the law is written, by the option `--at`, the output and the sensors.

    Raises
    ------
    InvalidInputError
        The domain has no such places, or the output does not hold them.
    """
    ending = output.suffix.lower()
    if queried:
        check_table_path(output, "--output")
        if at is not None:
            raise InvalidInputError("--at: expected no --query beside it, which names the places")
        return "query"
    if domain.is_surface:
        default = "faces" if kind == "faces" else "vertices"
        chosen = check_choice(default if at is None else at, SURFACE_PLACES, "--at")
        if ending in GLTF and chosen == "vertices":
            _check_all_known(domain, ending)
        return chosen
    default = "edges" if ending in DRIVERS else "nodes"
    chosen = check_choice(default if at is None else at, NETWORK_PLACES, "--at")
    if domain.roads is None and (ending in DRIVERS or chosen == "edges"):
        raise InvalidInputError(
            "--output, --at: expected nodes with positions for a map or for places along edges, "
            "got none (--positions gives them)"
        )
    if ending in DRIVERS:
        assert domain.roads is not None
        road_format(output, domain.roads, "--output")
    return chosen


def _check_all_known(domain: SpatialDomain, ending: str) -> None:
    """Refuse corners of faces at which there is no field, where a format has no NaN."""
    corners = np.unique(domain.mesh.faces)
    unknown = corners[domain.operator.given_vertices[corners] < 0]
    if unknown.size:
        raise InvalidInputError(
            f"--output: a {ending} needs a value at every corner of a face, got "
            f"{unknown.size} corners of faces without area alone, such as vertex {unknown[0]}; "
            "--at faces or a .vtu has all values"
        )


def piecewise(model: FieldGPRegressor, domain: SpatialDomain, latent: bool) -> Piecewise:
    """The law along roads, in pieces no longer than the operator's longest one."""
    assert domain.roads is not None
    lengths = domain.operator.element_lengths
    assert lengths is not None
    pieces, middles = domain.roads.split(float(lengths.max()))
    places = domain.operator.at_edges(middles.edges, middles.offsets)
    law = model.predict(places, return_std=True, latent=latent)
    return Piecewise(pieces, middles, law)


def law_at(model: FieldGPRegressor, domain: SpatialDomain, at: str, latent: bool) -> Law:
    """Mean and standard deviation at the vertices, faces or nodes, or at refined vertices."""
    places = None
    if at == "faces":
        places = domain.operator.at_faces()
    elif at == "refined":
        places = refined_places(domain.operator)
    mean, std = model.predict(places, return_std=True, latent=latent)
    return mean, std


def named(law: Law) -> Fields:
    """Mean and standard deviation by name."""
    return dict(zip(("mean", "std"), law, strict=True))


def write_query(places: ReadPlaces, fields: Fields, path: Path, like: Path) -> None:
    """Write the rows of a table of places with columns of fields."""
    table = places.table
    for name, values in fields.items():
        table = table.append_column(name, pa.array(values))
    write_table(table, path, like)


def write_surface(domain: SpatialDomain, at: str, fields: Fields, path: Path, like: Path) -> None:
    """Write fields on a mesh as a table or a mesh."""
    kind = like.suffix.lower()
    if kind in WRITERS:
        mesh = _OperatorMesh(domain.operator) if at == "refined" else domain.mesh
        location = "faces" if at == "faces" else "vertices"
        save_mesh(path, kind, checked_fields(mesh, location, fields))
        return
    if at == "refined":
        positions = domain.operator.positions
    else:
        positions = domain.mesh.triangles_center if at == "faces" else domain.mesh.vertices
    name = "face" if at == "faces" else "vertex"
    size = len(next(iter(fields.values())))
    columns = {name: np.arange(size), **_columns("xyz", np.asarray(positions)), **fields}
    write_table(_table(columns), path, like)


@dataclass(frozen=True)
class _OperatorMesh:
    """The refined mesh of an operator, as a mesh that has vertices and faces."""

    operator: LaplaceOperator

    @property
    def vertices(self) -> FloatArray | None:
        return self.operator.positions

    @property
    def faces(self) -> Any:
        return self.operator.elements


def write_nodes(domain: SpatialDomain, fields: Fields, path: Path, like: Path) -> None:
    """Write fields at the nodes of a network as a table, or as points."""
    kind = like.suffix.lower()
    if kind in DRIVERS:
        assert domain.roads is not None
        save_roads(path, kind, road_layers(kind, domain.roads, "nodes", fields))
        return
    places = {}
    if domain.roads is not None:
        places = _coordinates(domain.roads, domain.roads.positions)
    names = {"node": label_column(list(domain.labels))}
    write_table(_table({**names, **places, **fields}), path, like)


def write_edges(domain: SpatialDomain, found: Piecewise, path: Path, like: Path) -> None:
    """Write the law along roads as lines, or as a table of the pieces' middles."""
    fields = named(found.law)
    kind = like.suffix.lower()
    if kind in DRIVERS:
        save_roads(path, kind, road_layers(kind, found.pieces, "edges", fields))
        return
    assert domain.operator.positions is not None
    places = domain.operator.at_edges(found.middles.edges, found.middles.offsets)
    positions = location_positions(places.points, domain.operator.positions)
    columns = {
        "edge": found.middles.edges, "offset": found.middles.offsets,
        **_coordinates(found.pieces, positions), **fields,
    }  # fmt: skip
    write_table(_table(columns), path, like)


def write_left_out(
    places: ReadPlaces, sensors: Any, loo: LeftOutPlaces, path: Path, like: Path
) -> None:
    """Write sensors left out: place, value, mean, std and standardised residual."""
    rows = places.table.take(pa.array(sensors))
    columns: dict[str, Any] = {"sensor": list(loo.names)}
    columns |= {name: rows.column(name) for name in places.columns if name != "sensor"}
    columns |= {"value": loo.y, "mean": loo.mean, "std": loo.std, "residual": loo.residual}
    write_table(_table(columns), path, like)


def _coordinates(roads: RoadNetwork, positions: FloatArray) -> dict[str, FloatArray]:
    """Columns of coordinates as the file has them: longitude and latitude, or x and y."""
    source = roads.plane.source
    if source is None:
        return _columns("xy", positions)
    if roads.plane.geodesic:
        return _columns(("longitude", "latitude"), roads.plane.coordinates(positions, LONLAT))
    return _columns("xy", roads.plane.coordinates(positions, source))


def _columns(names: Any, values: FloatArray) -> dict[str, FloatArray]:
    return {name: values[:, k] for k, name in enumerate(names)}


def _table(columns: dict[str, Any]) -> pa.Table:
    """A table; NaN of numbers is a missing value."""
    arrays = {
        name: pa.array(values, from_pandas=True) if isinstance(values, np.ndarray) else values
        for name, values in columns.items()
    }
    return pa.table(arrays)
