"""Laws over places and times as GeoPackage and GeoJSON: a feature for each place and time."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.formats.road_output import DRIVERS, save_roads
from coupledgp.ground.extras import library
from coupledgp.ground.output import written_whole
from coupledgp.random import FloatArray

PURPOSE = "writing maps over time"
# Most features of a file: GDAL takes about a second for a hundred thousand.
MAX_FEATURES = 5_000_000


@dataclass(frozen=True, eq=False)
class TimeLayer:
    """Places of one kind, with values at T times.

    Attributes
    ----------
    places : sequence of FloatArray (k, 2) or (k, 3)
        A point (k = 1) or a line for each of N places.
    columns : mapping of str to sequence
        What does not change: names and values (N,).
    fields : mapping of str to array (N, T)
        What does: numbers, NaN where missing, or texts.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.formats import TimeLayer
    >>> stations = [np.array([[11.5, 48.1]]), np.array([[11.6, 48.2]])]
    >>> hourly = {"temperature": [[3.0, 4.5, 6.0], [2.0, 3.5, 5.0]]}  # 2 places, 3 times
    >>> layer = TimeLayer(stations, {"name": ["west", "east"]}, hourly)
    >>> len(layer.places), np.shape(layer.fields["temperature"])
    (2, (2, 3))
    """

    places: Sequence[FloatArray]
    columns: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)


def write_time_map(
    path: str | os.PathLike[str],
    layers: Mapping[str, TimeLayer],
    times: Sequence[Any],
    *,
    crs: str | None = None,
) -> None:
    """Write laws over places and times, one feature for each place and time.

    Features have a column `time`, which QGIS plays (temporal controller, "single field with
    date/time"). A .gpkg has a layer each; a .geojson, in longitude and latitude, all in one
    collection, with times as texts.

    Parameters
    ----------
    path
        Path of the file, which is written whole or not at all.
    layers
        Places and their values by the name of the layer.
    times
        Times (T,): `datetime64`, aware datetimes, or numbers.
    crs
        Coordinate reference system of the places; None: none.

    Raises
    ------
    InvalidInputError
        The extension is unknown, a .geojson is asked of places without a system, there are more
        than five million features, or values are not one for each place and time.
    MissingLibraryError
        A library of the extra `geo` is not installed.

    Examples
    --------
    >>> import tempfile
    >>> import geopandas
    >>> import numpy as np
    >>> from coupledgp.formats import TimeLayer, write_time_map
    >>> layer = TimeLayer([np.array([[11.5, 48.1]])], fields={"temperature": [[3.0, 4.5]]})
    >>> times = np.array(["2026-03-02T06", "2026-03-02T07"], dtype="datetime64[s]")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_time_map(f"{folder}/map.gpkg", {"stations": layer}, times, crs="EPSG:4326")
    ...     geopandas.read_file(f"{folder}/map.gpkg")["temperature"].tolist()
    [3.0, 4.5]
    """
    kind = Path(path).suffix.lower()
    if kind not in DRIVERS:
        raise InvalidInputError(
            f"path: expected a file ending in {' or '.join(DRIVERS)}, got {os.fspath(path)!r}"
        )
    if kind == ".geojson" and crs is None:
        raise InvalidInputError(
            "path: GeoJSON is in longitude and latitude, and the places have no coordinate "
            "system; write a .gpkg, or name their crs"
        )
    count = len(times) * sum(len(one.places) for one in layers.values())
    if count > MAX_FEATURES:
        raise InvalidInputError(
            f"times: expected at most {MAX_FEATURES} features, places times times, got {count}; "
            "write fewer times"
        )
    stamps = _stamps(times, kind)
    with written_whole(path) as temporary:
        tables = {name: _table(one, stamps, crs) for name, one in layers.items()}
        save_roads(temporary, kind, tables)


def _stamps(times: Sequence[Any], kind: str) -> Any:
    """Times as a column: dates of pandas, texts by ISO 8601, or numbers."""
    import pandas

    values = np.asarray(times)
    if values.dtype.kind in "iuf":
        return values
    dates = pandas.DatetimeIndex(times)
    if kind == ".gpkg":
        return dates.as_unit("ms")
    return np.array([one.isoformat() for one in dates], dtype=object)


def _table(layer: TimeLayer, stamps: Any, crs: str | None) -> Any:
    """A table of all places at the first time, then at the second, and so on."""
    geopandas = library("geopandas", PURPOSE)
    shapely = library("shapely", PURPOSE)
    n, n_times = len(layer.places), len(stamps)
    shapes = dict.fromkeys(layer.columns, (n,)) | dict.fromkeys(layer.fields, (n, n_times))
    for name, values in (*layer.columns.items(), *layer.fields.items()):
        if np.shape(values) != shapes[name]:
            raise InvalidInputError(
                f"layers: expected {name!r} of shape {shapes[name]}, got {np.shape(values)}"
            )
    places = [
        shapely.points(one[0]) if len(one) == 1 else shapely.linestrings(one)
        for one in layer.places
    ]
    geometry = np.tile(np.array(places, dtype=object), n_times)
    columns: dict[str, Any] = {
        name: np.tile(np.asarray(values), n_times) for name, values in layer.columns.items()
    }
    columns["time"] = stamps.repeat(n)
    columns |= {name: np.asarray(values).T.ravel() for name, values in layer.fields.items()}
    return geopandas.GeoDataFrame(columns, geometry=geometry, crs=crs)
