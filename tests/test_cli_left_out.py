"""`coupledgp report` without test rows."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.cli.app import run

RNG = np.random.default_rng(4)
X = RNG.normal(size=(40, 2))
KIND = np.array(["red", "blue", "green"])[np.arange(40) % 3]
DAY = np.array([f"day {k}" for k in np.arange(40) % 5])
Y = X[:, 0] + 0.1 * RNG.normal(size=40)


def write(path, names, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(rows)
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("left_out")
    rows = [[*x, kind, y] for x, kind, y in zip(X, KIND, Y, strict=True)]
    write(folder / "train.csv", ["a", "b", "kind", "y"], rows)
    days = [[day, *row] for day, row in zip(DAY, rows, strict=True)]
    shuffled = [days[k] for k in RNG.permutation(40)]
    write(folder / "days.csv", ["day", "a", "b", "kind", "y"], shuffled)
    write(folder / "few.csv", ["day", "a", "b", "kind", "y"], days[:30])
    write(folder / "blank.csv", ["day", "a", "b", "kind", "y"], [["", *row] for row in rows])
    fit = ["fit", folder / "train.csv", "-t", "y", "--holdout", "0", "--n-frequencies", "8"]
    fit += ["--exact-rows", "0", "--json", "-o"]
    assert run([str(a) for a in (*fit, folder / "m", "--include-data")]) == 0
    assert run([str(a) for a in (*fit, folder / "bare")]) == 0
    graph = cgp.Graph.from_edges(np.arange(29), np.arange(1, 30))
    nodes = np.arange(2, 26)
    model = cgp.ExactGraphGPRegressor(graph, random_state=0, optimizer=None)
    model.fit(nodes, np.sin(nodes / 4)).save(folder / "g", include_data=True)
    write(folder / "nodes.csv", ["node", "street"], [[k, k // 6] for k in range(30)])
    write(folder / "lacking.csv", ["node", "street"], [[k, k // 6] for k in range(10)])
    write(folder / "twice.csv", ["node", "street"], [[k // 2, k % 2] for k in range(60)])
    return folder


def report(files, *arguments):
    names = {path.name for path in files.iterdir()}
    return run(["report", *(str(files / a) if a in names else str(a) for a in arguments)])


def test_every_row_is_left_out(files, tmp_path, capsys):
    assert report(files, "m", "-o", tmp_path / "r.html", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    model = cgp.load_model(files / "m")
    expected = cgp.diagnostics.cross_validate(model)
    assert found["rmse"] == pytest.approx(expected.rmse)
    assert (found["n_test"], found["n_groups"]) == (40, 40)
    assert "<svg" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_groups_of_an_input_are_printed(files, tmp_path, capsys):
    assert report(files, "m", "-o", tmp_path / "r.html", "--groups", "kind") == 0
    out = capsys.readouterr().out
    for text in ("3 groups, the worst first", "blue", "40 rows left out", "Written:"):
        assert text in out


def test_groups_of_another_table_in_any_order(files, tmp_path, capsys):
    options = ["--groups", "day", "--groups-from", "days.csv", "--json"]
    assert report(files, "m", "-o", tmp_path / "r.html", *options) == 0
    found = json.loads(capsys.readouterr().out)
    expected = cgp.diagnostics.cross_validate(cgp.load_model(files / "m"), DAY)
    assert found["nlpd"] == pytest.approx(expected.nlpd)
    assert {one["group"] for one in found["worst_groups"]} == set(DAY)


def test_groups_of_nodes(files, tmp_path, capsys):
    options = ["--groups", "street", "--groups-from", "nodes.csv", "--json"]
    assert report(files, "g", "-o", tmp_path / "r.html", *options) == 0
    found = json.loads(capsys.readouterr().out)
    expected = cgp.diagnostics.cross_validate(cgp.load_model(files / "g"), np.arange(2, 26) // 6)
    assert found["nlpd"] == pytest.approx(expected.nlpd)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bare"], "expected a model with its training rows"),
        (["m", "--groups", "day"], "'day' is no input of the model"),
        (["m", "--groups", "day", "--groups-from", "few.csv"], "is not in this table"),
        (["m", "--groups", "day", "--groups-from", "blank.csv"], "expected a group, got none"),
        (["m", "--groups", "hour", "--groups-from", "days.csv"], "hour"),
        (["m", "--groups-from", "days.csv"], "expected --groups"),
        (["m", "train.csv", "--groups", "kind"], "expected no DATA"),
        (["m", "--couplings", "iid"], "--couplings: expected DATA"),
        (["m", "--target", "y"], "--target: expected DATA"),
        (["m", "--leave-out-overlap"], "--leave-out-overlap: expected DATA"),
        (["m", "--max-rows", "1"], "--max-rows"),
        (["g", "--groups", "street"], "'street' is no input"),
        (["g", "--groups", "street", "--groups-from", "lacking.csv"], "every observed node"),
        (["g", "--groups", "street", "--groups-from", "twice.csv"], "expected one group a node"),
    ],
)
def test_errors(arguments, message, files, tmp_path, capsys):
    assert report(files, *arguments, "-o", tmp_path / "r.html") == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "r.html").exists()
