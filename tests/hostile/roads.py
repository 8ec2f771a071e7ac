"""Hostile roads: GeoJSON with geometries of every kind, GeoPackages and shapefiles cut short."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.hostile.cases import Case

WAYS = [
    [[0.0, 0.0], [0.001, 0.0]], [[0.001, 0.0], [0.002, 0.001]],
    [[0.002, 0.001], [0.003, 0.0]], [[0.003, 0.0], [0.004, 0.001]],
]  # fmt: skip
VALUES = (
    b"longitude,latitude,value\n0.0005,0,1\n0.0015,0.0005,2\n0.0025,0.0005,3\n0.0035,0.0004,2\n"
)


def feature(kind: str | None, coordinates: Any, **properties: Any) -> dict[str, Any]:
    geometry = None if kind is None else {"type": kind, "coordinates": coordinates}
    return {"type": "Feature", "properties": properties, "geometry": geometry}


def collection(*further: dict[str, Any], roads: bool = True, **entries: Any) -> dict[str, Any]:
    lines = [feature("LineString", way) for way in WAYS] if roads else []
    return {"type": "FeatureCollection", "features": [*lines, *further], **entries}


READ = {
    "roads": collection(),
    "road-without-geometry": collection(feature(None, None)),
    "road-of-no-length": collection(feature("LineString", [[0, 0], [0, 0]])),
    "road-of-no-points": collection(feature("LineString", [])),
    "in-space": collection(feature("LineString", [[0, 0, 5.0], [0.001, 0.001, 7.0]])),
    "of-parts": collection(feature("MultiLineString", WAYS), roads=False),
    "same-twice": collection(feature("LineString", WAYS[0])),
    "crosses-itself": collection(
        feature("LineString", [[0, 0], [0.001, 0.001], [0.001, 0], [0, 0.001]])
    ),
    "properties-of-all-types": collection(
        feature("LineString", WAYS[0], a=None, b=[1], c={"d": 1}, e="\u202e", f=1e400)
    ),
}
REFUSED = {
    "no-features": collection(roads=False),
    "no-geometry-at-all": collection(feature(None, None), roads=False),
    "points": collection(feature("Point", [0, 0]), roads=False),
    "polygon": collection(feature("Polygon", [[[0, 0], [1, 0], [1, 1], [0, 0]]])),
    "road-of-one-point": collection(feature("LineString", [[0, 0]])),
    "not-a-number": collection(feature("LineString", [[0, 0], [float("nan"), 1]])),
    "beyond-the-earth": collection(feature("LineString", [[500, 95], [501, 96]])),
    "huge": collection(feature("LineString", [[1e300, 0], [1, 2]])),
    "text-for-numbers": collection(feature("LineString", [["a", "b"], [1, 2]]), roads=False),
    "a-list": [1, 2, 3],
    "a-text": "roads",
}


def cases() -> Iterator[Case]:
    """Calls of `interpolate` on each file."""
    for code, files in ((0, READ), (2, REFUSED)):
        for name, content in files.items():
            yield call(f"roads-{name}.geojson", json.dumps(content).encode(), code)
    whole = json.dumps(READ["roads"]).encode()
    yield call("roads-cut.geojson", whole[: len(whole) // 2], 2)
    yield call("roads-nul.geojson", bytes(50), 2)
    yield call("roads-none.geojson", b"", 2)
    yield call("roads-none.gpkg", b"", 2)
    yield call("roads-binary.gpkg", b"SQLite format 3\0" + b"\1" * 3000, 2)
    yield call("roads-alone.shp", b"\0\0\x27\x0a" + bytes(200), 2)
    for number, crs in enumerate(["EPSG:99999", "nowhere", "", "EPSG:4326 EPSG:4326"]):
        more = ("--crs", crs)
        yield call(f"roads-crs-{number}.geojson", whole, None, more, "crs")


def call(
    name: str, content: bytes, code: int | None, more: tuple[str, ...] = (), option: str = ""
) -> Case:
    arguments = ("interpolate", name, "--values", "v.csv", "-o", "out.csv", *more)
    names = (name, option) if option else (name,)
    return Case(name, arguments, {name: content, "v.csv": VALUES}, code, names)
