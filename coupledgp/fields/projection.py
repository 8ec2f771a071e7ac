"""Coordinates of the earth as metres in a plane, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.graphs.forms import LONLAT as LONLAT
from coupledgp.ground.extras import library
from coupledgp.ground.validation import wrong
from coupledgp.random import FloatArray

METRES = "metres"
# Largest difference of lengths in the plane and on the earth for which a projection is kept.
DISTORTION = 0.01
# Widest area in degrees of longitude, and latitude furthest from the equator, for a zone of UTM.
UTM_WIDTH, UTM_LATITUDE = 12.0, 80.0


@dataclass(frozen=True)
class Plane:
    """A plane in metres.

    Attributes
    ----------
    source : str or None
        Coordinate reference system of the coordinates that were given; None: metres of no known
        place.
    crs : str or None
        Projected system of the plane, as text that pyproj reads.
    unit : float
        Metres of a unit of `crs`: coordinates of `crs` times `unit` are places in the plane.
    geodesic : bool
        Lengths are those on the ellipsoid, not those in the plane.
    """

    source: str | None = None
    crs: str | None = None
    unit: float = 1.0
    geodesic: bool = False

    @classmethod
    def fitting(cls, crs: Any, coordinates: FloatArray) -> Plane:
        """The plane for coordinates (c, 2) of a system.

        A projected system is kept if lengths in it are within one percent of those on the
        ellipsoid. Any other system (degrees, or Web Mercator) gives way to the zone of UTM of the
        coordinates, or to Lambert's azimuthal projection about their centre if they are too wide or
        too near to a pole for it; lengths are then those on the ellipsoid.

        Raises
        ------
        InvalidInputError
            The system is unknown, neither geographic nor projected, or does not fit the
            coordinates.
        """
        if isinstance(crs, str) and crs == METRES:
            return cls()
        found = parsed_crs(crs)
        if not (found.is_projected or found.is_geographic):
            raise wrong("crs", "a geographic or a projected system", found.name)
        lonlat = transformed(coordinates, found, LONLAT)
        if found.is_projected and _is_true(found, lonlat):
            unit = float(found.axis_info[0].unit_conversion_factor)
            return cls(_text(found), _text(found), unit)
        _check_lonlat(lonlat)
        return cls(_text(found), _metric(lonlat), 1.0, geodesic=True)

    def metres(self, points: FloatArray, crs: str | None = None) -> FloatArray:
        """Places (p, 2) in the plane of coordinates (p, 2) in `crs`; None: in `source`."""
        crs = self.source if crs is None else crs
        if self.crs is None or crs is None:
            if crs is not None:
                raise InvalidInputError(
                    "crs: expected positions in metres, as the roads have no coordinate system"
                )
            return points
        return transformed(points, crs, self.crs) * self.unit

    def coordinates(self, places: FloatArray, crs: str) -> FloatArray:
        """Coordinates (p, 2) in `crs` of places (p, 2) in the plane."""
        if self.crs is None:
            raise InvalidInputError("crs: expected roads with a coordinate reference system")
        return transformed(places / self.unit, self.crs, crs)

    def segment_lengths(self, coordinates: FloatArray, places: FloatArray) -> FloatArray:
        """Lengths (c - 1,) between coordinates (c, 2) that follow each other; places (c, 2)."""
        if not self.geodesic:
            return np.linalg.norm(np.diff(places, axis=0), axis=1)
        return geodesic_lengths(coordinates, self.source)


def parsed_crs(crs: Any) -> Any:
    """Return the `pyproj.CRS` of a text, a number of EPSG, or an object of pyproj."""
    pyproj = library("pyproj", "reading of coordinate reference systems")
    try:
        found = pyproj.CRS.from_user_input(crs)
    except pyproj.exceptions.CRSError as error:
        raise wrong(
            "crs", "a coordinate reference system such as 'EPSG:4326', or 'metres'", crs
        ) from error
    return found.sub_crs_list[0] if found.is_compound else found


def transformed(points: FloatArray, source: Any, target: Any) -> FloatArray:
    """Coordinates (p, 2) in another system, east or longitude first in both."""
    pyproj = library("pyproj", "projecting of coordinates")
    systems = parsed_crs(source), parsed_crs(target)
    try:
        change = pyproj.Transformer.from_crs(*systems, always_xy=True)
    except pyproj.exceptions.ProjError as error:
        raise InvalidInputError(
            f"crs: found no way from {systems[0].name!r} to {systems[1].name!r}: {error}"
        ) from error
    moved = np.column_stack(change.transform(points[:, 0], points[:, 1]))
    bad = np.flatnonzero(~np.isfinite(moved).all(axis=1))
    if bad.size:
        raise InvalidInputError(
            f"crs: expected coordinates of {systems[0].name!r}, got {points[bad[0]]}, "
            "which it has no place for"
        )
    return moved


def geodesic_lengths(coordinates: FloatArray, crs: Any) -> FloatArray:
    """Lengths (c - 1,) on the ellipsoid WGS 84 between coordinates (c, 2) of `crs` that follow."""
    pyproj = library("pyproj", "lengths on the earth")
    longitudes, latitudes = transformed(coordinates, crs, LONLAT).T
    geodesic = pyproj.Geod(ellps="WGS84")
    _, _, lengths = geodesic.inv(longitudes[:-1], latitudes[:-1], longitudes[1:], latitudes[1:])
    return np.asarray(lengths, dtype=np.float64)


def _is_true(crs: Any, lonlat: FloatArray) -> bool:
    """Whether lengths in a projected system are those on the ellipsoid, within `DISTORTION`."""
    pyproj = library("pyproj", "lengths on the earth")
    factors = pyproj.Proj(crs).get_factors(*lonlat.T)
    scales = np.median([factors.meridional_scale, factors.parallel_scale], axis=1)
    return bool((np.abs(scales - 1) <= DISTORTION).all())


def _metric(lonlat: FloatArray) -> str:
    """A projected system in metres for longitudes and latitudes (c, 2)."""
    low, high = lonlat.min(axis=0), lonlat.max(axis=0)
    longitude, latitude = (low + high) / 2
    if high[0] - low[0] <= UTM_WIDTH and max(abs(low[1]), abs(high[1])) <= UTM_LATITUDE:
        zone = min(int((longitude + 180) // 6) + 1, 60)
        return f"EPSG:{(32600 if latitude >= 0 else 32700) + zone}"
    return f"+proj=laea +lat_0={latitude:.6f} +lon_0={longitude:.6f} +datum=WGS84 +units=m"


def _check_lonlat(lonlat: FloatArray) -> None:
    bad = np.flatnonzero((np.abs(lonlat) > [360, 90]).any(axis=1))
    if bad.size:
        raise InvalidInputError(
            f"crs: expected longitudes and latitudes in degrees, got {lonlat[bad[0]]}"
        )


def _text(crs: Any) -> str:
    """A text from which pyproj makes the same system."""
    code = crs.to_authority(min_confidence=100)
    return ":".join(code) if code else str(crs.to_wkt())
