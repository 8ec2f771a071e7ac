"""`coupledgp predict`: a saved model's means and standard deviations beside the rows of a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer
from rich.console import Console

from coupledgp.cli.evaluate import predict_in_batches
from coupledgp.cli.readers.tables import (
    PARQUET,
    check_columns,
    check_table_path,
    numeric,
    read_table,
    write_table,
)
from coupledgp.errors import InvalidInputError
from coupledgp.gp.container import written_whole
from coupledgp.models import load_model
from coupledgp.progress import reporter
from coupledgp.random import FloatArray


def predict(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="File that fit wrote.", show_default=False)
    ],
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="CSV or Parquet file.", show_default=False)
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help=".csv, .tsv or .parquet to write.", show_default=False),
    ],
    prefix: Annotated[
        str, typer.Option(help="Before the names of the added columns.", show_default=False)
    ] = "",
    latent: Annotated[
        bool, typer.Option("--latent", help="Leave the noise out of the standard deviation.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON instead of a sentence.")
    ] = False,
) -> None:
    """Predict, add the columns and write the table."""
    check_table_path(output, "--output")
    if output.resolve() in (model.resolve(), data.resolve()):
        raise InvalidInputError(f"--output: expected a path of its own, got {str(output)!r}")
    with reporter("predict"), written_whole(output) as temporary:
        fitted = load_model(model)
        table = read_table(data)
        inputs = _inputs(fitted, table, str(data))
        added = _columns(predict_in_batches(fitted, inputs, latent), prefix)
        if data.suffix.lower() not in PARQUET and output.suffix.lower() not in PARQUET:
            table = read_table(data, text_columns=True)  # to keep every other column as it stands
        for name, values in added.items():
            if name in table.column_names:
                raise InvalidInputError(
                    f"{data}: has a column {name!r} already; --prefix gives the new ones others"
                )
            table = table.append_column(name, pa.array(values))
        write_table(table, temporary, like=output)
    result = {"rows": table.num_rows, "output": str(output), "added": list(added)}
    if as_json:
        print(json.dumps(result))
        return
    names = " and ".join(repr(name) for name in added)
    rows = "1 row" if table.num_rows == 1 else f"{table.num_rows} rows"
    Console(highlight=False, soft_wrap=True).print(
        f"{rows} with {names} written to {output}", markup=False
    )


def _inputs(model: Any, table: pa.Table, source: str) -> Any:
    """Columns the model was fitted to, by name; by position if it knows no names."""
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        check_columns(table, list(names), source)
        return numeric(table, list(names), source)
    if table.num_columns != model.n_features_in_:
        raise InvalidInputError(
            f"{source}: expected {model.n_features_in_} columns, since the model was fitted "
            f"without column names, got {table.num_columns}"
        )
    # As a table it would have names, which scikit-learn finds amiss.
    return np.column_stack(numeric(table, table.column_names, source).columns)


def _columns(law: tuple[FloatArray, FloatArray], prefix: str) -> dict[str, FloatArray]:
    """Columns to add; those of several outputs are numbered."""
    mean, std = law
    if mean.ndim == 1:
        return {f"{prefix}mean": mean, f"{prefix}std": std}
    return {
        f"{prefix}{name}_{k}": values[:, k]
        for k in range(mean.shape[1])
        for name, values in (("mean", mean), ("std", std))
    }
