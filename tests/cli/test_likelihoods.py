"""Classes and likelihoods on the command line: of tables, of graphs and of surfaces."""

import json

import numpy as np
import pyarrow as pa
import pytest
import trimesh

import coupledgp as cgp
from coupledgp.cli import run
from coupledgp.search.nodes import latent
from tests.cli.tables import A, B, N, columns, read_csv, write_csv
from tests.models.few_steps import search_little

RNG = np.random.default_rng(1)
HOURS = RNG.uniform(0.5, 3.0, N)
COUNTS = RNG.poisson(HOURS * np.exp(np.sin(2 * A)))
SIDES = np.where(np.sin(2 * A) + 0.3 * RNG.normal(size=N) > 0, "left", "right")
MIXED = [*range(N - 1), "red"]
TABLE = columns(price=None, fixed=None, hours=HOURS, count=COUNTS, side=SIDES, mixed=MIXED)
RING = {"source": list(range(40)), "target": [(k + 1) % 40 for k in range(40)]}
SEEN = list(range(0, 40, 2))


@pytest.fixture(autouse=True)
def _small_searches(monkeypatch):
    search_little(monkeypatch)
    monkeypatch.setattr(latent, "ITERATIONS", 3)
    monkeypatch.setattr(latent, "MOST_ROUNDS", 1)


@pytest.fixture
def table(tmp_path):
    return write_csv(tmp_path / "table.csv", TABLE)


def numbers(values):
    return np.array(values, dtype=float)


def test_counts_have_an_exposure_and_quantiles(table, tmp_path, call):
    model, out = tmp_path / "model", tmp_path / "out.csv"
    options = ["-t", "count", "--likelihood", "poisson", "--exposure", "hours"]
    options += ["--drop", "side", "--drop", "mixed"]
    result = json.loads(call("fit", table, *options, "-o", model, "--json"))
    assert result["model"]["likelihood"] == "Poisson"
    assert result["scores"]["density"] == "likelihood"
    call("predict", model, table, "--exposure", "hours", "-o", out)
    found, fitted = read_csv(out), cgp.load_model(model)
    inputs = pa.table({"a": A, "b b": B.astype(float), "flag": (B > 4).astype(float)})
    mean = fitted.predict(inputs, exposure=HOURS)
    np.testing.assert_allclose(numbers(found["mean"]), mean, rtol=1e-9)
    for name in ("lower_95", "upper_95"):
        np.testing.assert_array_equal(numbers(found[name]) % 1, 0)


def test_texts_are_classes(table, tmp_path, call):
    model, out = tmp_path / "model", tmp_path / "out.csv"
    drop = ["--drop", "count", "--drop", "hours", "--drop", "mixed"]
    shown = call("fit", table, "-t", "side", *drop, "-o", model, "--report", tmp_path / "page.html")
    assert "log loss, nats" in shown
    assert "2 classes: left, right" in (tmp_path / "page.html").read_text()
    assert isinstance(cgp.load_model(model), cgp.GPClassifier)
    call("predict", model, table, "-o", out)
    found = read_csv(out)
    chances = np.column_stack([numbers(found[f"chance_{side}"]) for side in ("left", "right")])
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    picked = np.array(["left", "right"])[chances.argmax(axis=1)]
    assert list(picked) == found["class"]


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        ("side", ["--likelihood", "poisson"], "expected a number, got"),
        ("side", ["--exposure", "hours"], "--exposure: expected none for classes"),
        ("side", ["--target-transform", "log"], "--target-transform: expected none for classes"),
        ("count", ["--likelihood", "poison"], "did you mean 'poisson'"),
        ("count", ["--likelihood", "poisson", "--coupling", "iid"], "--coupling: expected none"),
        ("count", ["--likelihood", "poisson", "--model", "trees"], "--model: expected auto"),
        ("count", ["--exposure", "hours"], "exposure: expected none for a Gaussian law"),
        ("count", ["--likelihood", "poisson", "--exposure", "nope"], "'nope'"),
        ("a", ["--likelihood", "poisson", "--drop", "mixed"], "y: expected counts"),
        ("mixed", [], "column 'mixed', data row 60: expected a number, got 'red'"),
    ],
)
def test_what_is_refused(table, target, options, message, capsys):
    assert run(["fit", table, "-t", target, *options]) == 2
    assert message in capsys.readouterr().err


def test_nodes_have_classes_and_counts(tmp_path, call):
    graph = write_csv(tmp_path / "ring.csv", RING)
    f = np.sin(2 * np.pi * np.array(SEEN) / 40)
    sides = write_csv(
        tmp_path / "sides.csv", {"node": SEEN, "value": list(np.where(f > 0, "up", "down"))}
    )
    out = tmp_path / "out.csv"
    given = ["interpolate", graph, "--values", sides, "--kernel", "heat", "-o", out]
    result = json.loads(call(*given, "--holdout", "0.2", "--json"))
    assert result["scores"]["n_hidden"] == 4
    assert result["model"]["classes"] == ["down", "up"]
    found = read_csv(out)
    assert len(found["node"]) == 40
    assert found["class"][10] == "up"
    assert found["class"][30] == "down"
    counts = {"node": SEEN, "value": RNG.poisson(np.exp(f)).tolist()}
    values = write_csv(tmp_path / "counts.csv", counts)
    call("interpolate", graph, "--values", values, "--kernel", "heat", "--likelihood", "poisson",
         "-o", out)  # fmt: skip
    assert (numbers(read_csv(out)["lower_95"]) >= 0).all()


def test_fields_have_neither(tmp_path, capsys):
    mesh = trimesh.creation.icosphere(1)
    mesh.export(tmp_path / "ball.ply")
    values = write_csv(tmp_path / "values.csv", {"vertex": [0, 1, 2], "value": ["a", "b", "a"]})
    out = str(tmp_path / "out.csv")
    assert run(["field", str(tmp_path / "ball.ply"), "--values", str(values), "-o", out]) == 2
    assert "--values: expected numbers" in capsys.readouterr().err
