"""Covariates of values over time from tables: of nodes, of times, or of both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from coupledgp.cli.readers.series import NODE, Nodes, SeriesOptions, read_stamps_of
from coupledgp.cli.readers.tables import listed, numbers, read_table
from coupledgp.errors import InvalidInputError
from coupledgp.series.covariates import LabelledValues


def read_covariates(
    paths: Sequence[Path], nodes: Nodes, options: SeriesOptions
) -> dict[str, LabelledValues]:
    """Covariates by the names of their columns.

    A table has a column of nodes, of times, or of both, as the values have; every other column is a
    covariate. Numbers and texts go; with both there is a row of each node at each time.

    Raises
    ------
    InvalidInputError
        A table has neither nodes nor times, or no further column; a row is missing or comes twice;
        a node is unknown; or a name is in two tables.
    """
    found: dict[str, LabelledValues] = {}
    for path in paths:
        for name, values in _of_table(path, nodes, options).items():
            if name in found:
                raise InvalidInputError(
                    f"--covariates: {path}: expected each name once, got {name!r} twice"
                )
            found[name] = values
    return found


def _of_table(path: Path, nodes: Nodes, options: SeriesOptions) -> dict[str, LabelledValues]:
    node, time = options.node_column or NODE, options.time_column
    table = read_table(path, as_text=[time, node], missing_text=True)
    where = f"--covariates: {path}"
    names = [name for name in table.column_names if name not in (node, time)]
    keys = [name for name in (node, time) if name in table.column_names]
    if not keys or not names or not table.num_rows:
        raise InvalidInputError(
            f"{where}: expected rows with a column {node!r}, {time!r} or both beside those of "
            f"covariates, got the columns {listed(table.column_names)} and {table.num_rows} rows"
        )
    labels: list[Any] = []
    rows = np.zeros(table.num_rows, dtype=np.int64)
    if node in keys:
        texts = ["" if text is None else str(text) for text in table.column(node).to_pylist()]
        found = nodes.find(texts, lambda k: f"{where}: column {node!r}, data row {k + 1}")
        distinct, rows = np.unique(found, return_inverse=True)
        labels = [nodes.labels[k] for k in distinct.tolist()]
    stamps, columns = None, np.zeros(table.num_rows, dtype=np.int64)
    if time in keys:
        stamps, columns = read_stamps_of(table.column(time), path, options).distinct()
    shape = (len(labels) or 1, 1 if stamps is None else len(stamps))
    cells = rows * shape[1] + columns
    if np.unique(cells).size != cells.size or cells.size != shape[0] * shape[1]:
        raise InvalidInputError(
            f"{where}: expected one row of each {' and '.join(keys)}, {shape[0] * shape[1]} in "
            f"all, got {cells.size} rows of {np.unique(cells).size} of them"
        )
    order = np.argsort(cells)
    size = tuple(
        count for count, there in zip(shape, (bool(labels), stamps is not None), strict=True)
        if there
    )  # fmt: skip
    return {
        name: LabelledValues(
            _values(table.column(name), f"{where}: column {name!r}")[order].reshape(size),
            labels or None, stamps,
        )
        for name in names
    }  # fmt: skip


def _values(column: pa.ChunkedArray, where: str) -> Any:
    """Numbers (m,), or texts."""
    if column.null_count:
        row = column.is_null().to_pylist().index(True) + 1
        raise InvalidInputError(f"{where}, data row {row}: expected a value, got a missing one")
    if pa.types.is_string(column.type) or pa.types.is_dictionary(column.type):
        return np.array([str(text) for text in column.to_pylist()], dtype=object)
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    return numbers(column, where)
