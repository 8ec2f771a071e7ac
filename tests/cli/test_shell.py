"""The application itself: help, exit codes, whole files, one line of an error."""

import json
import os

import pytest

import coupledgp.cli.predict
from coupledgp.cli import run
from coupledgp.cli.app import COMMANDS
from coupledgp.cli.shared import files, whole


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_on_a_page_with_at_most_thirty_options(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    assert run([command, "--help"]) == 0
    text = capsys.readouterr().out
    assert len(text.splitlines()) <= 60
    assert sum(line.strip("│* ").startswith("-") for line in text.splitlines()) <= 31
    assert f"Example: coupledgp {command} " in text


def test_files_are_whole_or_not_at_all(folder):
    path, link = folder / "a.txt", folder / "link"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to("a.txt")

    def failed():
        with files(path, None, folder / "b.txt") as (one, none, two):
            one.write_text("half")
            two.write_text("half")
            assert none is None
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failed()
    assert (path.read_text(), sorted(os.listdir(folder))) == ("old", ["a.txt", "link"])
    with whole(link) as temporary:
        temporary.write_text("new")
    assert link.is_symlink()
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o640)


def test_an_error_that_nobody_foresaw_is_one_line_and_code_one(folder, monkeypatch, capsys):
    def broken(path):
        raise RuntimeError("a\nb")

    monkeypatch.setattr(coupledgp.cli.predict, "load", broken)
    for name in ("m.model", "t.csv"):
        (folder / name).write_text("x")
    assert run(["predict", "m.model", "t.csv", "-o", "p.csv"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("coupledgp: error: unforeseen RuntimeError in coupledgp predict m.model")
    assert err.count("\n") == 1


def test_an_interrupt_and_a_reader_that_has_left(folder, monkeypatch, capsys):
    for name in ("m.model", "t.csv"):
        (folder / name).write_text("x")
    for error, code in ((KeyboardInterrupt, 130), (BrokenPipeError, 141)):

        def stopped(path, error=error):
            raise error

        monkeypatch.setattr(coupledgp.cli.predict, "load", stopped)
        assert run(["predict", "m.model", "t.csv", "-o", "p.csv"]) == code
    assert "Traceback" not in capsys.readouterr().err


def test_control_characters_of_files_are_shown_as_escapes(folder, capsys):
    assert run(["fit", "a\x1b[31m.csv", "-t", "y"]) == 2
    assert r"a\x1b[31m.csv" in capsys.readouterr().err


@pytest.mark.long
def test_the_demo_writes_pages_and_their_figures(shell, folder, monkeypatch):
    from coupledgp.cli import demo

    monkeypatch.setattr(demo, "has_torch", lambda: False)
    monkeypatch.setattr(demo, "WALKERS", ("iid", "sigma"))
    monkeypatch.setattr(demo, "WALKS", (8, 16))
    monkeypatch.setattr(demo, "SEEN", 60)
    monkeypatch.setattr(demo, "COMPARED", 40)
    out, err = shell("demo", "--output", "demo", "--draws", "2")
    assert "table.html is left out" in err
    assert "Written: demo/mesh.html, demo/field.html, and a .json beside each." in out
    for name in ("mesh", "field"):
        assert "<svg" in (folder / "demo" / f"{name}.html").read_text("utf-8")
        assert json.loads((folder / "demo" / f"{name}.json").read_text())
    assert {"field.ply", "field-sensors.csv"} <= set(os.listdir("demo"))
