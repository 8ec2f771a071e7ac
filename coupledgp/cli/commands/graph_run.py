"""The run of `coupledgp interpolate` for a kernel on the nodes of a graph."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Literal, cast

from coupledgp.cli.commands.graph_files import check_isolated, observations, write_law
from coupledgp.cli.commands.graph_tasks import (
    announce_law,
    beside_exact,
    describe,
    score,
    split_nodes,
)
from coupledgp.cli.evaluate import Stopwatch
from coupledgp.cli.options import number_or_auto, option, selection_of
from coupledgp.cli.readers.files import about
from coupledgp.cli.readers.networks import Network, read_network
from coupledgp.cli.readers.node_values import read_positions
from coupledgp.cli.readers.tables import check_table_path
from coupledgp.cli.show.graph import GraphFound, graph_report
from coupledgp.couplings.walkers.length_laws import GeometricLaw
from coupledgp.diagnostics.pages.terminal import print_report
from coupledgp.errors import InvalidInputError
from coupledgp.formats.meshes import WRITERS, mesh_format
from coupledgp.graphs import Graph
from coupledgp.ground.output import written_whole
from coupledgp.ground.progress import reporter
from coupledgp.ground.validation import (
    check_choice,
    check_positive,
    check_positive_int,
    json_values,
)
from coupledgp.inference.nodes.forecast import Budget
from coupledgp.models import GraphGPRegressor, choose_graph

# Weights of a graph of faces that the evidence chooses between, today's first.
FACE_WEIGHTS = ("unit", "inverse-distance")
# Nodes at which a model that is exact already is compared with itself.
MOST_ITSELF = 64


def run_graph(options: Mapping[str, Any], share: float) -> None:
    """Read, fit, score, compare, write and print; `options` are those of the command by name."""
    graph, output, report = options["graph"], options["output"], options["report"]
    values, signal, seed = options["values"], options["signal"], options["seed"]
    exact_nodes, latent = options["exact_nodes"], options["latent"]
    nodes, node_column = options["nodes"], options["node_column"]
    nodes = "faces" if nodes is None else check_choice(nodes, ("faces", "vertices"), "--nodes")
    node_column = "node" if node_column is None else node_column
    weights = check_choice(options["face_weights"], ("auto", *FACE_WEIGHTS), "--face-weights")
    check_positive_int(exact_nodes, "--exact-nodes", minimum=0)
    check_positive(options["kl_target"], "--kl-target")
    with option("--p-halt"):
        GeometricLaw(options["p_halt"])
    with option("--budget"):
        Budget.of(options["budget"])
    if report is not None and exact_nodes == 0:
        raise InvalidInputError("--report: expected --exact-nodes > 0, the page compares models")
    on_mesh = output.suffix.lower() in WRITERS
    if on_mesh:
        mesh_format(output, "--output")
    else:
        check_table_path(output, "--output")
    settings: dict[str, Any] = {
        "kernel": options["kernel"], "n_walks": number_or_auto(options["n_walks"], "--n-walks"),
        "coupling": options["coupling"], "length_law": options["length_law"],
        "p_halt": options["p_halt"], "method": options["method"],
        "exact_hops": number_or_auto(options["exact_hops"], "--exact-hops"),
        "random_state": seed, "kl_target": options["kl_target"], "budget": options["budget"],
    }  # fmt: skip
    with ExitStack() as stack, about(graph, values):
        # Outputs that cannot be written are refused before the work, not after it.
        output_path = stack.enter_context(written_whole(output))
        page_path = None if report is None else stack.enter_context(written_whole(report))
        with reporter("read"):
            network = read_network(
                graph, nodes, options["weight"], options["length"], options["undirected"]
            )
            if on_mesh and network.mesh is None:
                kind = output.suffix.lower()
                raise InvalidInputError(f"--output: a {kind} needs a mesh, got {str(graph)!r}")
            if options["positions"] is not None:
                places = read_positions(options["positions"], network, node_column)
                network = network.placed(places)
            observed = observations(
                network, values, node_column, options["value_column"], signal, graph
            )
        task = split_nodes(*observed, share, seed)
        check_isolated(network, observed[0], options["keep_isolated"], graph)
        graphs = face_graphs(network, weights)
        clock = Stopwatch()
        with clock("fit"), reporter("fit"):
            model, choice = choose_graph(
                GraphGPRegressor(network.graph, **settings),
                graphs,
                network.graph.label_all(task.nodes),
                task.y,
            )
        network = replace(network, graph=model.graph)
        announce_law(model)
        with clock("predict"), reporter("predict"):
            law = model.predict(return_std=True, latent=latent)
            scored = score(model, network, task)
        comparison = None
        if model.method_ != "walks":  # the exact model itself: a page shows that at some nodes
            exact_nodes = 0 if page_path is None else min(exact_nodes, MOST_ITSELF)
        if exact_nodes:
            with clock("compare"):
                comparison = beside_exact(model, network, task, exact_nodes, seed)
        result = describe(model, network, task, scored, comparison, clock)
        result["data"] |= {
            "path": str(graph), "values": None if values is None else str(values),
            "signal": signal, "share_hidden": share,
        }  # fmt: skip
        result["output"] = {"path": str(output), "latent": latent}
        n_walks = model.n_walks_ if model.method_ == "walks" else None
        result["model"] = {"model": "graph", **settings, "n_walks": n_walks}
        result["selection"] = selection_of(model)
        # Where there was no choice of weights there is nothing to say of them.
        result["face_weights"] = choice.to_dict() if network.nodes == "faces" else None
        write_law(network, law, output_path, output)
        found = GraphFound(result, network, task.nodes, law)
        if page_path is not None and comparison is not None:
            graph_report(found, comparison).to_html(page_path)
    if options["as_json"]:
        print(json.dumps(json_values(result), indent=2))
    else:
        print_report(graph_report(found, comparison))


def face_graphs(network: Network, weights: str) -> dict[str, Graph]:
    """The graphs to choose between, by the names of their weights: more than one for faces only."""
    if network.nodes != "faces":
        if weights != "auto":
            raise InvalidInputError(
                f"--face-weights: expected it for the faces of a mesh only, got {network.kind}"
            )
        return {"as read": network.graph}
    names = FACE_WEIGHTS if weights == "auto" else (weights,)
    kinds = cast(tuple[Literal["unit", "inverse-distance"], ...], names)
    return {name: Graph.from_trimesh(network.mesh, "faces", name) for name in kinds}
