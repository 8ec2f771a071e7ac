"""Maps of fields on surfaces and along roads, with the sensors on them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from coupledgp.diagnostics.pages.picture import Picture
from coupledgp.diagnostics.pages.place_map import RINGS, draw_faces, panels, view
from coupledgp.diagnostics.pages.scale import Quantity, error_scale
from coupledgp.diagnostics.pages.scene import Scene, Sensors, thinned
from coupledgp.diagnostics.plotted import LawMap
from coupledgp.random import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Most sensors of which it is worked out which lie behind the surface; more are all drawn.
MAX_HIDDEN = 1000


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
        from coupledgp.diagnostics.pages.turned import mesh_of

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
    >>> from coupledgp.diagnostics.pages import SurfaceMap
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
        return Picture("map", self.caption, panels(known, partial(self._draw, few)), scene)

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
    >>> from coupledgp.diagnostics.pages import RoadMap
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
        return Picture("map", self.caption, figure, self.scene())

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
