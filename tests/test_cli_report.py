"""`coupledgp report`."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import warnings
from importlib import import_module

import numpy as np
import pyarrow as pa
import pytest

import coupledgp as cgp
from coupledgp.cli.app import run
from tests.new_process import run_new

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


def test_training_rows_among_the_test_rows_are_told_first(files, tmp_path, capsys):
    rows = np.column_stack([X, Y])[25:60]
    test = write(tmp_path / "mixed.csv", ["a", "b", "y"], rows)
    arguments = [files / "m", test, "-o", tmp_path / "r.html"]
    warning = "15 of 35 test rows are training rows: scores at them are not those of new data."
    assert report(*arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == warning
    assert sum(warning in line for line in lines) == 1
    assert report(*arguments, "--json") == 0
    assert json.loads(capsys.readouterr().out)["overlap"]["n_rows"] == 15
    assert report(*arguments, "--leave-out-overlap", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["n_test"], found["overlap"]["left_out"]) == (20, True)
    assert found["verdict"].startswith("15 of 35 test rows are training rows and left out.")
    fit = ["fit", files / "train.csv", "-t", "y", "--test", test, "--n-frequencies", "8"]
    assert run([str(a) for a in fit]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert warning in lines[:4]
    assert sum(warning in line for line in lines) == 1


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


def test_many_rows_by_solves(files, tmp_path, capsys, monkeypatch):
    """Solves compare at most MAX_SOLVED_ROWS test rows by default, and fit no exact twin."""
    module = import_module("coupledgp.cli.commands.report")
    monkeypatch.setattr(import_module("coupledgp.diagnostics.compare"), "DENSE_ROWS", 30)
    monkeypatch.setattr(module, "MAX_SOLVED_ROWS", 6)
    monkeypatch.setattr(cgp.SparseSpectrumGPRegressor, "exact_twin", None)
    arguments = [files / "m", files / "test.csv", "-o", tmp_path / "r.html"]
    options = ["--couplings", "iid, orthogonal", "--sizes", "4", "--n-draws", "2"]
    assert report(*arguments, *options, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["n_test"], found["study"]["n_test"]) == (6, 6)
    assert found["accuracy"]["method"] == "stochastic"
    assert report(*arguments, "--max-rows", "9", "--json") == 0
    assert json.loads(capsys.readouterr().out)["n_test"] == 9
    monkeypatch.setattr("coupledgp.cli.readers.notices.LONG_SECONDS", 0.0)
    assert report(*arguments) == 0
    out, err = capsys.readouterr()
    assert err.startswith("coupledgp: comparing with the exact GP of 40 rows at 6 points")
    assert "bounds" in out


def test_dense_and_stochastic_agree(files, tmp_path, capsys):
    found = []
    for how in ("dense", "stochastic"):
        arguments = [files / "m", files / "test.csv", "-o", tmp_path / "r.html", "--compare", how]
        assert report(*arguments, "--json") == 0
        found.append(json.loads(capsys.readouterr().out))
    assert [f["accuracy"]["method"] for f in found] == ["dense", "stochastic"]
    assert found[1]["kl_per_point"] == pytest.approx(found[0]["kl_per_point"], rel=1e-3)


LONG_SOLVE = """
import sys
import numpy as np
import coupledgp as cgp

rng = np.random.default_rng(0)
X = rng.normal(size=(6000, 4))
y = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=6000)
gp = cgp.SparseSpectrumGPRegressor(
    n_frequencies=8, lengthscale=0.5, noise=1e-3, optimizer=None, random_state=0
).fit(X, y)
"""
COMPARE = "cgp.diagnostics.compare(gp, X[:64], y[:64], method='stochastic', progress=True)\n"


def interrupted(arguments, tmp_path):
    """Exit code and stderr of a process that is interrupted while conjugate gradients run."""
    process = subprocess.Popen(
        arguments, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, cwd=tmp_path,
        env=os.environ | {"FORCE_COLOR": "1", "COLUMNS": "200", "OMP_NUM_THREADS": "1"},
        # Shells start background jobs with the signal ignored, which children inherit.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    seen = b""
    with process:
        while b"conjugate gradients" not in seen:
            chunk = process.stderr.read1()
            assert chunk, f"it ended before it was interrupted: {seen.decode()}"
            seen += chunk
        assert b"error" not in seen, seen.decode()
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    return process.returncode, rest.decode()


def test_an_interrupt_of_solves_ends_a_report_and_leaves_no_file(
    files, tmp_path, monkeypatch, capsys
):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("coupledgp.linalg.conjugate_gradients.conjugate_gradients", interrupt)
    page = tmp_path / "old.html"
    page.write_text("old page")
    arguments = [files / "m", files / "test.csv", "-o", page, "--compare", "stochastic"]
    assert report(*arguments) == 130
    assert capsys.readouterr().err.endswith("coupledgp: interrupted\n")
    assert page.read_text() == "old page"
    assert list(tmp_path.iterdir()) == [page]


@pytest.mark.long
def test_ctrl_c_ends_a_report_and_leaves_no_file(tmp_path):
    save = f"{LONG_SOLVE}gp.save(sys.argv[1], include_data=True)\n"
    save += (
        "np.savetxt(sys.argv[2], np.c_[X, y][:64], delimiter=',', header='a,b,c,d,y', comments='')"
    )
    run_new(save, "m", "test.csv", folder=tmp_path)
    (tmp_path / "old.html").write_text("old page")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    arguments = [sys.executable, "-c", "from coupledgp.cli import main; main()", "report"]
    asked = ["m", "test.csv", "-t", "y", "-o", "old.html", "--compare", "stochastic", "--progress"]
    code, err = interrupted([*arguments, *asked], tmp_path)
    assert code == 130
    assert err.rstrip().endswith("coupledgp: interrupted")
    assert "Traceback" not in err
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.long
def test_ctrl_c_ends_a_comparison_in_python(tmp_path):
    script = f"{LONG_SOLVE}try:\n    {COMPARE}except KeyboardInterrupt:\n    sys.exit(77)\n"
    code, err = interrupted([sys.executable, "-c", script], tmp_path)
    assert code == 77
    assert "Traceback" not in err
    assert not list(tmp_path.iterdir())


def test_fit_chooses_its_size(files, tmp_path, capsys):
    options = ["--n-frequencies", "auto", "--coupling", "auto", "--kl-target", "0.5", "--json"]
    arguments = ["fit", files / "train.csv", "-t", "y", "--holdout", "0", *options]
    assert run([str(a) for a in [*arguments, "-o", tmp_path / "m"]]) == 0
    found = json.loads(capsys.readouterr().out)
    model = cgp.load_model(tmp_path / "m")
    assert found["model"]["n_frequencies"] == model.n_frequencies_
    assert found["model"]["coupling"] == str(model.features_.coupling)
    assert found["selection"]["measured_kl_per_point"] <= 0.5
    assert run([str(a) for a in arguments[:-1]]) == 0
    assert "KL measured after the fit" in capsys.readouterr().out


def test_a_size_that_is_no_number(files, capsys):
    assert run(["fit", str(files / "train.csv"), "-t", "y", "--n-frequencies", "few"]) == 2
    assert "--n-frequencies: expected auto or a whole number" in capsys.readouterr().err


def test_a_fit_for_the_posterior_is_named(files, capsys):
    arguments = ["fit", files / "train.csv", "-t", "y", "--n-frequencies", "8",
                 "--frequencies", "posterior", "--compare", "none"]  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run([*map(str, arguments), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["model"]["drawn"]["law"] == "posterior"
        assert run([str(a) for a in arguments]) == 0
    assert "8 fourier frequencies of the gaussian kernel, drawn for the posterior" in " ".join(
        capsys.readouterr().out.split()
    )
