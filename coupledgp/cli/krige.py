"""`coupledgp krige`: values at places of a table on a grid, by kriging with all rows."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

import coupledgp as cgp
from coupledgp.cli import options as o
from coupledgp.cli import shared as s
from coupledgp.cli import tables as t
from coupledgp.cli.fit import PAGE
from coupledgp.cli.options import MODEL, OUTPUT, Text, opt
from coupledgp.core.transformed import has_normal_noise
from coupledgp.errors import InvalidInputError
from coupledgp.ground.extras import library
from coupledgp.ground.progress import duration
from coupledgp.ground.validation import wrong
from coupledgp.tables.globe import narrower

# Places of a grid along each column, and most of a whole grid.
N_PLACES, MOST_PLACES = 100, 50_000_000
# Rows whose prediction is timed before that of a grid.
TRIAL_ROWS = 2048
NETCDF = (".nc", ".nc4")
OWN = (
    "kernel",
    "trend",
    "likelihood",
    "geographic",
    "places",
    "model",
    "random_state",
    "progress",
    "missing",
)


def krige(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Table of places and values, or -.")],
    output: Annotated[Path, opt(".nc, .csv, .parquet or -.", "--output", "-o", panel=OUTPUT)],
    target: o.Target = None,
    places: Annotated[Text, opt("Columns of places: east,north. [default: by name]")] = None,
    geographic: Annotated[str, opt("latitude,longitude in degrees; auto or none.")] = "auto",
    seed: o.Seed = 0,
    kernel: o.Kernel = None,
    trend: Annotated[Text, opt("constant, or linear in places.", panel=MODEL)] = None,
    likelihood: o.Likelihood = None,
    further: o.Further = None,
    grid: Annotated[Text, opt("Places a column: 500x300. [default: 100]", panel=OUTPUT)] = None,
    level: o.Level = None,
    latent: o.Latent = False,
    save_model: o.SaveModel = None,
    report: o.Page = None,
    format: o.Format = "csv",
    as_json: o.AsJson = False,
    show: o.Show = None,
) -> None:
    """Krige values at places on a grid over their box, with all rows.

    The kernel, its lengthscales and the noise come from the rows: a million of them in two columns
    take about a minute. OUT has mean and std of each place. Points in GeoPackage and GeoJSON, too.

    Example: coupledgp krige wells.csv -t depth --places east,north --grid 500x300 -o depth.nc
    """
    s.check_paths(
        {"DATA": data},
        {"--output": (output, (*NETCDF, *t.WRITTEN)), "--save-model": (save_model, ()),
         "--report": (report, PAGE)},
        as_json,
    )  # fmt: skip
    if output.suffix in NETCDF:
        library("xarray", "--output: writing NetCDF")
    if level is not None:
        s.check_level(level)
    named = None if places is None else [name.strip() for name in places.split(",")]
    if named is not None:
        grid_of(grid, len(named))
    degrees: Any = {"auto": "auto", "none": None}.get(geographic, geographic.split(","))
    gaussian = likelihood in (None, "gaussian")
    kind: Any = cgp.LatticeGPRegressor if gaussian else cgp.GPRegressor
    own = {"geographic": degrees, "random_state": seed} | s.parameters_of(kind, further, OWN)
    own |= {} if kernel in (None, "auto") else {"kernel": kernel}
    own |= {} if trend is None else {"trend": trend}
    own |= {} if gaussian else {"likelihood": likelihood}
    model = s.checked(kind, s.options_of(kind, OWN), **own)
    frame = t.read_table(data)
    names = named or _places(data, frame)
    column = t.value_column(data, frame, names, target)
    t.check_columns(frame, names, f"--places: {data}")
    if frame.empty:
        raise InvalidInputError(f"{data}: expected rows below the header, got none")
    rows = {name: t.numbers(frame, name, data) for name in names}
    counts = grid_of(grid, len(names))
    outputs = (output, save_model, report)
    with s.files(*outputs, format=format) as paths, s.about(data, options=s.options_of(kind, OWN)):
        inputs, y = pd.DataFrame(rows), pd.Series(t.numbers(frame, column, data), name=column)
        model.fit(inputs, y)
        of_function = latent or has_normal_noise(model.process_)
        axes = _axes(model, rows, counts)
        _announce(model, inputs, int(np.prod(counts)))
        found = model.predict_grid(axes, return_std=True, level=level, latent=of_function)
        _write(found, axes, y, paths[0])
        if paths[1] is not None:
            model.save(paths[1], include_data=True)  # which reports need
        judge = s.judged(model, inputs.iloc[:0], y.iloc[:0]) if report is not None else None
        if paths[2] is not None and judge is not None:
            judge.to_html(paths[2])
    what = "the function, noise left out," if of_function else "observations, noise included,"
    head = [f"{data.name}: {len(y)} rows of {column!r} at {', '.join(names)}.", model.explain()]
    last = [
        f"Mean and std of {what} are in {output}.",
        *(f"Written: {path}." for path in outputs[1:] if path),
    ]
    result = s.heading(
        rows=len(y), places=names, target=column, grid=list(counts), latent=of_function,
        model=s.described(model),
        report=None if judge is None else judge.to_dict(), output=output,
    )  # fmt: skip
    s.answer(result, s.told(judge, head, last), as_json, *outputs)


def grid_of(text: str | None, n_places: int) -> tuple[int, ...]:
    """Numbers of places along each axis, from a text such as 500x300; None: 100 each.

    Raises
    ------
    InvalidInputError
        The text holds other than one whole number for each place, or the grid is too large.
    """
    parts = [str(N_PLACES)] * n_places if text is None else text.lower().split("x")
    if len(parts) != n_places or not all(one.isdecimal() and 0 < int(one) < 10**9 for one in parts):
        raise wrong(
            "--grid", f"{n_places} numbers above zero joined by x, one for each of --places", text
        )
    counts = tuple(int(part) for part in parts)
    if np.prod(counts, dtype=float) > MOST_PLACES:
        raise InvalidInputError(f"--grid: expected at most {MOST_PLACES} places, got {text}")
    return counts


def _places(data: Path, frame: pd.DataFrame) -> list[str]:
    names = list(frame.columns)
    if data.suffix.lower() in t.POINTS:
        return [name for name in names if name in ("longitude", "latitude", "x", "y", "z")]
    for words in (t.DEGREES, t.XYZ, t.XY, t.METRES, (t.X,)):
        found = t.guessed(data, names, words, "places", "--places")
        if found is not None:
            return found
    raise InvalidInputError(f"--places: {data}: expected the columns that are places, got {names}")


def _axes(model: Any, rows: dict[str, Any], counts: tuple[int, ...]) -> dict[str, Any]:
    """Coordinates of a grid over the rows' box, which may lie across the date line."""
    encoding = getattr(model, "encoding_", None)
    places = None if encoding is None else encoding.places
    axes = {}
    for j, ((name, values), count) in enumerate(zip(rows.items(), counts, strict=True)):
        kept = narrower(values) if places is not None and j == places[1] else values
        axes[name] = np.linspace(kept.min(), kept.max(), count)
    return axes


def _announce(model: Any, inputs: pd.DataFrame, n_places: int) -> None:
    """Say how long the places of a grid take, by the time of some rows, if it is long."""
    some = inputs.iloc[:TRIAL_ROWS]
    if n_places > 10 * len(some):
        start = time.process_time()
        model.predict(some, return_std=True)
        seconds = (time.process_time() - start) * n_places / len(some)
        if seconds >= 10:
            s.notice(f"mean and std of {n_places} places: about {duration(seconds)} of one core")


def _write(found: Any, axes: dict[str, Any], y: Any, path: Path | None) -> None:
    """Write the answers of a grid as NetCDF or as a table of all places."""
    assert path is not None
    if "lower" in found and s.are_counts(y):
        found["lower"] = np.maximum(found["lower"], 0.0)
    if path.suffix in NETCDF:
        found.to_netcdf(path, engine="scipy", format="NETCDF3_64BIT")
        return
    mesh = np.meshgrid(*axes.values(), indexing="ij")
    table = {name: part.ravel() for name, part in zip(axes, mesh, strict=True)}
    keys = [key for key in ("mean", "std", "lower", "upper") if key in found]
    t.write_table(pd.DataFrame(table | {key: np.asarray(found[key]).ravel() for key in keys}), path)
