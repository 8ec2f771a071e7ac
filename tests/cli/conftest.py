"""Fixtures of the command line's tests."""

import pytest

from coupledgp.cli import run
from tests.cli.tables import QUICK, columns, write_csv
from tests.models.few_steps import search_little


@pytest.fixture(autouse=True)
def _small_searches(monkeypatch):
    """Searches of few rows and steps: the tests are about what is done with their results."""
    search_little(monkeypatch)


@pytest.fixture
def data(tmp_path):
    return write_csv(tmp_path / "data.csv", columns())


@pytest.fixture
def call(capsys):
    """Run a command, which must succeed, and return its output on stdout."""

    def call(*arguments):
        code = run([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert (code, err) == (0, "")
        return out

    return call


@pytest.fixture
def fails(capsys, tmp_path):
    """Run a command; it must fail with one line and leave no file. Returns the line."""

    def fails(*arguments):
        before = set(tmp_path.rglob("*"))
        code = run([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert code == 2
        assert out == ""
        assert err.count("\n") == 1
        assert err.startswith("coupledgp: error: ")
        assert set(tmp_path.rglob("*")) == before
        return err

    return fails


@pytest.fixture(scope="module")
def model_path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    data = write_csv(folder / "data.csv", columns())
    arguments = ["fit", data, "-t", "price", *QUICK, "--exact-rows", "0", "-o", folder / "m"]
    assert run([*map(str, arguments), "--json"]) == 0
    return folder / "m"
