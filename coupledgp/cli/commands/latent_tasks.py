"""Classes and likelihoods on the command line: estimators, scores and their plain values.

`coupledgp report` without test rows: the groups of training rows that are left out.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coupledgp.cli.commands.interpolate_options import ReportOptions
from coupledgp.cli.commands.table_options import FitOptions
from coupledgp.cli.readers.kinds import kinds_of_model, model_inputs, read_inputs, without_names
from coupledgp.cli.readers.networks import Network
from coupledgp.cli.readers.node_values import find_nodes
from coupledgp.cli.readers.tables import check_columns, numeric, read_table
from coupledgp.cli.shared.declare import parameters_of, refuse
from coupledgp.cli.shared.domain import heading
from coupledgp.cli.shared.evaluate import BATCH_ROWS, Rows, Stopwatch, scores
from coupledgp.errors import CoupledGPError, InvalidInputError
from coupledgp.gp.protocol import Data
from coupledgp.likelihoods.registry import LIKELIHOODS
from coupledgp.models import GPClassifier
from coupledgp.random import FloatArray

# Options of regressors, which have no meaning for classes.
OF_NUMBERS = ("noise_column", "target_transform", "model", "kl_target", "coupling", "frequencies",
              "features", "n_frequencies", "ard", "dtype", "max_iter", "n_restarts",
              "exposure", "device")  # fmt: skip
# Options that compare with an exact GP, and one of normal laws alone.
OF_NORMAL = ("exact_rows", "how", "noise_column", "target_transform")


def is_gaussian(name: str) -> bool:
    """Whether a likelihood of a name is the Gaussian one.

    Raises
    ------
    InvalidInputError
        There is none of this name.
    """
    return LIKELIHOODS.parse(name, "--likelihood").is_gaussian


def check_options(options: FitOptions, labelled: bool) -> None:
    """Refuse options that have no meaning for classes, or under a likelihood."""
    if labelled:
        refuse(options, OF_NUMBERS, f"expected none for classes, which {options.target!r} holds")
    why = f"expected none beside --likelihood {options.likelihood}"
    refuse(options, OF_NORMAL, why if not labelled else "expected none for classes")


def make_classifier(options: FitOptions) -> GPClassifier:
    """The unfitted classifier of the options of the command."""
    kernel = options.kernel if "kernel" in options.given else None
    return GPClassifier(
        kernel,
        options.seconds,
        random_state=options.seed,
        missing="indicator",
        **parameters_of(GPClassifier, options),
    )


def latent_scores(model: Any, rows: Rows) -> dict[str, Any] | None:
    """Scores of a classifier, or of a regressor under a likelihood, on test rows."""
    if not rows.is_labelled:
        exposure = rows.weights.get("exposure")
        return scores(model.process_, model.points(rows.X), rows.y, "test", exposure)
    starts = range(0, len(rows), BATCH_ROWS)
    parts = [model.predict_log_proba(rows.X[k : k + BATCH_ROWS]) for k in starts]
    return class_scores(model.classes_, np.concatenate(parts), rows.y, "test")


def class_scores(classes: Any, logs: FloatArray, y: Any, kind: str) -> dict[str, Any]:
    """Log loss, Brier score and accuracy of log chances (p, K) of labels (p,), and of shares.

    Raises
    ------
    InvalidInputError
        A label is none of the classes.
    """
    strange = ~np.isin(y, classes)
    if strange.any():
        raise InvalidInputError(
            f"y: expected classes {classes.tolist()} of the fit, got {y[strange][0]!r}"
        )
    numbers = np.searchsorted(classes, y)
    seen = np.eye(len(classes))[numbers]
    shares = seen.mean(axis=0)
    known = shares[shares > 0]
    return {
        f"n_{kind}": len(y),
        "log_loss": -float(logs[np.arange(len(y)), numbers].mean()),
        "log_loss_of_shares": -float(known @ np.log(known)),
        "brier": float(np.square(np.exp(logs) - seen).sum(axis=1).mean()),
        "accuracy": float((logs.argmax(axis=1) == numbers).mean()),
        "most_frequent": float(shares.max()),
    }


def describe_law(model: Any) -> dict[str, Any]:
    """Law, hyperparameters and compared kernels of a fitted model, as plain values."""
    process, choice = model.process_, model.choice_
    classes = getattr(model, "classes_", None)
    return {
        "likelihood": type(process.likelihood).__name__,
        "parameters": process.likelihood.parameters,
        "classes": None if classes is None else classes.tolist(),
        "inference": process.inference,
        "kernels": [
            {"name": each.name, "log_loss": each.log_loss, "is_chosen": each.is_chosen}
            for each in choice.kernels
        ],
        "explanation": model.explain().splitlines(),
        "forecast": model.forecast_,
        "random_state": model.random_state,
    }


def describe_latent(
    model: Any, n_train: int, n_columns: int, scored: dict[str, Any] | None, clock: Stopwatch
) -> dict[str, Any]:
    """Data, settings and results of a fit of classes or under a likelihood, as plain values."""
    evidence = float(model.log_marginal_likelihood_value_)
    return {
        **heading(),
        "data": {"n_train": n_train, "n_columns": n_columns},
        "columns": model.encoding_.describe(),
        "model": describe_law(model),
        "log_evidence": evidence,
        "log_evidence_per_row": evidence / n_train,
        "converged": bool(model.converged_),
        "n_evaluations": int(model.n_evaluations_),
        "scores": scored,
        "seconds": clock.seconds,
    }


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
