"""Reports of classifiers and of counts in all their forms, and what they find."""

import json
from dataclasses import replace

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.core.units import Units
from coupledgp.diagnostics import ClassReport, LikelihoodReport, compare
from coupledgp.diagnostics.likelihoods.class_laws import ObservedLaws
from coupledgp.diagnostics.likelihoods.evidence import class_draws
from coupledgp.diagnostics.likelihoods.latent_kl import FunctionLaw
from coupledgp.diagnostics.likelihoods.reporting import chances_of, likelihood_report
from coupledgp.diagnostics.verdicts.verdict import ADEQUACY, HONESTY, QUALITY
from coupledgp.errors import InvalidInputError
from coupledgp.likelihoods import Bernoulli, NegativeBinomial, Poisson, StudentT
from tests.diagnostics.likelihoods import cases

POINTS, LABELS = cases.X[cases.TEST], cases.LABELS[cases.TEST]
COUNTS, EXPOSURE = cases.COUNTS[cases.TEST], cases.EXPOSURE[cases.TEST]


@pytest.fixture(scope="module")
def classes():
    return compare(cases.classifier(4), POINTS, LABELS)


@pytest.fixture(scope="module")
def counts():
    return likelihood_report(cases.counts(16), POINTS, COUNTS, exposure=EXPOSURE)


def colours(report):
    return {one.question: one.colour for one in report.verdicts}


def test_a_report_of_classes_has_all_renderings(classes, tmp_path):
    assert isinstance(classes, ClassReport)
    keys = [one.key for one in classes.layout().sections]
    assert keys == [
        "chances", "reliability", "instead", "class-scores", "confusion", "latent-distance",
        "differences", "provenance", "models",
    ]  # fmt: skip
    page, text = classes.to_html(tmp_path / "page.html"), classes.to_text()
    for words in ("calibration error", "boosted trees", "Brier score", "the noise of"):
        assert words in page
        assert words in text
    assert "reliability" in classes._repr_html_().lower()
    found = json.loads(classes.to_json())
    assert found["reliability"]["error"] == classes.reliability.error
    assert found["divergence"]["kl_per_point"] == classes.kl_per_point
    assert "reliability,error," in classes.to_csv()
    assert {"reliability", "confusion", "beside"} <= set(classes.pictures())
    assert classes.changed(title="x").title == "x"


def test_scores_are_those_of_the_chances(classes):
    chance = cases.classifier(4).law(POINTS, "mean").mean[:, 0]
    np.testing.assert_allclose(classes.laws.chances[:, 1], chance)
    loss = -np.log(np.where(LABELS == 1, chance, 1 - chance)).mean()
    assert classes.nlpd == pytest.approx(loss)
    assert classes.rmse**2 == pytest.approx(2 * np.square(LABELS - chance).mean())
    exact = cases.classifier().law(POINTS, "mean").mean[:, 0]
    other = -np.log(np.where(LABELS == 1, exact, 1 - exact)).mean()
    assert classes.reference_nlpd == pytest.approx(other, rel=1e-6)
    assert classes.differences["nlpd"]["mean"] == pytest.approx(loss - other, rel=1e-4)


def test_four_features_are_too_few(classes):
    assert colours(classes)[ADEQUACY] in ("amber", "red")
    exact = compare(cases.classifier(), POINTS, LABELS)
    assert colours(exact) == {QUALITY: "green", HONESTY: "green", ADEQUACY: "green"}
    assert [one.key for one in exact.layout().sections].count("latent-distance") == 0


@pytest.mark.long
def test_an_estimator_has_its_own_labels_and_power():
    X, y = cases.X[cases.TRAIN], np.array(["a", "b", "c"])[cases.THREE[cases.TRAIN]]
    model = cgp.GPClassifier("matern-5/2", random_state=0).fit(X, y)
    labels = np.array(["a", "b", "c"])[cases.THREE[cases.TEST]]
    report = cgp.posterior_report(model, POINTS, labels, title="Three", data="drawn")
    np.testing.assert_allclose(report.laws.chances, model.predict_proba(POINTS), atol=1e-12)
    assert report.laws.classes.tolist() == ["a", "b", "c"]
    assert report.layout().title == "Three"
    assert "drawn" in report.layout().lead[0]
    unjudged = cgp.posterior_report(model, POINTS)
    assert unjudged.nlpd is None
    assert unjudged.kl_per_point == report.kl_per_point
    assert cgp.audit(model, X, y, POINTS, labels).nlpd == report.nlpd


def test_draws_of_labels_are_those_of_the_joint_law():
    law = FunctionLaw.of(cases.classifier(), POINTS[:40])
    process = cases.classifier()
    laws = cgp.diagnostics.compare(process, POINTS[:40], LABELS[:40]).laws
    draws = class_draws(law, process.likelihood, laws, None)
    error = np.sqrt(0.25 / len(draws))
    np.testing.assert_allclose(draws.mean(axis=0), laws.chances[:, 1], atol=5 * error)
    moments = process.law(POINTS[:40], "covariance").spread[..., 0]
    found = np.cov(draws.T)
    off = ~np.eye(40, dtype=bool)
    assert np.abs(found - moments)[off].max() < 6 * 0.25 / np.sqrt(len(draws))
    assert np.corrcoef(found[off], moments[off])[0, 1] > 0.3
    alone = class_draws(None, process.likelihood, laws, None)
    assert alone.mean(axis=1).std() < draws.mean(axis=1).std()


def test_chances_of_three_classes_have_a_power():
    law = FunctionLaw.of(cases.three_classes(), POINTS)
    each = cases.three_classes().law(POINTS, "mean").mean
    raised = each**1.7 / (each**1.7).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(chances_of(Bernoulli(), law, 1.7), raised, rtol=1e-9)


@pytest.mark.long
def test_a_report_of_counts_has_exposures_and_randomised_transforms(counts, tmp_path):
    assert isinstance(counts, LikelihoodReport)
    at = cases.counts(16).marginals(POINTS, exposure=EXPOSURE)
    assert counts.nlpd == pytest.approx(-at.log_density(COUNTS[:, None]).mean())
    transforms = counts.predictions.own.transforms[:, 0]
    ends = at.cdf(np.stack([COUNTS - 1, COUNTS], axis=1)[:, None])[:, 0]
    assert ((ends[:, 0] <= transforms) & (transforms <= ends[:, 1])).all()
    keys = [one.key for one in counts.layout().sections]
    assert "latent-distance" in keys
    assert "distance" not in keys
    names = [one.name for one in counts.baselines]
    assert names[0] == "a law of one rate"
    assert {"Poisson regression", "boosted trees, Poisson"} <= set(names)
    page = counts.to_html(tmp_path / "page.html")
    assert "Poisson law" in page
    assert "a law of one rate" in str(counts)


@pytest.mark.parametrize("likelihood", [Poisson(), StudentT(0.7, 5.0)])
def test_ranked_probability_scores_are_expectations_of_distances(likelihood):
    """`E|Y - y| - E|Y - Y'| / 2` by draws."""
    mean, variance = np.array([[0.8], [1.6]]), np.array([[0.2], [0.05]])
    y, rng = np.array([[3.0], [1.0]]), np.random.default_rng(2)
    f = mean[..., None] + np.sqrt(variance)[..., None] * rng.standard_normal((2, 1, 400_000))
    drawn = likelihood.draw(f, rng)
    first, second = drawn[..., ::2], drawn[..., 1::2]
    values = np.abs(first - y[..., None]) - 0.5 * np.abs(first - second)
    error = 5 * values.std(axis=-1) / np.sqrt(values.shape[-1])
    found = ObservedLaws(likelihood, mean, variance).crps(y)
    assert (np.abs(found - values.mean(axis=-1)) < error + 2e-3).all()


@pytest.mark.long
def test_counts_that_vary_too_much_ask_for_another_law():
    rng = np.random.default_rng(4)
    wide = NegativeBinomial(2.0).draw(1.0 + 0.5 * cases.F, rng)
    model = cases.given(Poisson(), wide[cases.TRAIN, None])
    report = compare(model, POINTS, wide[cases.TEST])
    assert colours(report)[HONESTY] in ("amber", "red")
    assert any("negative binomial" in one.action for one in report.advice)
    right = cases.given(NegativeBinomial(2.0), wide[cases.TRAIN, None])
    assert colours(compare(right, POINTS, wide[cases.TEST]))[HONESTY] == "green"


def test_nodes_have_label_propagation_beside_them():
    ring = cgp.Graph.from_edges(np.arange(60), (np.arange(60) + 1) % 60)
    nodes = np.random.default_rng(0).permutation(60)
    labels = (np.sin(np.arange(60) / 10) > 0).astype(int)
    made = cgp.ExactGraphGPRegressor(ring, "matern", optimizer=None)
    own = made.fit(nodes[:30], labels[nodes[:30]].astype(float)).process_
    function = replace(own, units=Units(np.zeros(1), np.ones(1)))
    from coupledgp.core.latent import LatentGP
    from coupledgp.core.process import Data

    data = Data.of(own.data.points, labels[own.data.points, None].astype(float))
    model = LatentGP.given([function], Bernoulli(), data)
    report = compare(model, nodes[30:], labels[nodes[30:]])
    names = [one.name for one in report.baselines]
    assert names[0] == "the shares of the classes"
    assert any("label propagation" in name for name in names)


def test_rows_of_training_are_found():
    X, y = np.vstack([POINTS[:40], cases.X[:40]]), np.append(LABELS[:40], cases.LABELS[:40])
    report = compare(cases.classifier(), X, y)
    assert report.overlap.n_rows == 40
    assert colours(report)[HONESTY] == "grey"
    left = compare(cases.classifier(), X, y, leave_out_overlap=True)
    assert left.figures.n_test == 40


def test_what_cannot_be_reported_is_refused():
    with pytest.raises(InvalidInputError, match="y_test: y: expected counts"):
        compare(cases.counts(), POINTS, COUNTS + 0.5)
    with pytest.raises(InvalidInputError, match="expected labels"):
        compare(cases.classifier(), POINTS, LABELS + 5)
    with pytest.raises(InvalidInputError, match="exposure: expected 80 numbers"):
        likelihood_report(cases.counts(), POINTS, COUNTS, exposure=EXPOSURE[:3])
    with pytest.raises(InvalidInputError, match="groups"):
        compare(cases.classifier(), POINTS, LABELS, groups=LABELS)
    gp = cgp.ExactGPRegressor(optimizer=None).fit(cases.X[:9], cases.F[:9])
    with pytest.raises(InvalidInputError, match="exposure: expected none"):
        cgp.posterior_report(gp, POINTS, COUNTS, exposure=EXPOSURE)
