"""Each public name has an example in its docstring, which runs as it would if it were pasted."""

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
# Run by tests/dask/test_cluster.py, which has a cluster.
ELSEWHERE = {"coupledgp.dask.fit"}


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
    names = {"__name__": "__main__"}
    examples = doctest.DocTestParser().get_doctest(text_of(path), names, path, None, 0)
    told: list[str] = []
    with forgotten(*REGISTRIES):
        result = doctest.DocTestRunner().run(examples, out=told.append)
    assert result.failed == 0, "".join(told)
    assert result.attempted > 0


@pytest.mark.parametrize("package", sorted(site_reference.PACKAGES))
def test_every_name_of_a_package_has_an_example(package):
    own = {path for path in DOCUMENTED if path.rpartition(".")[0] == package}
    assert own
    assert own - WITH_EXAMPLES == set()
