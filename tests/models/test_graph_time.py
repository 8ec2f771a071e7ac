"""The estimator of values at nodes over time: invariances, truth, outliers, files, arguments."""

from __future__ import annotations

import copy
import pickle
import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import coupledgp as cgp
from coupledgp.errors import InvalidInputError, MemoryLimitError, ModelFileError
from coupledgp.gp import graph_time
from coupledgp.gp.transforms import Counts
from coupledgp.ground import compiled
from coupledgp.kernels.time import Constant, Matern12
from coupledgp.search.space_time.transforms import looks_like_counts
from tests.model_files import opened, signed
from tests.models.test_stale_results import (
    CONTAINERS,
    OF_THE_SEARCH,
    RENEWED,
    public_results,
    same,
)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

N_NODES, P, N = 20, 9, 60
GRAPH = cgp.Graph.from_edges(np.arange(N_NODES), (np.arange(N_NODES) + 1) % N_NODES)
NODES = np.sort(np.random.default_rng(1).choice(N_NODES, P, replace=False)).tolist()
TIMES = np.arange(float(N))
OTHERS = [k for k in range(N_NODES) if k not in NODES]
SETTINGS = {"kernel": "heat", "progress": False, "n_variance_samples": 8}


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


def near(law, expected):
    """Laws whose hyperparameters were found on paths that rounding has set apart."""
    assert np.abs((law[0] - expected[0]) / expected[1]).max() < 0.2
    assert np.abs(law[1] / expected[1] - 1).max() < 0.1


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

    def test_the_unit_of_time_does_not_matter(self):
        other = made(node_effects=False).fit(NODES, Y, times=60.0 * TIMES)
        near(other.predict(return_std=True), fitted(node_effects=False).predict(return_std=True))
        seconds, minutes = (
            model.terms_[0].kernel.lengthscale for model in (other, fitted(node_effects=False))
        )
        assert seconds == pytest.approx(60 * minutes, rel=0.1)

    @pytest.mark.parametrize(("shift", "scale"), [(0.0, 1e6), (1e4, 1.0), (-20.0, 1e-6)])
    def test_shift_and_scale_of_values_do_not_matter(self, shift, scale):
        other = made(node_effects=False).fit(NODES, shift + scale * Y, times=TIMES)
        mean, std = other.predict(return_std=True)
        near(
            ((mean - shift) / scale, std / scale),
            fitted(node_effects=False).predict(return_std=True),
        )
        jacobian = (~MISSING).sum() * np.log(scale)
        assert other.log_marginal_likelihood_value_ == pytest.approx(
            fitted(node_effects=False).log_marginal_likelihood_value_ - jacobian, abs=1.0
        )

    def test_a_sensor_without_values_and_times_without_values_change_nothing(self):
        with pytest.warns(UserWarning, match="1 without any value are left out"):
            more = made().fit([*NODES, OTHERS[0]], np.vstack([Y, np.full(N, np.nan)]), times=TIMES)
        same_law(more, fitted(), rtol=1e-12)

    def test_a_forecast_is_the_prediction_at_appended_times(self):
        model, ahead = fitted(), np.arange(N, N + 5.0)
        mean, std = model.forecast(5)
        at_times = model.predict(NODES, ahead, return_std=True)
        np.testing.assert_allclose(mean, at_times[0], rtol=1e-12)
        np.testing.assert_allclose(std, at_times[1], rtol=1e-12)
        padded = np.hstack([Y, np.full((P, 5), np.nan)])
        points = model.process_
        grid = points.rows.__class__(
            points.rows.sensors, np.arange(N + 5.0), padded, points.rows.extra
        )
        appended = points.given(
            points.sites, points.parameters, points.settings, points.units, True, grid
        )
        places = np.column_stack([np.repeat(NODES, 5), np.tile(ahead, P)]).astype(float)
        law = appended.law(places, "variance")
        np.testing.assert_allclose(law.mean.reshape(P, 5), mean, rtol=1e-6)
        np.testing.assert_allclose(np.sqrt(law.spread.reshape(P, 5)), std, rtol=1e-6)

    def test_one_seed_gives_the_same_bits(self):
        second = made().fit(NODES, Y, times=TIMES)
        for found, expected in zip(
            second.predict(return_std=True), fitted().predict(return_std=True), strict=True
        ):
            np.testing.assert_array_equal(found, expected)

    def test_any_number_of_threads_gives_the_same_bits(self, monkeypatch):
        monkeypatch.setattr(graph_time, "DENSE_LIMIT", 0)
        laws = []
        for n_threads in (1, 3):
            monkeypatch.setattr(compiled, "_number_of_threads", lambda n=n_threads: n)
            model = made().fit(NODES, Y, times=TIMES)
            laws.append([*model.predict(return_std=True), model.leave_one_sensor_out().std])
        for one, several in zip(*laws, strict=True):
            np.testing.assert_array_equal(one, several)

    def test_answers_do_not_depend_on_what_was_asked_before(self, monkeypatch):
        monkeypatch.setattr(graph_time, "DENSE_LIMIT", 0)
        model = again().partial_fit([NODES[0]], [[50.0]], times=[60.0])
        before = model.n_iterations_
        first = model.predict([3, 7], [5.0, 2.5], return_std=True)
        model.sample_y([0], [1.0])
        model.leave_one_sensor_out()
        second = model.predict([3, 7], [5.0, 2.5], return_std=True)
        np.testing.assert_array_equal(first, second)
        assert model.n_iterations_ == before > 0


class TestTruth:
    def test_intervals_hold_what_they_promise(self):
        """Of f at gaps, at nodes without a sensor and ahead, over three simulations."""
        held = {"gaps": [], "others": [], "ahead": []}
        for seed in range(3):
            field, values = truth(n=100, seed=seed + 10)
            gaps = np.random.default_rng(seed).random((P, 100)) < 0.2
            gaps[3, 30:60] = gaps[7, 10:40] = True
            gaps[:, 90:] = True
            model = made(n_variance_samples=32).fit(
                NODES, np.where(gaps, np.nan, values), times=np.arange(100.0)
            )
            mean, std = model.predict(return_std=True, latent=True)
            inside = np.abs(mean - field) < 1.96 * std
            held["gaps"] += inside[NODES][:, :90][gaps[:, :90]].tolist()
            held["others"] += inside[OTHERS][:, :90].ravel().tolist()
            held["ahead"] += inside[NODES][:, 90:].ravel().tolist()
        for name, found in held.items():
            # Cells depend on each other, so that the range is wider than that of counts.
            assert 0.88 < np.mean(found) < 0.99, name

    def test_what_is_found_is_near_the_truth(self):
        model, scale = fitted(node_effects=False), 64.0
        assert model.noise_ == pytest.approx(0.1 * scale, rel=0.4)
        kinds = [type(term.kernel) for term in fitted().terms_]
        assert kinds == [Matern12, Constant, Matern12, Constant]
        moving = model.terms_[0]
        assert 3.0 < moving.kernel.lengthscale < 30.0
        assert moving.variance == pytest.approx(scale, rel=0.7)

    def test_gaps_are_filled_better_than_along_time_alone(self):
        mean = fitted().predict(NODES)
        error = np.sqrt(np.mean((mean - FIELD[NODES])[MISSING] ** 2))
        lines = np.array([np.interp(TIMES, TIMES[~gap], row[~gap])
                          for gap, row in zip(MISSING, Y, strict=True)])  # fmt: skip
        assert error < 0.9 * np.sqrt(np.mean((lines - FIELD[NODES])[MISSING] ** 2))

    def test_sensors_of_unequal_noise_are_told_apart(self):
        rng = np.random.default_rng(3)
        sizes = np.where(np.arange(P) % 3 == 0, 2.0, 0.5)
        values = FIELD[NODES] + 4.0 * sizes[:, None] * rng.normal(size=(P, N))
        model = made(sensor_noise="own").fit(NODES, values, times=TIMES)
        scales = model.sensor_scales_
        assert np.log(scales).mean() == pytest.approx(0.0, abs=1e-9)
        assert scales[sizes == 2.0].min() > 2.0 * scales[sizes == 0.5].max()
        shared = made().fit(NODES, values, times=TIMES)
        np.testing.assert_array_equal(shared.sensor_scales_, np.ones(P))
        assert model.log_marginal_likelihood_value_ > shared.log_marginal_likelihood_value_ + 20
        std = model.predict(NODES, return_std=True)[1]
        assert std[sizes == 2.0].min() > std[sizes == 0.5].max()


PLANTED = np.zeros((P, N), dtype=bool)
PLANTED.reshape(-1)[np.random.default_rng(5).choice(np.flatnonzero(~MISSING), 12, False)] = True
SPOILT = np.where(PLANTED, Y + 40.0 * np.where(np.arange(N) % 2, 1, -1), Y)


@cache
def spoilt():
    return made(node_effects=False).fit(NODES, SPOILT, times=TIMES)


class TestOutliers:
    def test_planted_outliers_are_rejected_and_few_others(self):
        model = made(outliers="reject", node_effects=False).fit(NODES, SPOILT, times=TIMES)
        found = model.outliers_
        assert found.rejected
        cells = {
            (NODES.index(node), int(t)) for node, t in zip(found.node, found.time, strict=True)
        }
        planted = set(zip(*np.nonzero(PLANTED), strict=True))
        assert planted <= cells
        assert len(cells - planted) <= 2
        assert (np.abs(found.score) > 4).all()
        assert model.noise_ == pytest.approx(fitted(node_effects=False).noise_, rel=0.3)
        plain = spoilt()
        assert plain.noise_ > 3 * model.noise_
        assert not plain.outliers_.rejected
        errors = [np.abs(m.predict() - FIELD).mean() for m in (model, plain, fitted())]
        assert errors[0] < 1.05 * errors[2] < errors[1]

    def test_clean_data_lose_hardly_any_cell(self):
        assert len(made(outliers="reject").fit(NODES, Y, times=TIMES).outliers_.node) <= 1
        assert len(fitted().outliers_.node) <= 1

    def test_students_weights_are_those_of_a_dense_process_with_their_noise(self):
        model = made(outliers="student-t").fit(NODES, SPOILT, times=TIMES)
        process = model.process_
        extra = process.rows.extra
        assert extra[PLANTED].min() > 10 * np.median(extra[~MISSING & ~PLANTED])
        weights = 1.0 / (1.0 + extra[~MISSING])
        assert weights.max() <= 1.0
        assert weights.min() > 0.0
        points = process.data.points
        dense = process.exact().law(points, "variance", latent=True)
        law = process.law(points, "variance", latent=True)
        np.testing.assert_allclose(law.mean, dense.mean, rtol=1e-6)
        np.testing.assert_allclose(law.spread, dense.spread, rtol=1e-6)
        # At a fixed point: w = (nu + 1) / (nu + E[e^2] / s), at most one, for nu = 4.
        s = process.units.spread(process.parameters.noise)[0]
        square = (process.data.targets - law.mean)[:, 0] ** 2 + law.spread[:, 0]
        np.testing.assert_allclose(weights, np.minimum(5 / (4 + square / s), 1), atol=0.05)
        plain = spoilt()
        errors = [np.abs(m.predict() - FIELD).mean() for m in (model, plain)]
        assert errors[0] < errors[1]


class TestOtherAxes:
    def test_times_may_be_irregular(self):
        times = np.cumsum(np.random.default_rng(4).uniform(0.2, 3.0, 40))
        model = made().fit(NODES, Y[:, :40], times=times)
        assert model.time_axis_.step is None
        process = model.process_
        np.testing.assert_allclose(
            model.predict(return_std=True)[0].ravel(),
            process.exact().law(grid(N_NODES, times), "mean").mean[:, 0], rtol=1e-6,
        )  # fmt: skip

    def test_dark_times_are_predicted(self):
        dark = Y.copy()
        dark[:, 25:35] = np.nan
        model = made().fit(NODES, dark, times=TIMES)
        assert model.gaps_.n_dark == 10
        assert model.gaps_.longest_run >= 10
        mean, std = model.predict(NODES, return_std=True)
        assert std[:, 30].min() > 1.2 * std[:, 20].max() * 0.8
        assert np.isfinite(mean).all()

    def test_more_sensors_than_eigenvectors(self, monkeypatch):
        from coupledgp.inference.space_time.basis import Basis

        model = fitted()
        monkeypatch.setattr(Basis.of.__func__, "__defaults__", (None, 8))
        process = model.process_.conditioned(model.process_.data)
        assert not process.posterior.system.basis.is_complete
        assert "leading eigenvectors" in process.reason
        mean = process.law(grid(N_NODES, TIMES), "mean").mean[:, 0]
        expected, std = model.predict(return_std=True)
        assert np.abs((mean - expected.ravel()) / std.ravel()).mean() < 0.3

    @pytest.mark.parametrize("times", [1, 2, 3])
    def test_few_times_are_enough(self, times):
        model = made().fit(NODES, COMPLETE[:, :times], times=TIMES[:times])
        mean, std = model.predict(return_std=True)
        assert np.isfinite(mean).all()
        assert (std > 0).all()
        assert model.leave_one_sensor_out().rmse.shape == (P,)

    @pytest.mark.parametrize("values", [np.full((P, N), 7.0), np.zeros((P, N))])
    def test_constant_values_are_predicted(self, values):
        model = made().fit(NODES, values, times=TIMES)
        np.testing.assert_allclose(model.predict(), values[0, 0], atol=1e-6)

    def test_a_single_sensor_has_no_others(self):
        model = made().fit([0], Y[:1], times=TIMES)
        table = model.leave_one_sensor_out()
        assert table.node == [0]
        prior = np.sqrt(model.outputscale_ + model.noise_)
        assert np.nanmax(table.std) == pytest.approx(prior, rel=0.2)


def grid(n_sites, times):
    return np.column_stack([
        np.repeat(np.arange(n_sites), len(times)), np.tile(times, n_sites)
    ]).astype(float)  # fmt: skip


class TestAnswers:
    def test_components_sum_to_the_mean(self):
        parts = fitted().components()
        assert list(parts) == ["mean", "moving", "usual", "own moving", "own usual"]
        total = parts["mean"] + sum(parts[name] for name in list(parts)[1:])
        np.testing.assert_allclose(total, fitted().predict(latent=True), rtol=1e-9)
        assert np.ptp(parts["usual"], axis=1).max() < 1e-9

    def test_samples_have_the_mean_and_the_spread(self):
        model, nodes, times = fitted(), [NODES[0], OTHERS[0]], [5.0, 70.0]
        drawn = model.sample_y(nodes, times, n_samples=1000, random_state=1)
        assert drawn.shape == (2, 2, 1000)
        mean, std = model.predict(nodes, times, return_std=True)
        assert np.abs((drawn.mean(axis=2) - mean) / std).max() < 5 / np.sqrt(1000)
        assert np.abs(drawn.std(axis=2) / std - 1).max() < 0.12
        np.testing.assert_array_equal(
            drawn, model.sample_y(nodes, times, n_samples=1000, random_state=1)
        )

    def test_densities_and_quantiles_are_those_of_the_law(self):
        model, nodes, times = fitted(), [NODES[0], OTHERS[0]], [5.0, 70.0]
        mean, std = (part.diagonal() for part in model.predict(nodes, times, return_std=True))
        y = mean + std
        expected = -0.5 - np.log(std) - 0.5 * np.log(2 * np.pi)
        np.testing.assert_allclose(model.log_density(nodes, times, y), expected, rtol=1e-5)
        low, high = model.predict_interval((nodes, times))
        np.testing.assert_allclose([low, high], [mean - 1.96 * std, mean + 1.96 * std], rtol=1e-4)
        assert model.score((NODES[:1] * N, TIMES), COMPLETE[0]) > 0.8

    def test_the_table_of_sensors_left_out_has_the_worst_first(self):
        table = fitted().leave_one_sensor_out()
        assert sorted(table.node) == sorted(NODES)
        assert (np.diff(table.rmse) <= 0).all()
        k = NODES.index(table.node[0])
        error = table.mean[0] - Y[k]
        assert table.rmse[0] == pytest.approx(np.sqrt(np.nanmean(error**2)))
        assert table.n[0] == (~MISSING[k]).sum()
        z = error / table.std[0]
        assert table.coverage_95[0] == pytest.approx(
            np.mean(np.abs(z[~MISSING[k]]) < 1.96), abs=0.02
        )
        assert 0.85 < np.average(table.coverage_95, weights=table.n) <= 1.0


class TestUpdates:
    def test_further_values_are_as_if_given_at_once(self):
        model = made().fit(NODES, Y[:, :50], times=TIMES[:50])
        at_once = model._conditioned_on(fitted().process_.data)
        process = model.process_.conditioned(fitted().process_.data, renormalize=True)
        model.partial_fit(NODES, Y[:, 50:], times=TIMES[50:])
        mean = model.predict()
        np.testing.assert_allclose(
            mean, process.law(grid(N_NODES, TIMES), "mean").mean.reshape(mean.shape), rtol=1e-6
        )
        assert at_once.predict().shape == mean.shape
        assert model.y_train_.size == (~MISSING).sum()

    def test_each_result_is_renewed_or_of_the_fit(self):
        """As `test_stale_results` has it for models of rows."""
        model = fitted()
        updated = again().partial_fit([NODES[0], OTHERS[0]], [[50.0], [51.0]], times=[61.0])
        at_once = model._around(
            model.process_.conditioned(updated.process_.data.as_one_batch(), renormalize=True)
        )
        renewed = RENEWED | {
            "gaps_", "terms_", "sensor_scales_", "grid_process_", "transform_", "n_iterations_",
            "days_process_", "usual_day_share_", "has_dynamics_",
        }  # fmt: skip
        of_the_fit = OF_THE_SEARCH | {"panel_", "time_axis_", "outliers_"}
        known = {name for name in public_results(model) if hasattr(model, name)}
        assert not known - renewed - of_the_fit, "decide what partial_fit does to it"
        for name in known - CONTAINERS - {"grid_process_", "days_process_"}:
            found = getattr(updated, name)
            expected = getattr(at_once if name in renewed else model, name)
            assert same(found, expected) or found == expected, name
        assert len(updated.nodes_) == P + 1
        assert updated.gaps_.share > model.gaps_.share

    def test_a_window_forgets_the_past(self):
        model = made(window=20).fit(NODES, Y[:, :50], times=TIMES[:50])
        assert model.process_.rows.times.size == 50
        for k in range(50, 56):
            model.partial_fit(NODES, Y[:, k : k + 1], times=TIMES[k : k + 1])
        np.testing.assert_array_equal(model.process_.rows.times, TIMES[36:56])
        assert model.predict().shape == (N_NODES, 20)

    def test_a_new_node_may_report(self):
        model = again().partial_fit([OTHERS[0]], [[55.0]], times=[60.0])
        assert OTHERS[0] in model.nodes_
        assert model.predict([OTHERS[0]], [60.0])[0, 0] != fitted().predict([OTHERS[0]], [60.0])

    @pytest.mark.parametrize(
        ("arguments", "times", "message"),
        [
            ((NODES, Y), TIMES, "one observation of a site at a time"),
            (([99], [[1.0]]), [60.0], "nodes"),
            (([0], [[1.0]]), ["2020-01-01"], "times"),
            (([0], [[np.nan]]), [60.0], "values"),
            (([0], [[1e200]]), [60.0], "values"),
        ],
    )
    def test_what_cannot_be_added_is_refused(self, arguments, times, message):
        model = again()
        before = model.process_
        with pytest.raises(InvalidInputError, match=message):
            model.partial_fit(*arguments, times=times)
        assert model.process_ is before


class TestFiles:
    @pytest.mark.parametrize(
        "parameters",
        [{}, {"sensor_noise": "own"}, {"outliers": "student-t"}, {"node_effects": False}],
    )
    def test_a_file_holds_the_law_to_the_bit(self, tmp_path, parameters):
        model = fitted(**parameters)
        cgp.save_model(model, tmp_path / "m")
        again = cgp.load_model(tmp_path / "m")
        assert isinstance(again, cgp.GraphTimeGPRegressor)
        assert again.nodes_ == model.nodes_
        assert again.terms_ == model.terms_
        for times in (None, [61.0, 3.3]):
            for found, expected in zip(
                again.predict(times=times, return_std=True),
                model.predict(times=times, return_std=True), strict=True,
            ):  # fmt: skip
                np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(again.sample_y([0], [1.0], 3), model.sample_y([0], [1.0], 3))
        for name in ("n_rounds_", "converged_", "noise_", "log_marginal_likelihood_value_"):
            assert getattr(again, name) == getattr(model, name), name
        again.partial_fit([0], [[50.0]], times=[60.0])

    def test_a_clock_goes_on_though_the_first_times_are_forgotten(self, tmp_path):
        stamps = np.datetime64("2024-03-30T22:00") + np.arange(N) * np.timedelta64(5, "m")
        model = made(window=20).fit(NODES, Y[:, :50], times=stamps[:50])
        model.partial_fit(NODES, Y[:, 50:51], times=stamps[50:51])
        cgp.save_model(model, tmp_path / "m")
        again = cgp.load_model(tmp_path / "m")
        assert "posterior" not in vars(again.process_)  # nothing is solved before it is needed
        np.testing.assert_array_equal(
            again.predict([0, 1], stamps[40:54]), model.predict([0, 1], stamps[40:54])
        )

    def test_stamps_come_back(self, tmp_path):
        stamps = np.datetime64("2024-03-30T22:00") + np.arange(N) * np.timedelta64(5, "m")
        model = made().fit(NODES, Y, times=stamps)
        cgp.save_model(model, tmp_path / "m")
        again = cgp.load_model(tmp_path / "m")
        np.testing.assert_array_equal(
            again.forecast("15min", return_std=False), model.forecast("15min", return_std=False)
        )
        np.testing.assert_array_equal(
            again.predict([0], stamps[:2]), model.predict([0], stamps[:2])
        )

    @pytest.mark.parametrize(
        "change",
        [
            {"axis": None}, {"axis": {}}, {"axis": {"origin": "never", "zone": None, "tick": 1,
                                                    "whole": False}},
            {"axis": {"origin": "2020-01-01", "zone": "Nowhere", "tick": 1000, "whole": False}},
            {"axis": {"origin": "2020-01-01", "zone": "../../etc", "tick": 1000, "whole": False}},
            {"axis": {"origin": "2020-01-01", "zone": None, "tick": 0, "whole": False}},
            {"axis": {"origin": "2020-01-01", "zone": None, "tick": -5, "whole": False}},
            {"axis": {"origin": None, "zone": 7, "tick": 1000, "whole": False}},
            {"axis": {"origin": ["x"], "zone": None, "tick": "1", "whole": 3}},
            {"fitted": [1]}, {"fitted": {"process": 1, "panel": None}},
            {"fitted": {"n_rounds_": "many"}},
            {"parameters": {"graph": 1}}, {"parameters": {"predict": 1}}, {"parameters": None},
            {"parameters": {"n_variance_samples": []}},
            {"y_ndim": 7},
        ],
    )  # fmt: skip
    def test_hostile_headers_are_models_that_answer_or_are_refused(self, tmp_path, change):
        import json

        cgp.save_model(fitted(), tmp_path / "m")
        metadata, arrays = opened(tmp_path / "m")
        header = json.loads(metadata["model"]) | change
        (tmp_path / "bad").write_bytes(signed(metadata, json.dumps(header), arrays))
        try:
            model = cgp.load_model(tmp_path / "bad")
        except ModelFileError:
            return
        assert "axis" not in change or change["axis"]
        assert np.isfinite(model.predict([0], return_std=True)).all()
        repr(model)
        assert isinstance(model.gaps_.share, float)

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
            {"sensor_noise": "each"}, {"outliers": "drop"}, {"n_variance_samples": 0},
            {"time_kernel": "rbf"}, {"kernel": "rbf"}, {"usual_day": "yes"}, {"usual_day": True},
            {"dynamics": 1.5}, {"dynamics": True}, {"spread": None}, {"holidays": "Easter"},
            {"holidays": ["NaT"]}, {"window": 1}, {"random_state": "x"},
            {"noise": 0}, {"noise": "a"}, {"noise": np.inf}, {"graph": None},
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
            ([], Y[:0], TIMES, "nodes|values"),
        ],
    )
    def test_data_are_named(self, nodes, values, times, name):
        with pytest.raises(InvalidInputError, match=name):
            made().fit(nodes, values, times=times)

    @pytest.mark.long
    @pytest.mark.parametrize(
        "times", [1e15 * TIMES, 1e15 + TIMES, 1e-15 * TIMES, np.logspace(-6, 6, N),
                  np.concatenate([TIMES[:30], 1e6 + TIMES[30:]])],
    )  # fmt: skip
    def test_times_of_any_size_have_finite_answers(self, times):
        model = made().fit(NODES, Y, times=times)
        later = times[-1] + (times[-1] - times[0])
        for part in model.predict([0, 1], [times[0], times[-1], later], return_std=True):
            assert np.isfinite(part).all()

    @pytest.mark.parametrize(
        ("ask", "name"),
        [
            (lambda m: m.predict([]), "nodes"),
            (lambda m: m.predict([99]), "nodes"),
            (lambda m: m.predict(0, [1.0]), "nodes"),
            (lambda m: m.predict([0], [np.nan]), "times"),
            (lambda m: m.predict([0], [np.inf]), "times"),
            (lambda m: m.predict([0], ["2020-01-01"]), "times"),
            (lambda m: m.predict([0], [1e300], True), "times"),
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
            (lambda m: m.components([99]), "nodes"),
            (lambda m: m.score(([0], [1.0, 2.0]), [5.0]), "times"),
        ],
    )
    def test_questions_are_named(self, ask, name):
        with pytest.raises(InvalidInputError, match=name):
            ask(fitted())

    def test_what_does_not_fit_in_memory_is_refused_beforehand(self):
        with pytest.raises(MemoryLimitError, match="ahead"):
            fitted().forecast(1e12)
        with pytest.raises(MemoryLimitError):
            fitted().sample_y(n_samples=10**9)

    def test_kernels_of_time_may_be_objects_and_noise_fixed(self):
        model = made(time_kernel=Matern12(7.0), noise=5.0, node_effects=False)
        model.fit(NODES, Y, times=TIMES)
        assert model.noise_ == pytest.approx(5.0)
        assert [type(term.kernel) for term in model.terms_] == [Matern12, Constant]
        assert model.method_ == "dense"
        assert "Cholesky" in model.method_reason_


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
        gp = cgp.GraphTimeGPRegressor(
            graph, sensor_covariance="kernel", n_variance_samples=4, progress=False
        )
        nodes = np.concatenate([seen, 16 + np.arange(n_alone)])
        panel = np.concatenate([values[seen], alone[:n_alone]])
        if n_alone:
            with pytest.warns(UserWarning, match="4 components have fewer than 8 observed places"):
                gp.fit(nodes, np.arange(float(n)), panel)
            mean, std = gp.predict(nodes[-4:], None, True)
            assert (np.abs(mean - alone) < 6 * std).all()
        else:
            gp.fit(nodes, np.arange(float(n)), panel)
        laws.append(gp.predict(np.arange(16), None, True))
    (mean, std), (found, spread) = laws
    assert np.abs(found - mean).max() < 0.05 * values.std()
    np.testing.assert_allclose(spread, std, rtol=0.1)


def test_forecasts_tell_their_cost_before_they_begin(monkeypatch):
    rng, nodes = np.random.default_rng(2), np.arange(6)
    times = np.datetime64("2026-03-02T06:00") + np.arange(400) * np.timedelta64(5, "m")
    values = np.cumsum(rng.normal(size=(6, 400)), axis=1)
    values[rng.random(values.shape) < 0.05] = np.nan
    graph = cgp.Graph.from_edges(nodes[:-1], nodes[1:])
    gp = cgp.GraphTimeGPRegressor(graph, progress=False).fit(nodes, times, values)
    gp.forecast("1h", budget="30s, 1GB")
    process = gp.grid_process_
    costs = [process.law_forecast(6, n, std).seconds for n, std in ((1, 1), (900, 1), (900, 0))]
    assert costs[0] < costs[1] / 2
    assert costs[2] < costs[1] / 20

    def refused(*_):
        raise AssertionError("something was computed")

    monkeypatch.setattr(type(process.posterior), "means", refused)
    monkeypatch.setattr(type(process), "grid_variances", refused)
    with pytest.raises(InvalidInputError, match=r"budget: .* 2\.88e\+06 steps .*shorter time"):
        gp.forecast("10000D")
    with pytest.raises(MemoryLimitError, match="ahead: laws of 6 nodes"):
        gp.forecast("100000000D")
    with pytest.raises(MemoryLimitError, match="GiB"):
        gp.forecast("7D", budget="60s, 1MB")
    with pytest.raises(InvalidInputError, match="budget"):
        gp.forecast("30D", budget=0.01)


def counts_of_days(seed=3):
    """Poisson counts (12, 240) of twelve places over ten periods, most of them small."""
    rng = np.random.default_rng(seed)
    t = np.arange(240) / 24
    rate = np.exp(1.2 + 1.3 * np.sin(2 * np.pi * t)[None] + 0.3 * rng.normal(size=(12, 1)))
    return rng.poisson(rate).astype(float)


def test_counts_have_bounds_that_are_never_negative():
    graph = cgp.Graph.from_edges(np.arange(11), np.arange(1, 12))
    values = counts_of_days()
    times = pd.date_range("2026-03-02", periods=240, freq="h")
    seen = values.copy()
    seen[2:5, 100:110] = np.nan
    gp = cgp.GraphTimeGPRegressor(graph, random_state=0).fit(np.arange(12), seen, times=times)
    assert isinstance(gp.transform_, Counts)
    low, high = gp.predict_interval(np.arange(12), times)
    assert (low >= 0).all()
    np.testing.assert_array_equal(gp.predict_interval(np.arange(12))[0], low)
    inside = (low <= values) & (values <= high)
    assert inside[2:5, 100:110].mean() > 0.8
    plain = cgp.GraphTimeGPRegressor(graph, target_transform=None, random_state=0)
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
