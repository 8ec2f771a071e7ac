"""Maps of a law over times: six of them side by side, and a scene whose times can be played."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from coupledgp.diagnostics.pages.picture import Picture, panels_of, plain_axis, styled
from coupledgp.diagnostics.pages.place_map import EDGES, draw_faces, panels
from coupledgp.diagnostics.pages.scale import Quantity, Scale, mean_scale, spread_scale
from coupledgp.diagnostics.pages.scene import Frames, Scene, Sensors, thinned
from coupledgp.diagnostics.space_time.layout import places_of
from coupledgp.diagnostics.space_time.record import FORECAST, SpaceTimePage
from coupledgp.diagnostics.space_time.times import (
    MAX_FRAME_BYTES,
    chosen_times,
    last_observed,
    most_times,
    telling_time,
    thinned_times,
)
from coupledgp.diagnostics.space_time.words import ordinal, time_texts
from coupledgp.ground.visible import printable
from coupledgp.random import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Size of a small map in inches, and its dots per inch.
SMALL, SMALL_DPI = (1.55, 1.5), 150
# Share of the means beyond either end of a scale, and the share of the range that it keeps if
# nothing is left out.
RARE, WIDE = 0.005, 0.7
# Most edges that are drawn on small maps: more make them grey.
MAX_EDGES = 20_000


class TimeMaps:
    """Pictures of the law of a report on the map.

    Parameters
    ----------
    report
        Laws over nodes and times.
    """

    def __init__(self, report: SpaceTimePage) -> None:
        self.report = report
        self.places, self.note = places_of(report)
        self.scales = (_mean_scale(report), spread_scale(report.std))
        self.titles = _titles(report)
        self.edges = np.unique(np.sort(report.edges, axis=1), axis=0)

    def small_multiples(self) -> Picture:
        """Return six times side by side: means above, standard deviations below."""
        r = self.report
        chosen = chosen_times(r)
        with styled():
            width, height = SMALL[0], self._height()
            size = max(len(chosen), 3) * width + 0.9, 2 * height + 0.5
            figure, axes = panels_of(*size, 2, len(chosen), dpi=SMALL_DPI)
            for row, one in enumerate(self._quantities()):
                mappable = one.scale.mappable()
                for k, t in enumerate(chosen.tolist()):
                    self._draw(axes[row, k], one._replace(values=one.values[:, t]), mappable)
                    axes[row, k].set_axis_off()
                    axes[row, k].autoscale_view()
                bar = figure.colorbar(mappable, ax=list(axes[row]), shrink=0.8, aspect=14)
                plain_axis(bar.ax.yaxis, 4)
                bar.outline.set_visible(False)
                short = one.title.replace("standard deviation", "sd")
                bar.set_label(short, fontsize=8, parse_math=False)
            texts = time_texts(r.axis, r.times[chosen], "\n")
            for k, text in enumerate(texts):
                ahead = r.kinds[:, chosen[k]] == FORECAST
                mark = "\nforecast" if ahead.size and ahead.all() else ""
                axes[0, k].set_title(f"{text}{mark}", fontsize=8)
        caption = (
            f"The law at {len(chosen)} times: means above, standard deviations below, one colour "
            "scale each"
        )
        return Picture("small-multiples", caption, figure, wide=True)

    def _height(self) -> float:
        """Height of a small map in inches, by the shape of the whole."""
        if self.report.faces is not None:
            return SMALL[1]
        wide, high = np.ptp(self.places[:, :2], axis=0)
        return float(np.clip(SMALL[0] * high / max(wide, 1e-12), 0.9, 1.9))

    def interactive(self) -> Picture:
        """Return the map with all times, whose picture on paper is that of the most telling one."""
        r = self.report
        first = telling_time(r)
        pairs = zip(("mean", "std"), self.titles, (r.mean, r.std), self.scales, strict=True)
        drawn = [
            Quantity(name, title, array[:, first], scale) for name, title, array, scale in pairs
        ]
        (when,) = time_texts(r.axis, r.times[[first]])
        why = (
            "" if first == last_observed(r) else ", when means are farthest from their usual values"
        )
        caption = f"Mean and standard deviation at {when}{why}"
        return Picture("map", caption, panels(drawn, self._draw), self.scene())

    def scene(self) -> Scene:
        """Return the law for a viewer; times and nodes are thinned out if there are many."""
        r = self.report
        frames = thinned_times(r.times.size, most_times(len(r.nodes), r.sensors.size))
        kind, cells = self._cells()
        notes = [self.note, *r.notes]
        if frames.size < r.times.size:
            step = -(-r.times.size // frames.size)
            notes.append(
                f"The map has every {ordinal(step)} time, {frames.size} of {r.times.size}."
            )
        quantities = [
            one._replace(values=self._at_cells(kind, one.values[:, frames], cells))
            for one in self._quantities()
        ]
        scene = Scene(
            kind, self.places, cells, kind == "lines", quantities, self._sensors(frames),
            self._names(kind, cells),
            " ".join(one for one in notes if one), self._frames(frames),
        )  # fmt: skip
        return thinned(scene, MAX_FRAME_BYTES)

    def _quantities(self) -> list[Quantity]:
        """Mean and standard deviation at all times."""
        named = zip(
            ("mean", "std"), self.titles, (self.report.mean, self.report.std), self.scales,
            strict=True,
        )  # fmt: skip
        return [Quantity(*one) for one in named]

    def _names(self, kind: str, cells: IntArray) -> list[str]:
        """Names of nodes, or of the edges between named ones."""
        names = [printable(one) for one in self.report.nodes]
        if kind == "faces" or not any(names):
            return []
        if kind == "points":
            return names
        return [" \N{EN DASH} ".join(filter(None, (names[a], names[b]))) for a, b in cells.tolist()]

    def _frames(self, frames: IntArray) -> Frames:
        r = self.report
        ahead = (r.kinds[:, frames] == FORECAST).all(axis=0) if r.sensors.size else \
            np.zeros(frames.size, bool)  # fmt: skip
        texts = time_texts(r.axis, r.times[frames])
        labels = [
            f"{text} (forecast)" if far else text for text, far in zip(texts, ahead, strict=True)
        ]
        return Frames(labels, r.times[frames], telling_time(r, frames))

    def _sensors(self, frames: IntArray) -> Sensors | None:
        r = self.report
        if not r.sensors.size:
            return None
        observed = r.observed[:, frames]
        return Sensors(
            self.places[r.sensors], [printable(one) for one in r.sensor_names], {"mean": observed},
            {"mean": "observed"},
        )  # fmt: skip

    def _cells(self) -> tuple[str, IntArray]:
        """Kind of the scene, and its triangles or edges."""
        if self.report.faces is not None:
            return "faces", self.report.faces
        return ("lines" if self.report.is_network else "points"), self.edges

    def _at_cells(self, kind: str, values: FloatArray, cells: IntArray) -> FloatArray:
        """Values of nodes (N, T), or of the edges between them (m, T)."""
        return values[cells].mean(axis=1) if kind == "lines" else values

    def _draw(self, axes: Axes, quantity: Quantity, mappable: Any) -> None:
        """Draw one time: triangles, or edges in colours, or nodes as dots."""
        if self.report.faces is not None:
            one = [quantity]
            scene = thinned(Scene("faces", self.places, self.report.faces, False, one))
            draw_faces(axes, scene, scene.quantities[0], mappable)
            return
        from matplotlib.collections import LineCollection

        flat, network = self.places[:, :2], self.report.is_network
        colours: Any = EDGES
        if network:
            colours = mappable.to_rgba(quantity.values[self.edges].mean(axis=1))
        edges = self.edges if network or len(self.edges) <= MAX_EDGES else self.edges[:0]
        axes.add_collection(
            LineCollection(
                list(flat[edges]), colors=colours, linewidths=1.2 if network else 0.3,
                zorder=1, rasterized=True,
            )
        )  # fmt: skip
        if not network:
            size = float(np.clip(1200 / len(flat), 1.5, 22))
            # Values far from the usual one lie on top.
            order = np.argsort(np.abs(quantity.values - np.median(quantity.values)), kind="stable")
            axes.scatter(
                flat[order, 0], flat[order, 1], c=mappable.to_rgba(quantity.values[order]), s=size,
                linewidths=0, zorder=2, rasterized=True,
            )  # fmt: skip
        axes.set_aspect("equal", adjustable="datalim")


def _mean_scale(report: SpaceTimePage) -> Scale:
    """Scale of the means; where few of them are far away, it ends before them and says so."""
    whole = mean_scale(report.mean, report.std)
    low, high = np.nanquantile(report.mean, [RARE, 1 - RARE])
    inner = mean_scale(np.clip(report.mean, low, high), report.std)
    if inner.high - inner.low > WIDE * (whole.high - whole.low):
        return whole
    rest = f"{100 * RARE:g} % of the values on either side are beyond"
    return replace(inner, note=f"{inner.note}; {rest}" if inner.note else rest)


def _titles(report: SpaceTimePage) -> tuple[str, str]:
    unit = f", {report.unit}" if report.unit else ""
    return f"mean{unit}", f"standard deviation{unit}"
