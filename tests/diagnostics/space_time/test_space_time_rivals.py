"""Rivals against plain references; none of them looks at what is hidden."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from sklearn.linear_model import Ridge

import coupledgp as cgp
from coupledgp.diagnostics.space_time import learned, per_step, time_alone
from coupledgp.diagnostics.space_time.per_step import sensor_covariance
from coupledgp.diagnostics.space_time.rivals import SPACE_TIME_RIVALS, rival_law
from coupledgp.diagnostics.space_time.simple import (
    last_value,
    linear_in_time,
    mean_at_the_time,
    mean_at_the_time_of_day,
    nearest_sensor,
    path_lengths,
)
from coupledgp.diagnostics.space_time.splits import SensorReadings, SplitPlan
from coupledgp.errors import InvalidInputError
from coupledgp.kernels import GraphMaternKernel
from tests.diagnostics.space_time.cases import readings, road

PLAN = SplitPlan(sensors=0.25, cells=0.1, gap=10.0, gap_sensors=0.5, horizon=4.0)
NAN = np.nan


def small(values, **given):
    values = np.array(values, dtype=np.float64)
    graph = road()
    return SensorReadings(
        values, np.arange(values.shape[1], dtype=float), np.arange(len(values)), graph, **given
    )


def test_values_in_time():
    data = small([[NAN, 1, NAN, 4, NAN], [NAN] * 5])
    np.testing.assert_array_equal(linear_in_time(data), [[1, 1, 2.5, 4, 4], [NAN] * 5])
    np.testing.assert_array_equal(last_value(data), [[1, 1, 1, 4, 4], [NAN] * 5])


def test_means():
    data = small(
        [[1, NAN, 3, NAN], [2, 4, NAN, NAN]], seconds_of_day=np.array([0, 43200, 0, 43200.0])
    )
    np.testing.assert_array_equal(mean_at_the_time(data), [[1.5, 4, 3, NAN]] * 2)
    data = replace(data, times=43200.0 * np.arange(4))
    # The first sensor has no reading at noon: its mean of all is taken.
    np.testing.assert_array_equal(mean_at_the_time_of_day(data), [[2, 2, 2, 2], [2, 4, 2, 4]])
    assert np.isnan(mean_at_the_time_of_day(small([[1.0, 2.0]]))).all()


def test_the_nearest_sensor_that_reports_by_length_of_path():
    # Roads 0-1 of weight 1 (length 1), 1-2 of weight 1.1 (length 0.91), and so on.
    data = small([[1, 1, NAN], [2, NAN, NAN], [3, 3, NAN]])
    np.testing.assert_array_equal(nearest_sensor(data), [[2, 3, NAN], [3, 3, NAN], [2, 1, NAN]])


def test_path_lengths_are_those_of_networkx():
    graph, rng = nx.gnm_random_graph(20, 40, seed=1), np.random.default_rng(0)
    for _, _, edge in graph.edges(data=True):
        edge["weight"] = rng.uniform(0.5, 2)
        edge["length"] = 1 / edge["weight"]
    domain, sites = cgp.Graph.from_networkx(graph), np.array([3, 0, 7, 3])
    lengths = dict(nx.all_pairs_dijkstra_path_length(graph, weight="length"))
    labels = [domain.label(s) for s in sites]
    expected = [[lengths[a].get(b, np.inf) for b in labels] for a in labels]
    np.testing.assert_allclose(path_lengths(domain, sites), expected, rtol=1e-12)


def test_path_lengths_on_a_network_are_lengths_of_roads():
    operator = cgp.LaplaceOperator.from_edges([0, 1], [1, 2], [3.0, 4.0])
    np.testing.assert_allclose(path_lengths(operator, np.array([0, 2])), [[0, 7], [7, 0]])


def test_the_gp_in_time_is_the_dense_one():
    data, kernel = readings(30, gaps=0.3), time_alone.OrnsteinUhlenbeck(0.7, 0.2, 5.0)
    times = np.sort(np.random.default_rng(1).uniform(0, 40, 30))
    z = (data.values - 50) / 10
    z[3] = NAN
    mean, variance = time_alone.smoothed(z, times, kernel)
    evidence = 0.0
    K = 0.7 * np.exp(-np.abs(np.subtract.outer(times, times)) / 5.0)
    for row, y in enumerate(z):
        seen = np.isfinite(y)
        own = K[np.ix_(seen, seen)] + 0.2 * np.eye(seen.sum())
        weights = np.linalg.solve(own, K[seen]).T
        np.testing.assert_allclose(mean[row], weights @ y[seen], atol=1e-10)
        np.testing.assert_allclose(variance[row], 0.7 - (weights * K[:, seen]).sum(1), atol=1e-10)
        evidence -= 0.5 * (y[seen] @ np.linalg.solve(own, y[seen]) + np.linalg.slogdet(own)[1])
        evidence -= 0.5 * seen.sum() * np.log(2 * np.pi)
    assert time_alone.filtered(z, times, kernel).log_evidence == pytest.approx(evidence, abs=1e-8)


def test_the_gp_in_time_finds_the_law_of_its_own_draws():
    data, _ = readings(400, gaps=0.0), None
    found = time_alone.fitted((data.values - 50) / 10, data.times)
    assert found.lengthscale == pytest.approx(8, rel=0.4)
    assert found.noise == pytest.approx(0.05, rel=0.4)


def test_the_gp_of_a_step_is_the_dense_one():
    data = readings(20)
    mean, std = per_step.graph_gp_per_step(data)
    model = per_step.fitted(data)
    seen = data.seen[:, 7]
    own = model.covariance[np.ix_(seen, seen)] + model.noise * np.eye(seen.sum())
    y, across = data.values[seen, 7], model.covariance[:, seen]
    np.testing.assert_allclose(mean[:, 7], y.mean() + across @ np.linalg.solve(own, y - y.mean()))
    left = np.diagonal(model.covariance - across @ np.linalg.solve(own, across.T))
    np.testing.assert_allclose(std[:, 7], np.sqrt(left + model.noise))


def test_the_gp_of_a_step_has_the_evidence_of_the_dense_one():
    data = readings(10)
    K = sensor_covariance(data, GraphMaternKernel(3.0))
    value, v = per_step._evidence(data, [2], K, np.log(0.3))
    seen = data.seen[:, 2]
    y = data.values[seen, 2] - data.values[seen, 2].mean()
    own = v * (K[np.ix_(seen, seen)] + 0.3 * np.eye(seen.sum()))
    expected = -0.5 * (y @ np.linalg.solve(own, y) + np.linalg.slogdet(own)[1])
    assert value - 0.5 * seen.sum() == pytest.approx(expected)
    assert y @ np.linalg.solve(own, y) == pytest.approx(seen.sum())  # v is the best one


def test_covariances_by_series_equal_dense_ones(monkeypatch):
    data = readings(5)
    dense = sensor_covariance(data, GraphMaternKernel(3.0))
    assert np.diagonal(dense).mean() == pytest.approx(1.0)
    monkeypatch.setattr("coupledgp.diagnostics.space_time.per_step.MOST_DENSE", 3)
    np.testing.assert_allclose(sensor_covariance(data, GraphMaternKernel(3.0)), dense, atol=1e-5)


@pytest.mark.parametrize("name", SPACE_TIME_RIVALS)
def test_no_rival_sees_what_is_hidden(name):
    data = readings(40)
    split = PLAN.draw(data, 1)
    changed = replace(data, values=np.where(split.hidden, 1e3, data.values))
    one, other = (rival_law(SPACE_TIME_RIVALS[name], d, split, 0) for d in (data, changed))
    scored = split.kind >= 0
    np.testing.assert_array_equal(one.mean[scored], other.mean[scored])
    np.testing.assert_array_equal(one.std[scored], other.std[scored])
    assert (one.std[scored & np.isfinite(one.mean)] > 0).all()


def standardised(values):
    mean, spread = np.nanmean(values, axis=1), np.nanstd(values, axis=1)
    return (values - mean[:, None]) / spread[:, None], mean, spread


def test_regressions_on_peers_are_ridge_regressions():
    """Without gaps: each sensor by scikit-learn's ridge regression on the others."""
    data = readings(80)
    full = replace(data, values=np.where(data.seen, data.values, 50.0))
    Z, mean, spread = standardised(full.values)
    found = (learned.ridge_on_peers(full) - mean[:, None]) / spread[:, None]
    for i in (0, 5):
        others = np.delete(Z, i, axis=0).T
        model = Ridge(alpha=learned.RIDGE * 80, fit_intercept=False).fit(others, Z[i])
        np.testing.assert_allclose(found[i], model.predict(others), atol=1e-9)


def test_the_autoregression_goes_on_with_what_it_predicts():
    """Of a last stretch that is hidden: scikit-learn's ridge regression, step by step."""
    data = readings(80)
    values = np.where(data.seen, data.values, 50.0)
    hidden = np.zeros(values.shape, dtype=bool)
    hidden[:, 76:] = True
    given = replace(data, values=values).without(hidden)
    found = learned.autoregression(given)
    filled = np.where(hidden, values[:, 75:76], values)  # lines end at the last value
    _, mean, spread = standardised(np.where(hidden, np.nan, values))
    Z = (filled - mean[:, None]) / spread[:, None]
    lagged = np.vstack([Z[:, 3 - lag : 80 - lag] for lag in (1, 2, 3)]).T
    model = Ridge(alpha=learned.RIDGE * 80, fit_intercept=False).fit(lagged, Z[:, 3:].T)
    path = [Z[:, t] for t in range(76)]
    for _ in range(4):
        path.append(model.predict(np.concatenate([path[-1], path[-2], path[-3]])[None])[0])
    expected = mean[:, None] + spread[:, None] * np.array(path[76:]).T
    np.testing.assert_allclose(found[:, 76:], expected, atol=1e-8)


def test_low_rank_fills_a_matrix_of_low_rank():
    """A hidden tenth of a matrix of rank one, to a tenth of its spread."""
    data = readings(200)
    rng = np.random.default_rng(0)
    values = np.outer(rng.uniform(1, 3, len(data.values)), np.sin(0.3 * np.arange(200)))
    values += 0.01 * rng.normal(size=values.shape)
    hidden = rng.random(values.shape) < 0.1
    found = learned.low_rank(replace(data, values=values).without(hidden))
    assert np.std((found - values)[hidden]) < 0.1 * np.std(values[hidden])


@pytest.mark.parametrize("rival", [
    learned.ridge_on_peers, learned.autoregression, learned.low_rank,
])  # fmt: skip
def test_sensors_without_readings_have_no_prediction(rival):
    data = readings(20)
    blank = replace(
        data, values=np.where(np.arange(len(data.values))[:, None] == 3, np.nan, data.values)
    )
    found = rival(blank)
    assert np.isnan(found[3]).all()
    assert np.isfinite(np.delete(found, 3, axis=0)).all()
    assert np.isnan(rival(replace(data, values=np.full_like(data.values, np.nan)))).all()


def test_empirical_laws_are_as_wide_as_the_errors():
    data = readings(400, seed=4)
    split = SplitPlan(gap=20.0, horizon=8.0).draw(data, 0)
    law = rival_law(SPACE_TIME_RIVALS["linear in time"], data, split, 0)
    for kind in ("gap", "scattered", "forecast"):
        here = split.of_kind(kind) & data.seen
        errors = data.values[here] - law.mean[here]
        assert np.sqrt(np.mean(errors**2)) == pytest.approx(law.std[here].mean(), rel=0.4)
    forecast = split.of_kind("forecast")
    assert (
        law.std[forecast & (split.ahead == 8)].mean()
        > law.std[forecast & (split.ahead == 1)].mean()
    )


def test_a_law_of_another_shape():
    data = readings(20)
    split = PLAN.draw(data, 0)
    with pytest.raises(
        InvalidInputError, match=r"means of shape \(12, 20\) or \(12,\), got \(3,\)"
    ):
        rival_law(lambda given: np.zeros(3), data, split, 0)
    with pytest.raises(InvalidInputError, match="expected deviations of shape"):
        rival_law(lambda given: (given.values, np.ones(2)), data, split, 0)
