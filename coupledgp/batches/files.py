"""Files of tables, larger than memory, as batches: Parquet, CSV, Arrow and folders of them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from coupledgp.batches.sources import BatchSource, TableBatch, rows_of_batch
from coupledgp.columns.arrow import NUMBER, kind_of, numbers_of
from coupledgp.errors import InvalidInputError
from coupledgp.random import FloatArray

# Formats of pyarrow.dataset by the ending of a file's name.
FORMATS = {
    ".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "csv", ".arrow": "ipc",
    ".ipc": "ipc", ".feather": "feather",
}  # fmt: skip
DELIMITERS = (b",", b";", b"\t")
# Most characters of pyarrow's own message.
LONGEST_MESSAGE = 300


class FileBatches(BatchSource):
    """Rows of a pyarrow dataset, or of the files that make one, in the order of the files.

    Parameters
    ----------
    data
        A `pyarrow.dataset.Dataset`; or a file or folder of Parquet, CSV or Arrow (Feather) files,
        or a list of such files, by the endings of their names.
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
        A column is not there, the ending of a name is unknown, or a file is damaged.
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
        roles = [*self.targets, *(n for n in (sample_weight, sample_noise) if n is not None)]
        self.columns = (
            [name for name in names if name not in roles] if columns is None else list(columns)
        )
        self._check(names, roles)
        self.batch_rows = batch_rows
        if not self._is_text:
            with named_errors():
                self.n_rows = int(self.dataset.count_rows())

    @property
    def _is_text(self) -> bool:
        """Whether only a pass tells the number of rows."""
        return type(getattr(self.dataset, "format", None)).__name__ == "CsvFileFormat"

    def _check(self, names: Sequence[str], roles: Sequence[str]) -> None:
        repeated = {name for name in names if names.count(name) > 1}
        missing = [name for name in (*roles, *self.columns) if name not in names]
        if missing or repeated:
            found = f"no column {missing[0]!r}" if missing else f"{min(repeated)!r} more than once"
            shown = ", ".join(map(repr, names[:12])) + (" ..." if len(names) > 12 else "")
            raise InvalidInputError(
                f"batches: expected columns of distinct names, got {found} among {shown}"
            )
        if not self.columns or not self.targets:
            raise InvalidInputError("batches: expected columns of inputs and of targets, got none")
        both = sorted(set(roles) & set(self.columns))
        if both:
            raise InvalidInputError(f"columns: expected no {both[0]!r}, which has another role")

    def __iter__(self) -> Iterator[TableBatch]:
        wanted = [*self.columns, *self.targets]
        wanted += [name for name in (self.sample_weight, self.sample_noise) if name is not None]
        for table in tables_of(self.dataset, wanted, self.batch_rows):
            yield self._batch(table)

    def _batch(self, table: Any) -> TableBatch:
        targets = [_numbers(table, name, "y") for name in self.targets]
        y = targets[0] if self.single else np.column_stack(targets)
        weights = [
            None if column is None else _numbers(table, column, name)
            for name, column in (
                ("sample_weight", self.sample_weight), ("sample_noise", self.sample_noise),
            )
        ]  # fmt: skip
        return TableBatch(table.select(self.columns), y, *weights)

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


def open_dataset(data: Any, as_text: Sequence[str] | None = ()) -> Any:
    """The dataset of files, or the dataset itself.

    Columns of CSV files whose names are in `as_text` are read as text, or all of them, as they
    stand, if it is None. Their delimiter is the comma, semicolon or tab that the first line of the
    first file has most.
    """
    import pyarrow.dataset as ds

    if isinstance(data, ds.Dataset):
        return data
    given = [data] if isinstance(data, (str, os.PathLike)) else list(data)
    if "" in given:  # it would stand for the current folder
        raise InvalidInputError("batches: expected the path of a file or folder, got an empty text")
    files = [file for path in given for file in _files(Path(path))]
    endings = {_format(file) for file in files}
    if len(endings) != 1:
        raise InvalidInputError(
            f"batches: expected files of one format, got {', '.join(sorted(endings)) or 'no file'}"
        )
    (kind,) = endings
    with named_errors():
        if kind != "csv":
            return ds.dataset([str(file) for file in files], format=kind)
        return _csv_dataset(files, as_text)


def _csv_dataset(files: list[Path], as_text: Sequence[str] | None) -> Any:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.dataset as ds

    with files[0].open("rb") as file:
        first = re.sub(rb'"[^"]*"', b"", file.readline(2**20))
    delimiter = max(DELIMITERS, key=first.count).decode()
    options = pa.csv.ConvertOptions(strings_can_be_null=as_text is not None)
    form: Any = ds.CsvFileFormat(
        pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        default_fragment_scan_options=ds.CsvFragmentScanOptions(convert_options=options),
    )
    names = [str(file) for file in files]
    found = ds.dataset(names, format=form)
    # Types are those of the first block: numbers that look whole there need not be later, and a
    # column of which it has no value may hold numbers.
    types = {
        field.name: pa.float64()
        if pa.types.is_integer(field.type) or pa.types.is_null(field.type)
        else field.type
        for field in found.schema
    }
    types |= dict.fromkeys(types if as_text is None else as_text, pa.string())
    fields = [(field.name, types[field.name]) for field in found.schema]
    return ds.dataset(names, format=form, schema=pa.schema(fields))


def tables_of(dataset: Any, columns: Sequence[str], batch_rows: int | None = None) -> Iterator[Any]:
    """Columns of a dataset as Arrow tables of at most so many rows, in the order of its files."""
    import pyarrow as pa

    most = rows_of_batch(len(columns)) if batch_rows is None else batch_rows
    with named_errors():
        # Without threads of its own, so that no more than one batch is read ahead.
        batches = dataset.to_batches(
            columns=list(columns), batch_size=most, batch_readahead=1,
            fragment_readahead=1, use_threads=False, **_scan_options(dataset),
        )  # fmt: skip
        for batch in batches:
            if batch.num_rows:
                yield pa.Table.from_batches([batch])


def _scan_options(dataset: Any) -> dict[str, Any]:
    """Options for Parquet, whose buffers otherwise hold all of a file that was read."""
    import pyarrow.dataset as ds

    parts = getattr(dataset, "children", [dataset])
    if all(isinstance(getattr(part, "format", None), ds.ParquetFileFormat) for part in parts):
        options = ds.ParquetFragmentScanOptions(pre_buffer=False, use_buffered_stream=True)
        return {"fragment_scan_options": options}
    return {}


def _files(path: Path) -> list[Path]:
    """A file, or the files of known formats of a folder and those in it, in the order of names."""
    if not path.is_dir():
        path.open("rb").close()  # a missing or forbidden file is the system's error
        return [path]
    return sorted(p for p in path.rglob("*") if p.suffix.lower() in FORMATS and p.is_file())


def _format(path: Path) -> str:
    kind = FORMATS.get(path.suffix.lower())
    if kind is None:
        raise InvalidInputError(
            f"batches: expected a file ending in {', '.join(FORMATS)}, got {str(path)!r}"
        )
    return kind


def _numbers(table: Any, name: str, role: str) -> FloatArray:
    """A column of numbers (b,) with NaN where missing."""
    column = table.column(name)
    kind = kind_of(column, f"{role}: column {name!r}")
    if kind not in (NUMBER, "boolean"):
        raise InvalidInputError(f"{role}: column {name!r}: expected numbers, got {column.type}")
    return numbers_of(column)


@contextmanager
def named_errors() -> Iterator[None]:
    """Let errors of pyarrow be those of an input."""
    import pyarrow as pa

    try:
        yield
    except pa.ArrowException as error:
        text = " ".join(str(error).split())[:LONGEST_MESSAGE]
        raise InvalidInputError(f"batches: expected a table in files: {text}") from error
