"""Simulation-based calibration: right posteriors pass, wrong ones are told in which way."""

from __future__ import annotations

import json

import numpy as np
import pytest
import trimesh

import coupledgp as cgp
from benchmarks.ranks import ProcessSimulation, rank_figure, simulation_based_calibration
from coupledgp.errors import InvalidInputError
from coupledgp.gp.protocol import Data

RNG = np.random.default_rng(8)
X = RNG.uniform(-2, 2, (40, 2))
Y = np.sin(X[:, 0]) + 0.2 * RNG.normal(size=40)
GIVEN = {"lengthscale": 1.0, "outputscale": 1.0, "noise": 0.1, "optimizer": None}


def conjugate(rng, wider=1.0, shift=0.0):
    """A normal mean given one normal observation; the posterior may be wrong."""

    def simulate(rng):
        mu = rng.normal()
        return {"mu": mu}, mu + rng.normal()

    def posterior(x, n_draws, rng):
        return {"mu": x / 2 + shift + wider * np.sqrt(0.5) * rng.normal(size=n_draws)}

    return simulation_based_calibration(simulate, posterior, 300, generator=rng)


def test_a_right_posterior_passes(seed):
    found = conjugate(seed)
    assert found["mu"].ks_p > 1e-5
    assert found["mu"].chi_square_p > 1e-5
    for level, share in found["mu"].coverage.items():
        assert abs(share - level) < 5 * found["mu"].coverage_error[level]


def test_p_values_are_uniform_for_a_right_posterior():
    """One in twenty of right posteriors is refused, by both tests together no more than that."""
    refused = [not conjugate(seed).is_calibrated for seed in range(60)]
    assert sum(refused) <= 10  # probability 3e-4 for a binomial variable of chance .05


@pytest.mark.parametrize(("wider", "sign"), [(0.6, -1), (1.6, 1)])
def test_widths_are_told(wider, sign):
    found = conjugate(1, wider=wider)
    assert not found.is_calibrated
    assert "mu (p" in found.verdict()
    for level in (0.5, 0.8):
        assert sign * (found["mu"].coverage[level] - level) > 4 * found["mu"].coverage_error[level]
    assert abs(found["mu"].mean_rank - 0.5) < 5 * found["mu"].mean_rank_error


def test_shifts_are_told():
    check = conjugate(1, shift=0.5)["mu"]
    assert check.ks_p < 1e-6
    assert check.mean_rank < 0.5 - 5 * check.mean_rank_error


def models():
    table = {"n_frequencies": 12, "random_state": 0, **GIVEN}
    yield cgp.ExactGPRegressor(**GIVEN), X, RNG.uniform(-2, 2, (5, 2))
    yield cgp.SparseSpectrumGPRegressor(coupling="orthogonal", **table), X, X[:4] + 0.1
    graph = cgp.Graph.from_edges(np.arange(39), np.arange(1, 40))
    yield cgp.GraphGPRegressor(graph, "heat", optimizer=None), np.arange(0, 40, 2), [1, 5, 11]
    box = cgp.LaplaceOperator.from_trimesh(trimesh.creation.box((4.0, 2.0, 1.0)).subdivide())
    kernel = cgp.kernels.WhittleMatern(range_=6.0, alpha=2)
    yield cgp.FieldGPRegressor(box, kernel), np.arange(20), np.arange(20, 24)


@pytest.mark.long
@pytest.mark.parametrize("case", range(4))
def test_processes_pass_on_truths_of_their_own(case, seed):
    model, points, new = list(models())[case]
    model.fit(points, Y[: len(points)])
    simulation = ProcessSimulation.of(_gaussian(model), _points(model, new))
    found = simulation_based_calibration(
        simulation.simulate, simulation.posterior, 150, n_draws=49, generator=seed
    )
    assert {check.name for check in found.checks} == {"f", "mean of f", "y"}
    assert found["f"].n_values == len(new)
    assert min(found.p_values.values()) > 1e-4
    for check in found.checks:
        for level, share in check.coverage.items():
            assert abs(share - level) < 5 * check.coverage_error[level]


def _gaussian(model):
    """The process, or the first member of a mixture."""
    process = model.process_
    return process if process.is_gaussian else process.first


def _points(model, new):
    return model.points(new)


def test_few_features_fail_on_truths_of_the_exact_process():
    """Frequencies that are too few make intervals of f too narrow."""
    model = cgp.SparseSpectrumGPRegressor(n_frequencies=3, random_state=0, **GIVEN).fit(X, Y)
    simulation = ProcessSimulation.of(model, X[:5] + 0.3, exact=True)
    found = simulation_based_calibration(simulation.simulate, simulation.posterior, 100)
    assert not found.is_calibrated
    assert found["f"].coverage[0.95] < 0.95 - 5 * found["f"].coverage_error[0.95]
    assert "f (p" in found.verdict()


def test_noise_of_rows_and_units_are_kept(seed):
    """Rows of unequal weight, two outputs in units of their own."""
    y = np.column_stack([100 + 5 * Y, -3 + 0.1 * Y])
    model = cgp.ExactGPRegressor(**GIVEN)
    model.fit(X, y, sample_weight=np.where(X[:, 0] > 0, 8.0, 0.5))
    simulation = ProcessSimulation.of(model, X[:3] + 0.2)
    found = simulation_based_calibration(
        simulation.simulate, simulation.posterior, 120, n_draws=49, generator=seed
    )
    assert found["f"].n_values == 6
    assert min(found.p_values.values()) > 1e-4
    # Data of another noise than the posterior believes in are told.
    process = simulation.process

    def noisier(rng):
        truths, data = simulation.simulate(rng)
        return truths, Data.of(data.points, data.targets + rng.normal(size=y.shape) * y.std(axis=0))

    assert process.data.weights is not None
    assert not simulation_based_calibration(noisier, simulation.posterior, 60).is_calibrated


def test_forms(tmp_path):
    found = conjugate(0)
    assert json.loads(json.dumps(found.to_dict()))["verdict"] == found.verdict()
    assert sum(found["mu"].histogram) == pytest.approx(1.0)
    figure = rank_figure({"mu": found["mu"].histogram}, found.n_simulations)
    figure.savefig(tmp_path / "ranks.png")
    assert (tmp_path / "ranks.png").stat().st_size > 1000
    assert conjugate(0) == found
    assert conjugate(1) != found


def test_ties_have_ranks_at_random(seed):
    """A truth that equals every draw has any rank: ranks of constants are uniform."""
    found = simulation_based_calibration(
        lambda rng: ({"zero": 0.0}, None), lambda data, n, rng: {"zero": np.zeros(n)}, 200,
        generator=seed,
    )  # fmt: skip
    assert found["zero"].ks_p > 1e-5


@pytest.mark.parametrize(
    ("draws", "message"),
    [
        ({}, "posterior: expected draws of 'a'"),
        ({"a": np.zeros((2, 99))}, r"posterior: expected draws of 'a' of shape \(1, 99\)"),
        ({"a": np.full(99, np.nan)}, "a: expected finite truths and draws"),
    ],
)
def test_bad_draws(draws, message):
    with pytest.raises(InvalidInputError, match=message):
        simulation_based_calibration(lambda rng: ({"a": 0.0}, None), lambda *_: draws, 20)


def test_bad_arguments():
    with pytest.raises(InvalidInputError, match="n_simulations: expected an int >= 20"):
        simulation_based_calibration(lambda rng: ({}, None), lambda *_: {}, 5)
    few = cgp.ExactGPRegressor(hyperparameters="averaged", random_state=0).fit(X[:8], Y[:8])
    with pytest.raises(InvalidInputError, match="model: expected one with a Gaussian process"):
        ProcessSimulation.of(few, X[:2])
