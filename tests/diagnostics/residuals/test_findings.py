"""Patterns of residuals beside draws of their own law, in all reports."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import coupledgp as cgp
from coupledgp.diagnostics import compare, cross_validate
from coupledgp.diagnostics.residuals.checks import CHECKS
from coupledgp.diagnostics.residuals.columns import ORDER, UNSEEN, Column, columns_of
from coupledgp.diagnostics.residuals.findings import (
    ALARM,
    Residuals,
    corrected_gain,
    look,
    normal_scores,
    rows_in_runs,
)
from coupledgp.errors import InvalidInputError

ONE = np.ones(1)


def residuals_of(values, correlation=None, **columns):
    made = columns_of(columns, None)
    return Residuals.of(values[:, None], ONE, correlation, made)


def test_true_laws_raise_as_many_alarms_as_promised():
    # Correlated residuals of a known law, with an order and groups that go with the correlation.
    place = np.linspace(0, 1, 100)
    correlation = 0.9 * np.exp(-np.abs(place[:, None] - place[None]) / 0.05) + 0.1 * np.eye(100)
    root = np.linalg.cholesky(correlation)
    columns = {"place": place, "part": np.repeat(list("abcde"), 20)}
    rng = np.random.default_rng(0)
    alarms = sum(
        bool(residuals_of(root @ rng.normal(size=100), correlation, **columns).findings().found)
        for _ in range(60)
    )
    # Of 60 at ALARM each three or more come in 1 of 1000 runs; as independent rows all are alarms.
    assert alarms <= 2
    alone = residuals_of(root @ rng.normal(size=100), np.eye(100), **columns).findings()
    assert alone.found


@pytest.mark.parametrize(
    ("name", "check"),
    [("persist", "next"), ("drift", "course"), ("repeat", "repeats"), ("sites", "groups"),
     ("grow", "spread"), ("loud", "group spread")],
)  # fmt: skip
def test_each_planted_pattern_is_found_alone(name, check):
    rng, n = np.random.default_rng(7), 240
    step, site = np.arange(float(n)), rng.integers(0, 8, 240)
    noise = rng.normal(size=n)
    values = {
        "persist": np.convolve(rng.normal(size=n + 9), 0.7 ** np.arange(10), "valid"),
        "drift": noise + 1.5 * (step / n) ** 2,
        "repeat": noise + 1.2 * np.sin(2 * np.pi * step / 24),
        "sites": noise + 1.2 * rng.normal(size=8)[site],
        "grow": noise * np.exp(1.5 * step / n),
        "loud": noise * np.where(site < 2, 4.0, 1.0),
    }[name]
    found = residuals_of(values, None, step=step, site=np.char.add("s", site.astype(str)))
    found = found.findings()
    assert found.found[0].check == check
    assert found.found[0].gain > 0.05
    assert found.found[0].p_value <= ALARM
    # The rest is explained by it, but that a course stands in part for what persists.
    assert len(found.found) == 1 or name == "persist"


def test_the_gain_is_that_of_the_true_correction():
    # Offsets of forty sites: the gain is half the log of the variance over that within sites.
    rng, n, g = np.random.default_rng(8), 4000, 40
    site = np.arange(n) % g
    values = rng.normal(size=n) + rng.normal(size=g)[site]
    one = Column.of("site", site.astype(str), UNSEEN)
    gap, left = corrected_gain(CHECKS["groups"], one, values[:, None])
    within = np.mean([values[site == k].var() for k in range(g)])
    true = 0.5 * np.log(np.square(values).mean() / within)
    # Forty means of 3200 rows cost 40 / 6400 nats, and the error of a chi-square besides.
    assert true - gap.mean == pytest.approx(40 / 6400, abs=0.01)
    assert left.std() == pytest.approx(1.0, abs=0.05)


def test_points_of_unknown_correlation_say_nothing_on_means_along_inputs():
    inputs = np.random.default_rng(9).uniform(size=(100, 1))
    values = np.sin(5 * inputs)
    columns = columns_of({"row order": np.arange(100)}, inputs)
    found = Residuals.of(values, ONE, None, columns).findings()
    assert not [one for one in found.found if one.concerns == "mean" and one.origin == "input"]
    known = Residuals.of(values, ONE, np.eye(100), columns).findings()
    assert known.found[0].origin == "input"


def test_many_points_are_looked_at_in_runs():
    rows = rows_in_runs(5000, 1000, 0)
    assert np.unique(rows).size == rows.size == 1000
    assert (np.diff(rows) == 1).sum() >= 900
    assert rows_in_runs(40, 1000, 0).size == 40
    noise = np.random.default_rng(1).normal(size=(3009,))
    values = np.convolve(noise, 0.7 ** np.arange(10), "valid")[:, None]
    order = Column.of("row order", np.arange(3000), ORDER)
    found = look(values, np.ones((3000, 1)), lambda rows: None, [order], 500)
    assert found.n_points == 500
    assert found.found[0].check == "next"


def test_few_points_say_nothing():
    assert residuals_of(np.arange(19.0), None, step=np.arange(19.0)).findings().n_looks == 0


def test_scores_of_transforms_are_bounded():
    assert normal_scores(np.array([[0.5, 0.0, 1.0]]))[0] == pytest.approx(
        [0.0, -7.94, 7.94], abs=0.01
    )


def drawn(seed=0, n=240):
    """A smooth function with offsets of six sites, in the order of the rows."""
    rng = np.random.default_rng(seed)
    X, site = rng.uniform(-2, 2, (n, 2)), rng.integers(0, 6, n)
    y = np.sin(X[:, 0]) * X[:, 1] + rng.normal(size=6)[site] + 0.2 * rng.normal(size=n)
    return pd.DataFrame(X, columns=["east", "north"]), y, pd.DataFrame({"site": site})


@pytest.fixture(scope="module")
def model():
    X, y, _ = drawn()
    return cgp.ExactGPRegressor(options={"n_restarts": 0}, random_state=0).fit(X[:120], y[:120])


class TestReports:
    @pytest.mark.long
    def test_a_comparison_and_a_posterior_report_say_that_sites_differ(self, model):
        X, y, metadata = drawn()
        for report in (
            compare(model, X[120:], y[120:], metadata=metadata[120:]),
            cgp.posterior_report(model, X[120:], y[120:], metadata=metadata[120:]),
        ):
            (found,) = report.evidence.findings.found
            assert (found.check, found.column, found.origin) == ("groups", "site", "unseen")
            assert report.verdicts[0].colour == "red"
            assert "Groups of column `site` differ by" in report.verdicts[0].sentence
            assert report.advice[0].action.startswith("Add column `site` as a categorical input")
            assert report.to_dict()["evidence"]["findings"]["found"][0]["column"] == "site"
            assert "residuals" in report.tables()
        without = compare(model, X[120:], y[120:])
        assert not without.evidence.findings.found

    def test_groups_are_looked_at_too(self, model):
        X, y, metadata = drawn()
        report = compare(model, X[120:], y[120:], groups={"place": metadata["site"][120:]})
        assert report.evidence.findings.found[0].column == "place"

    def test_rows_that_are_left_out_say_it(self, model):
        report = cross_validate(model, metadata=drawn()[2][:120])
        assert [one.column for one in report.evidence.findings.found] == ["site"]
        assert report.verdicts[0].colour == "red"
        by_site = cross_validate(model, drawn()[2]["site"][:120].to_numpy())
        # Rows of a site that is left out share its offset, which the model does not know of.
        assert [one.column for one in by_site.evidence.findings.found] == ["the groups"]

    def test_an_audit_of_foreign_predictions_says_it(self, model):
        X, y, metadata = drawn()
        law = model.predict(X[120:], return_cov=True)
        tables = X[:120], y[:120], X[120:], y[120:]
        report = cgp.audit(law, *tables, metadata=metadata[120:])
        assert report.evidence.findings.found[0].column == "site"
        single = cgp.audit((law[0], np.sqrt(np.diagonal(law[1]))), *tables, metadata=metadata[120:])
        assert single.evidence.findings.found[0].column == "site"

    def test_names_of_inputs_are_those_of_the_table(self, model):
        X, y, _ = drawn()
        worse = y[120:] + 2 * np.cos(6 * X["north"][120:])
        report = compare(model, X[120:], worse)
        assert any(one.column == "north" for one in report.evidence.findings.found)

    def test_rows_left_out_as_training_rows_take_their_metadata_along(self, model):
        X, y, metadata = drawn()
        report = compare(model, X[60:], y[60:], metadata=metadata[60:], leave_out_overlap=True)
        assert report.evidence.findings.n_points == 120
        assert report.evidence.findings.found[0].column == "site"

    def test_metadata_of_another_length_are_refused(self, model):
        X, y, metadata = drawn()
        for use in (compare, cgp.posterior_report):
            with pytest.raises(InvalidInputError, match="metadata: expected 120 values of 'site'"):
                use(model, X[120:], y[120:], metadata=metadata)
        with pytest.raises(InvalidInputError, match="metadata: expected 120 values"):
            cross_validate(model, metadata=metadata)
        with pytest.raises(InvalidInputError, match="metadata: expected 120 values"):
            cgp.audit(model, X[:120], y[:120], X[120:], y[120:], metadata=metadata)
