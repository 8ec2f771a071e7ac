"""`coupledgp audit`: one page on predictions that any program made."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from coupledgp.cli.options import check_budget, check_distinct, path


def audit(
    train: Annotated[
        Path, typer.Option(help="Training rows with the target.", show_default=False, parser=path)
    ],
    test: Annotated[
        Path, typer.Option(help="Test rows with the target.", show_default=False, parser=path)
    ],
    target: Annotated[
        str, typer.Option("--target", "-t", help="Column of the target.", show_default=False)
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="HTML page to write.", show_default=False, parser=path
        )
    ],
    predictions: Annotated[
        Path | None,
        typer.Option(
            help="Table of the predictions at the test rows. \\[default: the test rows' own]",
            show_default=False,
            parser=path,
        ),
    ] = None,
    mean_column: Annotated[str, typer.Option(help="Column of the means.")] = "mean",
    std_column: Annotated[
        str, typer.Option(help="Column of the standard deviations of observations.")
    ] = "std",
    samples: Annotated[
        bool,
        typer.Option("--samples", help="The columns of --predictions are draws, 8 or more."),
    ] = False,
    id_column: Annotated[
        str | None,
        typer.Option(
            "--id", show_default=False,
            help="Column of both tables by which rows belong together. \\[default: their order]",
        ),
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(help="Column that is no input; may be repeated.", show_default=False),
    ] = None,
    latent: Annotated[
        bool,
        typer.Option("--latent", help="The predictions leave out the noise; it is added."),
    ] = False,
    kernel: Annotated[
        str | None,
        typer.Option(help="Kernel of the exact GP to compare with.", show_default=False),
    ] = None,
    lengthscale: Annotated[
        str, typer.Option(help="One, or one for each input with commas between.")
    ] = "",
    outputscale: Annotated[
        float | None, typer.Option(help="Variance of the function.", show_default=False)
    ] = None,
    noise: Annotated[
        float | None, typer.Option(help="Variance of the noise.", show_default=False)
    ] = None,
    mean: Annotated[
        float | None,
        typer.Option(help="Mean of the process. \\[default: of the training rows]",
                     show_default=False),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(
            help="Saved model whose kernel the exact GP takes.", show_default=False, parser=path
        ),
    ] = None,
    max_rows: Annotated[
        int | None,
        typer.Option(
            help="At most so many test rows, drawn at random, are judged. \\[default: 5000; 1024 "
            "beside an exact GP, 128 of those that have to be solved for]",
            show_default=False,
        ),
    ] = None,
    how: Annotated[
        str, typer.Option("--compare", help="The exact GP: auto, dense or stochastic.")
    ] = "auto",
    title: Annotated[
        str | None, typer.Option(help="Heading of the page.", show_default=False)
    ] = None,
    leave_out_overlap: Annotated[
        bool, typer.Option("--leave-out-overlap", help="Leave out test rows that were trained on.")
    ] = False,
    others: Annotated[
        bool,
        typer.Option(
            "--alternatives/--no-alternatives",
            help="Fit other models to the same rows, and score them at the test rows.",
        ),
    ] = False,
    budget: Annotated[str, typer.Option(help="Time for --alternatives, as 90s or 5min.")] = "60s",
    seed: Annotated[int, typer.Option(help="Of the subsample.")] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON instead of tables.")
    ] = False,
) -> None:  # fmt: skip
    """Read, audit, write the page and print the figures."""
    from coupledgp.cli.commands.audit_tasks import (
        Columns,
        hyperparameters,
        prediction,
        settings,
        tables,
    )
    from coupledgp.cli.readers.files import about
    from coupledgp.diagnostics.pages.terminal import print_report
    from coupledgp.ground.output import written_whole
    from coupledgp.ground.validation import json_values
    from coupledgp.models.other_models.reports import audit as audited

    check_budget(budget)
    check_distinct({"--output": output}, [train, test, predictions, model])
    columns = Columns(target, id_column, mean_column, std_column, samples)
    stated = hyperparameters(kernel, model, lengthscale, outputscale, noise, mean, latent)
    with ExitStack() as stack, about(train, test, predictions):
        page = stack.enter_context(written_whole(output))
        rows, new = tables(train, test, columns, drop or [], stated["kernel"])
        law = prediction(test, predictions, columns)
        report = audited(
            law,
            rows.X,
            rows.y,
            new.X,
            new.y,
            latent=latent,
            alternatives=others,
            budget=budget,
            leave_out_overlap=leave_out_overlap,
            title=title or f"Audit of {(predictions or test).name}",
            **settings(how, max_rows, seed, len(rows), len(new), stated["kernel"]),
            **stated,
        )
        report.to_html(page)
    if as_json:
        print(json.dumps(json_values(report.to_dict() | {"output": str(output)}), indent=2))
    else:
        print_report(report.layout(), written=output)
