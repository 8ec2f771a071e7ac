"""The report of `coupledgp interpolate` on a graph: the map, the graph, the fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from coupledgp.cli.readers.networks import Network
from coupledgp.cli.shared.evaluate import ExactComparison
from coupledgp.cli.shared.options import selection_line
from coupledgp.cli.show import table as show
from coupledgp.diagnostics.pages.mesh import NodeLayout, NodeMap
from coupledgp.diagnostics.sections.report import Report
from coupledgp.diagnostics.sections.section import (
    ReportTable,
    Section,
    register_section,
    sections_of,
    short_numbers,
)
from coupledgp.inference.nodes.forecast import Step
from coupledgp.random import FloatArray, IntArray


class GraphResult(NamedTuple):
    """Result of an interpolation: its description and, for a map, the law at the nodes.

    Attributes
    ----------
    result : dict
        Figures and settings, as in the JSON.
    network : Network
    observed : IntArray (n,)
        Numbers of the observed nodes.
    law : (FloatArray, FloatArray)
        Mean and standard deviation (n_nodes,).
    """

    result: dict[str, Any]
    network: Network
    observed: IntArray
    law: tuple[FloatArray, FloatArray]


def graph_report(found: GraphResult, comparison: ExactComparison | None) -> Report:
    """The report of an interpolation, with a map where nodes have positions."""
    result = found.result
    lead = [headline(result), model_line(result)]
    if comparison is not None:
        lead.append(comparison_title(result))
    title = f"Interpolation on {Path(result['data']['path']).name}"
    closing = [*selection_line(result["selection"]), *closing_lines(result)]
    drawn = _map_of(found)
    statements = [] if drawn is None else [drawn.told()]
    sections = sections_of(found, ["graph"])
    shell = Report(title, lead, closing, statements=statements, sections=sections)
    return show.beside(shell, comparison)


def headline(result: dict[str, Any]) -> str:
    """Describe the data in a sentence."""
    data, graph = result["data"], result["graph"]
    what = f"values of {Path(data['values']).name}" if data["values"] else f"{data['signal']}"
    hidden = f", {data['n_hidden']} hidden for scoring" if data["n_hidden"] else ""
    return (
        f"{Path(data['path']).name}: {graph['n_nodes']} nodes, {graph['n_edges']} edges; {what}: "
        f"{data['n_observed']} observed{hidden}"
    )


def model_line(result: dict[str, Any]) -> str:
    """Describe the model in a line."""
    model = result["model"]
    if model["n_walks"] is None:
        return (
            f"{model['kernel']} kernel, exact by {result['method']['name']}, "
            f"seed {model['random_state']}"
        )
    law = model["length_law"]
    law = f"geometric length law (p = {model['p_halt']:g})" if law == "geometric" else f"{law} law"
    return (
        f"{model['kernel']} kernel, {model['n_walks']} walkers a node, coupling "
        f"{model['coupling']}, {law}, exact hops {model['exact_hops']}, "
        f"seed {model['random_state']}"
    )


def map_section(found: GraphResult) -> Section | None:
    """The law at the places of the nodes; None where they have none."""
    drawn = _map_of(found)
    return None if drawn is None else Section("map", pictures=[drawn.picture])


def _map_of(found: GraphResult) -> NodeMap | None:
    if found.network.mesh is None and found.network.positions is None:
        return None
    return node_map(found.network, found.observed, *found.law)


def fit_section(found: GraphResult) -> Section:
    """Size of the graph, hyperparameters and settings of the fit."""
    tables = [
        ReportTable("Graph", ("", "as read"), graph_rows(found.result)),
        ReportTable("Fit", ("", "value", "remark"), fit_rows(found.result)),
    ]
    names = ("outputscale", "noise", "log_evidence")
    return Section("fit", figures={one: found.result["fitted"][one] for one in names},
                   tables=tables)  # fmt: skip


register_section("map", map_section, "graph")
register_section("fit", fit_section, "graph")
register_section("test-scores", lambda found: show.score_section(found.result), "graph")


def graph_rows(result: dict[str, Any]) -> list[tuple[str, str]]:
    """Rows (name, value) of the graph's size."""
    graph, weights = result["graph"], result["face_weights"]
    of_faces = [] if weights is None else [("weights of links", weights["explanation"])]
    return [
        ("source", graph["kind"]),
        ("nodes, edges", f"{graph['n_nodes']}, {graph['n_edges']}"),
        *of_faces,
        ("components", f"{graph['n_components']}"),
        ("isolated nodes", f"{graph['n_isolated']}"),
        ("nodes no data reach (prior)", f"{graph['n_nodes_beyond_data']}"),
    ]


def fit_rows(result: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Rows (name, value, remark) of the fitted hyperparameters and the settings of the fit."""
    fitted = result["fitted"]
    rows = [
        (f"{name} (variance)", f"{fitted[name]:.4g}", f"std {fitted[name] ** 0.5:.4g}")
        for name in ("outputscale", "noise")
    ]
    return [
        ("kernel", short_numbers(fitted["kernel"]), ""),
        *rows,
        ("log evidence", *evidence_cells(fitted)),
        *method_rows(result),
    ]


def evidence_cells(fitted: dict[str, Any]) -> tuple[str, str]:
    """Value and remark of the log evidence."""
    value, error = fitted["log_evidence"], fitted["log_evidence_error"]
    if value is None:
        return "not computed", "it takes long on this graph"
    return f"{value:.6g}", f"± {error:.2g}" if error else "exact"


def method_rows(result: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Rows (name, value, remark) of the hops and walks, or of the exact method."""
    method, hops, cut = result["method"], result["exact_hops"], result["truncation"]
    if hops is None:
        return [("method", method["name"], method["reason"])]
    return [
        ("exact hops", f"{hops['n_hops']}", hops["reason"]),
        ("kernel error predicted", f"{hops['predicted_error']:.2g}", "relative"),
        ("truncated of the walks", f"{cut['relative']:.2g}", f"bias <= {cut['kernel_bound']:.2g}"),
    ]


def comparison_title(result: dict[str, Any]) -> str:
    """Title of the comparison, with the number of nodes."""
    comparison, data, graph = result["comparison"], result["data"], result["graph"]
    if data["n_hidden"]:
        kind, total = "hidden", data["n_hidden"]
    elif comparison["at_training_inputs"]:
        kind, total = "observed", graph["n_nodes"]
    else:
        kind, total = "unobserved", None
    n_test = comparison["n_test"]
    part = f"{n_test}" if total in (None, n_test) else f"{n_test} of {total}"
    solved = show.by_solves(comparison)
    return f"Beside it the exact GP of the same hyperparameters, at {part} {kind} nodes{solved}"


def closing_lines(result: dict[str, Any]) -> list[str]:
    """Lines on the end of the fit, the seconds of each part of the work, and the files written."""
    fitted, output = result["fitted"], result["output"]
    seconds = ", ".join(f"{name} {value:.2f} s" for name, value in result["seconds"].items())
    ending = "settled" if fitted["converged"] else "stopped before it settled"
    what = "the function, noise left out" if output["latent"] else "observations, noise included"
    where = "node, mean and std"
    if output["path"].lower().endswith(".ply"):
        where = "a mesh coloured by the mean, with properties mean and std,"
    lines = [
        f"The fit {ending} after {fitted['n_rounds']} rounds, {fitted['n_evaluations']} "
        f"evaluations. Time: {seconds}.",
        *(str(Step(**step)) for step in fitted["steps"]),
        f"Written to {output['path']}: {where} for every node; std is that of {what}.",
    ]
    if result["data"]["n_hidden"]:
        lines.append("The hidden values were not used.")
    return lines


def node_map(network: Network, observed: IntArray, mean: FloatArray, std: FloatArray) -> NodeMap:
    """Maps of the law at the positions of the nodes; mean and std are (n_nodes,)."""
    layout = NodeLayout(network.graph, network.mesh, network.nodes, network.positions)
    return NodeMap(layout, mean, std, None, observed)
