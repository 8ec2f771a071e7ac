"""Examples in the docstrings of public names run, and most people's names have one."""

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
WITH_EXAMPLES = [
    path for path in PATHS if ">>>" in (inspect.getdoc(site_reference.value_of(path)) or "")
]


@pytest.mark.parametrize("path", WITH_EXAMPLES)
def test_examples_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    value = site_reference.value_of(path)
    module = sys.modules[value.__module__]
    examples = doctest.DocTestParser().get_doctest(
        inspect.getdoc(value), {**vars(module), path.rpartition(".")[2]: value}, path, None, 0
    )
    told: list[str] = []
    with forgotten(*REGISTRIES):
        result = doctest.DocTestRunner().run(examples, out=told.append)
    assert result.failed == 0, "".join(told)
    assert result.attempted > 0


def test_every_name_of_the_package_itself_has_an_example():
    own = {path for path in PATHS if path.count(".") == 1}
    assert len(own) > 30
    assert own - set(WITH_EXAMPLES) == set()
