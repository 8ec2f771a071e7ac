"""`coupledgp forecast`: values over time at the nodes of a graph, gaps and later times included."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd

import coupledgp as cgp
from coupledgp.cli import options as o
from coupledgp.cli import shared as s
from coupledgp.cli import tables as t
from coupledgp.cli.domains import Domain, Source, is_mesh, read_domain
from coupledgp.cli.fit import PAGE
from coupledgp.cli.options import OUTPUT, TIME, File, Text, opt
from coupledgp.cli.predict import load
from coupledgp.cli.series import NETCDF, ZARR, Reading, read_series
from coupledgp.datasets import SHAPES
from coupledgp.errors import InvalidInputError
from coupledgp.fields.road_files import LINES
from coupledgp.ground.extras import library
from coupledgp.ground.validation import wrong
from coupledgp.time.panel import Panel, as_panel
from coupledgp.time.stamps import read_stamps, zone_name

KINDS = np.array(["observed", "gap", "forecast", "hidden"], dtype=object)
MOST_ROWS, SAME = 2 * 10**7, 1e-6
# Endings of pictures, and fewest times of one.
PICTURES, LEAST_DRAWN = (".png", ".svg"), 96
OWN = ("graph", "kernel", "random_state", "progress", "missing_values")


def forecast(
    path: o.GraphFile,
    *,
    values: o.Values,
    target: o.Target = None,
    node_column: o.NodeColumn = None,
    length: o.Length = None,
    weight: o.Weight = None,
    positions: o.Positions = None,
    layer: o.Layer = None,
    crs: o.Crs = None,
    seed: o.Seed = 0,
    time_column: Annotated[Text, opt("Of times. [default: by name]", panel=TIME)] = None,
    time_format: Annotated[Text, opt("If not ISO 8601: '%d.%m.%Y %H:%M'.", panel=TIME)] = None,
    zone: Annotated[Text, opt("Time zone, as Europe/Paris.", panel=TIME)] = None,
    resolution: Annotated[
        Text, opt("Round times, as 5min; average what meets.", panel=TIME)
    ] = None,
    missing_values: Annotated[
        Text, opt("Numbers that stand for gaps, with commas between: 0,-1.", panel=TIME)
    ] = None,
    ahead: Annotated[Text, opt("Predict also this long after the values: 1h.", panel=TIME)] = None,
    times: Annotated[
        Text, opt("FIRST:LAST:STEP, instead of the values' times.", panel=TIME)
    ] = None,
    nodes: Annotated[Text, opt("all, sensors, labels, or those of a table.", panel=TIME)] = None,
    update: Annotated[File, opt("Model to which later rows are added.", panel=TIME)] = None,
    model: o.Kind = "auto",
    kernel: o.Kernel = None,
    further: o.Further = None,
    output: o.Output = None,
    picture: Annotated[
        File, opt("Draw the law of four sensors: .png or .svg.", panel=OUTPUT)
    ] = None,
    left_out: o.LeftOut = None,
    save_model: o.SaveModel = None,
    report: o.Page = None,
    level: o.Level = 0.95,
    format: o.Format = "csv",
    as_json: o.AsJson = False,
    show: o.Show = None,
) -> None:
    """Predict values over time at the nodes of a graph, of roads or of a mesh.

    VALUES has gaps: a long table of node, time and value, a wide one with a column for each node,
    NetCDF or Zarr. Each node and time gets mean, std, an interval of 95 % (--level) and its kind:
    observed, gap, forecast or hidden.

    Example: coupledgp forecast roads.csv --values speeds.parquet --ahead 1h -o law.parquet
    """
    saved = None if update == save_model else update
    inputs = {"GRAPH": None if str(path) in SHAPES else path, "--values": values,
              "--positions": positions, "--update": saved}  # fmt: skip
    s.check_paths(
        inputs,
        {"--output": (output, (*t.WRITTEN, *NETCDF, *ZARR)), "--left-out": (left_out, t.WRITTEN),
         "--save-model": (save_model, ()), "--report": (report, PAGE),
         "--picture": (picture, PICTURES)},
        as_json,
    )  # fmt: skip
    if zone is not None:
        zone_name(zone, "--zone")
    s.check_level(level or 0.95)
    ending = "" if output is None else output.suffix.lower()
    if ending in (*NETCDF, *ZARR):
        library("h5netcdf" if ending in NETCDF else "zarr", f"--output: {ending}")
        library("xarray", f"--output: {ending}")
    own = s.parameters_of(cgp.GraphTimeGPRegressor, further, OWN)
    own |= {} if kernel is None else {"kernel": kernel}
    own["missing_values"] = _numbers(missing_values)
    names = s.options_of(cgp.GraphTimeGPRegressor, OWN) | {"ahead": "--ahead"}
    unfitted = s.checked(cgp.GraphTimeGPRegressor, names, graph=None, **own)
    if model == "auto":
        model = "field" if path.suffix.lower() in LINES else "graph"
    elements = "vertices" if is_mesh(path) and model == "graph" else None
    source = Source(model, length, weight, positions, layer, crs, "auto", elements, node_column)
    domain = read_domain(path, source)
    reading = Reading(
        time_column, time_format, node_column, target, zone, resolution, _numbers(missing_values)
    )
    name, panel = read_series(values, domain, reading)
    law = page = None
    with (
        s.files(output, left_out, save_model, report, picture, format=format) as paths,
        s.about(values, options=names),
    ):
        if update is None:
            fitted = unfitted.set_params(graph=domain.graph or domain.operator).fit(panel)
        else:
            fitted = _updated(load(update, "--update"), update, panel)
        sensors = [str(label) for label in fitted.nodes_]
        if paths[0] is not None or paths[4] is not None:
            labels = _nodes(nodes, domain, sensors)
            numbers = _times(fitted, times, ahead, zone)
        if paths[4] is not None:
            shown = [label for label in labels if str(label) in set(sensors)] or fitted.nodes_
            _draw(fitted, shown, numbers, ahead, paths[4], "" if name == "value" else name)
        if paths[0] is not None:
            law = law_frame(fitted, labels, numbers, level or 0.95)
            _write(law, paths[0])
        if paths[1] is not None:
            table = fitted.leave_one_sensor_out()
            columns = {key: np.asarray(part) for key, part in table.columns.items()}
            t.write_table(pd.DataFrame(columns | {"node": list(map(str, table.node))}), paths[1])
        if paths[2] is not None:
            fitted.save(paths[2], include_data=True)
        if paths[3] is not None:
            page = cgp.hide(
                fitted, panel, refit=update is None, title=f"{name} over time on {path.name}",
                random_state=seed,
            )  # fmt: skip
            page.to_html(paths[3])
    rows = {} if law is None else {output: f" ({len(law)} rows)"}
    lines = _described(fitted, name, path, values) + ([] if page is None else [str(page)])
    outputs = (output, left_out, save_model, report, picture)
    lines += [f"Written: {one}{rows.get(one, '')}." for one in outputs if one is not None]
    result = s.heading(
        data={"path": path, "values": values, "value": name, "n_sensors": len(fitted.nodes_),
              "n_nodes": len(domain.labels), "gaps": fitted.gaps_.share},
        model={"kernel": repr(fitted.kernel_), "law": fitted.method_reason_,
               "log_evidence": float(fitted.log_marginal_likelihood_value_)},
        report=None if page is None else page.to_dict(),
        output={"path": output, "rows": 0 if law is None else len(law), "left_out": left_out,
                "model": save_model, "report": report, "picture": picture},
    )  # fmt: skip
    s.answer(result, "\n".join(lines), as_json, *outputs)


def _numbers(text: str | None) -> list[float] | None:
    try:
        return None if text is None else [float(part) for part in text.split(",")]
    except ValueError:
        raise wrong("--missing-values", "numbers with commas between", text) from None


def _draw(
    model: Any, labels: list[Any], times: Any, ahead: str | None, path: Path, unit: str
) -> None:
    """Draw the law of some sensors; before a forecast eight times as long."""
    from coupledgp.diagnostics.render.pictures import series_of  # slow

    chosen = [labels[k] for k in np.unique(np.linspace(0, len(labels) - 1, 4).round().astype(int))]
    if ahead is not None:
        h = int((times > model.grid_process_.times[-1]).sum())
        times = times[-max(9 * h, LEAST_DRAWN) :]
    series_of(model, chosen, times, unit).save(path)


def _described(model: Any, name: str, path: Path, values: Path) -> list[str]:
    """What was fitted, in words."""
    times, gaps = model.grid_process_.times, model.gaps_
    first, last = model.time_axis_.texts(times[[0, -1]])
    return [
        f"{path.name}: values {name!r} of {values.name}: {len(model.nodes_)} sensors, {times.size} "
        f"times from {first} to {last}; {gaps.share:.1%} gaps, the longest of {gaps.longest_run}",
        f"Kernel of the nodes: {model.kernel_!r}; {model.method_reason_}",
        f"{len(model.outliers_.node)} values are far from their law given all others.",
    ]


def _updated(model: Any, path: Path, panel: Panel) -> Any:
    """A saved model with the later values of a panel."""
    if not isinstance(model, cgp.GraphTimeGPRegressor):
        text = f"expected a model of values over time, got {type(model).__name__}"
        raise InvalidInputError(f"--update: {path}: {text}")
    known, stamps = model.grid_process_.times, panel.axis.labels(panel.axis.values)
    later = model.time_axis_.numbers(stamps) > known[-1] + SAME * _step(known)
    there = np.asarray(~np.isnan(panel.values[:, later]).all(axis=1))
    if not there.any():
        return model
    nodes = [node for node, kept in zip(panel.nodes, there, strict=True) if kept]
    stamps = panel.axis.labels(panel.axis.values[later])
    return model.partial_fit(as_panel(nodes, stamps, panel.values[:, later][there]))


def _step(times: Any) -> float:
    return float(np.median(np.diff(times))) if times.size > 1 else 1.0


def _nodes(text: str | None, domain: Domain, sensors: list[str]) -> list[Any]:
    """Labels of the nodes that are predicted."""
    if text in (None, "all"):
        return domain.labels
    if text == "sensors":
        return domain.find(sensors, lambda k: f"--nodes: sensor {k + 1}")
    path = Path(str(text))
    wanted = str(text).split(",")
    if path.suffix and path.is_file():
        wanted = t.texts(t.read_table(path, ["node"]), "node", path)
    return list(dict.fromkeys(domain.find(wanted, lambda k: f"--nodes: place {k + 1}")))


def _times(model: Any, times: str | None, ahead: str | None, zone: str | None) -> Any:
    """Numbers of the axis of the data or the requested times, and of those ahead."""
    found = model.grid_process_.times if times is None else _parsed(times, model.time_axis_, zone)
    return found if ahead is None else np.union1d(found, model.times_ahead(ahead))


def _parsed(text: str, axis: Any, zone: Text) -> Any:
    """Numbers from FIRST:LAST:STEP; of all ways to part it the one that can be read counts."""
    parts, found = text.split(":"), set()
    for i in range(1, len(parts) - 1):
        for j in range(i + 1, len(parts)):
            with suppress(InvalidInputError, ValueError):
                ends = [_number(":".join(part), axis, zone) for part in (parts[:i], parts[i:j])]
                found.add((*ends, axis.duration(":".join(parts[j:]))))
    first, last, step = found.pop() if len(found) == 1 else (1.0, 0.0, 1.0)
    if not 0 <= last - first < MOST_ROWS * step:
        raise wrong(
            "--times", f"FIRST:LAST:STEP, such as 2012-03-05:2012-03-06:15min, in {axis.kind}", text
        )
    return first + step * np.arange(int(np.floor((last - first) / step + 1e-9) + 1))


def _number(text: str, axis: Any, zone: Text) -> float:
    if axis.origin is None:
        return float(axis.numbers([float(text)])[0])
    stamps = read_stamps([text])
    within = stamps.zone is None and axis.zone is not None
    return float(axis.numbers(stamps.within(zone or axis.zone) if within else stamps)[0])


def law_frame(model: Any, labels: list[Any], times: Any, level: float) -> pd.DataFrame:
    """The law at nodes and times, a row each, times outside: mean, std, lower, upper and kind."""
    if len(labels) * len(times) > MOST_ROWS:
        raise InvalidInputError(
            f"--output: expected at most {MOST_ROWS:.0e} rows, got {len(labels)} nodes at "
            f"{len(times)} times; --times FIRST:LAST:STEP and --nodes sensors choose fewer"
        )
    stamps = model.time_axis_.labels(times)
    grid = model.grid(labels, stamps)
    mean, std = model.law_on_grid(grid.sites, grid.times)
    tails = [0.5 - level / 2, 0.5 + level / 2]
    ends = model.quantiles_on_grid(grid.sites, grid.times, tails)
    if s.are_counts(model.panel_.values):
        ends = np.maximum(ends, 0.0)
    columns = {"mean": mean, "std": std, "lower": ends[..., 0], "upper": ends[..., 1]}
    n_nodes, n_times = mean.shape
    names = {
        "node": np.tile(np.array(list(map(str, labels)), dtype=object), n_times),
        "time": pd.Index(stamps).repeat(n_nodes),
    }
    kinds = KINDS[_kinds(model, grid.sites, times)]
    return pd.DataFrame(
        names | {key: part.T.ravel() for key, part in columns.items()} | {"kind": kinds.T.ravel()}
    )


def _kinds(model: Any, sites: Any, times: Any) -> Any:
    """Kind of each cell (p, m), as its place in `KINDS`."""
    process = model.grid_process_
    place, same = process.rows_of(sites), SAME * _step(process.times)
    known, found = place >= 0, np.full((len(sites), len(times)), 3)
    column = np.searchsorted(process.times, times - same)
    column = np.minimum(column, process.times.size - 1)
    there = np.abs(process.times[column] - times) <= same
    found[known] = np.where(process.observed[np.ix_(place[known], column)] & there, 0, 1)
    found[:, times > process.times[-1] + same] = 2
    return found


def _write(law: Any, path: Path) -> None:
    """Write a law as a table, or as NetCDF or Zarr with dimensions node and time."""
    if path.suffix.lower() not in (*NETCDF, *ZARR):
        t.write_table(law, path)
        return
    if getattr(law["time"].dtype, "tz", None) is not None:
        law = law.assign(time=law["time"].dt.tz_convert("UTC").dt.tz_localize(None))
    data = law.set_index(["node", "time"]).to_xarray()
    data["kind"] = data["kind"].astype(str)
    if path.suffix.lower() in ZARR:
        data.to_zarr(path)
    else:
        data.to_netcdf(path, engine="h5netcdf")
