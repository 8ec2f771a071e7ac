"""Values and positions of nodes from tables, whose rows name nodes by the text of their labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from coupledgp.cli.readers.guesses import (
    DEGREES,
    X,
    Y,
    are_degrees,
    guessed,
    node_column,
    value_column,
)
from coupledgp.cli.readers.networks import POSITIONS, Network, found_nodes, node_texts
from coupledgp.cli.readers.tables import is_number, numbers, numeric, read_table
from coupledgp.columns.arrow import is_text
from coupledgp.errors import InvalidInputError
from coupledgp.random import FloatArray, IntArray

# How values of a column (n,) are read, given the place that errors name.
ReadValues: TypeAlias = Callable[[pa.ChunkedArray, str], Any]
# Texts that stand in a table for a missing value.
BLANK = ("", "-", "NA", "N/A", "nan", "NaN", "null")


def read_values(
    path: Path,
    network: Network,
    node: str | None,
    target: str | None,
    as_values: ReadValues | None = None,
) -> tuple[IntArray, Any, IntArray]:
    """Observed nodes (n,), their values (n,), and numbers of their rows; others have no value."""
    table = read_table(path)
    nodes = node_column(path, table, node)
    name = value_column(path, table, [nodes], target)
    values, observed = observed_values(table.column(name), path, name, as_values)
    return find_nodes(path, network, nodes)[observed], values, observed


def observed_values(
    column: pa.ChunkedArray, path: Path, name: str, as_values: ReadValues | None = None
) -> tuple[Any, IntArray]:
    """Values (m,) of a column that are there, and the numbers (m,) of their rows.

    Parameters
    ----------
    column, path, name
        The column, with the file and the name for messages.
    as_values
        Reads values; None: `numbers_or_nan`.

    Raises
    ------
    InvalidInputError
        There is none, or one cannot be read.
    """
    values = (as_values or numbers_or_nan)(column, f"{path}: column {name!r}")
    there = values != "" if values.dtype.kind == "U" else ~np.isnan(values)
    observed = np.flatnonzero(there)
    if not observed.size:
        raise InvalidInputError(f"{path}: expected a number in column {name!r} somewhere, got none")
    return values[observed], observed


def labels_or_numbers(column: pa.ChunkedArray, where: str) -> Any:
    """Texts (n,) of classes, empty where one is missing, or numbers if some value is a number."""
    values = ["" if v is None or str(v).strip() in BLANK else v for v in column.to_pylist()]
    if any(value != "" and is_number(value) for value in values):
        return numbers_or_nan(column, where)
    return np.array([str(value).strip() for value in values])


def find_nodes(path: Path, network: Network, node: str) -> IntArray:
    """Node numbers (n,) of a table's n rows; an error names an unknown label and its row."""
    texts = node_texts(read_table(path, text_columns=True), node, str(path))
    where = f"{path}: column {node!r}, data row "
    return found_nodes(texts, network.numbers, lambda k: f"{where}{k + 1}", network.nodes)


def numbers_or_nan(column: pa.ChunkedArray, where: str) -> FloatArray:
    """A column as float64 (n,), NaN where a value is missing; `where` names it in errors."""
    if not is_text(column.type):
        return numbers(column, where, missing=True)
    values = np.full(len(column), np.nan)
    for row, value in enumerate(column.to_pylist()):
        if value is None or value.strip() in BLANK:
            continue
        try:
            values[row] = float(value)
        except ValueError:
            raise InvalidInputError(
                f"{where}, data row {row + 1}: expected a number, got {value!r}"
            ) from None
        if np.isinf(values[row]):
            raise InvalidInputError(
                f"{where}, data row {row + 1}: expected a finite number, got {value}"
            )
    return values


def read_positions(path: Path, network: Network, node: str | None) -> FloatArray:
    """Positions (n_nodes, 2) from a table with nodes and x, y or longitude, latitude."""
    return positions_of(path, network.numbers, node)[0]


def positions_of(
    path: Path, places_of: Mapping[str, int], node: str | None
) -> tuple[FloatArray, bool]:
    """Positions (n, 2) of nodes whose numbers are known by name, and whether in degrees."""
    table = read_table(path)
    column = node_column(path, table, node)
    known = set(table.column_names)
    names: Any = next((pair for pair in POSITIONS if set(pair) <= known), None)
    for words in (DEGREES, (X, Y)):
        names = names or guessed(path, table.column_names, words, "places", "a header x,y")
    if names is None:
        raise InvalidInputError(f"--positions: {path}: expected columns x and y")
    places = np.full((len(places_of), 2), np.nan)
    columns = numeric(table, names, str(path)).columns
    texts = node_texts(read_table(path, text_columns=True), column, str(path))
    for text, place in zip(texts, np.column_stack(columns), strict=True):
        if text in places_of:
            places[places_of[text]] = place
    missing = np.flatnonzero(np.isnan(places[:, 0]))
    if missing.size:
        label = list(places_of)[int(missing[0])]
        raise InvalidInputError(
            f"--positions: {path}: expected a position for every node, got none for {label!r} "
            f"({missing.size} such nodes)"
        )
    return places, are_degrees(names)
