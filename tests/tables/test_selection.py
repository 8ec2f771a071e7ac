"""The choice of a coupling and a size."""

from __future__ import annotations

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.errors import InvalidInputError
from coupledgp.ground.parameters import folded
from coupledgp.tables.coupling_search import ERRORS, _Search, select
from coupledgp.tables.member_kinds import HeldOutRows

RNG = np.random.default_rng(5)
X = RNG.normal(size=(240, 2))
Y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.2 * RNG.normal(size=240)
CYCLE = cgp.Graph.from_edges(np.arange(80), (np.arange(80) + 1) % 80)
HEIGHT = np.sin(2 * np.pi * np.arange(80) / 80) + 0.1 * RNG.normal(size=80)


class KnownRows:
    """Rows at which the KL is `factor / size`, the same for each draw but for a known spread."""

    first_size, last_size = 4, 4096

    def __init__(self, **factors):
        self.factors = factors

    def kl_per_point(self, coupling, size, seed):
        return self.factors[coupling] / size * (1 + 0.1 * (-1) ** seed)


def named(*names: str) -> list[tuple[str, str]]:
    return [(name, name) for name in names]


def search(target, **factors):
    return _Search(KnownRows(**factors), "n_frequencies", target, 4, 0)


def bound(factor, size):
    """Mean plus two standard errors of four draws `factor / size * (1 +- .1)`."""
    return factor / size * (1 + ERRORS * 0.1 * np.sqrt(4 / 3) / 2)


@pytest.mark.parametrize("target", [0.3, 0.01, 0.0013])
def test_the_least_size_of_the_best_coupling(target):
    made = search(target, good=1.0, bad=3.0, same=1.01)
    best = made.growing(named("bad", "good", "same"))
    assert best.coupling == "good"
    assert best.bound == pytest.approx(bound(1.0, best.size))
    assert bound(1.0, best.size) < target
    # A step of the grid below, it fails.
    assert bound(1.0, best.size / 2**0.25 - 1) >= target
    assert best in made.trials


def test_couplings_that_are_clearly_worse_are_given_up():
    made = search(0.001, good=1.0, bad=3.0)
    made.growing(named("good", "bad"))
    assert {t.size for t in made.trials if t.coupling == "bad"} == {4}


def test_the_first_size_may_do():
    assert search(10.0, good=1.0).growing(named("good")).size == 4


def test_nothing_passes():
    made = search(1e-9, good=1.0, bad=3.0)
    best = made.growing(named("bad", "good"))
    assert (best.coupling, best.size) == ("good", 4096)


def test_a_coupling_without_a_posterior_is_as_far_as_can_be():
    made = search(0.01, good=1.0, none=np.inf)
    assert made.growing(named("none", "good")).coupling == "good"
    lost = search(0.01, none=np.inf)
    assert np.isinf(lost.growing(named("none")).kl_per_point)


def test_given_sizes():
    made = search(0.06, good=1.0, bad=3.0)
    best = made.given(named("bad", "good"), [5, 15, 50, 100])
    assert (best.coupling, best.size) == ("good", 50)
    assert [t.size for t in made.trials] == [5, 5, 15, 15, 50, 50]


def test_select_frequencies():
    model = cgp.SparseSpectrumGPRegressor(ard=False, random_state=3)
    chosen = select(model, X, Y, kl_target=0.02)
    assert chosen.met
    assert chosen.best.bound < 0.02
    assert chosen.estimator.get_params()["n_frequencies"] == chosen.size
    assert model.n_frequencies == 256, "the model given is not changed"
    assert (chosen.n_train, chosen.n_query, chosen.n_rows) == (180, 60, 240)
    assert chosen.coupling in chosen.explain()
    assert str(chosen.size) in chosen.explain()
    assert chosen.to_dict()["n_frequencies"] == chosen.size
    assert select(model, X, Y, kl_target=0.02).trials == chosen.trials


def held_out(model):
    return HeldOutRows.of(model, model.checked(X, Y)[0], 60, 240, 0)


def test_the_kl_of_a_trial_is_that_of_compare():
    model = cgp.SparseSpectrumGPRegressor(ard=False)
    rows = held_out(model)
    found = rows.kl_per_point("orthogonal", 6, 17)
    process = model.approximation(rows.exact, "orthogonal", 6, 17)
    report = cgp.report(process, rows.query)
    assert found == pytest.approx(report.score("kl"), rel=1e-6)
    data = rows.exact.data
    exact = cgp.ExactGPRegressor(ard=False, random_state=0).fit(data.points, data.targets[:, 0])
    np.testing.assert_allclose(process.hyperparameters.lengthscale, exact.lengthscale_)
    assert process.summary()["noise"] == pytest.approx(exact.noise_)


def test_laplace_features_keep_their_rule():
    model = cgp.SparseSpectrumGPRegressor(features="laplace", n_frequencies=16)
    rows = held_out(model)
    data = rows.exact.data
    rule = model.fit(data.points, data.targets[:, 0]).lengthscale_
    process = model.approximation(rows.exact, "iid", 5, 0)
    np.testing.assert_allclose(process.hyperparameters.lengthscale, rule)


def test_given_hyperparameters_are_kept():
    model = cgp.SparseSpectrumGPRegressor(
        ard=False, lengthscale=2.0, outputscale=0.7, noise=0.3, optimizer=None
    )
    hyper = model.approximation(held_out(model).exact, "iid", 5, 0).hyperparameters
    np.testing.assert_allclose(hyper.lengthscale, 2.0)
    assert hyper.noise / hyper.outputscale == pytest.approx(0.3 / 0.7)


@pytest.mark.long
def test_select_walkers():
    settings = {"kernel": "heat", "coupling": "iid", "random_state": 0}
    walked = cgp.GraphGPRegressor(
        CYCLE,
        **folded(
            cgp.GraphGPRegressor,
            dict(exact_hops=0, options={"length_law": "geometric"}, **settings),
        ),
    )
    nodes = np.arange(80)
    couplings = ["iid", "stratified+systematic"]
    found = select(
        walked, nodes, HEIGHT, kl_target=0.05, couplings=couplings, sizes=[2, 8, 32, 128]
    )
    assert found.size_name == "n_walks"
    assert found.estimator.coupling == found.coupling
    hops = select(
        cgp.GraphGPRegressor(CYCLE, **folded(cgp.GraphGPRegressor, settings)),
        nodes,
        HEIGHT,
        kl_target=0.05,
        couplings=couplings,
    )
    assert hops.met
    assert hops.size <= found.size
    assert hops.best.kl_per_point < found.best.kl_per_point


def test_not_met_says_what_to_do():
    model = cgp.SparseSpectrumGPRegressor(ard=False)
    chosen = select(model, X[:40], Y[:40], kl_target=1e-12, couplings=["iid"], n_draws=2)
    assert not chosen.met
    assert chosen.size == 40
    assert "ExactGPRegressor" in chosen.explain()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kl_target": 0.0}, "kl_target"),
        ({"kl_target": np.nan}, "kl_target"),
        ({"n_draws": 1}, "n_draws"),
        ({"couplings": "iid"}, "couplings: expected a list"),
        ({"couplings": []}, "couplings: expected a list"),
        ({"couplings": ["bad"]}, "couplings"),
        ({"sizes": [0]}, "sizes"),
        ({"sizes": []}, "sizes: expected ascending"),
        ({"sizes": [4, 4]}, "sizes: expected ascending"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        select(cgp.SparseSpectrumGPRegressor(), X, Y, **arguments)


def test_bad_model_and_too_few_rows():
    with pytest.raises(InvalidInputError, match="model: expected"):
        select(cgp.ExactGPRegressor(), X, Y)
    with pytest.raises(InvalidInputError, match="at least 8 rows"):
        select(cgp.SparseSpectrumGPRegressor(), X[:7], Y[:7])


def test_the_fit_of_the_exact_gp_shows_its_progress(monkeypatch):
    """It takes most of the time where there are many rows."""
    shown, fit = [], cgp.ExactGPRegressor.fit_data

    def watched(self, *data):
        shown.append(self.progress)
        return fit(self, *data)

    monkeypatch.setattr(cgp.ExactGPRegressor, "fit_data", watched)
    for progress in (None, False):
        select(
            cgp.SparseSpectrumGPRegressor(), X[:40], Y[:40], sizes=[4], couplings=["iid"],
            progress=progress,
        )  # fmt: skip
    assert shown == [None, False]
