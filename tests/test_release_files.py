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
# Extras that `make lowest` installs, those which they name included.
MOST_USED = ("torch", "pages", "tables", "cli")
# A version's changes fit on a page.
MOST_LINES_OF_A_VERSION = 60
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


def test_the_changelog_has_this_version_with_its_date_on_one_page():
    text = text_of("CHANGELOG.md")
    first = re.search(r"^## (\S+) \((\d{4}-\d\d-\d\d)\)$", text, re.MULTILINE)
    assert first is not None
    assert first[1] == coupledgp.__version__
    assert first[2] == str(yaml.safe_load(text_of("CITATION.cff"))["date-released"])
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        assert len(section.splitlines()) <= MOST_LINES_OF_A_VERSION


def least_versions() -> dict[str, str]:
    """Oldest versions that are allowed, of a plain installation and of what most people add."""
    extras = PROJECT["optional-dependencies"]
    listed = PROJECT["dependencies"] + [one for name in MOST_USED for one in extras[name]]
    pairs = [one.split(">=") for one in listed if ">=" in one]
    return {name: version for name, version in pairs if name != "torch"}


def test_the_oldest_versions_that_are_tested_are_those_that_are_allowed():
    lines = [line for line in text_of("constraints-lowest.txt").splitlines() if line[:1] != "#"]
    assert dict(line.split("==") for line in lines) == least_versions()


def test_the_workflow_tests_every_version_of_python():
    jobs = yaml.safe_load(text_of(".github/workflows/tests.yml"))["jobs"]
    tested = jobs["test"]["strategy"]["matrix"]["python"]
    start = "Programming Language :: Python :: "
    assert [start + one for one in tested] == [
        one for one in PROJECT["classifiers"] if one.startswith(start + "3.")
    ]
    called = {step.get("run") for job in jobs.values() for step in job["steps"]}
    targets = set(re.findall(r"^(\w+):", text_of("Makefile"), re.MULTILINE))
    assert {"make test", "make lowest", "make light", "make site"} <= called
    assert {one.split()[1] for one in called if one} <= targets


@pytest.mark.parametrize("form", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml")))
def test_forms_of_issues_ask_for_something(form):
    asked = yaml.safe_load(form.read_text(encoding="utf-8"))
    assert {"name", "description", "body"} <= set(asked)
    assert any(one.get("validations", {}).get("required") for one in asked["body"])


def test_links_of_the_readme_are_those_of_the_public_address_or_relative():
    addresses = tuple(PROJECT.get("urls", {}).values())
    links = re.findall(r"\]\(([^)\s]+)\)", text_of("README.md"))
    assert len(links) > 20
    if addresses:
        assert [link for link in links if not link.startswith(addresses)] == []
    else:
        assert [link for link in links if "://" in link] == []


def test_hooks_are_the_tools_of_the_environment():
    hooks = yaml.safe_load(text_of(".pre-commit-config.yaml"))["repos"][0]["hooks"]
    assert {one["id"] for one in hooks} == {"ruff-check", "ruff-format"}
    for one in hooks:
        assert one["language"] == "system"
        # The environment's own folder: it need not be active.
        assert shutil.which(one["entry"].split()[0], path=str(Path(sys.executable).parent))
