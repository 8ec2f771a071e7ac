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
    assert {"coupledgp/MATH.md", "coupledgp/py.typed", "coupledgp/datasets.py"} <= expected


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
    rows = [f"{k / 7:.3f},{(k % 9) / 3:.3f},{k * 0.01:.3f}" for k in range(60)]
    (tmp_path / "rows.csv").write_text("\n".join(["a,b,y", *rows]))
    options = ["-t", "y", "--set", "trend=constant", "--model", "exact", "--report", "page.html"]
    installed.run("coupledgp", "fit", "rows.csv", *options, "-o", "y.model", folder=tmp_path)
    installed.run("coupledgp", "predict", "y.model", "rows.csv", "-o", "law.csv", folder=tmp_path)
    assert (tmp_path / "page.html").stat().st_size > 10_000
    assert (tmp_path / "law.csv").read_text().startswith("a,b,y,mean,std")
