"""Checks of entries of files at the edge of what they let pass."""

import numpy as np
import pytest
import torch

from coupledgp.errors import ModelFileError
from coupledgp.gp.schema import Entries, check_integer, check_number, check_shares
from coupledgp.gp.state import positive_scale


def entries(**arrays):
    return Entries({"flag": True, "count": 3}, {k: torch.as_tensor(v) for k, v in arrays.items()})


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 2])
def test_no_array_holds_what_is_no_number(value, place):
    array = np.ones(3)
    array[place] = value
    for read in ("floats", "scales", "squares"):
        with pytest.raises(ModelFileError, match="a: expected finite numbers"):
            getattr(entries(a=array), read)("a", 3)


def test_ranges_hold_their_ends_or_not():
    array = np.array([0.0, 1.0])
    assert entries(a=array).floats("a", 2, low=0.0, high=1.0).tolist() == [0.0, 1.0]
    with pytest.raises(ModelFileError, match="above 0 and up to"):
        entries(a=array).floats("a", 2, above=0.0)
    with pytest.raises(ModelFileError, match=r"from 0 to 0\.5"):
        entries(a=array).floats("a", 2, low=0.0, high=0.5)
    with pytest.raises(ModelFileError, match="a: expected integers from 0 to 3"):
        entries(a=np.array([0, 4])).integers("a", 2, low=0, high=3)
    with pytest.raises(ModelFileError, match="a: expected integers from 0 to 3"):
        entries(a=np.array([-1, 3])).integers("a", 2, low=0, high=3)
    assert check_number(0.0, "a", low=0.0) == 0.0
    with pytest.raises(ModelFileError, match="above 0"):
        check_number(0.0, "a", above=0.0)


@pytest.mark.parametrize(("first", "second"), [(2, 3), (3, 2)])
def test_sizes_of_one_name_are_equal(first, second):
    found = entries(a=np.ones(first), b=np.ones(second))
    found.floats("a", "n")
    with pytest.raises(ModelFileError, match=r"b: expected (the same n twice|shape)"):
        found.floats("b", "n")
    with pytest.raises(ModelFileError, match=r"c: expected (the same k twice|shape)"):
        entries(c=np.ones((first, second))).floats("c", "k", "k")


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_factors_have_a_diagonal_above_zero(value):
    assert len(entries(a=np.eye(2)).factor("a", 2)) == 2
    with pytest.raises(ModelFileError, match="a: expected a diagonal above zero"):
        entries(a=np.diag([1.0, value])).factor("a", 2)


def test_truth_values_are_no_numbers():
    with pytest.raises(ModelFileError, match="flag: expected an integer, got bool"):
        entries().integer("flag", low=0, high=5)
    with pytest.raises(ModelFileError, match="expected a number, got bool"):
        check_number(True, "a")
    assert entries().integer("count", low=3, high=3) == 3
    for low, high in ((4, 5), (0, 2)):
        with pytest.raises(ModelFileError, match="expected an integer from"):
            check_integer(3, "a", low, high)


@pytest.mark.parametrize("weights", [[0.4, 0.5], [0.6, 0.5]])
def test_shares_add_up_to_one(weights):
    check_shares(np.array([0.4, 0.6]), "a")
    with pytest.raises(ModelFileError, match="a: expected weights whose sum is one"):
        check_shares(np.array(weights), "a")
    with pytest.raises(ModelFileError, match="sum is one"):
        check_shares(np.array([[0.4, 0.6], weights]), "a")


@pytest.mark.parametrize("value", [0.0, -2.0, 1e-200, 1e200])
def test_scales_are_above_zero_and_of_a_size_to_be_squared(value):
    def read(number):
        return positive_scale(Entries({"variances": {"noise": number}}, {}), "variances", "noise")

    assert read(1.5) == 1.5
    with pytest.raises(ModelFileError, match=r"variances\.noise"):
        read(value)
