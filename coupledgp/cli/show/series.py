"""The report of `coupledgp interpolate` over time: fit and sensors left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from coupledgp.diagnostics.sections.report import Report
from coupledgp.diagnostics.sections.section import (
    ReportTable,
    Section,
    register_section,
    sections_of,
    short_numbers,
)


def series_report(result: dict[str, Any]) -> Report:
    """The report of an interpolation over time."""
    return Report(headline(result), closing=closing_lines(result),
                  sections=sections_of(result, ["series"]))  # fmt: skip


def headline(result: dict[str, Any]) -> str:
    """Describe the files in a sentence."""
    data = result["data"]
    return (
        f"{Path(data['path']).name}: {data['n_nodes']} nodes ({data['graph']}); values of "
        f"{Path(data['values']).name} over time"
    )


def data_line(name: str, found: dict[str, Any]) -> str:
    """Describe the data of a value in a sentence."""
    gaps, step = found["gaps"], found["step"]
    grid = "irregular times" if step is None else f"a step of {step:g} {found['time_unit']}"
    zone = "" if found["zone"] is None else f", {found['zone']}"
    dark = f", {gaps['n_dark']} of them without any value" if gaps["n_dark"] else ""
    return (
        f"{name}: {found['n_sensors']} sensors, {found['n_times']} times from {found['first']} to "
        f"{found['last']}{zone}{dark}, {grid}; {gaps['share']:.1%} gaps, the longest of "
        f"{gaps['longest_run']} steps"
    )


def value_section(result: dict[str, Any]) -> Section:
    """Fit and sensors left out of each value that was fitted."""
    every = result["values"].items()
    figures = {name: {"log_density": found["fitted"]["log_density"]} for name, found in every}
    tables = [table for name, found in every for table in tables_of(name, found)]
    return Section("values", figures=figures, tables=tables)


def tables_of(name: str, found: dict[str, Any]) -> list[ReportTable]:
    """Tables of the fit, and of sensors left out."""
    fitted = found["fitted"]
    rows = [
        ("kernel of the nodes", short_numbers(fitted["kernel"])),
        ("law", fitted["law"]),
        ("log density of the values", f"{fitted['log_density']:.6g}"),
        ("values beyond 4 sd", f"{found['outliers']['n']}"),
    ]
    tables = [ReportTable("Fit", ("", "value"), rows, note=data_line(name, found))]
    left_out = found["leave_one_sensor_out"]
    if left_out is not None:
        mean = [("all", f"{left_out['rmse']:.4g}", f"{left_out['bias']:.3g}",
                 f"{left_out['coverage_95']:.1%}")]  # fmt: skip
        worst = [(row["node"], f"{row['rmse']:.4g}", f"{row['bias']:.3g}", "")
                 for row in left_out["worst"]]  # fmt: skip
        head = ("sensor", "RMSE", "bias", "in 95 %")
        title = "Each sensor as the others predict it, the worst first"
        tables.append(ReportTable(title, head, mean + worst))
    return tables


register_section("values", value_section, "series")


def closing_lines(result: dict[str, Any]) -> list[str]:
    """Lines on the files that were written and the seconds of each part."""
    output = result["output"]
    names = [output[name] for name in ("leave_one_sensor_out", "report", "save_model")]
    written = [f"{output['output']} ({output['n_rows']} rows)", *(n for n in names if n)]
    seconds = ", ".join(f"{name} {value:.1f} s" for name, value in result["seconds"].items())
    return [f"Seconds: {seconds}", f"Written: {', '.join(written)}"]
