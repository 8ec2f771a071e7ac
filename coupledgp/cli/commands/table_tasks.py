"""Rows of a table for `coupledgp fit`, and its results as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from coupledgp.cli.commands.table_models import Model, describe_model, describe_search
from coupledgp.cli.evaluate import (
    Comparison,
    Rows,
    Stopwatch,
    beside_exact,
    plan_comparison,
    scores,
    split,
)
from coupledgp.cli.readers.kinds import HINT, read_inputs, typed
from coupledgp.cli.readers.tables import check_columns, numeric
from coupledgp.columns.arrow import kind_of
from coupledgp.diagnostics.overlap import Overlap, overlap_of
from coupledgp.errors import InvalidInputError
from coupledgp.gp.columns import column_moments
from coupledgp.ground.memory import named_exhaustion
from coupledgp.ground.progress import reporter
from coupledgp.random import FloatArray

SCHEMA_VERSION = 1


def load(
    data: Path,
    target: str,
    test: Path | None,
    share: float,
    drop: list[str],
    seed: int,
    forced: Mapping[str, str],
    weights: Mapping[str, str | None],
) -> tuple[Rows, Rows]:
    """Read training and test rows, the latter from a file of their own or as a random share.

    Columns have the kinds of `forced` by name, or those of their values in the training file.
    `weights` are the columns that hold arguments of a fit, `sample_weight` and `sample_noise`.
    """
    given = {argument: name for argument, name in weights.items() if name is not None}
    if target in given.values():
        raise InvalidInputError(
            f"--weight-column, --noise-column: expected columns besides the target, got {target!r}"
        )
    with reporter("read"):
        table = read_inputs(data, forced)
        check_columns(table, [target], f"--target: {data}")
        check_columns(table, forced, f"--categorical, --numeric, --date: {data}")
        check_columns(table, drop, f"--drop: {data}")
        check_columns(table, given.values(), f"--weight-column, --noise-column: {data}")
        if target in drop:
            raise InvalidInputError(f"--drop: expected columns besides the target, got {target!r}")
        others = {target, *drop, *given.values()}
        names = [name for name in table.column_names if name not in others]
        if not names:
            raise InvalidInputError(f"{data}: expected a column besides the target {target!r}")
        if "" in names:
            raise InvalidInputError(
                f"{data}: column {table.column_names.index('') + 1} has no name (row numbers?); "
                'name it, or leave it out with --drop ""'
            )
        if not table.num_rows:
            raise InvalidInputError(f"{data}: expected rows below the header, got none")
        rows = _rows(table, names, target, str(data), forced)
        rows = replace(rows, weights={k: _numbers(table, v, str(data)) for k, v in given.items()})
        if test is None:
            return split(rows, share, seed)
        kinds = {name: kind_of(rows.X.column(name), name) for name in names}
        other = read_inputs(test, kinds)
        check_columns(other, [*names, target], str(test))
        return rows, _rows(other, names, target, str(test), kinds)


def fit_in_memory(
    model: Model, options: Mapping[str, Any], kinds: Mapping[str, str], share: float,
    clock: Stopwatch, how: str,
) -> tuple[dict[str, Any], int, Comparison | None, Overlap | None]:  # fmt: skip
    """Fit a model to a table, score it and compare it with the exact GP, as the options say.

    Returns
    -------
    (dict, int, Comparison or None, Overlap or None)
        What is printed, the number of test rows, the comparison, and how far the test rows overlap
        with those to train on.
    """
    weights = {
        "sample_weight": options["weight_column"], "sample_noise": options["noise_column"],
    }  # fmt: skip
    train, held_out = load(
        options["data"], options["target"], options["test"], share, options["drop"] or [],
        options["seed"], kinds, weights,
    )  # fmt: skip
    plan = plan_comparison(how, len(train), options["exact_rows"])
    if plan is not None:
        plan.check_size()
    with clock("fit"):
        model.fit(train.X, train.y, **train.weights)
    scored, overlap = None, None
    if len(held_out):
        with clock("predict"), reporter("predict"), named_exhaustion("predict"):
            points, process = model.points(held_out.X), model.process_
            scored = scores(process, points, held_out.y)
            overlap = overlap_of(process, points, held_out.y)[0]
    comparison = None
    if plan is not None:
        with clock("compare"):
            comparison = beside_exact(model, train, held_out, plan, options["seed"])
            comparison = replace(comparison, report=replace(comparison.report, overlap=overlap))
    result = describe(model, train, scored, comparison, clock)
    return result, len(held_out), comparison, overlap


def describe(
    model: Model,
    train: Rows,
    scored: dict[str, Any] | None,
    comparison: Comparison | None,
    clock: Stopwatch,
) -> dict[str, Any]:
    """Return data, settings and results of the fit as plain values, the content of `--json`."""
    n_columns, spread = train.X.num_columns, _spread(model)
    return describe_fit(model, len(train), n_columns, spread, scored, comparison, clock)


def describe_fit(
    model: Model,
    n_train: int,
    n_columns: int,
    spread: list[float],
    scored: dict[str, Any] | None,
    comparison: Comparison | None,
    clock: Stopwatch,
) -> dict[str, Any]:
    """The same from the numbers of rows and columns, and the spreads (q,) of the parts of X."""
    names = model.lengthscale_names_
    lengthscales = np.broadcast_to(model.lengthscale_, len(names)).tolist()
    evidence = float(model.log_marginal_likelihood_value_)
    return {
        "schema_version": SCHEMA_VERSION,
        "coupledgp": version("coupledgp"),
        "data": {"n_train": n_train, "n_columns": n_columns},
        "columns": model.encoding_.describe(),
        "model": describe_model(model),
        "hyperparameters": {
            "lengthscale": dict(zip(names, lengthscales, strict=True)),
            "spread_over_lengthscale": {
                name: s / length
                for name, s, length in zip(names, spread, lengthscales, strict=True)
            },
            "outputscale": model.outputscale_,
            "noise": model.noise_,
        },
        "log_evidence": evidence,
        "log_evidence_per_row": evidence / n_train,
        **describe_search(model),
        "scores": scored,
        "comparison": None if comparison is None else comparison.to_dict(),
        "seconds": clock.seconds,
    }


def _spread(model: Model) -> list[float]:
    """Standard deviations (q,) of the parts of the training inputs."""
    _, variances = column_moments(model.X_train_)
    spread: list[float] = np.sqrt(np.bincount(model.encoding_.groups, weights=variances)).tolist()
    return spread


def _rows(
    table: pa.Table, names: list[str], target: str, source: str, kinds: Mapping[str, str]
) -> Rows:
    inputs = typed(table, names, kinds, source, missing=True, hint=HINT)
    return Rows(inputs, _numbers(table, target, source))


def _numbers(table: pa.Table, name: str, source: str) -> FloatArray:
    values: FloatArray = numeric(table, [name], source).column(0).to_numpy()
    return values
