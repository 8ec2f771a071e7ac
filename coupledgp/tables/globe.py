"""Latitude and longitude as kilometres: on a plane near a centre, or as points of space.

Within `PLANE_KM` of the centre of a table the azimuthal equidistant projection keeps distances to
the centre; others come out too long, by at most a share of `(r / R)^2 / 6` at distance r from it.
Beyond, places are points (x, y, z) of a sphere of the mean radius R, whose distance is the chord,
shorter than the arc of angle t by a share of `t^2 / 24`. Every isotropic kernel of a chord is
positive definite, which kernels of the arc need not be (Gneiting 2013). The earth's flattening is
left out, which is worth at most .6 % of a distance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.ground.codec import stored
from coupledgp.ground.validation import wrong
from coupledgp.random import FloatArray

# Mean radius of the earth (IUGG), and the distance from the centre up to which a plane serves.
EARTH_KM, PLANE_KM = 6371.0088, 1000.0
# Names of columns, in lower case, that are latitude and longitude.
LATITUDES = ("lat", "latitude", "lat_deg", "lat_dd")
LONGITUDES = ("lon", "lng", "long", "longitude", "lon_deg", "long_deg", "lon_dd")
# Limits of their values, degrees.
LATITUDE_ENDS, LONGITUDE_ENDS = (-90.0, 90.0), (-180.0, 360.0)
# Points along each side of a box of degrees at which its distance from the centre is found.
SIDE_POINTS = 65

# "auto", None, or names or numbers of the columns of latitude and longitude.
GeographicLike: TypeAlias = str | Sequence[str | int] | None
# Least and greatest value (2,) of a column by its number, or those of two ways to write longitudes
# (2, 2), see `turned`; None of a column that holds no numbers.
Ends: TypeAlias = Callable[[int], FloatArray | None]


@stored
@dataclass(frozen=True)
class Globe:
    """Coordinates of places of a table.

    Attributes
    ----------
    latitude, longitude : float
        Centre, degrees.
    is_plane : bool
        Whether coordinates are those of a plane about the centre, or of space.
    """

    latitude: float
    longitude: float
    is_plane: bool

    @classmethod
    def of_ends(cls, latitudes: FloatArray, longitudes: FloatArray) -> Self:
        """Coordinates for places between least and greatest degrees (2,).

        Longitudes may have the ends of two ways to write them (2, 2), of which the closer count.
        """
        ways = np.atleast_2d(longitudes)
        longitudes = ways[np.argmin(np.ptp(ways, axis=1))]
        middle = float(np.mean(longitudes))
        center = cls(float(np.mean(latitudes)), middle - 360 * (middle > 180), True)
        if np.ptp(longitudes) >= 180:
            return cls(center.latitude, center.longitude, False)
        shares = np.linspace(0.0, 1.0, SIDE_POINTS)
        sides = [low + (high - low) * shares for low, high in (latitudes, longitudes)]
        mesh = np.meshgrid(*sides)
        reach = np.hypot(*center.coordinates(*(part.ravel() for part in mesh)).T).max()
        return cls(center.latitude, center.longitude, bool(reach <= PLANE_KM))

    @property
    def width(self) -> int:
        """Number of coordinates: north and east, or three."""
        return 2 if self.is_plane else 3

    def coordinates(self, latitude: FloatArray, longitude: FloatArray) -> FloatArray:
        """Kilometres north and east of the centre (n, 2), or (x, y, z) (n, 3), of degrees (n,)."""
        phi, own = np.radians(latitude), np.radians(self.latitude)
        turn = np.radians(longitude - (self.longitude if self.is_plane else 0.0))
        if not self.is_plane:
            around = np.cos(phi)
            found = np.column_stack([around * np.cos(turn), around * np.sin(turn), np.sin(phi)])
            return EARTH_KM * found
        east = np.cos(phi) * np.sin(turn)
        # cos own sin phi - sin own cos phi cos turn, without a difference of large terms.
        half = np.square(np.sin(0.5 * turn))
        north = np.sin(phi - own) + 2 * np.sin(own) * np.cos(phi) * half
        ahead = np.sin(own) * np.sin(phi) + np.cos(own) * np.cos(phi) * np.cos(turn)
        chord = np.hypot(north, east)
        angle = np.arctan2(chord, ahead)
        scale = np.divide(angle, chord, out=np.ones_like(angle), where=chord > 0)
        return EARTH_KM * scale[:, None] * np.column_stack([north, east])

    def degrees(self, coordinates: FloatArray) -> FloatArray:
        """Latitudes and longitudes (n, 2) of points of space (n, 3)."""
        x, y, z = coordinates.T
        return np.degrees(np.column_stack([np.arctan2(z, np.hypot(x, y)), np.arctan2(y, x)]))


def turned(longitudes: FloatArray) -> FloatArray:
    """Longitudes (n,) written from 0 to 360 degrees, or from -180 to 180 where some exceed 180.

    Places that span less than half of a circle are cut by one of both ways at most.
    """
    if longitudes.max(initial=0.0) > 180:
        return np.where(longitudes > 180, longitudes - 360, longitudes)
    return np.where(longitudes < 0, longitudes + 360, longitudes)


def turned_ends(values: FloatArray, low: float, high: float) -> tuple[float, float]:
    """Ends of `turned` numbers (n,) from low to high, or of a wide range that has them.

    Numbers beyond the limits of longitudes have their own ends. Merged ends of parts of a column
    are ends of all of it in some way to write them.
    """
    if low < LONGITUDE_ENDS[0] or high > LONGITUDE_ENDS[1]:
        return low, high
    if high - low > 180:
        found = turned(values)
        return float(found.min()), float(found.max())
    cut, turn = (180.0, -360.0) if high > 180 else (0.0, 360.0)
    if low < cut < high:  # turned, they span half of a circle and more
        return (-180.0, 180.0) if turn < 0 else (0.0, 360.0)
    moved = low >= cut if turn < 0 else high < cut
    return (low + turn, high + turn) if moved else (low, high)


def narrower(longitudes: FloatArray) -> FloatArray:
    """Longitudes (n,), `turned` where these alone span less than half of a circle."""
    other = turned(longitudes)
    return other if np.ptp(other) < 180 <= np.ptp(longitudes) else longitudes


def geographic_columns(
    asked: GeographicLike,
    names: Sequence[str] | None,
    n_columns: int,
    ends: Ends,
) -> tuple[int, int] | None:
    """Numbers of the columns of latitude and longitude, None if there are none.

    Parameters
    ----------
    asked
        `"auto"`: columns with names of `LATITUDES` and `LONGITUDES`, one of each, and values of
        degrees. None: none. Otherwise names or numbers of both.
    names
        Names of the columns, if they have any.
    n_columns
        Number of columns.
    ends
        Least and greatest value (2,) of a column of numbers by its number, None of others.

    Raises
    ------
    InvalidInputError
        Columns that are asked for are not there, or hold no degrees.
    """
    texts = [str(name) for name in names] if names is not None else []
    if asked is None:
        return None
    if isinstance(asked, str):
        if asked != "auto":
            raise wrong(
                "geographic", "'auto', None, or the columns of latitude and longitude", asked
            )
        found = [
            [j for j, text in enumerate(texts) if text.lower() in known]
            for known in (LATITUDES, LONGITUDES)
        ]
        if [len(own) for own in found] != [1, 1]:
            return None
        pair = found[0][0], found[1][0]
        return pair if _fault(pair, ends) is None else None
    pair = _asked(asked, texts, n_columns)
    fault = _fault(pair, ends)
    if fault is not None:
        raise InvalidInputError(f"geographic: {fault}")
    return pair


def _asked(asked: Any, texts: list[str], n_columns: int) -> tuple[int, int]:
    found = []
    for one in asked:
        number = texts.index(one) if isinstance(one, str) and one in texts else one
        if not isinstance(number, (int, np.integer)) or not 0 <= number < n_columns:
            known = ", ".join(texts) or f"numbers below {n_columns}"
            raise wrong("geographic", f"columns among {known}", one)
        found.append(int(number))
    if len(found) != 2 or found[0] == found[1]:
        raise wrong("geographic", "two columns, latitude and longitude", asked)
    return found[0], found[1]


def _fault(pair: tuple[int, int], ends: Ends) -> str | None:
    """Why columns hold no degrees, in words; None where they do."""
    for word, column, limits in zip(
        ("latitude", "longitude"), pair, (LATITUDE_ENDS, LONGITUDE_ENDS), strict=True
    ):
        own = _written(ends, column)
        if own is None:
            return f"expected numbers of {word}, got a column of another kind"
        if own[0] < limits[0] or own[1] > limits[1]:
            return (
                f"expected {word} from {limits[0]:g} to {limits[1]:g} degrees, got values from "
                f"{own[0]:g} to {own[1]:g}"
            )
    own = _written(ends, pair[1])
    assert own is not None
    if own[1] - own[0] > 360:
        return f"expected longitudes within 360 degrees, got {own[0]:g} to {own[1]:g}"
    return None


def _written(ends: Ends, column: int) -> FloatArray | None:
    """Least and greatest value (2,) of a column as it is written."""
    own = ends(column)
    return None if own is None else np.atleast_2d(own)[0]
