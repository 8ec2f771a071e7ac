"""Maps of models of tables over two places: a lattice, or latitude and longitude."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from coupledgp.core.process import Data, GaussianProcess
from coupledgp.core.transformed import has_normal_noise, untransformed
from coupledgp.random import FloatArray, IntArray
from coupledgp.tables.globe import Globe
from coupledgp.tables.lattice_process import LatticeGP

if TYPE_CHECKING:
    from coupledgp.diagnostics.render.maps import PlaceMap

# Places of a map along each side, the same where a law costs more than on a lattice, and most rows
# that are drawn as dots.
SIDE, FEW, DOTS = 120, 60, 1500


@dataclass(eq=False)
class PlacesOf:
    """The map of a fitted model of two places, computed when it is first asked for.

    Attributes
    ----------
    process : GaussianProcess or None
        The process.
    names : tuple of str
        Names of the axes to the right and upwards.
    places : IntArray (d,)
        Numbers of the places among the encoded columns.
    center : FloatArray (D,)
        Values of all encoded columns, which others than places have on the map.
    order : tuple of int
        Numbers of these axes among the places.
    globe : Globe or None
        Coordinates, where places are points of space.
    """

    process: GaussianProcess | None
    names: tuple[str, str]
    places: IntArray
    center: FloatArray
    order: tuple[int, int] = (0, 1)
    globe: Globe | None = None

    @classmethod
    def of(cls, model: Any) -> PlacesOf | None:
        """The map of a model of one output and two places; None for others.

        Places are those of a lattice, which a mixture or a transform may hold, or for any other
        process latitude and longitude as the only columns.
        """
        record = getattr(model, "_fitted", None)
        process = getattr(model, "process_", None)
        columns = getattr(record, "columns", None)
        if process is None or columns is None or process.units.n_outputs > 1:
            return None
        globe = None if columns.encoding is None else columns.encoding.globe
        lattice = _lattice_in(process)
        if lattice is not None:
            places, center = lattice.trend.places, lattice.trend.center
        elif globe is not None and columns.n_features == 2:
            places, center = np.arange(globe.width), np.zeros(globe.width)
        else:
            return None
        if lattice is None and _rows_of(process) is None:
            return None
        if globe is not None and not globe.is_plane and len(places) == 3:
            return cls(process, ("longitude", "latitude"), places, center, (0, 1), globe)
        if len(places) != 2:
            return None
        names = [columns.part_of(int(place)) for place in places]
        order = (1, 0) if names[0].endswith("km north)") else (0, 1)
        return cls(process, (names[order[0]], names[order[1]]), places, center, order)

    @cached_property
    def map(self) -> PlaceMap:
        """The law on the grid, of f or else of observations, and rows that the process holds."""
        from coupledgp.diagnostics.render.maps import PlaceMap

        process = self.process
        assert process is not None
        axes = self._axes(process)
        right, up = (part.ravel() for part in np.meshgrid(*axes))
        points = np.tile(self.center, (len(right), 1))
        own = np.column_stack([right, up])
        points[:, self.places] = (
            own[:, self.order] if self.globe is None else self.globe.coordinates(up, right)
        )
        law = process.law(points, "variance", latent=has_normal_noise(process))
        assert law.spread is not None
        dots, values = np.empty((0, 2)), np.empty(0)
        rows = _rows_of(process)
        if rows is not None:
            chosen = np.random.default_rng(0).permutation(len(rows))[:DOTS]
            dots, values = self._flat(rows.points[chosen]), rows.targets[chosen, 0]
        shape = tuple(len(axis) for axis in axes[::-1])
        return PlaceMap(
            self.names, axes, law.mean[:, 0].reshape(shape),
            np.sqrt(law.spread[:, 0]).reshape(shape), dots, values,
        )  # fmt: skip

    def _axes(self, process: GaussianProcess) -> tuple[FloatArray, FloatArray]:
        low, high = np.array([-180.0, -90.0]), np.array([180.0, 90.0])
        lattice, rows = _lattice_in(process), _rows_of(process)
        if self.globe is None and lattice is not None:
            low, high = lattice.box.low[list(self.order)], lattice.box.high[list(self.order)]
        elif rows is not None:
            flat = self._flat(rows.points)
            low, high = flat.min(axis=0), flat.max(axis=0)
        side = FEW if lattice is None else SIDE
        return np.linspace(low[0], high[0], side), np.linspace(low[1], high[1], side)

    def _flat(self, points: FloatArray) -> FloatArray:
        """Places (m, 2) of encoded rows on the axes."""
        places = points[:, self.places]
        if self.globe is None:
            return np.asarray(places[:, self.order])
        return self.globe.degrees(places)[:, ::-1]


def _lattice_in(process: GaussianProcess) -> LatticeGP | None:
    """The process on a lattice itself, under a transform, or as a member of a mixture."""
    members: Sequence[GaussianProcess] = getattr(process, "members", (process,))
    found = [untransformed(member) for member in members]
    return next((member for member in found if isinstance(member, LatticeGP)), None)


def _rows_of(process: GaussianProcess) -> Data | None:
    """Observations that a process holds; None if they were not kept."""
    found: Data | None = getattr(process, "rows", None)
    return found
