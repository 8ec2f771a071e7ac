"""Summaries of parts of a column merge into that of the whole, in any order."""

import itertools

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from coupledgp.errors import InvalidInputError
from coupledgp.tables import summaries
from coupledgp.tables.summaries import summary_of

RNG = np.random.default_rng(3)
N = 120
COLUMNS = {
    "number": RNG.normal(1e6, 1, N),
    "missing": np.where(RNG.random(N) < 0.3, np.nan, RNG.normal(size=N)),
    "whole": RNG.integers(0, 9, N),
    "boolean": RNG.random(N) < 0.5,
    "duration": pd.to_timedelta(RNG.integers(0, 99, N), "h"),
    "text": RNG.choice(["a", "b", "c", None], N, p=[0.6, 0.2, 0.1, 0.1]),
    "days": pd.Series(pd.date_range("2020-01-01", periods=N, freq="7h")),
    "zoned": pd.Series(pd.date_range("2020-01-01", periods=N, freq="D", tz="Europe/Paris")),
    "no days": pd.Series([pd.NaT] * 40 + list(pd.date_range("2020-01-01", periods=N - 40))),
}


def column_of(values):
    return pa.chunked_array([pa.array(values, from_pandas=True)])


def parts_of(values, cuts):
    ends = [0, *cuts, N]
    return [summary_of(column_of(values[a:b]), "X") for a, b in itertools.pairwise(ends)]


def close(one, other):
    """Whether two codes have the same values, numbers to rounding."""
    mine, its = vars(one), vars(other)
    assert mine.keys() == its.keys()
    for name, value in mine.items():
        if isinstance(value, float):
            assert value == pytest.approx(its[name], rel=1e-9)
        else:
            assert value == its[name]


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("fill", [True, False])
@pytest.mark.parametrize("cuts", [(50,), (1, 2, 119), (40, 80)])
def test_parts_teach_the_code_of_the_whole(name, fill, cuts):
    values = COLUMNS[name]
    whole = summary_of(column_of(values), "X")
    for parts in (parts_of(values, cuts), parts_of(values, cuts)[::-1]):
        merged, *others = parts
        for other in others:
            merged = merged.merge(other, "X")
        close(merged.code(fill), whole.code(fill))
        assert (merged.n_rows, merged.n_missing) == (whole.n_rows, whole.n_missing)


@pytest.mark.parametrize("name", COLUMNS)
def test_a_part_of_missing_values_goes_with_every_kind(name):
    none = summary_of(pa.chunked_array([pa.nulls(5)]), "X")
    values = COLUMNS[name]
    known = summary_of(column_of(values), "X")
    for merged in (none.merge(known, "X"), known.merge(none, "X")):
        assert merged.n_rows == N + 5
        assert merged.n_missing == known.n_missing + 5
        assert merged.kind == known.kind


@pytest.mark.parametrize(
    ("one", "other"),
    [("number", "text"), ("text", "days"), ("days", "zoned"), ("number", "duration"),
     ("days", "number")],
)  # fmt: skip
def test_parts_of_different_kinds_are_refused(one, other):
    first, second = (summary_of(column_of(COLUMNS[name]), "X") for name in (one, other))
    with pytest.raises(InvalidInputError, match=r"X: expected .* as in earlier rows"):
        first.merge(second, "X")


def test_booleans_and_numbers_are_numbers():
    first, second = (summary_of(column_of(COLUMNS[n]), "X") for n in ("boolean", "whole"))
    assert first.merge(second, "X").kind == "number"


def test_identifiers_are_refused_and_dates_bounded(monkeypatch):
    monkeypatch.setattr(summaries, "MOST_LEVELS", 100)
    monkeypatch.setattr(summaries, "MOST_DATES", 50)
    names = np.array([f"id {k}" for k in range(N)])
    first, second = parts_of(names, (60,))
    with pytest.raises(InvalidInputError, match="at most 100 different values"):
        first.merge(second, "X")
    first, second = parts_of(COLUMNS["days"], (60,))
    merged = first.merge(second, "X")
    assert merged.dates.size == 50
    close(merged.code(True), summary_of(column_of(COLUMNS["days"]), "X").code(True))
