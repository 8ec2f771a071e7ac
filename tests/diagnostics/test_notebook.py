"""What a notebook shows of reports and choices."""

from __future__ import annotations

from dataclasses import replace
from html import escape, unescape
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn import clone, config_context

from coupledgp.ground.notebook import (
    BADGES,
    COLUMNS,
    ROWS,
    Card,
    ExplainedChoice,
    Notebook,
    NotebookTable,
    Shown,
)
from coupledgp.tables.coupling_search import Selection, Trial
from coupledgp.tables.members import Choice, MemberChoice
from tests.diagnostics.report_cases import HOSTILE, KINDS, report_of

BOUND = 100_000
VOID = {"br"}
EVERY = pytest.mark.parametrize("kind", KINDS)


class Balanced(HTMLParser):
    """Reads HTML, collects its tags and texts, and refuses one that closes another's."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        assert not {name for name, _ in attrs} & {"href", "onerror"}
        assert "src" not in dict(attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def every_class(kind):
    """A class and all that derive from it."""
    return [kind, *(each for child in kind.__subclasses__() for each in every_class(child))]


def contrast(colour: str) -> float:
    """Contrast of white with a colour, by the definition of WCAG 2."""
    parts = np.array([int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)])
    linear = np.where(parts <= 0.03928, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return 1.05 / (float(linear @ [0.2126, 0.7152, 0.0722]) + 0.05)


@EVERY
def test_html_is_small_whole_and_fetches_nothing(kind):
    html = report_of(kind)._repr_html_()
    assert len(html.encode()) < BOUND
    read = Balanced(html)
    assert not {"script", "link", "svg", "iframe", "img"} & set(read.tags)
    assert "table" in read.tags
    for one in report_of(kind).verdicts:
        card = html.split(escape(one.question))[1].split("</div>")[0]
        assert escape(one.sentence) in card
        assert BADGES[one.colour] in card


def test_every_choice_has_one():
    for each in every_class(ExplainedChoice):
        assert each._repr_html_ is Shown._repr_html_
        assert each.__str__ is not object.__str__


def test_badges_are_readable():
    assert all(contrast(colour) > 4.5 for colour in BADGES.values())
    assert contrast("#ffffff") == pytest.approx(1.0)


@pytest.mark.parametrize("place", ["title", "warnings", "question", "sentence", "cell", "head"])
def test_texts_are_escaped(place):
    text = f"{HOSTILE}\x1b[31m"
    asked = {name: text if name == place else "plain" for name in ("question", "sentence")}
    table = NotebookTable(
        "plain", [text if place == "head" else "a", "b"], [("c", text if place == "cell" else "d")]
    )
    html = Notebook(
        text if place == "title" else "plain", [text] if place == "warnings" else [],
        [Card(**asked, colour="red", badge="x")], tables=[table],
    ).html()  # fmt: skip
    read = Balanced(html)
    assert "script" not in read.tags
    assert "img" not in read.tags
    assert "\x1b" not in html
    assert any(HOSTILE in one for one in read.texts) or HOSTILE in unescape(html)


def test_what_is_too_much_is_counted():
    table = NotebookTable(
        "T", [f"c{k}" for k in range(COLUMNS + 2)], [["x"] * (COLUMNS + 2)] * (ROWS + 5)
    )
    html = Notebook("t", tables=[table]).html()
    assert "Not shown: 5 rows, 2 columns." in html
    assert html.count("<tr>") == ROWS + 1


def test_no_result_makes_the_notebook_slow():
    wide = "\N{GREEK SMALL LETTER ALPHA}<" * 5000
    tables = [NotebookTable(wide, [wide] * 50, [[wide] * 50] * 50)] * 40
    cards = [Card(wide, wide, "green", wide)] * 3
    html = Notebook(wide, [wide] * 3, cards, [wide] * 3, tables).html()
    assert len(html.encode()) < BOUND
    assert "Further parts are left out" in html
    Balanced(html)


def test_a_search_lists_its_trials_by_divergence():
    trials = (Trial("iid", 8, 0.5, 0.1), Trial("<b>orthogonal", 16, 0.004, 0.001))
    found = Selection(trials[1], True, 0.01, trials, "n_frequencies", 40, 10, 50, None)
    html = found._repr_html_()
    assert html.index("0.004") < html.index("0.5<")
    assert "&lt;b&gt;orthogonal" in html
    assert escape(found.explain()) in html
    assert str(found) == found.explain()
    assert "0.02" in replace(found, kl_target=0.02)._repr_html_()


def test_a_mixture_lists_its_members_by_weight():
    members = (MemberChoice("small", 0.2, -1.0), MemberChoice("great", 0.8, -0.9, "a <remark>"))
    choice = Choice(members, -0.85, 30, "leaving out folds", 12, ("A remark on y.",))
    html = choice._repr_html_()
    assert html.index("great") < html.index("small")
    assert "a &lt;remark&gt;" in html
    assert "A remark on y." in html
    assert "Mixture of 2 models, scored on 30 rows" in html
    assert [line.split()[:2] for line in str(choice).splitlines()[2:4]] == [
        ["0.800", "-0.9000"], ["0.200", "-1.0000"],
    ]  # fmt: skip


def test_a_fitted_model_says_what_it_is_below_its_diagram():
    model = report_of("table").tables.source.model
    found = model._repr_mimebundle_()
    html = found["text/html"]
    assert found["text/plain"] == repr(model)
    assert "sk-estimator" in html
    told = model._told()
    assert told == model.explain().splitlines()[: len(told)]
    assert len(told) == 2
    for part in [*told, *(name.replace("_", " ") for name in model.process_.summary())]:
        assert escape(part) in html
    unfitted = clone(model)._repr_mimebundle_()["text/html"]
    assert "After the fit" in html
    assert "After the fit" not in unfitted
    with config_context(display="text"):
        assert set(model._repr_mimebundle_()) == {"text/plain"}
