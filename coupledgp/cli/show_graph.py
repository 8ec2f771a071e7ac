"""The results of `coupledgp interpolate` for people: tables, a page, and pictures of the graph."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.text import Text

from coupledgp.cli import show
from coupledgp.cli.evaluate import Comparison
from coupledgp.cli.networks import Network
from coupledgp.diagnostics.table import Section, figure_rows
from coupledgp.graphs.assembly import IntArray
from coupledgp.random import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# From where a mesh is looked at, in degrees.
AZIMUTH, ELEVATION = -60.0, 25.0
# A mesh is drawn as pixels: as many as this an inch.
DPI = 200


def interpolate(result: dict[str, Any], comparison: Comparison | None) -> None:
    """Print what an interpolation gave."""
    console = Console(highlight=False)
    console.print(Text(headline(result), style="bold"), soft_wrap=True)
    console.print(Text(model_line(result)), soft_wrap=True)
    for section in sections(result, comparison):
        console.print()
        show.print_section(console, section)
    console.print()
    verdict = [] if comparison is None else [comparison.report.verdict()]
    for line in [*verdict, *closing_lines(result)]:
        console.print(Text(line), soft_wrap=True)


def page(
    result: dict[str, Any],
    comparison: Comparison,
    network: Network,
    observed: IntArray,
    law: tuple[FloatArray, FloatArray],
) -> str:
    """Return the HTML page, with a picture where nodes have places."""
    from coupledgp.diagnostics.html import render  # matplotlib is slow to import

    tables = sections(result, None)
    drawn = network.mesh is not None or network.positions is not None
    opening = None
    if drawn:
        opening = (tables[0], caption(network), picture(network, observed, *law))
    return render(
        comparison.report,
        title=f"Interpolation on {Path(result['data']['path']).name}",
        lead=[headline(result), model_line(result)],
        opening=opening,
        sections=tables[1:] if drawn else tables,
        comparison=comparison_title(result),
        closing=closing_lines(result),
    )


def headline(result: dict[str, Any]) -> str:
    """Say what the data were."""
    data, graph = result["data"], result["graph"]
    what = f"values of {Path(data['values']).name}" if data["values"] else f"{data['signal']}"
    hidden = f", {data['n_hidden']} hidden for scoring" if data["n_hidden"] else ""
    return (
        f"{Path(data['path']).name}: {graph['n_nodes']} nodes, {graph['n_edges']} edges; {what}: "
        f"{data['n_observed']} observed{hidden}"
    )


def model_line(result: dict[str, Any]) -> str:
    """Say what the model is."""
    model = result["model"]
    law = model["length_law"]
    law = f"geometric length law (p = {model['p_halt']:g})" if law == "geometric" else f"{law} law"
    return (
        f"{model['kernel']} kernel, {model['n_walks']} walkers a node, coupling "
        f"{model['coupling']}, {law}, exact hops {model['exact_hops']}, "
        f"seed {model['random_state']}"
    )


def sections(result: dict[str, Any], comparison: Comparison | None) -> list[Section]:
    """Tables of the graph, the fit, the scores and the comparison, as far as there are any."""
    found = [
        Section("Graph", ("", "as read"), graph_rows(result)),
        Section("Fit", ("", "value", "remark"), fit_rows(result)),
    ]
    if result["scores"] is not None:
        title = f"Scores on {result['scores']['n_hidden']} hidden values"
        found.append(Section(title, ("", "model"), show.score_rows(result["scores"])))
    if comparison is not None:
        rows = figure_rows(comparison.report.figures, comparison.report.accuracy)
        found.append(Section(comparison_title(result), ("", "model", "reference"), rows))
    return found


def graph_rows(result: dict[str, Any]) -> list[tuple[str, str]]:
    """Rows (name, value) of the graph's size."""
    graph = result["graph"]
    return [
        ("source", graph["kind"]),
        ("nodes, edges", f"{graph['n_nodes']}, {graph['n_edges']}"),
        ("components", f"{graph['n_components']}"),
        ("isolated nodes", f"{graph['n_isolated']}"),
        ("nodes no data reach (prior)", f"{graph['n_nodes_beyond_data']}"),
    ]


def fit_rows(result: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Rows (name, value, remark) of what was fitted and how."""
    fitted, hops, cut = result["fitted"], result["exact_hops"], result["truncation"]
    error = fitted["log_evidence_error"]
    rows = [
        (f"{name} (variance)", f"{fitted[name]:.4g}", f"std {fitted[name] ** 0.5:.4g}")
        for name in ("outputscale", "noise")
    ]
    return [
        ("kernel", short_kernel(fitted["kernel"]), ""),
        *rows,
        ("log evidence", f"{fitted['log_evidence']:.6g}", f"± {error:.2g}" if error else "exact"),
        ("exact hops", f"{hops['n_hops']}", hops["reason"]),
        ("kernel error predicted", f"{hops['predicted_error']:.2g}", "relative"),
        ("truncated of the walks", f"{cut['relative']:.2g}", f"bias <= {cut['kernel_bound']:.2g}"),
    ]


def short_kernel(text: str) -> str:
    """A kernel's text with its numbers to four digits."""
    return re.sub(r"\d+\.\d{4,}(e-?\d+)?", lambda found: f"{float(found[0]):.4g}", text)


def comparison_title(result: dict[str, Any]) -> str:
    """Say what was compared, at how many nodes."""
    comparison, data, graph = result["comparison"], result["data"], result["graph"]
    if data["n_hidden"]:
        kind, total = "hidden", data["n_hidden"]
    elif comparison["at_training_inputs"]:
        kind, total = "observed", graph["n_nodes"]
    else:
        kind, total = "unobserved", None
    n_test = comparison["n_test"]
    part = f"{n_test}" if total in (None, n_test) else f"{n_test} of {total}"
    return f"Beside the exact GP of the same hyperparameters, at {part} {kind} nodes"


def closing_lines(result: dict[str, Any]) -> list[str]:
    """Say how the fit ended, what took how long, and what was written."""
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
        f"Written to {output['path']}: {where} for every node; std is that of {what}.",
    ]
    if result["data"]["n_hidden"]:
        lines.append("The hidden values were not used.")
    return lines


def colours(values: FloatArray) -> NDArray[np.uint8]:
    """Colours (n, 4) of values, viridis from the least to the greatest."""
    import matplotlib as mpl

    spread = float(np.ptp(values)) or 1.0
    rgba: NDArray[np.uint8] = mpl.colormaps["viridis"]((values - values.min()) / spread, bytes=True)
    return rgba


def caption(network: Network) -> str:
    """What the picture shows."""
    if network.mesh is not None:
        return f"Mean and standard deviation at the {network.nodes}, lightly shaded"
    return "Mean and standard deviation at the nodes; observed ones are circled"


def picture(network: Network, observed: IntArray, mean: FloatArray, std: FloatArray) -> str:
    """Mean and standard deviation on the mesh, or at the nodes' positions, as SVG."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    from coupledgp.diagnostics.html import svg_of

    figure = Figure(figsize=(8, 3.6), layout="constrained")
    FigureCanvasSVG(figure)
    draw_law(figure, figure.subplots(1, 2), network, observed, mean, std)
    return svg_of(figure)


def draw_law(
    figure: Figure,
    panels: Sequence[Axes],
    network: Network,
    observed: IntArray,
    mean: FloatArray,
    std: FloatArray,
) -> None:
    """Draw mean and standard deviation into two panels of a figure."""
    figure.set_dpi(DPI)
    for axes, title, values, name in (
        (panels[0], "mean", mean, "viridis"),
        (panels[1], "standard deviation", std, "magma"),
    ):
        if network.mesh is not None:
            drawn = _draw_mesh(axes, network, values, name)
        else:
            drawn = _draw_nodes(axes, network, values, name, observed)
        axes.set_title(title, fontsize=10)
        axes.set_axis_off()
        axes.autoscale_view()
        figure.colorbar(drawn, ax=axes, shrink=0.75)


def _draw_mesh(axes: Axes, network: Network, values: FloatArray, name: str) -> Any:
    """Faces from back to front, seen from afar."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import Normalize

    right, up, towards = view()
    faces = np.asarray(network.mesh.faces)
    corners = np.asarray(network.mesh.vertices)[faces]
    levels = values if network.nodes == "faces" else values[faces].mean(axis=1)
    scale = ScalarMappable(Normalize(values.min(), values.max()), name)
    rgba = scale.to_rgba(levels)
    light = np.abs(np.asarray(network.mesh.face_normals) @ (towards + 0.6 * up - 0.4 * right))
    rgba[:, :3] *= (0.78 + 0.22 * np.clip(light, 0, 1))[:, None]
    order = np.argsort((corners @ towards).mean(axis=1))
    flat = np.stack([corners @ right, corners @ up], axis=-1)[order]
    axes.add_collection(
        PolyCollection(
            list(flat), facecolors=rgba[order], edgecolors=rgba[order], linewidths=0.2,
            rasterized=True,
        )
    )  # fmt: skip
    axes.set_aspect("equal")
    return scale


def view() -> tuple[FloatArray, FloatArray, FloatArray]:
    """Directions of a picture: right, up and towards the eye."""
    azimuth, elevation = np.radians([AZIMUTH, ELEVATION])
    right = np.array([-np.sin(azimuth), np.cos(azimuth), 0.0])
    towards = np.array(
        [
            np.cos(azimuth) * np.cos(elevation),
            np.sin(azimuth) * np.cos(elevation),
            np.sin(elevation),
        ]
    )
    return right, np.cross(towards, right), towards


def _draw_nodes(
    axes: Axes, network: Network, values: FloatArray, name: str, observed: IntArray
) -> Any:
    """Edges as lines, nodes as dots, rings around the observed."""
    from matplotlib.collections import LineCollection

    places = network.positions
    assert places is not None
    edges = network.graph.adjacency.tocoo()
    segments = np.stack([places[edges.row], places[edges.col]], axis=1)
    lines = LineCollection(
        list(segments), colors="#9aa3ab", linewidths=0.4, zorder=1, rasterized=True
    )
    axes.add_collection(lines)
    size = float(np.clip(2500 / values.size, 2, 40))
    x, y = places.T
    axes.scatter(
        x[observed], y[observed], s=4 * size, facecolors="none", edgecolors="#57606a",
        linewidths=0.5, zorder=2, rasterized=True,
    )  # fmt: skip
    dots = axes.scatter(x, y, c=values, s=size, cmap=name, zorder=3, rasterized=True)
    axes.set_aspect("equal", adjustable="datalim")
    return dots
