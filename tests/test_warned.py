"""Warnings are shown at the caller's own line, however deep in the package they arise."""

import ast
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import coupledgp as cgp

SOURCES = sorted(Path(str(cgp.__file__)).parent.rglob("*.py"))


def test_unseen_levels_are_told_at_the_caller_s_line():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=40), "kind": ["a", "b"] * 20})
    gp = cgp.ExactGPRegressor("gaussian", optimizer=None).fit(table, table["x"])
    other = table[:3].assign(kind="c")
    with pytest.warns(UserWarning, match="'c' did not occur") as told:
        gp.predict_frame(other)
    assert {Path(one.filename).name for one in told} == {Path(__file__).name}


def test_no_other_place_of_the_package_warns():
    calls = [
        path.name
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and (node.attr, getattr(node.value, "id", "")) == ("warn", "warnings")
    ]
    assert calls == ["visible.py"]
