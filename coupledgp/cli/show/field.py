"""The report of `coupledgp interpolate` on a field: map, scores, fit, domain, sensors."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coupledgp.cli.shared.options import LEVEL, LeftOutPlaces
from coupledgp.cli.show.table import LEAST_WEIGHT, score_rows
from coupledgp.diagnostics.sections.report import Report
from coupledgp.diagnostics.sections.section import (
    ReportTable,
    Section,
    register_section,
    sections_of,
)
from coupledgp.diagnostics.verdicts.verdict import Advice, Verdict

if TYPE_CHECKING:
    from coupledgp.diagnostics.pages.field import RoadMap, SurfaceMap
    from coupledgp.diagnostics.pages.picture import Picture

# Most members of the mixture, and most sensors left out, that tables list.
MAX_MEMBERS, MAX_SENSORS = 6, 12


@dataclass(frozen=True, eq=False)
class FieldResult:
    """Result of the interpolation of a field.

    Attributes
    ----------
    result : dict
        Figures and settings, as in the JSON.
    picture : SurfaceMap, RoadMap or None
        The map of the law.
    left_out : LeftOut or None
        Predictions of sensors that are left out.
    """

    result: dict[str, Any]
    picture: SurfaceMap | RoadMap | None = field(default=None, repr=False)
    left_out: LeftOutPlaces | None = field(default=None, repr=False)


def field_report(found: FieldResult) -> Report:
    """The report of a field."""
    result = found.result
    return Report(
        title=f"Field on {Path(result['data']['path']).name}",
        lead=[headline(result), model_line(result)],
        warnings=result["warnings"],
        verdicts=[Verdict(**one) for one in result["verdicts"]],
        headline=answer(result),
        statements=[] if found.picture is None else [found.picture.told()],
        advice=[Advice(**one) for one in result["advice"]],
        sections=sections_of(found, ["field"]),
        closing=closing_lines(result),
    ).named(target_of(result))


def target_of(result: dict[str, Any]) -> str:
    """The reader's name of y: that of the column of values, unless it says no more than `value`."""
    name = str(result["data"].get("value", ""))
    return "" if name == "value" else name


def headline(result: dict[str, Any]) -> str:
    """Describe the data in a sentence."""
    data, domain = result["data"], result["domain"]
    what = "surface" if domain["dimension"] == 2 else "network"
    given = "vertices" if domain["dimension"] == 2 else "nodes"
    hidden = f", {data['n_hidden']} hidden for scoring" if data["n_hidden"] else ""
    places = "" if data["n_places"] == data["n_observed"] else f" at {data['n_places']} places"
    return (
        f"{Path(data['path']).name}: {what} of {domain['n_given']} {given}; values of "
        f"{Path(data['values']).name}: {data['n_observed']} observed by {data['places']}"
        f"{places}{hidden}"
    )


def model_line(result: dict[str, Any]) -> str:
    """One line on the fitted field: shares of surface and position, lengths, noise."""
    fitted, unit = result["fitted"], result["domain"]["unit"]
    along = "the surface" if result["domain"]["dimension"] == 2 else "the network"
    share, parts = fitted["surface_share"], []
    if fitted["range"] is not None and share >= 0.005:
        parts.append(f"{100 * share:.0f} % along {along} (range {amount(fitted['range'])} {unit})")
    if fitted["lengthscale"] is not None and share < 0.995:
        length = f"{amount(fitted['lengthscale'])} {unit}"
        parts.append(f"{100 * (1 - share):.0f} % by position (lengthscale {length})")
    members = len({member["kernel"] for member in fitted["members"]})
    mixed = "one kernel" if members == 1 else f"{members} kernels mixed by evidence"
    if fitted["is_default"]:
        mixed = f"no fit, as there are {fitted['reason']}"
    return (
        f"Variance of the field: {', '.join(parts)}; std of the field {fitted['field_std']:.3g}, "
        f"of the noise {fitted['noise_std']:.3g}; {mixed}"
    )


def answer(result: dict[str, Any]) -> str:
    """How far a sensor is typically off, the nearest sensor and the best baseline beside it."""
    found = result["baselines"]
    if found is None:
        return ""
    model, *others = found["rows"]
    best = min(others, key=lambda row: row["rmse"])
    nearest = [row for row in others if row["name"] == "nearest" and row is not best]
    hidden = found["sensors"] == "hidden"
    where = "hidden sensors" if hidden else "sensors, each predicted from the others"
    beside = [*(f"the nearest sensor {row['rmse']:.3g}" for row in nearest),
              f"the best baseline ({best['name']}) {best['rmse']:.3g}"]  # fmt: skip
    name = target_of(result)
    of = f" of {name}" if name else ""
    typical = f"Typical error{of} {model['rmse']:.3g} at {found['n_sensors']} {where}"
    return f"{typical}; {', '.join(beside)}."


def map_section(found: FieldResult) -> Section | None:
    """The law on the map; None where there are no positions."""
    return None if found.picture is None else Section("map", pictures=[found.picture.picture])


def domain_section(found: FieldResult) -> Section:
    """Size of the surface or network."""
    table = ReportTable("Domain", ("", "as read"), domain_rows(found.result))
    return Section("domain", tables=[table])


def domain_rows(result: dict[str, Any]) -> list[tuple[str, str]]:
    """Rows (name, value) of the size of the surface or network."""
    domain, data = result["domain"], result["data"]
    surface = domain["dimension"] == 2
    size = amount(domain["measure"])
    given = f"{'vertices' if surface else 'nodes'} given, with those added"
    rows = [
        ("source", domain["kind"]),
        (given, f"{domain['n_given']}, {domain['n_vertices']}"),
        ("area" if surface else "length", f"{size} {'square ' * surface}{domain['unit']}"),
        ("diameter", f"{amount(domain['diameter'])} {domain['unit']}"),
        ("components, without sensors",
         f"{domain['n_components']}, {domain['n_components_without_sensors']}"),
    ]  # fmt: skip
    if domain["n_unused"]:
        rows.append(("vertices of no face, which get no value", f"{domain['n_unused']}"))
    if data["largest_distance"] > 0:
        name = "farthest sensor from it"
        rows.append((name, f"{data['largest_distance']:.3g} {domain['unit']}"))
    return rows


def fit_section(found: FieldResult) -> Section:
    """Families of kernels and the members of greatest weight."""
    fitted = found.result["fitted"]
    names = ("surface_share", "range", "lengthscale", "field_std", "noise_std")
    figures = {name: fitted[name] for name in names}
    if fitted["is_default"]:
        kernels = [(member["kernel"], "default") for member in fitted["members"]]
        table = ReportTable("Kernel without evidence", ("", ""), kernels)
        return Section("fit", figures=figures, tables=[table])
    families = [
        (f"family: {family['name']}", f"{family['weight']:.3f}")
        for family in fitted["families"]
        if family["weight"] >= LEAST_WEIGHT
    ]
    weights: dict[str, float] = {}  # members of one kernel differ in their noise
    for member in fitted["members"]:
        weights[member["kernel"]] = weights.get(member["kernel"], 0.0) + member["weight"]
    members = sorted(weights.items(), key=lambda item: -item[1])
    kept, rest = members[:MAX_MEMBERS], members[MAX_MEMBERS:]
    rows = [*families, *((kernel, f"{weight:.3f}") for kernel, weight in kept)]
    if rest:
        rows.append((f"and {len(rest)} more", f"{sum(weight for _, weight in rest):.3f}"))
    table = ReportTable("Kernels by evidence", ("", "weight"), rows)
    return Section("fit", figures=figures, tables=[table])


def amount(value: float) -> str:
    """A length or an area with three digits or more, without an exponent unless it is extreme."""
    return f"{value:.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.4g}"


def score_section(shown: FieldResult) -> Section | None:
    """Scores on hidden sensors, beside baselines if there are any; None without either."""
    scores, found = shown.result["scores"], shown.result["baselines"]
    if found is None and scores is None:
        return None
    if found is None:
        title = f"Scores on {scores['n_hidden']} hidden values"
        table = ReportTable(title, ("", "model"), score_rows(scores))
        return Section("test-scores", figures=scores, tables=[table])
    kind = "hidden values" if found["sensors"] == "hidden" else "values, each left out in turn"
    rows = [
        (
            row["name"],
            f"{row['rmse']:.4g}",
            "" if row["nlpd"] is None else f"{row['nlpd']:.3f}",
            "" if row["coverage"] is None else f"{100 * row['coverage'][LEVEL]:.0f} %",
        )
        for row in found["rows"]
    ]
    columns = ("", "RMSE", "NLPD", f"in {100 * LEVEL:.0f} % intervals")
    title = f"Beside baselines, on {found['n_sensors']} {kind}"
    figures = {row["name"]: {one: row[one] for one in ("rmse", "nlpd", "coverage")}
               for row in found["rows"]}  # fmt: skip
    return Section("test-scores", figures=figures, tables=[ReportTable(title, columns, rows)])


def sensor_section(shown: FieldResult) -> Section | None:
    """The sensors that deviate the most from their prediction by all others."""
    found, loo = shown.result["leave_one_out"], shown.left_out
    if found is None:
        return None

    def beside() -> Picture:
        from coupledgp.diagnostics.pages.dependence import left_out

        assert loo is not None
        return left_out(loo.y, loo.mean, loo.std, loo.names, LEVEL)

    def deviations() -> Picture:
        from coupledgp.diagnostics.pages.dependence import residuals

        assert loo is not None
        return residuals(loo.y, loo.mean, loo.std, loo.names)

    rows = sorted(found["rows"], key=lambda row: -abs(row["residual"]))
    title = "Sensors left out, one place at a time"
    if len(rows) > MAX_SENSORS:
        title += f": the {MAX_SENSORS} of {len(rows)} that deviate the most"
    columns = ("sensor", "observed", "mean", "std", "residual / std")
    cells = [
        (row["sensor"], *(f"{row[name]:.4g}" for name in ("value", "mean", "std")),
         f"{row['residual']:+.2f}")
        for row in rows[:MAX_SENSORS]
    ]  # fmt: skip
    pictures = [] if loo is None else [beside, deviations]
    return Section("left-out", tables=[ReportTable(title, columns, cells)], pictures=pictures)


def closing_lines(result: dict[str, Any]) -> list[str]:
    """Lines on the seconds of each part of the work, and on the files written."""
    output, data = result["output"], result["data"]
    seconds = ", ".join(f"{name} {value:.2f} s" for name, value in result["seconds"].items())
    what = "the function, noise left out" if output["latent"] else "observations, noise included"
    where = {
        "query": "the rows of the query with mean and std", "refined": "the refined mesh",
    }.get(output["at"], f"mean and std at {output['at']}")  # fmt: skip
    lines = [
        f"Time: {seconds}.",
        f"Written to {output['path']}: {where}; std is that of {what}.",
    ]
    if output["loo"] is not None:
        lines.append(f"Written to {output['loo']}: every sensor left out.")
    if data["n_hidden"]:
        lines.append("The hidden values were not used.")
    if result["domain"]["n_components_without_sensors"]:
        lines.append(
            "Components without sensors know the field by position alone, if at all; their "
            "standard deviation says so."
        )
    return lines


register_section("map", map_section, "field")
register_section("test-scores", score_section, "field")
register_section("fit", fit_section, "field")
register_section("domain", domain_section, "field")
register_section("left-out", sensor_section, "field")
