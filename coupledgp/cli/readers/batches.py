"""Files that are read in batches: when, of which kinds their columns are, and rows held out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from coupledgp.batches import BatchSource, FileBatches, TableBatch
from coupledgp.batches.datasets import (
    COMPRESSIONS,
    ENDINGS,
    files_of,
    format_of,
    open_dataset,
)
from coupledgp.cli.readers.files import SMALL, is_pipe, on_disk
from coupledgp.cli.readers.kinds import HINT, typed
from coupledgp.cli.readers.tables import check_columns, is_parquet
from coupledgp.columns.arrow import CATEGORY, DATE
from coupledgp.errors import InvalidInputError
from coupledgp.ground.memory import available_bytes

# Copies of a table that a command in memory makes.
COPIES = 4
# Most bytes of a table that is read whole where memory holds it: passes over 10^7 rows of eight
# columns take a minute of CPU and half a gigabyte, the fit in memory several times both.
MOST_WHOLE = 2**29
# Bytes of a compressed text from which its length is estimated.
SAMPLE_BYTES = 2**22
# Most rows that are held out for scoring.
MOST_HELD_OUT = 20_000


def wants_batches(path: Path, asked: bool | None) -> bool:
    """Whether a file is read in batches: by the option, or if its table is too large for memory.

    Folders are read in batches only.

    Raises
    ------
    InvalidInputError
        Batches are asked for of a file that is no Parquet, CSV or Arrow file.
    OSError
        They are asked for of a file that is not there, or may not be read.
    """
    if path.is_dir():
        return asked is not False and (bool(asked) or bool(files_of(path)))
    known = format_of(path) is not None and path.is_file()
    if asked and not known:
        if not is_pipe(path):
            path.open("rb").close()  # an error of the system, such as of no such file, names it
        raise InvalidInputError(f"--stream: expected a file ending in {ENDINGS}, got {path}")
    if asked is not None or not known:
        return bool(asked)
    if path.stat().st_size <= SMALL and path.suffix.lower() not in COMPRESSIONS:
        return False
    return bool(_table_bytes(path) > min(MOST_WHOLE, available_bytes() / COPIES))


def _table_bytes(path: Path) -> float:
    """Bytes of the table of a file, about; zero of one that cannot be read."""
    size = path.stat().st_size
    if is_parquet(path):
        try:
            with pa.parquet.ParquetFile(path) as file:
                groups = range(file.num_row_groups)
                return float(sum(file.metadata.row_group(k).total_byte_size for k in groups))
        except pa.ArrowException:
            return 0.0  # which the reader says better
    compression = COMPRESSIONS.get(path.suffix.lower())
    if compression is None:
        return float(size)
    try:
        with path.open("rb") as file, pa.CompressedInputStream(file, compression) as stream:
            unfolded = len(stream.read(SAMPLE_BYTES))
            return size * unfolded / max(file.tell(), 1)
    except (pa.ArrowException, OSError):
        return 0.0


class TypedBatches(FileBatches):
    """Batches of a file whose columns have the kinds that `fit` gives them.

    Parameters
    ----------
    path
        The file.
    target
        Column of targets.
    drop
        Columns to leave out.
    kinds
        Kinds of columns by name; every other column has the kind of its values.
    weights
        Names of columns, by the arguments `sample_weight` and `sample_noise`.
    """

    def __init__(
        self,
        path: Path,
        target: str,
        drop: Sequence[str],
        kinds: Mapping[str, str],
        weights: Mapping[str, str | None],
    ) -> None:
        self.kinds, self.path = kinds, path
        dataset = open_dataset(readable(path), text_columns(kinds))
        schema = dataset.schema.empty_table()
        named = [name for name in weights.values() if name is not None]
        check_columns(schema, [target], f"--target: {path}")
        check_columns(schema, kinds, f"--categorical, --numeric, --date: {path}")
        check_columns(schema, drop, f"--drop: {path}")
        check_columns(schema, named, f"--weight-column, --noise-column: {path}")
        super().__init__(dataset, target, None, weights["sample_weight"], weights["sample_noise"])
        self.columns = [name for name in self.columns if name not in drop]
        if not self.columns:
            raise InvalidInputError(f"{path}: expected a column besides the target {target!r}")

    def _batch(self, table: pa.Table) -> TableBatch:
        batch = super()._batch(table)
        inputs = typed(batch.X, self.columns, self.kinds, str(self.path), missing=True, hint=HINT)
        return batch._replace(X=inputs)


def readable(path: Path) -> Path:
    """A folder itself, or a file as `on_disk` gives it; none has to fit into memory."""
    return path if path.is_dir() else on_disk(path, whole=False)


def text_columns(kinds: Mapping[str, str]) -> list[str]:
    """Columns that a CSV file holds as text: categories and dates."""
    return [name for name, kind in kinds.items() if kind in (CATEGORY, DATE)]


class SplitBatches(BatchSource):
    """Rows of a file without those held out, or the latter alone.

    Whether a row is held out depends on the seed and its place in the file, not on batches.

    Parameters
    ----------
    whole
        All rows.
    share
        Share of the rows that is held out.
    seed
        Seed of the choice.
    held_out
        Whether these are the rows held out.
    """

    def __init__(self, whole: FileBatches, share: float, seed: int, held_out: bool = False) -> None:
        self.whole, self.share, self.seed, self.held_out = whole, share, seed, held_out
        self.n_rows = None if share else whole.n_rows

    def __iter__(self) -> Iterator[TableBatch]:
        rng = np.random.default_rng([self.seed, 2])
        for batch in self.whole:
            out = rng.random(len(batch.y)) < self.share
            kept = out if self.held_out else ~out
            if kept.any():
                parts = (None if part is None else part[kept] for part in batch[1:])
                yield TableBatch(batch.X.filter(pa.array(kept)), *parts)

    def identity(self) -> dict[str, Any]:
        held_out = {"share held out": self.share, "seed": self.seed}
        return self.whole.identity() | held_out


def divided(whole: FileBatches, share: float, seed: int) -> tuple[SplitBatches, TableBatch | None]:
    """Rows to train on, and at most 20 000 held out, a share of the file at most; one pass."""
    n_rows = whole.n_rows
    if n_rows is None:
        n_rows = int(whole.dataset.count_rows())
    if not n_rows:
        raise InvalidInputError("expected rows below the header, got none")
    share = min(share, MOST_HELD_OUT / n_rows)
    train = SplitBatches(whole, share, seed)
    if not share:
        return train, None
    return train, joined(iter(SplitBatches(whole, share, seed, held_out=True)))


def joined(batches: Iterator[TableBatch], most: int | None = None) -> TableBatch | None:
    """Inputs and targets of batches as one, until there are so many rows; None of no rows."""
    tables, targets = [], []
    for batch in batches:
        tables.append(batch.X)
        targets.append(batch.y)
        if most is not None and sum(map(len, targets)) >= most:
            break
    if not tables:
        return None
    return TableBatch(pa.concat_tables(tables).slice(0, most), np.concatenate(targets)[:most])
