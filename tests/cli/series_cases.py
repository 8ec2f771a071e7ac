"""A ring of roads with speeds over time, and a model that is fitted at once, for commands."""

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from coupledgp.models import GraphTimeGPRegressor

N_NODES, N_SENSORS, N_TIMES = 8, 5, 24
START, STEP = np.datetime64("2012-03-01T06:00", "us"), np.timedelta64(5, "m")
TIMES = START + STEP * np.arange(N_TIMES)
NAMES = [f"r{k}" for k in range(N_NODES)]
SENSORS = NAMES[:N_SENSORS]
RNG = np.random.default_rng(3)
SPEEDS = (60 + np.cumsum(RNG.normal(size=(N_SENSORS, N_TIMES)), axis=1)).round(3)
SPEEDS[1, 4:8] = SPEEDS[3, 15] = np.nan
FITTED: dict[bytes, Any] = {}


def quicken(monkeypatch):
    """Let a model that was fitted before to the same values, so set, be fitted at once."""
    fit = GraphTimeGPRegressor.fit

    def remembered(self, *data, **named):
        settings = self.get_params() | {"graph": repr(self.graph)}
        key = pickle.dumps((settings, data, named))
        if key not in FITTED:
            FITTED[key] = fit(self, *data, **named)._fitted
        self._fitted = FITTED[key]
        return self

    monkeypatch.setattr(GraphTimeGPRegressor, "fit", remembered)


def roads():
    lines = [f"{NAMES[k]},{NAMES[(k + 1) % N_NODES]},{100 + k}" for k in range(N_NODES)]
    return "\n".join(["source,target,length", *lines]) + "\n"


def long_columns(**more):
    rows, columns = np.nonzero(~np.isnan(SPEEDS))
    order = np.random.default_rng(0).permutation(rows.size)
    rows, columns = rows[order], columns[order]
    speeds = SPEEDS[rows, columns]
    others = {name: function(speeds) for name, function in more.items()}
    return {"node": [SENSORS[k] for k in rows], "t": TIMES[columns], "mph": speeds, **others}


def csv_text(columns):
    rows = zip(*(map(str, values) for values in columns.values()), strict=True)
    return "\n".join([",".join(columns), *(",".join(row) for row in rows)]) + "\n"


def wide_columns():
    return {"t": TIMES} | {name: SPEEDS[k] for k, name in enumerate(SENSORS)}


def wide_text():
    return csv_text(wide_columns()).replace("nan", "")


def dataset():
    import xarray as xr

    return xr.Dataset({"mph": (("road", "t"), SPEEDS)}, {"road": SENSORS, "t": TIMES})


def write_files(folder):
    """Write the roads, and the speeds in every form; return the forms."""
    (folder / "roads.csv").write_text(roads())
    (folder / "long.csv").write_text(csv_text(long_columns()))
    (folder / "wide.csv").write_text(wide_text())
    pa.parquet.write_table(pa.table(long_columns()), folder / "long.parquet")
    pa.parquet.write_table(pa.table(wide_columns()), folder / "wide.parquet")
    data = dataset()
    data.to_netcdf(folder / "speeds.nc", engine="h5netcdf")
    data.to_zarr(folder / "speeds.zarr", zarr_format=2)
    return ("long.csv", "wide.csv", "long.parquet", "wide.parquet", "speeds.nc", "speeds.zarr")
