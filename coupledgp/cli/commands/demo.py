"""`coupledgp demo`: couplings on embedded data and a mesh, and a field from a few sensors."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from coupledgp.cli.shared.declare import Options, option
from coupledgp.cli.shared.options import at_least


@dataclass(frozen=True, kw_only=True)
class DemoOptions(Options):
    """Options of `coupledgp demo`."""

    output: Path = option(
        "Folder to write to; it is made if missing.", "--output", "-o", default=Path("demo-report"),
        ending="",
    )  # fmt: skip
    n_seeds: int = option(
        "Draws of the frequencies to average over.", default=20, check=at_least(1)
    )


def demo(options: DemoOptions) -> None:
    """Run the study, write all files, print the tables."""
    from threadpoolctl import threadpool_limits

    from coupledgp.cli.commands import demo_field, demo_pages
    from coupledgp.cli.commands import demo_study as study
    from coupledgp.diagnostics.pages.terminal import print_report
    from coupledgp.ground.output import write_text, written_whole

    options.output.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        names = ["report", demo_pages.TABLE, demo_pages.MESH, demo_field.NAME]
        page, figures, *further, field_page, field_figures = [
            stack.enter_context(written_whole(options.output / f"{name}.{ending}"))
            for name in names
            for ending in ("html", "json")
        ]
        # Matrices this small gain nothing from threads, and lose much where cores are shared.
        with threadpool_limits(1):
            found = study.run_study(options.n_seeds, options.seed)
            study.write_further(*further, seed=options.seed)
            demo_field.write_field(options.output, field_page, field_figures, options.seed)
        text = json.dumps(found.to_dict(), indent=2, allow_nan=False)
        write_text(figures, text + "\n")
        report = study.study_report(found)
        report.to_html(page)
    if options.as_json:
        print(text)
        return
    pages = ", ".join(str(options.output / f"{name}.html") for name in names)
    print_report(report, written=f"{pages}, and a .json beside each")
