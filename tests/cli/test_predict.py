"""`coupledgp predict`."""

import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import coupledgp as cgp
from coupledgp.cli import run
from tests.cli.tables import PRICE, A, B, N, columns, read_csv, write_csv
from tests.new_process import COMMAND, Started


def test_predict_adds_columns_and_keeps_the_others_as_they_stand(model_path, tmp_path, call):
    table = columns(price=None, id=[f"00{k}" for k in range(N)], note=['say "a", b'] * N)
    shuffled = {name: table[name] for name in ["note", "fixed", "id", "flag", "b b", "a"]}
    path = write_csv(tmp_path / "new.csv", shuffled)
    out = call("predict", model_path, path, "-o", tmp_path / "out.csv")
    assert (
        out == f"60 rows with 'mean', 'std' and 'extrapolation' written to {tmp_path / 'out.csv'}\n"
    )
    before, after = read_csv(path), read_csv(tmp_path / "out.csv")
    assert list(after) == [*before, "mean", "std", "extrapolation"]
    assert all(after[name] == before[name] for name in before)
    X = pa.table({n: np.asarray(table[n], dtype=float) for n in ("a", "b b", "flag", "fixed")})
    mean, std = cgp.load_model(model_path).predict(X, return_std=True)
    assert np.array_equal(np.array(after["mean"], dtype=float), mean)
    assert np.array_equal(np.array(after["std"], dtype=float), std)


def test_predict_in_a_new_process(model_path, data, tmp_path, call):
    call("predict", model_path, data, "-o", tmp_path / "here.csv")
    arguments = ["predict", model_path, data, "-o", tmp_path / "there.csv", "--json"]
    done = Started(COMMAND, *arguments).finished()
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["added"] == ["mean", "std", "extrapolation"]
    here, there = (read_csv(tmp_path / name) for name in ("here.csv", "there.csv"))
    for name in ("mean", "std"):  # the last bits depend on the number of threads
        a, b = (np.array(table.pop(name), dtype=float) for table in (here, there))
        np.testing.assert_allclose(a, b, rtol=1e-10)
    assert here == there


def test_predict_adds_intervals(model_path, data, tmp_path, call):
    out = call("predict", model_path, data, "-o", tmp_path / "out.csv", "--level", "0.9")
    assert "'mean', 'std', 'lower_90', 'upper_90' and 'extrapolation'" in out
    table = read_csv(tmp_path / "out.csv")
    mean, std, low, high = (
        np.array(table[name], dtype=float) for name in ("mean", "std", "lower_90", "upper_90")
    )
    np.testing.assert_allclose((low + high) / 2, mean, rtol=1e-9)
    np.testing.assert_allclose(high - low, 2 * 1.6448536269514722 * std, rtol=1e-9)


def test_an_interval_of_no_probability(model_path, data, tmp_path, fails):
    line = fails("predict", model_path, data, "-o", tmp_path / "out.csv", "--level", "95")
    assert "--level: expected a probability in (0, 1), got 95.0" in line


def test_predict_formats_prefix_and_latent(model_path, data, tmp_path, call):
    call("predict", model_path, data, "-o", tmp_path / "p.parquet", "--prefix", "price_")
    call("predict", model_path, tmp_path / "p.parquet", "-o", tmp_path / "q.tsv", "--latent")
    table, text = pa.parquet.read_table(tmp_path / "p.parquet"), read_csv(tmp_path / "q.tsv", "\t")
    assert table.column_names == [
        *columns(),
        *(f"price_{name}" for name in ("mean", "std", "extrapolation")),
    ]
    assert list(text) == [*table.column_names, "mean", "std", "extrapolation"]
    assert np.array_equal(table["price_mean"].to_numpy(), np.array(text["mean"], dtype=float))
    gap = table["price_std"].to_numpy() ** 2 - np.array(text["std"], dtype=float) ** 2
    np.testing.assert_allclose(gap, cgp.load_model(model_path).noise_, rtol=1e-8)


@pytest.mark.filterwarnings("default::coupledgp.errors.ExtrapolationWarning")
def test_predict_says_once_which_rows_are_extrapolations(model_path, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("coupledgp.cli.shared.evaluate.BATCH_ROWS", 7)
    table = columns()
    table["a"][10], table["a"][40], table["fixed"][30] = 99.0, -99.0, 4
    path = write_csv(tmp_path / "new.csv", table)
    named = r"3 of 60 rows .*row 11: 'a' .*row 31: 'fixed' never varied; row 41: 'a' "
    arguments = ["predict", model_path, path, "--level", "0.9", "-o", tmp_path / "o.csv"]
    assert run([str(argument) for argument in arguments]) == 0
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert re.match(f"coupledgp: warning: X: {named}", told)
    distance = np.array(read_csv(tmp_path / "o.csv")["extrapolation"], dtype=float)
    assert np.flatnonzero(distance > 2).tolist() == [10, 30, 40]


def test_predict_no_rows(model_path, tmp_path, call):
    path = write_csv(tmp_path / "none.csv", columns(n=0))
    assert call("predict", model_path, path, "-o", tmp_path / "o.csv").startswith("0 rows")
    assert list(read_csv(tmp_path / "o.csv")) == [*columns(), "mean", "std", "extrapolation"]


def test_predict_in_batches_is_predict(model_path, data, tmp_path, call, monkeypatch):
    call("predict", model_path, data, "-o", tmp_path / "whole.csv")
    monkeypatch.setattr("coupledgp.cli.shared.evaluate.BATCH_ROWS", 7)
    call("predict", model_path, data, "-o", tmp_path / "parts.csv")
    whole, parts = read_csv(tmp_path / "whole.csv"), read_csv(tmp_path / "parts.csv")
    for name in ("mean", "std"):
        np.testing.assert_allclose(
            np.array(parts[name], dtype=float), np.array(whole[name], dtype=float), rtol=1e-10
        )


def test_predict_with_models_saved_from_python(tmp_path, call, fails):
    X = np.stack([A, B], axis=1)
    path = write_csv(tmp_path / "x.csv", {"p": A, "q": B})
    model = cgp.SparseSpectrumGPRegressor(n_frequencies=8, optimizer=None, random_state=0)
    model.fit(X, np.stack([PRICE, 2 * PRICE], axis=1)).save(tmp_path / "two.model")
    cgp.ExactGPRegressor(optimizer=None).fit(X, PRICE).save(tmp_path / "exact.model")
    call("predict", tmp_path / "two.model", path, "-o", tmp_path / "two.csv")
    assert list(read_csv(tmp_path / "two.csv"))[2:] == [
        "mean_0", "std_0", "mean_1", "std_1", "extrapolation",
    ]  # fmt: skip
    call("predict", tmp_path / "exact.model", path, "-o", tmp_path / "exact.csv")
    three = write_csv(tmp_path / "three.csv", {"p": A, "q": B, "r": B})
    message = fails("predict", tmp_path / "exact.model", three, "-o", tmp_path / "no.csv")
    assert "expected 2 columns, since the model was fitted without column names, got 3" in message
