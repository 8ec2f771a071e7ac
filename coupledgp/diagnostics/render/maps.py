"""Maps of a law: on meshes, along roads, at nodes of a graph, and over two columns."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from coupledgp.core.plotted import Plotted
from coupledgp.diagnostics.render.figures import (
    DPI,
    INK,
    Picture,
    Quantity,
    error_scale,
    mean_scale,
    panels_of,
    plain_axis,
    spread_scale,
    styled,
)
from coupledgp.diagnostics.render.scenes import (
    EDGES,
    GREY,
    RINGS,
    Scene,
    Sensors,
    mesh_of,
    thinned,
    view,
)
from coupledgp.errors import InvalidInputError
from coupledgp.graphs import Graph
from coupledgp.random import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Most sensors of which it is worked out which lie behind the surface; more are all drawn.
MAX_HIDDEN = 1000
# Most nodes of a connected part that springs are computed for; larger parts are laid out by
# eigenvectors.
MAX_SPRINGS = 600
# Share of its brightness that a face in the shade loses: enough to see the shape, too little to
# mistake a colour for another.
SHADE = 0.22
# Width and height of a panel in inches.
PANEL = (3.0, 2.7)


# Draws a quantity into axes, given matplotlib's object of its scale.
Draw = Callable[["Axes", Quantity, Any], None]


def panels(quantities: Sequence[Quantity], draw: Draw) -> Figure:
    """Return a figure of the quantities side by side, with a colour bar each."""
    count = len(quantities)
    figure, every = panels_of(count * PANEL[0], PANEL[1], 1, count, dpi=DPI)
    with styled():
        for axes, one in zip(every[0], quantities, strict=True):
            mappable = one.scale.mappable()
            draw(axes, one, mappable)
            title = f"{one.title}\n{one.scale.note}" if one.scale.note else one.title
            axes.set_title(title, parse_math=False)
            axes.set_axis_off()
            axes.autoscale_view()
            bar = figure.colorbar(mappable, ax=axes, shrink=0.75)
            plain_axis(bar.ax.yaxis)
            bar.outline.set_visible(False)
    return figure


def draw_faces(axes: Axes, scene: Scene, quantity: Quantity, mappable: Any) -> None:
    """Draw the triangles of a scene from back to front, seen from afar.

    A triangle between vertices has the mean of their values; those without a value are grey.
    """
    from matplotlib.collections import PolyCollection

    right, up, towards = view()
    corners, values = scene.positions[scene.cells], quantity.values
    levels = values if scene.at_cells else face_means(values[scene.cells])
    rgba = _shaded(levels, _normals(corners), mappable)
    order = np.argsort((corners @ towards).mean(axis=1))
    # matplotlib takes arrays of one shape without a loop; its stubs know sequences alone.
    flat: Any = np.stack([corners @ right, corners @ up], axis=-1)[order]
    axes.add_collection(
        PolyCollection(
            flat, facecolors=rgba[order], edgecolors=rgba[order], linewidths=0.2, rasterized=True
        )
    )
    axes.set_aspect("equal")


def face_means(values: FloatArray) -> FloatArray:
    """Mean (n,) over those corners (n, 3) of a face that have a value; NaN if none has."""
    known = np.isfinite(values)
    count = known.sum(axis=1)
    total = np.where(known, values, 0.0).sum(axis=1)
    return np.divide(total, count, out=np.full(len(values), np.nan), where=count > 0)


def _shaded(levels: FloatArray, normals: FloatArray, mappable: Any) -> FloatArray:
    """Colours (n, 4) of faces with values (n,) and normals (n, 3), in a light from the side."""
    from matplotlib.colors import to_rgba

    right, up, towards = view()
    rgba: FloatArray = mappable.to_rgba(levels)
    rgba[~np.isfinite(levels)] = to_rgba(GREY)
    light = np.abs(normals @ (towards + 0.6 * up - 0.4 * right))
    rgba[:, :3] *= (1 - SHADE + SHADE * np.clip(light, 0, 1))[:, None]
    return rgba


def _normals(corners: FloatArray) -> FloatArray:
    """Unit normals (f, 3) of triangles (f, 3, 3); zeros of those without area."""
    cross = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    length = np.linalg.norm(cross, axis=1, keepdims=True)
    return np.divide(cross, length, out=np.zeros_like(cross), where=length > 0)


class LawMap(Plotted):
    """A map of a law: its mean and standard deviation (m,) or (h, g) at places.

    Attributes
    ----------
    mean, std : FloatArray
        Mean and standard deviation at each place, units of y; NaN where there is no value.
    unit : str
        Unit of y on colour bars; may be empty.
    """

    mean: FloatArray
    std: FloatArray
    unit: str = ""

    def quantities(self) -> list[Quantity]:
        """Mean and standard deviation, with their colours."""
        unit, spreads = f", {self.unit}" if self.unit else "", self.std.ravel()
        return [
            Quantity("mean", f"mean{unit}", self.mean, mean_scale(self.mean.ravel(), spreads)),
            Quantity("std", f"standard deviation{unit}", self.std, spread_scale(spreads)),
        ]

    @abstractmethod
    def where(self, k: int) -> str:
        """Place k, counted along rows, in words that follow a verb."""

    def told(self) -> str:
        """Where the mean is highest, and where a further observation tells most."""
        top, open_ = int(np.nanargmax(self.mean)), int(np.nanargmax(self.std))
        mean, std, most = (float(one) for one in (
            self.mean.flat[top], self.std.flat[top], self.std.flat[open_]))  # fmt: skip
        return (
            f"It is highest, {mean:.4g} ± {std:.2g}, {self.where(top)}, and least certain, "
            f"± {most:.2g}, {self.where(open_)}: measure there next."
        )


class FieldMap(LawMap):
    """What maps of fields have in common: a law at places, and sensors with names."""

    sensors: FloatArray
    values: FloatArray
    names: Sequence[str]
    left_out: FloatArray | None

    @abstractmethod
    def scene(self) -> Scene:
        """The law for a viewer, with the sensors."""

    def to_pyvista(self) -> Any:
        """Return the surface or the roads as a `pyvista.PolyData`, with `mean` and `std` as data.

        Raises
        ------
        MissingLibraryError
            PyVista is not installed.
        """
        return mesh_of(self.scene())

    @property
    @abstractmethod
    def places(self) -> FloatArray:
        """Positions (m, d) at which the law is known."""

    def where(self, k: int) -> str:
        """The position of a place, and the nearest sensor."""
        places = self.places
        place = places[k]
        nearest = int(np.argmin(np.linalg.norm(self.sensors - place, axis=1)))
        name = self.names[nearest] if len(self.names) else f"number {nearest}"
        least = 1e-6 * float(np.ptp(places, axis=0).max())
        shown = ", ".join(f"{one:.4g}" if abs(one) > least else "0" for one in place)
        return f"at ({shown}) near sensor {name}"


@dataclass(frozen=True, eq=False)
class SurfaceMap(FieldMap):
    """A law on a triangle mesh, and the sensors on it.

    Attributes
    ----------
    vertices, faces : (v, 3), (f, 3)
        The mesh.
    mean, std : FloatArray (v,)
        Predictive mean and standard deviation at the vertices.
    sensors : FloatArray (n, 3)
        Positions of the sensors.
    values : FloatArray (n,)
        Observations.
    names : sequence of str
        Names of the sensors, or none at all.
    left_out : FloatArray (n,) or None
        Each observation minus its prediction from the others.
    unit : str
        Unit of y on colour bars; may be empty.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics.render import SurfaceMap
    >>> vertices = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    >>> faces = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    >>> law = np.arange(4.0), np.ones(4)
    >>> drawn = SurfaceMap(vertices, faces, *law, vertices[:1], np.array([0.1]), ["corner"])
    >>> drawn.where(3), drawn.places.shape
    ('at (0, 0, 1) near sensor corner', (4, 3))
    """

    vertices: FloatArray
    faces: IntArray
    mean: FloatArray
    std: FloatArray
    sensors: FloatArray
    values: FloatArray
    names: Sequence[str] = ()
    left_out: FloatArray | None = None
    unit: str = ""

    caption = (
        "Mean and standard deviation, lightly shaded; sensors on this side as dots, in the colour "
        "of their value"
    )

    @property
    def places(self) -> FloatArray:
        """The vertices."""
        return self.vertices

    def picture(self) -> Picture:
        """Return the picture, with a panel of the mean and one of the standard deviation."""
        scene = self.scene()
        few = thinned(scene)
        known = [one for one in few.quantities if np.isfinite(one.values).any()]
        return Picture(
            f"{self.caption}. {self.told()}", panels(known, partial(self._draw, few)), scene
        )

    def scene(self) -> Scene:
        """Return the law for a viewer, with the sensors."""
        quantities, sensors = _with_sensors(self, self.sensors)
        return Scene("faces", self.vertices, self.faces, False, quantities, sensors)

    def _draw(self, scene: Scene, axes: Axes, quantity: Quantity, mappable: Any) -> None:
        right, up, _ = view()
        draw_faces(axes, scene, quantity, mappable)
        seen = in_front(self.sensors, scene.positions[scene.cells])
        _dots(axes, self.sensors[seen] @ right, self.sensors[seen] @ up,
              self.values[seen], mappable if quantity.name == "mean" else None)  # fmt: skip


@dataclass(frozen=True, eq=False)
class RoadMap(FieldMap):
    """A law along roads, and the sensors on them.

    Attributes
    ----------
    lines : sequence of FloatArray (k, 2)
        Pieces of the roads.
    mean, std : FloatArray (m,)
        Predictive mean and standard deviation at the pieces' middles.
    sensors : FloatArray (n, 2)
        Positions of the sensors.
    values : FloatArray (n,)
        Observations.
    names : sequence of str
        Names of the sensors, or none at all.
    left_out : FloatArray (n,) or None
        Each observation minus its prediction from the others.
    unit : str
        Unit of y on colour bars; may be empty.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics.render import RoadMap
    >>> pieces = [np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([[1.0, 0.0], [3.0, 0.0]])]
    >>> sensors, values = np.array([[0.0, 0.0]]), np.array([50.0])
    >>> mean, std = np.array([48.0, 45.0]), np.array([1.0, 2.0])
    >>> drawn = RoadMap(pieces, mean, std, sensors, values, ["bridge"])
    >>> drawn.where(1)
    'at (2, 0) near sensor bridge'
    """

    lines: Sequence[FloatArray]
    mean: FloatArray
    std: FloatArray
    sensors: FloatArray
    values: FloatArray
    names: Sequence[str] = ()
    left_out: FloatArray | None = None
    unit: str = ""

    caption = (
        "Mean and standard deviation along the roads; sensors as dots, in the colour of their value"
    )

    @property
    def places(self) -> FloatArray:
        """The middles of the pieces."""
        return np.array([line.mean(axis=0) for line in self.lines])

    def picture(self) -> Picture:
        """Return the picture, with a panel of the mean and one of the standard deviation."""
        figure = panels(self.quantities(), self._draw)
        return Picture(f"{self.caption}. {self.told()}", figure, self.scene())

    def scene(self) -> Scene:
        """Return the law for a viewer, with the sensors."""
        ends = np.cumsum([len(line) for line in self.lines])
        number = np.arange(ends[-1])
        starts = np.delete(number, ends - 1)
        line = np.repeat(np.arange(len(self.lines)), [len(line) - 1 for line in self.lines])
        quantities, sensors = _with_sensors(self, np.pad(self.sensors, ((0, 0), (0, 1))))
        quantities = [one._replace(values=one.values[line]) for one in quantities]
        positions = np.pad(np.concatenate(list(self.lines)), ((0, 0), (0, 1)))
        cells = np.stack([starts, starts + 1], axis=1)
        return Scene("lines", positions, cells, True, quantities, sensors)

    def _draw(self, axes: Axes, quantity: Quantity, mappable: Any) -> None:
        from matplotlib.collections import LineCollection

        axes.add_collection(
            LineCollection(
                list(self.lines), colors=mappable.to_rgba(quantity.values), linewidths=1.8,
                capstyle="round", zorder=1, rasterized=len(self.lines) > 500,
            )
        )  # fmt: skip
        axes.set_aspect("equal")
        x, y = self.sensors.T
        _dots(axes, x, y, self.values, mappable if quantity.name == "mean" else None)


def _with_sensors(law: FieldMap, positions: FloatArray) -> tuple[list[Quantity], Sensors]:
    """The quantities of a viewer, and the sensors at positions (n, 3) in their colours.

    Where sensors were left out, their errors are one of the quantities, known at sensors alone.
    """
    quantities = law.quantities()
    values, labels = {"mean": law.values}, {"mean": "observed"}
    if law.left_out is not None:
        nowhere = np.full(law.mean.size, np.nan)
        scale = error_scale(law.left_out)
        unit = f", {law.unit}" if law.unit else ""
        quantities.append(Quantity("error", f"error at sensors{unit}", nowhere, scale))
        values["error"] = law.left_out
        labels["error"] = "observed minus its prediction from the others"
    return quantities, Sensors(positions, law.names, values, labels)


def _dots(axes: Axes, x: FloatArray, y: FloatArray, values: FloatArray, mappable: Any) -> None:
    """Sensors in the colours of their values, or as small dots without a scale."""
    size = float(np.clip(3000 / max(values.size, 1), 4, 26))
    if mappable is None:
        axes.scatter(x, y, s=size / 4, c="white", edgecolors=RINGS, linewidths=0.4, zorder=4)
        return
    # A dark ring around a light one stands out on any colour.
    axes.scatter(x, y, s=1.8 * size, c=RINGS, linewidths=0, zorder=4)
    axes.scatter(
        x,
        y,
        s=size,
        facecolors=mappable.to_rgba(values),
        edgecolors="white",
        linewidths=0.6,
        zorder=4,
    )


def in_front(points: FloatArray, corners: FloatArray) -> NDArray[np.bool_]:
    """Whether points (n, 3) on a surface of triangles (f, 3, 3) are seen, nothing before them."""
    if len(points) > MAX_HIDDEN:
        return np.ones(len(points), dtype=bool)
    right, up, towards = view()
    flat = np.stack([corners @ right, corners @ up], axis=-1)
    depth = corners @ towards
    extent = float(np.ptp(corners.reshape(-1, 3), axis=0).max())
    edges = flat[:, 1:] - flat[:, :1]
    area = edges[:, 0, 0] * edges[:, 1, 1] - edges[:, 0, 1] * edges[:, 1, 0]
    solid = np.flatnonzero(np.abs(area) > 1e-12 * extent**2)
    start, edges, area, depth = flat[solid, 0], edges[solid], area[solid], depth[solid]
    seen = np.ones(len(points), dtype=bool)
    for k, point in enumerate(points):
        away = np.array([point @ right, point @ up]) - start
        second = (away[:, 0] * edges[:, 1, 1] - away[:, 1] * edges[:, 1, 0]) / area
        third = (edges[:, 0, 0] * away[:, 1] - edges[:, 0, 1] * away[:, 0]) / area
        weights = np.stack([1 - second - third, second, third])
        covers = (weights >= 0).all(axis=0)
        before = (weights[:, covers] * depth[covers].T).sum(axis=0)
        seen[k] = not (before > point @ towards + 1e-3 * extent).any()
    return seen


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
    >>> from coupledgp.diagnostics.render import NodeLayout
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
    >>> from coupledgp.diagnostics.render import NodeLayout, NodeMap
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
        scene, caption = self.scene(), f"{self.caption()}. {self.told()}"
        if self.layout.mesh is None:
            return Picture(caption, panels(self.quantities(), self._draw_nodes), scene)
        few = thinned(scene)
        figure = panels(few.quantities, lambda axes, *rest: draw_faces(axes, few, *rest))
        return Picture(caption, figure, scene)

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


def laid_out(n_nodes: int, edges: IntArray) -> FloatArray:
    """Places (n, 2) of nodes by their edges (m, 2) alone: parts side by side, largest first."""
    links = sparse.coo_array((np.ones(len(edges)), edges.T), shape=(n_nodes, n_nodes)).tocsr()
    links = links + links.T
    _, member = csgraph.connected_components(links, directed=False)
    sizes = np.bincount(member)
    places = np.zeros((n_nodes, 2))
    widest = 1.6 * float(np.sqrt(np.sum((np.sqrt(sizes) + 1.0) ** 2)))
    x, y, height = 0.0, 0.0, 0.0
    for part in np.argsort(-sizes, kind="stable"):
        rows = np.flatnonzero(member == part)
        side = float(np.sqrt(rows.size))
        if x > 0 and x + side > widest:  # parts stand in lines, as words do
            x, y, height = 0.0, y - height - 1.0, 0.0
        places[rows] = side * _connected(links[rows][:, rows]) + [x, y - side]
        x, height = x + side + 1.0, max(height, side)
    return places


def _connected(links: sparse.csr_array) -> FloatArray:
    """Places (k, 2) of the nodes of a connected part, in the unit square."""
    import networkx as nx

    n = links.shape[0]
    if n == 1:
        return np.full((1, 2), 0.5)
    graph = nx.from_scipy_sparse_array(sparse.csr_matrix(links))
    if n <= MAX_SPRINGS:
        found = nx.kamada_kawai_layout(graph, weight=None)
    else:
        found = nx.spectral_layout(graph, weight=None)
    places = np.array([found[k] for k in range(n)])
    low, extent = places.min(axis=0), float(np.ptp(places, axis=0).max()) or 1.0
    return (places - low) / extent


# Dots up to which each has an edge, and ratio of sides up to which both axes have one unit.
FEW_DOTS, LONGEST = 300, 5.0


@dataclass(frozen=True, eq=False)
class PlaceMap(LawMap):
    """The law of f on a grid over the box of the rows.

    Attributes
    ----------
    names : tuple of str
        Names of the two axes.
    axes : tuple of FloatArray (g,), (h,)
        Their values.
    mean, std : FloatArray (h, g)
        Mean and standard deviation of f, units of y; a row for each value of the second axis.
    dots : FloatArray (m, 2)
        Places of some rows.
    values : FloatArray (m,)
        What was observed there.
    unit : str
        Unit of y on colour bars; may be empty.
    """

    names: tuple[str, str]
    axes: tuple[FloatArray, FloatArray]
    mean: FloatArray
    std: FloatArray
    dots: FloatArray
    values: FloatArray
    unit: str = ""

    def where(self, k: int) -> str:
        """The values of both axes."""
        up, right = np.unravel_index(k, self.mean.shape)
        places = zip(self.names, (self.axes[0][right], self.axes[1][up]), strict=True)
        return f"at {', '.join(f'{name} {value:.4g}' for name, value in places)}"

    def picture(self) -> Picture:
        """Return the picture, a panel of the mean and one of the standard deviation."""
        spans = [
            f"{name} from {own[0]:.4g} to {own[-1]:.4g}"
            for name, own in zip(self.names, self.axes, strict=True)
        ]
        caption = f"To the right {spans[0]}, upwards {spans[1]}"
        caption += "; rows as dots, in the colour of their value" if len(self.dots) else ""
        return Picture(f"{caption}. {self.told()}", panels(self.quantities(), self._draw))

    def _draw(self, axes: Axes, quantity: Quantity, mappable: Any) -> None:
        right, up = self.axes
        extent = (float(right[0]), float(right[-1]), float(up[0]), float(up[-1]))
        colours: FloatArray = mappable.to_rgba(quantity.values)
        axes.imshow(colours, origin="lower", extent=extent, aspect="auto")
        x, y = self.dots.T
        if quantity.name == "mean":
            width = 0.3 if len(x) <= FEW_DOTS else 0.0
            axes.scatter(
                x, y, s=9.0, c=mappable.to_rgba(self.values), linewidths=width, edgecolors=INK,
                rasterized=True,
            )  # fmt: skip
        else:
            axes.scatter(x, y, s=1.0, c=INK, linewidths=0, alpha=0.4, rasterized=True)
        ratio = float(np.ptp(right)) / max(float(np.ptp(up)), 1e-300)
        if 1 / LONGEST < ratio < LONGEST:
            axes.set_aspect("equal", adjustable="box")
