"""The run of `coupledgp interpolate` for a kernel on the nodes of a graph.

Observations that `coupledgp interpolate` reads, and the law that it writes.

Scores at hidden nodes and the comparison with the exact GP, for `coupledgp interpolate`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import pyarrow as pa

from coupledgp.cli.commands.field_files import named
from coupledgp.cli.commands.interpolate_options import FACE_WEIGHTS, OF_GRAPHS, InterpolateOptions
from coupledgp.cli.readers.networks import Network, label_column, read_network
from coupledgp.cli.readers.node_values import read_positions, read_values
from coupledgp.cli.readers.notices import announce
from coupledgp.cli.readers.tables import check_table_path, write_table
from coupledgp.cli.shared.declare import as_options, parameters_of
from coupledgp.cli.shared.domain import Domain, Paths, heading, texts
from coupledgp.cli.shared.evaluate import ExactComparison, Stopwatch, scores
from coupledgp.cli.shared.options import selection_of
from coupledgp.cli.show.graph import GraphResult, graph_report
from coupledgp.diagnostics import compare
from coupledgp.diagnostics.sections.report import Report
from coupledgp.errors import InvalidInputError
from coupledgp.formats.meshes import WRITERS, checked_fields, mesh_format, save_mesh
from coupledgp.gp.node_costs import probes_forecast
from coupledgp.graphs import Graph
from coupledgp.ground.progress import reporter
from coupledgp.ground.validation import check_choice
from coupledgp.inference.nodes.posterior import IterativePosterior
from coupledgp.models import GraphGPRegressor, choose_graph
from coupledgp.random import FloatArray, IntArray


def write_law(network: Network, fields: dict[str, Any], path: Path, like: Path) -> None:
    """Write nodes and fields (n_nodes,) of them as a table, or with the mesh."""
    if like.suffix.lower() not in WRITERS:
        labels = label_column([network.graph.label(k) for k in range(network.graph.n_nodes)])
        write_table(pa.table({"node": labels, **fields}), path, like)
        return
    save_mesh(path, like.suffix.lower(), checked_fields(network.mesh, network.nodes, fields))


def observations(
    network: Network, values: Path | None, node_column: str | None, value_column: str | None,
    signal: str | None, graph: Path,
) -> tuple[IntArray, FloatArray]:  # fmt: skip
    """Observed nodes (n,) and their values (n,), from a table or from the geometry of the mesh."""
    if values is not None:
        nodes, found, _ = read_values(values, network, node_column, value_column)
        return nodes, found
    if network.mesh is None:
        raise InvalidInputError(f"--signal: {signal} needs a mesh, got {str(graph)!r}")
    return np.arange(network.graph.n_nodes), network.normal_z()


def check_isolated(network: Network, observed: IntArray, keep: bool, path: Path) -> None:
    """Refuse nodes with neither edge nor value, unless `keep`; `observed` are node numbers (n,)."""
    alone = np.setdiff1d(np.flatnonzero(network.graph.degrees == 0), observed)
    if alone.size and not keep:
        label = network.graph.label(int(alone[0]))
        raise InvalidInputError(
            f"{path}: expected an edge or a value for every node, got neither for {label!r} "
            f"({alone.size} such nodes); --keep-isolated gives them the prior"
        )


# Seconds, by forecast, above which a log evidence that the fit did not need is left out.
EVIDENCE_SECONDS = 20.0


@dataclass(frozen=True)
class Task:
    """Observations for the fit, and observations that are hidden from it.

    Attributes
    ----------
    nodes : IntArray (n,)
        Numbers of the observed nodes.
    y : FloatArray (n,)
        Values at these nodes.
    hidden : IntArray (h,)
        Numbers of the hidden nodes.
    hidden_y : FloatArray (h,)
        Values at the hidden nodes.
    """

    nodes: IntArray
    y: FloatArray
    hidden: IntArray
    hidden_y: FloatArray


def split_nodes(nodes: IntArray, y: FloatArray, share: float, seed: int) -> Task:
    """Hide a random share of the distinct nodes of (n,), values (n,); at least one stays."""
    distinct = np.unique(nodes)
    n_hidden = min(round(share * distinct.size), distinct.size - 1)
    chosen = np.random.default_rng(seed).permutation(distinct)[:n_hidden]
    away = np.isin(nodes, chosen)
    return Task(nodes[~away], y[~away], nodes[away], y[away])


def beside_exact(
    model: GraphGPRegressor, network: Network, task: Task, exact_nodes: int, seed: int
) -> ExactComparison:
    """Compare with the exact twin at hidden nodes, or without any at unobserved or observed ones.

    If there are more than `exact_nodes` of them, a random subset is compared.
    """
    unobserved = np.setdiff1d(np.arange(network.graph.n_nodes), task.nodes)
    known = task.hidden.size > 0
    points = task.hidden if known else unobserved if unobserved.size else np.unique(task.nodes)
    chosen = np.arange(points.size)
    if points.size > exact_nodes:
        rng = np.random.default_rng([seed, 1])
        chosen = np.sort(rng.choice(points.size, exact_nodes, replace=False))
    labels = network.graph.label_all(points[chosen])
    report = compare(model, labels, task.hidden_y[chosen] if known else None)
    return ExactComparison(report, int(task.nodes.size), int(chosen.size), not unobserved.size)


def of_walks(model: GraphGPRegressor) -> dict[str, Any]:
    """Hops and truncation of walks; None where the kernel is exact and nothing was walked."""
    if model.method_ != "walks":
        return {"exact_hops": None, "truncation": None}
    plan, cut = model.plan_, model.truncation_
    return {
        "exact_hops": {
            "n_hops": plan.n_hops,
            "reason": plan.reason,
            "predicted_error": plan.predicted_error,
        },
        "truncation": {"relative": cut.relative, "kernel_bound": cut.kernel_bound},
    }


def evidence_of(model: GraphGPRegressor) -> dict[str, float | None]:
    """Log evidence and its standard error; None where computing them takes too long."""
    names, process = ("log_evidence", "log_evidence_error"), model.first_process_
    posterior = process.posterior
    if process.known_evidence is None and isinstance(posterior, IterativePosterior):
        ratio = posterior.noise / posterior.outputscale
        kernel = posterior.prior.kernel
        forecast = probes_forecast(process.graph, kernel, ratio, process.settings)
        if forecast.seconds > EVIDENCE_SECONDS:
            return dict.fromkeys(names)
    values = model.log_marginal_likelihood_value_, model.log_marginal_likelihood_error_
    return dict(zip(names, values, strict=True))


def announce_law(model: GraphGPRegressor) -> None:
    """Say the expected time of the law of all nodes, if it is long."""
    count = model.first_process_.graph.n_nodes
    announce(
        f"means and standard deviations of all {count} nodes by {model.method_}",
        model.steps_[-1].forecast if model.steps_ else 0.0,
    )


def describe(
    model: GraphGPRegressor,
    network: Network,
    task: Task,
    scored: dict[str, Any] | None,
    comparison: ExactComparison | None,
    clock: Stopwatch,
) -> dict[str, Any]:
    """Return data, settings and results of the run as plain values, the content of `--json`."""
    graph = network.graph
    n_components, member = graph.components()
    return {
        **heading(),
        "data": {"n_observed": int(task.nodes.size), "n_hidden": int(task.hidden.size)},
        "graph": {
            "kind": network.kind,
            "n_nodes": graph.n_nodes,
            "n_edges": graph.n_edges,
            "n_components": n_components,
            "n_isolated": int((graph.degrees == 0).sum()),
            "n_nodes_beyond_data": int((~np.isin(member, member[task.nodes])).sum()),
        },
        "fitted": {
            "kernel": repr(model.kernel_),
            "outputscale": model.outputscale_,
            "noise": model.noise_,
            **evidence_of(model),
            "n_rounds": int(model.n_rounds_),
            "n_evaluations": int(model.n_evaluations_),
            "converged": bool(model.converged_),
            "steps": [asdict(step) for step in model.steps_],
        },
        "method": {"name": model.method_, "reason": model.method_reason_},
        **of_walks(model),
        "scores": scored,
        "comparison": None if comparison is None else comparison.to_dict(),
        "seconds": clock.seconds,
    }


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
