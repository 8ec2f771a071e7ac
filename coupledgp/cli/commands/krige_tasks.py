"""What `coupledgp krige` computes: the model of a table, and its answers on a grid."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from coupledgp.cli.commands.latent_tasks import describe_law, is_gaussian
from coupledgp.cli.commands.table_options import KrigeOptions
from coupledgp.cli.readers.files import about
from coupledgp.cli.readers.guesses import guessed_places, value_column
from coupledgp.cli.readers.notices import announce
from coupledgp.cli.readers.tables import POINTS, check_columns, numeric, read_table, write_table
from coupledgp.cli.shared.declare import parameters_of, refuse
from coupledgp.columns.globe import narrower
from coupledgp.errors import InvalidInputError
from coupledgp.gp.transformed import has_normal_noise
from coupledgp.ground.output import written_whole
from coupledgp.ground.progress import reporter
from coupledgp.models import GPRegressor
from coupledgp.models.lattice import LatticeGPRegressor
from coupledgp.random import FloatArray

# Columns that coordinates of a file of points become.
COORDINATES = ("longitude", "latitude", "x", "y", "z")
# Places of a grid whose prediction is timed.
TRIAL_PLACES = 4096


def read_places(
    data: Path, names: list[str] | None, target: str | None
) -> tuple[pa.Table, FloatArray]:
    """Places, n rows of named columns, and values (n,) of a table."""
    with reporter("read"), about(data):
        table = read_table(data)
        if names is None and data.suffix.lower() in POINTS:
            names = [name for name in table.column_names if name in COORDINATES]
        if names is None:
            names = list(guessed_places(data, table.column_names, "--places"))
        if target is None:
            target = value_column(data, table, names, None)
        check_columns(table, names, f"--places: {data}")
        check_columns(table, [target], f"--target: {data}")
        if not table.num_rows:
            raise InvalidInputError(f"{data}: expected rows below the header, got none")
        columns = numeric(table, [*names, target], str(data))
    return columns.select(names), columns.column(target).to_numpy()


def model_of(options: KrigeOptions) -> Any:
    """The unfitted model: of frequencies on a lattice, or of a table under a likelihood."""
    asked = {"auto": "auto", "none": None}
    places = asked.get(options.geographic, options.geographic.split(","))
    shared: dict[str, Any] = {"random_state": options.seed, "geographic": places}
    if is_gaussian(options.likelihood):
        own = parameters_of(LatticeGPRegressor, options)
        return LatticeGPRegressor(
            options.kernel, trend=options.trend, ard=options.ard, **shared, **own
        )
    refuse(options, ("trend", "ard"), f"expected none beside --likelihood {options.likelihood}")
    kernel = None if options.kernel == "auto" else options.kernel
    own = parameters_of(GPRegressor, options)
    return GPRegressor(kernel=kernel, likelihood=options.likelihood, **shared, **own)


def described(gp: Any) -> dict[str, Any]:
    """What was fitted, as plain values."""
    if not isinstance(gp, LatticeGPRegressor):
        return describe_law(gp)
    lengthscale = gp.lengthscale_
    return {
        "kernel": gp.kernel_,
        "lengthscale_of": gp.lengthscale_names_,
        "lengthscale": lengthscale.tolist() if hasattr(lengthscale, "tolist") else [lengthscale],
        "outputscale": gp.outputscale_,
        "noise": gp.noise_,
        "waves": gp.n_waves_,
        "left_out_share": gp.left_out_share_,
        "std_error": gp.std_error_,
        "target_transform": gp.process_.summary().get("target_transform"),
    }


def write_map(
    gp: Any, X: pa.Table, counts: tuple[int, ...], options: KrigeOptions, netcdf: bool
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
    options
        Whose file is written, with their law and interval.
    netcdf
        Whether the file is NetCDF, or a table of all places.
    """
    axes = {}
    encoding = getattr(gp, "encoding_", None)
    places = None if encoding is None else encoding.places
    for j, (name, count) in enumerate(zip(X.column_names, counts, strict=True)):
        values = X.column(name).to_numpy()
        if places is not None and j == places[1]:
            values = narrower(values)
        axes[name] = np.linspace(values.min(), values.max(), count)
    _announce_grid(gp, X, int(np.prod(counts)))
    latent = of_function(gp, options)
    grid = gp.predict_grid(axes, return_std=True, latent=latent, level=options.level)
    with written_whole(options.output) as temporary:
        if netcdf:
            grid.to_netcdf(temporary, engine="scipy", format="NETCDF3_64BIT")
            return
        mesh = np.meshgrid(*axes.values(), indexing="ij")
        found = {name: part.ravel() for name, part in zip(axes, mesh, strict=True)}
        keys = ("mean", "std") if options.level is None else ("mean", "std", "lower", "upper")
        found |= {key: np.asarray(grid[key]).ravel() for key in keys}
        write_table(pa.table(found), temporary, like=options.output)


def of_function(gp: Any, options: KrigeOptions) -> bool:
    """Whether a map is of the function without noise: as it is asked, or where noise is normal."""
    return options.latent if "latent" in options.given else has_normal_noise(gp.process_)


def _announce_grid(gp: Any, X: pa.Table, n_places: int) -> None:
    """Say how long the places of a grid take, from the time of some, if it is long."""
    size = min(TRIAL_PLACES, X.num_rows)
    if n_places <= 10 * size:
        return
    start = time.process_time()
    gp.predict(X.slice(0, size), return_std=True)
    seconds = (time.process_time() - start) * n_places / size
    announce(f"mean and std of {n_places} places", seconds)
