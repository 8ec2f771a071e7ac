"""Work of `coupledgp predict`: find a model's inputs in a table and add its law as columns."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from coupledgp.cli.commands.table_options import PredictOptions
from coupledgp.cli.readers.domains import SpatialDomain
from coupledgp.cli.readers.files import about, read_model
from coupledgp.cli.readers.guesses import node_column as column_of_nodes
from coupledgp.cli.readers.kinds import (
    kinds_of_model,
    model_inputs,
    read_inputs,
    without_names,
)
from coupledgp.cli.readers.networks import Network
from coupledgp.cli.readers.node_values import find_nodes
from coupledgp.cli.readers.places import PlaceOptions, read_queries
from coupledgp.cli.readers.tables import check_columns, is_parquet, numeric, read_table
from coupledgp.cli.shared.declare import Options
from coupledgp.cli.shared.evaluate import (
    BATCH_ROWS,
    extrapolations_in_batches,
    intervals_in_batches,
    predict_in_batches,
)
from coupledgp.errors import ExtrapolationWarning, InvalidInputError
from coupledgp.models.extrapolation import Extrapolations
from coupledgp.random import FloatArray

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
