"""The Python of the README and of the docs runs as it stands, and its names exist."""

import re
from pathlib import Path

import pytest

from coupledgp.couplings import parse_coupling
from tests.core.few_steps import search_little
from tests.registries import REGISTRIES, forgotten

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COUPLINGS = (ROOT / "docs" / "couplings.md").read_text(encoding="utf-8")
# Most lines of the README: what, one picture, two commands, quickstarts and where to go on.
MOST_LINES = 150


def code_blocks(path: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), flags=re.DOTALL)


BLOCKS = code_blocks(ROOT / "README.md")


def test_code_blocks_run_in_order(tmp_path, monkeypatch, capsys):
    search_little(monkeypatch)
    monkeypatch.chdir(tmp_path)
    assert len(BLOCKS) >= 3
    names: dict[str, object] = {}
    with forgotten(*REGISTRIES):
        for block in BLOCKS:
            exec(compile(block, "README.md", "exec"), names)
    assert "nats per point" in capsys.readouterr().out
    assert (tmp_path / "report.html").stat().st_size > 10_000


@pytest.mark.parametrize("path", sorted((ROOT / "docs").glob("*.md")), ids=lambda path: path.name)
def test_code_blocks_of_the_docs_run_in_order(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    with forgotten(*REGISTRIES):
        for block in code_blocks(path):
            exec(compile(block, path.name, "exec"), names)


def test_the_readme_is_short():
    assert len(README.splitlines()) <= MOST_LINES


def test_links_between_pages_lead_somewhere():
    for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        text = path.read_text(encoding="utf-8")
        for link in re.findall(r"\]\(([^)#\s]+)", text):
            if "://" not in link:
                assert (path.parent / link).exists(), (path.name, link)


def test_the_docs_are_reachable_from_the_readme():
    for path in (ROOT / "docs").glob("*.md"):
        assert f"docs/{path.name}" in README, path


def table_entries():
    rows = re.findall(r"^\| (`.*?) \|", COUPLINGS, flags=re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


@pytest.mark.parametrize("name", table_entries())
def test_couplings_named_exist(name):
    parse_coupling(name.replace("...", "orthogonal"))
