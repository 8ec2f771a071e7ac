"""What stands first on a page: the typical error, one-line answers, the picture, the name of y."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

import coupledgp as cgp
from coupledgp.diagnostics.sections.report import Report
from coupledgp.diagnostics.sections.section import ReportTable, Section
from coupledgp.diagnostics.verdicts.verdict import LINE, Verdict
from tests.diagnostics.page_cases import road_map, surface_map

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 2))
Y = pd.Series(np.sin(2 * X[:, 0]) + 0.2 * X[:, 1] + 0.1 * RNG.normal(size=120), name="celsius")


@pytest.fixture(scope="module")
def report():
    gp = cgp.SparseSpectrumGPRegressor(n_frequencies=48, random_state=0).fit(X[:80], Y[:80])
    return cgp.posterior_report(gp, X[80:], Y[80:])


@pytest.mark.long
def test_the_headline_has_the_errors_of_the_model_and_of_naive_ways(report):
    error = {one.name: one.rmse for one in report.baselines}
    naive = min(error["mean"], error["nearest"])
    rule = r"Typical error of celsius (\S+) at 40 test points; the .* (\S+), the best rival, "
    rule += r".*, (\S+)\."
    found = re.match(rule, report.headline)
    best = max(report.baselines, key=lambda one: one.gain)
    expected = (report.rmse, naive, best.rmse)
    assert found.groups() == tuple(f"{one:.3g}" for one in expected)
    page = report.to_html()
    assert f'<p class="headline">{report.headline}</p>' in page
    assert str(report).startswith(report.headline)


@pytest.mark.long
def test_the_name_of_the_targets_stands_everywhere(report):
    page = report.to_html()
    assert "units of y" not in page
    assert "observed (units of celsius)" in page
    assert "RMSE, units of celsius" in page
    assert report.plot().get_xlabel() == "prediction (units of celsius)"
    assert "units of celsius" in report.verdict()
    assert "units of y" not in report.verdict() + str(report.to_dict()["verdicts"])
    gp = cgp.SparseSpectrumGPRegressor(n_frequencies=48, random_state=0)
    for fitted, truth in ((Y[:80], Y[80:].to_numpy()), (Y[:80].to_numpy(), Y[80:])):
        assert "celsius" in cgp.diagnostics.compare(gp.fit(X[:80], fitted), X[80:], truth).headline
    plain = cgp.diagnostics.compare(gp, X[80:], Y[80:].to_numpy())
    assert "units of y" in plain.to_html()
    assert plain.headline.startswith("Typical error ")


def test_transformed_targets_are_not_called_by_their_name():
    gp = cgp.ExactGPRegressor(target_transform="log", random_state=0).fit(X[:80], np.exp(Y[:80]))
    found = cgp.diagnostics.compare(gp, X[80:], np.exp(Y[80:]))
    assert found.headline.startswith("Typical error of transformed y ")


def test_without_targets_there_is_no_headline():
    gp = cgp.SparseSpectrumGPRegressor(n_frequencies=48, random_state=0).fit(X[:80], Y[:80])
    assert cgp.diagnostics.compare(gp, X[80:]).headline == ""


@pytest.mark.parametrize(
    ("sentence", "line"),
    [
        ("It is good. It is off by 3.", "It is good."),
        ("Off by 3.2 units.", "Off by 3.2 units."),
        (f"Its intervals are honest: {'x' * LINE}.", "Its intervals are honest."),
        (f"It is better than a; {'x' * LINE}.", "It is better than a."),
        (f"It is close, as if {'x' * LINE}.", "It is close."),
        ("Not judged: there is no reference.", "There is no reference."),
    ],
)
def test_an_answer_is_one_line(sentence, line):
    assert Verdict("q", "green", sentence, "r").line == line


def test_the_picture_stands_before_advice_and_tables(report):
    page = report.to_html()
    order = ['class="headline"', 'class="badges"', 'id="picture-predictions"', 'id="table-']
    places = [page.index(one) for one in order]
    assert places == sorted(places)
    assert page.count('id="section-predictions"') == 1
    first = Section("t", tables=[ReportTable("T", ("", "v"), [("a", "1")])])
    assert Report("R", sections=[first]).to_html().count('id="section-t"') == 1


def test_settings_are_behind_a_click(report):
    page = report.to_html()
    folded = re.search(r'<details class="more">.*?</details>', page, re.DOTALL)[0]
    data, *rest = report.lead()
    assert data not in folded
    assert all(re.sub("'", "&#39;", one.split("[")[0]) in folded for one in rest)


@pytest.mark.parametrize("drawn", [surface_map(), road_map()], ids=["surface", "roads"])
def test_a_field_says_where_it_is_highest_and_where_to_measure(drawn):
    top, least = int(np.nanargmax(drawn.mean)), int(np.nanargmax(drawn.std))
    told = drawn.told()
    near = [
        int(np.argmin(np.linalg.norm(drawn.sensors - drawn.places[k], axis=1)))
        for k in (top, least)
    ]
    assert told.index(f"{drawn.mean[top]:.4g} ± ") < told.index("least certain")
    for k in near:
        assert f"near sensor {drawn.names[k] if len(drawn.names) else f'number {k}'}" in told
    assert told.endswith("measure there next.")
