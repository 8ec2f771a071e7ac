"""Tables that `coupledgp audit` reads, its settings, and the figures that it prints."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from coupledgp.cli.commands.table_tasks import load
from coupledgp.cli.readers.models import read_model
from coupledgp.cli.readers.tables import check_columns, numeric, read_table
from coupledgp.cli.shared.evaluate import Rows, announce
from coupledgp.cli.shared.options import MAX_SOLVED_ROWS
from coupledgp.diagnostics.auditing import MAX_ALONE
from coupledgp.diagnostics.foreign.law import chance_names
from coupledgp.diagnostics.limits import DENSE_ROWS
from coupledgp.diagnostics.stochastic import StochasticOptions
from coupledgp.errors import InvalidInputError
from coupledgp.random import IntArray
from coupledgp.spectra import parse_spectrum


@dataclass(frozen=True)
class AuditColumns:
    """Names of the columns that are no inputs, and whether others are draws, or quantiles."""

    target: str
    id: str | None
    mean: str
    std: str
    samples: bool
    quantiles: bool = False


def hyperparameters(
    kernel: str | None,
    model: Path | None,
    lengthscale: str,
    outputscale: float | None,
    noise: float | None,
    mean: float | None,
    latent: bool,
) -> dict[str, Any]:
    """Arguments of `audit` that state the kernel: none, a name or a fitted model."""
    for name, value in (("--mean", mean), ("--outputscale", outputscale), ("--noise", noise)):
        if value is not None and not np.isfinite(value):
            raise InvalidInputError(f"{name}: expected a finite number, got {value}")
    numbers = {"lengthscale": lengthscale or None, "outputscale": outputscale, "noise": noise}
    given = [name for name, value in (numbers | {"mean": mean}).items() if value is not None]
    if kernel is not None and model is not None:
        raise InvalidInputError("--from-model: expected no --kernel beside it")
    if kernel is None:
        allowed = ("noise",) if latent and model is None else ()
        if extra := [f"--{name}" for name in given if name not in allowed]:
            raise InvalidInputError(f"{', '.join(extra)}: expected --kernel beside it")
        return {"kernel": None if model is None else read_model(model), "noise": noise}
    if missing := [f"--{name}" for name in numbers if name not in given]:
        raise InvalidInputError(f"--kernel: expected {', '.join(missing)} beside it")
    parse_spectrum(kernel, "--kernel")
    lengths = _lengths(lengthscale)
    return numbers | {"kernel": kernel, "lengthscale": lengths, "mean": mean}


def _lengths(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInputError(
            f"--lengthscale: expected numbers with commas between, got {text!r}"
        ) from None


def tables(
    train: Path, test: Path, columns: AuditColumns, drop: list[str], kernel: Any
) -> tuple[Rows, Rows]:
    """Training and test rows; inputs are the training columns without another meaning.

    They are in the order of the model whose kernel is taken, if it has names. All other columns of
    the test rows but the prediction are beside them.
    """
    known = read_table(train).column_names
    left = [name for name in (columns.id, *drop) if name is not None]
    if columns.id not in known and columns.id is not None:
        left.remove(columns.id)
    rows, new = load(train, columns.target, test, 0.0, left, 0, {}, {})
    stated = (columns.mean, columns.std)
    beside = {name: values for name, values in new.beside.items() if name not in stated}
    names = getattr(kernel, "feature_names_in_", None)
    if names is None:
        return rows, replace(new, beside=beside)
    check_columns(rows.X, list(names), str(train))
    names = list(names)
    return Rows(rows.X.select(names), rows.y), Rows(new.X.select(names), new.y, beside=beside)


def prediction(test: Path, predictions: Path | None, columns: AuditColumns) -> Any:
    """Means and standard deviations (p,), draws (n_samples, p) or quantiles by their chances."""
    path = test if predictions is None else predictions
    table = read_table(path)
    if columns.id is not None:
        check_columns(table, [columns.id], f"--id: {path}")
    if columns.samples and columns.quantiles:
        raise InvalidInputError("--quantiles: expected no --samples beside it")
    if columns.samples or columns.quantiles:
        if predictions is None:
            name = "--samples" if columns.samples else "--quantiles"
            raise InvalidInputError(f"{name}: expected --predictions beside it")
        names = [name for name in table.column_names if name != columns.id]
    else:
        names = [columns.mean, columns.std]
    check_columns(table, names, str(path))
    values = numeric(table, names, str(path))
    found = np.column_stack([column.to_numpy() for column in values.columns])
    if predictions is not None:
        found = found[_places(read_table(test), table, test, predictions, columns.id)]
    if columns.quantiles:
        chances = chance_names(dict.fromkeys(names))
        if not chances:
            raise InvalidInputError(
                f"--quantiles: {path}: expected columns named by chances between 0 and 1, got "
                f"{', '.join(names)}"
            )
        return {chances[name]: column for name, column in zip(names, found.T, strict=True)}
    return np.ascontiguousarray(found.T) if columns.samples else (found[:, 0], found[:, 1])


def _places(
    test: pa.Table, table: pa.Table, test_path: Path, path: Path, id_column: str | None
) -> IntArray:
    """Numbers (p,) of the predictions of the test rows."""
    if id_column is None:
        if table.num_rows != test.num_rows:
            raise InvalidInputError(
                f"{path}: expected {test.num_rows} rows, those of {test_path}, got "
                f"{table.num_rows}; --id names a column that both have"
            )
        return np.arange(test.num_rows)
    keys = []
    for one, source in ((test, test_path), (table, path)):
        check_columns(one, [id_column], f"--id: {source}")
        keys.append(one.column(id_column).to_pylist())
    wanted, there = keys
    place = {key: k for k, key in enumerate(there)}
    if len(place) < len(there):
        again = next(key for k, key in enumerate(there) if place[key] != k)
        raise InvalidInputError(f"--id: {path}: expected one row for each, got two of {again!r}")
    if missing := [key for key in wanted if key not in place]:
        raise InvalidInputError(f"--id: {path}: expected a row for {missing[0]!r}, got none")
    return np.array([place[key] for key in wanted])


def settings(
    how: str, max_rows: int | None, seed: int, n_train: int, n_test: int, kernel: Any
) -> dict[str, Any]:
    """Arguments of `audit` on how the exact law is computed, and at how many test rows."""
    solved = how == "stochastic" or (how == "auto" and n_train > DENSE_ROWS)
    if kernel is None:
        limit = max_rows or MAX_ALONE
    else:
        limit = max_rows or (MAX_SOLVED_ROWS if solved else StochasticOptions.n_columns)
        if solved:
            announce(n_train, min(limit, n_test), "a smaller --max-rows takes less")
    return {"method": how, "options": StochasticOptions(n_columns=limit, seed=seed)}
