"""`coupledgp report`."""

from __future__ import annotations

import csv
import json

import numpy as np
import pyarrow as pa
import pytest

import coupledgp as cgp
from coupledgp.cli.app import run

RNG = np.random.default_rng(4)
X = RNG.normal(size=(60, 2))
Y = X[:, 0] + 0.1 * RNG.normal(size=60)


def write(path, names, rows):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(rows)
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    rows = np.column_stack([X, Y])
    write(folder / "train.csv", ["a", "b", "y"], rows[:40])
    write(folder / "test.csv", ["y", "b", "a"], rows[40:, ::-1])
    arguments = ["fit", folder / "train.csv", "-t", "y", "--holdout", "0", "--n-frequencies", "8"]
    arguments += ["--exact-rows", "0", "--include-data", "-o", folder / "m", "--json"]
    assert run([str(a) for a in arguments]) == 0
    arguments[arguments.index("--include-data")] = "--ard"
    arguments[arguments.index(folder / "m")] = folder / "without"
    assert run([str(a) for a in arguments]) == 0
    return folder


def report(*arguments):
    return run(["report", *map(str, arguments)])


def test_report(files, tmp_path, capsys):
    page = tmp_path / "r.html"
    options = ["--couplings", "iid, orthogonal", "--sizes", "4,8", "--n-draws", "2"]
    assert report(files / "m", files / "test.csv", "-o", page, *options) == 0
    out = capsys.readouterr().out
    assert "Beside the exact GP" in out
    assert "Couplings side by side" in out
    assert "<svg" in page.read_text(encoding="utf-8")


def test_columns_by_name_in_any_order(files, tmp_path, capsys):
    assert report(files / "m", files / "test.csv", "-o", tmp_path / "r.html", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    model = cgp.load_model(files / "m")
    table = pa.table({"a": X[40:, 0], "b": X[40:, 1]})
    expected = cgp.diagnostics.compare(model, table, Y[40:])
    assert found["kl_per_point"] == pytest.approx(expected.kl_per_point)
    assert found["rmse"] == pytest.approx(expected.rmse)
    assert found["n_test"] == 20
    assert found["study"] is None


def test_a_subsample_is_stated(files, tmp_path, capsys):
    arguments = [files / "m", files / "test.csv", "-o", tmp_path / "r.html", "--max-rows", "5"]
    assert report(*arguments, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["n_test"] == 5
    assert "5 of 20 rows" in found["provenance"]["data"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["m", "test.csv", "--sizes", "4"], "--sizes: expected --couplings"),
        (["m", "test.csv", "--couplings", "iid", "--sizes", "four"], "--sizes: expected positive"),
        (["m", "test.csv", "--couplings", "bad"], "couplings"),
        (["m", "test.csv", "--target", "z"], "z"),
        (["m", "test.csv", "--n-draws", "1"], "--n-draws"),
        (["m", "test.csv", "--mesh", "test.csv"], "--mesh: expected a model of a graph"),
        (["without", "test.csv"], "include_data"),
        (["test.csv", "test.csv"], "test.csv"),
        (["m", "missing.csv"], "missing.csv"),
    ],
)
def test_errors(arguments, message, files, tmp_path, capsys):
    given = [files / a if a in ("m", "without") or a.endswith(".csv") else a for a in arguments]
    assert report(*given, "-o", tmp_path / "r.html") == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("coupledgp: error: ")
    assert message in err
    assert not list(tmp_path.iterdir())


def test_fit_chooses_its_size(files, tmp_path, capsys):
    options = ["--n-frequencies", "auto", "--coupling", "auto", "--kl-target", "0.05", "--json"]
    arguments = ["fit", files / "train.csv", "-t", "y", "--holdout", "0", *options]
    assert run([str(a) for a in [*arguments, "-o", tmp_path / "m"]]) == 0
    found = json.loads(capsys.readouterr().out)
    model = cgp.load_model(tmp_path / "m")
    assert found["model"]["n_frequencies"] == model.n_frequencies_
    assert found["model"]["coupling"] == str(model.features_.coupling)
    assert found["selection"]["measured_kl_per_point"] <= 0.05
    assert run([str(a) for a in arguments[:-1]]) == 0
    assert "KL measured after the fit" in capsys.readouterr().out


def test_a_size_that_is_no_number(files, capsys):
    assert run(["fit", str(files / "train.csv"), "-t", "y", "--n-frequencies", "few"]) == 2
    assert "--n-frequencies: expected auto or a whole number" in capsys.readouterr().err
