"""What the site adds to Sphinx: pages of the reference, docstrings, and tables of the record.

`{recorded} NAME` shows a table of `benchmarks/recorded/NAME.json` with its date and machine.
"""

from __future__ import annotations

import inspect
import re
from typing import Any, ClassVar

import site_reference
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

from benchmarks import recorder

# Code between backticks stays. Elsewhere a trailing underscore, a bar or a star is no markup.
CODE = re.compile(r"(``.*?``|`[^`]*`)", re.DOTALL)
MARKUP = re.compile(r"(?<=\w)_(?!\w)|\||(?<![\\\w*])\*+(?=\w)(?![^\s*](?:[^*\n]*[^\s*])?\*)")

# The space between the digits of a long number.
THOUSANDS = re.compile(r"(?<=\d) (?=\d{3}\b)")


def plain(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Escape what reads as markup in a docstring and is none."""
    parts = CODE.split("\n".join(lines))
    parts[::2] = [MARKUP.sub(lambda found: "\\" + found[0], part) for part in parts[::2]]
    lines[:] = "".join(parts).split("\n")


def foreign(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out members that are inherited from other packages, which document them."""
    body = inspect.unwrap(getattr(obj, "fget", None) or getattr(obj, "func", obj))
    home = getattr(body, "__module__", None) or "coupledgp"
    return None if home.partition(".")[0] == "coupledgp" else True


class RecordedTable(SphinxDirective):
    """A table of a record; `:table:` is its number, `:command:` shows what printed it."""

    required_arguments = 1
    option_spec: ClassVar = {"table": directives.positive_int, "command": directives.flag}

    def run(self) -> list[nodes.Node]:
        """Return the table, and below it when and where it was measured."""
        name = self.arguments[0]
        self.env.note_dependency(str(recorder.path_of(name)))
        record = recorder.read(name)
        shown = record.tables[self.options.get("table", 1) - 1]
        command = f"`{record.command}`. " if "command" in self.options else ""
        table = THOUSANDS.sub("\N{NO-BREAK SPACE}", shown.markdown())
        text = f"{table}\n\n{command}{record.said()}"
        return [nodes.container("", *self.parse_text_to_nodes(text), classes=["recorded"])]


def setup(app: Any) -> dict[str, bool]:
    """Write the reference before pages are read."""
    app.add_directive("recorded", RecordedTable)
    app.connect("builder-inited", lambda app: site_reference.write())
    app.connect("autodoc-skip-member", foreign)
    app.connect("autodoc-process-docstring", plain, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
