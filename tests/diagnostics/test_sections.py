"""A user's own section in every rendering, the order of sections, and what an exact model lacks."""

from __future__ import annotations

import csv
import io
import json
import pickle
import re

import numpy as np
import pandas as pd
import pytest

import coupledgp as cgp
from coupledgp.diagnostics import Section, compare, register_section, unregister_section
from coupledgp.diagnostics.pages.picture import Picture, axes_of
from coupledgp.diagnostics.sections.report import Report
from coupledgp.diagnostics.sections.section import SECTIONS, ReportTable, sections_of
from coupledgp.diagnostics.verdicts import gathering
from coupledgp.errors import InvalidInputError

RNG = np.random.default_rng(3)
X = RNG.normal(size=(70, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=70)
SENTENCE = "Errors on Mondays are <twice> those of other days."


def fitted(kind=cgp.SparseSpectrumGPRegressor, **options):
    return kind(random_state=0, optimizer=None, **options).fit(X[:50], Y[:50])


def report_of_features():
    return compare(fitted(n_frequencies=8), X[50:], Y[50:])


def drawn() -> Picture:
    figure, axes = axes_of(3, 2)
    axes.plot([0, 1], [0, 1])
    return Picture("by-weekday", "Errors by weekday", figure)


def by_weekday(report) -> Section:
    """A user's own section."""
    error = np.abs(report.predictions.y - report.predictions.mean)[:, 0]
    table = ReportTable("Errors by weekday", ("day", "error"), [("Monday", f"{error[0]:.4g}")])
    return Section("weekday", "Weekdays", SENTENCE, {"Monday": error[0], "days": {"n": 7}},
                   [table], [drawn])  # fmt: skip


@pytest.fixture
def own_section():
    register_section("weekday", by_weekday)
    yield
    unregister_section("weekday")


@pytest.mark.usefixtures("own_section")
class TestOwnSection:
    def test_page(self):
        page = report_of_features().to_html()
        assert SENTENCE.replace("<", "&lt;").replace(">", "&gt;") in page
        assert 'id="table-errors-by-weekday"' in page
        assert 'id="picture-by-weekday"' in page
        assert "Weekdays</h2>" in page

    def test_notebook(self):
        shown = report_of_features()._repr_html_()
        assert "&lt;twice&gt;" in shown
        assert "Monday" in shown
        assert "<svg" not in shown

    def test_json(self):
        report = report_of_features()
        found = {one["key"]: one for one in json.loads(report.to_json())["sections"]}["weekday"]
        error = float(np.abs(report.predictions.y - report.predictions.mean)[0, 0])
        assert found["figures"] == {"Monday": error, "days": {"n": 7}}
        assert found["sentence"] == SENTENCE
        assert found["tables"][0]["rows"] == [["Monday", f"{error:.4g}"]]

    def test_csv_and_frame(self, tmp_path):
        report = report_of_features()
        text = report.to_csv(tmp_path / "figures.csv")
        assert (tmp_path / "figures.csv").read_text() == text
        rows = {tuple(row[:2]): row[2] for row in csv.reader(io.StringIO(text))}
        error = np.abs(report.predictions.y - report.predictions.mean)[0, 0]
        assert float(rows["weekday", "Monday"]) == error
        assert rows["weekday", "days.n"] == "7"
        frame = report.to_frame()
        assert isinstance(frame, pd.DataFrame)
        assert float(frame.query("section == 'scores' and figure == 'rmse'")["value"].iloc[0]) == (
            report.rmse
        )

    def test_terminal(self):
        lines = report_of_features().to_text().splitlines()
        assert SENTENCE in lines
        assert any(line.startswith("Monday") for line in lines)

    def test_every_kind_of_comparison_has_it(self):
        audited = cgp.audit((np.zeros(20), np.ones(20)), X[:50], Y[:50], X[50:], Y[50:])
        assert "errors-by-weekday" in audited.tables()

    def test_its_key_is_taken(self):
        with pytest.raises(InvalidInputError, match="key: 'weekday' is taken"):
            register_section("weekday", by_weekday, "audit")
        register_section("weekday", lambda report: None, "space-time")

    def test_one_takes_its_place(self):
        places = [one.key for one in SECTIONS]
        register_section("weekday", by_weekday, "audit", replace=True)
        assert [one.key for one in SECTIONS] == places
        assert SECTIONS[places.index("weekday")].kinds == {"audit"}


class TestOrder:
    def test_it_stands_where_it_is_asked_for(self, own_section):
        keys = [one.key for one in report_of_features().layout().sections]
        assert keys == ["predictions", "moves", "instead", "calibration", "residuals", "scores",
                        "distance", "differences", "weekday", "models"]  # fmt: skip
        register_section("first", lambda report: Section("first", figures={"n": 1}),
                         before="predictions")  # fmt: skip
        try:
            assert report_of_features().layout().sections[0].key == "first"
        finally:
            unregister_section("first")

    def test_sections_without_anything_to_say_are_left_out(self):
        register_section("nothing", lambda report: None)
        try:
            keys = [one.key for one in report_of_features().layout().sections]
        finally:
            unregister_section("nothing")
        assert "nothing" not in keys

    @pytest.mark.parametrize("kinds", ["page", ("comparison", "page")])
    def test_unknown_kinds_are_refused(self, kinds):
        with pytest.raises(InvalidInputError, match="kinds"):
            register_section("k", by_weekday, kinds)

    def test_unknown_keys_are_refused(self):
        with pytest.raises(InvalidInputError, match=r"key: expected .* got 'k'"):
            unregister_section("k")

    def test_kinds_are_told_apart(self):
        assert sections_of(None, ["series-of-none"]) == []


def test_figures_alone_are_shown_as_a_table():
    section = Section("s", "Sizes", figures={"n": 3, "share": 0.123456, "of": {"x": 1}})
    report = Report("T", sections=[section])
    assert report.tables()["s"].rows == [("n", "3"), ("share", "0.1235"), ("of.x", "1")]
    assert report.to_html().count("Sizes</h2>") == 1


class TestExactModel:
    @pytest.mark.long
    def test_it_has_no_distance_from_itself(self):
        report = compare(fitted(cgp.ExactGPRegressor), X[50:], Y[50:])
        assert report.kl_per_point < 1e-12
        assert not report.has_other_reference
        assert {"distance", "differences"}.isdisjoint(report.tables())
        assert {"means", "kernel-error"}.isdisjoint(report.pictures())
        assert list(report.tables()["scores"].columns) == ["", "model"]
        assert not re.search(r'<th scope="col"[^>]*>reference</th>', report.to_html())
        assert ">reference</text>" not in report.pictures()["calibration"]

    def test_another_reference_has_one(self):
        other = fitted(cgp.ExactGPRegressor, kernel="matern-3/2")
        report = compare(fitted(cgp.ExactGPRegressor), X[50:], Y[50:], other)
        assert {"distance", "differences"} <= set(report.tables())
        assert list(report.tables()["scores"].columns) == ["", "model", "reference"]


class TestEvidence:
    """It takes most of a comparison's time, and is gathered when it is first read."""

    def test_it_is_gathered_once_and_only_when_read(self, monkeypatch):
        calls = []
        measured = gathering.variations
        monkeypatch.setattr(
            gathering, "variations", lambda *rest: calls.append(1) or measured(*rest)
        )
        points = X[50:].copy()
        report = compare(fitted(n_frequencies=8), points, Y[50:], leave_out_overlap=True)
        assert report.kl_per_point > 0
        assert calls == []
        points[:] = 0.0  # the report has points of its own
        verdicts = report.verdicts
        assert report.verdicts == verdicts
        assert report.advice is not None
        assert calls == [1]
        again = compare(fitted(n_frequencies=8), X[50:], Y[50:])
        assert again.verdicts == verdicts

    def test_a_pickled_report_has_it(self):
        report = compare(fitted(n_frequencies=8), X[50:], Y[50:])
        again = pickle.loads(pickle.dumps(report))
        assert again.verdict() == report.verdict()
