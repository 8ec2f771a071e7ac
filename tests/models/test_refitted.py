"""A fit to other values with hyperparameters kept, laws of wanted cells alone, fewer draws."""

from __future__ import annotations

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.diagnostics.space_time.models import law_of, readings_of
from coupledgp.errors import InvalidInputError
from coupledgp.inference.space_time.posterior import Cells
from tests.models.test_usual_days import N_FIT, NODES, TIMES, WHOLE, Y, fitted, made

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
STAMPS = TIMES[:N_FIT]


def hidden_cells(seed=3):
    hidden = np.random.default_rng(seed).random(Y.shape) < 0.1
    hidden[4, 100:130] = True
    return hidden


def test_hyperparameters_are_kept_and_all_else_is_learned_anew():
    model, values = fitted(), np.where(hidden_cells(), np.nan, Y)
    before = model.predict(NODES, STAMPS)
    found = model.refitted(NODES, values, times=STAMPS)
    assert found is not model
    np.testing.assert_array_equal(model.predict(NODES, STAMPS), before)
    own, other = found.grid_process_.parameters, model.grid_process_.parameters
    assert own.terms == other.terms
    assert own.noise == other.noise
    one, two = found.process_.dynamics, model.process_.dynamics
    assert one.ridge == pytest.approx(two.ridge, rel=0.01)
    np.testing.assert_array_equal(one.gaps.weights, two.gaps.weights)
    assert np.abs(one.level - two.level).max() > 1e-6
    assert "their ridge is kept" in found.method_reason_


def test_it_predicts_hidden_values_as_a_fit_does():
    hidden = hidden_cells()
    values = np.where(hidden, np.nan, Y)
    truth = WHOLE[:, :N_FIT][hidden]
    errors = []
    for model in (fitted().refitted(NODES, values, times=STAMPS),
                  made().fit(NODES, values, times=STAMPS)):  # fmt: skip
        mean, std = model.predict(NODES, STAMPS, return_std=True)
        errors.append(np.sqrt(np.mean((mean[hidden] - truth) ** 2)))
        assert 0.9 < (np.abs(mean[hidden] - truth) < 1.96 * std[hidden]).mean() < 0.99
    assert errors[0] == pytest.approx(errors[1], rel=0.03)


def test_other_sensors_may_report():
    found = fitted().refitted(NODES[1:5], Y[1:5], times=STAMPS)
    assert found.nodes_ == NODES[1:5]
    assert np.isfinite(found.predict(NODES, STAMPS)).all()


def test_a_model_without_days_has_none_after_it():
    model = fitted(usual_day=False, dynamics=False)
    found = model.refitted(NODES, Y, times=STAMPS)
    assert not found.has_dynamics_
    np.testing.assert_allclose(
        found.predict(NODES, STAMPS), model.predict(NODES, STAMPS), rtol=1e-4
    )


def test_wanted_cells_have_the_law_that_they_have_among_all():
    process = fitted().days_process_
    sites = np.append(np.array(NODES), 2)
    cells = Cells(np.sort(sites), process.grid.rows.times[50:220])
    wanted = np.random.default_rng(0).random((sites.size, 170)) < 0.02
    wanted[3] = False
    mean, variance = process.grid_law(cells, True)
    for mask in (wanted, ~np.isnan(mean)):
        own = process.grid_law(cells, True, wanted=mask)
        np.testing.assert_allclose(own[0][mask], mean[mask], rtol=1e-12)
        np.testing.assert_allclose(own[1][mask], variance[mask], rtol=1e-9)


def test_laws_for_scores_are_those_of_predict():
    model = fitted()
    readings = readings_of(model, NODES, STAMPS, Y)
    law = law_of(model, readings, ~readings.seen)
    mean, std = model.predict(NODES, STAMPS, return_std=True)
    np.testing.assert_allclose(law.mean[~readings.seen], mean[~readings.seen], rtol=1e-12)
    np.testing.assert_allclose(law.std[~readings.seen], std[~readings.seen], rtol=1e-9)


@pytest.mark.long
def test_draws_are_as_many_as_asked_for():
    few = fitted(dynamics=False).with_variance_samples(3)
    other = made(dynamics=False, n_variance_samples=3).fit(NODES, Y, times=STAMPS)
    assert few.n_variance_samples == 3
    for one, two in zip(few.predict(NODES, STAMPS, return_std=True),
                        other.predict(NODES, STAMPS, return_std=True), strict=True):  # fmt: skip
        np.testing.assert_allclose(one, two, rtol=1e-9)


def test_some_sensors_left_out_are_those_among_all():
    model = fitted()
    whole = model.leave_one_sensor_out()
    some = model.leave_one_sensor_out(4)
    assert 4 <= len(some) < len(whole)
    for label, rmse, mean in zip(some.node, some.rmse, some.mean, strict=True):
        row = whole.node.index(label)
        assert rmse == pytest.approx(whole.rmse[row], rel=1e-4)
        np.testing.assert_allclose(mean, whole.mean[row], rtol=1e-3)
    assert whole.node[0] in some.node


def test_an_evaluation_may_keep_hyperparameters():
    found = cgp.diagnostics.evaluate_space_time(
        fitted(), NODES, STAMPS, Y, splits=1, rivals="last value", hyperparameters="kept"
    )
    assert {row["model"] for row in found.table()} == {"GraphTimeGPRegressor", "last value"}


def test_what_cannot_be_kept_is_told():
    with pytest.raises(InvalidInputError, match="hyperparameters: expected 'fitted' for a model"):
        cgp.diagnostics.evaluate_space_time(
            made(), NODES, STAMPS, Y, splits=1, hyperparameters="kept"
        )
    with pytest.raises(InvalidInputError, match="most: expected"):
        fitted().leave_one_sensor_out(0)
