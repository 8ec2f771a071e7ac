"""`coupledgp forecast`: values over time at the nodes of a graph, gaps and later times included."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd

import coupledgp as cgp
from coupledgp.cli2 import options as o
from coupledgp.cli2 import tables as t
from coupledgp.cli2.domains import Domain, Source, is_mesh, read_domain
from coupledgp.cli2.fit import PAGE
from coupledgp.cli2.options import TIME, File, Text, opt
from coupledgp.cli2.predict import load
from coupledgp.cli2.results import are_counts, heading
from coupledgp.cli2.run import (
    about,
    answer,
    check_level,
    check_paths,
    checked,
    files,
    on_disk,
    options_of,
    parameters_of,
)
from coupledgp.datasets import SHAPES
from coupledgp.errors import InvalidInputError
from coupledgp.formats.road_files import LINES
from coupledgp.ground.extras import library
from coupledgp.series import Panel, as_panel
from coupledgp.series.stamps import Stamps, read_stamps, zone_name

NETCDF, ZARR = (".nc", ".nc4", ".cdf", ".h5netcdf"), (".zarr",)
KINDS = np.array(["observed", "gap", "forecast", "hidden", "rejected"], dtype=object)
MOST_ROWS, MOST_LEFT_OUT, SAME = 2 * 10**7, 100, 1e-6
OWN = ("graph", "kernel", "random_state", "progress", "missing")
FORMAT = "--time-format '%d.%m.%Y %H:%M' reads others"


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
    left_out: o.LeftOut = None,
    save_model: o.SaveModel = None,
    report: o.Page = None,
    level: o.Level = 0.95,
    latent: o.Latent = False,
    format: o.Format = "csv",
    as_json: o.AsJson = False,
    show: o.Show = None,
) -> None:
    """Predict values over time at the nodes of a graph, of roads or of a mesh.

    VALUES has gaps: a long table of node, time and value, a wide one with a column for each node,
    NetCDF or Zarr. Each node and time gets mean, std, an interval of 95 % (--level) and its kind:
    observed, gap, forecast, hidden or rejected.

    Example: coupledgp forecast roads.csv --values speeds.parquet --ahead 1h -o law.parquet
    """
    saved = None if update == save_model else update
    inputs = {"GRAPH": None if str(path) in SHAPES else path, "--values": values,
              "--positions": positions, "--update": saved}  # fmt: skip
    check_paths(
        inputs,
        {"--output": (output, (*t.WRITTEN, *NETCDF, *ZARR)), "--left-out": (left_out, t.WRITTEN),
         "--save-model": (save_model, ()), "--report": (report, PAGE)},
        as_json,
    )  # fmt: skip
    if zone is not None:
        zone_name(zone, "--zone")
    check_level(level or 0.95)
    ending = "" if output is None else output.suffix.lower()
    if ending in (*NETCDF, *ZARR):
        library("h5netcdf" if ending in NETCDF else "zarr", f"--output: {ending}")
        library("xarray", f"--output: {ending}")
    own = parameters_of(cgp.GraphTimeGPRegressor, further, OWN) | {"random_state": seed}
    own |= {} if kernel is None else {"kernel": kernel}
    names = options_of(cgp.GraphTimeGPRegressor, OWN) | {"ahead": "--ahead"}
    unfitted = checked(cgp.GraphTimeGPRegressor, names, graph=None, **own)
    if model == "auto":
        model = "field" if path.suffix.lower() in LINES else "graph"
    elements = "vertices" if is_mesh(path) and model == "graph" else None
    source = Source(model, length, weight, positions, layer, crs, "auto", elements, node_column)
    domain = read_domain(path, source)
    reading = Reading(time_column, time_format, node_column, target, zone, resolution)
    name, panel = read_series(values, domain, reading)
    law = table = page = None
    with (
        files(output, left_out, save_model, report, format=format) as paths,
        about(values, options=names),
    ):
        if update is None:
            fitted = unfitted.set_params(graph=domain.graph or domain.operator).fit(panel)
        else:
            fitted = _updated(load(update, "--update"), update, panel)
        if paths[0] is not None:
            labels = _nodes(nodes, domain, [str(label) for label in fitted.nodes_])
            numbers = _times(fitted, times, ahead, zone)
            law = law_frame(fitted, labels, numbers, level or 0.95, latent)
            _write(law, paths[0])
        if left_out is not None or report is not None:  # a page alone has some of many sensors
            table = fitted.leave_one_sensor_out(None if left_out is not None else MOST_LEFT_OUT)
        if paths[1] is not None and table is not None:
            columns = {key: np.asarray(part) for key, part in table.columns.items()}
            t.write_table(pd.DataFrame(columns | {"node": list(map(str, table.node))}), paths[1])
        if paths[2] is not None:
            fitted.save(paths[2], include_data=True)
        if paths[3] is not None:
            page = cgp.diagnostics.space_time_report(
                fitted, splits=0 if update is not None else 1, left_out=table, forecast=ahead,
                positions=domain.coordinates, crs=domain.crs,
                unit=None if name == "value" else name,
                title=f"{name} over time on {path.name}", data=f"{values.name} on {path.name}",
                random_state=seed,
            )  # fmt: skip
            page.to_html(paths[3])
    rows = {} if law is None else {output: f" ({len(law)} rows)"}
    lines = _described(fitted, name, path, values) + ([] if page is None else [str(page)])
    outputs = (output, left_out, save_model, report)
    lines += [f"Written: {one}{rows.get(one, '')}." for one in outputs if one is not None]
    result = heading(
        data={"path": path, "values": values, "value": name, "n_sensors": len(fitted.nodes_),
              "n_nodes": len(domain.labels), "gaps": fitted.gaps_.share},
        model={"kernel": repr(fitted.kernel_), "noise": float(np.mean(fitted.noise_)),
               "log_evidence": float(fitted.log_marginal_likelihood_value_)},
        report=None if page is None else page.to_dict(),
        output={"path": output, "rows": 0 if law is None else len(law), "left_out": left_out,
                "model": save_model, "report": report},
    )  # fmt: skip
    answer(result, "\n".join(lines), as_json, *outputs)


def _described(model: Any, name: str, path: Path, values: Path) -> list[str]:
    """What was fitted, in words."""
    times, gaps = model.grid_process_.rows.times, model.gaps_
    first, last = model.time_axis_.texts(times[[0, -1]])
    terms = (f"{one.where} {np.sqrt(one.variance):.3g} by {one.kernel!r}" for one in model.terms_)
    noise = np.sqrt(np.mean(model.noise_))
    return [
        f"{path.name}: values {name!r} of {values.name}: {len(model.nodes_)} sensors, {times.size} "
        f"times from {first} to {last}; {gaps.share:.1%} gaps, the longest of {gaps.longest_run}",
        f"Kernel of the nodes: {model.kernel_!r}; {model.method_reason_}",
        f"Standard deviations: {', '.join(terms)}; noise {noise:.3g}.",
    ]


@dataclass(frozen=True)
class Reading:
    """Options on columns of values over time: names, their format, zone and resolution."""

    time: Text
    form: Text
    node: Text
    target: Text
    zone: Text
    resolution: Text

    def stamps(self, values: Any, where: str) -> Stamps:
        """Times, in the zone if one is given."""
        found = read_stamps(values, where)
        return found if self.zone is None else found.within(self.zone, "--zone")


def read_series(path: Path, domain: Domain, reading: Reading) -> tuple[str, Panel]:
    """Values over time and their name; nodes are labels of the graph.

    Raises
    ------
    InvalidInputError
        A column is missing, a node is unknown, a time or a value is none.
    """
    with about(path, options={"resolution": "--resolution"}):
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
        stamps = reading.stamps(t.dates(frame, time, path, reading.form, FORMAT), where)
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
            return "value", as_panel(labels, stamps, np.array(parts), reading.resolution)
        column = t.node_column(path, frame, reading.node)
        named = np.array(t.texts(t.read_table(path, [column]), column, path), dtype=object)
        code, distinct = pd.factorize(named)
        labels = domain.find(
            list(distinct),
            lambda k: f"{path}: column {column!r}, data row {int(np.argmax(code == k)) + 1}",
        )
        value = t.value_column(path, frame, [column, time], reading.target)
        found_values = t.numbers(frame, value, path, missing=True)
        return value, as_panel([labels[k] for k in code], stamps, found_values, reading.resolution)


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
        stamps = reading.stamps(part[time].values, f"{path}: dimension {time!r}")
        values = part.transpose(node, time).values
        return chosen, as_panel(labels, stamps, values, reading.resolution)


def _updated(model: Any, path: Path, panel: Panel) -> Any:
    """A saved model with the later values of a panel."""
    if not isinstance(model, cgp.GraphTimeGPRegressor):
        text = f"expected a model of values over time, got {type(model).__name__}"
        raise InvalidInputError(f"--update: {path}: {text}")
    known, stamps = model.grid_process_.rows.times, panel.axis.labels(panel.axis.values)
    later = model.time_axis_.numbers(stamps) > known[-1] + SAME * _step(known)
    there = ~np.isnan(panel.values[:, later]).all(axis=1)
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
    found = (
        model.grid_process_.rows.times if times is None else _parsed(times, model.time_axis_, zone)
    )
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
        raise InvalidInputError(
            "--times: expected FIRST:LAST:STEP, such as 2012-03-05:2012-03-06:15min, in "
            f"{axis.kind}, got {text!r:.100}"
        )
    return first + step * np.arange(int(np.floor((last - first) / step + 1e-9) + 1))


def _number(text: str, axis: Any, zone: Text) -> float:
    if axis.origin is None:
        return float(axis.numbers([float(text)])[0])
    stamps = read_stamps([text])
    within = stamps.zone is None and axis.zone is not None
    return float(axis.numbers(stamps.within(zone or axis.zone) if within else stamps)[0])


def law_frame(
    model: Any, labels: list[Any], times: Any, level: float, latent: bool
) -> pd.DataFrame:
    """The law at nodes and times, a row each, times outside: mean, std, lower, upper and kind."""
    if len(labels) * len(times) > MOST_ROWS:
        raise InvalidInputError(
            f"--output: expected at most {MOST_ROWS:.0e} rows, got {len(labels)} nodes at "
            f"{len(times)} times; --times FIRST:LAST:STEP and --nodes sensors choose fewer"
        )
    stamps = model.time_axis_.labels(times)
    grid = model.grid(labels, stamps)
    mean, std = model.law_on_grid(grid.sites, grid.times, latent=latent)
    tails = [0.5 - level / 2, 0.5 + level / 2]
    ends = model.quantiles_on_grid(grid.sites, grid.times, tails, latent=latent)
    if are_counts(model.panel_.values):
        ends = np.maximum(ends, 0.0)
    columns = {"mean": mean, "std": std, "lower": ends[..., 0], "upper": ends[..., 1]}
    n_nodes, n_times = mean.shape
    names = {
        "node": np.tile(np.array(list(map(str, labels)), dtype=object), n_times),
        "time": pd.Index(stamps).repeat(n_nodes),
    }
    kinds = KINDS[_kinds(model, labels, grid.sites, times)]
    return pd.DataFrame(
        names | {key: part.T.ravel() for key, part in columns.items()} | {"kind": kinds.T.ravel()}
    )


def _kinds(model: Any, labels: list[Any], sites: Any, times: Any) -> Any:
    """Kind of each cell (p, m), as its place in `KINDS`."""
    rows = model.grid_process_.rows
    place = np.minimum(np.searchsorted(rows.sensors, sites), rows.sensors.size - 1)
    known = rows.sensors[place] == sites
    found = np.full((len(sites), len(times)), 3)
    first = np.searchsorted(rows.times, times - SAME * _step(rows.times))
    column = np.minimum(first, rows.times.size - 1)
    there = np.abs(rows.times[column] - times) <= SAME * _step(rows.times)
    found[known] = np.where(rows.observed[np.ix_(place[known], column)] & there, 0, 1)
    outliers = model.outliers_
    if outliers.rejected and len(outliers.node):
        number = {str(label): k for k, label in enumerate(labels)}
        for node, at in zip(outliers.node, model.time_axis_.numbers(outliers.time), strict=True):
            if str(node) in number:
                found[number[str(node)], np.abs(times - at) <= SAME * _step(rows.times)] = 4
    found[:, times > rows.times[-1] + SAME * _step(rows.times)] = 2
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
