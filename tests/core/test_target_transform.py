"""Estimators of transformed targets: chosen by the evidence of y, kept in all that follows."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import coupledgp as cgp
from coupledgp.core.problem import Hyperparameters, RowWeights
from coupledgp.core.process import Data, PredictiveLaw
from coupledgp.core.profile import ScaleBounds, profile_scales
from coupledgp.core.target_maps import Span, back_transformed
from coupledgp.core.transformed import TransformedGP
from coupledgp.core.transforms import BoxCox, Identity, Log, Logit, TargetTransform, YeoJohnson
from coupledgp.errors import ExtrapolationWarning, HeavyTailWarning, InvalidInputError
from coupledgp.ground.parameters import folded
from coupledgp.spectra import GaussianSpectrum
from coupledgp.tables.exact_process import ExactGP, StationaryPrior
from coupledgp.tables.transform_search import TransformProblem, candidates, chosen, fit_transforms
from tests.core.few_steps import take_few_steps
from tests.often import often

RNG = np.random.default_rng(1)
X, X_NEW = RNG.normal(size=(120, 2)), RNG.normal(size=(80, 2))


def latent(X):
    return 1 + np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]


Z, Z_NEW = (latent(x) + 0.4 * RNG.normal(size=len(x)) for x in (X, X_NEW))
POSITIVE, POSITIVE_NEW = np.exp(Z), np.exp(Z_NEW)
Z, Z_NEW = np.log(POSITIVE), np.log(POSITIVE_NEW)  # of the same bits as the model's
ESTIMATORS = {
    "sampled": cgp.SparseSpectrumGPRegressor(n_frequencies=16, random_state=0),
    "fitted": cgp.SparseSpectrumGPRegressor(n_frequencies=6, frequencies="fitted", random_state=0),
    "exact": cgp.ExactGPRegressor(random_state=0),
    "averaged": cgp.ExactGPRegressor(
        random_state=0, hyperparameters="averaged", options={"n_hyperparameter_draws": 6}
    ),
}


@pytest.fixture
def few_steps(monkeypatch):
    """For statements that hold after any number of steps."""
    take_few_steps(monkeypatch)


def new(name, **changes):
    model = ESTIMATORS[name]
    return type(model)(**folded(type(model), {**model.get_params(), **changes}))


@pytest.mark.parametrize("name", often(ESTIMATORS, *list(ESTIMATORS)[:2]))
def test_a_log_model_is_the_model_of_the_logarithms(name, few_steps):
    model = new(name, target_transform="log").fit(X, POSITIVE)
    plain = new(name).fit(X, Z)
    chances = [0.025, 0.5, 0.975]
    np.testing.assert_allclose(
        model.predict_quantiles(X_NEW, chances), np.exp(plain.predict_quantiles(X_NEW, chances)),
        rtol=1e-9,
    )  # fmt: skip
    np.testing.assert_allclose(
        model.log_density(X_NEW, POSITIVE_NEW), plain.log_density(X_NEW, Z_NEW) - Z_NEW, rtol=1e-8
    )
    assert model.log_marginal_likelihood_value_ == pytest.approx(
        plain.log_marginal_likelihood_value_ - Z.sum(), rel=1e-9
    )
    np.testing.assert_array_equal(model.y_train_, POSITIVE)
    assert model.noise_ == pytest.approx(plain.noise_)
    if not plain.process_.is_gaussian:
        return
    mean, std = plain.predict(X_NEW, return_std=True)
    np.testing.assert_allclose(model.predict(X_NEW), np.exp(mean + std**2 / 2), rtol=1e-8)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_files_twins_and_further_rows_keep_the_transform(name, few_steps, tmp_path):
    first, rest = slice(None, 80), slice(80, None)
    model = new(name, target_transform="box-cox").fit(X[first], POSITIVE[first])
    model.save(tmp_path / "m", include_data=True)
    loaded = cgp.load_model(tmp_path / "m")
    assert loaded.process_.transforms == model.process_.transforms
    assert loaded.target_transform == "box-cox"
    for a, b in zip(
        model.predict(X_NEW, return_cov=True), loaded.predict(X_NEW, return_cov=True), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    model.partial_fit(X[rest], POSITIVE[rest])
    loaded.partial_fit(X[rest], POSITIVE[rest])
    np.testing.assert_array_equal(model.predict(X_NEW), loaded.predict(X_NEW))
    np.testing.assert_array_equal(model.y_train_, POSITIVE)
    twin = model.exact_twin()
    assert twin.process_.transforms == model.process_.transforms
    assert (twin.predict_interval(X_NEW)[0] > 0).all()
    other = model.conditioned_on(X[:50], POSITIVE[:50])
    assert other.process_.transforms == model.process_.transforms
    if name == "fitted":
        assert [member.process_.transforms for member in model.members_] == [
            model.process_.transforms
        ] * len(model.members_)
        assert model.member_weights_.sum() == pytest.approx(1)


def test_a_file_without_rows_predicts(tmp_path):
    model = new("sampled", target_transform="log").fit(X, POSITIVE)
    model.save(tmp_path / "m")
    loaded = cgp.load_model(tmp_path / "m")
    np.testing.assert_array_equal(model.predict(X_NEW), loaded.predict(X_NEW))
    with pytest.raises(cgp.errors.CoupledGPError, match="include_data"):
        loaded.y_train_  # noqa: B018


def test_the_evidence_finds_the_shape():
    """With targets of a known power the fitted one is near it, and its evidence the greatest."""
    y = BoxCox(0.5).inverse(6 + Z)
    data = Data.of(X, y[:, None])
    problem = TransformProblem(data, GaussianSpectrum(), True, np.random.default_rng(0))
    found = problem.best(BoxCox())
    assert 0.2 < found.transform.power < 0.8
    for power in (0.0, found.transform.power - 0.1, found.transform.power + 0.1, 1.5):
        other = problem.best(BoxCox(power), found.lengthscale)
        assert other.log_evidence < found.log_evidence + 0.01


def test_the_evidence_is_that_of_the_exact_model():
    """The evidence of the choice is the model's own, its lengthscales searched for on all rows."""
    data = Data.of(X, POSITIVE[:, None])
    problem = TransformProblem(data, GaussianSpectrum(), True, np.random.default_rng(0))
    for transform in (Log(), YeoJohnson(0.4)):
        scored = problem.best(transform)
        model = new("exact", target_transform=transform, lengthscale=scored.lengthscale)
        fitted = model.set_params(options={"fixed": ("lengthscale",)}).fit(X, POSITIVE)
        assert fitted.log_marginal_likelihood_value_ == pytest.approx(scored.log_evidence, abs=1e-4)


def test_weights_count_in_the_choice():
    counts = RNG.integers(1, 4, size=60)
    rows = np.repeat(np.arange(60), counts)
    weighted = new("exact", ard=False, target_transform="box-cox").fit(
        X[:60], POSITIVE[:60], sample_weight=counts
    )
    repeated = new("exact", ard=False, target_transform="box-cox").fit(X[rows], POSITIVE[rows])
    powers = [model.process_.transforms[0].power for model in (weighted, repeated)]
    assert powers[0] == pytest.approx(powers[1], abs=1e-4)
    assert weighted.log_marginal_likelihood_value_ == pytest.approx(
        repeated.log_marginal_likelihood_value_, rel=1e-5
    )


@pytest.mark.filterwarnings("ignore:y. expected targets that differ")
@pytest.mark.parametrize(
    ("y", "kind"),
    [(POSITIVE, (Log, BoxCox)), (Z, (Identity,)), (np.full(120, 3.0), (Identity,))],
    ids=["lognormal", "normal", "constant"],
)
def test_auto_takes_a_transform_only_where_it_pays(y, kind):
    model = new("exact", target_transform="auto").fit(X, y)
    process = model.process_
    transform = process.transforms[0] if isinstance(process, TransformedGP) else Identity()
    assert isinstance(transform, kind)


def test_means_stay_near_the_targets_and_a_warning_says_so(tmp_path):
    """Of a law that is much wider than the targets, as of a function that turns out noise."""
    gp = cgp.ExactGPRegressor(
        target_transform="log", optimizer=None, lengthscale=0.3, outputscale=30.0, noise=0.01
    ).fit(X, POSITIVE)
    far = np.array([[30.0, 0.0], [0.0, 30.0]])
    room = 3 * np.ptp(POSITIVE)
    gp.save(tmp_path / "model")
    for model in (gp, cgp.load_model(tmp_path / "model")):
        with (
            pytest.warns(ExtrapolationWarning, match="row 1: 'x0'"),
            pytest.warns(HeavyTailWarning, match=r"2 of 2 rows \(1, 2\) .* clipped"),
        ):
            mean, std = model.predict(far, return_std=True)
        assert (mean < POSITIVE.max() + room).all()
        assert (std < room).all()
    latent_sd = np.sqrt(30 * gp.process_.units.scale[0] ** 2)
    wide = np.exp(np.log(POSITIVE).mean() + latent_sd**2 / 2)
    assert wide > 1e3 * POSITIVE.max()  # the mean of the law itself
    with pytest.warns(ExtrapolationWarning):
        quantile = gp.predict_quantiles(far, [0.975])
    assert (quantile > 3 * POSITIVE.max()).all()  # and its own quantiles


def test_left_out_errors_of_a_choice_are_those_of_conditioning_on_the_rest():
    y = POSITIVE[:25, None]
    weights = RowWeights(np.ones(25), RNG.choice([1.0, 2.0], 25))
    for given in (None, weights):
        problem = TransformProblem(
            Data.of(X[:25], y, weights=given), GaussianSpectrum(), True, np.random.default_rng(0)
        )
        profile = problem._profile(problem.space.base)
        for transform in (Identity(), Log()):
            values, units, _ = problem.transformed(transform)
            evidence, _ = profile._evidence(units.normalized(values))
            scales = Hyperparameters(problem.space.base, *profile_scales(evidence, ScaleBounds()))
            prior = StationaryPrior(GaussianSpectrum(), scales)
            data = Data.of(X[:25], values, weights=given)
            found = profile.errors(transform)
            for i in range(0, 25, 6):
                rest = ExactGP.given(
                    prior, data.take(np.delete(np.arange(25), i)), units, True, warns=False
                )
                mean, variance = rest.law(X[[i]], "variance", latent=True)
                noise = scales.noise / (1.0 if given is None else given.counts[i])
                law = PredictiveLaw(mean, variance + units.spread(noise))
                own = back_transformed(law, [transform], Span.of(y)).law.mean
                assert found[i] == pytest.approx(((own - y[i]) ** 2).item(), rel=1e-5, abs=1e-9)


def test_auto_passes_over_a_transform_whose_means_miss_more():
    data = Data.of(X, POSITIVE[:, None])
    problem = TransformProblem(data, GaussianSpectrum(), True, np.random.default_rng(0))
    best = problem.best

    def worse(transform, lengthscale=None):
        found = best(transform, lengthscale)
        return replace(found, errors=found.errors + 10 * (transform != Identity()))

    assert isinstance(chosen(problem, data.targets), (Log, BoxCox))
    problem.best = worse
    assert chosen(problem, data.targets) == Identity()


def test_auto_leaves_out_transforms_that_some_target_refuses():
    y = np.where(np.arange(120) == 119, 0.0, POSITIVE)
    data = Data.of(X[:110], y[:110, None])
    problem = TransformProblem(data, GaussianSpectrum(), True, np.random.default_rng(0))
    assert isinstance(chosen(problem, y[:, None]), (YeoJohnson, Identity))
    assert isinstance(chosen(problem, data.targets), (Log, BoxCox))
    kinds = [{type(t) for t in candidates(POSITIVE[:, None] + shift)} for shift in (0, -1, 100)]
    assert kinds == [{Log, BoxCox}, {YeoJohnson}, {Log, BoxCox, YeoJohnson}]
    assert Logit in {type(t) for t in candidates(1 / (1 + POSITIVE[:, None]))}


def test_each_output_has_a_shape_of_its_own():
    both = np.column_stack([POSITIVE, 6 + Z])
    model = new("exact", target_transform="box-cox").fit(X, both)
    first, second = model.process_.transforms
    assert first.power < 0.3 < second.power
    mean, cov = model.predict(X_NEW, return_cov=True)
    assert mean.shape == (80, 2)
    assert cov.shape == (80, 80, 2)
    density = model.log_density(X_NEW, np.column_stack([POSITIVE_NEW, 6 + Z_NEW]))
    alone = [
        TransformedGP.of(m, [t], Data.of(X, both[:, [k]])).log_density(
            X_NEW, [POSITIVE_NEW, 6 + Z_NEW][k][:, None]
        )
        for k, (m, t) in enumerate(
            (new("exact", lengthscale=model.lengthscale_, optimizer=None,
                 outputscale=model.process_.hyperparameters.outputscale,
                 noise=model.process_.hyperparameters.noise).fit(X, t.forward(both[:, k])).process_,
             t)
            for k, t in enumerate((first, second))
        )
    ]  # fmt: skip
    np.testing.assert_allclose(density, sum(alone), rtol=1e-7)


def test_positive_targets_get_positive_intervals_of_right_coverage():
    plain, log = (new("sampled", target_transform=t).fit(X, POSITIVE) for t in (None, "log"))
    nlpds = [-m.log_density(X_NEW, POSITIVE_NEW).mean() for m in (plain, log)]
    assert nlpds[1] < nlpds[0] - 0.3
    lower, upper = log.predict_interval(X_NEW)
    assert (lower > 0).all()
    covered = ((lower < POSITIVE_NEW) & (upper > POSITIVE_NEW)).mean()
    assert 0.86 < covered <= 1
    assert (plain.predict_interval(X_NEW)[0] < 0).any()


@pytest.mark.parametrize("exact", ["dense", cgp.diagnostics.StochasticOptions()])
def test_reports_are_those_of_the_transformed_targets(exact):
    model = new("sampled", target_transform="log").fit(X, POSITIVE)
    asked = {"exact": exact, "depth": "scores"}
    report = cgp.report(model, X_NEW[:20], POSITIVE_NEW[:20], **asked)
    inner = cgp.report(model.process_.inner, X_NEW[:20], Z_NEW[:20, None], **asked)
    for name in ("kl", "reverse_kl", "nlpd", "rmse"):
        assert report.score(name) == pytest.approx(inner.score(name), rel=1e-9)
    assert report.tables.predictions.name == "SparseSpectrumGPRegressor"
    assert any("transformed targets" in one for one in report.tables.predictions.remarks)
    given = cgp.report(
        model, X_NEW[:20], POSITIVE_NEW[:20], exact=model.exact_twin(), depth="scores"
    )
    assert given.score("kl") == pytest.approx(report.score("kl"), rel=1e-2)


def test_models_of_different_transforms_are_compared_in_units_of_y():
    model = new("sampled", target_transform="log").fit(X, POSITIVE)
    plain = new("exact").fit(X, POSITIVE)
    report = cgp.report(model, X_NEW[:20], POSITIVE_NEW[:20], exact=plain)
    error = np.sqrt(np.mean((model.predict(X_NEW[:20]) - POSITIVE_NEW[:20]) ** 2))
    assert report.score("rmse") == pytest.approx(error)
    density = model.log_density(X_NEW[:20], POSITIVE_NEW[:20])
    assert report.score("nlpd") == pytest.approx(-density.mean())


def test_reports_and_studies_of_transformed_models():
    model = new("sampled", target_transform="log").fit(X, POSITIVE)
    page = cgp.report(model, X_NEW[:20], POSITIVE_NEW[:20], depth="scores")
    assert np.isfinite(page.score("kl"))
    study = cgp.coupling_study(
        model, X_NEW[:20], POSITIVE_NEW[:20], couplings=["iid"], sizes=[8], n_draws=2
    )
    assert study.exact["nlpd"] == pytest.approx(page.score("nlpd", "exact process"))


def test_automatic_sizes_with_a_transform():
    model = new("sampled", n_frequencies="auto", kl_target=3.0, target_transform="log")
    model.fit(X, POSITIVE)
    assert model.n_frequencies_ == model.selection_.size or model.kl_per_point_ < 3.0
    assert isinstance(model.process_, TransformedGP)


def test_sizes_are_selected_for_the_transformed_targets():
    model = new("sampled", target_transform="log")
    settings = {"sizes": [8, 16, 32], "couplings": ["orthogonal", "iid"], "n_draws": 2}
    found = cgp.select(model, X, POSITIVE, **settings)
    expected = cgp.select(new("sampled"), X, Z, **settings)
    assert found.to_dict() == expected.to_dict()
    with pytest.raises(InvalidInputError, match="sample_noise: expected None"):
        cgp.select(model, X, POSITIVE, sample_noise=np.ones(120))


class Cube(TargetTransform):
    """A transform of a user's own, without a registered name."""

    name = "cube"

    def forward(self, targets):
        return np.cbrt(targets)

    def inverse(self, values):
        return values**3

    def log_slope(self, targets):
        return -np.log(3) - 2 / 3 * np.log(np.abs(targets))


def test_own_transforms(tmp_path):
    model = new("exact", target_transform=Cube()).fit(X, POSITIVE)
    np.testing.assert_allclose(
        model.predict_quantiles(X_NEW, [0.5])[:, 0],
        new("exact").fit(X, np.cbrt(POSITIVE)).predict(X_NEW) ** 3,
        rtol=1e-9,
    )
    with pytest.raises(InvalidInputError, match="target_transform: expected an object with a text"):
        model.save(tmp_path / "m")


@pytest.mark.parametrize(
    ("settings", "y", "arguments", "message"),
    [
        ({"target_transform": "log"}, Z - 5, {}, "y: expected values between 0 and inf"),
        ({"target_transform": "logit"}, POSITIVE, {}, "y: expected values between 0 and 1"),
        ({"target_transform": "lgo"}, POSITIVE, {}, "target_transform: expected one of"),
        ({"target_transform": 3}, POSITIVE, {}, "target_transform: expected a name"),
        (
            {"target_transform": "log"}, POSITIVE, {"sample_noise": np.ones(120)},
            "sample_noise: expected None beside target_transform",
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["sampled", "exact"])
def test_bad_targets_and_transforms_are_refused(name, settings, y, arguments, message):
    model = new(name, **settings)
    with pytest.raises(InvalidInputError, match=message):
        model.fit(X, y, **arguments)
    assert not model.__sklearn_is_fitted__()


def test_further_rows_are_checked():
    model = new("exact", target_transform="log").fit(X, POSITIVE)
    before = model.process_
    with pytest.raises(InvalidInputError, match="y: expected values between 0"):
        model.partial_fit(X[:2], [-1.0, 2.0])
    with pytest.raises(InvalidInputError, match="sample_noise: expected None"):
        model.partial_fit(X[:2], [1.0, 2.0], sample_noise=[1.0, 1.0])
    assert model.process_ is before
    assert (model.log_density(X_NEW[:2], [-1.0, 0.0]) == -np.inf).all()


def test_tables_with_categories():
    frame = pd.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 0, "high", "low")})
    frame["b"] = frame["b"].astype("category")
    model = new("sampled", target_transform="box-cox").fit(frame, POSITIVE)
    assert model.process_.data.points.shape == model.process_.inner.data.points.shape
    assert (model.predict_interval(frame[:9])[0] >= 0).all()


@pytest.mark.long
def test_one_seed_one_transform():
    big = RNG.normal(size=(700, 2))
    y = np.exp(latent(big) + 0.3 * RNG.normal(size=700))
    data = Data.of(big, y[:, None])
    pair = [
        fit_transforms(BoxCox(), data, GaussianSpectrum(), False, np.random.default_rng(4))
        for _ in range(2)
    ]
    assert pair[0] == pair[1]


def test_quantiles_are_those_of_a_lognormal_law():
    model = new("exact", target_transform="log").fit(X, POSITIVE)
    mean, variance = model.process_.inner.law(X_NEW, "variance")
    expected = stats.lognorm.ppf(0.9, np.sqrt(variance[:, 0]), scale=np.exp(mean[:, 0]))
    np.testing.assert_allclose(model.predict_quantiles(X_NEW, [0.9])[:, 0], expected)
