"""Laws on grids: those of rows, for mixtures, transformed targets and likelihoods."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import coupledgp as cgp
from coupledgp.errors import InvalidInputError
from tests.core.few_steps import search_little
from tests.often import often

rng = np.random.default_rng(0)
X = pd.DataFrame({"east": rng.uniform(0, 3, 120), "north": rng.uniform(0, 3, 120)})
F = np.sin(2 * X.east) + 0.3 * X.north
NOISE = rng.normal(size=120)
AXES = {"north": [0.5, 1.0, 2.0], "east": [0.1, 2.9]}
MODELS = {
    "mixture": (cgp.GPRegressor("exact", random_state=0), F + 0.1 * NOISE, True),
    "transformed": (
        cgp.ExactGPRegressor(target_transform="log"), np.exp(F + 0.3 * NOISE), False,
    ),
    "lattice, transformed": (
        cgp.LatticeGPRegressor("gaussian", target_transform="log", random_state=0),
        np.exp(F + 0.3 * NOISE), False,
    ),
    "counts": (
        cgp.GPRegressor(likelihood="poisson", random_state=0), rng.poisson(np.exp(F + 1)), False,
    ),
    "two outputs": (cgp.ExactGPRegressor(), np.column_stack([F, -2 * F]) + 0.1 * NOISE[:, None],
                    True),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _small_searches(monkeypatch):
    """Searches of few rows and steps: the tests are about the answers of their results."""
    search_little(monkeypatch)


@pytest.mark.parametrize("name", often(MODELS, *(set(MODELS) - {"mixture"})))
def test_grids_hold_the_laws_of_rows(name):
    model, y, of_f = MODELS[name]
    model.fit(X, y)
    grid = model.predict_grid(AXES, return_std=True, level=0.8)
    assert grid["mean"].dims[:2] == ("north", "east")
    rows = pd.DataFrame([(e, n) for n in AXES["north"] for e in AXES["east"]], columns=X.columns)
    mean, std = model.predict(rows, return_std=True, latent=of_f)
    lower, upper = model.predict_interval(rows, 0.8)
    for key, wanted in (("mean", mean), ("std", std), ("lower", lower), ("upper", upper)):
        found = grid[key].to_numpy().reshape(wanted.shape)
        np.testing.assert_allclose(found, wanted, rtol=1e-9, err_msg=key)
    assert set(model.predict_grid(AXES)) == {"mean"}
    other = model.predict_grid(AXES, latent=not of_f, return_std=True)
    assert (np.abs(other["std"] / grid["std"] - 1) > 1e-3).all()


def test_grids_hold_chances_of_classes(monkeypatch):
    labels = np.array(["low", "high", "peak"])[np.digitize(F, [0.2, 1.0])]
    model = cgp.GPClassifier(random_state=0).fit(X, labels)
    grid = model.predict_grid(AXES)
    assert grid["chance"].dims == ("north", "east", "class")
    rows = pd.DataFrame([(e, n) for n in AXES["north"] for e in AXES["east"]], columns=X.columns)
    chances = model.predict_proba(rows)
    np.testing.assert_array_equal(grid["chance"].to_numpy().reshape(6, 3), chances)
    assert grid["class"].to_numpy().tolist() == model.classes_.tolist()
    assert grid["label"].to_numpy().ravel().tolist() == model.predict(rows).tolist()
    monkeypatch.setattr("coupledgp.tables.grids.find_spec", lambda name: None)
    plain = model.predict_grid(AXES)
    np.testing.assert_array_equal(plain["chance"], grid["chance"])
    with pytest.raises(InvalidInputError, match="others: expected a value for each of"):
        model.predict_grid({"east": [1.0]})


def test_means_of_transformed_targets_are_those_of_y():
    """A normal law of `z = log y` has the mean `exp(m + v / 2)`, of f or with its noise."""
    model, y, _ = MODELS["transformed"]
    model.fit(X, y)
    far = {"east": [400.0], "north": [400.0]}
    with pytest.warns(cgp.errors.ExtrapolationWarning):
        grid = model.predict_grid(far, level=0.5)
    with pytest.warns(cgp.errors.ExtrapolationWarning):
        of_f = model.predict_grid(far, latent=True)
    own = model.process_.inner
    mean, variance = (float(part[0, 0]) for part in own.law(np.full((1, 2), 400.0), "variance")[:2])
    assert float(grid["mean"][0, 0]) == pytest.approx(np.exp(mean + variance / 2), rel=1e-6)
    without = mean + (variance - model.noise_) / 2
    assert float(of_f["mean"][0, 0]) == pytest.approx(np.exp(without), rel=1e-6)


def test_exposures_and_other_columns():
    model, y, _ = MODELS["counts"]
    model.fit(X.assign(kind=np.where(NOISE > 0, "a", "b")), y)
    once = model.predict_grid(AXES, {"kind": "a"})
    twice = model.predict_grid(AXES, {"kind": "a"}, exposure=2.0)
    np.testing.assert_allclose(twice["mean"], 2 * once["mean"], rtol=1e-6)
    line = model.predict_grid({"east": [1.0, 2.0]}, {"kind": "b", "north": 1.0})
    assert line["mean"].dims == ("east",)
    for axes, others, message in (
        ({"up": [1.0]}, None, "coordinates: expected values of east, north, kind, got up"),
        ({"east": [1.0]}, {"north": 1.0}, "others: expected a value for each"),
        ({}, {"kind": "a", "north": 1.0, "east": 1.0}, "coordinates: expected values of"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            model.predict_grid(axes, others)
    with pytest.raises(InvalidInputError, match="level"):
        model.predict_grid(AXES, {"kind": "a"}, level=1.0)
