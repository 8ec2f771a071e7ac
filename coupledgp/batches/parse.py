"""Tables in batches as a person gives them: in memory, or in files and folders of files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coupledgp.batches.datasets import named_errors, open_dataset, tables_of
from coupledgp.batches.sources import ArrayBatches, BatchSource, IterableBatches, TableBatch
from coupledgp.columns.arrow import NUMBER, kind_of, numbers_of
from coupledgp.errors import InvalidInputError
from coupledgp.random import FloatArray


def as_source(
    batches: Any,
    target: str | Sequence[str] | None = None,
    *,
    columns: Sequence[str] | None = None,
    sample_weight: str | None = None,
    sample_noise: str | None = None,
    batch_rows: int | None = None,
) -> BatchSource:
    """Return a table in batches from what stands for one.

    Parameters
    ----------
    batches
        A path, a list of paths or a `pyarrow.dataset.Dataset`, see `FileBatches`; a tuple `(X, y)`
        or `(X, y, sample_weight)` of arrays, see `ArrayBatches`; a function or an iterable, see
        `IterableBatches`; or a `BatchSource`, which is returned.
    target, columns, sample_weight, sample_noise
        Names of columns of files, see `FileBatches`; other tables have none.
    batch_rows
        Most rows of a batch of files and arrays; None: 65536, and fewer of wide tables.

    Raises
    ------
    InvalidInputError
        It is none of them, names are missing or serve no purpose, or the iterable cannot be started
        again.
    """
    if _is_of_files(batches):
        if target is None:
            raise InvalidInputError("target: expected the name of a column of the files, got None")
        if isinstance(columns, str):
            raise InvalidInputError(f"columns: expected a list of names, got {columns!r:.60}")
        return FileBatches(batches, target, columns, sample_weight, sample_noise, batch_rows)
    if not (isinstance(batches, BatchSource) or callable(batches) or hasattr(batches, "__iter__")):
        raise InvalidInputError(
            "batches: expected files, a tuple of arrays, a function that returns batches or an "
            f"iterable of them, got {type(batches).__name__}"
        )
    names = {
        "target": target, "columns": columns, "sample_weight": sample_weight,
        "sample_noise": sample_noise,
    }  # fmt: skip
    for name, value in names.items():
        if value is not None:
            raise InvalidInputError(f"{name}: expected None for batches that are no files")
    if isinstance(batches, BatchSource):
        return batches
    if isinstance(batches, tuple) and 2 <= len(batches) <= 4 and all(map(_is_array, batches)):
        X, y, weight, noise = (*batches, None, None)[:4]
        return ArrayBatches(X, y, weight, noise, batch_rows)
    return IterableBatches(batches)


def _is_of_files(value: Any) -> bool:
    """Whether a value is a path, some paths, or a dataset of pyarrow."""
    if isinstance(value, (str, os.PathLike)):
        return True
    if isinstance(value, (list, tuple)) and value:
        return all(isinstance(item, (str, os.PathLike)) for item in value)
    return hasattr(value, "to_batches") and hasattr(value, "count_rows")


def _is_array(value: Any) -> bool:
    """Whether a value is an array or a table with a length and a shape."""
    return value is None or (hasattr(value, "shape") and hasattr(value, "__len__"))


class FileBatches(BatchSource):
    """Rows of a pyarrow dataset, or of the files that make one, in the order of the files.

    Parameters
    ----------
    data
        A `pyarrow.dataset.Dataset`; or a file or folder of Parquet, CSV or Arrow (Feather) files,
        or a list of such files, by the endings of their names; see `open_dataset`.
    target
        Name of the column of targets, or a list of k names.
    columns
        Names of the columns of inputs; None: all that have no other role.
    sample_weight, sample_noise
        Names of columns, see `TableBatch`.
    batch_rows
        Most rows of a batch; None: 65536, and fewer of wide tables.

    Raises
    ------
    InvalidInputError
        A column is not there, the ending of a name is unknown, a file is damaged, or files have
        other columns than the first one.
    """

    def __init__(
        self,
        data: Any,
        target: str | Sequence[str],
        columns: Sequence[str] | None = None,
        sample_weight: str | None = None,
        sample_noise: str | None = None,
        batch_rows: int | None = None,
    ) -> None:
        self.dataset = open_dataset(data)
        names = self.dataset.schema.names
        self.targets = [target] if isinstance(target, str) else list(target)
        self.single = isinstance(target, str)
        self.sample_weight, self.sample_noise = sample_weight, sample_noise
        given = (sample_weight, sample_noise)
        self.roles = [*self.targets, *(name for name in given if name is not None)]
        self.columns = (
            [name for name in names if name not in self.roles] if columns is None else list(columns)
        )
        self._check(names)
        self.batch_rows = batch_rows
        if not self._is_text:
            with named_errors():
                self.n_rows = int(self.dataset.count_rows())

    @property
    def _is_text(self) -> bool:
        """Whether the files are text, so that a pass is needed to count the rows."""
        return type(getattr(self.dataset, "format", None)).__name__ == "CsvFileFormat"

    def _check(self, names: Sequence[str]) -> None:
        repeated = {name for name in names if names.count(name) > 1}
        missing = [name for name in (*self.roles, *self.columns) if name not in names]
        if missing or repeated:
            found = f"no column {missing[0]!r}" if missing else f"{min(repeated)!r} more than once"
            shown = ", ".join(map(repr, names[:12])) + (" ..." if len(names) > 12 else "")
            raise InvalidInputError(
                f"batches: expected columns of distinct names, got {found} among {shown}"
            )
        if not self.columns or not self.targets:
            raise InvalidInputError("batches: expected columns of inputs and of targets, got none")
        both = sorted(set(self.roles) & set(self.columns))
        if both:
            raise InvalidInputError(f"columns: expected no {both[0]!r}, which has another role")

    def __iter__(self) -> Iterator[TableBatch]:
        wanted = [*self.columns, *self.roles]
        return map(self._batch, tables_of(self.dataset, wanted, self.batch_rows))

    def _batch(self, table: Any) -> TableBatch:
        targets = [_numbers(table, name, "y") for name in self.targets]
        y = targets[0] if self.single else np.column_stack(targets)
        roles = {"sample_weight": self.sample_weight, "sample_noise": self.sample_noise}
        given = {
            role: _numbers(table, name, role) for role, name in roles.items() if name is not None
        }
        return TableBatch(table.select(self.columns), y, **given)

    def identity(self) -> dict[str, Any]:
        """See the base class; the names, sizes and times of the files."""
        files = []
        for name in getattr(self.dataset, "files", []):
            found = os.stat(name) if os.path.exists(name) else None
            size, time = (found.st_size, found.st_mtime_ns) if found else (-1, -1)
            files.append([Path(name).name, size, time])
        return {
            "kind": "files",
            "files": files,
            "columns": [f"{name}: {self.dataset.schema.field(name).type}" for name in self.columns],
            "targets": self.targets,
            "sample_weight": self.sample_weight,
            "sample_noise": self.sample_noise,
        }


def _numbers(table: Any, name: str, role: str) -> FloatArray:
    """A column of numbers (b,) with NaN where missing."""
    column = table.column(name)
    kind = kind_of(column, f"{role}: column {name!r}")
    if kind not in (NUMBER, "boolean"):
        raise InvalidInputError(f"{role}: column {name!r}: expected numbers, got {column.type}")
    return numbers_of(column)
