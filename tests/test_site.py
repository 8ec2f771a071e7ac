"""The site's short form: pages, links, notebooks and names fit together, without its engine.

`make site` builds the whole, with warnings as errors.
"""

from __future__ import annotations

import ast
import re
import sys
import warnings
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.registries import REGISTRIES, forgotten

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.md"))
PAGES = [
    *ROOT.glob("*.md"),
    *DOCS.glob("*.md"),
    *NOTEBOOKS,
    *(DOCS / "history").glob("*.md"),
    *(ROOT / "benchmarks").glob("*.md"),
    ROOT / "coupledgp" / "MATH.md",
]
# Pages of the repository that are no pages of the site.
NOT_ON_THE_SITE = {ROOT / "README.md", DOCS / "index.md"}
FENCE = re.compile(r"^ *(`{3,}|:{3,}).*?^ *\1", re.MULTILINE | re.DOTALL)
# Longest line of a cell: longer ones scroll on the page.

sys.path.append(str(DOCS))

import site_reference  # noqa: E402


def slug(heading: str) -> str:
    """Anchor of a heading, as GitHub and the site make it."""
    text = re.sub(r"\]\([^)]*\)", "", heading.replace("`", "")).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


@cache
def anchors(page: Path) -> frozenset[str]:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    return frozenset(slug(found) for found in re.findall(r"^#+ (.*)$", text, re.MULTILINE))


def links(page: Path) -> list[str]:
    """Targets within the repository that a page links to."""
    found = re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    return [link for link in found if "://" not in link]


def broken(page: Path, link: str) -> bool:
    name, _, anchor = link.partition("#")
    target = (page.parent / name).resolve() if name else page
    if not target.exists():
        return True
    return bool(anchor) and anchor not in anchors(target)


def toctree() -> list[Path]:
    """Pages that the first page lists, in order."""
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    found: list[Path] = []
    for tree in re.findall(r"```\{toctree\}\n(.*?)```", text, re.DOTALL):
        for line in filter(None, tree.splitlines()):
            if not line.startswith((":", "reference/")):
                found += sorted(path.resolve() for path in DOCS.glob(f"{line}.md"))
    return found


def cells(notebook: Path) -> list[str]:
    text = notebook.read_text(encoding="utf-8")
    return re.findall(r"```\{code-cell\} python\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_their_anchors_lead_somewhere(page):
    assert [link for link in links(page) if broken(page, link)] == []


def test_every_page_is_listed_once():
    listed = toctree()
    assert len(listed) == len(set(listed))
    assert set(listed) == {page.resolve() for page in PAGES} - NOT_ON_THE_SITE


def test_every_public_name_has_one_page():
    names = site_reference.public_names()
    pages = [path for package in names.values() for _, path in package]
    objects = [id(site_reference.value_of(path)) for path in pages]
    assert len(set(pages)) == len(set(objects)) > 200
    assert ("GPRegressor", "coupledgp.GPRegressor") in names["coupledgp"]
    for path in set(pages):
        assert f"\n{path.rpartition('.')[2]}\n==" in site_reference.page(path)
        assert len(site_reference.summary(path)) > 10


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda page: page.stem)
def test_notebooks_are_small_texts_that_anybody_can_run(notebook):
    text = notebook.read_text(encoding="utf-8")
    assert text.startswith("---\nfile_format: mystnb\n")
    assert text.count("```{code-cell}") == len(cells(notebook)) >= 3
    assert "Where to go on" in text
    assert len(text) < 10_000
    for cell in cells(notebook):
        ast.parse(cell)
        assert not re.search(r"""["'](/|\.\./|[A-Z]:)|COUPLEDGP_DATA""", cell)


@pytest.mark.long
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda page: page.stem)
def test_notebooks_run(notebook, tmp_path, monkeypatch):
    if "botorch" in notebook.read_text(encoding="utf-8") and find_spec("botorch") is None:
        pytest.skip("needs botorch")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    names: dict[str, object] = {"__name__": notebook.stem}
    monkeypatch.setitem(sys.modules, notebook.stem, type(sys)(notebook.stem))
    with forgotten(*REGISTRIES), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")
        for cell in cells(notebook):
            exec(compile(cell, notebook.name, "exec"), names)
