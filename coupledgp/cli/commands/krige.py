"""`coupledgp krige`: values at places of a table on a grid, by kriging with all rows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from coupledgp.cli.shared.declare import Options, argument, option, required
from coupledgp.cli.shared.options import check_distinct, is_whole
from coupledgp.errors import InvalidInputError, MissingLibraryError
from coupledgp.ground.progress import reporter

# Most places of a grid: a map of them takes some gigabytes.
MOST_PLACES = 50_000_000
NETCDF = (".nc", ".nc4")


@dataclass(frozen=True, kw_only=True)
class KrigeOptions(Options):
    """Options of `coupledgp krige`."""

    data: Path = argument("DATA", "CSV or Parquet file, or a folder of them.")
    target: str = required("Column of values.", "--target", "-t")
    places: str = required("One to three columns that are places, such as east,north.", "--places")
    output: Path = required(".nc, .csv or .parquet to write.", "--output", "-o")
    grid: str = option("Number of places of the grid along each column.", default="100x100")
    kernel: str = option("auto, gaussian or matern-NU.", default="auto")
    trend: str = option("constant, or linear in the places.", default="constant")
    shared: bool = option(
        "One lengthscale for all places.", "--isotropic/--anisotropic", default=False
    )
    observed: bool = option(
        "Standard deviations of observations, noise included, not of the function.", default=False
    )
    model: Path | None = option("Also write the fitted model, for predict and report.")
    seed: int = option("Seed of probes and draws.", default=0)
    as_json: bool = option("Print JSON instead of sentences.", "--json", default=False)


def krige(options: KrigeOptions) -> None:
    """Fit all rows, and write mean and standard deviation on a grid over the box of the rows."""
    import pyarrow as pa  # slow to import

    from coupledgp.cli.readers.files import about
    from coupledgp.cli.readers.tables import (
        check_columns,
        check_table_path,
        numeric,
        read_table,
        write_table,
    )
    from coupledgp.diagnostics.pages.terminal import PlainConsole
    from coupledgp.ground.output import written_whole
    from coupledgp.models.lattice import LatticeGPRegressor

    netcdf = options.output.suffix in NETCDF
    if netcdf and find_spec("xarray") is None:
        raise MissingLibraryError(
            "--output: NetCDF needs xarray: pip install 'coupledgp[series]', or write .csv"
        )
    if not netcdf:
        check_table_path(options.output, "--output")
    check_distinct({"--output": options.output, "--model": options.model}, [options.data])
    names = [name.strip() for name in options.places.split(",")]
    counts = grid_of(options.grid, len(names))
    with reporter("read"), about(options.data):
        table = read_table(options.data)
        check_columns(table, [*names, options.target], f"--places, --target: {options.data}")
        columns = numeric(table, [*names, options.target], str(options.data))
    X = np.column_stack([columns.column(name).to_numpy() for name in names])
    y = columns.column(options.target).to_numpy()
    gp = LatticeGPRegressor(
        options.kernel, trend=options.trend, ard=not options.shared, random_state=options.seed
    ).fit(X, y)
    axes = {f"x{j}": np.linspace(X[:, j].min(), X[:, j].max(), n) for j, n in enumerate(counts)}
    grid = gp.predict_grid(axes, return_std=True, latent=not options.observed)
    if options.model is not None:
        gp.save(options.model)
    with written_whole(options.output) as temporary:
        if netcdf:
            renamed = grid.rename({f"x{j}": name for j, name in enumerate(names)})
            renamed.to_netcdf(temporary, engine="scipy", format="NETCDF3_64BIT")
        else:
            mesh = np.meshgrid(*axes.values(), indexing="ij")
            found = {name: part.ravel() for name, part in zip(names, mesh, strict=True)}
            found |= {key: np.asarray(grid[key]).ravel() for key in ("mean", "std")}
            write_table(pa.table(found), temporary, like=options.output)
    result = described(gp, options, len(y))
    if options.as_json:
        print(json.dumps(result))
        return
    PlainConsole(soft_wrap=True).print(_sentences(result), markup=False)


def described(gp: Any, options: KrigeOptions, n_rows: int) -> dict[str, Any]:
    """What was fitted and written, as plain values."""
    return {
        "rows": n_rows,
        "kernel": gp.kernel_,
        "lengthscale": np.ravel(gp.lengthscale_).tolist(),
        "outputscale": gp.outputscale_,
        "noise": gp.noise_,
        "waves": gp.n_waves_,
        "left_out_share": gp.left_out_share_,
        "std_error": gp.std_error_,
        "output": str(options.output),
    }


def _sentences(result: dict[str, Any]) -> str:
    lengths = ", ".join(f"{value:.4g}" for value in result["lengthscale"])
    lines = [
        f"{result['rows']} rows, {result['kernel']} kernel, lengthscale {lengths}.",
        f"Standard deviation of the function {result['outputscale'] ** 0.5:.4g}, of the noise "
        f"{result['noise'] ** 0.5:.4g}.",
    ]
    if result["std_error"]:
        lines.append(f"Standard deviations have a relative error of {result['std_error']:.0%}.")
    return "\n".join([*lines, f"Mean and std are in {result['output']}."])


def grid_of(text: str, n_places: int) -> tuple[int, ...]:
    """Numbers of places along each axis, from a text such as 500x300.

    Raises
    ------
    InvalidInputError
        The text holds other than one whole number for each place, or the grid is too large.
    """
    parts = text.lower().split("x")
    if len(parts) != n_places or not all(is_whole(part) and int(part) > 0 for part in parts):
        raise InvalidInputError(
            f"--grid: expected {n_places} numbers above zero joined by x, one for each of "
            f"--places, got {text!r:.60}"
        )
    counts = tuple(int(part) for part in parts)
    whole = 1
    for count in counts:
        whole *= count
    if whole > MOST_PLACES:
        raise InvalidInputError(f"--grid: expected at most {MOST_PLACES} places, got {whole}")
    return counts
