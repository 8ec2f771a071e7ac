"""Meshes, roads and graphs from files, and the places of a table's rows on them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import coupledgp as cgp
from coupledgp.cli import tables as t
from coupledgp.cli.options import Text
from coupledgp.cli.shared import about, notice, on_disk
from coupledgp.datasets import SHAPES, shape
from coupledgp.errors import InvalidInputError
from coupledgp.fields import mesh_files
from coupledgp.fields.locations import Locations
from coupledgp.fields.road_files import LINES, MARKUP, parse_markup, with_int_names
from coupledgp.fields.roads import LONLAT
from coupledgp.fields.roads import METRES as NOWHERE
from coupledgp.ground.validation import check_choice, wrong
from coupledgp.random import IntArray

LENGTHS = ("length", "length_m", "length_km", "distance")
# Sensors within this share of a mesh's size are of another unit.
ONE_PLACE = 0.01
# Attributes of nodes that are positions.
PLACED = (("x", "y"), ("longitude", "latitude"), ("lon", "lat"))
WHOLE_NUMBER = r"0|[1-9]\d{0,17}"


@dataclass(frozen=True)
class Source:
    """How a mesh, roads or a graph are read: options of the command line.

    Attributes
    ----------
    model : str
        `"field"`, `"graph"`, or `"auto"`: a field where edges have lengths.
    length, weight : str or None
        Column or attribute of the edges.
    positions : Path or None
        Table of nodes with x and y, or longitude and latitude.
    layer, crs : str or None
        Of files of roads.
    max_edge : str
        `"auto"`, `"none"` or a length.
    nodes : str or None
        `"faces"` or `"vertices"` of a mesh.
    node_column : str or None
        Column of nodes in t.
    """

    model: str = "auto"
    length: str | None = None
    weight: str | None = None
    positions: Path | None = None
    layer: str | None = None
    crs: str | None = None
    max_edge: str = "auto"
    nodes: str | None = None
    node_column: str | None = None

    def check(self, path: Path) -> None:
        """Refuse values that no file makes right.

        Raises
        ------
        InvalidInputError
            An option has an unknown value, or does not go with the kind of the file.
        """
        check_choice(self.model, ("auto", "field", "graph"), "--model")
        check_choice(self.nodes or "faces", ("faces", "vertices"), "--nodes")
        if self.length is not None and self.weight is not None:
            raise InvalidInputError("--weight, --length: expected at most one of them")
        _ = self.longest
        known = (*mesh_files.ENDINGS, *LINES, *MARKUP, *t.WRITTEN)
        if path.suffix.lower() not in (*known, "") and str(path) not in SHAPES:
            raise InvalidInputError(
                "GRAPH: expected a mesh, roads, GraphML, GML or a table of edges, a file ending in "
                f"{', '.join(known)}; got {str(path)!r}"
            )
        of_network = (self.length, self.weight, self.positions, self.layer, self.crs)
        if is_mesh(path) and any(of_network):
            raise InvalidInputError(
                "--length, --weight, --positions, --layer, --crs: expected them for a network only"
            )

    @property
    def longest(self) -> Any:
        """The longest element of a field, as operators take it."""
        if self.max_edge in ("auto", "none"):
            return "auto" if self.max_edge == "auto" else None
        value = pd.to_numeric(self.max_edge, errors="coerce")
        if not 0 < value < np.inf:
            raise wrong("--max-edge", "auto, none or a length > 0", self.max_edge)
        return float(value)


@dataclass(frozen=True, eq=False)
class Domain:
    """A mesh, roads or a graph.

    Attributes
    ----------
    path : Path
    operator : LaplaceOperator or None
        Of a field; None: of a graph.
    graph : Graph or None
        Of a kernel on nodes; None: of a field.
    mesh : trimesh.Trimesh or None
    roads : RoadNetwork or None
        Where positions are known.
    coordinates, crs : FloatArray (n_nodes, 2 or 3) or None, str or None
        Of the nodes of a graph, for pictures.
    """

    path: Path
    operator: Any = None
    graph: Any = None
    mesh: Any = field(default=None, repr=False)
    roads: Any = field(default=None, repr=False)
    coordinates: Any = field(default=None, repr=False)
    crs: str | None = None

    @property
    def is_surface(self) -> bool:
        """Whether it is a field on a mesh."""
        return self.operator is not None and self.operator.dimension == 2

    @cached_property
    def labels(self) -> list[Any]:
        """Names of the nodes, or of the given vertices."""
        if self.graph is not None:
            return list(self.graph.label_all(np.arange(self.graph.n_nodes)))
        labels = self.operator.labels
        return list(range(self.operator.n_given)) if labels is None else list(labels)

    @cached_property
    def by_text(self) -> Mapping[str, int]:
        """Numbers of the nodes by the text of their names."""
        return {str(label): k for k, label in enumerate(self.labels)}

    def find(self, wanted: Sequence[str], where: Any) -> Any:
        """Labels (n,) of nodes by their texts; `where` names the k-th in errors."""
        for k, text in enumerate(wanted):
            if text not in self.by_text:
                n = sum(one not in self.by_text for one in wanted)
                raise InvalidInputError(
                    f"{where(k)}: expected one of the {len(self.labels)} nodes "
                    f"{str(self.labels[0])!r} to {str(self.labels[-1])!r}, got {text!r:.60}"
                    f"{f' ({n} such rows)' if n > 1 else ''}"
                )
        found = np.empty(len(wanted), dtype=object)
        found[:] = [self.labels[self.by_text[text]] for text in wanted]
        return found


def is_mesh(path: Path) -> bool:
    """Whether a path is a mesh's, or names an embedded shape."""
    return str(path) in SHAPES or path.suffix.lower() in mesh_files.ENDINGS


def read_domain(path: Path, source: Source) -> Domain:
    """Read a mesh, roads or a graph.

    Raises
    ------
    InvalidInputError
        The file holds none, or a field is asked for and its edges have no lengths.
    """
    source.check(path)
    if is_mesh(path):
        return _read_mesh(path, source)
    with about(path, options={"length": "--length", "layer": "--layer", "crs": "--crs"}):
        if path.suffix.lower() in LINES:
            own: Any = {"length": source.length, "layer": source.layer, "crs": source.crs}
            return _of_roads(path, cgp.read_roads(on_disk(path), **own), source)
        if path.suffix.lower() in MARKUP:
            return _of_networkx(path, with_int_names(parse_markup(on_disk(path))), source)
        return _read_edges(path, source)


def _read_mesh(path: Path, source: Source) -> Domain:
    if str(path) in SHAPES:
        mesh = shape(str(path))
    else:
        with about(path):
            numbered = path.suffix.lower() != ".stl" and source.nodes != "faces"
            mesh = mesh_files.read_mesh(on_disk(path), numbered)
    with about(path):
        if source.model == "graph":
            graph = cgp.Graph.from_trimesh(mesh, nodes=source.nodes or "faces")  # type: ignore[arg-type]
            places = mesh.vertices if source.nodes == "vertices" else mesh.triangles_center
            return Domain(path, graph=graph, mesh=mesh, coordinates=np.asarray(places))
        operator = cgp.LaplaceOperator.from_trimesh(mesh, max_edge=source.longest)
        return Domain(path, operator, mesh=mesh)


def _of_roads(path: Path, roads: Any, source: Source) -> Domain:
    if source.model != "graph":
        return Domain(path, roads.operator(source.longest), roads=roads)
    labels = list(range(roads.n_nodes)) if roads.labels is None else list(roads.labels)
    sources, targets = ([labels[k] for k in side] for side in roads.ends.T)
    graph = cgp.Graph.from_edges(sources, targets, lengths=roads.lengths, labels=labels)
    places = roads.positions if roads.crs is None else roads.lonlat
    crs = None if roads.crs is None else LONLAT
    return Domain(path, graph=graph, roads=roads, coordinates=places, crs=crs)


def _measure(path: Path, names: Collection[str], source: Source) -> tuple[Text, Text]:
    """Names of the weights or of the lengths, the other None: the given name, else a usual one."""
    given = source.weight or source.length
    if given is not None and given not in names:
        option = "--weight" if source.weight else "--length"
        raise wrong(f"{option}: {path}", f"one of {sorted(names)}", given)
    if given is not None:
        return source.weight, source.length
    found = [name for name in (*LENGTHS, "weight") if name in names]
    if len(found) > 1:
        raise InvalidInputError(f"--weight, --length: {path}: expected one of them, got {found}")
    return ("weight", None) if found == ["weight"] else (None, found[0] if found else None)


def _of_networkx(path: Path, graph: Any, source: Source) -> Domain:
    """The field along the edges, where they have lengths, or the graph."""
    edges = list(graph.edges(data=True))
    weight, length = _measure(path, {str(key) for *_, data in edges for key in data}, source)
    for *_, data in edges:
        for name in {weight or "", length or ""} & {*data}:
            with suppress(TypeError, ValueError):  # texts of GML
                data[name] = float(data[name]) * (1000.0 if name.endswith("_km") else 1.0)
    nodes = [data for _, data in graph.nodes(data=True)]
    placed = next((pair for pair in PLACED if all({*pair} <= data.keys() for data in nodes)), None)
    if length is not None and source.model != "graph":
        if placed is not None:
            return _of_roads(path, cgp.read_roads(graph, length=length, crs=source.crs), source)
        return Domain(path, cgp.LaplaceOperator.from_networkx(graph, length, source.longest))
    if source.model == "field":
        raise InvalidInputError(
            f"{path}: expected lengths of the edges for a field, got none (--length names them)"
        )
    if graph.is_directed():
        if path.suffix.lower() in MARKUP:
            notice(f"{path}: directions are dropped, as kernels have none")
        graph = graph.to_undirected()
    made = cgp.Graph.from_networkx(graph, weight or "weight", lengths=length)
    places = None if placed is None else np.array([[float(d[k]) for k in placed] for d in nodes])
    crs = source.crs or graph.graph.get("crs")
    return Domain(path, graph=made, coordinates=places, crs=None if crs == NOWHERE else crs)


def _read_edges(path: Path, source: Source) -> Domain:
    """The domain of a table of edges, which are those of a networkx graph."""
    import networkx as nx

    frame = t.read_table(path)
    ends = t.guessed(path, list(frame.columns), t.ENDS, "ends of edges", "a header source,target")
    if ends is None:
        t.check_columns(frame, ["source", "target"], path)
    if ends is None or frame.empty:
        raise InvalidInputError(f"{path}: expected edges below the header, got none")
    measured = [name for name in _measure(path, frame.columns, source) if name is not None]
    values = {name: t.numbers(frame, name, path) for name in measured}
    for name, found in values.items():
        if (bad := np.flatnonzero(~(found > 0))).size:
            raise InvalidInputError(
                f"{path}: column {name!r}, data row {bad[0] + 1}: expected a number > 0, got "
                f"{found[bad[0]]:g}"
            )
    as_text = t.read_table(path, ends)  # 007 is not 7
    named = [t.texts(as_text, name, path) for name in ends]
    labels = _labels([text for pair in zip(*named, strict=True) for text in pair])
    label = {str(one): one for one in labels}
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(labels)
    for k, (one, other) in enumerate(zip(*named, strict=True)):
        graph.add_edge(label[one], label[other], **{name: each[k] for name, each in values.items()})
    if source.positions is not None:
        _place(graph, source.positions, source)
    return _of_networkx(path, graph, source)


def _labels(found: Sequence[str]) -> list[Any]:
    """Distinct labels in order of appearance, or sorted ints if all are written as such."""
    distinct = pd.Series(list(dict.fromkeys(found)), dtype=str)
    if distinct.str.fullmatch(WHOLE_NUMBER).all():
        return sorted(int(text) for text in distinct)
    return distinct.tolist()


def _place(graph: Any, where: Path, source: Source) -> None:
    """Give the nodes of a graph their positions x and y from a table."""
    frame = t.read_table(where)
    names = t.guessed(where, list(frame.columns), t.DEGREES, "positions", "columns x, y")
    graph.graph["crs"] = source.crs or (NOWHERE if names is None else LONLAT)
    names = names or t.guessed(where, list(frame.columns), t.XY, "positions", "columns x, y")
    if names is None:
        raise InvalidInputError(f"--positions: {where}: expected columns node, x and y")
    column = t.node_column(where, frame, source.node_column)
    known = t.texts(t.read_table(where, [column]), column, where)
    table = dict(
        zip(known, zip(*(t.numbers(frame, k, where) for k in names), strict=True), strict=True)
    )
    lacking = [str(label) for label in graph.nodes if str(label) not in table]
    if lacking:
        raise InvalidInputError(
            f"--positions: {where}: expected a position of every node, got none of {lacking[0]!r} "
            f"({len(lacking)} such nodes)"
        )
    for label, data in graph.nodes(data=True):
        data["x"], data["y"] = map(float, table[str(label)])


def read_places(
    path: Path, frame: pd.DataFrame, domain: Domain, source: Source, columns: str | None
) -> tuple[Any, list[str]]:
    """Places of all rows of a table, and the columns that give them.

    Places on a field are `Locations` of positions, vertices, faces, nodes, or offsets on edges;
    those on a graph are labels of nodes (n,).

    Parameters
    ----------
    path, frame
        The file, and its rows.
    domain, source
        What they lie on, and how it was read.
    columns
        Columns of positions with commas between, where they are given.

    Raises
    ------
    InvalidInputError
        No columns give places, or a place is none; the row is named.
    """
    names = [str(name) for name in frame.columns]
    if domain.operator is None:
        name = t.node_column(path, frame, source.node_column)
        found = t.texts(t.read_table(path, [name]), name, path)
        return (domain.find(found, lambda k: f"{path}: column {name!r}, data row {k + 1}"), [name])
    if columns is not None:
        chosen, wanted = [one.strip() for one in columns.split(",")], 3 if domain.is_surface else 2
        if len(chosen) != wanted:
            raise wrong("--places", f"{wanted} names", columns)
        t.check_columns(frame, chosen, f"--places: {path}")
        return (_projected(path, frame, chosen, domain), chosen)
    if domain.is_surface:
        return _on_surface(path, frame, names, domain, source)
    return _on_network(path, frame, names, domain, source)


def _on_surface(
    path: Path, frame: pd.DataFrame, names: list[str], domain: Domain, source: Source
) -> tuple[Any, list[str]]:
    kinds = {"vertex": "vertices", "face": "faces"}
    given = source.node_column
    if given is None and {"vertex", "face"} <= {*names}:
        raise InvalidInputError(f"{path}: expected a column 'vertex' or 'face', got both")
    given = given or next((name for name in kinds if name in names), None)
    xyz = t.guessed(path, names, t.XYZ, "places", "--places") if given is None else None
    if given is None and xyz is None and "node" in names:
        given = "node"
    if given is not None:
        kind = source.nodes or kinds.get(given)
        if kind is None:
            raise InvalidInputError(
                f"--nodes: {path}: expected vertices or faces, as {given!r} may number either"
            )
        t.check_columns(frame, [given], f"--node-column: {path}")
        operator = domain.operator
        size = operator.n_given if kind == "vertices" else len(operator.given_elements)
        found = _whole_numbers(path, frame, given, size, kind)
        at = domain.operator.at_vertices if kind == "vertices" else domain.operator.at_faces
        return (at(found), [given])
    if xyz is None:
        raise InvalidInputError(
            f"--places: {path}: expected columns x, y, z, or vertex, or face, got columns {names}"
        )
    return (_projected(path, frame, xyz, domain), xyz)


def _on_network(
    path: Path, frame: pd.DataFrame, names: list[str], domain: Domain, source: Source
) -> tuple[Any, list[str]]:
    if source.node_column is None and {"edge", "offset"} <= {*names}:
        size = len(domain.operator.given_lengths)
        edges = _whole_numbers(path, frame, "edge", size, "edges")
        with about(path):
            where = domain.operator.at_edges(edges, t.numbers(frame, "offset", path))
        return (where, ["edge", "offset"])
    if source.node_column is None and "node" not in names:
        for words in (t.DEGREES, t.XY, t.METRES):
            found = t.guessed(path, names, words, "places", "--places")
            if found is not None:
                return (_projected(path, frame, found, domain), found)
        if not any(t.plain(name) in t.NODES[0] for name in names):
            raise InvalidInputError(
                f"--places: {path}: expected columns node, or edge and offset, or x and y, or "
                f"longitude and latitude, got columns {names}"
            )
    name = t.node_column(path, frame, source.node_column)
    found = t.texts(t.read_table(path, [name]), name, path)
    labels = domain.find(found, lambda k: f"{path}: column {name!r}, data row {k + 1}")
    return (domain.operator.at_vertices(labels), [name])


def _whole_numbers(path: Path, frame: pd.DataFrame, column: str, size: int, what: str) -> IntArray:
    values = t.numbers(frame, column, path)
    bad = np.flatnonzero((values < 0) | (values >= size) | (values != np.floor(values)))
    if bad.size:
        raise InvalidInputError(
            f"{path}: column {column!r}, data row {bad[0] + 1}: expected one of the {what} 0 to "
            f"{size - 1}, got {values[bad[0]]:g}"
        )
    return values.astype(np.int64)


def _projected(path: Path, frame: pd.DataFrame, columns: list[str], domain: Domain) -> Locations:
    """The nearest places of positions; far ones are refused, or warned of."""
    positions = np.column_stack([t.numbers(frame, name, path) for name in columns])
    operator = domain.operator
    if domain.is_surface:
        spread, size = float(np.linalg.norm(np.ptp(positions, axis=0))), operator.extent
        if len(positions) > 2 and 0 < spread < ONE_PLACE * size:
            raise InvalidInputError(
                f"{path}: expected positions all over a mesh whose size is {size:.4g}, got "
                f"{len(positions)} within {spread:.3g} of each other: check their unit (metres on "
                "a mesh in millimetres?)"
            )
        found = operator.project(positions)
    elif domain.roads is None:
        raise InvalidInputError(
            f"{path}: expected sensors by node, or by edge and offset, as the nodes of the network "
            "have no positions (--positions gives them)"
        )
    else:
        degrees = all(t.plain(name) in own for name, own in zip(columns, t.DEGREES, strict=True))
        on_roads = domain.roads.project(positions, LONLAT if degrees else None)
        exact = operator.at_edges(on_roads.edges, on_roads.offsets)
        found = Locations(exact.points, on_roads.distances)
    from coupledgp.fields.estimator import check_distances  # slow

    check_distances(
        operator, found.distances, str(path), lambda k: f"data row {k + 1}",
        positions if domain.is_surface else None,
    )  # fmt: skip
    return found
