"""Each part of the package imports only parts below it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import coupledgp

PACKAGE = Path(coupledgp.__file__).parent
# From the ground up; parts on one line may not import each other.
LAYERS = [
    ["errors", "lazy"],
    ["random", "progress"],
    ["counter"],
    ["validation"],
    ["registry"],
    ["spectra", "graphs"],
    ["datasets"],
    ["couplings"],
    ["features"],
    ["theory", "kernels"],
    ["inference"],
    ["diagnostics"],
    ["models"],
    ["attention", "pagerank", "testing"],
    ["cli"],
]
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}


def imported_parts(path: Path) -> set[str]:
    """Parts of coupledgp that a file imports, anywhere in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.add(node.module)
            if node.module == "coupledgp":
                names |= {f"coupledgp.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {n.split(".")[1] for n in names if n is not None and n.startswith("coupledgp.")}


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


FILES = sorted(p for p in PACKAGE.rglob("*.py") if p != PACKAGE / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_downwards(path):
    part = part_of(path)
    assert part in LEVEL, f"{part}: give it a place in LAYERS"
    above = {p for p in imported_parts(path) if p != part and LEVEL[p] >= LEVEL[part]}
    assert not above, f"{path.name} imports {above}, which do not lie below {part}"


def test_only_the_command_line_uses_the_data_sets():
    for path in FILES:
        assert "data_loaders" not in path.read_text(encoding="utf-8"), path
        if part_of(path) not in ("cli", "datasets"):  # the demo needs a data set
            assert "datasets" not in imported_parts(path), path
