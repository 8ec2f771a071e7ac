"""Choices by `"auto"` and `select` go by the upper end of what was measured, with known figures."""

from __future__ import annotations

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.diagnostics.distance import solved
from coupledgp.errors import NumericalError
from coupledgp.tables import coupling_fit as automatic
from coupledgp.tables.coupling_search import Prediction, Trial, _Search, select
from coupledgp.tables.member_kinds import HeldOutRows

RNG = np.random.default_rng(8)
X = RNG.normal(size=(80, 2))
Y = np.sin(X[:, 0]) + 0.2 * RNG.normal(size=80)


class Recorded:
    """Rows that say what they were asked for; the KL of each draw is known."""

    first_size, last_size = 4, 64

    def __init__(self, draws):
        self.draws, self.asked = draws, []

    def kl_per_point(self, coupling, size, seed):
        self.asked.append((coupling, size, seed))
        return self.draws[coupling][seed % 4]


def search(draws, target=1e-9, seed=12):
    rows = Recorded(draws)
    return rows, _Search(rows, "n_frequencies", target, 4, seed)


def test_every_coupling_and_size_is_drawn_with_the_same_seeds():
    rows, made = search({"a": [1.0] * 4, "longer": [1.0] * 4})
    made.given([("a", "a"), ("longer", "longer")], [4, 9])
    for coupling in ("a", "longer"):
        for size in (4, 9):
            seeds = [seed for c, s, seed in rows.asked if (c, s) == (coupling, size)]
            assert seeds == [12, 13, 14, 15]


def test_a_trial_is_the_mean_of_its_draws_with_the_error_of_a_sample():
    _, made = search({"a": [1.0, 2.0, 3.0, 6.0]})
    trial = made.given([("a", "a")], [4])
    assert trial.kl_per_point == 3.0
    error = np.sqrt((4 + 1 + 0 + 9) / 3) / 2
    assert trial.standard_error == pytest.approx(error, rel=1e-12)
    assert trial.bound == pytest.approx(3.0 + 2 * error, rel=1e-12)


# Four draws of mean 1 and standard error e, and their bound 1 + 2 e.
def spread(error, mean=1.0):
    gap = error * np.sqrt(3)
    return [mean - gap, mean - gap, mean + gap, mean + gap]


def test_a_size_passes_by_the_upper_end():
    for target, passes in ((1.19, False), (1.21, True)):
        _, made = search({"a": spread(0.1)}, target)
        assert bool(made._passing([("a", "a")], 4)) is passes


def test_of_those_that_pass_the_closest_is_taken():
    _, made = search({"wide": spread(0.3, 0.9), "sure": spread(0.01, 1.0)}, 2.0)
    assert made.given([("sure", "sure"), ("wide", "wide")], [4]).coupling == "wide"


@pytest.mark.parametrize(("mean", "stays"), [(1.39, True), (1.41, False)])
def test_a_coupling_is_given_up_where_its_lower_end_is_above_the_lowest_upper_end(mean, stays):
    _, made = search({"best": spread(0.1), "other": spread(0.1, mean)})
    made._passing([("best", "best"), ("other", "other")], 4)
    assert ("other" in dict(made._contenders(4))) is stays


@pytest.mark.parametrize(("target", "met"), [(1.19, False), (1.21, True)])
def test_a_selection_meets_its_target_by_the_upper_end(target, met, monkeypatch):
    draws = spread(0.1)
    monkeypatch.setattr(HeldOutRows, "kl_per_point", lambda self, c, size, seed: draws[seed % 4])
    model = cgp.SparseSpectrumGPRegressor(
        lengthscale=1.0, outputscale=1.0, noise=0.1, optimizer=None
    )
    chosen = select(model, X, Y, kl_target=target, couplings=["iid"], sizes=[6])
    assert chosen.met is met


@pytest.mark.parametrize(("gain", "worse"), [(-0.011, True), (-0.009, False), (0.5, False)])
def test_the_default_takes_over_beyond_the_error(gain, worse):
    assert Prediction("a", "b", gain, 0.01, 50).is_worse is worse


def test_bounds_are_two_standard_errors_above_the_mean():
    assert automatic.Measured(0.3, 0.1).bound == pytest.approx(0.5)
    assert Trial("a", 4, 0.3, 0.1).bound == pytest.approx(0.5)


def test_quarters_of_a_small_table_have_the_error_of_their_mean(monkeypatch):
    gp = cgp.SparseSpectrumGPRegressor(
        n_frequencies=8, lengthscale=1.0, outputscale=1.0, noise=0.1, optimizer=None
    ).fit(X, Y)
    values, asked = iter([1.0, 2.0, 3.0, 6.0]), []

    def kl(process, query, progress):
        asked.append(query)
        return next(values)

    monkeypatch.setattr(automatic, "_kl_given", kl)
    found = automatic.measured_kl(gp.process_, 3)
    assert found.kl_per_point == 3.0
    assert found.standard_error == pytest.approx(np.sqrt(14 / 3) / 2)
    assert sorted(np.concatenate(asked)) == list(range(80))


def test_solves_count_at_their_upper_bound(monkeypatch):
    gp = cgp.SparseSpectrumGPRegressor(
        n_frequencies=8, lengthscale=1.0, outputscale=1.0, noise=0.1, optimizer=None
    ).fit(X, Y)
    monkeypatch.setattr(solved, "kl_from_exact", lambda *_: (1.0, 0.5))
    assert automatic._kl_given(gp.process_, np.arange(20), None) == 1.5


def test_a_fit_grows_until_the_upper_end_meets_the_target(monkeypatch):
    """The mean of the first measurement is below the target, its upper end is not."""
    measured, sizes = iter([(0.04, 0.01), (0.045, 0.001)]), []

    def kl(process, *_):
        sizes.append(process.feature_map.n_frequencies)
        return automatic.Measured(*next(measured))

    monkeypatch.setattr(automatic, "measured_kl", kl)
    monkeypatch.setattr(automatic, "_are_compared", lambda *_: False)
    gp = cgp.SparseSpectrumGPRegressor(
        n_frequencies="auto", options={"kl_target": 0.05}, random_state=0,
        lengthscale=1.0, outputscale=1.0, noise=0.1, optimizer=None,
    ).fit(X, Y)  # fmt: skip
    # The bound, 0.06, asks for 1.2 * 0.06 / 0.05 times the size.
    assert sizes[1:] == [int(np.ceil(1.44 * sizes[0]))]
    assert gp.n_frequencies_ == sizes[1]


def test_a_draw_without_a_posterior_is_as_far_as_can_be():
    class Failing:
        def approximation(self, *arguments):
            raise NumericalError("no posterior")

    rows = HeldOutRows(Failing(), None, None, None, 4, 8, 20)
    assert rows.kl_per_point("iid", 4, 0) == np.inf
