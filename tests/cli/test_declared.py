"""Options are fields of a value, of which the command line is made; any parameter can be set."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import coupledgp as cgp
from coupledgp import cli
from coupledgp.cli.commands.table_options import FitOptions
from coupledgp.cli.shared.declare import Options, argument, command, option, parameters_of, required
from coupledgp.cli.shared.domain import Domain, run
from coupledgp.cli.shared.options import at_least, one_of
from coupledgp.errors import InvalidInputError
from coupledgp.models.options import estimator
from tests.cli.tables import columns, write_csv


@dataclass(frozen=True, kw_only=True)
class Small(Options):
    """Options of a command that is tested."""

    table: Path = argument("TABLE", "A table.")
    height: float = required("A height.", "--height", "-l")
    names: list[str] | None = option("Names.")
    plain: bool = option("Plain.", default=False)
    fast: bool = option("Fast or slow.", "--fast/--slow", default=True)


def made(*arguments):
    seen = []
    app = typer.Typer()
    app.command()(command(seen.append, Small))
    found = CliRunner().invoke(app, [str(a) for a in arguments])
    return seen[0] if seen else found.output


def test_a_command_has_one_value_of_its_options():
    found = made("a.csv", "-l", "0.5", "--names", "x", "--names", "y", "--slow")
    assert found == Small(
        table=Path("a.csv"), height=0.5, names=["x", "y"], fast=False,
        given=frozenset({"table", "height", "names", "fast"}),
    )  # fmt: skip
    assert made("a.csv", "--height", "1", "--plain").plain
    assert "Missing option" in made("a.csv")
    assert "No such option" in made("a.csv", "-l", "1", "--no-plain")
    assert "empty text" in made("", "-l", "1")


def test_options_have_names():
    own = [one for one in Small.declared() if one.name not in Options.__dataclass_fields__]
    names = {one.name: Small.name_of(one.name) for one in own}
    assert names == {
        "table": "--table", "height": "--height", "names": "--names", "plain": "--plain",
        "fast": "--fast",
    }  # fmt: skip


@estimator
class Model:
    """A model with parameters of several types."""

    kernel: str = "gaussian"
    shape: str | None = None
    depth: int = 3
    name: str = "a"
    size: int | str = "auto"


def test_any_parameter_of_an_estimator_is_set_by_its_name():
    def parameters(*texts):
        given = FitOptions(data=Path("a"), target="y", command="fit", further=texts or None)
        return parameters_of(Model, given)

    found = parameters("depth = 5", "shape=(1, 2)", "name=7")
    assert found == {"depth": 5, "shape": (1, 2), "name": "7"}
    assert parameters("shape=wide") == {"shape": "wide"}
    assert parameters("size=8", "shape=no", "depth=yes") == {
        "size": 8,
        "shape": False,
        "depth": True,
    }
    assert parameters("size=all", "name=yes") == {"size": "all", "name": "yes"}
    assert parameters() == {}
    for text, message in (
        ("depth", "expected NAME=VALUE"),
        ("width=3", "Model takes depth, name, shape, size, got 'width'"),
        ("kernel=matern-1/2", "expected --kernel for kernel"),
        ("random_state=3", "got 'random_state'"),
    ):
        with pytest.raises(InvalidInputError, match=f"--set: .*{message}"):
            parameters(text)
    with pytest.raises(InvalidInputError, match="depth once"):
        parameters("depth=1", "depth=2")


def test_a_parameter_without_an_option_reaches_the_model(data, call, tmp_path):
    path = tmp_path / "m"
    arguments = ["fit", data, "-t", "price", "--model", "local", "--json", "-o", path]
    json.loads(call(*arguments, "--set", "n_neighbors=5", "--set", "trend=none"))
    model = cgp.load_model(path)
    assert (model.n_neighbors, model.trend) == (5, "none")


@dataclass(frozen=True, kw_only=True)
class Checked(Options):
    """Options with checks."""

    output: Path = required("A file.", ending=".txt")
    more: list[Path] | None = option("Files.")
    folder: Path | None = option("A folder.", ending="")
    word: str = option("A word.", default="a", check=one_of("a", "b"))
    count: int | None = option("A count.", check=at_least(2))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"word": "c"}, "--word: expected one of 'a', 'b'"),
        ({"count": 1}, "--count: expected an int >= 2"),
        ({"more": [Path("b.txt"), Path("a.txt")]}, "--output: expected a path of its own"),
        ({"report": Path("a.txt")}, "--report: expected a path of its own"),
    ],
)
def test_options_are_checked_as_they_are_declared(given, message):
    fine = Checked(output=Path("a.txt"), folder=Path("a.txt"), more=[Path("b.txt")], count=2)
    fine.check()
    assert fine.inputs == [Path("b.txt")]
    with pytest.raises(InvalidInputError, match=message):
        replace(fine, **given).check()


def test_errors_of_files_name_their_option(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.csv").mkdir()
    table = write_csv(tmp_path / "t.csv", columns())
    for words, message in (
        (["krige", "folder.csv", "-o", "o.csv"], "DATA: folder.csv: Is a directory"),
        (["fit", table, "-t", "price", "--test", "absent.csv"], "--test: absent.csv: No such file"),
        (["predict", "absent", table, "-o", "o.csv"], "MODEL: absent: No such file"),
    ):
        assert cli.run([str(word) for word in words]) == 2
        assert f"error: {message}" in capsys.readouterr().err


@dataclass(frozen=True, kw_only=True)
class WrittenOptions(Options):
    """Options of a domain that writes one file."""

    output: Path = required("A file.", ending=".txt")


class Written(Domain):
    """A domain of one number."""

    def __init__(self, path, fails=False):
        super().__init__(WrittenOptions(output=path))
        self.fails = fails

    def read(self):
        self.value = 1

    def fit(self):
        self.value += 1

    def law(self, paths):
        return {"value": self.value, "report": paths["report"]}

    def write(self, result, paths):
        paths["output"].write_text(str(result["value"]))
        if self.fails:
            raise InvalidInputError("--output: late")

    def report(self, result):
        raise AssertionError


def test_a_domain_is_read_fitted_and_written_whole_or_not(tmp_path):
    path = tmp_path / "law.txt"
    domain = Written(path)
    assert run(domain) == {"value": 2, "report": None}
    assert path.read_text() == "2"
    assert list(domain.clock.seconds) == ["fit"]
    path.write_text("old")
    with pytest.raises(InvalidInputError, match="late"):
        run(Written(path, fails=True))
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
