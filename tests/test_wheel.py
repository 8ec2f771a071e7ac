"""A wheel of the package, installed away from the repository, does what the README says first."""

import os
import re
import shutil
import site
import subprocess
import sys
import sysconfig
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Leftovers of other builds and environments, which would be copied, or end in the wheel.
NOT_SOURCES = (".*", "build", "dist", "*.egg-info", "__pycache__", "demo-report")
# `coupledgp demo` at sizes for which it takes seconds; `patch` refuses names that do not exist.
SMALL_DEMO = """
import sys
from unittest.mock import patch
from trimesh.creation import icosphere
from coupledgp.cli import run
from coupledgp.cli.commands import demo_field, demo_pages, demo_study
from coupledgp.datasets import meshes

two = ("iid", "orthogonal")
pages = {"COUPLINGS": two, "SIZES": (4, 8), "WALKERS": ("iid", "sigma"), "WALKS": (2, 4)}
with (
    patch.object(meshes, "_shapes", lambda: {"icosphere": lambda: icosphere(subdivisions=1)}),
    patch.multiple(demo_study, COUPLINGS=two, SIZES=(4,)),
    patch.object(demo_field, "SHAPE", "icosphere"),
    patch.multiple(demo_pages, TABLE_DRAWS=2, MESH_DRAWS=2, OBSERVED=40, COMPARED=30, **pages),
):
    sys.exit(run(["demo", "--output", sys.argv[1], "--n-seeds", "1"]))
"""


@dataclass(frozen=True)
class Installed:
    """A wheel, and an environment that has it."""

    wheel: Path
    environment: Path

    def run(self, *arguments: object, folder: Path) -> str:
        """Run a program of the environment in a folder, as a user without settings of Python."""
        name, *rest = map(str, arguments)
        variables = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        return checked([str(self.environment / "bin" / name), *rest], folder, variables)


def checked(command: list[str], folder: Path, variables: dict[str, str] | None = None) -> str:
    """Run a command that must succeed, and return its output."""
    result = subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout


def build_wheel(folder: Path) -> Path:
    """Build from a copy of the sources, because setuptools writes beside them."""
    sources = folder / "sources"
    shutil.copytree(ROOT, sources, ignore=shutil.ignore_patterns(*NOT_SOURCES))
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-index", "--no-build-isolation"]
    checked([*pip, "--wheel-dir", str(folder), str(sources)], folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


def new_environment(folder: Path) -> None:
    """Make an environment that sees what is installed beside pytest, save editable packages.

    Python reads path files in the folder of an environment only, not in the folders that they
    name, so that the path files of editable packages have no effect here.
    """
    venv.create(folder, with_pip=False)
    paths = {"base": str(folder), "platbase": str(folder)}
    packages = Path(sysconfig.get_path("purelib", "venv", vars=paths))
    outside = [*site.getsitepackages(), site.getusersitepackages()]
    (packages / "outside.pth").write_text("\n".join(outside) + "\n")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("wheel")
    wheel = build_wheel(folder)
    environment = folder / "environment"
    new_environment(environment)
    pip = [sys.executable, "-m", "pip", "--python", str(environment), "install", "--no-deps"]
    checked([*pip, "--no-index", "--ignore-installed", str(wheel)], folder)
    return Installed(wheel, environment)


def quickstart() -> str:
    """First two Python blocks of the README."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").split("## Quickstart")[1]
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)[:2]
    assert "GPRegressor" in blocks[0]
    assert "compare" in blocks[1]
    return "".join(blocks)


def test_wheel_has_one_package_and_all_of_its_files(installed: Installed) -> None:
    names = zipfile.ZipFile(installed.wheel).namelist()
    metadata = {name.partition("/")[0] for name in names if ".dist-info/" in name}
    assert len(metadata) == 1
    assert {name.partition("/")[0] for name in names} - metadata == {"coupledgp"}
    package = ROOT / "coupledgp"
    kinds = ("*.py", "*.html", "MATH.md", "py.typed")
    expected = {str(p.relative_to(ROOT)) for kind in kinds for p in package.rglob(kind)}
    assert expected <= set(names)
    assert {"coupledgp/MATH.md", "coupledgp/py.typed", "coupledgp/datasets/uci.py"} <= expected


def test_quickstart_runs_from_the_wheel(installed: Installed, tmp_path: Path) -> None:
    (tmp_path / "quickstart.py").write_text(
        quickstart() + "\nprint(cgp.__file__)\n"
        "import importlib.util\nprint(importlib.util.find_spec('data_loaders'))\n"
    )
    out = installed.run("python", "quickstart.py", folder=tmp_path).splitlines()
    assert "Mixture of" in out[0]
    assert any("nats per point" in line for line in out)
    assert Path(out[-2]).is_relative_to(installed.environment)
    assert out[-1] == "None"
    assert (tmp_path / "report.html").stat().st_size > 10_000


def test_command_line_runs_from_the_wheel(installed: Installed, tmp_path: Path) -> None:
    assert "Usage: coupledgp" in installed.run("coupledgp", "--help", folder=tmp_path)
    output = tmp_path / "pages"
    installed.run("python", "-c", SMALL_DEMO, output, folder=tmp_path)
    pages = ("field", "posterior-mesh", "posterior-table", "report")
    names = [f"{page}.{ending}" for page in pages for ending in ("html", "json")]
    written = sorted(path.name for path in output.iterdir())
    assert written == sorted([*names, "field-sensors.csv", "field.ply"])
