"""Every file imports only files on lower floors, no two import each other, and none loads late."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import coupledgp
from benchmarks.import_graph import RUNNING, Import, ImportGraph, circles

PACKAGE = Path(coupledgp.__file__).parent
# From the ground up, folders and single files; neighbours on one line do not import each other.
FLOORS = [
    ["errors"],
    ["random"],
    ["ground"],
    ["registry", "expressions", "metrics"],
    ["linalg", "likelihoods"],
    ["columns"],
    ["batches", "series"],
    ["spectra", "graphs"],
    ["geometry"],
    ["datasets"],
    ["formats"],
    ["couplings"],
    ["inference/evidence", "inference/placement"],
    ["features"],
    ["kernels"],
    [
        "inference/weights",
        "inference/dense",
        "inference/neighbours",
        "inference/nodes",
        "inference/lattice",
        "inference/fields",
        "inference/sites",
    ],
    ["inference/spectra", "inference/space_time"],
    ["theory"],
    ["gp"],
    ["search"],
    ["diagnostics"],
    ["selection"],
    ["models"],
    ["attention", "dask", "pagerank", "testing"],
    ["cli"],
    ["__main__"],
]
# Slow to import or optional: a function may import them when it is called.
HEAVY = {
    "IPython", "arviz", "botorch", "dask", "distributed", "gpytorch", "h5netcdf", "h5py",
    "importlib", "jinja2", "linear_operator", "matplotlib", "networkx", "numba", "pandas",
    "pooch", "pyarrow", "pyvista", "rdata", "rich", "robust_laplacian", "safetensors", "scipy",
    "sklearn", "threadpoolctl", "torch", "torch_geometric", "trimesh", "typer", "xarray", "zarr",
}  # fmt: skip
# Files whose functions import files of the package when they are called, and which: a command's
# libraries are imported when it runs, matplotlib and jinja2 when a page is drawn.
LATE = {"cli": "", "diagnostics": "diagnostics"}


def is_below(path: str, folder: str) -> bool:
    """Whether a path without its suffix is a folder or file, or lies in it; "" is everything."""
    return not folder or path == folder or path.startswith(f"{folder}/")


class Layering:
    """The rules, for a package and its floors.

    Parameters
    ----------
    folder
        Folder of the package.
    floors
        Folders and files of the package, from the ground up.
    late
        A folder to the folder whose files its functions may import.
    """

    def __init__(self, folder: Path, floors: list[list[str]], late: dict[str, str]) -> None:
        self.graph = ImportGraph(folder)
        self.late = late
        self.levels = {part: level for level, parts in enumerate(floors) for part in parts}

    def path(self, module: str) -> str:
        """Path of a module in the package, without a suffix."""
        return module.partition(".")[2].replace(".", "/")

    def part(self, module: str) -> str:
        """The declared folder or file that a module lies in: the longest one that fits."""
        fitting = [part for part in self.levels if is_below(self.path(module), part)]
        return max(fitting, key=len, default="")

    def without_floor(self) -> list[str]:
        """Modules that lie in no declared folder; lists of names need none."""
        names = (m.name for m in self.graph.modules.values() if not m.is_package)
        return [name for name in names if not self.part(name)]

    def empty_parts(self) -> list[str]:
        """Declared folders and files that there are not."""
        parts = {self.part(name) for name in self.graph.modules}
        return sorted(self.levels.keys() - parts)

    def circles(self) -> list[list[str]]:
        """Files that import each other, for type checkers too."""
        return circles(self.graph.edges((*RUNNING, "typing")))

    def upward(self) -> list[Import]:
        """Imports of another declared folder that does not lie lower."""
        return [item for item in self._between_files() if not self._goes_down(item)]

    def late_imports(self) -> list[Import]:
        """Imports within functions that neither a heavy library nor the start-up time excuses."""
        own = [i for i in self._between_files() if i.kind in ("local", "named")]
        others = [i for i in self.graph.third_party if i.kind == "local"]
        return [i for i in own if not self._may_be_late(i)] + [
            i for i in others if i.target not in HEAVY
        ]

    def _between_files(self) -> list[Import]:
        """Imports by files that are no lists of names."""
        return [i for i in self.graph.imports if not self.graph.modules[i.source].is_package]

    def _goes_down(self, item: Import) -> bool:
        source, target = self.part(item.source), self.part(item.target)
        # The package imported whole lies on no floor.
        return source == target or (target != "" and self.levels[target] < self.levels[source])

    def _may_be_late(self, item: Import) -> bool:
        source, target = self.path(item.source), self.path(item.target)
        return any(is_below(source, a) and is_below(target, b) for a, b in self.late.items())


@pytest.fixture(scope="module")
def layering():
    return Layering(PACKAGE, FLOORS, LATE)


def lines(imports: list[Import]) -> str:
    return "\n".join(map(str, imports))


def test_every_file_has_a_floor(layering):
    assert not layering.without_floor(), "give it a place in FLOORS"
    assert not layering.empty_parts(), "take it out of FLOORS"


def test_no_files_import_each_other(layering):
    assert not layering.circles()


def test_imports_go_to_lower_floors(layering):
    assert not layering.upward(), lines(layering.upward())


def test_functions_import_only_what_is_heavy(layering):
    assert not layering.late_imports(), lines(layering.late_imports())


def test_only_the_command_line_uses_the_command_line_and_the_data_sets(layering):
    for item in layering.graph.imports:
        for part in ("cli", "datasets"):
            if is_below(layering.path(item.target), part):
                homes = ("cli", "__main__", part)
                is_root = layering.graph.modules[item.source].is_package
                path = layering.path(item.source)
                assert is_root or any(is_below(path, home) for home in homes), item


def test_nothing_imports_the_alias_of_the_data_sets_or_what_is_not_installed(layering):
    used = {item.target for item in layering.graph.third_party}
    assert not used & {"data_loaders", "benchmarks", "tests"}


def test_no_two_classes_have_one_name(layering):
    """A name means one thing in the whole package."""
    homes: dict[str, list[str]] = {}
    for module in layering.graph.modules.values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(module.name)
    assert not {name: found for name, found in homes.items() if len(found) > 1}


# The rules themselves, on packages of a few lines.
TWO_FLOORS = [["low"], ["middle/near", "middle/far"], ["high"]]
LAZY = """
from typing import TYPE_CHECKING
from package.lazy import attach
if TYPE_CHECKING:
    from package.high import value as value
else:
    __all__, __getattr__, __dir__ = attach(__name__)
"""


@pytest.fixture
def package(tmp_path):
    """Write the files of a package; return its rules."""

    def write(files: dict[str, str], late: dict[str, str] | None = None) -> Layering:
        folder = tmp_path / "package"
        given = {"low": "", "middle/near": "", "middle/far": "", "high": "value = 1", **files}
        for name, text in {"__init__": "", "middle/__init__": "", **given}.items():
            path = folder / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return Layering(folder, TWO_FLOORS, late or {})

    return write


def test_a_package_in_order_passes(package):
    layering = package(
        {
            "high": "from package.middle import near\nfrom package import low\nimport numpy",
            "middle/near": "import package.low as ground\n\ndef f():\n    import torch",
        }
    )
    assert not layering.upward() + layering.late_imports() + layering.circles()
    assert not layering.without_floor() + layering.empty_parts()
    assert layering.graph.edges()["package.high"] == {"package.low", "package.middle.near"}
    assert layering.graph.edges()["package.middle.near"] == {"package.low"}


@pytest.mark.parametrize(
    "statement",
    [
        "from package.high import value",
        "from package import high",
        "import package.high",
        "import package\n\nx = package.high.value",
        "from .high import value",
        "from . import high",
        "if 1:\n    from package.high import value",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from package.high import value",
        "import typing\nif typing.TYPE_CHECKING:\n    from package.high import value",
        "def f():\n    from package.high import value",
        "from importlib import import_module\nx = import_module('package.high')",
        "TABLE = {'value': 'package.high:value'}",
        "from package import value",
        "import package as p\n\nx = p.value",
    ],
)
def test_every_way_to_import_from_above_is_seen(package, statement):
    (item,) = package({"low": statement, "__init__": LAZY}).upward()
    assert (item.source, item.target) == ("package.low", "package.high")


def test_neighbours_on_one_floor_do_not_import_each_other(package):
    (item,) = package({"middle/near": "from package.middle.far import x"}).upward()
    assert item.target == "package.middle.far"
    assert not package({"high": "", "middle/near": "", "low": ""}).upward()


def test_a_name_of_a_package_is_imported_from_its_own_file(package):
    middle = "from package.middle.near import one\nfrom package.middle.far import two"
    layering = package({"middle/__init__": middle, "high": "from package.middle import two"})
    assert layering.graph.edges()["package.high"] == {"package.middle.far"}
    whole = {"middle/__init__": middle, "high": "from package import middle\n\nx = middle.one"}
    assert package(whole).graph.edges()["package.high"] == {"package.middle.near"}


@pytest.mark.parametrize(
    "statement",
    [
        "from package.middle.b import x",
        "def f():\n    from package.middle.b import x",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import package.middle.b",
        "x = 'package.middle.b:x'",
    ],
)
def test_a_circle_is_found_however_long_and_hidden(package, statement):
    files = {
        "middle/a": statement,
        "middle/b": "from package.middle import c",
        "middle/c": "from package.middle.a import x",
    }
    (circle,) = package(files).circles()
    assert circle == ["package.middle.a", "package.middle.b", "package.middle.c"]
    assert not package(files | {"middle/c": ""}).circles()


def test_a_late_import_needs_an_excuse(package):
    text = "def f():\n    from package.low import x\n    import json\n    import torch"
    found = [item.target for item in package({"high": text}).late_imports()]
    assert found == ["package.low", "json"]
    allowed = package({"high": text}, late={"high": "low"}).late_imports()
    assert [item.target for item in allowed] == ["json"]
    assert len(package({"high": text}, late={"low": ""}).late_imports()) == 2


def test_a_file_without_a_floor_and_a_floor_without_files_are_named(package):
    layering = package({"middle/between": ""})
    assert layering.without_floor() == ["package.middle.between"]
    layering.levels["attic"] = 9
    assert layering.empty_parts() == ["attic"]
