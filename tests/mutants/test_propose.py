"""Faults that are proposed change one thing each, quote their file once, and read back the same."""

import ast
from pathlib import Path

import pytest

from tests.mutants.faults import ROOT, Fault, faults_of
from tests.mutants.propose import Source, entry, main, proposed, spread

TEXT = '''"""A module. More of it."""


def larger(a, b, least=3):
    """The larger of two numbers. At least zero."""
    if a < b and not b < 0:
        raise ValueError(f"a: expected {b + 1} at least, got {-a}")
    return max(a - b, 2 * a)


class Pair:
    """Two numbers."""

    def first(self):
        return self.values[0] is None
'''


def applied(text):
    found = []
    for edit in Source(text).edits():
        changed = text[: edit.start] + edit.new + text[edit.end :]
        ast.parse(changed)
        before, after = text.splitlines(), changed.splitlines()
        (line,) = [new for old, new in zip(before, after, strict=True) if old != new]
        found.append((line.strip(), edit.function, edit.promise))
    return found


def test_each_change_is_one_of_a_function_and_no_text():
    larger = "The larger of two numbers."
    assert applied(TEXT) == [
        ("if a >= b and not b < 0:", "larger", larger),
        ("if a < b or not b < 0:", "larger", larger),
        ("if a < b and b < 0:", "larger", larger),
        ("if a < b and not b >= 0:", "larger", larger),
        ("if a < b and not b < 1:", "larger", larger),
        ("return min(a - b, 2 * a)", "larger", larger),
        ("return max(a + b, 2 * a)", "larger", larger),
        ("return max(a - b, 3 * a)", "larger", larger),
        ("return max(a - b, 2 / a)", "larger", larger),
        ("return self.values[1] is None", "Pair.first", "Two numbers."),
        ("return self.values[0] is not None", "Pair.first", "Two numbers."),
    ]


def test_few_changes_are_of_different_functions():
    edits = Source(TEXT).edits()
    assert {edit.function for edit in spread(edits, 2)} == {"larger", "Pair.first"}
    assert sorted(spread(edits, 99), key=edits.index) == edits


@pytest.mark.parametrize("file", ["coupledgp/linalg/lanczos.py", "coupledgp/graphs/graph.py"])
def test_entries_are_read_back_and_fit_their_file(file, tmp_path):
    faults = proposed(file, ("tests/a.py::test",), most=30)
    assert len(faults) > 10
    path = tmp_path / "found.toml"
    path.write_text("\n".join(map(entry, faults)), encoding="utf-8")
    text = (ROOT / file).read_text(encoding="utf-8")
    for fault, read in zip(faults, faults_of(path), strict=True):
        assert read == Fault(**{**vars(fault), "name": f"found/{fault.name}"})
        ast.parse(read.applied(text))


def test_a_line_that_stands_twice_is_quoted_with_the_lines_above():
    text = "def f(a):\n    b = a\n    return a + 1\n\n\ndef g(a):\n    c = a\n    return a + 1\n"
    source = Source(text)
    for edit in source.edits():
        fault = source.fault(edit, "name", "file.py", ())
        assert fault is not None
        assert fault.applied(text).count("a + 1") == 1


def test_lines_without_a_test_are_named(capsys, tmp_path):
    def little(folder: Path, name: str, text: str) -> None:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")

    little(tmp_path, "little/__init__.py", "")
    module = "def a(x):\n    return x + 1\n\n\ndef b(x):\n    return -x\n"
    little(tmp_path, "little/module.py", module)
    test = "from little.module import a\n\n\ndef test_a():\n    assert a(1) == 2\n"
    little(tmp_path, "tests/test_module.py", test)
    command = ["little/module.py", "--tests", "tests/test_module.py", "--jobs", "1"]
    assert main([*command, "--root", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert 'new = "return x - 1"' in out
    assert "# SURVIVED: little/module.py: 'return -x' -> 'return x'" in out
