"""Work of `coupledgp fit` and `predict` on files that are read in batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from coupledgp.batches import TableBatch
from coupledgp.batches.datasets import open_dataset, tables_of
from coupledgp.cli.commands.latent_tasks import is_gaussian
from coupledgp.cli.commands.predict_tasks import (
    exposures_of,
    law_columns,
    table_inputs,
    with_columns,
)
from coupledgp.cli.commands.table_options import FitOptions, PredictOptions
from coupledgp.cli.commands.table_run import TableDomain
from coupledgp.cli.commands.table_tasks import describe_fit, spread_of
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
from coupledgp.cli.readers.tables import is_parquet, table_writer
from coupledgp.cli.shared.declare import refuse
from coupledgp.cli.shared.evaluate import scores
from coupledgp.columns.arrow import kind_of
from coupledgp.errors import InvalidInputError
from coupledgp.ground.progress import Progress
from coupledgp.models import SparseSpectrumGPRegressor
from coupledgp.models.extrapolation import Extrapolations


class BatchedTable(TableDomain):
    """A table that is read in batches, which are fitted in passes."""

    def __init__(self, options: FitOptions) -> None:
        super().__init__(options)
        refuse_options(options)
        self.name = "sparse-spectrum"
        self._make()

    def read(self) -> None:
        """Divide the batches; at most 20 000 rows are held out, or taken from the test file."""
        options = self.options
        self.whole = TypedBatches(
            options.data, options.target, options.drop or [], self.kinds, self.weights
        )
        self.batches, self.batch = divided(self.whole, self.share, options.seed)
        if options.test is not None:
            self.batch = _test_rows(options.test, self.whole, options.target)

    def fit(self) -> None:
        options = self.options
        assert isinstance(self.model, SparseSpectrumGPRegressor)
        budget = options.seconds if "budget" in options.given else None
        self.model.fit_batches(self.batches, checkpoint=options.checkpoint, budget=budget)

    def _described(self) -> tuple[dict[str, Any], int]:
        model, held_out, scored = self.model, self.batch, None
        if held_out is not None:
            with self.clock("predict"):
                scored = scores(model.process_, model.points(held_out.X), held_out.y)
        sample = next(iter(self.batches)) if held_out is None else held_out
        process: Any = model.process_
        n_train: int = process.statistics.n_rows
        spread = spread_of(model, model.points(sample.X))
        columns = len(self.whole.columns)
        result = describe_fit(model, n_train, columns, spread, scored, None, self.clock)
        return result, 0 if held_out is None else len(held_out.y)


def refuse_options(options: FitOptions) -> None:
    """Refuse options that need all rows in memory.

    Raises
    ------
    InvalidInputError
        An option that needs all rows is set beside a file that is read in batches.
    """
    if not is_gaussian(options.likelihood) or options.exposure is not None:
        raise InvalidInputError(
            "--likelihood, --exposure: expected none for a file read in batches, whose law is "
            "gaussian; --in-memory reads the whole file"
        )
    if options.model not in (None, "sparse-spectrum"):
        raise InvalidInputError(
            f"--model: expected sparse-spectrum for a file read in batches, got {options.model};"
            " --in-memory reads the whole file"
        )
    why = "expected none for a file read in batches; --in-memory reads the whole file"
    refuse(options, ("report", "include_data"), why)
    if options.how not in ("auto", "none") or options.exact_rows:
        raise InvalidInputError(
            "--compare, --exact-rows: expected none for a file read in batches; compare models of "
            "some of the rows"
        )


def _test_rows(path: Path, train: TypedBatches, target: str) -> TableBatch | None:
    """The first rows of a file of test rows, of the kinds of those to train on."""
    first = next(iter(train)).X
    kinds = {name: kind_of(first.column(name), name) for name in train.columns}
    source = TypedBatches(path, target, [], kinds, {"sample_weight": None, "sample_noise": None})
    source.columns = train.columns
    return joined(iter(source), MOST_HELD_OUT)


def table_model(options: PredictOptions) -> Any:
    """The model of a file, which is one of a table.

    Raises
    ------
    InvalidInputError
        It is one of a graph or a field, or a column of nodes is given.
    """
    model = read_model(options.model)
    graphic = hasattr(model, "graph") or hasattr(model, "operator")
    if graphic or options.node_column is not None:
        raise InvalidInputError(
            "--stream: expected a model of a table, whose rows are read in batches; --in-memory "
            "reads the whole file"
        )
    return model


def predict_batches(options: PredictOptions, path: Path, report: Progress) -> tuple[int, list[str]]:
    """Write a file with the law of each of its rows; memory does not grow with the rows.

    Columns of a CSV file keep their text where the output is such a file too.

    Returns
    -------
    (int, list of str)
        Number of rows, and names of the added columns.
    """
    model, data, output = table_model(options), options.data, options.output
    source = readable(data)
    kinds = kinds_of_model(model)
    dataset = open_dataset(source, text_columns(kinds))
    names = dataset.schema.names
    as_text = dataset
    if not is_parquet(data) and not is_parquet(output):
        as_text = open_dataset(source, None)
    n_rows, added = 0, list[str]()
    far: Extrapolations | None = Extrapolations(np.zeros(0))
    with table_writer(path, output) as write:
        for table, shown in zip(tables_of(dataset, names), tables_of(as_text, names), strict=True):
            inputs = table_inputs(model, table, str(data))
            exposures = exposures_of(model, table, options)
            law, more = law_columns(model, inputs, options, options.prefix, exposures)
            far = far.followed_by(more) if far is not None and more is not None else None
            write(with_columns(shown, law, data))
            n_rows, added = n_rows + table.num_rows, list(law)
            report(f"{n_rows} rows")
    if not n_rows:
        raise InvalidInputError(f"{data}: expected rows below the header, got none")
    if far is not None:
        far.warn()
    return n_rows, added
