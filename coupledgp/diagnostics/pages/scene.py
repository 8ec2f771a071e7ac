"""Maps as data of the viewer on a page: places, values and sensors, in few bytes."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coupledgp.diagnostics.pages.scale import Quantity
from coupledgp.ground.visible import short
from coupledgp.random import FloatArray, IntArray

# Direction from which a mesh is looked at, in degrees: from the side and a little above, so that
# three sides of a solid are in view.
AZIMUTH, ELEVATION = -60.0, 25.0
# Bytes of a scene before they are written as text, which takes a third more: a page stays below
# three megabytes.
MAX_BYTES = 1_200_000
# Most sensors, and the most letters of a name.
MAX_SENSORS, MAX_NAME = 2000, 60
# Steps of coordinates and values, and the number that stands for a missing value.
STEPS, MISSING = 65534, 65535
# The same of standard deviations over times, which are read to no more than two digits.
COARSE_STEPS, COARSE_MISSING = 254, 255
COARSE = "std"
# Number of colours of a palette.
N_COLOURS = 33


@dataclass(frozen=True, eq=False)
class Sensors:
    """Places where something was observed.

    Attributes
    ----------
    positions : FloatArray (s, 3)
    names : sequence of str
        A name each, or none at all.
    values : dict of str to FloatArray (s,)
        By the name of a quantity, values in its colours, NaN where there is none; (s, T) of a
        scene with T frames.
    labels : dict of str to str
        By the name of a quantity, what the values are, such as `"observed"`.
    """

    positions: FloatArray
    names: Sequence[str] = ()
    values: dict[str, FloatArray] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)


class Frames(NamedTuple):
    """Times of a scene that can be played.

    Attributes
    ----------
    labels : sequence of str
        A text for each of T frames.
    times : FloatArray (T,)
        When each frame is, in any unit.
    first : int
        Number of the frame that is shown first.
    """

    labels: Sequence[str]
    times: FloatArray
    first: int


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
        None of its values are empty. Those of a scene with T frames are (v, T) or (m, T).
    sensors : Sensors or None
    names : sequence of str
        Names of the vertices or cells, or none at all.
    note : str
        What a reader has to know of the scene.
    frames : Frames or None
        Times between which a reader can choose.
    """

    kind: str
    positions: FloatArray
    cells: IntArray
    at_cells: bool
    quantities: Sequence[Quantity]
    sensors: Sensors | None = None
    names: Sequence[str] = ()
    note: str = ""
    frames: Frames | None = None

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
            "frames": _frames(scene.frames),
            "view": [AZIMUTH, ELEVATION],
        }

    @property
    def n_bytes(self) -> int:
        """Bytes of the arrays."""
        width = 4 if len(self.positions) > 65536 else 2
        values = sum(one.values.size * _width(one) for one in self.quantities)
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
    """Mean of the known values (v,) or (v, T) of each group; NaN where none is known."""
    if values.ndim == 2:
        return np.stack([_means(group, one) for one in values.T], axis=1)
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


def _is_coarse(quantity: Quantity) -> bool:
    """Whether a quantity is kept in one byte a value instead of two."""
    return quantity.values.ndim == 2 and quantity.name == COARSE


def _width(quantity: Quantity) -> int:
    """Bytes of a value."""
    return 1 if _is_coarse(quantity) else 2


def _quantised(values: FloatArray, coarse: bool = False) -> dict[str, Any]:
    """Values in steps between the least and the greatest; frames (v, T) one after the other."""
    known = np.isfinite(values)
    low, high = (float(values[known].min()), float(values[known].max())) if known.any() else (0, 0)
    n_steps, missing = (COARSE_STEPS, COARSE_MISSING) if coarse else (STEPS, MISSING)
    steps = np.full(values.shape, missing, dtype="u1" if coarse else "<u2")
    steps[known] = np.rint((values[known] - low) / (high - low or 1.0) * n_steps)
    return {"low": low, "high": high, "coarse": coarse, "values": _text(steps.T)}


def _frames(frames: Frames | None) -> dict[str, Any] | None:
    if frames is None:
        return None
    times = [float(f"{value:.9g}") for value in (frames.times - frames.times[0]).tolist()]
    return {"labels": list(frames.labels), "times": times, "first": frames.first}


def _layer(quantity: Quantity) -> dict[str, Any]:
    """A quantity in steps between its least and greatest value, and its colours."""
    from matplotlib.colors import to_hex

    scale = quantity.scale
    colours = scale.mappable().to_rgba(np.linspace(scale.low, scale.high, N_COLOURS))
    return {
        "name": quantity.name, "title": quantity.title, "note": scale.note, "from": scale.low,
        "to": scale.high, **_quantised(quantity.values, _is_coarse(quantity)),
        "colours": [to_hex(colour) for colour in colours],
    }  # fmt: skip


def _sensors(sensors: Sensors | None, low: FloatArray, extent: float) -> dict[str, Any] | None:
    """The sensors, evenly chosen ones if there are too many."""
    if sensors is None or not len(sensors.positions):
        return None
    n = len(sensors.positions)
    kept = np.unique(np.linspace(0, n - 1, min(n, MAX_SENSORS)).astype(int))
    return {
        "positions": _text(_steps(sensors.positions[kept], low, extent)),
        "names": [short(sensors.names[k], MAX_NAME) for k in kept] if len(sensors.names) else [],
        "values": {name: _sensor_values(values[kept]) for name, values in sensors.values.items()},
        "labels": sensors.labels,
        "note": "" if len(kept) == n else f"{len(kept)} of {n} sensors are shown.",
    }


def _sensor_values(values: FloatArray) -> Any:
    """Values with six digits, None where there is none; those of frames (s, T) in steps."""
    if values.ndim == 2:
        return _quantised(values)
    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in values]


def _text(values: NDArray[Any]) -> str:
    """Bytes of an array as text."""
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode("ascii")
