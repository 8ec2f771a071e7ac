"""Options of the commands that write a page on posteriors: `coupledgp report` and `audit`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from coupledgp.cli.shared.declare import Options, argument, option, required
from coupledgp.cli.shared.options import (
    MAX_SOLVED_ROWS,
    MAX_TEST_ROWS,
    at_least,
    check_page,
    one_of,
)
from coupledgp.diagnostics.limits import DENSE_ROWS


@dataclass(frozen=True, kw_only=True)
class PageOptions(Options):
    """What both commands have."""

    output: Path = required(
        "HTML page to write.", "--output", "-o", ending=".html", check=check_page
    )
    max_rows: int | None = option(
        "At most so many test rows, drawn at random, are {audit: judged. \\[default: 5000; 1024 "
        "beside an exact GP, 128 of those that have to be solved for]}{report: compared. "
        f"\\[default: {MAX_TEST_ROWS}, or {MAX_SOLVED_ROWS} where they have to be solved for]}}",
        check=at_least(2),
    )
    how: str = option(
        "The exact GP: dense, stochastic (iterative solves), or auto: dense up to "
        f"{DENSE_ROWS} training rows.",
        "--compare", default="auto", check=one_of("auto", "dense", "stochastic"),
    )  # fmt: skip
    title: str | None = option("Heading of the page.")
    leave_out_overlap: bool = option("Leave out test rows that were trained on.", default=False)


@dataclass(frozen=True, kw_only=True)
class ReportOptions(PageOptions):
    """Options of `coupledgp report`."""

    model: Path = argument("MODEL", "File that fit --include-data wrote, or gp.save.")
    data: Path | None = argument(
        "[DATA]",
        "Test rows with the target, or nodes and values for a graph model; without it the "
        "training rows are left out, each as all others predict it.",
        default=None,
    )
    couplings: str = option(
        "Couplings to compare, with commas between; empty for none.", default=""
    )
    sizes: str = option(
        "Numbers of frequencies or walkers to compare, with commas between. "
        "\\[default: a quarter of the model's, its own and four times as many]",
        default="",
        shown=False,
    )
    n_draws: int = option("Draws of each coupling and size.", default=8, check=at_least(2))
    mesh: Path | None = option("Mesh whose faces or vertices are the nodes, for the picture.")
    positions: Path | None = option("Table of node, x, y, for the picture.")
    groups: str | None = option(
        "Without DATA: leave out training rows of one value together, of an input or of "
        "--groups-from.",
        metavar="COLUMN",
    )
    groups_from: Path | None = option(
        "Table with the training rows and the column of their groups.", metavar="TABLE"
    )


@dataclass(frozen=True, kw_only=True)
class AuditOptions(PageOptions):
    """Options of `coupledgp audit`."""

    train: Path | None = option(
        "Training rows with the target. \\[default: none, and neither an exact process]"
    )
    test: Path = required("Test rows with the target.")
    predictions: Path | None = option(
        "Table of predictions at the test rows; chance_LABEL of classes. \\[default: their own]"
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
    latent: bool = option("The predictions leave out the noise; it is added.", default=False)
    kernel: str | None = option("Kernel of the exact GP to compare with.")
    lengthscale: str = option("One, or one for each input with commas between.", default="")
    outputscale: float | None = option("Variance of the function.")
    noise: float | None = option("Variance of the noise.")
    mean: float | None = option("Mean of the process. \\[default: of the training rows]")
    model: Path | None = option(
        "Saved model whose kernel the exact GP takes.", "--from-model", old="--model"
    )
