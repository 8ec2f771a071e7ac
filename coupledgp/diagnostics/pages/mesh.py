"""Maps of a predictive law at the nodes of a graph, drawn on a mesh or in the plane."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from coupledgp.diagnostics.pages.place_map import EDGES, RINGS, draw_faces, panels
from coupledgp.diagnostics.pages.scale import Quantity, error_scale
from coupledgp.diagnostics.pages.scene import Scene, Sensors, thinned
from coupledgp.diagnostics.plotted import LawMap
from coupledgp.diagnostics.space_time.layout import laid_out
from coupledgp.errors import InvalidInputError
from coupledgp.graphs import Graph
from coupledgp.random import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from coupledgp.diagnostics.pages.picture import Picture


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

    Examples
    --------
    >>> import coupledgp as cgp
    >>> from coupledgp.diagnostics.pages import NodeLayout
    >>> ring = cgp.Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 0])
    >>> layout = NodeLayout.of([[0, 0], [1, 0], [1, 1], [0, 1]], ring)
    >>> layout.nodes, layout.positions.shape
    ('nodes', (4, 2))
    >>> NodeLayout.of(None, ring).positions.shape  # by the edges alone
    (4, 2)
    """

    graph: Graph
    mesh: Any = None
    nodes: str = "nodes"
    positions: FloatArray | None = None

    @classmethod
    def of(cls, geometry: Any, graph: Graph) -> NodeLayout:
        """Layout of a graph's nodes on a trimesh mesh, or at positions (n_nodes, 2).

        None lays them out by their edges alone, so that distances mean nothing.

        Raises
        ------
        InvalidInputError
            A mesh has neither as many faces nor as many vertices as the graph has nodes, or
            positions are not finite or not of shape (n_nodes, 2).
        """
        if geometry is None:
            return cls(graph, positions=laid_out(graph.n_nodes, _edges(graph)))
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
class NodeMap(LawMap):
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

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> from coupledgp.diagnostics.pages import NodeLayout, NodeMap
    >>> ring = cgp.Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 0])
    >>> layout = NodeLayout.of([[0, 0], [1, 0], [1, 1], [0, 1]], ring)
    >>> mean, std = np.arange(4.0), np.array([0.1, 0.5, 0.1, 0.5])
    >>> drawn = NodeMap(layout, mean, std, observed=np.array([0, 2]))
    >>> print(drawn.told())
    It is highest, 3 ± 0.5, at node 3, and least certain, ± 0.5, at node 1: measure there next.
    """

    layout: NodeLayout
    mean: FloatArray
    std: FloatArray
    error: FloatArray | None = None
    observed: IntArray | None = None

    def where(self, k: int) -> str:
        """The label of a node."""
        return f"at node {self.layout.graph.label_all(np.array([k]))[0]}"

    def caption(self) -> str:
        """Return the caption of the picture."""
        quantities = "Mean and standard deviation"
        if self._has_error():
            quantities = "Mean, standard deviation, and target minus mean where a target is known,"
        if self.layout.mesh is not None:
            return f"{quantities} at the {self.layout.nodes}, lightly shaded"
        return f"{quantities} at the nodes; observed ones are circled"

    def picture(self) -> Picture:
        """Return the picture, one panel for each quantity."""
        from coupledgp.diagnostics.pages.picture import Picture

        scene = self.scene()
        if self.layout.mesh is None:
            return Picture(
                "map", self.caption(), panels(self.quantities(), self._draw_nodes), scene
            )
        few = thinned(scene)
        figure = panels(few.quantities, lambda axes, *rest: draw_faces(axes, few, *rest))
        return Picture("map", self.caption(), figure, scene)

    def scene(self) -> Scene:
        """Return the quantities for a viewer, with the observed nodes as sensors."""
        mesh, graph = self.layout.mesh, self.layout.graph
        if mesh is not None:
            positions, cells = np.asarray(mesh.vertices, float), np.asarray(mesh.faces)
            places = positions[cells].mean(axis=1) if self.layout.nodes == "faces" else positions
            kind, names = "faces", []
        else:
            assert self.layout.positions is not None
            places = positions = np.pad(self.layout.positions, ((0, 0), (0, 1)))
            kind, cells = "points", _edges(graph)
            names = [str(one) for one in graph.label_all(np.arange(graph.n_nodes))]
        sensors = None
        if self.observed is not None:
            labels = graph.label_all(self.observed)
            sensors = Sensors(places[self.observed], [f"observed node {one}" for one in labels])
        at_cells = mesh is not None and self.layout.nodes == "faces"
        return Scene(kind, positions, cells, at_cells, self.quantities(), sensors, names)

    def quantities(self) -> list[Quantity]:
        """Mean, standard deviation and, if any is known, the error, with their colours."""
        found = super().quantities()
        if self._has_error() and self.error is not None:
            found.append(Quantity("error", "target - mean", self.error, error_scale(self.error)))
        return found

    def _has_error(self) -> bool:
        return self.error is not None and bool(np.isfinite(self.error).any())

    def _draw_nodes(self, axes: Axes, quantity: Quantity, mappable: Any) -> None:
        """Draw edges as lines, nodes with a value as dots, and rings around the observed."""
        places, values = self.layout.positions, quantity.values
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
        dots = mappable.to_rgba(values[known])
        axes.scatter(x, y, c=dots, s=size, zorder=3, rasterized=True)
        axes.set_aspect("equal", adjustable="datalim")


def _draw_edges(axes: Axes, graph: Graph, places: FloatArray) -> None:
    """Draw the edges of a graph as lines between the places (n_nodes, 2) of its nodes."""
    from matplotlib.collections import LineCollection

    segments = places[_edges(graph)]
    axes.add_collection(
        LineCollection(list(segments), colors=EDGES, linewidths=0.4, zorder=1, rasterized=True)
    )


def _edges(graph: Graph) -> IntArray:
    """Numbers (m, 2) of the nodes of each edge, once where it goes both ways."""
    edges = graph.adjacency.tocoo()
    return np.unique(np.sort(np.stack([edges.row, edges.col], axis=1), axis=1), axis=0)
