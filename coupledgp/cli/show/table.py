"""The results of `coupledgp fit` as tables on a terminal and as a page for a browser."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from coupledgp.cli.shared.evaluate import Comparison
from coupledgp.cli.shared.options import selection_line
from coupledgp.cli.show.console import PlainConsole
from coupledgp.columns.codes import NumberCode
from coupledgp.diagnostics.pages.table import Section, figure_columns, figure_rows
from coupledgp.diagnostics.result import ComparisonResult
from coupledgp.diagnostics.verdicts.verdict import Advice, Verdict

# Most lengthscales that are listed, those of the columns that matter most, to fit on a screen.
MAX_LENGTHSCALES = 20
# Colours of verdicts on a terminal.
STYLES = {"green": "green", "amber": "yellow", "red": "red", "grey": "bright_black"}
PLAIN = NumberCode().describe()


def fit(
    result: dict[str, Any], comparison: Comparison | None, warnings: Sequence[str] = ()
) -> None:
    """Print the results of a fit, after sentences that concern them all."""
    console = PlainConsole()
    console.print(Text(headline(result), style="bold"), soft_wrap=True)
    console.print(Text(model_line(result)), soft_wrap=True)
    print_warnings(console, warnings)
    columns = column_section(result)
    if columns is not None:
        console.print()
        print_section(console, columns, numbers=False)
    for section in (
        member_section(result),
        hyperparameter_section(result),
        score_section(result["scores"]),
        comparison_section(result, comparison),
    ):
        if section is not None:
            console.print()
            print_section(console, section)
    console.print()
    if comparison is not None:
        print_verdicts(console, comparison.report)
    for line in closing_lines(result):
        console.print(Text(line), soft_wrap=True)


def print_warnings(console: Console, warnings: Sequence[str]) -> None:
    """Print sentences that a reader should see before any figure."""
    for line in warnings:
        console.print(Text(line, style="bold yellow"), soft_wrap=True)


def print_judgement(
    console: Console, verdicts: Sequence[Verdict], advice: Sequence[Advice]
) -> None:
    """Print verdicts with their colours, and what to do next."""
    for one in verdicts:
        colour = STYLES[one.colour]
        line = Text.assemble((f"{one.question} ", "bold"), (f"[{one.colour}] ", f"bold {colour}"))
        console.print(line + Text(one.sentence), soft_wrap=True)
    for number, thing in enumerate(advice, start=1):
        heading = "To do next: " if number == 1 else "Or: "
        console.print(Text(f"{heading}{thing.text()}"), soft_wrap=True)


def print_verdicts(console: Console, report: ComparisonResult) -> None:
    """Print the three verdicts with their colours, what to do next, and remarks."""
    print_judgement(console, report.verdicts, report.advice)
    for remark in report.remarks:
        console.print(Text(remark), soft_wrap=True)


def page(result: dict[str, Any], comparison: Comparison) -> str:
    """Return the HTML page of a fit."""
    from coupledgp.diagnostics.pages.html import html_of, render  # matplotlib is slow to import

    sections = [
        score_section(result["scores"]),
        member_section(result),
        column_section(result),
        hyperparameter_section(result),
    ]
    content = render(
        comparison.report,
        title=f"Gaussian process for {result['data']['target']}",
        lead=[headline(result), model_line(result)],
        sections=[section for section in sections if section is not None],
        comparison=comparison_title(result),
        closing=closing_lines(result),
    )
    return html_of(content)


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
    fitted = f"fitted to {model['objective']}, " if model["frequencies"] == "fitted" else ""
    transformed = model.get("target_transform")
    target = "" if transformed is None else f"target transformed by {transformed}, "
    return (
        f"{target}{model['kernel']} kernel, {model['n_frequencies']} {model['features']} "
        f"frequencies, coupling {model['coupling']}, {fitted}{lengthscales}, {model['dtype']}, "
        f"seed {model['random_state']}"
    )


def lengthscale_rows(result: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Rows (column, lengthscale, spread over lengthscale)."""
    lengthscales = result["hyperparameters"]["lengthscale"]
    relevance = result["hyperparameters"]["spread_over_lengthscale"]
    names = list(lengthscales)
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
        "Beside the reference, the exact GP of the same hyperparameters, "
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
    """Table of how columns are read that are not taken as plain numbers, if there are any."""
    special = {name: text for name, text in result["columns"].items() if text != PLAIN}
    if not special:
        return None
    rows = [*special.items()][:MAX_LENGTHSCALES]
    left_out, n_plain = len(special) - len(rows), len(result["columns"]) - len(special)
    if left_out:
        rows.append((f"and {left_out} more", ""))
    if n_plain:
        rows.append((_count(n_plain, "other column"), PLAIN))
    return Section("Columns", ("column", "read as"), rows)


def member_section(result: dict[str, Any]) -> Section | None:
    """Table of the models of a mixture with weights and scores, if it is one."""
    model = result["model"]
    if "members" not in model:
        return None
    rows = [
        (member["name"], f"{member['weight']:.3f}", f"{member['log_density']:.4f}")
        for member in sorted(model["members"], key=lambda member: -member["weight"])
    ]
    title = f"Models, scored on {_count(model['n_scored'], 'row')} by {model['scored_by']}"
    return Section(title, ("model", "weight", "nats a row (standardised)"), rows)


def hyperparameter_section(result: dict[str, Any]) -> Section:
    """Table of the lengthscales by column, the variances and the evidence."""
    columns = ("column", "lengthscale", "spread / lengthscale")
    return Section("Hyperparameters", columns, lengthscale_rows(result) + scale_rows(result))


def score_section(scores: dict[str, Any] | None) -> Section | None:
    """Table of the scores on the test rows, if there are any."""
    if scores is None:
        return None
    title = f"Scores on {_count(scores['n_test'], 'test row')}"
    return Section(title, ("", "model"), score_rows(scores))


def comparison_section(result: dict[str, Any], comparison: Comparison | None) -> Section | None:
    """Table of the comparison with the exact GP, if it was made."""
    if comparison is None:
        return None
    figures = comparison.report.figures
    rows = figure_rows(figures, comparison.report.accuracy)
    return Section(comparison_title(result), figure_columns(figures), rows)


def print_section(console: Console, section: Section, numbers: bool = True) -> None:
    """Print a table with its title above it; `numbers` stand at the right of their columns."""
    console.print(Text(section.title, style="bold"), soft_wrap=True)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for k, name in enumerate(section.columns):
        table.add_column(Text(name), justify="right" if k and numbers else "left")
    for row in section.rows:
        # As Text: a column's name may look like markup.
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _part(number: int, total: int, noun: str) -> str:
    return _count(total, noun) if number == total else f"{number} of {_count(total, noun)}"
