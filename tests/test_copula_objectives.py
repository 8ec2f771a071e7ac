"""The benchmark of copulas learned on several costs: its draws, its figures, that it runs."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import coupledgp as cgp
from coupledgp.couplings import GaussianCopulaNorms, PairwiseNorms

FOLDER = Path(__file__).parents[1] / "benchmarks" / "reproduction"
DIM = 5
needs_files = pytest.mark.skipif(
    not os.environ.get("COUPLEDGP_DATA"),
    reason="COUPLEDGP_DATA is not set: it names the folder that holds uci/*.csv",
)


@pytest.fixture
def script(monkeypatch):
    """Import the script as if from its own folder."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module("copula_objectives")
    for path in FOLDER.glob("*.py"):
        sys.modules.pop(path.stem, None)


def test_draws_follow_their_copula(script, seed):
    """Norms by chi's law, scores with the correlation, blocks independent."""
    correlation = script.pairs(DIM)
    correlation[0, 4] = correlation[4, 0] = 0.0
    draws = np.stack(script.draws_of(correlation, 2 * DIM, [seed], 3000))
    u = stats.chi(DIM).cdf(np.linalg.norm(draws, axis=2))
    assert stats.kstest(u[:, 1], "uniform").pvalue > 1e-8
    np.testing.assert_allclose(u[:, [1, 3]], 1 - u[:, [0, 2]], atol=1e-9)
    scores = stats.norm.ppf(u)
    expected = np.kron(np.eye(2), correlation)
    assert np.abs(scores.T @ scores / 3000 - expected).max() < 6 * np.sqrt(2 / 3000)


def test_draws_share_directions_and_normals(script):
    some = np.array([[1.0, -0.5, 0.3], [-0.5, 1, 0], [0.3, 0, 1]])
    for m in (2, 3, 7):
        first = np.stack(script.draws_of(np.eye(3), m, [4], 3))
        second = np.stack(script.draws_of(some, m, [4], 3))
        near = np.stack(script.draws_of(np.eye(3) + 1e-6 * (some - np.eye(3)), m, [4], 3))
        norms = [np.linalg.norm(w, axis=2, keepdims=True) for w in (first, second)]
        np.testing.assert_allclose(first / norms[0], second / norms[1], atol=1e-12)
        assert np.abs(norms[0] - norms[1])[:, 1:].max() > 0.01
        np.testing.assert_allclose(first, near, atol=1e-5)


@pytest.mark.parametrize("order", [1, 4, 5])
def test_pairs_are_those_of_pnc(script, order):
    u = PairwiseNorms().sample(order, order, np.random.default_rng(0))
    copula = GaussianCopulaNorms(script.pairs(order)).sample(order, order, np.random.default_rng(0))
    for values in (u, copula):
        half = 2 * (order // 2)
        np.testing.assert_allclose(values[1:half:2], 1 - values[:half:2], atol=1e-12)


def test_figures_are_set_against_independent_norms(script):
    figures = [
        {"independent": {"gram": 4.0, "posterior-kl": 2.0, "evidence": -1.0},
         "PM": {"gram": 1.0, "posterior-kl": 1.0, "evidence": 1.0}},
        {"independent": {"gram": 1.0, "posterior-kl": 2.0, "evidence": 3.0},
         "PM": {"gram": 2.25, "posterior-kl": 3.0, "evidence": 5.0}},
    ]  # fmt: skip
    assert script.against_base(figures, "PM", "gram") == pytest.approx((1.0, 0.5))
    assert script.against_base(figures, "PM", "posterior-kl") == pytest.approx((1.0, 0.5))
    assert script.against_base(figures, "PM", "evidence") == pytest.approx((2.0, 0.0))
    assert script.base_level(figures, "gram") == pytest.approx(2.5**0.5)


def test_relative_gram_error_of_wrong_features_is_known(script):
    """All frequencies zero: every entry is one."""
    X = np.random.default_rng(0).normal(size=(6, 2))
    i, j = np.triu_indices(6, 1)
    exact = np.exp(-np.square(X[i] - X[j]).sum(axis=1) / 2)
    zero = script.torch.zeros((3, 2), dtype=script.torch.float64)
    expected = np.square(1 - exact).mean() / np.square(exact).mean()
    assert float(script.relative_gram_loss(X)(zero)) == pytest.approx(expected)


def test_script_runs_on_keys(script, monkeypatch, capsys, tmp_path):
    """Without data sets."""
    path = tmp_path / "figures.json"
    arguments = "--datasets --sets 2 --sizes 16 --steps 1 --draws 2 --json"
    monkeypatch.setattr(script, "TRAINING_SETS", 2)
    monkeypatch.setattr(sys, "argv", ["copula_objectives", *arguments.split(), str(path)])
    script.main()
    printed = capsys.readouterr().out
    assert "measured on gram" in printed
    assert "measured on attention" in printed
    keys = json.loads(path.read_text(encoding="utf-8"))["keys"]
    assert len(keys) == 2
    for case in keys.values():
        assert len(case["figures"]) == 2
        for figures in case["figures"]:
            assert set(figures) == {"independent", "PNC", "PM", "learned on gram",
                                    "learned on attention"}  # fmt: skip
            assert all(value > 0 for costs in figures.values() for value in costs.values())


@needs_files
def test_costs_on_a_table_are_those_of_the_models(script):
    """The KL is the one that the diagnostics of two fitted models give."""
    dim, _, test = script.uci_losses("power", 0)
    X, y, X_test, y_test = script.split("power", 0)
    exact = cgp.ExactGPRegressor(ard=False, random_state=0).fit(X, y)
    gp = cgp.SparseSpectrumGPRegressor(
        n_frequencies=dim, coupling="orthogonal", ard=False, lengthscale=exact.lengthscale_,
        outputscale=exact.outputscale_ / y.var(), noise=exact.noise_ / y.var(), optimizer=None,
        random_state=3,
    ).fit(X, y)  # fmt: skip
    report = cgp.diagnostics.compare(gp, X_test, y_test, reference=exact)
    frequencies = gp.features_.frequencies.double()
    assert float(test["posterior-kl"](frequencies)) == pytest.approx(report.kl_per_point, rel=1e-6)


@needs_files
def test_script_runs_on_a_table(script, monkeypatch, capsys):
    arguments = ["--datasets", "power", "--splits", "2", "--sizes", "--steps", "1", "--draws", "2"]
    monkeypatch.setattr(sys, "argv", ["copula_objectives", *arguments])
    script.main()
    printed = capsys.readouterr().out
    for cost in script.COSTS:
        assert f"measured on {cost}" in printed
        assert f"learned on {cost}" in printed
