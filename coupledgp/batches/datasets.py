"""Files of tables as datasets of pyarrow, which read them in batches: formats, folders, schemas."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from coupledgp.batches.sources import rows_of_batch
from coupledgp.errors import InvalidInputError

# Formats of pyarrow.dataset by the ending of a file's name.
FORMATS = {
    ".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "csv", ".arrow": "ipc",
    ".ipc": "ipc", ".feather": "feather",
}  # fmt: skip
# Endings behind .csv and .tsv of compressed text, which pyarrow unfolds block by block.
COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2"}
ENDINGS = f"{', '.join(FORMATS)}, or .csv and .tsv with {', '.join(COMPRESSIONS)}"
DELIMITERS = (b",", b";", b"\t")
# Most bytes of the first line of a text.
LONGEST_LINE = 2**20
# Most characters of pyarrow's own message.
LONGEST_MESSAGE = 300


def open_dataset(data: Any, as_text: Sequence[str] | None = ()) -> Any:
    """The dataset of files, or the dataset itself.

    A folder stands for all files of known endings in it and in its folders, in the order of their
    paths. Names that begin with a dot or an underscore are left out. Names of folders such as
    `year=2024` are a column, `year`. Text may be compressed by gzip or bzip2.

    Parameters
    ----------
    data
        A `pyarrow.dataset.Dataset`, a path, or a list of paths of files or folders.
    as_text
        Names of columns of CSV files that are read as text; None: all of them, as they stand. The
        delimiter is the comma, semicolon or tab that the first line of the first file has most;
        between the latter two decimals may stand behind a comma.

    Raises
    ------
    InvalidInputError
        An ending is unknown, files are of several formats or damaged, or one has other columns
        than the first one, or a column of a type that does not go with the type in the others.
    """
    import pyarrow.dataset as ds

    if isinstance(data, ds.Dataset):
        return data
    given = [data] if isinstance(data, (str, os.PathLike)) else list(data)
    if "" in given:  # it would stand for the current folder
        raise InvalidInputError("batches: expected the path of a file or folder, got an empty text")
    files = [file for path in given for file in files_of(Path(path))]
    kinds = {_format(file) for file in files}
    if len(kinds) != 1:
        found = ", ".join(sorted(kinds)) or f"no file ending in {ENDINGS}"
        raise InvalidInputError(f"batches: expected files of one format, got {found}")
    (kind,) = kinds
    options: dict[str, Any] = {"format": _csv_format(files[0], as_text) if kind == "csv" else kind}
    if len(given) == 1 and Path(given[0]).is_dir():
        options |= {"partitioning": "hive", "partition_base_dir": str(given[0])}
    names = [str(file) for file in files]
    with named_errors():
        schema = _one_schema(ds.dataset(names, **options), kind == "csv", as_text)
        return ds.dataset(names, schema=schema, **options)


def decimal_mark(text: bytes, delimiter: str) -> str:
    """What stands before decimals: a comma where fields have one, and none of them a point.

    Fields that the comma divides have a point.
    """
    field = rb'(?:^|[;\t"\r\n])[-+]?\d+%b\d+(?:[eE][-+]?\d+)?(?=[;\t"\r\n]|$)'
    if delimiter == "," or re.search(field % rb"\.", text) or not re.search(field % b",", text):
        return "."
    return ","


def format_of(path: Path) -> str | None:
    """Format of a file by the ending of its name, for pyarrow.dataset; None of other files."""
    ending = path.suffix.lower()
    if ending in COMPRESSIONS:
        inner = FORMATS.get(Path(path.stem).suffix.lower())
        return inner if inner == "csv" else None
    return FORMATS.get(ending)


def files_of(path: Path) -> list[Path]:
    """A file, or the files of known formats of a folder and those in it, in the order of names.

    Raises
    ------
    OSError
        There is no such file, or it may not be read.
    """
    if not path.is_dir():
        path.open("rb").close()  # a missing or forbidden file is the system's error
        return [path]
    found = [file for file in path.rglob("*") if format_of(file) is not None and file.is_file()]
    return sorted(file for file in found if not _is_hidden(file.relative_to(path)))


def _is_hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


def _format(path: Path) -> str:
    kind = format_of(path)
    if kind is None:
        raise InvalidInputError(f"batches: expected a file ending in {ENDINGS}, got {str(path)!r}")
    return kind


def _csv_format(first: Path, as_text: Sequence[str] | None) -> Any:
    """The options for reading CSV files, told by the first file."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.dataset as ds

    with named_errors(), pa.input_stream(str(first)) as stream:
        text = stream.read(LONGEST_LINE)
    line = re.sub(rb'"[^"]*"', b"", text).split(b"\n", 1)[0]
    delimiter = max(DELIMITERS, key=line.count).decode()
    options = pa.csv.ConvertOptions(
        strings_can_be_null=as_text is not None, decimal_point=decimal_mark(text, delimiter)
    )
    return ds.CsvFileFormat(
        pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        default_fragment_scan_options=ds.CsvFragmentScanOptions(convert_options=options),
    )


def _one_schema(dataset: Any, of_text: bool, as_text: Sequence[str] | None) -> Any:
    """The schema of all files: the columns of the first one, with types that hold all values.

    Without it pyarrow would take columns that a file does not have as missing values, and leave out
    those that only other files have.
    """
    import pyarrow as pa

    schema = None
    for part in dataset.get_fragments():
        own = part.physical_schema
        if of_text:
            own = _text_schema(own, as_text)
        if schema is None:
            schema = own
            continue
        _check_names(part.path, schema.names, own.names)
        try:
            schema = pa.unify_schemas([schema, own], promote_options="permissive")
        except pa.ArrowException as error:
            raise InvalidInputError(
                f"batches: {part.path}: expected columns of the types in files before it, got "
                f"others: {_one_line(error)}"
            ) from None
    if of_text and schema is not None:
        schema = _of_all_rows(schema)
    # Columns that stand in names of folders.
    added = [field for field in dataset.schema if schema is None or field.name not in schema.names]
    return pa.schema([*(schema or []), *added])


def _check_names(path: str, names: Sequence[str], own: Sequence[str]) -> None:
    """Refuse a file that has other columns than those before it; their order may differ."""
    missing, further = sorted(set(names) - set(own)), sorted(set(own) - set(names))
    if missing or further:
        found = f"no column {missing[0]!r}" if missing else f"also a column {further[0]!r}"
        raise InvalidInputError(
            f"batches: {path}: expected the columns of the files before it, got {found}"
        )


def _text_schema(schema: Any, as_text: Sequence[str] | None) -> Any:
    """The schema of a CSV file with some columns, or all if they are None, as text."""
    import pyarrow as pa

    texts = schema.names if as_text is None else as_text
    return pa.schema(
        [field.with_type(pa.string()) if field.name in texts else field for field in schema]
    )


def _of_all_rows(schema: Any) -> Any:
    """A schema that holds all rows of CSV files, given the schema of their first blocks.

    Numbers that are whole in the first block need not be so later. A column without a value in the
    first block may hold numbers.
    """
    import pyarrow as pa

    def is_open(kind: Any) -> bool:
        return bool(pa.types.is_integer(kind) or pa.types.is_null(kind))

    return pa.schema(
        [field.with_type(pa.float64()) if is_open(field.type) else field for field in schema]
    )


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


@contextmanager
def named_errors() -> Iterator[None]:
    """Turn errors of pyarrow, damaged compressed text included, into errors of an input."""
    import pyarrow as pa

    try:
        yield
    except pa.ArrowException as error:
        raise InvalidInputError(
            f"batches: expected a table in files: {_one_line(error)}"
        ) from error
    except OSError as error:
        if error.errno is not None:  # the system's own, such as of a file that is gone
            raise
        raise InvalidInputError(
            f"batches: expected a table in files: {_one_line(error)}"
        ) from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:LONGEST_MESSAGE]
