"""Examples in the docstrings of public names run, as they would if they were pasted."""

from __future__ import annotations

import doctest
import inspect
import sys
from pathlib import Path

import pytest

from tests.registries import REGISTRIES, forgotten

sys.path.append(str(Path(__file__).parents[1] / "docs"))

import site_reference

PATHS = sorted({path for names in site_reference.public_names().values() for _, path in names})
# Packages each of whose names has an example that begins with its own imports.
COMPLETE = {
    "coupledgp",
    "coupledgp.cli",
    "coupledgp.dask",
    "coupledgp.datasets",
    "coupledgp.formats",
    "coupledgp.geometry",
    "coupledgp.graphs",
    "coupledgp.kernels",
    "coupledgp.likelihoods",
    "coupledgp.models",
    "coupledgp.testing",
}
# Run by tests/dask/test_cluster.py, which has a cluster.
ELSEWHERE = {"coupledgp.dask.fit"}


def package_of(path: str) -> str:
    return path.rpartition(".")[0]


def carries_docstring(path: str) -> bool:
    """Whether a name is a class or routine; unions, constants and the typer app are neither."""
    value = site_reference.value_of(path)
    return inspect.isclass(value) or inspect.isroutine(value)


def text_of(path: str) -> str:
    return inspect.getdoc(site_reference.value_of(path)) or ""


DOCUMENTED = {path for path in PATHS if carries_docstring(path)}
WITH_EXAMPLES = {path for path in DOCUMENTED if ">>>" in text_of(path)}


@pytest.mark.parametrize("path", sorted(WITH_EXAMPLES - ELSEWHERE))
def test_examples_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    value = site_reference.value_of(path)
    given = {"__name__": "__main__"}
    if package_of(path) not in COMPLETE:
        given |= {**vars(sys.modules[value.__module__]), path.rpartition(".")[2]: value}
    examples = doctest.DocTestParser().get_doctest(text_of(path), given, path, None, 0)
    told: list[str] = []
    with forgotten(*REGISTRIES):
        result = doctest.DocTestRunner().run(examples, out=told.append)
    assert result.failed == 0, "".join(told)
    assert result.attempted > 0


@pytest.mark.parametrize("package", sorted(COMPLETE))
def test_every_name_of_a_complete_package_has_an_example(package):
    own = {path for path in DOCUMENTED if package_of(path) == package}
    assert own
    assert own - WITH_EXAMPLES == set()
