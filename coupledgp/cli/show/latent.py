"""Reports of fits of classes and under likelihoods: the law, its choice and its scores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coupledgp.cli.show.table import column_section, headline, score_rows
from coupledgp.diagnostics.sections.report import Report
from coupledgp.diagnostics.sections.section import ReportTable, Section

# Names of the scores of classes, as they are shown.
CLASS_SCORES = {
    "log_loss": "log loss, nats", "log_loss_of_shares": "log loss of the shares of the classes",
    "brier": "Brier score", "accuracy": "accuracy",
    "most_frequent": "accuracy of the most frequent class",
}  # fmt: skip


def latent_report(result: dict[str, Any]) -> Report:
    """The report of `coupledgp fit` for classes or another likelihood than the Gaussian one."""
    found = [column_section(result), law_section(result), latent_score_section(result)]
    title = f"Gaussian process for {result['data']['target']}"
    sections = [section for section in found if section is not None]
    lead = [headline(result), law_line(result)]
    return Report(title, lead, latent_closing(result), sections=sections)


def law_line(result: dict[str, Any]) -> str:
    """Describe the law of the target in a line."""
    model = result["model"]
    classes = model["classes"]
    if classes is not None:
        return f"{len(classes)} classes: {', '.join(map(str, classes[:12]))}"
    own = ", ".join(f"{name} {value:.4g}" for name, value in model["parameters"].items())
    return f"observations follow a {model['likelihood']} law" + (f", {own}" if own else "")


def law_section(result: dict[str, Any]) -> Section:
    """What was compared and found, in the words of `explain`."""
    lines = result["model"]["explanation"]
    rows = [(line,) for line in lines]
    figures = {"log_evidence": result["log_evidence"]}
    return Section("law", figures=figures, tables=[ReportTable("Model", ("",), rows)])


def latent_score_section(result: dict[str, Any]) -> Section | None:
    """Scores at rows or places that were put aside; None without any."""
    scores = result["scores"]
    if scores is None:
        return None
    n_points = scores["n_test"] if "n_test" in scores else scores["n_hidden"]
    kind = "test rows" if "n_test" in scores else "hidden values"
    rows: Sequence[tuple[str, str]] = [
        (shown, f"{scores[name]:.4g}") for name, shown in CLASS_SCORES.items() if name in scores
    ]
    rows = rows or score_rows(scores)
    table = ReportTable(f"Scores on {n_points} {kind}", ("", "model"), rows)
    return Section("test-scores", figures=scores, tables=[table])


def latent_closing(result: dict[str, Any]) -> list[str]:
    """Lines on the search, the seconds of each part of the work, and the files written."""
    seconds = ", ".join(f"{name} {value:.2f} s" for name, value in result["seconds"].items())
    ended = "converged" if result["converged"] else "ended before it converged"
    lines = [
        f"The search {ended} after {result['n_evaluations']} evaluations; forecast "
        f"{result['model']['forecast']:.0f} s. Time: {seconds}."
    ]
    output = result.get("output")
    if output is not None:
        where = output["path"] if isinstance(output, dict) else output
        lines.append(f"Written to {Path(where)}.")
    return lines


def place_report(result: dict[str, Any]) -> Report:
    """The report of `coupledgp interpolate` for classes or another likelihood."""
    data = result["data"]
    hidden = f", {data['n_hidden']} hidden for scoring" if data["n_hidden"] else ""
    lead = [
        f"{Path(data['path']).name}: values of {Path(data['values']).name}: "
        f"{data['n_observed']} observed{hidden}",
        law_line(result),
    ]
    found = [law_section(result), latent_score_section(result)]
    sections = [section for section in found if section is not None]
    title = f"Interpolation on {Path(data['path']).name}"
    return Report(
        title, lead, latent_closing(result), warnings=result["warnings"], sections=sections
    )
