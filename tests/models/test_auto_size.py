"""Fits that choose their coupling and size by a target of KL."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import coupledgp as cgp
from coupledgp.errors import InvalidInputError
from coupledgp.models import auto_size

RNG = np.random.default_rng(8)
X = RNG.normal(size=(200, 2))
Y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.2 * RNG.normal(size=200)
CYCLE = cgp.Graph.from_edges(np.arange(60), (np.arange(60) + 1) % 60)
HEIGHT = np.sin(2 * np.pi * np.arange(60) / 60) + 0.1 * RNG.normal(size=60)


@pytest.fixture(scope="module")
def fitted():
    gp = cgp.SparseSpectrumGPRegressor(
        ard=False, n_frequencies="auto", coupling="auto", kl_target=0.05, random_state=1
    )
    return gp.fit(X, Y)


def test_the_target_is_met(fitted):
    assert fitted.kl_per_point_ <= 0.05
    order = np.random.default_rng(1).permutation(200)
    query, rest = order[:50], np.sort(order[50:])
    report = cgp.diagnostics.compare(fitted.conditioned_on(X[rest], Y[rest]), X[query])
    assert fitted.kl_per_point_ == pytest.approx(report.kl_per_point)
    assert fitted.n_frequencies_ >= fitted.selection_.size
    assert fitted.features_.n_frequencies == fitted.n_frequencies_
    assert str(fitted.features_.coupling) == fitted.selection_.coupling


def test_parameters_stay_what_they_were(fitted):
    parameters = fitted.get_params()
    assert (parameters["n_frequencies"], parameters["coupling"]) == ("auto", "auto")
    again = cgp.SparseSpectrumGPRegressor(**parameters).fit(X, Y)
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))


def test_a_saved_model_predicts_the_same(fitted, tmp_path):
    fitted.save(tmp_path / "m")
    same = cgp.load_model(tmp_path / "m")
    assert same.n_frequencies_ == fitted.n_frequencies_
    np.testing.assert_array_equal(same.predict(X), fitted.predict(X))


def test_it_grows_until_the_measured_kl_is_met(monkeypatch):
    """The first two measurements are bad; the size then follows them."""
    measured, sizes = iter([1.0, 0.06, 0.01]), []

    def kl(model, *_):
        sizes.append(model.n_frequencies)
        return next(measured)

    monkeypatch.setattr(auto_size, "measured_kl", kl)
    gp = cgp.SparseSpectrumGPRegressor(
        ard=False, n_frequencies="auto", kl_target=0.05, random_state=0
    ).fit(X, Y)
    assert sizes[1] == min(4 * sizes[0], 200)
    assert sizes[2] == min(int(np.ceil(1.2 * 0.06 / 0.05 * sizes[1])), 200)
    assert gp.n_frequencies_ == sizes[-1]
    assert gp.kl_per_point_ == 0.01


def test_a_target_out_of_reach_warns():
    gp = cgp.SparseSpectrumGPRegressor(
        ard=False, n_frequencies="auto", kl_target=1e-13, random_state=0
    )
    with pytest.warns(ConvergenceWarning, match="kl_target: 1e-13 nats per point is not met"):
        gp.fit(X[:40], Y[:40])
    assert gp.n_frequencies_ == 40


def test_only_the_coupling():
    gp = cgp.SparseSpectrumGPRegressor(
        ard=False, n_frequencies=20, coupling="auto", kl_target=1.0, random_state=0
    ).fit(X, Y)
    assert gp.n_frequencies_ == 20
    assert {trial.size for trial in gp.selection_.trials} == {20}
    assert len({trial.coupling for trial in gp.selection_.trials}) > 1


def test_column_names(fitted):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(X, columns=["a", "b"])
    gp = cgp.SparseSpectrumGPRegressor(**fitted.get_params())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gp.fit(table, Y)
    assert list(gp.feature_names_in_) == ["a", "b"]
    np.testing.assert_allclose(gp.predict(table), fitted.predict(X), rtol=1e-3, atol=1e-4)


def test_walkers():
    gp = cgp.GraphGPRegressor(CYCLE, n_walks="auto", kl_target=0.05, random_state=0)
    gp.fit(np.arange(60), HEIGHT)
    assert gp.kl_per_point_ <= 0.05
    assert gp.n_walks_ == gp.selection_.size
    assert gp.n_walks == "auto"
    assert np.isfinite(gp.predict([3])).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kl_target": 0.0}, "kl_target"),
        ({"frequencies": "fitted"}, "'auto' chooses among sampled"),
        ({"n_frequencies": "many"}, "n_frequencies"),
    ],
)
def test_bad_parameters(parameters, message):
    gp = cgp.SparseSpectrumGPRegressor(**{"n_frequencies": "auto"} | parameters)
    with pytest.raises(InvalidInputError, match=message):
        gp.fit(X, Y)


def test_no_checkpoint():
    gp = cgp.GraphGPRegressor(CYCLE, n_walks="auto")
    with pytest.raises(InvalidInputError, match="checkpoint"):
        gp.fit(np.arange(60), HEIGHT, checkpoint="file.json")
