"""Files about the project name what is there: versions, files, registrations, contracts."""

from __future__ import annotations

import ast
import re
import shutil
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import coupledgp
from coupledgp import testing

ROOT = Path(__file__).parents[1]
PAGES = ("CONTRIBUTING.md", "SECURITY.md")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def functions_of(path: Path) -> set[str]:
    """Names of the functions at the top of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_the_citation_is_of_this_version_and_these_authors():
    cited = yaml.safe_load(text_of("CITATION.cff"))
    assert cited["version"] == coupledgp.__version__
    assert cited["license"] == PROJECT["license"]
    assert [one["name"] for one in cited["authors"]] == [one["name"] for one in PROJECT["authors"]]
    assert {"cff-version", "message", "title"} <= set(cited)
    assert cited["authors"][0]["name"] in text_of("LICENSE")


def test_versions_of_python_begin_with_the_required_one():
    start = "Programming Language :: Python :: 3."
    minor = [int(one.removeprefix(start)) for one in PROJECT["classifiers"] if start in one]
    assert minor == list(range(minor[0], minor[0] + len(minor)))
    assert PROJECT["requires-python"] == f">=3.{minor[0]}"


@pytest.mark.parametrize("page", PAGES)
def test_files_that_are_named_are_there(page):
    text = text_of(page)
    named = re.findall(r"`((?:coupledgp|tests|docs)/[\w/.]+)`", text)
    named += re.findall(r"\]\(([\w/.]+)\)", text)
    assert named
    assert [one for one in named if not (ROOT / one).exists()] == []


def test_registrations_and_contracts_that_are_named_are_there():
    text = text_of("CONTRIBUTING.md")
    wanted = set(re.findall(r"`(register_\w+)`", text))
    found = set().union(*map(functions_of, (ROOT / "coupledgp").rglob("*.py")))
    assert len(wanted) >= 10
    assert wanted <= found
    contracts = set(re.findall(r"`(\w+Contract)`", text))
    assert contracts
    assert contracts <= set(dir(testing))


def test_targets_of_make_that_are_named_are_there():
    wanted = set(re.findall(r"make (\w+)", text_of("CONTRIBUTING.md").partition("## Where")[0]))
    targets = set(re.findall(r"^(\w+):", text_of("Makefile"), re.MULTILINE))
    assert {"lint", "test", "long"} <= wanted & targets


def test_hooks_are_the_tools_of_the_environment():
    hooks = yaml.safe_load(text_of(".pre-commit-config.yaml"))["repos"][0]["hooks"]
    assert {one["id"] for one in hooks} == {"ruff-check", "ruff-format"}
    for one in hooks:
        assert one["language"] == "system"
        # The environment's own folder: it need not be active.
        assert shutil.which(one["entry"].split()[0], path=str(Path(sys.executable).parent))
