"""`coupledgp fit` and `predict` of files that are read in batches."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import coupledgp as cgp
from coupledgp.cli.readers import batches
from coupledgp.cli.readers.batches import wants_batches
from tests.cli.tables import QUICK, columns, read_csv, write_csv

N = 400


def table(n=N):
    """A table of numbers, categories and dates."""
    rng = np.random.default_rng(2)
    x, kind = rng.normal(size=n), rng.choice(["u", "v"], n)
    y = np.sin(2 * x) + (kind == "v") + 0.1 * rng.normal(size=n)
    days = np.datetime64("2021-01-01") + np.arange(n)
    return pa.table({"x": x, "kind": kind, "day": days, "code": rng.integers(0, 3, n), "y": y})


@pytest.fixture(params=["parquet", "csv"])
def path(request, tmp_path):
    found = tmp_path / f"t.{request.param}"
    write = {"parquet": pa.parquet.write_table, "csv": pa.csv.write_csv}[request.param]
    write(table(), str(found))
    return found


def test_fit_in_batches_is_fit_to_the_same_rows(path, tmp_path, call):
    asked = ["-t", "y", "--model", "sparse-spectrum", "--compare", "none", "--json", "--holdout"]
    asked += ["0", "--categorical", "code", *QUICK]
    outs = [
        json.loads(call("fit", path, *asked, how, "-o", tmp_path / f"m{how}"))
        for how in ("--stream", "--in-memory")
    ]
    one, other = outs
    assert one["data"] == other["data"]
    assert one["columns"] == other["columns"]
    found, wanted = (cgp.load_model(tmp_path / f"m{how}") for how in ("--stream", "--in-memory"))
    rows = pa.table({**{n: table()[n] for n in ("x", "kind", "day")},
                     "code": table()["code"].cast(pa.string())})  # fmt: skip
    np.testing.assert_allclose(found.predict(rows), wanted.predict(rows), rtol=1e-6, atol=1e-6)


def test_rows_are_held_out_and_scored(path, call):
    asked = ["-t", "y", "--stream", "--drop", "code", "--holdout", "0.25", *QUICK]
    one = json.loads(call("fit", path, *asked, "--json"))
    n_test, n_train = one["data"]["n_test"], one["data"]["n_train"]
    assert n_test + n_train == N
    assert 60 < n_test < 140
    assert one["scores"]["n_test"] == n_test
    assert one["scores"]["rmse"] < 0.5
    again = json.loads(call("fit", path, *asked, "--json"))
    assert again["scores"] == one["scores"]
    assert "held out" in call("fit", path, *asked)


def test_test_rows_of_another_file(tmp_path, call):
    for name, part in (("a", table().slice(0, 300)), ("b", table().slice(300))):
        pa.parquet.write_table(part, tmp_path / f"{name}.parquet")
    asked = ["-t", "y", "--stream", "--test", tmp_path / "b.parquet", *QUICK, "--json"]
    found = json.loads(call("fit", tmp_path / "a.parquet", *asked))
    assert (found["data"]["n_train"], found["data"]["n_test"]) == (300, 100)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_predict_in_batches_writes_the_same_file(path, ending, tmp_path, call):
    call("fit", path, "-t", "y", "--stream", *QUICK, "-o", tmp_path / "m")
    for how in ("--stream", "--in-memory"):
        out = call("predict", tmp_path / "m", path, how, "--level", "0.9", "-o",
                   tmp_path / f"out{how}.{ending}")  # fmt: skip
        assert out.startswith(f"{N} rows with 'mean', 'std', 'lower_90', 'upper_90' and ")
    one, other = (tmp_path / f"out{how}.{ending}" for how in ("--stream", "--in-memory"))
    if ending == "csv":
        assert read_csv(one) == read_csv(other)
    else:
        one, other = pa.parquet.read_table(one), pa.parquet.read_table(other)
        assert one.column_names == other.column_names
        for name in ("mean", "std", "lower_90"):
            np.testing.assert_allclose(one[name].to_numpy(), other[name].to_numpy(), rtol=1e-9)


def test_columns_of_csv_keep_their_text(tmp_path, call, model_path):
    ids = [f"00{k}" for k in range(60)]
    path = write_csv(tmp_path / "new.csv", columns(price=None, id=ids, note=["NA"] * 60))
    call("predict", model_path, path, "--stream", "-o", tmp_path / "out.csv")
    after = read_csv(tmp_path / "out.csv")
    assert after["id"] == ids
    assert after["note"] == ["NA"] * 60


def test_files_that_may_not_fit_are_read_in_batches(path, monkeypatch, tmp_path):
    assert not wants_batches(path, None)
    monkeypatch.setattr(batches, "SMALL", 0)
    assert not wants_batches(path, None)
    monkeypatch.setattr(batches, "available_bytes", lambda: 1000.0)
    assert wants_batches(path, None)
    assert not wants_batches(path, False)
    assert not wants_batches(tmp_path / "none.csv", None)


def test_what_batches_cannot_do_is_refused(path, tmp_path, fails, model_path):
    fit = ["fit", path, "-t", "y", "--stream"]
    for options, message in (
        (["--model", "local"], "--model: expected sparse-spectrum"),
        (["--report", tmp_path / "r.html"], "--report: expected none"),
        (["--include-data", "-o", tmp_path / "m"], "--include-data: expected none"),
        (["--compare", "dense"], "--compare, --exact-rows: expected none"),
        (["--drop", "z"], "--drop: "),
        (["--n-frequencies", "auto"], "n_frequencies: expected a choice for batches"),
        (["--frequencies", "24"], "frequencies: expected 'sampled' or 'fitted', got '24'; n_freq"),
        (["--frequencies", "fit"], "frequencies: expected one of"),
        (["--target-transform", "log"], "target_transform: expected None for batches"),
    ):
        assert message in fails(*fit, *options)
    assert "--target: " in fails("fit", path, "-t", "z", "--stream")
    assert "--checkpoint: expected a file read in batches" in fails(
        "fit", path, "-t", "y", "--checkpoint", tmp_path / "c"
    )
    (tmp_path / "t.txt").write_text("a,y\n1,2\n")
    assert "--stream: expected a file ending in" in fails(
        "fit", tmp_path / "t.txt", "-t", "y", "--stream"
    )
    (tmp_path / "empty").mkdir()
    for name, message in (
        ("none.parquet", "none.parquet: No such file"),
        ("empty", "expected files of one format, got no file"),
        ("t.txt", ".csv and .tsv with .gz"),
    ):
        assert message in fails("fit", tmp_path / name, "-t", "y", "--stream")
    for options in ([], ["--in-memory"]):
        assert "Is a directory" in fails("fit", tmp_path / "empty", "-t", "y", *options)
    again = fails("predict", model_path, path, "--stream", "-o", tmp_path / "out.csv")
    assert "expected columns" in again


def test_a_checkpoint_is_left_and_used(path, tmp_path, call):
    asked = ["fit", path, "-t", "y", "--stream", "--checkpoint", tmp_path / "c", *QUICK, "--json"]
    one, other = json.loads(call(*asked)), json.loads(call(*asked))
    assert list((tmp_path / "c").glob("*.checkpoint"))
    assert one["hyperparameters"] == other["hyperparameters"]


def test_compressed_files_and_folders_are_read_as_one_file(tmp_path, call):
    whole, folder = tmp_path / "t.csv", tmp_path / "parts"
    folder.mkdir()
    pa.csv.write_csv(table(), str(whole))
    with pa.CompressedOutputStream(str(tmp_path / "t.csv.gz"), "gzip") as stream:
        stream.write(whole.read_bytes())
    for k in (0, 1):
        pa.csv.write_csv(table().slice(150 * k, 150 + 100 * k), str(folder / f"{k}.csv"))
    asked = ["-t", "y", "--json", "--categorical", "code", *QUICK]
    outs = [
        json.loads(call("fit", path, *asked, *how, "-o", tmp_path / "m"))
        for path, how in (
            (whole, ["--stream"]),
            (tmp_path / "t.csv.gz", ["--stream"]),
            (folder, []),
        )
    ]
    for name in ("hyperparameters", "scores"):
        assert outs[0][name] == outs[1][name] == outs[2][name]
    for path in (tmp_path / "t.csv.gz", folder):
        call("predict", tmp_path / "m", path, "--stream", "-o", tmp_path / "out.csv")
        kept = read_csv(tmp_path / "out.csv")
        assert kept["kind"] == table()["kind"].to_pylist()


def test_a_file_larger_than_memory_is_read_in_batches(path, monkeypatch, tmp_path, call):
    from coupledgp.cli.readers import files

    def check(_, what, *__):
        assert str(path) not in what, "it need not fit"

    monkeypatch.setattr(files, "SMALL", 0)
    monkeypatch.setattr(files, "check_memory", check)
    call("fit", path, "-t", "y", "--stream", *QUICK, "-o", tmp_path / "m")
    call("predict", tmp_path / "m", path, "--stream", "-o", tmp_path / "out.csv")
    with pytest.raises(AssertionError):  # which is that of the check
        call("predict", tmp_path / "m", path, "--in-memory", "-o", tmp_path / "out.csv")


def test_the_length_of_compressed_text_decides(tmp_path, monkeypatch):
    path = tmp_path / "t.csv.gz"
    text = b"a,y\n" + b"1,2\n" * 100_000
    with pa.CompressedOutputStream(str(path), "gzip") as stream:
        stream.write(text)
    monkeypatch.setattr(batches, "available_bytes", lambda: batches.COPIES * len(text) * 1.1)
    assert not wants_batches(path, None)
    monkeypatch.setattr(batches, "available_bytes", lambda: batches.COPIES * len(text) * 0.9)
    assert wants_batches(path, None)
    monkeypatch.setattr(batches, "available_bytes", lambda: 1e15)
    assert not wants_batches(path, None)
    monkeypatch.setattr(batches, "MOST_WHOLE", len(text) * 0.9)  # whatever the memory is
    assert wants_batches(path, None)
    path.write_bytes(b"no gzip")
    assert not wants_batches(path, None)
