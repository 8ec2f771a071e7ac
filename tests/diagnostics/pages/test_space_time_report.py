"""The report of a fitted model holds the model's own law and errors."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.diagnostics import (
    SensorReadings,
    SplitPlan,
    evaluate_space_time,
    space_time_report,
)
from coupledgp.diagnostics.space_time.places import MAX_NODES, MapSites
from coupledgp.diagnostics.space_time.record import FORECAST, GAP
from coupledgp.errors import InvalidInputError

N_NODES, N_TIMES = 10, 80
SENSORS = np.delete(np.arange(N_NODES), [4, 7])
TIMES = np.datetime64("2012-03-01T06:00") + 15 * np.arange(N_TIMES) * np.timedelta64(1, "m")
PLACES = np.column_stack([np.arange(10.0), np.zeros(10)])


def roads() -> cgp.Graph:
    ends = np.arange(N_NODES - 1)
    return cgp.Graph.from_edges(
        [f"n{k}" for k in ends], [f"n{k + 1}" for k in ends],
        labels=[f"n{k}" for k in range(N_NODES)],
    )  # fmt: skip


@cache
def speeds() -> np.ndarray:
    rng = np.random.default_rng(3)
    y = 50 + np.cumsum(rng.normal(size=(SENSORS.size, N_TIMES)), axis=1)
    y[2, 20:30] = np.nan
    y[5, 40] += 60  # an outlier
    return y


@cache
def model() -> cgp.GraphTimeGPRegressor:
    # In an order that is not that of the graph.
    labels = [f"n{k}" for k in SENSORS[::-1]]
    return cgp.GraphTimeGPRegressor(roads(), progress=False).fit(labels, TIMES, speeds()[::-1])


@cache
def filled() -> cgp.diagnostics.SpaceTimeReport:
    return space_time_report(model(), splits=0, positions=PLACES, unit="mph")


def test_a_model_of_transformed_values_is_shown_in_units_of_the_values():
    estimator = cgp.GraphTimeGPRegressor(roads(), target_transform="counts", progress=False)
    labels = [f"n{k}" for k in SENSORS]
    estimator.fit(labels, TIMES[:20], speeds()[:, :20])
    found = space_time_report(estimator, splits=0, positions=PLACES)
    np.testing.assert_allclose(found.observed[:, :20], speeds()[:, :20], rtol=1e-12)
    law = estimator.law_on_grid(SENSORS, found.times)
    np.testing.assert_allclose(found.mean[SENSORS], law[0])


def test_the_map_has_the_model_s_law_and_a_forecast():
    found = filled()
    assert list(found.nodes) == [f"n{k}" for k in range(N_NODES)]
    assert found.times.size == N_TIMES + 12
    mean, std = model().predict(times=model().time_axis_.labels(found.times), return_std=True)
    np.testing.assert_allclose(found.mean, mean, atol=1e-9)
    np.testing.assert_allclose(found.std, std, atol=1e-9)
    assert len(found.edges) == N_NODES - 1
    assert found.is_network  # nodes with positions, two edges each


def test_cells_are_observed_gaps_or_forecasts():
    found = filled()
    assert found.sensor_names == [f"n{k}" for k in SENSORS]
    np.testing.assert_array_equal(found.observed[:, :N_TIMES], speeds())
    assert (found.kinds[2, 20:30] == GAP).all()
    assert (found.kinds[:, N_TIMES:] == FORECAST).all()
    assert np.isnan(found.observed[:, N_TIMES:]).all()
    assert found.gaps.n_gaps == 10
    assert found.gaps.longest == 10


def test_errors_of_sensors_left_out_are_in_the_order_of_the_sensors():
    table, found = model().leave_one_sensor_out(), filled().left_out
    by = dict(zip(table.node, table.rmse, strict=True))
    expected = [by[f"n{k}"] for k in SENSORS]
    np.testing.assert_allclose(found.rmse, expected, rtol=1e-9)
    given = space_time_report(model(), splits=0, left_out=table.to_dataframe()).left_out
    np.testing.assert_allclose(given.rmse, expected, rtol=1e-9)


def test_series_have_the_law_and_what_the_others_say():
    found = filled()
    one = found.series[0]
    label = f"n{SENSORS[one.sensor]}"
    mean, std = model().predict([label], TIMES, return_std=True)
    np.testing.assert_allclose(one.mean[:N_TIMES], mean[0], atol=1e-9)
    np.testing.assert_allclose(one.std[:N_TIMES], std[0], atol=1e-9)
    table = model().leave_one_sensor_out()
    np.testing.assert_allclose(one.left_out[:N_TIMES], table.mean[table.node.index(label)])


def test_facts_are_those_of_the_fit():
    facts = {name: value for name, value, _ in filled().facts}
    assert facts["law"] == model().method_reason_
    assert facts["kernel of the nodes"] == str(model().kernel_)
    assert len(filled().to_html()) < 900_000


def test_scores_are_those_of_an_evaluation():
    readings = SensorReadings(
        speeds(), 900.0 * np.arange(N_TIMES), SENSORS, roads(), 900.0 * np.arange(N_TIMES),
    )  # fmt: skip
    plan = SplitPlan(gap=7200.0, horizon=3600.0)
    evaluation = evaluate_space_time(
        None, readings, splits=2, plan=plan, rivals=["linear in time", "last value"]
    )
    found = space_time_report(model(), evaluation=evaluation, left_out=False)
    own = found.scores_of("gap")["model"]  # the first is taken for the model
    assert own.rmse == evaluation.score("linear in time", "gap")
    assert own.coverage[0.95] == evaluation.score("linear in time", "gap", "coverage_95")
    assert found.steps_ahead == [1, 3, 4]
    ahead = found.scores_of("forecast", 3)["last value"]
    assert ahead.rmse == evaluation.score("last value", "forecast", value="3")
    hours = [one for one in found.hours if one.kind == "gap"]
    assert sum(one.n for one in hours) == own.n
    assert {one.stop - one.start for one in hours} == {3.0}


def test_large_graphs_keep_their_sensors():
    n = MAX_NODES + 5000
    graph = cgp.Graph.from_edges(np.arange(n - 1), np.arange(1, n))
    sensors = np.arange(1, n, 5)
    places = MapSites.of(graph, None, sensors)
    assert np.isin(sensors, places.sites).all()
    assert places.sites.size <= MAX_NODES
    np.testing.assert_array_equal(places.sites[places.rows_of(sensors)], sensors)
    assert "of 25000 nodes" in places.notes[0]


def test_vertices_of_roads_and_meshes_make_maps_of_their_own():
    operator = cgp.LaplaceOperator.from_edges(
        ["a", "b"], ["b", "c"], [3.0, 1.0], positions=[[0, 0], [3, 0], [3, 1]], max_edge=1.0,
        labels=["a", "b", "c"],
    )  # fmt: skip
    places = MapSites.of(operator, None, np.array([0]))
    assert places.labels == ["a", "b", "c", "", ""]
    assert places.is_network
    assert len(places.edges) == 4


def test_wrong_arguments_are_named():
    with pytest.raises(InvalidInputError, match=r"positions: expected finite numbers \(10, 2\)"):
        space_time_report(model(), splits=0, positions=np.zeros((3, 2)))
    with pytest.raises(InvalidInputError, match="model: expected a fitted model"):
        space_time_report(cgp.Graph.from_edges([0], [1]))


def test_values_that_are_added_later_are_on_the_page():
    import copy

    later = copy.copy(model())
    step = np.timedelta64(15, "m")
    times = TIMES[-1] + step * np.arange(1, 4)
    later.partial_fit([f"n{k}" for k in SENSORS], times, np.full((SENSORS.size, 3), 55.0))
    found = space_time_report(later, splits=0, left_out=False)
    assert found.times.size == N_TIMES + 3 + 12
    assert (found.observed[:, N_TIMES : N_TIMES + 3] == 55.0).all()
    assert (found.kinds[:, -12:] == FORECAST).all()
