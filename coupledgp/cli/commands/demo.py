"""`coupledgp demo`: couplings on embedded data and a mesh, and a field from a few sensors."""

from __future__ import annotations

import sys
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
    from coupledgp.ground.extras import missing
    from coupledgp.ground.output import written_whole
    from coupledgp.ground.tensors import has_torch

    options.output.mkdir(parents=True, exist_ok=True)
    of_tables = ["report", demo_pages.TABLE]
    names = [*of_tables * has_torch(), demo_pages.MESH, demo_field.NAME]
    with ExitStack() as stack:
        pages = {
            name: [
                stack.enter_context(written_whole(options.output / f"{name}.{ending}"))
                for ending in ("html", "json")
            ]
            for name in names
        }
        # Matrices this small gain nothing from threads, and lose much where cores are shared.
        with threadpool_limits(1):
            shown, text = study.write_studies(pages, options.n_seeds, options.seed)
            page, figures = pages[demo_field.NAME]
            demo_field.write_field(options.output, page, figures, options.seed)
    if not has_torch():
        left_out = " and ".join(f"{name}.html" for name in of_tables)
        told = f"{left_out} are left out, random features of a table: {missing('torch')}"
        print(f"coupledgp: {told}", file=sys.stderr)
    if options.as_json:
        print(text, end="")
        return
    written = ", ".join(str(options.output / f"{name}.html") for name in names)
    print_report(shown, written=f"{written}, and a .json beside each")
