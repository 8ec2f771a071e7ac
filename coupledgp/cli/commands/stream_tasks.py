"""Work of `coupledgp fit` and `predict` on files that are read in batches."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from coupledgp.batches import TableBatch
from coupledgp.batches.datasets import open_dataset, tables_of
from coupledgp.cli.commands.predict_tasks import law_columns, table_inputs
from coupledgp.cli.commands.table_models import Model
from coupledgp.cli.commands.table_tasks import describe_fit
from coupledgp.cli.evaluate import Stopwatch, scores
from coupledgp.cli.readers.batches import (
    MOST_HELD_OUT,
    TypedBatches,
    divided,
    joined,
    readable,
    text_columns,
)
from coupledgp.cli.readers.kinds import kinds_of_model
from coupledgp.cli.readers.models import read_model
from coupledgp.cli.readers.tables import is_parquet
from coupledgp.columns.arrow import kind_of
from coupledgp.errors import InvalidInputError
from coupledgp.gp.columns import column_moments
from coupledgp.ground.output import writing
from coupledgp.ground.progress import Progress
from coupledgp.models import SparseSpectrumGPRegressor
from coupledgp.models.extrapolation import Extrapolations


def refuse_options(options: Mapping[str, Any]) -> None:
    """Refuse options that need all rows in memory.

    Raises
    ------
    InvalidInputError
        One of them is set beside a file that is read in batches.
    """
    if options["model"] not in (None, "sparse-spectrum"):
        raise InvalidInputError(
            f"--model: expected sparse-spectrum for a file read in batches, got {options['model']};"
            " --in-memory reads the whole file"
        )
    for name, option in (("report", "--report"), ("include_data", "--include-data")):
        if options[name]:
            raise InvalidInputError(
                f"{option}: expected none for a file read in batches; --in-memory reads the whole "
                "file"
            )
    if options["how"] not in ("auto", "none") or options["exact_rows"]:
        raise InvalidInputError(
            "--compare, --exact-rows: expected none for a file read in batches; compare models of "
            "some of the rows"
        )


def fit_batches(
    model: SparseSpectrumGPRegressor, options: Mapping[str, Any], kinds: Mapping[str, str],
    share: float, clock: Stopwatch,
) -> tuple[dict[str, Any], int]:  # fmt: skip
    """Fit a model to a file in batches; return what is printed, and the number of test rows.

    At most 20 000 rows are held out, or are taken from the file of test rows.
    """
    weights = {
        "sample_weight": options["weight_column"], "sample_noise": options["noise_column"],
    }  # fmt: skip
    drop, target = options["drop"] or [], options["target"]
    whole = TypedBatches(options["data"], target, drop, kinds, weights)
    train, held_out = divided(whole, share, options["seed"])
    if options["test"] is not None:
        held_out = _test_rows(options["test"], whole, target)
    with clock("fit"):
        model.fit_batches(train, checkpoint=options["checkpoint"], budget=options["stream_budget"])
    scored = None
    if held_out is not None:
        with clock("predict"):
            points = model.points(held_out.X)
            scored = scores(model.process_, points, held_out.y)
    n_train = _n_rows(model)
    sample = next(iter(train)) if held_out is None else held_out
    spread = _spread(model, sample)
    described = describe_fit(model, n_train, len(whole.columns), spread, scored, None, clock)
    return described, 0 if held_out is None else len(held_out.y)


def _test_rows(path: Path, train: TypedBatches, target: str) -> TableBatch | None:
    """The first rows of a file of test rows, of the kinds of those to train on."""
    first = next(iter(train)).X
    kinds = {name: kind_of(first.column(name), name) for name in train.columns}
    source = TypedBatches(path, target, [], kinds, {"sample_weight": None, "sample_noise": None})
    source.columns = train.columns
    return joined(iter(source), MOST_HELD_OUT)


def _n_rows(model: SparseSpectrumGPRegressor) -> int:
    process: Any = model.process_
    n_rows: int = process.statistics.n_rows
    return n_rows


def _spread(model: SparseSpectrumGPRegressor, batch: TableBatch) -> list[float]:
    """Standard deviations (q,) of the parts of the inputs, of some rows."""
    _, variances = column_moments(model.points(batch.X))
    spread: list[float] = np.sqrt(np.bincount(model.encoding_.groups, weights=variances)).tolist()
    return spread


def table_model(path: Path, node_column: str | None) -> Any:
    """The model of a file, which is one of a table.

    Raises
    ------
    InvalidInputError
        It is one of a graph or a field, or a column of nodes is given.
    """
    model = read_model(path)
    if hasattr(model, "graph") or hasattr(model, "operator") or node_column is not None:
        raise InvalidInputError(
            "--stream: expected a model of a table, whose rows are read in batches; --in-memory "
            "reads the whole file"
        )
    return model


def predict_batches(
    model: Model, data: Path, prefix: str, latent: bool, interval: float | None,
    path: Path, output: Path, report: Progress,
) -> tuple[int, list[str]]:  # fmt: skip
    """Write a file with the law of each of its rows; memory does not grow with the rows.

    Columns of a CSV file keep their text where the output is such a file too.

    Returns
    -------
    (int, list of str)
        Number of rows, and names of the added columns.
    """
    source = readable(data)
    kinds = kinds_of_model(model)
    dataset = open_dataset(source, text_columns(kinds))
    names = dataset.schema.names
    as_text = dataset
    if not is_parquet(data) and not is_parquet(output):
        as_text = open_dataset(source, None)
    n_rows, added = 0, list[str]()
    told: Extrapolations | None = Extrapolations(np.zeros(0))
    with _writer(path, output) as write:
        for table, shown in zip(tables_of(dataset, names), tables_of(as_text, names), strict=True):
            inputs = table_inputs(model, table, str(data))
            law, more = law_columns(model, inputs, prefix, latent, interval)
            told = told.followed_by(more) if told is not None and more is not None else None
            for name, values in law.items():
                if name in names:
                    raise InvalidInputError(
                        f"{data}: has a column {name!r} already; --prefix gives the new ones others"
                    )
                shown = shown.append_column(name, pa.array(values))
            write(shown)
            n_rows, added = n_rows + table.num_rows, list(law)
            report(f"{n_rows} rows")
    if not n_rows:
        raise InvalidInputError(f"{data}: expected rows below the header, got none")
    if told is not None:
        told.warn()
    return n_rows, added


@contextmanager
def _writer(path: Path, like: Path) -> Iterator[Any]:
    """A function that adds tables to a file of the format that the extension of `like` names."""
    if is_parquet(like):
        writers: list[Any] = []

        def add(table: pa.Table) -> None:
            if not writers:
                writers.append(pa.parquet.ParquetWriter(file, table.schema))
            writers[0].write_table(table)

        with writing(path), path.open("wb") as file:
            try:
                yield add
            finally:
                for writer in writers:
                    writer.close()
        return
    delimiter = "\t" if like.suffix.lower() == ".tsv" else ","
    with writing(path), path.open("w", newline="", encoding="utf-8") as text:
        writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
        started: list[bool] = []

        def write(table: pa.Table) -> None:
            if not started:
                writer.writerow(table.column_names)
                started.append(True)
            for batch in table.to_batches(max_chunksize=8192):
                writer.writerows(
                    zip(*(column.to_pylist() for column in batch.columns), strict=True)
                )

        yield write
