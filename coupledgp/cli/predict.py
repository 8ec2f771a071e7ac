"""`coupledgp predict`: a saved model's predictive law at the rows of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

import coupledgp as cgp
from coupledgp.cli import options as o
from coupledgp.cli import shared as s
from coupledgp.cli.domains import Domain, Source, read_places
from coupledgp.cli.fit import read_inputs, typed
from coupledgp.cli.options import OUTPUT, Text, opt
from coupledgp.cli.tables import PARQUET, WRITTEN, check_columns, numbers, read_table, write_table
from coupledgp.errors import InvalidInputError
from coupledgp.random import FloatArray
from coupledgp.tables.codes import CategoryCode


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="File that fit wrote, or -.")],
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Table of rows to predict, or -.")],
    output: Annotated[Path, opt("Table to write, or -.", "--output", "-o", panel=OUTPUT)],
    places: o.Places = None,
    node_column: o.NodeColumn = None,
    nodes: o.Elements = None,
    exposure: Annotated[Text, opt("Column of exposures of counts.")] = None,
    prefix: Annotated[str, opt("Of the names of the added columns.", panel=OUTPUT)] = "",
    level: o.Level = None,
    latent: o.Latent = False,
    format: o.Format = "csv",
    as_json: o.AsJson = False,
    show: o.Show = None,
) -> None:
    """Predict each row of a table: columns mean and std are added to it.

    Inputs are found by name, in any order; other columns are kept as they are. std is that of an
    observation. A graph's model takes nodes, a field's model places; a classifier adds class and
    chance_LABEL. extrapolation tells how far a row is outside of the training rows.

    Example: coupledgp predict price.model new.csv -o predicted.csv --level 0.9
    """
    s.check_paths({"MODEL": model, "DATA": data}, {"--output": (output, WRITTEN)}, as_json)
    if str(model) == str(data) == "-":
        raise InvalidInputError("MODEL, DATA: expected standard input once")
    if level is not None:
        s.check_level(level)
    fitted = load(model)
    if not hasattr(fitted, "predict"):
        raise InvalidInputError(f"{model}: expected a model of a table, a graph or a field")
    frame, points = points_of(fitted, data, node_column, places, nodes)
    with s.about(data, options={"exposure": "--exposure"}):
        far = fitted.extrapolation(points) if hasattr(fitted, "extrapolation") else None
        found = s.law_columns(fitted, points, level, latent, _exposures(frame, exposure, data))
        if far is not None:
            found["extrapolation"] = far
    kept = frame
    if (
        data.suffix.lower() not in PARQUET
        and output.suffix.lower() not in PARQUET
        and format != "parquet"
    ):
        kept = read_table(data, None)  # other columns as they stand
    table = s.with_columns(kept, found, data, prefix)
    with s.whole(output, f".{format}") as path:
        write_table(table, path)
    added = ", ".join(repr(f"{prefix}{name}") for name in found)
    text = f"{len(table)} rows with {added} written to {output}"
    s.answer(s.heading(rows=len(table), added=list(found), output=output), text, as_json, output)


def load(path: Path, option: str = "MODEL") -> Any:
    """A saved model."""
    with s.about(path, options={"path": option}):
        return cgp.load_model(s.on_disk(path))


def points_of(
    fitted: Any, data: Path, node_column: str | None, places: str | None, nodes: str | None = None
) -> tuple[Any, Any]:
    """The rows of a table, and the points that they are for a model."""
    if hasattr(fitted, "time_axis_"):
        raise InvalidInputError(
            "MODEL: got a model over time: coupledgp forecast --update MODEL predicts"
        )
    if hasattr(fitted, "operator_") or hasattr(fitted, "graph"):
        frame = read_table(data)
        domain = Domain(data, getattr(fitted, "operator_", None), getattr(fitted, "graph", None))
        source = Source(nodes=nodes, node_column=node_column)
        return frame, read_places(data, frame, domain, source, places)[0]
    codes = zip(
        getattr(fitted, "feature_names_in_", ()),
        getattr(getattr(fitted, "encoding_", None), "codes", ()),
        strict=False,
    )
    kinds = {
        str(name): code.kind for name, code in codes
        if not isinstance(code, CategoryCode) or code.of_text
    }  # fmt: skip
    frame = read_inputs(data, kinds)
    if not len(frame):
        raise InvalidInputError(f"{data}: expected rows below the header, got none")
    names = [str(name) for name in getattr(fitted, "feature_names_in_", ())]
    if names:
        check_columns(frame, names, data)
        return frame, typed(data, frame, names, kinds)
    if frame.shape[1] != fitted.n_features_in_:
        raise InvalidInputError(
            f"{data}: expected {fitted.n_features_in_} columns of inputs, as the model has no "
            f"names, got {frame.shape[1]}"
        )
    return frame, typed(data, frame, list(frame.columns), kinds).to_numpy()


def _exposures(frame: pd.DataFrame, column: str | None, path: Path) -> FloatArray | None:
    """Exposures (p,) of the rows of a table; None where no column is named."""
    if column is None:
        return None
    check_columns(frame, [column], f"--exposure: {path}")
    return numbers(frame, column, path)
