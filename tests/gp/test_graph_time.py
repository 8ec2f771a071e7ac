"""Processes over the sites of a graph and time: the contract, grids, and model files."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from coupledgp.errors import CoupledGPError, InvalidInputError, ModelFileError
from coupledgp.gp import graph_time
from coupledgp.gp.graph_time import GraphTimeGP, SpaceTimeSettings
from coupledgp.gp.graph_time_prior import SensorScales, SpaceTimePrior, SpaceTimeRows
from coupledgp.gp.protocol import Data
from coupledgp.gp.units import Units
from coupledgp.graphs import Graph
from coupledgp.ground.progress import silent
from coupledgp.inference.space_time.filters import Term
from coupledgp.inference.space_time.posterior import Cells
from coupledgp.inference.space_time.sites import sites_of
from coupledgp.inference.space_time.whittle import SpaceTimeParameters
from coupledgp.kernels.time import Constant, Matern12, Matern32, Periodic
from coupledgp.linalg.system import SystemOptions, predictive_law
from coupledgp.testing import ProcessContract

TERMS = (
    Term("graph", Matern12(4.0), 0.8),
    Term("graph", Constant(), 0.3),
    Term("node", Matern32(3.0), 0.2),
)
GRAPH = Graph.from_edges(np.arange(14), (np.arange(14) + 1) % 14)
SENSORS = np.array([0, 2, 3, 6, 7, 11])
P, N = SENSORS.size, 12
RNG = np.random.default_rng(3)
ROOTS = np.exp(0.3 * RNG.normal(size=P))
VALUES = 5.0 + 2.0 * np.sin(SENSORS[:, None] + np.arange(N) / 3) + 0.3 * RNG.normal(size=(P, N))
VALUES[RNG.random((P, N)) < 0.3] = np.nan
VALUES[:, 7] = np.nan
VALUES[2, 2:6] = np.nan
VALUES[:, 0] = 1.0 + np.arange(P)
COMPLETE = 5.0 + 2.0 * np.sin(SENSORS[:, None] + np.arange(N) / 3)
POINTS = np.array([[0, 2.0], [0, 9.5], [4, 3.0], [11, 14.0], [2, 7.0], [9, -2.0]])
FURTHER = Data.of(
    np.array([[2, 12.0], [7, 12.0], [7, 13.0], [9, 12.0], [0, 3.5]]),
    np.array([[4.0], [6.0], [5.5], [4.5], [6.2]]),
)


def process_of(values=VALUES, roots=None, settings=None, terms=TERMS, extra=None, kernel="heat"):
    sites = sites_of(GRAPH, kernel)
    roots = np.ones(len(values)) if roots is None else roots
    parameters = SpaceTimeParameters(sites.theta, terms, 0.1, roots)
    rows = SpaceTimeRows(SENSORS[: len(values)], np.arange(values.shape[1]) * 1.0, values, extra)
    units = Units.of(values[~np.isnan(values)][:, None], True)
    settings = settings or SpaceTimeSettings(n_draws=16, seed=4)
    return GraphTimeGP.given(sites, parameters, settings, units, True, rows)


SHARED = {
    "gaps": {},
    "complete": {"values": COMPLETE},
    "cycle": {"terms": (*TERMS, Term("graph", Periodic(5.0), 0.3))},
}
OWN = {
    "gaps": {"roots": ROOTS},
    "weights": {"roots": ROOTS, "extra": np.where(np.arange(P * N).reshape(P, N) % 3, 0.0, 2.0)},
}
kept = cache(lambda name, own: process_of(**(OWN if own else SHARED)[name]))


class TestSharedScales(ProcessContract):
    n_samples = 2000

    @pytest.fixture(autouse=True, params=[*SHARED, "without a Cholesky factor"])
    def _choose(self, request, seed, monkeypatch):
        if request.param not in SHARED:
            monkeypatch.setattr(graph_time, "DENSE_LIMIT", 0)
        self.process = kept(request.param if request.param in SHARED else "gaps", False)
        self.points, self.further, self.seed = POINTS, FURTHER, seed


class TestOwnScales(ProcessContract):
    """The noise of an observation is that of its sensor, so that no one number is to be added."""

    n_samples = 2000

    @pytest.fixture(autouse=True, params=OWN)
    def _choose(self, request, seed):
        self.process = kept(request.param, True)
        scales = self.process.scales.at(FURTHER.points[:, 0].astype(int))
        self.further = Data.of(FURTHER.points, FURTHER.targets, scales)
        self.points, self.seed = POINTS, seed

    def test_variance_is_the_diagonal_of_the_covariance(self):
        for latent in (False, True):
            variance = self.process.law(self.points, "variance", latent=latent).spread
            covariance = self.process.law(self.points, "covariance", latent=latent).spread
            np.testing.assert_allclose(variance, np.einsum("iik->ik", covariance), rtol=1e-6)
        noisy, plain = (
            self.process.law(self.points, "variance", latent=latent).spread[:, 0]
            for latent in (False, True)
        )
        expected = self.process.units.spread(0.1) * self.process.scales.at(
            self.points[:, 0].astype(int)
        )
        np.testing.assert_allclose(noisy - plain, expected, rtol=1e-6)
        assert np.unique(expected).size > 2

    def test_what_is_left_out_is_predicted_as_without_it(self):
        data, process = self.process.data, self.process
        groups = np.arange(len(data)) // 2
        mean, variance = process.left_out_law(groups)
        for number in (0, 5, 11):
            own = np.flatnonzero(groups == number)
            rest = process.conditioned(data.take(np.flatnonzero(groups != number)))
            expected = rest.law(data.points[own], "variance", latent=True)
            noise = process.units.spread(0.1 * data.relative_noise[own])
            np.testing.assert_allclose(mean[own], expected.mean, rtol=1e-8)
            np.testing.assert_allclose(variance[own], expected.spread + noise, rtol=1e-8)

    def test_exact_law(self):
        exact = self.process.exact()
        assert exact.exact() is exact
        system = self.process.exact_problem().system(SystemOptions("float64", 64, self.seed))
        solved = predictive_law(system, self.points, 1e-9, silent)
        units = self.process.units
        law = exact.law(self.points, "covariance", latent=True)
        np.testing.assert_allclose(units.mean(solved.mean), law.mean, rtol=1e-6)
        # The law by solves is that of observations of a sensor of scale one.
        plain = law.spread[:, :, 0] + units.spread(0.1) * np.eye(len(self.points))
        np.testing.assert_allclose(units.spread(solved.cov)[:, :, 0], plain, rtol=1e-4, atol=1e-4)

    def test_further_observations_have_the_noise_of_their_sensor(self):
        updated = self.process.updated(FURTHER)
        at_once = self.process.updated(self.further)
        self._require_same_law(updated, at_once, "updated")
        np.testing.assert_allclose(updated.scales.at(SENSORS), ROOTS**2, rtol=1e-12)

    def test_less_noise_than_that_of_the_sensor_is_refused(self):
        less = Data.of(FURTHER.points, FURTHER.targets, np.full(len(FURTHER), 1e-3))
        with pytest.raises(InvalidInputError, match="at least the sensor's own"):
            self.process.updated(less)


class TestGrids:
    """Laws on grids, and what a grid of observations is."""

    def test_variances_of_the_grid_are_those_of_points(self, monkeypatch):
        process = kept("gaps", False)
        cells = Cells(np.array([0, 4, 11]), np.array([-2.0, 3.0, 7.0, 14.0]))
        points = np.column_stack([np.repeat(cells.sites, 4), np.tile(cells.times, 3)])
        exact = process.grid_variances(cells)
        np.testing.assert_allclose(
            exact.ravel(), process.exact().latent_law(points, "variance")[1], rtol=1e-9
        )
        monkeypatch.setattr(graph_time, "DENSE_LIMIT", 0)
        few = process.latent_law(points, "variance")[1]
        np.testing.assert_allclose(few, exact.ravel(), rtol=1e-5)
        many = process_of(settings=SpaceTimeSettings(n_draws=400, exact_variances=0))
        drawn = many.latent_law(points, "variance")[1]
        assert not np.array_equal(drawn, few)
        np.testing.assert_allclose(drawn, few, rtol=5 * np.sqrt(2 / 400))

    @pytest.mark.parametrize("own", [False, True])
    def test_the_evidence_is_that_of_the_exact_process(self, own):
        for name in OWN if own else SHARED:
            process = kept(name, own)
            assert process.evidence_with_error[1] == 0.0
            assert process.log_evidence == pytest.approx(process.exact().log_evidence, abs=1e-6)

    def test_a_window_keeps_the_last_steps(self):
        settings = SpaceTimeSettings(n_draws=4, window=5)
        updated = process_of(settings=settings).updated(FURTHER)
        assert updated.rows.times.tolist() == [9.0, 10.0, 11.0, 12.0, 13.0]
        whole = process_of().updated(FURTHER).data
        kept_rows = whole.take(np.flatnonzero(whole.points[:, 1] >= 9.0))
        np.testing.assert_array_equal(
            np.sort(updated.data.targets.ravel()), np.sort(kept_rows.targets.ravel())
        )

    def test_times_without_an_observation_stay_on_the_grid(self):
        process = kept("gaps", False)
        rows = SpaceTimeRows.of(process.data, process.scales, process.rows.times)
        np.testing.assert_array_equal(rows.times, process.rows.times)
        np.testing.assert_array_equal(rows.values, VALUES)
        assert rows.extra is None

    def test_a_cell_that_is_observed_twice_is_refused(self):
        process = kept("gaps", False)
        twice = Data.of(np.array([[0, 0.0]]), np.array([[1.0]]))
        with pytest.raises(InvalidInputError, match="one observation of a site at a time"):
            process.updated(twice)

    def test_scales_of_sites_without_a_sensor_are_one(self):
        scales = SensorScales(np.array([2, 5]), np.array([3.0, 4.0]))
        np.testing.assert_array_equal(scales.at(np.array([0, 2, 3, 5, 9])), [1, 3, 1, 4, 1])
        none = SensorScales(np.empty(0, dtype=np.int64), np.empty(0))
        np.testing.assert_array_equal(none.at(np.arange(3)), np.ones(3))

    def test_the_prior_is_the_sum_of_products_of_kernels(self):
        process = kept("gaps", True)
        prior = process.prior_law
        assert isinstance(prior, SpaceTimePrior)
        found = prior.covariance(POINTS, POINTS)
        sites, times = POINTS[:, 0].astype(int), POINTS[:, 1]
        lags = times[:, None] - times
        between = process.sites.cross(sites, sites)
        own = np.equal.outer(sites, sites) * process.scales.at(sites)
        expected = sum(
            term.variance * (between if term.where == "graph" else own)
            * term.kernel.covariance(lags) for term in TERMS
        )  # fmt: skip
        np.testing.assert_allclose(found, expected, atol=1e-12)
        np.testing.assert_allclose(prior.variance(POINTS), expected.diagonal(), atol=1e-12)

    def test_how_it_is_computed_is_told_in_numbers(self, monkeypatch):
        assert "6 sensors and 12 times: 6 independent series" in kept("gaps", False).reason
        assert "by a Cholesky factor" in kept("gaps", False).reason
        monkeypatch.setattr(graph_time, "DENSE_LIMIT", 0)
        assert "16 draws of the gaps" in kept("gaps", False).reason
        assert "gaps" not in kept("complete", False).reason
        summary = kept("gaps", False).summary()
        assert summary["noise"] == pytest.approx(kept("gaps", False).units.spread(0.1)[0])
        assert "graph Matern12 0" in summary


def file_of(process):
    header, arrays = process.state()
    header = json.loads(json.dumps(header, allow_nan=False))
    return header, {name: np.array(value, order="C") for name, value in arrays.items()}


def changed(**entries):
    """A change of entries of a header, whose names are joined by two underscores."""

    def change(header, arrays):
        for path, value in entries.items():
            *above, last = path.split("__")
            place = header
            for name in above:
                place = place[int(name) if name.isdigit() else name]
            place[last] = value

    return change


def replaced(name, make):
    """A change of an array."""

    def change(header, arrays):
        arrays[name] = make(arrays[name])

    return change


def put(value, place=0):
    def make(array):
        array = array.copy()
        array[place] = value
        return array

    return make


ATTACKS = {
    "NaN noise": changed(noise=None),
    "no noise": changed(noise=0.0),
    "vast noise": changed(noise=1e300),
    "tiny noise": changed(noise=1e-300),
    "noise is a text": changed(noise="much"),
    "no terms": changed(terms=[]),
    "many terms": changed(terms=[{}] * 65),
    "terms of numbers": changed(terms=[1]),
    "terms are none": changed(terms=None),
    "somewhere": changed(terms__0__where="everywhere"),
    "negative variance": changed(terms__0__variance=-1.0),
    "vast variance": changed(terms__0__variance=1e300),
    "no kernel": changed(terms__0__kernel=None),
    "unknown kernel": changed(terms__0__kernel={"class": "Path"}),
    "kernel of space": changed(terms__0__kernel={"class": "HeatKernel"}),
    "negative lengthscale": changed(terms__0__kernel={"class": "Matern12", "lengthscale": -1.0}),
    "tiny lengthscale": changed(terms__0__kernel={"class": "Matern12", "lengthscale": 1e-320}),
    "lengthscale is a list": changed(terms__0__kernel={"class": "Matern12", "lengthscale": [1]}),
    "lengthscale is true": changed(terms__0__kernel={"class": "Matern12", "lengthscale": True}),
    "10^9 harmonics": changed(
        terms__0__kernel={"class": "Periodic", "period": 1.0, "n_harmonics": 10**9}
    ),
    "harmonics of 64 terms": changed(terms=[
        {"where": "graph", "variance": 1.0,
         "kernel": {"class": "Periodic", "period": 1.0, "n_harmonics": 5}}
    ] * 64),
    "no such parameter": changed(terms__0__kernel={"class": "Matern12", "period": 1.0}),
    "another domain": changed(sites__kind="cloud"),
    "an operator": changed(sites__kind="field"),
    "kernel of nodes": changed(sites__kernel={"class": "Matern12"}),
    "kernel of nodes is a list": changed(sites__kernel=[]),
    "one draw": changed(settings__n_draws=1),
    "10^9 draws": changed(settings__n_draws=10**9),
    "draws are true": changed(settings__n_draws=True),
    "a window of one": changed(settings__window=1),
    "a negative seed": changed(settings__seed=-1),
    "normalize": changed(normalize="yes"),
    "sensors beyond the graph": replaced("sensors", put(10**6, -1)),
    "negative sensor": replaced("sensors", put(-1)),
    "falling sensors": replaced("sensors", lambda a: a[::-1].copy()),
    "a sensor twice": replaced("sensors", put(0, 1)),
    "no sensors": replaced("sensors", lambda a: a[:0]),
    "sensors are floats": replaced("sensors", lambda a: a.astype(float)),
    "falling times": replaced("times", lambda a: a[::-1].copy()),
    "NaN time": replaced("times", put(np.nan)),
    "infinite time": replaced("times", put(np.inf, -1)),
    "a time far off": replaced("times", put(1e300, -1)),
    "no times": replaced("times", lambda a: a[:0]),
    "10^6 times": replaced("times", lambda a: np.arange(10.0**6)),
    "a cell twice": replaced("cells", put(0, 1)),
    "a cell beyond the grid": replaced("cells", put(10**9, -1)),
    "a negative cell": replaced("cells", put(-1)),
    "cells of some sensors": replaced("cells", lambda a: np.arange(a.size)),
    "no cells": replaced("cells", lambda a: a[:0]),
    "NaN value": replaced("y", put(np.nan)),
    "vast value": replaced("y", put(1e300)),
    "fewer values": replaced("y", lambda a: a[:-1]),
    "values of two dimensions": replaced("y", lambda a: a[:, None]),
    "negative root": replaced("roots", put(-1.0)),
    "root of zero": replaced("roots", put(0.0)),
    "vast root": replaced("roots", put(1e200)),
    "tiny root": replaced("roots", put(1e-200)),
    "fewer roots": replaced("roots", lambda a: a[:-1]),
    "scale of zero": replaced("y_scale", put(0.0)),
    "two outputs": lambda h, a: a.update(y_mean=np.zeros(2), y_scale=np.ones(2)),
    "negative extra": lambda h, a: a.update(extra=np.full(a["y"].size, -1.0)),
    "NaN extra": lambda h, a: a.update(extra=np.full(a["y"].size, np.nan)),
    "fewer extra": lambda h, a: a.update(extra=np.ones(3)),
    "vast extra": lambda h, a: a.update(extra=np.full(a["y"].size, 1e300)),
}  # fmt: skip
MAY_BE_MODELS = {"vast root", "tiny root", "tiny noise", "vast noise", "vast variance",
                 "a time far off", "tiny lengthscale", "lengthscale is true", "vast value",
                 "vast extra"}  # fmt: skip


class TestFiles:
    @pytest.mark.parametrize("name", OWN)
    def test_own_scales_and_extra_noise_come_back(self, name):
        process = kept(name, True)
        again = GraphTimeGP.from_state(*file_of(process))
        np.testing.assert_array_equal(again.rows.values, process.rows.values)
        np.testing.assert_array_equal(again.parameters.roots, process.parameters.roots)
        assert again.parameters.terms == process.parameters.terms
        assert again.settings == process.settings
        assert (again.rows.extra is None) == (process.rows.extra is None)
        assert again.log_evidence == process.log_evidence

    @pytest.mark.parametrize("name", ATTACKS)
    def test_hostile_files_are_refused(self, name):
        header, arrays = file_of(kept("gaps", False))
        ATTACKS[name](header, arrays)
        try:
            process = GraphTimeGP.from_state(header, arrays)
        except (ModelFileError, InvalidInputError):
            return
        assert name in MAY_BE_MODELS, "a hostile file has become a model"
        try:
            law = process.law(POINTS, "variance")
        except CoupledGPError:
            return
        assert np.isfinite(law.mean).all()
        assert np.isfinite(law.spread).all()

    @pytest.mark.parametrize("name", ["sensors", "times", "cells", "y", "roots", "indices"])
    def test_missing_arrays_are_named(self, name):
        header, arrays = file_of(kept("gaps", False))
        del arrays[name]
        with pytest.raises(ModelFileError, match=name):
            GraphTimeGP.from_state(header, arrays)

    def test_the_exact_twin_is_not_stored(self):
        with pytest.raises(InvalidInputError, match="save the model"):
            kept("gaps", False).exact().state()
        with pytest.raises(InvalidInputError, match="draw again"):
            replace(kept("gaps", False)).redrawn("iid", 8, 0)
