"""Audits of predictions whose training rows are not at hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.linear_model import LinearRegression

import coupledgp as cgp
from coupledgp.diagnostics.audit_figures import FOLDS
from coupledgp.errors import InvalidInputError

RNG = np.random.default_rng(5)
N = 300
X = RNG.uniform(-2, 2, (N, 2))
F = 3 + np.sin(2 * X[:, 0])
Y = F + 0.2 * RNG.normal(size=N)
STD = np.full(N, 0.2)
PARTS = np.random.default_rng(0).permutation(N) % FOLDS


def of(report, name):
    return next(one for one in report.baselines if one.name == name)


def test_the_mean_of_other_parts_is_the_only_rival_of_predictions_alone():
    report = cgp.audit((F, STD), None, None, None, Y)
    assert [one.name for one in report.baselines] == ["mean"]
    others = np.array([Y[PARTS[row] != PARTS].mean() for row in range(N)])
    assert of(report, "mean").rmse == pytest.approx(np.sqrt(np.mean((Y - others) ** 2)))
    assert report.rmse == pytest.approx(np.sqrt(np.mean((Y - F) ** 2)))
    assert [one.colour for one in report.verdicts[:3]] == ["green", "green", "grey"]
    assert report.n_train == 0
    assert report.to_dict()["overlap"] is None
    assert report.lead()[0].startswith("No training rows, 300 test points")
    assert any("tenth of the test rows" in one for one in report.remarks)


def test_rivals_of_a_part_see_only_the_other_parts():
    report = cgp.audit((F, STD), None, None, X, Y)
    whole = (X - X.mean(axis=0)) / X.std(axis=0)
    nearest = []
    for row in range(N):
        others = np.flatnonzero(PARTS[row] != PARTS)
        nearest.append(Y[others[np.square(whole[others] - whole[row]).sum(axis=1).argmin()]])
    found = of(report, "nearest").rmse
    assert found == pytest.approx(np.sqrt(np.mean((Y - np.array(nearest)) ** 2)))
    assert {"linear", "plain process"} <= {one.name for one in report.baselines}


def test_tables_with_text_and_metadata_are_taken():
    frame = pd.DataFrame({"a": X[:, 0], "site": RNG.choice(["x", "y"], N)})
    report = cgp.audit((F, STD), None, None, frame, Y, metadata={"late": np.arange(N)})
    assert report.verdicts[0].colour == "green"


@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_intervals_that_are_not_honest_are_found(scale):
    report = cgp.audit((F, scale * STD), None, None, None, Y)
    assert report.verdicts[1].colour == "red"


def test_what_needs_training_rows_is_refused():
    law = (F, STD)
    with pytest.raises(InvalidInputError, match="kernel: expected None without training rows"):
        cgp.audit(law, None, None, X, Y, kernel="gaussian", lengthscale=1.0, outputscale=1, noise=1)
    with pytest.raises(InvalidInputError, match="leave_out_overlap: expected False without"):
        cgp.audit(law, None, None, X, Y, leave_out_overlap=True)
    with pytest.raises(InvalidInputError, match="X_train, y_train: expected both or None"):
        cgp.audit(law, X, None, X, Y)
    with pytest.raises(InvalidInputError, match="y_test: expected two targets at least without"):
        cgp.audit((F[:1], STD[:1]), None, None, None, Y[:1])
    labels = (Y > 3).astype(int)
    classes = {"chances": np.full((N, 2), 0.5), "classes": np.array([0, 1])}
    with pytest.raises(InvalidInputError, match="leave_out_overlap: expected False without"):
        cgp.audit(classes, None, None, X, labels, leave_out_overlap=True)
    with pytest.raises(InvalidInputError, match="X_train, y_train: expected both or None"):
        cgp.audit(classes, None, labels, X, labels)


def test_chances_need_no_training_rows():
    high = np.where(RNG.random(N) < norm.cdf((F - 3) / 0.5), "up", "down")
    chances = norm.cdf((F - 3) / 0.5)
    law = {"chances": np.column_stack([1 - chances, chances]), "classes": ["down", "up"]}
    report = cgp.audit(law, None, None, X, high)
    assert [one.colour for one in report.verdicts[:3]] == ["green", "green", "grey"]
    assert report.nlpd == pytest.approx(
        -np.log(np.where(high == "up", chances, 1 - chances)).mean()
    )
    assert report.lead()[0].startswith("No training rows, 300 test points")
    named = {one.name: one for one in report.baselines}
    counted = [(high[part != PARTS] == "up").sum() + 1 for part in PARTS]
    shares = np.array(counted) / np.array([(part != PARTS).sum() + 2 for part in PARTS])
    loss = -np.log(np.where(high == "up", shares, 1 - shares)).mean()
    assert named["the shares of the classes"].nlpd == pytest.approx(loss)
    assert {"logistic regression", "boosted trees"} <= set(named)
    wrong = {"chances": np.column_stack([chances, 1 - chances]), "classes": ["down", "up"]}
    alone = cgp.audit(wrong, None, None, None, high)
    assert alone.verdicts[0].colour == "red"
    assert [one.name for one in alone.baselines] == ["the shares of the classes"]


def test_draws_and_quantiles_need_no_rows():
    """Laws of single points without inputs, which have no nearest rows."""
    draws = F + STD * RNG.normal(size=(40, N))
    report = cgp.audit(draws, None, None, None, Y)
    assert report.verdicts[1].colour == "green"
    assert [one.name for one in report.baselines] == ["mean"]
    assert "training" not in report.verdict()


@pytest.mark.parametrize(
    ("X_test", "y_test", "message"),
    [
        (X[:1], Y[:1], r"y_test: expected two targets at least .* got shape \(1,\)"),
        (X, None, r"y_test: expected two targets .* got shape \(\)"),
        (X, np.where(np.arange(N) == 3, np.nan, Y), "X_test, y_test: expected finite values"),
        (pd.DataFrame({"side": ["l"] * N}), Y * np.inf, "X_test, y_test: expected finite values"),
    ],
)
def test_errors_name_the_rows_that_were_given(X_test, y_test, message):
    with pytest.raises(InvalidInputError, match=f"^{message}"):
        cgp.audit((F, STD), None, None, X_test, y_test)


def test_test_rows_beside_training_rows_are_asked_for():
    with pytest.raises(InvalidInputError, match=r"^X_test: expected the test rows"):
        cgp.audit((F, STD), pd.DataFrame(X), Y, None, Y)


def test_what_states_no_law_is_told_what_would():
    frame = pd.DataFrame({"mu": F, "sigma": STD})
    with pytest.raises(InvalidInputError, match=r"names 'mean' and 'std'.* got 'mu', 'sigma'"):
        cgp.audit(frame, None, None, X, Y)
    with pytest.raises(InvalidInputError, match="LinearRegression is no model whose law is known"):
        cgp.audit(LinearRegression().fit(X, Y), None, None, X, Y)


def test_too_few_rows_for_a_verdict_are_named():
    assert cgp.audit((F[:2], STD[:2]), None, None, X[:2], Y[:2]).verdict().startswith("Not judged")


def test_the_greatest_fault_of_intervals_is_told():
    """Standard deviations in another unit, whose errors differ a little along a column, too."""
    uneven = STD * np.where(X[:, 1] > 0, 1.0, 0.5)
    y = F + uneven * RNG.normal(size=N)
    small, even = (cgp.audit((F, one), None, None, X, y) for one in (STD / 100, STD))
    assert "times beside what the law says" in even.verdicts[1].sentence
    assert small.verdicts[1].sentence.startswith("Its intervals are too narrow")
