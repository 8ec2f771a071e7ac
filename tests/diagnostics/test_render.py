"""Pages and texts of reports of every kind: their numbers are those of the tables."""

from __future__ import annotations

import html
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from coupledgp.diagnostics.render.tables import (
    LABELS,
    UNSHOWN,
    answer,
    named,
    number,
    p_text,
    per_cent,
    shown_tables,
    table_text,
    text_of,
    with_error,
    worth,
)
from coupledgp.diagnostics.study import PLAIN
from coupledgp.diagnostics.tables import NATS
from coupledgp.ground.visible import visible
from tests.diagnostics.report_cases import HOSTILE, KINDS, LONG, page_of, report_of

EVERY = pytest.mark.parametrize("kind", KINDS)
NUMBER = r"[−+]?\d[\d\u202f]*(?:\.\d+)?(?:·10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?"


def value_of(text: str) -> float:
    """The number that a text begins with, as a share if it is in per cent."""
    found = re.match(NUMBER, text)
    if found is None:
        return np.nan
    plain = found[0].replace("\u202f", "").replace("−", "-")
    mantissa, _, power = plain.partition("·10")
    value = float(mantissa) * 10.0 ** int(power.translate(PLAIN) if power else 0)
    return value / 100 if text[found.end() :].lstrip("\u00a0").startswith("%") else value


class Page(HTMLParser):
    """The cells of the tables of a page by name, and its texts by class."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self.texts: dict[str, list[str]] = {}
        self.rows: list[list[str]] = []
        self.open: list[tuple[str, str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "table":
            self.rows = self.tables.setdefault(given.get("data-name") or "", [])
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        if tag in ("p", "div", "b"):
            self.open.append((tag, given.get("class") or ""))

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1][0] == tag:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data.strip("\n")
        if self.open:
            self.texts.setdefault(self.open[-1][1], []).append(data)


def cells(page: Page, name: str) -> dict[str, dict[str, str]]:
    """Cells of a table and its fold by the first cell of a row and the head of a column."""
    found: dict[str, dict[str, str]] = {}
    heads: list[str] = []
    for row in page.tables.get(name, []):
        if not heads or row[: len(heads)] == heads:
            heads = row
        else:
            found[row[0]] = dict(zip(heads[1:], row[1:], strict=False))
    return found


def near(text: str, value: float) -> bool:
    """Whether a text states a value to its digits, three or the second one of its error."""
    shown, rest = value_of(text), text.partition("±")[2].strip("\u00a0")
    error = value_of(rest) if rest else 0.0
    return shown == pytest.approx(value, rel=6e-3, abs=max(0.06 * abs(error), 6e-5))


@EVERY
def test_scores_and_gains_are_those_of_the_tables(kind: str) -> None:
    t = report_of(kind).tables
    found = cells(Page(page_of(kind)), "scores")
    heads = [head for head in next(iter(found.values())) if head]
    scores = t.scores[(t.scores.part == "") & (t.scores.group == "")]
    shown = [one for one in dict.fromkeys(scores.metric) if one not in UNSHOWN]
    assert len(heads) == len(shown) + 1
    column = {one: head for one in shown for head in heads
              if head.partition(",")[0] == LABELS[one]}  # fmt: skip
    for row in scores[scores.metric.isin(shown)].itertuples():
        name = "this model" if row.model == t.predictions.name else named(row.model)
        digits = 5e-3 if "%" in found[name][column[row.metric]] else 0.0
        assert (
            near(found[name][column[row.metric]], row.value)
            or abs(value_of(found[name][column[row.metric]]) - row.value) <= digits
        )
    by = next(one for one in NATS if (t.gains.metric == one).any())
    assert heads[-1] == f"{LABELS[by]} \u2212 this"
    gains = t.gains[(t.gains.part == "") & (t.gains.metric == by)]
    assert len(gains)
    for row in gains.itertuples():
        assert near(found[named(row.rival)][heads[-1]], -row.gain)


@EVERY
def test_the_answer_has_the_typical_error_of_the_model_and_of_its_rivals(kind: str) -> None:
    t = report_of(kind).tables
    page = Page(page_of(kind))
    lead, why = "".join(page.texts["answer"]), "".join(page.texts["why"])
    assert (lead, why) == tuple(visible(one) for one in answer(t))
    metric = "accuracy" if kind == "classes" else "rmse"
    scores = t.scores[(t.scores.metric == metric) & (t.scores.group == "")]
    parts = [one for one in scores.part.unique() if one] or [""]
    stated = [value_of(one) for one in re.findall(rf"{NUMBER}\u00a0?%?", lead)]
    for part in parts:
        own = scores[(scores.model == t.predictions.name) & (scores.part == part)].value.iloc[0]
        assert min(abs(one - own) for one in stated) <= 6e-3 * abs(own)
    rivals = scores[scores.model.isin([one.name for one in t.rivals]) & scores.part.isin(parts)]
    best = rivals.value.max() if metric == "accuracy" else rivals.value.min()
    stated = [value_of(one) for one in re.findall(rf"{NUMBER}\u00a0?%?", why)]
    assert min(abs(one - best) for one in stated) <= 6e-3 * abs(best)


@EVERY
def test_badges_remedies_and_findings_are_those_of_the_checks(kind: str) -> None:
    report = report_of(kind)
    page = page_of(kind)
    fired = report.tables.checks[report.tables.checks.fired.astype(bool)]
    found = cells(Page(page), "checks")
    for one in report.verdicts:
        assert visible(one.sentence) in html.unescape(page)
    assert len(found) == len(set(fired.sentence))
    for row in fired.itertuples():
        own = found[visible(row.sentence)]
        if np.isfinite(row.gain):
            assert near(own["nats per point"], row.gain)
            assert own["worth"] == worth(row.gain, kind == "classes")
        if np.isfinite(row.p) and row.p > 1e-4:
            assert near(own["p"], row.p) or value_of(own["p"]) == pytest.approx(row.p, rel=0.06)
        assert own["remedy"] == row.remedy
    todo = "".join(Page(page).texts.get("next", []))
    assert bool(todo) == bool(report.advice)
    if report.advice:
        assert report.advice[0].remedy.rstrip(".") in todo


@EVERY
def test_coverage_and_distances_are_those_of_the_tables(kind: str) -> None:
    t, page = report_of(kind).tables, Page(page_of(kind))
    shown = cells(page, "coverage")
    whole = t.coverage[t.coverage.grouping == ""]
    assert len(shown) == len(whole)
    for row in whole.itertuples():
        own = list(shown[per_cent(row.level)].values())
        assert value_of(own[0]) == pytest.approx(row.share, abs=5.1e-3)
        assert value_of(own[1].partition("±")[2].strip("\u00a0")) == pytest.approx(
            row.chance, abs=6e-4
        )
        assert near(own[2], row.width)
    distances = cells(page, "distance")
    kl = t.distance[t.distance.metric == "kl"]
    if len(kl) and kl.value.iloc[0] > 1e-12:
        assert near(distances["KL(exact ‖ model)"]["nats per point"], kl.value.iloc[0])


@EVERY
def test_a_page_is_small_whole_and_fetches_nothing(kind: str) -> None:
    page = page_of(kind)
    assert len(page.encode()) < (700_000 if 'class="scene"' in page else 300_000)
    assert ("<script" in page) == (kind in ("mesh", "graph"))
    assert not re.search(r'(?:src|href)="(?!#|data:)', page)
    assert "<img" not in page
    texts = re.sub(r"<(script|svg|style).*?</\1>", "", page, flags=re.DOTALL)
    assert not re.search(r"\bnan\b|\d\.\d{7}", texts, re.IGNORECASE)
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_sensors_have_five_rows_and_a_fold_and_parts_their_own_column() -> None:
    t, page = report_of("times").tables, page_of("times")
    section = re.search(r'<section id="table-groups".*?</section>', page, re.DOTALL)
    assert section
    first, _, rest = section[0].partition("<details>")
    assert first.count("<tr>") == 1 + 5
    assert rest.count("<tr>") == 1 + 5
    own = t.scores[(t.scores.metric == "rmse") & (t.scores.group != "")]
    worst = own[own.model == t.predictions.name].sort_values("value").iloc[-1]
    assert near(cells(Page(first), "groups")[visible(str(worst.group))]["RMSE, mph"], worst.value)
    assert "Scores by sensor" in first
    parts = cells(Page(page), "parts")
    for row in t.scores[(t.scores.part != "") & (t.scores.metric == "rmse")].itertuples():
        name = "this model" if row.model == t.predictions.name else row.model
        assert near(parts[name][row.part], row.value)


@EVERY
def test_text_and_json(kind: str) -> None:
    report = report_of(kind)
    text = text_of(report)
    assert answer(report.tables)[0].split()[0] in text
    for one in report.verdicts:
        assert one.question in text
    values = json.loads(json.dumps(report.to_dict()))
    assert [one["colour"] for one in values["verdicts"]] == [one.colour for one in report.verdicts]
    for name in ("scores", "coverage", "checks"):
        assert len(values["tables"][name]) == len(getattr(report.tables, name))
    scores = report.tables.scores.value.to_numpy()
    stored = [
        np.nan if one["value"] is None else one["value"] for one in values["tables"]["scores"]
    ]
    np.testing.assert_array_equal(stored, scores)
    shown = next(one for one in shown_tables(report) if one.name == "scores")
    assert all(row[1] in table_text(shown, 300) for row in shown.rows)


def test_a_notebook_has_one_screen() -> None:
    shown = report_of("table")._repr_html_()
    assert len(shown) < 20_000
    assert shown.count("<table") == 1
    assert shown.count("<tr>") == 1 + 5
    assert HOSTILE not in shown


def test_names_are_escaped_and_unlimited() -> None:
    page = page_of("table")
    assert HOSTILE not in page
    assert html.escape(LONG) in page


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1730.2, "1\u202f730"), (69869.87096774194, "69\u202f900"), (-0.5, "−0.500"), (0.0, "0"),
        (6.2e-6, "6.20·10⁻⁶"), (9.999, "10.0"), (np.nan, ""), (np.inf, "∞"), (0.00123, "0.00123"),
        (3e9, "3.00·10⁹"),
    ],
)  # fmt: skip
def test_numbers_are_written_as_people_do(value: float, text: str) -> None:
    assert number(value) == text


def test_values_are_written_to_their_errors() -> None:
    assert with_error(3.99712, 0.0123) == "3.997\u00a0±\u00a00.012"
    assert with_error(-1234.6, 12.3, sign=True) == "−1\u202f235\u00a0±\u00a012"
    assert with_error(0.5, 0.0) == with_error(0.5, np.nan) == "0.500"
    assert with_error(1.234e-9, 2.1e-10) == "1.23·10⁻⁹\u00a0±\u00a02.1·10⁻¹⁰"
    assert (p_text(0.0031), p_text(1e-7)) == ("p = 0.0031", "p <\u00a00.0001")
    assert worth(0.75) == "intervals 53\u00a0% narrower"
