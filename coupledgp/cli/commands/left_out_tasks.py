"""`coupledgp report` without test rows: the groups of training rows that are left out."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coupledgp.cli.commands.page_options import ReportOptions
from coupledgp.cli.readers.kinds import kinds_of_model, model_inputs, read_inputs, without_names
from coupledgp.cli.readers.networks import Network
from coupledgp.cli.readers.node_values import find_nodes
from coupledgp.cli.readers.tables import check_columns, numeric, read_table
from coupledgp.errors import CoupledGPError, InvalidInputError
from coupledgp.gp.protocol import Data


def check_has_rows(model: Any, path: Path) -> Data:
    """The observations of a model file; refuse one that has none."""
    try:
        data: Data = model.process_.data
    except CoupledGPError:
        raise InvalidInputError(
            f"{path}: expected a model with its training rows, which a report without DATA leaves "
            "out one by one; fit it with --include-data, or give test rows as DATA"
        ) from None
    return data


def groups_of(model: Any, column: str, options: ReportOptions) -> Any:
    """Groups of the training rows: an input column's name, or names (n,) from a table.

    Raises
    ------
    InvalidInputError
        The column is no input and there is no table, or a training row is not in the table.
    """
    table = options.groups_from
    if table is None:
        names = [str(name) for name in getattr(model, "feature_names_in_", ())]
        if column not in names:
            raise InvalidInputError(
                f"--groups: {column!r} is no input of the model; give a table of the training rows "
                "with this column as --groups-from"
            )
        return column
    if hasattr(model, "graph"):
        return _of_nodes(model, column, table, options.node_column or "node")
    if not hasattr(model, "n_features_in_"):
        raise InvalidInputError(
            "--groups: expected a model of a table or a graph; observations of a field at one "
            "place are left out together without it"
        )
    return _of_rows(model, column, table)


def _of_nodes(model: Any, column: str, path: Path, node_column: str) -> NDArray[Any]:
    """Groups (n,) of the observed nodes, from a table of nodes."""
    names = _texts(path, column)
    nodes = find_nodes(path, Network(model.graph, "saved graph"), node_column)
    known: dict[int, str] = {}
    for node, name in zip(nodes.tolist(), names, strict=True):
        if known.setdefault(node, name) != name:
            raise InvalidInputError(
                f"--groups: {path}: expected one group a node, got {known[node]!r} and {name!r} "
                f"for {model.graph.label(node)!r}"
            )
    observed = model.process_.data.points.tolist()
    if lacking := [node for node in observed if node not in known]:
        raise InvalidInputError(
            f"--groups: {path}: expected a group for every observed node, got none for "
            f"{model.graph.label(lacking[0])!r} ({len(lacking)} such nodes)"
        )
    return np.array([known[node] for node in observed])


def _of_rows(model: Any, column: str, path: Path) -> NDArray[Any]:
    """Groups (n,) of training rows, found in a table by their inputs and the target."""
    data, process = model.process_.data, model.process_
    table = read_inputs(path, kinds_of_model(model))
    names = getattr(model, "feature_names_in_", None)
    others = [n for n in table.column_names if names is not None and n not in (*names, column)]
    if names is None:
        raise InvalidInputError("--groups-from: expected a model whose inputs have names")
    check_columns(table, [*names, column], str(path))
    X = model_inputs(model, table, list(names), str(path))
    points = model.points(X if hasattr(model, "feature_names_in_") else without_names(X))
    keys, own = process.row_keys(points), process.row_keys(data.points)
    if len(others) == 1 and data.targets.shape[1] == 1:  # targets separate rows of equal inputs
        y = numeric(table, others, str(path)).column(0).to_numpy()
        keys, own = np.column_stack([keys, y]), np.column_stack([own, data.targets])
    found: dict[bytes, list[str]] = defaultdict(list)
    for key, name in zip(keys, _texts(path, column), strict=True):
        found[key.tobytes()].append(name)
    groups = []
    for row, key in enumerate(own):
        same = found.get(key.tobytes())
        if not same:
            raise InvalidInputError(
                f"--groups-from: {path}: training row {row + 1} of the model is not in this table"
            )
        groups.append(same.pop(0) if len(same) > 1 else same[0])
    return np.array(groups)


def _texts(path: Path, column: str) -> list[str]:
    """Values of a column as texts; a missing one is refused."""
    table = read_table(path, text_columns=True)
    check_columns(table, [column], f"--groups: {path}")
    values = table.column(column).to_pylist()
    for row, value in enumerate(values, start=1):
        if value is None or not str(value).strip():
            raise InvalidInputError(
                f"{path}: column {column!r}, data row {row}: expected a group, got none"
            )
    return [str(value) for value in values]
