"""Rows of a table for `coupledgp fit`, and its results as plain values.

The estimator that `coupledgp fit` makes of its options, and how it is described.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from coupledgp.cli.commands.interpolate_options import AuditOptions
from coupledgp.cli.commands.latent_tasks import is_gaussian
from coupledgp.cli.commands.table_options import FitOptions
from coupledgp.cli.readers.kinds import HINT, columns_beside, read_inputs, typed
from coupledgp.cli.readers.tables import check_columns, is_number, numeric
from coupledgp.cli.shared.declare import parameters_of, refuse
from coupledgp.cli.shared.domain import heading
from coupledgp.cli.shared.evaluate import ExactComparison, Rows, Stopwatch, split
from coupledgp.cli.shared.options import number_or_auto, selection_of
from coupledgp.columns.arrow import is_text, kind_of
from coupledgp.errors import InvalidInputError
from coupledgp.gp.columns import column_moments
from coupledgp.ground.progress import reporter
from coupledgp.ground.validation import check_choice
from coupledgp.kernels.expressions import parse_kernel
from coupledgp.models import GPRegressor, SparseSpectrumGPRegressor
from coupledgp.random import FloatArray
from coupledgp.spectra import Spectrum

CHOICES = (
    "auto", "exact", "additive", "trees", "transformed", "local", "hybrid", "features",
    "sparse-spectrum", "lattice",
)  # fmt: skip
# Names of models of the command line that are called otherwise in Python.
NAMES = {"features": "sparse-spectrum"}
# Options that only the sparse-spectrum model has.
SPARSE = (
    "kernel", "features", "n_frequencies", "coupling", "kl_target", "frequencies",
    "ard", "dtype", "max_iter", "n_restarts",
)  # fmt: skip
MODEL_PARAMETERS = (
    "kernel", "features", "n_frequencies", "coupling", "frequencies", "ard", "dtype",
    "random_state",
)  # fmt: skip
Model = SparseSpectrumGPRegressor | GPRegressor


def chosen_name(options: FitOptions) -> str:
    """Name of the model: the given one, else sparse-spectrum if it alone has an option in use.

    Raises
    ------
    InvalidInputError
        The model is unknown or does not have an option that was given.
    """
    if _is_expression(options):
        others = tuple(name for name in SPARSE if name != "kernel")
        refuse(options, others, "expected a plain --kernel beside it")
        if options.model not in (None, "auto", "exact"):
            refuse(options, ("kernel",), f"expected a plain one beside --model {options.model}")
        return "auto"
    if not is_gaussian(options.likelihood):
        if options.model not in (None, "auto"):
            refuse(options, ("model",), f"expected auto beside --likelihood {options.likelihood}")
        refuse(options, SPARSE, f"expected none beside --likelihood {options.likelihood}")
        return "auto"
    if options.model is None:
        return "sparse-spectrum" if options.given & set(SPARSE) else "auto"
    check_choice(options.model, CHOICES, "--model")
    if options.model != "sparse-spectrum":
        why = f"expected --model sparse-spectrum beside it, got {options.model}"
        refuse(options, SPARSE, why)
    return options.model


def _is_expression(options: FitOptions) -> bool:
    """Whether the kernel is an expression, which sparse-spectrum models do not take."""
    return not isinstance(parse_kernel(options.kernel, name="--kernel"), Spectrum)


def make_model(name: str, options: FitOptions) -> Model:
    """The unfitted estimator of a name, from the options of the command."""
    kind: type[Model] = GPRegressor if name != "sparse-spectrum" else SparseSpectrumGPRegressor
    shared = {
        "random_state": options.seed,
        "missing": "indicator",
        "device": options.device,
        **parameters_of(kind, options),
    }
    if name != "sparse-spectrum":
        if not is_gaussian(options.likelihood):
            shared |= {"likelihood": options.likelihood, "device": None}
        kernel = options.kernel if _is_expression(options) else None
        return GPRegressor(NAMES.get(name, name), options.seconds, kernel=kernel, **shared)
    sparse = {key: getattr(options, key) for key in SPARSE}
    sparse["n_frequencies"] = number_or_auto(options.n_frequencies, "--n-frequencies")
    return SparseSpectrumGPRegressor(**sparse, **shared)


def describe_model(model: Model) -> dict[str, Any]:
    """Settings of a fitted model, and the reasons for a choice, as plain values."""
    transform = {"target_transform": model.process_.summary().get("target_transform")}
    if isinstance(model, GPRegressor):
        choice = model.choice_
        members = [
            {"name": m.name, "weight": m.weight, "log_density": m.log_density}
            for m in choice.members
        ]
        settings = {"name": model.model, "budget": model.budget, "random_state": model.random_state}
        scored = {"n_scored": choice.n_scored, "scored_by": choice.scored_by}
        return {**settings, **transform, **scored, "members": members, "forecast": model.forecast_}
    return {
        "name": "sparse-spectrum",
        **{name: getattr(model, name) for name in MODEL_PARAMETERS},
        "n_frequencies": model.n_frequencies_,
        "coupling": str(model.features_.coupling),
        "drawn": model.drawn_.to_dict(),
        **transform,
    }


def describe_search(model: Model) -> dict[str, Any]:
    """End of the search for hyperparameters, and the choice that `"auto"` made."""
    converged = None if isinstance(model, GPRegressor) else bool(model.converged_)
    return {
        "selection": selection_of(model),
        "converged": converged,
        "n_evaluations": int(model.n_evaluations_),
    }


# Rows from which texts are no classes where more than half of them differ.
FEWEST_TEXTS = 10


def load(
    options: FitOptions | AuditOptions, data: Path, share: float, drop: list[str],
    forced: Mapping[str, str] | None = None, weights: Mapping[str, str | None] | None = None,
    labels: bool = False,
) -> tuple[Rows, Rows]:  # fmt: skip
    """Read training and test rows, the latter from a file of their own or as a random share.

    Columns have the kinds of `forced` by name, or those of their values in the training file.
    `weights` are the columns that hold arguments of a fit: `sample_weight`, `sample_noise` and
    `exposure`. The target may be labels of classes, see `labels_or_numbers`. Columns of `drop`,
    and those that the training file lacks, are beside the rows.
    """
    forced, target, test = forced or {}, options.target, options.test
    given = {key: name for key, name in (weights or {}).items() if name is not None}
    if target in given.values():
        raise InvalidInputError(
            "--weight-column, --noise-column, --exposure: expected columns besides the target, got "
            f"{target!r}"
        )
    with reporter("read"):
        table = read_inputs(data, forced)
        check_columns(table, [target], f"--target: {data}")
        check_columns(table, forced, f"--categorical, --numeric, --date: {data}")
        check_columns(table, drop, f"--drop: {data}")
        check_columns(table, given.values(), f"--weight-column, --noise-column, --exposure: {data}")
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
        read = labels_or_numbers if labels else _numbers
        rows = _rows(table, names, target, str(data), forced, read)
        rows = replace(
            rows, weights={k: _numbers(table, v, str(data)) for k, v in given.items()},
            beside=columns_beside(table, drop),
        )  # fmt: skip
        if test is None:
            return split(rows, share, options.seed)
        kinds = {name: kind_of(rows.X.column(name), name) for name in names}
        other = read_inputs(test, kinds)
        exposed = [name for argument, name in given.items() if argument == "exposure"]
        check_columns(other, [*names, target, *exposed], str(test))
        unseen = [name for name in other.column_names if name not in {*names, target}]
        more = _rows(other, names, target, str(test), kinds, read)
        more = replace(more, beside=columns_beside(other, unseen))
        if rows.is_labelled != more.is_labelled:
            raise InvalidInputError(f"{test}: expected a column {target!r} of the kind of {data}")
        if exposed:
            more = replace(more, weights={"exposure": _numbers(other, exposed[0], str(test))})
        return rows, more


def describe_fit(
    model: Model,
    n_train: int,
    n_columns: int,
    spread: list[float],
    scored: dict[str, Any] | None,
    comparison: ExactComparison | None,
    clock: Stopwatch,
) -> dict[str, Any]:
    """Return data, settings and results of the fit as plain values, the content of `--json`.

    They need the numbers of rows and columns, and the spreads (q,) of the parts of X.
    """
    names = model.lengthscale_names_
    lengthscales = np.broadcast_to(model.lengthscale_, len(names)).tolist()
    evidence = float(model.log_marginal_likelihood_value_)
    return {
        **heading(),
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


def spread_of(model: Model, points: FloatArray) -> list[float]:
    """Standard deviations (q,) of the parts of inputs, of encoded rows (n, D)."""
    _, variances = column_moments(points)
    spread: list[float] = np.sqrt(np.bincount(model.encoding_.groups, weights=variances)).tolist()
    return spread


def _rows(
    table: pa.Table,
    names: list[str],
    target: str,
    source: str,
    kinds: Mapping[str, str],
    read: Callable[[pa.Table, str, str], Any],
) -> Rows:
    inputs = typed(table, names, kinds, source, missing=True, hint=HINT)
    return Rows(inputs, read(table, target, source))


def labels_or_numbers(table: pa.Table, name: str, source: str) -> Any:
    """Values (n,) of a column: texts where it has texts none of which is a number, else numbers.

    Texts of which most occur once, as `12.50 EUR`, are no names of classes.

    Raises
    ------
    InvalidInputError
        A value is missing, or some values are numbers and others are not.
    """
    column = table.column(name)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    texts = column.to_pylist() if is_text(column.type) else []
    if len(texts) >= FEWEST_TEXTS and 2 * len(set(texts)) > len(texts):
        texts = []
    if not texts or any(text is not None and is_number(text) for text in texts):
        return _numbers(table, name, source)
    if None in texts:
        raise InvalidInputError(
            f"{source}: column {name!r}, data row {texts.index(None) + 1}: expected a class, got "
            "a missing value"
        )
    return np.array(texts)


def _numbers(table: pa.Table, name: str, source: str) -> FloatArray:
    values: FloatArray = numeric(table, [name], source).column(0).to_numpy()
    return values
