"""What `coupledgp krige` computes: the model of a table, and its answers on a grid."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from coupledgp.cli.readers.files import about
from coupledgp.cli.readers.tables import check_columns, numeric, read_table, write_table
from coupledgp.columns.globe import GeographicLike, narrower
from coupledgp.ground.output import written_whole
from coupledgp.ground.progress import reporter
from coupledgp.models.lattice import LatticeGPRegressor
from coupledgp.random import FloatArray


def read_places(data: Path, names: list[str], target: str) -> tuple[pa.Table, FloatArray]:
    """Places, n rows of named columns, and values (n,) of a table."""
    with reporter("read"), about(data):
        table = read_table(data)
        check_columns(table, [*names, target], f"--places, --target: {data}")
        columns = numeric(table, [*names, target], str(data))
    return columns.select(names), columns.column(target).to_numpy()


def fit_places(
    X: pa.Table,
    y: FloatArray,
    kernel: str,
    trend: str,
    shared: bool,
    seed: int,
    geographic: GeographicLike,
) -> LatticeGPRegressor:
    """The model of all rows."""
    gp = LatticeGPRegressor(
        kernel, trend=trend, ard=not shared, random_state=seed, geographic=geographic
    )
    return gp.fit(X, y)


def write_map(
    gp: LatticeGPRegressor,
    X: pa.Table,
    counts: tuple[int, ...],
    observed: bool,
    output: Path,
    netcdf: bool,
) -> None:
    """Write mean and standard deviation on a grid over the box of the rows.

    Parameters
    ----------
    gp
        The model.
    X
        Places of the rows.
    counts
        Numbers of places of the grid along each axis.
    observed
        Whether standard deviations are those of observations.
    output
        File to write.
    netcdf
        Whether it is NetCDF, or a table of all places.
    """
    axes = {}
    encoding = getattr(gp, "encoding_", None)
    places = None if encoding is None else encoding.places
    for j, (name, count) in enumerate(zip(X.column_names, counts, strict=True)):
        values = X.column(name).to_numpy()
        if places is not None and j == places[1]:
            values = narrower(values)
        axes[name] = np.linspace(values.min(), values.max(), count)
    grid = gp.predict_grid(axes, return_std=True, latent=not observed)
    with written_whole(output) as temporary:
        if netcdf:
            grid.to_netcdf(temporary, engine="scipy", format="NETCDF3_64BIT")
            return
        mesh = np.meshgrid(*axes.values(), indexing="ij")
        found = {name: part.ravel() for name, part in zip(axes, mesh, strict=True)}
        found |= {key: np.asarray(grid[key]).ravel() for key in ("mean", "std")}
        write_table(pa.table(found), temporary, like=output)
