"""The results of `coupledgp interpolate` over time as printed tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.text import Text

from coupledgp.cli.show import table as show
from coupledgp.cli.show.console import PlainConsole
from coupledgp.diagnostics.pages.table import Section, short_numbers


def interpolate(result: dict[str, Any]) -> None:
    """Print the results of an interpolation over time."""
    console = PlainConsole()
    console.print(Text(headline(result), style="bold"), soft_wrap=True)
    for name, found in result["values"].items():
        console.print(Text(data_line(name, found)), soft_wrap=True)
        for section in sections(found):
            console.print()
            show.print_section(console, section)
        console.print()
        for line in model_lines(found):
            console.print(Text(line), soft_wrap=True)
    for line in closing_lines(result):
        console.print(Text(line), soft_wrap=True)


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


def sections(found: dict[str, Any]) -> Iterator[Section]:
    """Tables of the terms, of the fit, and of sensors left out."""
    fitted = found["fitted"]
    terms = [
        ("along the graph" if term["where"] == "graph" else "each sensor's own",
         short_numbers(term["kernel"]), f"{term['variance'] ** 0.5:.4g}")
        for term in fitted["terms"]
    ]  # fmt: skip
    yield Section(
        f"Terms; times in {found['time_unit']}",
        ("where", "kernel of time", "standard deviation"),
        [*terms, ("noise", "", f"{fitted['noise'] ** 0.5:.4g}")],
    )
    error, outliers = fitted["log_evidence_error"], found["outliers"]
    yield Section("Fit", ("", "value", "remark"), [
        ("log evidence", f"{fitted['log_evidence']:.6g}", f"± {error:.2g}" if error else "exact"),
        ("values beyond 4 sd", str(outliers["n"]), "left out" if outliers["rejected"] else "kept"),
        ("rounds of the search", str(fitted["n_rounds"]),
         "converged" if fitted["converged"] else "cut short"),
    ])  # fmt: skip
    left_out = found["leave_one_sensor_out"]
    if left_out is not None:
        mean = [("all", f"{left_out['rmse']:.4g}", f"{left_out['bias']:.3g}",
                 f"{left_out['coverage_95']:.1%}")]  # fmt: skip
        worst = [(row["node"], f"{row['rmse']:.4g}", f"{row['bias']:.3g}", "")
                 for row in left_out["worst"]]  # fmt: skip
        head = ("sensor", "RMSE", "bias", "in 95 %")
        yield Section("Each sensor as the others predict it, the worst first", head, mean + worst)


def model_lines(found: dict[str, Any]) -> list[str]:
    """Lines on the kernel of the nodes and on how the law is computed."""
    method = found["method"]
    kernel = short_numbers(found["fitted"]["kernel"])
    return [f"Kernel of the nodes: {kernel}", f"By {method['name']}: {method['reason']}"]


def closing_lines(result: dict[str, Any]) -> list[str]:
    """Lines on what was written and how long it took."""
    output = result["output"]
    names = [output[name] for name in ("leave_one_sensor_out", "report", "save_model")]
    written = [f"{output['output']} ({output['n_rows']} rows)", *(n for n in names if n)]
    seconds = ", ".join(f"{name} {value:.1f} s" for name, value in result["seconds"].items())
    return [f"Seconds: {seconds}", f"Written: {', '.join(written)}"]
