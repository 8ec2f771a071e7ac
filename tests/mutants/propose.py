"""Propose faults for a file: `python -m tests.mutants.propose FILE --tests TESTS`.

Comparisons, signs, operators, constants and pairs such as `min` and `max` are turned into each
other, one at a time. Faults that a test catches are printed as entries for `tests/mutants/faults`;
of the others the line is named, since it may lack a test.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.faults import ROOT, Fault
from tests.mutants.runner import CAUGHT, Verdict, judge_all, prepare

OPERATORS = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "/"), ast.Lt: ("<", ">="), ast.Gt: (">", "<="), ast.LtE: ("<=", ">"),
    ast.GtE: (">=", "<"), ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.And: ("and", "or"),
    ast.Or: ("or", "and"), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"),
}  # fmt: skip
PAIRS = [
    ("min", "max"), ("minimum", "maximum"), ("any", "all"), ("floor", "ceil"), ("log", "log1p"),
    ("argmin", "argmax"), ("zeros", "ones"), ("cumsum", "cumprod"),
]  # fmt: skip
OTHERS = {a: b for pair in PAIRS for a, b in (pair, pair[::-1])} | {"sum": "max"}
# Where a change says nothing of what a function computes.
TEXTS = (ast.JoinedStr, ast.Raise, ast.Assert)


@dataclass(frozen=True)
class Edit:
    """A change of a source text.

    Parameters
    ----------
    start, end
        Offsets of the text that goes.
    new
        The text that takes its place.
    function
        Qualified name of the function that holds it.
    promise
        First sentence of the docstring of the function, or of what holds it.
    """

    start: int
    end: int
    new: str
    function: str
    promise: str


class Source:
    """A file of the package, and what may be changed in it.

    Parameters
    ----------
    text
        Its text.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = ast.parse(text)
        self._starts = [0]
        for line in text.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._lines = text.splitlines()

    def edits(self) -> list[Edit]:
        """Changes in bodies of functions, in the order of the file."""
        found = self._within(self.tree, (), _sentence(self.tree))
        return sorted(found, key=lambda edit: edit.start)

    def fault(self, edit: Edit, name: str, file: str, tests: tuple[str, ...]) -> Fault | None:
        """A change as a fault that quotes whole lines; None if no three lines are unique."""
        first = self.text.rfind("\n", 0, edit.start) + 1
        last = self.text.find("\n", edit.end)
        for _ in range(3):
            begin = first + len(self.text[first:last]) - len(self.text[first:last].lstrip(" "))
            old = self.text[begin:last]
            if self.text.count(old) == 1:
                new = self.text[begin : edit.start] + edit.new + self.text[edit.end : last]
                return Fault(name, file, old, new, tests, f"{edit.function}: {edit.promise}")
            first = self.text.rfind("\n", 0, max(first - 1, 0)) + 1
        return None

    def _within(self, node: ast.AST, path: tuple[str, ...], promise: str) -> Iterator[Edit]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef | ast.FunctionDef):
                own, inner = _sentence(child) or promise, (*path, child.name)
                if isinstance(child, ast.FunctionDef):
                    for statement in child.body:
                        yield from self._changed(statement, ".".join(inner), own)
                yield from self._within(child, inner, own)

    def _changed(self, node: ast.AST, function: str, promise: str) -> Iterator[Edit]:
        if isinstance(node, (*TEXTS, ast.FunctionDef, ast.ClassDef)) or _is_text(node):
            return
        for start, end, new in self._of(node):
            yield Edit(start, end, new, function, promise)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from self._changed(child, function, promise)

    def _of(self, node: ast.AST) -> Iterator[tuple[int, int, str]]:
        """Offsets and new texts of the changes of one node, without those below it."""
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            yield from self._operator(node.left, node.comparators[0], node.ops[0])
        elif isinstance(node, ast.BinOp) and not (_is_text(node.left) or _is_text(node.right)):
            yield from self._operator(node.left, node.right, node.op)
        elif isinstance(node, ast.BoolOp):
            yield from self._operator(node.values[0], node.values[1], node.op)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
            yield self._begin(node), self._begin(node.operand), ""
        elif isinstance(node, ast.Constant) and type(node.value) in (bool, int, float):
            new = str(not node.value) if type(node.value) is bool else f"{node.value + 1}"
            yield self._begin(node), self._end(node), new
        elif isinstance(node, ast.Attribute) and node.attr in OTHERS:
            end = self._end(node)
            yield end - len(node.attr), end, OTHERS[node.attr]
        elif isinstance(node, ast.Name) and node.id in OTHERS:
            yield self._begin(node), self._end(node), OTHERS[node.id]

    def _operator(
        self, left: ast.expr, right: ast.expr, operator: ast.AST
    ) -> Iterator[tuple[int, int, str]]:
        old, new = OPERATORS.get(type(operator), ("", ""))
        start, end = self._end(left), self._begin(right)
        place = self.text.find(old, start, end) if old else -1
        if place >= 0 and "\n" not in self.text[start:end]:
            yield place, place + len(old), new

    def _begin(self, node: ast.expr) -> int:
        return self._offset(node.lineno, node.col_offset)

    def _end(self, node: ast.expr) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._offset(node.end_lineno, node.end_col_offset)

    def _offset(self, line: int, column: int) -> int:
        """Offset in characters of a column, which the tree counts in bytes."""
        own = self._lines[line - 1].encode()[:column].decode()
        return self._starts[line - 1] + len(own)


def spread(edits: Sequence[Edit], most: int) -> list[Edit]:
    """At most `most` changes: of each function one, then of each another one."""
    turns: dict[str, list[Edit]] = {}
    for edit in edits:
        turns.setdefault(edit.function, []).append(edit)
    found: list[Edit] = []
    while turns and len(found) < most:
        for function in list(turns):
            own = turns[function]
            found.append(own.pop(len(own) // 2))
            if not own:
                del turns[function]
    return found[:most]


def proposed(file: str, tests: tuple[str, ...], most: int, root: Path = ROOT) -> list[Fault]:
    """Faults of a file, named after it and their function."""
    source = Source((root / file).read_text(encoding="utf-8"))
    found = []
    for number, edit in enumerate(spread(source.edits(), most)):
        name = f"{Path(file).stem}-{edit.function}-{number}".replace("_", "-").replace(".", "-")
        fault = source.fault(edit, name.lower(), file, tests)
        if fault is not None:
            found.append(fault)
    return found


def entry(fault: Fault) -> str:
    """A fault as an entry of a file of faults."""
    lines = [f"[{fault.name}]", f"file = {json.dumps(fault.file)}"]
    for key, text in (("old", fault.old), ("new", fault.new)):
        is_plain = not set(text) & set("\n'\"\\")
        quoted = f'"{text}"' if is_plain else f"'''\n{text}\n'''"
        lines.append(f"{key} = {quoted}")
    tests = ", ".join(json.dumps(test) for test in fault.tests)
    return "\n".join([*lines, f"tests = [{tests}]", f"promise = {json.dumps(fault.promise)}", ""])


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _sentence(node: ast.Module | ast.ClassDef | ast.FunctionDef) -> str:
    """First sentence of a docstring, on one line; empty without one."""
    text = " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())
    end = text.find(". ")
    return text if end < 0 else text[: end + 1]


def shown(verdict: Verdict) -> str:
    """A caught fault as an entry, or the line of one that no test catches."""
    fault = verdict.fault
    if verdict.outcome == CAUGHT:
        return entry(fault)
    return f"# {verdict.outcome}: {fault.file}: {fault.old!r} -> {fault.new!r}\n"


def main(arguments: list[str] | None = None) -> int:
    """Print the verdicts on proposed faults; 0 if a test catches one of each file, else 1."""
    made = argparse.ArgumentParser(prog="python -m tests.mutants.propose", description=__doc__)
    made.add_argument("files", nargs="+", help="files of the package")
    made.add_argument("--tests", nargs="+", required=True, help="tests, as pytest writes them")
    made.add_argument("--most", type=int, default=4, help="faults that are tried of a file")
    made.add_argument("--jobs", type=int, default=2, help="copies that run tests side by side")
    made.add_argument("--limit", type=float, default=120.0, help="seconds for one fault's tests")
    made.add_argument("--root", type=Path, default=ROOT, help="the repository")
    options = made.parse_args(arguments)
    prepare()
    caught = set()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        faults = [
            fault
            for file in options.files
            for fault in proposed(file, tuple(options.tests), options.most, options.root)
        ]
        folders = Path(folder)
        for verdict in judge_all(faults, options.jobs, options.limit, folders, root=options.root):
            print(shown(verdict), flush=True)
            caught |= {verdict.fault.file} if verdict.outcome == CAUGHT else set()
    return int(caught != set(options.files))


if __name__ == "__main__":
    sys.exit(main())
