"""`coupledgp audit`."""

from __future__ import annotations

import csv
import json

import numpy as np
import pandas as pd
import pytest

import coupledgp as cgp
from coupledgp.cli.app import run

RNG = np.random.default_rng(5)
X = RNG.uniform(-2, 2, (70, 2))
Y = np.sin(2 * X[:, 0]) + 0.2 * RNG.normal(size=70)
TABLES = (X[:40], Y[:40], X[40:], Y[40:])
MEAN, STD = np.sin(2 * X[40:, 0]), np.linspace(0.2, 0.3, 30)
KERNEL = {"kernel": "gaussian", "lengthscale": [0.8, 3.0], "outputscale": 1.2, "noise": 0.05}
OPTIONS = ["--kernel", "gaussian", "--lengthscale", "0.8, 3", "--outputscale", "1.2"]
OPTIONS += ["--noise", "0.05"]


def write(path, names, rows):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(rows)
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("audit")
    ids = [f"r{k}" for k in range(30)]
    law = np.column_stack([STD, MEAN])
    order = np.random.default_rng(0).permutation(30)
    write(folder / "train.csv", ["a", "b", "y"], np.column_stack(TABLES[:2]))
    rows = [[*row, name] for row, name in zip(np.column_stack(TABLES[2:])[:, ::-1], ids)]  # noqa: B905
    write(folder / "test.csv", ["y", "b", "a", "row"], rows)
    write(folder / "pred.csv", ["std", "mean"], law)
    shuffled = [[ids[k], *law[k]] for k in order]
    write(folder / "shuffled.csv", ["row", "std", "mean"], shuffled)
    write(folder / "twice.csv", ["row", "std", "mean"], [*shuffled, shuffled[4]])
    write(folder / "few.csv", ["row", "std", "mean"], shuffled[1:])
    draws = MEAN + STD * np.random.default_rng(1).normal(size=(20, 30))
    write(folder / "draws.csv", [*"abcdefghijklmnopqrst", "row"],
          [[*draws[:, k], ids[k]] for k in order])  # fmt: skip
    np.save(folder / "draws.npy", draws)
    own = np.column_stack([*TABLES[2:], law])
    write(folder / "own.csv", ["a", "b", "y", "s", "m"], own)
    arguments = ["fit", folder / "train.csv", "-t", "y", "--holdout", "0", "--n-frequencies", "8"]
    arguments += ["--exact-rows", "0", "--include-data", "-o", folder / "m", "--json"]
    assert run([str(a) for a in arguments]) == 0
    return folder


def audit(folder, output, *arguments, test="test.csv"):
    tables = ["--train", folder / "train.csv", "--test", folder / test, "-t", "y", "-o", output]
    given = [folder / a if str(a).endswith((".csv", "/m")) else a for a in arguments]
    return run(["audit", *map(str, [*tables, *given])])


def figures(capsys):
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out)


def same(found, report):
    """JSON of the command line and a report of the library."""
    expected = json.loads(report.to_json())
    for name in ("title", "model"):
        expected[name] = found[name]
    # Columns have the names of the file.
    expected["evidence"]["reach"]["column"] = found["evidence"]["reach"]["column"]
    assert found | {"output": None} == expected | {"output": None}


def test_without_a_kernel(files, tmp_path, capsys):
    page = tmp_path / "a.html"
    assert audit(files, page, "--predictions", "pred.csv") == 0
    out = capsys.readouterr().out
    for text in ("Audit of pred.csv", "What else could be used", "Are its intervals honest?",
                 "Scores", "It predicts better than ", "No kernel is stated",
                 f"Written: {page}"):  # fmt: skip
        assert text in out
    assert "reference" not in out
    assert "Audit of pred.csv" in page.read_text(encoding="utf-8")
    assert audit(files, page, "--predictions", "pred.csv", "--json") == 0
    same(figures(capsys), cgp.audit((MEAN, STD), *TABLES))


@pytest.mark.parametrize(
    ("arguments", "test"),
    [
        (["--predictions", "shuffled.csv", "--id", "row"], "test.csv"),
        (["--mean-column", "m", "--std-column", "s"], "own.csv"),
    ],
)
def test_rows_by_name_and_columns_beside_the_target(arguments, test, files, tmp_path, capsys):
    assert audit(files, tmp_path / "a.html", *arguments, "--json", test=test) == 0
    same(figures(capsys), cgp.audit((MEAN, STD), *TABLES))


def test_draws(files, tmp_path, capsys):
    arguments = ["--predictions", "draws.csv", "--samples", "--id", "row", "--json"]
    assert audit(files, tmp_path / "a.html", *arguments) == 0
    same(figures(capsys), cgp.audit(np.load(files / "draws.npy"), *TABLES))


def test_beside_the_exact_process(files, tmp_path, capsys):
    page = tmp_path / "a.html"
    assert audit(files, page, "--predictions", "pred.csv", *OPTIONS, "--json") == 0
    same(figures(capsys), cgp.audit((MEAN, STD), *TABLES, **KERNEL))
    latent = ["--predictions", "pred.csv", *OPTIONS, "--mean", "0.5", "--latent", "--json"]
    assert audit(files, page, *latent) == 0
    same(figures(capsys), cgp.audit((MEAN, STD), *TABLES, **KERNEL, mean=0.5, latent=True))
    assert (
        audit(files, page, "--predictions", "pred.csv", "--from-model", files / "m", "--json") == 0
    )
    model = cgp.load_model(files / "m")
    same(figures(capsys), cgp.audit((MEAN, STD), *TABLES, kernel=model))
    solves = ["--compare", "stochastic", "--max-rows", "9", "--predictions", "pred.csv"]
    assert audit(files, page, *OPTIONS, *solves, "--json") == 0
    found = figures(capsys)
    assert (found["n_test"], found["accuracy"]["method"]) == (9, "stochastic")
    assert "Measured at 9 of 30 test points" in found["remarks"][-1]
    assert audit(files, page, *OPTIONS, *solves) == 0
    assert "Beside the exact process" in capsys.readouterr().out


def test_the_columns_of_a_model_are_found_by_name(files, tmp_path, capsys):
    """The kernel of a model of the same columns in another order."""
    gp = cgp.ExactGPRegressor("gaussian", lengthscale=[3.0, 0.8], noise=0.05, optimizer=None)
    swapped = pd.DataFrame({"b": X[:40, 1], "a": X[:40, 0]})
    gp.fit(swapped, Y[:40]).save(tmp_path / "m", include_data=True)
    arguments = ["--predictions", "pred.csv", "--from-model", tmp_path / "m", "--json"]
    assert audit(files, tmp_path / "a.html", *arguments) == 0
    found = figures(capsys)
    assert "lengthscale=[3. , 0.8]" in found["reference"]
    tables = (swapped, Y[:40], X[40:, ::-1], Y[40:])
    assert found["kl_per_point"] == cgp.audit((MEAN, STD), *tables, kernel=gp).kl_per_point
    assert audit(files, tmp_path / "a.html", *arguments, "--drop", "b") == 2
    assert "expected column 'b'" in capsys.readouterr().err


def test_tables_with_categories_and_missing_values(files, tmp_path, capsys):
    rows = [[f"{a:g}" if k % 9 else "", "NA" if b < -1 else "high" if b > 0 else "low", y]
            for k, (a, b, y) in enumerate(np.column_stack([X, Y]))]  # fmt: skip
    train = write(tmp_path / "train.csv", ["a", "b", "y"], rows[:40])
    test = write(tmp_path / "test.csv", ["a", "b", "y"], rows[40:])
    arguments = ["--train", train, "--test", test, "-t", "y", "--json"]
    arguments += ["--predictions", files / "pred.csv", "-o", tmp_path / "a.html"]
    assert run(["audit", *map(str, arguments)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rmse"] == cgp.audit((MEAN, STD), *TABLES).rmse
    assert [one["name"] for one in found["baselines"]][:3] == ["mean", "nearest", "linear"]


def test_rows_that_were_trained_on(files, tmp_path, capsys):
    mixed = write(tmp_path / "t.csv", ["a", "b", "y"], np.column_stack([X, Y])[30:60])
    arguments = ["--train", files / "train.csv", "--test", mixed, "-t", "y", "--predictions",
                 files / "pred.csv", "-o", tmp_path / "a.html"]  # fmt: skip
    assert run(["audit", *map(str, arguments)]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("10 of 30 test rows are training")
    assert run(["audit", *map(str, arguments), "--leave-out-overlap", "--json"]) == 0
    assert figures(capsys)["n_test"] == 20


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected columns 'mean', 'std'"),
        (["--predictions", "missing.csv"], "missing.csv"),
        (["--predictions", "few.csv"], "expected 30 rows"),
        (["--predictions", "few.csv", "--id", "row"], "expected a row for 'r"),
        (["--predictions", "twice.csv", "--id", "row"], "expected one row for each, got two of 'r"),
        (["--predictions", "pred.csv", "--id", "row"], "--id: "),
        (["--predictions", "pred.csv", "--mean-column", "mu"], "'mu'"),
        (["--predictions", "shuffled.csv", "--samples"], "expected a number, got 'r"),
        (["--samples"], "--samples: expected --predictions"),
        (["--predictions", "pred.csv", "--kernel", "gaussian", "--noise", "1"],
         "--kernel: expected --lengthscale, --outputscale beside it"),
        (["--predictions", "pred.csv", "--noise", "1"], "--noise: expected --kernel beside it"),
        (["--predictions", "pred.csv", "--latent"], "noise: expected beside latent=True"),
        (["--predictions", "pred.csv", *OPTIONS, "--lengthscale", "a"], "--lengthscale: expected"),
        (
            ["--predictions", "pred.csv", *OPTIONS, "--from-model", "x"],
            "--from-model: expected no --kernel",
        ),
        (["--predictions", "pred.csv", *OPTIONS, "--kernel", "gauss"], "kernel"),
        (["--predictions", "pred.csv", "--max-rows", "1"], "--max-rows"),
        (["--predictions", "pred.csv", "--compare", "exact"], "--compare"),
        (["--predictions", "pred.csv", "--drop", "z"], "'z'"),
        (["--predictions", "pred.csv", "-t", "z"], "'z'"),
        (["--predictions", "pred.csv", "-o", "pred.csv"], "--output: expected a path of its own"),
    ],
)  # fmt: skip
def test_errors(arguments, message, files, tmp_path, capsys):
    assert audit(files, tmp_path / "a.html", *arguments) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("coupledgp: error: ")
    assert message in err
    assert not list(tmp_path.iterdir())
