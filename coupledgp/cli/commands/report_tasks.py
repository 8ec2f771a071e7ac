"""Test rows or nodes that `coupledgp report` reads, and the figures that it prints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from coupledgp.cli.commands.page_options import ReportOptions
from coupledgp.cli.readers.kinds import (
    Beside,
    columns_beside,
    kinds_of_model,
    model_inputs,
    read_inputs,
    without_names,
)
from coupledgp.cli.readers.networks import Network, label_array, read_network
from coupledgp.cli.readers.node_values import read_positions, read_values
from coupledgp.cli.readers.tables import check_columns, listed, numeric
from coupledgp.cli.shared.declare import refuse
from coupledgp.errors import InvalidInputError
from coupledgp.random import FloatArray, IntArray


def chosen(n_rows: int, max_rows: int, seed: int) -> IntArray:
    """Numbers (n,) of the rows that are compared: all, or `max_rows` random ones in order."""
    if n_rows <= max_rows:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(seed).choice(n_rows, max_rows, replace=False))


def rows_at(where: Any, kept: IntArray) -> Any:
    """Rows of an array (n, ...) or of a table, by their numbers (m,)."""
    return where[kept] if isinstance(where, np.ndarray) else where.take(kept)


def described(data: Path, n_kept: int, n_rows: int) -> str:
    """Name of the file, with the number of its rows that are compared unless all are."""
    return data.name if n_kept == n_rows else f"{data.name}, {n_kept} of {n_rows} rows"


def test_data(
    model: Any, data: Path, options: ReportOptions
) -> tuple[Any, FloatArray, Any, Beside, str]:
    """Read the test points, their targets (p,), and the mesh or positions of the nodes.

    Test points are inputs (p, d), or labels of p nodes. Without a mesh or positions the third value
    is None. The fourth are columns of a table that the model does not see, the last is the name of
    the targets where it is known.
    """
    if hasattr(model, "graph"):
        network = Network(model.graph, "saved graph")
        nodes, values, _ = read_values(data, network, options.node_column, options.target or None)
        labels, places = label_array(model.graph.label_all(nodes)), None
        if options.mesh is not None:
            places = _mesh(options.mesh, model.graph.n_nodes)
        elif options.positions is not None:
            places = read_positions(options.positions, network, options.node_column)
        return labels, values, places, {}, options.target
    refuse(options, ("mesh", "positions"), "expected a model of a graph, this one has none")
    X, y, beside, target = _rows(model, data, options.target)
    return X, y, None, beside, target


def _mesh(path: Path, n_nodes: int) -> Any:
    for nodes in ("faces", "vertices"):
        network = read_network(path, nodes, None, None, False)
        if network.mesh is None:
            raise InvalidInputError(f"--mesh: expected a mesh file, got {str(path)!r}")
        if network.graph.n_nodes == n_nodes:
            return network.mesh
    raise InvalidInputError(
        f"--mesh: {path}: expected {n_nodes} faces or vertices, as many as the model's graph has "
        "nodes"
    )


def _rows(model: Any, data: Path, target: str) -> tuple[Any, FloatArray, Beside, str]:
    """Inputs (p, d) in the order of the model's columns, targets (p,), others, and their name."""
    table, source = read_inputs(data, kinds_of_model(model)), str(data)
    names = getattr(model, "feature_names_in_", None)
    inputs = None if names is None else list(names)
    if not target:
        others = [n for n in table.column_names if inputs is not None and n not in inputs]
        if len(others) != 1:
            raise InvalidInputError(
                f"--target: {source}: expected the target's column, one of "
                f"{listed(table.column_names)}"
            )
        target = others[0]
    if inputs is not None and target in inputs:
        raise InvalidInputError(f"--target: expected no input of the model, got {target!r}")
    if not table.num_rows:
        raise InvalidInputError(f"{source}: expected rows below the header, got none")
    inputs = inputs or [name for name in table.column_names if name != target]
    check_columns(table, [*inputs, target], source)
    if len(inputs) != model.n_features_in_:
        raise InvalidInputError(
            f"{source}: expected {model.n_features_in_} inputs beside {target!r}, got {len(inputs)}"
        )
    y = numeric(table, [target], source).column(0).to_numpy()
    X = model_inputs(model, table, inputs, source)
    unseen = [name for name in table.column_names if name not in {*inputs, target}]
    return (without_names(X) if names is None else X), y, columns_beside(table, unseen), target
