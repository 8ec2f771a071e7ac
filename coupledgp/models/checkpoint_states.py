"""Parts of a fit in passes as headers and arrays of a checkpoint, and back."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np

from coupledgp.columns.summaries import summary_from_state, summary_state
from coupledgp.features.sklearn import Columns
from coupledgp.gp.column_moments import ColumnMoments
from coupledgp.gp.protocol import Arrays, Data, Header
from coupledgp.gp.schema import Entries
from coupledgp.gp.state import data_arrays, data_from
from coupledgp.inference.search.ladder import Ladder, Rung
from coupledgp.inference.search.optimize import Hyperparameters, OptimizationResult
from coupledgp.inference.search.problem import EvidenceGradient, SpectralEvidence
from coupledgp.models.table_parts import TablePart


def part_state(part: TablePart) -> tuple[Header, Arrays]:
    """State of what a pass found of the columns."""
    names = part.columns.names
    header: Header = {
        "n_columns": part.columns.n_features,
        "names": None if names is None else list(names),
        "ndim": part.ndim,
        "is_plain": part.is_plain,
        "summaries": [summary_state(summary) for summary in part.summaries],
        "noise": part.noise,
    }
    arrays: Arrays = {}
    for name in ("inputs", "targets"):
        moments = getattr(part, name)
        if moments is not None:
            own, its = moments_state(moments)
            header[name] = own
            arrays |= {f"{name}.{key}": value for key, value in its.items()}
    return header, arrays


def part_from(entries: Entries) -> TablePart:
    """What a pass found of the columns, from its state."""
    header, names = entries.header, entries.header["names"]
    columns = Columns(header["n_columns"], None if names is None else np.array(names, dtype=object))
    inputs, targets = (
        moments_from(header[name], _within(entries.arrays, name)) if name in header else None
        for name in ("inputs", "targets")
    )
    summaries = tuple(summary_from_state(state) for state in header["summaries"])
    return TablePart(
        columns, header["ndim"], header["is_plain"], summaries, inputs, targets, header["noise"]
    )


def moments_state(moments: ColumnMoments) -> tuple[Header, Arrays]:
    """State of moments; each long number is the sum of two of float64."""
    arrays: Arrays = {"low": moments.low, "high": moments.high}
    for name in ("long_mean", "long_variance"):
        value = getattr(moments, name)
        arrays[name] = value.astype(np.float64)
        arrays[f"{name}_rest"] = (value - arrays[name]).astype(np.float64)
    return {"n_rows": moments.n_rows, "n_counted": moments.n_counted}, arrays


def moments_from(header: Header, arrays: Arrays) -> ColumnMoments:
    """Moments from their state."""
    found = {name: value.numpy() for name, value in arrays.items()}
    mean, variance = (
        found[name].astype(np.longdouble) + found[f"{name}_rest"]
        for name in ("long_mean", "long_variance")
    )
    return ColumnMoments(
        header["n_rows"], header["n_counted"], mean, variance, found["low"], found["high"]
    )


def _within(arrays: Arrays, name: str) -> Arrays:
    """Arrays whose names begin with a name and a dot, without it."""
    start = f"{name}."
    return {key.removeprefix(start): v for key, v in arrays.items() if key.startswith(start)}


def rows_state(data: Data) -> tuple[Header, Arrays]:
    """State of some rows."""
    level = None if data.weights is None else data.weights.level
    return {"level": level}, data_arrays(data)


def rows_from(entries: Entries) -> Data:
    """Rows from their state."""
    data = data_from(entries)
    if data.weights is None:
        return data
    return Data.of(
        data.points,
        data.targets,
        weights=replace(data.weights, level=entries.header["level"]),
    )


def search_state(found: OptimizationResult) -> tuple[Header, Arrays]:
    """State of the result of a search."""
    values = asdict(found)
    hyperparameters = values.pop("hyperparameters")
    arrays = {"lengthscale": hyperparameters.pop("lengthscale")}
    return {"search": values, "variances": hyperparameters}, arrays


def search_from(entries: Entries) -> OptimizationResult:
    """Result of a search from its state."""
    values = dict(entries.header["search"])
    ladder = dict(values.pop("ladder"))
    rungs = tuple(Rung(**rung) for rung in ladder.pop("rungs"))
    lengthscale = entries.arrays["lengthscale"].numpy()
    return OptimizationResult(
        hyperparameters=Hyperparameters(lengthscale, **entries.header["variances"]),
        ladder=Ladder(**ladder, rungs=rungs),
        **values,
    )


def answer_state(answer: Any) -> Any:
    """Values of JSON of an evaluation of the evidence: a number or a record of numbers."""
    if isinstance(answer, float):
        return answer
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in asdict(answer).items()
    }


def answer_from(state: Any) -> Any:
    """The evaluation of which `state` was made."""
    if isinstance(state, float):
        return state
    values: dict[str, Any] = {
        k: np.array(v) if isinstance(v, list) else v for k, v in state.items()
    }
    return (SpectralEvidence if "eigenvalues" in values else EvidenceGradient)(**values)
