"""Longitudes and latitudes as positions in metres about a centre."""

from __future__ import annotations

from typing import Any

import numpy as np

from coupledgp.random import FloatArray, IntArray

# Mean radius of the earth in metres, as OSMnx computes lengths with.
EARTH_RADIUS = 6_371_009.0


def centre(degrees: FloatArray) -> FloatArray:
    """Longitude and latitude (2,) amid positions (n, 2)."""
    longitude = degrees[0, 0] + wrap(degrees[:, 0] - degrees[0, 0])
    latitude = degrees[:, 1]
    return np.array(
        [(longitude.min() + longitude.max()) / 2, (latitude.min() + latitude.max()) / 2]
    )


def local_metres(degrees: FloatArray, origin: FloatArray) -> FloatArray:
    """Equirectangular projection of longitudes and latitudes (n, 2) about a centre (2,), in metres.

    `x = R cos(latitude0) (longitude - longitude0)`, `y = R (latitude - latitude0)`. Lengths are
    right near the centre's latitude. At 45 degrees, 100 km north or south of it, lengths from west
    to east are 1.6 % off. The projection serves to find the road next to a point and to draw, not
    to measure lengths.
    """
    east = np.radians(wrap(degrees[:, 0] - origin[0])) * np.cos(np.radians(origin[1]))
    north = np.radians(degrees[:, 1] - origin[1])
    return EARTH_RADIUS * np.stack([east, north], axis=1)


def local_degrees(metres: FloatArray, origin: FloatArray) -> FloatArray:
    """Longitudes and latitudes (n, 2) of places (n, 2) in metres about a centre (2,)."""
    east, north = np.degrees(metres.T / EARTH_RADIUS)
    longitude = origin[0] + east / np.cos(np.radians(origin[1]))
    return np.stack([wrap(longitude), origin[1] + north], axis=1)


def wrap(degrees: FloatArray) -> FloatArray:
    """Differences of longitudes, of any shape, in [-180, 180)."""
    return (degrees + 180.0) % 360.0 - 180.0


def are_degrees(
    positions: FloatArray, ends: IntArray, lengths: FloatArray | None, crs: Any = None
) -> bool:
    """Whether positions (n, 2) of a network's nodes are longitudes and latitudes.

    The coordinate system `crs` says so. Without one they are if they may be (|x| <= 180,
    |y| <= 90) and the edges' lengths are nearer to those between positions on the earth than
    between plain ones; without lengths, if they may be.

    Parameters
    ----------
    positions
        Positions (n, 2), as given.
    ends
        Nodes (m, 2) between which edges run.
    lengths
        Lengths (m,) of the edges in metres; None: not known.
    crs
        Coordinate reference system, or its name; None: not known.
    """
    if crs is not None:
        return is_geographic(crs)
    if not (np.abs(positions) <= [180.0, 90.0]).all():  # NaN is none either
        return False
    if lengths is None:
        return True
    gaps = []
    for places in (positions, local_metres(positions, centre(positions))):
        straight = np.linalg.norm(places[ends[:, 0]] - places[ends[:, 1]], axis=1)
        usable = (straight > 0) & (lengths > 0)
        ratios = np.log(lengths[usable] / straight[usable])
        gaps.append(abs(np.median(ratios)) if usable.any() else 0.0)
    return bool(gaps[1] < gaps[0])


def is_geographic(crs: Any) -> bool:
    """Whether a coordinate reference system, or its name, is one of longitudes and latitudes."""
    found = getattr(crs, "is_geographic", None)
    if found is not None:
        return bool(found)
    return str(crs).upper().replace(" ", "") in {
        "EPSG:4326", "4326", "WGS84", "OGC:CRS84", "CRS84", "EPSG:4269", "EPSG:4258",
    }  # fmt: skip
