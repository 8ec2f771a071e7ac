"""No command writes over what it reads, nor two outputs into one file, whatever the paths."""

import pytest

from coupledgp.cli import run

# Arguments of each command with its inputs as {a}, {b}, ... and its outputs as options.
COMMANDS = {
    "predict": (["predict", "{a}", "{b}"], ["--output"], "csv"),
    "fit": (["fit", "{a}", "-t", "y", "--test", "{b}"], ["--output", "--report"], "model"),
    "report": (
        ["report", "{a}", "{b}", "--mesh", "{c}", "--positions", "{d}", "--groups-from", "{e}",
         "--groups", "day"], ["--output"], "html",
    ),
    "interpolate": (
        ["interpolate", "{a}", "--values", "{b}", "--positions", "{c}", "--query", "{d}"],
        ["--output", "--report", "--left-out"], "csv",
    ),
    "audit": (
        ["audit", "--train", "{a}", "--test", "{b}", "-t", "y", "--predictions", "{c}",
         "--from-model", "{d}"], ["--output"], "html",
    ),
}  # fmt: skip
# Every input through a link, and those of one command in every way.
INPUTS = [
    (name, place, kind)
    for name, (arguments, _, _) in COMMANDS.items()
    for place in "abcde"
    for kind in ("link", "same", "hard link", "folder")
    if f"{{{place}}}" in arguments and (kind == "link" or name == "predict")
]
PAIRS = [
    (name, option)
    for name, (_, options, _) in COMMANDS.items()
    for option in options[1:]
]  # fmt: skip
CONTENT = "y,x\n1,2\n"


@pytest.fixture
def files(tmp_path):
    found = {place: tmp_path / f"{place}.csv" for place in "abcde"}
    for path in found.values():
        path.write_text(CONTENT)
    return found


def refused(capsys, arguments, files, outputs):
    """The line that a command ends with; the inputs stay as they were."""
    filled = [argument.format(**files) for argument in arguments]
    code = run([*filled, *(str(part) for pair in outputs.items() for part in pair)])
    out, err = capsys.readouterr()
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert all(path.read_text() == CONTENT for path in files.values())
    return err


@pytest.mark.parametrize(("name", "place", "kind"), INPUTS)
def test_no_output_is_an_input(name, place, kind, files, tmp_path, capsys):
    arguments, options, suffix = COMMANDS[name]
    path = tmp_path / f"link.{suffix}"
    if kind == "same":
        path = files[place]
        path.rename(tmp_path / f"{place}.{suffix}")
        files[place] = path = tmp_path / f"{place}.{suffix}"
    elif kind == "link":
        path.symlink_to(files[place])
    elif kind == "hard link":
        path.hardlink_to(files[place])
    else:
        (tmp_path / "there").symlink_to(tmp_path)
        files[place] = files[place].rename(tmp_path / f"{place}.{suffix}")
        path = tmp_path / "there" / f"{place}.{suffix}"
    for option in options:
        err = refused(capsys, arguments, files, {"--output": tmp_path / "x", option: path})
        assert err.startswith(f"coupledgp: error: {option}: expected a path of its own"), err


@pytest.mark.parametrize("kind", ["same", "dangling link"])
@pytest.mark.parametrize(("name", "option"), PAIRS)
def test_no_two_outputs_are_one_file(name, option, kind, files, tmp_path, capsys):
    arguments, options, suffix = COMMANDS[name]
    first, second = tmp_path / f"new.{suffix}", tmp_path / f"new.{suffix}"
    if kind == "dangling link":
        second = tmp_path / f"link.{suffix}"
        second.symlink_to(first)
    err = refused(capsys, arguments, files, {options[0]: first, option: second})
    assert err.startswith(f"coupledgp: error: {option}: expected a path of its own"), err
    assert not first.exists()
