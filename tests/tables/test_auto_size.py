"""Fits that choose their coupling and size by a target of KL."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import coupledgp as cgp
from coupledgp.errors import InvalidInputError
from coupledgp.ground.parameters import folded
from coupledgp.tables import coupling_fit as auto_size

RNG = np.random.default_rng(8)
X = RNG.normal(size=(200, 2))
Y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.2 * RNG.normal(size=200)
CYCLE = cgp.Graph.from_edges(np.arange(60), (np.arange(60) + 1) % 60)
HEIGHT = np.sin(2 * np.pi * np.arange(60) / 60) + 0.1 * RNG.normal(size=60)


@pytest.fixture(scope="module")
def fitted():
    gp = cgp.SparseSpectrumGPRegressor(
        ard=False,
        n_frequencies="auto",
        coupling="auto",
        options={"kl_target": 0.05},
        random_state=2,
    )
    return gp.fit(X, Y)


def test_the_target_is_met(fitted):
    """Measured at every quarter of a small table, given the other three."""
    kls = []
    for query in np.array_split(np.random.default_rng(2).permutation(200), 4):
        rest = np.setdiff1d(np.arange(200), query)
        local = fitted.conditioned_on(X[rest], Y[rest])
        kls.append(cgp.report(local, X[query]).score("kl"))
    assert fitted.kl_per_point_ == pytest.approx(np.mean(kls))
    assert np.mean(kls) + 2 * np.std(kls, ddof=1) / np.sqrt(4) <= 0.05
    assert fitted.n_frequencies_ >= fitted.selection_.size
    assert fitted.features_.n_frequencies == fitted.n_frequencies_
    assert str(fitted.features_.coupling) == fitted.selection_.coupling


def test_the_kl_of_a_large_table_is_measured_once(fitted):
    rng = np.random.default_rng(3)
    inputs = rng.normal(size=(1100, 2))
    targets = np.sin(inputs[:, 0])
    order = np.random.default_rng(5).permutation(1100)
    local = fitted.conditioned_on(inputs[order[256:]], targets[order[256:]])
    expected = cgp.report(local, inputs[order[:256]]).score("kl")
    whole = fitted.conditioned_on(inputs, targets).process_
    found = auto_size.measured_kl(whole, 5)
    assert found.kl_per_point == pytest.approx(expected, rel=1e-6)
    assert found.standard_error == 0


@pytest.mark.long
def test_the_target_is_met_at_fresh_points():
    """Where no warning says otherwise, on small tables, where few rows can be put aside."""
    misses, quiet = 0, 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        inputs = rng.uniform(0, 10, (188, 1))
        targets = np.sin(3 * inputs[:, 0]) + 0.2 * rng.standard_normal(188)
        gp = cgp.SparseSpectrumGPRegressor(
            n_frequencies="auto", coupling="auto", options={"kl_target": 0.05}, random_state=seed
        )
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            gp.fit(inputs[:60], targets[:60])
        quiet += not caught
        misses += not caught and cgp.report(gp, inputs[60:]).score("kl") > 0.05
    assert quiet >= 2
    assert misses == 0


@pytest.mark.long
def test_in_a_pipeline_and_a_search(recwarn):
    """scikit-learn leaves attributes of its own on the steps, and takes them away again."""
    gp = cgp.SparseSpectrumGPRegressor(
        ard=False, n_frequencies="auto", options={"kl_target": 0.1}, random_state=0
    )
    with config_context(enable_metadata_routing=True):
        gp.set_fit_request(queries=False)
    model = make_pipeline(StandardScaler(), gp).fit(X, Y)
    assert model.score(X, Y) > 0.5
    assert model[-1]._metadata_request == gp._metadata_request
    search = GridSearchCV(gp, {"n_frequencies": [8, "auto"]}, cv=2).fit(X, Y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert not [w for w in recwarn if "FitFailed" in w.category.__name__]


@pytest.mark.long
def test_names_of_an_earlier_fit_are_forgotten():
    pandas = pytest.importorskip("pandas")
    gp = cgp.SparseSpectrumGPRegressor(
        ard=False, n_frequencies="auto", options={"kl_target": 0.1}, random_state=0
    )
    few = X[:60], Y[:60]
    gp.fit(pandas.DataFrame(few[0], columns=["a", "b"]), few[1]).fit(*few)
    assert not hasattr(gp, "feature_names_in_")


@pytest.mark.long
def test_parameters_stay_what_they_were(fitted):
    parameters = fitted.get_params()
    assert (parameters["n_frequencies"], parameters["coupling"]) == ("auto", "auto")
    again = cgp.SparseSpectrumGPRegressor(**folded(cgp.SparseSpectrumGPRegressor, parameters)).fit(
        X, Y
    )
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))


def test_a_saved_model_predicts_the_same(fitted, tmp_path):
    fitted.save(tmp_path / "m")
    same = cgp.load_model(tmp_path / "m")
    assert same.n_frequencies_ == fitted.n_frequencies_
    np.testing.assert_array_equal(same.predict(X), fitted.predict(X))


def test_it_grows_until_the_measured_kl_is_met(monkeypatch):
    """The first two measurements are bad; the size then follows them."""
    measured, sizes = iter([1.0, 0.06, 0.01]), []

    def kl(process, *_):
        sizes.append(process.feature_map.n_frequencies)
        return auto_size.Measured(next(measured))

    monkeypatch.setattr(auto_size, "measured_kl", kl)
    monkeypatch.setattr(auto_size, "_are_compared", lambda *_: False)
    gp = cgp.SparseSpectrumGPRegressor(
        ard=False, n_frequencies="auto", options={"kl_target": 0.05}, random_state=0
    ).fit(X, Y)
    assert sizes[1] == min(4 * sizes[0], 200)
    assert sizes[2] == min(int(np.ceil(1.2 * 0.06 / 0.05 * sizes[1])), 200)
    assert gp.n_frequencies_ == sizes[-1]
    assert gp.kl_per_point_ == 0.01


def test_a_target_out_of_reach_warns(monkeypatch):
    monkeypatch.setattr(auto_size, "_are_compared", lambda *_: False)
    gp = cgp.SparseSpectrumGPRegressor(
        ard=False, n_frequencies="auto", options={"kl_target": 1e-13}, random_state=0
    )
    with pytest.warns(ConvergenceWarning, match="1e-13 nats per point is not met.* ExactGP"):
        gp.fit(X[:40], Y[:40])
    assert gp.n_frequencies_ == 40


def test_only_the_coupling():
    gp = cgp.SparseSpectrumGPRegressor(
        ard=False, n_frequencies=20, coupling="auto", options={"kl_target": 1.0}, random_state=0
    ).fit(X, Y)
    assert gp.n_frequencies_ == 20
    assert {trial.size for trial in gp.selection_.trials} == {20}
    assert len({trial.coupling for trial in gp.selection_.trials}) > 1


@pytest.mark.long
def test_a_target_met_by_a_worse_predictor_gives_way_to_the_default():
    """A loose target is met by a few frequencies, which predict a smooth function badly."""
    rng = np.random.default_rng(2)
    inputs = rng.normal(size=(500, 3))
    targets = np.sin(2 * inputs[:, 0]) * inputs[:, 1] + 0.02 * rng.normal(size=500)
    train, rest = slice(0, 400), slice(400, None)
    settings = {"random_state": 0, "ard": False}
    auto = cgp.SparseSpectrumGPRegressor(
        **folded(
            cgp.SparseSpectrumGPRegressor,
            dict(n_frequencies="auto", coupling="auto", options={"kl_target": 50.0}, **settings),
        )
    ).fit(inputs[train], targets[train])
    default = cgp.SparseSpectrumGPRegressor(**folded(cgp.SparseSpectrumGPRegressor, settings)).fit(
        inputs[train], targets[train]
    )
    assert auto.selection_.met
    assert auto.selection_.size < 100
    prediction = auto.selection_.prediction
    assert prediction.is_worse
    assert prediction.n_rows == 100
    assert auto.n_frequencies_ == 256
    assert auto.selection_.explain().endswith(f"default, {auto.drawn_}: the default is used.")
    scores = [m.log_density(inputs[rest], targets[rest]).mean() for m in (auto, default)]
    assert scores[0] == pytest.approx(scores[1], rel=1e-9)
    measured = auto_size.measured_kl(default.process_, 0).kl_per_point
    assert auto.kl_per_point_ == pytest.approx(measured, rel=1e-6)


def test_a_good_predictor_stays(fitted):
    prediction = fitted.selection_.prediction
    assert not prediction.is_worse
    assert fitted.selection_.explain().endswith(f"{prediction.chosen} is used.")
    assert prediction.default.startswith("256 fourier frequencies")
    assert prediction.n_rows == 50


def test_the_gain_is_the_mean_difference_of_log_densities(fitted):
    other = cgp.SparseSpectrumGPRegressor(ard=False, random_state=2).fit(X, Y)
    order = np.random.default_rng(4).permutation(200)
    held, rest = order[:50], order[50:]
    gains = np.subtract(*(
        m.conditioned_on(X[rest], Y[rest]).log_density(X[held], Y[held]) for m in (fitted, other)
    ))  # fmt: skip
    found = auto_size._predicted(fitted, other, 4)
    assert found.gain == pytest.approx(gains.mean(), rel=1e-6)
    assert found.error == pytest.approx(gains.std(ddof=1) / np.sqrt(50), rel=1e-6)


@pytest.mark.long
def test_column_names(fitted):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(X, columns=["a", "b"])
    gp = cgp.SparseSpectrumGPRegressor(**folded(cgp.SparseSpectrumGPRegressor, fitted.get_params()))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gp.fit(table, Y)
    assert list(gp.feature_names_in_) == ["a", "b"]
    np.testing.assert_allclose(gp.predict(table), fitted.predict(X), rtol=1e-3, atol=1e-4)


@pytest.mark.long
def test_a_mean_below_the_target_is_not_enough(monkeypatch):
    """Parts that differ leave open whether the target is met."""
    found = auto_size.Measured(0.04, 0.01)
    monkeypatch.setattr(auto_size, "measured_kl", lambda *_: found)
    gp = cgp.SparseSpectrumGPRegressor(
        n_frequencies=20, coupling="auto", options={"kl_target": 0.05}
    )
    with pytest.warns(ConvergenceWarning, match="may not be met.* is 0.04 ± 0.01; raise"):
        gp.fit(X, Y)
    assert gp.kl_per_point_ == 0.04


def test_walkers():
    gp = cgp.GraphGPRegressor(CYCLE, n_walks="auto", options={"kl_target": 0.05}, random_state=0)
    gp.fit(np.arange(60), HEIGHT)
    assert gp.kl_per_point_ <= 0.05
    assert gp.n_walks_ == gp.selection_.size
    assert gp.n_walks == "auto"
    assert np.isfinite(gp.predict([3])).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kl_target": 0.0}, "kl_target"),
        ({"frequencies": "fitted"}, "'auto' expects frequencies='auto'"),
        ({"n_frequencies": "many"}, "n_frequencies"),
    ],
)
def test_bad_parameters(parameters, message):
    gp = cgp.SparseSpectrumGPRegressor(
        **folded(cgp.SparseSpectrumGPRegressor, {"n_frequencies": "auto"} | parameters)
    )
    with pytest.raises(InvalidInputError, match=message):
        gp.fit(X, Y)
