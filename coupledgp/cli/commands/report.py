"""`coupledgp report`: one page on how good the posterior of a saved model is."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.text import Text

from coupledgp.cli.evaluate import MAX_SOLVED_ROWS, MAX_TEST_ROWS, announce
from coupledgp.cli.options import check_distinct, finite
from coupledgp.cli.readers.networks import Network, read_network
from coupledgp.cli.readers.node_values import read_positions, read_values
from coupledgp.cli.readers.tables import check_columns, numeric, read_table
from coupledgp.cli.show import table as show
from coupledgp.diagnostics.compare import DENSE_ROWS, by_solves
from coupledgp.diagnostics.pages.table import Section, figure_columns, figure_rows
from coupledgp.diagnostics.study_report import StudyReport, study_section
from coupledgp.errors import InvalidInputError
from coupledgp.gp.container import written_whole
from coupledgp.graphs.assembly import IntArray
from coupledgp.models import load_model, posterior_report
from coupledgp.progress import reporter
from coupledgp.random import FloatArray
from coupledgp.validation import check_choice, check_positive_int


def report(
    model: Annotated[
        Path,
        typer.Argument(metavar="MODEL", help="File that fit --include-data wrote, or gp.save.",
                       show_default=False),
    ],
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA", show_default=False,
            help="Test rows with the target, or nodes and values for a graph model.",
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="HTML page to write.", show_default=False)
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
                     show_default=False),
    ] = None,
    positions: Annotated[
        Path | None,
        typer.Option(help="Table of node, x, y, for the picture.", show_default=False),
    ] = None,
    title: Annotated[
        str | None, typer.Option(help="Heading of the page.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the draws and of the subsample.")] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON instead of tables.")
    ] = False,
) -> None:  # fmt: skip
    """Compare, write the page and print the figures."""
    check_positive_int(seed, "--seed", minimum=0)
    check_choice(how, ("auto", "dense", "stochastic"), "--compare")
    if max_rows is not None:
        check_positive_int(max_rows, "--max-rows", minimum=2)
    check_positive_int(n_draws, "--n-draws", minimum=2)
    names = [name.strip() for name in couplings.split(",") if name.strip()]
    counts = _numbers(sizes)
    if counts and not names:
        raise InvalidInputError("--sizes: expected --couplings beside it")
    check_distinct({"--output": output}, [model, data, mesh, positions])
    with ExitStack() as stack:
        page = stack.enter_context(written_whole(output))
        with reporter("read"):
            fitted = load_model(model)
            where, y, geometry = _test_data(fitted, data, target, node_column, mesh, positions)
        solved = by_solves(fitted, method=how)
        if max_rows is None:
            max_rows = MAX_SOLVED_ROWS if solved else MAX_TEST_ROWS
        kept = _kept(len(y), max_rows, seed)
        if solved and hasattr(fitted, "X_train_"):
            announce(len(fitted.y_train_), len(kept), "a smaller --max-rows takes less")
        result = posterior_report(
            fitted,
            where[kept] if isinstance(where, np.ndarray) else where.take(kept),
            y[kept],
            couplings=names,
            sizes=counts,
            n_draws=n_draws,
            random_state=seed,
            geometry=geometry,
            title=title or f"Posterior of {model.name} on {data.name}",
            data=_described(data, len(kept), len(y)),
            method=how,
        )
        page.write_text(result.to_html(), encoding="utf-8")
    if as_json:
        print(json.dumps(finite(result.to_dict() | {"output": str(output)}), indent=2))
    else:
        _print(result, output)


def _numbers(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    for part in parts:
        if not part.isdecimal() or int(part) < 1:
            raise InvalidInputError(f"--sizes: expected positive ints, got {part!r}")
    return [int(part) for part in parts]


def _kept(n_rows: int, max_rows: int, seed: int) -> IntArray:
    if n_rows <= max_rows:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(seed).choice(n_rows, max_rows, replace=False))


def _described(data: Path, n_kept: int, n_rows: int) -> str:
    return data.name if n_kept == n_rows else f"{data.name}, {n_kept} of {n_rows} rows"


def _test_data(
    model: Any, data: Path, target: str | None, node_column: str, mesh: Path | None,
    positions: Path | None,
) -> tuple[Any, FloatArray, Any]:  # fmt: skip
    """Where to compare, the targets there, and where the nodes are."""
    if hasattr(model, "graph"):
        network = Network(model.graph, "saved graph")
        nodes, values = read_values(data, network, node_column, target)
        labels = np.asarray(model.graph.label_all(nodes))
        if mesh is not None:
            return labels, values, _mesh(mesh, model.graph.n_nodes)
        places = None if positions is None else read_positions(positions, network, node_column)
        return labels, values, places
    for name, path in (("--mesh", mesh), ("--positions", positions)):
        if path is not None:
            raise InvalidInputError(f"{name}: expected a model of a graph, this one has none")
    return (*_rows(model, data, target), None)


def _mesh(path: Path, n_nodes: int) -> Any:
    for nodes in ("faces", "vertices"):
        network = read_network(path, nodes, None, None, False)
        if network.mesh is None:
            raise InvalidInputError(f"--mesh: expected a mesh file, got {str(path)!r}")
        if network.graph.n_nodes == n_nodes:
            return network.mesh
    raise InvalidInputError(
        f"--mesh: {path}: expected {n_nodes} faces or vertices, as many as the model's graph has "
        "nodes"
    )


def _rows(model: Any, data: Path, target: str | None) -> tuple[Any, FloatArray]:
    """Inputs in the order of the model's columns, and targets."""
    table, source = read_table(data), str(data)
    names = getattr(model, "feature_names_in_", None)
    inputs = None if names is None else list(names)
    if target is None:
        others = [n for n in table.column_names if inputs is not None and n not in inputs]
        if len(others) != 1:
            raise InvalidInputError(
                f"--target: expected the target's column, one of {', '.join(table.column_names)}"
            )
        target = others[0]
    inputs = inputs or [name for name in table.column_names if name != target]
    check_columns(table, [*inputs, target], source)
    if len(inputs) != model.n_features_in_:
        raise InvalidInputError(
            f"{source}: expected {model.n_features_in_} inputs beside {target!r}, got {len(inputs)}"
        )
    y = numeric(table, [target], source).column(0).to_numpy()
    X = numeric(table, inputs, source)
    return (np.column_stack(X.columns) if names is None else X), y


def _print(result: StudyReport, output: Path) -> None:
    console = Console(highlight=False)
    console.print(Text(result.title, style="bold"), soft_wrap=True)
    console.print()
    rows = figure_rows(result.figures, result.accuracy)
    columns = figure_columns(result.figures)
    show.print_section(console, Section("Beside the exact GP", columns, rows))
    if result.study is not None:
        console.print()
        show.print_section(console, study_section(result.study, result.figures))
    console.print()
    lines = [result.verdict(), *result.remarks]
    lines += [] if result.study is None else [result.study.verdict()]
    for line in [*lines, f"Written: {output}"]:
        console.print(Text(line), soft_wrap=True)
