"""Several quantities over time as one model: laws, forms, files, and what is refused."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import coupledgp as cgp
from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.inference.space_time.quantity_sites import QuantitySites

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
N, STEPS, AHEAD = 12, 220, 6
ROAD = cgp.Graph.from_edges(np.arange(N - 1), np.arange(1, N))
NODES = [0, 2, 3, 5, 6, 8, 9, 11]
CORRELATION = -0.8
TIMES = np.datetime64("2024-03-04T00") + np.arange(STEPS + AHEAD) * np.timedelta64(1, "h")


def drawn(seed=0):
    """Speeds and flows (8, n), two fields of the road whose correlation is known, with noise."""
    rng = np.random.default_rng([5, seed])
    K = np.exp(-0.3 * np.abs(np.arange(N)[:, None] - np.arange(N)))
    root, n = np.linalg.cholesky(K), STEPS + AHEAD
    fields = np.zeros((2, N, n + 60))
    for t in range(1, n + 60):
        new = np.sqrt(1 - 0.9**2) * (root @ rng.normal(size=(2, N, 1)))[..., 0]
        fields[..., t] = 0.9 * fields[..., t - 1] + new
    a, b = fields[..., 60:]
    other = CORRELATION * a + np.sqrt(1 - CORRELATION**2) * b
    speed = 50.0 + 8.0 * a + 1.0 * rng.normal(size=a.shape)
    flow = 600.0 + 90.0 * other + 12.0 * rng.normal(size=a.shape)
    return speed[NODES], flow[NODES]


SPEED, FLOW = drawn()
GIVEN = {"speed": SPEED[:, :STEPS].copy(), "flow": FLOW[:, :STEPS].copy()}
GIVEN["speed"][::2, 60:90] = np.nan
GIVEN["speed"][np.random.default_rng(1).random((8, STEPS)) < 0.05] = np.nan
GIVEN["flow"][1::2, 120:140] = np.nan


def made(**parameters):
    settings = {"progress": False, "n_variance_samples": 16, "dynamics": False}
    return cgp.QuantitiesGPRegressor(cgp.GraphTimeGPRegressor(ROAD, **(settings | parameters)))


@cache
def fitted(**parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return made(**parameters).fit(GIVEN, NODES, TIMES[:STEPS])


def test_the_correlation_of_the_quantities_is_found():
    found = fitted().correlation_
    assert abs(found[0, 1] - CORRELATION) < 0.12
    np.testing.assert_allclose(fitted().offset_, [np.nanmean(GIVEN[k]) for k in GIVEN])
    np.testing.assert_allclose(fitted().scale_, [np.nanstd(GIVEN[k]) for k in GIVEN])
    assert fitted().quantities_ == ("speed", "flow")


def test_gaps_of_one_are_filled_from_the_other():
    gap = np.isnan(GIVEN["speed"])
    mean, std = fitted().predict(NODES, return_std=True)["speed"]
    alone = cgp.GraphTimeGPRegressor(
        ROAD, progress=False, n_variance_samples=16, dynamics=False
    ).fit(NODES, GIVEN["speed"], times=TIMES[:STEPS])
    own = alone.predict(NODES, TIMES[:STEPS])
    truth = SPEED[:, :STEPS][gap]
    error = mean[gap] - truth
    assert np.sqrt((error**2).mean()) < 0.75 * np.sqrt(((own[gap] - truth) ** 2).mean())
    assert 0.85 < (np.abs(error) < 1.96 * std[gap]).mean() <= 1.0


def test_the_law_is_that_of_dense_algebra():
    model = fitted(sensor_covariance="kernel", usual_day=False)
    process = model.model_.grid_process_
    sites, parameters = process.sites, process.parameters
    assert isinstance(sites, QuantitySites)
    rows = process.rows
    wanted = [("flow", 4), ("speed", 3), ("speed", 1)]
    numbers = model.model_._labels.numbers(wanted)
    every = np.concatenate([rows.sensors, numbers])
    K = np.kron(sites.correlation, sites.inner.gram(np.arange(N)))[np.ix_(every, every)]
    lags = rows.times[:, None] - rows.times
    parts = {"graph": np.zeros(lags.shape), "node": np.zeros(lags.shape)}
    for term in parameters.terms:
        parts[term.where] = parts[term.where] + term.variance * term.kernel.covariance(lags)
    at = 130
    p, own = len(rows.values), np.eye(every.size)
    # A place that is a sensor has its own terms, too.
    for k, number in enumerate(numbers):
        own[p + k, :p] = own[:p, p + k] = rows.sensors == number
    full = np.kron(K[:p, :p], parts["graph"]) + np.kron(np.eye(p), parts["node"])
    cross = np.kron(K[p:, :p], parts["graph"][at]) + np.kron(own[p:, :p], parts["node"][at])
    there = rows.observed.ravel()
    A = full[np.ix_(there, there)] + parameters.noise * np.eye(there.sum())
    z = rows.normalized(process.units).values.ravel()[there]
    mean = cross[:, there] @ np.linalg.solve(A, z)
    prior = K[p:, p:].diagonal() * parts["graph"][at, at] + parts["node"][at, at]
    variance = prior - (cross[:, there] * np.linalg.solve(A, cross[:, there].T).T).sum(axis=1)
    place = {"speed": 0, "flow": 1}
    for k, (name, node) in enumerate(wanted):
        found, std = model.predict([node], TIMES[[at]], True, latent=True)[name]
        q = place[name]
        plain = process.units.offset[0] + process.units.scale[0] * mean[k]
        assert found[0, 0] == pytest.approx(model.offset_[q] + model.scale_[q] * plain, rel=1e-6)
        wide = model.scale_[q] * process.units.scale[0] * np.sqrt(variance[k])
        assert std[0, 0] == pytest.approx(wide, rel=0.05)


def test_a_dataset_gives_a_dataset_and_tables_give_tables():
    coords = {"time": TIMES[:STEPS], "node": NODES}
    data = xr.Dataset({name: (("node", "time"), values) for name, values in GIVEN.items()}, coords)
    model = made().fit(data)
    plain = fitted().predict(NODES[:3], TIMES[:5], return_std=True)
    found = model.predict(NODES[:3], TIMES[:5], return_std=True)
    assert found["mean"].dims == ("quantity", "node", "time")
    for name in ("speed", "flow"):
        one = found.sel(quantity=name)
        np.testing.assert_allclose(one["mean"].values, plain[name][0], rtol=1e-9)
        np.testing.assert_allclose(one["std"].values, plain[name][1], rtol=1e-9)
    tables = {k: pd.DataFrame(v.T, TIMES[:STEPS], NODES) for k, v in GIVEN.items()}
    again = made().fit(tables).predict(NODES[:3], TIMES[:5])
    np.testing.assert_allclose(again["flow"].to_numpy().T, plain["flow"][0], rtol=1e-9)


def test_quantities_may_have_sensors_at_other_nodes():
    coords = {"time": TIMES[:STEPS], "node": NODES}
    frame = {k: xr.DataArray(v, coords, ("node", "time")) for k, v in GIVEN.items()}
    frame["flow"] = frame["flow"].isel(node=[0, 1, 2, 3])
    model = made().fit(frame)
    assert model.nodes_ == NODES
    found = model.predict(NODES, TIMES[:3])
    assert found["flow"].shape == (8, 3)
    # Flow where only speed is seen follows the speed.
    errors = found["flow"].values[4:] - FLOW[4:, :3]
    assert np.sqrt((errors**2).mean()) < 0.95 * FLOW.std()


def test_ways_to_ask_agree():
    model = fitted()
    mean, std = model.forecast("6h", NODES)["flow"]
    error = mean - FLOW[:, STEPS:]
    assert (np.abs(error) < 1.96 * std).mean() > 0.8
    lower, upper = model.predict_interval(NODES, TIMES[STEPS:], 0.9)["flow"]
    np.testing.assert_allclose((lower + upper) / 2, mean, rtol=1e-9)
    np.testing.assert_allclose((upper - lower) / 2, 1.6448536 * std, rtol=1e-6)
    n_draws = 400
    drawn = model.sample_y(NODES[:2], TIMES[STEPS:], n_draws)
    speed, flow = (drawn[name].reshape(12, n_draws) for name in ("speed", "flow"))
    scores = (flow.mean(axis=1) - mean[:2].ravel()) / (std[:2].ravel() / np.sqrt(n_draws))
    assert np.abs(scores).max() < 4.5
    # Draws of both go against each other.
    assert np.corrcoef(speed[5], flow[5])[0, 1] < -0.3
    table = model.leave_one_sensor_out()
    assert sorted(table["flow"].node) == sorted(NODES)
    truth = FLOW[NODES.index(table["flow"].node[0]), :STEPS]
    errors = table["flow"].mean[0] - truth
    assert np.sqrt(np.nanmean(errors**2)) == pytest.approx(table["flow"].rmse[0], rel=1e-6)
    assert table["speed"].rmse.max() < 10.0 < table["flow"].rmse.min()
    own = table["flow"]
    z = (truth - own.mean[0]) / own.std[0]
    density = np.log(own.std[0]) + 0.5 * np.log(2 * np.pi) + 0.5 * z**2
    assert np.nanmean(density) == pytest.approx(own.nlpd[0], rel=0.02)


def test_updates_are_those_of_both():
    model = made().fit(GIVEN, NODES, TIMES[:STEPS])
    new = {"flow": FLOW[:, STEPS:], "speed": SPEED[:, STEPS:]}
    model.partial_fit(new, NODES, TIMES[STEPS:])
    mean, std = model.predict(NODES, TIMES[STEPS:], return_std=True)["flow"]
    assert (np.abs(mean - FLOW[:, STEPS:]) < 4.0 * std).all()
    assert np.abs(mean - FLOW[:, STEPS:]).mean() < 20.0
    with pytest.raises(InvalidInputError, match=r"expected some of \['speed', 'flow'\]"):
        model.partial_fit({"volume": FLOW[:, STEPS:]}, NODES, TIMES[STEPS:])


def test_dynamics_follow_the_past_of_both():
    model = fitted(dynamics=True)
    lags = model.model_.process_.dynamics.law.model.coefficients[0]
    assert lags.shape == (16, 16)
    own, other = np.abs(np.diagonal(lags)).mean(), np.abs(np.diagonal(lags, 8)).mean()
    assert 0.0 < other < own


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_files_hold_them(tmp_path):
    model = fitted()
    cgp.save_model(model, tmp_path / "q.cgp")
    again = cgp.load_model(tmp_path / "q.cgp")
    assert isinstance(again, cgp.QuantitiesGPRegressor)
    np.testing.assert_array_equal(again.correlation_, model.correlation_)
    for name in ("speed", "flow"):
        for one, two in zip(again.forecast("6h")[name], model.forecast("6h")[name], strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-12)
    header, arrays = model.model_._state(True)
    broken = arrays | {"quantity_scale": np.array([0.0, 1.0])}
    with pytest.raises(ModelFileError, match="quantity_scale"):
        cgp.GraphTimeGPRegressor.from_state(header, broken)


def test_what_is_refused_is_named():
    times = TIMES[:STEPS]
    for data, message in [
        ({"speed": GIVEN["speed"]}, "expected two quantities or more"),
        (GIVEN["speed"], "expected a Dataset or a dictionary"),
        (GIVEN | {"flow": np.ones((8, STEPS))}, r"data\['flow'\]"),
    ]:
        with pytest.raises(InvalidInputError, match=message):
            made().fit(data, NODES, times)
    tables = {
        "speed": pd.DataFrame(GIVEN["speed"].T, times, NODES),
        "flow": pd.DataFrame(GIVEN["flow"].T[:-1], times[:-1], NODES),
    }
    with pytest.raises(InvalidInputError, match=r"data\['flow'\]: expected the same times"):
        made().fit(tables)
    with pytest.raises(InvalidInputError, match="expected noise=None"):
        made(noise=0.1).fit(GIVEN, NODES, times)
    with pytest.raises(InvalidInputError, match="expected a GraphTimeGPRegressor"):
        cgp.QuantitiesGPRegressor(ROAD).fit(GIVEN, NODES, times)
    with pytest.raises(InvalidInputError, match="level: expected a number between 0 and 1"):
        fitted().predict_interval(NODES, times, 1.5)
