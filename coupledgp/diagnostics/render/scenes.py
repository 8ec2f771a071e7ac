"""Maps as scenes: data of the viewer on a page, and meshes and plots of PyVista."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coupledgp.diagnostics.render.figures import Quantity
from coupledgp.errors import InvalidInputError
from coupledgp.ground.extras import named_extras
from coupledgp.ground.visible import short
from coupledgp.random import FloatArray, IntArray

# Direction from which a mesh is looked at, in degrees: from the side and a little above, so that
# three sides of a solid are in view.
AZIMUTH, ELEVATION = -60.0, 25.0
# Bytes of a scene before they are written as text, which takes a third more.
MAX_BYTES = 400_000
# Most sensors, and the most letters of a name.
MAX_SENSORS, MAX_NAME = 2000, 60
# Steps of coordinates and values, and the number that stands for a missing value.
STEPS, MISSING = 65534, 65535
# Number of colours of a palette.
N_COLOURS = 33
# Colour of faces without a value, of edges, and of the rings around observed nodes and sensors.
GREY, EDGES, RINGS = "#c9ced3", "#9aa3ab", "#57606a"
# Width of a panel and height of a window of PyVista, and sizes of lines and dots, in pixels.
PANEL, HEIGHT, LINE, DOT = 560, 480, 5, 12
# Light of surfaces, of which the shade is too faint to mistake a colour for another.
LIGHT = {"ambient": 0.55, "diffuse": 0.5}


@dataclass(frozen=True, eq=False)
class Sensors:
    """Places where something was observed.

    Attributes
    ----------
    positions : FloatArray (s, 3)
    names : sequence of str
        A name each, or none at all.
    values : dict of str to FloatArray (s,)
        By the name of a quantity, values in its colours, NaN where there is none.
    labels : dict of str to str
        By the name of a quantity, what the values are, such as `"observed"`.
    """

    positions: FloatArray
    names: Sequence[str] = ()
    values: dict[str, FloatArray] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Scene:
    """Quantities on a surface, along lines or at nodes.

    Attributes
    ----------
    kind : str
        `"faces"`: cells are triangles. `"lines"`: cells are pieces of lines. `"points"`: values
        are those of vertices, cells are edges between them.
    positions : FloatArray (v, 3)
    cells : IntArray (m, 3) or (m, 2)
    at_cells : bool
        Whether the values are those of cells, instead of vertices.
    quantities : sequence of Quantity
        None of its values are empty.
    sensors : Sensors or None
    names : sequence of str
        Names of the vertices or cells, or none at all.
    note : str
        What a reader has to know of the scene.
    """

    kind: str
    positions: FloatArray
    cells: IntArray
    at_cells: bool
    quantities: Sequence[Quantity]
    sensors: Sensors | None = None
    names: Sequence[str] = ()
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the scene as plain values for the viewer; a large one is thinned out."""
        scene = thinned(self)
        low = scene.positions.min(axis=0)
        extent = float(np.ptp(scene.positions, axis=0).max()) or 1.0
        wide = len(scene.positions) > 65536
        return {
            "kind": scene.kind,
            "flat": scene.kind != "faces",
            "note": scene.note,
            "positions": _text(_steps(scene.positions, low, extent)),
            "cells": _text(scene.cells.astype("<u4" if wide else "<u2")),
            "wide": wide,
            "at_cells": scene.at_cells,
            "names": [short(name, MAX_NAME) for name in scene.names],
            "layers": [_layer(one) for one in scene.quantities],
            "sensors": _sensors(scene.sensors, low, extent),
            "view": [AZIMUTH, ELEVATION],
        }

    @property
    def n_bytes(self) -> int:
        """Bytes of the arrays."""
        width = 4 if len(self.positions) > 65536 else 2
        values = 2 * sum(one.values.size for one in self.quantities)
        return 6 * len(self.positions) + width * self.cells.size + values


def thinned(scene: Scene, limit: int = MAX_BYTES) -> Scene:
    """Merge vertices on a grid, fine enough that the scene takes at most `limit` bytes.

    Values of merged vertices are averaged, cells without extent and doubles of cells go.
    """
    scene = _finite(scene)
    n_cells, resolution, found = len(scene.cells), 512.0, scene
    while found.n_bytes > limit and resolution >= 2:
        found = _merged(scene, int(resolution))
        resolution *= min(0.9, 0.97 * (limit / max(found.n_bytes, 1)) ** 0.5)
    if found is scene:
        return scene
    what = "nodes" if scene.kind == "points" else "faces" if scene.kind == "faces" else "pieces"
    count = (len(found.positions), len(scene.positions)) if what == "nodes" else (
        len(found.cells), n_cells)  # fmt: skip
    note = f"This view is simplified to {count[0]} of {count[1]} {what}; figures use them all."
    return replace(found, note=f"{scene.note} {note}".strip(), names=())


def _merged(scene: Scene, resolution: int) -> Scene:
    """The scene with the vertices of each box of a grid merged into one."""
    low = scene.positions.min(axis=0)
    extent = float(np.ptp(scene.positions, axis=0).max()) or 1.0
    boxes = ((scene.positions - low) / extent * resolution).astype(np.int64)
    keys = (boxes[:, 0] * (resolution + 1) + boxes[:, 1]) * (resolution + 1) + boxes[:, 2]
    _, group = np.unique(keys, return_inverse=True)
    cells = np.sort(group[scene.cells], axis=1)
    _, kept = np.unique(cells, axis=0, return_index=True)
    kept = kept[(np.diff(cells[kept], axis=1) > 0).all(axis=1)]
    places = np.stack([_means(group, one) for one in scene.positions.T], axis=1)
    quantities = [
        one._replace(values=one.values[kept] if scene.at_cells else _means(group, one.values))
        for one in scene.quantities
    ]
    return replace(scene, positions=places, cells=group[scene.cells][kept], quantities=quantities)


def _means(group: IntArray, values: FloatArray) -> FloatArray:
    """Mean of the known values (v,) of each group; NaN where none is known."""
    known = np.isfinite(values)
    count = np.bincount(group, known)
    total = np.bincount(group, np.where(known, values, 0.0))
    return np.divide(total, count, out=np.full(count.size, np.nan), where=count > 0)


def _finite(scene: Scene) -> Scene:
    """The scene without cells that have a corner nowhere, and without vertices of no use."""
    somewhere: NDArray[np.bool_] = np.all(np.isfinite(scene.positions), axis=1)
    whole: NDArray[np.bool_] = np.all(somewhere[scene.cells], axis=1)
    cells = scene.cells[whole]
    used = somewhere
    if scene.kind != "points":
        used = np.zeros(len(somewhere), dtype=bool)
        used[cells] = True
    if used.all() and whole.all():
        return scene
    number = np.cumsum(used) - 1
    kept = whole if scene.at_cells else used
    names = [name for name, keep in zip(scene.names, kept, strict=False) if keep]
    quantities = [one._replace(values=one.values[kept]) for one in scene.quantities]
    return replace(
        scene, positions=scene.positions[used], cells=number[cells], quantities=quantities,
        names=names,
    )  # fmt: skip


def _steps(positions: FloatArray, low: FloatArray, extent: float) -> NDArray[np.uint16]:
    """Coordinates as steps of the greatest extent."""
    return np.clip(np.rint((positions - low) / extent * STEPS), 0, STEPS).astype("<u2")


def _layer(quantity: Quantity) -> dict[str, Any]:
    """A quantity in steps between its least and greatest value, and its colours."""
    from matplotlib.colors import to_hex

    scale, values = quantity.scale, quantity.values
    colours = scale.mappable().to_rgba(np.linspace(scale.low, scale.high, N_COLOURS))
    known = np.isfinite(values)
    low, high = (float(values[known].min()), float(values[known].max())) if known.any() else (0, 0)
    steps = np.full(values.shape, MISSING, dtype="<u2")
    steps[known] = np.rint((values[known] - low) / (high - low or 1.0) * STEPS)
    return {
        "name": quantity.name, "title": quantity.title, "note": scale.note, "from": scale.low,
        "to": scale.high, "low": low, "high": high, "values": _text(steps),
        "colours": [to_hex(colour) for colour in colours],
    }  # fmt: skip


def _sensors(sensors: Sensors | None, low: FloatArray, extent: float) -> dict[str, Any] | None:
    """The sensors, evenly chosen ones if there are too many."""
    if sensors is None or not len(sensors.positions):
        return None
    n = len(sensors.positions)
    kept = np.unique(np.linspace(0, n - 1, min(n, MAX_SENSORS)).astype(int))
    values = {
        name: [float(f"{one:.6g}") if np.isfinite(one) else None for one in given[kept]]
        for name, given in sensors.values.items()
    }
    return {
        "positions": _text(_steps(sensors.positions[kept], low, extent)),
        "names": [short(sensors.names[k], MAX_NAME) for k in kept] if len(sensors.names) else [],
        "values": values,
        "labels": sensors.labels,
        "note": "" if len(kept) == n else f"{len(kept)} of {n} sensors are shown.",
    }


def _text(values: NDArray[Any]) -> str:
    """Bytes of an array as text."""
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode("ascii")


def mesh_of(scene: Scene) -> Any:
    """The places of a scene as a `pyvista.PolyData`, with its quantities by name as data.

    Raises
    ------
    MissingLibraryError
        PyVista is not installed.
    """
    with named_extras():
        import pyvista
    corners = np.insert(scene.cells, 0, scene.cells.shape[1], axis=1).ravel()
    kind = "faces" if scene.kind == "faces" else "lines"
    mesh = pyvista.PolyData(np.array(scene.positions), **{kind: corners})
    data = mesh.cell_data if scene.at_cells else mesh.point_data
    for one in _known(scene):
        data[one.name] = one.values
    return mesh


def turned(scene: Scene | None) -> Any:
    """A `pyvista.Plotter` with a panel for each quantity; sensors are dots.

    Panels are turned together.

    Raises
    ------
    InvalidInputError
        There is no scene.
    MissingLibraryError
        PyVista is not installed.
    """
    if scene is None:
        raise InvalidInputError(
            "backend: expected 'matplotlib' for a picture that is no map on a mesh, on roads or of "
            "nodes, got 'pyvista'"
        )
    mesh, known = mesh_of(scene), _known(scene)
    import pyvista

    plotter = pyvista.Plotter(
        shape=(1, len(known)), border=False, window_size=[PANEL * len(known), HEIGHT]
    )
    plotter.set_background("white")
    for k, one in enumerate(known):
        plotter.subplot(0, k)
        _add(plotter, mesh.copy(deep=False), scene, one)
    plotter.link_views()
    if scene.kind != "faces":
        plotter.enable_parallel_projection()
        plotter.view_xy()
        plotter.camera.zoom(0.75)  # above the colour bar
    else:
        plotter.view_vector(view()[2], viewup=(0, 0, 1))
    return plotter


def _add(plotter: Any, mesh: Any, scene: Scene, one: Quantity) -> None:
    """Draw a quantity with its colour bar, and the sensors in its colours."""
    scale = one.scale
    colours = {"cmap": scale.palette, "clim": (scale.low, scale.high), "nan_color": GREY}
    dots = {"style": "points", "render_points_as_spheres": True, "point_size": DOT}
    dots |= {"ambient": 0.25, "diffuse": 0.8, "specular": 0.4}
    form: dict[str, Any] = dots if scene.kind == "points" else {"line_width": LINE, **LIGHT}
    if scene.kind == "points":
        plotter.add_mesh(mesh.copy(deep=False), color=EDGES, name=f"{one.name} edges")
    drawn = plotter.add_mesh(
        mesh, scalars=one.name, show_scalar_bar=False, name=one.name, **colours, **form
    )
    title = "\n".join([*filter(None, (one.title, scale.note)), ""])  # off the numbers
    plotter.add_scalar_bar(
        title, mapper=drawn.mapper, color="black", fmt="%.4g", n_labels=4, title_font_size=16,
        label_font_size=14, width=0.7, position_x=0.15,
    )  # fmt: skip
    if scene.sensors is None:
        return
    places = np.array(scene.sensors.positions)
    values = scene.sensors.values.get(one.name)
    look = {"color": "white"} if values is None else {"scalars": values, **colours}
    if scene.kind == "points":  # a ring around the node, from behind it
        places[:, 2] -= 0.05 * mesh.length
        look, dots = {"color": RINGS}, dots | {"point_size": 1.6 * DOT}
    plotter.add_mesh(
        type(mesh)(places), name=f"{one.name} sensors", show_scalar_bar=False, **look, **dots
    )


def _known(scene: Scene) -> list[Quantity]:
    """Quantities that are known anywhere."""
    return [one for one in scene.quantities if np.isfinite(one.values).any()]


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
