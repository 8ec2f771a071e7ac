"""`coupledgp report`: one page on how good the posterior of a saved model is."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from coupledgp.cli.shared.declare import Options, argument, option, required
from coupledgp.cli.shared.options import (
    MAX_SOLVED_ROWS,
    MAX_TEST_ROWS,
    budget_seconds,
    check_distinct,
    is_whole,
)
from coupledgp.diagnostics.limits import DENSE_ROWS
from coupledgp.errors import InvalidInputError
from coupledgp.ground.progress import reporter


@dataclass(frozen=True, kw_only=True)
class ReportOptions(Options):
    """Options of `coupledgp report`."""

    model: Path = argument("MODEL", "File that fit --include-data wrote, or gp.save.")
    data: Path | None = argument(
        "[DATA]",
        "Test rows with the target, or nodes and values for a graph model; without it the "
        "training rows are left out, each as all others predict it.",
        default=None,
    )
    output: Path = required("HTML page to write.", "--output", "-o", ending=".html")
    target: str | None = option(
        "Column of the target. \\[default: the only one that is no input]", "--target", "-t"
    )
    node_column: str | None = option("Column of nodes. \\[default: node]")
    couplings: str = option(
        "Couplings to compare, with commas between; empty for none.", default=""
    )
    sizes: str = option(
        "Numbers of frequencies or walkers to compare, with commas between. "
        "\\[default: a quarter of the model's, its own and four times as many]",
        default="",
        shown=False,
    )
    n_draws: int = option("Draws of each coupling and size.", default=8)
    max_rows: int | None = option(
        "At most so many test rows, drawn at random, are compared. \\[default: "
        f"{MAX_TEST_ROWS}, or {MAX_SOLVED_ROWS} where they have to be solved for]"
    )
    how: str = option(
        "The exact GP: dense, stochastic (iterative solves), or auto: dense up to "
        f"{DENSE_ROWS} training rows.",
        "--compare",
        default="auto",
    )
    mesh: Path | None = option("Mesh whose faces or vertices are the nodes, for the picture.")
    positions: Path | None = option("Table of node, x, y, for the picture.")
    title: str | None = option("Heading of the page.")
    leave_out_overlap: bool = option("Leave out test rows that were trained on.", default=False)
    groups: str | None = option(
        "Without DATA: leave out training rows of one value together, of an input or of "
        "--groups-from.",
        metavar="COLUMN",
    )
    groups_from: Path | None = option(
        "Table with the training rows and the column of their groups.", metavar="TABLE"
    )
    others: bool = option(
        "Fit other models to the same rows, and score them at the test rows.",
        "--alternatives/--no-alternatives",
        default=False,
    )
    budget: str = option("Time for --alternatives, as 90s or 5min.", default="60s")


def report(options: ReportOptions) -> None:
    """Compare, write the page and print the figures."""
    max_rows = options.max_rows
    from coupledgp.cli.commands.report_tasks import chosen, described, rows_at, test_data
    from coupledgp.cli.readers.files import about
    from coupledgp.cli.readers.models import read_model
    from coupledgp.cli.shared.evaluate import announce, seen_by
    from coupledgp.diagnostics.compare import by_solves
    from coupledgp.diagnostics.pages.terminal import print_report
    from coupledgp.diagnostics.scoring.overlap import overlap_of, without_overlap
    from coupledgp.ground.output import written_whole
    from coupledgp.ground.validation import check_choice, check_positive_int
    from coupledgp.models import posterior_report

    check_positive_int(options.seed, "--seed", minimum=0)
    check_choice(options.how, ("auto", "dense", "stochastic"), "--compare")
    seconds = budget_seconds(options.budget)
    if max_rows is not None:
        check_positive_int(max_rows, "--max-rows", minimum=2)
    check_positive_int(options.n_draws, "--n-draws", minimum=2)
    names = [name.strip() for name in options.couplings.split(",") if name.strip()]
    counts = _numbers(options.sizes)
    if counts and not names:
        raise InvalidInputError("--sizes: expected --couplings beside it")
    check_distinct(
        {"--output": options.output},
        [options.model, options.data, options.mesh, options.positions, options.groups_from],
    )
    if options.groups_from is not None and options.groups is None:
        raise InvalidInputError("--groups-from: expected --groups with the column beside it")
    if options.data is None:
        needing = {
            "target": options.target, "couplings": names, "mesh": options.mesh,
            "positions": options.positions, "leave_out_overlap": options.leave_out_overlap,
            "how": options.how != "auto", "others": options.others,
        }  # fmt: skip
        for name, value in needing.items():
            if value:
                raise InvalidInputError(
                    f"{options.name_of(name)}: expected DATA beside it, test rows or values"
                )
        left_out(options)
        return
    if options.groups is not None:
        raise InvalidInputError("--groups: expected no DATA beside it: it groups the training rows")
    with ExitStack() as stack, about(options.model, options.data):
        page = stack.enter_context(written_whole(options.output))
        with reporter("read"):
            fitted = read_model(options.model)
            where, y, geometry, beside = test_data(
                fitted, options.data, options.target, options.node_column, options.mesh,
                options.positions,
            )  # fmt: skip
        solved = by_solves(fitted, method=options.how)
        if max_rows is None:
            max_rows = MAX_SOLVED_ROWS if solved else MAX_TEST_ROWS
        overlap, rows = overlap_of(fitted, where, y)
        if options.leave_out_overlap:
            overlap, where, y = without_overlap(overlap, rows, where, y)
            if overlap.left_out:
                beside = {name: values[~rows] for name, values in beside.items()}
        kept = chosen(len(y), max_rows, options.seed)
        if solved and hasattr(fitted, "X_train_"):
            announce(len(fitted.y_train_), len(kept), "a smaller --max-rows takes less")
        result = posterior_report(
            fitted,
            rows_at(where, kept),
            y[kept],
            couplings=names,
            sizes=counts,
            n_draws=options.n_draws,
            random_state=options.seed,
            geometry=geometry,
            title=options.title or f"Posterior of {options.model.name} on {options.data.name}",
            data=described(options.data, len(kept), len(y)),
            method=options.how,
            alternatives=options.others,
            budget=seconds,
            metadata=seen_by(fitted, {name: values[kept] for name, values in beside.items()}),
        )
        if overlap.left_out:
            result = replace(result, overlap=overlap)
        result.to_html(page)
    if options.as_json:
        from coupledgp.ground.validation import json_values

        print(json.dumps(json_values(result.to_dict() | {"output": str(options.output)}), indent=2))
    else:
        print_report(result.layout(), written=options.output)


def left_out(options: ReportOptions) -> None:
    """Write the page on training rows as predicted from each other, and print the figures."""
    from coupledgp.cli.commands.left_out_tasks import check_has_rows, groups_of
    from coupledgp.cli.readers.files import about
    from coupledgp.cli.readers.models import read_model
    from coupledgp.diagnostics import cross_validate
    from coupledgp.diagnostics.pages.terminal import print_report
    from coupledgp.ground.output import written_whole

    with ExitStack() as stack, about(options.model, options.groups_from):
        page = stack.enter_context(written_whole(options.output))
        fitted = read_model(options.model)
        check_has_rows(fitted, options.model)
        labels = None
        if options.groups is not None:
            labels = groups_of(fitted, options.groups, options.groups_from, options.node_column)
        result = cross_validate(
            fitted,
            labels,
            title=options.title or f"What {options.model.name} predicts of its own rows, left out",
            data=f"training rows of {options.model.name}",
            random_state=options.seed,
            **({} if options.max_rows is None else {"max_rows": options.max_rows}),
        )
        result.to_html(page)
    if options.as_json:
        from coupledgp.ground.validation import json_values

        print(json.dumps(json_values(result.to_dict() | {"output": str(options.output)}), indent=2))
    else:
        print_report(result.layout(), written=options.output)


def _numbers(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    for part in parts:
        if not is_whole(part) or int(part) < 1:
            raise InvalidInputError(f"--sizes: expected positive ints, got {part!r:.60}")
    return [int(part) for part in parts]
