"""Frequencies drawn for the posterior, through the estimator."""

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.core.posterior_draw import pilot_places
from coupledgp.core.posterior_form import PosteriorForm
from coupledgp.core.problem import RowWeights
from coupledgp.errors import InvalidInputError, PrecisionWarning
from coupledgp.features.registry import Drawn
from coupledgp.ground.parameters import folded
from coupledgp.tables.coupling_search import select
from coupledgp.tables.weight_space import FITTED_REMARK

RNG = np.random.default_rng(12)
X = RNG.normal(size=(260, 2))
Y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * RNG.normal(size=260)
X_TEST = RNG.normal(size=(60, 2))
M = 48


def model(**parameters):
    settings = {"n_frequencies": M, "random_state": 0, "n_restarts": 0, "progress": False}
    return cgp.SparseSpectrumGPRegressor(
        **folded(cgp.SparseSpectrumGPRegressor, (settings | parameters))
    )


@pytest.fixture(scope="module")
def drawn():
    return model(frequencies="posterior").fit(X, Y)


@pytest.fixture(scope="module")
def sampled():
    return model(frequencies="sampled").fit(X, Y)


def test_by_default_no_draw_is_made_where_nothing_is_to_gain():
    gp = model(lengthscale=8.0, noise=2.0, outputscale=0.5, optimizer=None)
    gp.fit(X, Y)
    assert gp.drawn_.law == "kernel"
    assert "which leaves little to gain" in gp.explain()


def test_by_default_a_draw_is_made_where_it_gains(sampled):
    gp = model().fit(X, Y)
    assert gp.drawn_.law == "posterior"
    assert "frequencies are enough" in gp.explain()
    few = model(n_frequencies=31).fit(X, Y)
    assert few.drawn_.law == "kernel"
    assert "fewer than 16 frequencies a column" in few.explain()


def test_the_posterior_is_closer_to_the_exact_one(drawn, sampled):
    near, far = (cgp.report(gp, X_TEST).score("kl") for gp in (drawn, sampled))
    assert near < 0.5 * far
    assert drawn.drawn_.law == "posterior"
    assert drawn.pilot_.kl_per_point < 0.5 * drawn.pilot_.independent_kl
    assert sampled.drawn_.law == "kernel"


def test_lengthscales_are_kept_and_variances_fitted_anew(drawn, sampled):
    np.testing.assert_array_equal(drawn.lengthscale_, sampled.lengthscale_)
    assert drawn.noise_ != sampled.noise_
    assert drawn.noise_ == pytest.approx(sampled.noise_, rel=0.1)
    assert drawn.n_evaluations_ > sampled.n_evaluations_


def test_weights_are_importance_weights_and_not_fitted_ones(drawn):
    weights = drawn.features_.weights.numpy()
    assert weights.shape == (M,)
    assert weights.sum() == pytest.approx(1)
    assert str(drawn.features_.coupling) == "posterior"
    assert drawn.pilot_.largest_weight == pytest.approx(M * weights.max())
    assert not drawn.process_.feature_prior.is_fitted
    assert FITTED_REMARK not in drawn.process_.remarks


def test_it_is_said_what_was_done(drawn, sampled):
    assert "drawn for the posterior, with importance weights: as asked for" in drawn.explain()
    assert "sampled by orthogonal+pnc: as asked for" in sampled.explain()


@pytest.mark.long
def test_auto_draws_where_it_gains_and_says_why_not():
    gp = model(frequencies="auto").fit(X, Y)
    assert gp.drawn_.law == "posterior"
    reasons = {
        "few frequencies": ({"n_frequencies": 8}, "fewer than 16 frequencies a column"),
        "coupling": ({"coupling": "halton"}, "the coupling was named"),
        "features": ({"features": "laplace", "kernel": "gaussian"}, "only Fourier features"),
    }
    for parameters, reason in reasons.values():
        kept = model(frequencies="auto", **parameters).fit(X, Y)
        assert kept.drawn_.law == "kernel"
        assert reason in kept.explain()
    few = model(frequencies="auto", optimizer=None, lengthscale=1.0).fit(X[:150], Y[:150])
    assert "150 rows are too few" in few.explain()
    rough = model(
        frequencies="auto", lengthscale=0.1, noise=1e-3, outputscale=1.0, optimizer=None
    ).fit(X, Y)
    assert rough.drawn_.law == "kernel"
    assert "too far for a draw" in rough.explain()


def test_what_auto_keeps_is_the_model_without_it():
    kept = model(frequencies="auto", n_frequencies=8).fit(X, Y)
    plain = model(n_frequencies=8).fit(X, Y)
    assert kept.predict(X_TEST).tobytes() == plain.predict(X_TEST).tobytes()


def test_files_keep_frequencies_weights_and_their_kind(drawn, tmp_path):
    cgp.save_model(drawn, tmp_path / "m.model", include_data=True)
    read = cgp.load_model(tmp_path / "m.model")
    np.testing.assert_array_equal(read.predict(X_TEST), drawn.predict(X_TEST))
    assert not read.process_.feature_prior.is_fitted
    assert read.frequencies == "posterior"
    assert read.drawn_ == drawn.drawn_


def test_more_rows_keep_the_frequencies(drawn):
    gp = model(frequencies="posterior").fit(X, Y)
    gp.partial_fit(X_TEST, np.zeros(60))
    np.testing.assert_array_equal(gp.features_.frequencies, drawn.features_.frequencies)
    assert gp.drawn_ == drawn.drawn_


def test_another_draw_of_a_coupling_has_no_weights(drawn):
    other = drawn.process_.redrawn("orthogonal", M, 0)
    assert other.feature_map.weights is None
    assert Drawn.of(other.feature_map).name == "orthogonal"


def test_weighted_rows_queries_and_missing_values():
    weights = RNG.integers(1, 3, 260).astype(float)
    holed = X.copy()
    holed[::9, 1] = np.nan
    gp = model(frequencies="posterior", missing="indicator")
    gp.fit(holed, Y, sample_weight=weights, queries=X_TEST)
    assert gp.drawn_.law == "posterior"
    assert np.isfinite(gp.predict(X_TEST)).all()


@pytest.mark.long
def test_single_precision_and_averaged_hyperparameters():
    single = model(frequencies="posterior", dtype="float32").fit(X, Y)
    double = model(frequencies="posterior").fit(X, Y)
    np.testing.assert_allclose(single.predict(X_TEST), double.predict(X_TEST), atol=2e-2)
    averaged = model(frequencies="posterior", hyperparameters="averaged").fit(X, Y)
    assert len(averaged.members_) > 1
    assert all(not m.process_.feature_prior.is_fitted for m in averaged.members_)


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"frequencies": "exact"}, "frequencies: expected one of"),
        ({"frequencies": "posterior", "coupling": "iid"}, "coupling: expected None beside"),
        ({"frequencies": "posterior", "n_frequencies": "auto"}, "'auto' expects frequencies="),
        ({"frequencies": "posterior", "features": "laplace"}, "needs features='fourier'"),
    ],
)
def test_what_is_refused(parameters, text):
    with pytest.raises(InvalidInputError, match=text):
        model(**parameters).fit(X, Y)


def test_queries_need_a_use():
    with pytest.raises(InvalidInputError, match="queries: expected none unless frequencies"):
        model(frequencies="sampled").fit(X, Y, queries=X_TEST)


def test_a_draw_beyond_second_order_is_told():
    kept = {"lengthscale": 0.1, "noise": 1e-3, "outputscale": 1.0, "optimizer": None}
    with pytest.warns(PrecisionWarning, match="a draw for the posterior can predict worse there"):
        model(frequencies="posterior", **kept).fit(X, Y)


def test_few_rows_and_a_single_frequency():
    kept = {"lengthscale": 5.0, "noise": 0.5, "outputscale": 0.1, "optimizer": None}
    for n, m in ((3, 2), (12, 1)):
        gp = model(frequencies="posterior", n_frequencies=m, **kept).fit(X[:n], Y[:n])
        assert gp.drawn_.law == "posterior"
        assert np.isfinite(gp.predict(X_TEST)).all()
    with pytest.raises(InvalidInputError, match=r"X: expected at least 3 rows .* got 2"):
        model(frequencies="posterior", **kept).fit(X[:2], Y[:2])


@pytest.mark.long
def test_studies_draw_for_the_posterior_of_their_own_rows(sampled):
    study = cgp.coupling_study(
        sampled, X_TEST, couplings=["orthogonal", "posterior"], sizes=[M], n_draws=5
    )
    means = study.summary().set_index("coupling")
    near = means.loc["posterior"]
    assert near.kl_per_point + 2 * near.kl_per_point_error < means.kl_per_point["orthogonal"]


def test_another_draw_for_the_posterior_is_the_processes_own_answer(sampled):
    drawn = sampled.process_.redrawn("posterior", M, 3)
    again = sampled.process_.redrawn("posterior", M, 3)
    weights = drawn.feature_prior.feature_map.weights.numpy()
    np.testing.assert_array_equal(weights, again.feature_prior.feature_map.weights.numpy())
    assert Drawn.of(drawn.feature_map).name == "posterior"
    assert drawn.hyperparameters == sampled.process_.hyperparameters
    back = drawn.redrawn("iid", M, 0)
    assert Drawn.of(back.feature_map).name == "iid"
    assert back.feature_prior.feature_map.weights is None


def test_a_draw_for_the_posterior_is_chosen_as_one(sampled):
    found = select(sampled, X, Y, couplings=["iid", "posterior"], sizes=[M], kl_target=1e-3)
    assert found.coupling == "posterior"
    assert (found.estimator.frequencies, found.estimator.coupling) == ("posterior", None)
    assert found.explain().startswith("Chosen: frequencies='posterior', n_frequencies=")


def test_laplace_features_have_no_law_of_the_posterior():
    gp = model(features="laplace").fit(X[:60], Y[:60])
    with pytest.raises(InvalidInputError, match="needs Fourier features and at least 3 rows"):
        gp.process_.redrawn("posterior", M, 0)


@pytest.mark.filterwarnings("ignore:frequencies")
def test_reports_try_a_draw_for_the_posterior():
    kept = {"noise": 0.04, "outputscale": 1.0, "optimizer": None}
    sampled = model(frequencies="sampled", lengthscale=0.7, **kept).fit(X, Y)
    far = closings_of(sampled)
    assert far["frequencies='posterior'"] < 0.5 * cgp.report(sampled, X_TEST).score("kl")
    # More frequencies are drawn by the law of the model's own.
    drawn = model(frequencies="posterior", lengthscale=0.6, **kept).fit(X, Y)
    assert list(closings_of(drawn)) == [f"n_frequencies={4 * M}"]


def closings_of(gp):
    checks = cgp.report(gp, X_TEST).checks
    return {one.column: one.statistic for one in checks if one.rule == "closer"}


def test_rows_of_a_pilot_carry_the_information_of_all():
    kept = {"lengthscale": np.exp(-0.5), "noise": np.exp(-2), "outputscale": 1.0, "optimizer": None}
    process = model(frequencies="sampled", **kept).fit(X[:30], Y[:30]).process_
    form = process.feature_prior.pilot(process.data, np.random.default_rng(3))
    rng = np.random.default_rng(3)
    places = pilot_places(30, rng)
    order = places[rng.permutation(30)]
    points = process.data.points - process.feature_prior.center
    counted = RowWeights(np.ones(20), np.full(20, 1.5))
    dense = PosteriorForm(
        points[order[:20]], points[order[20:]], form.spectrum, process.hyperparameters, counted
    )
    assert form.of_kernel == pytest.approx(dense.of_kernel, rel=1e-9)
