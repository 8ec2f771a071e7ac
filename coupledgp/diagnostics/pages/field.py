"""Pictures of fields on surfaces and roads, and of sensors that are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.special import ndtri

from coupledgp.diagnostics.pages.mesh import (
    DPI,
    RINGS,
    colour_scale,
    face_means,
    shaded,
    view,
)
from coupledgp.diagnostics.pages.pictures import MODEL, REFERENCE, axes_of, svg_of
from coupledgp.random import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Width and height of a panel in inches.
PANEL = (4.4, 3.7)
# Most sensors of which it is worked out which lie behind the surface; more are all drawn.
MAX_HIDDEN = 1000
# Most sensors that are all drawn with intervals (of more, those outside theirs), and number of the
# worst that are named.
MAX_INTERVALS, NAMED = 80, 5
# Standardised residual from which a sensor is named.
NOTABLE = 2.0


@dataclass(frozen=True, eq=False)
class SurfaceMap:
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
    """

    vertices: FloatArray
    faces: IntArray
    mean: FloatArray
    std: FloatArray
    sensors: FloatArray
    values: FloatArray

    caption = (
        "Mean and standard deviation, lightly shaded; sensors on this side as dots, in the colour "
        "of their value"
    )

    def svg(self) -> str:
        """Return the picture as an SVG element, with a panel of the mean and one of the std."""
        return _panels(self._draw, self.mean, self.std)

    def _draw(self, axes: Axes, values: FloatArray, scale: Any, is_mean: bool) -> None:
        from matplotlib.collections import PolyCollection

        right, up, towards = view()
        corners = self.vertices[self.faces]
        levels = face_means(values[self.faces])
        rgba = shaded(levels, _normals(corners), scale)
        order = np.argsort((corners @ towards).mean(axis=1))
        flat = np.stack([corners @ right, corners @ up], axis=-1)
        axes.add_collection(
            PolyCollection(
                list(flat[order]), facecolors=rgba[order], edgecolors=rgba[order], linewidths=0.2,
                rasterized=True,
            )
        )  # fmt: skip
        seen = in_front(self.sensors, corners)
        _dots(axes, self.sensors[seen] @ right, self.sensors[seen] @ up,
              self.values[seen], scale if is_mean else None)  # fmt: skip


@dataclass(frozen=True, eq=False)
class RoadMap:
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
    """

    lines: Sequence[FloatArray]
    mean: FloatArray
    std: FloatArray
    sensors: FloatArray
    values: FloatArray

    caption = (
        "Mean and standard deviation along the roads; sensors as dots, in the colour of their value"
    )

    def svg(self) -> str:
        """Return the picture as an SVG element, with a panel of the mean and one of the std."""
        return _panels(self._draw, self.mean, self.std)

    def _draw(self, axes: Axes, values: FloatArray, scale: Any, is_mean: bool) -> None:
        from matplotlib.collections import LineCollection

        colours = scale.to_rgba(values)
        axes.add_collection(
            LineCollection(
                list(self.lines), colors=colours, linewidths=1.8, capstyle="round", zorder=1,
                rasterized=len(self.lines) > 500,
            )
        )  # fmt: skip
        x, y = self.sensors.T
        _dots(axes, x, y, self.values, scale if is_mean else None)


def _panels(draw: Any, mean: FloatArray, std: FloatArray) -> str:
    """Two panels side by side, with a colour bar each."""
    figure = Figure(figsize=(2 * PANEL[0], PANEL[1]), layout="constrained")
    FigureCanvasSVG(figure)
    figure.set_dpi(DPI)
    quantities = (("mean", mean, "viridis"), ("standard deviation", std, "magma"))
    for axes, (title, values, name) in zip(figure.subplots(1, 2), quantities, strict=True):
        scale = colour_scale(values, name)
        draw(axes, values, scale, title == "mean")
        axes.set_title(title, fontsize=10)
        axes.set_axis_off()
        axes.set_aspect("equal")
        axes.autoscale_view()
        figure.colorbar(scale, ax=axes, shrink=0.75)
    return svg_of(figure)


def _dots(axes: Axes, x: FloatArray, y: FloatArray, values: FloatArray, scale: Any) -> None:
    """Sensors in the colours of their values, or as small dots without a scale."""
    size = float(np.clip(3000 / max(values.size, 1), 4, 26))
    if scale is None:
        axes.scatter(x, y, s=size / 4, c="white", edgecolors=RINGS, linewidths=0.4, zorder=4)
        return
    # A dark ring around a light one stands out on any colour.
    axes.scatter(x, y, s=1.8 * size, c=RINGS, linewidths=0, zorder=4)
    axes.scatter(
        x, y, s=size, facecolors=scale.to_rgba(values), edgecolors="white", linewidths=0.6, zorder=4
    )


def _normals(corners: FloatArray) -> FloatArray:
    """Unit normals (f, 3) of triangles (f, 3, 3); zeros of those without area."""
    cross = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    length = np.linalg.norm(cross, axis=1, keepdims=True)
    return np.divide(cross, length, out=np.zeros_like(cross), where=length > 0)


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


def left_out(
    y: FloatArray, mean: FloatArray, std: FloatArray, names: Sequence[str], level: float
) -> str:
    """Draw observations (n,) against their predictions from the others; the worst are named."""
    figure, axes = axes_of(*PANEL)
    residual = (y - mean) / std
    worst = np.argsort(-np.abs(residual), kind="stable")
    width = ndtri((1 + level) / 2) * std
    outside = np.abs(y - mean) > width
    bars = y.size <= MAX_INTERVALS
    for chosen, colour, label in ((~outside, MODEL, "inside"), (outside, REFERENCE, "outside")):
        if chosen.any():
            axes.errorbar(
                mean[chosen], y[chosen], xerr=width[chosen] if bars or label == "outside" else None,
                fmt=".", color=colour, ecolor=colour, elinewidth=0.7, alpha=0.75, markersize=5,
                label=f"{label} ({chosen.sum()})",
            )  # fmt: skip
    limits = [float(min(y.min(), mean.min())), float(max(y.max(), mean.max()))]
    axes.plot(limits, limits, color="gray", linewidth=1, zorder=1)
    _name(axes, mean, y, [k for k in worst[:NAMED] if abs(residual[k]) > NOTABLE], names)
    axes.set_xlabel(f"prediction from the other sensors, {100 * level:.0f} % interval")
    axes.set_ylabel("observed")
    axes.legend(frameon=False, fontsize=8, title="interval", title_fontsize=8, loc="lower right")
    return svg_of(figure)


def residuals(y: FloatArray, mean: FloatArray, std: FloatArray, names: Sequence[str]) -> str:
    """Draw standardised residuals (n,), the largest on top: who deviates, and by how much."""
    residual = (y - mean) / std
    worst = np.argsort(-np.abs(residual), kind="stable")[:20][::-1]
    figure, axes = axes_of(PANEL[0], max(1.8, 0.7 + 0.16 * worst.size))
    axes.axvspan(-NOTABLE, NOTABLE, color="gray", alpha=0.15, linewidth=0)
    axes.axvline(0, color="gray", linewidth=1)
    heights = np.arange(worst.size)
    far = np.abs(residual[worst]) > NOTABLE
    for chosen, colour in ((~far, MODEL), (far, REFERENCE)):
        axes.hlines(heights[chosen], 0, residual[worst][chosen], color=colour, linewidth=1.2)
        axes.plot(residual[worst][chosen], heights[chosen], ".", color=colour)
    axes.set_yticks(heights, [_short(names[k]) for k in worst], fontsize=7)
    axes.set_xlabel("observed minus predicted, standard deviations")
    axes.grid(axis="y", visible=False)
    return svg_of(figure)


def _name(
    axes: Axes, x: FloatArray, y: FloatArray, rows: Sequence[int], names: Sequence[str]
) -> None:
    """Write the names of some points beside them."""
    from matplotlib.patheffects import withStroke

    middle = (x.min() + x.max()) / 2
    for k in rows:
        left = x[k] > middle
        axes.annotate(
            _short(names[k]), (x[k], y[k]), xytext=(-5 if left else 5, 4),
            textcoords="offset points", ha="right" if left else "left", fontsize=7,
            path_effects=[withStroke(linewidth=2, foreground="white")],
        )  # fmt: skip


def _short(name: str) -> str:
    return name if len(name) <= 18 else f"{name[:17]}…"
