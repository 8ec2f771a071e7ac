"""Parts of a table too large for memory: summaries, rows, and their form in a checkpoint."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import _num_samples

from coupledgp.batches import TableBatch
from coupledgp.columns import TableEncoding
from coupledgp.columns.arrow import NUMBER, table_values
from coupledgp.columns.encoding import merged_summaries
from coupledgp.columns.globe import GeographicLike, geographic_columns
from coupledgp.columns.summaries import (
    ColumnSummary,
    NumberSummary,
    summary_from_state,
    summary_state,
)
from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.features.sklearn import Columns
from coupledgp.gp.column_moments import ColumnMoments
from coupledgp.gp.protocol import Arrays, Data, Header
from coupledgp.gp.schema import Entries, check_number, plain_record, require_type
from coupledgp.gp.state import data_arrays, data_from, moments_from, moments_state, positive_scale
from coupledgp.gp.table_passes import MomentsPass, TableSummary
from coupledgp.ground.validation import check_spread
from coupledgp.inference.evidence.problem import EvidenceGradient, Hyperparameters, SpectralEvidence
from coupledgp.models.rows import RowArguments
from coupledgp.models.table_rows import (
    carrier_of,
    further_rows_with_targets,
    part_rows,
    plain_targets,
)
from coupledgp.random import FloatArray
from coupledgp.search.ladder import Ladder, Rung
from coupledgp.search.optimize import OptimizationResult

NO_WEIGHT = "sample_weight: expected a weight that is not zero, all are zero"


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


@dataclass(frozen=True, eq=False)
class TablePart:
    """Summary of some rows of a table, before its encoding is known.

    Attributes
    ----------
    columns : Columns
        Columns, without an encoding.
    ndim : int
        Number of dimensions of y.
    is_plain : bool
        Whether all columns are plain numbers and Booleans.
    summaries : tuple of ColumnSummary
        Summary of each column.
    inputs, targets : ColumnMoments or None
        Moments of plain inputs without missing values, and of targets; None without rows of weight
        above zero.
    noise : float or None
        Sum of the known noise variances of the rows, where they are given.
    """

    columns: Columns
    ndim: int
    is_plain: bool
    summaries: tuple[ColumnSummary, ...]
    inputs: ColumnMoments | None
    targets: ColumnMoments | None
    noise: float | None

    @classmethod
    def of(cls, estimator: Any, batch: TableBatch, missing: str) -> TablePart:
        """Summary of a batch of at least one row; errors are as of `learn_rows`."""
        rows, targets, columns, summaries = part_rows(estimator, batch.X, batch.y, missing)
        is_plain, has_moments = rows is not None, missing == "raise" and rows is not None
        known = rows if rows is not None and has_moments else np.zeros((len(targets), 1))
        data = _data(known, targets, batch, None)
        noise = None
        if batch.sample_noise is not None:
            noise = float(np.asarray(batch.sample_noise, dtype=np.float64).sum())
        return cls(
            columns,
            targets.ndim,
            is_plain,
            tuple(summaries),
            None if data is None or not has_moments else _moments(data.points, data),
            None if data is None else _moments(data.targets, data),
            noise,
        )

    def merge(self, other: TablePart) -> TablePart:
        """Summary of the rows of both parts, the rows of this part first.

        Raises
        ------
        InvalidInputError
            The columns or their kinds, the outputs, or the known noise variances differ.
        """
        _check_alike(self, other)
        return TablePart(
            self.columns,
            self.ndim,
            self.is_plain and other.is_plain,
            tuple(merged_summaries(self.summaries, other.summaries, self.columns.names)),
            MomentsPass.merge(self.inputs, other.inputs),
            MomentsPass.merge(self.targets, other.targets),
            None if self.noise is None or other.noise is None else self.noise + other.noise,
        )

    def encoded_columns(self, missing: str, geographic: GeographicLike = None) -> Columns:
        """Columns of the table with the encoding that the summaries of all parts teach."""

        def ends(column: int) -> FloatArray | None:
            own = self.summaries[column]
            if not isinstance(own, NumberSummary) or own.kind != NUMBER or not own.known.count:
                return None
            return own.known.ends

        names = self.columns.names
        places = geographic_columns(geographic, names, len(self.summaries), ends)
        if self.is_plain and missing == "raise" and places is None:
            return self.columns
        summaries = self.summaries
        if self.is_plain:
            summaries = tuple(s.as_plain if isinstance(s, NumberSummary) else s for s in summaries)
        encoding = TableEncoding.of(summaries, self.columns.names, missing)
        return replace(self.columns, encoding=encoding.with_places(geographic, ends))

    @property
    def level(self) -> float | None:
        """Mean of the known noise variances, where they are known."""
        if self.noise is None or self.targets is None:
            return None
        return self.noise / self.targets.n_rows

    def summary(self, columns: Columns, inputs: ColumnMoments | None) -> TableSummary:
        """The table in numbers, given the moments of its encoded inputs.

        Raises
        ------
        InvalidInputError
            No row has a weight above zero, or a column or output varies by less than squares hold.
        """
        if self.targets is None or inputs is None:
            raise InvalidInputError(NO_WEIGHT)
        check_spread(np.stack([inputs.low, inputs.high]), "X", "column")
        check_spread(np.stack([self.targets.low, self.targets.high]), "y", "output")
        return TableSummary(columns, self.ndim, inputs, self.targets, self.level)


def row_values(batch: TableBatch) -> FloatArray:
    """Inputs, targets, weights and known noise variances (n, w) of a batch that was checked."""
    given = [part for part in (batch.sample_weight, batch.sample_noise) if part is not None]
    values = [table_values(batch.X), plain_targets(batch.y), *given]
    return np.column_stack([np.asarray(part, dtype=np.float64) for part in values])


def n_rows_of(batch: TableBatch) -> int:
    """Number of rows of a batch."""
    return int(_num_samples(batch.y))


class Reading:
    """How a batch becomes rows of numbers, wherever it is read.

    Parameters
    ----------
    estimator
        Estimator, which messages name.
    columns
        Columns of the table with their encoding.
    level
        Mean of the known noise variances of the table, where they are known.
    """

    def __init__(self, estimator: Any, columns: Columns, level: float | None) -> None:
        self.estimator, self.columns, self.level = estimator, columns, level

    @property
    def width(self) -> int:
        """Number D of encoded columns."""
        encoding = self.columns.encoding
        return self.columns.n_features if encoding is None else encoding.groups.size

    def data(self, batch: TableBatch) -> Data | None:
        """Rows of a batch (n, D), without rows of weight zero; None if no others are left.

        Raises
        ------
        InvalidInputError, ValueError
            As in `fit`.
        """
        if not n_rows_of(batch):
            return None
        rows, targets = further_rows_with_targets(
            self.estimator, batch.X, batch.y, self.columns, carrier_of(self.columns)
        )
        return _data(rows, targets, batch, self.level)


def _data(
    rows: FloatArray, targets: FloatArray, batch: TableBatch, level: float | None
) -> Data | None:
    given = batch.sample_weight
    if given is not None and batch.sample_noise is None:
        weights = np.asarray(given)
        if weights.shape == (len(rows),) and not weights.any():
            return None
    arguments = RowArguments(given, batch.sample_noise, level)
    data = arguments.data(rows, targets.reshape(len(targets), -1))
    if level is None or data.weights is None or batch.sample_noise is None:
        return data
    return Data.of(data.points, data.targets, weights=replace(data.weights, level=level))


def _moments(values: FloatArray, data: Data) -> ColumnMoments:
    return ColumnMoments.of(values, data.counts)


def _check_alike(one: TablePart, other: TablePart) -> None:
    mine, its = one.columns, other.columns
    if mine.n_features != its.n_features:
        raise InvalidInputError(
            f"X: expected {mine.n_features} columns as in earlier rows, got {its.n_features}"
        )
    names = [None if c.names is None else list(c.names) for c in (mine, its)]
    if names[0] != names[1]:
        raise InvalidInputError(
            f"X: expected the columns {names[0]} as in earlier rows, in their order, got {names[1]}"
        )
    widths = [None if part.targets is None else part.targets.mean.size for part in (one, other)]
    if one.ndim != other.ndim or (None not in widths and widths[0] != widths[1]):
        raise InvalidInputError("y: expected as many outputs as in earlier rows, got others")
    if (one.noise is None) != (other.noise is None):
        raise InvalidInputError("sample_noise: expected it in all batches or in none")
