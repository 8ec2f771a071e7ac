"""Longitudes and latitudes as positions in metres about a centre."""

from __future__ import annotations

import numpy as np

from coupledgp.random import FloatArray

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
    right near the centre's latitude; 100 km north or south of it at 45 degrees those from west to
    east are 1.6 % off. It serves to find the road next to a point and to draw, not for lengths.
    """
    east = np.radians(wrap(degrees[:, 0] - origin[0])) * np.cos(np.radians(origin[1]))
    north = np.radians(degrees[:, 1] - origin[1])
    return EARTH_RADIUS * np.stack([east, north], axis=1)


def wrap(degrees: FloatArray) -> FloatArray:
    """Differences of longitudes in [-180, 180)."""
    return (degrees + 180.0) % 360.0 - 180.0
