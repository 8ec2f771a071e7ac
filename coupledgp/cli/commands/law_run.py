"""The runs of `coupledgp interpolate` for classes, and for values under a likelihood."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from coupledgp.cli.commands.field_files import (
    Fields,
)
from coupledgp.cli.commands.graph_run import split_nodes, write_law
from coupledgp.cli.commands.interpolate_options import OF_GRAPHS, InterpolateOptions
from coupledgp.cli.commands.latent_tasks import class_scores, describe_law, is_gaussian
from coupledgp.cli.commands.predict_tasks import law_columns
from coupledgp.cli.readers.networks import read_network
from coupledgp.cli.readers.node_values import (
    ReadValues,
    labels_or_numbers,
    numbers_or_nan,
    read_values,
)
from coupledgp.cli.readers.tables import check_table_path
from coupledgp.cli.shared.declare import parameters_of
from coupledgp.cli.shared.domain import Domain, Paths, heading
from coupledgp.cli.shared.evaluate import scores
from coupledgp.cli.show.latent import place_report
from coupledgp.diagnostics.sections.report import Report
from coupledgp.formats.meshes import WRITERS
from coupledgp.formats.road_output import DRIVERS
from coupledgp.ground.progress import reporter
from coupledgp.models import (
    GraphGPClassifier,
    GraphGPRegressor,
)

# Options of `interpolate` that are for Gaussian laws alone.
OF_GAUSSIAN = (
    "signal", "left_out", "baselines", "face_weights", "exact_nodes",
    *(name for name in OF_GRAPHS if name != "budget"),
)  # fmt: skip


class NodesUnderLaw(Domain):
    """Classes or values under a likelihood of the nodes of a graph."""

    options: InterpolateOptions
    model: Any = None

    def as_values(self) -> ReadValues | None:
        """What reads values: texts are classes unless a likelihood is named."""
        return labels_or_numbers if is_gaussian(self.options.likelihood) else numbers_or_nan

    def law(self, paths: Paths) -> dict[str, Any]:
        model, options = self.model, self.options
        points, y = self.task.hidden, self.task.hidden_y
        scored = None
        if len(y) and hasattr(model, "classes_"):
            chances = model.predict_log_proba(self.network.graph.label_all(points))
            scored = class_scores(model.classes_, chances, y, "hidden")
        elif len(y):
            scored = scores(model.process_, points, y, "hidden")
        return {
            **heading(),
            "data": {
                "path": str(options.graph), "values": str(options.values),
                "n_observed": len(model.process_.data), "n_hidden": len(y),
                "share_hidden": options.share,
            },
            "model": describe_law(model),
            "log_evidence": float(model.log_marginal_likelihood_value_),
            "converged": bool(model.converged_),
            "n_evaluations": int(model.n_evaluations_),
            "scores": scored,
            "seconds": self.clock.seconds,
            "warnings": self.remarks,
            "output": {"path": str(options.output), "latent": options.latent},
        }  # fmt: skip

    def fields_at(self, places: Any) -> Fields:
        """Columns of the law at places; of numbers alone where the output takes no texts."""
        fields, _ = law_columns(self.model, places, self.options)
        if self.options.output.suffix.lower() not in (*WRITERS, *DRIVERS):
            return fields
        if "class" in fields:
            fields["class"] = np.searchsorted(self.model.classes_, fields["class"]).astype(float)
        return {re.sub(r"\W", "_", name): values for name, values in fields.items()}

    def write(self, result: dict[str, Any], paths: Paths) -> None:
        assert paths["output"] is not None
        with self.clock("predict"), reporter("predict"):
            self.write_fields(paths["output"])
        if paths["report"] is not None:
            self.report(result).to_html(paths["report"])

    def report(self, result: dict[str, Any]) -> Report:
        return place_report(result)

    def read(self) -> None:
        options = self.options
        assert options.values is not None
        if options.output.suffix.lower() not in WRITERS:
            check_table_path(options.output, "--output", WRITERS)
        with reporter("read"):
            self.network = read_network(
                options.graph, options.nodes or "faces", options.weight, options.length,
                options.undirected,
            )  # fmt: skip
            nodes, y, _ = read_values(
                options.values, self.network, options.node_column,
                options.one_value_column, self.as_values(),
            )  # fmt: skip
        self.task = split_nodes(nodes, y, options.share, options.seed)

    def fit(self) -> None:
        options, graph = self.options, self.network.graph
        nodes, y = graph.label_all(self.task.nodes), self.task.y
        seed: dict[str, Any] = {"random_state": options.seed}
        if y.dtype.kind == "U":
            own = parameters_of(GraphGPClassifier, options)
            self.model = GraphGPClassifier(graph, options.kernel, **seed, **own)
        else:
            own = parameters_of(GraphGPRegressor, options) | {"likelihood": options.likelihood}
            self.model = GraphGPRegressor(graph, options.kernel, **seed, **own)
        self.model.fit(nodes, y)

    def write_fields(self, path: Path) -> None:
        graph = self.network.graph
        fields = self.fields_at(graph.label_all(np.arange(graph.n_nodes)))
        write_law(self.network, fields, path, self.options.output)
