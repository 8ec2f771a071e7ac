"""The run of `coupledgp interpolate` for a field on a surface or a network with lengths.

Split, scores, baselines and leave-one-out of a field, for `coupledgp interpolate`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom

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
from coupledgp.cli.commands.interpolate_options import InterpolateOptions
from coupledgp.cli.readers.domains import SpatialDomain
from coupledgp.cli.readers.places import PlaceOptions, ReadPlaces, read_queries, read_sensors
from coupledgp.cli.shared.declare import parameters_of
from coupledgp.cli.shared.domain import Domain, Paths, heading, texts
from coupledgp.cli.shared.evaluate import Stopwatch, figures, scores
from coupledgp.cli.shared.options import LEVEL, LeftOutPlaces
from coupledgp.cli.show.field import FieldResult, field_report
from coupledgp.diagnostics import compare, coverage, cross_validate, pages
from coupledgp.diagnostics.rivals.observations import BaselinePrediction
from coupledgp.diagnostics.rivals.places import baseline_predictions, leave_one_out_baselines
from coupledgp.diagnostics.sections.report import Report
from coupledgp.diagnostics.verdicts.result import ComparisonResult
from coupledgp.errors import CoupledGPError, InvalidInputError
from coupledgp.geometry.locations import Locations, location_positions, place_numbers
from coupledgp.ground.progress import reporter
from coupledgp.models.fields import FieldGPRegressor
from coupledgp.random import FloatArray, IntArray

# Chance, were intervals right, below which the coverage of sensors left out is remarked on.
UNLIKELY = 0.01


@dataclass(frozen=True, eq=False)
class HiddenPlaces:
    """Sensors for the fit, and sensors that are hidden from it.

    Attributes
    ----------
    places, hidden_places : Locations
        Places (n) and (h).
    y, hidden_y : FloatArray (n,), (h,)
        Observations.
    sensors : IntArray (n,)
        Number of each observation in the table of sensors.
    """

    places: Locations
    y: FloatArray
    sensors: IntArray
    hidden_places: Locations
    hidden_y: FloatArray

    @property
    def n_places(self) -> int:
        """Number of distinct places of the sensors for the fit."""
        return int(place_numbers(self.places.points).max()) + 1


def split_places(places: ReadPlaces, y: FloatArray, share: float, seed: int) -> HiddenPlaces:
    """Hide a random share of the distinct places of n observations; at least one stays."""
    rows = places.locations.points
    group = _numbered_in_order(rows)
    n_places = int(group.max()) + 1
    n_hidden = min(round(share * n_places), n_places - 1)
    chosen = np.random.default_rng(seed).permutation(n_places)[:n_hidden]
    away = np.isin(group, chosen)
    kept = np.flatnonzero(~away)
    return HiddenPlaces(
        places.locations[kept], y[kept], kept,
        Locations(rows[away], places.locations.distances[away]), y[away],
    )  # fmt: skip


def _numbered_in_order(rows: FloatArray) -> IntArray:
    """Numbers (n,) of distinct places, which ascend with the first of the rows of each."""
    group = place_numbers(rows)
    _, order = np.unique(rows, axis=0, return_inverse=True)
    first = np.full(int(group.max()) + 1, len(rows))
    np.minimum.at(first, group, order.reshape(-1))
    return np.argsort(np.argsort(first))[group]


def left_out(
    model: FieldGPRegressor, task: HiddenPlaces, names: tuple[str, ...]
) -> LeftOutPlaces | None:
    """Every observation from those at all other places; None if all are at one place."""
    if task.n_places < 2:
        return None
    law = model.leave_one_out()
    return LeftOutPlaces(task.y, law.mean, law.std, tuple(names[k] for k in task.sensors))


def judged_field(model: FieldGPRegressor, task: HiddenPlaces) -> ComparisonResult | None:
    """Comparison at hidden sensors, or with each left out; None where neither is possible."""
    try:
        if task.hidden_y.size > 1:
            return compare(model, task.hidden_places, task.hidden_y, progress=False)
        return cross_validate(model)
    except CoupledGPError:
        return None


def described_verdicts(judged: ComparisonResult | None) -> dict[str, Any]:
    """Verdicts that could be given, and advice, as plain values; none without a judgement."""
    if judged is None:
        return {"verdicts": [], "advice": []}
    return {
        "verdicts": [one.to_dict() for one in judged.verdicts if one.is_given],
        "advice": [one.to_dict() for one in judged.advice],
    }


def beside_baselines(
    domain: SpatialDomain,
    task: HiddenPlaces,
    scored: dict[str, Any] | None,
    loo: LeftOutPlaces | None,
) -> dict[str, Any] | None:
    """Figures of model and baselines on hidden sensors, or on each sensor left out.

    None if no sensor is hidden and all observations are at one place.
    """
    if scored is not None:
        found = baseline_predictions(domain.operator, task.places, task.y, task.hidden_places)
        names = ("rmse", "r2", "nlpd", "coverage")
        rows = [{"name": "model", **{name: scored[name] for name in names}}]
        return _table("hidden", rows, found, task.hidden_y)
    if loo is None:
        return None
    found = leave_one_out_baselines(domain.operator, task.places, task.y)
    rows = [{"name": "model", **figures(loo.y, loo.mean, loo.std)}]
    return _table("left out", rows, found, task.y)


def _table(
    kind: str, rows: list[dict[str, Any]], found: list[BaselinePrediction], y: FloatArray
) -> dict[str, Any]:
    for one in found:
        # Baselines of observations that are all alike have no error but rounding.
        sure = one.std is None or not (one.std > 1e-8 * np.abs(one.mean)).all()
        rows.append({"name": one.name, **figures(y, one.mean, None if sure else one.std)})
    return {"sensors": kind, "n_sensors": int(y.size), "rows": rows}


def describe(
    model: FieldGPRegressor, domain: SpatialDomain, task: HiddenPlaces, clock: Stopwatch
) -> dict[str, Any]:
    """Return data and fit of the run as plain values, the content of `--json`."""
    return {
        **heading(),
        "data": {
            "n_observed": int(task.y.size),
            "n_places": task.n_places,
            "n_hidden": int(task.hidden_y.size),
            "largest_distance": float(task.places.distances.max()),
        },
        "domain": _describe_domain(domain, task),
        "fitted": describe_fit(model, domain),
        "seconds": clock.seconds,
    }


def _describe_domain(domain: SpatialDomain, task: HiddenPlaces) -> dict[str, Any]:
    operator = domain.operator
    n_components, member = operator.components()
    corners = task.places.points[:, : operator.dimension + 1].astype(np.int64)
    seen = np.unique(member[corners])
    return {
        "kind": domain.kind,
        "dimension": operator.dimension,
        "unit": domain.unit,
        "n_given": operator.n_given,
        "n_vertices": operator.n_vertices,
        "n_elements": len(operator.elements),
        "measure": operator.measure,
        "diameter": operator.diameter,
        "n_components": n_components,
        "n_components_without_sensors": n_components - seen.size,
        "n_vertices_without_sensors": int((~np.isin(member, seen)).sum()),
        "n_unused": int((operator.given_vertices < 0).sum()),
    }


def describe_fit(model: FieldGPRegressor, domain: SpatialDomain) -> dict[str, Any]:
    """Families and members with weights, and means of the members' hyperparameters."""
    selection, scale = model.selection_, float(np.mean(model.process_.units.scale))
    members = [
        {
            "kernel": str(member.kernel),
            "weight": member.weight,
            "surface_share": member.kernel.share,
            "range": None if (surface := member.kernel.surface) is None else surface.range_,
            "alpha": None if surface is None else surface.alpha,
            "position_kernel": None if (place := member.kernel.position) is None else place.kernel,
            "lengthscale": None if place is None else place.lengthscale,
            "outputscale": member.outputscale * scale**2,
            "noise": member.noise * scale**2,
        }
        for member in selection.members
    ]
    weights = np.array([member["weight"] for member in members])
    weights = weights / weights.sum()
    shares = np.array([member["surface_share"] or 0.0 for member in members])
    return {
        "reason": selection.reason,
        "is_default": selection.is_default,
        "families": [
            {"name": family.name, "weight": family.weight, "log_evidence": family.log_evidence}
            for family in selection.families
        ],
        "members": members,
        "surface_share": float(weights @ shares),
        "range": _log_mean([member["range"] for member in members], weights * shares),
        "lengthscale": _log_mean(
            [member["lengthscale"] for member in members], weights * (1 - shares)
        ),
        "field_std": float(np.sqrt(weights @ [member["outputscale"] for member in members])),
        "noise_std": float(np.sqrt(weights @ [member["noise"] for member in members])),
    }


def _log_mean(lengths: list[float | None], weights: FloatArray) -> float | None:
    """Weighted geometric mean of the known lengths."""
    known = [(np.log(length), w) for length, w in zip(lengths, weights, strict=True) if length]
    total = sum(w for _, w in known)
    return float(np.exp(sum(value * w for value, w in known) / total)) if total > 0 else None


def describe_left_out(loo: LeftOutPlaces) -> dict[str, Any]:
    """Figures and rows of sensors left out, and a remark where their coverage is off."""
    found = figures(loo.y, loo.mean, loo.std)
    rows = zip(loo.names, loo.y, loo.mean, loo.std, loo.residual, strict=True)
    return {
        **found,
        "remark": coverage_remark(loo),
        "rows": [
            {"sensor": name, **dict(zip(("value", "mean", "std", "residual"), map(float, numbers),
                                        strict=True))}
            for name, *numbers in rows
        ],
    }  # fmt: skip


def coverage_remark(loo: LeftOutPlaces) -> str | None:
    """A sentence if the share of sensors inside their intervals is unlikely to be by chance."""
    covered = coverage(loo.y, loo.mean, loo.std, (LEVEL,))[LEVEL]
    inside = round(covered * loo.y.size)
    law = binom(loo.y.size, LEVEL)
    low, high = law.cdf(inside), law.sf(inside - 1)
    if min(low, high) >= UNLIKELY / 2:
        return None
    wrong = "too narrow" if low < high else "too wide"
    return (
        f"{inside} of {loo.y.size} sensors lie inside their own {100 * LEVEL:.0f} % interval when "
        f"they are left out: the intervals are {wrong}"
    )


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
