"""The run of `coupledgp interpolate` for values over time."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.base import clone

from coupledgp.cli.commands.graph_run import check_isolated
from coupledgp.cli.commands.interpolate_options import InterpolateOptions
from coupledgp.cli.commands.series_files import (
    LawLayout,
    check_law_path,
    law_writer,
    law_written,
)
from coupledgp.cli.commands.series_tasks import (
    describe_model,
    describe_panel,
    laws_in_blocks,
    left_out_rows,
    new_panel,
    times_of,
)
from coupledgp.cli.readers.domains import DomainOptions, is_mesh, read_domain
from coupledgp.cli.readers.networks import label_column, read_network
from coupledgp.cli.readers.node_values import positions_of
from coupledgp.cli.readers.series import Nodes, SeriesOptions, guessed_times, read_series
from coupledgp.cli.readers.tables import check_table_path, write_table
from coupledgp.cli.readers.times import check_rows, chosen_nodes
from coupledgp.cli.shared.declare import as_options, parameters_of
from coupledgp.cli.shared.domain import Domain, Paths, heading, texts
from coupledgp.cli.shared.options import naming
from coupledgp.cli.show.series import series_report
from coupledgp.diagnostics import space_time_report
from coupledgp.diagnostics.sections.report import Report
from coupledgp.diagnostics.space_time.per_step import graph_of
from coupledgp.errors import InvalidInputError
from coupledgp.formats.projection import LONLAT
from coupledgp.formats.road_files import LINES
from coupledgp.graphs import Graph
from coupledgp.ground.progress import reporter
from coupledgp.ground.validation import check_choice
from coupledgp.kernels.fields import NAMES
from coupledgp.kernels.graph.registry import parse_graph_kernel
from coupledgp.models import GraphTimeGPRegressor, load_model, save_model
from coupledgp.random import FloatArray
from coupledgp.series import Panel
from coupledgp.series.durations import has_unit, seconds
from coupledgp.series.stamps import zone_name

MODELS = ("auto", "field", "graph")
# Keys of the JSON that differ from the names of options.
JSON_NAMES = {"left_out": "leave_one_sensor_out"}


@dataclass(frozen=True, eq=False)
class SeriesPlace:
    """Domain of a model of values over time, and its nodes by name.

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


class SeriesDomain(Domain):
    """Values over time at the nodes of a graph, of roads or of a mesh."""

    options: InterpolateOptions

    def __init__(self, options: InterpolateOptions) -> None:
        super().__init__(options)
        self.models: dict[str, Any] = {}
        self.tables: dict[str, Any] = {}
        check_law_path(options.output, "--output")
        check_choice(options.model, MODELS, "--model")
        if options.left_out is not None:
            check_table_path(options.left_out, "--left-out")
        several = len(options.value_column or ())
        for name in ("save_model", "update", "report"):
            if several > 1 and getattr(options, name) is not None:
                raise InvalidInputError(
                    f"{options.name_of(name)}: expected one --target beside it, got {several}"
                )
        for name in ("ahead", "resolution", "window"):
            if (text := getattr(options, name)) is not None and has_unit(text):
                seconds(text, options.name_of(name))
        if options.kernel not in NAMES:
            parse_graph_kernel(options.kernel, "--kernel")
        if options.zone is not None:
            zone_name(options.zone, "--zone")
        with as_options(options):
            self.model = GraphTimeGPRegressor(
                None,
                "matern" if options.kernel == "auto" else options.kernel,
                **parameters_of(GraphTimeGPRegressor, options),
            )
            self.model.check_parameters()

    def opened(self, name: str, path: Path) -> AbstractContextManager[Path]:
        return law_written(path) if name == "output" else super().opened(name, path)

    def read(self) -> None:
        options = self.options
        assert options.values is not None
        with reporter("read"):
            self.place = read_place(options)
            time = options.time_column or guessed_times(options.values)
            how = options.part(SeriesOptions, time_column=time)
            self.panels = read_series(options.values, self.place.nodes, how)

    def fit(self) -> None:
        self.models = {name: self._model(panel) for name, panel in self.panels.items()}

    def law(self, paths: Paths) -> dict[str, Any]:
        assert paths["output"] is not None
        checked = paths["left_out"] is not None or paths["report"] is not None
        n_rows = self._write_law(paths["output"])
        described = {
            name: describe_panel(self.panels[name], model) | describe_model(model)
            for name, model in self.models.items()
        }
        if checked:
            with self.clock("leave one sensor out"):
                self.tables = {
                    name: model.leave_one_sensor_out() for name, model in self.models.items()
                }
            for name, table in self.tables.items():
                described[name]["leave_one_sensor_out"] = left_out_rows(table)[0]
        return {
            **heading(),
            "data": {
                "path": str(self.options.graph), "values": str(self.options.values),
                "graph": self.place.kind, "n_nodes": len(self.place.nodes.labels),
            },
            "values": described,
            "output": {
                **{JSON_NAMES.get(key, key): text
                   for key, text in texts(self.options.outputs).items()},
                "n_rows": n_rows,
            },
            "seconds": self.clock.seconds,
            "warnings": self.remarks,
        }  # fmt: skip

    def write(self, result: dict[str, Any], paths: Paths) -> None:
        if paths["left_out"] is not None:
            self._write_left_out(self.tables, paths["left_out"])
        if paths["report"] is not None:
            with self.clock("report"):
                self._write_report(next(iter(self.tables.values())), paths["report"])
        if paths["save_model"] is not None:
            (model,) = self.models.values()
            save_model(model, paths["save_model"], include_data=True)

    def report(self, result: dict[str, Any]) -> Report:
        return series_report(result)

    def _model(self, panel: Panel) -> Any:
        """The model of a panel: fitted, or a file's model with the later values added."""
        options = self.options
        if options.update is not None:
            return self._updated(panel)
        window = None
        step = panel.axis.usual_step
        if options.window is not None:
            with naming("--window"):
                window = int(np.ceil(panel.axis.duration(options.window, "window") / step))
        if options.ahead is not None:
            with naming("--ahead"):
                panel.axis.steps(options.ahead, step, "ahead")
        model = clone(self.model).set_params(graph=self.place.domain, window=window)
        with as_options(options):
            return model.fit(panel)

    def _updated(self, panel: Panel) -> Any:
        path = self.options.update
        assert path is not None
        model = load_model(path)
        if not isinstance(model, GraphTimeGPRegressor):
            raise InvalidInputError(
                f"--update: {path}: expected a model of values over time, as --save-model writes "
                f"it, got {type(model).__name__}"
            )
        kept, given = map(graph_of, (model.graph, self.place.domain))
        if not kept.has_weights_of(given):
            raise InvalidInputError(
                f"--update: {path}: expected the graph that the model is of, of {kept.n_nodes} "
                f"nodes and {kept.n_edges} edges, got one of {given.n_nodes} nodes and "
                f"{given.n_edges} edges with other weights or labels; fit a model to it"
            )
        new = new_panel(model, panel)
        return model if new is None else model.partial_fit(new)

    def _write_law(self, path: Path) -> int:
        """Write the law in blocks of times; return the number of rows."""
        options = self.options
        first = next(iter(self.models.values()))
        sensors = {str(label): 0 for model in self.models.values() for label in model.nodes_}
        numbers = chosen_nodes(options.nodes, self.place.nodes, list(sensors))
        labels = [self.place.nodes.labels[k] for k in numbers]
        times = times_of(first, options.times, options.ahead, options.zone)
        check_rows(len(labels), times.size)
        layout = LawLayout(labels, first.time_axis_, times, list(self.models))
        with self.clock("predict"), reporter("predict"), law_writer(
            path, options.output, layout
        ) as writer:  # fmt: skip
            for laws in laws_in_blocks(self.models, layout):
                writer.write(laws)
        return len(labels) * times.size

    def _write_report(self, table: Any, path: Path) -> None:
        """Write the page, with scores of the model fitted anew to a part of the values.

        The page of an updated model has none: its hyperparameters are those of its file.
        """
        options, place, values = self.options, self.place, self.options.values
        assert values is not None
        ((name, model),) = self.models.items()
        report = space_time_report(
            model,
            splits=0 if options.update is not None else 1,
            left_out=table,
            forecast=options.ahead,
            positions=place.positions if isinstance(place.domain, Graph) else None,
            crs=place.crs,
            unit=None if name == "value" else name,
            title=f"{name} over time on {options.graph.name}",
            data=f"{values.name} on {options.graph.name}: {place.kind}",
            warnings=tuple(self.remarks),
            random_state=options.seed,
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
        assert self.options.left_out is not None
        write_table(pa.concat_tables(parts), path, self.options.left_out)


def read_place(options: InterpolateOptions) -> SeriesPlace:
    """Domain of the model: a graph, or the operator of a mesh or of roads with lengths.

    Raises
    ------
    InvalidInputError
        The file is of another kind, or has no lengths for `--model field`.
    """
    path = options.graph
    if options.model == "field" or path.suffix.lower() in LINES:
        return _field_place(options)
    network = read_network(
        path, "vertices" if is_mesh(path) else "faces", options.weight, options.length,
        options.undirected,
    )  # fmt: skip
    graph, crs = network.graph, None
    if options.positions is not None:
        places, in_degrees = positions_of(options.positions, network.numbers, options.node_column)
        network, crs = network.placed(places), LONLAT if in_degrees else None
    observed = np.arange(graph.n_nodes) if options.keep_isolated else np.empty(0, np.int64)
    check_isolated(network, observed, options.keep_isolated, path)
    labels = [graph.label(k) for k in range(graph.n_nodes)]
    positions = network.positions if network.mesh is None else np.asarray(network.mesh.vertices)
    nodes = Nodes(network.numbers, labels, network.nodes)
    return SeriesPlace(graph, nodes, network.kind, positions, crs)


def _field_place(options: InterpolateOptions) -> SeriesPlace:
    path = options.graph
    if options.weight is not None:
        raise InvalidInputError("--weight: expected --model graph beside it")
    domain = read_domain(path, options.part(DomainOptions))
    if domain is None:
        raise InvalidInputError(
            f"{path}: expected lengths of the edges for --model field, got none (--length names "
            "their column or attribute)"
        )
    nodes = Nodes(domain.numbers, domain.labels, "vertices" if domain.is_surface else "nodes")
    return SeriesPlace(domain.operator, nodes, domain.kind)
