"""The measuring instruments of the benchmarks, on a few lines each."""

from __future__ import annotations

import ast
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import coupledgp
from benchmarks.source_measures import SHAPE, foreign_privates, functions, writes_to_dicts

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.mark.parametrize(
    ("line", "n_accesses"),
    [
        ("other._name", 1),
        ("self.model._name", 1),
        ("f(x)._a._b", 2),
        ("self._name", 0),
        ("cls._name, super()._name", 0),
        ("x.__dict__, x.name_", 0),
        ("record._replace(a=1), record._fields", 0),
    ],
)
def test_foreign_privates(line, n_accesses):
    assert len(foreign_privates(ast.parse(line))) == n_accesses


@pytest.mark.parametrize(
    ("line", "n_changes"),
    [
        ("x.__dict__ = y", 1),
        ("x.__dict__['a'] = 1", 1),
        ("x.__dict__.update(y)", 1),
        ("vars(x)['a'] += 1", 1),
        ("vars(x).pop('a')", 1),
        ("del vars(x)['a']", 1),
        ("y = x.__dict__; z = vars(x).items()", 0),
        ("a.update(b); vars()['a'] = 1", 0),
    ],
)
def test_changes_of_dictionaries(line, n_changes):
    assert len(writes_to_dicts(ast.parse(line))) == n_changes


@pytest.mark.parametrize(
    ("text", "is_there"),
    [
        ("Inputs (n, d).", True),
        ("Targets (n,).", True),
        ("Samples (p, n_outputs, n_samples)", True),
        ("Features (..., n, 2 M + 1)", True),
        ("Buffer (*batch, m, d)", True),
        ("A number ().", True),
        ("Uniforms of shape (nodes, walkers)", True),
        ("An array of any shape", True),
        ("O(n M^2) time (see MATH, section 6)", False),
        ("By evidence (heat, Laplacian, Matern).", False),
        ("What f(x) is.", False),
    ],
)
def test_shapes_in_docstrings(text, is_there):
    assert (SHAPE.search(text) is not None) == is_there


SOURCE = '''
def public(X: FloatArray) -> None:
    """Shape (n, d)."""
    a = 1

    return a

def plain(x: float): return x

class Public:
    """Of rows (n, d)."""
    def __init__(self, X: "Tensor | None"):
        self.X = X
        def inner(Y: Tensor):
            """None."""
    def _hidden(self, X: ArrayLike): ...
    def method(self, *, X: ArrayLike):
        """No shape."""

class _Hidden:
    def method(self, X: Tensor): ...
'''


def test_functions_of_a_file():
    found = {(*f.owners, f.node.name): f for f in functions(ast.parse(SOURCE))}
    lengths = {key[-1]: f.length for key, f in found.items() if "_Hidden" not in key}
    assert lengths == {
        "public": 3, "plain": 1, "__init__": 3, "inner": 0, "_hidden": 1, "method": 0,
    }  # fmt: skip
    with_arrays = {key for key, f in found.items() if f.is_public and f.takes_arrays}
    assert with_arrays == {("public",), ("Public", "__init__"), ("Public", "method")}
    assert {key[-1] for key in with_arrays if found[key].names_shapes} == {"public", "__init__"}


@pytest.mark.long
def test_a_fit_is_traced_within_the_package():
    environment = os.environ | {"PYTHONPATH": str(Path(coupledgp.__file__).parents[1])}
    script = [sys.executable, str(BENCHMARKS / "trace_fits.py"), "table"]
    process = subprocess.run(script, env=environment, capture_output=True, text=True, check=True)
    trace = json.loads(process.stdout)
    assert "models/sparse_spectrum.py" in trace["files"]
    assert all((Path(coupledgp.__file__).parent / name).is_file() for name in trace["files"])
    assert {name for edge in trace["edges"] for name in edge} <= set(trace["files"])
    assert all(a != b for a, b in trace["edges"])
    assert min(trace["calls"]) >= 1


@pytest.fixture
def frozen(monkeypatch):
    """The script that compares predictions, imported as from its own folder."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    with monkeypatch.context() as inner:
        inner.setattr(os, "environ", dict(os.environ))  # it asks for one thread
        yield importlib.import_module("frozen_predictions")
    for name in [n for n in sys.modules if n.split(".")[0] in ("frozen", "frozen_predictions")]:
        del sys.modules[name]


def test_differences_are_relative_to_the_standard_deviation(frozen):
    old = {
        "a case/mean": np.array([100.0, 200.0]),
        "a case/std": np.array([0.5, 4.0]),
        "a case/covariance": np.array([[0.25, 0.0], [0.0, 16.0]]),
        "a case/samples": np.array([[1.0, 2.0], [3.0, 4.0]]),
        "a case/noise": np.array(50.0),
        "a case/text": np.array("heat"),
        "a case/none": np.array([np.nan, 1.0]),
    }
    assert set(frozen.compare(old, dict(old)).values()) == {0.0}
    new = dict(old)
    new["a case/mean"] = np.array([100.0, 201.0])
    new["a case/covariance"] = np.array([[0.25, 1.0], [1.0, 16.0]])
    new["a case/samples"] = np.array([[1.0, 2.25], [3.0, 4.0]])
    new["a case/noise"] = np.array(51.0)
    new["a case/text"] = np.array("matern")
    new["a case/none"] = np.array([0.0, 1.0])
    del new["a case/std"]
    found = {name.split("/")[1]: gap for name, gap in frozen.compare(old, new).items()}
    assert found == {
        "mean": 0.25, "covariance": 0.5, "samples": 0.5, "noise": 0.02,
        "text": np.inf, "none": np.inf, "std": np.inf,
    }  # fmt: skip


def test_a_case_that_fails_is_an_infinite_difference(frozen, monkeypatch):
    monkeypatch.setattr(frozen, "CASES", {"a case": lambda: {"mean": np.ones(2)}})
    old = frozen.figures_of("")
    assert list(old) == ["a case/mean"]

    def fails():
        raise ValueError("no")

    monkeypatch.setattr(frozen, "CASES", {"a case": fails})
    new = frozen.figures_of("")
    assert str(new["a case/error"]) == "ValueError: no"
    assert frozen.compare(old, new) == {"a case/mean": np.inf}
