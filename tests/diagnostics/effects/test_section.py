"""Effects in reports: their shares and order, their forecast, models without any, and files."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.diagnostics import compare
from coupledgp.diagnostics.effects.moves import ColumnMoves
from coupledgp.diagnostics.sections import effects as sections

RNG = np.random.default_rng(11)
X = RNG.uniform(-2, 2, (90, 3))
Y = X[:, 0] + 2 * X[:, 2] + 0.05 * RNG.normal(size=90)
TRAIN, TEST = np.arange(60), np.arange(60, 90)


@pytest.fixture(scope="module")
def model() -> cgp.ExactGPRegressor:
    return cgp.ExactGPRegressor("linear + constant", n_restarts=0).fit(X[TRAIN], Y[TRAIN])


def section(report: object) -> sections.Section | None:
    return next((one for one in report.layout().sections if one.key == "effects"), None)  # type: ignore[attr-defined]


def test_shares_of_a_linear_function_are_those_of_its_slopes(model: cgp.ExactGPRegressor) -> None:
    found = section(compare(model, X[TEST], Y[TEST]))
    assert found is not None
    parts = np.var([X[TRAIN, 0], np.zeros(60), 2 * X[TRAIN, 2]], axis=1)
    shares = dict(zip(("x0", "x1", "x2"), parts / parts.sum(), strict=True))
    # The sample's variance has an error near two in a hundred: it has 512 Sobol points.
    assert found.figures["first"] == pytest.approx(shares, abs=0.02)
    assert found.figures["total"] == pytest.approx(shares, abs=0.02)
    (table,) = found.tables
    assert [row[0] for row in table.rows[:3]] == ["x2", "x0", "x1"]
    assert len(table.rows) == 6
    assert table.rows[3][0].startswith("pair ")
    assert "hangs on x2" in found.sentence


def test_every_rendering_shows_them(model: cgp.ExactGPRegressor) -> None:
    report = compare(model, X[TEST], Y[TEST])
    assert "with others" in report.to_text()
    assert "section-effects" in report.to_html()
    assert {"effects", "shares"} <= set(report.pictures())
    figures = pickle.loads(pickle.dumps(report)).to_dict()
    assert figures["sections"] == report.to_dict()["sections"]


def test_moves_stand_for_those_that_take_long(
    model: cgp.ExactGPRegressor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sections, "ENTRY_SECONDS", 1.0)
    found = section(compare(model, X[TEST], Y[TEST]))
    assert found is not None
    moves = ColumnMoves.of(model.process_, model.fitted_.columns)
    assert found.sentence == moves.text()
    assert (
        list(found.figures["moves"]) == ["x2", "x0", "x1"] == [r[0] for r in found.tables[0].rows]
    )
    assert found.pictures[0]().name == "moves"
    evaluated = 512 * (60 + 512) * 3 * (1 + 2 * 3 + 3)
    assert f"{evaluated} s" in found.tables[0].note


def test_models_without_effects_have_no_section(model: cgp.ExactGPRegressor) -> None:
    one = cgp.ExactGPRegressor(optimizer=None).fit(X[TRAIN, :1], Y[TRAIN])
    two = cgp.ExactGPRegressor(optimizer=None).fit(X[TRAIN], np.column_stack([Y, Y])[TRAIN])
    for other, rows, y in ((one, X[TEST, :1], Y), (two, X[TEST], np.column_stack([Y, Y]))):
        assert section(compare(other, rows, y[TEST])) is None
    assert section(compare(model.process_, model.points(X[TEST]), Y[TEST, None])) is None
