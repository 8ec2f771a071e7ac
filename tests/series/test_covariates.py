"""Covariates of nodes and times in every form, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from coupledgp.errors import InvalidInputError
from coupledgp.series import TimeAxis
from coupledgp.series.covariates import Covariate, CovariatePlaces

TIMES = np.datetime64("2024-03-04T00") + np.arange(5) * np.timedelta64(1, "h")
AXIS = TimeAxis.of(TIMES)
EVERY = ["a", "b", "c", "d"]
# The data have their nodes in another order than the sites.
PLACES = CovariatePlaces(
    ["c", "a", "b"], np.array([2, 0, 1]), AXIS, AXIS.values, EVERY, np.arange(4)
)
RAIN = np.arange(5.0)


def read(given: Any, known: tuple[Covariate, ...] | None = None) -> Covariate:
    (found,) = PLACES.read({"x": given}, known)
    return found


@pytest.mark.parametrize(
    "given",
    [
        np.array([3.0, 1.0, 2.0]), [1.0, 2.0, 3.0, 4.0], {"b": 2.0, "a": 1.0, "c": 3.0},
        pd.Series({"b": 2.0, "c": 3.0, "a": 1.0, "d": 9.0}),
    ],
)  # fmt: skip
def test_values_of_nodes_belong_to_their_sites(given: Any) -> None:
    found = read(given)
    assert found.over == "nodes"
    assert found.at(AXIS, np.array([2, 0, 1]), AXIS.values)[:, 0].tolist() == [3.0, 1.0, 2.0]


def test_values_of_times_belong_to_their_times() -> None:
    later = np.datetime64("2024-03-04T05")
    labelled = pd.Series([9.0, *RAIN[::-1]], index=[later, *TIMES[::-1]])
    for given in (RAIN, labelled):
        found = read(given)
        assert found.over == "times"
        assert found.at(AXIS, np.array([1]), AXIS.values[[3, 1]]).tolist() == [[3.0, 1.0]]
    assert found.at(AXIS, np.array([1]), AXIS.numbers([later])).tolist() == [[9.0]]


def test_values_of_both_are_arrays_or_tables_of_the_data() -> None:
    import xarray as xr

    values = np.arange(15.0).reshape(3, 5)
    table = pd.DataFrame(values.T, index=TIMES, columns=["c", "a", "b"])
    array = xr.DataArray(values.T, {"time": TIMES, "node": ["c", "a", "b"]}, ("time", "node"))
    for given in (values, table, table[["a", "b", "c"]][::-1], array):
        found = read(given)
        assert found.over == "both"
        assert found.at(AXIS, np.array([0, 2]), AXIS.values[:2]).tolist() == [[5, 6], [0, 1]]
    both = PLACES.read(xr.Dataset({"x": array, "w": array[:, 0]}))
    assert [one.over for one in both] == ["both", "times"]
    assert [one.name for one in PLACES.read(pd.DataFrame({"u": RAIN, "v": RAIN}, index=TIMES))] == [
        "u", "v",
    ]  # fmt: skip


def test_texts_are_kinds_of_the_fit() -> None:
    found = read(["wet", "dry", "dry", "wet", "ice"])
    assert found.kinds == ("dry", "ice", "wet")
    assert found.values.tolist() == [[2, 0, 0, 2, 1]]
    again = read(["dry"] * 5, (found,))
    assert again.kinds == found.kinds
    assert again.values.tolist() == [[0] * 5]
    with pytest.raises(InvalidInputError, match=r"expected one of .*'dry', 'ice', 'wet'.* 'snow'"):
        read(["snow"] * 5, (found,))
    with pytest.raises(InvalidInputError, match="expected texts as in the fit"):
        read(RAIN, (found,))


def test_further_times_are_joined_and_replace_older_values() -> None:
    first = read(RAIN)
    later = AXIS.values[[4]] + 3600.0 * np.arange(2)
    new = Covariate("x", "times", (), first.sites, later, np.array([[7.0, 8.0]]))
    found = first.joined(new)
    wanted = np.concatenate([AXIS.values[[0]], later])
    assert found.at(AXIS, np.array([0]), wanted).tolist() == [[0.0, 7.0, 8.0]]
    table = read(np.arange(15.0).reshape(3, 5))
    one = Covariate("x", "both", (), np.array([1]), later, np.array([[7.0, 8.0]]))
    found = table.joined(one)
    assert found.at(AXIS, np.array([0, 1]), later[:1]).tolist() == [[9.0], [7.0]]
    assert found.at(AXIS, np.array([1]), later).tolist() == [[7.0, 8.0]]
    with pytest.raises(InvalidInputError, match=r"covariates\['x'\].*2024-03-04T05:00:00"):
        found.at(AXIS, np.array([0]), later)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "expected one or more"),
        ([1.0, 2.0], "expected a dictionary of names and arrays"),
        ({"x": np.ones(7)}, r"covariates\['x'\]: expected the shape \(3,\) of the nodes"),
        ({"x": np.ones((5, 3))}, r"got \(5, 3\)"),
        ({"x": [1.0, 2.0, np.nan]}, r"covariates\['x'\]: expected finite numbers, got nan at \(2"),
        ({"x": ["a", None, "b"]}, "expected a text everywhere, got None"),
        ({"x": {"a": 1.0, "z": 2.0}}, "expected nodes of the graph, got 'z'"),
        ({"x": pd.Series([1.0, 2.0], index=["a", "b"])}, "expected the labels of all 3 nodes"),
        ({3: RAIN}, "expected texts as names, got 3"),
        ({"x": pd.Series(RAIN, index=TIMES[[0, 0, 1, 2, 3]])}, "expected each time once"),
        ({"x": [f"k{k}" for k in range(3)] * 3}, "expected the shape"),
    ],
)  # fmt: skip
def test_what_is_refused_is_named(given: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        PLACES.read(given)


def test_names_and_places_are_those_of_the_fit() -> None:
    known = (read(RAIN),)
    with pytest.raises(InvalidInputError, match=r"expected some of \['x'\], as in the fit, got 'y"):
        PLACES.read({"y": RAIN}, known)
    with pytest.raises(InvalidInputError, match="expected values over times"):
        PLACES.read({"x": {"a": 1.0}}, known)
    with pytest.raises(InvalidInputError, match="expected the shape"):
        PLACES.read({"x": np.ones(3)}, known)
    nodes = read({"a": 1.0, "b": 2.0, "c": 3.0})
    with pytest.raises(InvalidInputError, match="expected values of all nodes"):
        nodes.at(AXIS, np.array([3]), AXIS.values)


def test_arrays_that_may_be_of_nodes_or_of_times_need_labels() -> None:
    places = CovariatePlaces(
        ["a", "b", "c"], np.arange(3), AXIS, AXIS.values[:3], EVERY, np.arange(4)
    )
    with pytest.raises(InvalidInputError, match="expected labels, such as those of a Series"):
        places.read({"x": np.ones(3)})
    numbers = TimeAxis.of(np.arange(3.0))
    same = CovariatePlaces(
        [0, 1, 2], np.arange(3), numbers, numbers.values, [0, 1, 2], np.arange(3)
    )
    with pytest.raises(InvalidInputError, match="expected labels that are nodes or times"):
        same.read({"x": pd.Series([1.0, 2.0, 3.0])})
