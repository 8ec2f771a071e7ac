"""The record of what benchmarks printed: tables in JSON, with command, version, date and machine.

    python -m benchmarks.recorder fields/roads              run its command again, keep its tables
    python -m benchmarks.recorder NAME -- python SCRIPT     record another command
    python -m benchmarks.recorder NAME --page FILE -- ...   take the tables from a page it wrote
    python -m benchmarks.recorder --older                   list the figures older than the code

Every script is recorded by what it prints: tables of Markdown, or columns that two spaces part.
`recorded/NAME.json` holds them, and pages of the site show them, `{recorded} NAME`. Scripts of
`reproduction` hand their findings to `reproduction.record`, which stamps them in the same way.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent / "recorded"
MARKDOWN = re.compile(r"(?:^ *\|.*\|[ \t]*\n?)+", re.MULTILINE)
BETWEEN = re.compile(r"(?<!\\)\|")  # a bar that stands between cells
FIGURE = re.compile(r"[-+−*]*\d*\.\d")
LIBRARIES = ("numpy", "scipy", "scikit-learn", "torch")


class Table(NamedTuple):
    """Names of columns, and rows of as many texts."""

    columns: list[str]
    rows: list[list[str]]

    @property
    def has_figures(self) -> bool:
        """Whether at least half of the cells beside the first column are decimal numbers."""
        cells = [cell for row in self.rows for cell in row[1:]]
        return sum(bool(FIGURE.match(cell)) for cell in cells) > len(cells) / 2

    def markdown(self) -> str:
        """The table as Markdown."""
        lines = [self.columns, ["---"] * len(self.columns), *self.rows]
        return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


@dataclass(frozen=True)
class Recorded:
    """What one command printed.

    Attributes
    ----------
    command : str
        The command, as typed in the root of the repository.
    version : str
        Version of the package that made the figures.
    date : str
        Day of the run.
    machine : str
        What the figures depend on.
    tables : list of Table
    """

    command: str
    version: str
    date: str
    machine: str
    tables: list[Table] = field(default_factory=list)

    def said(self) -> str:
        """By which version, when and where the figures were measured."""
        return f"Measured by version {self.version} on {self.date}, {self.machine}."


def machine() -> str:
    """The machine and the libraries of this process."""
    libraries = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    cores = os.cpu_count()
    return f"{cores} cores of {platform.machine()}, Python {platform.python_version()}, {libraries}"


def stamp(command: str) -> dict[str, str]:
    """A command with the version of the package, today's date and this machine."""
    import coupledgp  # takes a second, and pages are read without it

    date = datetime.now(UTC).date().isoformat()
    version = coupledgp.__version__
    return {"command": command, "version": version, "date": date, "machine": machine()}


def older() -> Iterator[str]:
    """Records of another version than the code's, and pages with tables of figures of no record."""
    root = FOLDER.parents[1]
    code = stamp("")["version"]
    for path in sorted([*FOLDER.rglob("*.json"), *root.glob("benchmarks/reproduction/record/*")]):
        stored = json.loads(path.read_text("utf-8"))
        if stored["version"] != code:
            yield f"{path.relative_to(root)}: version {stored['version']}; {stored['command']}"
    for page in sorted([root / "README.md", *root.glob("docs/*.md")]):
        found = [one for one in markdown_tables(page.read_text("utf-8")) if one.has_figures]
        if found and page.name != "fidelity.md":  # which is made of the record
            yield f"{page.relative_to(root)}: {len(found)} tables of figures without a record"


def markdown_tables(text: str) -> list[Table]:
    """Tables of Markdown in a text."""
    return [_of_markdown(one[0].splitlines()) for one in MARKDOWN.finditer(text)]


def tables_of(text: str) -> list[Table]:
    """Tables of Markdown in a text; where there are none, blocks of aligned columns."""
    found = markdown_tables(text)
    return found or [one for block in re.split(r"\n\s*\n", text) for one in _aligned(block)]


def _of_markdown(lines: list[str]) -> Table:
    columns, _, *rows = (
        [cell.strip() for cell in BETWEEN.split(line.strip()[1:-1])] for line in lines
    )
    return Table(columns, rows)


def _aligned(block: str) -> Iterator[Table]:
    """Consecutive lines of a block that have equally many cells, after a line of their names.

    The names are one fewer where the first column has none.
    """
    cells = [re.split(r"\s{2,}", line.strip()) for line in block.splitlines()]
    groups = [list(lines) for _, lines in groupby(cells, len)]
    for before, rows in zip([[[]], *groups], groups, strict=False):
        if 1 < len(before[-1]) == len(rows[0]) - 1:
            yield Table(["", *before[-1]], rows)
        elif len(rows[0]) > 1 and len(rows) > 1:
            yield Table(rows[0], rows[1:])


def path_of(name: str) -> Path:
    """File of a record."""
    return FOLDER / f"{name}.json"


def read(name: str) -> Recorded:
    """Return a record by its name, such as `"fields/roads"`."""
    stored = json.loads(path_of(name).read_text("utf-8"))
    return Recorded(**stored | {"tables": [Table(**one) for one in stored["tables"]]})


def write(name: str, record: Recorded) -> None:
    """Write a record, a row of a table in a line."""
    plain = asdict(record) | {"tables": [one._asdict() for one in record.tables]}
    path_of(name).parent.mkdir(parents=True, exist_ok=True)
    path_of(name).write_text(_lines(plain) + "\n", "utf-8")


def _lines(value: Any, depth: int = 0) -> str:
    """JSON in which lists of plain values take one line."""
    nested = isinstance(value, (dict, list)) and any(
        isinstance(one, (dict, list))
        for one in (value.values() if isinstance(value, dict) else value)
    )
    if not nested and not (isinstance(value, dict) and depth == 0):
        return json.dumps(value, ensure_ascii=False)
    pad = " " * (depth + 1)
    if isinstance(value, dict):
        inner = [f"{json.dumps(key)}: {_lines(one, depth + 1)}" for key, one in value.items()]
    else:
        inner = [_lines(one, depth + 1) for one in value]
    opened, closed = "{}" if isinstance(value, dict) else "[]"
    return f"{opened}\n{pad}" + f",\n{pad}".join(inner) + f"\n{pad[1:]}{closed}"


def main() -> None:
    """Run a command, show what it prints, and record its tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("name", nargs="?", help="name of the record, such as fields/roads")
    parser.add_argument("--older", action="store_true", help="list figures older than the code")
    parser.add_argument("--page", type=Path, help="a page of Markdown that the command writes")
    own, _, given = " ".join(map(shlex.quote, sys.argv[1:])).partition(" -- ")
    asked = parser.parse_args(shlex.split(own))
    if asked.older:
        print("\n".join(older()))
        return
    if asked.name is None:
        parser.error("name: expected the name of a record, got none")
    command = given or read(asked.name).command
    done = subprocess.run(command, shell=True, stdout=subprocess.PIPE, text=True, check=True)
    print(done.stdout)
    found = tables_of(asked.page.read_text("utf-8") if asked.page else done.stdout)
    if not found:
        raise SystemExit(f"{command}: expected tables in its output, got none")
    write(asked.name, Recorded(**stamp(command), tables=found))


if __name__ == "__main__":
    main()
