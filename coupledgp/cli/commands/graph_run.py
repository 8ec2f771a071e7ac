"""The run of `coupledgp interpolate` for a kernel on the nodes of a graph."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, cast

from coupledgp.cli.commands.field_files import named
from coupledgp.cli.commands.graph_files import check_isolated, observations, write_law
from coupledgp.cli.commands.graph_tasks import (
    announce_law,
    beside_exact,
    describe,
    split_nodes,
)
from coupledgp.cli.commands.interpolate_options import FACE_WEIGHTS, OF_GRAPHS, InterpolateOptions
from coupledgp.cli.readers.networks import Network, read_network
from coupledgp.cli.readers.node_values import read_positions
from coupledgp.cli.readers.tables import check_table_path
from coupledgp.cli.shared.domain import Domain, Paths, texts
from coupledgp.cli.shared.evaluate import ExactComparison, scores
from coupledgp.cli.shared.options import selection_of
from coupledgp.cli.shared.parameters import as_options, parameters_of
from coupledgp.cli.show.graph import GraphResult, graph_report
from coupledgp.diagnostics.sections.report import Report
from coupledgp.errors import InvalidInputError
from coupledgp.formats.meshes import WRITERS, mesh_format
from coupledgp.graphs import Graph
from coupledgp.ground.progress import reporter
from coupledgp.ground.validation import check_choice
from coupledgp.models import GraphGPRegressor, choose_graph

MESH_NODES = ("faces", "vertices")
# Parameters of the model that its JSON has.
SETTINGS = ("kernel", *OF_GRAPHS, "random_state")
# Nodes at which a model that is exact already is compared with itself.
MOST_ITSELF = 64


class GraphDomain(Domain):
    """The nodes of a graph, with a kernel on them."""

    options: InterpolateOptions

    def __init__(self, options: InterpolateOptions, remarks: list[str]) -> None:
        super().__init__(options, remarks)
        nodes = options.nodes
        self.nodes = "faces" if nodes is None else check_choice(nodes, MESH_NODES, "--nodes")
        if options.report is not None and options.exact_nodes == 0:
            raise InvalidInputError(
                "--report: expected --exact-nodes > 0, the page compares models"
            )
        self.on_mesh = options.output.suffix.lower() in WRITERS
        if self.on_mesh:
            mesh_format(options.output, "--output")
        else:
            check_table_path(options.output, "--output")
        with as_options(options):
            self.model = GraphGPRegressor(
                None, options.kernel, random_state=options.seed,
                **parameters_of(GraphGPRegressor, options),
            )  # fmt: skip
            self.model.check_parameters()
        self.comparison: ExactComparison | None = None

    def read(self) -> None:
        options = self.options
        with reporter("read"):
            network = read_network(
                options.graph, self.nodes, options.weight, options.length, options.undirected
            )
            if self.on_mesh and network.mesh is None:
                kind = options.output.suffix.lower()
                raise InvalidInputError(
                    f"--output: a {kind} needs a mesh, got {str(options.graph)!r}"
                )
            if options.positions is not None:
                places = read_positions(options.positions, network, options.node_column)
                network = network.placed(places)
            observed = observations(
                network, options.values, options.node_column, options.one_value_column,
                options.signal, options.graph,
            )  # fmt: skip
        self.task = split_nodes(*observed, options.share, options.seed)
        check_isolated(network, observed[0], options.keep_isolated, options.graph)
        self.network, self.graphs = network, face_graphs(network, options.face_weights)

    def fit(self) -> None:
        with reporter("fit"):
            self.model, self.choice = choose_graph(
                self.model.set_params(graph=self.network.graph),
                self.graphs,
                self.network.graph.label_all(self.task.nodes),
                self.task.y,
            )
        self.network = replace(self.network, graph=self.model.graph)

    def law(self, paths: Paths) -> dict[str, Any]:
        options, model, network, task = self.options, self.model, self.network, self.task
        announce_law(model)
        with self.clock("predict"), reporter("predict"):
            self.predicted = model.predict(return_std=True, latent=options.latent)
            scored = scores(model.process_, task.hidden, task.hidden_y, "hidden")
        exact_nodes = options.exact_nodes
        if model.method_ != "walks":  # the exact model itself: a page shows that at some nodes
            exact_nodes = 0 if paths["report"] is None else min(exact_nodes, MOST_ITSELF)
        if exact_nodes:
            with self.clock("compare"):
                self.comparison = beside_exact(model, network, task, exact_nodes, options.seed)
        result = describe(model, network, task, scored, self.comparison, self.clock)
        result["data"] |= {
            "path": str(options.graph), **texts({"values": options.values}),
            "signal": options.signal, "share_hidden": options.share,
        }  # fmt: skip
        result["output"] = {"path": str(options.output), "latent": options.latent}
        n_walks = model.n_walks_ if model.method_ == "walks" else None
        settings = {name: getattr(model, name) for name in SETTINGS}
        result["model"] = {"model": "graph", **settings, "n_walks": n_walks}
        result["selection"] = selection_of(model)
        # Without a choice of weights there is nothing to report.
        result["face_weights"] = self.choice.to_dict() if network.nodes == "faces" else None
        return result

    def write(self, result: dict[str, Any], paths: Paths) -> None:
        output, page = paths["output"], paths["report"]
        assert output is not None
        write_law(self.network, named(self.predicted), output, self.options.output)
        if page is not None and self.comparison is not None:
            self.report(result).to_html(page)

    def report(self, result: dict[str, Any]) -> Report:
        found = GraphResult(result, self.network, self.task.nodes, self.predicted)
        return graph_report(found, self.comparison)


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
