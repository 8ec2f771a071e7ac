import numpy as np
import pandas as pd
import pytest
import trimesh

from coupledgp.cli import run

TOWNS = ("Bonn", "Kiel", "Ulm")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def shell(folder, capsys):
    """Run a command, which must succeed; its standard output and error."""

    def call(*arguments):
        code = run(list(map(str, arguments)))
        out, err = capsys.readouterr()
        assert code == 0, err
        return out, err

    return call


@pytest.fixture
def fails(folder, capsys):
    """Run a command, which must fail with one line and leave no file; the line."""

    def call(*arguments):
        before = set(folder.rglob("*"))
        code = run(list(map(str, arguments)))
        out, err = capsys.readouterr()
        line = err.splitlines()[-1]
        assert (code, out) == (2, "")
        assert line.startswith("coupledgp: error: ")
        assert set(folder.rglob("*")) == before
        return line

    return call


def houses(n=40):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({
        "area": rng.uniform(40, 200, n), "town": rng.choice(TOWNS, n),
        "new": rng.choice(["yes", "no"], n),
        "built": pd.Timestamp("1990-01-01") + pd.to_timedelta(rng.integers(0, 9000, n), "D"),
    })  # fmt: skip
    noise = rng.normal(0, 2, n)
    return table.assign(price=table["area"] + 30 * (table["town"] == "Bonn") + noise)


@pytest.fixture
def table(folder):
    """The file of a table of numbers, text, yes and no, and dates."""
    houses().to_csv("houses.csv", index=False)
    return "houses.csv"


@pytest.fixture
def part(folder):
    """A box as STL, in millimetres, and 12 sensors that see a linear function of x."""
    mesh = trimesh.creation.box((100, 60, 20))
    mesh.export("part.stl")
    places, _ = trimesh.sample.sample_surface(mesh, 12, seed=1)
    sensors = pd.DataFrame(places, columns=["x", "y", "z"])
    sensors = sensors.assign(celsius=50 + 0.2 * sensors["x"])
    sensors.to_csv("sensors.csv", index=False)
    return sensors


@pytest.fixture
def roads(folder):
    """A path of nine nodes with lengths, and values at five of them."""
    ends = pd.DataFrame({
        "source": [f"n{k}" for k in range(8)], "target": [f"n{k + 1}" for k in range(8)],
        "length": 100.0,
    })  # fmt: skip
    ends.to_csv("roads.csv", index=False)
    seen = [0, 2, 4, 6, 8]
    values = pd.DataFrame({"node": [f"n{k}" for k in seen], "speed": [30.0 + k for k in seen]})
    values.to_csv("speeds.csv", index=False)
    return values


@pytest.fixture
def feed(roads):
    """Values of four nodes over 40 quarters of an hour, one cell missing."""
    times = pd.date_range("2025-10-13", periods=40, freq="15min")
    rng = np.random.default_rng(0)
    rows = [(f"n{k}", at, 30 + k + np.sin(i / 5) + 0.1 * rng.normal())
            for k in (0, 2, 5, 8) for i, at in enumerate(times)]  # fmt: skip
    long = pd.DataFrame(rows, columns=["node", "time", "speed"]).drop(index=50)
    long.to_csv("feed.csv", index=False)
    return long
