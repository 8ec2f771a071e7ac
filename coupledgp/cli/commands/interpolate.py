"""`coupledgp interpolate`: from values at some nodes of a graph to a law at every node."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from coupledgp.cli.commands.fit import MODEL_PANEL, OUTPUT_PANEL
from coupledgp.cli.options import check_distinct, finite, number_or_auto, selection_of
from coupledgp.errors import InvalidInputError
from coupledgp.progress import reporter

DEFAULT_HIDDEN = 0.05
GRAPH = typer.Argument(
    metavar="GRAPH",
    help="Mesh, edge table (CSV, Parquet), GraphML or GML file, or a mesh such as icosphere.",
    show_default=False,
)


def interpolate(
    graph: Annotated[Path, GRAPH],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help=".csv, .tsv, .parquet, or .ply for a mesh.",
            rich_help_panel=OUTPUT_PANEL, show_default=False,
        ),
    ],
    values: Annotated[
        Path | None,
        typer.Option(help="Table of nodes and values; others are unobserved.", show_default=False),
    ] = None,
    node_column: Annotated[str, typer.Option(help="Column of nodes.")] = "node",
    value_column: Annotated[
        str | None,
        typer.Option(
            help="Column of values. \\[default: value, or the only other]", show_default=False
        ),
    ] = None,
    holdout: Annotated[
        float, typer.Option(help="Share of the observed nodes hidden for scoring, with --values.")
    ] = 0.0,
    signal: Annotated[
        str | None,
        typer.Option(help="Self-test on a mesh: normal-z, instead of --values.",
                     show_default=False),
    ] = None,
    hide: Annotated[
        float | None,
        typer.Option(
            help=f"Share of the nodes hidden, with --signal. \\[default: {DEFAULT_HIDDEN}]",
            show_default=False,
        ),
    ] = None,
    nodes: Annotated[str, typer.Option(help="Of a mesh: faces or vertices.")] = "faces",
    weight: Annotated[
        str | None,
        typer.Option(help="Column or edge attribute of weights. \\[default: weight, if there]",
                     show_default=False),
    ] = None,
    length: Annotated[
        str | None,
        typer.Option(
            help="Column or edge attribute of lengths: the weight is mean length / length. "
            "\\[default: length, length_m or length_km, if there]",
            show_default=False,
        ),
    ] = None,
    undirected: Annotated[
        bool, typer.Option("--undirected", help="Drop the directions of a directed graph.")
    ] = False,
    keep_isolated: Annotated[
        bool,
        typer.Option("--keep-isolated", help="Allow nodes without edge and value; they get "
                     "the prior."),
    ] = False,
    positions: Annotated[
        Path | None,
        typer.Option(help="Table of node, x, y (or longitude, latitude), for the picture.",
                     show_default=False),
    ] = None,
    kernel: Annotated[
        str,
        typer.Option(
            help="auto (heat, regularized-laplacian or matern, by evidence), one of these, "
            "random-walk, inverse-cosine or learned.",
            rich_help_panel=MODEL_PANEL,
        ),
    ] = "auto",
    n_walks: Annotated[
        str,
        typer.Option(
            help="Walkers a node, or auto: as many as --kl-target takes.",
            rich_help_panel=MODEL_PANEL,
        ),
    ] = "32",
    coupling: Annotated[
        str,
        typer.Option(
            help="LENGTHS+STEPS with lengths iid, antithetic, sigma, stratified and steps "
            "independent, repelling, systematic.",
            rich_help_panel=MODEL_PANEL,
        ),
    ] = "stratified+systematic",
    kl_target: Annotated[
        float,
        typer.Option(
            help="For auto: KL to the exact GP, nats per node.", rich_help_panel=MODEL_PANEL
        ),
    ] = 0.01,
    length_law: Annotated[
        str, typer.Option(help="matched or geometric.", rich_help_panel=MODEL_PANEL)
    ] = "matched",
    p_halt: Annotated[
        float,
        typer.Option(help="Chance to halt, of the geometric law.", rich_help_panel=MODEL_PANEL),
    ] = 0.1,
    exact_hops: Annotated[
        str, typer.Option(help="auto or a number.", rich_help_panel=MODEL_PANEL)
    ] = "auto",
    seed: Annotated[int, typer.Option(help="Of the walks, the split and the subsamples.")] = 0,
    exact_nodes: Annotated[
        int, typer.Option(help="Most nodes at which the exact GP is compared; 0 leaves it out.")
    ] = 500,
    latent: Annotated[
        bool,
        typer.Option("--latent", help="Leave the noise out of the standard deviation written.",
                     rich_help_panel=OUTPUT_PANEL),
    ] = False,
    report: Annotated[
        Path | None,
        typer.Option(help="Write an HTML page.", rich_help_panel=OUTPUT_PANEL, show_default=False),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print JSON instead of tables.", rich_help_panel=OUTPUT_PANEL),
    ] = False,
) -> None:  # fmt: skip
    """Read, fit, score, compare, write and print."""
    from coupledgp.cli.commands.graph_files import check_isolated, observations, write_law
    from coupledgp.cli.commands.graph_tasks import beside_exact, describe, score, split_nodes
    from coupledgp.cli.evaluate import Stopwatch
    from coupledgp.cli.readers.networks import read_network
    from coupledgp.cli.readers.node_values import read_positions
    from coupledgp.cli.readers.tables import check_table_path
    from coupledgp.cli.show import graph as show_graph
    from coupledgp.models import GraphGPRegressor
    from coupledgp.output import written_whole
    from coupledgp.validation import check_choice, check_positive_int

    share = _check_task(values, signal, hide, holdout)
    check_choice(nodes, ("faces", "vertices"), "--nodes")
    check_positive_int(exact_nodes, "--exact-nodes", minimum=0)
    check_positive_int(seed, "--seed", minimum=0)
    if report is not None and exact_nodes == 0:
        raise InvalidInputError("--report: expected --exact-nodes > 0, the page compares models")
    if output.suffix.lower() != ".ply":
        check_table_path(output, "--output")
    check_distinct({"--output": output, "--report": report}, [graph, values, positions])
    settings: dict[str, Any] = {
        "kernel": kernel, "n_walks": number_or_auto(n_walks, "--n-walks"), "coupling": coupling,
        "length_law": length_law,
        "p_halt": p_halt, "exact_hops": number_or_auto(exact_hops, "--exact-hops"),
        "random_state": seed, "kl_target": kl_target,
    }  # fmt: skip
    with ExitStack() as stack:
        # Outputs that cannot be written are refused before the work, not after it.
        output_path = stack.enter_context(written_whole(output))
        page_path = None if report is None else stack.enter_context(written_whole(report))
        with reporter("read"):
            network = read_network(graph, nodes, weight, length, undirected)
            if output.suffix.lower() == ".ply" and network.mesh is None:
                raise InvalidInputError(f"--output: a .ply needs a mesh, got {str(graph)!r}")
            if positions is not None:
                network = network.placed(read_positions(positions, network, node_column))
            observed = observations(network, values, node_column, value_column, signal, graph)
        task = split_nodes(*observed, share, seed)
        check_isolated(network, observed[0], keep_isolated, graph)
        model = GraphGPRegressor(network.graph, **settings)
        clock = Stopwatch()
        with clock("fit"), reporter("fit"):
            model.fit(network.graph.label_all(task.nodes), task.y)
        with clock("predict"), reporter("predict"):
            law = model.predict(return_std=True, latent=latent)
            scored = score(model, network, task)
        comparison = None
        if exact_nodes:
            with clock("compare"):
                comparison = beside_exact(model, network, task, exact_nodes, seed)
        result = describe(model, network, task, scored, comparison, clock)
        result["data"] |= {
            "path": str(graph), "values": None if values is None else str(values),
            "signal": signal, "share_hidden": share,
        }  # fmt: skip
        result["output"] = {"path": str(output), "latent": latent}
        result["model"] = settings | {"n_walks": model.n_walks_}
        result["selection"] = selection_of(model)
        write_law(network, law, output_path, output)
        if page_path is not None and comparison is not None:
            page = show_graph.page(result, comparison, network, task.nodes, law)
            page_path.write_text(page, encoding="utf-8")
    if as_json:
        print(json.dumps(finite(result), indent=2))
    else:
        show_graph.interpolate(result, comparison)


def _check_task(
    values: Path | None, signal: str | None, hide: float | None, holdout: float
) -> float:
    """Check the options of the task; return the share of the nodes to hide."""
    from coupledgp.validation import check_choice

    if (values is None) == (signal is None):
        raise InvalidInputError(
            "--values, --signal: expected one of them, a table or (for a mesh) normal-z"
        )
    if signal is not None:
        check_choice(signal, ("normal-z",), "--signal")
    if hide is not None and signal is None:
        raise InvalidInputError("--hide: expected --signal beside it; --holdout is for --values")
    if holdout and values is None:
        raise InvalidInputError("--holdout: expected --values beside it; --hide is for --signal")
    name = "--hide" if signal is not None else "--holdout"
    share = holdout if signal is None else DEFAULT_HIDDEN if hide is None else hide
    if not 0 <= share < 1:
        raise InvalidInputError(f"{name}: expected a share from 0 to below 1, got {share:g}")
    return share
