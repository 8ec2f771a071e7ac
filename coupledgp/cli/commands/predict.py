"""`coupledgp predict`: add a saved model's means and standard deviations to a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from coupledgp.cli.options import check_distinct, path
from coupledgp.errors import InvalidInputError
from coupledgp.ground.progress import reporter


def predict(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL", help="File that fit wrote.", show_default=False, parser=path
        ),
    ],
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="CSV or Parquet file, or a folder of them.",
            show_default=False,
            parser=path,
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help=".csv, .tsv or .parquet to write.",
            show_default=False,
            parser=path,
        ),
    ],
    prefix: Annotated[
        str, typer.Option(help="Before the names of the added columns.", show_default=False)
    ] = "",
    latent: Annotated[
        bool, typer.Option("--latent", help="Leave the noise out of the standard deviation.")
    ] = False,
    interval: Annotated[
        float | None,
        typer.Option(
            help="Also add the ends of the central interval of this probability, such as 0.95.",
            show_default=False,
        ),
    ] = None,
    node_column: Annotated[
        str | None,
        typer.Option(
            help="Column of nodes, for a model of a graph or a field. \\[default: node]",
            show_default=False,
        ),
    ] = None,
    stream: Annotated[
        bool | None,
        typer.Option(
            "--stream/--in-memory",
            help="Read and write in batches, in memory that does not grow with the rows, for a "
            "model of a table. \\[default: where a quarter of the free memory does not hold them]",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON instead of a sentence.")
    ] = False,
) -> None:
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

    check_table_path(output, "--output")
    check_distinct({"--output": output}, [model, data])
    if interval is not None and not 0 < interval < 0.5 + 0.5 * interval < 1:
        raise InvalidInputError(f"--interval: expected a probability in (0, 1), got {interval}")
    with reporter("predict") as report, written_whole(output) as temporary:
        if wants_batches(data, stream):
            fitted = table_model(model, node_column)
            with about(data):
                n_rows, added = predict_batches(
                    fitted, data, prefix, latent, interval, temporary, output, report
                )
        else:
            table, added = with_predictions(
                model, data, prefix, latent, output, interval, node_column
            )
            n_rows = table.num_rows
            write_table(table, temporary, like=output)
    result = {"rows": n_rows, "output": str(output), "added": added}
    if as_json:
        print(json.dumps(result))
        return
    *others, last = (repr(name) for name in added)
    names = f"{', '.join(others)} and {last}"
    rows = "1 row" if n_rows == 1 else f"{n_rows} rows"
    PlainConsole(soft_wrap=True).print(f"{rows} with {names} written to {output}", markup=False)
