"""Work of `coupledgp predict`: find a model's inputs in a table and add its law as columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from coupledgp.cli.evaluate import intervals_in_batches, predict_in_batches
from coupledgp.cli.readers.kinds import (
    kinds_of_model,
    model_inputs,
    read_inputs,
    without_names,
)
from coupledgp.cli.readers.tables import PARQUET, check_columns, read_table
from coupledgp.errors import InvalidInputError
from coupledgp.models import load_model
from coupledgp.random import FloatArray


def with_predictions(
    model: Path, data: Path, prefix: str, latent: bool, output: Path, interval: float | None = None
) -> tuple[pa.Table, list[str]]:
    """Return the table with means and standard deviations added, and the names of these columns.

    With `interval` also the ends of the central interval of that probability, noise included.

    Columns of a CSV file keep their text where `output` is such a file too.
    """
    fitted = load_model(model)
    table = read_inputs(data, kinds_of_model(fitted))
    inputs = _inputs(fitted, table, str(data))
    mean, std = predict_in_batches(fitted, inputs, latent)
    law = {"mean": mean, "std": std}
    if interval is not None:
        lower, upper = intervals_in_batches(fitted, inputs, interval)
        law |= {f"lower_{100 * interval:g}": lower, f"upper_{100 * interval:g}": upper}
    added = _columns(law, prefix)
    if data.suffix.lower() not in PARQUET and output.suffix.lower() not in PARQUET:
        table = read_table(data, text_columns=True)  # to keep every other column as it stands
    for name, values in added.items():
        if name in table.column_names:
            raise InvalidInputError(
                f"{data}: has a column {name!r} already; --prefix gives the new ones others"
            )
        table = table.append_column(name, pa.array(values))
    return table, list(added)


def _inputs(model: Any, table: pa.Table, source: str) -> Any:
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
    """Columns to add, from values (p,) or (p, k); those of several outputs are numbered."""
    if law["mean"].ndim == 1:
        return {f"{prefix}{name}": values for name, values in law.items()}
    return {
        f"{prefix}{name}_{k}": values[:, k]
        for k in range(law["mean"].shape[1])
        for name, values in law.items()
    }
