"""`coupledgp field`, `graph` and `forecast`: one table of options, each with those it has."""

import json
import os
import subprocess
import sys

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import trimesh

from coupledgp.cli import run
from coupledgp.cli.app import COMMANDS
from coupledgp.cli.commands.interpolate_options import ALL, RARE, InterpolateOptions
from tests.cli.series_cases import quicken, write_files
from tests.interpolation import read

# Lines of the help of 100 columns.
MOST_LINES = {"field": 55, "graph": 60, "forecast": 60}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("places")
    ball = trimesh.creation.icosphere(1)
    ball.export(path / "ball.ply")
    x, y, z = ball.vertices[::4].T
    sensors = pd.DataFrame({"x": x, "y": y, "z": z, "value": z + 0.1 * x})
    sensors.to_csv(path / "sensors.csv", index=False)
    named = sensors.rename(columns={"x": "X_mm", "y": "Y (mm)", "z": "pz", "value": "temp"})
    named.insert(0, "sensor_id", [f"s{k}" for k in range(len(named))])
    named.to_csv(path / "named.csv", index=False)
    edges = pd.DataFrame({"source": range(12), "target": [*range(1, 12), 0]})
    edges.to_csv(path / "ring.csv", index=False)
    edges.rename(columns={"source": "From", "target": "to"}).to_csv(path / "from.csv", index=False)
    rows = pd.DataFrame({"node": range(0, 12, 2), "value": np.sin(np.arange(6))})
    rows.to_csv(path / "values.csv", index=False)
    rows.rename(columns={"node": "Node_ID"}).to_csv(path / "ids.csv", index=False)
    nx.write_graphml(nx.DiGraph((str(k), str((k + 1) % 12)) for k in range(12)), path / "d.graphml")
    write_files(path)
    return path


def outcome(capsys, *arguments):
    """Exit code, output and errors of a command."""
    code = run([str(one) for one in arguments])
    return code, *capsys.readouterr()


def same(one, other):
    assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize(
    ("command", "domain", "values", "more"),
    [
        ("field", "ball.ply", "sensors.csv", ()),
        ("graph", "ring.csv", "values.csv", ("--exact-nodes", "0")),
        ("graph", "roads.csv", "speeds.csv", ()),
    ],
)
def test_each_writes_what_interpolate_writes(command, domain, values, more, folder, tmp_path, call):
    if values == "speeds.csv":
        (folder / values).write_text("node,value\nr0,1\nr2,2\nr4,3\nr6,1\n")
    arguments = [folder / domain, "--values", folder / values, *more, "-o"]
    call("interpolate", *arguments, tmp_path / "a.csv")
    assert run([command, *map(str, arguments), str(tmp_path / "b.csv")]) == 0
    same(tmp_path / "a.csv", tmp_path / "b.csv")


def test_a_mesh_is_a_field_or_a_graph_by_the_command(folder, tmp_path, capsys):
    (tmp_path / "v.csv").write_text("node,value\n0,1\n5,2\n9,3\n30,1\n")
    given = [
        folder / "ball.ply",
        "--values",
        tmp_path / "v.csv",
        "-o",
        tmp_path / "a.csv",
        "--json",
    ]
    code, out, _ = outcome(capsys, "graph", *given, "--exact-nodes", "0")
    assert code == 0
    assert json.loads(out)["model"]["model"] == "graph"
    code, out, err = outcome(capsys, "field", *given)
    assert (code, out) == (2, "")
    assert "--nodes vertices or --nodes faces says which" in err
    code, _, err = outcome(capsys, "field", folder / "ring.csv", "--values", "x.csv", "-o", "y.csv")
    assert code == 2
    assert "expected a mesh" in err
    assert "coupledgp graph takes" in err


@pytest.mark.long
def test_forecast_finds_times_nodes_and_values(folder, tmp_path, capsys, monkeypatch):
    pytest.importorskip("xarray")
    quicken(monkeypatch)
    roads, long = folder / "roads.csv", folder / "long.csv"
    more = ("--ahead", "10min", "-o")
    usual = ["interpolate", roads, "--values", long, "--time-column", "t", *more]
    assert outcome(capsys, *usual, tmp_path / "a.csv")[0] == 0
    for values in ("long.csv", "wide.csv", "speeds.nc"):
        given = ("forecast", roads, "--values", folder / values, *more)
        code, _, err = outcome(capsys, *given, tmp_path / "b.csv")
        assert code == 0
        assert "times are 't' (--time-column names others)" in err
        same(tmp_path / "a.csv", tmp_path / "b.csv")
    table = pd.read_csv(long).rename(columns={"node": "Sensor_ID", "t": "When", "mph": "speed"})
    table.insert(0, "index", range(len(table)))
    table.to_csv(tmp_path / "named.csv", index=False)
    given = ("forecast", roads, "--values", tmp_path / "named.csv", *more, tmp_path / "c.csv")
    code, _, err = outcome(capsys, *given)
    assert code == 0
    assert "times are 'When'" in err
    assert "nodes are 'Sensor_ID'" in err
    assert "values are 'speed'" in err
    same(tmp_path / "a.csv", tmp_path / "c.csv")
    code, _, err = outcome(capsys, *given, "--quiet")
    assert (code, err) == (0, "")


def test_places_are_known_by_similar_names(folder, tmp_path, capsys, call):
    usual = (folder / "ball.ply", "--values", folder / "sensors.csv", "-o", tmp_path / "a.csv")
    call("field", *usual)
    given = ["field", folder / "ball.ply", "--values", folder / "named.csv", "-o"]
    code, _, err = outcome(capsys, *given, tmp_path / "b.csv")
    assert code == 0
    assert "places are 'X_mm', 'Y (mm)', 'pz' (--places names others)" in err
    assert "values are 'temp' (--target names another)" in err
    same(tmp_path / "a.csv", tmp_path / "b.csv")
    code, _, err = outcome(capsys, *given, tmp_path / "c.csv", "-t", "tmep")
    assert code == 2
    assert "(did you mean 'temp'?)" in err


def test_edges_and_nodes_are_known_by_similar_names(folder, tmp_path, capsys):
    exact = ("--exact-nodes", "0", "-o")
    for graph, values in (("ring.csv", "values.csv"), ("from.csv", "ids.csv")):
        given = ("graph", folder / graph, "--values", folder / values, *exact)
        assert outcome(capsys, *given, tmp_path / f"{values}")[0] == 0
    same(tmp_path / "values.csv", tmp_path / "ids.csv")
    _, _, err = outcome(capsys, *given, tmp_path / "b.csv")
    assert "ends of edges are 'From', 'to'" in err
    assert "nodes are 'Node_ID'" in err


def test_directions_are_dropped_with_a_notice(folder, tmp_path, capsys):
    exact = ("--exact-nodes", "0", "-o")
    for graph in ("ring.csv", "d.graphml"):
        given = ("graph", folder / graph, "--values", folder / "values.csv", *exact)
        code, _, err = outcome(capsys, *given, tmp_path / f"{graph}.csv")
        assert code == 0
        assert ("directions are dropped" in err) == (graph == "d.graphml")
    one, other = (read(tmp_path / f"{name}.csv") for name in ("ring.csv", "d.graphml"))
    means = [
        dict(zip(part["node"], map(float, part["mean"]), strict=True)) for part in (one, other)
    ]
    assert means[0] == pytest.approx(means[1], rel=1e-6)


def test_every_option_is_declared_once_and_some_command_has_it():
    of_all = {own.name for own in InterpolateOptions.declared(ALL)}
    parts = [{own.name for own in InterpolateOptions.declared(name)} for name in MOST_LINES]
    rare = {own.name for own in InterpolateOptions.declared() if RARE in own.metadata["of"]}
    assert of_all == set.union(*parts) | rare
    for command, _, kind, _ in COMMANDS:
        spelled = [one for own in kind.declared(command) for one in own.metadata["names"]]
        assert len(spelled) == len(set(spelled))
        assert not set(kind.renamed(command)) & set(spelled)


@pytest.mark.parametrize("name", MOST_LINES)
def test_the_help_of_a_command_fits_a_screen_and_has_its_own_options(name):
    done = subprocess.run(
        [sys.executable, "-m", "coupledgp", name, "--help"], capture_output=True, text=True,
        env=os.environ | {"COLUMNS": "100"}, check=True,
    )  # fmt: skip
    lines = done.stdout.rstrip().splitlines()
    assert len(lines) <= MOST_LINES[name]
    assert ("--time-column" in done.stdout) == (name == "forecast")
    assert ("--exact-nodes" in done.stdout) == (name == "graph")
    assert "--n-walks" not in done.stdout
    assert ("--query" in done.stdout) == (name != "forecast")
    assert "{" not in done.stdout.replace("{GRAPH}", "")
