"""Parts of a fit in passes as headers and arrays of a checkpoint, and back."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np

from coupledgp.columns.summaries import summary_from_state, summary_state
from coupledgp.errors import ModelFileError
from coupledgp.features.sklearn import Columns
from coupledgp.gp.protocol import Arrays, Data, Header
from coupledgp.gp.schema import Entries, check_number, plain_record, require_type
from coupledgp.gp.state import (
    data_arrays,
    data_from,
    moments_from,
    moments_state,
    positive_scale,
)
from coupledgp.inference.evidence.problem import EvidenceGradient, Hyperparameters, SpectralEvidence
from coupledgp.models.table_parts import TablePart
from coupledgp.random import FloatArray
from coupledgp.search.ladder import Ladder, Rung
from coupledgp.search.optimize import OptimizationResult


def part_state(part: TablePart) -> tuple[Header, Arrays]:
    """Header and arrays of the summary of a part of a table."""
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
    """The summary of a part of a table, from its header and arrays."""
    count, names = entries.integer("n_columns", low=1, high=2**31), entries.value("names")
    listed = require_type(entries.value("summaries"), list, "summaries")
    if len(listed) != count or (names is not None and len(names) != count):
        raise ModelFileError(f"names, summaries: expected {count}, got others")
    if names is not None:
        for name in require_type(names, list, "names"):
            require_type(name, str, "names")
    inputs, targets = (
        moments_from(Entries(entries.value(name), _within(entries.arrays, name)), width)
        if name in entries.header
        else None
        for name, width in (("inputs", count), ("targets", None))
    )
    noise = entries.value("noise")
    return TablePart(
        Columns(count, None if names is None else np.array(names, dtype=object)),
        entries.integer("ndim", low=1, high=2),
        entries.flag("is_plain"),
        tuple(summary_from_state(require_type(state, dict, "summaries")) for state in listed),
        inputs,
        targets,
        None if noise is None else float(entries.number("noise", low=0.0)),
    )


def _within(arrays: Arrays, name: str) -> Arrays:
    """Arrays whose names begin with a name and a dot, without it."""
    start = f"{name}."
    return {key.removeprefix(start): v for key, v in arrays.items() if key.startswith(start)}


def rows_state(data: Data) -> tuple[Header, Arrays]:
    """Header and arrays of observations and their row weights."""
    level = None if data.weights is None else data.weights.level
    return {"level": level}, data_arrays(data)


def rows_from(entries: Entries, **sizes: int) -> Data:
    """Rows of known sizes n, d and k from their state."""
    entries.sizes |= sizes
    data, level = data_from(entries), entries.value("level")
    if level is not None:
        level = positive_scale(entries, "level")
    if data.weights is None:
        return data
    return Data.of(data.points, data.targets, weights=replace(data.weights, level=level))


def search_state(found: OptimizationResult) -> tuple[Header, Arrays]:
    """Header and arrays of the result of a search."""
    values = asdict(found)
    hyperparameters = values.pop("hyperparameters")
    arrays = {"lengthscale": hyperparameters.pop("lengthscale")}
    return {"search": values, "variances": hyperparameters}, arrays


def search_from(entries: Entries, width: int) -> OptimizationResult:
    """Result of a search over so many columns from its state."""
    lengthscale = entries.scales("lengthscale", width)
    for name in ("outputscale", "noise"):
        positive_scale(entries, "variances", name)
    best = plain_record(
        Hyperparameters, entries.value("variances"), "variances", lengthscale=lengthscale
    )
    stored = {**require_type(entries.value("search"), dict, "search")}
    ladder = {**require_type(stored.pop("ladder", None), dict, "search.ladder")}
    listed = require_type(ladder.pop("rungs", None), list, "search.ladder.rungs")
    rungs = tuple(plain_record(Rung, rung, "search.ladder.rungs") for rung in listed)
    found: OptimizationResult = plain_record(
        OptimizationResult, stored, "search", hyperparameters=best,
        ladder=plain_record(Ladder, ladder, "search.ladder", rungs=rungs),
    )  # fmt: skip
    return found


def answer_state(answer: Any) -> Any:
    """Values of JSON of an evaluation of the evidence: a number or a record of numbers."""
    if isinstance(answer, float):
        return answer
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in asdict(answer).items()
    }


def stored_answers(entries: Entries) -> dict[str, Any]:
    """Evaluations of the evidence by their keys, from their states."""
    states = require_type(entries.value("answers"), dict, "answers")
    return {key: _answer_from(state) for key, state in states.items()}


def _answer_from(state: Any) -> Any:
    """The evaluation of the evidence of which `state` was made."""
    if not isinstance(state, dict):
        return float(check_number(state, "answers"))
    arrays = {name: _numbers(value) for name, value in state.items() if isinstance(value, list)}
    rest = {name: value for name, value in state.items() if name not in arrays}
    if "eigenvalues" not in state:
        return plain_record(EvidenceGradient, rest, "answers", **arrays)
    found = plain_record(SpectralEvidence, rest, "answers", **arrays)
    lengths = {value.size for value in arrays.values()}
    least = min(found.remainder, found.n_rows - 1, *(v.min(initial=0.0) for v in arrays.values()))
    if len(lengths) > 1 or least < 0 or found.n_outputs < 1:
        raise ModelFileError("answers: expected spectra of evidence, got other numbers")
    return found


def _numbers(values: list[Any]) -> FloatArray:
    return np.array([check_number(value, "answers") for value in values], dtype=np.float64)
