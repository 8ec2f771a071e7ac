"""Jackknife+ intervals in closed form, beside refits, MAPIE and the rates that they promise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.core.conformal import ConformalRows, _quantiles, _without_each, conformal_interval
from coupledgp.errors import InvalidInputError

RNG = np.random.default_rng(3)
X = RNG.uniform(-2, 2, (60, 2))
Y = np.sin(2 * X[:, 0]) * X[:, 1] + 0.3 * RNG.standard_t(3, size=60)
NEW = RNG.uniform(-2, 2, (7, 2))
DAY = np.arange(60) % 12
HYPER: dict[str, Any] = {"lengthscale": 1.0, "noise": 0.1, "outputscale": 1.0, "optimizer": None}
MODELS = {
    "exact": cgp.ExactGPRegressor("matern-5/2", normalize_y=False, **HYPER),
    "features": cgp.SparseSpectrumGPRegressor(n_frequencies=40, random_state=0, **HYPER),
}


def refitted(process: Any, groups: np.ndarray, weights: np.ndarray, level: float) -> Any:
    """Ends (p,) by conditioning on the other groups, one after the other, and plain sorting."""
    lows, highs, masses = [], [], []
    for group in np.unique(groups):
        out = np.flatnonzero(groups == group)
        rest = process.conditioned(process.data.take(np.flatnonzero(groups != group)))
        mean, variance = rest.law(X[out], "variance")
        at, spread = rest.law(NEW, "variance")
        for row, m, v in zip(out, mean[:, 0], variance[:, 0], strict=True):
            reach = abs(Y[row] - m) / np.sqrt(v) * np.sqrt(spread[:, 0])
            lows.append(at[:, 0] - reach)
            highs.append(at[:, 0] + reach)
            masses.append(weights[row] / out.size)
    shares = np.array(masses) / (sum(masses) + 1)
    low, high = np.full((2, len(NEW)), np.inf)
    for place in range(len(NEW)):
        for values, found, sign in ((lows, low, -1), (highs, high, 1)):
            order = sorted(zip([sign * one[place] for one in values], shares, strict=True))
            total = 0.0
            for value, share in order:
                total += share
                if total >= level - 1e-12:
                    found[place] = value
                    break
    return -low, high


@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_closed_forms_are_those_of_refits(name: str, grouped: bool, weighted: bool) -> None:
    model = MODELS[name].fit(X, Y)
    groups = DAY if grouped else np.arange(60)
    weights = np.linspace(0.2, 1.0, 60) if weighted else np.ones(60)
    expected = refitted(model.process_, groups, weights, 0.8)
    asked = {"groups": DAY} if grouped else {}
    asked |= {"weights": weights} if weighted else {}
    found = model.predict_interval(NEW, 0.8, conformal=True, **asked)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_rows_of_unequal_noise() -> None:
    given = {**HYPER, "noise": None}
    model = cgp.ExactGPRegressor("matern-5/2", normalize_y=False, **given)
    model.fit(X, Y, sample_noise=0.1 * np.exp(RNG.normal(size=60)))
    found = model.predict_interval(NEW, 0.9, conformal=True)
    process, ends = model.process_, []
    for row in range(60):
        rest = process.conditioned(process.data.take(np.delete(np.arange(60), row)))
        mean, variance = rest.law(X[row : row + 1], "variance", latent=True)
        own = variance[0, 0] + process.data.relative_noise[row] * process.noise.variance
        at, spread = rest.law(NEW, "variance")
        reach = abs(Y[row] - mean[0, 0]) / np.sqrt(own) * np.sqrt(spread[:, 0])
        ends.append((at[:, 0] - reach, at[:, 0] + reach))
    low, high = np.sort(ends, axis=0)[[5, 54]][[0, 1], [0, 1]]
    np.testing.assert_allclose(found, (low, high), rtol=1e-9)


def test_beside_mapie() -> None:
    """Without scaling by standard deviations, as MAPIE has it."""
    regression = pytest.importorskip("mapie.regression")
    gp = cgp.ExactGPRegressor("matern-5/2", normalize_y=False, **HYPER)
    other = regression.CrossConformalRegressor(
        gp, confidence_level=0.8, method="plus", cv=60, conformity_score="absolute"
    )
    _, ends = other.fit_conformalize(X, Y).predict_interval(NEW)
    process = gp.fit(X, Y).process_
    rows = ConformalRows.of(process, None, None)
    means, _ = _without_each(process, rows.group, rows.parts[0], NEW)
    sizes = np.abs(rows.residuals)
    low = -_quantiles(sizes - means[..., 0], rows.masses[:60], 0.8)
    high = _quantiles(sizes + means[..., 0], rows.masses[:60], 0.8)
    np.testing.assert_allclose(ends[:, 0, 0], low, rtol=1e-9)
    np.testing.assert_allclose(ends[:, 1, 0], high, rtol=1e-9)


def test_the_order_statistics_of_the_paper() -> None:
    """The ceil(c (n + 1)) smallest of n values, infinite if that is beyond n."""
    values, masses = np.arange(9.0)[:, None], np.full(9, 0.1)
    assert _quantiles(values, masses, 0.8)[0] == 7.0
    assert _quantiles(values, masses, 0.81)[0] == 8.0
    assert _quantiles(values, masses, 0.9)[0] == 8.0
    assert _quantiles(values, masses, 0.91)[0] == np.inf


@pytest.mark.parametrize("noise", [0.005, 2.0])
def test_intervals_hold_what_they_promise_under_a_wrong_noise(noise: float) -> None:
    """Of 40 tables of heavy tails; the model's own intervals of the same level are far off."""
    rng = np.random.default_rng(8)
    gp = cgp.ExactGPRegressor(**{**HYPER, "noise": noise})
    held, own = [], []
    for _ in range(40):
        rows = rng.uniform(-2, 2, (100, 1))
        y = np.sin(2 * rows[:, 0]) + 0.3 * rng.standard_t(3, size=100)
        gp.fit(rows[:60], y[:60])
        for found, options in ((held, {"conformal": True}), (own, {})):
            low, high = gp.predict_interval(rows[60:], 0.8, **options)
            found.append(((low <= y[60:]) & (y[60:] <= high)).mean())
    error = np.std(held) / np.sqrt(40)
    assert np.mean(held) == pytest.approx(0.8, abs=0.02 + 4 * error)
    assert abs(np.mean(own) - 0.8) > 0.12


def test_groups_hold_new_groups() -> None:
    """Days share an error that the model does not know: only grouped intervals hold new days."""
    rng = np.random.default_rng(9)
    gp = cgp.ExactGPRegressor(**HYPER)
    held: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(40):
        rows, day = rng.uniform(-2, 2, (160, 1)), np.arange(160) // 8
        y = np.sin(2 * rows[:, 0]) + rng.normal(size=20)[day] + 0.2 * rng.normal(size=160)
        gp.fit(rows[:120], y[:120])
        for grouped, found in held.items():
            groups = day[:120] if grouped else None
            low, high = gp.predict_interval(rows[120:], 0.8, conformal=True, groups=groups)
            found.append(((low <= y[120:]) & (y[120:] <= high)).mean())
    error = np.std(held[True]) / np.sqrt(40)
    assert np.mean(held[True]) > 0.8 - 4 * error


def test_mixtures_keep_the_weights_of_their_members() -> None:
    model = cgp.ExactGPRegressor(
        hyperparameters="averaged",
        options={"n_hyperparameter_draws": 4, "n_restarts": 0},
        random_state=0,
    ).fit(X, Y)
    process = model.process_
    found = conformal_interval(process, NEW, 0.8)
    lows, highs = [], []
    parts = list(zip(process.members_with_data, process.weights, strict=True))
    for row in range(60):
        rest = [(m.conditioned(m.data.take(np.delete(np.arange(60), row))), w) for m, w in parts]
        at = np.vstack([X[row : row + 1], NEW])
        laws = [(m.law(at, "variance"), w) for m, w in rest]
        mean = sum(w * law.mean[:, 0] for law, w in laws)
        second = sum(w * (law.spread[:, 0] + law.mean[:, 0] ** 2) for law, w in laws)
        std = np.sqrt(second - mean**2)
        reach = abs(Y[row] - mean[0]) / std[0] * std[1:]
        lows.append(mean[1:] - reach)
        highs.append(mean[1:] + reach)
    # The 49th of 61 from either end.
    expected = np.sort(lows, axis=0)[60 - 49], np.sort(highs, axis=0)[48]
    np.testing.assert_allclose([end[:, 0] for end in found], expected, rtol=1e-7)


def test_transformed_targets_have_mapped_ends() -> None:
    positive = np.exp(Y)
    model = cgp.ExactGPRegressor(target_transform="log", **HYPER).fit(X, positive)
    low, high = model.predict_interval(NEW, 0.8, conformal=True)
    inner = conformal_interval(model.process_.inner, NEW, 0.8)
    forward = model.process_.transforms[0].forward
    np.testing.assert_allclose([forward(low), forward(high)], [end[:, 0] for end in inner])


def test_too_few_rows_and_bad_input() -> None:
    model = cgp.ExactGPRegressor(**HYPER).fit(X[:9], Y[:9])
    with pytest.warns(UserWarning, match=r"level: 0\.95 is beyond what so few rows"):
        low, high = model.predict_interval(NEW, conformal=True)
    assert np.isinf(low).all()
    assert np.isinf(high).all()
    for options, message in (
        ({"groups": DAY}, r"groups: expected the group of each of 9 observations"),
        ({"weights": np.zeros(9)}, "weights: expected 9 numbers above 0"),
        ({"exposure": np.ones(7)}, "exposure: expected None"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            model.predict_interval(NEW, 0.5, conformal=True, **options)
    with pytest.raises(InvalidInputError, match="expected conformal=True beside them"):
        model.predict_interval(NEW, 0.5, groups=np.arange(9))
    local = cgp.LocalGPRegressor(n_neighbors=5, random_state=0).fit(X, Y)
    with pytest.raises(InvalidInputError, match="mean is linear in its observations"):
        local.predict_interval(NEW, 0.5, conformal=True)
