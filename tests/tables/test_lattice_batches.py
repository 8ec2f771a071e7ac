"""Kriging in passes over batches, by addition, and without the rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import coupledgp as cgp
from coupledgp.errors import CoupledGPError, InvalidInputError
from coupledgp.tables import lattice_kernels
from coupledgp.tables import lattice_regressor as lattice
from coupledgp.tables import lattice_search as rows_of_lattices
from coupledgp.tables import lattice_system as system

N = 3000
rng = np.random.default_rng(0)
X = rng.uniform(0, 10, (N, 2))
Y = np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.1 * rng.normal(size=N) + 20.0
POINTS = rng.uniform(0, 10, (20, 2))


@pytest.fixture(autouse=True)
def little_memory(monkeypatch):
    """Tables of more than 1000 rows are gone through in passes, in blocks of 700 rows."""
    monkeypatch.setattr(lattice, "SAMPLE_ROWS", 1000)
    monkeypatch.setattr(rows_of_lattices, "SAMPLE_ROWS", 1000)
    monkeypatch.setattr(rows_of_lattices, "SUM_ROWS", 700)
    monkeypatch.setattr(lattice_kernels, "FIRST_ROWS", 800)


def model(kernel="gaussian", **options):
    return cgp.LatticeGPRegressor(kernel, random_state=0, **options)


def cut(size, *parts):
    return [tuple(part[k : k + size] for part in parts) for k in range(0, N, size)]


def laws(gp):
    return np.array(gp.predict(POINTS, return_std=True))


@pytest.mark.parametrize("drawn", [False, pytest.param(True, marks=pytest.mark.long)])
def test_the_fit_is_that_of_the_rows_in_memory(drawn, monkeypatch):
    """Lattice, steps and draws are the same; with a small block variances are drawn."""
    if drawn:
        monkeypatch.setattr(system.LatticeSystem.of.__func__, "__defaults__", (None, 101))
    whole = model().fit(X, Y)
    parts = model().fit_batches(cut(777, X, Y))
    assert bool(parts.std_error_) == drawn
    np.testing.assert_allclose(parts.lengthscale_, whole.lengthscale_, rtol=1e-8)
    np.testing.assert_allclose(parts.noise_, whole.noise_, rtol=1e-8)
    np.testing.assert_allclose(laws(parts), laws(whole), rtol=1e-6)
    assert parts.n_waves_ == whole.n_waves_
    np.testing.assert_allclose(
        parts.sample_y(POINTS, 3, random_state=1), whole.sample_y(POINTS, 3, random_state=1),
        rtol=1e-5,
    )  # fmt: skip
    assert parts.forecast_ > 0
    with pytest.raises(CoupledGPError, match="keep_rows"):
        _ = parts.X_train_
    again = model().fit_batches(cut(1000, X, Y))
    np.testing.assert_array_equal(laws(again), laws(parts))


@pytest.mark.long
def test_kernels_are_chosen_by_the_same_rows():
    whole, parts = model("auto").fit(X, Y), model("auto").fit_batches(cut(500, X, Y))
    assert parts.kernel_ == whole.kernel_
    for own, known in zip(parts.choice_, whole.choice_, strict=True):
        assert own.kernel == known.kernel
        assert own.log_density == pytest.approx(known.log_density, abs=1e-6)


def test_weights_and_further_columns_come_along():
    table = pd.DataFrame({
        "east": X[:, 0], "north": X[:, 1], "depth": np.sin(np.arange(N)), "z": Y,
        "w": 1.0 + np.arange(N) % 3,
    })  # fmt: skip
    table["z"] += 2 * table.depth
    parts = model(places=["east", "north"])
    parts.fit_batches(cut(700, table[["east", "north", "depth"]], table.z, table.w))
    whole = model(places=["east", "north"])
    whole.fit(table[["east", "north", "depth"]], table.z, sample_weight=table.w)
    np.testing.assert_allclose(parts.noise_, whole.noise_, rtol=1e-7)
    rows = table[["east", "north", "depth"]].iloc[:9]
    np.testing.assert_allclose(parts.predict(rows), whole.predict(rows), rtol=1e-7)


def test_further_rows_join_without_the_first_ones(tmp_path):
    """Sums of the parts add up, also in a model of a file, and give what all rows give."""
    first, rest = slice(0, 2000), slice(2000, N)
    given = {"optimizer": None, "lengthscale": 2.0, "noise": 0.02}
    start = model(**given, options={"keep_rows": False}).fit(X[first], Y[first])
    start.save(tmp_path / "first.gp")
    joined = cgp.load_model(tmp_path / "first.gp").partial_fit(X[rest], Y[rest])
    kept = model(**given).fit(X[first], Y[first]).partial_fit(X[rest], Y[rest])
    np.testing.assert_allclose(laws(joined), laws(kept), rtol=1e-9)
    assert len(kept.process_.data) == N
    scale = np.square(kept.process_.units.scale[0])
    whole = model(
        optimizer=None, lengthscale=2.0, noise=kept.noise_ / scale,
        outputscale=kept.outputscale_ / scale,
    ).fit(X, Y)  # fmt: skip
    np.testing.assert_allclose(laws(kept), laws(whole), rtol=1e-6)
    with pytest.raises(InvalidInputError, match="places near the box"):
        joined.partial_fit(X[:9] + 100.0, Y[:9])


def test_budgets_hold():
    with pytest.raises(InvalidInputError, match="budget: the fit takes about"):
        model().fit_batches(cut(500, X, Y), budget="0.001s")
    with pytest.raises(InvalidInputError, match="target_transform: expected None for batches"):
        model(target_transform="log").fit_batches(cut(500, X, Y))


def test_rows_of_a_fit_are_kept_where_they_are_asked_for():
    kept = model(options={"keep_rows": True}).fit_batches(cut(500, X, Y))
    np.testing.assert_array_equal(kept.X_train_, X)
    assert np.isfinite(kept.process_.left_out(np.arange(N) // 10).mean).all()
