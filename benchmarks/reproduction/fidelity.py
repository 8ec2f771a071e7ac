"""The page of fidelity, `docs/fidelity.md`, from the lists of published items and the record.

python -m benchmarks.reproduction.fidelity            write the page
python -m benchmarks.reproduction.fidelity --check    fail if the page is not what would be written
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from pathlib import Path

from benchmarks.reproduction.record import (
    FOLDER,
    VERDICTS,
    Figure,
    Finding,
    Item,
    findings,
    items,
    papers,
)

PAGE = Path(__file__).parents[2] / "docs" / "fidelity.md"
DEVIATIONS = FOLDER / "items" / "deviations.md"
LEAD = """# Fidelity to the papers

Every published item of the papers that this package builds on: the command that measures it, our
figures beside the published ones, and a verdict. Commands read `COUPLEDGP_DATA`. Errors in brackets
are one standard error, a median is that of the repeats whose mean stands beside it, and the distance
z is in standard errors of both. A verdict follows from the statements: all of them hold, some, or
none. This page is written by `python -m benchmarks.reproduction.fidelity` from what the commands
recorded.
"""


def page() -> str:
    """The whole page as Markdown."""
    found: dict[tuple[str, str], tuple[str, Finding]] = {}
    for command, finding in findings():
        if (key := (finding.paper, finding.name)) in found:
            raise ValueError(f"{key} is recorded by two scripts")
        found[key] = (command, finding)
    sections, counts = [], {}
    for paper, about in papers().items():
        parts, counts[paper] = [], Counter()
        for item in items(paper):
            verdict, text = section(item, found.pop((paper, item.name), None))
            counts[paper][verdict] += 1
            parts.append(text)
        title = (
            f"## {about['title']}\n\n{about['authors']}, {about['year']}. <{about['address']}>\n"
        )
        sections.append("\n".join([title, *parts]))
    if found:
        raise ValueError(f"recorded, but in no list: {sorted(found)}")
    deviations = DEVIATIONS.read_text("utf-8") if DEVIATIONS.exists() else ""
    return "\n".join(filter(None, [LEAD, overview(counts), deviations, *sections]))


def overview(counts: dict[str, Counter]) -> str:
    """How many items of each paper have each verdict."""
    about = papers()
    rows = [
        [linked(about[paper]["title"]), *(str(count[v]) for v in VERDICTS), str(count.total())]
        for paper, count in counts.items()
    ]
    total = sum(counts.values(), Counter())
    rows.append(["all", *(str(total[v]) for v in VERDICTS), str(total.total())])
    return table(["paper", *VERDICTS, "items"], rows)


def linked(title: str) -> str:
    """A link to the section of a title."""
    return f"[{title}](#{title.lower().replace(' ', '-')})"


def section(item: Item, found: tuple[str, Finding] | None) -> tuple[str, str]:
    """Verdict and text of one item."""
    if item.script:
        if found is None:
            raise ValueError(f"{item.paper}, {item.name}: {item.script} has recorded nothing")
        command, finding = found
        if item.script not in command or not (FOLDER / item.script).exists():
            raise ValueError(f"{item.paper}, {item.name}: recorded by {command}, not {item.script}")
        claims = [
            f"* {'holds' if c.holds else '**does not hold**'}: {c.text}" for c in finding.claims
        ]
        body = [f"`{command}`", "\n".join(claims)]
        if finding.figures:
            body.append(comparison(finding.figures))
        return finding.verdict, text(item, finding.verdict, [*body, " ".join(finding.notes)])
    if item.test:
        if not is_there(item.test):
            raise ValueError(f"{item.paper}, {item.name}: there is no {item.test}")
        return VERDICTS[3], text(item, VERDICTS[3], [f"Checked by `{item.test}`."])
    return VERDICTS[4], text(item, VERDICTS[4], [item.out_of_reach])


def is_there(test: str) -> bool:
    """Whether the tests have a file, and what follows its name: classes and a function."""
    path, *names = test.split("::")
    if not (file := PAGE.parents[1] / path).exists():
        return False
    source = file.read_text("utf-8")
    return all(re.search(rf"\b(def|class) {re.escape(name)}\b", source) for name in names)


def comparison(figures: list[Figure]) -> str:
    """A table of figures; columns that none of them fills are left out."""
    rows = [["figure", "ours", "median", "published", "z"], *map(cells, figures)]
    kept = [k for k in range(len(rows[0])) if any(row[k] for row in rows[1:])]
    head, *body = [[row[k] for k in kept] for row in rows]
    return table(head, body)


def text(item: Item, verdict: str, body: list[str]) -> str:
    """Heading, claim and body of one item."""
    return "\n\n".join(filter(None, [f"### {item.name}: {verdict}", item.claim, *body])) + "\n"


def cells(figure: Figure) -> list[str]:
    """One row of a table of figures."""
    distance = "" if figure.distance is None else f"{figure.distance:+.1f}"
    ours = number(figure.ours, figure.error)
    theirs = number(figure.theirs, figure.their_error)
    return [figure.label, ours, number(figure.median, None), theirs, distance]


def number(value: float | None, error: float | None) -> str:
    """A value with its standard error in brackets; empty where there is none."""
    if value is None:
        return ""
    return f"{value:.4g}" + ("" if error is None else f" ({error:.2g})")


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def main() -> int:
    """Write the page, or compare it with the one that is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    if arguments.check:
        return int(not PAGE.exists() or PAGE.read_text("utf-8") != page())
    PAGE.write_text(page(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
