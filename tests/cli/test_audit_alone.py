"""`coupledgp audit` of a table of predictions and targets, without training rows."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def table():
    rng = np.random.default_rng(5)
    a = rng.uniform(-2, 2, 300)
    mean = 3 + np.sin(2 * a)
    columns = {"mean": mean, "std": np.full(300, 0.2), "truth": mean + 0.2 * rng.normal(size=300)}
    return pd.DataFrame(columns | {"a": a, "row": np.arange(300)})


def test_predictions_and_truth_need_no_further_table(tmp_path, call, table):
    table[["mean", "std", "truth"]].to_csv(tmp_path / "alone.csv", index=False)
    page = tmp_path / "audit.html"
    given = ("audit", "--test", tmp_path / "alone.csv", "-t", "truth", "-o", page, "--json")
    found = json.loads(call(*given))
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean((table["truth"] - table["mean"]) ** 2)))
    assert [one["name"] for one in found["baselines"]] == ["mean"]
    assert found["n_train"] == 0
    assert "No training rows" in page.read_text()
    assert "units of truth" in page.read_text()
    assert "units of y" not in page.read_text()


def test_other_columns_are_the_inputs_of_rivals(tmp_path, call, fails, table):
    table.to_csv(tmp_path / "table.csv", index=False)
    given = ("audit", "--test", tmp_path / "table.csv", "-t", "truth", "--drop", "row", "-o")
    found = json.loads(call(*given, tmp_path / "audit.html", "--json"))
    assert "nearest" in [one["name"] for one in found["baselines"]]
    for extra in (("--kernel", "gaussian"), ("--leave-out-overlap",)):
        more = ("--lengthscale", 1, "--outputscale", 1, "--noise", 1) if "gaussian" in extra else ()
        error = fails(*given, tmp_path / "other.html", *extra, *more)
        assert f"{extra[0]}: expected --train beside it" in error


def test_predictions_in_another_order_are_refused(tmp_path, call, fails, table):
    """A column that both tables have tells that rows do not belong together."""
    table[["truth", "row"]].to_csv(tmp_path / "truth.csv", index=False)
    mixed = table[["row", "mean", "std"]].sample(frac=1, random_state=0)
    mixed.to_csv(tmp_path / "mixed.csv", index=False)
    given = ("audit", "--test", tmp_path / "truth.csv", "-t", "truth", "--predictions")
    given = (*given, tmp_path / "mixed.csv", "-o", tmp_path / "audit.html", "--json")
    assert "got 'row' in another one; --id names" in fails(*given)
    found = json.loads(call(*given, "--id", "row"))
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean((table["truth"] - table["mean"]) ** 2)))


def test_numbers_of_rows_are_no_draws(tmp_path, call, fails, table):
    """A column of the test table, too, and the index that pandas writes without a name."""
    table[["truth", "row"]].to_csv(tmp_path / "truth.csv", index=False)
    draws = table[["mean"]].to_numpy() + 0.2 * np.random.default_rng(0).normal(size=(300, 20))
    frame = pd.DataFrame(draws, columns=[f"d{k}" for k in range(20)])
    given = ("audit", "--test", tmp_path / "truth.csv", "-t", "truth", "--drop", "row", "--samples")
    given = (*given, "-o", tmp_path / "audit.html", "--json", "--predictions")
    frame.assign(row=table["row"]).to_csv(tmp_path / "with_row.csv", index=False)
    found = json.loads(call(*given, tmp_path / "with_row.csv"))
    error = np.sqrt(np.mean((table["truth"] - draws.mean(axis=1)) ** 2))
    assert found["rmse"] == pytest.approx(error, rel=0.05)  # the fair one is less
    frame.to_csv(tmp_path / "with_index.csv")
    (tmp_path / "audit.html").unlink()
    assert "column 1 has no name (row numbers?)" in fails(*given, tmp_path / "with_index.csv")


@pytest.mark.parametrize("labels", [("down", "up"), (0, 1)])
def test_chances_of_classes_are_columns_of_their_labels(tmp_path, call, fails, labels):
    rng = np.random.default_rng(4)
    a = rng.uniform(-2, 2, 300)
    high = 1 / (1 + np.exp(-3 * a))
    truth = np.where(rng.random(300) < high, *labels[::-1])
    named = {f"chance_{labels[0]}": 1 - high, f"chance_{labels[1]}": high}
    pd.DataFrame({"a": a, "truth": truth} | named).to_csv(tmp_path / "test.csv", index=False)
    page = ("-t", "truth", "-o", tmp_path / "audit.html")
    found = json.loads(call("audit", "--test", tmp_path / "test.csv", *page, "--json"))
    own = np.where(truth == labels[1], high, 1 - high)
    assert found["nlpd"] == pytest.approx(-np.log(own).mean())
    assert "logistic regression" in [one["name"] for one in found["baselines"]]
    more = ("--train", tmp_path / "test.csv", "--drop", "chance_" + str(labels[0]))
    train = json.loads(call("audit", "--test", tmp_path / "test.csv", *page, *more, "--json"))
    assert (train["nlpd"], train["n_train"]) == (found["nlpd"], 300)
    error = fails("audit", "--test", tmp_path / "test.csv", *page, "--latent")
    assert "--latent: expected none beside chances of classes, the columns chance_" in error
