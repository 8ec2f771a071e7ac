"""Commands that end with exit code 0 have written finite numbers only, or null with a reason."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from coupledgp.cli.app import app
from coupledgp.errors import InvalidInputError
from tests.numbers.cases import X_TEST, Y_TEST, X, Y, no_numbers

NO_NUMBER = re.compile(r"(?<![\w.])[-+]?(nan|inf|infinity)(?!\w)", re.IGNORECASE)


def run(*words: Any) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def tables(folder: Path, inputs: float, targets: float) -> tuple[Path, Path]:
    """Training and test rows in units of their own."""
    paths = folder / "train.csv", folder / "test.csv"
    for path, rows, y in zip(paths, (X, X_TEST), (Y, Y_TEST), strict=True):
        columns = np.column_stack([inputs * rows, targets * y])
        np.savetxt(path, columns, delimiter=",", header="a,b,y", comments="")
    return paths


@pytest.mark.parametrize(("inputs", "targets"), [(1e-70, 1e70), (1e70, 1e-70)])
def test_every_number_that_is_written_is_finite(
    tmp_path: Path, inputs: float, targets: float
) -> None:
    train, test = tables(tmp_path, inputs, targets)
    model, predicted, page = tmp_path / "m.cgp", tmp_path / "p.csv", tmp_path / "r.html"
    small = ("--model", "sparse-spectrum", "--n-frequencies", "8", "--max-iter", "5")
    for command in (
        ("fit", train, "-t", "y", "-o", model, "--include-data", "--json", *small),
        ("predict", model, test, "--output", predicted, "--json"),
        ("report", model, test, "--target", "y", "--output", page, "--json"),
    ):
        done = run(*command)
        assert done.exit_code == 0, done.output
        found = json.loads(done.stdout)
        assert "not_finite" not in found
        assert list(no_numbers(found)) == []
        assert not NO_NUMBER.search(done.stdout)
    table = np.genfromtxt(predicted, delimiter=",", names=True)
    assert all(np.isfinite(table[name]).all() for name in table.dtype.names)
    text = re.sub(r"<(script|style).*?</\1>", "", page.read_text(encoding="utf-8"), flags=re.S)
    assert not NO_NUMBER.search(re.sub(r"<[^>]*>", " ", text))


@pytest.mark.parametrize(("inputs", "targets"), [(1.0, 1e155), (1e200, 1.0), (1e-200, 1.0)])
def test_magnitudes_beyond_the_limits_are_refused(
    tmp_path: Path, inputs: float, targets: float
) -> None:
    train, _ = tables(tmp_path, inputs, targets)
    done = run("fit", train, "--target", "y", "--output", tmp_path / "m.cgp")
    assert isinstance(done.exception, InvalidInputError)
    assert re.search(r"1e[+-]75.* got ", str(done.exception))
    assert not (tmp_path / "m.cgp").exists()
