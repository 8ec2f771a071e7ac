"""`coupledgp predict`: add a saved model's means and standard deviations to a table."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from coupledgp.cli.shared.declare import Options, argument, option, required
from coupledgp.cli.shared.options import check_distinct, check_level
from coupledgp.ground.progress import reporter


@dataclass(frozen=True, kw_only=True)
class PredictOptions(Options):
    """Options of `coupledgp predict`."""

    model: Path = argument("MODEL", "File that fit wrote.")
    data: Path = argument("DATA", "CSV or Parquet file, or a folder of them.")
    output: Path = required(
        ".csv, .tsv, .parquet or .json to write, or -.", "--output", "-o", ending=".csv"
    )
    prefix: str = option("Before the names of the added columns.", default="", shown=False)
    level: float | None = option(
        "Also add the ends of the central interval of this probability, such as 0.95, which a "
        "model under a likelihood does by itself. A classifier adds chances of its classes.",
        old="--interval",
    )
    node_column: str | None = option(
        "Column of nodes, for a model of a graph or a field. \\[default: node]"
    )
    stream: bool | None = option(
        "Read and write in batches, in memory that does not grow with the rows, for a "
        "model of a table. \\[default: where a quarter of the free memory does not hold them]",
        "--stream/--in-memory",
    )


def predict(options: PredictOptions) -> None:
    """Predict, add the columns and write the table.

    The column extrapolation holds the distance of each row of a table from the training rows, in
    lengthscales: zero within their values, and above 2 where data say little.
    """
    from coupledgp.cli.commands.predict_tasks import with_predictions
    from coupledgp.cli.commands.stream_tasks import predict_batches, table_model
    from coupledgp.cli.readers.batches import wants_batches
    from coupledgp.cli.readers.files import about
    from coupledgp.cli.readers.tables import check_table_path, write_table
    from coupledgp.diagnostics.pages.terminal import PlainConsole
    from coupledgp.ground.output import written_whole

    check_table_path(options.output, "--output")
    check_distinct({"--output": options.output}, [options.model, options.data])
    check_level(options.level)
    with reporter("predict") as report, written_whole(options.output) as temporary:
        if wants_batches(options.data, options.stream):
            fitted = table_model(options.model, options.node_column)
            with about(options.data):
                n_rows, added = predict_batches(
                    fitted, options.data, options.prefix, options.latent, options.level, temporary,
                    options.output, report, options.exposure,
                )  # fmt: skip
        else:
            table, added = with_predictions(
                options.model, options.data, options.prefix, options.latent, options.output,
                options.level, options.node_column, options.exposure,
            )  # fmt: skip
            n_rows = table.num_rows
            write_table(table, temporary, like=options.output)
    result = {"rows": n_rows, "output": str(options.output), "added": added}
    if options.as_json:
        print(json.dumps(result))
        return
    *others, last = (repr(name) for name in added)
    names = f"{', '.join(others)} and {last}"
    rows = "1 row" if n_rows == 1 else f"{n_rows} rows"
    PlainConsole(soft_wrap=True).print(
        f"{rows} with {names} written to {options.output}", markup=False
    )
