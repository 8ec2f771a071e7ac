"""Models of values over time with covariates: laws, updates, files, and what is refused."""

from __future__ import annotations

import copy
import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest

import coupledgp as cgp
from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.gp.graph_time_prior import SpaceTimeRows
from coupledgp.inference.space_time.site_labels import SiteLabels
from coupledgp.inference.space_time.sites import sites_of
from coupledgp.inference.space_time.usual_day import usual_day_of
from coupledgp.models.graph_time_covariates import read_covariates
from coupledgp.search.space_time.effects import EffectSearch
from coupledgp.series import TimeAxis, as_panel

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
N_NODES, P = 12, 24
ROAD = cgp.Graph.from_edges(np.arange(N_NODES - 1), np.arange(1, N_NODES))
NODES = [0, 1, 3, 4, 6, 7, 9, 10]
N, AHEAD = 14 * P, 12
TIMES = np.datetime64("2024-03-04T00") + np.arange(N + AHEAD) * np.timedelta64(1, "h")
rng = np.random.default_rng(0)
RAIN = np.convolve(rng.random(TIMES.size) < 0.04, np.ones(6))[: TIMES.size] * 2.0
LANES = rng.integers(1, 5, N_NODES).astype(float)
CLOSED = np.where(rng.random((len(NODES), TIMES.size)) < 0.1, "one lane", "open")
SLOPES = -3.0 + 0.5 * rng.normal(size=len(NODES))


def drawn():
    """Speeds (8, n): lanes, a usual day, rain that sensors differ in, closed lanes, and waves."""
    day = 3.0 * np.cos(2 * np.pi * np.arange(TIMES.size) / P)
    x = np.zeros((len(NODES), TIMES.size))
    for t in range(1, TIMES.size):
        x[:, t] = 0.6 * x[:, t - 1] + rng.normal(size=len(NODES))
        x[:-1, t] += 0.3 * x[1:, t - 1]
    known = 4.0 * LANES[NODES][:, None] + SLOPES[:, None] * RAIN - 5.0 * (CLOSED == "one lane")
    return 50.0 + day + known + x


WHOLE = drawn()
Y = WHOLE[:, :N].copy()
Y[np.random.default_rng(1).random(Y.shape) < 0.04] = np.nan
Y[2, 200:215] = np.nan
PAST = {"rain": RAIN[:N], "lanes": LANES, "works": CLOSED[:, :N]}
FUTURE = {"rain": RAIN[N:], "works": CLOSED[:, N:]}


@cache
def fitted(with_covariates=True, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings = {"kernel": "heat", "progress": False, "n_variance_samples": 8}
        model = cgp.GraphTimeGPRegressor(ROAD, **(settings | parameters))
        covariates = PAST if with_covariates else None
        return model.fit(NODES, Y, times=TIMES[:N], covariates=covariates)


def test_coefficients_are_those_of_the_data():
    for parameters in ({}, {"usual_day": False}, {"dynamics": False}):
        found = fitted(**parameters).covariate_effects_
        rows = dict(zip(zip(found.covariate, found.column, strict=True), range(9), strict=False))
        rain, lanes = rows["rain", "linear"], rows["lanes", "linear"]
        assert abs(found.coefficient[rain] - SLOPES.mean()) < 3.0 * found.std[rain]
        assert abs(found.coefficient[lanes] - 4.0) < 3.0 * found.std[lanes]
        assert 0.2 < found.own_std[rain] < 1.0
        one, two = rows["works", "one lane"], rows["works", "open"]
        assert abs(found.coefficient[one] - found.coefficient[two] + 5.0) < 0.5
        assert (found.gain > 10.0).all()
    assert fitted(False).covariate_effects_ is None


def test_columns_are_about_the_usual_day_that_values_have():
    axis = TimeAxis.of(TIMES[:N])
    rows = SpaceTimeRows(np.array(NODES), axis.values, WHOLE[:, :N])
    known = read_covariates({"rain": RAIN[:N]}, as_panel(NODES, TIMES[:N], Y), SiteLabels(ROAD))
    search = EffectSearch.of(sites_of(ROAD, "heat"), rows, axis, known)
    usual = usual_day_of(axis, rows.values, rows.times)

    def about(values):
        own = usual.with_days(values, rows.times)
        return values - own.means(rows.times) + own.levels[:, None]

    rain = search.values[0][0]
    (found,) = search.about(usual)
    both = about(rows.values + 2.0 * rain) - about(rows.values)
    np.testing.assert_allclose(both, np.broadcast_to(2.0 * found[0], both.shape), atol=1e-8)
    assert np.abs(found[0] - rain).max() > 0.05


def test_forecasts_and_gaps_are_better_with_them():
    rmse = {}
    for with_covariates in (True, False):
        model = fitted(with_covariates)
        given = FUTURE if with_covariates else None
        mean, std = model.forecast("12h", covariates=given)
        error = mean - WHOLE[:, N:]
        rmse[with_covariates] = np.sqrt((error**2).mean())
        if with_covariates:
            assert (np.abs(error) < 1.96 * std).mean() > 0.85
        gap = np.isnan(Y)
        mean, std = model.predict(NODES, TIMES[:N], return_std=True)
        error = (mean - WHOLE[:, :N])[gap]
        rmse["gaps", with_covariates] = np.sqrt((error**2).mean())
        assert (np.abs(error) < 1.96 * std[gap]).mean() > 0.85
    assert rmse[True] < 0.85 * rmse[False]
    assert rmse["gaps", True] < 0.9 * rmse["gaps", False]


def test_nodes_without_a_sensor_have_their_own_covariates():
    nodes = [2, 5, 8, 11]
    model = fitted()
    with pytest.raises(InvalidInputError, match=r"covariates\['works'\]: expected values of all"):
        model.predict(nodes, TIMES[:1])
    some = {"rain": RAIN[:N], "lanes": LANES}
    model = copy.copy(model).fit(NODES, Y, times=TIMES[:N], covariates=some)
    parts = model.components(nodes, TIMES[:40])
    lanes = model.covariate_effects_.covariate.index("lanes")
    slope = model.covariate_effects_.coefficient[lanes]
    gaps = np.diff(parts["effect of lanes"][:, 0])
    np.testing.assert_allclose(gaps, slope * np.diff(LANES[nodes]), atol=1e-9)
    known, std = model.predict([0, *nodes], TIMES[:40], return_std=True)
    assert np.isfinite(known).all()
    assert (std[1:].mean(axis=1) > std[0].mean()).all()


@pytest.mark.parametrize("parameters", [{}, {"dynamics": False}, {"usual_day": False}])
def test_ways_to_ask_agree(parameters):
    model = fitted(**parameters).knowing(FUTURE, times=TIMES[N:])
    process = model.process_
    times = TIMES[N - 6 : N + 5]
    mean, std = model.predict(NODES[:6], times, return_std=True)
    again, same = fitted(**parameters).predict(
        NODES[:6], TIMES[N : N + 5], return_std=True,
        covariates={"rain": RAIN[N : N + 5], "works": CLOSED[:6, N : N + 5]},
    )  # fmt: skip
    np.testing.assert_allclose(again, mean[:, 6:], rtol=1e-9)
    np.testing.assert_allclose(same, std[:, 6:], rtol=1e-9)
    stamps = model.time_axis_.numbers(times)
    points = np.array([(node, t) for node in NODES[:6] for t in stamps], dtype=np.float64)
    law = process.law(points, "variance")
    np.testing.assert_allclose(law.mean[:, 0], mean.ravel(), rtol=1e-9)
    np.testing.assert_allclose(np.sqrt(law.spread[:, 0]), std.ravel(), rtol=1e-6)
    joint = process.law(points, "covariance").spread[..., 0]
    np.testing.assert_allclose(np.sqrt(joint.diagonal()), std.ravel(), rtol=2e-3)
    n_draws = 400
    drawn = process.sample(points, n_draws, np.random.default_rng(0))[:, 0]
    scores = (drawn.mean(axis=1) - mean.ravel()) / (std.ravel() / np.sqrt(n_draws))
    assert np.abs(scores).max() < 4.5
    np.testing.assert_allclose(drawn.std(axis=1), std.ravel(), rtol=4.5 / np.sqrt(2 * n_draws))
    parts = model.components(NODES[:2], times)
    total = parts.pop("mean") + sum(parts.values())
    latent = model.predict(NODES[:2], times, latent=True)
    np.testing.assert_allclose(total, latent, rtol=1e-8)


def test_uncertain_coefficients_widen_the_law():
    model = (
        fitted()
        .knowing({"rain": np.full(3, 20.0)}, times=TIMES[N : N + 3])
        .knowing({"works": CLOSED[:, N : N + 3]}, times=TIMES[N : N + 3])
    )
    _, std = model.forecast("3h")
    plain = fitted().knowing(
        {"rain": np.full(3, RAIN[:N].mean()), "works": CLOSED[:, N : N + 3]}, times=TIMES[N : N + 3]
    )
    assert (std > 1.02 * plain.forecast("3h")[1]).all()


def test_updates_take_further_values_and_leave_the_old_model():
    model = copy.deepcopy(fitted())
    now = {name: values[..., :3] for name, values in FUTURE.items()}
    model.partial_fit(NODES, WHOLE[:, N : N + 3], times=TIMES[N : N + 3], covariates=now)
    rest = {name: values[..., 3:] for name, values in FUTURE.items()}
    mean, _ = model.forecast("9h", covariates=rest)
    assert np.abs(mean - WHOLE[:, N + 3 :]).mean() < 3.0
    with pytest.raises(InvalidInputError, match="expected a value at each time"):
        fitted().predict(NODES, TIMES[N : N + 3])
    with pytest.raises(InvalidInputError, match=r"covariates\['rain'\].*2024-03-18T00:00:00"):
        copy.deepcopy(fitted()).partial_fit(NODES, WHOLE[:, N : N + 3], times=TIMES[N : N + 3])


def test_left_out_laws_have_the_covariates():
    model = fitted()
    rows = np.arange(40)
    found = model.process_.left_out(np.arange(len(model.process_.data)), rows)
    truth = model.process_.data.targets[rows, 0]
    error = truth - found.means[0, :, 0]
    assert np.sqrt((error**2).mean()) < 2.0
    assert (error**2 / found.variances[0, :, 0]).mean() < 2.5
    table, plain = model.leave_one_sensor_out(), fitted(False).leave_one_sensor_out()
    assert np.mean(table.rmse) < np.mean(plain.rmse)


@pytest.mark.parametrize("parameters", [{}, {"usual_day": False, "dynamics": False}])
def test_files_hold_them(tmp_path, parameters):
    model = fitted(**parameters).knowing({"works": CLOSED[:3, N:]}, NODES[:3], TIMES[N:])
    cgp.save_model(model, tmp_path / "m.cgp")
    again = cgp.load_model(tmp_path / "m.cgp")
    for name, values in model.covariate_effects_._asdict().items():
        assert np.array_equal(values, again.covariate_effects_._asdict()[name])
    given = {"rain": RAIN[N:]}
    for one, two in zip(
        model.forecast("12h", NODES[:3], covariates=given),
        again.forecast("12h", NODES[:3], covariates=given), strict=True,
    ):  # fmt: skip
        np.testing.assert_allclose(one, two, rtol=1e-12)


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_files_with_impossible_effects_are_refused():
    header, arrays = fitted()._state(True)
    for name, broken in {
        "effect_covariance": -arrays["effect_covariance"],
        "effect_sensors": arrays["effect_sensors"][::-1].copy(),
        "covariate_2_values": arrays["covariate_2_values"] + 5.0,
        "covariate_0_times": arrays["covariate_0_times"] * 0.0,
    }.items():
        with pytest.raises(ModelFileError, match=name):
            cgp.GraphTimeGPRegressor.from_state(header, arrays | {name: broken})


def test_what_is_missing_is_named():
    model = cgp.GraphTimeGPRegressor(ROAD, kernel="heat", progress=False)
    times = TIMES[: 3 * P]
    for given, message in [
        ({"rain": RAIN[:5]}, r"covariates\['rain'\]: expected the shape"),
        ({"rain": pd.Series(RAIN[:5], TIMES[:5])}, r"covariates\['rain'\]: expected a value at ea"),
        ({"rain": np.where(RAIN[: 3 * P] > 0, np.nan, 0.0)}, "expected finite numbers"),
        ({"lanes": {0: 1.0}}, "expected values of all nodes"),
    ]:
        with pytest.raises(InvalidInputError, match=message):
            model.fit(NODES, Y[:, : 3 * P], times=times, covariates=given)
    with pytest.raises(InvalidInputError, match="covariates: expected none, as the fit had none"):
        fitted(False).forecast("1h", covariates=FUTURE)


def test_a_model_with_a_transform_has_them_on_its_scale():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = cgp.GraphTimeGPRegressor(
            ROAD, kernel="heat", progress=False, target_transform="log", n_variance_samples=8
        ).fit(NODES, Y, times=TIMES[:N], covariates=PAST)
    rain = model.covariate_effects_.covariate.index("rain")
    assert -0.12 < model.covariate_effects_.coefficient[rain] < -0.02
    mean, _ = model.forecast("12h", covariates=FUTURE)
    assert np.sqrt(((mean - WHOLE[:, N:]) ** 2).mean()) < 3.0
