"""`coupledgp fit`: from a table to a model, its scores and its distance from the exact one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

import coupledgp as cgp
from coupledgp.cli import options as o
from coupledgp.cli import shared as s
from coupledgp.cli.options import MODEL, OUTPUT, File, Text, Texts, opt
from coupledgp.cli.tables import check_columns, dates, is_text, numbers, read_table, texts
from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import wrong
from coupledgp.tables.arrow import BOOLEAN, CATEGORY, DATE, NUMBER

HELD_OUT = 0.2
MODELS = "auto, exact, additive, trees, local, hybrid, features, lattice, or sparse-spectrum"
FEATURES = {"features": "sparse-spectrum"}
HOW, DEFAULT = "Beside the exact model: dense, stochastic, none", "dense up to 5000 rows, else none"
# Training rows up to which the exact model is dense.
DENSE_ROWS = 5000
OWN = ("model", "kernel", "likelihood", "budget", "device", "random_state", "progress", "missing")
PAGE = (".html", ".htm")


def fit(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="CSV, Parquet, JSON, Excel, or -.")],
    target: Annotated[str, opt("Column to predict.", "--target", "-t")],
    test: Annotated[File, opt("Table of test rows.")] = None,
    holdout: o.Holdout = None,
    drop: Annotated[Texts, opt("Column that is no input; may be repeated.")] = None,
    categorical: Annotated[Texts, opt("Column to read as categories.")] = None,
    numeric: Annotated[Texts, opt("Column to read as numbers.")] = None,
    date: Annotated[Texts, opt("Column to read as dates in ISO 8601.")] = None,
    weight_column: Annotated[Text, opt("Weights of the rows; no input.")] = None,
    noise_column: Annotated[Text, opt("Known noise variances; no input.")] = None,
    exposure: Annotated[Text, opt("Exposures of counts; no input.")] = None,
    seed: o.Seed = 0,
    model: Annotated[str, opt(f"{MODELS}. [default: auto]", panel=MODEL)] = "auto",
    kernel: o.Kernel = None,
    likelihood: o.Likelihood = None,
    budget: Annotated[str, opt("Most time of a core: 90s. [default: 600s]", panel=MODEL)] = "600s",
    device: Annotated[str, opt("cpu, cuda, cuda:1 or auto. [default: cpu]", panel=MODEL)] = "cpu",
    further: o.Further = None,
    how: Annotated[str, opt(f"{HOW}. [default: {DEFAULT}]", "--compare", panel=OUTPUT)] = "auto",
    output: o.Output = None,
    include_data: Annotated[bool, opt("Save the rows.", "--include-data", panel=OUTPUT)] = False,
    report: o.Page = None,
    as_json: o.AsJson = False,
    show: o.Show = None,
) -> None:
    """Fit a Gaussian process to a table, score it, and compare it with the exact one.

    Every column but the target is an input: numbers, text as categories, yes/no, ISO dates; empty
    cells are missing. Without --test a fifth of the rows is held out. A target of text is classes.

    Example: coupledgp fit houses.csv -t price -o price.model --report price.html
    """
    outputs: dict[str, Any] = {"--output": (output, ()), "--report": (report, PAGE)}
    s.check_paths({"DATA": data, "--test": test}, outputs, as_json)
    if test is not None and holdout is not None:
        raise InvalidInputError("--test, --holdout: expected at most one of them")
    share = HELD_OUT if holdout is None and test is None else holdout or 0.0
    s.check_share(share)
    if how not in ("auto", "dense", "stochastic", "none"):
        raise wrong("--compare", "auto, dense, stochastic or none", how)
    if how == "none" and report is not None:
        raise InvalidInputError(
            "--report: expected another --compare than none, it compares models"
        )
    kind: Any = cgp.SparseSpectrumGPRegressor if model == "sparse-spectrum" else cgp.GPRegressor
    own: dict[str, Any] = {"random_state": seed, "missing": "indicator"}
    own |= {} if kernel is None else {"kernel": kernel}
    of_kind = {"device": device, **s.parameters_of(kind, further, OWN)}
    if kind is cgp.GPRegressor:
        of_kind |= {"model": FEATURES.get(model, model), "budget": budget}
        if likelihood not in (None, "gaussian"):
            of_kind |= {"likelihood": likelihood, "device": None}
    elif likelihood is not None:
        raise InvalidInputError("--likelihood: expected none beside --model sparse-spectrum")
    estimator = s.checked(kind, s.options_of(kind, OWN), **own, **of_kind)
    given = {"sample_weight": weight_column, "sample_noise": noise_column, "exposure": exposure}
    weights = {key: name for key, name in given.items() if name is not None}
    kinds = _kinds({CATEGORY: categorical, NUMBER: numeric, DATE: date})
    left = [*(drop or ()), *weights.values()]
    frame = read_inputs(data, kinds)
    check_columns(frame, [target, *left, *kinds], data)
    inputs = [name for name in frame.columns if name not in (target, *left)]
    if len(frame) < 2 or not inputs:
        text = f"{len(frame)} rows and {len(inputs)} inputs beside {target!r}"
        raise InvalidInputError(f"{data}: expected two rows and an input or more, got {text}")
    if labelled := likelihood is None and _is_classes(frame[target]):
        if weights:
            raise InvalidInputError(f"{', '.join(weights)}: expected no such column for classes")
        kind = cgp.GPClassifier
        of_kind = {"budget": budget, **s.parameters_of(kind, further, OWN)}
        estimator = s.checked(kind, s.options_of(kind, OWN), **own, **of_kind)
    X, y, further_data = _rows(data, frame, inputs, kinds, target, labelled, weights)
    order = np.random.default_rng(seed).permutation(len(frame))
    kept, held = np.sort(order[(cut := _count(share, len(y))) :]), np.sort(order[:cut])
    X_test, y_test, beside = X.iloc[held], y.iloc[held], frame.iloc[held][left]
    exposed = {k: v[held] for k, v in further_data.items() if k == "exposure"}
    X, y, further_data = X.iloc[kept], y.iloc[kept], {k: v[kept] for k, v in further_data.items()}
    if test is not None:
        other, of_test = read_inputs(test, kinds), {k: weights[k] for k in exposed}
        check_columns(other, [target, *inputs, *of_test.values()], f"--test: {test}")
        X_test, y_test, exposed = _rows(test, other, inputs, kinds, target, labelled, of_test)
        beside = other[[name for name in left if name in other]]
    if report is not None and not len(y_test):
        raise InvalidInputError("--report: expected test rows, got --holdout 0")
    judged, wanted = None, how != "auto" or report is not None or len(y) <= DENSE_ROWS
    with (
        s.files(output, report, format="model") as paths,
        s.about(data, options=s.options_of(kind, OWN)),
    ):
        estimator.fit(X, y, **further_data)
        if len(y_test) and how != "none" and wanted:
            judged = cgp.report(
                estimator, X_test, y_test, exact=s.exact_of(how),
                columns=beside if beside.shape[1] else None, **exposed,
            )  # fmt: skip
        if paths[0] is not None:
            estimator.save(paths[0], include_data=include_data)
        if paths[1] is not None and judged is not None:
            judged.to_html(paths[1])
    away = f" ({100 * share:.3g} % held out)" if test is None and share else ""
    head = (f"{data.name}: target {target!r}, {len(inputs)} columns, {len(y)} training rows, "
            f"{len(y_test)} test rows{away}")  # fmt: skip
    scores = _scores(estimator, X_test, y_test, exposed)
    result = s.heading(
        data={"path": data, "target": target, "inputs": inputs, "n_train": len(y),
              "n_test": len(y_test)},
        model=s.described(estimator),
        columns=estimator.encoding_.describe() if hasattr(estimator, "encoding_") else {},
        log_evidence=float(estimator.log_marginal_likelihood_value_), scores=scores,
        selection=getattr(getattr(estimator, "selection_", None), "to_dict", dict)(),
        report=None if judged is None else judged.to_dict(),
        output={"model": output, "report": report},
    )  # fmt: skip
    said = ", ".join(f"{name} {value:.4g}" for name, value in scores.items())
    lines = [head, estimator.explain(), *([f"Test rows: {said}."] if said else [])]
    written = [f"Written: {path}." for path in (output, report) if path is not None]
    s.answer(result, s.told(judged, lines, written), as_json, output)


def _count(share: float, n: int) -> int:
    """Number of rows that are held out of n, of which one stays."""
    return min(round(share * n), n - 1)


def _scores(model: Any, X: Any, y: Any, exposed: dict[str, Any]) -> dict[str, float]:
    """Scores at test rows, by the model's own law."""
    if not len(y):
        return {}
    if hasattr(model, "classes_"):
        logs = model.predict_log_proba(X)
        places = np.searchsorted(model.classes_, y)
        loss = -float(logs[np.arange(len(y)), places].mean())
        return {"log loss": loss, "accuracy": float((logs.argmax(axis=1) == places).mean())}
    values = np.asarray(y, dtype=np.float64)
    error = values - model.predict(X, **exposed)
    found = {"RMSE": float(np.sqrt(np.mean(error**2)))}
    if np.ptp(values) > 0:
        found["R2"] = 1 - float(np.mean(error**2) / np.var(values))
    lower, upper = model.predict_interval(X, 0.95, **exposed)
    return found | {
        "NLPD": -float(np.mean(model.log_density(X, values, **exposed))),
        "coverage of 95 % intervals": float(np.mean((values >= lower) & (values <= upper))),
    }


def _kinds(given: dict[str, Sequence[str] | None]) -> dict[str, str]:
    """Kinds of columns by name, as the options ask for them."""
    kinds: dict[str, str] = {}
    for kind, names in given.items():
        for name in names or ():
            if kinds.setdefault(name, kind) != kind:
                raise InvalidInputError(
                    "--categorical, --numeric, --date: expected one kind a column, got "
                    f"{kinds[name]} and {kind} for {name!r}"
                )
    return kinds


def read_inputs(path: Path, kinds: dict[str, str]) -> pd.DataFrame:
    """A table whose categories and dates are given by name, and not guessed."""
    return read_table(path, [name for name, kind in kinds.items() if kind in (CATEGORY, DATE)])


def typed(
    path: Path, frame: pd.DataFrame, names: Sequence[str], kinds: dict[str, str]
) -> pd.DataFrame:
    """Some columns of the kinds that are given, and others as they are."""
    columns = {}
    for name in names:
        kind, column = kinds.get(name), frame[name]
        plain = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
        if kind == NUMBER or (kind is None and plain):
            columns[name] = numbers(frame, name, f"{path}", missing=True)
        elif kind == CATEGORY:
            columns[name] = column.astype(object).where(column.isna(), column.map(str))
        elif kind == DATE:
            there = frame[[name]].dropna()
            columns[name] = pd.Series(dates(there, name, path, "ISO8601", "--drop leaves it out"),
                                      there.index).reindex(frame.index)  # fmt: skip
        elif kind == BOOLEAN and is_text(column) and column.dropna().map(type).ne(bool).any():
            bad = int(np.flatnonzero(column.notna() & column.map(type).ne(bool))[0])
            raise InvalidInputError(
                f"{path}: column {name!r}, data row {bad + 1}: expected true or false, or yes or "
                f"no, got {column.iloc[bad]!r:.60}"
            )
        else:
            columns[name] = column
    return pd.DataFrame(columns, index=frame.index)


def _is_classes(column: pd.Series) -> bool:
    """Whether targets are names of classes: texts, none a number, and many of them equal."""
    there = column.dropna()
    if isinstance(column.dtype, pd.CategoricalDtype):
        return not pd.api.types.is_numeric_dtype(column.cat.categories)
    if not is_text(column) or not len(there) or not all(isinstance(one, str) for one in there):
        return False
    is_number = pd.to_numeric(there, errors="coerce").notna().any()
    return not is_number and (len(there) < 20 or 2 * there.nunique() <= len(there))


def _rows(
    path: Path, frame: pd.DataFrame, inputs: Sequence[str], kinds: dict[str, str], target: str,
    labelled: bool, weights: dict[str, str],
) -> tuple[Any, Any, dict[str, Any]]:  # fmt: skip
    """Inputs, targets and weights of all rows of a file."""
    X = typed(path, frame, inputs, kinds)
    values = texts(frame, target, path, "a class") if labelled else numbers(frame, target, path)
    y = pd.Series(values, frame.index, name=target)
    return X, y, {key: numbers(frame, name, path) for key, name in weights.items()}
