"""Kriging on a lattice as an estimator, and as a member of the default."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import pytest

import coupledgp as cgp
from coupledgp.core.budget import within_budget
from coupledgp.core.problem import Hyperparameters
from coupledgp.core.process import Data
from coupledgp.core.units import Units
from coupledgp.errors import InvalidInputError, NumericalError
from coupledgp.ground.progress import watched
from coupledgp.spectra import parse_spectrum
from coupledgp.tables import lattice_kernels
from coupledgp.tables.lattice_kernels import LatticeForecast, LatticeProblem
from coupledgp.tables.lattice_parts import TrendColumns
from coupledgp.tables.lattice_search import HopelessError, LatticeFitter, RowsInMemory

rng = np.random.default_rng(0)
X = rng.uniform(0, 10, (1500, 2))
F = np.sin(X[:, 0]) * np.cos(X[:, 1])
Y = F + 0.1 * rng.normal(size=1500) + 20.0


@pytest.fixture(scope="module")
def fitted():
    return cgp.LatticeGPRegressor("gaussian", random_state=0).fit(X, Y)


@pytest.mark.long
def test_hyperparameters_are_near_those_of_the_exact_model(fitted):
    """Rows are all given to both; the exact model has no prior of hyperparameters."""
    few = slice(0, 300)
    own = cgp.LatticeGPRegressor("matern-5/2", random_state=0, ard=False).fit(X[few], Y[few])
    exact = cgp.ExactGPRegressor("matern-5/2", random_state=0, ard=False).fit(X[few], Y[few])
    gap = own.exact_twin().log_marginal_likelihood_value_ - exact.log_marginal_likelihood_value_
    assert gap > -1.0
    assert own.noise_ == pytest.approx(exact.noise_, rel=0.1)
    assert fitted.noise_ == pytest.approx(0.01, rel=0.2)
    assert fitted.converged_
    assert fitted.n_waves_ < 1500
    assert fitted.left_out_share_ < 1e-6
    assert fitted.std_error_ == 0.0


@pytest.mark.long
def test_the_smoothest_kernel_that_serves_is_chosen():
    model = cgp.LatticeGPRegressor(random_state=0).fit(X, Y)
    assert model.kernel_ == "gaussian"
    assert model.choice_[0].kernel == "gaussian"
    assert len(model.choice_) >= 2
    densities = [each.log_density for each in model.choice_]
    assert densities[0] == max(densities)
    assert "waves" in model.explain()


def test_intervals_hold_their_share(fitted):
    places = rng.uniform(0, 10, (600, 2))
    truth = np.sin(places[:, 0]) * np.cos(places[:, 1]) + 20.0
    mean, std = fitted.predict(places, return_std=True, latent=True)
    assert np.sqrt(np.mean(np.square(mean - truth))) < 0.05
    # Errors at near places depend on each other: a wide margin for 600 of them.
    assert 0.85 < np.mean(np.abs(mean - truth) < 1.96 * std) < 1.0


def test_other_columns_have_a_linear_trend():
    table = pd.DataFrame({
        "east": X[:, 0], "depth": rng.normal(size=1500), "north": X[:, 1],
        "kind": rng.choice(["a", "b"], 1500),
    })  # fmt: skip
    y = Y + 2.0 * table.depth + 0.7 * (table.kind == "b")
    model = cgp.LatticeGPRegressor("gaussian", places=["east", "north"], random_state=0)
    model.fit(table, y)
    two = table.iloc[[0, 0, 0]].copy()
    two["depth"], two["kind"] = [0.0, 1.0, 0.0], ["a", "a", "b"]
    mean = model.predict(two)
    assert mean[1] - mean[0] == pytest.approx(2.0, abs=0.03)
    assert mean[2] - mean[0] == pytest.approx(0.7, abs=0.06)
    grid = model.predict_grid(
        {"north": [1.0, 2.0, 3.0], "east": [4.0, 5.0]},
        {"depth": 0.0, "kind": "a"},
        return_std=True,
    )
    assert grid["mean"].dims == ("north", "east")
    one = pd.DataFrame({"east": [5.0], "depth": [0.0], "north": [3.0], "kind": ["a"]})
    mean, std = model.predict(one, return_std=True, latent=True)
    assert float(grid["mean"][2, 1]) == pytest.approx(mean[0])
    assert float(grid["std"][2, 1]) == pytest.approx(std[0])
    with pytest.raises(InvalidInputError, match="coordinates: expected values of east, north"):
        model.predict_grid({"north": [1.0]}, {"depth": 0.0, "kind": "a"})
    with pytest.raises(InvalidInputError, match="others: expected a value for each"):
        model.predict_grid({"north": [1.0], "east": [2.0]})


def test_averages_over_no_box_are_points(fitted):
    mean, std = fitted.predict_blocks(X[:5], 0.0, return_std=True)
    expected = fitted.predict(X[:5], return_std=True, latent=True)
    np.testing.assert_allclose(mean, expected[0], atol=1e-9)
    # Waves beyond the lattice are white, so that they average out.
    white = fitted.left_out_share_ * fitted.outputscale_
    np.testing.assert_allclose(np.square(std) + white, np.square(expected[1]), rtol=1e-6)
    wide = fitted.predict_blocks([[5.0, 5.0]], [4.0, 4.0], return_std=True)
    assert wide[1][0] < expected[1].min()
    with pytest.raises(InvalidInputError, match="sides: expected numbers of at least zero"):
        fitted.predict_blocks(X[:5], -1.0)


def test_files_and_seeds_keep_the_bits(fitted, tmp_path):
    fitted.save(tmp_path / "model.gp")
    loaded = cgp.load_model(tmp_path / "model.gp")
    again = cgp.LatticeGPRegressor("gaussian", random_state=0).fit(X, Y)
    for other in (loaded, again):
        for own, found in zip(
            fitted.predict(X[:9], return_std=True), other.predict(X[:9], return_std=True),
            strict=True,
        ):  # fmt: skip
            np.testing.assert_array_equal(own, found)


@pytest.mark.parametrize(("options", "data", "message"), [
    ({"places": [0, 5]}, X, "places: expected columns among"),
    ({"places": [0, 0]}, X, "places: expected different columns"),
    ({"places": "x"}, X, "places: expected a list of one to 3 columns"),
    ({}, np.hstack([X, X]), "places: expected names or numbers of one to 3 columns"),
    ({"trend": "cubic"}, X, "trend: expected"),
    ({"kernel": "laplace"}, X, "kernel: expected a Gaussian or Matern kernel"),
    ({"optimizer": "adam"}, X, "optimizer: expected 'information'"),
    ({"optimizer": None, "kernel": "auto"}, X, "kernel: expected one kernel"),
    ({"n_draws": 1}, X, "n_draws"),
    ({"kernel": "gaussian", "optimizer": None, "lengthscale": [1.0, 2.0, 3.0]}, X, "lengthscale"),
])  # fmt: skip
def test_bad_parameters_are_named(options, data, message):
    with pytest.raises(InvalidInputError, match=message):
        cgp.LatticeGPRegressor(**{"random_state": 0} | options).fit(data, Y)


def test_rows_far_from_all_others_are_named():
    far = np.vstack([X, [[1e4, 5.0]]])
    with pytest.raises(InvalidInputError, match=r"got 1 of 1501 .*\(row 1501\): leave them out"):
        cgp.LatticeGPRegressor("gaussian", random_state=0).fit(far, np.append(Y, 20.0))


def test_rough_functions_are_told():
    """Noise-free rough values on few rows: what the lattice leaves out exceeds the noise."""
    walk = np.cumsum(np.random.default_rng(1).normal(size=3000))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        cgp.LatticeGPRegressor(
            "matern-1/2", random_state=0, optimizer=None, lengthscale=300.0, noise=1e-4
        ).fit(np.arange(3000.0)[:, None], walk)
    assert any("waves beyond the lattice" in str(each.message) for each in told)


@pytest.mark.long
def test_it_is_a_member_of_the_default():
    model = cgp.GPRegressor("lattice", random_state=0).fit(X[:300], Y[:300])
    assert model.choice_.members[0].name.startswith("lattice, gaussian")
    mean, std = model.predict(X[300:500], return_std=True)
    z = (Y[300:500] - mean) / std
    assert 0.7 < z.std() < 1.3
    assert "lattice" in [plan.kind.name for plan in cgp.GPRegressor().forecast(10_000, 2)]
    assert "lattice" not in [plan.kind.name for plan in cgp.GPRegressor().forecast(10_000, 4)]


@pytest.mark.long
def test_a_rough_map_without_noise_is_no_lattice_member(monkeypatch):
    """Few waves would hold less of it than neighbours do, for many more seconds."""
    draws = np.random.default_rng(8)
    places = draws.uniform(0, 100, (6000, 2))
    # A draw of a Matern-3/2 process.
    waves = draws.normal(size=(400, 2)) / np.sqrt(draws.chisquare(3, (400, 1)) / 3) / 5
    angles = places @ waves.T + draws.uniform(0, 2 * np.pi, 400)
    y = np.cos(angles).sum(axis=1) / np.sqrt(200)
    monkeypatch.setattr(LatticeFitter, "search", lambda *own: pytest.fail("all rows are searched"))
    with pytest.raises(NumericalError, match="expected one that a lattice holds"):
        cgp.GPRegressor("lattice", random_state=0).fit(places, y)


def test_a_fit_beyond_its_budget_is_refused_before_all_rows_are_searched(monkeypatch):
    monkeypatch.setattr(LatticeFitter, "search", lambda *own: pytest.fail("all rows are searched"))
    places = np.random.default_rng(0).uniform(0, 10, (5000, 1))
    with pytest.raises(InvalidInputError, match=r"budget: the fit takes about .*LocalGPRegressor"):
        cgp.LatticeGPRegressor("gaussian", budget="0.000001s").fit(places, np.sin(places[:, 0]))
    with pytest.raises(InvalidInputError, match="budget: expected"):
        cgp.LatticeGPRegressor("gaussian", budget=0).fit(places, np.sin(places[:, 0]))


def test_a_lattice_that_grows_beyond_its_forecast_has_another(monkeypatch):
    """Few rows that hide fine parts of a function without noise forecast too small a lattice."""
    X = np.random.default_rng(0).uniform(size=(400, 1))
    y = np.sin(20 * X[:, 0] ** 2)
    smooth = Hyperparameters(np.array([0.2]), 1.0, 0.3)
    monkeypatch.setattr(LatticeFitter, "first", lambda self, rows: self.given(rows, smooth))
    monkeypatch.setattr(lattice_kernels, "FIRST_ROWS", 100)
    said = []
    with watched(said.append):
        cgp.LatticeGPRegressor("gaussian", random_state=0).fit(X, y)
    waves = [int(re.findall(r"(\d+) waves", one)[0]) for one in said if "forecast" in one]
    assert len(waves) > 1
    assert waves == sorted(set(waves))
    kept = LatticeForecast.check

    def check(self):
        with within_budget(None if self.n_waves == waves[0] else 1e-9):
            kept(self)

    monkeypatch.setattr(LatticeForecast, "check", check)
    with pytest.raises(InvalidInputError, match=f"on {waves[1]} waves.*use LocalGPRegressor"):
        cgp.LatticeGPRegressor("gaussian", random_state=0).fit(X, y)


def problem_of(places, y):
    data = Data.of(places, y[:, None])
    trend = TrendColumns.of(np.arange(2), False, places, data.counts)
    rows = RowsInMemory(data, Units.of(data.targets, True, data.counts), trend)
    return LatticeProblem(rows, True, False, None, 0)


@pytest.mark.long
def test_a_kernel_of_less_evidence_is_not_searched_to_its_end(monkeypatch):
    """The choice is that of whole searches."""
    monkeypatch.setattr(lattice_kernels, "FIRST_ROWS", 150)
    monkeypatch.setattr(lattice_kernels, "NEAR_ERRORS", 50.0)
    kernels = [parse_spectrum(name) for name in ("gaussian", "matern-5/2")]
    said = []
    few = X[:400], Y[:400]
    with watched(said.append):
        found, tried = problem_of(*few).best(kernels)
    assert len(tried) == 2
    assert [one for one in said if "matern-5/2: log evidence" in one and "of another" in one]
    monkeypatch.setattr(LatticeFitter, "_check_hope", lambda *own: None)
    whole, every = problem_of(*few).best(kernels)
    assert str(found.fitter.spectrum) == str(whole.fitter.spectrum) == "gaussian"
    assert sum(each.n_steps for each in tried) < sum(each.n_steps for each in every)
    np.testing.assert_array_equal(found.process.posterior.mean, whole.process.posterior.mean)


def test_a_search_ends_where_the_evidence_of_another_kernel_is_out_of_reach():
    problem = problem_of(X, Y)
    fitter = problem.fitter(parse_spectrum("gaussian"))
    first = fitter.first(problem.rows)
    found = fitter.search(problem.rows, first, lambda prior: None)
    best = fitter.evidence(found.system)
    near, far = (best._replace(value=best.value + by) for by in (-1.0, 1e4))
    reached = fitter.search(problem.rows, first, lambda prior: None, near)
    assert reached.prior.hyperparameters.noise == found.prior.hyperparameters.noise
    with pytest.raises(HopelessError, match=r"nats with .* to gain, below"):
        fitter.search(problem.rows, first, lambda prior: None, far)
