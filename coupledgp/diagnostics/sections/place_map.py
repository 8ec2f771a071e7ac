"""Map of a model of two places in a report: mean, standard deviation, and rows left out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from coupledgp.columns.globe import Globe
from coupledgp.diagnostics.scoring.subject import process_of
from coupledgp.diagnostics.sections.section import Section
from coupledgp.gp.lattice import LatticeGP
from coupledgp.random import FloatArray, IntArray

if TYPE_CHECKING:
    from coupledgp.diagnostics.pages.place_map import PlaceMap

# Places of a map along each side, and most rows that are drawn as dots.
SIDE, DOTS = 120, 1500


@dataclass(eq=False)
class PlacesOf:
    """The map of a fitted model of two places, computed when it is first asked for.

    Attributes
    ----------
    process : LatticeGP or None
        The process; None once it was stored with its map.
    names : tuple of str
        Names of the axes to the right and upwards.
    order : tuple of int
        Numbers of these axes among the places.
    globe : Globe or None
        Coordinates, where places are points of space.
    """

    process: LatticeGP | None
    names: tuple[str, str]
    order: tuple[int, int] = (0, 1)
    globe: Globe | None = None

    @classmethod
    def of(cls, model: Any) -> PlacesOf | None:
        """The map of a model of one output and two places on a lattice; None for others."""
        process, record = process_of(model), getattr(model, "_fitted", None)
        columns = getattr(record, "columns", None)
        if not isinstance(process, LatticeGP) or columns is None or process.units.n_outputs > 1:
            return None
        globe = None if columns.encoding is None else columns.encoding.globe
        places = process.trend.places
        if globe is not None and not globe.is_plane and len(places) == 3:
            return cls(process, ("longitude", "latitude"), (0, 1), globe)
        if len(places) != 2:
            return None
        names = [columns.part_of(int(place)) for place in places]
        order = (1, 0) if names[0].endswith("km north)") else (0, 1)
        return cls(process, (names[order[0]], names[order[1]]), order)

    @cached_property
    def map(self) -> PlaceMap:
        """The law of f on the grid, and rows that the process holds."""
        from coupledgp.diagnostics.pages.place_map import PlaceMap

        process = self.process
        assert process is not None
        axes = self._axes(process)
        right, up = (part.ravel() for part in np.meshgrid(*axes))
        points = np.tile(process.trend.center, (len(right), 1))
        own = np.column_stack([right, up])
        points[:, process.trend.places] = (
            own[:, self.order] if self.globe is None else self.globe.coordinates(up, right)
        )
        law = process.law(points, "variance", latent=True)
        assert law.spread is not None
        dots, values = np.empty((0, 2)), np.empty(0)
        if process.rows is not None:
            rows = process.rows
            chosen = np.random.default_rng(0).permutation(len(rows))[:DOTS]
            dots, values = self._flat(process, rows.points[chosen]), rows.targets[chosen, 0]
        return PlaceMap(
            self.names, axes, law.mean[:, 0].reshape(SIDE, SIDE),
            np.sqrt(law.spread[:, 0]).reshape(SIDE, SIDE), dots, values,
        )  # fmt: skip

    def _axes(self, process: LatticeGP) -> tuple[FloatArray, FloatArray]:
        low, high = np.array([-180.0, -90.0]), np.array([180.0, 90.0])
        if self.globe is None:
            low, high = process.box.low[list(self.order)], process.box.high[list(self.order)]
        elif process.rows is not None:
            degrees = self._flat(process, process.rows.points)
            low, high = degrees.min(axis=0), degrees.max(axis=0)
        return np.linspace(low[0], high[0], SIDE), np.linspace(low[1], high[1], SIDE)

    def _flat(self, process: LatticeGP, points: FloatArray) -> FloatArray:
        """Places (m, 2) of encoded rows on the axes."""
        places = points[:, process.trend.places]
        if self.globe is None:
            return np.asarray(places[:, self.order])
        return self.globe.degrees(places)[:, ::-1]

    def beside(self, rows: IntArray, residuals: FloatArray) -> PlaceMap:
        """The map with residuals (m,) of rows that are left out, in standard deviations."""
        process = self.process
        if process is None or process.rows is None:
            return self.map
        chosen = np.random.default_rng(0).permutation(len(rows))[:DOTS]
        data = process.rows
        return replace(
            self.map, dots=self._flat(process, data.points[rows[chosen]]),
            values=data.targets[rows[chosen], 0], left_out=residuals[chosen],
        )  # fmt: skip

    def __getstate__(self) -> dict[str, Any]:
        """The map without the process."""
        return {**self.__dict__, "process": None, "map": self.map}


def place_map(report: Any) -> Section | None:
    """The map of a report's model; None where it has none."""
    own: PlacesOf | None = getattr(report, "places", None)
    if own is None:
        return None
    found, rows = own.map, getattr(report, "rows", None)
    if rows is not None and len(rows):
        laws = report.predictions
        residuals = ((laws.y - laws.mean) / laws.std)[:, 0]
        found = own.beside(rows, residuals)
    figures = {
        "mean": {"least": float(found.mean.min()), "greatest": float(found.mean.max())},
        "std": {"least": float(found.std.min()), "greatest": float(found.std.max())},
    }
    shown = "" if not len(found.dots) else f", with {len(found.dots)} of the rows as dots"
    sentence = (
        f"Law of the function over the box of the rows{shown}; other columns have their means."
    )
    return Section("place-map", "Map", sentence, figures, pictures=[found.picture])
