"""Tables that `coupledgp audit` reads, its settings, and the figures that it prints."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from coupledgp.cli.commands.interpolate_options import AuditOptions
from coupledgp.cli.commands.table_tasks import labels_or_numbers, load
from coupledgp.cli.readers.files import read_model
from coupledgp.cli.readers.tables import check_columns, numeric, read_table
from coupledgp.cli.shared.declare import refuse
from coupledgp.cli.shared.evaluate import Rows, announce_solves
from coupledgp.cli.shared.options import MAX_SOLVED_ROWS
from coupledgp.diagnostics.auditing import MAX_ALONE
from coupledgp.diagnostics.foreign.law import chance_names
from coupledgp.diagnostics.limits import DENSE_ROWS
from coupledgp.diagnostics.probes import StochasticOptions
from coupledgp.errors import InvalidInputError
from coupledgp.random import IntArray
from coupledgp.spectra import parse_spectrum

# Begin of the columns of chances of classes, as `coupledgp predict` writes them, and the column of
# the most probable class beside these.
CHANCE, CLASS = "chance_", "class"


def hyperparameters(options: AuditOptions) -> dict[str, Any]:
    """Arguments of `audit` that state the kernel: none, a name or a fitted model."""
    names = ("lengthscale", "outputscale", "noise", "mean")
    numbers = {name: getattr(options, name) for name in names}
    given = [name for name, value in numbers.items() if value not in (None, "")]
    for name in given:
        if name != "lengthscale" and not np.isfinite(numbers[name]):
            raise InvalidInputError(f"--{name}: expected a finite number, got {numbers[name]}")
    if options.kernel is not None and options.model is not None:
        raise InvalidInputError("--from-model: expected no --kernel beside it")
    if options.kernel is None:
        allowed = ("noise",) if options.latent and options.model is None else ()
        if extra := [f"--{name}" for name in given if name not in allowed]:
            raise InvalidInputError(f"{', '.join(extra)}: expected --kernel beside it")
        kernel = None if options.model is None else read_model(options.model)
        return {"kernel": kernel, "noise": options.noise}
    if missing := [f"--{name}" for name in names[:3] if name not in given]:
        raise InvalidInputError(f"--kernel: expected {', '.join(missing)} beside it")
    parse_spectrum(options.kernel, "--kernel")
    return numbers | {"kernel": options.kernel, "lengthscale": _lengths(options.lengthscale)}


def _lengths(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInputError(
            f"--lengthscale: expected numbers with commas between, got {text!r}"
        ) from None


def tables(options: AuditOptions, kernel: Any) -> tuple[Rows | None, Rows]:
    """Training rows, if any, and test rows; inputs are the training columns without other meaning.

    They are in the order of the model whose kernel is taken, if it has names. All other columns of
    the test rows but the prediction are beside them. Without training rows these are the inputs.
    """
    stated = _stated(options)
    if options.train is None:
        return None, _alone(options, stated)
    left, own = list(options.drop or ()), options.id_column
    if own is not None and own in read_table(options.train).column_names:
        left.append(own)
    rows, new = load(options, options.train, 0.0, left, labels=CLASS in stated)
    if CLASS in stated:
        return rows, replace(new, beside={})
    beside = {name: values for name, values in new.beside.items() if name not in stated}
    names = getattr(kernel, "feature_names_in_", None)
    if names is None:
        return rows, replace(new, beside=beside)
    check_columns(rows.X, list(names), str(options.train))
    names = list(names)
    return Rows(rows.X.select(names), rows.y), Rows(new.X.select(names), new.y, beside=beside)


def _stated(options: AuditOptions) -> list[str]:
    """Columns that state a law: mean and standard deviation, or `CLASS` and those of chances."""
    names = read_table(options.predictions or options.test).column_names
    chances = [name for name in names if name.startswith(CHANCE)]
    if len(chances) < 2 or options.mean_column in names or options.samples or options.quantiles:
        return [options.mean_column, options.std_column]
    refuse(
        options, ("kernel", "model", "latent"),
        f"expected none beside chances of classes, the columns {', '.join(chances)}",
    )  # fmt: skip
    return [CLASS, *chances]


def _alone(options: AuditOptions, law: list[str]) -> Rows:
    """Test rows of which no training rows are known; they may have no inputs."""
    refuse(
        options, ("kernel", "model", "leave_out_overlap"),
        "expected --train beside it, the rows that the predictions were made from",
    )  # fmt: skip
    path, target = options.test, options.target
    table = read_table(path)
    check_columns(table, [target, *(options.drop or ())], f"--target, --drop: {path}")
    stated = {*law, options.id_column, *(options.drop or ())}
    left = [name for name in table.column_names if name in stated - {target}]
    if len(left) + 1 == len(table.column_names):
        return Rows(pa.table({}), labels_or_numbers(table, target, str(path)))
    rows, _ = load(options, path, 0.0, left, labels=CLASS in law)
    return replace(rows, beside={})


def prediction(options: AuditOptions, y: NDArray[Any]) -> Any:
    """Means and standard deviations (p,), draws (n_samples, p), quantiles, or chances of classes.

    Quantiles are a mapping from their chances. Labels of classes are of the kind of the targets.
    """
    path = options.predictions or options.test
    table = read_table(path)
    if options.id_column is not None:
        check_columns(table, [options.id_column], f"--id: {path}")
    if options.samples and options.quantiles:
        raise InvalidInputError("--quantiles: expected no --samples beside it")
    names = [name for name in _stated(options) if name != CLASS]
    if options.samples or options.quantiles:
        if options.predictions is None:
            name = "--samples" if options.samples else "--quantiles"
            raise InvalidInputError(f"{name}: expected --predictions beside it")
        names = [name for name in table.column_names if name != options.id_column]
        if "" in names:
            raise InvalidInputError(
                f"{path}: column {table.column_names.index('') + 1} has no name (row numbers?); "
                "name it for --id, or leave it out of the file"
            )
        test = read_table(options.test)
        known = {name for name in names if name in test.column_names
                 and table.column(name).to_pylist() == test.column(name).to_pylist()}  # fmt: skip
        names = [name for name in names if name not in known]  # row numbers are no draws
    check_columns(table, names, str(path))
    values = numeric(table, names, str(path))
    found = np.column_stack([column.to_numpy() for column in values.columns])
    if options.predictions is not None:
        found = found[_places(table, options)]
    if names[0].startswith(CHANCE) and names != [options.mean_column, options.std_column]:
        labels = [name.removeprefix(CHANCE) for name in names]
        return {"chances": found, "classes": labels if y.dtype.kind == "U" else _as_numbers(labels)}
    if options.quantiles:
        chances = chance_names(dict.fromkeys(names))
        if not chances:
            raise InvalidInputError(
                f"--quantiles: {path}: expected columns named by chances between 0 and 1, got "
                f"{', '.join(names)}"
            )
        return {chances[name]: column for name, column in zip(names, found.T, strict=True)}
    return np.ascontiguousarray(found.T) if options.samples else (found[:, 0], found[:, 1])


def _as_numbers(labels: list[str]) -> list[float]:
    """Labels of classes that are numbers in the column of the targets, or Booleans."""
    try:
        return [float({"False": "0", "True": "1"}.get(label, label)) for label in labels]
    except ValueError as error:
        raise InvalidInputError(
            f"--target: expected labels of classes, as {CHANCE}LABEL names them, got numbers: "
            f"{error}"
        ) from None


def _places(table: pa.Table, options: AuditOptions) -> IntArray:
    """Numbers (p,) of the rows of a table of predictions, by the test rows."""
    test, path, own = read_table(options.test), options.predictions, options.id_column
    if own is None:
        if table.num_rows != test.num_rows:
            raise InvalidInputError(
                f"{path}: expected {test.num_rows} rows, those of {options.test}, got "
                f"{table.num_rows}; --id names a column that both have"
            )
        for name in sorted({*table.column_names} & {*test.column_names}):
            there, wanted = (one.column(name).to_pylist() for one in (table, test))
            if there != wanted and Counter(map(str, there)) == Counter(map(str, wanted)):
                raise InvalidInputError(
                    f"{path}: expected rows in the order of {options.test}, got {name!r} in "
                    "another one; --id names the column by which rows belong together"
                )
        return np.arange(test.num_rows)
    keys = []
    for one, source in ((test, options.test), (table, path)):
        check_columns(one, [own], f"--id: {source}")
        keys.append(one.column(own).to_pylist())
    wanted, there = keys
    place = {key: k for k, key in enumerate(there)}
    if len(place) < len(there):
        again = next(key for k, key in enumerate(there) if place[key] != k)
        raise InvalidInputError(f"--id: {path}: expected one row for each, got two of {again!r}")
    if missing := [key for key in wanted if key not in place]:
        raise InvalidInputError(f"--id: {path}: expected a row for {missing[0]!r}, got none")
    return np.array([place[key] for key in wanted])


def settings(options: AuditOptions, n_train: int, n_test: int, kernel: Any) -> dict[str, Any]:
    """Arguments of `audit` on how the exact law is computed, and at how many test rows."""
    how, max_rows = options.how, options.max_rows
    solved = how == "stochastic" or (how == "auto" and n_train > DENSE_ROWS)
    if kernel is None:
        limit = max_rows or MAX_ALONE
    else:
        limit = max_rows or (MAX_SOLVED_ROWS if solved else StochasticOptions.n_columns)
        if solved:
            announce_solves(n_train, min(limit, n_test), "a smaller --max-rows takes less")
    return {"method": how, "options": StochasticOptions(n_columns=limit, seed=options.seed)}
