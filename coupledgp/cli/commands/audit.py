"""`coupledgp audit`: one page on predictions that any program made."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from coupledgp.cli.shared.declare import Options, option, required
from coupledgp.cli.shared.options import budget_seconds, check_distinct


@dataclass(frozen=True, kw_only=True)
class AuditOptions(Options):
    """Options of `coupledgp audit`."""

    train: Path = required("Training rows with the target.")
    test: Path = required("Test rows with the target.")
    target: str = required("Column of the target.", "--target", "-t")
    output: Path = required("HTML page to write.", "--output", "-o", ending=".html")
    predictions: Path | None = option(
        "Table of the predictions at the test rows. \\[default: the test rows' own]"
    )
    mean_column: str = option("Column of the means.", default="mean")
    std_column: str = option("Column of the standard deviations of observations.", default="std")
    samples: bool = option("The columns of --predictions are draws, 8 or more.", default=False)
    quantiles: bool = option(
        "The columns of --predictions are quantiles, named by their chances.", default=False
    )
    id_column: str | None = option(
        "Column of both tables by which rows belong together. \\[default: their order]", "--id"
    )
    drop: list[str] | None = option("Column that is no input; may be repeated.")
    latent: bool = option("The predictions leave out the noise; it is added.", default=False)
    kernel: str | None = option("Kernel of the exact GP to compare with.")
    lengthscale: str = option("One, or one for each input with commas between.", default="")
    outputscale: float | None = option("Variance of the function.")
    noise: float | None = option("Variance of the noise.")
    mean: float | None = option("Mean of the process. \\[default: of the training rows]")
    model: Path | None = option(
        "Saved model whose kernel the exact GP takes.", "--from-model", old="--model"
    )
    max_rows: int | None = option(
        "At most so many test rows, drawn at random, are judged. \\[default: 5000; 1024 "
        "beside an exact GP, 128 of those that have to be solved for]"
    )
    how: str = option("The exact GP: auto, dense or stochastic.", "--compare", default="auto")
    title: str | None = option("Heading of the page.")
    leave_out_overlap: bool = option("Leave out test rows that were trained on.", default=False)
    others: bool = option(
        "Fit other models to the same rows, and score them at the test rows.",
        "--alternatives/--no-alternatives",
        default=False,
    )
    budget: str = option("Time for --alternatives, as 90s or 5min.", default="60s")


def audit(options: AuditOptions) -> None:
    """Read, audit, write the page and print the figures."""
    from coupledgp.cli.commands.audit_tasks import (
        AuditColumns,
        hyperparameters,
        prediction,
        settings,
        tables,
    )
    from coupledgp.cli.readers.files import about
    from coupledgp.diagnostics.pages.terminal import print_report
    from coupledgp.ground.output import written_whole
    from coupledgp.ground.validation import check_choice, check_positive_int, json_values
    from coupledgp.models.other_models.reports import audit as audited

    seconds = budget_seconds(options.budget)
    check_choice(options.how, ("auto", "dense", "stochastic"), "--compare")
    check_positive_int(options.seed, "--seed", minimum=0)
    if options.max_rows is not None:
        check_positive_int(options.max_rows, "--max-rows", minimum=2)
    check_distinct(
        {"--output": options.output},
        [options.train, options.test, options.predictions, options.model],
    )
    columns = AuditColumns(
        options.target, options.id_column, options.mean_column, options.std_column, options.samples,
        options.quantiles,
    )  # fmt: skip
    stated = hyperparameters(
        options.kernel, options.model, options.lengthscale, options.outputscale, options.noise,
        options.mean, options.latent,
    )  # fmt: skip
    with ExitStack() as stack, about(options.train, options.test, options.predictions):
        page = stack.enter_context(written_whole(options.output))
        rows, new = tables(
            options.train, options.test, columns, options.drop or [], stated["kernel"]
        )
        law = prediction(options.test, options.predictions, columns)
        report = audited(
            law, rows.X, rows.y, new.X, new.y,
            metadata=new.beside or None, latent=options.latent, alternatives=options.others,
            budget=seconds, leave_out_overlap=options.leave_out_overlap,
            title=options.title or f"Audit of {(options.predictions or options.test).name}",
            **settings(
                options.how, options.max_rows, options.seed, len(rows), len(new), stated["kernel"]
            ),
            **stated,
        )  # fmt: skip
        report.to_html(page)
    if options.as_json:
        print(json.dumps(json_values(report.to_dict() | {"output": str(options.output)}), indent=2))
    else:
        print_report(report.layout(), written=options.output)
