"""The reproductions: their statistics, their options, and that scripts run."""

from __future__ import annotations

import csv
import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from coupledgp.errors import InvalidInputError
from coupledgp.graphs import Graph
from coupledgp.kernels import HeatKernel
from tests.registries import REGISTRIES, forgotten

FOLDER = Path(__file__).parents[1] / "benchmarks" / "reproduction"


@pytest.fixture
def script(monkeypatch):
    """Import a script by name, as if from its own folder."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module
    for path in FOLDER.glob("*.py"):
        sys.modules.pop(path.stem, None)


def run(script, monkeypatch, capsys, name, *arguments):
    """Call a script's main and return what it prints."""
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    script(name).main()
    return capsys.readouterr().out


def random_graph(n_nodes, seed):
    rng = np.random.default_rng(seed)
    rows, columns = np.triu_indices(n_nodes, 1)
    linked = rng.random(rows.size) < 6 / n_nodes
    path = np.arange(n_nodes - 1)
    return Graph.from_edges(
        np.concatenate([rows[linked], path]), np.concatenate([columns[linked], path + 1])
    )


def test_error_of_a_ratio_is_its_spread(script, rng):
    common = script("graph_common")
    repeats, draws = 2000, 100
    shared = rng.gamma(8.0, size=(repeats, draws))
    squares, base = shared + rng.gamma(2.0, size=shared.shape), shared + 1.0
    found = np.array([common.root_ratio(a, b) for a, b in zip(squares, base, strict=True)])
    # The spread of 2000 values is known to 1.6 %, the mean of their errors better.
    assert found[:, 0].std() == pytest.approx(found[:, 1].mean(), rel=0.12)
    assert found[:, 0].mean() == pytest.approx(np.sqrt(10 / 9), abs=5e-3)


def test_probed_error_agrees_with_the_whole_matrix(script, seed):
    common = script("graph_common")
    target = common.Target(random_graph(300, 0), HeatKernel(1.0))
    walks = common.sample_walks(target.graph, 4, 0.3, "iid", generator=seed, max_length=20)
    phi = walks.features(target.series)
    whole = np.linalg.norm((phi @ phi.T).toarray() - target.K) ** 2 / target.squared_norm
    probed = [
        target.squared_error(phi, V, target.K @ V)
        for V in (target.probes(seed + draw) for draw in range(30))
    ]
    error = np.std(probed, ddof=1) / np.sqrt(len(probed))
    assert abs(np.mean(probed) - whole) < 5 * error
    assert error < 0.05 * whole


def test_hops_to_the_end_of_the_series_leave_no_error(script):
    common = script("graph_common")
    target = common.Target(random_graph(40, 1), HeatKernel(1.0))
    few = common.hop_errors(target, 4, 0.3, "iid", 1, "power", range(3))
    many = common.hop_errors(target, 4, 0.3, "iid", 16, "power", range(3))
    assert (few > 1e-6).all()
    assert (many < 1e-12).all()


def test_draws_are_seeded(script):
    common = script("graph_common")
    targets = {"heat": common.Target(random_graph(40, 1), HeatKernel(1.0))}
    couplings = {"iid": "iid", "sigma": "sigma"}
    first = common.coupling_errors(targets, 2, 0.3, couplings, range(4))
    again = common.coupling_errors(targets, 2, 0.3, couplings, range(4))
    for key, values in first.items():
        assert (values == again[key]).all()
        assert np.unique(values).size == 4


def test_cayley_distance_counts_transpositions(script):
    distance = script("sigma_objectives").cayley_distance
    identity = np.arange(6)
    assert distance(identity, identity) == 0
    assert distance(identity, np.array([1, 0, 2, 3, 4, 5])) == 1
    assert distance(np.array([1, 0, 2, 3, 4, 5]), np.roll(identity, 1)) in (4, 6)
    assert distance(identity, np.roll(identity, 1)) == 5


def test_digits_follow_the_error(script):
    common = script("graph_common")
    assert common.with_error(0.98765, 0.0123) == "0.988 (0.012)"
    assert common.with_error(13.5466, 0.21) == "13.55 (0.21)"
    assert common.with_error(2.5e-6, 1e-7) == "2.50e-06 (1e-07)"
    assert common.n_errors(-0.3, 0.1) == "-3.0"


@pytest.mark.parametrize(
    ("name", "arguments", "n_rows"),
    [
        ("walk_errors", "--graphs karate --walks 2 --draws 4", 3 * (4 + 3)),
        ("community_graphs", "--graphs karate --work 1", 5),
        ("pagerank_errors", "--graphs karate --repeats 20 --halts 0.5", 1),
        ("sigma_objectives", "--graph karate --orders 3 4 --halts 0.3 --draws 3", 2),
    ],
)
def test_scripts_run(script, monkeypatch, capsys, tmp_path, name, arguments, n_rows):
    path = tmp_path / "figures.jsonl"
    printed = run(script, monkeypatch, capsys, name, *arguments.split(), "--json", str(path))
    rows = [line for line in printed.splitlines() if line.startswith("| ")]
    headers = [line for line in printed.splitlines() if line.startswith("|---")]
    assert len(rows) - len(headers) == n_rows
    for line in path.read_text(encoding="utf-8").splitlines():
        ratio = json.loads(line).get("ratio", 1.0)
        assert 0 < ratio < 3


# A coupling of a user's own, as --register takes it.
OWN = """
from dataclasses import dataclass
import numpy as np
from coupledgp.couplings import Lengths, Norms, StratifiedLengths, register_lengths, register_norms

@dataclass(frozen=True)
class EvenNorms(Norms):
    def sample(self, n, block_size, rng):
        u = (rng.uniform() + np.arange(n) / n) % 1.0
        return np.clip(u, 2**-53, 1 - 2**-53)

@dataclass(frozen=True)
class Own(StratifiedLengths):
    pass

def register():
    register_norms("even", EvenNorms)
    register_lengths("own", Own)
"""


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A table with a column of categories and its target in the middle, and a module `own`."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own.py").write_text(OWN, encoding="utf-8")
    rng = np.random.default_rng(0)
    x, kind = rng.normal(size=60), rng.choice(["flat", "house"], 60)
    y = np.sin(x) + 0.1 * rng.normal(size=60)
    lines = [f"{a},{b},{c},{d}" for a, b, c, d in zip(x, y, kind, x**2, strict=True)]
    path = tmp_path / "homes.csv"
    path.write_text("\n".join(["x,price,kind,z", *lines]) + "\n", encoding="utf-8")
    with forgotten(*REGISTRIES):
        yield path
    sys.modules.pop("own", None)


@pytest.mark.parametrize(
    ("name", "arguments", "couplings", "n_figures"),
    [
        (
            "uci_couplings",
            "--jobs 1 --features fourier --data TABLE --target price",
            "frequencies",
            3,
        ),
        ("attention_errors", "", "frequencies", 4),
        ("couplings_by_size", "--data TABLE --target price", "frequencies", 3),
        ("optimal_sampling", "--frequencies 2 --data TABLE --target price", "frequencies", 1),
        ("kernel_regression", "--data TABLE --target kind", "frequencies", 1),
        ("walk_errors", "--graphs karate", "walkers", 1),
        ("community_graphs", "--graphs karate", "walkers", 1),
        ("pagerank_errors", "--graphs karate", "walkers", 1),
        ("sigma_objectives", "--graph karate", "walkers", 1),
    ],
)
def test_couplings_of_ones_own_in_every_comparison(
    script, monkeypatch, capsys, tmp_path, table, name, arguments, couplings, n_figures
):
    own = {"frequencies": "orthogonal+even", "walkers": "own"}[couplings]
    beside = {"frequencies": "orthogonal", "walkers": "stratified"}[couplings]
    paths = [str(tmp_path / f"out{ending}") for ending in (".csv", ".tex")]
    printed = run(
        script, monkeypatch, capsys, name, "--quick", "--register", "own:register",
        *arguments.replace("TABLE", str(table)).split(), "--couplings", beside, own,
        "--output", *paths,
    )  # fmt: skip
    assert own in printed
    with open(paths[0], encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert len(rows[0]) == 4 + n_figures
    of = {text: [row for row in rows[1:] if row[1] == text] for text in {r[1] for r in rows[1:]}}
    assert own in of
    # Draws of a seed stand beside each other for every coupling.
    keys = [{(row[0], row[2], row[3]) for row in found} for found in of.values()]
    assert all(key == keys[0] for key in keys)
    assert np.isfinite([float(row[4]) for row in rows[1:]]).all()
    assert "toprule" in Path(paths[1]).read_text(encoding="utf-8")


def test_options_refuse_at_once(script, monkeypatch, capsys, table):
    for arguments, message in (
        (["--register", "own:nothing"], "--register: expected MODULE:FUNCTION"),
        (["--register", "no_module:nothing"], "--register: expected MODULE:FUNCTION"),
        (["--output", "a.docx"], "--output: expected .csv"),
    ):
        with pytest.raises(SystemExit):
            run(script, monkeypatch, capsys, "attention_errors", *arguments)
        assert message in capsys.readouterr().err
    with pytest.raises(InvalidInputError, match="--couplings: expected one of"):
        run(script, monkeypatch, capsys, "attention_errors", "--couplings", "nothing")


def test_tables_are_read_with_their_categories(script, table):
    X, y = script("study_options").read_table(table, "price")
    assert X.shape == (60, 4)
    np.testing.assert_array_equal(X[:, 1] + X[:, 2], np.ones(60))
    assert y.std() > 0.1
    with pytest.raises(SystemExit, match="--target: expected one of"):
        script("study_options").read_table(table, "cost")


def test_results_are_those_of_a_study(script, tmp_path):
    """Tables, tests and figures of draws that are known."""
    results = script("study_options").Results("m", ("kl_per_point", "other"))
    near = 1 + np.arange(6) / 10
    for seed, value in enumerate(near):
        results.add("one", "near", 8, seed, value, 1.0)
        results.add("one", "far", 8, seed, value + 2, 1.0)
    pair = results.study("one").paired("kl_per_point").iloc[0]
    assert pair.difference == pytest.approx(-2)
    assert pair.p_t < 1e-10
    assert r"near & $\mathbf{1.250}" in results.latex("one")
    results.write([tmp_path / "f.svg", tmp_path / "f.csv"])
    assert (tmp_path / "f-one-kl-per-point.svg").stat().st_size > 1000
    assert len((tmp_path / "f.csv").read_text().splitlines()) == 13


def test_ranks_of_right_draws_are_uniform_and_of_narrow_ones_are_not(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER.parent))
    script = importlib.import_module("simulation_based_calibration")

    def simulate(rng):
        mu = rng.normal()
        return {"mu": mu}, mu + rng.normal()

    def draws(width):
        return lambda x, n, rng: {"mu": x / 2 + width * np.sqrt(0.5) * rng.normal(size=n)}

    right, narrow = [script.ranked(simulate, draws(w), 300, 0) for w in (1.0, 0.6)]
    assert script.p_values(right, 0)["mu"] > 1e-3
    assert script.p_values(narrow, 0)["mu"] < 1e-3
    share, error = script.coverage(right["mu"], 0.8)
    assert abs(share - 0.8) < 4 * error
    share, error = script.coverage(narrow["mu"], 0.8)
    assert share < 0.8 - 4 * error
    sys.modules.pop("simulation_based_calibration")


def test_mesh_protocols_run(script, monkeypatch, capsys, tmp_path):
    path = tmp_path / "figures.jsonl"
    common = ["--names", "icosphere", "--json", str(path)]
    run(script, monkeypatch, capsys, "mesh_and_traffic", "--protocol", "frozen", "--draws", "2",
        "--methods", "iid", "defaults", *common)  # fmt: skip
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    kl = {r["method"]: r["mean"] for r in records if r["what"] == "kl" and r["n_walks"] == 16}
    assert 0 <= kl["defaults"] < kl["iid"]


def test_best_exact_model_is_that_of_most_evidence_in_its_split(script):
    ratios = script("mesh_and_traffic").add_ratios
    rows = [
        {"data": "a", "split": 0, "method": "exact heat", "rmse": 2.0, "evidence": 5.0},
        {"data": "a", "split": 0, "method": "exact matern", "rmse": 1.0, "evidence": 4.0},
        {"data": "a", "split": 0, "method": "defaults", "rmse": 3.0, "evidence": 9.0},
        {"data": "a", "split": 1, "method": "exact heat", "rmse": 8.0, "evidence": 6.0},
    ]
    found = {(row["split"], row["method"]): row for row in ratios(rows)}
    assert [key for key, row in found.items() if row["best"]] == [
        (0, "exact heat"),
        (1, "exact heat"),
    ]
    assert found[0, "defaults"]["rmse_ratio"] == 1.5
    assert found[0, "defaults"]["rmse_over_lowest"] == 3.0
    assert found[1, "exact heat"]["rmse_ratio"] == 1.0
