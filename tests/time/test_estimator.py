"""The estimator of values at nodes over time: invariances, truth, updates, files, arguments."""

from __future__ import annotations

import copy
import pickle
import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import coupledgp as cgp
from coupledgp.core.transforms import Counts
from coupledgp.errors import InvalidInputError, MemoryLimitError, ModelFileError
from coupledgp.time.estimator import looks_like_counts
from tests.model_files import changed

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

N_NODES, P, N = 20, 9, 60
STEP = np.timedelta64(30, "m")
GRAPH = cgp.Graph.from_edges(np.arange(N_NODES), (np.arange(N_NODES) + 1) % N_NODES)
NODES = np.sort(np.random.default_rng(1).choice(N_NODES, P, replace=False)).tolist()
TIMES = np.arange(float(N))
OTHERS = [k for k in range(N_NODES) if k not in NODES]
SETTINGS = {"kernel": "heat", "progress": False}


def truth(noise=0.1, n=N, seed=0, nodes=NODES):
    """A field (N_NODES, n) and observations (p, n) of it, units of y."""
    rng = np.random.default_rng(seed)
    walk = cgp.kernels.HeatKernel(3.0)
    found = cgp.ExactGraphGPRegressor(GRAPH, walk, optimizer=None, noise=1e-2)
    gram = found.fit([0], [0.0]).prior_covariance(range(N_NODES))
    between = np.linalg.cholesky(gram / np.diag(gram).mean() + 1e-9 * np.eye(N_NODES))
    lags = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    along = np.linalg.cholesky(np.exp(-lags / 10.0) + 0.5 + 1e-9 * np.eye(n))
    field = between @ rng.normal(size=(N_NODES, n)) @ along.T
    values = field[nodes] + np.sqrt(noise) * rng.normal(size=(len(nodes), n))
    return 50.0 + 8.0 * field, 50.0 + 8.0 * values


FIELD, COMPLETE = truth()
MISSING = np.random.default_rng(2).random((P, N)) < 0.15
MISSING[4, 20:32] = True
Y = np.where(MISSING, np.nan, COMPLETE)


def again():
    """The fitted model, to be given further values."""
    return copy.copy(fitted())


def made(**parameters):
    return cgp.GraphTimeGPRegressor(GRAPH, **(SETTINGS | parameters))


@cache
def fitted(**parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return made(**parameters).fit(NODES, Y, times=TIMES)


def same_law(model, other, times=None, rtol=1e-5):
    for found, expected in zip(
        model.predict(times=times, return_std=True), other.predict(times=times, return_std=True),
        strict=True,
    ):  # fmt: skip
        np.testing.assert_allclose(found, expected, rtol=rtol)


def days(n_days=4, p=5, seed=0):
    """Values (p, n) every half hour of a road with a usual day, values moving along it."""
    rng = np.random.default_rng(seed)
    n = 48 * n_days
    wave = 4.0 * np.sin(2 * np.pi * np.arange(n) / 48 + np.arange(p)[:, None])
    x = np.zeros((p, n))
    for t in range(1, n):
        x[:, t] = 0.6 * x[:, t - 1] + 0.3 * np.roll(x[:, t - 1], 1) + rng.normal(size=p)
    return 60.0 + 3.0 * np.arange(p)[:, None] + wave + x


ROAD = cgp.Graph.from_edges(range(6), range(1, 7))
STAMPS = np.datetime64("2026-03-02") + np.arange(48 * 8) * np.timedelta64(30, "m")
ON_ROAD = [0, 1, 3, 4, 6]
DAYS = days(8)
HOLES = np.random.default_rng(4).random(DAYS.shape) < 0.05
HOLES[1, 100:112] = True
HOLES[:, 200:203] = True


@cache
def of_days(n=48 * 7 + 3, **parameters):
    values = np.where(HOLES, np.nan, DAYS)[:, :n]
    model = cgp.GraphTimeGPRegressor(ROAD, progress=False, **parameters)
    return model.fit(ON_ROAD, values, times=STAMPS[:n])


class TestInvariances:
    def test_the_order_of_nodes_and_times_does_not_matter(self):
        rows, columns = (
            np.random.default_rng(0).permutation(P),
            np.random.default_rng(1).permutation(N),
        )
        nodes = [NODES[k] for k in rows]
        other = made().fit(nodes, Y[rows][:, columns], times=TIMES[columns])
        assert other.nodes_ == nodes
        same_law(other, fitted(), rtol=1e-12)

    def test_long_data_are_the_same_data(self):
        sensors, columns = np.nonzero(~MISSING)
        nodes = np.array(NODES)[sensors]
        order = np.random.default_rng(0).permutation(nodes.size)
        other = made().fit(nodes[order].tolist(), TIMES[columns][order], Y[sensors, columns][order])
        same_law(other, fitted(), rtol=1e-12)

    @pytest.mark.parametrize(("shift", "scale"), [(0.0, 1e6), (1e4, 1.0), (-20.0, 1e-6)])
    def test_shift_and_scale_of_values_do_not_matter(self, shift, scale):
        other = made().fit(NODES, shift + scale * Y, times=60.0 * TIMES)
        mean, std = other.predict(return_std=True)
        expected, spread = fitted().predict(return_std=True)
        np.testing.assert_allclose((mean - shift) / scale, expected, rtol=1e-5)
        np.testing.assert_allclose(std / scale, spread, rtol=1e-4)
        jacobian = (~MISSING).sum() * np.log(scale)
        found = other.log_marginal_likelihood_value_
        assert found == pytest.approx(fitted().log_marginal_likelihood_value_ - jacobian, rel=1e-6)

    def test_the_order_of_sensors_does_not_matter_with_days_either(self):
        model, order = of_days(), [3, 0, 4, 2, 1]
        n = 48 * 7 + 3
        values = np.where(HOLES, np.nan, DAYS)[order, :n]
        other = cgp.GraphTimeGPRegressor(ROAD, progress=False)
        other.fit([ON_ROAD[k] for k in order], values, times=STAMPS[:n])
        for a, b in zip(
            other.predict(return_std=True), model.predict(return_std=True), strict=True
        ):
            np.testing.assert_allclose(a, b, rtol=1e-6)

    def test_a_sensor_without_values_and_times_without_values_change_nothing(self):
        with pytest.warns(UserWarning, match="1 without any value are left out"):
            more = made().fit([*NODES, OTHERS[0]], np.vstack([Y, np.full(N, np.nan)]), times=TIMES)
        same_law(more, fitted(), rtol=1e-12)

    def test_a_forecast_is_the_prediction_at_appended_times(self):
        model = of_days()
        mean, std = model.forecast("2h")
        n = 48 * 7 + 3
        found = model.predict(ON_ROAD, STAMPS[n : n + 4], return_std=True)
        np.testing.assert_allclose(mean, found[0])
        np.testing.assert_allclose(std, found[1])
        mixed, _ = model.predict(ON_ROAD, [STAMPS[n + 1], STAMPS[0], STAMPS[n]], return_std=True)
        np.testing.assert_allclose(mixed[:, [2, 0]], mean[:, :2])


class TestLaws:
    def test_readings_are_known_and_gaps_are_held(self):
        model = of_days()
        n = 48 * 7 + 3
        mean, std = model.predict(ON_ROAD, return_std=True)
        seen = ~HOLES[:, :n]
        np.testing.assert_allclose(mean[seen], DAYS[:, :n][seen])
        assert std[seen].max() < 1e-5 < std[~seen].min()
        z = (mean - DAYS[:, :n])[~seen] / std[~seen]
        assert (np.abs(z) < 3.5).all()
        assert (np.abs(z) < 1.96).mean() > 0.85

    def test_the_usual_day_is_found_and_left_out(self):
        assert of_days().usual_day_share_["day itself"] < 0.9
        assert of_days(usual_day=False).usual_day_share_ is None
        profile = of_days().day_profile(kind="working day")
        assert profile.mean.shape == (5, 48)
        error = profile.mean - days(1, seed=9) * 0 - DAYS[:, : 48 * 5].reshape(5, 5, 48).mean(1)
        assert np.abs(error).mean() < 2.0
        with pytest.raises(InvalidInputError, match="usual day"):
            of_days(usual_day=False).day_profile()

    def test_noise_has_no_usual_day(self):
        rng = np.random.default_rng(0)
        model = cgp.GraphTimeGPRegressor(ROAD, progress=False)
        model.fit(ON_ROAD, rng.normal(size=(5, 48 * 5)), times=STAMPS[: 48 * 5])
        assert model.usual_day_share_ is None
        assert "no usual day" in model.method_reason_

    def test_nodes_without_a_sensor_are_held_and_reach_over_the_road(self):
        found = fitted()
        mean, std = found.predict(OTHERS, return_std=True)
        truth_there = FIELD[OTHERS]
        inside = np.abs(truth_there - mean) < 1.96 * std
        assert inside.mean() > 0.85
        assert np.mean((mean - truth_there) ** 2) < np.mean((truth_there - Y[~MISSING].mean()) ** 2)

    def test_joint_draws_have_the_law(self):
        model = of_days()
        n, m = 48 * 7 + 3, 4000
        times = [*STAMPS[100:103], *STAMPS[n : n + 2]]
        nodes = [1, 2, 5]  # a gap, and two without a sensor
        drawn = model.sample_y(nodes, times, n_samples=m)
        mean, std = model.predict(nodes, times, return_std=True)
        assert (np.abs(drawn.mean(axis=2) - mean) < 5 * std / np.sqrt(m) + 1e-6).all()
        np.testing.assert_allclose(drawn.std(axis=2), std, rtol=6 / np.sqrt(2 * m), atol=1e-6)
        points = model.points((np.repeat(nodes, 5), np.tile(times, 3)))
        _, covariance = model.process_.law(points, "covariance")
        flat = drawn.reshape(15, m) - mean.ravel()[:, None]
        size = np.outer(std.ravel(), std.ravel())
        assert np.abs(flat @ flat.T / m - covariance[..., 0]).max() < 7 * size.max() / np.sqrt(m)

    def test_groups_left_out_are_gaps(self):
        process = of_days().process_
        points = process.data.points
        groups = np.arange(len(points))
        group = np.flatnonzero((points[:, 0] == 3) & (points[:, 1] < points[5, 1]))[:3]
        groups[group] = group[0]
        found = process.left_out(groups, group)
        rest = process.conditioned(process.data.take(np.setdiff1d(np.arange(len(points)), group)))
        mean, variance = rest.law(points[group], "variance")
        np.testing.assert_allclose(found.means[0], mean)
        np.testing.assert_allclose(found.variances[0], variance)

    def test_single_values_left_out_are_gaps_where_there_are_no_others(self):
        values = DAYS[:, : 48 * 5]
        model = cgp.GraphTimeGPRegressor(ROAD, progress=False)
        process = model.fit(ON_ROAD, values, times=STAMPS[: 48 * 5]).process_
        at = [130, 600]
        found = process.left_out(np.arange(len(process.data)), at)
        for k, row in enumerate(at):
            rest = process.conditioned(
                process.data.take(np.delete(np.arange(len(process.data)), row))
            )
            mean, _ = rest.law(process.data.points[[row]], "mean")
            np.testing.assert_allclose(found.means[0, k], mean[0], atol=1e-8)

    def test_a_planted_outlier_is_named(self):
        values = DAYS[:, : 48 * 5].copy()
        values[2, 77] += 40.0
        model = cgp.GraphTimeGPRegressor(ROAD, progress=False)
        found = model.fit(ON_ROAD, values, times=STAMPS[: 48 * 5]).outliers_
        worst = int(np.argmax(np.abs(found.score)))
        assert found.node[worst] == 3
        assert found.time[worst] == STAMPS[77]

    def test_sensors_left_out_have_their_errors(self):
        table = fitted().leave_one_sensor_out()
        assert sorted(table.node) == sorted(NODES)
        assert (np.diff(table.rmse) <= 0).all()
        assert table.coverage_95.mean() > 0.8

    def test_dark_nights_are_skipped_and_dark_steps_are_filled(self):
        values = DAYS[:, : 48 * 6].copy()
        night = np.arange(48 * 6) % 48 < 14
        values[:, night] = np.nan
        values[:, 100:103] = np.nan
        model = cgp.GraphTimeGPRegressor(ROAD, progress=False)
        model.fit(ON_ROAD, values, times=STAMPS[: 48 * 6])
        process = model.grid_process_
        assert process.kept.size == (~night).sum()
        mean, std = model.predict(return_std=True)
        assert np.isfinite(mean).all()
        z = (mean[ON_ROAD] - DAYS[:, : 48 * 6]) / std[ON_ROAD]
        assert (np.abs(z[:, 100:103]) < 4).all()
        assert (np.abs(z[:, 48:][:, night[48:]]) < 1.96).mean() > 0.8

    @pytest.mark.parametrize("n", [3, 10, 60])
    def test_few_times_are_enough(self, n):
        model = made().fit(NODES, COMPLETE[:, :n], times=TIMES[:n])
        for part in (*model.predict(return_std=True), *model.forecast(2)):
            assert np.isfinite(part).all()

    @pytest.mark.parametrize("values", [np.full((P, N), 7.0), np.full((P, N), 0.0)])
    def test_constant_values_are_predicted(self, values):
        mean, std = made().fit(NODES, values, times=TIMES).predict(return_std=True)
        np.testing.assert_allclose(mean, values[0, 0], atol=1e-6)
        assert np.isfinite(std).all()

    def test_a_single_sensor_has_no_others(self):
        model = made().fit([3], COMPLETE[:1], times=TIMES)
        mean, std = model.forecast(3)
        assert np.isfinite([mean, std]).all()

    def test_densities_and_quantiles_are_those_of_the_law(self):
        from scipy.stats import norm

        nodes, times = [OTHERS[0], OTHERS[1]], [1.0, 3.0]
        mean, std = fitted().predict(nodes, times, return_std=True)
        law = norm(np.diag(mean), np.diag(std))
        y = np.diag(mean) + np.array([0.1, 2.0])
        np.testing.assert_allclose(fitted().log_density(nodes, times, y), law.logpdf(y))
        low, high = fitted().predict_interval((nodes, times), 0.8)
        np.testing.assert_allclose([low, high], law.ppf([[0.1], [0.9]]))
        frame = fitted().predict_frame(nodes, times)
        np.testing.assert_allclose(frame["mean"], mean.ravel())

    def test_rare_falls_have_student_laws(self):
        """Densities, intervals, frames and draws are those of one law of the moments predicted."""
        from scipy.stats import t as student_t

        rng = np.random.default_rng(2)
        values = 60 + np.cumsum(rng.normal(size=(5, 500)), axis=1) * 0.3
        values = values - 15.0 * (rng.random(values.shape) < 0.01)
        values[1, 300:303] = np.nan
        model = cgp.GraphTimeGPRegressor(ROAD, progress=False, usual_day=False)
        model.fit(ON_ROAD, values, times=np.arange(500.0))
        assert not model.process_.is_gaussian
        times = [301.0, 503.0]
        nu = 1 / model.process_.grid_tails(np.array([1]), np.array(times))[0]
        mean, std = model.predict([1], times, return_std=True)
        law = student_t(nu, mean[0], std[0] * np.sqrt(1 - 2 / nu))
        y = mean[0] + 1.5
        np.testing.assert_allclose(model.log_density([1, 1], times, y), law.logpdf(y))
        low, high = model.predict_interval([1], times)
        np.testing.assert_allclose([low[0], high[0]], [law.ppf(0.025), law.ppf(0.975)])
        single = model.predict_interval(([1, 1], times))
        np.testing.assert_allclose(single, [low[0], high[0]])
        drawn = model.sample_y([1], times, n_samples=4000)[0]
        below = (drawn < law.ppf(0.1)[:, None]).mean(axis=1)
        assert np.abs(below - 0.1).max() < 5 * np.sqrt(0.09 / 4000)


class TestUpdates:
    def test_further_values_are_as_if_given_at_once(self):
        model = copy.copy(of_days())
        values = np.where(HOLES, np.nan, DAYS)
        n = 48 * 7 + 3
        for first, last in ((n, n + 1), (n + 1, n + 20), (n + 20, n + 21)):
            model.partial_fit(ON_ROAD, values[:, first:last], times=STAMPS[first:last])
        process = model.process_
        assert process.before is not None
        whole = replace(process, before=None)
        later = np.append(STAMPS[: n + 21], STAMPS[n + 20] + np.arange(1, 9) * STEP)
        for a, b in zip(
            model.predict(None, later, return_std=True),
            model._around(whole).predict(None, later, return_std=True), strict=True,
        ):  # fmt: skip
            np.testing.assert_allclose(a, b, atol=1e-8)

    def test_late_values_fill_gaps(self):
        model = copy.copy(of_days()).partial_fit([1], [[61.0]], times=[STAMPS[105]])
        assert model.predict([1], [STAMPS[105]])[0, 0] == pytest.approx(61.0)
        assert abs(model.predict([1], [STAMPS[106]])[0, 0] - 61.0) < 5.0

    def test_a_day_that_ends_joins_the_usual_one(self):
        model = copy.copy(of_days())
        n = 48 * 7 + 3
        model.partial_fit(ON_ROAD, DAYS[:, n:], times=STAMPS[n:])
        before, after = of_days().process_.usual, model.process_.usual
        assert after.dates.size == before.dates.size + 1
        assert np.isfinite(model.forecast("3h")[0]).all()

    def test_a_window_forgets_the_past(self, tmp_path):
        n = 48 * 7 + 3
        model = copy.copy(of_days(window=48 * 2))
        model.partial_fit(ON_ROAD, DAYS[:, n : n + 2], times=STAMPS[n : n + 2])
        assert model.grid_process_.times.size == 48 * 2
        whole = copy.copy(of_days())
        whole.partial_fit(ON_ROAD, DAYS[:, n : n + 2], times=STAMPS[n : n + 2])
        np.testing.assert_allclose(model.forecast("2h")[0], whole.forecast("2h")[0], atol=1e-3)
        model.save(tmp_path / "m")
        again = cgp.load_model(tmp_path / "m")
        np.testing.assert_allclose(again.forecast("2h"), model.forecast("2h"), rtol=1e-12)

    @pytest.mark.parametrize(
        ("arguments", "times", "message"),
        [
            ((NODES, Y), TIMES, "times without a value yet"),
            (([99], [[1.0]]), [60.0], "nodes"),
            (([OTHERS[0]], [[1.0]]), [60.0], "sensors of the fit"),
            (([NODES[0]], [[1.0]]), [60.4], "grid"),
            (([NODES[0]], [[1.0]]), ["2020-01-01"], "times"),
            (([NODES[0]], [[np.nan]]), [60.0], "values"),
            (([NODES[0]], [[1e200]]), [60.0], "values"),
        ],
    )
    def test_what_cannot_be_added_is_refused(self, arguments, times, message):
        model = again()
        before = model.process_
        with pytest.raises(InvalidInputError, match=message):
            model.partial_fit(*arguments, times=times)
        assert model.process_ is before

    def test_a_fit_to_other_values_keeps_the_ridge(self):
        other = of_days().refitted(ON_ROAD, DAYS[:, : 48 * 5], times=STAMPS[: 48 * 5])
        assert other.grid_process_.law_.ridge == of_days().grid_process_.law_.ridge
        assert other.grid_process_.values.shape == (5, 48 * 5)


def test_codes_of_missing_values_are_gaps_in_fits_updates_and_files(tmp_path):
    plain, coded = np.where(HOLES, np.nan, DAYS), np.where(HOLES, -1.0, DAYS)
    model = cgp.GraphTimeGPRegressor(ROAD, progress=False, missing_values=-1)
    n = 48 * 7 + 3
    model.fit(ON_ROAD, coded[:, :n], times=STAMPS[:n])
    model.save(tmp_path / "m")
    model = cgp.load_model(tmp_path / "m")
    model.partial_fit(ON_ROAD, coded[:, n : n + 9], times=STAMPS[n : n + 9])
    np.testing.assert_array_equal(model.grid_process_.values, plain[:, : n + 9])


class TestFiles:
    @pytest.mark.parametrize("which", ["few", "days", "counts"])
    def test_a_file_holds_the_law_to_the_bit(self, tmp_path, which):
        model = {"few": fitted, "days": of_days, "counts": of_counts}[which]()
        model.save(tmp_path / "m")
        again = cgp.load_model(tmp_path / "m")
        assert isinstance(again, cgp.GraphTimeGPRegressor)
        assert again.nodes_ == model.nodes_
        times = model.time_axis_.labels(model.grid_process_.times[-3:])
        for a, b in zip(
            again.predict(times=times, return_std=True),
            model.predict(times=times, return_std=True), strict=True,
        ):  # fmt: skip
            np.testing.assert_allclose(a, b, rtol=1e-12)
        np.testing.assert_allclose(again.forecast(STEP if which != "few" else 1.0),
                                   model.forecast(STEP if which != "few" else 1.0))  # fmt: skip
        assert again.log_marginal_likelihood_value_ == pytest.approx(
            model.log_marginal_likelihood_value_, rel=1e-10
        )

    @pytest.mark.parametrize(
        ("kind", "change"),
        [
            ("TimeAxis", {"origin": {"datetime64": "never"}}), ("TimeAxis", {"zone": "Nowhere"}),
            ("TimeAxis", {"zone": "../../etc"}), ("TimeAxis", {"tick": 0}),
            ("TimeAxis", {"tick": -5}), ("TimeAxis", {"zone": 7}), ("TimeAxis", {"origin": ["x"]}),
            ("TimeAxis", {"whole": 3}), ("TimeAxis", {"values": np.zeros(9)}),
            ("FittedModel", {"ndim": 7}), ("FittedModel", {"results": {"dict": {}}}),
            ("SavedModel", {"parameters": {"dict": {"predict": 1}}}),
            ("SavedModel", {"kind": "GPRegressor"}),
        ],
    )  # fmt: skip
    def test_hostile_files_are_refused(self, tmp_path, kind, change):
        cgp.save_model(fitted(), tmp_path / "m")
        changed(tmp_path / "m", kind, **change)
        with pytest.raises(ModelFileError, match="cannot restore"):
            cgp.load_model(tmp_path / "m")

    def test_pickles_and_clones_are_models(self):
        again = pickle.loads(pickle.dumps(fitted()))
        np.testing.assert_array_equal(again.predict([3]), fitted().predict([3]))
        bare = clone(fitted())
        assert bare.get_params() == fitted().get_params()
        assert not hasattr(bare, "_fitted") or not bare.__sklearn_is_fitted__()
        assert "GraphTimeGPRegressor(" in repr(bare)


class TestArguments:
    @pytest.mark.parametrize(
        "parameters",
        [
            {"kernel": "rbf"}, {"usual_day": "yes"}, {"usual_day": True}, {"holidays": "Easter"},
            {"holidays": ["NaT"]}, {"window": 1}, {"target_transform": "log"}, {"graph": None},
        ],
    )  # fmt: skip
    def test_parameters_are_named(self, parameters):
        (name, *_) = parameters
        model = cgp.GraphTimeGPRegressor(**({"graph": GRAPH} | SETTINGS | parameters))
        with pytest.raises(InvalidInputError, match=name):
            model.fit(NODES, Y, times=TIMES)

    @pytest.mark.parametrize(
        ("nodes", "values", "times", "name"),
        [
            (NODES, np.full((P, N), np.nan), TIMES, "values"),
            (NODES, 1e200 * Y, TIMES, "values"),
            (NODES, np.where(np.isnan(Y), np.inf, Y), TIMES, "values"),
            (NODES, Y[:, 1:], TIMES, "values"),
            (NODES[1:], Y, TIMES, "values"),
            ([*NODES[1:], 99], Y, TIMES, "nodes"),
            ([*NODES[1:], NODES[1]], Y, TIMES, "nodes"),
            (NODES, Y, 1e300 * TIMES, "times"),
            (NODES, Y, 1e-300 * TIMES, "times"),
            (NODES, Y, np.where(TIMES == 3, np.nan, TIMES), "times"),
            (NODES, Y, np.zeros(N), "times"),
            (NODES, Y, None, "times"),
            (NODES, Y, TIMES**1.1, "resolution"),
            (NODES, Y[:, :2], TIMES[:2], "times"),
            ([], Y[:0], TIMES, "nodes|values"),
        ],
    )
    def test_data_are_named(self, nodes, values, times, name):
        with pytest.raises(InvalidInputError, match=name):
            made().fit(nodes, values, times=times)

    @pytest.mark.parametrize(
        ("ask", "name"),
        [
            (lambda m: m.predict([]), "nodes"),
            (lambda m: m.predict([99]), "nodes"),
            (lambda m: m.predict(0, [1.0]), "nodes"),
            (lambda m: m.predict([0], [np.nan]), "times"),
            (lambda m: m.predict([0], [np.inf]), "times"),
            (lambda m: m.predict([0], ["2020-01-01"]), "times"),
            (lambda m: m.forecast(0), "ahead"),
            (lambda m: m.forecast(-1), "ahead"),
            (lambda m: m.forecast(0.5), "ahead"),
            (lambda m: m.forecast("1h"), "ahead"),
            (lambda m: m.forecast(np.nan), "ahead"),
            (lambda m: m.forecast(True), "ahead"),
            (lambda m: m.forecast(None), "ahead"),
            (lambda m: m.forecast(3, [99]), "nodes"),
            (lambda m: m.sample_y(n_samples=0), "n_samples"),
            (lambda m: m.sample_y(n_samples=1.5), "n_samples"),
            (lambda m: m.sample_y([0], [1.0], random_state="a"), "random_state"),
            (lambda m: m.log_density([0, 1], [1.0], [5.0, 6.0]), "times"),
            (lambda m: m.log_density([0], [1.0], [np.nan]), "y"),
            (lambda m: m.log_density([0], [1.0], ["a"]), "y"),
            (lambda m: m.log_density([0], [1.0], [1e200]), "y"),
            (lambda m: m.predict_quantiles([0, 1]), "nodes|X"),
            (lambda m: m.predict_quantiles(5), "X"),
            (lambda m: m.predict_interval(([0], [1.0]), 2.0), "level"),
            (lambda m: m.predict([0], [0.4]), "grid"),
            (lambda m: m.predict([0], [-1.0]), "grid"),
            (lambda m: m.prior_covariance([0], [1.0]), "prior"),
            (lambda m: m.score(([0], [1.0, 2.0]), [5.0]), "times"),
        ],
    )
    def test_questions_are_named(self, ask, name):
        with pytest.raises(InvalidInputError, match=name):
            ask(fitted())

    def test_what_does_not_fit_in_memory_is_refused_beforehand(self):
        with pytest.raises(MemoryLimitError, match="ahead"):
            fitted().forecast(1e12)

    def test_rounded_times_are_those_of_a_grid(self):
        rng = np.random.default_rng(0)
        jittered = TIMES + rng.uniform(-0.3, 0.3, N)
        jittered[0] = 0.0
        other = made().fit(NODES, Y, times=jittered, resolution=1.0)
        same_law(other, fitted(), rtol=1e-12)


def test_few_sensors_of_other_components_change_nothing_elsewhere():
    """They have other units, and would set the level and the scale of all."""
    rng, n = np.random.default_rng(5), 60
    edges = np.column_stack([np.arange(15), np.arange(1, 16)])
    values = np.cumsum(rng.normal(size=n)) + 0.3 * np.cumsum(rng.normal(size=(16, n)), axis=0)
    alone = 1000 + 100 * rng.normal(size=(4, n))
    seen = np.arange(0, 16, 2)
    laws = []
    for n_alone in (0, 4):
        graph = cgp.Graph.from_edges(*edges.T, n_nodes=16 + n_alone)
        gp = cgp.GraphTimeGPRegressor(graph, progress=False)
        nodes = np.concatenate([seen, 16 + np.arange(n_alone)])
        panel = np.concatenate([values[seen], alone[:n_alone]])
        if n_alone:
            with pytest.warns(UserWarning, match="4 components have fewer than 8 observed places"):
                gp.fit(nodes, np.arange(float(n)), panel)
            np.testing.assert_allclose(gp.predict(nodes[-4:]), alone)
        else:
            gp.fit(nodes, np.arange(float(n)), panel)
        laws.append(gp.predict(np.arange(16), None, True))
    (mean, std), (found, spread) = laws
    assert np.abs(found - mean).max() < 0.05 * values.std()
    np.testing.assert_allclose(spread, std, rtol=0.1, atol=1e-4)


def counts_of_days(seed=3):
    """Poisson counts (12, 240) of twelve places over ten periods, most of them small."""
    rng = np.random.default_rng(seed)
    t = np.arange(240) / 24
    rate = np.exp(1.2 + 1.3 * np.sin(2 * np.pi * t)[None] + 0.3 * rng.normal(size=(12, 1)))
    return rng.poisson(rate).astype(float)


@cache
def of_counts():
    graph = cgp.Graph.from_edges(np.arange(11), np.arange(1, 12))
    times = np.datetime64("2026-03-02") + np.arange(240) * STEP
    return cgp.GraphTimeGPRegressor(graph, progress=False).fit(
        np.arange(12), counts_of_days(), times=times
    )


def test_counts_have_bounds_that_are_never_negative():
    graph = cgp.Graph.from_edges(np.arange(11), np.arange(1, 12))
    values = counts_of_days()
    times = pd.date_range("2026-03-02", periods=240, freq="h")
    seen = values.copy()
    seen[2:5, 100:110] = np.nan
    gp = cgp.GraphTimeGPRegressor(graph, progress=False).fit(np.arange(12), seen, times=times)
    assert isinstance(gp.transform_, Counts)
    low, high = gp.predict_interval(np.arange(12), times)
    assert (low >= 0).all()
    np.testing.assert_array_equal(gp.predict_interval(np.arange(12))[0], low)
    inside = (low <= values) & (values <= high)
    assert inside[2:5, 100:110].mean() > 0.8
    plain = cgp.GraphTimeGPRegressor(graph, target_transform=None, progress=False)
    plain.fit(np.arange(12), seen, times=times)
    assert (plain.predict_interval(np.arange(12), times)[0] < 0).mean() > 0.1


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array([0.0, 0, 1, 3, 12, 20]), True),
        (np.array([0.0, 0, 1, 3, 12, 20.5]), False),  # no whole number
        (np.array([-1.0, 0, 1, 3, 12, 20]), False),
        (np.array([55.0, 60, 61, 63, 58, 20]), False),  # speeds that were rounded
        (np.array([]), False),
    ],
)
def test_counts_are_told_from_rounded_measurements(values, expected):
    assert looks_like_counts(values) == expected
