"""Panels of a map side by side: each a quantity with its colour scale."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from coupledgp.diagnostics.pages.scale import Quantity
from coupledgp.diagnostics.pages.scene import AZIMUTH, ELEVATION, Scene
from coupledgp.random import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colour of faces without a value.
GREY = "#c9ced3"
# Colours of edges, and of the rings around observed nodes and sensors.
EDGES, RINGS = "#9aa3ab", "#57606a"
# Share of its brightness that a face in the shade loses: enough to see the shape, too little to
# mistake a colour for another.
SHADE = 0.22
# Width and height of a panel in inches.
PANEL = (4.0, 3.4)


# Draws a quantity into axes, given matplotlib's object of its scale.
Draw = Callable[["Axes", Quantity, Any], None]


def panels(quantities: Sequence[Quantity], draw: Draw) -> Figure:
    """Return a figure of the quantities side by side, with a colour bar each."""
    import matplotlib as mpl

    from coupledgp.diagnostics.pages.picture import DPI, STYLE, panels_of, plain_axis

    count = len(quantities)
    figure, every = panels_of(count * PANEL[0], PANEL[1], 1, count, dpi=DPI)
    with mpl.rc_context(STYLE):
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
