"""`coupledgp audit`: one page on predictions that any program made, or on a saved model."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd

import coupledgp as cgp
from coupledgp.cli import options as o
from coupledgp.cli import shared as s
from coupledgp.cli.fit import PAGE, typed
from coupledgp.cli.options import MODEL, File, Text, Texts, opt
from coupledgp.cli.predict import load, points_of
from coupledgp.cli.shared import CHANCE
from coupledgp.cli.tables import check_columns, is_text, numbers, read_table, texts, value_column
from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import wrong
from coupledgp.random import IntArray
from coupledgp.spectra import parse_spectrum

# Most test rows that are solved for.
SOLVED_ROWS = 128
# Training rows up to which the exact law is dense.
DENSE_ROWS = 5000


def audit(
    output: o.Output = None,
    train: Annotated[File, opt("Training rows with the target.")] = None,
    test: Annotated[File, opt("Test rows with the target.")] = None,
    target: o.Target = None,
    predictions: Annotated[File, opt("Law at the test rows. [default: in --test]")] = None,
    mean_column: Annotated[str, opt("Of the means. [default: mean]")] = "mean",
    std_column: Annotated[str, opt("Of the standard deviations. [default: std]")] = "std",
    samples: Annotated[bool, opt("The law is draws, 8 or more.", "--samples")] = False,
    quantiles: Annotated[bool, opt("It is quantiles, named by chances.", "--quantiles")] = False,
    id_column: Annotated[
        Text, opt("By which rows belong together. [default: order]", "--id")
    ] = None,
    drop: Annotated[Texts, opt("Column that is no input; may be repeated.")] = None,
    groups: Annotated[Text, opt("Without --test: rows of one value are left out together.")] = None,
    max_rows: Annotated[int | None, opt("Most test rows that are judged, at random.")] = None,
    overlap: Annotated[bool, opt("Leave out rows that were trained on.", "--no-overlap")] = False,
    seed: o.Seed = 0,
    model: Annotated[File, opt("Model to judge, or whose kernel is exact.", "--from-model")] = None,
    kernel: Annotated[Text, opt("Of the exact process to compare with.", panel=MODEL)] = None,
    lengthscale: Annotated[str, opt("One, or one an input with commas.", panel=MODEL)] = "",
    outputscale: Annotated[float | None, opt("Variance of the function.", panel=MODEL)] = None,
    noise: Annotated[float | None, opt("Variance of the noise.", panel=MODEL)] = None,
    mean: Annotated[
        float | None, opt("Of the process. [default: of the rows]", panel=MODEL)
    ] = None,
    latent: Annotated[bool, opt("The noise is left out of std; it is added.", "--latent")] = False,
    how: Annotated[str, opt("dense, stochastic or auto.", "--compare", panel=MODEL)] = "auto",
    as_json: o.AsJson = False,
    show: o.Show = None,
) -> None:
    """Say whether predictions of any program are good and their intervals honest, on one page.

    PREDICTIONS has mean and std, draws, quantiles or chance_LABEL, a row a test row. With --kernel
    and its hyperparameters, also how far they are from the exact process. With --from-model alone
    a model of this package is judged at --test, or by leaving out its training rows.

    Example: coupledgp audit --train a.csv --test b.csv -t y --predictions p.csv -o audit.html
    """
    inputs = {"--train": train, "--test": test, "--predictions": predictions, "--from-model": model}
    s.check_paths(inputs, {"--output": (output, PAGE)}, as_json)
    if how not in ("auto", "dense", "stochastic"):
        raise wrong("--compare", "auto, dense or stochastic", how)
    if samples and quantiles:
        raise InvalidInputError("--quantiles: expected no --samples beside it")
    numbers_of = {"outputscale": outputscale, "noise": noise, "mean": mean}
    stated = _stated(kernel, lengthscale, numbers_of, model, latent)
    frame = None if test is None else read_table(test)
    if model is not None and predictions is None and (frame is None or mean_column not in frame):
        report = _own(stated["kernel"], model, test, target, groups, max_rows, how, overlap, seed)
    elif test is None or frame is None:
        raise InvalidInputError("--test: expected a table of test rows with the target")
    else:
        path, source = (
            (test, frame) if predictions is None else (predictions, read_table(predictions))
        )
        with s.about(path):
            y_name = target or value_column(test, frame, [mean_column, std_column], None)
            check_columns(frame, [y_name], f"--target: {test}")
            law = _law_columns(
                source, path, frame, mean_column, std_column, samples, quantiles, id_column
            )
            left = {y_name, *(drop or ()), id_column, "extrapolation", "class"}
            left |= set(law) if predictions is None else set()
            y = _targets(frame, y_name, test, law)
            names, X, y_train = [name for name in frame.columns if name not in left], None, None
            if train is not None:
                rows = read_table(train)
                names = [name for name in rows.columns if name not in left]
                names = list(getattr(stated["kernel"], "feature_names_in_", names))
                check_columns(rows, [y_name, *names], train)
                check_columns(frame, names, test)
                X, y_train = (
                    typed(train, rows, names, {}),
                    _targets(rows, y_name, train, law).to_numpy(),
                )
            elif stated["kernel"] is not None or overlap:
                raise InvalidInputError(
                    "--train: expected the rows that the predictions are made from"
                )
            beside = frame.drop(columns=[name for name in (*names, y_name, *law) if name in frame])
            n_train = 0 if X is None else len(X)
            found = _law(source, path, frame, test, law, id_column, samples, quantiles, y)
            points = typed(test, frame, names, {}) if names else None
            if max_rows is not None and max_rows < len(y):
                rows = _some(len(y), max_rows, seed)
                found, y, beside = _at(found, rows), y.iloc[rows], beside.iloc[rows]
                points = None if points is None else points.iloc[rows]
            report = cgp.audit(
                found, X, y_train, points, y, latent=latent,
                exact=_exact(stated["kernel"], how, n_train, seed),
                columns=beside if beside.shape[1] and n_train and y.dtype != object else None,
                leave_out_overlap=overlap, title=f"Audit of {path.name}", random_state=seed,
                **stated,
            )  # fmt: skip
    with s.files(output) as (page,):
        if page is not None:
            report.to_html(page)
    lines = [] if output is None else [f"Written: {output}."]
    s.answer(
        s.heading(report=report.to_dict(), output=output),
        s.told(report, [], lines),
        as_json,
        output,
    )


def _targets(frame: pd.DataFrame, name: str, path: Path, law: list[str]) -> pd.Series:
    """Targets (n,): numbers, or texts of classes where the law is chances of them."""
    if law[0].startswith(CHANCE) and is_text(frame[name]):
        return pd.Series(texts(frame, name, path, "a class"), dtype=object, name=name)
    return pd.Series(numbers(frame, name, path), name=name)


def _stated(
    kernel: Text, lengthscale: str, given: dict[str, float | None], model: Path | None, latent: bool
) -> dict[str, Any]:
    """Arguments of `audit` that state the kernel: none, a name, or a fitted model."""
    used = [name for name, value in {"lengthscale": lengthscale or None, **given}.items()
            if value is not None]  # fmt: skip
    if kernel is not None and model is not None:
        raise InvalidInputError("--from-model: expected no --kernel beside it")
    if kernel is None:
        extra = [name for name in used if not (name == "noise" and latent and model is None)]
        if extra:
            raise InvalidInputError(f"--{', --'.join(extra)}: expected --kernel beside it")
        fitted = None if model is None else load(model, "--from-model")
        return {"kernel": fitted, "noise": given["noise"]}
    lacking = [name for name in ("lengthscale", "outputscale", "noise") if name not in used]
    if lacking:
        raise InvalidInputError(f"--kernel: expected --{', --'.join(lacking)} beside it")
    parse_spectrum(kernel, "--kernel")
    try:
        lengths = [float(part) for part in lengthscale.split(",")]
    except ValueError:
        text = f"--lengthscale: expected numbers with commas between, got {lengthscale!r}"
        raise InvalidInputError(text) from None
    return {**given, "kernel": kernel, "lengthscale": lengths}


def _exact(kernel: Any, how: str, n_train: int, seed: int) -> Any:
    """How the exact process is computed: by solves where they are asked for or rows are many."""
    if kernel is not None and how == "auto" and n_train > DENSE_ROWS:
        s.notice(f"{n_train} training rows: the exact law is solved for, which takes minutes")
        how = "stochastic"
    return s.exact_of(how, SOLVED_ROWS, seed)


def _some(n: int, most: int, seed: int) -> IntArray:
    """Numbers of at most so many of n rows, drawn at random."""
    return np.sort(np.random.default_rng(seed).choice(n, most, replace=False))


def _at(law: Any, rows: IntArray) -> Any:
    """A law as `_law` returns it, at some of its rows."""
    if isinstance(law, tuple):
        return tuple(part[rows] for part in law)
    if isinstance(law, dict) and "chances" in law:
        return {**law, "chances": law["chances"][rows]}
    return {key: part[rows] for key, part in law.items()} if isinstance(law, dict) else law[:, rows]


def _own(
    model: Any, path: Path, test: Path | None, target: Text, groups: Text, max_rows: int | None,
    how: str, overlap: bool, seed: int,
) -> Any:  # fmt: skip
    """The report on a model of this package, at test rows or by leaving out its own."""
    if test is None:
        keys: dict[str, Any] = {} if max_rows is None else {"max_rows": max_rows}
        with s.about(path, options={"groups": "--groups", "max_rows": "--max-rows"}):
            return cgp.cross_validate(model, groups=groups, random_state=seed, **keys)
    if groups is not None:
        raise InvalidInputError("--groups: expected no --test beside it: it groups training rows")
    frame, points = points_of(model, test, None, None)
    inputs = [*getattr(model, "feature_names_in_", ()), "node", "vertex", "face", "x", "y", "z"]
    named = [name for name in getattr(model, "target_names_", None) or () if name in frame]
    name = target or (named[0] if named else value_column(test, frame, inputs, None))
    check_columns(frame, [name], f"--target: {test}")
    y = _targets(frame, name, test, [CHANCE if hasattr(model, "classes_") else ""])
    if max_rows is not None and max_rows < len(y):
        rows = _some(len(y), max_rows, seed)
        points, y = points.iloc[rows] if hasattr(points, "iloc") else points[rows], y.iloc[rows]
    with s.about(test):
        found = s.judged(model, points, y, exact=s.exact_of(how), leave_out_overlap=overlap)
    if found is None:
        raise InvalidInputError(f"--test: {test}: expected rows that can be judged")
    return found


def _law_columns(
    source: Any,
    path: Path,
    test: Any,
    mean: str,
    std: str,
    samples: bool,
    quantiles: bool,
    own: Text,
) -> list[str]:
    """Columns that state the law."""
    names = list(source.columns)
    chances = [name for name in names if name.startswith(CHANCE)]
    if samples or quantiles:
        if source is test:
            option = "--samples" if samples else "--quantiles"
            raise InvalidInputError(f"{option}: expected --predictions beside it")
        found = [name for name in names if name != own]
        if unnamed := [name for name in found if not name or name.startswith("Unnamed:")]:
            place = names.index(unnamed[0]) + 1
            raise InvalidInputError(f"{path}: column {place} has no name (row numbers?)")
        return [one for one in found if one not in test or not source[one].equals(test[one])]
    if len(chances) > 1 and mean not in names:
        return chances
    check_columns(source, [mean, std], path)
    return [mean, std]


def _law(
    source: Any, path: Path, frame: Any, test: Path, names: list[str], own: Text, samples: bool,
    quantiles: bool, y: pd.Series,
) -> Any:  # fmt: skip
    """Means and deviations (p,), draws (n, p), quantiles by chance, or chances of classes."""
    values = np.column_stack([numbers(source, name, path) for name in names])
    if source is not frame:
        values = values[_order(source, path, frame, test, own)]
    if names[0].startswith(CHANCE):
        labels: list[Any] = [name.removeprefix(CHANCE) for name in names]
        if y.dtype != object:
            labels = [float({"False": "0", "True": "1"}.get(label, label)) for label in labels]
        return {"chances": values, "classes": labels}
    if quantiles:
        from coupledgp.diagnostics.laws.stated import chance_names

        chances = chance_names(dict.fromkeys(names))
        if not chances:
            text = f"--quantiles: {path}: expected columns named by chances, got {', '.join(names)}"
            raise InvalidInputError(text)
        return {chances[name]: column for name, column in zip(names, values.T, strict=True)}
    return np.ascontiguousarray(values.T) if samples else (values[:, 0], values[:, 1])


def _order(source: Any, path: Path, frame: Any, test: Path, own: Text) -> Any:
    """Numbers (p,) of the rows of a table of predictions, by the test rows."""
    if own is None:
        if len(source) != len(frame):
            raise InvalidInputError(
                f"{path}: expected {len(frame)} rows, those of {test}, got {len(source)}; --id "
                "names a column that both have"
            )
        for name in sorted({*source.columns} & {*frame.columns}):
            there, wanted = (list(map(str, one[name])) for one in (source, frame))
            if there != wanted and Counter(there) == Counter(wanted):
                raise InvalidInputError(
                    f"{path}: expected rows in the order of {test}, got {name!r} in another one; "
                    "--id names the column by which rows belong together"
                )
        return np.arange(len(frame))
    for one, where in ((frame, test), (source, path)):
        check_columns(one, [own], f"--id: {where}")
    place = pd.Series(np.arange(len(source)), source[own].map(str))
    if place.index.has_duplicates:
        again = place.index[place.index.duplicated()][0]
        raise InvalidInputError(f"--id: {path}: expected one row for each, got two of {again!r}")
    found = place.reindex(frame[own].map(str))
    if found.isna().any():
        lost = found.index[found.isna()][0]
        raise InvalidInputError(f"--id: {path}: expected a row for {lost!r}, got none")
    return found.to_numpy(np.int64)
