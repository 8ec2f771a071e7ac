"""Maps of two places: panels of the mean, of the standard deviation, and of residuals.

Panels of a map side by side: each a quantity with its colour scale.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from coupledgp.diagnostics.pages.picture import Picture
from coupledgp.diagnostics.pages.scale import INK, Quantity, Scale, error_scale
from coupledgp.diagnostics.pages.scene import AZIMUTH, ELEVATION, Scene
from coupledgp.diagnostics.plotted import LawMap
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


# Residuals beyond so many standard deviations have the last colour.
MOST_RESIDUAL = 3.0
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
    left_out : FloatArray (m,) or None
        Residuals of rows that are left out, in their standard deviations.
    """

    names: tuple[str, str]
    axes: tuple[FloatArray, FloatArray]
    mean: FloatArray
    std: FloatArray
    dots: FloatArray
    values: FloatArray
    left_out: FloatArray | None = None

    def where(self, k: int) -> str:
        """The values of both axes."""
        up, right = np.unravel_index(k, self.mean.shape)
        places = zip(self.names, (self.axes[0][right], self.axes[1][up]), strict=True)
        return f"at {', '.join(f'{name} {value:.4g}' for name, value in places)}"

    def picture(self) -> Picture:
        """Return the picture, with a panel of residuals where they are known."""
        quantities = self.quantities()
        spans = [
            f"{name} from {own[0]:.4g} to {own[-1]:.4g}"
            for name, own in zip(self.names, self.axes, strict=True)
        ]
        caption = f"To the right {spans[0]}, upwards {spans[1]}"
        caption += "; rows as dots, in the colour of their value" if len(self.dots) else ""
        drawn = panels(quantities, self._draw)
        return Picture("place-map", caption, drawn, wide=len(quantities) > 2)

    def quantities(self) -> list[Quantity]:
        """Mean, standard deviation and, where they are known, residuals, with their colours."""
        found = super().quantities()
        if self.left_out is None:
            return found
        own = error_scale(np.clip(self.left_out, -MOST_RESIDUAL, MOST_RESIDUAL))
        beyond = bool((np.abs(self.left_out) > MOST_RESIDUAL).any())
        note = f"beyond {MOST_RESIDUAL:g}: the last colour" if beyond else ""
        scale = Scale(own.low, own.high, own.palette, note)
        return [*found, Quantity("left out", "residual / std, left out", self.left_out, scale)]

    def _draw(self, axes: Axes, quantity: Quantity, mappable: Any) -> None:
        right, up = self.axes
        if quantity.values.ndim == 2:
            extent = (float(right[0]), float(right[-1]), float(up[0]), float(up[-1]))
            colours: FloatArray = mappable.to_rgba(quantity.values)
            axes.imshow(colours, origin="lower", extent=extent, aspect="auto")
        x, y = self.dots.T
        seen = {"mean": self.values, "left out": self.left_out}.get(quantity.name)
        if seen is None:
            axes.scatter(x, y, s=1.0, c=INK, linewidths=0, alpha=0.4, rasterized=True)
        else:
            width = 0.3 if len(seen) <= FEW_DOTS else 0.0
            axes.scatter(
                x, y, s=9.0, c=mappable.to_rgba(seen), linewidths=width, edgecolors=INK,
                rasterized=True,
            )  # fmt: skip
        ratio = float(np.ptp(right)) / max(float(np.ptp(up)), 1e-300)
        if 1 / LONGEST < ratio < LONGEST:
            axes.set_aspect("equal", adjustable="box")
