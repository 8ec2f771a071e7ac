"""`coupledgp interpolate` as a person uses it: graphs and values in, a law at every node out."""

import json
import re
from pathlib import Path

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import trimesh
from threadpoolctl import threadpool_limits

import coupledgp as cgp
from coupledgp.cli.commands.demo_pages import ESTIMATORS, run_mesh
from coupledgp.couplings import parse_walker_coupling
from coupledgp.couplings.walkers.registry import STEPS
from tests.interpolation import read, write

# A ladder: nodes n0..n19 on one rail, n20..n39 on the other.
RUNGS = 20
ENDS = [
    *((k, k + 1) for k in range(RUNGS - 1)),
    *((RUNGS + k, RUNGS + k + 1) for k in range(RUNGS - 1)),
    *((k, RUNGS + k) for k in range(RUNGS)),
]
NAMES = [f"n{k}" for k in range(2 * RUNGS)]
LENGTHS = [1.0 + (k % 3) for k in range(len(ENDS))]
RNG = np.random.default_rng(3)
VALUES = np.sin(np.arange(2 * RUNGS) % RUNGS / 3) + 0.05 * RNG.normal(size=2 * RUNGS)
QUICK = ["--exact-nodes", "0", "--n-walks", "4"]


def edge_columns(names=NAMES, **more):
    return {"source": [names[a] for a, _ in ENDS], "target": [names[b] for _, b in ENDS], **more}


@pytest.fixture
def edges(tmp_path):
    return write(tmp_path / "edges.csv", edge_columns())


@pytest.fixture
def values(tmp_path):
    """Table with a value for every second node, and one row without a value."""
    observed = {"node": [*NAMES[::2], "n1"], "value": [*VALUES[::2], ""]}
    return write(tmp_path / "values.csv", observed)


@pytest.fixture
def mesh(tmp_path):
    path = tmp_path / "ball.ply"
    trimesh.creation.icosphere(subdivisions=1).export(path)
    return path


def test_the_law_written_is_that_of_the_estimator(edges, values, tmp_path, call):
    call(edges, "--values", values, "-o", tmp_path / "out.csv", *QUICK, "--exact-hops", "2")
    out = read(tmp_path / "out.csv")
    assert sorted(out["node"]) == sorted(NAMES)
    graph = cgp.Graph.from_edges(*edge_columns().values(), labels=out["node"])
    gp = cgp.GraphGPRegressor(graph, n_walks=4, exact_hops=2, random_state=0)
    gp.fit(NAMES[::2], VALUES[::2])
    mean, std = gp.predict(out["node"], return_std=True)
    np.testing.assert_allclose(np.array(out["mean"], float), mean, rtol=1e-10)
    np.testing.assert_allclose(np.array(out["std"], float), std, rtol=1e-10)
    call(edges, "--values", values, "-o", tmp_path / "f.csv", *QUICK, "--exact-hops", 2, "--latent")
    latent = np.array(read(tmp_path / "f.csv")["std"], float)
    np.testing.assert_allclose(np.square(std) - np.square(latent), gp.noise_, rtol=1e-6)


def test_json_says_what_was_done(edges, values, tmp_path, call):
    arguments = [edges, "--values", values, "--holdout", "0.25", "-o", tmp_path / "out.csv"]
    result = json.loads(call(*arguments, "--json", "--exact-nodes", "3", "--method", "walks"))
    assert result["graph"] | {"kind": ""} == {
        "kind": "", "n_nodes": 40, "n_edges": len(ENDS), "n_components": 1, "n_isolated": 0,
        "n_nodes_beyond_data": 0,
    }  # fmt: skip
    assert (result["data"]["n_observed"], result["data"]["n_hidden"]) == (15, 5)
    assert result["scores"]["n_hidden"] == 5
    assert result["comparison"]["n_test"] == 3
    assert 0 <= result["comparison"]["kl_per_point"] < 1e-2
    assert result["exact_hops"]["reason"]
    # A fit of nothing would do no better than the spread of the values.
    assert result["scores"]["rmse"] < 0.6 * np.std(VALUES)


def test_hidden_values_do_not_reach_the_fit(edges, tmp_path, call):
    """Predictions do not depend on the hidden values."""
    laws = []
    hidden = None
    for shift in (0.0, 100.0):
        changed = VALUES.copy()
        if hidden is not None:
            changed[hidden] += shift
        table = write(tmp_path / f"v{shift}.csv", {"node": NAMES, "value": changed})
        out = tmp_path / f"out{shift}.csv"
        call(edges, "--values", table, "--holdout", "0.2", "-o", out, *QUICK)
        laws.append(read(out))
        hidden = np.random.default_rng(0).permutation(40)[:8]
        hidden = [NAMES.index(laws[0]["node"][k]) for k in hidden]
    assert laws[0] == laws[1]


@pytest.mark.parametrize("column", ["length", "length_m", "metres"])
def test_lengths_become_weights_by_the_rule_for_roads(column, values, tmp_path, call):
    more = {column: LENGTHS}
    table = write(tmp_path / "roads.csv", edge_columns(**more))
    option = ["--length", column] if column == "metres" else []
    call(table, "--values", values, "-o", tmp_path / "a.csv", *QUICK, *option)
    weights = np.mean(LENGTHS) / np.array(LENGTHS)
    other = write(tmp_path / "weights.csv", edge_columns(weight=weights))
    call(other, "--values", values, "-o", tmp_path / "b.csv", *QUICK)
    assert read(tmp_path / "a.csv") == read(tmp_path / "b.csv")
    plain = write(tmp_path / "plain.csv", edge_columns())
    call(plain, "--values", values, "-o", tmp_path / "c.csv", *QUICK)
    assert read(tmp_path / "a.csv") != read(tmp_path / "c.csv")


def test_labels_are_kept_as_written(tmp_path, call):
    """007 is no number, and large numbers make no large graph."""
    for names, kind in (
        ([f"{k:03d}" for k in range(40)], "csv"),
        ([str(10**12 + 7 * k) for k in range(40)], "csv"),
        ([5 * k for k in range(40)], "parquet"),
    ):
        table, observed = edge_columns(names), {"node": names[::2], "value": list(VALUES[::2])}
        if kind == "csv":
            graph = write(tmp_path / "e.csv", table)
            given = write(tmp_path / "v.csv", observed)
        else:
            graph, given = tmp_path / "e.parquet", tmp_path / "v.parquet"
            pa.parquet.write_table(pa.table(table), graph)
            pa.parquet.write_table(pa.table(observed), given)
        out = tmp_path / f"out.{kind}"
        call(graph, "--values", given, "-o", out, *QUICK)
        found = read(out)["node"] if kind == "csv" else pa.parquet.read_table(out)["node"]
        found = found if kind == "csv" else found.to_pylist()
        assert sorted(found) == sorted(names)


def test_graphml_and_gml_with_positions(values, tmp_path, call):
    pages = []
    for kind, writer in (("graphml", nx.write_graphml), ("gml", nx.write_gml)):
        graph = nx.Graph()
        for k, name in enumerate(NAMES):
            graph.add_node(name, x=float(k % RUNGS), y=float(k // RUNGS))
        graph.add_weighted_edges_from(
            (NAMES[a], NAMES[b], w) for (a, b), w in zip(ENDS, LENGTHS, strict=True)
        )
        writer(graph, tmp_path / f"g.{kind}")
        page = tmp_path / f"{kind}.html"
        arguments = ["-o", tmp_path / f"{kind}.csv", "--report", page, "--n-walks", "4"]
        call(tmp_path / f"g.{kind}", "--values", values, *arguments)
        pages.append(page.read_text())
    assert read(tmp_path / "graphml.csv") == read(tmp_path / "gml.csv")
    for page in pages:
        assert "observed ones are circled" in page
        assert page.count("data:image/png") >= 2
        assert not re.search(r'(src|href)="http', page)


@pytest.mark.parametrize("nodes", ["faces", "vertices"])
def test_a_mesh_tests_itself_and_is_coloured(nodes, mesh, tmp_path, call):
    arguments = ["--signal", "normal-z", "--holdout", "0.1", "--nodes", nodes, "--json"]
    out = tmp_path / "law.ply"
    page = tmp_path / "page.html"
    result = json.loads(call(mesh, *arguments, "-o", out, "--report", page))
    n = 80 if nodes == "faces" else 42
    assert result["graph"]["n_nodes"] == n
    assert result["data"]["n_hidden"] == round(0.1 * n)
    assert result["scores"]["rmse"] < 0.25  # the signal has a spread of 0.58
    assert result["comparison"]["kl_per_point"] < 1e-2
    call(mesh, *arguments, "-o", tmp_path / "law.csv", "--exact-nodes", "0")
    law = read(tmp_path / "law.csv")
    coloured = trimesh.load(out, process=False)
    element = "face" if nodes == "faces" else "vertex"
    properties = coloured.metadata["_ply_raw"][element]["data"]
    for name in ("mean", "std"):
        np.testing.assert_allclose(properties[name].ravel(), np.array(law[name], float), rtol=1e-9)
    mean = np.array(law["mean"], float)
    visual = coloured.visual
    greens = (visual.face_colors if nodes == "faces" else visual.vertex_colors)[:, 1].astype(int)
    assert (np.diff(greens[np.argsort(mean)]) >= -1).all()  # viridis: more is greener
    assert "lightly shaded" in page.read_text()


def test_the_evidence_chooses_the_weights_of_faces(tmp_path, call, fails):
    # Faces that grow from one end to the other by far: distances matter.
    ball = trimesh.creation.capsule(height=2.0, radius=1.0, count=[12, 12])
    ball.vertices[:, 2] = np.exp(1.5 * ball.vertices[:, 2])
    ball.export(tmp_path / "ball.ply")
    mesh = trimesh.load(tmp_path / "ball.ply")
    arguments = [tmp_path / "ball.ply", "--signal", "normal-z", *QUICK, "--json"]
    out = tmp_path / "law.csv"
    evidences, laws = {}, {}
    for weights in ("unit", "inverse-distance", "auto"):
        found = json.loads(call(*arguments, "-o", out, "--face-weights", weights))
        evidences[weights], laws[weights] = found["fitted"]["log_evidence"], read(out)["mean"]
        chosen = found["face_weights"]
    best = max(("unit", "inverse-distance"), key=evidences.__getitem__)
    assert chosen["chosen"] == best
    assert chosen["log_evidences"][best] == evidences["auto"]
    assert evidences["auto"] == pytest.approx(evidences[best], rel=1e-9)
    means = (np.array(laws[weights], float) for weights in ("auto", best))
    np.testing.assert_allclose(*means, atol=1e-6)
    graph = cgp.Graph.from_trimesh(mesh, "faces", best)
    assert found["graph"]["n_edges"] == graph.n_edges
    text = call(*arguments[:-1], "-o", out)
    assert "weights of links" in text
    assert "--face-weights: expected it for the faces of a mesh only" in fails(
        *arguments, "-o", out, "--nodes", "vertices", "--face-weights", "unit"
    )
    assert "--face-weights: expected one of" in fails(
        *arguments, "-o", out, "--face-weights", "area"
    )


def test_vertices_are_numbered_as_in_the_file(tmp_path, call):
    """Vertices that no face uses, or at the same place, keep their numbers."""
    ball = trimesh.creation.icosphere(subdivisions=1)
    lone = np.concatenate([[[9.0, 9.0, 9.0]], ball.vertices])
    path = tmp_path / "lone.ply"
    trimesh.Trimesh(lone, ball.faces + 1, process=False).export(path)
    given = write(tmp_path / "v.csv", {"node": range(1, 43), "value": ball.vertices[:, 2]})
    arguments = [path, "--values", given, "--nodes", "vertices", *QUICK, "--keep-isolated"]
    call(*arguments, "-o", tmp_path / "out.csv")
    mean = np.array(read(tmp_path / "out.csv")["mean"], float)
    assert mean.size == 43
    assert np.corrcoef(mean[1:], ball.vertices[:, 2])[0, 1] > 0.95
    assert mean[0] == pytest.approx(ball.vertices[:, 2].mean())  # the prior


def test_parts_without_data_are_counted(values, tmp_path, call):
    names = [*NAMES, "far", "away"]
    table = edge_columns(names)
    table["source"].append("far")
    table["target"].append("away")
    graph = write(tmp_path / "parts.csv", table)
    out = call(graph, "--values", values, "-o", tmp_path / "out.csv", *QUICK)
    rows = {line[:30].strip(): line.split()[-1] for line in out.splitlines() if line.strip()}
    assert rows["components"] == "2"
    assert rows["nodes no data reach (prior)"] == "2"


def test_the_table_for_people(edges, values, tmp_path, call):
    arguments = ["--values", values, "--holdout", "0.2", "-o", tmp_path / "out.csv"]
    out = call(edges, *arguments, "--exact-nodes", "2", "--method", "walks")
    for text in (
        "edges.csv: 40 nodes, 58 edges; values of values.csv: 16 observed, 4 hidden",
        "HeatKernel(time=", "log evidence", "exact hops", "predicted", "truncated of the walks",
        "RMSE", "coverage of 95 %", "at 2 of 4 hidden nodes", "KL(reference || model)",
        "nats per point", "Time: fit", "std is that of observations",
    ):  # fmt: skip
        assert text in out, text


def test_wrong_tables(edges, values, tmp_path, fails):
    out = ["-o", tmp_path / "out.csv"]

    def told(graph=edges, given=values, *more):
        return fails(graph, "--values", given, *out, *more)

    stray = write(tmp_path / "stray.csv", {"node": ["n0", "zz"], "value": [1, 2]})
    assert "stray.csv: column 'node', data row 2: expected one of the 40 nodes" in told(
        edges, stray
    )
    assert "got 'zz'" in told(edges, stray)
    blank = write(tmp_path / "blank.csv", {"node": ["n0", "n1"], "value": ["", "NaN"]})
    assert "blank.csv: expected a number in column 'value' somewhere" in told(edges, blank)
    words = write(tmp_path / "words.csv", {"node": ["n0", "n1"], "value": ["1", "high"]})
    assert "words.csv: column 'value', data row 2: expected a number, got 'high'" in told(
        edges, words
    )
    two = write(tmp_path / "two.csv", {"node": ["n0"], "a": [1], "b": [2]})
    assert "--target" in told(edges, two)
    negative = write(tmp_path / "negative.csv", edge_columns(weight=[-1.0, *LENGTHS[1:]]))
    assert "negative.csv: weights: expected finite numbers > 0, got edge 'n0'-'n1'" in told(
        negative
    )
    loose = edge_columns([*NAMES])
    loose["source"][3] = ""
    assert "data row 4: expected a node" in told(write(tmp_path / "loose.csv", loose))
    both = write(tmp_path / "both.csv", edge_columns(weight=LENGTHS, length=LENGTHS))
    assert "--weight, --length" in told(both)
    assert "source" in told(write(tmp_path / "none.csv", {"a": [1], "b": [2]}))


def test_wrong_graphs(edges, values, mesh, tmp_path, fails):
    out = ["-o", tmp_path / "out.csv"]
    lonely = nx.Graph([("n0", "n2")])
    lonely.add_node("n1")
    nx.write_graphml(lonely, tmp_path / "lonely.graphml")
    given = write(tmp_path / "v.csv", {"node": ["n0", "n2"], "value": [1, 2]})
    told = fails(tmp_path / "lonely.graphml", "--values", given, *out)
    assert "neither for 'n1'" in told
    bad = tmp_path / "bad.graphml"
    bad.write_text("<graphml")
    assert "bad.graphml: expected graphml" in fails(bad, "--values", values, *out)
    broken = tmp_path / "broken.stl"
    broken.write_text("solid nothing")
    assert "broken.stl" in fails(broken, "--signal", "normal-z", *out)
    assert "gone.csv" in fails(tmp_path / "gone.csv", "--values", values, *out)
    assert ".graphml" in fails(tmp_path / "x.docx", "--values", values, *out)


def test_wrong_options(edges, values, mesh, tmp_path, fails):
    out = ["-o", tmp_path / "out.csv"]
    assert "--values, --signal" in fails(edges, *out)
    assert "--values, --signal" in fails(mesh, "--signal", "normal-z", "--values", values, *out)
    assert "needs a mesh" in fails(edges, "--signal", "normal-z", *out)
    assert "--signal: expected one of" in fails(mesh, "--signal", "height", *out)
    assert "--holdout: expected a share" in fails(edges, "--values", values, "--holdout", "1", *out)
    assert "--output" in fails(edges, "--values", values, "-o", tmp_path / "out.txt")
    assert "a .ply needs a mesh" in fails(edges, "--values", values, "-o", tmp_path / "out.ply")
    assert "--output: expected a path of its own" in fails(edges, "--values", values, "-o", edges)
    assert "--nodes" in fails(edges, "--values", values, "--nodes", "vertices", *out)
    assert "--set exact_hops" in fails(edges, "--values", values, "--exact-hops", "few", *out)
    assert "kernel: expected one of" in fails(edges, "--values", values, "--kernel", "hot", *out)
    assert "coupling" in fails(edges, "--values", values, "--coupling", "loose", *out)


def test_walker_couplings_of_the_documentation_exist():
    page = (Path(__file__).parents[1] / "docs" / "couplings.md").read_text(encoding="utf-8")
    section = page.split("## Walkers")[1].split("\n#")[0]
    names = dict(reversed(row) for row in re.findall(r"^\| (\w+) \| `(.*?)` \|", section, re.M))
    assert set(names) >= {*STEPS, "iid", "antithetic", "sigma", "stratified"}
    for name, part in names.items():
        parse_walker_coupling(name if part == "lengths" else f"iid+{name}")


def test_the_mesh_of_the_demo():
    with threadpool_limits(1):  # as the demo does
        study = run_mesh(n_draws=1, seed=0)
    rows = {row["estimator"]: row for row in study.to_dict()["rows"]}
    assert set(rows) == set(ESTIMATORS)
    defaults, papers = rows.values()
    assert defaults["kl_per_point"] < 1e-2 < papers["kl_per_point"]
    assert defaults["rmse"] < 1.02 * study.exact_rmse
    assert study.data["n_hidden"] == 64
    assert [len(row) for row in study.table().rows] == [3, 3, 3]
    assert np.corrcoef(study.law[0], study.network.normal_z())[0, 1] > 0.99
