"""Standard input and output, silence, steps line by line, formats, completion, old spellings."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from coupledgp.cli import run
from coupledgp.cli.app import COMMANDS
from coupledgp.cli.shared import evaluate
from coupledgp.ground.progress import reporter
from tests.cli.tables import columns, write_csv

PREDICT = ("predict", "{model}", "{data}")


def shell(*arguments, given=b"", **more):
    return subprocess.run(
        [sys.executable, "-m", "coupledgp", *map(str, arguments)], input=given,
        capture_output=True, check=False, env=os.environ | more,
    )  # fmt: skip


@pytest.mark.long
def test_a_table_goes_through_a_pipe_in_every_format(model_path, data, tmp_path, call):
    call("predict", model_path, data, "-o", tmp_path / "out.csv")
    usual = (tmp_path / "out.csv").read_bytes()
    table = pa.table(columns())
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    given = {
        "csv": Path(data).read_bytes(),
        "parquet": (tmp_path / "t.parquet").read_bytes(),
        "json": json.dumps(table.to_pylist()).encode(),
        "jsonl": "\n".join(map(json.dumps, table.to_pylist())).encode(),
    }
    expected = pd.read_csv(io.BytesIO(usual))
    for name, content in given.items():
        done = shell("predict", model_path, "-", "-o", "-", given=content)
        assert (done.returncode, done.stderr) == (0, b""), name
        found = pd.read_csv(io.BytesIO(done.stdout))
        pd.testing.assert_frame_equal(found, expected, check_dtype=False)
    assert shell("predict", model_path, "-", "-o", "-", given=given["csv"]).stdout == usual


@pytest.mark.parametrize("form", ["json", "parquet", "tsv"])
def test_a_table_is_written_to_standard_output_in_a_format(form, model_path, data, capsysbinary):
    assert run(["predict", str(model_path), data, "-o", "-", "--format", form]) == 0
    out, err = capsysbinary.readouterr()
    assert err == b""
    readers = {
        "json": lambda: pd.DataFrame(json.loads(out)),
        "parquet": lambda: pa.parquet.read_table(io.BytesIO(out)).to_pandas(),
        "tsv": lambda: pd.read_csv(io.BytesIO(out), sep="\t"),
    }
    found = readers[form]()
    assert list(found) == [*columns(), "mean", "std", "extrapolation"]
    assert len(found) == len(columns()["a"])


def test_json_files_are_tables(model_path, data, tmp_path, call):
    for name in ("out.csv", "out.json"):
        call("predict", model_path, data, "-o", tmp_path / name)
    found = pd.DataFrame(json.loads((tmp_path / "out.json").read_text()))
    usual = pd.read_csv(tmp_path / "out.csv")
    assert (found["mean"] == usual["mean"]).all()
    call("predict", model_path, tmp_path / "out.json", "--prefix", "p_", "-o", tmp_path / "b.csv")
    assert (pd.read_csv(tmp_path / "b.csv")["p_mean"] == usual["mean"]).all()


@pytest.mark.long
def test_a_model_goes_through_a_pipe(data, tmp_path):
    quick = ("--n-frequencies", "8", "--max-iter", "30", "--compare", "none")
    fitted = shell("fit", data, "-t", "price", *quick, "-o", "-")
    assert fitted.returncode == 0, fitted.stderr
    done = shell("predict", "-", data, "-o", "-", given=fitted.stdout)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].endswith(b"mean,std,extrapolation")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("-o", "-", "--json"), "--output: expected standard output once, and no --json"),
        (("-o", "x.csv", "--format", "csv"), "--format: expected --output - beside it"),
        (("-o", "-", "--format", "docx"), "--format: expected .csv, .tsv"),
    ],
)
def test_wrong_outputs(more, message, model_path, data, fails):
    assert message in fails("predict", model_path, data, *more)


def test_quiet_prints_what_is_asked_for_alone(model_path, data, tmp_path, capsys):
    given = ["predict", str(model_path), data, "-o", str(tmp_path / "o.csv")]
    for quiet in ("-q", "--quiet"):
        assert run([*given, quiet]) == 0
        assert capsys.readouterr() == ("", "")
    assert run([*given, "-q", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == len(columns()["a"])
    assert run(["predict", str(model_path), data, "-o", "-", "-q"]) == 0
    assert capsys.readouterr().out.startswith("a,b b")
    assert run([*given[:2], "absent.csv", *given[3:], "-q"]) == 2
    assert "absent.csv: No such file" in capsys.readouterr().err


def test_steps_are_printed_when_asked_and_long_forecasts_always(capsys, monkeypatch):
    monkeypatch.setattr(evaluate, "PAUSE", 0.0)
    said = ("reading", "local: about 12 s of one core", "exact: about 3 s of one core",
            "lattice: about 1.5 h of one core")  # fmt: skip
    for spoken, expected in ((None, [said[1], said[3]]), (True, [*said]), (False, [])):
        with evaluate.spoken(SimpleNamespace(spoken=spoken)), reporter("fit") as report:
            for text in said:
                report(text)
        lines = capsys.readouterr().err.splitlines()
        assert lines == [f"coupledgp: {text}" for text in expected]


def test_fit_says_its_steps(data, tmp_path, capsys):
    given = ["fit", data, "-t", "price", "--model", "exact", "-o", str(tmp_path / "m")]
    assert run([*given, "--progress"]) == 0
    assert "coupledgp: " in capsys.readouterr().err


@pytest.mark.parametrize("shell_name", ["bash", "zsh", "fish"])
def test_a_script_of_completion_is_shown(shell_name):
    done = shell("--show-completion", shell_name, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert done.returncode == 0
    assert b"_COUPLEDGP_COMPLETE" in done.stdout


def test_completion_is_installed_and_completes(tmp_path):
    done = shell("--install-completion", "bash", HOME=str(tmp_path),
                 _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")  # fmt: skip
    assert done.returncode == 0
    scripts = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert any("_COUPLEDGP_COMPLETE" in text for text in scripts)

    def completed(words):
        at = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        done = shell(_COUPLEDGP_COMPLETE="complete_bash", **at)
        return done.stdout.decode().split()

    assert completed("coupledgp f") == ["fit", "field", "forecast"]
    assert completed("coupledgp graph --cov") == ["--covariates"]
    assert completed("coupledgp graph --ahe") == []


def test_old_spellings_work_with_a_notice(model_path, data, tmp_path, capsys):
    given = ["predict", str(model_path), data, "-o"]
    assert run([*given, str(tmp_path / "a.csv"), "--level", "0.9"]) == 0
    assert capsys.readouterr().err == ""
    for words in (["--interval", "0.9"], ["--interval=0.9"]):
        assert run([*given, str(tmp_path / "b.csv"), *words]) == 0
        told = capsys.readouterr().err
        assert told == "coupledgp: --interval is called --level now; the old name will go\n"
        assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    assert run([*given, str(tmp_path / "b.csv"), "--interval", "0.9", "--quiet"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("words", [["--n-walks", "3"], ["--n-walks=3"]])
def test_options_that_became_parameters_work_with_a_notice(words, tmp_path, capsys):
    ring = {"source": range(12), "target": [*range(1, 12), 0]}
    graph = write_csv(tmp_path / "ring.csv", {k: list(v) for k, v in ring.items()})
    values = write_csv(tmp_path / "v.csv", {"node": [0, 3, 5, 9], "value": [1.0, 2.0, 1.5, 0.5]})
    given = ["graph", str(graph), "--values", str(values), "--exact-nodes", "0", "--json", "-o"]
    assert run([*given, str(tmp_path / "a.csv"), "--set", "n_walks=3"]) == 0
    out, err = capsys.readouterr()
    assert (json.loads(out)["model"]["n_walks"], err) == (3, "")
    assert run([*given, str(tmp_path / "b.csv"), *words]) == 0
    told = capsys.readouterr().err
    assert told == "coupledgp: --n-walks is called --set n_walks now; the old name will go\n"
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


# Spellings of the last release that differ from those of today.
OLD = {
    "--value-column": "--target", "--place-columns": "--places", "--hide": "--holdout",
    "--loo": "--left-out", "--leave-one-sensor-out": "--left-out", "--forecast": "--ahead",
    "--columns": "--covariates", "--interval": "--level", "--observed": "--no-latent",
    "--anisotropic": "--ard", "--model": {"krige": "--save-model", "audit": "--from-model"},
}  # fmt: skip


def test_every_old_spelling_is_known_and_none_is_listed(capsys):
    known = set()
    for name, _, kind, _ in COMMANDS:
        found = kind.renamed(name)
        for old, new in found.items():
            expected = OLD.get(old, f"--set {old[2:].replace('-', '_')}")
            assert new == (expected if isinstance(expected, str) else expected[name])
        known |= {old for old, new in found.items() if " " not in new}
    assert known == set(OLD)
    assert run(["field", "--help"]) == 0
    assert "--value-column" not in capsys.readouterr().out


def test_json_of_other_things_is_no_table(tmp_path, call, fails, model_path):
    rows = pa.table(columns()).to_pylist()
    rows[3]["b b"] = 4.5
    (tmp_path / "t.json").write_text(json.dumps({"rows": rows}))
    assert "got columns 'rows'" in fails("predict", model_path, tmp_path / "t.json", "-o", "-")
    (tmp_path / "t.json").write_text("[1, 2]")
    told = fails("predict", model_path, tmp_path / "t.json", "-o", "-")
    assert "expected a table: JSON of an array of objects" in told
    write_csv(tmp_path / "t.csv", {name: [row[name] for row in rows] for name in rows[0]})
    (tmp_path / "t.json").write_text(json.dumps(rows))
    for ending in ("csv", "json"):
        call("predict", model_path, tmp_path / f"t.{ending}", "-o", tmp_path / f"{ending}.csv")
    found = [pd.read_csv(tmp_path / f"{ending}.csv")["mean"] for ending in ("csv", "json")]
    assert (found[0] == found[1]).all()
