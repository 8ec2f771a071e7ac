"""The classifier of tables: scikit-learn's contract, chances, the choice of a kernel, files."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import coupledgp as cgp
from coupledgp.core.latent import LatentGP
from coupledgp.core.process import Data
from coupledgp.core.units import Units
from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.kernels import parse_kernel
from coupledgp.likelihoods import Bernoulli
from coupledgp.tables import latent_kernels
from coupledgp.tables.classifier import indicators, learn_classes, logits_of_shares
from coupledgp.tables.discrete_targets import left_out_power
from coupledgp.tables.expression_search import ObservedProblem
from coupledgp.tables.latent_kernels import LatentSize, left_out_log_densities, plan_kernels
from coupledgp.tables.local_problem import LocalProblem
from coupledgp.tables.local_search import Round
from tests.core.few_steps import search_little
from tests.model_files import objects, opened, signed

RNG = np.random.default_rng(3)
X = RNG.normal(size=(60, 2))
SIDES = np.where(X[:, 0] + 0.3 * RNG.normal(size=60) > 0, "right", "left")
THREE = np.array(["a", "b", "c"])[(X[:, 0] > 0.3).astype(int) + (X[:, 1] > 0.2)]
ONE_KERNEL = "matern-3/2 + constant"
# Laplace's rule takes fewer steps; what a model accepts and returns is the same.
CHECKED = cgp.GPClassifier(random_state=0, missing="raise")
# Columns are standardised by rows and not by their weights, so that a search for hyperparameters
# under weights is another one than under repeated rows.
CHECKS = [
    check
    for _, check in estimator_checks_generator(CHECKED)
    if "sample_weight_equivalence" not in check.func.__name__
]


@pytest.fixture(autouse=True)
def _small_searches(monkeypatch):
    search_little(monkeypatch)


@pytest.mark.parametrize("check", CHECKS, ids=[check.func.__name__ for check in CHECKS])
def test_scikit_learns_checks(check):
    check(clone(CHECKED))


def problem(y, kernel=ONE_KERNEL):
    _, codes = learn_classes(y)
    data = Data.of(X[: len(y)], indicators(codes, 2))
    units = Units(logits_of_shares(data.targets, None), np.ones(1))
    table = LocalProblem.of(data, units, np.arange(2), 0, 1.0)
    return ObservedProblem(table, parse_kernel(kernel), Bernoulli())


def test_gradient_of_the_evidence_is_that_of_differences():
    evidence = problem(SIDES[:30], "matern-3/2 + linear + constant").evidence(np.arange(30))
    at = evidence.start + 0.2 * RNG.normal(size=evidence.start.size)
    _, gradient = evidence.value_and_gradient(at)
    steps = 1e-5 * np.eye(at.size)[1:]
    numeric = [
        (evidence.value_and_gradient(at + s)[0] - evidence.value_and_gradient(at - s)[0]) / 2e-5
        for s in steps
    ]
    np.testing.assert_allclose(gradient[1:], numeric, rtol=1e-5, atol=1e-8)
    assert gradient[0] == 0


def test_a_search_raises_the_posterior_density_and_settles():
    own = problem(SIDES)
    evidence = own.evidence(np.arange(60))
    found = own.search((Round(60, 60),))
    assert found.converged
    assert found.value < evidence.value(evidence.start)
    assert np.abs(evidence.value_and_gradient(found.point)[1]).max() < 1e-3


def test_left_out_chances_are_near_those_of_refits():
    own = problem(SIDES[:40])
    vector = own.evidence(np.arange(40)).start
    process = LatentGP.given([own.prior_process(vector)], Bernoulli(), own.table.data)
    found = left_out_log_densities(process)
    for row in range(0, 40, 9):
        rest = own.table.data.take(np.delete(np.arange(40), row))
        refit = LatentGP.given([own.prior_process(vector)], Bernoulli(), rest)
        exact = refit.log_density(X[[row]], own.table.data.targets[[row]])[0]
        assert abs(found[row] - exact) < 0.05 * (1 + abs(exact))


def test_two_classes_are_the_law_of_one_function():
    model = cgp.GPClassifier(ONE_KERNEL, random_state=0).fit(X, SIDES)
    chance = model.process_.law(X[:7], "mean").mean[:, 0]
    proba = model.predict_proba(X[:7])
    np.testing.assert_allclose(proba[:, 1], chance, rtol=1e-9)
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-14)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X[:7])), proba)
    odds = model.decision_function(X[:7])
    np.testing.assert_allclose(odds, np.log(chance / (1 - chance)), atol=1e-9)
    np.testing.assert_array_equal(model.predict(X[:7]), np.where(odds > 0, "right", "left"))
    assert model.score(X, SIDES) > 0.85


def test_several_classes_are_normalised_against_all_others():
    model = cgp.GPClassifier(ONE_KERNEL, random_state=0).fit(X, THREE)
    raised = model.process_.law(X[:9], "mean").mean ** model.power_
    expected = raised / raised.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X[:9]), expected)
    np.testing.assert_array_equal(
        model.decision_function(X[:9]).argmax(axis=1), expected.argmax(axis=1)
    )
    assert "a: " in model.explain()
    assert len(model.process_.functions) == 3


def test_the_power_has_the_greatest_chance_of_labels_left_out():
    model = cgp.GPClassifier(ONE_KERNEL, random_state=0).fit(X, THREE)
    process, codes = model.process_, np.searchsorted(model.classes_, THREE)
    law = process.left_out_marginals(np.arange(len(X)))
    each = law.likelihood.marginal_moments(law.mean, law.variance)[0]

    def loss(power):
        raised = each**power
        chances = raised[np.arange(len(X)), codes] / raised.sum(axis=1)
        return -np.log(chances).sum() + 0.5 * np.log(power) ** 2

    tried = model.power_ * np.array([0.98, 1.0, 1.02])
    assert np.argmin([loss(one) for one in tried]) == 1
    assert left_out_power(process, 0) == left_out_power(process, 1)
    two = cgp.GPClassifier(ONE_KERNEL, random_state=0).fit(X, SIDES)
    assert two.power_ == 1.0


def test_labels_that_say_nothing_leave_the_share(monkeypatch):
    monkeypatch.setattr(latent_kernels, "LATENT_ROUNDS", (Round(200, 30),))
    rows = np.random.default_rng(0).normal(size=(200, 1))
    y = np.random.default_rng(1).random(200) < 0.3
    model = cgp.GPClassifier(ONE_KERNEL, random_state=0).fit(rows, y)
    np.testing.assert_allclose(model.predict_proba(rows)[:, 1], y.mean(), atol=0.15)


def test_the_kernel_of_least_log_loss_is_chosen(monkeypatch):
    kernels = ("linear + constant", "gaussian + constant")
    monkeypatch.setattr(latent_kernels, "EXACT_KERNELS", kernels)
    monkeypatch.setattr(latent_kernels, "LATENT_ROUNDS", (Round(60, 20),))
    ring = np.linalg.norm(X, axis=1) > 1.2
    choice = cgp.GPClassifier(random_state=0).fit(X, ring).choice_
    losses = [each.log_loss for each in choice.kernels]
    assert [each.is_chosen for each in choice.kernels] == [False, True]
    assert losses[1] < losses[0] - 0.1
    assert choice.n_scored == 60
    assert choice.explain().splitlines()[1].endswith("gaussian + constant")


def test_tables_of_texts_dates_and_gaps(tmp_path):
    frame = pd.DataFrame({
        "x": np.where(np.arange(60) % 9 == 0, np.nan, X[:, 0]),
        "colour": pd.Categorical(np.where(X[:, 1] > 0, "red", "blue")),
        "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(60), "D"),
    })  # fmt: skip
    y = pd.Series(np.where(X[:, 1] > 0, "yes", "no"))
    model = cgp.GPClassifier(random_state=0).fit(frame, y)
    assert model.score(frame, y) > 0.9
    model.save(tmp_path / "m")
    loaded = cgp.load_model(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict_proba(frame), model.predict_proba(frame))
    np.testing.assert_array_equal(loaded.classes_, ["no", "yes"])
    assert loaded.explain() == model.explain()
    assert loaded.get_params() == model.get_params()


@pytest.mark.parametrize(
    "labels", [{"texts": ["x", "x"]}, {"texts": ["a"]}, {"texts": ["b", "a"]}, 3, {"objects": []}]
)
def test_damaged_labels_of_a_file_are_refused(labels, tmp_path):
    cgp.GPClassifier(random_state=0).fit(X, SIDES).save(tmp_path / "m")
    value, arrays = opened(tmp_path / "m")
    next(objects(value, "FittedModel"))["results"]["dict"]["classes_"] = labels
    (tmp_path / "m").write_bytes(signed(value, arrays))
    with pytest.raises(ModelFileError, match="classes"):
        cgp.load_model(tmp_path / "m")


def test_rows_added_later_are_as_if_given_at_once():
    model = cgp.GPClassifier(ONE_KERNEL, random_state=0).fit(X[:40], SIDES[:40])
    alone = model.predict_proba(X)
    same = model.conditioned_on(X, SIDES)
    model.partial_fit(X[40:], SIDES[40:])
    np.testing.assert_allclose(model.predict_proba(X), same.predict_proba(X), rtol=1e-9)
    assert np.abs(model.predict_proba(X) - alone).max() > 0.01
    with pytest.raises(InvalidInputError, match=r"y: expected labels \['left', .*got 'up'$"):
        model.partial_fit(X[:1], ["up"])
    with pytest.raises(InvalidInputError, match=r"classes: expected \['left', 'right'\]"):
        model.partial_fit(X[:2], SIDES[:2], classes=["left", "right", "up"])


def test_weights_count_labels_as_if_repeated():
    model = cgp.GPClassifier(ONE_KERNEL, random_state=0).fit(X, THREE)
    counts = np.arange(60) % 3
    weighted = model.conditioned_on(X, THREE, sample_weight=counts)
    repeated = model.conditioned_on(np.repeat(X, counts, axis=0), np.repeat(THREE, counts))
    np.testing.assert_allclose(
        weighted.predict_proba(X), repeated.predict_proba(X), rtol=1e-5, atol=1e-7
    )


def test_balanced_classes_count_alike():
    rare = X[:, 0] > 1.2
    plain = cgp.GPClassifier(ONE_KERNEL, random_state=0).fit(X[:, 1:], rare)
    balanced = clone(plain).set_params(class_weight="balanced").fit(X[:, 1:], rare)
    assert plain.predict_proba(X[:, 1:])[:, 1].mean() < 0.35
    np.testing.assert_allclose(balanced.predict_proba(X[:, 1:])[:, 1].mean(), 0.5, atol=0.15)
    by_hand = clone(plain).fit(
        X[:, 1:], rare, np.where(rare, 0.5 / rare.mean(), 0.5 / (~rare).mean())
    )
    np.testing.assert_allclose(
        by_hand.predict_proba(X[:, 1:]), balanced.predict_proba(X[:, 1:]), rtol=1e-6
    )
    with pytest.raises(InvalidInputError, match="class_weight"):
        clone(plain).set_params(class_weight="equal").fit(X, rare)


@pytest.mark.parametrize(("copies", "process"), [(1, "LatticeGP"), (2, "WeightSpaceGP")])
def test_large_tables_take_features(monkeypatch, copies, process):
    monkeypatch.setattr(latent_kernels, "EXACT_LATENT_ROWS", 50)
    table = np.hstack([X] * copies)  # a lattice has at most three columns
    model = cgp.GPClassifier(n_frequencies=64, random_state=0).fit(table, SIDES)
    assert type(model.process_.functions[0]).__name__ == process
    assert model.score(table, SIDES) > 0.85


def test_same_seed_same_bits_and_pipelines():
    a, b = (cgp.GPClassifier(random_state=7).fit(X, THREE).predict_proba(X) for _ in range(2))
    np.testing.assert_array_equal(a, b)
    points, y = make_blobs(60, centers=2, random_state=0)
    pipeline = make_pipeline(StandardScaler(), cgp.GPClassifier(random_state=0))
    with warnings.catch_warnings():  # a fold has rows that the others have none near to
        warnings.simplefilter("ignore", cgp.errors.ExtrapolationWarning)
        assert cross_val_score(pipeline, points, y, cv=2).mean() > 0.8


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["a"] * 60, "two classes or more"),
        (np.linspace(0, 1, 60), "Unknown label type"),
        ([np.nan] * 60, "NaN"),
        (None, "requires y"),
        (np.array(["a", 1] * 30, dtype=object), "one type, got int, str"),
    ],
)
def test_labels_that_are_none_are_refused(y, message):
    with pytest.raises(ValueError, match=message):
        cgp.GPClassifier(random_state=0).fit(X, y)


def test_the_cost_is_known_beforehand():
    sizes = [LatentSize(n, 5, k, 512) for k, n in itertools.product((1, 4), (100, 1000, 20000))]
    costs = [size.forecast(len(size.kernels)) for size in sizes]
    assert costs[:3] == sorted(costs[:3])
    assert all(four > one for one, four in zip(costs[:3], costs[3:], strict=True))
    one = sizes[1].forecast(1)
    assert len(plan_kernels(sizes[1], 1.01 * one, None)) == 1
    with pytest.raises(InvalidInputError, match="budget: 1 functions of 1000 rows"):
        plan_kernels(sizes[1], 0.5 * one, None)
    model = cgp.GPClassifier(random_state=0).fit(X, SIDES)
    assert model.forecast_ == LatentSize(60, 2, 1, 512).forecast(1)
