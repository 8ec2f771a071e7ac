"""Boosted trees and an additive kernel as rivals: folds by refits, laws by dense algebra."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.gaussian_process.kernels import Matern

from coupledgp.diagnostics.rivals.observed import Observations
from coupledgp.diagnostics.rivals.processes import (
    LENGTHSCALES,
    NOISES,
    AdditiveRival,
    BoostedRival,
    PlainRival,
)
from coupledgp.diagnostics.rivals.rows import table_kind
from coupledgp.errors import NumericalError

RNG = np.random.default_rng(4)
X = RNG.normal(size=(150, 3))
Y = (np.sin(2 * X).sum(axis=1) + 0.1 * RNG.normal(size=150))[:, None]
NEW = RNG.normal(size=(80, 3))
TRUE = np.sin(2 * NEW).sum(axis=1)


def rival(kind, rows=X, y=Y):
    return kind(rows, Observations.of(y, np.arange(len(rows))))


def kernel(rows, others, length, share):
    """The additive kernel by scikit-learn's Matern kernel of each column."""
    each = [Matern(length, nu=2.5)(rows[:, [j]], others[:, [j]]) for j in range(3)]
    pairs = each[0] * each[1] + each[0] * each[2] + each[1] * each[2]
    return (1 - share) * sum(each) / 3 + share * pairs / 3


def log_evidence(y, cov):
    """Log density of targets of mean zero."""
    sign, size = np.linalg.slogdet(2 * np.pi * cov)
    assert sign > 0
    return -0.5 * (y @ np.linalg.solve(cov, y) + size)


def test_hyperparameters_are_those_of_the_greatest_evidence():
    (chosen,), (signal,) = rival(AdditiveRival)._chosen
    y = Y[:, 0] - Y.mean()

    def evidence(length, share, noise):
        cov = kernel(X, X, length, share) + noise * np.eye(150)
        return log_evidence(y, (y @ np.linalg.solve(cov, y) / 150) * cov)

    best = evidence(*chosen)
    for length in LENGTHSCALES:
        for share in AdditiveRival.structures:
            for noise in NOISES[::4]:
                assert evidence(length, share, noise) <= best + 1e-6
    cov = kernel(X, X, *chosen[:2]) + chosen[2] * np.eye(150)
    assert signal == pytest.approx(y @ np.linalg.solve(cov, y) / 150, rel=1e-6)


def test_its_law_is_that_of_dense_algebra():
    one = rival(AdditiveRival)
    (length, share, noise), signal = one._chosen[0][0], one._chosen[1][0]
    rows = np.arange(100)
    mean, std = one.fitted(rows)(NEW)
    cov = kernel(X[rows], X[rows], length, share) + noise * np.eye(100)
    gain = np.linalg.solve(cov, kernel(X[rows], NEW, length, share))
    center = Y[rows].mean()
    np.testing.assert_allclose(mean[:, 0], center + gain.T @ (Y[rows, 0] - center), rtol=1e-7)
    left = 1 - np.einsum("ij,ij->j", kernel(X[rows], NEW, length, share), gain)
    np.testing.assert_allclose(np.square(std[:, 0]), signal * (left + noise), rtol=1e-7)


def test_a_plain_process_is_that_of_scikit_learn():
    one = rival(PlainRival)
    (length, share, noise), signal = one._chosen[0][0], one._chosen[1][0]
    assert share is None
    cov = Matern(length * np.sqrt(3), nu=2.5)
    mean, std = one.fitted(np.arange(100))(NEW)
    gain = np.linalg.solve(cov(X[:100]) + noise * np.eye(100), cov(X[:100], NEW))
    center = Y[:100].mean()
    np.testing.assert_allclose(mean[:, 0], center + gain.T @ (Y[:100, 0] - center), rtol=1e-7)
    left = 1 - np.einsum("ij,ij->j", cov(X[:100], NEW), gain)
    np.testing.assert_allclose(np.square(std[:, 0]), signal * (left + noise), rtol=1e-7)


def test_an_additive_function_is_found_and_its_law_is_honest():
    found = rival(AdditiveRival).predict(NEW)
    z = (TRUE - found.mean[:, 0]) / found.std[:, 0]
    assert np.sqrt(np.mean(np.square(TRUE - found.mean[:, 0]))) < 0.25  # of 1.2
    assert np.mean(np.abs(z) < 1.96) > 0.85


@pytest.mark.parametrize("kind", [AdditiveRival, BoostedRival])
def test_rows_left_out_are_predicted_from_other_groups(kind):
    groups = np.arange(150) % 10
    one = rival(kind)
    found = one.left_out(groups)
    changed = Y.copy()
    changed[groups == 3] += 100.0
    other = rival(kind, X, changed)
    if kind is AdditiveRival:  # hyperparameters are those of all rows
        vars(other)["_chosen"] = one._chosen
    np.testing.assert_array_equal(other.left_out(groups).mean[groups == 3], found.mean[groups == 3])
    assert np.abs(found.mean - Y).mean() < np.abs(Y - Y.mean()).mean()


def test_boosted_trees_are_those_of_scikit_learn_with_the_error_of_other_folds():
    one = rival(BoostedRival)
    found = one.predict(NEW)
    folds = np.random.default_rng(3).permutation(150) % 5
    means, held = [], np.empty(150)
    for fold in range(5):
        own = folds == fold
        model = HistGradientBoostingRegressor(
            max_iter=60, max_leaf_nodes=15, min_samples_leaf=15, early_stopping=False,
            random_state=0,
        ).fit(X[~own], Y[~own, 0])  # fmt: skip
        means.append(model.predict(NEW))
        held[own] = model.predict(X[own])
    np.testing.assert_allclose(found.mean[:, 0], np.mean(means, axis=0), rtol=1e-10)
    error = np.sqrt(np.mean(np.square(Y[:, 0] - held)))
    np.testing.assert_allclose(found.std, np.full((80, 1), error), rtol=1e-10)


def reasons(rows, y):
    made = {name: make() for name, make in table_kind(rows, y).makers.items()}
    return {name: one for name, one in made.items() if isinstance(one, str)}


def test_rivals_that_do_not_apply_say_why():
    assert reasons(X[:29], Y[:29]) == {
        "plain process": "expected 30 rows at least, got 29",
        "additive kernel": "expected 30 rows at least, got 29",
        "boosted trees": "expected 60 rows at least, got 29",
    }
    one = reasons(X[:, :1], Y)
    assert one == {"additive kernel": "expected two columns at least, got one"}
    assert set(reasons(X, np.ones((150, 1))).values()) == {"expected targets that vary"}
    with pytest.raises(NumericalError, match="rows lie outside of a group"):
        rival(BoostedRival, X[:60], Y[:60]).left_out((np.arange(60) < 55).astype(int))


def test_many_rows_are_a_random_part(monkeypatch):
    monkeypatch.setattr(AdditiveRival, "most", 50)
    sizes = []
    fitted = AdditiveRival.fitted
    monkeypatch.setattr(
        AdditiveRival, "fitted", lambda self, rows: sizes.append(rows.size) or fitted(self, rows)
    )
    rival(AdditiveRival).predict(NEW)
    assert sizes == [50] * 5
