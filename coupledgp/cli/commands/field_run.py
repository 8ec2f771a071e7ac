"""The run of `coupledgp interpolate` for a field on a surface or a network with lengths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from coupledgp.cli.commands.field_files import (
    Piecewise,
    chosen_place,
    law_at,
    named,
    piecewise,
    write_edges,
    write_left_out,
    write_nodes,
    write_query,
    write_surface,
)
from coupledgp.cli.commands.field_tasks import (
    beside_baselines,
    describe,
    describe_left_out,
    described_verdicts,
    judged_field,
    left_out,
    split_places,
)
from coupledgp.cli.commands.interpolate_options import InterpolateOptions
from coupledgp.cli.readers.domains import SpatialDomain
from coupledgp.cli.readers.places import PlaceOptions, ReadPlaces, read_queries, read_sensors
from coupledgp.cli.shared.domain import Domain, Paths, texts
from coupledgp.cli.shared.evaluate import scores
from coupledgp.cli.shared.left_out import LeftOutPlaces
from coupledgp.cli.shared.parameters import parameters_of
from coupledgp.cli.show.field import FieldResult, field_report
from coupledgp.diagnostics import pages
from coupledgp.diagnostics.sections.report import Report
from coupledgp.errors import InvalidInputError
from coupledgp.geometry.locations import location_positions
from coupledgp.ground.progress import reporter
from coupledgp.models.fields import FieldGPRegressor


class FieldDomain(Domain):
    """A field on a surface or a network with lengths, given values at places on it."""

    options: InterpolateOptions

    def __init__(
        self, domain: SpatialDomain, options: InterpolateOptions, remarks: list[str]
    ) -> None:
        super().__init__(options, remarks)
        self.domain = domain
        assert options.values is not None
        self.values = options.values
        self.queries: ReadPlaces | None = None
        self.baselines = options.baselines
        if self.baselines is None:
            self.baselines = options.report is not None
        self.model = FieldGPRegressor(
            domain.operator,
            options.kernel,
            random_state=options.seed,
            **parameters_of(FieldGPRegressor, options),
        )
        self.loo: LeftOutPlaces | None = None
        self._piecewise: Piecewise | None = None

    def read(self) -> None:
        options, domain = self.options, self.domain
        places = options.part(PlaceOptions)
        with reporter("read"):
            self.sensors, y = read_sensors(self.values, domain, places, options.one_value_column)
            queried = options.query is not None
            self.at = chosen_place(domain, options.at, options.output, queried, self.sensors.kind)
            if options.query is not None:
                self.queries = read_queries(options.query, domain, places)
        self.task = split_places(self.sensors, y, options.share, options.seed)

        if self.options.left_out is not None and self.task.n_places < 2:
            raise InvalidInputError("--left-out: expected sensors at two places at least, got one")

    def fit(self) -> None:
        self.model.fit(self.task.places, self.task.y)

    def law(self, paths: Paths) -> dict[str, Any]:
        """Score the model beside baselines and leave sensors out; describe it all."""
        options = self.options
        with self.clock("score"):
            scored, hidden = None, self.task.hidden_y
            if hidden.size:
                points = self.model.points(self.task.hidden_places)
                scored = scores(self.model.process_, points, hidden, "hidden")
            if options.left_out is not None or options.report is not None or self.baselines:
                self.loo = left_out(self.model, self.task, self.sensors.names)
        beside = None
        if self.baselines:
            with self.clock("baselines"):
                beside = beside_baselines(self.domain, self.task, scored, self.loo)
        with self.clock("judge"):
            judged = None if self.loo is None else judged_field(self.model, self.task)
        result = describe(self.model, self.domain, self.task, self.clock)
        result["data"] |= {
            "path": str(options.graph), "values": str(self.values),
            "places": self.sensors.kind, "columns": list(self.sensors.columns),
            "value": self.sensors.value,
            "share_hidden": options.share,
        }  # fmt: skip
        result["model"] = {
            "model": "field", "kernel": options.kernel, "random_state": options.seed,
        }  # fmt: skip
        described = None if self.loo is None else describe_left_out(self.loo)
        if described is not None and described["remark"] is not None:
            self.remarks.append(described["remark"])
        return result | {
            "scores": scored, "baselines": beside, "leave_one_out": described,
            "warnings": self.remarks, **described_verdicts(judged),
            "output": {
                "path": str(options.output), "at": self.at, "latent": options.latent,
                **texts({"loo": options.left_out}),
            },
        }  # fmt: skip

    def write(self, result: dict[str, Any], paths: Paths) -> None:
        with self.clock("predict"), reporter("predict"):
            assert paths["output"] is not None
            self._write_law(paths["output"])
        if paths["left_out"] is not None:
            assert self.loo is not None
            assert self.options.left_out is not None
            write_left_out(
                self.sensors,
                self.task.sensors,
                self.loo,
                paths["left_out"],
                self.options.left_out,
            )
        if paths["report"] is not None:
            field_report(self.found(result)).to_html(paths["report"])

    def report(self, result: dict[str, Any]) -> Report:
        return field_report(FieldResult(result))

    def _write_law(self, path: Path) -> None:
        """Write the law to a file, if `--output` names one."""
        options, like = self.options, self.options.output
        if self.queries is not None:
            law = self.model.predict(self.queries.locations, return_std=True, latent=options.latent)
            write_query(self.queries, named(law), path, like)
        elif self.at == "edges":
            write_edges(self.domain, self.piecewise(), path, like)
        else:
            law = law_at(self.model, self.domain, self.at, options.latent)
            if self.domain.is_surface:
                write_surface(self.domain, self.at, named(law), path, like)
            else:
                write_nodes(self.domain, named(law), path, like)

    def piecewise(self) -> Piecewise:
        """The law along the roads, computed once."""
        if self._piecewise is None:
            self._piecewise = piecewise(self.model, self.domain, self.options.latent)
        return self._piecewise

    def found(self, result: dict[str, Any]) -> FieldResult:
        """The picture of the law, if there are positions, and the sensors left out."""
        operator = self.domain.operator
        if operator.positions is None:
            return FieldResult(result, None, self.loo)
        if self.domain.is_surface:
            drawn = self.model.field_map(latent=self.options.latent, **self._observed())
            return FieldResult(result, drawn, self.loo)
        found = self.piecewise()
        sensors = location_positions(self.task.places.points, operator.positions)
        roads = pages.RoadMap(
            found.pieces.lines, *found.law, sensors, self.task.y, **self._observed()
        )
        return FieldResult(result, roads, self.loo)

    def _observed(self) -> dict[str, Any]:
        """Names of the sensors of a map, and their errors when they are left out."""
        names = self.sensors.names
        left_out = None if self.loo is None else self.loo.y - self.loo.mean
        return {"names": [names[k] for k in self.task.sensors], "left_out": left_out}
