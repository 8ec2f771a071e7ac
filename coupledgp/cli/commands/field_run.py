"""The run of `coupledgp interpolate` for a field on a surface or a network with lengths."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coupledgp.cli.commands.field_files import (
    Piecewise,
    chosen_place,
    law_at,
    piecewise,
    refined_places,
    write_edges,
    write_left_out,
    write_nodes,
    write_query,
    write_surface,
)
from coupledgp.cli.commands.field_tasks import (
    FieldTask,
    LeftOut,
    beside_baselines,
    describe,
    describe_left_out,
    described_verdicts,
    judged_field,
    left_out,
    score,
    split_places,
)
from coupledgp.cli.evaluate import Stopwatch
from coupledgp.cli.readers.domains import Domain
from coupledgp.cli.readers.files import about
from coupledgp.cli.readers.places import PlaceOptions, Places, read_queries, read_sensors
from coupledgp.cli.show.field import FieldFound, field_report
from coupledgp.diagnostics.pages.terminal import print_report
from coupledgp.errors import InvalidInputError
from coupledgp.geometry.locations import location_positions
from coupledgp.ground.output import written_whole
from coupledgp.ground.progress import reporter
from coupledgp.ground.validation import json_values
from coupledgp.models.fields import FieldGPRegressor


@dataclass(frozen=True)
class FieldOptions:
    """Options of the command line for a field.

    Attributes
    ----------
    graph, output, values, query, loo, report : Path
        Files; the last three may be None.
    places : PlaceOptions
        Columns of places.
    value_column, at : str or None
        Column of values, and where the law is written.
    kernel : str
        Kernel of `FieldGPRegressor`.
    share : float
        Share of the places that are hidden.
    seed : int
        Seed of the split.
    baselines : bool
        Whether baselines are computed.
    latent, as_json : bool
        Leave the noise out; print JSON.
    """

    graph: Path
    output: Path
    values: Path
    query: Path | None
    loo: Path | None
    report: Path | None
    places: PlaceOptions
    value_column: str | None
    at: str | None
    kernel: str
    share: float
    seed: int
    baselines: bool
    latent: bool
    as_json: bool


def run_field(domain: Domain, options: FieldOptions, remarks: list[str]) -> None:
    """Fit a field to sensors, score, compare, write and print; `remarks` are earlier warnings."""
    result = fitted_field(domain, options, remarks)
    if options.as_json:
        print(json.dumps(json_values(result), indent=2))
    else:
        print_report(field_report(FieldFound(result)))


def fitted_field(domain: Domain, options: FieldOptions, remarks: list[str]) -> dict[str, Any]:
    """Fit a field to sensors, score, compare and write; return what there is to print."""
    with ExitStack() as stack, about(options.graph, options.values):
        # Outputs that cannot be written are refused before the work, not after it.
        output = stack.enter_context(written_whole(options.output))
        loo_path, page_path = (
            None if path is None else stack.enter_context(written_whole(path))
            for path in (options.loo, options.report)
        )
        with noted(remarks), reporter("read"):
            sensors, y = read_sensors(options.values, domain, options.places, options.value_column)
            at = chosen_place(
                domain, options.at, options.output, options.query is not None, sensors.kind
            )
            queries = None
            if options.query is not None:
                queries = read_queries(options.query, domain, options.places)
        task = split_places(sensors, y, options.share, options.seed)
        if options.loo is not None and task.n_places < 2:
            raise InvalidInputError("--loo: expected sensors at two places at least, got one")
        model = FieldGPRegressor(domain.operator, options.kernel, random_state=options.seed)
        clock = Stopwatch()
        with clock("fit"), noted(remarks):
            model.fit(task.places, task.y)
        run = _Run(domain, options, sensors, task, model, clock)
        result = run.result(remarks)
        result["output"] = {
            "path": str(options.output), "at": at, "latent": options.latent,
            "loo": None if options.loo is None else str(options.loo),
        }  # fmt: skip
        with clock("predict"), reporter("predict"):
            run.write(at, queries, output)
        if loo_path is not None:
            assert run.loo is not None
            assert options.loo is not None
            write_left_out(sensors, task.sensors, run.loo, loo_path, options.loo)
        if page_path is not None:
            field_report(run.shown(result)).to_html(page_path)
    return result


@contextmanager
def noted(remarks: list[str]) -> Iterator[None]:
    """Show warnings as ever, and add their texts to a list for the page and the JSON."""
    show = warnings.showwarning

    def note(message: Warning | str, *rest: Any, **named: Any) -> None:
        text = " ".join(str(message).split())
        if text not in remarks:
            remarks.append(text)
        show(message, *rest, **named)

    with warnings.catch_warnings():
        warnings.showwarning = note
        yield


class _Run:
    """A fitted field with all that is said and written of it."""

    def __init__(
        self, domain: Domain, options: FieldOptions, sensors: Places, task: FieldTask,
        model: FieldGPRegressor, clock: Stopwatch,
    ) -> None:  # fmt: skip
        self.domain, self.options, self.task = domain, options, task
        self.model, self.clock, self.sensors = model, clock, sensors
        self.loo: LeftOut | None = None
        self._piecewise: Piecewise | None = None

    def result(self, remarks: list[str]) -> dict[str, Any]:
        """Score the model beside baselines and leave sensors out; describe it all."""
        options = self.options
        with self.clock("score"):
            scored = score(self.model, self.task)
            if options.loo is not None or options.report is not None or options.baselines:
                self.loo = left_out(self.model, self.task, self.sensors.names)
        beside = None
        if options.baselines:
            with self.clock("baselines"):
                beside = beside_baselines(self.domain, self.task, scored, self.loo)
        with self.clock("judge"):
            judged = None if self.loo is None else judged_field(self.model, self.task)
        result = describe(self.model, self.domain, self.task, self.clock)
        result["data"] |= {
            "path": str(options.graph), "values": str(options.values),
            "places": self.sensors.kind, "columns": list(self.sensors.columns),
            "share_hidden": options.share,
        }  # fmt: skip
        result["model"] = {
            "model": "field", "kernel": options.kernel, "random_state": options.seed,
        }  # fmt: skip
        described = None if self.loo is None else describe_left_out(self.loo)
        if described is not None and described["remark"] is not None:
            remarks.append(described["remark"])
        return result | {
            "scores": scored, "baselines": beside, "leave_one_out": described,
            "warnings": remarks, **described_verdicts(judged),
        }  # fmt: skip

    def write(self, at: str, queries: Places | None, path: Path) -> None:
        """Write the law where it is asked for."""
        options, like = self.options, self.options.output
        if queries is not None:
            law = self.model.predict(queries.locations, return_std=True, latent=options.latent)
            write_query(queries, law, path, like)
        elif at == "edges":
            write_edges(self.domain, self.piecewise(), path, like)
        else:
            law = law_at(self.model, self.domain, at, options.latent)
            if self.domain.is_surface:
                write_surface(self.domain, at, law, path, like)
            else:
                write_nodes(self.domain, law, path, like)

    def piecewise(self) -> Piecewise:
        """The law along the roads, computed once."""
        if self._piecewise is None:
            self._piecewise = piecewise(self.model, self.domain, self.options.latent)
        return self._piecewise

    def shown(self, result: dict[str, Any]) -> FieldFound:
        """The picture of the law, if there are positions, and the sensors left out."""
        from coupledgp.diagnostics.pages.field import RoadMap, SurfaceMap  # matplotlib is slow

        operator = self.domain.operator
        if operator.positions is None:
            return FieldFound(result, None, self.loo)
        sensors = location_positions(self.task.places.points, operator.positions)
        if not self.domain.is_surface:
            found = self.piecewise()
            picture = RoadMap(
                found.pieces.lines, *found.law, sensors, self.task.y, **self._observed()
            )
            return FieldFound(result, picture, self.loo)
        mean, std = self.model.predict(
            refined_places(operator), return_std=True, latent=self.options.latent
        )
        surface = SurfaceMap(
            operator.positions,
            operator.elements,
            mean,
            std,
            sensors,
            self.task.y,
            **self._observed(),
        )
        return FieldFound(result, surface, self.loo)

    def _observed(self) -> dict[str, Any]:
        """Names of the sensors of a map, and their errors when they are left out."""
        names = self.sensors.names
        left_out = None if self.loo is None else self.loo.y - self.loo.mean
        return {"names": [names[k] for k in self.task.sensors], "left_out": left_out}
