"""One line for each trouble, and no file is left."""

import json
import re
import subprocess
import sys
import warnings

import pyarrow as pa
import pyarrow.parquet
import pytest

import coupledgp as cgp
from coupledgp.cli import run
from tests.cli.tables import PRICE, QUICK, A, B, N, columns, one_bad, write_csv


def test_help_and_version(call):
    assert call("--version").startswith("coupledgp 0.")
    assert "predict" in call("--help") == call()
    for command in ("fit", "predict", "demo"):
        assert f"coupledgp {command} " in call(command, "--help").split("Example")[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-t", "prise"], r"--target: .*data.csv: expected column 'prise'.*mean 'price'"),
        (["-t", "PRICE"], r"did you mean 'price'"),
        ([], r"Missing option '--target'"),
        (["-t", "price", "--drop", "flagg"], r"--drop: .*'flagg'.*did you mean 'flag'"),
        (["-t", "price", "--drop", "price"], r"--drop: expected columns besides the target"),
        (
            ["-t", "price", "--kernel", "gaus"],
            r"kernel: expected one .*'gaussian'.*got 'gaus'",
        ),
        (["-t", "price", "--coupling", "ortogonal"], r"coupling: .*did you mean 'orthogonal'"),
        (["-t", "price", "--features", "sin"], r"features: expected one of 'fourier'"),
        (["-t", "price", "--dtype", "int8"], r"dtype: expected one of"),
        (["-t", "price", "--n-frequencies", "0"], r"--n-frequencies: expected an int >= 1"),
        (["-t", "price", "--max-iter", "0"], r"--max-iter: expected an int >= 1"),
        (["-t", "price", "--holdout", "1"], r"--holdout: expected a share from 0 to below 1"),
        (["-t", "price", "--holdout", "-0.1"], r"--holdout: expected a share"),
        (["-t", "price", "--holdout", "nan"], r"--holdout: expected a share"),
        (["-t", "price", "--holdout", "half"], r"'--holdout'"),
        (["-t", "price", "--holdout", "0.2", "--test", "x.csv"], r"at most one"),
        (["-t", "price", "--test", "absent.csv"], r"absent.csv: No such file"),
        (["-t", "price", "--exact-rows", "-1"], r"--exact-rows: expected an int >= 0"),
        (["-t", "price", "--seed", "-1"], r"--seed: expected an int >= 0"),
        (["-t", "price", "--exact-rows", "0", "--report", "r.html"], r"--report: expected"),
        (["-t", "price", "--compare", "none", "--report", "r.html"], r"--report: expected"),
        (["-t", "price", "--compare", "exact"], r"--compare: expected one of 'auto'"),
        (["-t", "price", "-o", "/absent/m"], r"/absent/m: No such file or directory"),
        (["-t", "price", "--report", "/absent/r.html"], r"/absent/r.html: No such file"),
        (["-t", "price", "--sorcery"], r"--sorcery"),
    ],
)
def test_wrong_options(arguments, message, data, fails):
    assert re.search(message, fails("fit", data, *arguments))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (columns(**one_bad("price", "NA", 3)), "column 'price', data row 4"),
        (columns(**one_bad("a", "inf", 3)), "'a', data row 4: expected a finite number, got inf"),
        ({"": range(N)} | columns(), "column 1 has no name"),
        ({"price": PRICE}, "expected a column besides the target"),
        (columns(n=0), "expected rows below the header"),
        ("", "the first line is empty|its first line is empty"),
        ("a,a,price\n1,2,3\n", "column 'a' appears more than once"),
        ("a,price\n1,2\n1\n", "Row #3: Expected 2 columns"),
        (b"\xff\xfe\x00\x01", "expected a CSV file"),
        (b"a,price\n\xff,1\n", "column 'a', data row 1: expected text in UTF-8"),
    ],
)
def test_wrong_tables(content, message, tmp_path, fails):
    path = tmp_path / "bad.csv"
    if isinstance(content, dict):
        write_csv(path, content)
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    line = fails("fit", path, "-t", "price", *QUICK, "-o", tmp_path / "m")
    assert str(path) in line
    assert re.search(message, line)


def test_wrong_files(tmp_path, data, fails):
    (tmp_path / "fake.parquet").write_text("a,price\n1,2\n")
    assert "expected a Parquet file" in fails("fit", tmp_path / "fake.parquet", "-t", "price")
    assert "absent.csv: No such file" in fails("fit", tmp_path / "absent.csv", "-t", "price")
    (tmp_path / "other.csv").write_text("a,price\n1,2\n")
    assert "Is a directory" in fails("fit", tmp_path, "-t", "price")
    assert "expected a path of its own" in fails("fit", data, "-t", "price", "-o", data)


def test_a_parquet_file_leaves_no_threads_that_abort_the_process(tmp_path):
    pa.parquet.write_table(pa.table(columns()), tmp_path / "data.parquet")
    script = "import sys, pathlib; from coupledgp.cli.readers.tables import read_table; "
    script += "print(read_table(pathlib.Path(sys.argv[1])).num_rows)"
    command = [sys.executable, "-c", script, tmp_path / "data.parquet"]
    for _ in range(2):
        done = subprocess.run(command, capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{N}\n", "")


def test_wrong_predictions(model_path, tmp_path, data, fails):
    out = ["-o", tmp_path / "out.csv"]
    lacking = write_csv(tmp_path / "lacking.csv", columns(a=None, flag=None))
    assert "lacking.csv: expected columns 'a', 'flag'" in fails(
        "predict", model_path, lacking, *out
    )
    near = write_csv(tmp_path / "near.csv", columns(flag=None, flags=B))
    assert "(did you mean 'flags'?)" in fails("predict", model_path, near, *out)
    text = write_csv(tmp_path / "text.csv", columns(**one_bad("a", "red", 2)))
    line = fails("predict", model_path, text, *out)
    assert "text.csv: column 'a', data row 3: expected a number, got 'red'" in line
    taken = write_csv(tmp_path / "taken.csv", columns(mean=A))
    assert "has a column 'mean' already" in fails("predict", model_path, taken, *out)
    assert "expected a file written by save_model" in fails("predict", data, data, *out)
    assert "absent: No such file" in fails("predict", tmp_path / "absent", data, *out)
    assert "ending in .csv" in fails("predict", model_path, data, "-o", tmp_path / "out.xlsx")
    assert "path of its own" in fails("predict", model_path, data, "-o", data)
    assert "No such file" in fails("predict", model_path, data, "-o", tmp_path / "no" / "o.csv")


def test_a_failure_late_keeps_the_old_files(data, tmp_path, fails, monkeypatch):
    model, page = tmp_path / "m", tmp_path / "r.html"
    model.write_text("old model")
    page.write_text("old page")

    def broken(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("coupledgp.cli.commands.table_run.fit_report", broken)
    line = fails("fit", data, "-t", "price", *QUICK, "-o", model, "--report", page)
    assert "No space left on device" in line
    assert (model.read_text(), page.read_text()) == ("old model", "old page")


def test_interrupt_is_quiet(data, tmp_path, capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(cgp.GPRegressor, "fit", interrupted)
    before = set(tmp_path.iterdir())
    assert run(["fit", data, "-t", "price", "-o", str(tmp_path / "m")]) == 130
    out, err = capsys.readouterr()
    assert (out, err.strip()) == ("", "coupledgp: interrupted")
    assert set(tmp_path.iterdir()) == before


def test_warnings_are_one_line_on_stderr(data, capsys, monkeypatch):
    fit = cgp.SparseSpectrumGPRegressor.fit

    def warns(self, X, y):
        warnings.warn("something\nodd", RuntimeWarning, stacklevel=1)
        return fit(self, X, y)

    monkeypatch.setattr(cgp.SparseSpectrumGPRegressor, "fit", warns)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert run(["fit", data, "-t", "price", *QUICK, "--json"]) == 0
    out, err = capsys.readouterr()
    json.loads(out)
    lines = err.splitlines()
    assert lines[0] == "coupledgp: warning: something odd"
    assert all(line.startswith("coupledgp: warning: ") for line in lines)


def test_a_warning_that_was_made_an_error_is_told_as_such(data, fails):
    short = ("--n-frequencies", "8", "--max-iter", "1", "--exact-rows", "0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        text = fails("fit", data, "-t", "price", *short)
    assert "max_iter: the search for hyperparameters stopped" in text
    assert "PYTHONWARNINGS" in text
    assert "report it" not in text


def test_a_thread_that_ends_the_process_is_waited_for():
    """Its temporary files are gone by then, so that other work would end with another code."""
    code = """
import signal, sys, threading, time
from coupledgp.cli import process

process.discard_all = lambda: time.sleep(0.3)
threading.Thread(target=process._end, args=(signal.SIGINT, None), daemon=True).start()
time.sleep(0.1)
process._end(signal.SIGINT, None)
sys.exit(2)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (130, "coupledgp: interrupted\n")


@pytest.mark.parametrize("header", ["größe,y", "a,y"])
def test_other_encodings_than_utf_8_are_named(header, tmp_path, fails):
    path = tmp_path / "latin.csv"
    path.write_bytes(f"{header}\nsüd,1\nnord,2\n".encode("latin-1"))
    assert "in UTF-8" in fails("fit", path, "-t", "y")


@pytest.mark.parametrize("form", ["{:.2f} EUR", "1.{:.0f},50", "${:.1f}"])
def test_numbers_with_signs_are_no_classes(form, tmp_path, fails):
    """A target of texts that nearly all differ."""
    table = {"a": range(20), "y": [form.format(200 + 7 * k) for k in range(20)]}
    line = fails("fit", write_csv(tmp_path / "d.csv", table), "-t", "y")
    assert f"column 'y', data row 1: expected a number, got '{form.format(200)}'" in line
