"""`coupledgp report`: one page on how good the posterior of a saved model is."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from coupledgp.cli.options import (
    MAX_SOLVED_ROWS,
    MAX_TEST_ROWS,
    check_budget,
    check_distinct,
    is_whole,
    path,
)
from coupledgp.diagnostics.limits import DENSE_ROWS
from coupledgp.errors import InvalidInputError
from coupledgp.ground.progress import reporter


def report(
    model: Annotated[
        Path,
        typer.Argument(metavar="MODEL", help="File that fit --include-data wrote, or gp.save.",
                       show_default=False, parser=path),
    ],
    data: Annotated[
        Path | None,
        typer.Argument(
            metavar="[DATA]", show_default=False,
            help="Test rows with the target, or nodes and values for a graph model; without it the "
            "training rows are left out, each as all others predict it.",
            parser=path,
        ),
    ] = None,
    *,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="HTML page to write.", show_default=False, parser=path
        )
    ],
    target: Annotated[
        str | None,
        typer.Option(
            "--target", "-t", show_default=False,
            help="Column of the target. \\[default: the only one that is no input]",
        ),
    ] = None,
    node_column: Annotated[str, typer.Option(help="Column of nodes, for a graph model.")] = "node",
    couplings: Annotated[
        str, typer.Option(help="Couplings to compare, with commas between; empty for none.")
    ] = "",
    sizes: Annotated[
        str,
        typer.Option(
            help="Numbers of frequencies or walkers to compare, with commas between. "
            "\\[default: a quarter of the model's, its own and four times as many]",
            show_default=False,
        ),
    ] = "",
    n_draws: Annotated[int, typer.Option(help="Draws of each coupling and size.")] = 8,
    max_rows: Annotated[
        int | None,
        typer.Option(
            help="At most so many test rows, drawn at random, are compared. \\[default: "
            f"{MAX_TEST_ROWS}, or {MAX_SOLVED_ROWS} where they have to be solved for]",
            show_default=False,
        ),
    ] = None,
    how: Annotated[
        str,
        typer.Option(
            "--compare",
            help="The exact GP: dense, stochastic (iterative solves), or auto: dense up to "
            f"{DENSE_ROWS} training rows.",
        ),
    ] = "auto",
    mesh: Annotated[
        Path | None,
        typer.Option(help="Mesh whose faces or vertices are the nodes, for the picture.",
                     show_default=False, parser=path),
    ] = None,
    positions: Annotated[
        Path | None,
        typer.Option(help="Table of node, x, y, for the picture.", show_default=False, parser=path),
    ] = None,
    title: Annotated[
        str | None, typer.Option(help="Heading of the page.", show_default=False)
    ] = None,
    leave_out_overlap: Annotated[
        bool, typer.Option("--leave-out-overlap", help="Leave out test rows that were trained on.")
    ] = False,
    groups: Annotated[
        str | None,
        typer.Option(
            "--groups", metavar="COLUMN", show_default=False,
            help="Without DATA: leave out training rows of one value together, of an input or of "
            "--groups-from.",
        ),
    ] = None,
    groups_from: Annotated[
        Path | None,
        typer.Option(
            "--groups-from", metavar="TABLE", show_default=False,
            help="Table with the training rows and the column of their groups.",
            parser=path,
        ),
    ] = None,
    others: Annotated[
        bool,
        typer.Option(
            "--alternatives/--no-alternatives",
            help="Fit other models to the same rows, and score them at the test rows.",
        ),
    ] = False,
    budget: Annotated[str, typer.Option(help="Time for --alternatives, as 90s or 5min.")] = "60s",
    seed: Annotated[int, typer.Option(help="Of the draws and of the subsample.")] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON instead of tables.")
    ] = False,
) -> None:  # fmt: skip
    """Compare, write the page and print the figures."""
    from coupledgp.cli.commands.report_tasks import (
        chosen,
        described,
        rows_at,
        test_data,
    )
    from coupledgp.cli.evaluate import announce
    from coupledgp.cli.readers.files import about
    from coupledgp.cli.readers.models import read_model
    from coupledgp.diagnostics.compare import by_solves
    from coupledgp.diagnostics.overlap import overlap_of, without_overlap
    from coupledgp.diagnostics.pages.terminal import print_report
    from coupledgp.ground.output import written_whole
    from coupledgp.ground.validation import check_choice, check_positive_int
    from coupledgp.models import posterior_report

    check_positive_int(seed, "--seed", minimum=0)
    check_choice(how, ("auto", "dense", "stochastic"), "--compare")
    check_budget(budget)
    if max_rows is not None:
        check_positive_int(max_rows, "--max-rows", minimum=2)
    check_positive_int(n_draws, "--n-draws", minimum=2)
    names = [name.strip() for name in couplings.split(",") if name.strip()]
    counts = _numbers(sizes)
    if counts and not names:
        raise InvalidInputError("--sizes: expected --couplings beside it")
    check_distinct({"--output": output}, [model, data, mesh, positions, groups_from])
    if groups_from is not None and groups is None:
        raise InvalidInputError("--groups-from: expected --groups with the column beside it")
    if data is None:
        needing = {"--target": target, "--couplings": names, "--mesh": mesh,
                   "--positions": positions, "--leave-out-overlap": leave_out_overlap,
                   "--compare": how != "auto", "--alternatives": others}  # fmt: skip
        for option, value in needing.items():
            if value:
                raise InvalidInputError(f"{option}: expected DATA beside it, test rows or values")
        left_out(model, output, groups, groups_from, node_column, max_rows, title, seed, as_json)
        return
    if groups is not None:
        raise InvalidInputError("--groups: expected no DATA beside it: it groups the training rows")
    with ExitStack() as stack, about(model, data):
        page = stack.enter_context(written_whole(output))
        with reporter("read"):
            fitted = read_model(model)
            where, y, geometry = test_data(fitted, data, target, node_column, mesh, positions)
        solved = by_solves(fitted, method=how)
        if max_rows is None:
            max_rows = MAX_SOLVED_ROWS if solved else MAX_TEST_ROWS
        overlap, rows = overlap_of(fitted, where, y)
        if leave_out_overlap:
            overlap, where, y = without_overlap(overlap, rows, where, y)
        kept = chosen(len(y), max_rows, seed)
        if solved and hasattr(fitted, "X_train_"):
            announce(len(fitted.y_train_), len(kept), "a smaller --max-rows takes less")
        result = posterior_report(
            fitted,
            rows_at(where, kept),
            y[kept],
            couplings=names,
            sizes=counts,
            n_draws=n_draws,
            random_state=seed,
            geometry=geometry,
            title=title or f"Posterior of {model.name} on {data.name}",
            data=described(data, len(kept), len(y)),
            method=how,
            alternatives=others,
            budget=budget,
        )
        if overlap.left_out:
            result = replace(result, overlap=overlap)
        result.to_html(page)
    if as_json:
        from coupledgp.ground.validation import json_values

        print(json.dumps(json_values(result.to_dict() | {"output": str(output)}), indent=2))
    else:
        print_report(result.layout(), written=output)


def left_out(
    model: Path,
    output: Path,
    groups: str | None,
    groups_from: Path | None,
    node_column: str,
    max_rows: int | None,
    title: str | None,
    seed: int,
    as_json: bool,
) -> None:
    """Write the page on what the training rows say of each other and print the figures."""
    from coupledgp.cli.commands.left_out_tasks import check_has_rows, groups_of
    from coupledgp.cli.readers.files import about
    from coupledgp.cli.readers.models import read_model
    from coupledgp.diagnostics import cross_validate
    from coupledgp.diagnostics.pages.terminal import print_report
    from coupledgp.ground.output import written_whole

    with ExitStack() as stack, about(model, groups_from):
        page = stack.enter_context(written_whole(output))
        fitted = read_model(model)
        check_has_rows(fitted, model)
        labels = None if groups is None else groups_of(fitted, groups, groups_from, node_column)
        result = cross_validate(
            fitted,
            labels,
            title=title or f"What {model.name} predicts of its own rows, left out",
            data=f"training rows of {model.name}",
            random_state=seed,
            **({} if max_rows is None else {"max_rows": max_rows}),
        )
        result.to_html(page)
    if as_json:
        from coupledgp.ground.validation import json_values

        print(json.dumps(json_values(result.to_dict() | {"output": str(output)}), indent=2))
    else:
        print_report(result.layout(), written=output)


def _numbers(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    for part in parts:
        if not is_whole(part) or int(part) < 1:
            raise InvalidInputError(f"--sizes: expected positive ints, got {part!r:.60}")
    return [int(part) for part in parts]
