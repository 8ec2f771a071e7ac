"""Values over time with a usual day and dynamics: laws, updates, files, and what is refused."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.errors import InvalidInputError
from coupledgp.gp.graph_time import GraphTimeGP
from coupledgp.gp.usual_days import UsualDayGP

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
N_NODES, N_DAYS, P = 12, 16, 24
ROAD = cgp.Graph.from_edges(np.arange(N_NODES - 1), np.arange(1, N_NODES))
NODES = [0, 1, 3, 4, 6, 7, 9, 10]
TIMES = np.datetime64("2024-03-04T00") + np.arange(N_DAYS * P) * np.timedelta64(1, "h")
N_FIT = 14 * P


def series(seed=0):
    """Values (8, n): a day of each kind, and waves that move from each sensor to the one before."""
    rng = np.random.default_rng(seed)
    n, p = TIMES.size, len(NODES)
    weekend = ((np.arange(n) // P) % 7 >= 5).astype(float)
    hours = np.arange(n) % P
    day = np.cos(2 * np.pi * (hours - 8) / P) * (1 - 0.8 * weekend) + 0.5 * weekend
    size = rng.uniform(3.0, 6.0, (p, 1))
    x = np.zeros((p, n + 50))
    for t in range(1, n + 50):
        x[:, t] = 0.5 * x[:, t - 1] + rng.normal(size=p)
        x[:-1, t] += 0.4 * x[1:, t - 1]
    return 50.0 + size * day + 2.0 * x[:, 50:] + rng.normal(size=(p, 1))


WHOLE = series()
Y = WHOLE[:, :N_FIT].copy()
Y[np.random.default_rng(1).random(Y.shape) < 0.03] = np.nan
Y[2, 200:220] = np.nan
Y[5, N_FIT - 3 :] = np.nan


def made(**parameters):
    settings = {"kernel": "heat", "progress": False, "n_variance_samples": 8}
    return cgp.GraphTimeGPRegressor(ROAD, **(settings | parameters))


@cache
def fitted(**parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return made(**parameters).fit(NODES, Y, times=TIMES[:N_FIT])


def points_of(times, nodes=NODES):
    """Points of the process at all of some nodes and numbers of times."""
    return np.array([(node, t) for node in nodes for t in times], dtype=np.float64)


def test_a_usual_day_and_dynamics_are_found_and_their_reasons_told():
    model = fitted()
    process = model.process_
    assert isinstance(process, UsualDayGP)
    assert process.usual is not None
    assert process.dynamics is not None
    assert "usual day: squared errors" in model.method_reason_
    assert "dynamics: log density" in model.method_reason_
    assert model.usual_day_share_["kind of day"] > 0.3
    upstream = process.dynamics.law.model.coefficients[0]
    assert np.diagonal(upstream, 1).mean() > 2.0 * np.abs(np.diagonal(upstream, -1)).mean()


def test_either_may_be_left_out():
    plain = fitted(usual_day=False, dynamics=False)
    assert isinstance(plain.process_, GraphTimeGP)
    assert plain.usual_day_share_ is None
    day = fitted(dynamics=False)
    assert day.process_.usual is not None
    assert day.process_.dynamics is None
    moving = fitted(usual_day=False)
    assert moving.process_.usual is None
    assert moving.process_.dynamics is not None
    assert "usual_day=False" in moving.method_reason_


def test_forecasts_and_gaps_are_better_with_them_and_hold_what_they_say():
    rmse = {}
    for name, model in {
        "both": fitted(), "day": fitted(dynamics=False),
        "none": fitted(usual_day=False, dynamics=False),
    }.items():  # fmt: skip
        mean, std = model.forecast("12h")
        error = mean - WHOLE[:, N_FIT : N_FIT + 12]
        rmse[name] = np.sqrt((error**2).mean())
        if name == "both":
            assert (np.abs(error) < 1.96 * std).mean() > 0.85
    assert rmse["both"] < 0.85 * rmse["none"]
    assert rmse["day"] < 0.85 * rmse["none"]
    gap = np.isnan(Y)
    model = fitted()
    mean, std = model.predict(NODES, TIMES[:N_FIT], return_std=True)
    error = (mean - WHOLE[:, :N_FIT])[gap] / std[gap]
    assert (np.abs(error) < 1.96).mean() > 0.85


@pytest.mark.parametrize("parameters", [{}, {"dynamics": False}, {"usual_day": False}])
def test_ways_to_ask_agree(parameters):
    model = fitted(**parameters)
    process, axis = model.process_, model.time_axis_
    times = TIMES[N_FIT - 6 : N_FIT + 5]
    nodes = [2, *NODES[:6]]
    stamps = axis.numbers(times)
    mean, std = model.predict(nodes, times, return_std=True)
    points = points_of(stamps, nodes)
    law = process.law(points, "variance")
    np.testing.assert_allclose(law.mean[:, 0], mean.ravel(), rtol=1e-9)
    np.testing.assert_allclose(np.sqrt(law.spread[:, 0]), std.ravel(), rtol=1e-6)
    joint = process.law(points, "covariance")
    np.testing.assert_allclose(joint.mean, law.mean, rtol=1e-9)
    np.testing.assert_allclose(joint.spread[:, :, 0].diagonal(), law.spread[:, 0], rtol=0.1)
    assert np.linalg.eigvalsh(joint.spread[:, :, 0]).min() > -1e-8
    low, high = model.predict_interval(nodes, times)
    np.testing.assert_allclose((high - low) / 2, 1.959964 * std, rtol=1e-6)
    density = process.log_density(points, mean.reshape(-1, 1))
    expected = -np.log(std.ravel()) - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(density, expected, rtol=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("parameters", [{}, {"dynamics": False}])
def test_draws_have_the_law(parameters):
    model = fitted(**parameters)
    times = TIMES[N_FIT - 4 : N_FIT + 4]
    nodes = [2, *NODES[4:7]]
    mean, std = model.predict(nodes, times, return_std=True)
    m = 1500
    drawn = model.sample_y(nodes, times, m, random_state=3)
    z = (drawn.mean(axis=2) - mean) / std * np.sqrt(m)
    assert np.abs(z).max() < 4.5
    ratio = drawn.std(axis=2) / std
    assert np.abs(ratio - 1).max() < 0.12
    np.testing.assert_array_equal(drawn, model.sample_y(nodes, times, m, random_state=3))


@pytest.mark.long
def test_a_file_holds_all_of_it(tmp_path):
    for name, parameters in {
        "both": {}, "day": {"dynamics": False}, "moving": {"usual_day": False},
        "steady": {"spread": False}, "transformed": {"target_transform": "yeo-johnson"},
    }.items():  # fmt: skip
        model = fitted(**parameters)
        cgp.save_model(model, tmp_path / name)
        again = cgp.load_model(tmp_path / name)
        times = TIMES[N_FIT - 30 : N_FIT + 6]
        for found, expected in zip(
            again.predict(return_std=True, times=times),
            model.predict(return_std=True, times=times), strict=True,
        ):  # fmt: skip
            np.testing.assert_allclose(found, expected, rtol=1e-12)
        assert again.usual_day_share_ == model.usual_day_share_
        further = {"times": TIMES[N_FIT : N_FIT + 2]}
        one, two = (
            each.partial_fit(NODES, WHOLE[:, N_FIT : N_FIT + 2], **further)
            for each in (again, cgp.load_model(tmp_path / name))
        )
        np.testing.assert_array_equal(one.forecast("3h")[0], two.forecast("3h")[0])


def complete(**parameters):
    """A model of complete values, whose variances do not move."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return made(spread=False, **parameters).fit(NODES, WHOLE[:, :N_FIT], times=TIMES[:N_FIT])


def test_steps_that_are_added_are_conditioned_on():
    model = complete()
    more = WHOLE[:, N_FIT : N_FIT + 5].copy()
    more[3, 2:4] = np.nan
    for k in range(5):
        column = more[:, k]
        there = ~np.isnan(column)
        model.partial_fit(
            np.array(NODES)[there].tolist(), column[there, None], times=[TIMES[N_FIT + k]]
        )
    anew = model.process_.conditioned(model.process_.data)
    for found, expected in zip(
        model.process_.moving.ahead(np.zeros((8, 6))), anew.moving.ahead(np.zeros((8, 6))),
        strict=True,
    ):  # fmt: skip
        np.testing.assert_allclose(found, expected, rtol=1e-8)
    gap = ~anew.moving.observed
    assert gap.sum() == 2
    np.testing.assert_allclose(model.process_.moving.mean[gap], anew.moving.mean[gap], rtol=1e-8)
    np.testing.assert_allclose(
        model.process_.moving.variance[gap], anew.moving.variance[gap], rtol=1e-8
    )


def test_a_window_and_a_day_that_ends():
    model = complete(window=10 * P)
    days = model.process_.usual.dates
    model.partial_fit(NODES, WHOLE[:, N_FIT : N_FIT + 30], times=TIMES[N_FIT : N_FIT + 30])
    process = model.process_
    assert process.rows.targets.size == 8 * 10 * P
    assert process.past.shape == process.moving.observed.shape == (8, 10 * P)
    np.testing.assert_array_equal(process.usual.dates, [*days, days[-1] + 1])
    kept = process.usual.values[:, -1]
    np.testing.assert_allclose(kept, WHOLE[:, N_FIT : N_FIT + P], rtol=1e-9)
    assert model.forecast("2h")[0].shape == (8, 2)


def test_single_values_left_out_are_conditioned_anew():
    process = complete().process_
    rows = np.array([500, 1300, 2000])
    groups = np.arange(len(process.data))
    found = process.left_out(groups, rows)
    for k, row in enumerate(rows):
        rest = process.conditioned(process.data.take(np.setdiff1d(groups, [row])))
        law = rest.law(process.data.points[[row]], "variance")
        # The usual day of the days around it has the value that is left out in it.
        assert found.means[0, k, 0] == pytest.approx(law.mean[0, 0], rel=1e-6)
        assert found.variances[0, k, 0] == pytest.approx(law.spread[0, 0], rel=1e-6)


def test_groups_left_out_are_conditioned_anew():
    process = fitted().process_
    points = process.data.points
    groups = np.where((points[:, 0] == 4) & (points[:, 1] > points[:, 1].max() - 8 * 3600), 1, 0)
    rows = np.flatnonzero(groups)[:4]
    found = process.left_out(groups, rows)
    rest = process.conditioned(process.data.take(np.flatnonzero(groups == 0)))
    law = rest.law(points[rows], "variance")
    np.testing.assert_allclose(found.means[0], law.mean, rtol=1e-9)
    np.testing.assert_allclose(found.variances[0], law.spread, rtol=1e-9)


def test_sensors_left_out_have_the_usual_day_of_the_others():
    model = fitted()
    table = model.leave_one_sensor_out()
    assert np.isfinite(table.rmse).all()
    process = model.process_
    mean, variance = process.field.others(process.past)
    # The same regression by the rows of the others alone.
    K = process.field.sites.gram(process.field.sensors)
    K = K + process.field.shared + process.field.ratio * np.eye(len(K))
    rest = np.arange(8) != 3
    weights = np.linalg.solve(K[np.ix_(rest, rest)], K[rest, 3])
    np.testing.assert_allclose(mean[3], weights @ process.past[rest], rtol=1e-8)
    assert (variance[3] > 0).all()


def test_a_sensor_that_goes_and_one_that_comes():
    process = fitted().process_
    groups = np.where(process.data.points[:, 0] == 4, 1, 0)
    found = process.left_out(groups, np.flatnonzero(groups)[:3])
    assert np.isfinite(found.means).all()
    rest = process.conditioned(process.data.take(np.flatnonzero(groups == 0)))
    assert not rest.moving.observed[3].any()
    model = complete()
    model.partial_fit(
        [2, *NODES], WHOLE[[0, *range(8)], N_FIT : N_FIT + 30], times=TIMES[N_FIT : N_FIT + 30]
    )
    assert 2 in model.nodes_
    assert np.isfinite(model.forecast("3h")[1]).all()
    assert model.process_.usual.dates.size == 15
    assert len(model.leave_one_sensor_out()) == 9


def test_profiles_of_kinds_of_days():
    model = fitted()
    work, rest = model.day_profile(), model.day_profile([4, 1], kind="weekend")
    assert work.mean.shape == (8, P)
    assert work.n_days == 10
    assert (rest.node, rest.n_days) == ([4, 1], 4)
    np.testing.assert_array_equal(work.seconds, 3600.0 * np.arange(P))
    assert np.ptp(work.mean, axis=1).min() > 1.3 * np.ptp(rest.mean, axis=1).max()
    assert (rest.std > work.std[[3, 1]]).all()
    with pytest.raises(InvalidInputError, match="nodes: expected sensors"):
        model.day_profile([2])
    with pytest.raises(InvalidInputError, match="kind"):
        model.day_profile(kind="Easter")
    with pytest.raises(InvalidInputError, match="expected one with a usual day"):
        fitted(usual_day=False).day_profile()


def test_parts_add_up_to_the_function():
    model = fitted()
    times = TIMES[N_FIT - 5 : N_FIT]
    parts = model.components(NODES, times)
    assert "usual day" in parts
    total = sum(np.asarray(part) for part in parts.values())
    np.testing.assert_allclose(total, model.predict(NODES, times, latent=True), rtol=1e-9)


def test_noise_has_neither():
    rng = np.random.default_rng(5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = made().fit(NODES, 50.0 + rng.normal(size=(8, 240)), times=TIMES[:240])
    assert "no usual day" in model.method_reason_
    assert isinstance(model.process_, GraphTimeGP)


def test_holidays_are_a_kind_of_day():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = made(holidays=["2024-03-06", np.datetime64("2024-03-08")], dynamics=False).fit(
            NODES, WHOLE[:, :N_FIT], times=TIMES[:N_FIT]
        )
    assert model.day_profile(kind="holiday").n_days == 2
    assert model.day_profile().n_days == 8


def test_what_does_not_go_is_named():
    with pytest.raises(InvalidInputError, match="usual_day: expected two whole days"):
        made(usual_day=True).fit(NODES, WHOLE[:, :40], times=TIMES[:40])
    with pytest.raises(InvalidInputError, match=r"dynamics: .* 40 steps, where 200"):
        made(dynamics=True).fit(NODES, WHOLE[:, :40], times=TIMES[:40])
    uneven = np.delete(TIMES[:N_FIT], slice(1, N_FIT, 7)) + np.timedelta64(0, "s")
    uneven = uneven + np.arange(uneven.size) % 5 * np.timedelta64(7, "m")
    with pytest.raises(InvalidInputError, match="no regular grid"):
        made(dynamics=True).fit(NODES, WHOLE[:, : uneven.size], times=uneven)


def test_evidence_is_that_of_the_dynamics():
    model = fitted()
    moving, dynamics = model.process_.moving, model.process_.dynamics
    count = moving.observed.sum(axis=1)
    expected = moving.filled.log_evidence - count @ np.log(dynamics.scale)
    assert model.log_marginal_likelihood_value_ == pytest.approx(expected)
    assert model.log_marginal_likelihood_error_ == 0.0
