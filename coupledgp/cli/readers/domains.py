"""Surfaces and networks with lengths, on which `coupledgp interpolate` puts a field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from coupledgp.cli.readers.files import about, on_disk
from coupledgp.cli.readers.networks import (
    MARKUP,
    MESHES,
    TABLES,
    is_table,
    measure,
    read_edges,
    read_mesh,
)
from coupledgp.cli.readers.node_values import positions_of
from coupledgp.cli.readers.tables import read_table
from coupledgp.datasets import SHAPES, shape
from coupledgp.errors import InvalidInputError, MissingLibraryError
from coupledgp.formats.projection import LONLAT, METRES, Plane
from coupledgp.formats.road_files import (
    LINES,
    TOLERANCE,
    edge_values,
    from_graph,
    graph_positions,
    parse_markup,
    read_roads,
)
from coupledgp.formats.roads import RoadNetwork, same_roads
from coupledgp.geometry.checks import MaxEdge
from coupledgp.geometry.locations import Locations
from coupledgp.geometry.operator import LaplaceOperator
from coupledgp.ground.visible import warn
from coupledgp.random import FloatArray, IntArray

UNITS = {"length_m": "m", "length_km": "km"}
METRES_OF = {"km": 1000.0}


@dataclass(frozen=True, eq=False)
class SpatialDomain:
    """A surface or network as read from a file.

    Attributes
    ----------
    operator : LaplaceOperator
        Its operator.
    kind : str
        Description of the source in words.
    unit : str
        Unit of lengths.
    mesh : trimesh.Trimesh or None
        The mesh of a surface, with vertices and faces as they are numbered in the file.
    roads : RoadNetwork or None
        The network, if its nodes have positions.
    edge_rows : (IntArray, NDArray of bool) or None
        Edge of the operator that each row of an edge table is, and whether it runs the other way.
    """

    operator: LaplaceOperator
    kind: str
    unit: str
    mesh: Any = field(default=None, repr=False)
    roads: RoadNetwork | None = None
    edge_rows: tuple[IntArray, Any] | None = field(default=None, repr=False)

    @property
    def is_surface(self) -> bool:
        """Whether it is a surface, else a network."""
        return self.operator.dimension == 2

    @cached_property
    def labels(self) -> tuple[Any, ...]:
        """Names of the given vertices or nodes."""
        labels = self.operator.labels
        return tuple(range(self.operator.n_given)) if labels is None else tuple(labels)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Numbers of the given vertices or nodes by the text of their names."""
        return {str(label): k for k, label in enumerate(self.labels)}

    def at_numbers(self, numbers: IntArray) -> Locations:
        """Places of given vertices or nodes (p,) by their numbers."""
        labels = self.operator.labels
        return self.operator.at_vertices(
            numbers if labels is None else [labels[k] for k in numbers.tolist()]
        )

    def at_rows(self, rows: IntArray, offsets: FloatArray) -> Locations:
        """Places on the edges of rows (p,) of the file, at offsets (p,) from their sources."""
        if self.edge_rows is None:
            return self.operator.at_edges(rows, offsets)
        edge, turned = self.edge_rows
        assert self.operator.given_lengths is not None
        edges = edge[rows]
        lengths = self.operator.given_lengths[edges]
        return self.operator.at_edges(edges, np.where(turned[rows], lengths - offsets, offsets))


@dataclass(frozen=True)
class DomainOptions:
    """Options of the command line that say how a domain is read.

    Attributes
    ----------
    length : str or None
        Column or attribute of lengths.
    max_edge : str
        `"auto"`, `"none"` or a number, as text.
    positions : Path or None
        Table of positions of an edge table's nodes.
    node_column : str or None
        Column of nodes in it.
    layer, crs : str or None
        Layer of a file of lines, and the coordinate system of one that has none.
    covariates : sequence of Path or None
        Tables of what a field depends on, a row of each vertex or face, node or edge.
    """

    length: str | None = None
    max_edge: str = "auto"
    positions: Path | None = None
    node_column: str | None = None
    layer: str | None = None
    crs: str | None = None
    covariates: Sequence[Path] | None = None

    @property
    def longest(self) -> MaxEdge:
        """The largest length of an edge."""
        if self.max_edge in ("auto", "none"):
            return "auto" if self.max_edge == "auto" else None
        try:
            value = float(self.max_edge)
        except ValueError:
            value = np.nan
        if not 0 < value < np.inf:
            raise InvalidInputError(
                f"--max-edge: expected auto, none or a length > 0, got {self.max_edge!r}"
            )
        return value


def is_mesh(path: Path) -> bool:
    """Whether a path has the extension of a mesh, or is one of `coupledgp.datasets.SHAPES`."""
    return str(path) in SHAPES or path.suffix.lower() in MESHES


def read_domain(path: Path, options: DomainOptions) -> SpatialDomain | None:
    """Read a mesh, roads or a network; None for a network whose edges have no lengths.

    Raises
    ------
    InvalidInputError
        The file is of another kind, or an option does not go with it.
    """
    found = _read(path, options)
    if found is None or not options.covariates:
        return found
    with about(*options.covariates):
        tables = [read_table(path) for path in options.covariates]
        named = {name: one.column(name).to_numpy() for one in tables for name in one.column_names}
        return replace(found, operator=found.operator.with_columns(named))


def _read(path: Path, options: DomainOptions) -> SpatialDomain | None:
    """The domain without covariates."""
    kind = path.suffix.lower()
    longest = options.longest
    if is_mesh(path):
        _refuse(options, ("length", "positions", "layer", "crs"), "a network")
        return _surface(path, longest)
    if kind not in (*MARKUP, *LINES) and not is_table(path):
        known = ", ".join((*TABLES, *MARKUP, *LINES, *MESHES))
        raise InvalidInputError(
            f"GRAPH: expected a file ending in {known}, or one of {', '.join(SHAPES)}; "
            f"got {str(path)!r}"
        )
    with about(path):
        if kind in LINES:
            _refuse(options, ("positions",), "an edge table")
            source = on_disk(path)
            roads = read_roads(source, length=options.length, layer=options.layer, crs=options.crs)
            return _on_roads(roads, f"{kind[1:]}, {_sizes(roads)}", longest)
        _refuse(options, ("layer",), "a file of lines")
        if kind in MARKUP:
            return _read_markup(path, options)
        return _read_table(path, options)


def _refuse(options: DomainOptions, names: tuple[str, ...], kind: str) -> None:
    for name in names:
        if getattr(options, name) is not None:
            raise InvalidInputError(f"--{name}: expected it for {kind} only")


def _surface(path: Path, longest: MaxEdge) -> SpatialDomain:
    name = str(path)
    mesh = shape(name) if name in SHAPES else read_mesh(path, numbered=True)
    with about(path):
        operator = LaplaceOperator.from_trimesh(mesh, max_edge=longest)
    kind = f"mesh, {len(mesh.faces)} faces, {len(mesh.vertices)} vertices"
    return SpatialDomain(operator, kind, "mesh units", mesh)


def _sizes(roads: RoadNetwork) -> str:
    return f"{roads.n_edges} roads between {roads.n_nodes} nodes"


def _on_roads(roads: RoadNetwork, kind: str, longest: MaxEdge, unit: str = "m") -> SpatialDomain:
    return SpatialDomain(roads.operator(longest), kind, unit, roads=roads)


def _read_table(path: Path, options: DomainOptions) -> SpatialDomain | None:
    found = read_edges(path, None, options.length)
    if found.length is None:
        return None
    assert found.values is not None
    labels, ends, lengths, length = found.labels, found.ends, found.values, found.length
    number = {str(label): k for k, label in enumerate(labels)}
    bad = np.flatnonzero(~(lengths > 0))
    if bad.size:
        raise InvalidInputError(
            f"{path}: column {length!r}, data row {bad[0] + 1}: expected a length > 0, got "
            f"{lengths[bad[0]]}"
        )
    kept, edge = np.unique(_same(ends, lengths), return_inverse=True)
    turned = (ends != ends[kept][edge]).any(axis=1)
    kind = f"edge table, {len(ends)} rows, lengths {length}"
    unit = UNITS.get(length, f"units of {length}")
    placed = _placed(options, number, ends[kept], lengths[kept], tuple(labels))
    if placed is not None:
        domain = _on_roads(placed, kind, options.longest, unit)
    else:
        operator = _unplaced(ends[kept], lengths[kept], labels, options.longest)
        domain = SpatialDomain(operator, kind, unit)
    return replace(domain, edge_rows=(edge, turned))


def _same(ends: IntArray, lengths: FloatArray) -> IntArray:
    """Number (m,) of the first edge that is the same road, where courses are not known."""
    return same_roads(ends, lengths, np.zeros((len(ends), 2)), 0.0)


def _unplaced(
    ends: IntArray, lengths: FloatArray, labels: list[Any], longest: MaxEdge
) -> LaplaceOperator:
    sources, targets = ([labels[k] for k in side] for side in ends.T)
    return LaplaceOperator.from_edges(sources, targets, lengths, labels=labels, max_edge=longest)


def _placed(
    options: DomainOptions, number: Mapping[str, int], ends: IntArray, lengths: FloatArray,
    labels: tuple[Any, ...],
) -> RoadNetwork | None:  # fmt: skip
    """The network with nodes at the positions of a table, if there is one; roads are straight."""
    if options.positions is None:
        return None
    coordinates, in_degrees = positions_of(options.positions, number, options.node_column)
    system = options.crs or (LONLAT if in_degrees else METRES)
    plane = Plane.fitting(system, coordinates)
    places = plane.metres(coordinates)
    lines = tuple(places[pair] for pair in ends)
    return RoadNetwork(ends, lengths, places, lines, np.arange(len(ends)), labels, plane)


def _read_markup(path: Path, options: DomainOptions) -> SpatialDomain | None:
    if options.positions is not None:
        raise InvalidInputError("--positions: expected it for an edge table only")
    found = parse_markup(on_disk(path))
    edges = list(found.edges(data=True))
    names = {name for *_, attributes in edges for name in attributes}
    if options.length is not None and options.length not in names:
        raise InvalidInputError(
            f"{path}: expected an edge attribute {options.length!r}, got {sorted(names)}"
        )
    _, length = measure(names, None, options.length)
    if length is None:
        return None
    kind = "GraphML" if path.suffix.lower() == ".graphml" else "GML"
    unit = UNITS.get(length, "m" if length == "length" else f"units of {length}")
    if graph_positions(found) is not None:
        try:
            scale = METRES_OF.get(unit, 1.0)
            roads = from_graph(found, length, options.crs, TOLERANCE, scale)
        except MissingLibraryError as error:
            warn(f"{path}: positions are left out: {error}")
        else:
            words = f"{kind}, {_sizes(roads)}, lengths {length}"
            return _on_roads(roads, words, options.longest, unit)
    labels, lengths = list(found.nodes), edge_values(edges, length)
    number = {label: k for k, label in enumerate(labels)}
    ends = np.array([[number[edge[0]], number[edge[1]]] for edge in edges], dtype=np.int64)
    kept = np.unique(_same(ends, lengths))
    operator = _unplaced(ends[kept], lengths[kept], labels, options.longest)
    return SpatialDomain(operator, f"{kind}, lengths {length}", unit)
