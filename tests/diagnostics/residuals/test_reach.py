"""Test rows beyond the box of the training rows."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import coupledgp as cgp
from coupledgp.diagnostics import compare
from coupledgp.diagnostics.residuals.shapes import Reach

KNOWN = np.array([[0.0, 0.0], [1.0, 10.0]])


@pytest.mark.parametrize(
    ("row", "is_beyond"),
    [([1.09, 5.0], 0), ([1.11, 5.0], 1), ([0.5, -0.9], 0), ([0.5, -1.1], 1), ([2.0, 99.0], 1)],
)
def test_a_row_is_beyond_by_a_tenth_of_a_side(row, is_beyond):
    assert Reach.of(KNOWN, np.array([row]), np.zeros((1, 1))).n_beyond == is_beyond


def test_it_names_the_column_and_the_errors_of_both():
    points = np.array([[0.5, 20.0], [0.5, 30.0], [9.0, 5.0], [0.5, 5.0]])
    errors = np.array([[3.0], [4.0], [0.0], [2.0]])
    found = Reach.of(KNOWN, points, errors, ("east", "depth"))
    assert (found.n_beyond, found.column) == (3, "depth")
    assert found.rmse_beyond == pytest.approx(np.sqrt(25 / 3))
    assert found.rmse_inside == 2.0
    assert "RMSE is 2.89, 2 at the others" in found.text()
    all_beyond = Reach.of(KNOWN, points[:1], errors[:1])
    assert all_beyond.text().endswith("and the RMSE is 3.")


def test_what_rows_beyond_cost_is_the_mean_loss_above_that_of_rows_within():
    points = np.array([[0.5, 20.0], [0.5, 30.0], [0.9, 5.0], [0.5, 5.0]])
    errors = np.array([[3.0], [4.0], [0.5], [2.0]])
    std = np.array([[2.0], [1.0], [1.0], [0.5]])
    found = Reach.of(KNOWN, points, errors, (), std)
    losses = 0.5 * (errors / std) ** 2 + np.log(std)
    assert found.gain == pytest.approx(losses.mean() - losses[2:].mean())
    assert found.is_fault
    assert Reach.of(KNOWN, points, errors).gain == 0.0
    assert Reach.of(KNOWN, points[:2], errors[:2], (), std[:2]).gain == 0.0
    assert not Reach.of(KNOWN, points, np.ones((4, 1)), (), std).is_fault


@pytest.mark.long
def test_no_model_is_green_where_many_rows_are_beyond():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(-2, 2, (300, 2)), columns=["east", "north"])
    y = np.sin(X["east"]) + 0.1 * rng.normal(size=300)
    model = cgp.ExactGPRegressor(random_state=0).fit(X[:150], y[:150])
    inside = compare(model, X[150:], y[150:])
    assert inside.verdicts[0].colour == "green"
    assert inside.evidence.reach.n_beyond == 0
    far = X[150:].copy()
    far.iloc[:30, 0] += 5.0
    targets = np.r_[np.sin(far["east"][:30]), y[180:]]
    for report in (
        compare(model, far, targets),
        cgp.audit(model, X[:150], y[:150], far, targets),
    ):
        assert report.verdicts[0].colour != "green"
        assert "30 of 150 test rows lie beyond the training rows" in report.verdicts[0].sentence
        assert "column `east`" in report.verdicts[0].sentence
        assert "take training rows from there" in report.advice[0].action
        assert report.advice[0].gain == pytest.approx(report.evidence.reach.gain)
    few = X[150:].copy()
    few.iloc[:7, 0] += 5.0
    assert not compare(model, few, y[150:]).evidence.reach.is_far


def test_without_rows_beyond_a_report_is_json_without_nan():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(120, 2))
    y = np.sin(5 * X[:, 0]) + 0.1 * rng.normal(size=120)
    corners = np.array([[0.0, 0.0], [1.0, 1.0]])  # no test row lies beyond them
    gp = cgp.ExactGPRegressor(random_state=0).fit(np.vstack([corners, X[:60]]), [0, -1, *y[:60]])
    found = cgp.diagnostics.compare(gp, X[60:], y[60:], progress=False)
    assert found.evidence.reach.rmse_beyond is None
    json.dumps(found.to_dict(), allow_nan=False)
