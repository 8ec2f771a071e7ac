"""A law at the nodes of a graph, drawn where the nodes are: on a mesh or in the plane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from coupledgp.errors import InvalidInputError
from coupledgp.graphs import Graph
from coupledgp.graphs.assembly import IntArray
from coupledgp.random import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# From where a mesh is looked at, in degrees.
AZIMUTH, ELEVATION = -60.0, 25.0
# Meshes and edges are drawn as pixels, so many an inch.
DPI = 200
GREY = "#c9ced3"


@dataclass(frozen=True, eq=False)
class Geometry:
    """Where the nodes of a graph are.

    Attributes
    ----------
    graph : Graph
    mesh : trimesh.Trimesh or None
        With `nodes` `"faces"` or `"vertices"`.
    nodes : str
    positions : FloatArray (n_nodes, 2), or None
    mean, std, error : FloatArray (n_nodes,), or None
        The law, and target minus mean where a target is known, NaN elsewhere.
    observed : IntArray or None
        Numbers of the nodes with data.
    """

    graph: Graph
    mesh: Any = None
    nodes: str = "nodes"
    positions: FloatArray | None = None
    mean: FloatArray | None = None
    std: FloatArray | None = None
    error: FloatArray | None = None
    observed: IntArray | None = None

    @classmethod
    def of(cls, what: Any, graph: Graph) -> Geometry:
        """Of a trimesh mesh, or of positions (n_nodes, 2).

        Raises
        ------
        InvalidInputError
            Neither faces nor vertices are as many as the nodes, or positions are no finite
            (n_nodes, 2).
        """
        if hasattr(what, "faces") and hasattr(what, "vertices"):
            counts = {"faces": len(what.faces), "vertices": len(what.vertices)}
            for nodes, count in counts.items():
                if count == graph.n_nodes:
                    return cls(graph, what, nodes)
            raise InvalidInputError(
                f"geometry: expected {graph.n_nodes} faces or vertices, as many as the graph has "
                f"nodes, got {counts['faces']} faces and {counts['vertices']} vertices"
            )
        places = np.asarray(what, dtype=np.float64)
        if places.shape != (graph.n_nodes, 2) or not np.isfinite(places).all():
            raise InvalidInputError(
                f"geometry: expected a mesh or finite positions ({graph.n_nodes}, 2), "
                f"got shape {places.shape}"
            )
        return cls(graph, positions=places)

    def with_law(
        self, mean: FloatArray, std: FloatArray, error: FloatArray | None, observed: IntArray
    ) -> Geometry:
        """The same with a law to draw."""
        return replace(self, mean=mean, std=std, error=error, observed=observed)

    def caption(self) -> str:
        """What the picture shows."""
        what = "Mean and standard deviation"
        if self._has_error():
            what = "Mean, standard deviation, and target minus mean where a target is known,"
        if self.mesh is not None:
            return f"{what} at the {self.nodes}, lightly shaded"
        return f"{what} at the nodes; observed ones are circled"

    def svg(self) -> str:
        """The picture, one panel for each quantity."""
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure

        from coupledgp.diagnostics.pages.pictures import svg_of

        n_panels = 3 if self._has_error() else 2
        figure = Figure(figsize=(4 * n_panels, 3.6), layout="constrained")
        FigureCanvasSVG(figure)
        self.draw(figure, list(figure.subplots(1, n_panels)))
        return svg_of(figure)

    def draw(self, figure: Figure, panels: Sequence[Axes]) -> None:
        """Draw mean, standard deviation and, into a third panel, the error."""
        assert self.mean is not None
        assert self.std is not None
        figure.set_dpi(DPI)
        quantities = [("mean", self.mean, "viridis"), ("standard deviation", self.std, "magma")]
        if len(panels) > 2 and self.error is not None:
            quantities.append(("target - mean", self.error, "RdBu"))
        for axes, (title, values, name) in zip(panels, quantities, strict=False):
            scale = _scale(values, name, symmetric=values is self.error)
            if self.mesh is not None:
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
        """Faces from back to front, seen from afar; faces without a value are grey."""
        from matplotlib.collections import PolyCollection
        from matplotlib.colors import to_rgba

        right, up, towards = view()
        faces = np.asarray(self.mesh.faces)
        corners = np.asarray(self.mesh.vertices)[faces]
        levels = values if self.nodes == "faces" else _face_means(values[faces])
        rgba = scale.to_rgba(levels)
        rgba[~np.isfinite(levels)] = to_rgba(GREY)
        light = np.abs(np.asarray(self.mesh.face_normals) @ (towards + 0.6 * up - 0.4 * right))
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

    def _draw_nodes(self, axes: Axes, values: FloatArray, scale: Any) -> None:
        """Edges as lines, nodes with a value as dots, rings around the observed."""
        from matplotlib.collections import LineCollection

        places = self.positions
        assert places is not None
        edges = self.graph.adjacency.tocoo()
        segments = np.stack([places[edges.row], places[edges.col]], axis=1)
        lines = LineCollection(
            list(segments), colors="#9aa3ab", linewidths=0.4, zorder=1, rasterized=True
        )
        axes.add_collection(lines)
        size = float(np.clip(2500 / values.size, 2, 40))
        if self.observed is not None:
            x, y = places[self.observed].T
            axes.scatter(
                x, y, s=4 * size, facecolors="none", edgecolors="#57606a", linewidths=0.5,
                zorder=2, rasterized=True,
            )  # fmt: skip
        known = np.isfinite(values)
        x, y = places[known].T
        dots = scale.to_rgba(values[known])
        axes.scatter(x, y, c=dots, s=size, zorder=3, rasterized=True)
        axes.set_aspect("equal", adjustable="datalim")


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


def colours(values: FloatArray) -> NDArray[np.uint8]:
    """Colours (n, 4) of values, viridis from the least to the greatest."""
    rgba: NDArray[np.uint8] = _scale(values, "viridis").to_rgba(values, bytes=True)
    return rgba


def _scale(values: FloatArray, name: str, symmetric: bool = False) -> Any:
    """A colour scale over the finite values; about zero if symmetric."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    known = values[np.isfinite(values)]
    low, high = float(known.min()), float(known.max())
    if symmetric:
        high = max(abs(low), abs(high)) or 1.0
        low = -high
    return ScalarMappable(Normalize(low, high if high > low else low + 1.0), name)


def _face_means(values: FloatArray) -> FloatArray:
    """Mean (n,) over the corners (n, 3) that have a value; NaN if none has."""
    known = np.isfinite(values)
    count = known.sum(axis=1)
    total = np.where(known, values, 0.0).sum(axis=1)
    return np.divide(total, count, out=np.full(len(values), np.nan), where=count > 0)
