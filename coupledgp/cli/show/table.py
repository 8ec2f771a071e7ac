"""The report of `coupledgp fit`: kinds of columns, the fitted model, and scores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coupledgp.cli.shared.evaluate import ExactComparison
from coupledgp.cli.shared.options import selection_line
from coupledgp.columns.codes import NumberCode
from coupledgp.diagnostics.sections.report import Report
from coupledgp.diagnostics.sections.section import (
    ReportTable,
    Section,
    register_section,
    sections_of,
)

# Most lengthscales that are listed, those of the columns that matter most, to fit on a screen.
MAX_LENGTHSCALES = 20
# Spread over lengthscale below which a column hardly matters, and least weight of a listed member.
IRRELEVANT, LEAST_WEIGHT = 0.01, 0.0005
PLAIN = NumberCode().describe()


def fit_report(
    result: dict[str, Any], comparison: ExactComparison | None, warnings: Sequence[str] = ()
) -> Report:
    """The report of a fit, after sentences that concern it all."""
    lead = [headline(result), model_line(result)]
    if comparison is not None:
        lead.append(comparison_title(result))
    shell = Report(
        f"Gaussian process for {result['data']['target']}", lead, closing_lines(result),
        warnings=warnings, sections=sections_of(result, ["fit"]),
    )  # fmt: skip
    return beside(shell, comparison, result["data"]["target"])


def beside(shell: Report, comparison: ExactComparison | None, target: str = "y") -> Report:
    """A report with the verdicts and the sections of a comparison of a target, if one was made."""
    if comparison is None:
        return shell
    report = comparison.report
    made = report.with_target(target).layout()
    first = [one for one in made.sections if one.key == "predictions"]
    rest = [one for one in made.sections if one.key != "predictions"]
    own = shell.sections
    opens = [one for one in own if one.key == "map"]
    return Report(
        title=shell.title, lead=shell.lead, closing=shell.closing, headline=made.headline,
        verdicts=made.verdicts, badges=made.badges, advice=made.advice, remarks=made.remarks,
        statements=[*shell.statements, *made.statements],
        warnings=[*dict.fromkeys([*shell.warnings, *made.warnings])],
        sections=[*opens, *first, *(one for one in own if one.key != "map"), *rest],
    )  # fmt: skip


def headline(result: dict[str, Any]) -> str:
    """Describe the data in a sentence."""
    data = result["data"]
    name = Path(data["path"]).name
    text = (
        f"{name}: target {data['target']!r}, {_count(data['n_columns'], 'column')}, "
        f"{_count(data['n_train'], 'training row')}"
    )
    if data["test"] is not None:
        return f"{text}; {_count(data['n_test'], 'test row')} from {Path(data['test']).name}"
    if data["n_test"]:
        share = f"{100 * data['holdout']:.3g} %"
        return f"{text}, {_count(data['n_test'], 'test row')} ({share} held out)"
    return f"{text}, no test rows"


def model_line(result: dict[str, Any]) -> str:
    """Describe the model in a line."""
    model = result["model"]
    if "members" in model:
        used = sum(member["weight"] > 0 for member in model["members"])
        return f"{_count(used, 'model')} of {len(model['members'])} in a mixture, seed " + str(
            model["random_state"]
        )
    lengthscales = "one lengthscale a column" if model["ard"] else "one lengthscale"
    transformed = model.get("target_transform")
    target = "" if transformed is None else f"target transformed by {transformed}, "
    return (
        f"{target}{model['drawn']['text']}; {lengthscales}, {model['dtype']}, "
        f"seed {model['random_state']}"
    )


def lengthscale_rows(result: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Rows (column, lengthscale, spread over lengthscale)."""
    lengthscales = result["hyperparameters"]["lengthscale"]
    relevance = result["hyperparameters"]["spread_over_lengthscale"]
    names = [name for name in lengthscales if relevance[name] >= IRRELEVANT]
    if len(names) > MAX_LENGTHSCALES:
        names = sorted(names, key=lambda name: -relevance[name])[:MAX_LENGTHSCALES]
    rows = [(name, f"{lengthscales[name]:.4g}", f"{relevance[name]:.3g}") for name in names]
    left_out = len(lengthscales) - len(names)
    if left_out:
        rows.append((f"and {left_out} that matter less", "", ""))
    return rows


def scale_rows(result: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Rows (name, value, remark) of the other hyperparameters and the evidence."""
    hyper = result["hyperparameters"]
    rows = [
        (f"{name} (variance)", f"{hyper[name]:.4g}", f"std {hyper[name] ** 0.5:.4g}")
        for name in ("outputscale", "noise")
    ]
    evidence = (f"{result['log_evidence']:.6g}", f"{result['log_evidence_per_row']:.4g} a row")
    return [*rows, ("log evidence", *evidence)]


def score_rows(scores: dict[str, Any]) -> list[tuple[str, str]]:
    """Rows (name, value) of the scores."""
    mixture = " (density of the mixture)" if scores.get("density") == "mixture" else ""
    rows = [
        ("RMSE", scores["rmse"]),
        ("R2", scores["r2"]),
        (f"NLPD, nats a row{mixture}", scores["nlpd"]),
    ]
    shown = [(name, f"{value:.4g}") for name, value in rows if value is not None]
    return shown + [
        (f"coverage of {100 * level:.0f} % intervals", f"{100 * share:.1f} %")
        for level, share in scores["coverage"].items()
    ]


def comparison_title(result: dict[str, Any]) -> str:
    """Title of the comparison, with the number of rows."""
    data, comparison = result["data"], result["comparison"]
    train = _part(comparison["n_train"], data["n_train"], "training row")
    n_points = data["n_train"] if comparison["at_training_inputs"] else data["n_test"]
    kind = "training input" if comparison["at_training_inputs"] else "test row"
    return (
        "Beside it the reference, the exact GP of the same hyperparameters, "
        f"on {train}, at {_part(comparison['n_test'], n_points, kind)}{by_solves(comparison)}"
    )


def by_solves(comparison: dict[str, Any]) -> str:
    """Remark that the exact law was computed by iterative solves; empty if it was not."""
    solved = comparison["accuracy"]["method"] == "stochastic"
    return "; the exact law by iterative solves" if solved else ""


def closing_lines(result: dict[str, Any]) -> list[str]:
    """Lines on the end of the search, the seconds of each part of the work, and the files saved."""
    seconds = ", ".join(f"{name} {value:.2f} s" for name, value in result["seconds"].items())
    work = _count(result["n_evaluations"], "evaluation")
    ending = "converged" if result["converged"] else "stopped before it converged (--max-iter)"
    if result["converged"] is None:
        search = f"{work} of the evidence; forecast {result['model']['forecast']:.0f} s."
    else:
        search = f"The optimiser {ending} after {work}."
    lines = [*selection_line(result["selection"]), f"{search} Time: {seconds}."]
    if result["output"] is not None:
        rows = _count(result["data"]["n_train"], "training row")
        hint = "; --holdout 0 fits all" if result["data"]["holdout"] else ""
        lines.append(f"Model fitted to {rows} saved to {result['output']}{hint}.")
    return lines


def column_section(result: dict[str, Any]) -> Section | None:
    """How columns are read that are not taken as plain numbers; None where all are."""
    special = {name: text for name, text in result["columns"].items() if text != PLAIN}
    if not special:
        return None
    rows = [*special.items()][:MAX_LENGTHSCALES]
    left_out, n_plain = len(special) - len(rows), len(result["columns"]) - len(special)
    if left_out:
        rows.append((f"and {left_out} more", ""))
    if n_plain:
        rows.append((_count(n_plain, "other column"), PLAIN))
    return Section("columns", tables=[ReportTable("Columns", ("column", "read as"), rows)])


def member_section(result: dict[str, Any]) -> Section | None:
    """The models of a mixture with weights and scores; None for a single model."""
    model = result["model"]
    if "members" not in model:
        return None
    rows = [
        (member["name"], f"{member['weight']:.3f}", f"{member['log_density']:.4f}")
        for member in sorted(model["members"], key=lambda member: -member["weight"])
        if member["weight"] >= LEAST_WEIGHT
    ]
    left_out = len(model["members"]) - len(rows)
    if left_out:
        rows.append((f"and {left_out} without weight", "", ""))
    title = f"Models, scored on {_count(model['n_scored'], 'row')} by {model['scored_by']}"
    figures = {one["name"]: one["weight"] for one in model["members"]}
    table = ReportTable(title, ("model", "weight", "nats a row (standardised)"), rows)
    return Section("members", figures=figures, tables=[table])


def hyperparameter_section(result: dict[str, Any]) -> Section:
    """Lengthscales by column, variances and evidence."""
    columns = ("column", "lengthscale", "spread / lengthscale")
    rows = lengthscale_rows(result) + scale_rows(result)
    figures = result["hyperparameters"] | {"log_evidence": result["log_evidence"]}
    return Section("hyperparameters", figures=figures,
                   tables=[ReportTable("Hyperparameters", columns, rows)])  # fmt: skip


def score_section(result: dict[str, Any]) -> Section | None:
    """Scores at all rows that were put aside; None without any."""
    scores = result["scores"]
    if scores is None:
        return None
    kind = "test row" if "n_test" in scores else "hidden value"
    n_points = scores["n_test"] if "n_test" in scores else scores["n_hidden"]
    table = ReportTable(f"Scores on {_count(n_points, kind)}", ("", "model"), score_rows(scores))
    return Section("test-scores", figures=scores, tables=[table])


register_section("test-scores", score_section, "fit")
register_section("members", member_section, "fit")
register_section("columns", column_section, "fit")
register_section("hyperparameters", hyperparameter_section, "fit")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _part(number: int, total: int, noun: str) -> str:
    return _count(total, noun) if number == total else f"{number} of {_count(total, noun)}"
