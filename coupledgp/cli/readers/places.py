"""Tables of places on a surface or a network: sensors with values, and queries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from coupledgp.cli.readers.domains import SpatialDomain
from coupledgp.cli.readers.files import about
from coupledgp.cli.readers.guesses import (
    DEGREES,
    NODES,
    X,
    Y,
    Z,
    are_degrees,
    guessed,
    value_column,
)
from coupledgp.cli.readers.networks import POSITIONS, found_nodes, node_texts
from coupledgp.cli.readers.node_values import numbers_or_nan, observed_values
from coupledgp.cli.readers.tables import check_columns, read_table
from coupledgp.errors import InvalidInputError
from coupledgp.formats.projection import LONLAT
from coupledgp.geometry.locations import Locations
from coupledgp.models.field_estimator import check_distances
from coupledgp.random import FloatArray, IntArray

# Columns that name a sensor, the first of them that a table has.
NAMES = ("sensor", "name", "id")


@dataclass(frozen=True)
class PlaceOptions:
    """Options of the command line that say which columns are places.

    Attributes
    ----------
    node_column : str or None
        Column of vertices, faces or nodes, if it was given.
    nodes : str or None
        Elements of a mesh that this column, or one called `node`, names: `"faces"` or `"vertices"`,
        if given.
    place_columns : str or None
        Columns of positions with commas between, if they were given.
    """

    node_column: str | None = None
    nodes: str | None = None
    place_columns: str | None = None

    @property
    def positions(self) -> tuple[str, ...]:
        """The columns of positions; none if none were given."""
        columns = self.place_columns
        return () if columns is None else tuple(name.strip() for name in columns.split(","))


@dataclass(frozen=True, eq=False)
class ReadPlaces:
    """Places of the rows of a table.

    Attributes
    ----------
    locations : Locations
        Places (n).
    kind : str
        How they are given: `"positions"`, `"vertices"`, `"faces"`, `"nodes"` or `"edges"`.
    columns : tuple of str
        Columns that give them.
    table : pyarrow.Table
        The rows.
    rows : IntArray (n,)
        Numbers of the rows in the file, from 1.
    value : str
        Column of the values of sensors; empty for queries.
    """

    locations: Locations
    kind: str
    columns: tuple[str, ...]
    table: pa.Table = field(repr=False)
    rows: IntArray = field(repr=False)
    value: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Names (n,) of the sensors: of a column for them, of vertices or nodes, else of rows."""
        named = [name for name in NAMES if name in self.table.column_names]
        if named and named[0] not in self.columns:
            return tuple(str(value) for value in self.table.column(named[0]).to_pylist())
        if len(self.columns) == 1:
            kind = {"vertices": "vertex", "faces": "face", "nodes": "node"}[self.kind]
            found = self.table.column(self.columns[0]).to_pylist()
            return tuple(f"{kind} {value}" for value in found)
        return tuple(f"row {row}" for row in self.rows)


def read_sensors(
    path: Path,
    domain: SpatialDomain,
    options: PlaceOptions,
    target: str | None,
) -> tuple[ReadPlaces, Any]:
    """Places and values (n,) of the rows of a table that have a value."""
    table = read_table(path)
    kind, columns = place_columns(path, table.column_names, domain, options)
    if options.positions:
        check_columns(table, columns, f"--places: {path}")
    name = value_column(path, table, [*columns, *NAMES], target)
    values, observed = observed_values(table.column(name), path, name)
    places = _places(path, table, kind, columns, domain, observed)
    return replace(places, value=name), values


def read_queries(
    path: Path, domain: SpatialDomain, options: PlaceOptions, added: Sequence[str] = ("mean", "std")
) -> ReadPlaces:
    """Places of all rows of a table, to which columns of these names will be added."""
    table = read_table(path)
    if not table.num_rows:
        raise InvalidInputError(f"{path}: expected rows below the header, got none")
    taken = [name for name in added if name in table.column_names]
    if taken:
        raise InvalidInputError(f"{path}: expected no column {taken[0]!r}, it is added")
    kind, columns = place_columns(path, table.column_names, domain, options)
    return _places(path, table, kind, columns, domain, np.arange(table.num_rows))


def place_columns(
    path: Path, names: Sequence[str], domain: SpatialDomain, options: PlaceOptions
) -> tuple[str, tuple[str, ...]]:
    """How a table with columns of these names gives places, and by which columns."""
    if options.positions:
        wanted = 3 if domain.is_surface else 2
        if len(options.positions) != wanted:
            raise InvalidInputError(
                f"--places: expected {wanted} names, got {options.place_columns!r}"
            )
        return "positions", options.positions
    return (_on_surface if domain.is_surface else _on_network)(path, names, options)


def _on_surface(
    path: Path, names: Sequence[str], options: PlaceOptions
) -> tuple[str, tuple[str, ...]]:
    known = set(names)
    if options.node_column is not None:
        if options.nodes is None:
            raise InvalidInputError(
                f"--node-column: expected --nodes vertices or --nodes faces beside it, as "
                f"{options.node_column!r} may number either"
            )
        return options.nodes, (options.node_column,)
    if {"vertex", "face"} <= known:
        raise InvalidInputError(f"{path}: expected a column 'vertex' or 'face', got both")
    for name, kind in (("vertex", "vertices"), ("face", "faces")):
        if name in known:
            return kind, (name,)
    if "node" in known and options.nodes is not None:
        return options.nodes, ("node",)
    if {"x", "y", "z"} <= known:
        return "positions", ("x", "y", "z")
    if "node" in known:
        raise InvalidInputError(
            f"{path}: expected a column 'vertex' or 'face', got 'node', which may number either; "
            "--nodes vertices or --nodes faces says which"
        )
    found = guessed(path, names, (X, Y, Z), "places", "--places")
    if found is not None:
        return "positions", found
    raise InvalidInputError(
        f"{path}: expected columns x, y, z, or vertex, or face, got columns {list(names)}"
    )


def _on_network(
    path: Path, names: Sequence[str], options: PlaceOptions
) -> tuple[str, tuple[str, ...]]:
    known = set(names)
    if options.node_column is not None:
        return "nodes", (options.node_column,)
    if {"edge", "offset"} <= known:
        return "edges", ("edge", "offset")
    if "node" in known:
        return "nodes", ("node",)
    for pair in POSITIONS:
        if set(pair) <= known:
            return "positions", pair
    for words in (DEGREES, (X, Y)):
        found = guessed(path, names, words, "places", "--places")
        if found is not None:
            return "positions", found
    found = guessed(path, names, NODES, "nodes", "--node-column")
    if found is not None:
        return "nodes", found
    raise InvalidInputError(
        f"{path}: expected columns node, or edge and offset, or x and y, or longitude and "
        f"latitude, got columns {list(names)}"
    )


def _places(
    path: Path,
    table: pa.Table,
    kind: str,
    columns: tuple[str, ...],
    domain: SpatialDomain,
    rows: IntArray,
) -> ReadPlaces:
    """Places of some rows (n,) of a table, numbered from 0."""
    check_columns(table, columns, f"--places, --node-column: {path}")
    chosen = table.take(pa.array(rows))
    read: dict[str, Callable[[], Locations]] = {
        "nodes": lambda: _named(path, table, columns[0], domain, rows),
        "vertices": lambda: domain.at_numbers(
            _numbers(path, table, columns[0], rows, domain.operator.n_given, "vertices")
        ),
        "faces": lambda: domain.operator.at_faces(
            _numbers(path, table, columns[0], rows, len(domain.operator.given_elements), "faces")
        ),
        "edges": lambda: _along(path, table, columns, domain, rows),
        "positions": lambda: _projected(path, table, columns, domain, rows),
    }
    with about(path):
        found = read[kind]()
    return ReadPlaces(found, kind, columns, chosen, rows + 1)


def _finite(path: Path, table: pa.Table, columns: Sequence[str], rows: IntArray) -> FloatArray:
    """Columns (n, c) of some rows, finite; an error names the row of the file."""
    found = np.empty((rows.size, len(columns)))
    for k, name in enumerate(columns):
        values = numbers_or_nan(table.column(name), f"{path}: column {name!r}")[rows]
        bad = np.flatnonzero(np.isnan(values))
        if bad.size:
            raise InvalidInputError(
                f"{path}: column {name!r}, data row {rows[bad[0]] + 1}: expected a finite number, "
                "got a missing value"
            )
        found[:, k] = values
    return found


def _numbers(
    path: Path, table: pa.Table, column: str, rows: IntArray, size: int, what: str
) -> IntArray:
    """A column (n,) of numbers from 0 to below a size."""
    values = _finite(path, table, [column], rows)[:, 0]
    bad = np.flatnonzero((values < 0) | (values >= size) | (values != np.floor(values)))
    if bad.size:
        more = f" ({bad.size} such rows)" if bad.size > 1 else ""
        raise InvalidInputError(
            f"{path}: column {column!r}, data row {rows[bad[0]] + 1}: expected one of the {what} "
            f"0 to {size - 1}, got {values[bad[0]]:g}{more}"
        )
    return values.astype(np.int64)


def _named(
    path: Path, table: pa.Table, column: str, domain: SpatialDomain, rows: IntArray
) -> Locations:
    texts = node_texts(read_table(path, text_columns=True), column, str(path))
    where = f"{path}: column {column!r}, data row "
    chosen = [texts[row] for row in rows]
    return domain.at_numbers(
        found_nodes(chosen, domain.numbers, lambda k: f"{where}{rows[k] + 1}", "nodes")
    )


def _along(
    path: Path, table: pa.Table, columns: Sequence[str], domain: SpatialDomain, rows: IntArray
) -> Locations:
    assert domain.operator.given_lengths is not None
    size = len(domain.operator.given_lengths)
    if domain.edge_rows is not None:
        size = len(domain.edge_rows[0])
    edges = _numbers(path, table, columns[0], rows, size, "edges")
    offsets = _finite(path, table, columns[1:], rows)[:, 0]
    return domain.at_rows(edges, offsets)


def _projected(
    path: Path, table: pa.Table, columns: Sequence[str], domain: SpatialDomain, rows: IntArray
) -> Locations:
    """The nearest places of positions; a warning names the farthest row, all far are refused."""
    positions = _finite(path, table, columns, rows)
    if domain.is_surface:
        found = domain.operator.project(positions)
    else:
        if domain.roads is None:
            raise InvalidInputError(
                f"{path}: expected sensors by node, or by edge and offset, as the nodes of the "
                "network have no positions (--positions gives them)"
            )
        on_roads = domain.roads.project(positions, LONLAT if are_degrees(columns) else None)
        exact = domain.operator.at_edges(on_roads.edges, on_roads.offsets)
        found = Locations(exact.points, on_roads.distances)
    check_distances(
        domain.operator, found.distances, str(path), lambda k: f"data row {rows[k] + 1}",
        positions if domain.is_surface else None,
    )  # fmt: skip
    return found
