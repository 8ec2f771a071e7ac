"""Paths among the options and arguments of commands."""

from pathlib import Path
from typing import get_type_hints

import pytest

from coupledgp.cli import run
from coupledgp.cli.app import app
from coupledgp.cli.shared.declare import output_path, path

PATHS = {
    "fit": ("--test", "--output", "--report"),
    "predict": ("--output",),
    "field": ("--values", "--query", "--left-out"),
    "graph": ("--positions", "--output"),
    "forecast": ("--update", "--save-model"),
    "krige": ("--output", "--save-model"),
    "interpolate": ("--values", "--positions", "--output", "--report", "--left-out", "--query"),
    "report": ("--output", "--groups-from", "--mesh", "--positions"),
    "audit": ("--train", "--test", "--predictions", "--from-model", "--output"),
    "demo": ("--output",),
}


@pytest.mark.parametrize("command", PATHS)
def test_an_empty_text_is_no_path(command, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    needed = {
        "fit": ["rows.csv", "--target", "y"], "predict": ["y.model", "rows.csv"],
        "interpolate": ["edges.csv"], "graph": ["edges.csv"], "forecast": ["edges.csv"],
        "field": ["mesh.stl"], "krige": ["rows.csv"], "report": ["y.model"],
        "audit": ["-t", "y"], "demo": [],
    }[command]  # fmt: skip
    others = {"audit": ("--train", "--test", "--output"), "demo": ()}.get(command, ("--output",))
    for name in PATHS[command]:
        rest = [text for other in others if other != name for text in (other, "a.csv")]
        assert run([command, *needed, *rest, name, ""]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert name in error
        assert "expected a path, got an empty text" in error
    for place in [k for k, text in enumerate(needed) if "." in text]:
        arguments = [*needed[:place], "", *needed[place + 1 :]]
        assert run([command, *arguments, "--output", "a.csv"]) == 2
        assert "expected a path, got an empty text" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_every_path_of_a_command_is_read_as_one():
    for command in PATHS:
        (function,) = (c.callback for c in app.registered_commands if c.name == command)
        parsers = [
            hint.__metadata__[0].parser
            for hint in get_type_hints(function, include_extras=True).values()
            if hasattr(hint, "__metadata__")
            and hint.__origin__ in (Path, Path | None, list[Path] | None)
        ]
        assert parsers
        assert set(parsers) <= {path, output_path}
