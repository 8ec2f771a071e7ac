"""`coupledgp krige`: values at places of a table on a grid, by kriging with all rows."""

from __future__ import annotations

import json
from typing import Any

from coupledgp.cli.commands.table_options import N_PLACES, KrigeOptions
from coupledgp.cli.shared.options import is_whole
from coupledgp.errors import InvalidInputError
from coupledgp.ground.extras import library

# Most places of a grid: a map of them takes some gigabytes.
MOST_PLACES = 50_000_000
NETCDF = (".nc", ".nc4")


def krige(options: KrigeOptions) -> None:
    """Fit all rows, and write mean and standard deviation on a grid over the box of the rows."""
    from coupledgp.cli.commands.krige_tasks import (
        described,
        model_of,
        of_function,
        read_places,
        write_map,
    )
    from coupledgp.cli.readers.tables import check_table_path
    from coupledgp.cli.shared.declare import as_options
    from coupledgp.diagnostics.pages.terminal import PlainConsole

    netcdf = options.output.suffix in NETCDF
    if netcdf:
        library("xarray", "--output: NetCDF")
    else:
        check_table_path(options.output, "--output", NETCDF)
    names = None if options.places is None else [one.strip() for one in options.places.split(",")]
    if names is not None:
        grid_of(options.grid, len(names))
    with as_options(options):
        gp = model_of(options)
        gp.check_parameters()
    X, y = read_places(options.data, names, options.target or None)
    counts = grid_of(options.grid, X.num_columns)
    gp.fit(X, y)
    write_map(gp, X, counts, options, netcdf)
    if options.save_model is not None:
        gp.save(options.save_model, include_data=True)  # which reports need
    result = {
        **described(gp), "rows": len(y), "output": str(options.output),
        "latent": of_function(gp, options),
    }  # fmt: skip
    if options.as_json:
        print(json.dumps(result))
        return
    PlainConsole(soft_wrap=True).print(_sentences(result), markup=False)


def _sentences(result: dict[str, Any]) -> str:
    of = "the function, noise left out," if result["latent"] else "observations, noise included,"
    last = f"Mean and std of {of} are in {result['output']}."
    if "lengthscale" not in result:
        lines = [f"{result['rows']} rows.", *result["explanation"]]
        return "\n".join([*lines, last])
    lengths = ", ".join(f"{value:.4g}" for value in result["lengthscale"])
    if len(result["lengthscale"]) == len(result["lengthscale_of"]):
        lengths += f" of {', '.join(result['lengthscale_of'])}"
    transform = result["target_transform"]
    lines = [
        f"{result['rows']} rows, {result['kernel']} kernel, lengthscale {lengths}.",
        f"Standard deviation of the function {result['outputscale'] ** 0.5:.4g}, of the noise "
        f"{result['noise'] ** 0.5:.4g}{'' if transform is None else f', after {transform}'}.",
    ]
    if result["std_error"]:
        lines.append(f"Standard deviations have a relative error of {result['std_error']:.0%}.")
    return "\n".join([*lines, last])


def grid_of(text: str | None, n_places: int) -> tuple[int, ...]:
    """Numbers of places along each axis, from a text such as 500x300; None: 100 each.

    Raises
    ------
    InvalidInputError
        The text holds other than one whole number for each place, or the grid is too large.
    """
    parts = [str(N_PLACES)] * n_places if text is None else text.lower().split("x")
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
