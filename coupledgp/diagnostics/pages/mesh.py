"""Maps of a predictive law at the nodes of a graph, drawn on a mesh or in the plane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.graphs import Graph
from coupledgp.random import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Direction from which a mesh is looked at, in degrees: from the side and a little above, so that
# three sides of a solid are in view.
AZIMUTH, ELEVATION = -60.0, 25.0
# Pixels per inch of the parts drawn as pixels, which are meshes and edges: sharp on fine screens.
DPI = 200
# Colour of faces without a value.
GREY = "#c9ced3"
# Colours of edges, and of the rings around observed nodes.
EDGES, RINGS = "#9aa3ab", "#57606a"
# Share of its brightness that a face in the shade loses: enough to see the shape, too little to
# mistake a colour for another.
SHADE = 0.22


@dataclass(frozen=True, eq=False)
class NodeLayout:
    """Places of the nodes of a graph: on a mesh, or in the plane.

    Attributes
    ----------
    graph : Graph
    mesh : trimesh.Trimesh or None
        Mesh whose faces or vertices are the nodes.
    nodes : str
        Parts of the mesh that are the nodes, `"faces"` or `"vertices"`; `"nodes"` without a mesh.
    positions : FloatArray (n_nodes, 2), or None
        Coordinates of the nodes in the plane.
    """

    graph: Graph
    mesh: Any = None
    nodes: str = "nodes"
    positions: FloatArray | None = None

    @classmethod
    def of(cls, geometry: Any, graph: Graph) -> NodeLayout:
        """Layout of a graph's nodes on a trimesh mesh, or at positions (n_nodes, 2).

        Raises
        ------
        InvalidInputError
            A mesh has neither as many faces nor as many vertices as the graph has nodes, or
            positions are not finite or not of shape (n_nodes, 2).
        """
        if hasattr(geometry, "faces") and hasattr(geometry, "vertices"):
            counts = {"faces": len(geometry.faces), "vertices": len(geometry.vertices)}
            for nodes, count in counts.items():
                if count == graph.n_nodes:
                    return cls(graph, geometry, nodes)
            raise InvalidInputError(
                f"geometry: expected {graph.n_nodes} faces or vertices, as many as the graph has "
                f"nodes, got {counts['faces']} faces and {counts['vertices']} vertices"
            )
        places = np.asarray(geometry, dtype=np.float64)
        if places.shape != (graph.n_nodes, 2) or not np.isfinite(places).all():
            raise InvalidInputError(
                f"geometry: expected a mesh or finite positions ({graph.n_nodes}, 2), "
                f"got shape {places.shape}"
            )
        return cls(graph, positions=places)


@dataclass(frozen=True, eq=False)
class NodeMap:
    """A predictive law at the nodes of a graph, to be drawn where the nodes are.

    Attributes
    ----------
    layout : NodeLayout
        Places of the n nodes.
    mean, std : FloatArray (n,)
        Predictive mean and standard deviation at each node.
    error : FloatArray (n,), or None
        Target minus mean where a target is known, NaN elsewhere.
    observed : IntArray (n_observed,), or None
        Numbers of the nodes with data.
    """

    layout: NodeLayout
    mean: FloatArray
    std: FloatArray
    error: FloatArray | None = None
    observed: IntArray | None = None

    def caption(self) -> str:
        """Return the caption of the picture."""
        quantities = "Mean and standard deviation"
        if self._has_error():
            quantities = "Mean, standard deviation, and target minus mean where a target is known,"
        if self.layout.mesh is not None:
            return f"{quantities} at the {self.layout.nodes}, lightly shaded"
        return f"{quantities} at the nodes; observed ones are circled"

    def svg(self) -> str:
        """Return the picture as an SVG element, one panel for each quantity."""
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure

        from coupledgp.diagnostics.pages.pictures import svg_of

        n_panels = 3 if self._has_error() else 2
        figure = Figure(figsize=(4 * n_panels, 3.6), layout="constrained")
        FigureCanvasSVG(figure)
        self.draw(figure, list(figure.subplots(1, n_panels)))
        return svg_of(figure)

    def draw(self, figure: Figure, panels: Sequence[Axes]) -> None:
        """Draw the mean, the standard deviation and, into a third panel, the error."""
        figure.set_dpi(DPI)
        quantities = [("mean", self.mean, "viridis"), ("standard deviation", self.std, "magma")]
        if len(panels) > 2 and self.error is not None:
            quantities.append(("target - mean", self.error, "RdBu"))
        for axes, (title, values, name) in zip(panels, quantities, strict=False):
            scale = colour_scale(values, name, symmetric=values is self.error)
            if self.layout.mesh is not None:
                self._draw_mesh(axes, values, scale)
            else:
                self._draw_nodes(axes, values, scale)
            axes.set_title(title, fontsize=10)
            axes.set_axis_off()
            axes.autoscale_view()
            figure.colorbar(scale, ax=axes, shrink=0.75)

    def _has_error(self) -> bool:
        return self.error is not None and bool(np.isfinite(self.error).any())

    def _draw_mesh(self, axes: Axes, values: FloatArray, scale: Any) -> None:
        """Draw the faces from back to front, seen from afar; those without a value are grey."""
        from matplotlib.collections import PolyCollection

        right, up, towards = view()
        mesh = self.layout.mesh
        faces = np.asarray(mesh.faces)
        corners = np.asarray(mesh.vertices)[faces]
        levels = values if self.layout.nodes == "faces" else face_means(values[faces])
        rgba = shaded(levels, np.asarray(mesh.face_normals), scale)
        order = np.argsort((corners @ towards).mean(axis=1))
        flat = np.stack([corners @ right, corners @ up], axis=-1)[order]
        axes.add_collection(
            PolyCollection(
                list(flat), facecolors=rgba[order], edgecolors=rgba[order], linewidths=0.2,
                rasterized=True,
            )
        )  # fmt: skip
        axes.set_aspect("equal")

    def _draw_nodes(self, axes: Axes, values: FloatArray, scale: Any) -> None:
        """Draw edges as lines, nodes with a value as dots, and rings around the observed."""
        places = self.layout.positions
        assert places is not None
        _draw_edges(axes, self.layout.graph, places)
        # Dots of many nodes are small, lest they cover each other.
        size = float(np.clip(2500 / values.size, 2, 40))
        if self.observed is not None:
            x, y = places[self.observed].T
            axes.scatter(
                x, y, s=4 * size, facecolors="none", edgecolors=RINGS, linewidths=0.5,
                zorder=2, rasterized=True,
            )  # fmt: skip
        known = np.isfinite(values)
        x, y = places[known].T
        dots = scale.to_rgba(values[known])
        axes.scatter(x, y, c=dots, s=size, zorder=3, rasterized=True)
        axes.set_aspect("equal", adjustable="datalim")


def _draw_edges(axes: Axes, graph: Graph, places: FloatArray) -> None:
    """Draw the edges of a graph as lines between the places (n_nodes, 2) of its nodes."""
    from matplotlib.collections import LineCollection

    edges = graph.adjacency.tocoo()
    segments = np.stack([places[edges.row], places[edges.col]], axis=1)
    axes.add_collection(
        LineCollection(list(segments), colors=EDGES, linewidths=0.4, zorder=1, rasterized=True)
    )


def shaded(levels: FloatArray, normals: FloatArray, scale: Any) -> FloatArray:
    """Colours (n, 4) of faces with values (n,) and normals (n, 3), in a light from the side."""
    from matplotlib.colors import to_rgba

    right, up, towards = view()
    rgba: FloatArray = scale.to_rgba(levels)
    rgba[~np.isfinite(levels)] = to_rgba(GREY)
    light = np.abs(normals @ (towards + 0.6 * up - 0.4 * right))
    rgba[:, :3] *= (1 - SHADE + SHADE * np.clip(light, 0, 1))[:, None]
    return rgba


def view() -> tuple[FloatArray, FloatArray, FloatArray]:
    """Directions (3,) of a picture: to the right, upwards, and towards the eye."""
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


def colour_scale(values: FloatArray, name: str, symmetric: bool = False) -> Any:
    """Colour scale over the finite ones of values (n,), about zero if symmetric."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    known = values[np.isfinite(values)]
    low, high = float(known.min()), float(known.max())
    if symmetric:
        high = max(abs(low), abs(high)) or 1.0
        low = -high
    return ScalarMappable(Normalize(low, high if high > low else low + 1.0), name)


def face_means(values: FloatArray) -> FloatArray:
    """Mean (n,) over those corners (n, 3) of a face that have a value; NaN if none has."""
    known = np.isfinite(values)
    count = known.sum(axis=1)
    total = np.where(known, values, 0.0).sum(axis=1)
    return np.divide(total, count, out=np.full(len(values), np.nan), where=count > 0)
