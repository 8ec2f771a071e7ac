"""`data_loaders` gives the modules of `coupledgp.datasets` themselves, however it is imported."""

import importlib
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import coupledgp.datasets
import data_loaders
from coupledgp.errors import InvalidInputError

FAMILIES = sorted(module.name for module in pkgutil.iter_modules(coupledgp.datasets.__path__))


@pytest.mark.parametrize("name", FAMILIES)
def test_each_module_is_the_same_object(name: str) -> None:
    module = importlib.import_module(f"coupledgp.datasets.{name}")
    assert importlib.import_module(f"data_loaders.{name}") is module
    assert getattr(data_loaders, name) is module


STATEMENTS = [
    "from data_loaders import uci",
    "import data_loaders.uci; uci = data_loaders.uci",
    "import data_loaders.uci as uci",
    "import data_loaders; uci = data_loaders.uci",
]
# Of other packages, which take seconds to import; each child begins without any of this one.
FIRST = """
import os, sys
import numpy, pandas, pyarrow, rich, scipy.sparse, sklearn.utils.validation, torch
assert not {"coupledgp", "data_loaders"} & set(sys.modules)
for statement in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        code = statement + "; import coupledgp.datasets; assert uci is coupledgp.datasets.uci"
        exec(code)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, statement
"""


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_each_form_of_import_works_first_in_a_process() -> None:
    root = Path(data_loaders.__file__).parents[1]
    subprocess.run([sys.executable, "-c", FIRST, *STATEMENTS], check=True, cwd=root)


def test_a_change_of_one_is_a_change_of_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("data_loaders.uci._SPECS", {"moon": coupledgp.datasets.uci._SPECS["wine"]})
    assert coupledgp.datasets.uci.available() == ("diabetes", "friedman2", "moon")
    with pytest.raises(InvalidInputError, match="'wine'"):
        coupledgp.datasets.uci.load("wine")


def test_public_names_are_those_of_the_package() -> None:
    assert {*coupledgp.datasets.__all__, "files"} == set(data_loaders.__all__)
    assert data_loaders.RegressionData is coupledgp.datasets.RegressionData
