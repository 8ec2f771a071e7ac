"""The run of `coupledgp interpolate` for values over time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from coupledgp.cli.commands.field_run import noted
from coupledgp.cli.commands.graph_files import check_isolated
from coupledgp.cli.commands.series_files import (
    Layout,
    check_law_path,
    law_writer,
    law_written,
)
from coupledgp.cli.commands.series_options import option_name
from coupledgp.cli.commands.series_tasks import (
    SCHEMA_VERSION,
    describe_model,
    describe_panel,
    laws_in_blocks,
    left_out_rows,
    new_panel,
    times_of,
)
from coupledgp.cli.evaluate import Stopwatch
from coupledgp.cli.options import option
from coupledgp.cli.readers.domains import DomainOptions, is_mesh, read_domain
from coupledgp.cli.readers.files import about
from coupledgp.cli.readers.networks import label_column, read_network
from coupledgp.cli.readers.node_values import positions_of
from coupledgp.cli.readers.series import Nodes, SeriesOptions, read_series
from coupledgp.cli.readers.tables import check_table_path, write_table
from coupledgp.cli.readers.times import check_rows, chosen_nodes
from coupledgp.cli.show.series import series_report
from coupledgp.diagnostics import space_time_report
from coupledgp.diagnostics.pages.terminal import print_report
from coupledgp.errors import InvalidInputError
from coupledgp.formats.projection import LONLAT
from coupledgp.formats.road_files import LINES
from coupledgp.graphs import Graph
from coupledgp.ground.output import written_whole
from coupledgp.ground.progress import reporter
from coupledgp.ground.validation import check_choice, json_values
from coupledgp.models import GraphTimeGPRegressor, load_model, save_model
from coupledgp.random import FloatArray
from coupledgp.series import Panel

MODELS = ("auto", "field", "graph")
# Arguments of the model that are options of the same name.
ARGUMENTS = ("kernel", "time_kernel", "periods", "outliers", "sensor_noise")


@dataclass(frozen=True, eq=False)
class Place:
    """Where values are: what a model is fitted on, and its nodes by name.

    Attributes
    ----------
    domain : Graph or LaplaceOperator
        The argument of a model.
    nodes : Nodes
        Its nodes.
    kind : str
        Description of the source in words.
    positions : FloatArray (n_nodes, 2) or (n_nodes, 3), or None
        Positions of the nodes of a graph.
    crs : str or None
        Their coordinate system, if it is known.
    """

    domain: Any
    nodes: Nodes
    kind: str
    positions: FloatArray | None = None
    crs: str | None = None


def run_series(options: Mapping[str, Any]) -> None:
    """Read, fit or update, predict, write and print; `options` are those of the command by name."""
    _check_options(options)
    remarks: list[str] = []
    outputs = {name: options[name] for name in ("leave_one_sensor_out", "save_model", "report")}
    with ExitStack() as stack, about(options["graph"], options["values"], options["update"]):
        # Outputs that cannot be written are refused before the work, not after it.
        law_path = stack.enter_context(law_written(options["output"]))
        paths = {
            name: None if path is None else stack.enter_context(written_whole(path))
            for name, path in outputs.items()
        }
        result = _Run(options, remarks).result(law_path, paths)
    if options["as_json"]:
        print(json.dumps(json_values(result), indent=2))
    else:
        print_report(series_report(result))


def _check_options(options: Mapping[str, Any]) -> None:
    """Refuse what can be refused before anything is read."""
    check_law_path(options["output"], "--output")
    check_choice(options["model"], MODELS, "--model")
    if options["leave_one_sensor_out"] is not None:
        check_table_path(options["leave_one_sensor_out"], "--leave-one-sensor-out")
    several = len(options["value_column"] or ()) > 1
    for name in ("save_model", "update", "report"):
        if several and options[name] is not None:
            raise InvalidInputError(
                f"{option_name(name)}: expected one --value-column beside it, got "
                f"{len(options['value_column'])}"
            )


class _Run:
    """One run: its options, what was read, and its models by the names of values."""

    def __init__(self, options: Mapping[str, Any], remarks: list[str]) -> None:
        self.options, self.remarks, self.clock = options, remarks, Stopwatch()
        self.models: dict[str, Any] = {}
        with noted(remarks), reporter("read"):
            self.place = read_place(options)
            values = tuple(options["value_column"] or ())
            self.panels = read_series(
                options["values"],
                self.place.nodes,
                SeriesOptions(
                    options["time_column"], options["node_column"], values, options["zone"],
                    options["resolution"],
                ),
            )  # fmt: skip

    def result(self, law_path: Path, paths: Mapping[str, Path | None]) -> dict[str, Any]:
        """Fit, predict, write; return what there is to print."""
        with noted(self.remarks):
            with self.clock("fit"):
                self.models = {name: self._model(panel) for name, panel in self.panels.items()}
            n_rows = self._write_law(law_path)
            described = {
                name: describe_panel(self.panels[name], model) | describe_model(model)
                for name, model in self.models.items()
            }
            loso = paths["leave_one_sensor_out"]
            if loso is not None or paths["report"] is not None:
                with self.clock("leave one sensor out"):
                    tables = {name: m.leave_one_sensor_out() for name, m in self.models.items()}
                for name, table in tables.items():
                    described[name]["leave_one_sensor_out"] = left_out_rows(table)[0]
                if loso is not None:
                    self._write_left_out(tables, loso)
            if paths["report"] is not None:
                with self.clock("report"):
                    self._write_report(next(iter(tables.values())), paths["report"])
            if paths["save_model"] is not None:
                (model,) = self.models.values()
                save_model(model, paths["save_model"], include_data=True)
        return {
            "schema_version": SCHEMA_VERSION,
            "coupledgp": version("coupledgp"),
            "data": {
                "path": str(self.options["graph"]), "values": str(self.options["values"]),
                "graph": self.place.kind, "n_nodes": len(self.place.nodes.labels),
            },
            "values": described,
            "output": {
                name: None if self.options[name] is None else str(self.options[name])
                for name in ("output", "leave_one_sensor_out", "report", "save_model")
            } | {"n_rows": n_rows, "latent": self.options["latent"]},
            "seconds": self.clock.seconds,
            "warnings": self.remarks,
        }  # fmt: skip

    def _model(self, panel: Panel) -> Any:
        """The model of a panel: fitted, or that of a file with what is later added."""
        options = self.options
        if options["update"] is not None:
            return self._updated(panel)
        window = None
        if options["window"] is not None:
            step = panel.axis.step or float(np.median(np.diff(panel.axis.values)))
            with option("--window"):
                window = int(np.ceil(panel.axis.duration(options["window"], "window") / step))
        periods = options["periods"]
        model = GraphTimeGPRegressor(
            self.place.domain,
            "matern" if options["kernel"] == "auto" else options["kernel"],
            options["time_kernel"],
            None if periods is None else tuple(p.strip() for p in periods.split(",")),
            sensor_noise=options["sensor_noise"],
            outliers=options["outliers"],
            window=window,
            random_state=options["seed"],
        )
        with _named_options():
            return model.fit(panel)

    def _updated(self, panel: Panel) -> Any:
        path = self.options["update"]
        model = load_model(path)
        if not isinstance(model, GraphTimeGPRegressor):
            raise InvalidInputError(
                f"--update: {path}: expected a model of values over time, as --save-model writes "
                f"it, got {type(model).__name__}"
            )
        new = new_panel(model, panel)
        return model if new is None else model.partial_fit(new)

    def _write_law(self, path: Path) -> int:
        """Write the law in blocks of times; return the number of rows."""
        options = self.options
        first = next(iter(self.models.values()))
        sensors = {str(label) for model in self.models.values() for label in model.nodes_}
        numbers = chosen_nodes(options["nodes"], self.place.nodes, sorted(sensors))
        labels = [self.place.nodes.labels[k] for k in numbers]
        times = times_of(first, options["times"], options["forecast"], options["zone"])
        check_rows(len(labels), times.size)
        layout = Layout(labels, first.time_axis_, times, list(self.models))
        with self.clock("predict"), reporter("predict"), law_writer(
            path, options["output"], layout
        ) as writer:  # fmt: skip
            for laws in laws_in_blocks(self.models, layout, options["latent"]):
                writer.write(laws)
        return len(labels) * times.size

    def _write_report(self, table: Any, path: Path) -> None:
        """Write the page, with scores of the model fitted anew to a part of the values.

        The page of an updated model has none: its hyperparameters are those of its file.
        """
        options, place = self.options, self.place
        ((name, model),) = self.models.items()
        report = space_time_report(
            model,
            splits=0 if options["update"] is not None else 1,
            left_out=table,
            forecast=options["forecast"],
            positions=place.positions if isinstance(place.domain, Graph) else None,
            crs=place.crs,
            unit=None if name == "value" else name,
            title=f"{name} over time on {options['graph'].name}",
            data=f"{options['values'].name} on {options['graph'].name}: {place.kind}",
            warnings=tuple(self.remarks),
            random_state=options["seed"],
        )
        report.to_html(path)

    def _write_left_out(self, tables: Mapping[str, Any], path: Path) -> None:
        """Write the scores of sensors left out."""
        parts = []
        for name, table in tables.items():
            columns = {key: pa.array(np.asarray(values)) for key, values in table.columns.items()
                       if key != "node"}  # fmt: skip
            named = {} if len(tables) == 1 else {"value": pa.array([name] * len(table))}
            parts.append(pa.table(named | {"node": label_column(table.node)} | columns))
        write_table(pa.concat_tables(parts), path, self.options["leave_one_sensor_out"])


@contextmanager
def _named_options() -> Iterator[None]:
    """Name the option in errors about an argument of the model."""
    try:
        yield
    except InvalidInputError as error:
        argument, _, text = str(error).partition(": ")
        if argument not in ARGUMENTS:
            raise
        raise type(error)(f"{option_name(argument)}: {text}") from error


def read_place(options: Mapping[str, Any]) -> Place:
    """What a model is fitted on: a graph, or the operator of a mesh or of roads with lengths.

    Raises
    ------
    InvalidInputError
        The file is of another kind, or has no lengths for `--model field`.
    """
    path = options["graph"]
    column = options["node_column"] or "node"
    if options["model"] == "field" or path.suffix.lower() in LINES:
        return _field_place(options, column)
    network = read_network(
        path, "vertices" if is_mesh(path) else "faces", options["weight"], options["length"],
        options["undirected"],
    )  # fmt: skip
    graph, crs = network.graph, None
    if options["positions"] is not None:
        places, names = positions_of(options["positions"], network.numbers, column)
        network, crs = network.placed(places), None if names == ("x", "y") else LONLAT
    observed = np.arange(graph.n_nodes) if options["keep_isolated"] else np.empty(0, np.int64)
    check_isolated(network, observed, options["keep_isolated"], path)
    labels = [graph.label(k) for k in range(graph.n_nodes)]
    positions = network.positions if network.mesh is None else np.asarray(network.mesh.vertices)
    nodes = Nodes(network.numbers, labels, network.nodes)
    return Place(graph, nodes, network.kind, positions, crs)


def _field_place(options: Mapping[str, Any], column: str) -> Place:
    path = options["graph"]
    if options["weight"] is not None:
        raise InvalidInputError("--weight: expected --model graph beside it")
    domain = read_domain(
        path,
        DomainOptions(
            options["length"], options["max_edge"], options["positions"], column,
            options["layer"], options["crs"],
        ),
    )  # fmt: skip
    if domain is None:
        raise InvalidInputError(
            f"{path}: expected lengths of the edges for --model field, got none (--length names "
            "their column or attribute)"
        )
    nodes = Nodes(domain.numbers, domain.labels, "vertices" if domain.is_surface else "nodes")
    return Place(domain.operator, nodes, domain.kind)
