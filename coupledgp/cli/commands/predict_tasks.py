"""Work of `coupledgp predict`: find a model's inputs in a table and add its law as columns.

Test rows or nodes that `coupledgp report` reads, and the figures that it prints.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from coupledgp.cli.commands.interpolate_options import ReportOptions
from coupledgp.cli.commands.table_options import PredictOptions
from coupledgp.cli.readers.domains import SpatialDomain
from coupledgp.cli.readers.files import about, read_model
from coupledgp.cli.readers.guesses import node_column as column_of_nodes
from coupledgp.cli.readers.kinds import (
    Beside,
    columns_beside,
    kinds_of_model,
    model_inputs,
    read_inputs,
    without_names,
)
from coupledgp.cli.readers.networks import Network, label_array, read_network
from coupledgp.cli.readers.node_values import find_nodes, read_positions, read_values
from coupledgp.cli.readers.places import PlaceOptions, read_queries
from coupledgp.cli.readers.tables import check_columns, is_parquet, listed, numeric, read_table
from coupledgp.cli.shared.declare import Options, refuse
from coupledgp.cli.shared.evaluate import (
    BATCH_ROWS,
    extrapolations_in_batches,
    intervals_in_batches,
    predict_in_batches,
)
from coupledgp.errors import ExtrapolationWarning, InvalidInputError
from coupledgp.models.grids import Extrapolations
from coupledgp.random import FloatArray, IntArray

# Chance of the interval that is written under a likelihood, where none is asked for.
LEVEL_UNDER_LAW = 0.95


def with_predictions(options: PredictOptions) -> tuple[pa.Table, list[str]]:
    """Return the table with means and standard deviations added, and the names of these columns.

    A row is a row of inputs, a node of a graph model (`node_column`, or a column called node), or a
    place of a field: node, vertex, face, edge and offset, or coordinates.

    With a level also the ends of the central interval of that probability, noise included. A
    classifier adds the class of greatest chance and the chances of all.

    Columns of a CSV file keep their text where the output is such a file too.
    """
    fitted, data = read_model(options.model), options.data
    table, inputs = _points(fitted, options)
    with about(data):
        exposures = exposures_of(fitted, table, options)
        added, far = law_columns(fitted, inputs, options, options.prefix, exposures)
    if far is not None:
        far.warn()
    if not is_parquet(data) and not is_parquet(options.output):
        table = read_table(data, text_columns=True)  # to keep every other column as it stands
    return with_columns(table, added, data), list(added)


def with_columns(table: pa.Table, added: dict[str, Any], data: Path) -> pa.Table:
    """The table of a file with columns more, none of which it has."""
    for name, values in added.items():
        if name in table.column_names:
            raise InvalidInputError(
                f"{data}: has a column {name!r} already; --prefix gives the new ones others"
            )
        table = table.append_column(name, pa.array(values))
    return table


def exposures_of(model: Any, table: pa.Table, options: PredictOptions) -> FloatArray | None:
    """Exposures (p,) of the rows of a table; None where no column of them is named.

    Raises
    ------
    InvalidInputError
        The model takes none, or the table has no such column of numbers.
    """
    column, source = options.exposure, str(options.data)
    if column is None:
        return None
    check_columns(table, [column], f"--exposure: {source}")
    likelihood = model.process_.noise
    if not likelihood.takes_exposure:
        raise InvalidInputError(
            f"--exposure: expected none for a model with a {type(likelihood).__name__} law"
        )
    found: FloatArray = numeric(table, [column], source).column(0).to_numpy()
    return found


def law_columns(
    model: Any, inputs: Any, options: Options, prefix: str = "", exposure: FloatArray | None = None
) -> tuple[dict[str, Any], Extrapolations | None]:
    """Columns (p,) of the law at inputs of p rows, by name, and which rows are extrapolations."""
    if hasattr(model, "classes_"):
        return class_columns(model, inputs, prefix)
    latent, interval = options.latent, options.level
    if not model.process_.noise.is_gaussian and interval is None and not latent:
        interval = LEVEL_UNDER_LAW
    mean, std = predict_in_batches(model, inputs, latent, exposure)
    law = {"mean": mean, "std": std}
    if interval is not None:
        lower, upper = intervals_in_batches(model, inputs, interval, exposure)
        law |= {f"lower_{100 * interval:g}": lower, f"upper_{100 * interval:g}": upper}
    columns, far = _columns(law, prefix), extrapolations_in_batches(model, inputs, mean)
    if far is not None:
        columns[f"{prefix}extrapolation"] = far.distance
    return columns, far


def class_columns(
    model: Any, inputs: Any, prefix: str = ""
) -> tuple[dict[str, Any], Extrapolations | None]:
    """The class of greatest chance (p,) and the chances of all, by name; and extrapolations."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExtrapolationWarning)
        parts = [
            model.predict_proba(inputs[start : start + BATCH_ROWS])
            for start in range(0, len(inputs), BATCH_ROWS)
        ]
    chances = np.concatenate(parts) if parts else np.zeros((0, len(model.classes_)))
    columns: dict[str, Any] = {f"{prefix}class": model.classes_[chances.argmax(axis=1)]}
    names = [f"{prefix}chance_{label}" for label in model.classes_]
    columns |= dict(zip(names, chances.T, strict=True))
    far = extrapolations_in_batches(model, inputs, chances)
    if far is not None:
        columns[f"{prefix}extrapolation"] = far.distance
    return columns, far


def _points(model: Any, options: PredictOptions) -> tuple[pa.Table, Any]:
    """The rows of a table, and their points for a model."""
    data, node_column = options.data, options.node_column
    if hasattr(model, "graph"):
        network = Network(model.graph, "saved graph")
        table = read_table(data)
        nodes = find_nodes(data, network, column_of_nodes(data, table, node_column))
        return table, model.graph.label_all(nodes)
    if hasattr(model, "operator"):
        domain = SpatialDomain(model.operator_, "saved field", "the model's unit")
        places = read_queries(data, domain, _place_options(model, node_column), ())
        return places.table, places.locations
    if node_column is not None:
        raise InvalidInputError("--node-column: expected a model of a graph or a field beside it")
    table = read_inputs(data, kinds_of_model(model))
    return table, table_inputs(model, table, str(data))


def _place_options(model: Any, node_column: str | None) -> PlaceOptions:
    """Which columns are places; a column of nodes numbers the vertices of a surface."""
    nodes = "vertices" if model.operator_.dimension == 2 and node_column is not None else None
    return PlaceOptions(node_column, nodes)


def table_inputs(model: Any, table: pa.Table, source: str) -> Any:
    """Columns that the model was fitted to, by name, or by position if it has no names."""
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        check_columns(table, list(names), source)
        return model_inputs(model, table, list(names), source)
    if table.num_columns != model.n_features_in_:
        raise InvalidInputError(
            f"{source}: expected {model.n_features_in_} columns, since the model was fitted "
            f"without column names, got {table.num_columns}"
        )
    # Not as a table: scikit-learn warns of names where the fit had none.
    return without_names(model_inputs(model, table, table.column_names, source))


def _columns(law: dict[str, FloatArray], prefix: str) -> dict[str, FloatArray]:
    """Columns to add, from values (p,) or (p, k); columns of several outputs are numbered."""
    if law["mean"].ndim == 1:
        return {f"{prefix}{name}": values for name, values in law.items()}
    return {
        f"{prefix}{name}_{k}": values[:, k]
        for k in range(law["mean"].shape[1])
        for name, values in law.items()
    }


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
