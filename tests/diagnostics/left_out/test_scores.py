"""Errors over groups and warnings of many hyperparameters, by hand."""

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.diagnostics.left_out.report import Optimism, optimism
from coupledgp.diagnostics.rivals.contest import BesideBaseline
from coupledgp.diagnostics.rivals.observations import BaselinePrediction
from coupledgp.diagnostics.scoring.laws import PointLaws
from coupledgp.diagnostics.scoring.measures import marginal_scores
from coupledgp.diagnostics.scoring.scores import error_over_groups, point_nlpd

RNG = np.random.default_rng(9)
Y, MEAN, OTHER = RNG.normal(size=(3, 12, 1))
STD, SPREAD = RNG.uniform(0.5, 2.0, size=(2, 12, 1))
GROUPS = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2, 3, 3, 3])


def error_by_hand(losses):
    """`G / (G - 1) sum_g (sum_{i in g} (l_i - mean))^2 / m^2`."""
    away = losses - losses.mean()
    sums = np.array([away[g == GROUPS].sum() for g in range(4)])
    return np.sqrt(4 / 3 * (sums**2).sum()) / losses.size


def test_losses_of_a_group_go_together():
    losses = point_nlpd(Y, MEAN, STD)[:, 0]
    assert error_over_groups(losses, GROUPS) == pytest.approx(error_by_hand(losses), rel=1e-12)
    names = np.array(["d", "a", "c", "b"])[GROUPS]
    assert error_over_groups(losses, names) == pytest.approx(error_by_hand(losses), rel=1e-12)
    found = marginal_scores(Y, PointLaws(MEAN, STD), "", GROUPS)
    assert found["standard_errors"]["nlpd"] == pytest.approx(error_by_hand(losses), rel=1e-12)
    squares = (Y - MEAN)[:, 0] ** 2
    expected = error_by_hand(squares) / (2 * np.sqrt(squares.mean()))
    assert found["standard_errors"]["rmse"] == pytest.approx(expected, rel=1e-12)


def test_differences_from_a_baseline_go_together_too():
    rival = BaselinePrediction("mean", OTHER, SPREAD)
    found = BesideBaseline.of(Y, MEAN, STD, rival, None, GROUPS).differences["nlpd"]
    gap = (point_nlpd(Y, MEAN, STD) - point_nlpd(Y, OTHER, SPREAD))[:, 0]
    assert found["mean"] == pytest.approx(gap.mean(), rel=1e-12)
    assert found["standard_error"] == pytest.approx(error_by_hand(gap), rel=1e-12)
    outputs = [np.hstack([one, 2 * one]) for one in (Y, MEAN, STD)]
    both = error_over_groups(point_nlpd(*outputs), GROUPS)
    assert both == pytest.approx(error_by_hand(point_nlpd(Y, MEAN, STD)[:, 0]), rel=1e-12)


@pytest.mark.parametrize(("n_hyperparameters", "warns"), [(5, False), (6, True)])
def test_a_twentieth_of_a_hyperparameter_a_row(n_hyperparameters, warns):
    found = Optimism(n_hyperparameters, 100)
    assert found.nats == n_hyperparameters / 100
    assert bool(found.warning()) is warns


def test_optimism_is_a_number_of_each_target():
    """Two lengthscales, an output scale and a noise, of ten rows with two targets each."""
    X = RNG.normal(size=(10, 2))
    model = cgp.ExactGPRegressor(
        lengthscale=[1.0, 2.0], outputscale=1.5, noise=0.1, optimizer=None
    ).fit(X, RNG.normal(size=(10, 2)))
    assert optimism(model.process_) == Optimism(4, 20)
