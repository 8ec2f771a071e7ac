"""The list of faults fits the package, and the runner tells what is caught from what is not."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.mutants.__main__ import main
from tests.mutants.faults import ROOT, Fault, StaleFaultError, all_faults

ALL = all_faults()
MODULE = "def double(x):\n    return 2 * x\n\n\ndef half(x):\n    return x / 2\n"
TESTS = """
import time

from little.module import double, half


def test_double():
    assert double(3) == 6


def test_half():
    start = time.monotonic()
    while half(4) > 2:
        assert time.monotonic() < start + 30
"""
FAULTS = """
[is-caught]
file = "little/module.py"
old = "return 2 * x"
new = "return 3 * x"
tests = ["tests/test_module.py"]
promise = "Two times a number."

[survives]
file = "little/module.py"
old = "return 2 * x"
new = "return x + x"
tests = ["tests/test_module.py::test_double"]
promise = "None: this is the same."

[takes-too-long]
file = "little/module.py"
old = "return x / 2"
new = "return x"
tests = ["tests/test_module.py::test_half"]
promise = "The test ends."

[cannot-be-imported]
file = "little/module.py"
old = "return x / 2"
new = "return x /"
tests = ["tests/test_module.py"]
promise = "None: a fault is a fault of Python only if it runs."
"""


@cache
def names_of(path: str) -> frozenset[str]:
    """Tests of a file as pytest writes them, after the file's name: `test`, `Class::test`."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    found = set()
    for part in tree.body:
        if isinstance(part, ast.ClassDef):
            found |= {part.name}
            found |= {f"{part.name}::{n.name}" for n in part.body if isinstance(n, ast.FunctionDef)}
        elif isinstance(part, ast.FunctionDef):
            found |= {part.name}
    return frozenset(found)


def test_every_fault_fits_its_file_and_names_tests_that_exist() -> None:
    problems = []
    for fault in ALL:
        try:
            ast.parse(fault.applied((ROOT / fault.file).read_text(encoding="utf-8")))
        except (StaleFaultError, OSError, SyntaxError) as error:
            problems.append(f"{fault.name}: {error}")
        for test in fault.tests:
            path, _, name = test.partition("::")
            if not (ROOT / path).is_file() or (name and name not in names_of(path)):
                problems.append(f"{fault.name}: there is no {test}")
    assert not problems, "\n".join(problems)


def test_every_fault_is_one_of_its_own() -> None:
    assert len(ALL) >= 120
    changes = Counter((fault.file, fault.old, fault.new) for fault in ALL)
    assert max(changes.values()) == 1
    for fault in ALL:
        assert fault.file.startswith("coupledgp/"), fault.name
        assert fault.tests, fault.name
        assert fault.promise.endswith("."), fault.name


def test_a_text_that_is_there_twice_or_not_at_all_is_refused() -> None:
    fault = Fault("a/b", "file.py", "x = 1", "x = 2", ("tests",), "One.")
    assert fault.applied("x = 1\n") == "x = 2\n"
    for text in ("x = 3", "x = 1\nx = 1"):
        with pytest.raises(StaleFaultError, match=r"a/b: file\.py has its source text [02] times"):
            fault.applied(text)


@pytest.fixture
def little(tmp_path: Path) -> Path:
    """A repository of one module, its tests and its faults."""
    for name, text in {
        "little/__init__.py": "", "little/module.py": MODULE, "tests/test_module.py": TESTS,
        "faults/one.toml": FAULTS, "pyproject.toml": "[tool.pytest.ini_options]\n",
    }.items():  # fmt: skip
        path = tmp_path / "repository" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "repository"


def run(root: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.mutants", "--root", root, "--faults", root / "faults"]
    return subprocess.run(
        [*map(str, command), "--bare", "--jobs", "1", *options],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_command_tells_what_is_caught(little: Path) -> None:
    found = run(little, "--unchecked", "--only", "caught", "survives", "imported")
    assert found.returncode == 1, found.stdout + found.stderr
    assert "3 faults, 2 not caught" in found.stdout
    lines = found.stdout.splitlines()
    for name, outcome in {
        "is-caught": "caught", "survives": "SURVIVED", "cannot-be-imported": "BROKEN"
    }.items():  # fmt: skip
        assert [line.split()[0] for line in lines if line.endswith(f"s  one/{name}")] == [outcome]
    assert (little / "little/module.py").read_text(encoding="utf-8") == MODULE


def test_a_test_that_does_not_end_is_ended_and_catches_nothing(little: Path) -> None:
    found = run(little, "--limit", "1", "--unchecked", "--only", "too-long")
    assert (found.returncode, found.stdout.startswith("TOO LONG")) == (1, True), found.stderr


def test_a_pattern_without_faults_runs_nothing(little: Path) -> None:
    found = run(little, "--unchecked", "--only", "no-such-fault")
    assert found.returncode == 1
    assert "got no-such-fault" in found.stdout


def test_tests_that_fail_alone_say_nothing(little: Path) -> None:
    assert run(little, "--only", "is-caught").returncode == 0
    path = little / "tests/test_module.py"
    path.write_text(TESTS.replace("== 6", "== 7"), encoding="utf-8")
    found = run(little, "--only", "is-caught")
    assert (found.returncode, "do not pass without a fault" in found.stdout) == (1, True)


def test_stale_texts_are_refused(little: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (little / "little/module.py").write_text("", encoding="utf-8")
    assert main(["--root", str(little), "--faults", str(little / "faults")]) == 1
    assert "0 times, expected once" in capsys.readouterr().out
