"""Columns that a model does not see are passed to the looks at residuals by every command."""

from __future__ import annotations

import csv
import json

import numpy as np
import pyarrow as pa
import pytest

from coupledgp.cli.app import run
from coupledgp.cli.readers.kinds import columns_beside

RNG = np.random.default_rng(3)
N = 200
X = RNG.uniform(-2, 2, (2 * N, 2))
SITE = RNG.integers(0, 8, 2 * N)
LEVEL = 0.9 * RNG.normal(size=8)
Y = np.sin(X[:, 0]) + LEVEL[SITE] + 0.1 * RNG.normal(size=2 * N)
NAMES = np.array([f"s{k}" for k in SITE])


def write(path, names, *columns):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(zip(*columns, strict=True))
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("beside")
    for name, rows in (("train", slice(0, N)), ("test", slice(N, 2 * N))):
        a, b = X[rows].T
        columns = [a, b, Y[rows], NAMES[rows]]
        write(folder / f"{name}.csv", ["a", "b", "y", "site"], *columns)
    mean, std = np.sin(X[N:, 0]) + LEVEL.mean(), np.full(N, LEVEL.std())
    write(folder / "law.csv", ["mean", "std"], mean, std)
    return folder


def found(capsys):
    evidence = json.loads(capsys.readouterr().out)
    return [one["column"] for one in evidence["evidence"]["findings"]["found"]]


@pytest.mark.long
def test_an_audit_looks_along_dropped_and_id_columns(files, tmp_path, capsys):
    arguments = ["audit", "--train", files / "train.csv", "--test", files / "test.csv", "-t", "y"]
    arguments += ["--predictions", files / "law.csv", "-o", tmp_path / "a.html", "--json"]
    assert run([*map(str, arguments), "--drop", "site"]) == 0
    assert found(capsys)[0] == "site"
    without = write(tmp_path / "train.csv", ["a", "b", "y"], *X[:N].T, Y[:N])
    arguments[2] = without
    assert run([*map(str, arguments)]) == 0
    assert found(capsys)[0] == "site"
    arguments[4] = write(
        tmp_path / "test.csv", ["a", "b", "y", "mean", "std"], *X[N:].T, Y[N:],
        np.sin(X[N:, 0]), np.ones(N),
    )  # fmt: skip
    del arguments[7:9]
    assert run([*map(str, arguments)]) == 0
    assert not {"mean", "std"} & set(found(capsys))


@pytest.mark.long
def test_a_fit_and_a_report_look_along_dropped_columns(files, tmp_path, capsys):
    arguments = ["fit", files / "train.csv", "-t", "y", "--test", files / "test.csv", "--json"]
    arguments += ["--drop", "site", "--n-frequencies", "64", "--include-data"]
    assert run([*map(str, [*arguments, "-o", tmp_path / "m"])]) == 0
    patterns = json.loads(capsys.readouterr().out)["comparison"]["evidence"]["findings"]["found"]
    assert patterns[0]["column"] == "site"
    options = [tmp_path / "m", files / "test.csv", "-t", "y", "-o", tmp_path / "r.html", "--json"]
    assert run(["report", *map(str, options)]) == 0
    assert found(capsys)[0] == "site"


def test_columns_of_every_kind_are_read():
    table = pa.table({
        "count": pa.array([1, 2, None]), "text": pa.array(["a", None, "b"]),
        "flag": pa.array([True, False, True]),
        "day": pa.array(np.array(["2020-01-01", "2020-01-02", "2020-01-03"], "datetime64[s]")),
        "gap": pa.array([np.datetime64("2020-01-01", "s"), None, None]),
        "kind": pa.array(["x", "y", "x"]).dictionary_encode(), "list": pa.array([[1], [2], [3]]),
    })  # fmt: skip
    read = columns_beside(table, table.column_names)
    assert list(read) == ["count", "text", "flag", "day", "kind"]
    np.testing.assert_array_equal(read["count"], [1.0, 2.0, np.nan])
    assert read["text"].tolist() == ["a", "", "b"]
    assert read["flag"].tolist() == ["True", "False", "True"]
    assert read["day"].dtype.kind == "M"
    assert read["kind"].tolist() == ["x", "y", "x"]
