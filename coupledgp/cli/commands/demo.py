"""`coupledgp demo`: couplings on embedded data and a mesh, and a field from a few sensors."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from coupledgp.cli.options import path


def demo(
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="Folder to write to; it is made if missing.", parser=path
        ),
    ] = Path("demo-report"),
    n_seeds: Annotated[int, typer.Option(help="Draws of the frequencies to average over.")] = 20,
    seed: Annotated[int, typer.Option(help="Of the split and the draws.")] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON instead of the table.")
    ] = False,
) -> None:
    """Run the study, write all files, print the tables."""
    from threadpoolctl import threadpool_limits

    from coupledgp.cli.commands import demo_field, demo_pages
    from coupledgp.cli.commands import demo_study as study
    from coupledgp.diagnostics.pages.terminal import print_report
    from coupledgp.ground.output import write_text, written_whole
    from coupledgp.ground.validation import check_positive_int

    check_positive_int(n_seeds, "--n-seeds")
    check_positive_int(seed, "--seed", minimum=0)
    output.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        names = ["report", demo_pages.TABLE, demo_pages.MESH, demo_field.NAME]
        page, figures, *further, field_page, field_figures = [
            stack.enter_context(written_whole(output / f"{name}.{ending}"))
            for name in names
            for ending in ("html", "json")
        ]
        # Matrices this small gain nothing from threads, and lose much where cores are shared.
        with threadpool_limits(1):
            found = study.run_study(n_seeds, seed)
            study.write_further(*further, seed=seed)
            demo_field.write_field(output, field_page, field_figures, seed)
        text = json.dumps(found.to_dict(), indent=2, allow_nan=False)
        write_text(figures, text + "\n")
        report = study.study_report(found)
        report.to_html(page)
    if as_json:
        print(text)
        return
    pages = ", ".join(str(output / f"{name}.html") for name in names)
    print_report(report, written=f"{pages}, and a .json beside each")
