"""All comparisons with peers, in one run.

    python -m benchmarks.performance                      # everything, about an hour
    python -m benchmarks.performance --quick              # small sizes, some minutes
    python -m benchmarks.performance --only evidence tables --output FOLDER

Methods of one size take turns in one process of one thread; medians, quartiles, ratios within
rounds, slopes over sizes with standard errors and peaks of memory are written to
`performance.json`, `performance.md` and a figure for each comparison. A run that was stopped goes
on from its JSON. Other scripts of this folder look closer at one thing each.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks.performance.suite.attention import ATTENTION
from benchmarks.performance.suite.comparison import Comparison
from benchmarks.performance.suite.graphs import GRAPHS
from benchmarks.performance.suite.measuring import Record, measured
from benchmarks.performance.suite.pictures import write_figure
from benchmarks.performance.suite.rows import EVIDENCE, TABLES
from benchmarks.performance.suite.summary import cells, section, slopes
from benchmarks.recorder import machine

COMPARISONS = (EVIDENCE, TABLES, GRAPHS, ATTENTION)
HEAD = """# Performance

What `python -m benchmarks.performance` measured. Methods of a size take turns in one process of one
thread, so that processor seconds are those of a machine that nobody else uses; they are medians
over rounds, with quartiles; "times ours" is the median over rounds of the ratio to the seconds of
the first method, above one where ours is faster. Peaks of memory are
those of a call, beyond the data and the imports, in a process of its own. Peers are what a user
would take instead.
"""


def page(comparisons: list[Comparison], records: list[Record], quick: bool) -> str:
    """The page of results."""
    lines = [HEAD, f"Machine: {machine()}.", ""]
    if quick:
        lines += [
            "A quick run: small sizes, one round, compilation included.",
            "",
        ]
    for comparison in comparisons:
        if any(record["comparison"] == comparison.name for record in records):
            lines += section(comparison, records)
    return "\n".join(lines)


def document(comparisons: list[Comparison], records: list[Record], quick: bool) -> dict[str, Any]:
    """The results as one JSON object."""
    out: dict[str, Any] = {"machine": machine(), "quick": quick, "records": records,
                           "slopes": {}}  # fmt: skip
    for comparison in comparisons:
        found = cells(comparison, records)
        out["slopes"][comparison.name] = slopes(comparison, found)
    return out


def known_records(path: Path, quick: bool) -> list[Record]:
    """Records of a run of the same kind that was stopped."""
    if not path.exists():
        return []
    stored = json.loads(path.read_text())
    if stored["quick"] != quick:
        raise SystemExit(f"{path}: expected results of a run {'with' if quick else 'without'} "
                         "--quick; choose another folder")  # fmt: skip
    found: list[Record] = stored["records"]
    return found


def main(arguments: list[str] | None = None) -> None:
    """Measure what is not known yet, and write the results after every size."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    names = [comparison.name for comparison in COMPARISONS]
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME",
                        help=", ".join(names))  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="small sizes and one round")
    parser.add_argument("--repeats", type=int, help="rounds: 5, or 1 where it is quick")
    parser.add_argument("--output", type=Path, default=Path("performance-results"))
    asked = parser.parse_args(arguments)
    repeats = asked.repeats or (1 if asked.quick else 5)
    asked.output.mkdir(parents=True, exist_ok=True)
    path = asked.output / "performance.json"
    records = known_records(path, asked.quick)
    done = {(record["comparison"], record["size"]) for record in records}
    start = time.monotonic()

    def report(line: str) -> None:
        print(f"{time.monotonic() - start:7.1f} s  {line}", file=sys.stderr, flush=True)

    for comparison in COMPARISONS:
        if comparison.name not in asked.only:
            continue
        for size in comparison.quick if asked.quick else comparison.sizes:
            if (comparison.name, size) not in done:
                records += measured(comparison, size, repeats, report)
                written = document(list(COMPARISONS), records, asked.quick)
                path.write_text(json.dumps(written, indent=1))
        write_figure(comparison, records, asked.output / f"{comparison.name}.svg")
        (asked.output / "performance.md").write_text(page(list(COMPARISONS), records, asked.quick))
    print(page([c for c in COMPARISONS if c.name in asked.only], records, asked.quick))


if __name__ == "__main__":
    main()
