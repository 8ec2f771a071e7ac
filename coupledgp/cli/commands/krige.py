"""`coupledgp krige`: values at places of a table on a grid, by kriging with all rows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from coupledgp.cli.shared.declare import Options, argument, option, required
from coupledgp.cli.shared.options import check_distinct, is_whole
from coupledgp.errors import InvalidInputError, MissingLibraryError

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
    geographic: str = option(
        "Places that are latitude,longitude in degrees; auto by their names, or none.",
        default="auto",
    )
    observed: bool = option(
        "Standard deviations of observations, noise included, not of the function.", default=False
    )
    model: Path | None = option("Also write the fitted model, for predict and report.")


def krige(options: KrigeOptions) -> None:
    """Fit all rows, and write mean and standard deviation on a grid over the box of the rows."""
    from coupledgp.cli.commands.krige_tasks import fit_places, read_places, write_map
    from coupledgp.cli.readers.tables import check_table_path
    from coupledgp.diagnostics.pages.terminal import PlainConsole

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
    X, y = read_places(options.data, names, options.target)
    asked = {"auto": "auto", "none": None}
    geographic = asked.get(options.geographic, options.geographic.split(","))
    gp = fit_places(X, y, options.kernel, options.trend, options.shared, options.seed, geographic)
    write_map(gp, X, counts, options.observed, options.output, netcdf)
    if options.model is not None:
        gp.save(options.model, include_data=True)  # which reports need
    result = {**described(gp), "rows": len(y), "output": str(options.output)}
    if options.as_json:
        print(json.dumps(result))
        return
    PlainConsole(soft_wrap=True).print(_sentences(result), markup=False)


def described(gp: Any) -> dict[str, Any]:
    """What was fitted, as plain values."""
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
    }


def _sentences(result: dict[str, Any]) -> str:
    lengths = ", ".join(f"{value:.4g}" for value in result["lengthscale"])
    if len(result["lengthscale"]) == len(result["lengthscale_of"]):
        lengths += f" of {', '.join(result['lengthscale_of'])}"
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
