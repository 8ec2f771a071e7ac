"""The runs of `coupledgp interpolate` for classes, and for values under a likelihood."""

from __future__ import annotations

import re
from abc import abstractmethod
from pathlib import Path
from typing import Any

import numpy as np

from coupledgp.cli.commands.field_files import (
    Fields,
    write_nodes,
    write_query,
    write_surface,
)
from coupledgp.cli.commands.field_run import OnField
from coupledgp.cli.commands.graph_files import write_law
from coupledgp.cli.commands.graph_tasks import split_nodes
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
from coupledgp.cli.shared.domain import Domain, Paths, heading
from coupledgp.cli.shared.evaluate import scores
from coupledgp.cli.shared.parameters import parameters_of
from coupledgp.cli.show.latent import place_report
from coupledgp.diagnostics.sections.report import Report
from coupledgp.errors import InvalidInputError
from coupledgp.formats.meshes import WRITERS
from coupledgp.formats.road_output import DRIVERS
from coupledgp.ground.progress import reporter
from coupledgp.models import (
    FieldGPClassifier,
    FieldGPRegressor,
    GraphGPClassifier,
    GraphGPRegressor,
)
from coupledgp.models.field_estimator import refined_places

# Options of `interpolate` that are for Gaussian laws alone.
OF_GAUSSIAN = (
    "signal", "left_out", "baselines", "face_weights", "exact_nodes",
    *(name for name in OF_GRAPHS if name != "budget"),
)  # fmt: skip


class PlacesUnderLaw(Domain):
    """Classes or values under a likelihood, of nodes or of places."""

    options: InterpolateOptions
    model: Any = None

    def as_values(self) -> ReadValues | None:
        """What reads values: texts are classes unless a likelihood is named."""
        return labels_or_numbers if is_gaussian(self.options.likelihood) else numbers_or_nan

    def made(self, classifier: Any, regressor: Any, domain: Any, y: Any, **own: Any) -> Any:
        """The unfitted estimator for texts, or for numbers under the likelihood."""
        options, labelled = self.options, y.dtype.kind == "U"
        kind = classifier if labelled else regressor
        if not labelled:
            own |= {"likelihood": options.likelihood}
        return kind(
            domain, options.kernel, random_state=options.seed, **own, **parameters_of(kind, options)
        )

    def described(self, points: Any, y: Any) -> dict[str, Any]:
        """Figures of the fit, and scores at hidden points with values (h,)."""
        model, options = self.model, self.options
        scored = None
        if len(y) and hasattr(model, "classes_"):
            scored = class_scores(model.classes_, self.chances(points), y, "hidden")
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

    @abstractmethod
    def chances(self, points: Any) -> Any:
        """Logarithms of chances (h, K) of classes at hidden points of the process."""

    @abstractmethod
    def write_fields(self, path: Path) -> None:
        """Write the law of all places, or of those that are asked for."""

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


class NodesUnderLaw(PlacesUnderLaw):
    """The nodes of a graph."""

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
        graph = self.network.graph
        self.model = self.made(GraphGPClassifier, GraphGPRegressor, graph, self.task.y)
        self.model.fit(graph.label_all(self.task.nodes), self.task.y)

    def chances(self, points: Any) -> Any:
        return self.model.predict_log_proba(self.network.graph.label_all(points))

    def law(self, paths: Paths) -> dict[str, Any]:
        return self.described(self.task.hidden, self.task.hidden_y)

    def write_fields(self, path: Path) -> None:
        graph = self.network.graph
        fields = self.fields_at(graph.label_all(np.arange(graph.n_nodes)))
        write_law(self.network, fields, path, self.options.output)


class FieldUnderLaw(PlacesUnderLaw, OnField):
    """A field on a surface or a network with lengths."""

    def read(self) -> None:
        super().read()
        if self.at == "edges":
            raise InvalidInputError(
                "--at: expected nodes, or a --query, for classes or beside --likelihood"
            )

    def fit(self) -> None:
        task, operator = self.task, self.domain.operator
        self.model = self.made(FieldGPClassifier, FieldGPRegressor, operator, task.y)
        self.model.fit(task.places, task.y)

    def chances(self, points: Any) -> Any:
        return self.model.predict_log_proba(self.task.hidden_places)

    def law(self, paths: Paths) -> dict[str, Any]:
        return self.described(self.task.hidden_places.points, self.task.hidden_y)

    def write_fields(self, path: Path) -> None:
        domain, like = self.domain, self.options.output
        operator = domain.operator
        if self.queries is not None:
            write_query(self.queries, self.fields_at(self.queries.locations), path, like)
            return
        if self.at in ("faces", "refined"):
            places = operator.at_faces() if self.at == "faces" else refined_places(operator)
            write_surface(domain, self.at, self.fields_at(places), path, like)
            return
        known = np.flatnonzero(operator.given_vertices >= 0)
        labels = operator.labels
        named = known if labels is None else [labels[k] for k in known.tolist()]
        fields = {
            name: _spread(values, known, operator.given_vertices.size)
            for name, values in self.fields_at(operator.at_vertices(named)).items()
        }
        if domain.is_surface:
            write_surface(domain, self.at, fields, path, like)
        else:
            write_nodes(domain, fields, path, like)


def _spread(values: Any, known: Any, size: int) -> Any:
    """Values at the places `known` of a list of `size`; NaN, or no text, elsewhere."""
    numbers = values.dtype.kind != "U"
    found = np.full(size, np.nan) if numbers else np.full(size, None, dtype=object)
    found[known] = values
    return found if numbers else found.tolist()
