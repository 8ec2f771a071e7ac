"""Options are checked before any file is read: the files of these commands do not exist."""

import pytest

from coupledgp.cli import run
from coupledgp.cli.commands.interpolate_options import ALL, InterpolateOptions

COMMANDS = {
    "fit": ("absent.csv", "-t", "y"),
    "predict": ("absent.model", "absent.csv", "-o", "out.csv"),
    "field": ("absent.ply", "--values", "absent.csv", "-o", "out.csv"),
    "graph": ("absent.csv", "--values", "absent.csv", "-o", "out.csv"),
    "forecast": ("absent.csv", "--values", "absent.csv", "-o", "out.csv"),
    "interpolate": ("absent.csv", "--values", "absent.csv", "-o", "out.csv"),
    "krige": ("absent.csv", "-o", "out.csv"),
    "report": ("absent.model", "absent.csv", "-o", "out.html"),
    "audit": ("--train", "absent.csv", "--test", "absent.csv", "-t", "y", "-o", "out.html"),
}
# Wrong options, with the words that the error names.
WRONG = {
    "fit": [
        ("--kernel", "foo"), ("--coupling", "foo"), ("--features", "foo"), ("--dtype", "int8"),
        ("--n-frequencies", "0"), ("--max-iter", "0"), ("--n-restarts", "-1"), ("--model", "foo"),
        ("--likelihood", "foo"), ("--target-transform", "foo"), ("--budget", "5 parsecs"),
        ("--frequencies", "foo"), ("--kl-target", "nan"), ("--set", "foo=1"), ("--device", "moon"),
        ("--holdout", "2"), ("--compare", "foo"), ("--seed", "-1"),
    ],
    "predict": [("--level", "95"), ("--output", "out.docx")],
    "field": [
        ("--kernel", "heat"), ("--likelihood", "foo"), ("--set", "foo=1"), ("--at", "edges"),
        ("--max-edge", "-1"), ("--left-out", "l.docx"), ("--holdout", "1"), ("--nodes", "edges"),
        ("--report", "page.pdf"),
        ("--n-walks", "3"), ("--output", "out.gpkg"),
    ],
    "graph": [
        ("--kernel", "foo"), ("--coupling", "foo"), ("--method", "foo"), ("--n-walks", "0"),
        ("--set", "foo=1"), ("--budget", "5 parsecs"), ("--exact-nodes", "-1"),
        ("--likelihood", "foo"), ("--model", "foo"), ("--time-column", "t"),
    ],
    "forecast": [
        ("--kernel", "foo"), ("--time-kernel", "foo"), ("--usual-day", "foo"), ("--zone", "Mars"),
        ("--sensor-noise", "foo"), ("--outliers", "foo"), ("--ahead", "1 parsec"),
        ("--resolution", "foo"), ("--window", "foo"), ("--set", "foo=1"), ("--dynamics", "foo"),
        ("--target-transform", "foo"), ("--output", "out.docx"), ("--n-walks", "3"),
    ],
    "interpolate": [("--p-halt", "2"), ("--hide", "2"), ("--length-law", "foo")],
    "krige": [
        ("--kernel", "foo"), ("--trend", "foo"), ("--likelihood", "foo"), ("--level", "2"),
        ("--target-transform", "foo"), ("--set", "foo=1"), ("--output", "out.png"),
        ("--seed", "-1"),
    ],
    "report": [("--compare", "foo"), ("--n-draws", "1"), ("--sizes", "1"), ("--budget", "foo"),
               ("--output", "page.pdf")],
    "audit": [("--compare", "foo"), ("--budget", "foo"), ("--outputscale", "1"),
              ("--output", "page.pdf")],
}  # fmt: skip


@pytest.mark.parametrize(
    ("command", "option", "value"),
    [(command, *pair) for command, pairs in WRONG.items() for pair in pairs],
)
def test_a_wrong_option_is_named_before_a_file_is_missed(
    command, option, value, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    given = list(COMMANDS[command])
    if option == "--output":
        del given[-2:]
    assert run([*command.split(), *given, option, value]) == 2
    err = capsys.readouterr().err
    assert "absent" not in err
    today = InterpolateOptions.renamed(ALL) if command == "interpolate" else {}
    assert today.get(option, option) in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", COMMANDS)
def test_the_files_are_missed_at_last(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run([*command.split(), *COMMANDS[command]]) == 2
    assert "absent" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("graph", "output", "words"),
    [
        ("absent.ply", "out.xyz", "--output: expected a path ending in .vtu, .vtk, .ply, .glb"),
        ("absent.msh", "out.csv", "GRAPH: expected a mesh, .stl, .ply, .obj, .off"),
    ],
)
def test_endings_that_are_taken_are_named(graph, output, words, capsys):
    assert run(["field", graph, "--values", "absent.csv", "-o", output]) == 2
    assert words in capsys.readouterr().err
