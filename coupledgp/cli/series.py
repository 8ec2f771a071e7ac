"""Values over time from tables, NetCDF and Zarr."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from coupledgp.cli import tables as t
from coupledgp.cli.domains import Domain
from coupledgp.cli.options import Text
from coupledgp.cli.shared import about, on_disk
from coupledgp.errors import InvalidInputError
from coupledgp.ground.extras import library
from coupledgp.time.panel import Panel, as_panel
from coupledgp.time.stamps import Stamps, read_stamps

NETCDF, ZARR = (".nc", ".nc4", ".cdf", ".h5netcdf"), (".zarr",)
FORMAT = "--time-format '%d.%m.%Y %H:%M' reads others"


@dataclass(frozen=True)
class Reading:
    """Options on columns of values over time: names, format, zone, resolution, missing values."""

    time: Text
    form: Text
    node: Text
    target: Text
    zone: Text
    resolution: Text
    missing: Any = None

    def panel(self, nodes: Any, stamps: Stamps, values: Any) -> Panel:
        """Values of nodes at stamps."""
        return as_panel(nodes, stamps, values, self.resolution, self.missing, self.zone)


def read_series(path: Path, domain: Domain, reading: Reading) -> tuple[str, Panel]:
    """Values over time and their name; nodes are labels of the graph.

    Raises
    ------
    InvalidInputError
        A column is missing, a node is unknown, a time or a value is none.
    """
    with about(path, options={"resolution": "--resolution", "zone": "--zone"}):
        if path.suffix.lower() in (*NETCDF, *ZARR):
            return _of_xarray(path, domain, reading)
        frame = t.read_table(path)
        names, time = list(frame.columns), reading.time
        if time is None:
            is_time = pd.api.types.is_datetime64_any_dtype
            stamped = [name for name in names if is_time(frame[name])]
            found = t.guessed(path, stamped or names, t.TIMES, "times", "--time-column") or stamped
            if len(found) != 1:
                text = f"expected the column of times, got {t.listed(names)}"
                raise InvalidInputError(f"--time-column: {path}: {text}")
            time = found[0]
        t.check_columns(frame, [time], f"--time-column: {path}")
        if frame.empty:
            raise InvalidInputError(f"{path}: expected rows below the header, got none")
        where = f"{path}: column {time!r}"
        stamps = read_stamps(t.dates(frame, time, path, reading.form, FORMAT), where)
        others = [name for name in names if name != time]
        if reading.target is None and reading.node is None and (
            all(name.strip() in domain.by_text for name in others)
            or not any(t.plain(name) in t.NODES[0] for name in others)
        ):  # fmt: skip
            texts_of = [name.strip() for name in others]
            labels = domain.find(
                texts_of, lambda k: f"{path}: column {others[k]!r} of a wide table"
            )
            parts = [t.numbers(frame, name, path, missing=True) for name in others]
            return "value", reading.panel(labels, stamps, np.array(parts))
        column = t.node_column(path, frame, reading.node)
        named = np.array(t.texts(t.read_table(path, [column]), column, path), dtype=object)
        code, distinct = pd.factorize(named)
        labels = domain.find(
            list(distinct),
            lambda k: f"{path}: column {column!r}, data row {int(np.argmax(code == k)) + 1}",
        )
        value = t.value_column(path, frame, [column, time], reading.target)
        found_values = t.numbers(frame, value, path, missing=True)
        return value, reading.panel([labels[k] for k in code], stamps, found_values)


def _of_xarray(path: Path, domain: Domain, reading: Reading) -> tuple[str, Panel]:
    """The values of a variable of nodes and times in a NetCDF file or a Zarr store."""
    xr = library("xarray", f"{path}: reading NetCDF and Zarr")
    is_store = path.suffix.lower() in ZARR
    try:
        data = xr.open_zarr(path) if is_store else xr.open_dataset(on_disk(path))
    except (ValueError, KeyError, OSError, RuntimeError, TypeError) as error:
        text = " ".join(str(error).split())
        raise InvalidInputError(f"{path}: expected NetCDF or Zarr: {text:.200}") from None
    with data:
        dims = [str(name) for name in data.dims]
        given = None if reading.time is None else [reading.time]
        (time,) = given or t.guessed(path, dims, t.TIMES, "times", "--time-column") or [""]
        if time not in dims:
            text = f"expected one of the dimensions {t.listed(dims)}, got {reading.time!r}"
            raise InvalidInputError(f"--time-column: {path}: {text}")
        over = [str(k) for k, one in data.data_vars.items() if time in one.dims and one.ndim == 2]
        chosen = reading.target or (over[0] if len(over) == 1 else "value")
        if chosen not in over:
            text = f"expected one of {t.listed(over)}, got {reading.target!r}"
            raise InvalidInputError(f"--target: {path}: {text}")
        part = data[chosen]
        (node,) = (dim for dim in part.dims if dim != time)
        names = part[node].values.tolist()  # t.numbers where the dimension has no coordinate
        names = [one.decode() if isinstance(one, bytes) else str(one) for one in names]
        labels = domain.find(names, lambda k: f"{path}: dimension {node!r}, place {k}")
        stamps = read_stamps(part[time].values, f"{path}: dimension {time!r}")
        values = part.transpose(node, time).values
        return chosen, reading.panel(labels, stamps, values)
