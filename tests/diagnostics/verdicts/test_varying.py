"""Ranges and sizes that vary along a column: against plain algebra, and planted."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

import coupledgp as cgp
from coupledgp.core.problem import Hyperparameters
from coupledgp.diagnostics import compare, cross_validate
from coupledgp.diagnostics.verdicts.varying import Change, Sample, varied
from coupledgp.spectra import parse_spectrum
from coupledgp.tables.exact_process import StationaryPrior

CHANGES = [
    Change(1, 3.0, 2.0, of_range, is_course, a, longer)
    for of_range, longer in ((True, 1.5), (False, 1.0))
    for is_course in (True, False)
    for a in (1.2, -0.7)
]


def prior_of(lengths: list[float], noise: float = 0.1) -> StationaryPrior:
    return StationaryPrior(
        parse_spectrum("gaussian"), Hyperparameters(np.array(lengths), 1.3, noise)
    )


def rows_of(values: np.ndarray) -> np.ndarray:
    return np.column_stack([np.linspace(0, 1, len(values)), values])


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_changes_have_the_slopes_and_sizes_that_they_state(change: Change) -> None:
    x = np.linspace(1.1, 4.9, 40)
    z = (x - 3.0) / 2.0
    g = z if change.is_course else 1 - 2 * np.abs(z)
    if change.of_range:
        step = 1e-6
        up, down = change.rows(rows_of(x + step)), change.rows(rows_of(x - step))
        slope = (up - down)[:, 1] / (2 * step)
        np.testing.assert_allclose(slope, np.exp(change.strength * g) / change.longer, rtol=1e-6)
        np.testing.assert_array_equal(change.rows(rows_of(x))[:, 0], rows_of(x)[:, 0])
        assert (change.sizes(rows_of(x)) == 1).all()
    else:
        np.testing.assert_allclose(change.sizes(rows_of(x)), np.exp(change.strength * g))
        np.testing.assert_array_equal(change.rows(rows_of(x)), rows_of(x))


@pytest.mark.parametrize("middle", [3.0, 0.0, -4.0])
@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_the_formula_of_a_remedy_is_the_change(change: Change, middle: float) -> None:
    """As code, up to a scale, and for ranges a shift, which lengthscales and means take."""
    change = Change(**(vars(change) | {"middle": middle}))
    x = np.linspace(middle - 2, middle + 2, 25)
    text = change.remedy("b")
    formula = re.search(r"np\..*?(?= in place of|, x the values)", text)
    assert formula is not None
    found = eval(formula.group(), {"np": np, "x": x})
    own = change.rows(rows_of(x))[:, 1] if change.of_range else change.sizes(rows_of(x))
    if change.of_range:
        found, own = found - found.mean(), own - own.mean()
    ratio = (found @ own) / (own @ own)
    assert ratio > 0 or change.of_range  # a mirrored column has the same distances
    np.testing.assert_allclose(found, ratio * own, rtol=0.02, atol=0.02 * np.abs(found).max())


@pytest.mark.parametrize("change", [None, *CHANGES], ids=str)
def test_losses_and_evidence_are_those_of_plain_algebra(change: Change | None) -> None:
    rng = np.random.default_rng(0)
    rows, y = rng.uniform(1, 5, (30, 2)), rng.normal(size=(30, 1))
    noise = rng.uniform(0.5, 2, 30)
    prior = prior_of([1.0, 0.8])
    inputs = rows if change is None else change.rows(rows)
    s = np.ones(30) if change is None else change.sizes(rows)
    steps = (inputs[:, None] - inputs[None]) / [1.0, 0.8]
    cov = 1.3 * np.exp(-0.5 * np.square(steps).sum(axis=2)) * s[:, None] * s
    cov += np.diag(0.1 * noise)
    found = Sample(rows, y, noise, 20).tried(prior, change)
    assert found is not None
    expected = multivariate_normal(cov=cov).logpdf(y[:, 0]) + 15 * np.log(2 * np.pi)
    assert found.evidence == pytest.approx(expected, rel=1e-9)
    gain = np.linalg.solve(cov[:20, :20], cov[:20, 20:])
    mean, left = gain.T @ y[:20, 0], cov[20:, 20:] - cov[20:, :20] @ gain
    losses = -norm(mean, np.sqrt(left.diagonal())).logpdf(y[20:, 0])
    np.testing.assert_allclose(found.losses[:, 0], losses, rtol=1e-9)
    alone = Sample(rows, y, noise, 30).tried(prior, change)
    assert alone is not None
    for i in (0, 7, 29):
        others = np.arange(30) != i
        weights = np.linalg.solve(cov[np.ix_(others, others)], cov[others, i])
        std = np.sqrt(cov[i, i] - cov[i, others] @ weights)
        expected = -norm(weights @ y[others, 0], std).logpdf(y[i, 0])
        assert alone.losses[i, 0] == pytest.approx(expected, rel=1e-9)
    assert alone.evidence == pytest.approx(found.evidence, rel=1e-12)


def drawn(seed: int, rate: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows and targets of a function whose range falls with the second column."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (400, 2))
    inputs = X.copy()
    if rate:
        inputs[:, 1] = np.exp(rate * X[:, 1])
    squares = np.square(inputs[:, None] - inputs[None]).sum(axis=2)
    root = np.linalg.cholesky(np.exp(-0.5 * squares) + 0.01 * np.eye(400))
    return X, root @ rng.normal(size=400)


@pytest.mark.long
def test_a_range_that_varies_is_found_and_stretching_its_column_cures_it() -> None:
    X, y = drawn(1, 1.0)
    model = cgp.ExactGPRegressor(ard=True, options={"n_restarts": 0}, random_state=0).fit(
        X[:200], y[:200]
    )
    report = compare(model, X[200:], y[200:], progress=False)
    advice = report.advice[0]
    assert "not stationary" in advice.action
    assert "`input 2`" in advice.action
    assert "stationary, the function is not" in report.verdicts[0].sentence
    formula = re.search(r"np\..*?(?= in place of)", advice.action)
    assert formula is not None
    stretched = X.copy()
    stretched[:, 1] = eval(formula.group(), {"np": np, "x": X[:, 1]})
    cured = cgp.ExactGPRegressor(ard=True, options={"n_restarts": 0}, random_state=0)
    cured.fit(stretched[:200], y[:200])
    after = compare(cured, stretched[200:], y[200:], progress=False)
    assert report.nlpd - after.nlpd > 0.5 * advice.gain
    assert not any("stationary" in one.action for one in after.advice)
    left_out = cross_validate(model)
    assert any("`input 2`" in one.action for one in left_out.advice)


@pytest.mark.long
def test_stationary_functions_are_left_alone() -> None:
    gains = []
    for seed in range(12):
        X, y = drawn(seed, 0.0)
        sample = Sample(X, y[:, None], np.ones(400), 200)
        found = varied(prior_of([1.0, 1.0], 0.01), sample, seed)
        assert found is not None
        gains.append(found.evidence_gain)
    # The logarithm of 80 changes is taken off, so that none is likely to be above zero by 2 nats.
    assert max(gains) < 2.0


def test_columns_without_places_are_not_tried() -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, (60, 2)).astype(float)
    sample = Sample(rows, rng.normal(size=(60, 1)), np.ones(60), 40)
    assert varied(prior_of([1.0, 1.0]), sample) is None
