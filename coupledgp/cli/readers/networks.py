"""Reading of graphs for `coupledgp interpolate` from meshes, edge tables, GraphML and GML."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from coupledgp.cli.readers.files import about, is_pipe, on_disk
from coupledgp.cli.readers.guesses import edge_ends
from coupledgp.cli.readers.notices import notice
from coupledgp.cli.readers.tables import PARQUET, check_columns, numeric, read_table
from coupledgp.datasets import SHAPES, shape
from coupledgp.errors import InvalidInputError
from coupledgp.formats import mesh_files
from coupledgp.formats.road_files import LINES, edge_values, graph_positions, parse_markup
from coupledgp.graphs import Graph
from coupledgp.random import FloatArray, IntArray

TABLES = (".csv", ".tsv", *PARQUET)
MARKUP = (".graphml", ".gml")
MESHES = mesh_files.ENDINGS
LENGTHS = ("length", "length_m", "length_km")
# Digits that every number of 64 bits can have.
MOST_DIGITS = 18
POSITIONS = (("x", "y"), ("longitude", "latitude"), ("lon", "lat"))


@dataclass(frozen=True, eq=False)
class Network:
    """A graph as read from a file.

    Attributes
    ----------
    graph : Graph
        The graph.
    kind : str
        Description of its nodes and weights in words.
    mesh : trimesh.Trimesh or None
        The mesh, if the file holds one.
    nodes : str
        Kind of the nodes: `"faces"`, `"vertices"` or `"nodes"`.
    positions : FloatArray (n_nodes, 2), or None
        Positions of the nodes, if they are known.
    """

    graph: Graph
    kind: str
    mesh: Any = field(default=None, repr=False)
    nodes: str = "nodes"
    positions: FloatArray | None = field(default=None, repr=False)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Node numbers by the text of their labels."""
        return {str(self.graph.label(k)): k for k in range(self.graph.n_nodes)}

    def placed(self, positions: FloatArray) -> Network:
        """The same network with positions (n_nodes, 2) of the nodes."""
        return replace(self, positions=positions)

    def normal_z(self) -> FloatArray:
        """Z components (n_nodes,) of the unit normals of the nodes."""
        normals = self.mesh.face_normals if self.nodes == "faces" else self.mesh.vertex_normals
        return np.asarray(normals[:, 2], dtype=np.float64)


def read_network(
    path: Path, nodes: str, weight: str | None, length: str | None, both_ways: bool
) -> Network:
    """Read a mesh, an edge table, GraphML or GML, by the extension of the file.

    Parameters
    ----------
    path
        File, or one of `coupledgp.datasets.SHAPES`.
    nodes
        Kind of the nodes of a mesh: `"faces"` or `"vertices"`.
    weight, length
        Name of the column or attribute of the weights, or of the lengths, in a table, GraphML or
        GML; None looks for the usual names.
    both_ways
        Drop the directions of a directed graph.
    """
    kind = path.suffix.lower()
    if kind not in MARKUP and not is_table(path):
        if weight is not None or length is not None:
            raise InvalidInputError(f"--weight, --length: {path}: a mesh has neither")
        return _read_mesh(path, nodes)
    if nodes != "faces":
        raise InvalidInputError(f"--nodes: expected it for a mesh only, got {path}")
    with about(path):
        if kind in MARKUP:
            return _read_markup(path, weight, length, both_ways)
        return _of_edges(path, weight, length)


def is_table(path: Path) -> bool:
    """Whether a path is a table's: by its extension, or a pipe without a known extension."""
    kind = path.suffix.lower()
    unknown = kind not in (*MARKUP, *MESHES, *LINES)
    return kind in TABLES or (unknown and is_pipe(path))


def _read_mesh(path: Path, nodes: str) -> Network:
    name = str(path)
    if name in SHAPES:
        mesh = shape(name)
    else:
        if path.suffix.lower() not in MESHES:
            known = ", ".join((*TABLES, *MARKUP, *MESHES))
            raise InvalidInputError(
                f"GRAPH: expected a file ending in {known}, or one of {', '.join(SHAPES)}; "
                f"got {name!r}"
            )
        mesh = read_mesh(path, numbered=nodes != "faces")
    with about(path):
        graph = Graph.from_trimesh(mesh, nodes=cast(Literal["faces", "vertices"], nodes))
    kind = f"mesh, {len(mesh.faces)} faces, {len(mesh.vertices)} vertices; nodes are {nodes}"
    return Network(graph, kind, mesh, nodes)


def read_mesh(path: Path, numbered: bool) -> Any:
    """Read a mesh, with vertices in the numbers of the file if they are `numbered`.

    Vertices of STL, which have no numbers, merge in any case.
    """
    source = on_disk(path)
    if source.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    with about(path):
        return mesh_files.read_mesh(source, numbered and path.suffix.lower() != ".stl")


class EdgeTable(NamedTuple):
    """Names of the nodes, their numbers (m, 2) at each row, and weights or lengths (m,)."""

    labels: list[Any]
    ends: IntArray
    values: FloatArray | None
    weight: str | None
    length: str | None


def read_edges(path: Path, weight: str | None, length: str | None) -> EdgeTable:
    """Read a table of edges: a row each, with both ends and maybe a weight or a length."""
    table = read_table(path)
    sides = edge_ends(path, table)
    check_columns(table, [name for name in (weight, length) if name is not None], str(path))
    if not table.num_rows:
        raise InvalidInputError(f"{path}: expected edges below the header, got none")
    weight, length = measure(table.column_names, weight, length)
    texts = read_table(path, text_columns=True)  # 007 is not 7
    named = [node_texts(texts, name, str(path)) for name in sides]
    labels = edge_labels([text for pair in zip(*named, strict=True) for text in pair])
    number = {str(label): k for k, label in enumerate(labels)}
    ends = np.array([[number[text] for text in side] for side in named], dtype=np.int64).T
    column = weight or length
    values = None
    if column is not None:
        values = numeric(table, [column], str(path)).column(0).to_numpy()
    return EdgeTable(labels, ends, values, weight, length)


def _of_edges(path: Path, weight: str | None, length: str | None) -> Network:
    found = read_edges(path, weight, length)
    sources, targets = ([found.labels[k] for k in side] for side in found.ends.T)
    values: dict[str, Any] = {"weights" if found.length is None else "lengths": found.values}
    graph = Graph.from_edges(sources, targets, **values, labels=found.labels)
    words = _weighting(found.weight, found.length)
    return Network(graph, f"edge table, {len(found.ends)} rows, {words}")


def edge_labels(texts: list[str]) -> list[Any]:
    """Distinct labels in order of appearance, or sorted ints if all are such, of 64 bits."""
    distinct = list(dict.fromkeys(texts))
    if all(is_number(text) for text in distinct):
        return sorted(int(text) for text in distinct)
    return list(distinct)


def is_number(text: str) -> bool:
    """Whether a text is a whole number from 0, without leading zeros, of at most 64 bits."""
    short = len(text) <= MOST_DIGITS and text.isascii() and text.isdigit()
    return short and str(int(text)) == text


def label_column(labels: Sequence[Any]) -> pa.Array:
    """Labels as a column; labels of several types, or beyond 64 bits, as texts."""
    try:
        return pa.array(labels)
    except (pa.ArrowException, OverflowError, TypeError):
        return pa.array([str(label) for label in labels])


def label_array(labels: list[Any] | NDArray[Any]) -> NDArray[Any]:
    """Labels (n,) as an array of one dimension that keeps their types."""
    if isinstance(labels, np.ndarray):
        return labels
    found = np.empty(len(labels), dtype=object)
    for k, label in enumerate(labels):
        found[k] = label
    return found


def _read_markup(path: Path, weight: str | None, length: str | None, both_ways: bool) -> Network:
    found = parse_markup(on_disk(path))
    if found.is_directed():
        if not both_ways:
            notice(f"{path}: directions are dropped, as kernels have none")
        found = found.to_undirected()
    edges = list(found.edges(data=True))
    names = {name for *_, attributes in edges for name in attributes}
    missing = [name for name in (weight, length) if name is not None and name not in names]
    if missing:
        raise InvalidInputError(
            f"{path}: expected an edge attribute {missing[0]!r}, got {sorted(names)}"
        )
    weight, length = measure(names, weight, length)
    column = weight or length
    values = None if column is None else edge_values(edges, column)
    given: dict[str, Any] = {"weights" if length is None else "lengths": values}
    sources, targets = [edge[0] for edge in edges], [edge[1] for edge in edges]
    graph = Graph.from_edges(sources, targets, **given, labels=list(found.nodes))
    kind = "GraphML" if path.suffix.lower() == ".graphml" else "GML"
    places = graph_positions(found)
    positions = None if places is None else places[0]
    return Network(graph, f"{kind}, {_weighting(weight, length)}", positions=positions)


def measure(
    names: Iterable[str], weight: str | None, length: str | None
) -> tuple[str | None, str | None]:
    """Names of the weights or of the lengths, the other None: the given name, else a usual one."""
    if weight is not None and length is not None:
        raise InvalidInputError("--weight, --length: expected at most one of them")
    if weight is not None or length is not None:
        return weight, length
    known = set(names)
    lengths = [name for name in LENGTHS if name in known]
    if len(lengths) + ("weight" in known) > 1:
        found = [*lengths, *({"weight"} & known)]
        raise InvalidInputError(
            f"--weight, --length: expected one of them to choose among the columns {found}"
        )
    return ("weight" if "weight" in known else None), (lengths[0] if lengths else None)


def _weighting(weight: str | None, length: str | None) -> str:
    if length is not None:
        return f"weights mean({length}) / {length}"
    return "unweighted" if weight is None else f"weights {weight}"


def node_texts(table: pa.Table, name: str, source: str) -> list[str]:
    """A column of node labels as texts; a missing label is refused."""
    texts = ["" if v is None else str(v) for v in table.column(name).to_pylist()]
    if "" in texts:
        row = texts.index("") + 1
        raise InvalidInputError(f"{source}: column {name!r}, data row {row}: expected a node")
    return texts


def found_nodes(
    texts: Sequence[str], numbers: Mapping[str, int], where: Callable[[int], str], kind: str
) -> IntArray:
    """Numbers (m,) of nodes by their names; an error names the place of an unknown one by `where`.

    `kind` is the word for the nodes, in the plural.
    """
    found = np.array(
        [numbers.get(text, numbers.get(text.strip(), -1)) for text in texts], dtype=np.int64
    )
    bad = np.flatnonzero(found < 0)
    if bad.size:
        more = f" ({bad.size} such places)" if bad.size > 1 else ""
        raise InvalidInputError(
            f"{where(int(bad[0]))}: expected one of the {len(numbers)} {kind} "
            f"{next(iter(numbers))!r} to {list(numbers)[-1]!r}, got {texts[bad[0]]!r:.60}"
            f"{more}"
        )
    return found
